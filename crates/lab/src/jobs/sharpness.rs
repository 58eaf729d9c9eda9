//! Hessian eigenvalues of a stored model.

use std::time::Instant;

use semfocus_core::measurement;
use semfocus_store::{End, Event, JobKind, SharpnessRecord, State, StoreError};

use super::measuring::{Measure, Measuring};
use super::{Context, JobError};
use crate::surface::hessian::{Differences, SharpnessError, SharpnessOptions, measure};
use crate::{ModelRef, TrainedModel};

/// The sharpness of the training loss at a stored model, recorded in its trial. What is on record is not measured again.
pub type MeasureSharpness = Measuring<SharpnessOptions>;

impl MeasureSharpness {
    /// Measures these models, and if asked for those that probes saved while they were trained.
    pub fn all(options: &measurement::Sharpness, models: &[ModelRef]) -> Result<Vec<Self>, JobError> {
        let mut jobs = Vec::new();
        for model in models {
            let mut along = if options.along_training { model.along_training()? } else { Vec::new() };
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
            jobs.extend(along.into_iter().map(|model| MeasureSharpness { model, how: options }));
        }
        Ok(jobs)
    }
}

impl Measure for SharpnessOptions {
    const KIND: JobKind = JobKind::Sharpness;
    const UNIT: &'static str = "products";
    type Record = SharpnessRecord;

    fn units(&self) -> usize {
        self.steps + self.probes
    }

    /// A record with these options, or better ones.
    fn record(&self, model: &ModelRef) -> Result<Option<SharpnessRecord>, StoreError> {
        let SharpnessOptions { samples, eigenvalues, probes, differences, .. } = *self;
        let answers = |record: &SharpnessRecord| {
            let is_exact = differences == Differences::Exact;
            (record.epoch, record.samples, record.exact) == (model.epoch(), samples, is_exact)
                && record.sharpness.eigenvalues.len() >= eigenvalues
                && record.probes >= probes
        };
        Ok(model.folder.measured::<SharpnessRecord>()?.into_iter().find(answers))
    }

    fn measure(&self, stored: &ModelRef, trained: &TrainedModel, context: &Context<'_>) -> Result<End, JobError> {
        let TrainedModel { trial, model, epoch } = trained;
        let split = trial.source.dataset(&trial.settings.data, trial.settings.seed)?.train;
        let began = Instant::now();
        let mut found = Err(SharpnessError::Stopped);
        context.threads.run(&mut || {
            found = measure(model.as_ref(), &split, self, context.device, &mut |done, total| {
                context.emit(Event::Progress { done, total, loss: None });
                !context.is_stopping()
            });
        });
        let sharpness = match found {
            Ok(sharpness) => sharpness,
            Err(SharpnessError::Stopped) => return Ok(End::Interrupted),
            Err(error) => return Err(error.into()),
        };
        stored.folder.writer(context.lease).add(&SharpnessRecord {
            epoch: *epoch,
            samples: self.samples,
            exact: self.differences == Differences::Exact,
            probes: self.probes,
            sharpness,
            seconds: began.elapsed().as_secs_f64(),
        })?;
        Ok(End::Over(State::Finished))
    }
}
