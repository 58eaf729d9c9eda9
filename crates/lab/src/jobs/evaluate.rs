//! A stored model on other data.

use std::time::Instant;

use semfocus_core::measurement;
use semfocus_nn::Pass;
use semfocus_store::{End, EvaluationRecord, Event, JobKind, State, StoreError};
use semfocus_tasks::Source;

use super::measuring::{Measure, Measuring};
use super::{Context, JobError};
use crate::training::{BATCH, Tally, TrainingError, batch};
use crate::{ModelRef, TrainedModel};

/// Loss and accuracy of a stored model on other data than that of its trial, recorded in its trial. What is on record is not
/// evaluated again.
pub type Evaluate = Measuring<measurement::Evaluate>;

impl Evaluate {
    /// Evaluates these models.
    pub fn all(options: &measurement::Evaluate, models: &[ModelRef]) -> Vec<Self> {
        models.iter().map(|model| Evaluate { model: model.clone(), how: options.clone() }).collect()
    }
}

impl Measure for measurement::Evaluate {
    const KIND: JobKind = JobKind::Evaluate;
    const UNIT: &'static str = "examples";
    type Record = EvaluationRecord;

    fn units(&self) -> usize {
        self.samples.get()
    }

    fn part(&self, model: String) -> String {
        format!("{model} {} {}", self.samples, self.data)
    }

    fn record(&self, model: &ModelRef) -> Result<Option<EvaluationRecord>, StoreError> {
        let answers = |record: &EvaluationRecord| {
            (record.epoch, &record.data, record.samples) == (model.epoch(), &self.data, self.samples.get())
        };
        Ok(model.folder.measured::<EvaluationRecord>()?.into_iter().find(answers))
    }

    fn measure(&self, stored: &ModelRef, trained: &TrainedModel, context: &Context<'_>) -> Result<End, JobError> {
        let (TrainedModel { trial, model, epoch }, total) = (trained, self.units());
        if !matches!(trial.source.as_ref(), Source::Task(_)) && !self.data.is_empty() {
            return Err(JobError::FixedData(trial.entry().task));
        }
        let began = Instant::now();
        let mut settings = trial.settings.clone();
        self.apply(&mut settings);
        let sizes = &mut settings.data.sizes;
        (sizes.train, sizes.held_out, sizes.test) = (0, total, 0);
        let split = trial.source.dataset(&settings.data, settings.seed)?.held_out;
        model.config().check_length(split.length).map_err(TrainingError::from)?;
        let (mut tally, device) = (Tally::default(), context.device.plain());
        for (pass, first) in (0..).zip((0..split.len()).step_by(BATCH)) {
            if context.is_stopping() {
                return Ok(End::Interrupted);
            }
            let examples = first..split.len().min(first + BATCH);
            context.threads.run(&mut || {
                let batch = batch(&split, examples.clone(), &device);
                let tokens = model.token_rows(batch.tokens);
                let answers = model.answers(&tokens, &batch.questions, Pass::evaluation(settings.seed, pass));
                tally.add(&answers, &batch.questions);
            });
            context.emit(Event::Progress { done: examples.end, total, loss: None });
        }
        stored.folder.writer(context.lease).add(&EvaluationRecord {
            epoch: *epoch,
            data: self.data.clone(),
            samples: total,
            majority: split.questions.majority().unwrap_or_default(),
            evaluation: tally.result(),
            seconds: began.elapsed().as_secs_f64(),
        })?;
        Ok(End::Over(State::Finished))
    }
}
