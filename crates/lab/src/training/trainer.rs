//! A model in training: steps, epochs, evaluation. No files.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use burn::tensor::Device as BurnDevice;
use semfocus_core::{DataFacts, EpochRecord, Evaluation, Metric, Metrics, Origin, TrialSettings};
use semfocus_nn::optimizer::State as OptimizerState;
use semfocus_nn::{Model, Pass, StandardOptimizer, cost, train};
use semfocus_store::checkpoint::{Progress, Refused, Values};
use semfocus_store::{Best, Checkpoint, End, SliceRecord, State};
use semfocus_tasks::{Dataset, GenerateError, SliceTable, Split};

use super::batches::{Batches, batch};
use super::evaluation::{BATCH, Tally};
use super::slices::SliceTallies;
use crate::model::new_model;
use crate::relevance::relevance;
use crate::schedule::{Schedule, used};
use crate::trained_model::tensors;
use crate::{AttentionError, Device, Lab, Trial, TrialAttention};

/// Number of the first evaluation pass over the test split, far above those of the epochs.
const TEST_PASS: u64 = 1 << 62;

/// Number of the first evaluation pass of the untrained model, far above those of the epochs, too.
const UNTRAINED_PASS: u64 = 1 << 61;

/// Why a trial cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum TrainingError {
    /// Its data cannot be generated.
    #[error(transparent)]
    Data(#[from] GenerateError),
    /// Its model settings are invalid.
    #[error("the model: {0}")]
    Model(#[from] semfocus_nn::ConfigError),
    /// Its mechanism is unknown or does not fit.
    #[error(transparent)]
    Attention(#[from] AttentionError),
    /// The stored weights that it starts with do not fit.
    #[error("the weights {origin} do not fit: {reason}")]
    Origin {
        /// The weights.
        origin: Origin,
        /// Why.
        reason: String,
    },
}

/// A model in training.
pub struct Trainer {
    trial: Trial,
    data: Dataset,
    facts: DataFacts,
    /// The properties of the held-out questions by which they are evaluated.
    slice_tables: Vec<SliceTable>,
    /// What the last evaluation found by them.
    slices: Vec<SliceRecord>,
    schedule: Schedule,
    batches: Batches,
    device: BurnDevice,
    attention: Arc<TrialAttention>,
    /// The stage that the model is in.
    stage: usize,
    /// Floating-point operations of training for one example, in each stage.
    flops: Vec<f64>,
    /// `Some` except during a step.
    model: Option<Box<dyn Model>>,
    optimizer: StandardOptimizer,
    progress: Progress,
}

impl Trainer {
    /// A trial before its first step.
    pub fn new(trial: &Trial, device: &Device) -> Result<Self, TrainingError> {
        let settings = &trial.settings;
        let data = trial.source.dataset(&settings.data, settings.seed)?;
        let (facts, slice_tables) = (data.facts(), trial.source.slice_tables(&data.held_out)?);
        let attention = trial.attention.clone();
        let length = data.train.length + attention.globals();
        let stages = attention.stages().iter();
        let asked = data.train.questions.per_sequence();
        let flops =
            stages.map(|(_, attention)| cost::flops(&settings.model, attention, length, asked).training).collect();
        let schedule = Schedule::new(settings, data.train.len());
        let (stage, relevance) = (attention.stage(0).clone(), relevance(&trial.source, &attention));
        let model = new_model(&settings.model, stage, settings.seed, relevance, &device.autodiff())?;
        Ok(Trainer {
            trial: trial.clone(),
            data,
            facts,
            slice_tables,
            slices: Vec::new(),
            schedule,
            batches: Batches::new(trial, schedule),
            flops,
            attention,
            stage: 0,
            model: Some(model),
            device: device.plain(),
            optimizer: StandardOptimizer::new(settings.training.optimizer),
            progress: Progress::default(),
        })
    }

    /// Completed epochs and steps, and the best epoch so far.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The model with its current parameters.
    pub fn model(&self) -> &dyn Model {
        self.model.as_deref().expect("the model is there between two steps")
    }

    /// The model as it is evaluated.
    pub fn evaluated_model(&self) -> Box<dyn Model> {
        let model = self.model().without_autodiff();
        match self.trial.settings.training.evaluate_as {
            None => model,
            Some(_) => model.with_attention(self.attention.evaluation(self.stage).clone()).expect(CHECKED),
        }
    }

    /// The splits of the trial.
    pub fn data(&self) -> &Dataset {
        &self.data
    }

    /// What is known of them, by which losses are read.
    pub fn facts(&self) -> &DataFacts {
        &self.facts
    }

    /// What the last evaluation found by properties of the held-out questions; nothing if they have none, or it was not one after
    /// which they are [recorded](SliceRecord::is_due).
    pub fn slices(&self) -> &[SliceRecord] {
        &self.slices
    }

    /// Whether there are slices after a number of epochs.
    pub fn has_slices(&self, epoch: usize) -> bool {
        !self.slice_tables.is_empty() && SliceRecord::is_due(epoch)
    }

    /// Training steps of one epoch.
    pub fn steps_per_epoch(&self) -> usize {
        self.schedule.steps_per_epoch
    }

    /// Floating-point operations of training in one epoch, without evaluation: if the stages of its attention differ, the mean
    /// over the epochs so far.
    pub fn epoch_flops(&self) -> f64 {
        let Schedule { steps_per_pass, steps_per_epoch } = self.schedule;
        let examples = match &self.trial.settings {
            settings if settings.data.online => (settings.training.batch * steps_per_epoch) as f64,
            _ => self.data.train.len() as f64 * (steps_per_epoch as f64 / steps_per_pass as f64),
        };
        let epochs = self.progress.epoch.max(1);
        let flops = match self.flops[..] {
            [always] => always,
            _ => {
                let stages = self.attention.epochs_by_stage(epochs).zip(&self.flops);
                stages.map(|((epochs, _), flops)| epochs as f64 * flops).sum::<f64>() / epochs as f64
            }
        };
        flops * examples
    }

    /// The evaluation of the untrained model, as epoch 0. None if `stop` was set.
    ///
    /// # Panics
    /// If the model has been trained.
    pub fn untrained(&mut self, stop: &AtomicBool) -> Option<EpochRecord> {
        assert_eq!(self.progress.total_steps, 0, "the model is untrained");
        let (began, model, mut pass) = (Instant::now(), self.evaluated_model(), UNTRAINED_PASS);
        let (train, held_out, slices) = self.evaluate_both(model.as_ref(), stop, &mut pass, 0)?;
        self.slices = slices;
        let metrics = metrics(train, held_out, 0.0, 0.0);
        Some(EpochRecord { epoch: 0, metrics, seconds: began.elapsed().as_secs_f64(), steps: 0 })
    }

    /// Continues the current epoch to its end. `on_step` is called after each step with the number of steps done and the
    /// loss, and says whether to continue.
    ///
    /// # Errors
    /// If the epoch was not completed: `stop` was set or `on_step` said so, the trial diverged, or new examples could not be
    /// drawn.
    pub fn epoch(
        &mut self,
        stop: &AtomicBool,
        mut on_step: impl FnMut(usize, f64) -> bool,
    ) -> Result<EpochRecord, End> {
        let began = Instant::now();
        let before = self.progress.seconds;
        let (epoch, steps) = (self.progress.epoch + 1, self.steps_per_epoch());
        let mut goes_on = true;
        while self.progress.step < steps {
            if !goes_on || stop.load(Ordering::Relaxed) {
                self.progress.seconds = before + began.elapsed().as_secs_f64();
                return Err(End::Interrupted);
            }
            match self.step() {
                Ok(Some(loss)) => goes_on = on_step(self.progress.step, loss),
                Ok(None) => return Err(End::Over(State::Diverged)),
                Err(error) => return Err(End::Failed(error.to_string())),
            }
        }
        let model = self.evaluated_model();
        let Some((train, held_out, slices)) = self.evaluate_both(model.as_ref(), stop, &mut 0, epoch) else {
            self.progress.seconds = before + began.elapsed().as_secs_f64();
            return Err(End::Interrupted);
        };
        self.slices = slices;
        let learning_rate = self.learning_rate(self.progress.total_steps - 1);
        let metrics = metrics(train, held_out, learning_rate, self.progress.gradient_norm / steps as f64);
        if !metrics.are_finite() {
            return Err(End::Over(State::Diverged));
        }
        let seconds = before + began.elapsed().as_secs_f64();
        let record = EpochRecord { epoch, metrics, seconds, steps: self.progress.total_steps };
        let best = match self.progress.best {
            Some(best) if best.heldout_accuracy >= held_out.accuracy => best,
            _ => Best { epoch, heldout_accuracy: held_out.accuracy },
        };
        self.progress =
            Progress { epoch, total_steps: self.progress.total_steps, best: Some(best), ..Progress::default() };
        Ok(record)
    }

    /// The learning rate of a step; the first step is 0.
    fn learning_rate(&self, step: u64) -> f64 {
        self.trial.settings.training.rate_at(step, self.schedule.pass(step).0, self.trial.steps())
    }

    /// One step. Returns its loss if loss and gradient are finite.
    fn step(&mut self) -> Result<Option<f64>, GenerateError> {
        let step = self.progress.total_steps;
        let batch = self.batches.at(step, &self.data.train, &self.device)?;
        let learning_rate = self.learning_rate(step);
        self.enter_stage(self.attention.stage_of_epoch(self.progress.epoch + 1));
        let (model, report) = train::step(
            self.model.take().expect("the model is there between two steps"),
            &mut self.optimizer,
            batch,
            Pass::training(self.trial.settings.seed, step),
            learning_rate,
            self.trial.settings.training.clip,
        );
        self.model = Some(model);
        self.progress.step += 1;
        self.progress.total_steps += 1;
        self.progress.gradient_norm += report.gradient_norm;
        Ok((report.loss.is_finite() && report.gradient_norm.is_finite()).then_some(report.loss))
    }

    /// Gives the model the attention of a stage. Nothing else changes; scalars that a mechanism learns and that were not there
    /// before start at their initial values, with the state of an optimiser before its first step.
    fn enter_stage(&mut self, stage: usize) {
        if stage == self.stage {
            return;
        }
        let before: Vec<String> = self.model().parameters().into_iter().map(|(name, _)| name).collect();
        let new = self.new_head_scalars(stage);
        self.model = Some(self.model().with_attention(self.attention.stage(stage).clone()).expect(CHECKED));
        self.stage = stage;
        let after: Vec<String> = self.model().parameters().into_iter().map(|(name, _)| name).collect();
        let OptimizerState { steps, slots } = self.optimizer.state().clone();
        let carried = |slot: Vec<Vec<f32>>| {
            let state = |name: &String| {
                let number = before.iter().position(|other| other == name && !new.contains(name))?;
                slot.get(number).cloned()
            };
            after.iter().map(|name| state(name).unwrap_or_default()).collect()
        };
        self.optimizer.restore(OptimizerState { steps, slots: slots.into_iter().map(carried).collect() });
        self.count_steps_of_head_scalars();
    }

    /// Names of the parameters of mechanisms that are not carried on from the stage before.
    fn new_head_scalars(&self, stage: usize) -> Vec<String> {
        let began = self.attention.stages()[stage].0;
        let epochs = self.attention.epochs_before_head_scalars(stage, self.trial.settings.model.blocks);
        let blocks = epochs.into_iter().enumerate().filter(|(_, epochs)| *epochs == began);
        blocks.map(|(block, _)| head_scalars_of_block(block)).collect()
    }

    /// Tells the optimiser at which step each learned scalar was introduced.
    fn count_steps_of_head_scalars(&mut self) {
        let epochs = self.attention.epochs_before_head_scalars(self.stage, self.trial.settings.model.blocks);
        let steps = self.steps_per_epoch();
        let names = self.model().parameters().into_iter().map(|(name, _)| name);
        let before = |name: String| {
            let block = (0..epochs.len()).find(|block| head_scalars_of_block(*block) == name);
            block.map_or(0, |block| (epochs[block] * steps) as u64)
        };
        self.optimizer.set_steps_before(names.map(before).collect());
    }

    /// Starts with stored weights in place of the initial ones, in which `lab` knows the attention that they were trained with.
    /// Nothing but weights is taken over: the optimiser starts afresh, and epochs and steps are counted from 0.
    pub fn start_with(&mut self, origin: Origin, stored: Checkpoint, lab: &Lab) -> Result<(), TrainingError> {
        self.model = Some(with_stored_weights(self.model(), origin, stored, lab)?);
        Ok(())
    }

    /// Loss and accuracy over the training and the held-out split, and slices of the latter if they are due; None if `stop` was set.
    fn evaluate_both(
        &self,
        model: &dyn Model,
        stop: &AtomicBool,
        pass: &mut u64,
        epoch: usize,
    ) -> Option<(Evaluation, Evaluation, Vec<SliceRecord>)> {
        let mut slices = self.has_slices(epoch).then(|| SliceTallies::new(&self.slice_tables));
        // Pass numbers depend on this order: first the training split, then the held-out one.
        let train = self.evaluate(model, &self.data.train, Some(stop), pass, None)?;
        let held_out = self.evaluate(model, &self.data.held_out, Some(stop), pass, slices.as_mut())?;
        Some((train, held_out, slices.map_or_else(Vec::new, |slices| slices.records(epoch))))
    }

    /// Loss and accuracy over a split; None if `stop` was set.
    fn evaluate(
        &self,
        model: &dyn Model,
        split: &Split,
        stop: Option<&AtomicBool>,
        pass: &mut u64,
        mut slices: Option<&mut SliceTallies<'_>>,
    ) -> Option<Evaluation> {
        let passes = (self.data.train.len() + self.data.held_out.len()).div_ceil(BATCH) as u64 + 1;
        let count = used(split.len(), &self.trial.settings);
        let mut tally = Tally::default();
        for first in (0..count).step_by(BATCH) {
            if stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                return None;
            }
            let examples = first..count.min(first + BATCH);
            let pass_number = self.progress.epoch as u64 * passes + *pass;
            let batch = batch(split, examples, &self.device);
            let tokens = model.token_rows(batch.tokens);
            let pass_of_batch = Pass::evaluation(self.trial.settings.seed, pass_number);
            let answers = model.answers(&tokens, &batch.questions, pass_of_batch);
            tally.add(&answers, &batch.questions);
            if let Some(slices) = &mut slices {
                slices.add(Some(&answers), &batch.questions);
            }
            *pass += 1;
        }
        let skipped = split.questions.select(count..split.len());
        tally.add_skipped(&skipped);
        if let Some(slices) = slices {
            slices.add(None, &skipped);
        }
        Some(tally.result())
    }

    /// Loss and accuracy of a model of this trial on the test split.
    pub fn test(&self, model: &dyn Model) -> Evaluation {
        let mut pass = TEST_PASS;
        self.evaluate(model, &self.data.test, None, &mut pass, None).expect("nothing asks it to stop")
    }

    /// Everything needed to continue from here.
    pub fn checkpoint(&self) -> Checkpoint {
        let mut tensors = std::collections::BTreeMap::new();
        let parameters = self.model().parameters();
        let state = self.optimizer.state();
        for (slot, values) in self.optimizer.config().slot_names().iter().zip(&state.slots) {
            // Before the first step there is no state yet.
            for ((name, data), values) in parameters.iter().zip(values).filter(|(_, values)| !values.is_empty()) {
                let shape = data.shape().to_vec();
                tensors.insert(format!("optimizer.{slot}.{name}"), Values { shape, values: values.clone() });
            }
        }
        for (name, data) in parameters {
            let shape = data.shape().to_vec();
            let values = data.try_into_vec::<f32>().expect("models are trained in single precision");
            tensors.insert(name, Values { shape, values });
        }
        Checkpoint {
            trial: self.trial.id,
            settings: toml::to_string(&self.trial.settings.to_table_of_results()).expect("settings are plain values"),
            record: None,
            progress: self.progress.clone(),
            optimizer_steps: state.steps,
            tensors,
        }
    }

    /// Continues from a checkpoint of the same trial. If the checkpoint does not fit, nothing changes.
    pub fn restore(&mut self, mut checkpoint: Checkpoint) -> Result<(), Refused> {
        fn refused<T>(reason: String) -> Result<T, Refused> {
            Err(Refused::Contents(reason))
        }
        let Progress { epoch, step, total_steps, .. } = checkpoint.progress;
        let steps = self.steps_per_epoch();
        if step > steps || total_steps != (epoch * steps + step) as u64 || checkpoint.optimizer_steps > total_steps {
            return refused(format!("{total_steps} steps do not make {epoch} epochs of {steps} steps and {step} more"));
        }
        if let Some((name, _)) =
            checkpoint.tensors.iter().find(|(_, tensor)| !tensor.values.iter().all(|x| x.is_finite()))
        {
            return refused(format!("`{name}` has values that are not finite"));
        }
        let stage = self.attention.stage_at(&checkpoint.progress);
        let model = self.model().with_attention(self.attention.stage(stage).clone()).expect(CHECKED);
        let parameters = model.parameters();
        let mut slots = Vec::new();
        for slot in self.optimizer.config().slot_names() {
            let mut take = |(name, data): &(String, burn::tensor::TensorData)| {
                let name = format!("optimizer.{slot}.{name}");
                // Before the first step there is no state yet.
                match checkpoint.tensors.remove(&name).map(|tensor| tensor.values) {
                    None if checkpoint.optimizer_steps > 0 => refused(format!("`{name}` is missing")),
                    Some(values) if values.len() != data.shape().num_elements() => {
                        refused(format!("`{name}` has {} values", values.len()))
                    }
                    values => Ok(values.unwrap_or_default()),
                }
            };
            slots.push(parameters.iter().map(&mut take).collect::<Result<Vec<_>, _>>()?);
        }
        let model = model.with_parameters(tensors(checkpoint.tensors.into_iter()));
        let model = model.map_err(|error| Refused::Contents(error.to_string()))?;
        (self.model, self.stage) = (Some(model), stage);
        self.optimizer.restore(OptimizerState { steps: checkpoint.optimizer_steps, slots });
        self.progress = checkpoint.progress;
        self.count_steps_of_head_scalars();
        Ok(())
    }
}

/// What is recorded of a model.
fn metrics(train: Evaluation, held_out: Evaluation, learning_rate: f64, gradient_norm: f64) -> Metrics {
    Metrics::new(|metric| match metric {
        Metric::Lr => learning_rate,
        Metric::TrainLoss => train.loss,
        Metric::TrainAccuracy => train.accuracy,
        Metric::HeldoutLoss => held_out.loss,
        Metric::HeldoutAccuracy => held_out.accuracy,
        Metric::GradNorm => gradient_norm,
    })
}

const CHECKED: &str = "the attention of all stages was checked when the trial was planned";

/// Name of the parameter that holds the scalars which the mechanism of a block learns.
fn head_scalars_of_block(block: usize) -> String {
    format!("blocks.{block}.attention.mechanism")
}

/// A model with the weights of a stored one. Scalars that its mechanisms learn are taken over where the stored model learned
/// numbers of the same names.
pub(crate) fn with_stored_weights(
    model: &dyn Model,
    origin: Origin,
    stored: Checkpoint,
    lab: &Lab,
) -> Result<Box<dyn Model>, TrainingError> {
    let wrong = |reason: String| TrainingError::Origin { origin, reason };
    let table = stored.settings.parse::<toml::Table>().map_err(|error| wrong(error.to_string()))?;
    let mut settings = TrialSettings::from_table(&table).map_err(wrong)?;
    settings.training.evaluate_as = None;
    let blocks = model.config().blocks;
    if settings.model.blocks != blocks {
        return Err(wrong(format!("they are for {} blocks, and the model has {blocks}", settings.model.blocks)));
    }
    settings.model = model.config().clone();
    let trained = lab.trial_attention(&settings).map_err(|error| wrong(error.to_string()))?;
    let trained = trained.stage(trained.stage_at(&stored.progress)).clone();
    let attention = model.attention().clone();
    let model = model.with_attention(trained).map_err(|error| wrong(error.to_string()))?;
    let model = model.with_parameters(tensors(stored.parameters())).map_err(|error| wrong(error.to_string()))?;
    model.with_attention(attention).map_err(|error| wrong(error.to_string()))
}
