//! Many trials side by side on the cores of this machine.
//!
//! The executor hands out trials, one to each of its workers, and divides the threads among those that are at work. What
//! is done with a trial is behind the trait [`Work`]; [`InStore`] trains it in its folder. A trial that another process
//! holds is left to it; when nothing else is left the executor waits for it, and takes it over should that process die.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::experiment::{Trial, TrialId};
use crate::store::{Holder, Session, State, Status, Store, utc_now};
use crate::training::session::{self, Outcome, Threads, Watch};

/// How often trials that another process holds are looked at again.
const PATIENCE: Duration = Duration::from_millis(300);

/// How a trial ended in this run.
#[derive(Clone, Debug, PartialEq)]
pub enum TrialEnd {
    /// It is over; `already` if it was before this run.
    Over {
        /// How.
        state: State,
        /// Whether it was over before.
        already: bool,
    },
    /// It was asked to stop and has saved where it is.
    Interrupted,
    /// An error ended it.
    Failed(String),
}

/// What became of an attempt at a trial.
#[derive(Clone, Debug, PartialEq)]
pub enum Attempt {
    /// It ended.
    Ended(TrialEnd),
    /// Another process has it.
    HeldBy(Option<Holder>),
}

/// What is done with a trial.
pub trait Work: Sync {
    /// Works on a trial until it ends or the run is asked to stop.
    fn attempt(&self, trial: &Trial, threads: &dyn Threads, stop: &AtomicBool) -> Attempt;
}

/// Whoever wants to see a run at work.
pub trait Observe: Watch {
    /// A trial ended.
    fn ends(&self, _trial: &Trial, _end: &TrialEnd) {}
    /// Nothing is left but trials of other processes.
    fn waits(&self, _trials: usize, _holder: Option<&Holder>) {}
}

/// How much runs side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// Threads that all trials share.
    pub threads: usize,
    /// Trials at once.
    pub jobs: usize,
}

impl Sharing {
    /// As many trials at once as there are cores: a trial uses one core better than two cores one trial, for parts of a
    /// step do not run in parallel. Where there are fewer trials than cores, they share them.
    pub fn new(jobs: Option<usize>, trials: usize) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Sharing { threads, jobs: jobs.unwrap_or(threads).min(trials).max(1) }
    }
}

/// Works on all trials, in their order, and says how each ended; those not begun when `stop` was set are left out.
pub fn run(
    trials: &[Trial],
    sharing: Sharing,
    work: &dyn Work,
    stop: &AtomicBool,
    observe: &dyn Observe,
) -> Vec<(TrialId, TrialEnd)> {
    let queue = Mutex::new(Queue { waiting: trials.iter().collect(), held: VecDeque::new(), ends: Vec::new() });
    let shares = Shares { threads: sharing.threads, active: AtomicUsize::new(0) };
    std::thread::scope(|scope| {
        for _ in 0..sharing.jobs {
            scope.spawn(|| worker(&queue, &shares, work, stop, observe));
        }
    });
    queue.into_inner().unwrap_or_else(PoisonError::into_inner).ends
}

struct Queue<'a> {
    waiting: VecDeque<&'a Trial>,
    /// Trials that another process had when they were last looked at.
    held: VecDeque<(&'a Trial, Option<Holder>)>,
    ends: Vec<(TrialId, TrialEnd)>,
}

fn worker(queue: &Mutex<Queue<'_>>, shares: &Shares, work: &dyn Work, stop: &AtomicBool, observe: &dyn Observe) {
    let queue = || queue.lock().unwrap_or_else(PoisonError::into_inner);
    let pools = WorkerPools { shares, pools: Mutex::default() };
    while !stop.load(Ordering::Relaxed) {
        let next = queue().waiting.pop_front();
        let trial = match next {
            Some(trial) => trial,
            None => {
                let next = queue().held.pop_front();
                let Some((trial, holder)) = next else { return };
                observe.waits(queue().held.len() + 1, holder.as_ref());
                std::thread::sleep(PATIENCE);
                trial
            }
        };
        shares.active.fetch_add(1, Ordering::Relaxed);
        let attempt = catch_unwind(AssertUnwindSafe(|| work.attempt(trial, &pools, stop)));
        shares.active.fetch_sub(1, Ordering::Relaxed);
        let end = match attempt {
            Ok(Attempt::HeldBy(holder)) => {
                queue().held.push_back((trial, holder));
                continue;
            }
            Ok(Attempt::Ended(end)) => end,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                TrialEnd::Failed(format!("the program failed: {}", text.unwrap_or_default()))
            }
        };
        observe.ends(trial, &end);
        queue().ends.push((trial.id, end));
    }
}

/// The threads of the run, and how many trials share them now.
struct Shares {
    threads: usize,
    active: AtomicUsize,
}

/// The thread pools of a worker, by their size; those not in use sleep.
struct WorkerPools<'a> {
    shares: &'a Shares,
    pools: Mutex<HashMap<usize, rayon::ThreadPool>>,
}

impl Threads for WorkerPools<'_> {
    fn run(&self, work: &mut (dyn FnMut() + Send)) {
        let share = self.shares.threads / self.shares.active.load(Ordering::Relaxed).max(1);
        let share = share.max(1);
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let pool = pools.entry(share).or_insert_with(|| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(share).build();
            pool.expect("the system has threads to give")
        });
        pool.install(work);
    }
}

/// Trains trials in their folders.
pub struct InStore<'a> {
    /// The store.
    pub store: &'a Store,
    /// What is written into `env.json`.
    pub session: Session,
    /// Who watches.
    pub watch: &'a dyn Watch,
}

impl Work for InStore<'_> {
    fn attempt(&self, trial: &Trial, threads: &dyn Threads, stop: &AtomicBool) -> Attempt {
        let folder = self.store.trial(trial.id);
        let failed = |error: String| Attempt::Ended(TrialEnd::Failed(error));
        match session::state_if_over(trial, &folder) {
            Ok(Some(state)) => return Attempt::Ended(TrialEnd::Over { state, already: true }),
            Ok(None) => {}
            Err(error) => return failed(error.to_string()),
        }
        let lock = match folder.lock() {
            Ok(Ok(lock)) => lock,
            Ok(Err(holder)) => return Attempt::HeldBy(holder),
            Err(error) => return failed(error.to_string()),
        };
        // Another process may have finished it between the two looks: then this is over at once.
        let run = || session::run(trial, &folder, &lock, &self.session, threads, stop, self.watch);
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(Outcome::Over(state))) => Attempt::Ended(TrialEnd::Over { state, already: false }),
            Ok(Ok(Outcome::Interrupted)) => Attempt::Ended(TrialEnd::Interrupted),
            Ok(Err(error)) => {
                self.note_failure(trial, &error.to_string());
                failed(error.to_string())
            }
            Err(panic) => {
                self.note_failure(trial, "the program failed");
                std::panic::resume_unwind(panic)
            }
        }
    }
}

impl InStore<'_> {
    /// Writes down that a trial failed, if that can be written at all.
    fn note_failure(&self, trial: &Trial, message: &str) {
        let folder = self.store.trial(trial.id);
        let before = folder.status().ok().flatten();
        let _ = folder.write_status(&Status {
            state: State::Failed,
            epoch: before.as_ref().map_or(0, |status| status.epoch),
            epochs: trial.settings.training.epochs,
            best: before.and_then(|status| status.best),
            diverged_in: None,
            message: Some(message.to_owned()),
            updated: utc_now(),
        });
    }
}
