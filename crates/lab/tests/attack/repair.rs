//! `verify` and `verify --repair` beside processes that work on the same run: nothing that is good is set aside, whenever the other
//! process comes in between.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use semfocus_fixture::Scratch;
use semfocus_store::disk::{Answer, Operation};
use semfocus_store::{Locks, Store};

use crate::is_long;
use crate::small_run::{SmallRun, assert_same, change_a_digit, copy, files, refused, results, trials, watched};

#[test]
fn what_another_process_has_repaired_meanwhile_is_not_set_aside() {
    let run = SmallRun::new(false);
    let scratch = Scratch::new("attack-repaired-meanwhile");
    let good = scratch.path().join("good");
    run.train(&good).unwrap();
    for name in ["epochs.csv", "last.safetensors", "status.json", "events.jsonl"] {
        let dir = scratch.path().join(name);
        copy(&good, &dir);
        let file = trials(&dir)[0].join(name);
        let (whole, lock) = (std::fs::read(&file).unwrap(), trials(&dir)[0].join("lock"));
        change_a_digit(&file);
        let store = Store::open(&dir).unwrap();
        assert!(!store.damage().unwrap().is_empty(), "{name}");
        // The other process has the trial until this one gets its lock.
        let was_locked = AtomicBool::new(false);
        let repaired = file.clone();
        let answer = move |_: usize, operation: &Operation<'_>| {
            if *operation == (Operation::OpenLock { path: &lock }) && !was_locked.swap(true, Ordering::SeqCst) {
                std::fs::write(&repaired, &whole).unwrap();
            }
            Answer::Go
        };
        let (done, _) = watched(&dir, answer, || store.set_damage_aside(&Locks::flock()).unwrap());
        assert_eq!((done, refused(&dir)), (Vec::<String>::new(), Vec::new()), "{name}");
        assert!(store.damage().unwrap().is_empty(), "{name}");
    }
}

#[test]
fn verify_finds_nothing_and_sets_nothing_aside_beside_a_process_that_trains() {
    let scratch = Scratch::new("attack-beside");
    let run = SmallRun::new(false);
    let undisturbed = scratch.path().join("undisturbed");
    run.train(&undisturbed).unwrap();
    let expected = results(&undisturbed);
    let mut looks = 0;
    for round in 0..if is_long() { 200 } else { 10 } {
        let dir = scratch.path().join(round.to_string());
        let run = SmallRun::new(false);
        let run = if round % 2 == 0 { run } else { run.sharing_by_leases() };
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let verify = || {
                let mut looks = 0;
                while !is_over.load(Ordering::SeqCst) {
                    let Ok(store) = Store::open(&dir) else { continue };
                    let done = store.set_damage_aside(run.locks()).unwrap_or_default();
                    assert_eq!(done, Vec::<String>::new(), "round {round}");
                    looks += 1;
                }
                looks
            };
            let verifier = scope.spawn(verify);
            let ends = run.train(&dir);
            is_over.store(true, Ordering::SeqCst);
            looks += verifier.join().unwrap();
            assert!(ends.unwrap().iter().all(|end| end.failure().is_none()), "round {round}");
        });
        assert_same(&results(&dir), &expected, &format!("round {round}"));
        assert!(refused(&dir).is_empty() && Store::open(&dir).unwrap().damage().unwrap().is_empty(), "round {round}");
        std::fs::remove_dir_all(&dir).unwrap();
    }
    println!("{looks} looks beside a process that trains");
    assert!(looks > 10);
}

#[test]
fn with_leases_repair_and_the_next_run_bring_back_what_a_finished_trial_has_lost() {
    let scratch = Scratch::new("attack-repair-leases");
    let run = SmallRun::new(false).sharing_by_leases();
    let good = scratch.path().join("good");
    run.train(&good).unwrap();
    let expected = results(&good);
    let trial = trials(&good)[0].strip_prefix(&good).unwrap().to_owned();
    let lost: [&[&str]; 7] = [
        &["last.safetensors"],
        &["best.safetensors"],
        &["last.safetensors", "best.safetensors", "previous.safetensors"],
        &["epochs.csv"],
        &["probes.jsonl"],
        &["status.json"],
        &["snapshots/epoch-2.safetensors"],
    ];
    for (names, is_removed) in lost.into_iter().flat_map(|names| [(names, false), (names, true)]) {
        // A snapshot may be removed to save space.
        if is_removed && names[0].starts_with("snapshots") {
            continue;
        }
        let (dir, context) = (scratch.path().join("damaged"), format!("{names:?}, removed: {is_removed}"));
        copy(&good, &dir);
        for name in names {
            let file = dir.join(&trial).join(name);
            if is_removed { std::fs::remove_file(file).unwrap() } else { change_a_digit(&file) }
        }
        let store = Store::open(&dir).unwrap();
        assert!(!store.damage().unwrap().is_empty(), "{context}");
        store.set_damage_aside(&Locks::lease()).unwrap();
        assert_same(&run.finish(&dir, &context), &expected, &context);
        assert_eq!(store.damage().unwrap().len(), 0, "{context}: {:?}", store.damage().unwrap());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}

#[test]
fn what_dead_processes_left_half_written_is_removed_by_the_next_one_that_writes_there() {
    let scratch = Scratch::new("attack-litter");
    let run = SmallRun::new(false);
    let dir = scratch.path().join("run");
    run.train(&dir).unwrap();
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    // As a process of this machine names its files that has died.
    let aside = semfocus_store::files::Aside::new(&scratch.path().join("test")).unwrap();
    let name = aside.path().file_name().unwrap().to_str().unwrap().to_owned();
    let dead = name.replace(&format!("_{}_", std::process::id()), &format!("_{}_", child.id()));
    // One trial is not over, so the next process writes there.
    std::fs::remove_file(trials(&dir)[0].join("status.json")).unwrap();
    for folder in [dir.clone(), dir.join("trials"), trials(&dir)[0].clone(), trials(&dir)[0].join("snapshots")] {
        std::fs::write(folder.join(&dead), "half").unwrap();
    }
    // This process has written there before.
    let output = crate::kills::in_a_process(&dir, usize::MAX, "before", "epochs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let left: Vec<PathBuf> = files(&dir).into_iter().filter(|path| path.to_string_lossy().ends_with(".part")).collect();
    assert_eq!(left, Vec::<PathBuf>::new());
}
