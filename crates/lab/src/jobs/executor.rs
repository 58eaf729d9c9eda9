//! Many jobs side by side on the cores of this machine.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use semfocus_core::Allocation;
use semfocus_store::{End, Event, EventLog, Holder, JobId, Lease, Locks, Session, StoreError, Taken};

use super::{Context, Job, JobError, Threads};
use crate::threads::thread_pool;
use crate::{Device, Lab};

/// The time between two looks at folders that other processes hold is at least this, or that between two looks at one of them.
const SHORTEST_PATIENCE: Duration = Duration::from_millis(300);

/// How often the memory is looked at again.
const PATIENCE: Duration = Duration::from_millis(300);

/// A worker that waits notices after this time that it should stop.
const ATTENTION: Duration = Duration::from_millis(200);

/// Is told what happens, on the threads of the jobs.
pub trait Observer: Sync {
    /// Something happened in a job. A job that was over before has a [`Event::JobEnded`] without a [`Event::JobStarted`].
    fn event(&self, job: &JobId, event: &Event);

    /// Nothing is left but jobs whose folders another process holds.
    fn waiting(&self, _jobs: usize, _holder: Option<&Holder>) {}
}

/// How much runs side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// Threads that all jobs share.
    pub threads: usize,
    /// Jobs at once.
    pub jobs: usize,
}

impl Sharing {
    /// As many trials at once as there are cores: two trials on one core each are done sooner than one after the other on
    /// two cores, because parts of a step do not run in parallel. Where there are fewer trials than cores, they share them.
    pub fn trials(jobs: Option<usize>, trials: usize) -> Self {
        let threads = Allocation::here().cores;
        Sharing { threads, jobs: jobs.unwrap_or(threads).min(trials).max(1) }
    }

    /// One job after the other, each on all threads: for jobs that run in parallel inside.
    pub fn one_by_one(threads: Option<usize>) -> Self {
        Sharing { threads: threads.unwrap_or(Allocation::here().cores), jobs: 1 }
    }
}

/// Runs jobs side by side on the cores of this machine.
pub struct Executor<'a> {
    /// Mechanisms and tasks.
    pub lab: &'a Lab,
    /// Where the arithmetic runs.
    pub device: &'a Device,
    /// What `env.json` says about this process.
    pub session: Session,
    /// How much runs side by side.
    pub sharing: Sharing,
    /// Set when the run should stop soon.
    pub stop: &'a AtomicBool,
    /// Bytes of memory that all jobs share; none if that is not known.
    pub memory: Option<u64>,
    /// How the folders of jobs are taken.
    pub locks: &'a Locks,
    /// Who is told what happens.
    pub observer: &'a dyn Observer,
}

impl Executor<'_> {
    /// Works on all jobs, in their order, and says how each ended; those not begun when the run was stopped have no end.
    pub fn run(&self, jobs: &[&dyn Job]) -> Vec<Option<End>> {
        let mut waiting: VecDeque<usize> = (0..jobs.len()).collect();
        if !self.locks.uses_claims() {
            // What is left comes first: to check all files of what is over takes longer than to see that it is.
            waiting.make_contiguous().sort_by_cached_key(|number| jobs[*number].seems_over().is_some());
        }
        let queue = Mutex::new(Queue { waiting, held: VecDeque::new(), leap: 0, ends: vec![None; jobs.len()] });
        let shares = Shares { threads: self.sharing.threads, active: AtomicUsize::new(0), memory: Mutex::new(0) };
        let work = || worker(jobs, &queue, &shares, self);
        std::thread::scope(|scope| {
            let workers = (0..self.sharing.jobs.min(jobs.len()))
                .map_while(|_| std::thread::Builder::new().spawn_scoped(scope, work).ok());
            // If the system gives no thread at all, this one does the work.
            if workers.count() == 0 {
                work();
            }
        });
        queue.into_inner().unwrap_or_else(PoisonError::into_inner).ends
    }

    /// Waits for this time, or until the run is stopped.
    fn pause(&self, time: Duration) {
        let began = Instant::now();
        while !self.stop.load(Ordering::Relaxed) && began.elapsed() < time {
            std::thread::sleep(ATTENTION.min(time.saturating_sub(began.elapsed())));
        }
    }
}

