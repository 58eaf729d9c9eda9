//! How long an experiment will take on this machine, from measured steps, and how much disk space it needs.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use burn::module::Module;
use semfocus_core::{Key, ModelConfig, TrialSettings};
use semfocus_nn::{Encoder, Pass, Selection, StandardOptimizer, cost, train};

use crate::threads::on_one_thread;
use crate::training::Schedule;
use crate::{Device, Lab, Trial, memory};

/// What a step costs on one thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepCost {
    /// Seconds of a training step.
    pub train: f64,
    /// Seconds of evaluating as many examples.
    pub evaluate: f64,
}

/// Measures a training step and an evaluation of the same size on one thread, for about `time`.
pub fn measure(lab: &Lab, settings: &TrialSettings, width: usize, time: Duration) -> StepCost {
    on_one_thread(|| {
        let attention = lab.attention(&settings.mechanism).expect("planned trials have known mechanisms");
        let model = Encoder::new(settings.model.clone(), attention, 1, &Device::cpu().autodiff());
        let mut model = Some(model.expect("planned trials have possible models"));
        let mut optimizer = StandardOptimizer::new(settings.training.optimizer);
        let batch = random_batch(&settings.model, settings.training.batch, width);
        let train = fastest(time, |number| {
            let present = model.take().expect("every step gives the model back");
            let pass = Pass::training(1, number);
            let (next, _) = train::step(present, &mut optimizer, batch.clone(), pass, 1e-3, 0.5);
            model = Some(next);
        });
        let model = model.expect("every step gives the model back").valid();
        let tokens = model.token_rows(batch.tokens);
        let evaluate = fastest(time / 4, |number| {
            std::hint::black_box(model.logits(&tokens, Pass::evaluation(1, number)));
        });
        StepCost { train, evaluate }
    })
}

/// The shortest of several runs after a warm-up, in seconds: other load on the machine only adds to the time.
fn fastest(time: Duration, mut work: impl FnMut(u64)) -> f64 {
    work(0);
    let began = Instant::now();
    let mut min = f64::INFINITY;
    for number in 1.. {
        let round = Instant::now();
        work(number);
        min = min.min(round.elapsed().as_secs_f64());
        if began.elapsed() >= time {
            break;
        }
    }
    min
}

/// A batch of random tokens and labels.
pub fn random_batch(model: &ModelConfig, batch: usize, width: usize) -> train::Batch {
    use burn::tensor::{Int, Tensor, TensorData};
    let random = |key: Key, count: usize, below: usize| -> Vec<i64> {
        (0..count).map(|i| i64::from(key.below(i as u32, below as u32))).collect()
    };
    let device = Device::cpu().plain();
    let tokens = TensorData::new(random(Key::new(1), batch * width, model.vocabulary), [batch, width]);
    let labels = TensorData::new(random(Key::new(2), batch, model.classes), [batch]);
    train::Batch {
        tokens: Tensor::<2, Int>::from_data(tokens, &device),
        labels: Tensor::<1, Int>::from_data(labels, &device),
    }
}

/// Estimates the cost of steps, and caches what it has measured.
pub struct Estimator<'a> {
    lab: &'a Lab,
    how: How,
    known: HashMap<String, StepCost>,
    known_draws: HashMap<String, f64>,
}

enum How {
    /// Each kind of step is measured for this long.
    Measured(Duration),
    /// A few kinds are measured; all others are scaled by their floating-point operations.
    ByArithmetic,
}

impl<'a> Estimator<'a> {
    /// Measures each kind of step that is asked for, for about `time`.
    pub fn exact(lab: &'a Lab, time: Duration) -> Self {
        Estimator { lab, how: How::Measured(time), known: HashMap::new(), known_draws: HashMap::new() }
    }

    /// Measures up to six kinds of steps and scales all others by their floating-point operations: right to about a third.
    pub fn rough(lab: &'a Lab) -> Self {
        Estimator { lab, how: How::ByArithmetic, known: HashMap::new(), known_draws: HashMap::new() }
    }

    /// The cost of a step of a trial.
    pub fn step(&mut self, trial: &Trial) -> StepCost {
        let width = trial.source.width(&trial.settings.data);
        match self.how {
            How::Measured(time) => self.measured(&trial.settings, width, time),
            How::ByArithmetic => self.derived(trial, width),
        }
    }

