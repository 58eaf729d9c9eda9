//! Hessian eigenvalues of a stored model.

use std::path::Path;
use std::time::Instant;

use semfocus_core::measurement;
use semfocus_store::{End, Event, JobId, JobKind, SharpnessRecord, State, StoreError};

use super::{Context, Job, JobError};
use crate::surface::hessian::{Differences, SharpnessError, SharpnessOptions, measure};
use crate::{ModelRef, TrainedModel};

/// The sharpness of the training loss at a stored model, recorded in its trial. What is on record is not measured again.
pub struct MeasureSharpness {
    model: ModelRef,
    options: SharpnessOptions,
}

impl MeasureSharpness {
    /// Measures these models, and if asked for those that probes saved while they were trained.
    pub fn all(options: &measurement::Sharpness, models: &[ModelRef]) -> Result<Vec<Self>, JobError> {
        let mut jobs = Vec::new();
        for model in models {
            let mut along = if options.along_training { model.along_training() } else { Vec::new() };
            if options.along_training && along.is_empty() {
                return Err(JobError::NoPath(model.folder.path().to_owned()));
            }
            along.retain(|earlier| earlier.epoch() != model.epoch());
            along.push(model.clone());
            along.sort_by_key(ModelRef::epoch);
            let options = SharpnessOptions {
                samples: model.settings.data.sizes.train.min(options.samples.get()),
                eigenvalues: options.eigenvalues.get(),
                probes: options.probes.get(),
                differences: if options.fast { Differences::Fast } else { Differences::Exact },
                ..SharpnessOptions::default()
            };
            jobs.extend(along.into_iter().map(|model| MeasureSharpness { model, options }));
        }
        Ok(jobs)
    }

    /// The model.
    pub fn model(&self) -> &ModelRef {
        &self.model
    }

    /// What is on record for this model and these options, or better ones.
    pub fn record(&self) -> Result<Option<SharpnessRecord>, StoreError> {
        let SharpnessOptions { samples, eigenvalues, probes, differences, .. } = self.options;
        let answers = |record: &SharpnessRecord| {
            let is_exact = differences == Differences::Exact;
            (record.epoch, record.samples, record.exact) == (self.model.epoch(), samples, is_exact)
                && record.sharpness.eigenvalues.len() >= eigenvalues
                && record.probes >= probes
        };
        Ok(self.model.folder.sharpness()?.into_iter().find(answers))
    }
}

impl Job for MeasureSharpness {
    fn id(&self) -> JobId {
        JobId { kind: JobKind::Sharpness, trial: self.model.folder.id(), part: self.model.part() }
    }

    fn title(&self) -> String {
        format!("{} after {}", self.model.title, self.model.part())
    }

    fn unit(&self) -> &'static str {
        "products"
    }

    fn folder(&self) -> &Path {
        self.model.folder.path()
    }

    fn units(&self) -> usize {
        self.options.steps + self.options.probes
    }

    fn state_if_over(&self) -> Result<Option<State>, JobError> {
        Ok(self.record()?.map(|_| State::Finished))
    }

    fn run(&self, context: &Context<'_>) -> Result<End, JobError> {
        let TrainedModel { trial, model, epoch } = &context.load(&self.model)?;
        context.emit(Event::JobStarted { done: 0, total: self.units(), epoch: *epoch });
        if self.record()?.is_some() {
            return Ok(End::Over(State::Finished));
        }
        let split = trial.source.dataset(&trial.settings.data, trial.settings.seed)?.train;
        let began = Instant::now();
        let mut found = Err(SharpnessError::Stopped);
        context.threads.run(&mut || {
            found = measure(model.as_ref(), &split, &self.options, context.device, &mut |done, total| {
                context.emit(Event::Progress { done, total, loss: None });
                !context.is_stopping()
            });
        });
        let sharpness = match found {
            Ok(sharpness) => sharpness,
            Err(SharpnessError::Stopped) => return Ok(End::Interrupted),
            Err(error) => return Err(error.into()),
        };
        self.model.folder.writer(context.lease).append_sharpness(&SharpnessRecord {
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