struct Queue {
    waiting: VecDeque<usize>,
    /// Jobs whose folders another process held when they were last looked at.
    held: VecDeque<(usize, Option<Holder>)>,
    /// Jobs that were held or over, one after the other.
    leap: u32,
    ends: Vec<Option<End>>,
}

impl Queue {
    /// Continues after a job that another process holds or has finished. Where many processes share the jobs, the same is
    /// probably true of the next ones: the more there were, the further this process leaps, by a number that differs between
    /// processes. What it leaps over it tries last.
    fn leap(&mut self) {
        let most = (1usize << self.leap.min(16)).min(self.waiting.len());
        self.leap += 1;
        if most > 1 {
            let random = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), most) as usize;
            self.waiting.rotate_left(random % most);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn worker(jobs: &[&dyn Job], queue: &Mutex<Queue>, shares: &Shares, executor: &Executor<'_>) {
    let pools = WorkerPools { shares, pools: Mutex::default() };
    while !executor.stop.load(Ordering::Relaxed) {
        let next = lock(queue).waiting.pop_front();
        let number = match next {
            Some(number) => number,
            None => {
                let next = lock(queue).held.pop_front();
                let Some((number, holder)) = next else { return };
                let others = lock(queue).held.len();
                executor.observer.waiting(others + 1, holder.as_ref());
                // Each of them is looked at again after that time, not one after the other.
                let patience = executor.locks.patience();
                executor.pause((patience / (others as u32 + 1)).max(patience.min(SHORTEST_PATIENCE)));
                number
            }
        };
        let job = jobs[number];
        let memory = job.memory(pools.count());
        if !shares.take_memory(memory, executor) {
            return;
        }
        shares.active.fetch_add(1, Ordering::Relaxed);
        let attempt = attempt(job, memory, &pools, executor);
        shares.active.fetch_sub(1, Ordering::Relaxed);
        *lock(&shares.memory) -= memory;
        match attempt {
            Attempt::Held(holder) => {
                let mut queue = lock(queue);
                queue.leap();
                queue.held.push_back((number, holder));
            }
            Attempt::Over(end) => {
                let mut queue = lock(queue);
                queue.ends[number] = Some(end);
                if executor.locks.uses_claims() {
                    queue.leap();
                }
            }
            Attempt::Ended(end) => {
                // It was asked to stop, or has no time for more; nor has the next one.
                let is_interrupted = end == End::Interrupted;
                let mut queue = lock(queue);
                (queue.ends[number], queue.leap) = (Some(end), 0);
                if is_interrupted {
                    return;
                }
            }
        }
    }
}

enum Attempt {
    Ended(End),
    /// Nothing was left to do.
    Over(End),
    Held(Option<Holder>),
}

/// Takes the lease of a job's folder and works on the job, unless it is over.
fn attempt(job: &dyn Job, memory: u64, threads: &dyn Threads, executor: &Executor<'_>) -> Attempt {
    let id = job.id();
    let ended = |end: End| {
        executor.observer.event(&id, &Event::JobEnded { end: end.clone() });
        Attempt::Ended(end)
    };
    let failed = |error: JobError| ended(End::Failed(error.to_string()));
    let over = |state| {
        executor.observer.event(&id, &Event::JobEnded { end: End::Over(state) });
        Attempt::Over(End::Over(state))
    };
    // Where many machines share a folder, each of them checking all files of all trials would be too much: `verify` does.
    if executor.locks.uses_claims()
        && let Some(state) = job.seems_over()
    {
        return over(state);
    }
    match job.state_if_over() {
        Ok(Some(state)) => return over(state),
        Ok(None) => {}
        Err(error) => return failed(error),
    }
    let lease = match executor.locks.take(job.folder()) {
        Ok(Taken::Lease(lease)) => lease,
        Ok(Taken::Held(holder)) => return Attempt::Held(holder),
        Err(error) => return failed(error.into()),
    };
    // Another process may have finished it between the two looks.
    match job.state_if_over() {
        Ok(Some(state)) => return over(state),
        Ok(None) => {}
        Err(error) => return failed(error),
    }
    let log = Logged::new(&lease);
    let emit = |event: Event| {
        executor.observer.event(&id, &event);
        log.event(&id, &event);
    };
    let Executor { lab, device, session, stop, .. } = executor;
    let context = Context { lab, device, session, threads, stop, lease: &lease, emit: &emit };
    let run = || match executor.memory {
        Some(limit) if memory > limit => Err(JobError::TooLarge { needed: memory, limit }),
        _ => job.run(&context),
    };
    let end = match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(end)) => end,
        // Another process continues the job. This one writes nothing more, and looks at the job again later.
        Ok(Err(JobError::Store(error @ StoreError::LostLease { .. }))) => {
            let text = format!("lost the lease: {error} after this process missed its heartbeats");
            executor.observer.event(&id, &Event::Warning { text });
            let StoreError::LostLease { holder, .. } = error else { unreachable!("it was matched above") };
            return Attempt::Held(holder.map(|holder| *holder));
        }
        Ok(Err(error)) => End::Failed(error.to_string()),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            End::Failed(format!("the program failed: {}", text.unwrap_or_default()))
        }
    };
    if let End::Failed(message) = &end {
        job.note_failure(&lease, message);
    }
    emit(Event::JobEnded { end: end.clone() });
    Attempt::Ended(end)
}

