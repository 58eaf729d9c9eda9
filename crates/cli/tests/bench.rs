//! `semfocus bench`, as a user and a script see it.

mod common;

use std::process::Command;

use common::transcript::Transcript;
use common::{Scratch, assert_same_bits, semfocus};

#[test]
fn json_has_the_fields_that_scripts_rely_on() {
    let arguments = ["bench", "--json", "--threads", "1", "--length", "12", "--mechanisms", "full,banded:5+g1"];
    let output = semfocus(&[&arguments[..], &["--seconds", "0"]].concat());
    assert_eq!(output.code, 0, "{}", output.stderr);
    let report: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    assert!(report["gemm_gflops"].as_f64().unwrap() > 0.0);
    assert_eq!(report["threads"], 1);
    let cases = report["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 2);
    for (case, mechanism) in cases.iter().zip(["full", "banded:5+g1"]) {
        assert_eq!(case["length"], 12);
        assert_eq!(case["blocks"], 5);
        assert_eq!(case["mechanism"], mechanism);
        for field in ["train_ms", "eval_ms", "gemm_share", "train_tokens_per_second"] {
            assert!(case[field].as_f64().unwrap() > 0.0, "{field} of {case}");
        }
        assert!(case["train_ms"].as_f64() > case["eval_ms"].as_f64(), "training takes longer: {case}");
    }
}

#[test]
fn table_fits_80_columns() {
    let output = semfocus(&["bench", "--length", "8", "--mechanisms", "topk:5", "--seconds", "0", "--reference"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stdout.lines().any(|line| line.contains("topk:5")));
    assert!(output.stdout.lines().all(|line| line.chars().count() <= 80), "{}", output.stdout);
}

#[test]
fn widths_and_heads_can_be_chosen() {
    let arguments = ["bench", "--json", "--length", "8", "--mechanisms", "topk:5", "--seconds", "0", "--width", "32"];
    let report = |more: &[&str]| -> serde_json::Value {
        let output = semfocus(&[&arguments[..], more].concat());
        assert_eq!(output.code, 0, "{}", output.stderr);
        serde_json::from_str(&output.stdout).unwrap()
    };
    for (more, heads, head_width) in
        [(&[][..], 1, 32), (&["--heads", "4"], 4, 8), (&["--heads", "2", "--head-width", "32"], 2, 32)]
    {
        let report = report(more);
        let case = &report["cases"][0];
        assert_eq!([&case["width"], &case["heads"], &case["head_width"]], [32, heads, head_width], "{case}");
        assert!(case["gemm_share"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn thousands_of_classes_at_every_token_need_little_memory() {
    let shape = ["--length", "64", "--blocks", "2", "--batch", "64", "--classes", "8192", "--per-token"];
    let arguments = ["bench", "--json", "--mechanisms", "full", "--seconds", "0", "--threads", "2"];
    let output = semfocus(&[&arguments[..], &shape].concat());
    assert_eq!(output.code, 0, "{}", output.stderr);
    let report: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    let case = &report["cases"][0];
    assert_eq!((&case["batch"], &case["questions"]), (&64.into(), &64.0.into()));
    assert_eq!((&case["blocks"], &case["classes"]), (&2.into(), &8192.into()));
    // All logits of the batch alone would be 128 MiB.
    assert!(case["peak_rss_mib"].as_f64().is_none_or(|peak| peak < 150.0), "{case}");
}

#[test]
fn bad_mechanisms_and_numbers_are_explained() {
    let scratch = Scratch::new("bench-refused");
    let mut messages = Transcript::new(&scratch);
    for mechanism in ["tpok:5", "topk:0", "full+g1"] {
        messages.refuse(1, &[&["bench", "--mechanisms", mechanism]]);
    }
    messages.refuse(2, &[&["bench", "--threads", "0"], &["bench", "--length", "0"], &["bench", "--seconds=-1"]]);
    messages.check("bench-refused");
}

#[test]
fn an_instruction_set_can_be_chosen_and_changes_no_bit() {
    let scratch = Scratch::new("instructions");
    for set in sets().iter().map(String::as_str) {
        let bench =
            ["bench", "--length", "8", "--seconds", "0", "--mechanisms", "topk:5", "--json", "--instructions", set];
        let report: serde_json::Value = serde_json::from_str(&semfocus(&bench).stdout).unwrap();
        assert_eq!(report["instructions"], set);
        let run = [
            "run",
            "even-pairs",
            "--smoke",
            "-s",
            "data.length=10",
            "-s",
            "model.blocks=1",
            "-s",
            "model.dropout=0.2",
            "-q",
        ];
        let mut program = Command::new(env!("CARGO_BIN_EXE_semfocus"));
        let program = program.args(run).args(["-o", &scratch.path(set)]).env("SEMFOCUS_INSTRUCTIONS", set);
        assert!(program.output().unwrap().status.success());
        assert_same_bits(&scratch.path("portable"), &scratch.path(set));
    }
    assert_eq!(semfocus(&["bench", "--instructions", "sse9"]).code, 2);
}

/// The instruction sets of this machine, from the message about one that it does not have.
fn sets() -> Vec<String> {
    let message = semfocus(&["bench", "--instructions", "none"]).stderr;
    let (_, sets) = message.split_once("it has ").expect("the message lists the instruction sets");
    sets.lines().next().unwrap_or_default().split(", ").map(str::to_owned).collect()
}
