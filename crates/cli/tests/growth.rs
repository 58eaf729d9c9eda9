//! Runs that grow, and the list of runs: `semfocus run` and `semfocus status` in a folder of their own.

mod common;

use std::path::Path;

use common::transcript::Transcript;
use common::{Output, SMALL, Scratch, epochs, semfocus_in, start, trials, wait_until};

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
    let mut transcript = Transcript::of_trained_models(&scratch);
    let mut run = |what: &str, more: &[&str]| {
        let output = transcript.run_without_results(&[&["run", what, "-j", "1"], more].concat());
        assert_eq!(output.code, 0, "{more:?}: {}", output.stderr);
        trials(&scratch.path("runs/small")).len()
    };
    assert_eq!(run("small.toml", &["--mechanisms", "full,topk:3"]), 4);
    assert_eq!(run("small.toml", &["--seeds", "3"]), 6);
    // full with two seeds is there, banded:3 is new; four trials of others stay.
    assert_eq!(run("small.toml", &["--mechanisms", "full,banded:3"]), 8);
    assert_eq!(run_folders(&scratch), ["small"]);
    assert_eq!(before, first.iter().map(|trial| written(trial)).collect::<Vec<_>>(), "nothing was trained again");
    // A smaller request finds everything done, and the folder keeps what it has.
    assert_eq!(run("small.toml", &["--seeds", "1"]), 8);
    let list = std::fs::read_to_string(scratch.path("runs/small/trials.csv")).unwrap();
    assert_eq!(list.lines().count(), 9, "{list}");
    // The folder itself can be resumed, and completes what its lists describe: three seeds of banded:3.
    assert_eq!(run("runs/small", &[]), 9);
    assert_eq!(run("runs/small", &["--epochs", "2"]), 9);
    assert!(trials(&scratch.path("runs/small")).iter().all(|trial| epochs(trial).len() == 3), "two epochs each");
    assert_eq!(run("small.toml", &[]), 9);
    transcript.check("run-growing");
}

#[test]
fn changed_settings_have_folders_with_readable_names() {
    let scratch = folder("names");
    run(&scratch, &["training.learning_rate=1e-2"]);
    run(&scratch, &["-s", "training.learning_rate=0.01", "--seeds", "1"]);
    run(&scratch, &["model.activation=gelu", "-s", "data.length=12", "--seeds", "1"]);
    run(&scratch, &["-s", "training.learning_rate=1e-2,0.1", "--seeds", "1"]);
    assert_eq!(trials(&scratch.path("runs/small-by-learning_rate")).len(), 4);
    run(&scratch, &["training.learning_rate=0.1,0.2", "--seeds", "1"]);
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
    let arguments = ["--smoke", "--epochs", "3", "-s", "data.train=75", "--seeds", "2"];
    run(&scratch, &arguments);
    let trials = trials(&scratch.path(&format!("runs/{}", run_folders(&scratch)[0])));
    assert_eq!(trials.len(), 4, "two mechanisms, two seeds");
    let settings: toml::Table = std::fs::read_to_string(trials[0].join("trial.toml")).unwrap().parse().unwrap();
    let number = |table: &str, key: &str| settings[table][key].as_integer();
    assert_eq!(number("training", "epochs"), Some(3));
    assert_eq!((number("data", "train"), number("data", "held_out")), (Some(75), Some(25)));
}

#[test]
fn long_runs_do_not_start_by_accident() {
    let scratch = Scratch::new("long");
    scratch.file("min.toml", "task = \"parity\"\n");
    scratch.file("base.toml", "base = \"even-pairs\"\n");
    let mut messages = Transcript::new(&scratch);
    messages.refuse(2, &[&["run", "min.toml"], &["run", "base.toml"]]);
    messages.check("run-refused-long");
    assert!(!Path::new(&scratch.path("runs")).exists(), "nothing was begun");
}

#[test]
fn a_dry_run_of_the_longest_sequences_is_quick() {
    let scratch = Scratch::new("longest");
    let began = std::time::Instant::now();
    let output = semfocus(&scratch, &["run", "even-pairs", "-s", "data.length=100000", "-n", "--json"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    // Nothing of this length is trained to estimate it.
    let plan: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    let estimate = std::time::Duration::from_secs_f64(plan["core_seconds"].as_f64().unwrap());
    assert!(began.elapsed() < estimate / 1000, "{:?} for an estimate of {estimate:?}", began.elapsed());
}

#[test]
fn estimates_are_kept_and_know_what_is_done() {
    let scratch = folder("estimates");
    run(&scratch, &[]);
    let dry = run(&scratch, &["-n", "--seeds", "3", "--json"]);
    let plan: serde_json::Value = serde_json::from_str(&dry.stdout).unwrap();
    let done = plan["list"].as_array().unwrap().iter().filter(|trial| trial["epochs_done"] == 1).count();
    assert_eq!((plan["list"].as_array().unwrap().len(), done), (6, 4), "{plan}");
    let costs = Path::new(env!("CARGO_TARGET_TMPDIR")).join("semfocus/step-costs.toml");
    let text = std::fs::read_to_string(&costs).unwrap();
    let costs: toml::Table = text.parse().unwrap();
    assert!(costs["measured_with"].as_str().is_some_and(|program| program.starts_with("semfocus ")), "{text}");
}

#[test]
fn all_runs_are_listed() {
    let scratch = folder("listed");
    run(&scratch, &[]);
    run(&scratch, &["training.learning_rate=0.2"]);
    let listed = semfocus(&scratch, &["status"]);
    assert_eq!((listed.code, &listed.stdout), (0, &semfocus(&scratch, &["status", "runs"]).stdout));
    let json: serde_json::Value = serde_json::from_str(&semfocus(&scratch, &["status", "--json"]).stdout).unwrap();
    assert_eq!(json["list"].as_array().unwrap().len(), 2, "{json}");
    assert_eq!((&json["list"][0]["state"], &json["list"][0]["done"]), (&"finished".into(), &4.into()), "{json}");
    let changed = |run: &serde_json::Value| !run["changed"].as_array().is_none_or(Vec::is_empty);
    assert_eq!(json["list"].as_array().unwrap().iter().filter(|run| changed(run)).count(), 1, "{json}");
}

#[test]
fn many_trials_are_summarised() {
    let scratch = folder("many");
    run(&scratch, &["--seeds", "12", "--quiet"]);
    let mut transcript = Transcript::of_trained_models(&scratch);
    let text = transcript.run(&["status", "runs/small"]).stdout;
    assert!(text.lines().count() < 12, "{text}");
    transcript.check("status-of-many");
    let all = semfocus(&scratch, &["status", "runs/small", "--all"]).stdout;
    assert_eq!(all.lines().filter(|line| line.contains("1: 153476998")).count(), 2, "{all}");
}

#[test]
fn a_run_can_be_watched_to_its_end() {
    let scratch = Scratch::new("watched");
    let file = scratch.file("small.toml", SMALL);
    let dir = scratch.path("run");
    let child = start(&["run", &file, "-o", &dir, "-j", "1"]);
    wait_until("the run has begun", || Path::new(&dir).join("experiment.toml").exists());
    let watched = common::semfocus(&["status", &dir, "--watch"]);
    assert_eq!(watched.code, 0, "{}", watched.stderr);
    assert!(child.wait_with_output().unwrap().status.success());
    let last = watched.stdout.lines().last().unwrap();
    assert_eq!(last, "trials 4: 4 done, 0 running, 0 diverged, 0 failed, 0 left; epochs 48 of 48");
}
