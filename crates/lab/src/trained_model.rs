//! A trained model out of a store.

use std::path::{Path, PathBuf};

use burn::tensor::TensorData;
use semfocus_nn::Model;
use semfocus_store::checkpoint::{Refused, Values};
use semfocus_store::{Checkpoint, CheckpointName, Store, StoreError, TrialReader};

use crate::model::new_model;
use crate::relevance::relevance;
use crate::{Device, Lab, OtherCode, Tokenizers, Trial};

/// A trained model.
#[derive(Clone, Debug)]
pub struct TrainedModel {
    /// The trial it belongs to.
    pub trial: Trial,
    /// The model, with the attention that it is evaluated with.
    pub model: Box<dyn Model>,
    /// Epochs it was trained for.
    pub epoch: usize,
}

/// Why there is no trained model.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
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
    /// Other code of a mechanism or task of one's own made it.
    #[error("{}: {}\nhelp: train it again in a fresh folder, or use the program that made it", .path.display(), .other.in_words())]
    OtherCode {
        /// The folder of the trial.
        path: PathBuf,
        /// The code that made it, and that of this program.
        other: OtherCode,
    },
    /// Nothing was saved yet.
    #[error("{} does not exist: the trial has no such checkpoint yet", .0.display())]
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

impl ModelError {
    /// Whether the model is lost or damaged. An error of the system says nothing about it.
    pub fn is_lost(&self) -> bool {
        match self {
            ModelError::NotYet(_) => true,
            ModelError::Checkpoint { reason, .. } => reason.is_damage(),
            _ => false,
        }
    }
}

impl TrainedModel {
    /// The model of a checkpoint of a stored trial.
    pub fn read(lab: &Lab, device: &Device, folder: &TrialReader, name: CheckpointName) -> Result<Self, ModelError> {
        Self::read_file(device, &stored_trial(lab, folder)?, &folder.checkpoint(name))
    }

    /// The model of a checkpoint file of a trial.
    pub fn read_file(device: &Device, trial: &Trial, path: &Path) -> Result<Self, ModelError> {
        let refused = |reason: Refused| match reason.is_missing() {
            true => ModelError::NotYet(path.to_owned()),
            false => ModelError::Checkpoint { path: path.to_owned(), reason },
        };
        let checkpoint = Checkpoint::read(path, Some(trial.id)).map_err(refused)?;
        let epoch = checkpoint.progress.epoch;
        let contents = |error: String| refused(Refused::Contents(error));
        let settings = &trial.settings;
        let attention = &trial.attention;
        let stage = attention.stage_at(&checkpoint.progress);
        let trained = attention.stage(stage).clone();
        let relevance = relevance(&trial.source, attention);
        let model = new_model(&settings.model, trained, settings.seed, relevance, &device.plain());
        let model = model.map_err(|error| contents(error.to_string()))?;
        let model = model.with_parameters(tensors(checkpoint.parameters())).map_err(|e| contents(e.to_string()))?;
        let model = model.with_attention(attention.evaluation(stage).clone());
        let model = model.map_err(|error| contents(error.to_string()))?;
        Ok(TrainedModel { trial: trial.clone(), model, epoch })
    }
}

/// Values of a checkpoint in the form that models take.
pub(crate) fn tensors(values: impl Iterator<Item = (String, Values)>) -> Vec<(String, TensorData)> {
    values.map(|(name, Values { shape, values })| (name, TensorData::new(values, shape))).collect()
}

pub(crate) fn stored_trial(lab: &Lab, folder: &TrialReader) -> Result<Trial, ModelError> {
    let settings = folder.settings()?;
    let wrong = |reason| ModelError::Settings { path: folder.path().to_owned(), reason };
    let tokenizers = Tokenizers::Kept(Store::at(folder.run()));
    let trial = lab.trial(settings, &tokenizers).map_err(wrong)?;
    match trial.other_code(folder)?.filter(OtherCode::is_recorded) {
        Some(other) => Err(ModelError::OtherCode { path: folder.path().to_owned(), other }),
        None => Ok(trial),
    }
}
