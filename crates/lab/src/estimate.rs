//! How long an experiment will take on this machine, from measured steps, and how much it will write.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use burn::module::Module;
use burn::tensor::Device;
use semfocus_nn::parameters::named_parameters;
use semfocus_nn::{Encoder, Key, ModelConfig, Pass, Registry, StandardOptimizer, cost, train};

use crate::experiment::Trial;
use crate::settings::TrialSettings;

/// What a step costs on one thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepCost {
    /// Seconds of a training step.
    pub train: f64,
    /// Seconds of an evaluation of as many examples.
    pub evaluate: f64,
}

/// Measures a training step and an evaluation of the same size on one thread, for about `time`.
pub fn measure(settings: &TrialSettings, width: usize, time: Duration) -> StepCost {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("the system has a thread to give");
    pool.install(|| {
        let attention = Registry::standard().parse(&settings.mechanism).expect("planned trials have known mechanisms");
        let model = Encoder::new(settings.model.clone(), attention, 1, &Device::flex().autodiff());
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
        let evaluate = fastest(time / 4, |number| {
            std::hint::black_box(model.forward(batch.tokens.clone(), Pass::evaluation(1, number)).into_data());
        });
        StepCost { train, evaluate }
    })
}

/// Least seconds of a round after one of warm-up: whatever else the machine does only adds to it.
fn fastest(time: Duration, mut work: impl FnMut(u64)) -> f64 {
    work(0);
    let began = Instant::now();
    let mut least = f64::INFINITY;
    for number in 1.. {
        let round = Instant::now();
        work(number);
        least = least.min(round.elapsed().as_secs_f64());
        if began.elapsed() >= time {
            break;
        }
    }
    least
}

/// Random tokens and labels.
pub fn random_batch(model: &ModelConfig, batch: usize, width: usize) -> train::Batch {
    use burn::tensor::{Int, Tensor, TensorData};
    let random = |key: Key, count: usize, below: usize| -> Vec<i64> {
        (0..count).map(|i| i64::from(key.below(i as u32, below as u32))).collect()
    };
    let device = Device::flex();
    let tokens = TensorData::new(random(Key::new(1), batch * width, model.vocabulary), [batch, width]);
    let labels = TensorData::new(random(Key::new(2), batch, model.classes), [batch]);
    train::Batch {
        tokens: Tensor::<2, Int>::from_data(tokens, &device),
        labels: Tensor::<1, Int>::from_data(labels, &device),
    }
}

/// Says what steps cost, and remembers what it has measured.
pub struct Estimator {
    how: How,
    known: HashMap<String, StepCost>,
}

enum How {
    /// Every kind of step is measured.
    Measured(Duration),
    /// A few are measured, the others follow from their arithmetic.
    ByArithmetic,
}

impl Estimator {
    /// Measures every kind of step it is asked for.
    pub fn exact(time: Duration) -> Self {
        Estimator { how: How::Measured(time), known: HashMap::new() }
    }

    /// Measures six kinds of steps and derives all others from how much arithmetic they need: within about a third.
    pub fn rough() -> Self {
        Estimator { how: How::ByArithmetic, known: HashMap::new() }
    }

    /// What a step of a trial costs.
    pub fn step(&mut self, trial: &Trial) -> StepCost {
        let width = trial.source.width(&trial.settings.data);
        match self.how {
            How::Measured(time) => self.measured(&trial.settings, width, time),
            How::ByArithmetic => self.derived(trial, width),
        }
    }

    fn measured(&mut self, settings: &TrialSettings, width: usize, time: Duration) -> StepCost {
        let key = format!("{:?} {} {} {width}", settings.model, settings.mechanism, settings.training.batch);
        *self.known.entry(key).or_insert_with(|| measure(settings, width, time))
    }

    fn derived(&mut self, trial: &Trial, width: usize) -> StepCost {
        // The nearest of the measured kinds: a length, and how keys are chosen.
        let length = if width < 150 { 40 } else { 600 };
        let mechanism = match trial.settings.mechanism.split(':').next() {
            Some("full") => "full",
            Some("banded" | "block") => "banded:5",
            _ => "topk:5",
        };
        let mut like = TrialSettings { mechanism: mechanism.to_owned(), ..TrialSettings::default() };
        like.model = ModelConfig { blocks: 2, ..ModelConfig::new(3, 2) };
        let cost = self.measured(&like, length, Duration::from_millis(100));
        let here = flops(&trial.settings, width) * trial.settings.training.batch as f64;
        let there = flops(&like, length) * like.training.batch as f64;
        let factor = here / there;
        StepCost { train: cost.train * factor, evaluate: cost.evaluate * factor }
    }

    /// Seconds of one core for an epoch of a trial.
    pub fn epoch(&mut self, trial: &Trial) -> f64 {
        let cost = self.step(trial);
        let sizes = trial.settings.data.sizes;
        let batch = trial.settings.training.batch as f64;
        let steps = (sizes.train as f64 / batch).ceil();
        steps * cost.train + (sizes.train + sizes.held_out) as f64 / batch * cost.evaluate
    }

    /// Seconds of one core for all trials.
    pub fn trials(&mut self, trials: &[Trial]) -> f64 {
        trials.iter().map(|trial| trial.settings.training.epochs as f64 * self.epoch(trial)).sum()
    }
}

fn flops(settings: &TrialSettings, width: usize) -> f64 {
    let attention = Registry::standard().parse(&settings.mechanism).expect("planned trials have known mechanisms");
    cost::flops(&settings.model, attention.mechanism.as_ref(), width + attention.spec.globals).training
}

/// Bytes that a trial will have on the disk: three checkpoints, a line an epoch, and what probes leave.
pub fn disk(trial: &Trial) -> u64 {
    let settings = &trial.settings;
    let attention = Registry::standard().parse(&settings.mechanism).expect("planned trials have known mechanisms");
    let model =
        Encoder::new(settings.model.clone(), attention, 1, &Device::flex()).expect("planned models are possible");
    let parameters: usize = named_parameters(&model).iter().map(|(_, data)| data.num_elements()).sum();
    let copies = 1 + settings.training.optimizer.slot_names().len();
    let checkpoint = parameters * copies * 4 + 10_000;
    let probes = match settings.probing.every {
        0 => 0,
        every => 1 + settings.training.epochs / every,
    };
    // A probe keeps the weights, and some 700 bytes for every layer and head.
    let probe = parameters * 4 + 5_000 + 700 * settings.model.blocks * (1 + settings.model.heads);
    (3 * checkpoint + 110 * settings.training.epochs + 5_000 + probes * probe) as u64
}
