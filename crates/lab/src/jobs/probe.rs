//! A probe of a stored model.

use semfocus_core::measurement;
use semfocus_store::{End, Event, JobKind, ProbeRecord, State, StoreError};

use super::measuring::{Measure, Measuring};
use super::{Context, JobError};
use crate::probing::Prober;
use crate::{ModelRef, TrainedModel};

/// A look at the attention of a stored model, recorded in its trial.
pub type Probe = Measuring<Probing>;

/// How a model is probed.
pub struct Probing {
    samples: usize,
    is_again: bool,
}

impl Probe {
    /// Probes of these models, unless they have been probed over as many examples or more before.
    pub fn all(options: &measurement::Probe, models: &[ModelRef]) -> Vec<Self> {
        let probe = |model: &ModelRef| {
            let samples = model.settings.data.sizes.train.min(options.samples.get());
            Probe { model: model.clone(), how: Probing { samples, is_again: false } }
        };
        models.iter().map(probe).collect()
    }

    /// The same, also if the model has been probed before: it takes seconds. Of several probes of a model only the one with the
    /// most examples is read.
    pub fn again(self) -> Self {
        Probe { how: Probing { is_again: true, ..self.how }, ..self }
    }
}

impl Measure for Probing {
    const KIND: JobKind = JobKind::Probe;
    const UNIT: &'static str = "models";
    type Record = ProbeRecord;

    fn units(&self) -> usize {
        1
    }

    fn record(&self, model: &ModelRef) -> Result<Option<ProbeRecord>, StoreError> {
        Ok(model.folder.probes()?.into_iter().find(|record| record.epoch == model.epoch()))
    }

    fn is_done(&self, model: &ModelRef) -> Result<bool, StoreError> {
        Ok(!self.is_again && self.record(model)?.is_some_and(|record| record.samples >= self.samples))
    }

    fn measure(&self, stored: &ModelRef, trained: &TrainedModel, context: &Context<'_>) -> Result<End, JobError> {
        let (TrainedModel { trial, model, epoch }, folder) = (trained, &stored.folder);
        let data = trial.source.dataset(&trial.settings.data, trial.settings.seed)?;
        let before = folder.snapshots()?.into_iter().rfind(|kept| kept < epoch);
        let read = |kept| TrainedModel::read_file(context.device, trial, &folder.snapshot(kept));
        let before = match before.map(read).transpose() {
            // One that is damaged leaves out the comparison with it, nothing else.
            Err(error) if error.is_lost() => {
                context.warn(format!("no comparison with an earlier epoch: {error}"));
                None
            }
            before => before?,
        };
        if context.is_stopping() {
            return Ok(End::Interrupted);
        }
        let prober = Prober::new(trial, &data.train, self.samples)?;
        let mut record = None;
        context.threads.run(&mut || {
            let before = before.as_ref().map(|trained| trained.model.as_ref());
            record = Some(prober.measure(model.as_ref(), *epoch, before));
        });
        let record = record.expect("the work was done");
        folder.writer(context.lease).add(&record)?;
        context.emit(Event::Probe { epoch: *epoch, seconds: record.seconds.unwrap_or_default() });
        Ok(End::Over(State::Finished))
    }
}
