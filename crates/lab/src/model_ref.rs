//! Where trained models are, and which of them a measurement is about. Nothing is loaded to answer that.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use semfocus_core::measurement::ModelChoice;
use semfocus_core::{EpochRecord, Metric, Names, Point, TrialSettings};
use semfocus_store::{
    CheckpointName, Contents, IndexEntry, State, Store, StoreError, StoredTrial, TrialData, TrialReader,
};

use crate::trained_model::stored_trial;
use crate::{Device, Lab, ModelError, TrainedModel};

/// Where a trained model is. Jobs hold it and load the model when they run.
#[derive(Clone, Debug)]
pub struct ModelRef {
    /// The folder of its trial.
    pub folder: TrialReader,
    /// The settings of its trial.
    pub settings: TrialSettings,
    /// Values on the axes of the grid of its run; none if the trial itself was named.
    pub point: Point,
    /// What a person calls its trial.
    pub title: String,
    /// Whether its trial is over.
    pub is_over: bool,
    weights: Weights,
    /// Epochs it was trained for, by the records.
    recorded: usize,
    /// Epochs of the weights that were loaded: fewer than on record if a process died before it saved the last checkpoint.
    loaded: Arc<OnceLock<usize>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weights {
    Checkpoint(CheckpointName),
    Snapshot,
}

/// Models that a measurement is about.
#[derive(Debug, Default)]
pub struct ChosenModels {
    /// Where they are.
    pub models: Vec<ModelRef>,
    /// The trials that have no model, and why not, in words.
    pub skipped: Vec<String>,
    /// What is damaged or cannot be read, so that its trial is left out.
    pub damage: Vec<StoreError>,
}

/// Why models cannot be chosen.
#[derive(Debug, thiserror::Error)]
pub enum ChoiceError {
    /// The files of the run cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The run does not have the mechanism.
    #[error("{} has no mechanism `{mechanism}`; it has {known}", .dir.display())]
    NoMechanism {
        /// The folder of the run.
        dir: PathBuf,
        /// What was asked for.
        mechanism: String,
        /// What the run has.
        known: String,
    },
    /// The trial has no model.
    #[error("{} diverged: it has no trained model", .0.display())]
    Diverged(PathBuf),
}

impl ModelRef {
    /// What it is known by among the models of its trial: epochs it was trained for, by the records.
    pub fn part(&self) -> String {
        format!("epoch {}", self.recorded)
    }

    /// Epochs that the model was trained for.
    pub fn epoch(&self) -> usize {
        self.loaded.get().copied().unwrap_or(self.recorded)
    }

    /// The models of the same trial that probes saved during training, by ascending epoch.
    pub fn along_training(&self) -> Result<Vec<ModelRef>, StoreError> {
        let snapshot =
            |epoch| ModelRef { weights: Weights::Snapshot, recorded: epoch, loaded: Arc::default(), ..self.clone() };
        Ok(self.folder.snapshots()?.into_iter().map(snapshot).collect())
    }

    /// Loads the model. Another one never takes the place of one that cannot be read: mechanisms would be compared after different
    /// epochs.
    pub fn load(&self, lab: &Lab, device: &Device) -> Result<TrainedModel, ModelError> {
        let path = match self.weights {
            Weights::Checkpoint(name) => self.folder.checkpoint(name),
            Weights::Snapshot => self.folder.snapshot(self.recorded),
        };
        let trained = TrainedModel::read_file(device, &stored_trial(lab, &self.folder)?, &path)?;
        let _ = self.loaded.set(trained.epoch); // the same weights are loaded every time
        Ok(trained)
    }
}

impl ChosenModels {
    /// The model of a trial that was named by its folder.
    pub fn of_trial(&mut self, folder: TrialReader, choice: &ModelChoice) -> Result<(), ChoiceError> {
        let (records, settings) = (folder.records()?, folder.settings()?);
        let state = folder.state(records.len(), settings.training.epochs);
        if state == State::Diverged {
            return Err(ChoiceError::Diverged(folder.path().to_owned()));
        }
        let TrialSettings { task, mechanism, seed, training, .. } = settings.clone();
        let entry = IndexEntry { id: folder.id(), epochs: training.epochs, task, mechanism, seed, point: Point::new() };
        self.add(folder, settings, entry, &records, state, choice);
        Ok(())
    }

    /// The models of a run. Trials that diverged or have no checkpoint are skipped.
    pub fn of_run(&mut self, lab: &Lab, store: &Store, choice: &ModelChoice) -> Result<(), ChoiceError> {
        let Contents { experiment, trials, damage } = store.read()?;
        self.damage.extend(damage);
        // Spellings that are not the usual ones are accepted, and so are mechanisms that this program does not know.
        let usual = |name: &String| lab.mechanism(name).map_or_else(|_| name.clone(), |usual| usual.to_string());
        let chosen: Vec<String> = choice.mechanisms.iter().map(usual).collect();
        if let Some(unknown) = chosen.iter().find(|name| !experiment.mechanisms.contains(name)) {
            let (dir, known) = (store.dir().to_owned(), experiment.mechanisms.join(", "));
            return Err(ChoiceError::NoMechanism { dir, mechanism: unknown.clone(), known });
        }
        let seeds: Vec<u64> = experiment.seeds.iter().copied().take(choice.seeds.get()).collect();
        for StoredTrial { folder, records, data, .. } in trials {
            let TrialData { entry, settings, state, .. } = data;
            let is_chosen = chosen.is_empty() || chosen.contains(&entry.mechanism);
            if !is_chosen || !seeds.contains(&entry.seed) {
                continue;
            }
            let reason = match (state, settings) {
                (State::Diverged, _) => "diverged",
                (State::Unreadable, _) => "its files cannot be read",
                (_, Some(settings)) if folder.has_checkpoint() => {
                    self.add(folder, settings, entry, &records, state, choice);
                    continue;
                }
                _ => "no checkpoint yet",
            };
            self.skipped.push(format!("{}: {reason}, skipped", entry.title()));
        }
        Ok(())
    }

    fn add(
        &mut self,
        folder: TrialReader,
        settings: TrialSettings,
        entry: IndexEntry,
        records: &[EpochRecord],
        state: State,
        choice: &ModelChoice,
    ) {
        let (name, recorded) = match choice.best {
            true => (CheckpointName::Best, best_epoch(records).unwrap_or(0)),
            false => (CheckpointName::Last, records.len()),
        };
        let (title, weights) = (entry.title(), Weights::Checkpoint(name));
        let (point, is_over, loaded) = (entry.point, state.is_over(), Arc::default());
        self.models.push(ModelRef { folder, settings, point, title, is_over, weights, recorded, loaded });
    }
}

/// The epoch with the best held-out accuracy; of equal ones the first.
pub(crate) fn best_epoch(records: &[EpochRecord]) -> Option<usize> {
    let accuracy = |record: &EpochRecord| record.metrics[Metric::HeldoutAccuracy];
    let better = |best: &EpochRecord, next: &EpochRecord| accuracy(next) > accuracy(best);
    let best = records.iter().reduce(|best, next| if better(best, next) { next } else { best })?;
    Some(best.epoch)
}
