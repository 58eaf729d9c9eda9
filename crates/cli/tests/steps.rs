//! Learning-rate factors, new examples for every step, and steps as the unit of training, as a user sees them.

mod common;

use std::path::Path;

use common::transcript::Transcript;
use common::{SMALL, Scratch, assert_refused, assert_same_bits, epochs, semfocus, trials};

/// Two trials with new examples for every step: 6 epochs of 10 steps.
fn online() -> String {
    SMALL
        .replace("seeds = 2", "seeds = 1")
        .replace("train = 400", "train = 100\nonline = true")
        .replace("epochs = 12", "steps = 60\nevaluate_every = 10")
}

fn run(file: &str, dir: &str, more: &[&str]) -> common::Output {
    let output = semfocus(&[&["run", file, "-o", dir], more].concat());
    assert_eq!(output.code, 0, "{}", output.stderr);
    output
}

fn settings(trial: &Path) -> String {
    std::fs::read_to_string(trial.join("trial.toml")).unwrap()
}

/// A column of `epochs.csv`.
fn column(trial: &Path, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(trial.join("epochs.csv")).unwrap();
    let index = text.lines().next().unwrap().split(',').position(|column| column == name).unwrap();
    text.lines().skip(1).map(|line| line.split(',').nth(index).unwrap().to_owned()).collect()
}

