//! `semfocus data` and `semfocus list tasks`, as a user sees them.

mod common;

use std::fs;

use common::transcript::Transcript;
use common::{Scratch, semfocus, semfocus_with_input};

/// The classification tasks.
const TASKS: [&str; 9] = [
    "listops",
    "parity",
    "even-pairs",
    "missing-duplicate",
    "cycle-navigation",
    "stack-manipulation",
    "modular-arithmetic",
    "solve-equation",
    "flip-flop",
];

fn assert_narrow(text: &str) {
    assert!(text.lines().all(|line| line.chars().count() <= 80 && line.trim_end() == line), "{text}");
}

#[test]
fn list_tasks() {
    let output = semfocus(&["list", "tasks"]);
    assert_eq!((output.code, output.stderr.as_str()), (0, ""));
    assert_narrow(&output.stdout);
    let names: Vec<&str> = output.stdout.lines().filter(|l| !l.starts_with([' ', '`']) && !l.is_empty()).collect();
    assert_eq!(names[0], "listops[:depth=5,args=5,operators=0.5]");
    assert_eq!(names[1..TASKS.len()], TASKS[1..]);
    // The others ask at tokens, and nearly all of them take values.
    assert_eq!(names[TASKS.len()], "recall[:pairs,keys=64,values=64]");
    assert_eq!(names.len(), TASKS.len() + 11);
    assert!(names.last().unwrap().starts_with("text["), "{names:?}");

    let json: serde_json::Value = serde_json::from_str(&semfocus(&["list", "tasks", "--json"]).stdout).unwrap();
    let stack = &json["list"][5];
    assert_eq!(stack["name"], "stack-manipulation");
    assert_eq!(stack["alphabet"][2], serde_json::json!({"id": 2, "text": "POP", "meaning": "remove the top"}));
    assert_eq!(stack["classes"][2], serde_json::json!({"id": 2, "text": "2", "meaning": "the stack is empty"}));
    assert_eq!((&stack["pad"], &stack["first_global"], &stack["default_length"]), (&5.into(), &6.into(), &"40".into()));
    assert_eq!(json["list"][0]["default_length"], "500..600");
    for task in json["list"].as_array().unwrap() {
        for field in ["summary", "tests", "source"] {
            assert!(task[field].as_str().is_some_and(|text| !text.is_empty()), "{field} of {task}");
        }
    }
}

#[test]
fn generated_files_can_be_labelled_again() {
    for task in TASKS {
        let generated = semfocus(&["data", "generate", task, "-n", "50", "--seed", "7", "--length", "21..41"]);
        assert_eq!((generated.code, generated.stderr.as_str()), (0, ""), "{task}");
        let labels: Vec<&str> = generated.stdout.lines().map(|line| line.split_once('\t').unwrap().1).collect();
        assert_eq!(labels.len(), 50);
        assert!(generated.stdout.lines().all(|line| line.split('\t').next().unwrap().split(' ').count() == 41));
        let labelled = semfocus_with_input(&["data", "label", task], &generated.stdout);
        assert_eq!(labelled.stdout.lines().collect::<Vec<_>>(), labels);
        let again = semfocus(&["data", "generate", task, "-n", "50", "--seed", "7", "--length", "21..41"]);
        assert_eq!(again.stdout, generated.stdout, "the same seed gives the same bytes");
    }
}

#[test]
fn formats() {
    let run = |arguments: &[&str]| {
        let output = semfocus(&[&["data", "generate"], arguments].concat());
        assert_eq!(output.code, 0, "{}", output.stderr);
        output.stdout
    };
    let text = run(&["stack-manipulation", "-n", "3", "--length", "6", "--format", "text"]);
    let word = |w: &str| ["0", "1", "POP", "PUSH0", "PUSH1"].contains(&w);
    assert!(text.lines().all(|line| line.split('\t').next().unwrap().split(' ').all(word)), "{text}");
    let tsv = run(&["listops", "-n", "2", "--format", "tsv"]);
    assert!(tsv.starts_with("Source\tTarget\n( ( ("), "{tsv}");
    let json = run(&["parity", "-n", "2", "--length", "3..5", "--json"]);
    let first: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!(first["tokens"].as_array().unwrap().len(), 5);
}

#[test]
fn listops_files_go_out_and_come_back() {
    let folder = Scratch::new("data-tsv");
    let (tsv, ids) = (folder.path("made.tsv"), folder.path("made.txt"));
    let arguments = ["data", "generate", "listops", "-n", "20", "--seed", "3"];
    assert_eq!(semfocus(&[&arguments[..], &["--format", "tsv", "-o", &tsv]].concat()).code, 0);
    assert_eq!(semfocus(&["data", "convert", &tsv, "-o", &ids]).code, 0);
    let unpadded = |text: &str| text.lines().map(|l| l.replace(" 15", "")).collect::<Vec<_>>();
    assert_eq!(unpadded(&fs::read_to_string(&ids).unwrap()), unpadded(&semfocus(&arguments).stdout));
    let back = semfocus(&["data", "convert", &tsv, "--format", "tsv"]);
    assert_eq!(back.stdout, fs::read_to_string(&tsv).unwrap());
}

