//! Nothing is lost: real processes are stopped and killed at arbitrary moments, and files are damaged.
#![cfg(unix)]

mod common;

use std::path::{Path, PathBuf};
use std::time::Instant;

use semfocus_store::{Locks, Taken};

use common::transcript::Transcript;
use common::{
    PATIENCE, SMALL, Scratch, Talk, assert_same_bits, epochs, run_with_signals, semfocus, signal, start, trials,
    wait_until,
};

/// A run that nobody disturbs.
fn undisturbed(scratch: &Scratch, file: &str) -> String {
    undisturbed_with(scratch, file, &[])
}

fn undisturbed_with(scratch: &Scratch, file: &str, options: &[&str]) -> String {
    let dir = scratch.path("undisturbed");
    let output = semfocus(&[&["run", file, "-o", &dir, "-j", "1"], options].concat());
    assert_eq!(output.code, 0, "{}", output.stderr);
    dir
}

#[test]
fn a_run_that_is_stopped_and_resumed_gives_the_same_bits() {
    resumed_with_the_same_bits("signals", SMALL, &["INT", "TERM"]);
}

#[test]
fn a_run_with_new_examples_for_every_step_resumes_to_the_same_bits() {
    let online = SMALL.replace("train = 400", "train = 100\nonline = true");
    let online = online.replace("epochs = 12", "steps = 195\nevaluate_every = 39");
    resumed_with_the_same_bits("online-signals", &online, &["INT"]);
}

#[test]
fn a_run_that_is_evaluated_in_the_middle_of_passes_resumes_to_the_same_bits() {
    let every = SMALL.replace("epochs = 12", "steps = 190\nevaluate_every = 38\nlr_factor.key = 0");
    resumed_with_the_same_bits("middle-signals", &every, &["INT"]);
}

/// `.ci/attack` kills processes, at every operation on a file.
fn resumed_with_the_same_bits(test: &str, experiment: &str, signals: &[&str]) {
    let scratch = Scratch::new(test);
    let file = scratch.file("small.toml", experiment);
    let expected = undisturbed(&scratch, &file);
    for name in signals {
        let dir = scratch.path(name);
        run_with_signals(&["run", &file, "-o", &dir, "-j", "2"], &dir, name, 6);
        assert_same_bits(&expected, &dir);
        for trial in trials(&dir) {
            let names = std::fs::read_dir(&trial).unwrap().map(|entry| entry.unwrap().file_name());
            let parts = names.filter(|name| name.to_string_lossy().ends_with(".part"));
            assert_eq!(parts.count(), 0, "what was half written is gone");
        }
        let status: serde_json::Value = serde_json::from_str(&semfocus(&["status", &dir, "--json"]).stdout).unwrap();
        assert_eq!((&status["done"], &status["left"]), (&4.into(), &0.into()), "{status}");
    }
}

