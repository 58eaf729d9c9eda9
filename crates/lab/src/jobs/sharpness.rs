//! Hessian eigenvalues of a stored model.

use std::path::Path;
use std::time::Instant;

use semfocus_store::{End, Event, JobId, JobKind, SharpnessRecord, State, StoreError, TrialFolder};

use super::{Context, Job, JobError};
use crate::TrainedModel;
use crate::surface::hessian::{Differences, SharpnessError, SharpnessOptions, measure};

/// The sharpness of the training loss at a stored model, recorded in its trial. What is on record is not measured again.
pub struct MeasureSharpness {
    trained: TrainedModel,
    folder: TrialFolder,
    options: SharpnessOptions,
}

impl MeasureSharpness {
    /// Measures a model of the trial in `folder`.
    pub fn new(trained: TrainedModel, folder: TrialFolder, options: SharpnessOptions) -> Self {
        MeasureSharpness { trained, folder, options }
    }

    /// What is on record for this model and these options, or better ones.
    pub fn record(&self) -> Result<Option<SharpnessRecord>, StoreError> {
        let SharpnessOptions { samples, eigenvalues, probes, differences, .. } = self.options;
        let answers = |record: &SharpnessRecord| {
            let is_exact = differences == Differences::Exact;
            (record.epoch, record.samples, record.exact) == (self.trained.epoch, samples, is_exact)
                && record.sharpness.eigenvalues.len() >= eigenvalues
                && record.probes >= probes
        };
        Ok(self.folder.sharpness()?.into_iter().find(answers))
    }
}

impl Job for MeasureSharpness {
    fn id(&self) -> JobId {
        JobId { kind: JobKind::Sharpness, trial: self.trained.trial.id, part: format!("epoch {}", self.trained.epoch) }
    }

    fn title(&self) -> String {
        format!("{} after epoch {}", self.trained.trial.title(), self.trained.epoch)
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn units(&self) -> usize {
        self.options.steps + self.options.probes
    }

    fn state_if_over(&self) -> Result<Option<State>, JobError> {
        Ok(self.record()?.map(|_| State::Finished))
    }

    fn run(&self, context: &Context<'_>) -> Result<End, JobError> {
        context.emit(Event::JobStarted { done: 0, total: self.units(), epoch: self.trained.epoch });
        let TrainedModel { trial, model, epoch } = &self.trained;
        let split = trial.source.dataset(&trial.settings.data, trial.settings.seed)?.train;
        let began = Instant::now();
        let mut found = Err(SharpnessError::Stopped);
        context.threads.run(&mut || {
            found = measure(model, &split, &self.options, context.device, &mut |done, total| {
                context.emit(Event::Progress { done, total, loss: None });
                !context.is_stopping()
            });
        });
        let sharpness = match found {
            Ok(sharpness) => sharpness,
            Err(SharpnessError::Stopped) => return Ok(End::Interrupted),
            Err(error) => return Err(error.into()),
        };
        self.folder.append_sharpness(&SharpnessRecord {
            epoch: *epoch,
            samples: self.options.samples,
            exact: self.options.differences == Differences::Exact,
            probes: self.options.probes,
            sharpness,
            seconds: began.elapsed().as_secs_f64(),
        })?;
        Ok(End::Over(State::Finished))
    }
}
