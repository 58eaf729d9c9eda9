//! Attention that changes between blocks, during training and in evaluation, and `run --from`, as a user sees them.
#![cfg(unix)]

mod common;

use std::path::{Path, PathBuf};

use serde_json::Value;

use common::transcript::Transcript;
use common::{SMALL, Scratch, assert_same_bits, epochs, run_with_signals, semfocus, signal, start, trials, wait_until};

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

#[test]
fn a_run_with_stages_that_is_stopped_and_resumed_gives_the_same_bits() {
    let scratch = Scratch::new("swaps-stops");
    let file = scratch.file("small.toml", &swapped());
    let (expected, dir) = (scratch.path("undisturbed"), scratch.path("stopped"));
    let output = semfocus(&["run", &file, "-o", &expected, "-j", "1"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    run_with_signals(&["run", &file, "-o", &dir, "-j", "2"], &dir, "INT", 2);
    assert_same_bits(&expected, &dir);
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
    let plan = json(&["run", &file, "-n", "-o", &scratch.path("plan")]);
    assert_eq!(plan["list"][1]["mechanism"], "full@0,topk:3/full@2,topk:3@4", "{plan}");
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
    let report = std::fs::read_to_string(Path::new(&expected).join("report.html")).unwrap();
    assert!(report.contains(&id) && report.contains(weights));
    // The weights matter: the same trials from the initial weights have other losses.
    let fresh = scratch.path("fresh");
    assert_eq!(semfocus(&["run", &file, "-o", &fresh, "--seeds", "1", "--epochs", "1", "-q"]).code, 0);
    assert_ne!(epochs(&trials(&fresh)[0])[1], epochs(&trials(&expected)[0])[1]);
    // A run that has begun needs the source no more.
    let child = start(&command(&disturbed).iter().map(String::as_str).collect::<Vec<_>>());
    wait_until("the weights are copied", || {
        let mut copies = std::fs::read_dir(Path::new(&disturbed).join("origins")).into_iter().flatten().flatten();
        copies.any(|entry| entry.path().extension().is_some_and(|extension| extension == "safetensors"))
    });
    signal(&child, "KILL");
    child.wait_with_output().unwrap();
    std::fs::rename(&dir, scratch.path("gone")).unwrap();
    assert_eq!(run(&disturbed).code, 1, "the source is gone");
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
    let verified = semfocus(&["verify", &disturbed, "--json"]);
    assert_eq!(verified.code, 3, "{}", verified.stderr);
    let verified: Value = serde_json::from_str(&verified.stdout).unwrap();
    assert!(verified["damage"].to_string().contains("origins"), "{verified}");
}

#[test]
fn stored_weights_that_cannot_be_used_are_explained() {
    let scratch = Scratch::new("swaps-wrong");
    let (_, _, trial) = source(&scratch, &[]);
    let id = trial.file_name().unwrap().to_str().unwrap();
    let trial = format!("source/{id}");
    let [last, wrong] = ["9", "two"].map(|epoch| format!("{trial}@{epoch}"));
    let mut messages = Transcript::new(&scratch);
    let run = |from, more: &[&'static str]| [&["run", "small.toml", "-o", "run", "--from", from], more].concat();
    for (from, more) in [
        ("nowhere/a7b4@2", &[][..]),
        ("source/zz", &[]),
        ("source", &[]),
        (&last, &[]),
        (&wrong, &[]),
        (&trial, &["-s", "model.d_mlp=20"]),
        (&trial, &["-s", "model.blocks=3"]),
    ] {
        let output = messages.run(&run(from, more));
        assert!(output.code != 0 && output.stdout.is_empty(), "{from}: {}", output.stdout);
        assert!(!Path::new(&scratch.path("run")).exists(), "nothing was begun");
    }
    // Other seeds are possible, and said to be doubtful.
    assert_eq!(messages.run(&run(&trial, &["--seeds", "2", "-n"])).code, 0);
    messages.check("run-from");
    let best = json(&["run", &scratch.path("small.toml"), "--from", &scratch.path(&format!("{trial}@best")), "-n"]);
    assert!(best["changed"].to_string().contains("training.from"), "{best}");
}
