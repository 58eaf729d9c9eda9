//! `semfocus compare`, and what `run` says at its end, on a run of seconds.

mod common;

use common::transcript::Transcript;
use common::{SMALL, Scratch, semfocus};

const TINY: &str = r#"
claim = "Top-k attention learns faster."
task = "even-pairs"
mechanisms = ["full", "topk:3", "topk:9"]
seeds = 2
data.length = 8
data.train = 40
data.held_out = 20
model.blocks = 1
model.d_model = 8
model.d_mlp = 8
training.epochs = 1

[expect]
"topk:3" = ["faster", "not worse"]
"#;

#[test]
fn the_answer_comes_first_and_nothing_is_said_about_chance() {
    let scratch = Scratch::new("compare-answer");
    scratch.file("tiny.toml", TINY);
    let dir = scratch.path("run");
    let mut transcript = Transcript::of_trained_models(&scratch);
    let run = transcript.run(&["run", "tiny.toml", "-o", "run", "-j", "1"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    transcript.check("run-with-expectations");
    let compare = semfocus(&["compare", &dir]);
    let answer = run.stdout.lines().find(|line| line.starts_with("answer ")).expect("there is an answer");
    assert!(compare.stdout.lines().any(|line| line == answer), "both say the same: {}", compare.stdout);
    let json: serde_json::Value = serde_json::from_str(&semfocus(&["compare", &dir, "--json"]).stdout).unwrap();
    assert_eq!(json["list"][1]["expected"][0]["answer"], "undecided", "{json}");
    assert_eq!(json["list"][1]["generalisation"], "not_learned");
    assert_eq!((&json["list"][2]["mechanism"], &json["list"][2]["reached"]), (&"topk:9".into(), &0.into()), "{json}");
}

#[test]
fn every_mechanism_can_be_the_baseline() {
    let scratch = Scratch::new("compare-baseline");
    scratch.file("tiny.toml", TINY);
    let dir = scratch.path("run");
    let mut transcript = Transcript::of_trained_models(&scratch);
    for arguments in [
        &["run", "tiny.toml", "-o", "run", "-j", "1", "--mechanisms", "topk:3,topk:9"][..],
        &["compare", "run", "--baseline", "topk:9"],
        &["compare", "run", "--all-pairs"],
    ] {
        let output = transcript.run(arguments);
        assert_eq!(output.code, 0, "{}", output.stderr);
    }
    let json: serde_json::Value =
        serde_json::from_str(&semfocus(&["compare", &dir, "--all-pairs", "--json"]).stdout).unwrap();
    assert_eq!(
        (json["list"][0]["mechanism"].as_str(), json["list"][0]["baseline"].as_str()),
        (Some("topk:9"), Some("topk:3"))
    );
    transcript.refuse(1, &[&["compare", "run", "--baseline", "topk:4"]]);
    transcript.check("compare-baselines");
}

#[test]
fn grid_points_are_shown_wherever_results_are() {
    let scratch = Scratch::new("compare-grid");
    let text = TINY.replace("seeds = 2", "seeds = 1").replace(", \"topk:9\"", "")
        + "[grid]\nmodel.activation = [\"relu\", \"gelu\"]\n";
    let file = scratch.file("tiny.toml", &text);
    let dir = scratch.path("run");
    let run = semfocus(&["run", &file, "-o", &dir, "-q"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout.lines().any(|line| line == "activation = gelu"), "{}", run.stdout);
    let commands: [&[&str]; 3] = [
        &["probe", &dir, "--samples", "5"],
        &["landscape", &dir, "--grid", "3", "--samples", "5"],
        &["sharpness", &dir, "--samples", "5", "--fast", "--eigenvalues", "1", "--probes", "2"],
    ];
    for arguments in commands {
        let shown = semfocus(arguments).stdout;
        for label in ["\nactivation = relu\nfull ", "\nactivation = gelu\nfull "] {
            assert!(shown.contains(label), "{}: {shown}", arguments[0]);
        }
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        let json: serde_json::Value =
            serde_json::from_str(&semfocus(&[arguments, &["--json"]].concat()).stdout).unwrap();
        let entries = json.get("probes").unwrap_or(&json["list"]);
        assert_eq!(entries[0]["point"][0][1], "relu", "{}", arguments[0]);
    }
    assert_eq!(semfocus(&["report", &dir]).code, 0);
    let page = std::fs::read_to_string(std::path::Path::new(&dir).join("report.html")).unwrap();
    assert!(page.contains("<td>relu</td><td>topk:3</td>"), "tables name the point");
}

#[test]
fn runs_are_compared_with_the_first() {
    let scratch = Scratch::new("compare-runs");
    let file = scratch.file("small.toml", SMALL);
    let (one, two) = (scratch.path("one"), scratch.path("two"));
    assert_eq!(semfocus(&["run", &file, "-o", &one, "--epochs", "2", "-q"]).code, 0);
    let changed = ["run", &file, "-o", &two, "--epochs", "2", "-q", "-s", "training.learning_rate=0.01"];
    assert_eq!(semfocus(&[&changed[..], &["--mechanisms", "full,topk:3,topk:4"]].concat()).code, 0);
    let mut transcript = Transcript::of_trained_models(&scratch);
    let output = transcript.run(&["compare", "one", "two"]);
    assert_eq!((output.code, output.stderr.as_str()), (0, ""));
    assert!(output.stdout.lines().all(|line| line.chars().count() <= 80), "{}", output.stdout);
    let json = semfocus(&["compare", &two, &one, "--json"]).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let rows = json["list"].as_array().unwrap();
    assert_eq!(rows.len(), 4, "two runs of two common mechanisms: {json}");
    assert_eq!((&rows[1]["mechanism"], &rows[1]["baseline"]), (&"one".into(), &"two".into()));
    assert_eq!(rows[3]["point"], serde_json::json!([["mechanism", "topk:3"]]));
    // A run is the same as itself, and the numbers are those of the run.
    let single: serde_json::Value = serde_json::from_str(&semfocus(&["compare", &one, "--json"]).stdout).unwrap();
    assert_eq!(rows[1]["best_heldout_accuracy"], single["list"][0]["best_heldout_accuracy"]);
    // The same again with more epochs on record than one of them: what is the same is said once, without a table.
    let again = scratch.path("again");
    assert_eq!(semfocus(&["run", &file, "-o", &again, "--epochs", "2", "-q", "--seeds", "1"]).code, 0);
    let output = transcript.run(&["compare", "one", "again"]);
    assert_eq!(output.stdout.matches("identical").count(), 1, "{}", output.stdout);
    assert!(!output.stdout.contains("speed-up") && !output.stdout.contains("no evidence"), "{}", output.stdout);
    // What makes no sense is refused.
    transcript.refuse(2, &[&["compare", "one", "two", "--baseline", "full"]]);
    let other = scratch.path("other");
    assert_eq!(semfocus(&["run", &file, "-o", &other, "--epochs", "1", "-q", "--mechanisms", "topk:9"]).code, 0);
    transcript.refuse(1, &[&["compare", "one", "other"]]);
    transcript.check("compare-runs");
}
