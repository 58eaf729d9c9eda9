//! A trial: one model to train.

use std::sync::Arc;

use semfocus_core::{Point, Sizes, TrialId, TrialSettings};
use semfocus_store::{IndexEntry, StoreError, TrialReader};
use semfocus_tasks::Source;

use crate::own_code::{OtherCode, OwnCode};
use crate::schedule::Schedule;
use crate::trial_attention::TrialAttention;

/// One model to train.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Id: a hash of the settings.
    pub id: TrialId,
    /// All settings.
    pub settings: TrialSettings,
    /// Values on the axes of the grid.
    pub point: Point,
    /// Where its examples come from.
    pub source: Arc<Source>,
    /// What each epoch is trained with, and what the model is evaluated with.
    pub attention: Arc<TrialAttention>,
    /// How many examples its splits have. Data files may have fewer than the settings ask for.
    pub sizes: Sizes,
    /// The code of the mechanisms and tasks of one's own that it uses.
    pub own_code: OwnCode,
}

impl Trial {
    /// Its line in the index of a run.
    pub fn entry(&self) -> IndexEntry {
        let TrialSettings { task, mechanism, seed, training, .. } = &self.settings;
        IndexEntry {
            id: self.id,
            epochs: training.epochs,
            // Data files are called by their names, wherever they are.
            task: match self.source.as_ref() {
                Source::Task(_) | Source::Text(_) => task.clone(),
                Source::Own(own) => own.name.clone(),
            },
            mechanism: mechanism.clone(),
            seed: *seed,
            point: self.point.clone(),
        }
    }

    /// Training steps of an epoch.
    pub fn steps_per_epoch(&self) -> usize {
        Schedule::new(&self.settings, self.sizes.train).steps_per_epoch
    }

    /// Training steps of all its epochs.
    pub fn steps(&self) -> usize {
        self.settings.training.epochs * self.steps_per_epoch()
    }

    /// Mechanism, values on the grid, and seed, as a person would name the trial.
    pub fn title(&self) -> String {
        self.entry().title()
    }
}

impl Trial {
    /// Whether other code than that of this program made what is on record of the trial.
    pub fn other_code(&self, folder: &TrialReader) -> Result<Option<OtherCode>, StoreError> {
        if self.own_code.is_empty() || !folder.exists() {
            return Ok(None);
        }
        let recorded = match folder.environment() {
            Ok(None) => return Ok(None),
            Ok(Some(environment)) if environment.accepted_code.contains(&self.own_code) => return Ok(None),
            Ok(Some(environment)) => environment.last.own_code,
            // It is written again, without what it said.
            Err(StoreError::Damaged { .. }) => OwnCode::new(),
            Err(error) => return Err(error),
        };
        let other = OtherCode { title: self.title(), recorded, here: self.own_code.clone() };
        Ok((other.recorded != other.here).then_some(other))
    }
}
