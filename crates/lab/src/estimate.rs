//! How long an experiment will take on this machine, and how much memory and disk space it needs.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use semfocus_core::measurement::ModelChoice;
use semfocus_core::time_left::time_side_by_side;
use semfocus_core::{Engine, Measurement, ModelConfig, Point, TrialSettings};
use semfocus_nn::{Attention, BlockAttentions, Selection, cost};
use semfocus_store::State;

use crate::jobs::{Job, Sharing, Train};
use crate::step_cost::measure;
pub use crate::step_cost::{CostFile, StepCost, random_batch};
use crate::{Lab, Trial, memory};

/// Lengths of sequences at which steps are measured; for others the measured time is scaled by the arithmetic.
const LENGTHS: [usize; 4] = [12, 40, 150, 600];

/// How long a kind of step is measured.
const TIME: Duration = Duration::from_millis(60);

/// Estimates the cost of steps: a few kinds are measured, once for a program on a machine, and all others are scaled by
/// their floating-point operations. Right to about a third.
pub struct Estimator<'a> {
    lab: &'a Lab,
    file: Option<CostFile>,
    measured: BTreeMap<String, StepCost>,
    operations: HashMap<String, f64>,
    draws: HashMap<String, f64>,
    questions: HashMap<String, f64>,
}

impl<'a> Estimator<'a> {
    /// Uses what is in the file, and adds to it what has to be measured.
    pub fn new(lab: &'a Lab, file: Option<CostFile>) -> Self {
        let measured = file.as_ref().map(CostFile::read).unwrap_or_default();
        Estimator { lab, file, measured, operations: HashMap::new(), draws: HashMap::new(), questions: HashMap::new() }
    }

    /// The cost of a step of a trial with some attention: if blocks differ, the mean over models that have the attention of one
    /// of them everywhere.
    fn step(&mut self, trial: &Trial, attention: &BlockAttentions) -> StepCost {
        let costs = attention.attentions().iter().map(|attention| self.step_with(trial, attention));
        let (train, evaluate) = costs.fold((0.0, 0.0), |sum, cost| (sum.0 + cost.train, sum.1 + cost.evaluate));
        let count = attention.attentions().len() as f64;
        StepCost { train: train / count, evaluate: evaluate / count }
    }

    /// The cost of a step of a trial with the same attention in all blocks.
    fn step_with(&mut self, trial: &Trial, attention: &Attention) -> StepCost {
        let settings = &trial.settings;
        let width = trial.source.length(&settings.data);
        let selection = attention.mechanism.selection(width.min(LENGTHS[0]));
        // The most similar of the measured kinds: how keys are chosen, by which code, and the length.
        let mechanism = match &selection {
            Some(Selection::All) => "full",
            Some(Selection::Pattern(_)) => "banded:5",
            _ => "topk:5",
        };
        let engine = if selection.is_some() { settings.model.engine } else { Engine::Reference };
        let distance = |length: &&usize| ((**length as f64 / width as f64).ln().abs() * 1e6) as u64;
        let length = *LENGTHS.iter().min_by_key(distance).expect("there are some lengths");
        let mut like = TrialSettings { mechanism: mechanism.to_owned(), ..TrialSettings::default() };
        like.model = ModelConfig { blocks: 2, engine, ..ModelConfig::new(3, 2) };
        let cost = self.measured(&like, length);
        let here = TrialSettings { mechanism: attention.spec.to_string(), ..settings.clone() };
        let asked = self.questions(trial);
        let here = self.operations(&here, width, asked) * settings.training.batch as f64;
        let there = self.operations(&like, length, 1.0) * like.training.batch as f64;
        let factor = here / there;
        StepCost { train: cost.train * factor, evaluate: cost.evaluate * factor }
    }

    fn measured(&mut self, like: &TrialSettings, length: usize) -> StepCost {
        let key = format!("{} {:?} {length}", like.mechanism, like.model.engine);
        if let Some(cost) = self.measured.get(&key) {
            return *cost;
        }
        let cost = measure(self.lab, like, length, TIME);
        self.measured.insert(key, cost);
        if let Some(file) = &self.file {
            file.write(&self.measured);
        }
        cost
    }

    /// Questions that a sequence asks, by some sequences; one if none can be drawn, as from data files, whose sequences have a label.
    fn questions(&mut self, trial: &Trial) -> f64 {
        const SEQUENCES: usize = 20;
        let TrialSettings { task, data, .. } = &trial.settings;
        *self.questions.entry(format!("{task} {data:?}")).or_insert_with(|| {
            trial.source.draw(data, 1, 0, SEQUENCES).map_or(1.0, |drawn| drawn.questions.per_sequence())
        })
    }

    /// Floating-point operations of training on a sequence that asks a number of questions.
    fn operations(&mut self, settings: &TrialSettings, width: usize, questions: f64) -> f64 {
        let lab = self.lab;
        let key = format!("{} {:?} {width} {questions}", settings.mechanism, settings.model);
        *self.operations.entry(key).or_insert_with(|| {
            let attention = lab.attention(&settings.mechanism).expect("planned trials have known mechanisms");
            let length = width + attention.spec.globals;
            cost::flops(&settings.model, &attention.into(), length, questions).training
        })
    }

