//! What an epoch costs beyond its steps, and what trials cost each other: `cargo bench --bench epoch [-- OPTIONS]`.

mod common;

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use burn::module::Module;
use clap::Parser;
use common::{Error, Output, cores, median};
use semfocus_core::Experiment;
use semfocus_fixture::Scratch;
use semfocus_lab::estimate::random_batch;
use semfocus_lab::jobs::{Executor, Job, Observer, Sharing, Train};
use semfocus_lab::training::BATCH;
use semfocus_lab::{Device, Lab, Plan, Trial};
use semfocus_nn::{Encoder, Pass, StandardOptimizer, train};
use semfocus_store::{Event, JobId, Locks, Program, Session, Store};
use serde::Serialize;

/// Measure an epoch of even pairs against its steps alone, and four trials side by side
#[derive(Debug, Parser)]
struct Args {
    /// Mechanism to train
    #[arg(long, value_name = "M", default_value = "full")]
    mechanism: String,
    /// Rounds of each measurement; medians are printed
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// Training examples; there are two held-out examples for every five of them
    #[arg(long, value_name = "N", default_value_t = 5000, value_parser = clap::value_parser!(u32).range(25..))]
    train: u32,
    #[command(flatten)]
    output: Output,
}

#[derive(Serialize)]
struct Report {
    mechanism: String,
    train_examples: usize,
    evaluated_examples: usize,
    rounds: usize,
    /// Training and evaluation steps alone, on prepared batches, one thread.
    steps_seconds: f64,
    /// The same epoch as `run` trains it, with records and checkpoints on the disk, one thread.
    epoch_seconds: f64,
    /// Epoch over steps.
    overhead: f64,
    cores: usize,
    /// Core seconds of an epoch when four trials run side by side on all cores.
    side_by_side_core_seconds: f64,
    /// That over the epoch alone.
    side_by_side_ratio: f64,
}

fn main() -> ExitCode {
    common::main(|args: &Args| &args.output, measure, print)
}

fn measure(args: &Args) -> Result<Report, Error> {
    let (lab, scratch, rounds) = (Lab::standard(), Scratch::new("bench-epoch"), usize::from(args.rounds));
    let (one, four) = (plan(&lab, args, 1)?, plan(&lab, args, 4)?);
    let alone = |name: String| time_run(&lab, &one, &scratch.path().join(name), Sharing { threads: 1, jobs: 1 });
    eprintln!("measuring an epoch and its steps in turn …");
    let (mut steps_alone, mut epochs, mut later, mut together) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut steps = Steps::new(&lab, &one.1.trials[0])?;
    for round in 0..rounds {
        steps_alone.push(steps.time());
        epochs.push(alone(format!("one-{round}"))?);
    }
    let cores = cores();
    eprintln!("measuring four trials side by side on {cores} cores …");
    for round in 0..rounds {
        // One alone again before each four: the machine may have changed its pace.
        later.push(alone(format!("two-{round}"))?);
        let sharing = Sharing { threads: cores, jobs: cores.min(4) };
        let seconds = time_run(&lab, &four, &scratch.path().join(format!("four-{round}")), sharing)?;
        together.push(seconds * cores.min(4) as f64 / 4.0);
    }
    let (steps_seconds, epoch_seconds) = (median(steps_alone), median(epochs));
    let side_by_side_core_seconds = median(together);
    let sizes = one.1.trials[0].settings.data.sizes;
    Ok(Report {
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
    })
}

fn print(report: &Report) {
    let Report { mechanism, train_examples, evaluated_examples, rounds, steps_seconds, epoch_seconds, .. } = report;
    let Report { overhead, side_by_side_core_seconds, side_by_side_ratio, .. } = report;
    println!("even-pairs, {mechanism}: {train_examples} training examples, {evaluated_examples} evaluated");
    println!("steps alone               {steps_seconds:7.3} s");
    println!("epoch                     {epoch_seconds:7.3} s, {overhead:.3} times the steps");
    println!(
        "four side by side         {side_by_side_core_seconds:7.3} s of a core per epoch, {side_by_side_ratio:.3} times one alone"
    );
    println!("medians of {rounds} rounds");
}

/// Trials of even pairs with the published settings, one for each seed, of one epoch.
fn plan(lab: &Lab, args: &Args, seeds: usize) -> Result<(Experiment, Plan), Error> {
    let overrides = [
        format!("data.train={}", args.train),
        format!("data.held_out={}", args.train * 2 / 5),
        "training.epochs=1".to_owned(),
    ];
    common::plan(lab, "even-pairs", &args.mechanism, seeds, &overrides)
}

/// Seconds to train all trials of a plan in a new store.
fn time_run(lab: &Lab, plan: &(Experiment, Plan), dir: &Path, sharing: Sharing) -> Result<f64, Error> {
    let (experiment, plan) = plan;
    let created = Store::create(dir, experiment, &plan.index(), &Locks::flock(), &mut |_| true)?;
    let store = created.ok_or("another process describes the run")?.store;
    let jobs: Vec<Train> = plan.trials.iter().map(|trial| Train::new(trial.clone(), store.trial(trial.id))).collect();
    let jobs: Vec<&dyn Job> = jobs.iter().map(|job| job as &dyn Job).collect();
    let device = &Device::cpu();
    let program = Program {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: None,
        instruction_set: format!("{:?}", semfocus_nn::InstructionSet::current()),
        device: device.name().to_owned(),
        own: None,
    };
    let session = Session::here(program, sharing.threads, sharing.jobs);
    let (stop, observer) = (AtomicBool::new(false), Nobody);
    let executor = Executor {
        lab,
        device,
        session,
        sharing,
        stop: &stop,
        memory: None,
        locks: &Locks::flock(),
        observer: &observer,
    };
    let began = Instant::now();
    let ends = executor.run(&jobs);
    let seconds = began.elapsed().as_secs_f64();
    if ends.iter().any(|end| !matches!(end, Some(semfocus_store::End::Over(_)))) {
        return Err(format!("not all trials finished: {ends:?}").into());
    }
    Ok(seconds)
}

struct Nobody;

impl Observer for Nobody {
    fn event(&self, _job: &JobId, _event: &Event) {}
}

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
    fn new(lab: &Lab, trial: &Trial) -> Result<Self, Error> {
        let settings = &trial.settings;
        let attention = lab.attention(&settings.mechanism)?;
        let model = Encoder::new(settings.model.clone(), attention, 1, &Device::cpu().autodiff())?;
        let width = trial.source.length(&settings.data);
        let batches = |examples: usize, size: usize| {
            (0..examples.div_ceil(size)).map(|_| random_batch(&settings.model, size, width, false)).collect()
        };
        let sizes = settings.data.sizes;
        Ok(Steps {
            model: Some(model),
            optimizer: StandardOptimizer::new(settings.training.optimizer),
            training: batches(sizes.train, settings.training.batch),
            evaluation: batches(sizes.train + sizes.held_out, BATCH),
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
