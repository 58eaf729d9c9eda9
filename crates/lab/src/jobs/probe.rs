//! A probe of a stored model.

use std::path::Path;

use semfocus_core::measurement;
use semfocus_store::{End, Event, JobId, JobKind, ProbeRecord, State, StoreError};

use super::{Context, Job, JobError};
use crate::probing::Prober;
use crate::{ModelRef, TrainedModel};

/// A look at the attention of a stored model, recorded in its trial.
pub struct Probe {
    model: ModelRef,
    samples: usize,
    is_again: bool,
}

impl Probe {
    /// Probes of these models, unless they have been probed over as many examples or more before.
    pub fn all(options: &measurement::Probe, models: &[ModelRef]) -> Vec<Self> {
        let probe = |model: &ModelRef| {
            let samples = model.settings.data.sizes.train.min(options.samples.get());
            Probe { model: model.clone(), samples, is_again: false }
        };
        models.iter().map(probe).collect()
    }

    /// The same, also if the model has been probed before: it takes seconds. Of several probes of a model only the one with the
    /// most examples is read.
    pub fn again(self) -> Self {
        Probe { is_again: true, ..self }
    }

    /// The model.
    pub fn model(&self) -> &ModelRef {
        &self.model
    }

    /// What is on record for the model.
    pub fn record(&self) -> Result<Option<ProbeRecord>, StoreError> {
        Ok(self.model.folder.probes()?.into_iter().find(|record| record.epoch == self.model.epoch()))
    }

    /// Whether the model has been probed over as many examples.
    fn is_done(&self) -> Result<bool, StoreError> {
        Ok(self.record()?.is_some_and(|record| record.samples >= self.samples))
    }
}

impl Job for Probe {
    fn id(&self) -> JobId {
        JobId { kind: JobKind::Probe, trial: self.model.folder.id(), part: self.model.part() }
    }

    fn title(&self) -> String {
        format!("{} after {}", self.model.title, self.model.part())
    }

    fn unit(&self) -> &'static str {
        "models"
    }

    fn folder(&self) -> &Path {
        self.model.folder.path()
    }

    fn units(&self) -> usize {
        1
    }

    fn state_if_over(&self) -> Result<Option<State>, JobError> {
        Ok((!self.is_again && self.is_done()?).then_some(State::Finished))
    }

    fn run(&self, context: &Context<'_>) -> Result<End, JobError> {
        let TrainedModel { trial, model, epoch } = &context.load(&self.model)?;
        context.emit(Event::JobStarted { done: 0, total: 1, epoch: *epoch });
        if !self.is_again && self.is_done()? {
            return Ok(End::Over(State::Finished));
        }
        let folder = &self.model.folder;
        let data = trial.source.dataset(&trial.settings.data, trial.settings.seed)?;
        let before = folder.snapshots().into_iter().rfind(|kept| kept < epoch);
        let snapshot = |kept| folder.snapshot(kept);
        let read = |kept| TrainedModel::read_file(context.device, trial, &snapshot(kept));
        // One that is damaged leaves out the comparison with it, nothing else.
        let before = before.map(read).transpose().unwrap_or_else(|error| {
            context.warn(format!("no comparison with an earlier epoch: {error}"));
            None
        });
        if context.is_stopping() {
            return Ok(End::Interrupted);
        }
        let prober = Prober::new(trial, &data.train, self.samples);
        let mut record = None;
        context.threads.run(&mut || {
            record =
                Some(prober.measure(model.as_ref(), *epoch, before.as_ref().map(|trained| trained.model.as_ref())));
        });
        let record = record.expect("the work was done");
        folder.writer(context.lease).append_probe(&record)?;
        context.emit(Event::Probe { epoch: *epoch, seconds: record.seconds.unwrap_or_default() });
        Ok(End::Over(State::Finished))
    }
}
