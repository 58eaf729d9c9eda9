//! `semfocus explain`, and what `compare` says at its end about a run with controls, on invented runs.

mod common;

use std::path::Path;

use common::transcript::Transcript;
use common::{Scratch, semfocus};
use semfocus_core::{AnyName, Experiment, Request, Scale, study};
use semfocus_fixture::{self as fixture, Fixture};
use semfocus_store::State;

const EPOCHS: usize = 40;

/// A run in which every trial reaches the target in the epoch that `epoch` gives for its mechanism and the number of its seed.
fn invent(dir: &str, mechanisms: &[&str], epoch: impl Fn(&str, usize) -> Option<usize>) {
    let request = Request {
        experiment: "even-pairs".to_owned(),
        scale: Some(Scale::Full),
        mechanisms: Some(mechanisms.iter().map(|&mechanism| mechanism.to_owned()).collect()),
        seeds: Some(8),
        epochs: Some(EPOCHS),
        ..Request::default()
    };
    let experiment = Experiment::resolve(&request, &AnyName).unwrap();
    let store = fixture::store(Path::new(dir), &experiment, |trial| {
        let seed = study::SEEDS.iter().position(|seed| *seed == trial.seed).unwrap();
        let at = epoch(&trial.mechanism, seed);
        let records = (1..=EPOCHS).map(|epoch| fixture::jump(epoch, at, 0.99)).collect();
        Some(Fixture { records, state: State::Finished, probes: Vec::new() })
    });
    store.unwrap();
}

/// The sparse forward pass is fast, whichever keys it keeps; the band never learns.
fn sparse_is_fast(mechanism: &str, seed: usize) -> Option<usize> {
    match mechanism {
        "full" | "temperature:entropy=5" | "gradk:5" => Some(28 + (3 * seed + mechanism.len()) % 7),
        "banded:5" => None,
        "frozenk:5" => Some([8, 20, 12, 9, 16, 10][seed % 6]),
        _ => Some(6 + (seed + mechanism.len()) % 2),
    }
}

const MECHANISMS: [&str; 9] =
    ["full", "topk:5", "oracle:5", "fixedk:5", "banded:5", "frozenk:5", "stk:5", "gradk:5", "temperature:entropy=5"];

#[test]
fn controls_are_explained() {
    let scratch = Scratch::new("explain");
    let dir = scratch.path("run");
    invent(&dir, &MECHANISMS, sparse_is_fast);
    let mut transcript = Transcript::new(&scratch);
    let explained = transcript.run(&["explain", "run"]);
    assert_eq!((explained.code, explained.stderr.as_str()), (0, ""));
    assert!(explained.stdout.lines().all(|line| line.chars().count() <= 80), "{}", explained.stdout);
    transcript.check("explain");
    let json: serde_json::Value = serde_json::from_str(&semfocus(&["explain", &dir, "--json"]).stdout).unwrap();
    assert_eq!(json["list"][0]["claim"]["answer"], "not_supported");
    assert_eq!(json["list"][0]["controls"][0]["mechanism"], "oracle:5");
    assert_eq!(json["list"][0]["controls"][0]["kept"], "most");
    assert_eq!(json["list"][0]["controls"][2]["share"]["kind"], "at_most");
    let mut transcript = Transcript::new(&scratch);
    transcript.run(&["compare", "run", "--rules"]);
    transcript.run(&["compare", "run", "--baseline", "topk:5"]);
    transcript.check("compare");
}

#[test]
fn what_cannot_be_explained_is_an_error_that_says_why() {
    let scratch = Scratch::new("explain-nothing");
    let dir = scratch.path("run");
    invent(&dir, &["full", "topk:5", "banded:5"], sparse_is_fast);
    let mut messages = Transcript::new(&scratch);
    messages.refuse(1, &[&["explain", "run"], &["explain", "run", "--of", "topk:9"]]);
    messages.check("explain-refused");
    assert!(!semfocus(&["compare", &dir]).stdout.contains("explain"), "there is nothing to explain");
}
