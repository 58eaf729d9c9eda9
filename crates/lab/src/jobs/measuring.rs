//! What the measurements of a stored model have in common: they are recorded in its trial, and what is on record is not measured
//! again.

use std::path::Path;

use semfocus_store::{End, Event, JobId, JobKind, State, StoreError};

use super::{Context, Job, JobError};
use crate::{ModelRef, TrainedModel};

/// How a model is measured.
pub trait Measure: Sync {
    /// The kind of the job.
    const KIND: JobKind;

    /// What its units of work are called.
    const UNIT: &'static str;

    /// What is written.
    type Record;

    /// Units of work.
    fn units(&self) -> usize;

    /// What the job is known by among those of the same kind in a trial, given what the model is known by.
    fn part(&self, model: String) -> String {
        model
    }

    /// What is on record for the model.
    fn record(&self, model: &ModelRef) -> Result<Option<Self::Record>, StoreError>;

    /// Whether nothing is left to do.
    fn is_done(&self, model: &ModelRef) -> Result<bool, StoreError> {
        Ok(self.record(model)?.is_some())
    }

    /// Measures a model and writes the record into its trial.
    fn measure(&self, model: &ModelRef, trained: &TrainedModel, context: &Context<'_>) -> Result<End, JobError>;
}

/// A measurement of one stored model.
pub struct Measuring<M> {
    pub(super) model: ModelRef,
    pub(super) how: M,
}

impl<M: Measure> Measuring<M> {
    /// The model.
    pub fn model(&self) -> &ModelRef {
        &self.model
    }

    /// What is on record for the model and these options.
    pub fn record(&self) -> Result<Option<M::Record>, StoreError> {
        self.how.record(&self.model)
    }
}

impl<M: Measure> Job for Measuring<M> {
    fn id(&self) -> JobId {
        JobId { kind: M::KIND, trial: self.model.folder.id(), part: self.how.part(self.model.part()) }
    }

    fn title(&self) -> String {
        format!("{} after {}", self.model.title, self.model.part())
    }

    fn folder(&self) -> &Path {
        self.model.folder.path()
    }

    fn units(&self) -> usize {
        self.how.units()
    }

    fn unit(&self) -> &'static str {
        M::UNIT
    }

    fn seems_over(&self) -> Option<State> {
        self.how.is_done(&self.model).unwrap_or(false).then_some(State::Finished)
    }

    fn state_if_over(&self) -> Result<Option<State>, JobError> {
        Ok(self.how.is_done(&self.model)?.then_some(State::Finished))
    }

    fn run(&self, context: &Context<'_>) -> Result<End, JobError> {
        let trained = context.load(&self.model)?;
        context.emit(Event::JobStarted { done: 0, total: self.units(), epoch: trained.epoch });
        // Another epoch than that of the records may have been loaded.
        if self.how.is_done(&self.model)? {
            return Ok(End::Over(State::Finished));
        }
        self.how.measure(&self.model, &trained, context)
    }
}
