//! `--from`: stored weights that new trials start with.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use semfocus_core::{Origin, Request};
use semfocus_lab::Trial;
use semfocus_store::{Checkpoint, CheckpointName, Store, TrialReader};

use crate::Error;

/// A trial, and after which of its epochs: `RUN/TRIAL@EPOCH`.
#[derive(Clone, Debug)]
pub(super) struct StoredWeights {
    trial: PathBuf,
    epoch: Epoch,
}

#[derive(Clone, Copy, Debug)]
enum Epoch {
    Last,
    Best,
    Number(usize),
}

impl FromStr for StoredWeights {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some((trial, epoch)) = text.rsplit_once('@') else {
            return Ok(StoredWeights { trial: text.into(), epoch: Epoch::Last });
        };
        let epoch = match epoch {
            "last" => Epoch::Last,
            "best" => Epoch::Best,
            number => Epoch::Number(number.parse().map_err(|_| {
                format!(
                    "`{number}` is not an epoch; use a number, `last` or `best`, such as runs/even-pairs-quick/a7b4@10"
                )
            })?),
        };
        Ok(StoredWeights { trial: trial.into(), epoch })
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
    pub(super) fn read(from: &StoredWeights) -> Result<Self, Error> {
        let folder = TrialReader::find(&from.trial)?;
        let weights = match from.epoch {
            Epoch::Last => folder.weights_in(CheckpointName::Last)?,
            Epoch::Best => folder.weights_in(CheckpointName::Best)?,
            Epoch::Number(epoch) => folder.weights_after(epoch)?,
        };
        let origin = Origin { trial: folder.id(), epoch: weights.progress.epoch, weights: weights.weights_checksum() };
        Ok(Source { origin, weights, seed: Some(folder.settings()?.seed) })
    }

    /// The copy that a run has next to its experiment file, for trials of that file that are run elsewhere.
    pub(super) fn beside(experiment: &str, trials: &[Trial]) -> Option<Self> {
        let (trial, origin) = trials.iter().find_map(|trial| Some((trial, trial.settings.training.from?)))?;
        let run = Path::new(experiment).parent()?;
        let weights = Store::at(run).trial(trial.id).origin(&origin).ok()?;
        Some(Source { origin, weights, seed: None })
    }

    /// Lets trials start with the weights. Unless other seeds are given, they have the seed with which the weights were trained.
    pub(super) fn apply(&self, request: &mut Request) {
        let has_seeds = request.seeds.is_some() || request.overrides.iter().any(|text| text.starts_with("seeds="));
        if let Some(seed) = self.seed.filter(|_| !has_seeds) {
            request.overrides.push(format!("seeds=[{seed}]"));
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