    /// Seconds on one core for some epochs of a trial, from the first on.
    fn first_epochs(&mut self, trial: &Trial, epochs: usize) -> f64 {
        let attention = &trial.attention;
        let mut seconds = 0.0;
        for (stage, (epochs, trained)) in attention.epochs_by_stage(epochs).enumerate() {
            if epochs > 0 {
                seconds += epochs as f64 * self.epoch(trial, trained, attention.evaluation(stage));
            }
        }
        seconds
    }

    fn epoch(&mut self, trial: &Trial, trained: &BlockAttentions, evaluated: &BlockAttentions) -> f64 {
        let (train, evaluate) = (self.step(trial, trained).train, self.step(trial, evaluated).evaluate);
        let sizes = trial.sizes;
        let batch = trial.settings.training.batch as f64;
        let steps = trial.steps_per_epoch() as f64;
        steps * (train + self.draw(trial)) + (sizes.train + sizes.held_out) as f64 / batch * evaluate
    }

    /// Seconds to draw the examples of a step; 0 if they are there before the first step.
    fn draw(&mut self, trial: &Trial) -> f64 {
        /// Some batches, because the length of the search for a sequence that fits may vary.
        const BATCHES: u64 = 5;
        let TrialSettings { task, data, training, .. } = &trial.settings;
        if !data.online {
            return 0.0;
        }
        *self.draws.entry(format!("{task} {data:?} {}", training.batch)).or_insert_with(|| {
            let began = Instant::now();
            for step in 0..BATCHES {
                // A task that fails here reports that when it is trained on.
                let _ = std::hint::black_box(trial.source.draw(data, 1, step, training.batch));
            }
            began.elapsed().as_secs_f64() / BATCHES as f64
        })
    }

    /// Seconds on one core for all trials, from their beginning.
    pub fn trials(&mut self, trials: &[Trial]) -> f64 {
        trials.iter().map(|trial| self.first_epochs(trial, trial.settings.training.epochs)).sum()
    }

    /// Seconds on one core to evaluate a model of a trial on a number of examples.
    fn evaluation(&mut self, trial: &Trial, examples: f64) -> f64 {
        let attention = &trial.attention;
        let last = attention.epochs_by_stage(trial.settings.training.epochs).count().saturating_sub(1);
        let step = self.step(trial, attention.evaluation(last)).evaluate;
        examples / trial.settings.training.batch as f64 * step
    }

    /// Seconds on one core that the surfaces around the models of trials take; other measurements take little time compared with
    /// training.
    pub fn measurements(&mut self, measurements: &[Measurement], trials: &[&Trial]) -> f64 {
        let mut seconds = 0.0;
        for measurement in measurements {
            let Measurement::Surface(options) = measurement else { continue };
            let cells = (options.grid.get().pow(2) * options.draws.get()) as f64;
            for trial in chosen(&options.models, trials) {
                let examples = options.samples.get().min(trial.sizes.train);
                seconds += self.evaluation(trial, cells * examples as f64);
            }
        }
        seconds
    }

    /// What is left to do of some jobs. Where epochs of a mechanism are on record, their time counts.
    pub fn left(&mut self, jobs: &[Train], sharing: Sharing) -> Estimate {
        let mut groups: Vec<Group> = Vec::new();
        let mut estimate = Estimate::default();
        let (mut left, mut numbers, mut times) = (Vec::new(), HashMap::new(), Vec::new());
        for job in jobs {
            let trial = job.trial();
            let settings = &trial.settings;
            let number = *numbers.entry((&settings.mechanism, &trial.point)).or_insert_with(|| {
                groups.push(Group {
                    mechanism: settings.mechanism.clone(),
                    point: trial.point.clone(),
                    epochs: settings.training.epochs,
                    steps: trial.steps(),
                    memory_bytes: memory::needed(trial, (sharing.threads / sharing.jobs).max(1)),
                    ..Group::default()
                });
                groups.len() - 1
            });
            let group = &mut groups[number];
            let (done, seconds) = job.recorded();
            // What cannot be read or is damaged is repaired or fails when it is trained.
            let is_over = job.seems_over().is_some_and(State::is_over);
            group.trials += 1;
            group.done += usize::from(is_over);
            group.recorded = (group.recorded.0 + done, group.recorded.1 + seconds);
            if !is_over {
                left.push((number, trial, settings.training.epochs.saturating_sub(done)));
            }
            estimate.can_stop_early |= !is_over && settings.training.stop_when.is_some();
            estimate.disk_bytes += disk(trial);
            estimate.disk_left += if done == 0 && !is_over { disk(trial) } else { 0 };
        }
        for group in &mut groups {
            group.epoch_seconds = match group.recorded {
                (0, _) => 0.0,
                (epochs, seconds) => seconds / epochs as f64,
            };
        }
        for (number, trial, epochs) in left {
            let (all, group) = (trial.settings.training.epochs, &mut groups[number]);
            let is_uniform = !trial.settings.mechanism.contains('@');
            let seconds = if group.epoch_seconds > 0.0 && is_uniform {
                epochs as f64 * group.epoch_seconds
            } else {
                // Epochs that are on record say how wrong the estimate is, also for the stages that are left.
                let done = all - epochs;
                let (first, whole) = (self.first_epochs(trial, done), self.first_epochs(trial, all));
                let factor =
                    if done > 0 && first > 0.0 { job_seconds(&group.recorded) * done as f64 / first } else { 1.0 };
                if group.epoch_seconds == 0.0 {
                    group.epoch_seconds = whole / all as f64;
                }
                (whole - first) * factor
            };
            group.seconds += seconds;
            times.push(seconds);
        }
        estimate.trials = jobs.len();
        estimate.done = groups.iter().map(|group| group.done).sum();
        estimate.core_seconds = groups.iter().map(|group| group.seconds).sum();
        estimate.seconds = time_side_by_side(times, sharing.jobs.min(sharing.threads));
        let largest = groups.iter().filter(|group| group.done < group.trials).map(|group| group.memory_bytes).max();
        let running = sharing.jobs.min(estimate.trials - estimate.done) as u64;
        estimate.memory_bytes = largest.unwrap_or(0).saturating_mul(running);
        estimate.groups = groups;
        estimate
    }
}