/// The log of a folder, which progress is written to now and then only.
struct Logged {
    log: EventLog,
    /// Time between two reports of progress at the beginning of a job.
    shortest: Duration,
    began: Instant,
    last_progress: Mutex<Option<Instant>>,
}

impl Logged {
    fn new(lease: &Lease) -> Self {
        // Under a claim every line costs a copy of the file.
        let shortest = Duration::from_secs(if lease.is_claim() { 10 } else { 1 });
        let log = EventLog::new(lease.folder());
        Logged { log, shortest, began: Instant::now(), last_progress: Mutex::new(None) }
    }

    fn event(&self, job: &JobId, event: &Event) {
        if matches!(event, Event::Progress { .. }) {
            // Every second at first, every ten seconds in long jobs: enough to see it move, and little to store.
            let interval = (self.began.elapsed() / 100).clamp(self.shortest, 10 * self.shortest);
            let mut last = lock(&self.last_progress);
            if last.is_some_and(|last| last.elapsed() < interval) {
                return;
            }
            *last = Some(Instant::now());
        }
        // The log tells what happens; results do not depend on it.
        let _ = self.log.append(job, event);
    }
}

/// What the jobs share.
struct Shares {
    threads: usize,
    /// Jobs that are worked on now.
    active: AtomicUsize,
    /// Bytes of memory that those need.
    memory: Mutex<u64>,
}

impl Shares {
    /// Waits until a job fits into the memory together with those that are worked on; alone, it is always let in. Says whether it
    /// is, or the run was stopped before.
    fn take_memory(&self, needed: u64, executor: &Executor<'_>) -> bool {
        while !executor.stop.load(Ordering::Relaxed) {
            let mut taken = lock(&self.memory);
            if *taken == 0 || executor.memory.is_none_or(|limit| taken.saturating_add(needed) <= limit) {
                *taken = taken.saturating_add(needed);
                return true;
            }
            drop(taken);
            std::thread::sleep(PATIENCE);
        }
        false
    }
}

/// The thread pools of a worker, by their size; those not in use sleep.
struct WorkerPools<'a> {
    shares: &'a Shares,
    pools: Mutex<HashMap<usize, Option<rayon::ThreadPool>>>,
}

impl Threads for WorkerPools<'_> {
    fn count(&self) -> usize {
        (self.shares.threads / self.shares.active.load(Ordering::Relaxed).max(1)).max(1)
    }

    fn run(&self, work: &mut (dyn FnMut() + Send)) {
        let mut pools = lock(&self.pools);
        let count = self.count();
        match pools.entry(count).or_insert_with(|| thread_pool(count)) {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }
}