    fn measured(&mut self, settings: &TrialSettings, width: usize, time: Duration) -> StepCost {
        let key = format!("{:?} {} {} {width}", settings.model, settings.mechanism, settings.training.batch);
        *self.known.entry(key).or_insert_with(|| measure(self.lab, settings, width, time))
    }

    fn derived(&mut self, trial: &Trial, width: usize) -> StepCost {
        // The most similar of the measured kinds, by sequence length and by how keys are chosen.
        let length = if width < 150 { 40 } else { 600 };
        let attention = self.lab.attention(&trial.settings.mechanism).expect("planned trials have known mechanisms");
        let mechanism = match attention.mechanism.selection(width) {
            Some(Selection::All) => "full",
            Some(Selection::Pattern(_)) => "banded:5",
            _ => "topk:5",
        };
        let mut like = TrialSettings { mechanism: mechanism.to_owned(), ..TrialSettings::default() };
        like.model = ModelConfig { blocks: 2, ..ModelConfig::new(3, 2) };
        let cost = self.measured(&like, length, Duration::from_millis(100));
        let here = flops(self.lab, &trial.settings, width) * trial.settings.training.batch as f64;
        let there = flops(self.lab, &like, length) * like.training.batch as f64;
        let factor = here / there;
        StepCost { train: cost.train * factor, evaluate: cost.evaluate * factor }
    }

    /// Seconds on one core for an epoch of a trial.
    pub fn epoch(&mut self, trial: &Trial) -> f64 {
        let cost = self.step(trial);
        let sizes = trial.settings.data.sizes;
        let batch = trial.settings.training.batch as f64;
        let steps = Schedule::planned(&trial.settings).steps_per_epoch as f64;
        steps * (cost.train + self.draw(trial)) + (sizes.train + sizes.held_out) as f64 / batch * cost.evaluate
    }

    /// Seconds to draw the examples of a step; 0 if they are there before the first step.
    fn draw(&mut self, trial: &Trial) -> f64 {
        /// Some batches, because the length of the search for a sequence that fits may vary.
        const BATCHES: u64 = 5;
        let TrialSettings { task, data, training, .. } = &trial.settings;
        if !data.online {
            return 0.0;
        }
        *self.known_draws.entry(format!("{task} {data:?} {}", training.batch)).or_insert_with(|| {
            let began = Instant::now();
            for step in 0..BATCHES {
                // A task that fails here will say so when it is trained on.
                let _ = std::hint::black_box(trial.source.draw(data, 1, step, training.batch));
            }
            began.elapsed().as_secs_f64() / BATCHES as f64
        })
    }

    /// Seconds on one core for all trials.
    pub fn trials(&mut self, trials: &[Trial]) -> f64 {
        trials.iter().map(|trial| trial.settings.training.epochs as f64 * self.epoch(trial)).sum()
    }
}

fn flops(lab: &Lab, settings: &TrialSettings, width: usize) -> f64 {
    let attention = lab.attention(&settings.mechanism).expect("planned trials have known mechanisms");
    cost::flops(&settings.model, attention.mechanism.as_ref(), width + attention.spec.globals).training
}

/// Bytes that a trial takes on disk: three checkpoints, a line per epoch, and the probes.
pub fn disk(lab: &Lab, trial: &Trial) -> u64 {
    let settings = &trial.settings;
    let attention = lab.attention(&settings.mechanism).expect("planned trials have known mechanisms");
    let parameters = memory::parameters(&settings.model, attention.spec.globals) as usize;
    let copies = 1 + settings.training.optimizer.slot_names().len();
    let checkpoint = parameters * copies * 4 + 10_000;
    let probes = match settings.probing.every {
        0 => 0,
        every => 1 + settings.training.epochs / every,
    };
    // A probe stores the weights, and about 700 bytes per layer and head.
    let probe = parameters * 4 + 5_000 + 700 * settings.model.blocks * (1 + settings.model.heads);
    (3 * checkpoint + 120 * settings.training.epochs + 5_000 + probes * probe) as u64
}
