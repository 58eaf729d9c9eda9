//! Mechanisms from the command line: lists with values, mechanisms that need more than scores, and every one trained for an epoch.

mod common;

use common::transcript::Transcript;
use common::{SMALL, Scratch, epochs, semfocus, trials};

#[test]
fn every_mechanism_trains_and_is_probed() {
    let scratch = Scratch::new("every-mechanism");
    let (file, dir) = (scratch.file("small.toml", SMALL), scratch.path("run"));
    let listed = semfocus(&["list", "mechanisms", "--json"]).stdout;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let examples = listed["list"].as_array().unwrap().iter().map(|entry| entry["example"].as_str().unwrap());
    let names: Vec<&str> = examples.collect();
    let list = format!("{},topk:3,ties=random,temperature:entropy=3,entmax:alpha=learned", names.join(","));
    let sizes = ["model.blocks=1", "model.d_model=16", "model.d_mlp=16", "data.train=50", "data.held_out=25"];
    let mut arguments =
        vec!["run", &file, "-o", &dir, "--seeds", "1", "--epochs", "1", "--mechanisms", &list, "--quiet"];
    sizes.iter().for_each(|size| arguments.extend(["-s", size]));
    let output = semfocus(&arguments);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let trials = trials(&dir);
    assert_eq!(trials.len(), names.len() + 3);
    assert!(trials.iter().all(|trial| epochs(trial).len() == 2), "one epoch each");
    let probed = semfocus(&["probe", &dir, "--mechanisms", "moba:block=8,k=2,oracle:5,gradk:5,lsh"]);
    assert_eq!(probed.code, 0, "{}", probed.stderr);
    for mechanism in ["moba:block=8,k=2", "oracle:5", "gradk:5", "lsh"] {
        assert!(probed.stdout.lines().any(|line| line.starts_with(mechanism)), "{mechanism}: {}", probed.stdout);
    }
}

#[test]
fn mechanisms_that_need_relevant_positions_are_refused_for_data_files() {
    let scratch = Scratch::new("no-relevance");
    let lines: String = (0..40).map(|i| format!("{} {} {}\t{}\n", i % 2, i / 2 % 2, i / 4 % 2, i % 2)).collect();
    let data = scratch.file("own.tsv", &lines);
    let text = format!("claim = \"x\"\ntask = {data:?}\nmechanisms = [\"full\", \"oracle:2\"]\nseeds = 1\n");
    scratch.file("own.toml", &text);
    let mut messages = Transcript::new(&scratch);
    messages.refuse(2, &[&["run", "own.toml", "-o", "run", "--smoke"]]);
    messages.check("run-refused-mechanisms");
}