#[test]
fn a_causal_run_that_is_resumed_gives_the_same_bits() {
    let scratch = Scratch::new("causal");
    let file = scratch.file("small.toml", &SMALL.replace(r#""topk:3""#, r#""topk:3", "banded:5""#));
    let options = ["-s", "model.visibility=causal", "--seeds", "1"];
    let expected = undisturbed_with(&scratch, &file, &options);
    let dir = scratch.path("resumed");
    let run = |more: &[&str]| semfocus(&[&["run", &file, "-o", &dir], &options[..], more].concat()).code;
    assert_eq!((run(&["--epochs", "5"]), run(&[])), (0, 0));
    assert_same_bits(&expected, &dir);
    for trial in trials(&dir) {
        let settings = std::fs::read_to_string(trial.join("trial.toml")).unwrap();
        assert!(settings.lines().any(|line| line == "visibility = \"causal\""), "{settings}");
    }
    // The setting reaches the model: without it the same trials give other losses.
    let all = scratch.path("all");
    assert_eq!(semfocus(&["run", &file, "-o", &all, "--seeds", "1", "--epochs", "1"]).code, 0);
    let first_epochs = |dir: &str| trials(dir).iter().map(|trial| epochs(trial)[1].clone()).collect::<Vec<_>>();
    let causal = first_epochs(&dir);
    assert_eq!(causal.len(), 3);
    assert!(first_epochs(&all).iter().all(|epoch| !causal.contains(epoch)), "{causal:?}");
}

/// Waits until a process works on a trial.
fn wait_for_a_trial(dir: &str) {
    wait_for_trials(dir, 1);
}

/// Waits until this many trials have begun.
fn wait_for_trials(dir: &str, count: usize) {
    let begun = || trials(dir).iter().filter(|trial| trial.join("env.json").is_file()).count();
    wait_until("trials have begun", || Path::new(dir).join("trials").is_dir() && begun() >= count);
}

#[test]
fn a_second_signal_stops_at_once() {
    let scratch = Scratch::new("twice");
    let file = scratch.file("small.toml", &SMALL.replace("train = 400", "train = 100000"));
    let dir = scratch.path("run");
    let child = start(&["run", &file, "-o", &dir]);
    wait_for_a_trial(&dir);
    signal(&child, "INT");
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let has_epochs =
        |trial: &PathBuf| std::fs::read_to_string(trial.join("epochs.csv")).is_ok_and(|record| record.contains("\n1,"));
    assert!(!trials(&dir).iter().any(has_epochs), "no epoch was complete");
}

/// A finished run of two epochs that has then been made longer, so that it must resume from its checkpoints.
fn grown(scratch: &Scratch) -> (String, String) {
    let file = scratch.file("small.toml", SMALL);
    let dir = scratch.path("grown");
    let output = semfocus(&["run", &file, "-o", &dir, "--epochs", "5"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    (file, dir)
}

#[test]
fn damaged_checkpoints_are_refused_and_kept() {
    type Damage = fn(&Path);
    let flip: Damage = |path| {
        let mut bytes = std::fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 4;
        std::fs::write(path, bytes).unwrap();
    };
    let cut: Damage = |path| {
        let bytes = std::fs::read(path).unwrap();
        std::fs::write(path, &bytes[..bytes.len() - 100]).unwrap();
    };
    let empty: Damage = |path| std::fs::write(path, b"").unwrap();
    let scratch = Scratch::new("damage");
    let file = scratch.file("small.toml", SMALL);
    let expected = undisturbed(&scratch, &file);
    for (number, damage) in [flip, cut, empty].into_iter().enumerate() {
        for lost in [&["last"][..], &["last", "previous"], &["last", "previous", "best"]] {
            let scratch = Scratch::new(&format!("damage-{number}-{}", lost.len()));
            let (_, dir) = grown(&scratch);
            for trial in trials(&dir) {
                for name in lost {
                    damage(&trial.join(format!("{name}.safetensors")));
                }
            }
            let output = semfocus(&["run", &file, "-o", &dir]);
            assert_eq!(output.code, 0, "{}", output.stderr);
            assert_same_bits(&expected, &dir);
            for trial in trials(&dir) {
                assert!(trial.join("last.safetensors.refused").is_file(), "what was refused is kept");
                assert!(trial.join("epochs.csv.refused").is_file(), "and so is the record that was cut");
            }
        }
    }
}

#[test]
fn a_checkpoint_of_another_trial_is_refused() {
    let scratch = Scratch::new("exchanged");
    let (file, dir) = grown(&scratch);
    let expected = undisturbed(&scratch, &file);
    let folders = trials(&dir);
    std::fs::copy(folders[1].join("last.safetensors"), folders[0].join("last.safetensors")).unwrap();
    let output = semfocus(&["run", &file, "-o", &dir]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(folders[0].join("last.safetensors.refused").is_file());
    assert_same_bits(&expected, &dir);
}

#[test]
fn a_damaged_record_is_kept_and_the_trial_starts_again() {
    let scratch = Scratch::new("record");
    let (file, dir) = grown(&scratch);
    let expected = undisturbed(&scratch, &file);
    let record = trials(&dir)[0].join("epochs.csv");
    let text = std::fs::read_to_string(&record).unwrap().replace("\n3,", "\nthree,");
    std::fs::write(&record, text).unwrap();
    // A line that was being written when the power failed is not damage.
    let torn = trials(&dir)[1].join("epochs.csv");
    std::fs::write(&torn, std::fs::read_to_string(&torn).unwrap() + "6,0.09,0.").unwrap();
    let mut transcript = Transcript::of_trained_models(&scratch);
    let output = transcript.run_without_results(&["run", "small.toml", "-o", "grown", "-j", "1"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    transcript.check("run-damaged-record");
    let refused = trials(&dir).iter().filter(|trial| trial.join("epochs.csv.refused").exists()).count();
    assert_eq!(refused, 1, "only the damaged one");
    assert_same_bits(&expected, &dir);
}

#[test]
fn two_processes_share_a_run() {
    let scratch = Scratch::new("shared");
    let file = scratch.file("small.toml", &SMALL.replace("epochs = 12", "epochs = 25"));
    let expected = undisturbed(&scratch, &file);
    let dir = scratch.path("both");
    let run = || start(&["run", &file, "-o", &dir, "-j", "1"]);
    let first = run();
    wait_for_a_trial(&dir);
    // However busy the machine is, the first one has not done everything when the second one comes.
    signal(&first, "STOP");
    let second = run();
    wait_for_trials(&dir, 2);
    signal(&first, "CONT");
    let both = [first, second];
    let outputs = both.map(|child| child.wait_with_output().unwrap());
    let talk = outputs.each_ref().map(|output| String::from_utf8_lossy(&output.stderr).into_owned());
    assert!(outputs.iter().all(|output| output.status.code() == Some(0)), "{talk:?}");
    // Each trained some, none was trained twice, and both came to the same table.
    let finished = talk
        .each_ref()
        .map(|talk| talk.lines().filter(|line| line.contains(" seed ") && line.contains("finished")).count());
    assert_eq!(finished[0] + finished[1], 4, "{talk:?}");
    assert!(finished[0] > 0 && finished[1] > 0, "{talk:?}");
    assert_eq!(outputs[0].stdout, outputs[1].stdout);
    assert_same_bits(&expected, &dir);
    assert_eq!(epochs(&trials(&dir)[0]).len(), 26);
}

#[test]
fn a_process_takes_over_from_one_that_dies() {
    let scratch = Scratch::new("taken-over");
    let one_trial = SMALL.replace("seeds = 2", "seeds = 1").replace(r#""full", "#, "");
    let file = scratch.file("small.toml", &one_trial.replace("epochs = 12", "epochs = 40"));
    let expected = undisturbed(&scratch, &file);
    let dir = scratch.path("run");
    let first = start(&["run", &file, "-o", &dir]);
    wait_for_a_trial(&dir);
    // It stands still, but it lives.
    signal(&first, "STOP");
    let mut second = start(&["run", &file, "-o", &dir]);
    let talk = Talk::of(&mut second);
    talk.wait_for("1 job is held by process");
    signal(&first, "KILL");
    first.wait_with_output().unwrap();
    let output = second.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", talk.end());
    assert_same_bits(&expected, &dir);
}

#[test]
fn another_process_sees_the_steps_of_a_running_trial() {
    let scratch = Scratch::new("steps");
    let one_trial = SMALL.replace("seeds = 2", "seeds = 1").replace(r#""full", "#, "");
    let file = scratch.file("small.toml", &one_trial.replace("train = 400", "train = 200000"));
    let dir = scratch.path("run");
    let child = start(&["run", &file, "-o", &dir]);
    wait_for_a_trial(&dir);
    let mut seen = serde_json::Value::Null;
    let began = Instant::now();
    while seen["steps_done"].as_u64().is_none_or(|steps| steps == 0) {
        assert!(began.elapsed() < PATIENCE, "no step was seen: {seen}");
        let status = semfocus(&["status", &dir, "--json"]);
        assert_eq!(status.code, 0, "{}", status.stderr);
        let report: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
        seen = report["list"][0].clone();
    }
    let text = semfocus(&["status", &dir]);
    signal(&child, "TERM");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!((&seen["state"], &seen["epoch"]), (&"running".into(), &0.into()), "{seen}");
    let (done, steps) = (seen["steps_done"].as_u64().unwrap(), seen["steps"].as_u64().unwrap());
    assert!(done > 0 && done < 8000 && steps == 12 * 8000, "{seen}");
    assert!(seen["step_loss"].as_f64().is_some_and(|loss| loss > 0.0 && loss < 2.0), "{seen}");
    let mut transcript = Transcript::of_trained_models(&scratch);
    transcript.add("status run", &text);
    transcript.check("status-running");
    // A trial that nobody works on has no current step.
    let after = semfocus(&["status", &dir, "--json"]).stdout;
    let after: serde_json::Value = serde_json::from_str(&after).unwrap();
    assert_eq!((&after["list"][0]["state"], after["list"][0]["steps_done"].is_null()), (&"interrupted".into(), true));
}

#[test]
fn a_process_whose_trial_is_removed_stops_writing_to_it() {
    let scratch = Scratch::new("removed");
    let file = scratch.file("small.toml", &SMALL.replace("train = 400", "train = 4000"));
    let expected = undisturbed_with(&scratch, &file, &["--epochs", "3"]);
    let dir = scratch.path("removed");
    let child = start(&["run", &file, "-o", &dir, "--epochs", "3", "-j", "1"]);
    wait_for_a_trial(&dir);
    signal(&child, "STOP");
    let trial = trials(&dir)[0].clone();
    assert!(!trial.join("epochs.csv").exists() || epochs(&trial).len() < 4, "the trial is too short for this test");
    // It may take a moment until the process stands still, and it may write a file while the folder is being emptied.
    while std::fs::remove_dir_all(&trial).is_err() && trial.exists() {}
    signal(&child, "CONT");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!trial.join("epochs.csv").exists(), "nothing is mixed into the folder of another process");
    assert_eq!(semfocus(&["run", &file, "-o", &dir, "--epochs", "3", "-q"]).code, 0);
    assert_same_bits(&expected, &dir);
}

#[test]
fn waiting_for_a_held_folder_is_said_and_can_be_ended() {
    let scratch = Scratch::new("held");
    let file = scratch.file("small.toml", SMALL);
    let dir = scratch.path("run");
    let Taken::Lease(_lease) = Locks::flock().take(&Path::new(&dir).join("trials")).unwrap() else {
        panic!("nobody has it")
    };
    let mut child = start(&["run", &file, "-o", &dir]);
    let talk = Talk::of(&mut child);
    talk.wait_for("(Ctrl-C to stop)");
    signal(&child, "INT");
    let status = child.wait().unwrap();
    let said = talk.end();
    assert_eq!(status.code(), Some(130), "{said}");
    assert!(said.contains(&format!("process {}", std::process::id())), "{said}");
}

#[test]
fn leases_give_the_same_bits_and_say_that_they_are_used() {
    let scratch = Scratch::new("leases");
    let file =
        scratch.file("small.toml", &SMALL.replace("epochs = 12", "epochs = 3").replace("train = 400", "train = 100"));
    let expected = undisturbed(&scratch, &file);
    let dir = scratch.path("leases");
    let child = start(&["run", &file, "-o", &dir, "-q", "--lock", "lease"]);
    // A second process shares the work, without being told how.
    wait_for_a_trial(&dir);
    let second = semfocus(&["run", &file, "-o", &dir, "-q"]);
    let first = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&first.stderr);
    assert_eq!((first.status.code(), second.code), (Some(0), 0), "{said}{}", second.stderr);
    assert_same_bits(&expected, &dir);
    for trial in trials(&dir) {
        let mut left: Vec<_> =
            std::fs::read_dir(trial.join("claims")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert!(left.len() == 2 && left[1].to_string_lossy().ends_with(".done"), "{left:?}");
    }
    // A process of this machine that was killed is noticed at once, long before its lease ends.
    let killed = scratch.path("killed");
    let mut child = start(&["run", &file, "-o", &killed, "-q", "--lock", "lease", "--epochs", "3000", "-j", "1"]);
    wait_for_a_trial(&killed);
    let status =
        || -> serde_json::Value { serde_json::from_str(&semfocus(&["status", &killed, "--json"]).stdout).unwrap() };
    let held_by = |status: &serde_json::Value| {
        let list = status["list"].as_array().unwrap();
        list.iter().filter_map(|trial| trial["held_by"].as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    let held = held_by(&status());
    assert!(held.len() == 1 && held[0].contains(&child.id().to_string()), "{held:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(status()["running"], 0);
}
