//! `semfocus work`: takes trials of a prepared run until nothing is left or the time is up. It is what the jobs of a cluster run.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args as ClapArgs;
use semfocus_core::Allocation;
use semfocus_lab::jobs::{Deadline, Job, Sharing, Train, jobs};
use semfocus_lab::{Lab, Planner, Tokenizers};
use semfocus_store::{End, Locks, Store, StoreError};

use crate::execute::{Execution, as_jobs};
use crate::locks::LockArg;
use crate::measure::{self, MeasureArgs};
use crate::signals::{Signals, stop_at};
use crate::slurm::job::{margin, time_left};
use crate::talk::say;
use crate::text::{clock, command_on};
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
    /// interrupted, and another worker continues from there.
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    time: Option<Duration>,
    /// Keep trials that another version of your own mechanism or task has made, and continue them
    #[arg(long)]
    accept_code: bool,
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

/// How the work ended.
enum Worked {
    /// Everything was tried; what failed, in words.
    All(Vec<String>),
    Stopped(Stopped),
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
    store.keep_measurements(&args.measure.get()?)?;
    let allocation = Allocation::here();
    let job = allocation.job.as_ref();
    let signals = Signals::catch(job.is_some())?;
    let left = args.time.or_else(|| {
        let left = time_left(allocation)?;
        Some(left.saturating_sub(margin(left)))
    });
    let deadline = left.and_then(Deadline::after);
    if let Some(deadline) = deadline {
        stop_at(deadline, &signals.stop);
    }
    if !args.quiet {
        let place = job.map_or_else(String::new, |job| format!(" in Slurm job {job}"));
        let time = left.map_or_else(String::new, |left| format!(" for {}", clock(left.as_secs_f64())));
        say!("working on {}{place}{time}", args.dir.display());
    }
    let locks = args.lock.locks([store.dir().join("trials").as_path()])?;
    let worker = Worker { args, lab, signals, deadline, locks };
    let failed = match worker.work(&store)? {
        Worked::All(failed) => failed,
        Worked::Stopped(why) => return Ok(why.tell(job.is_some(), args.quiet)),
    };
    for message in &failed {
        say!("failed: {message}");
    }
    if !args.quiet {
        say!("Nothing is left to do. To see the results:\n  {}", command_on("report", &args.dir));
    }
    Ok(if failed.is_empty() { Exit::Done } else { Exit::SomeFailed })
}

impl Worker<'_> {
    /// Trains, then measures.
    fn work(&self, store: &Store) -> Result<Worked, Error> {
        let (device, locks, stop) = (&self.args.device.device, &self.locks, &self.signals.stop);
        let execution = Execution { lab: self.lab, device, locks, stop, is_quiet: self.args.quiet };
        let trials = self.trials(store)?;
        let sharing = Sharing::trials(self.args.jobs.map(usize::from), trials.len());
        let mut worked = self.run(&execution, &as_jobs(&trials), sharing);
        for measurement in measure::all(store, &store.experiment()?, &[])? {
            let Worked::All(failed) = &mut worked else { break };
            let jobs = jobs(&measurement, &measure::models(&measurement, self.lab, store)?.models)?;
            let jobs: Vec<&dyn Job> = jobs.iter().map(|job| &**job).collect();
            match self.run(&execution, &jobs, Sharing::one_by_one(None)) {
                Worked::All(more) => failed.extend(more),
                stopped => worked = stopped,
            }
        }
        Ok(worked)
    }

    /// The trials that the run lists, as long as it plans them.
    fn trials(&self, store: &Store) -> Result<Vec<Train>, Error> {
        let damaged = |error: StoreError| match error {
            StoreError::Damaged { .. } => {
                format!("{error}\nhelp: `{}` repairs it", command_on("run", &self.args.dir)).into()
            }
            other => Error::from(other),
        };
        let experiment = store.experiment().map_err(damaged)?;
        let mut planner = Planner::new(self.lab).with_tokenizers(Tokenizers::Kept(store.clone()));
        let plan = planner.plan(&experiment)?;
        let mut planned: HashMap<_, _> = plan.trials.into_iter().map(|trial| (trial.id, trial)).collect();
        let (finished, mut jobs) = (store.finished(), Vec::new());
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
            let (folder, listed) = (store.trial(trial.id), finished.get(&trial.id));
            jobs.push(
                Train::new(trial, folder)
                    .until(self.deadline)
                    .accepting_other_code(self.args.accept_code)
                    .listed(listed),
            );
        }
        Ok(jobs)
    }

    fn run(&self, execution: &Execution<'_>, jobs: &[&dyn Job], sharing: Sharing) -> Worked {
        let ends = execution.run(jobs, sharing);
        if ends.iter().any(|end| matches!(end, None | Some(End::Interrupted))) {
            return Worked::Stopped(self.signals.last().map_or(Stopped::TimeIsUp, Stopped::Signal));
        }
        let failed = jobs.iter().zip(&ends).filter_map(|(job, end)| {
            let message = end.as_ref().and_then(End::failure)?;
            Some(format!("{}: {message}", job.title()))
        });
        Worked::All(failed.collect())
    }
}

impl Stopped {
    /// Says why it ended. A cluster that ends a job in time has done nothing wrong, so this is not a failure there: other jobs
    /// continue. Ctrl-C and a closed terminal are a person's doing.
    fn tell(&self, is_slurm: bool, is_quiet: bool) -> Exit {
        let (why, exit) = match self {
            Stopped::TimeIsUp => ("the time is up".to_owned(), Exit::Done),
            Stopped::Signal(name) if is_slurm && !["INT", "HUP"].contains(name) => {
                (format!("Slurm asked for it (signal {name})"), Exit::Done)
            }
            Stopped::Signal(name) => (format!("signal {name}"), Exit::Interrupted),
        };
        if !is_quiet || exit == Exit::Interrupted {
            say!("Stopped: {why}; progress is saved, and any worker can continue from here.");
        }
        exit
    }
}
