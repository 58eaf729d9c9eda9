//! Processes that stand still before an operation for longer than their lease, while another one takes over and finishes the run.
//! When they wake up, they change nothing.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use semfocus_fixture::Scratch;
use semfocus_store::disk::{Answer, Operation};
use semfocus_store::{Locks, Store};

use crate::is_long;
use crate::small_run::{SmallRun, assert_same, change_a_digit, copy, results, trials, watched};

/// What a child of this program is to do: the folder, the operation before which it stops, and whether it trains or repairs.
const CHILD: &str = "SEMFOCUS_ATTACK_STOP";

/// Not a test by itself: the process that stands still.
#[test]
fn child() {
    let Ok(order) = std::env::var(CHILD) else { return };
    let order: Vec<&str> = order.split('|').collect();
    let (dir, at) = (Path::new(order[0]), order[1].parse::<usize>().unwrap());
    let was_stopped = AtomicBool::new(false);
    let answer = move |number: usize, _: &Operation<'_>| {
        if number == at && !was_stopped.swap(true, Ordering::SeqCst) {
            signal_hook::low_level::raise(signal_hook::consts::SIGSTOP).unwrap();
        }
        Answer::Go
    };
    work(dir, order[2], answer);
}

fn work(dir: &Path, what: &str, answer: impl Fn(usize, &Operation<'_>) -> Answer + Send + Sync + 'static) -> usize {
    let (_, operations) = watched(dir, answer, || match what {
        "train" => drop(SmallRun::new(false).sharing_by_leases().train(dir)),
        _ => drop(Store::open(dir).and_then(|store| store.set_damage_aside(&Locks::lease()))),
    });
    operations
}

fn start(dir: &Path, at: usize, what: &str) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "stops::child"]).env(CHILD, format!("{}|{at}|{what}", dir.display()));
    child.env("SEMFOCUS_LEASE_SECONDS", "0.3").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Waits until a process stands still or has ended; says whether it stands still.
fn stands_still(child: &mut Child) -> bool {
    loop {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
        if stat.rsplit_once(')').is_some_and(|(_, fields)| fields.trim_start().starts_with('T')) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_process_that_wakes_up_after_its_lease_changes_nothing() {
    let scratch = Scratch::new("attack-stops");
    let good = scratch.path().join("good");
    work(&good, "train", |_, _| Answer::Go);
    let expected = results(&good);
    let mut stops = 0;
    for what in ["repair", "train"] {
        // A damaged record: repair has something to do, and training begins again.
        let damaged = scratch.path().join("damaged");
        copy(&good, &damaged);
        change_a_digit(&trials(&damaged)[0].join("epochs.csv"));
        let counted = scratch.path().join("counted");
        copy(&damaged, &counted);
        let operations = work(&counted, what, |_, _| Answer::Go);
        let step = if is_long() { 1 } else { operations / 4 };
        for number in (0..operations).step_by(step) {
            let (dir, context) = (scratch.path().join("stopped"), format!("{what} stopped before operation {number}"));
            copy(&damaged, &dir);
            let mut stopped = start(&dir, number, what);
            let is_stopped = stands_still(&mut stopped);
            stops += usize::from(is_stopped);
            // It may take over at once what nobody holds, or has to wait for the lease to run out.
            assert!(start(&dir, usize::MAX, "train").wait().unwrap().success(), "{context}");
            assert!(Command::new("kill").args(["-CONT", &stopped.id().to_string()]).status().is_ok());
            assert!(stopped.wait().unwrap().success(), "{context}");
            assert_same(&results(&dir), &expected, &context);
            let damage = Store::open(&dir).unwrap().damage().unwrap();
            assert!(damage.is_empty(), "{context}: {damage:?}");
        }
    }
    println!("{stops} stops");
    assert!(stops >= 4, "{stops}");
}
