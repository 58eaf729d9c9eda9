//! `semfocus work`: takes trials of a prepared run until nothing is left or the time is up. It is what the jobs of a cluster run.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args as ClapArgs;
use semfocus_lab::jobs::{Deadline, Executor, Job, Sharing, Train, cores};
use semfocus_lab::{Lab, memory};
use semfocus_store::{End, Locks, State, Store, StoreError};

use crate::locks::LockArg;
use crate::measure::{MeasureArgs, Measurements};
use crate::models::session;
use crate::progress::Progress;
use crate::signals::Signals;
use crate::slurm::job::{SlurmJob, margin};
use crate::talk::say;
use crate::text::clock;
use crate::{DeviceArg, Error, Exit, time};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Folder of a run, which `semfocus run` or `semfocus slurm submit` has made
    dir: PathBuf,
    /// Trials at once [default: one for each core of the Slurm job or of the machine]
    ///
    /// The results do not depend on this number.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Stop after this long, such as 2h [default: shortly before the time limit of the Slurm job]
    ///
    /// An epoch that cannot be finished in time is not begun, unless no worker of this length could finish it; then it is
    /// interrupted, and another worker goes on from there.
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    time: Option<Duration>,
    #[command(flatten)]
    measure: MeasureArgs,
    #[command(flatten)]
    device: DeviceArg,
    #[command(flatten)]
    lock: LockArg,
    /// Say nothing unless something is wrong
    #[arg(short, long)]
    quiet: bool,
}

/// Why work ended before everything was done.
enum Stopped {
    /// Its time was up, or too short for another epoch.
    TimeIsUp,
    Signal(&'static str),
}

/// A process that works on a run.
struct Worker<'a> {
    args: &'a Args,
    lab: &'a Lab,
    signals: Signals,
    deadline: Option<Deadline>,
    locks: Locks,
}

pub(crate) fn run(args: &Args, lab: &Lab) -> Result<Exit, Error> {
    let store = Store::open(&args.dir)?;
    args.measure.get()?.keep(&args.dir)?;
    let job = SlurmJob::of_this_process();
    let signals = Signals::catch(job.is_some())?;
    let left = args.time.or_else(|| {
        let left = job.as_ref()?.time_left()?;
        Some(left.saturating_sub(margin(left)))
    });
    let deadline = left.and_then(Deadline::after);
    if let Some(deadline) = deadline {
        stop_at(deadline, &signals.stop);
    }
    if !args.quiet {
        let place = job.as_ref().map_or_else(String::new, |job| format!(" in Slurm job {}", job.name));
        let time = left.map_or_else(String::new, |left| format!(" for {}", clock(left.as_secs_f64())));
        say!("working on {}{place}{time}", args.dir.display());
    }
    let locks = args.lock.locks([store.dir().join("trials").as_path()])?;
    let worker = Worker { args, lab, signals, deadline, locks };
    let failed = match worker.work(&store)? {
        Ok(failed) => failed,
        Err(stopped) => return Ok(stopped.tell(job.is_some(), args.quiet)),
    };
    for message in &failed {
        say!("failed: {message}");
    }
    if !args.quiet {
        say!("nothing is left to do; to see the results: semfocus report {}", args.dir.display());
    }
    Ok(if failed.is_empty() { Exit::Done } else { Exit::SomeFailed })
}

