//! Many trials, many processes: `cargo bench --bench scale [-- OPTIONS]`.
//!
//! - Planning, the claim of the only trial that is left, and `status` in a folder of many trials.
//! - The share of their time that many workers on one folder spend on leases.
//! - A simulation of very many workers on a slow file system, which tells what breaks first.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clap::Parser;
use common::{Error, Output};
use semfocus_core::Experiment;
use semfocus_fixture::{Fixture, Scratch, jump};
use semfocus_lab::jobs::{Context, Executor, Job, JobError, Observer, Sharing};
use semfocus_lab::{Device, Lab};
use semfocus_store::disk::{Answer, Operation, Watcher, watch};
use semfocus_store::files::write_whole;
use semfocus_store::{End, Event, JobId, JobKind, Locks, Program, Session, State, Taken};
use serde::Serialize;

/// Files that a worker writes in an epoch: record, two checkpoints, the one before, event, status.
const FILES: usize = 6;

/// Operations that tell a worker that a trial is over: it looks for a file, reads the record and the status.
const OVER: usize = 3;

/// Measure planning, claiming and `status` with many trials, leases of many workers, and simulate very many
#[derive(Debug, Parser)]
struct Args {
    /// Trials in the folder
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(2..=100_000))]
    trials: u32,
    /// Workers that share a folder
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
    /// Seconds of an epoch of the measured workers
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    epoch: f64,
    /// Workers in the simulation
    #[arg(long, value_name = "N", default_value_t = 1000)]
    simulated: usize,
    /// Milliseconds of a metadata operation in the simulation
    #[arg(long, value_name = "MS", default_value_t = 50.0)]
    latency: f64,
    #[command(flatten)]
    output: Output,
}

#[derive(Serialize)]
struct Report {
    trials: u32,
    /// `semfocus run --dry-run`, all but one trial finished.
    plan_seconds: f64,
    /// From the start of `semfocus run` to the claim of the only trial that is left.
    claim_seconds: f64,
    status_seconds: f64,
    workers: u16,
    epoch_seconds: f64,
    /// Share of a worker's time that is not its epochs, with locks of the operating system and with leases.
    flock_share: f64,
    lease_share: f64,
    /// Operations on files: a free folder, a held one, the check of one file, giving up.
    operations: Operations,
    simulated: Vec<Simulated>,
}

#[derive(Clone, Copy, Serialize)]
struct Operations {
    take: usize,
    held: usize,
    check: usize,
    release: usize,
}

fn main() -> ExitCode {
    common::main(|args: &Args| &args.output, measure, print)
}

fn measure(args: &Args) -> Result<Report, Error> {
    let (plan_seconds, claim_seconds, status_seconds) = commands(args)?;
    let operations = operations()?;
    Ok(Report {
        trials: args.trials,
        plan_seconds,
        claim_seconds,
        status_seconds,
        workers: args.workers,
        epoch_seconds: args.epoch,
        flock_share: share(args, false),
        lease_share: share(args, true),
        operations,
        simulated: simulations(args, operations),
    })
}

/// Seconds of a plan, a claim and a status of the program itself.
fn commands(args: &Args) -> Result<(f64, f64, f64), Error> {
    let scratch = Scratch::new("bench-scale");
    let seeds = args.trials / 2;
    let text = format!(
        "name = \"large\"\nclaim = \"Nothing.\"\ntask = \"even-pairs\"\nmechanisms = [\"full\", \"topk:2\"]\nseeds = {seeds}\n\
         data = {{ length = 6, train = 12, held_out = 6 }}\nmodel = {{ blocks = 1, d_model = 4, d_mlp = 4 }}\n\
         training = {{ epochs = 3, batch = 6 }}\n"
    );
    let file = scratch.path().join("large.toml");
    std::fs::write(&file, &text)?;
    let experiment = Experiment::from_toml("large.toml", &text)?;
    let plan = Lab::standard().plan(&experiment)?;
    let last = plan.trials.last().ok_or("there are no trials")?.id;
    let dir = scratch.path().join("run");
    // Every file is synced when it is written, so many are made in memory and then copied.
    let memory = Path::new("/dev/shm");
    let made =
        if memory.is_dir() { memory.join(format!("semfocus-scale-{}", std::process::id())) } else { dir.clone() };
    let finished = |settings: &semfocus_core::TrialSettings| {
        let records = (1..=3).map(|epoch| jump(epoch, None, 0.5)).collect();
        let is_left = semfocus_core::TrialId::new(settings) == last;
        (!is_left).then_some(Fixture { records, state: State::Finished, probes: Vec::new() })
    };
    semfocus_fixture::store(&made, &experiment, finished)?;
    if made != dir {
        copy(&made, &dir)?;
        std::fs::remove_dir_all(&made)?;
    }
    let program = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_semfocus"));
        command.args(arguments).arg(if arguments[0] == "run" { "-o" } else { "--" }).arg(&dir);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let file = file.to_str().ok_or("the path is not text")?;
    let timed = |mut command: Command| {
        let began = Instant::now();
        command.status().map(|_| began.elapsed().as_secs_f64())
    };
    let plan_seconds = timed(program(&["run", file, "--dry-run"]))?;
    let status_seconds = timed(program(&["status"]))?;
    let began = Instant::now();
    let mut run = program(&["run", file, "--yes", "-q", "-j", "1"]).spawn()?;
    let claimed = dir.join("trials").join(last.to_string()).join("lock");
    while !claimed.exists() && run.try_wait()?.is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
    let claim_seconds = began.elapsed().as_secs_f64();
    run.kill()?;
    run.wait()?;
    Ok((plan_seconds, claim_seconds, status_seconds))
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target)?
        } else {
            std::fs::copy(entry.path(), target).map(|_| ())?
        }
    }
    Ok(())
}

