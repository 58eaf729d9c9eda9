//! A trained model out of a store, for whoever looks at it.

use std::path::{Path, PathBuf};

use burn::tensor::Device;
use semfocus_nn::parameters::set_parameters;
use semfocus_nn::{Encoder, Registry};

use crate::checkpoint::{Checkpoint, Refused};
use crate::experiment::Trial;
use crate::store::{CheckpointName, StoreError, TrialFolder};

/// A trained model.
#[derive(Clone, Debug)]
pub struct Trained {
    /// Its trial.
    pub trial: Trial,
    /// The model, for evaluation.
    pub model: Encoder,
    /// Epochs it was trained for.
    pub epoch: usize,
}

/// Why there is no trained model.
#[derive(Debug, thiserror::Error)]
pub enum TrainedError {
    /// The files of its trial cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its settings make no trial any more.
    #[error("{}: {reason}", .path.display())]
    Settings {
        /// The folder of the trial.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Nothing was saved yet.
    #[error("{} is not there: the trial has no such checkpoint yet", .0.display())]
    NotYet(PathBuf),
    /// Its checkpoint cannot be used.
    #[error("{} cannot be used: {reason}", .path.display())]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: Refused,
    },
}

impl Trained {
    /// The model of a checkpoint of a stored trial.
    pub fn read(folder: &TrialFolder, name: CheckpointName) -> Result<Self, TrainedError> {
        Trained::of(&stored_trial(folder)?, &folder.checkpoint(name))
    }

    /// The models of a stored trial along its training, as far as their weights were kept, by ascending epoch.
    pub fn along_training(folder: &TrialFolder) -> Result<Vec<Self>, TrainedError> {
        let trial = stored_trial(folder)?;
        folder.snapshots().into_iter().map(|epoch| Trained::of(&trial, &folder.snapshot(epoch))).collect()
    }

    /// The model of a checkpoint file of a trial.
    pub fn of(trial: &Trial, path: &Path) -> Result<Self, TrainedError> {
        if !path.exists() {
            return Err(TrainedError::NotYet(path.to_owned()));
        }
        let refused = |reason| TrainedError::Checkpoint { path: path.to_owned(), reason };
        let checkpoint = Checkpoint::read(path, Some(trial.id)).map_err(refused)?;
        let epoch = checkpoint.progress.epoch;
        let contents = |error: String| refused(Refused::Contents(error));
        let settings = &trial.settings;
        let attention = Registry::standard().parse(&settings.mechanism).map_err(|error| contents(error.to_string()))?;
        let model = Encoder::new(settings.model.clone(), attention, settings.seed, &Device::flex());
        let model = model.map_err(|error| contents(error.to_string()))?;
        let model = set_parameters(model, checkpoint.parameters()).map_err(|error| contents(error.to_string()))?;
        Ok(Trained { trial: trial.clone(), model, epoch })
    }
}

fn stored_trial(folder: &TrialFolder) -> Result<Trial, TrainedError> {
    let settings = folder.settings()?;
    Trial::of(settings).map_err(|reason| TrainedError::Settings { path: folder.path().to_owned(), reason })
}
