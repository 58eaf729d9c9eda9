//! Attention that changes between blocks, during training and in evaluation, and `run --from`, as a user sees them.
#![cfg(unix)]

mod common;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use common::{SMALL, Scratch, assert_same_bits, epochs, semfocus, signal, start, trials};

/// Six epochs, with stages, blocks that differ, and an evaluation of its own.
fn swapped() -> String {
    SMALL
        .replace(r#"["full", "topk:3"]"#, r#"["full", "full@0,topk:3/full@2,topk:3@4"]"#)
        .replace("epochs = 12", "epochs = 6\nevaluate_as = \"topk:2\"")
        .replace("seeds = 2", "seeds = 1\nprobe_every = 2\nprobe_samples = 20")
}

fn json(arguments: &[&str]) -> Value {
    let output = semfocus(&[arguments, &["--json"]].concat());
    assert_eq!(output.code, 0, "{}", output.stderr);
    serde_json::from_str(&output.stdout).unwrap()
}

/// Runs a command again and again until it is done. It gets a signal some milliseconds after it has recorded an epoch: in the middle
/// of the next one, or while its probes and checkpoints are written.
fn run_with_signals(command: &[&str], dir: &str, name: &str) {
    let recorded = || {
        let folders = if Path::new(dir).join("trials").exists() { trials(dir) } else { Vec::new() };
        let lines = folders.iter().filter_map(|trial| std::fs::read_to_string(trial.join("epochs.csv")).ok());
        lines.map(|text| text.lines().count()).sum::<usize>()
    };
    for round in 0u64.. {
        let before = recorded();
        let mut child = start(command);
        while recorded() <= before + 1 && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(Duration::from_millis(round * 7 % 16));
        if child.try_wait().unwrap().is_none() {
            signal(&child, name);
        }
        let output = child.wait_with_output().unwrap();
        match output.status.code() {
            Some(0) => {
                assert!(round >= 2, "it was stopped several times");
                return;
            }
            // Killed, or interrupted with a checkpoint within an epoch.
            None | Some(130) => {}
            code => panic!("{code:?}: {}", String::from_utf8_lossy(&output.stderr)),
        }
    }
}

#[test]
fn a_run_with_stages_that_is_killed_and_resumed_gives_the_same_bits() {
    let scratch = Scratch::new("swaps-kills");
    let file = scratch.file("small.toml", &swapped());
    let (expected, dir) = (scratch.path("undisturbed"), scratch.path("KILL"));
    let output = semfocus(&["run", &file, "-o", &expected, "-j", "1"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    for name in ["INT", "KILL"] {
        let dir = scratch.path(name);
        run_with_signals(&["run", &file, "-o", &dir, "-j", "2"], &dir, name);
        assert_same_bits(&expected, &dir);
    }
    // Up to the first switch it is the trial with full attention, evaluated in the same way; the file of the last probe is there.
    let (a, b) = (&trials(&dir)[0], &trials(&dir)[1]);
    assert_eq!(epochs(a)[..3], epochs(b)[..3]);
    assert_ne!(epochs(a)[3], epochs(b)[3]);
    for command in ["probe", "predict", "landscape"] {
        let trial = a.to_str().unwrap();
        let path = scratch.file("tokens.txt", "0 1 0 1 1 0 1 0 0 1\n");
        let arguments: Vec<&str> = match command {
            "probe" => vec!["probe", trial, "--samples", "10"],
            "predict" => vec!["predict", trial, &path],
            _ => vec!["landscape", trial, "--grid", "3", "--samples", "10", "--directions", "path"],
        };
        let output = semfocus(&arguments);
        assert_eq!(output.code, 0, "{command}: {}", output.stderr);
    }
    let plan = semfocus(&["run", &file, "-n", "-o", &scratch.path("plan")]);
    assert!(plan.stdout.contains("full@0,topk:3/full@2,topk:3@4 "), "{}", plan.stdout);
}

/// A finished run of one trial of four epochs, and its trial.
fn source(scratch: &Scratch, options: &[&str]) -> (String, String, PathBuf) {
    let file = scratch.file("small.toml", SMALL);
    let dir = scratch.path("source");
    let common = ["run", &file, "-o", &dir, "--seeds", "1", "--epochs", "4", "--mechanisms", "full", "-q"];
    let output = semfocus(&[&common, options].concat());
    assert_eq!(output.code, 0, "{}", output.stderr);
    let trial = trials(&dir)[0].clone();
    (file, dir, trial)
}

#[test]
fn stored_weights_go_on_under_another_mechanism() {
    let scratch = Scratch::new("swaps-from");
    let (file, dir, trial) = source(&scratch, &["-s", "probe_every=2"]);
    let id = trial.file_name().unwrap().to_str().unwrap().to_owned();
    let from = format!("{dir}/{}@2", &id[..6]);
    let (expected, disturbed) = (scratch.path("expected"), scratch.path("disturbed"));
    let command = |dir: &str| ["run", &file, "--from", &from, "-o", dir, "--epochs", "6"].map(str::to_owned);
    let run = |dir: &str| {
        let command = command(dir);
        semfocus(&command.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let output = run(&expected);
    assert_eq!(output.code, 0, "{}", output.stderr);
    // Two mechanisms, and the seed of the source.
    assert_eq!(trials(&expected).len(), 2);
    let shown = json(&["show", trials(&expected)[0].to_str().unwrap()]);
    let origin = &shown["origin"];
    assert_eq!((origin["trial"].as_str(), origin["epoch"].as_u64()), (Some(id.as_str()), Some(2)));
    let weights = origin["weights"].as_str().unwrap();
    let reference = format!("{id}@2:{weights}");
    assert_eq!(shown["settings"]["training"]["from"].as_str(), Some(reference.as_str()));
    assert_eq!(json(&["status", &expected])["list"][0]["origin"].as_str(), Some(reference.as_str()));
    assert!(json(&["show", trial.to_str().unwrap()])["origin"].is_null());
    let text = semfocus(&["show", trials(&expected)[0].to_str().unwrap()]).stdout;
    assert!(
        text.contains(&format!("starts with the weights of trial {id}\n           after epoch 2 (checksum")),
        "{text}"
    );
    let report = std::fs::read_to_string(Path::new(&expected).join("report.html")).unwrap();
    assert!(report.contains(&id) && report.contains(weights));
    // The weights matter: the same trials from the initial weights have other losses.
    let fresh = scratch.path("fresh");
    assert_eq!(semfocus(&["run", &file, "-o", &fresh, "--seeds", "1", "--epochs", "1", "-q"]).code, 0);
    assert_ne!(epochs(&trials(&fresh)[0])[1], epochs(&trials(&expected)[0])[1]);
    // A run that has begun needs the source no more.
    let child = start(&command(&disturbed).iter().map(String::as_str).collect::<Vec<_>>());
    while !Path::new(&disturbed).join("origins").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    while std::fs::read_dir(Path::new(&disturbed).join("origins"))
        .unwrap()
        .all(|entry| entry.unwrap().path().extension().is_none_or(|extension| extension != "safetensors"))
    {
        std::thread::sleep(Duration::from_millis(5));
    }
    signal(&child, "KILL");
    child.wait_with_output().unwrap();
    std::fs::rename(&dir, scratch.path("gone")).unwrap();
    assert!(run(&disturbed).stderr.contains("is not a trial"), "the source is gone");
    let resumed = semfocus(&["run", &disturbed]);
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    assert_same_bits(&expected, &disturbed);
    assert_eq!(semfocus(&["verify", &disturbed]).code, 0);
    // The experiment file gives the same trials elsewhere.
    let again = scratch.path("again");
    let output = semfocus(&["run", &format!("{expected}/experiment.toml"), "-o", &again]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_same_bits(&expected, &again);
    // A damaged copy is found, and a trial cannot start with it.
    let copy = std::fs::read_dir(Path::new(&disturbed).join("origins")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&copy).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&copy, bytes).unwrap();
    let verified = semfocus(&["verify", &disturbed]);
    assert_ne!(verified.code, 0);
    assert!(format!("{}{}", verified.stdout, verified.stderr).contains("origins"), "{}", verified.stdout);
}

#[test]
fn stored_weights_that_cannot_be_used_are_explained() {
    let scratch = Scratch::new("swaps-wrong");
    let (file, dir, trial) = source(&scratch, &[]);
    let trial = trial.to_str().unwrap();
    let message = |from: &str, options: &[&str]| {
        let run = scratch.path("run");
        let output = semfocus(&[&["run", &file, "--from", from, "-o", &run], options].concat());
        assert_ne!(output.code, 0, "{from}: {}", output.stderr);
        assert!(!Path::new(&run).exists(), "nothing was begun");
        output.stderr
    };
    assert!(message("nowhere/a7b4@2", &[]).contains("nowhere/a7b4 is not a trial"));
    assert!(message(&format!("{dir}/zz"), &[]).contains("is not a trial"));
    assert!(message(&dir, &[]).contains("is a run; name one of its trials"));
    let wrong = message(&format!("{trial}@9"), &[]);
    assert!(wrong.contains("it has no weights from after epoch 9; it has those from after epoch"), "{wrong}");
    assert!(wrong.contains("probe_every"), "{wrong}");
    assert!(message(&format!("{trial}@two"), &[]).contains("`two` is not an epoch"));
    let wrong = message(trial, &["-s", "model.d_mlp=20"]);
    assert!(wrong.contains("`blocks.0.mlp.hidden.weight` has shape [16, 16], the model needs [16, 20]"), "{wrong}");
    assert!(message(trial, &["-s", "model.blocks=3"]).contains("they are those of 2 blocks, and the model has 3"));
    // Other seeds are possible, and said to be doubtful.
    let plan = semfocus(&["run", &file, "--from", trial, "--seeds", "2", "-n", "-o", &scratch.path("run")]);
    let text = plan.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(plan.code == 0 && text.contains("were trained with seed"), "{text}{}", plan.stderr);
    let best = semfocus(&["run", &file, "--from", &format!("{trial}@best"), "-n", "-o", &scratch.path("run")]);
    assert!(best.code == 0 && best.stdout.contains("training.from"), "{}", best.stderr);
}