#[test]
fn trials_without_these_settings_have_the_ids_and_files_of_earlier_versions() {
    let scratch = Scratch::new("earlier");
    let file = scratch.file("small.toml", SMALL);
    let dir = scratch.path("run");
    // Default values are no different from none.
    let defaults = ["-s", "training.lr_factor.query=1", "-s", "data.online=false", "-s", "training.evaluate_every=0"];
    run(&file, &dir, &[&["--epochs", "1"], &defaults[..]].concat());
    let ids: Vec<String> =
        trials(&dir).iter().map(|trial| trial.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(ids, ["aab195926356e179", "bbb1b3c5d8452c36", "cc17c86f523a6172", "e2040a1c04af4402"]);
    let text = settings(&trials(&dir)[0]);
    let keys: Vec<&str> = text.lines().filter_map(|line| line.split_once(" = ")).map(|(key, _)| key).collect();
    assert_eq!(keys.join(" "), EARLIER_KEYS);
}

const EARLIER_KEYS: &str = "mechanism probe_every probe_samples seed task held_out length test train \
    activation blocks d_mlp d_model dropout engine heads inverse_temperature dropout_in_evaluation \
    first_norm_without_eps pad_to_mask_multiple skip_last_example batch beta1 beta2 clip decay epochs epsilon \
    learning_rate momentum optimizer weight_decay";

#[test]
fn a_record_of_an_earlier_version_is_left_alone() {
    let scratch = Scratch::new("earlier");
    let file = scratch.file("small.toml", SMALL);
    let dir = scratch.path("run");
    let few = ["--seeds", "1", "--mechanisms", "full"];
    run(&file, &dir, &[&["--epochs", "2"], &few[..]].concat());
    let record = trials(&dir)[0].join("epochs.csv");
    let text = std::fs::read_to_string(&record).unwrap().replace(",4\n", ",3\n");
    std::fs::write(&record, &text).unwrap();
    let show = trials(&dir)[0].display().to_string();
    for (arguments, code) in [(&["show", &show][..], 1), (&["run", &file, "-o", &dir, "--epochs", "4", "--quiet"], 3)] {
        let output = semfocus(&[arguments, if code == 3 { &few } else { &[] }].concat());
        assert_eq!(output.code, code, "{}", output.stderr);
        let stderr: Vec<&str> = output.stderr.split_whitespace().collect();
        assert!(stderr.join(" ").contains("read it with version 0.2.0"), "{}", output.stderr);
    }
    assert_eq!(std::fs::read_to_string(&record).unwrap(), text, "it is neither damaged nor trained again");
}

#[test]
fn a_factor_can_be_set_anywhere_and_makes_another_trial() {
    let scratch = Scratch::new("factors");
    let text = SMALL.replace("seeds = 2", "seeds = 1").replace("epochs = 12", "epochs = 1\nlr_factor.query = 8")
        + "\n[grid]\ntraining.lr_factor.value = [1, 0, 0.5]\n";
    let file = scratch.file("factors.toml", &text);
    let dir = scratch.path("run");
    run(&file, &dir, &["-s", "training.lr_factor.embedding=0"]);
    let losses = |dir: &str| {
        let mut losses: Vec<String> = trials(dir).iter().map(|trial| column(trial, "train_loss").remove(1)).collect();
        losses.sort();
        losses.dedup();
        losses
    };
    assert_eq!((trials(&dir).len(), losses(&dir).len()), (6, 6), "every factor changes the result");
    let shown: String = trials(&dir).iter().map(|trial| settings(trial)).collect();
    assert_eq!(shown.matches("query = 8.0").count(), 6, "{shown}");
    assert_eq!(shown.matches("value = ").count(), 4, "a factor of 1 is not written: {shown}");
}

#[test]
fn mistakes_are_shown_where_they_are() {
    let scratch = Scratch::new("step-mistakes");
    scratch.file("mine.txt", &semfocus(&["data", "generate", "parity", "-n", "200", "--length", "7"]).stdout);
    let cases = [
        ("epochs = 12", "lr_factor.query = -1", ":19:19"),
        ("epochs = 12", "lr_factor.query = nan", ":19:19"),
        ("epochs = 12", "lr_factor.query = inf", ":19:19"),
        ("epochs = 12", "lr_factor.query = \"8\"", ":19:19"),
        ("epochs = 12", "lr_factor.querry = 8", ":19:11"),
        ("epochs = 12", "lr_factor.attention.key = 8", ":19:11"),
        ("epochs = 12", "lr_factor = 8", ":19:1"),
        ("epochs = 12", "evaluate_every = -1", ":19:18"),
        ("epochs = 12", "steps = 0", ":19:9"),
        ("epochs = 12", "steps = 40", ":19:9"),
        ("epochs = 12", "steps = 10", ":19:9"),
        ("epochs = 12", "epochs = 12\nsteps = 32", ":20:1"),
        ("epochs = 12", "epoch = 12", ":19:1"),
        ("train = 400", "online = 1", ":9:10"),
        ("[training]", "[grid]\ntraining.steps = [16, 32]\n[training]", ":19:1"),
    ];
    assert_refused("run-refused-steps", &scratch, SMALL, &cases);
    scratch.file("small.toml", SMALL);
    let mine = SMALL.replace("task = \"even-pairs\"", "task = \"mine.txt\"").replace("length = 10\n", "");
    scratch.file("own.toml", &mine.replace("train = 400", "train = 100\nonline = true"));
    let mut messages = Transcript::new(&scratch);
    let small = ["run", "small.toml", "-o", "run", "-s"];
    messages.refuse(
        2,
        &[
            &["run", "own.toml", "-o", "run"],
            &[&small[..], &["training.lr_factor.hiden=2"]].concat(),
            &[&small[..], &["lr_factor.key=2"]].concat(),
            &[&small[..], &["training.steps=5"]].concat(),
            &[&small[..], &["training.steps=16", "--epochs", "2"]].concat(),
            &[&small[..], &["quirks.skip_last_example=true", "-s", "data.online=true"]].concat(),
        ],
    );
    messages.check("run-refused-steps-arguments");
    assert!(!Path::new(&scratch.path("run")).exists(), "nothing was begun");
}

#[test]
fn new_examples_for_every_step_are_trained_on_evaluated_and_reported() {
    let scratch = Scratch::new("online");
    let file = scratch.file("online.toml", &online());
    let dir = scratch.path("run");
    let mut transcript = Transcript::of_trained_models(&scratch);
    let output =
        transcript.run(&["run", "online.toml", "-o", "run", "-j", "1", "-s", "probe_every=2", "-s", "data.test=50"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    transcript.check("run-in-steps");
    for trial in trials(&dir) {
        assert_eq!(column(&trial, "steps"), ["0", "10", "20", "30", "40", "50", "60"]);
        assert_eq!(column(&trial, "epoch"), ["0", "1", "2", "3", "4", "5", "6"]);
        let shown = semfocus(&["show", trial.to_str().unwrap(), "--json"]);
        let shown: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
        assert_eq!((&shown["state"], &shown["epochs"][5]["steps"]), (&"finished".into(), &60.into()), "{shown}");
        assert_eq!(shown["settings"]["data"]["online"], true);
        assert!(shown["status"]["test"]["last"]["loss"].is_number(), "{shown}");
        assert_eq!(std::fs::read_dir(trial.join("snapshots")).unwrap().count(), 4, "epochs 0, 2, 4 and 6");
    }
    // The whole command line works with it.
    for arguments in [
        &["compare", &dir][..],
        &["status", &dir],
        &["report", &dir],
        &["probe", &dir, "--samples", "5"],
        &["landscape", &dir, "--grid", "3", "--samples", "5"],
        &["sharpness", &dir, "--samples", "5", "--probes", "2"],
    ] {
        let output = semfocus(arguments);
        assert_eq!(output.code, 0, "{arguments:?}: {}", output.stderr);
    }
    let page = std::fs::read_to_string(Path::new(&dir).join("report.html")).unwrap();
    assert!(page.contains("<dt>data.online</dt><dd>true"), "{page}");
    assert!(!page.contains("lr_factor"), "settings that have their default are not listed");
    // On a fixed set the same trial is another one, and so are its results.
    let fixed = scratch.path("fixed");
    run(&file, &fixed, &["-s", "data.online=false"]);
    assert!(
        trials(&dir).iter().all(|trial| !trials(&fixed).iter().any(|other| other.file_name() == trial.file_name()))
    );
    assert_ne!(column(&trials(&dir)[0], "heldout_loss"), column(&trials(&fixed)[0], "heldout_loss"));
}

#[test]
fn a_run_in_steps_can_be_made_longer_either_way() {
    let scratch = Scratch::new("longer");
    let file = scratch.file("online.toml", &online());
    let (whole, by_steps, by_epochs) = (scratch.path("whole"), scratch.path("steps"), scratch.path("epochs"));
    run(&file, &whole, &["-s", "training.steps=80"]);
    run(&file, &by_steps, &[]);
    run(&file, &by_steps, &["-s", "training.steps=80"]);
    // `--epochs` takes the place of the steps in the file.
    run(&file, &by_epochs, &["--epochs", "3"]);
    assert_eq!(epochs(&trials(&by_epochs)[0]).len(), 4, "the untrained model, and three epochs");
    run(&file, &by_epochs, &["--epochs", "8"]);
    assert_same_bits(&whole, &by_steps);
    for (one, other) in trials(&whole).iter().zip(trials(&by_epochs)) {
        assert_eq!(epochs(one), epochs(&other));
        let read = |trial: &Path| std::fs::read(trial.join("last.safetensors")).unwrap();
        assert!(read(one) == read(&other));
    }
    let shorter = semfocus(&["run", &file, "-o", &by_steps, "-s", "training.steps=20"]);
    assert_eq!(shorter.code, 0, "a shorter run is part of the longer one: {}", shorter.stderr);
    assert_same_bits(&whole, &by_steps);
    // What is stored gives the same trials again.
    let again = scratch.path("again");
    run(Path::new(&by_steps).join("experiment.toml").to_str().unwrap(), &again, &[]);
    assert_same_bits(&whole, &again);
}

#[test]
fn results_with_new_examples_do_not_depend_on_how_many_trials_run_at_once() {
    let scratch = Scratch::new("online-jobs");
    let file = scratch.file("online.toml", &online().replace("seeds = 1", "seeds = 2"));
    let runs = ["1", "2", "4"].map(|jobs| {
        let dir = scratch.path(jobs);
        run(&file, &dir, &["-j", jobs]);
        dir
    });
    assert_same_bits(&runs[0], &runs[1]);
    assert_same_bits(&runs[0], &runs[2]);
}

#[test]
fn a_smoke_run_stays_small_and_a_dry_run_counts_the_steps() {
    let scratch = Scratch::new("step-estimates");
    let file =
        scratch.file("online.toml", &online().replace("steps = 60", "steps = 10000").replace("= 10\n", "= 1000\n"));
    run(&file, &scratch.path("smoke"), &["--smoke"]);
    assert_eq!(column(&trials(&scratch.path("smoke"))[0], "steps"), ["0", "2"]);
    let estimate = |more: &[&str]| -> serde_json::Value {
        let output = semfocus(&[&["run", &file, "-n", "-q", "--json"], more].concat());
        assert_eq!(output.code, 0, "{}", output.stderr);
        serde_json::from_str(&output.stdout).unwrap()
    };
    let long = estimate(&[]);
    assert_eq!((&long["list"][0]["epochs"], &long["list"][0]["steps"]), (&10.into(), &10000.into()), "{long}");
    let short = estimate(&["-s", "training.steps=1000", "-s", "training.evaluate_every=100"]);
    assert_eq!((&short["list"][0]["epochs"], &short["list"][0]["steps"]), (&10.into(), &1000.into()), "{short}");
    // Ten times the steps; the evaluations, as many, cost little here. Timing on a busy machine is rough.
    let ratio = long["core_seconds"].as_f64().unwrap() / short["core_seconds"].as_f64().unwrap();
    assert!((2.0..20.0).contains(&ratio), "{ratio}");
}
