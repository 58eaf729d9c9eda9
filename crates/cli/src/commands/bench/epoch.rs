//! `semfocus bench epoch`: what an epoch costs beyond its steps, and what trials cost each other.

use std::io::Write;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use burn::module::Module;
use burn::tensor::Device;
use clap::Args as ClapArgs;
use semfocus_lab::estimate::random_batch;
use semfocus_lab::executor::{self, InStore, Observe, Sharing};
use semfocus_lab::store::Session;
use semfocus_lab::training::Watch;
use semfocus_lab::training::trainer::EVALUATION_BATCH;
use semfocus_lab::{Experiment, Plan, Request, Scale, Store, Trial};
use semfocus_nn::{Encoder, Pass, Registry, StandardOptimizer, train};
use serde::Serialize;

use super::median;
use super::scratch::Scratch;
use crate::Error;

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Mechanism to train
    #[arg(long, value_name = "M", default_value = "full")]
    mechanism: String,
    /// Rounds of each measurement, of which the median counts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// Training examples; the held-out set has two for every five
    #[arg(long, value_name = "N", default_value_t = 5000, value_parser = clap::value_parser!(u32).range(25..))]
    train: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    mechanism: String,
    train_examples: usize,
    evaluated_examples: usize,
    rounds: usize,
    /// Training and evaluation steps alone, on prepared batches, one thread.
    steps_seconds: f64,
    /// The same epoch as `run` trains it, record and checkpoints on the disk, one thread.
    epoch_seconds: f64,
    /// Epoch over steps.
    overhead: f64,
    cores: usize,
    /// Core seconds of an epoch when four trials run side by side on all cores.
    side_by_side_core_seconds: f64,
    /// That over the epoch alone.
    side_by_side_ratio: f64,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Error> {
    let scratch = Scratch::new()?;
    let rounds = usize::from(args.rounds);
    eprintln!("measuring an epoch and its steps, taking turns …");
    let (mut alone, mut epochs, mut together) = (Vec::new(), Vec::new(), Vec::new());
    let mut steps = Steps::new(&plan_of(args, 1)?.trials[0])?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    for round in 0..rounds {
        alone.push(steps.time());
        epochs.push(time_run(&plan_of(args, 1)?, &scratch, &format!("one-{round}"), Sharing { threads: 1, jobs: 1 })?);
    }
    eprintln!("measuring four trials side by side on {cores} cores …");
    for round in 0..rounds {
        // Alone again between them: the machine may have changed its pace.
        epochs.push(time_run(&plan_of(args, 1)?, &scratch, &format!("two-{round}"), Sharing { threads: 1, jobs: 1 })?);
        let sharing = Sharing { threads: cores, jobs: cores.min(4) };
        let seconds = time_run(&plan_of(args, 4)?, &scratch, &format!("four-{round}"), sharing)?;
        together.push(seconds * cores.min(4) as f64 / 4.0);
    }
    let later = epochs.split_off(rounds);
    let (steps_seconds, epoch_seconds) = (median(alone), median(epochs));
    let side_by_side_core_seconds = median(together);
    let sizes = plan_of(args, 1)?.trials[0].settings.data.sizes;
    let report = Report {
        mechanism: args.mechanism.clone(),
        train_examples: sizes.train,
        evaluated_examples: sizes.train + sizes.held_out,
        rounds,
        steps_seconds,
        epoch_seconds,
        overhead: epoch_seconds / steps_seconds,
        cores,
        side_by_side_core_seconds,
        side_by_side_ratio: side_by_side_core_seconds / median(later),
    };
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &report)?;
        return Ok(writeln!(out)?);
    }
    let Report { mechanism, train_examples, evaluated_examples, overhead, side_by_side_ratio, .. } = report;
    writeln!(out, "even-pairs, {mechanism}: {train_examples} training examples, {evaluated_examples} evaluated")?;
    writeln!(out, "steps alone               {steps_seconds:7.3} s")?;
    writeln!(out, "epoch                     {epoch_seconds:7.3} s  {overhead:.3} of the steps")?;
    writeln!(
        out,
        "four side by side         {side_by_side_core_seconds:7.3} s  of a core an epoch, {side_by_side_ratio:.3} of one alone",
    )?;
    Ok(writeln!(out, "medians of {rounds} rounds")?)
}