/// A trial of sleep, which asks for its lease as often as training does.
struct Sleeper {
    number: usize,
    folder: PathBuf,
    epoch: Duration,
    is_over: Arc<AtomicBool>,
    slept: Arc<Mutex<(Duration, Instant)>>,
}

impl Job for Sleeper {
    fn id(&self) -> JobId {
        JobId {
            kind: JobKind::Train,
            trial: format!("{:x}", self.number).parse().expect("a number"),
            part: String::new(),
        }
    }
    fn title(&self) -> String {
        self.number.to_string()
    }
    fn folder(&self) -> &Path {
        &self.folder
    }
    fn unit(&self) -> &'static str {
        "steps"
    }

    fn units(&self) -> usize {
        1
    }
    fn state_if_over(&self) -> Result<Option<State>, JobError> {
        Ok(self.is_over.load(Ordering::SeqCst).then_some(State::Finished))
    }
    fn run(&self, context: &Context<'_>) -> Result<End, JobError> {
        for _ in 0..5 {
            std::thread::sleep(self.epoch);
            (0..FILES).try_for_each(|_| context.lease.confirm())?;
        }
        self.is_over.store(true, Ordering::SeqCst);
        let mut slept = self.slept.lock().expect("nobody panics");
        *slept = (slept.0 + 5 * self.epoch, Instant::now());
        Ok(End::Over(State::Finished))
    }
}

struct Nobody;

impl Observer for Nobody {
    fn event(&self, _job: &JobId, _event: &Event) {}
}

/// The share of their time that workers, each with its own locks, do not work: until the end of each one's last trial.
fn share(args: &Args, uses_claims: bool) -> f64 {
    let scratch = Scratch::new("bench-scale-workers");
    let (lab, device, stop) = (Lab::standard(), Device::cpu(), AtomicBool::new(false));
    let over: Vec<_> = (0..2 * usize::from(args.workers)).map(|_| Arc::new(AtomicBool::new(false))).collect();
    let began = Instant::now();
    let work = || {
        let locks = if uses_claims { Locks::lease() } else { Locks::flock() };
        let slept = Arc::new(Mutex::new((Duration::ZERO, began)));
        let sleeper = |number: usize| Sleeper {
            number,
            folder: scratch.path().join(number.to_string()),
            epoch: Duration::from_secs_f64(args.epoch),
            is_over: over[number].clone(),
            slept: slept.clone(),
        };
        let jobs: Vec<Sleeper> = (0..over.len()).map(sleeper).collect();
        let jobs: Vec<&dyn Job> = jobs.iter().map(|job| job as &dyn Job).collect();
        let text = || "bench".to_owned();
        let program = Program { version: text(), commit: None, instruction_set: text(), device: text(), own: None };
        let (session, sharing) = (Session::here(program, 1, 1), Sharing { threads: 1, jobs: 1 });
        let (lab, device, stop, locks, observer) = (&lab, &device, &stop, &locks, &Nobody);
        Executor { lab, device, session, sharing, stop, memory: None, locks, observer }.run(&jobs);
        let (slept, last) = *slept.lock().expect("nobody panics");
        (slept.as_secs_f64(), (last - began).as_secs_f64())
    };
    let times: Vec<(f64, f64)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..args.workers).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a worker does not panic")).collect()
    });
    let (slept, all) = times.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    1.0 - slept / all
}

struct Counter(AtomicUsize);

impl Watcher for Counter {
    fn before(&self, _operation: &Operation<'_>) -> Answer {
        self.0.fetch_add(1, Ordering::SeqCst);
        Answer::Go
    }
}

/// Counts the operations on files of a lease.
fn operations() -> Result<Operations, Error> {
    let scratch = Scratch::new("bench-scale-operations");
    let counter = Arc::new(Counter(AtomicUsize::new(0)));
    let _watch = watch(scratch.path(), counter.clone());
    let count = || counter.0.swap(0, Ordering::SeqCst);
    let (locks, folder) = (Locks::lease(), scratch.path().join("trial"));
    let taken = locks.take(&folder)?;
    let take = count();
    assert!(matches!(locks.take(&folder)?, Taken::Held(_)), "a folder is held once");
    let held = count();
    write_whole(&folder.join("status.json"), b"{}")?;
    let leased = count();
    drop(taken);
    let release = count();
    write_whole(&folder.join("status.json"), b"{}")?;
    Ok(Operations { take, held, check: leased - count(), release })
}