impl Worker<'_> {
    /// Trains, then measures. Returns what failed, or why it ended early.
    fn work(&self, store: &Store) -> Result<Result<Vec<String>, Stopped>, Error> {
        let jobs = self.trials(store)?;
        let jobs: Vec<&dyn Job> = jobs.iter().map(|job| job as &dyn Job).collect();
        let sharing = Sharing::trials(self.args.jobs.map(usize::from), jobs.len());
        let ends = self.run(&jobs, "steps", sharing);
        let mut failed = match self.failures(&jobs, &ends) {
            Ok(failed) => failed,
            Err(stopped) => return Ok(Err(stopped)),
        };
        let has_models = ends.iter().flatten().any(|end| matches!(end, End::Over(state) if *state != State::Diverged));
        let steps = Measurements::read(&self.args.dir)?.steps(&store.experiment()?);
        for step in steps.iter().filter(|_| has_models) {
            let (unit, jobs) = step.stage(self.lab, &self.args.dir, self.args.device.device.name())?;
            let jobs: Vec<&dyn Job> = jobs.iter().map(|job| &**job).collect();
            let ends = self.run(&jobs, unit, Sharing::one_by_one(Some(cores())));
            match self.failures(&jobs, &ends) {
                Ok(more) => failed.extend(more),
                Err(stopped) => return Ok(Err(stopped)),
            }
        }
        Ok(Ok(failed))
    }

    /// The trials that the run lists, as long as it plans them.
    fn trials(&self, store: &Store) -> Result<Vec<Train>, Error> {
        let damaged = |error: StoreError| match error {
            StoreError::Damaged { .. } => {
                let dir = self.args.dir.display();
                format!("{error}\nhelp: `semfocus run {dir}` repairs it").into()
            }
            other => Error::from(other),
        };
        let experiment = store.experiment().map_err(damaged)?;
        let mut planned: HashMap<_, _> =
            self.lab.plan(&experiment)?.trials.into_iter().map(|trial| (trial.id, trial)).collect();
        let mut jobs = Vec::new();
        for entry in store.index().map_err(damaged)? {
            let Some(mut trial) = planned.remove(&entry.id) else {
                let dir = self.args.dir.display();
                return Err(format!(
                    "{dir} lists the trial {}, which is not a trial of its experiment: its data files have changed, or another \
                     version of the program made it\nhelp: `semfocus verify {dir}` tells more",
                    entry.title()
                )
                .into());
            };
            trial.settings.training.epochs = entry.epochs;
            let folder = store.trial(trial.id);
            jobs.push(Train::new(trial, folder).until(self.deadline));
        }
        Ok(jobs)
    }

    fn run(&self, jobs: &[&dyn Job], unit: &'static str, sharing: Sharing) -> Vec<Option<End>> {
        let (device, stop) = (&self.args.device.device, &self.signals.stop);
        let progress = Progress::new(jobs, unit, sharing, self.args.quiet, stop.clone());
        let (session, memory) = (session(device, sharing), memory::available());
        let (lab, locks) = (self.lab, &self.locks);
        let ends = Executor { lab, device, session, sharing, stop, memory, locks, observer: &progress }.run(jobs);
        progress.finish();
        ends
    }

    /// What failed, if all jobs were tried.
    fn failures(&self, jobs: &[&dyn Job], ends: &[Option<End>]) -> Result<Vec<String>, Stopped> {
        if ends.iter().any(|end| matches!(end, None | Some(End::Interrupted))) {
            return Err(self.signals.last().map_or(Stopped::TimeIsUp, Stopped::Signal));
        }
        let failed = jobs.iter().zip(ends).filter_map(|(job, end)| match end {
            Some(End::Failed(message)) => Some(format!("{}: {message}", job.title())),
            _ => None,
        });
        Ok(failed.collect())
    }
}

impl Stopped {
    /// Says why it ended. A cluster that ends a job in time has done nothing wrong, so this is no failure there: other jobs go
    /// on. Ctrl-C and a closed terminal are a person's doing.
    fn tell(&self, is_slurm: bool, is_quiet: bool) -> Exit {
        let (why, exit) = match self {
            Stopped::TimeIsUp => ("the time is up".to_owned(), Exit::Done),
            Stopped::Signal(name) if is_slurm && !["INT", "HUP"].contains(name) => {
                (format!("Slurm asked for it (signal {name})"), Exit::Done)
            }
            Stopped::Signal(name) => (format!("signal {name}"), Exit::Interrupted),
        };
        if !is_quiet || exit == Exit::Interrupted {
            say!("Stopped: {why}; progress is saved, and any worker can go on from here.");
        }
        exit
    }
}

/// Sets the flag when the time is up, if the process still lives.
fn stop_at(deadline: Deadline, stop: &Arc<AtomicBool>) {
    let stop = stop.clone();
    let wait = move || {
        while !deadline.left().is_zero() {
            std::thread::sleep(deadline.left());
        }
        stop.store(true, Ordering::Relaxed);
    };
    if std::thread::Builder::new().spawn(wait).is_err() {
        say!("note: there is no thread for the clock; the signal of the cluster has to do");
    }
}
