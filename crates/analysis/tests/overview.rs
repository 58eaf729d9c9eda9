//! How a run stands, kept up to date at little cost.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use semfocus_analysis::overview::Overview;
use semfocus_core::{AnyName, Experiment, Request};
use semfocus_fixture::{self as fixture, Fixture, Scratch, jump, lease};
use semfocus_store::disk::{Answer, Operation, Watcher, watch};
use semfocus_store::{Event, Follower, JobId, JobKind, State, Store};

const EPOCHS: usize = 4;

fn experiment(seeds: usize) -> Experiment {
    let request = Request {
        experiment: "even-pairs".to_owned(),
        mechanisms: Some(vec!["full".to_owned(), "topk:5".to_owned()]),
        seeds: Some(seeds),
        epochs: Some(EPOCHS),
        ..Request::default()
    };
    Experiment::resolve(&request, &AnyName).unwrap()
}

/// A run in which the first trials of full attention are finished, and the others have not begun.
fn run(dir: &Path, seeds: usize, finished: usize) -> Store {
    let experiment = experiment(seeds);
    let invent = |settings: &semfocus_core::TrialSettings| {
        if settings.mechanism != "full" || !experiment.seeds[..finished].contains(&settings.seed) {
            return None;
        }
        Some(Fixture {
            records: (1..=EPOCHS).map(|epoch| jump(epoch, Some(2), 0.75)).collect(),
            state: State::Finished,
            probes: Vec::new(),
        })
    };
    fixture::store(dir, &experiment, invent).unwrap()
}

#[test]
fn states_progress_and_time_left_are_those_of_the_files() {
    let scratch = Scratch::new("overview");
    let store = run(scratch.path(), 3, 3);
    let mut follower = Follower::new(store.clone());
    let mut overview = Overview::read(&mut follower).unwrap();
    let counts = |run: &Overview| (run.trials, run.done, run.running, run.left, run.epochs_done, run.epochs);
    assert_eq!(counts(&overview), (6, 3, 0, 3, 12, 24));
    // An epoch takes two seconds, and nothing is known of the other mechanism.
    assert_eq!(overview.seconds_left, Some(3.0 * 4.0 * 2.0));
    assert_eq!((overview.list[0].epoch, overview.list[0].heldout_accuracy), (EPOCHS, Some(0.75)));

    // One of the others begins, makes an epoch and some steps of the next, and is left.
    let place = overview.list.iter().position(|trial| trial.mechanism == "topk:5").unwrap();
    let trial = store.trial(overview.list[place].trial);
    let held = lease(trial.path()).unwrap();
    let settings = experiment(3).settings_at(&Vec::new(), "topk:5", overview.list[place].seed).unwrap();
    trial.writer(&held).write_settings(&settings).unwrap();
    trial.writer(&held).append_records(&[jump(0, None, 0.5), jump(1, None, 0.5)]).unwrap();
    let mut status = store.trial(overview.list[0].trial).status().unwrap().unwrap();
    (status.state, status.epoch) = (State::Running, 1);
    trial.writer(&held).write_status(&status).unwrap();
    let job = JobId { kind: JobKind::Train, trial: trial.id(), part: String::new() };
    trial.events().append(&job, &Event::Progress { done: 250, total: 800, loss: Some(0.5) }).unwrap();
    overview.update(&mut follower).unwrap();
    assert_eq!(counts(&overview), (6, 3, 1, 2, 13, 24));
    let seen = &overview.list[place];
    assert_eq!((seen.epoch, seen.steps_done, seen.steps, seen.step_loss), (1, Some(250), Some(800), Some(0.5)));
    assert!(seen.host.is_some() && seen.held_by.as_ref().unwrap().contains(&std::process::id().to_string()));
    drop(held);
    overview.update(&mut follower).unwrap();
    assert_eq!(counts(&overview), (6, 3, 0, 3, 13, 24));
    assert_eq!((overview.list[place].state, overview.list[place].steps_done), (State::Interrupted, None));

    // Whoever looks for the first time sees the same.
    let json = |run: &Overview| serde_json::to_value(run).unwrap();
    assert_eq!(json(&Overview::read(&mut Follower::new(store.clone())).unwrap()), json(&overview));

    // Damage is named, and a file that is written again is in order.
    let path = trial.path().join("epochs.csv");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{text}nonsense\n")).unwrap();
    overview.update(&mut follower).unwrap();
    assert_eq!((overview.unreadable, overview.damage.len()), (1, 1), "{:?}", overview.damage);
    std::fs::write(&path, text).unwrap();
    overview.update(&mut follower).unwrap();
    assert_eq!((overview.unreadable, overview.damage.len()), (0, 0), "{:?}", overview.damage);
}

#[test]
fn to_watch_a_thousand_trials_takes_few_operations() {
    #[derive(Default)]
    struct Count(AtomicUsize);
    impl Watcher for Count {
        fn before(&self, operation: &Operation<'_>) -> Answer {
            match operation {
                Operation::Read { .. } | Operation::List { .. } => {
                    self.0.fetch_add(1, Ordering::Relaxed);
                    Answer::Go
                }
                _ => Answer::Fail(io::Error::other("a reader changes nothing")),
            }
        }
    }
    let scratch = Scratch::new("overview-cost");
    let store = run(scratch.path(), 500, 50);
    let mut follower = Follower::new(store.clone());
    let mut overview = Overview::default();
    let count = Arc::new(Count::default());
    let mut operations = |overview: &mut Overview| {
        count.0.store(0, Ordering::Relaxed);
        let watched = watch(scratch.path(), count.clone());
        overview.update(&mut follower).unwrap();
        drop(watched);
        count.0.load(Ordering::Relaxed)
    };
    let first = operations(&mut overview);
    assert!((50..1000).contains(&first), "{first}");
    let idle = operations(&mut overview);
    assert!(idle <= 5, "{idle}: experiment, copy, list of trials, folders, list of finished trials");
    // One begins: its files are read, and from then on what is added to three of them.
    let place = overview.list.iter().position(|trial| trial.mechanism == "topk:5").unwrap();
    let trial = store.trial(overview.list[place].trial);
    let held = lease(trial.path()).unwrap();
    let settings = experiment(500).settings_at(&Vec::new(), "topk:5", overview.list[place].seed).unwrap();
    trial.writer(&held).write_settings(&settings).unwrap();
    trial.writer(&held).append_records(&[jump(0, None, 0.5)]).unwrap();
    let begun = operations(&mut overview);
    assert!(begun <= idle + 12, "{begun}");
    let running = operations(&mut overview);
    assert!(running <= idle + 4, "{running}");
    trial.writer(&held).append_records(&[jump(1, None, 0.5)]).unwrap();
    let epoch = operations(&mut overview);
    assert!(epoch <= idle + 4, "{epoch}");
    assert_eq!((overview.running, overview.list[place].epoch), (1, 1));
}
