//! `--from`: stored weights that new trials start with. `--donor`: stored models that choose keys for new trials.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use semfocus_core::{Donors, Origin, Request, TrialId, TrialSettings};
use semfocus_lab::Trial;
use semfocus_store::{Checkpoint, CheckpointName, Store, StoreError, TrialFolder};

use crate::Error;

/// A trial, and after which of its epochs: `RUN/TRIAL@EPOCH`.
#[derive(Clone, Debug)]
pub(super) struct From {
    trial: PathBuf,
    epoch: Epoch,
}

#[derive(Clone, Copy, Debug)]
enum Epoch {
    Last,
    Best,
    Number(usize),
}

impl FromStr for From {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some((trial, epoch)) = text.rsplit_once('@') else {
            return Ok(From { trial: text.into(), epoch: Epoch::Last });
        };
        let epoch = match epoch {
            "last" => Epoch::Last,
            "best" => Epoch::Best,
            number => Epoch::Number(number.parse().map_err(|_| {
                format!(
                    "`{number}` is no epoch; write a number, `last` or `best`, such as runs/even-pairs-quick/a7b4@10"
                )
            })?),
        };
        Ok(From { trial: trial.into(), epoch })
    }
}

impl From {
    fn check(&self) -> Result<(), Error> {
        if !Store::is_store(&self.trial) {
            return Ok(());
        }
        let path = self.trial.display();
        Err(format!(
            "{path} is a run; name one of its trials, such as {path}/a7b4@10 (`semfocus status {path}` lists them)"
        )
        .into())
    }
}

/// The weights of a trial after an epoch.
fn stored_weights(folder: &TrialFolder, epoch: Epoch) -> Result<(Origin, Checkpoint), StoreError> {
    let weights = match epoch {
        Epoch::Last => folder.weights_in(CheckpointName::Last)?,
        Epoch::Best => folder.weights_in(CheckpointName::Best)?,
        Epoch::Number(epoch) => folder.weights_after(epoch)?,
    };
    let origin = Origin { trial: folder.id(), epoch: weights.progress.epoch, weights: weights.weights_checksum() };
    Ok((origin, weights))
}

/// Gives the trials these seeds, unless others are asked for.
fn use_seeds(request: &mut Request, seeds: &[u64]) {
    let has_seeds = request.seeds.is_some() || request.overrides.iter().any(|text| text.starts_with("seeds="));
    if !has_seeds {
        request.overrides.push(format!("seeds={seeds:?}"));
    }
}

/// Stored models that choose keys for new trials, with the seeds they were trained with.
pub(super) struct DonorModels {
    models: Vec<(u64, Origin, Checkpoint)>,
}

impl DonorModels {
    /// Reads the model that an argument names, and those of the same run that differ from it in their seed alone and have weights
    /// of such an epoch.
    pub(super) fn read(from: &From) -> Result<Self, Error> {
        from.check()?;
        let named = TrialFolder::find(&from.trial)?;
        let settings = named.settings()?;
        let (origin, weights) = stored_weights(&named, from.epoch)?;
        let mut models = vec![(settings.seed, origin, weights)];
        // The folder is RUN/trials/ID.
        let run = named.path().parent().and_then(Path::parent).map(Store::at);
        let others = run.iter().filter_map(|store| Some((store, store.index().ok()?)));
        for (store, entry) in others.flat_map(|(store, index)| index.into_iter().map(move |entry| (store, entry))) {
            let folder = store.trial(entry.id);
            let Ok(other) = folder.settings() else { continue };
            let of_same_seed = TrialSettings { seed: settings.seed, ..other.clone() };
            if other.seed == settings.seed || TrialId::new(&of_same_seed) != named.id() {
                continue;
            }
            if let Ok((origin, weights)) = stored_weights(&folder, from.epoch) {
                models.push((other.seed, origin, weights));
            }
        }
        Ok(DonorModels { models })
    }

    /// The copies that a run has beside its experiment file, for trials of that file that are run elsewhere.
    pub(super) fn beside(experiment: &str, trials: &[Trial]) -> Option<Self> {
        let run = Path::new(experiment).parent()?;
        let mut models: Vec<(u64, Origin, Checkpoint)> = Vec::new();
        for trial in trials {
            for (seed, origin) in trial.settings.training.donor.iter() {
                if !models.iter().any(|(_, other, _)| *other == origin) {
                    models.push((seed, origin, Store::at(run).trial(trial.id).origin(&origin).ok()?));
                }
            }
        }
        (!models.is_empty()).then_some(DonorModels { models })
    }

    /// Lets the models choose keys. Unless other seeds are given, the trials have the seeds of the models.
    pub(super) fn apply(&self, request: &mut Request) -> Result<(), Error> {
        let donors = Donors::new(self.models.iter().map(|(seed, origin, _)| (*seed, *origin)).collect())?;
        use_seeds(request, &self.models.iter().map(|(seed, ..)| *seed).collect::<Vec<_>>());
        request.overrides.push(format!("training.donor={donors}"));
        Ok(())
    }

    /// The weights of one of the models.
    pub(super) fn weights(&self, origin: &Origin) -> Option<&Checkpoint> {
        self.models.iter().find(|(_, other, _)| other == origin).map(|(_, _, weights)| weights)
    }

    /// Copies the models that trials use into their run.
    pub(super) fn keep(&self, store: &Store, trials: &[&Trial]) -> Result<(), StoreError> {
        let is_used = |origin: &Origin| {
            trials.iter().any(|trial| trial.settings.training.donor.iter().any(|(_, used)| used == *origin))
        };
        let mut used = self.models.iter().filter(|(_, origin, _)| is_used(origin));
        used.try_for_each(|(_, origin, weights)| store.keep_origin(origin, weights))
    }
}

/// Stored weights that were found.
pub(super) struct Source {
    pub(super) origin: Origin,
    pub(super) weights: Checkpoint,
    /// Seed of the trial that trained them.
    seed: Option<u64>,
}

impl Source {
    /// Reads the weights that an argument names.
    pub(super) fn read(from: &From) -> Result<Self, Error> {
        from.check()?;
        let folder = TrialFolder::find(&from.trial)?;
        let (origin, weights) = stored_weights(&folder, from.epoch)?;
        Ok(Source { origin, weights, seed: Some(folder.settings()?.seed) })
    }

    /// The copy that a run has beside its experiment file, for trials of that file that are run elsewhere.
    pub(super) fn beside(experiment: &str, trials: &[Trial]) -> Option<Self> {
        let (trial, origin) = trials.iter().find_map(|trial| Some((trial, trial.settings.training.from?)))?;
        let run = Path::new(experiment).parent()?;
        let weights = Store::at(run).trial(trial.id).origin(&origin).ok()?;
        Some(Source { origin, weights, seed: None })
    }

    /// Lets trials start with the weights. Unless other seeds are given, they have the seed with which the weights were trained.
    pub(super) fn apply(&self, request: &mut Request) {
        if let Some(seed) = self.seed {
            use_seeds(request, &[seed]);
        }
        request.overrides.push(format!("training.from={}", self.origin));
    }

    /// What has to be known about the trials that start with the weights.
    pub(super) fn note(&self, seeds: &[u64]) -> Option<String> {
        let seed = self.seed.filter(|seed| seeds.iter().any(|other| other != seed))?;
        Some(format!(
            "the weights {} were trained with seed {seed}; with another seed, held-out examples may be among those that they \
             were trained on (`data.seed` can fix the data)",
            self.origin
        ))
    }
}
