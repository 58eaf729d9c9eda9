//! The executor with jobs that only pretend: leases, waiting, failures, stopping, sharing of threads, the event log.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use semfocus_core::{EpochRecord, Experiment, Request};
use semfocus_fixture::Scratch;
use semfocus_lab::jobs::{Context, Deadline, Executor, Job, JobError, Observer, Sharing, Train};
use semfocus_lab::{Device, Lab};
use semfocus_store::{
    Cursor, End, Event, EventLog, Holder, JobId, JobKind, Locks, Program, Session, State, Store, StoreError, Taken,
};

const DONE: End = End::Over(State::Finished);

/// A job that does what a function says.
struct Pretend<'a> {
    number: usize,
    folder: PathBuf,
    work: &'a (dyn Fn(usize, &Context<'_>) -> Result<End, JobError> + Sync),
    is_over: bool,
}

impl Job for Pretend<'_> {
    fn id(&self) -> JobId {
        JobId { kind: JobKind::Train, trial: format!("{:x}", self.number).parse().unwrap(), part: String::new() }
    }
    fn title(&self) -> String {
        format!("job {}", self.number)
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
        Ok(self.is_over.then_some(State::Finished))
    }
    fn run(&self, context: &Context<'_>) -> Result<End, JobError> {
        (self.work)(self.number, context)
    }
}

#[derive(Default)]
struct Heard {
    ends: AtomicUsize,
    waits: AtomicUsize,
}

impl Observer for Heard {
    fn event(&self, _job: &JobId, event: &Event) {
        if matches!(event, Event::JobEnded { .. }) {
            self.ends.fetch_add(1, Ordering::Relaxed);
        }
    }
    fn waiting(&self, _jobs: usize, _holder: Option<&Holder>) {
        self.waits.fetch_add(1, Ordering::Relaxed);
    }
}

fn session() -> Session {
    let text = || "test".to_owned();
    let program = Program { version: text(), commit: None, instruction_set: text(), device: text(), own: None };
    Session::here(program, 1, 1)
}