/// What becomes of many workers.
#[derive(Serialize)]
struct Simulated {
    /// Operations that the file system answers in a second; none if as many as are asked for.
    capacity: Option<f64>,
    /// Seconds until the last worker has its first trial: if all look at the trials in order, and with leaps.
    in_order: f64,
    with_leaps: f64,
    /// Seconds until a worker that comes last knows that all trials are over.
    nothing_left: f64,
    /// The same for all workers at once, which happens at the end of a run.
    all_find_nothing: f64,
    /// Operations a second that beats alone cause, and the whole of training.
    beats: f64,
    training: f64,
    /// Share of the time that leases take from trials of 30 epochs of 10 s.
    share: f64,
}

fn simulations(args: &Args, operations: Operations) -> Vec<Simulated> {
    let capacities = [None, Some(20_000.0), Some(2_000.0)];
    capacities.into_iter().map(|capacity| simulate(args, operations, capacity)).collect()
}

fn simulate(args: &Args, operations: Operations, capacity: Option<f64>) -> Simulated {
    let (workers, trials, latency) = (args.simulated, args.trials as usize, args.latency / 1000.0);
    // When the file system is the limit, the operations of all workers wait for each other.
    let seconds = |each: f64, all: f64| (each * latency).max(capacity.map_or(0.0, |capacity| all / capacity));
    let first = |with_leaps: bool| {
        let attempts = first_claims(workers, trials, with_leaps);
        let cost = |attempts: &usize| (attempts * (operations.held + OVER) + operations.take + OVER) as f64;
        seconds(attempts.iter().map(cost).fold(0.0, f64::max), attempts.iter().map(cost).sum())
    };
    let nothing = (trials * OVER) as f64;
    let (epochs, epoch) = (30.0, 10.0);
    let of_trial = (operations.take + operations.release) as f64 + epochs * (FILES * operations.check) as f64;
    // Besides the lease, a file is written, synced, renamed, and its folder synced.
    let of_files = epochs * (FILES * 4) as f64;
    let lost = seconds(of_trial, of_trial * workers as f64);
    let trial = epochs * epoch + seconds(of_files, of_files * workers as f64);
    Simulated {
        capacity,
        in_order: first(false),
        with_leaps: first(true),
        nothing_left: seconds(nothing, nothing),
        all_find_nothing: seconds(nothing, nothing * workers as f64),
        beats: workers as f64 / 20.0,
        training: workers as f64 * (of_trial + of_files) / (trial + lost),
        share: lost / (trial + lost),
    }
}

/// Held trials that each of many workers meets before its first trial, if all start at once and take turns at looking.
fn first_claims(workers: usize, trials: usize, with_leaps: bool) -> Vec<usize> {
    let mut random = 1u64;
    let mut below = |limit: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % limit.max(1)
    };
    let (mut is_held, mut places, mut attempts) =
        (vec![false; trials], vec![Some(0usize); workers], vec![0usize; workers]);
    while places.iter().any(Option::is_some) {
        for (place, attempts) in places.iter_mut().zip(&mut attempts) {
            let Some(at) = *place else { continue };
            if !std::mem::replace(&mut is_held[at], true) || *attempts > trials {
                *place = None;
                continue;
            }
            let leap = if with_leaps { below(1 << (*attempts).min(16)) } else { 0 };
            *place = Some((at + 1 + leap) % trials);
            *attempts += 1;
        }
    }
    attempts
}

fn print(report: &Report) {
    let Report { trials, plan_seconds, claim_seconds, status_seconds, workers, epoch_seconds, .. } = report;
    println!("{trials} trials in a folder, all but one finished");
    println!("  plan   {plan_seconds:6.2} s");
    println!("  claim  {claim_seconds:6.2} s   from the start of `run` to the claim of the one that is left");
    println!("  status {status_seconds:6.2} s");
    println!();
    println!("{workers} workers on a folder, trials of 5 epochs of {epoch_seconds} s: time that is not their epochs");
    println!("  flock  {:6.2} %", 100.0 * report.flock_share);
    println!("  lease  {:6.2} %", 100.0 * report.lease_share);
    println!();
    let Operations { take, held, check, release } = report.operations;
    println!("operations of a lease: take {take}, find held {held}, check before a file {check}, give up {release}");
    println!();
    println!("simulated workers, seconds; operations a second");
    println!("capacity   first trial: in order  with leaps   nothing left: one      all   beats  training   leases");
    for one in &report.simulated {
        let Simulated { in_order, with_leaps, nothing_left, all_find_nothing, beats, training, share, .. } = one;
        let capacity = one.capacity.map_or_else(|| "any".to_owned(), |capacity| format!("{capacity:.0}/s"));
        println!(
            "{capacity:9} {in_order:22.0} {with_leaps:11.0} {nothing_left:19.0} {all_find_nothing:8.0} {beats:7.0} {training:9.0} {:7.1} %",
            100.0 * share
        );
    }
}