/// What is left to do, by estimate.
#[derive(Clone, Debug, Default)]
pub struct Estimate {
    /// Trials of one mechanism at one point of the grid, in the order of the plan.
    pub groups: Vec<Group>,
    /// All trials.
    pub trials: usize,
    /// Trials that are over.
    pub done: usize,
    /// Seconds on one core.
    pub core_seconds: f64,
    /// Seconds with as many trials at once as were asked for, and of what follows training.
    pub seconds: f64,
    /// Seconds of what follows training.
    pub after_seconds: f64,
    /// Whether trials may end before their last epoch, so that the times are upper limits.
    pub can_stop_early: bool,
    /// Bytes of memory of all trials that run at once.
    pub memory_bytes: u64,
    /// Bytes on disk when everything is done.
    pub disk_bytes: u64,
    /// Bytes of it that trials will write that have not begun.
    pub disk_left: u64,
}

/// The trials of one mechanism at one point of the grid: they cost the same.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Mechanism, as it is written.
    pub mechanism: String,
    /// Values on the axes of the grid.
    pub point: Point,
    /// Trials: one for each seed.
    pub trials: usize,
    /// Those that are over.
    pub done: usize,
    /// Epochs of each trial.
    pub epochs: usize,
    /// Steps of each trial.
    pub steps: usize,
    /// Seconds of an epoch on one core: recorded, or estimated; 0 if nothing is left to do and nothing recorded.
    pub epoch_seconds: f64,
    /// Seconds on one core that are left.
    pub seconds: f64,
    /// Bytes of memory of one trial.
    pub memory_bytes: u64,
    /// Epochs on record, and their seconds.
    recorded: (usize, f64),
}

/// Mean seconds of the epochs on record.
fn job_seconds((epochs, seconds): &(usize, f64)) -> f64 {
    seconds / (*epochs).max(1) as f64
}

/// Bytes that a trial takes on disk: three checkpoints, a line per epoch, and the probes.
pub fn disk(trial: &Trial) -> u64 {
    let settings = &trial.settings;
    let parameters = memory::parameters(&settings.model, trial.attention.globals()) as usize;
    let copies = 1 + settings.training.optimizer.slot_names().len();
    let checkpoint = parameters * copies * 4 + 10_000;
    let probes = match settings.probing.every {
        0 => 0,
        every => 1 + settings.training.epochs / every,
    };
    // A probe stores the weights, and about 700 bytes per layer and head.
    let probe = parameters * 4 + 5_000 + 700 * settings.model.blocks * (1 + settings.model.heads);
    // A run has a copy of the weights that its trials start with.
    let origin = usize::from(settings.training.from.is_some()) * (parameters * 4 + 10_000);
    (origin + 3 * checkpoint + 120 * settings.training.epochs + 5_000 + probes * probe) as u64
}

/// The trials whose models a measurement will be about.
fn chosen<'a>(choice: &ModelChoice, trials: &[&'a Trial]) -> Vec<&'a Trial> {
    let mut first = Vec::new();
    for trial in trials {
        if !first.contains(&trial.settings.seed) {
            first.push(trial.settings.seed);
        }
    }
    first.truncate(choice.seeds.get());
    let is_chosen = |trial: &&Trial| {
        let TrialSettings { seed, mechanism, .. } = &trial.settings;
        first.contains(seed) && (choice.mechanisms.is_empty() || choice.mechanisms.contains(mechanism))
    };
    trials.iter().copied().filter(is_chosen).collect()
}