#[test]
fn illegal_sequences_are_errors_with_line_and_column() {
    let scratch = Scratch::new("data-label");
    let mut transcript = Transcript::new(&scratch);
    let output = transcript.run_with_input(&["data", "label", "parity"], "0 1 1\n0 1\n1 0 5 1\n");
    assert_eq!((output.code, output.stdout.as_str()), (1, "0\n1\n"), "lines before the mistake are labelled");
    assert!(output.stderr.contains("line 3, column 5: "), "{}", output.stderr);
    scratch.file("sequences.txt", "11 3 4\n");
    let output = transcript.run(&["data", "label", "listops", "sequences.txt"]);
    assert!(output.code == 1 && output.stderr.contains("sequences.txt, line 1, column 7: "), "{}", output.stderr);
    let json = transcript.run_with_input(&["data", "label", "stack-manipulation", "-", "--json"], "1 2\n");
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&json["line"], &json["label"]), (&1.into(), &2.into()));
    transcript.check("data-label");
}

#[test]
fn bad_input_is_explained() {
    let scratch = Scratch::new("data-refused");
    scratch.file("wrong.txt", "0 1\t1\n0 1 1\n");
    scratch.file("films.txt", "good\t1\nbad\t0\n");
    let mut messages = Transcript::new(&scratch);
    for command in ["generate", "label", "show", "audit"] {
        messages.refuse(1, &[&["data", command, "even-pair"]]);
    }
    messages.refuse(
        1,
        &[
            &["data", "audit", "no/such/file.txt"],
            &["data", "audit", "wrong.txt"],
            &["data", "label", "parity", "no/such/file"],
            &["data", "label", "films.txt"],
            &["data", "generate", "missing-duplicate", "--length", "1"],
            &["data", "generate", "modular-arithmetic", "--format", "tsv"],
            &["data", "generate", "parity", "-o", "no/such/folder.txt"],
        ],
    );
    messages.refuse(2, &[&["data", "generate", "parity", "-n", "0"]]);
    messages.check("data-refused");
}

#[test]
fn files_are_not_replaced_unasked() {
    let folder = Scratch::new("data-output");
    let path = folder.path("parity.txt");
    let mut transcript = Transcript::new(&folder);
    let mut run = |seed: &str, more: &[&str]| {
        let output =
            transcript.run(&[&["data", "generate", "parity", "--seed", seed, "-o", "parity.txt"], more].concat());
        (output.code, fs::read_to_string(&path).unwrap())
    };
    let (code, contents) = run("1", &[]);
    assert_eq!(code, 0);
    assert_eq!(run("1", &[]), (0, contents.clone()));
    assert_eq!(run("2", &[]), (1, contents.clone()));
    let (code, replaced) = run("2", &["--force"]);
    assert!(code == 0 && replaced != contents);
    transcript.check("data-generate-files");
    assert_eq!(fs::read_dir(folder.path("")).unwrap().count(), 1, "nothing is left aside");
    if cfg!(unix) {
        assert_eq!(semfocus(&["data", "generate", "parity", "-o", "/dev/null"]).code, 0);
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}

#[test]
fn lessons() {
    for task in TASKS {
        let output = semfocus(&["data", "show", task]);
        assert_eq!((output.code, output.stderr.as_str()), (0, ""));
        assert_narrow(&output.stdout);
        assert_eq!(output.stdout.matches("\nExample ").count(), 3, "{}", output.stdout);
        assert_eq!(output.stdout.matches("\n  Label ").count(), 3, "{}", output.stdout);
        let json: serde_json::Value =
            serde_json::from_str(&semfocus(&["data", "show", task, "--json", "-n", "5"]).stdout).unwrap();
        assert_eq!(json["examples"].as_array().unwrap().len(), 5);
        assert!(json["examples"][0]["steps"][0].is_string());
    }
}

#[test]
fn audit_finds_the_shortcut_of_even_pairs() {
    let output = semfocus(&["data", "audit", "even-pairs"]);
    assert_eq!((output.code, output.stderr.as_str()), (0, ""));
    assert_narrow(&output.stdout);
    let json = semfocus(&["data", "audit", "even-pairs", "--json", "--train", "500", "--test", "50"]).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["seed"], &json["splits"][2]["examples"]), (&1.into(), &50.into()));
    let baseline = |name: &str| {
        json["baselines"].as_array().unwrap().iter().find(|b| b["name"] == name).unwrap()["accuracy"].as_f64().unwrap()
    };
    assert_eq!(baseline("first-and-last-token"), 1.0);
    assert!(baseline("majority-class") < 0.56 && baseline("last-token") < 0.56 && baseline("bag-of-tokens") < 0.56);
}

#[test]
fn files_of_your_own() {
    let folder = Scratch::new("data-own");
    let lines: String =
        (0..200).map(|i| format!("it was {} {}\t{}\n", ["bad", "good"][i % 2], i, ["no", "yes"][i % 2])).collect();
    folder.file("films.txt", &lines);
    let mut transcript = Transcript::new(&folder);
    let shown = transcript.run(&["data", "show", "films.txt"]);
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    let audit = transcript.run(&["data", "audit", "films.txt"]);
    assert_eq!(audit.code, 0, "{}", audit.stderr);
    transcript.check("data-files");
    assert_narrow(&audit.stdout);
}
