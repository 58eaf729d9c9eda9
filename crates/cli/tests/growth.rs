//! Runs that grow, and the list of runs: `semfocus run` and `semfocus status` in a folder of their own.

mod common;

use std::path::Path;

use common::{Output, SMALL, Scratch, semfocus_in, start, trials};

/// A folder with an experiment file of one-epoch trials.
fn folder(name: &str) -> Scratch {
    let scratch = Scratch::new(name);
    scratch.file("small.toml", &SMALL.replace("epochs = 12", "epochs = 1").replace("train = 400", "train = 50"));
    scratch
}

fn semfocus(scratch: &Scratch, arguments: &[&str]) -> Output {
    semfocus_in(&scratch.path(""), arguments, "")
}

fn run(scratch: &Scratch, arguments: &[&str]) -> Output {
    let output = semfocus(scratch, &[&["run", "small.toml"], arguments].concat());
    assert_eq!(output.code, 0, "{arguments:?}: {}", output.stderr);
    output
}

fn run_folders(scratch: &Scratch) -> Vec<String> {
    let entries = std::fs::read_dir(scratch.path("runs")).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn more_of_an_experiment_goes_on_in_its_folder() {
    let scratch = folder("grow-default");
    run(&scratch, &[]);
    let first = trials(&scratch.path("runs/small"));
    let written = |trial: &Path| std::fs::metadata(trial.join("last.safetensors")).unwrap().modified().unwrap();
    let before: Vec<_> = first.iter().map(|trial| written(trial)).collect();
    let same = run(&scratch, &["--mechanisms", "full,topk:3"]);
    assert!(same.stderr.contains("done       4 of 4 trials (resumed)"), "{}", same.stderr);
    let more = run(&scratch, &["--seeds", "3"]);
    assert!(more.stderr.contains("done       4 of 6 trials (2 added)"), "{}", more.stderr);
    let other = run(&scratch, &["--mechanisms", "full,banded:3"]);
    // full with two seeds is there, banded:3 is new; four trials of others stay.
    assert!(other.stderr.contains("done       2 of 4 trials (2 added)"), "{}", other.stderr);
    assert!(other.stderr.contains("4 trials that were not asked for now are in the folder too"), "{}", other.stderr);
    assert_eq!(run_folders(&scratch), ["small"]);
    assert_eq!(trials(&scratch.path("runs/small")).len(), 8);
    assert_eq!(before, first.iter().map(|trial| written(trial)).collect::<Vec<_>>(), "nothing was trained again");
    // A smaller request finds everything done, and the folder keeps what it has.
    let smaller = run(&scratch, &["--seeds", "1"]);
    assert!(smaller.stderr.contains("done       2 of 2 trials (resumed)"), "{}", smaller.stderr);
    let list = std::fs::read_to_string(scratch.path("runs/small/trials.csv")).unwrap();
    assert_eq!(list.lines().count(), 9, "{list}");
    // The folder itself can be resumed, and completes what its lists describe: three seeds of banded:3.
    let whole = semfocus(&scratch, &["run", "runs/small"]);
    assert_eq!(whole.code, 0, "{}", whole.stderr);
    assert!(whole.stderr.contains("done       8 of 9 trials (1 added)"), "{}", whole.stderr);
    let longer = semfocus(&scratch, &["run", "runs/small", "--epochs", "2"]);
    assert!(longer.stderr.contains("2 epochs each (18 in all)"), "{}", longer.stderr);
    let shorter = run(&scratch, &[]);
    assert!(shorter.stderr.contains("done       4 of 4 trials (resumed)"), "{}", shorter.stderr);
}

#[test]
fn changed_settings_have_folders_with_readable_names() {
    let scratch = folder("names");
    run(&scratch, &["training.learning_rate=1e-2"]);
    run(&scratch, &["-s", "training.learning_rate=0.01", "--seeds", "1"]);
    run(&scratch, &["model.activation=gelu", "-s", "data.length=12", "--seeds", "1"]);
    let grid = run(&scratch, &["-s", "training.learning_rate=1e-2,0.1", "--seeds", "1"]);
    assert!(grid.stderr.contains("2 mechanisms × 2 values of training.learning_rate × 1 seed"), "{}", grid.stderr);
    let grown = run(&scratch, &["training.learning_rate=0.1,0.2", "--seeds", "1"]);
    assert!(grown.stderr.contains("done       2 of 4 trials (2 added)"), "{}", grown.stderr);
    assert_eq!(trials(&scratch.path("runs/small-by-learning_rate")).len(), 6);
    run(&scratch, &["--smoke", "--seeds", "7,8,9", "--mechanisms", "full"]);
    let expected =
        ["small-by-learning_rate", "small-learning_rate=0.01", "small-length=12-activation=gelu", "small-smoke"];
    assert_eq!(run_folders(&scratch), expected);
    let list = std::fs::read_to_string(scratch.path("runs/small-smoke/trials.csv")).unwrap();
    for seed in ["7", "8", "9"] {
        assert!(list.lines().any(|line| line.contains(&format!("even-pairs,full,{seed},"))), "{list}");
    }
}

#[test]
fn explicit_options_count_more_than_smoke() {
    let scratch = folder("explicit");
    let output = run(&scratch, &["--smoke", "--epochs", "3", "-s", "data.train=75", "--seeds", "2", "-n"]);
    assert!(output.stdout.contains("4 = 2 mechanisms × 2 seeds, 3 epochs each (12 in all)"), "{}", output.stdout);
    assert!(
        output.stdout.contains("data.train 75 instead of 50; data.held_out 25 instead of 100"),
        "{}",
        output.stdout
    );
}

#[test]
fn long_runs_do_not_start_by_accident() {
    let scratch = Scratch::new("long");
    scratch.file("min.toml", "task = \"parity\"\n");
    scratch.file("base.toml", "base = \"even-pairs\"\n");
    for (file, words) in [
        ("min.toml", "a file with `base = \"parity\"` in place of `task = \"parity\"` can be run with --scale quick"),
        ("base.toml", "--scale quick runs a smaller version"),
    ] {
        let output = semfocus(&scratch, &["run", file]);
        assert_eq!(output.code, 2, "{}", output.stderr);
        assert!(output.stderr.contains("give --yes to start it") && output.stderr.contains(words), "{}", output.stderr);
        assert!(!Path::new(&scratch.path("runs")).exists(), "nothing was begun");
    }
}

#[test]
fn a_dry_run_of_the_longest_sequences_is_quick() {
    let scratch = Scratch::new("longest");
    let began = std::time::Instant::now();
    let output = semfocus(&scratch, &["run", "even-pairs", "-s", "data.length=100000", "-n"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stdout.contains("memory     about") && output.stdout.contains(" days"), "{}", output.stdout);
    assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
}

#[test]
fn estimates_are_kept_and_know_what_is_done() {
    let scratch = folder("estimates");
    run(&scratch, &[]);
    let dry = run(&scratch, &["-n", "--seeds", "3"]);
    for line in ["done       4 of 6 trials (2 added)", "topk:3          3     2       1"] {
        assert!(dry.stdout.contains(line), "{line} in {}", dry.stdout);
    }
    let costs = Path::new(env!("CARGO_TARGET_TMPDIR")).join("semfocus/step-costs.toml");
    let text = std::fs::read_to_string(&costs).unwrap();
    assert!(text.contains("measured_with = \"semfocus ") && text.contains("train = "), "{text}");
}

#[test]
fn all_runs_are_listed() {
    let scratch = folder("listed");
    let none = semfocus(&scratch, &["status"]);
    assert!(none.code == 0 && none.stdout.contains("There are no runs in runs"), "{}", none.stdout);
    run(&scratch, &[]);
    run(&scratch, &["training.learning_rate=0.2"]);
    for arguments in [&["status"][..], &["status", "runs"]] {
        let output = semfocus(&scratch, arguments);
        assert_eq!(output.code, 0, "{}", output.stderr);
        let lines: Vec<&str> = output.stdout.lines().collect();
        assert!(lines[0].starts_with("runs/small") && lines[0].contains("finished, 4 of 4 done"), "{}", output.stdout);
        assert!(output.stdout.contains("changed: training.learning_rate 0.2 instead of 0.1"), "{}", output.stdout);
        assert_eq!(lines.iter().filter(|line| line.trim() == "nothing learned").count(), 2, "{}", output.stdout);
    }
    let json: serde_json::Value = serde_json::from_str(&semfocus(&scratch, &["status", "--json"]).stdout).unwrap();
    assert_eq!(json["list"].as_array().unwrap().len(), 2, "{json}");
    assert_eq!(json["list"][0]["state"], "finished");
}

#[test]
fn many_trials_are_summarised() {
    let scratch = folder("many");
    run(&scratch, &["--seeds", "12", "--quiet"]);
    let text = semfocus(&scratch, &["status", "runs/small"]).stdout;
    assert!(text.contains("topk:3     12 of 12        0     0         0       0"), "{text}");
    assert!(text.lines().count() < 12, "{text}");
    let all = semfocus(&scratch, &["status", "runs/small", "--all"]).stdout;
    assert_eq!(all.lines().filter(|line| line.contains("1: 153476998")).count(), 2, "{all}");
}

#[test]
fn a_run_can_be_watched_to_its_end() {
    let scratch = Scratch::new("watched");
    let file = scratch.file("small.toml", SMALL);
    let dir = scratch.path("run");
    let child = start(&["run", &file, "-o", &dir, "-j", "1"]);
    while !Path::new(&dir).join("experiment.toml").exists() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let watched = common::semfocus(&["status", &dir, "--watch"]);
    assert_eq!(watched.code, 0, "{}", watched.stderr);
    assert!(child.wait_with_output().unwrap().status.success());
    let last = watched.stdout.lines().last().unwrap();
    assert_eq!(last, "trials 4: 4 done, 0 running, 0 diverged, 0 failed, 0 left; epochs 48 of 48");
}
