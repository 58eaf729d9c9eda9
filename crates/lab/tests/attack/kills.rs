//! Real kills: a process that trains is killed before an operation, or half way through it, for every operation. The next
//! process continues and ends with the same bits.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};

use semfocus_fixture::Scratch;
use semfocus_store::Store;
use semfocus_store::disk::{Answer, Operation};

use crate::is_long;
use crate::small_run::{SmallRun, assert_same, files, refused, results, watched};

/// What a child of this program is to do: the folder, the operation, whether half of it is done, and whether a checkpoint
/// is written after every step.
const CHILD: &str = "SEMFOCUS_ATTACK_CHILD";

/// Not a test by itself: the process that is killed.
#[test]
fn child() {
    let Ok(order) = std::env::var(CHILD) else { return };
    let order: Vec<&str> = order.split('|').collect();
    let (dir, at, half) = (Path::new(order[0]), order[1].parse::<usize>().unwrap(), order[2] == "half");
    let die = || {
        signal_hook::low_level::raise(signal_hook::consts::SIGKILL).unwrap();
        unreachable!("the process was killed");
    };
    let is_dying = AtomicBool::new(false);
    let answer = move |number: usize, _: &Operation<'_>| {
        if is_dying.load(Ordering::SeqCst) || (number == at && !half) {
            die();
        }
        if number == at {
            is_dying.store(true, Ordering::SeqCst);
            return Answer::Half(std::io::Error::other("about to be killed"));
        }
        Answer::Go
    };
    let _ = watched(dir, answer, || SmallRun::new(order[3] == "steps").train(dir));
}

/// Trains in another process, which is killed before an operation or half way through it.
pub(crate) fn in_a_process(dir: &Path, number: usize, how: &str, mode: &str) -> Output {
    let order = format!("{}|{number}|{how}|{mode}", dir.display());
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "kills::child"]).env(CHILD, order).output().unwrap()
}

#[test]
fn a_run_that_is_killed_at_any_operation_goes_on() {
    let scratch = Scratch::new("attack-kills");
    let mut kills = 0;
    for mode in ["epochs", "steps"] {
        let run = SmallRun::new(mode == "steps");
        let undisturbed = scratch.path().join(format!("undisturbed-{mode}"));
        let (_, operations) = watched(&undisturbed, |_, _| Answer::Go, || run.train(&undisturbed).unwrap());
        let expected = results(&undisturbed);
        let step = if is_long() { 1 } else { 23 };
        for number in (0..operations).step_by(step) {
            for how in ["before", "half"] {
                let dir = scratch.path().join(format!("{mode}-{number}-{how}"));
                let output = in_a_process(&dir, number, how, mode);
                let context = format!("{mode}: killed {how} operation {number}");
                let is_killed = std::os::unix::process::ExitStatusExt::signal(&output.status) == Some(9);
                // Half of the very last operation leaves nothing to die at.
                assert!(is_killed || how == "half", "{context}: {}", String::from_utf8_lossy(&output.stdout));
                kills += usize::from(is_killed);
                // What a process leaves that dies is no damage.
                let damage = Store::open(&dir).and_then(|store| store.damage()).unwrap_or_default();
                assert!(damage.is_empty(), "{context}: {damage:?}");
                assert_same(&run.finish(&dir, &context), &expected, &context);
                assert!(refused(&dir).is_empty(), "{context}: {:?}", refused(&dir));
                let parts = files(&dir).into_iter().filter(|path| path.to_string_lossy().ends_with(".part"));
                assert_eq!(parts.collect::<Vec<_>>(), Vec::<std::path::PathBuf>::new(), "{context}");
                std::fs::remove_dir_all(&dir).unwrap();
            }
        }
    }
    println!("{kills} kills");
    assert!(kills >= if is_long() { 1000 } else { 30 });
}