/// Runs `count` pretended jobs, each in a folder of its own.
fn run(
    scratch: &Scratch,
    count: usize,
    sharing: Sharing,
    heard: &Heard,
    stop: &AtomicBool,
    work: &(dyn Fn(usize, &Context<'_>) -> Result<End, JobError> + Sync),
) -> Vec<Option<End>> {
    let job = |number| Pretend { number, folder: folder(scratch, number), work, is_over: false };
    let jobs: Vec<Pretend<'_>> = (0..count).map(job).collect();
    let jobs: Vec<&dyn Job> = jobs.iter().map(|job| job as &dyn Job).collect();
    let (lab, device) = (Lab::standard(), Device::cpu());
    Executor {
        lab: &lab,
        device: &device,
        session: session(),
        sharing,
        stop,
        memory: None,
        locks: &Locks::flock(),
        observer: heard,
    }
    .run(&jobs)
}

fn folder(scratch: &Scratch, number: usize) -> PathBuf {
    scratch.path().join(number.to_string())
}

#[test]
fn every_job_is_worked_on_once_and_at_most_so_many_at_a_time() {
    let scratch = Scratch::new("executor-once");
    let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let (seen, three) = (Mutex::new(vec![0; 9]), Barrier::new(3));
    let heard = Heard::default();
    let sharing = Sharing { threads: 2, jobs: 3 };
    let ends = run(&scratch, 9, sharing, &heard, &AtomicBool::new(false), &|number, _| {
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        seen.lock().unwrap()[number] += 1;
        three.wait();
        std::thread::sleep(Duration::from_millis(20));
        now.fetch_sub(1, Ordering::SeqCst);
        Ok(DONE)
    });
    assert_eq!(ends, vec![Some(DONE); 9]);
    assert_eq!((most.into_inner(), heard.ends.into_inner()), (3, 9));
    assert_eq!(seen.into_inner().unwrap(), [1; 9]);
}

#[test]
fn a_job_that_fails_does_not_take_others_with_it() {
    let scratch = Scratch::new("executor-fail");
    let sharing = Sharing { threads: 1, jobs: 1 };
    let ends = run(&scratch, 4, sharing, &Heard::default(), &AtomicBool::new(false), &|number, _| match number {
        1 => panic!("this one is bad"),
        2 => Err(StoreError::Damaged { path: "x".into(), reason: "it is bad too".to_owned() }.into()),
        _ => Ok(DONE),
    });
    let message = |number: usize| match &ends[number] {
        Some(End::Failed(message)) => message.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!((&ends[0], &ends[3]), (&Some(DONE), &Some(DONE)));
    assert!(message(1).contains("this one is bad") && message(2).contains("it is bad too"));
    // The log of its folder has the failure too.
    let log = EventLog::new(&folder(&scratch, 1)).read_from(&mut Cursor::default()).unwrap();
    assert!(matches!(&log[..], [only] if matches!(&only.event, Event::JobEnded { end: End::Failed(_) })), "{log:?}");
}

#[test]
fn folders_that_another_process_holds_come_last_and_are_waited_for() {
    let scratch = Scratch::new("executor-held");
    let Taken::Lease(lease) = Locks::flock().take(&folder(&scratch, 0)).unwrap() else {
        panic!("nobody else holds it")
    };
    let lease = Mutex::new(Some(lease));
    let order = Mutex::new(Vec::new());
    let heard = Heard::default();
    let sharing = Sharing { threads: 1, jobs: 1 };
    let ends = std::thread::scope(|scope| {
        scope.spawn(|| {
            while heard.waits.load(Ordering::Relaxed) < 2 {
                std::thread::sleep(Duration::from_millis(10));
            }
            lease.lock().unwrap().take();
        });
        run(&scratch, 3, sharing, &heard, &AtomicBool::new(false), &|number, _| {
            order.lock().unwrap().push(number);
            Ok(DONE)
        })
    });
    assert_eq!(ends, vec![Some(DONE); 3]);
    assert_eq!(order.into_inner().unwrap(), [1, 2, 0]);
}

#[test]
fn a_worker_that_waits_for_another_machine_stops_when_it_is_asked_to() {
    let scratch = Scratch::new("executor-held-stop");
    // Without being asked, it would look again after more than ten minutes.
    let locks = Locks::lease().with_limit(Duration::from_secs(100_000));
    let Taken::Lease(_lease) = Locks::lease().take(&folder(&scratch, 0)).unwrap() else {
        panic!("nobody else holds it")
    };
    let work = |_: usize, _: &Context<'_>| -> Result<End, JobError> { panic!("another process holds it") };
    let job = Pretend { number: 0, folder: folder(&scratch, 0), work: &work, is_over: false };
    let (lab, device, heard, stop) = (Lab::standard(), Device::cpu(), Heard::default(), AtomicBool::new(false));
    let executor = Executor {
        lab: &lab,
        device: &device,
        session: session(),
        sharing: Sharing { threads: 1, jobs: 1 },
        stop: &stop,
        memory: None,
        locks: &locks,
        observer: &heard,
    };
    let (ends, asked) = std::thread::scope(|scope| {
        let asked = scope.spawn(|| {
            while heard.waits.load(Ordering::Relaxed) == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            stop.store(true, Ordering::Relaxed);
            Instant::now()
        });
        (executor.run(&[&job]), asked.join().unwrap())
    });
    assert_eq!(ends, [None]);
    assert!(asked.elapsed() < locks.patience() / 2, "{:?} of {:?}", asked.elapsed(), locks.patience());
}

#[test]
fn what_is_over_is_not_done_again() {
    let scratch = Scratch::new("executor-over");
    let work = |_: usize, _: &Context<'_>| -> Result<End, JobError> { panic!("nothing is left to do") };
    let job = Pretend { number: 0, folder: folder(&scratch, 0), work: &work, is_over: true };
    let (lab, device, heard, stop) = (Lab::standard(), Device::cpu(), Heard::default(), AtomicBool::new(false));
    let sharing = Sharing { threads: 1, jobs: 1 };
    let executor = Executor {
        lab: &lab,
        device: &device,
        session: session(),
        sharing,
        stop: &stop,
        memory: None,
        locks: &Locks::flock(),
        observer: &heard,
    };
    assert_eq!(executor.run(&[&job]), [Some(DONE)]);
    assert_eq!(heard.ends.into_inner(), 1);
    assert!(!folder(&scratch, 0).exists(), "nothing is written");
}

#[test]
fn a_stop_leaves_the_rest_alone() {
    let scratch = Scratch::new("executor-stop");
    let stop = AtomicBool::new(false);
    let begun = AtomicUsize::new(0);
    let sharing = Sharing { threads: 1, jobs: 1 };
    let ends = run(&scratch, 5, sharing, &Heard::default(), &stop, &|_, context| {
        if begun.fetch_add(1, Ordering::Relaxed) == 1 {
            stop.store(true, Ordering::Relaxed);
        }
        Ok(if context.is_stopping() { End::Interrupted } else { DONE })
    });
    assert_eq!(ends, [Some(DONE), Some(End::Interrupted), None, None, None]);
}

#[test]
fn a_job_that_is_left_alone_gets_all_threads() {
    let scratch = Scratch::new("executor-threads");
    let shares = Mutex::new(Vec::new());
    let (both, short_is_over) = (Barrier::new(2), AtomicBool::new(false));
    let sharing = Sharing { threads: 4, jobs: 2 };
    run(&scratch, 2, sharing, &Heard::default(), &AtomicBool::new(false), &|number, context| {
        both.wait();
        let epoch = || {
            let mut share = 0;
            context.threads.run(&mut || share = rayon::current_num_threads());
            share
        };
        if number != 0 {
            return Ok(DONE);
        }
        let together = epoch();
        // The other one ends at about this time; its share is free a moment later.
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(600) {
            if epoch() == 4 {
                short_is_over.store(true, Ordering::Relaxed);
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        shares.lock().unwrap().push(together);
        Ok(DONE)
    });
    assert!(short_is_over.into_inner(), "alone, it has all four threads");
    assert!([2, 4].contains(&shares.into_inner().unwrap()[0]), "a half while there are two");
}

#[test]
fn progress_is_logged_now_and_then_and_everything_else_always() {
    let scratch = Scratch::new("executor-log");
    let sharing = Sharing { threads: 1, jobs: 1 };
    run(&scratch, 1, sharing, &Heard::default(), &AtomicBool::new(false), &|_, context| {
        context.emit(Event::JobStarted { done: 0, total: 1000, epoch: 0 });
        (1..=1000).for_each(|done| context.emit(Event::Progress { done, total: 1000, loss: Some(0.5) }));
        (0..3).for_each(|number| context.warn(format!("warning {number}")));
        Ok(DONE)
    });
    let log = EventLog::new(&folder(&scratch, 0)).read_from(&mut Cursor::default()).unwrap();
    let progress = log.iter().filter(|entry| matches!(entry.event, Event::Progress { .. })).count();
    let warnings = log.iter().filter(|entry| matches!(entry.event, Event::Warning { .. })).count();
    assert!((1..10).contains(&progress) && warnings == 3, "{progress} of 1000, {warnings} of 3");
    assert!(matches!(log.last().unwrap().event, Event::JobEnded { end: End::Over(State::Finished) }));
}

#[test]
fn an_epoch_that_would_not_end_in_time_is_not_begun() {
    let scratch = Scratch::new("executor-deadline");
    let (lab, device, heard, stop) = (Lab::standard(), Device::cpu(), Heard::default(), AtomicBool::new(false));
    let request = Request {
        experiment: "even-pairs".to_owned(),
        mechanisms: Some(vec!["full".to_owned()]),
        seeds: Some(1),
        overrides: ["data.length=8", "data.train=50", "data.held_out=20", "model.blocks=1"].map(str::to_owned).to_vec(),
        ..Request::default()
    };
    let trial = lab.plan(&Experiment::resolve(&request, &lab).unwrap()).unwrap().trials.remove(0);
    let folder = Store::at(scratch.path()).trial(trial.id);
    let train = |epochs: usize, deadline: Option<Deadline>| {
        let mut trial = trial.clone();
        trial.settings.training.epochs = epochs;
        let job = Train::new(trial, folder.clone()).until(deadline);
        let executor = Executor {
            lab: &lab,
            device: &device,
            session: session(),
            sharing: Sharing { threads: 1, jobs: 1 },
            stop: &stop,
            memory: None,
            locks: &Locks::flock(),
            observer: &heard,
        };
        executor.run(&[&job]).remove(0)
    };
    assert_eq!(train(1, None), Some(DONE));
    // As if that epoch had taken two seconds.
    let (untrained, records) = folder.curve().unwrap();
    std::fs::remove_file(folder.record_path()).unwrap();
    let records = untrained.into_iter().chain(records);
    let slow: Vec<EpochRecord> = records.map(|record| EpochRecord { seconds: 2.0, ..record }).collect();
    folder.writer(&semfocus_fixture::lease(folder.path()).unwrap()).append_records(&slow).unwrap();
    let deadline = Deadline::after(Duration::from_secs(4)).unwrap();
    while deadline.left() > Duration::from_secs(2) {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(train(3, Some(deadline)), Some(End::Interrupted));
    assert_eq!((folder.records().unwrap().len(), folder.status().unwrap().unwrap().state), (1, State::Interrupted));
    // No process that lives for two seconds could end such an epoch, so somebody has to begin it.
    let deadline = Deadline::after(Duration::from_secs(2)).unwrap();
    assert_eq!(train(2, Some(deadline)), Some(DONE));
    assert_eq!(folder.records().unwrap().len(), 2);
}
