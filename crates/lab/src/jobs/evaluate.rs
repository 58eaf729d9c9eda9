//! A stored model on other data.

use std::path::Path;
use std::time::Instant;

use semfocus_core::measurement;
use semfocus_nn::Pass;
use semfocus_store::{End, EvaluationRecord, Event, JobId, JobKind, State, StoreError};
use semfocus_tasks::Source;

use super::{Context, Job, JobError};
use crate::training::{BATCH, Tally, batch};
use crate::{ModelRef, TrainedModel};

/// Loss and accuracy of a stored model on other data than that of its trial, recorded in its trial. What is on record is not
/// evaluated again.
pub struct Evaluate {
    model: ModelRef,
    options: measurement::Evaluate,
}

impl Evaluate {
    /// Evaluates these models.
    pub fn all(options: &measurement::Evaluate, models: &[ModelRef]) -> Vec<Self> {
        models.iter().map(|model| Evaluate { model: model.clone(), options: options.clone() }).collect()
    }

    /// The model.
    pub fn model(&self) -> &ModelRef {
        &self.model
    }

    /// What is on record for this model and this data.
    pub fn record(&self) -> Result<Option<EvaluationRecord>, StoreError> {
        let answers = |record: &EvaluationRecord| {
            (record.epoch, &record.data) == (self.model.epoch(), &self.options.data)
                && record.samples == self.options.samples.get()
        };
        Ok(self.model.folder.evaluations()?.into_iter().find(answers))
    }
}

impl Job for Evaluate {
    fn id(&self) -> JobId {
        let part = format!("{} {} {}", self.model.part(), self.options.samples, self.options.data);
        JobId { kind: JobKind::Evaluate, trial: self.model.folder.id(), part }
    }

    fn title(&self) -> String {
        format!("{} after {}", self.model.title, self.model.part())
    }

    fn folder(&self) -> &Path {
        self.model.folder.path()
    }

    fn units(&self) -> usize {
        self.options.samples.get()
    }

    fn unit(&self) -> &'static str {
        "examples"
    }

    fn state_if_over(&self) -> Result<Option<State>, JobError> {
        Ok(self.record()?.map(|_| State::Finished))
    }

    fn run(&self, context: &Context<'_>) -> Result<End, JobError> {
        let TrainedModel { trial, model, epoch } = &context.load(&self.model)?;
        let total = self.units();
        context.emit(Event::JobStarted { done: 0, total, epoch: *epoch });
        if self.record()?.is_some() {
            return Ok(End::Over(State::Finished));
        }
        if let (Source::Own(own), false) = (trial.source.as_ref(), self.options.data.is_empty()) {
            return Err(JobError::FixedData(own.name.clone()));
        }
        let began = Instant::now();
        let mut settings = trial.settings.clone();
        self.options.apply(&mut settings);
        let sizes = &mut settings.data.sizes;
        (sizes.train, sizes.held_out, sizes.test) = (0, total, 0);
        let split = trial.source.dataset(&settings.data, settings.seed)?.held_out;
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
        self.model.folder.writer(context.lease).append_evaluation(&EvaluationRecord {
            epoch: *epoch,
            data: self.options.data.clone(),
            samples: total,
            majority: split.questions.majority().unwrap_or_default(),
            evaluation: tally.result(),
            seconds: began.elapsed().as_secs_f64(),
        })?;
        Ok(End::Over(State::Finished))
    }
}