/// Trials of even pairs with the published settings, one for each seed, of one epoch.
fn plan_of(args: &Args, seeds: usize) -> Result<Plan, Error> {
    let experiment = Experiment::resolve(&Request {
        experiment: "even-pairs".to_owned(),
        scale: Some(Scale::Full),
        mechanisms: Some(vec![args.mechanism.clone()]),
        seeds: Some(seeds),
        epochs: Some(1),
        overrides: vec![format!("data.train={}", args.train), format!("data.held_out={}", args.train * 2 / 5)],
        smoke: false,
    })?;
    Ok(experiment.plan()?)
}

/// Seconds of all trials of a plan in a store of their own.
fn time_run(plan: &Plan, scratch: &Scratch, name: &str, sharing: Sharing) -> Result<f64, Error> {
    let experiment = Experiment::resolve(&Request { experiment: "even-pairs".to_owned(), ..Request::default() })?;
    let (store, _) = Store::create(&scratch.path().join(name), &experiment, plan)?;
    let watch = Unseen;
    let session = Session::here(crate::VERSION, crate::COMMIT, sharing.threads, sharing.jobs);
    let work = InStore { store: &store, session, watch: &watch };
    let began = Instant::now();
    executor::run(&plan.trials, sharing, &work, &AtomicBool::new(false), &watch);
    Ok(began.elapsed().as_secs_f64())
}

struct Unseen;

impl Watch for Unseen {}

impl Observe for Unseen {}

/// The steps of an epoch and nothing else.
struct Steps {
    model: Option<Encoder>,
    optimizer: StandardOptimizer,
    training: Vec<train::Batch>,
    evaluation: Vec<train::Batch>,
    learning_rate: f64,
    clip: f64,
    pool: rayon::ThreadPool,
}

impl Steps {
    fn new(trial: &Trial) -> Result<Self, Error> {
        let settings = &trial.settings;
        let attention = Registry::standard().parse(&settings.mechanism)?;
        let model = Encoder::new(settings.model.clone(), attention, 1, &Device::flex().autodiff())?;
        let width = trial.source.width(&settings.data);
        let batches = |examples: usize, size: usize| {
            (0..examples.div_ceil(size)).map(|_| random_batch(&settings.model, size, width)).collect()
        };
        let sizes = settings.data.sizes;
        Ok(Steps {
            model: Some(model),
            optimizer: StandardOptimizer::new(settings.training.optimizer),
            training: batches(sizes.train, settings.training.batch),
            evaluation: batches(sizes.train + sizes.held_out, EVALUATION_BATCH),
            learning_rate: settings.training.learning_rate,
            clip: settings.training.clip,
            pool: rayon::ThreadPoolBuilder::new().num_threads(1).build()?,
        })
    }

    fn time(&mut self) -> f64 {
        let Steps { model, optimizer, training, evaluation, learning_rate, clip, pool } = self;
        let began = Instant::now();
        pool.install(|| {
            for (number, batch) in (0..).zip(training.iter()) {
                let present = model.take().expect("every step gives the model back");
                let pass = Pass::training(1, number);
                let (next, _) = train::step(present, optimizer, batch.clone(), pass, *learning_rate, *clip);
                *model = Some(next);
            }
            let model = model.as_ref().expect("every step gives the model back").valid();
            for (number, batch) in (0..).zip(evaluation.iter()) {
                let logits = model.forward(batch.tokens.clone(), Pass::evaluation(1, number));
                std::hint::black_box(logits.into_data());
            }
        });
        began.elapsed().as_secs_f64()
    }
}
