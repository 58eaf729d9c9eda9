//! The executor with work that only pretends.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use semfocus_lab::executor::{self, Attempt, Observe, Sharing, TrialEnd, Work};
use semfocus_lab::store::{Holder, State};
use semfocus_lab::training::{Threads, Watch};
use semfocus_lab::{Experiment, Request, Trial};

fn trials(count: usize) -> Vec<Trial> {
    let request = Request {
        experiment: "even-pairs".to_owned(),
        mechanisms: Some(vec!["full".to_owned()]),
        seeds: Some(count),
        ..Request::default()
    };
    Experiment::resolve(&request).unwrap().plan().unwrap().trials
}

const DONE: Attempt = Attempt::Ended(TrialEnd::Over { state: State::Finished, already: false });

struct Pretend<F>(F);

impl<F: Fn(&Trial, &dyn Threads, &AtomicBool) -> Attempt + Sync> Work for Pretend<F> {
    fn attempt(&self, trial: &Trial, threads: &dyn Threads, stop: &AtomicBool) -> Attempt {
        (self.0)(trial, threads, stop)
    }
}

#[derive(Default)]
struct Heard {
    ends: AtomicUsize,
    waits: AtomicUsize,
}

impl Watch for Heard {}

impl Observe for Heard {
    fn ends(&self, _trial: &Trial, _end: &TrialEnd) {
        self.ends.fetch_add(1, Ordering::Relaxed);
    }
    fn waits(&self, _trials: usize, _holder: Option<&Holder>) {
        self.waits.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn every_trial_is_worked_on_once_and_at_most_so_many_at_a_time() {
    let trials = trials(9);
    let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let seen = Mutex::new(HashMap::new());
    let work = Pretend(|trial: &Trial, _: &dyn Threads, _: &AtomicBool| {
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        *seen.lock().unwrap().entry(trial.id).or_insert(0) += 1;
        std::thread::sleep(Duration::from_millis(20));
        now.fetch_sub(1, Ordering::SeqCst);
        DONE
    });
    let heard = Heard::default();
    let ends = executor::run(&trials, Sharing { threads: 2, jobs: 3 }, &work, &AtomicBool::new(false), &heard);
    assert_eq!((ends.len(), most.into_inner(), heard.ends.into_inner()), (9, 3, 9));
    let seen = seen.into_inner().unwrap();
    assert!(seen.len() == 9 && seen.values().all(|&count| count == 1), "{seen:?}");
}

#[test]
fn a_trial_that_fails_does_not_take_others_with_it() {
    let trials = trials(4);
    let bad = trials[1].id;
    let work = Pretend(|trial: &Trial, _: &dyn Threads, _: &AtomicBool| {
        assert_ne!(trial.id, bad, "this one is bad");
        DONE
    });
    let ends =
        executor::run(&trials, Sharing { threads: 1, jobs: 1 }, &work, &AtomicBool::new(false), &Heard::default());
    let failed: Vec<_> = ends.iter().filter(|(_, end)| matches!(end, TrialEnd::Failed(_))).collect();
    assert_eq!((ends.len(), failed.len(), failed[0].0), (4, 1, bad));
    let TrialEnd::Failed(message) = &failed[0].1 else { panic!("it failed") };
    assert!(message.contains("this one is bad"), "{message}");
}

#[test]
fn trials_of_other_processes_come_last_and_are_waited_for() {
    let trials = trials(3);
    let (first, looks) = (trials[0].id, AtomicUsize::new(0));
    let order = Mutex::new(Vec::new());
    let work = Pretend(|trial: &Trial, _: &dyn Threads, _: &AtomicBool| {
        if trial.id == first && looks.fetch_add(1, Ordering::Relaxed) < 2 {
            return Attempt::HeldBy(None);
        }
        order.lock().unwrap().push(trial.id);
        DONE
    });
    let heard = Heard::default();
    let ends = executor::run(&trials, Sharing { threads: 1, jobs: 1 }, &work, &AtomicBool::new(false), &heard);
    assert_eq!((ends.len(), heard.waits.into_inner()), (3, 2));
    assert_eq!(order.into_inner().unwrap(), [trials[1].id, trials[2].id, first]);
}

#[test]
fn a_stop_leaves_the_rest_alone() {
    let trials = trials(5);
    let begun = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let work = Pretend(|_: &Trial, _: &dyn Threads, stop: &AtomicBool| {
        if begun.fetch_add(1, Ordering::Relaxed) == 1 {
            stop.store(true, Ordering::Relaxed);
            return Attempt::Ended(TrialEnd::Interrupted);
        }
        DONE
    });
    let ends = executor::run(&trials, Sharing { threads: 1, jobs: 1 }, &work, &stop, &Heard::default());
    assert_eq!(ends.len(), 2);
    assert_eq!(ends[1].1, TrialEnd::Interrupted);
}

#[test]
fn a_trial_that_is_left_alone_gets_all_threads() {
    let trials = trials(2);
    let long = trials[0].id;
    let shares = Mutex::new(Vec::new());
    let (both, short_is_over) = (std::sync::Barrier::new(2), AtomicBool::new(false));
    let work = Pretend(|trial: &Trial, threads: &dyn Threads, _: &AtomicBool| {
        both.wait();
        let epoch = || {
            let mut share = 0;
            threads.run(&mut || share = rayon::current_num_threads());
            share
        };
        if trial.id != long {
            return DONE;
        }
        let together = epoch();
        // The other one ends at about this time; its share is free a moment later.
        for _ in 0..1000 {
            if epoch() == 4 {
                short_is_over.store(true, Ordering::Relaxed);
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        shares.lock().unwrap().push(together);
        DONE
    });
    executor::run(&trials, Sharing { threads: 4, jobs: 2 }, &work, &AtomicBool::new(false), &Heard::default());
    assert!(short_is_over.into_inner(), "alone, it has all four threads");
    assert!([2, 4].contains(&shares.into_inner().unwrap()[0]), "a half while there are two");
}
