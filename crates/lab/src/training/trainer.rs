//! A model in training: steps, epochs, evaluation. No files.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use burn::module::Module;
use burn::tensor::{Device, TensorData};
use semfocus_nn::model::Encoder;
use semfocus_nn::optimizer::State as OptimizerState;
use semfocus_nn::parameters::{named_parameters, set_parameters};
use semfocus_nn::{Pass, Registry, StandardOptimizer, train};
use semfocus_tasks::{Dataset, GenerateError, Split};

use super::batches::{batch, order};
use super::evaluation::{Evaluation, Tally};
use crate::checkpoint::{Checkpoint, Progress, Refused, Values};
use crate::experiment::Trial;
use crate::store::{Best, EpochRecord};

/// Sequences that are evaluated together. Part of what determines a result: `randomk` draws by place in the batch.
pub const EVALUATION_BATCH: usize = 50;

/// Why a trial could not be begun.
#[derive(Debug, thiserror::Error)]
pub enum TrainingError {
    /// There is no data for it.
    #[error(transparent)]
    Data(#[from] GenerateError),
    /// There is no such model.
    #[error("the model: {0}")]
    Model(#[from] semfocus_nn::ConfigError),
    /// There is no such mechanism.
    #[error(transparent)]
    Mechanism(#[from] semfocus_nn::SpecError),
}

/// How an epoch ended.
#[derive(Clone, Debug, PartialEq)]
pub enum EpochEnd {
    /// It is complete.
    Complete(EpochRecord),
    /// It was asked to stop, between two steps.
    Interrupted,
    /// The loss or the gradient became infinite or undefined.
    Diverged,
}

/// A model in training.
pub struct Trainer {
    trial: Trial,
    data: Dataset,
    /// Training examples in use: all but the last under an oddity of the published code.
    used: usize,
    /// Always there between two calls.
    model: Option<Encoder>,
    optimizer: StandardOptimizer,
    progress: Progress,
}

impl Trainer {
    /// The trial at its beginning.
    pub fn new(trial: &Trial) -> Result<Self, TrainingError> {
        let settings = &trial.settings;
        let data = trial.source.dataset(&settings.data, settings.seed)?;
        let attention = Registry::standard().parse(&settings.mechanism)?;
        let model = Encoder::new(settings.model.clone(), attention, settings.seed, &Device::flex().autodiff())?;
        let all = data.train.len();
        Ok(Trainer {
            trial: trial.clone(),
            used: if settings.skip_last_example { (all - 1).max(1) } else { all },
            data,
            model: Some(model),
            optimizer: StandardOptimizer::new(settings.training.optimizer),
            progress: Progress::default(),
        })
    }

    /// How far it is.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The model.
    pub fn model(&self) -> &Encoder {
        self.model.as_ref().expect("the model is there between two steps")
    }

    /// The data.
    pub fn data(&self) -> &Dataset {
        &self.data
    }

    /// Steps of an epoch.
    pub fn steps_per_epoch(&self) -> usize {
        self.used.div_ceil(self.trial.settings.training.batch)
    }

    /// Goes on with the epoch under way up to its end, or until `stop` is set; `on_step` hears how many steps are done.
    pub fn epoch(&mut self, stop: &AtomicBool, mut on_step: impl FnMut(usize)) -> EpochEnd {
        let began = Instant::now();
        let before = self.progress.seconds;
        let (epoch, steps) = (self.progress.epoch + 1, self.steps_per_epoch());
        let order = order(self.trial.settings.seed, epoch, self.used);
        while self.progress.step < steps {
            if stop.load(Ordering::Relaxed) {
                self.progress.seconds = before + began.elapsed().as_secs_f64();
                return EpochEnd::Interrupted;
            }
            if !self.step(&order, epoch) {
                return EpochEnd::Diverged;
            }
            on_step(self.progress.step);
        }
        // In this order the numbers of the passes follow from epoch and place.
        let model = self.model().valid();
        let mut pass = 0;
        let mut evaluate = |split: &Split, count: usize| self.evaluate(&model, split, count, stop, &mut pass);
        let (train, held_out) = match (evaluate(&self.data.train, self.used), evaluate(&self.data.held_out, usize::MAX))
        {
            (Some(train), Some(held_out)) => (train, held_out),
            _ => {
                self.progress.seconds = before + began.elapsed().as_secs_f64();
                return EpochEnd::Interrupted;
            }
        };
        if !(train.loss.is_finite() && held_out.loss.is_finite()) {
            return EpochEnd::Diverged;
        }
        let record = EpochRecord {
            epoch,
            lr: self.trial.settings.learning_rate(epoch),
            train_loss: train.loss,
            train_accuracy: train.accuracy,
            heldout_loss: held_out.loss,
            heldout_accuracy: held_out.accuracy,
            grad_norm: f64::from_bits(self.progress.gradient_norm_bits) / steps as f64,
            seconds: before + began.elapsed().as_secs_f64(),
        };
        let best = match self.progress.best {
            Some(best) if best.heldout_accuracy >= held_out.accuracy => best,
            _ => Best { epoch, heldout_accuracy: held_out.accuracy },
        };
        self.progress =
            Progress { epoch, total_steps: self.progress.total_steps, best: Some(best), ..Progress::default() };
        EpochEnd::Complete(record)
    }

    /// One step; whether it stayed finite.
    fn step(&mut self, order: &[usize], epoch: usize) -> bool {
        let settings = &self.trial.settings;
        let size = settings.training.batch;
        let first = self.progress.step * size;
        let examples = order[first..order.len().min(first + size)].iter().copied();
        let pass = Pass::training(settings.seed, self.progress.total_steps);
        let (model, report) = train::step(
            self.model.take().expect("the model is there between two steps"),
            &mut self.optimizer,
            batch(&self.data.train, examples),
            pass,
            settings.learning_rate(epoch),
            settings.training.clip,
        );
        self.model = Some(model);
        self.progress.step += 1;
        self.progress.total_steps += 1;
        let sum = f64::from_bits(self.progress.gradient_norm_bits) + report.gradient_norm;
        self.progress.gradient_norm_bits = sum.to_bits();
        report.loss.is_finite() && report.gradient_norm.is_finite()
    }

    /// Loss and accuracy over the first `count` examples of a split; nothing if it was asked to stop.
    fn evaluate(
        &self,
        model: &Encoder,
        split: &Split,
        count: usize,
        stop: &AtomicBool,
        pass: &mut u64,
    ) -> Option<Evaluation> {
        let count = count.min(split.len());
        let passes = (self.data.train.len() + self.data.held_out.len()).div_ceil(EVALUATION_BATCH) as u64 + 1;
        let mut tally = Tally::default();
        for first in (0..count).step_by(EVALUATION_BATCH) {
            if stop.load(Ordering::Relaxed) {
                return None;
            }
            let examples = first..count.min(first + EVALUATION_BATCH);
            let labels = &split.labels[examples.clone()];
            let number = self.progress.epoch as u64 * passes + *pass;
            let logits =
                model.forward(batch(split, examples).tokens, Pass::evaluation(self.trial.settings.seed, number));
            *pass += 1;
            let logits = logits.into_data();
            tally.add(logits.as_slice::<f32>().expect("models compute in single precision"), labels);
        }
        Some(tally.result())
    }

    /// Everything that is needed to go on from here.
    pub fn checkpoint(&self) -> Checkpoint {
        let mut tensors = std::collections::BTreeMap::new();
        let parameters = named_parameters(self.model());
        let state = self.optimizer.state();
        for (slot, values) in self.optimizer.config().slot_names().iter().zip(&state.slots) {
            for ((name, data), values) in parameters.iter().zip(values) {
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
            settings: toml::to_string(&self.trial.settings.to_table_of_course()).expect("settings are plain values"),
            progress: self.progress.clone(),
            optimizer_steps: state.steps,
            tensors,
        }
    }

    /// Goes on from a checkpoint of the same trial. One that does not fit leaves everything as it was.
    pub fn restore(&mut self, mut checkpoint: Checkpoint) -> Result<(), Refused> {
        let names: Vec<String> = named_parameters(self.model()).into_iter().map(|(name, _)| name).collect();
        let mut slots = Vec::new();
        for slot in self.optimizer.config().slot_names() {
            let mut take = |name: &String| {
                let name = format!("optimizer.{slot}.{name}");
                // Before the first step there is no state yet.
                let values = checkpoint.tensors.remove(&name).map(|tensor| tensor.values);
                match values {
                    None if checkpoint.optimizer_steps > 0 => Err(Refused::Contents(format!("`{name}` is missing"))),
                    values => Ok(values.unwrap_or_default()),
                }
            };
            slots.push(names.iter().map(&mut take).collect::<Result<Vec<_>, _>>()?);
        }
        let parameters = checkpoint.tensors.into_iter().map(|(name, tensor)| {
            let data = TensorData::new(tensor.values, tensor.shape);
            (name, data)
        });
        let model = set_parameters(self.model().clone(), parameters.collect::<Vec<_>>())
            .map_err(|error| Refused::Contents(error.to_string()))?;
        self.model = Some(model);
        self.optimizer.restore(OptimizerState { steps: checkpoint.optimizer_steps, slots });
        self.progress = checkpoint.progress;
        Ok(())
    }
}
