//! `semfocus data` and `semfocus list tasks`, as a user sees them.

mod common;

use common::{semfocus, semfocus_with_input};
use std::fs;
use std::path::PathBuf;

/// A folder of its own for a test; gone afterwards.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("semfocus-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str, contents: &str) -> String {
        let path = self.path(name);
        fs::write(&path, contents).unwrap();
        path
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

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
    let names: Vec<&str> = output.stdout.lines().filter(|l| !l.starts_with(' ') && !l.is_empty()).collect();
    assert_eq!(names, TASKS);

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
    let refused = semfocus(&["data", "generate", "modular-arithmetic", "--format", "tsv"]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("drop round brackets"), "{}", refused.stderr);
}

#[test]
fn listops_files_go_out_and_come_back() {
    let folder = Folder::new("tsv");
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
    let output = semfocus_with_input(&["data", "label", "parity"], "0 1 1\n0 1\n1 0 5 1\n");
    assert_eq!((output.code, output.stdout.as_str()), (1, "0\n1\n"), "lines before the mistake are labelled");
    assert_eq!(
        output.stderr,
        "error: standard input, line 3, column 5: there is no token 5; `parity` has tokens 0 to 1 and pads with 2\n"
    );
    let folder = Folder::new("label");
    let file = folder.file("sequences.txt", "11 3 4\n");
    let output = semfocus(&["data", "label", "listops", &file]);
    assert_eq!(output.code, 1);
    assert!(output.stderr.contains("sequences.txt, line 1, column 7: ends too early"), "{}", output.stderr);
    let json = semfocus_with_input(&["data", "label", "stack-manipulation", "-", "--json"], "1 2\n");
    assert_eq!(json.stdout, "{\"line\":1,\"label\":2,\"meaning\":\"the stack is empty\"}\n");
    assert_eq!(semfocus(&["data", "label", "parity", "no/such/file"]).code, 1);
}

#[test]
fn unknown_tasks_are_explained() {
    for command in ["generate", "label", "show", "audit"] {
        let output = semfocus(&["data", command, "even-pair"]);
        assert_eq!((output.code, output.stdout.as_str()), (1, ""));
        assert_eq!(output.stderr, "error: unknown task `even-pair`; did you mean `even-pairs`?\n");
    }
    let output = semfocus(&["data", "audit", "no/such/file.txt"]);
    assert!(output.stderr.starts_with("error: cannot read no/such/file.txt"), "{}", output.stderr);
    assert_eq!(semfocus(&["data", "generate", "parity", "-n", "0"]).code, 2);
    let output = semfocus(&["data", "generate", "missing-duplicate", "--length", "1"]);
    assert_eq!(output.stderr, "error: `missing-duplicate` needs sequences of at least 2 tokens, got length 1\n");
}

#[test]
fn files_are_not_replaced_unasked() {
    let folder = Folder::new("output");
    let path = folder.path("parity.txt");
    let run = |seed: &str, more: &[&str]| {
        semfocus(&[&["data", "generate", "parity", "--seed", seed, "-o", &path], more].concat())
    };
    let first = run("1", &[]);
    assert_eq!((first.code, first.stdout.as_str()), (0, ""));
    assert!(first.stderr.starts_with("wrote "), "{}", first.stderr);
    let contents = fs::read_to_string(&path).unwrap();
    let same = run("1", &[]);
    assert!(same.code == 0 && same.stderr.contains("same contents"), "{}", same.stderr);
    let other = run("2", &[]);
    assert!(other.code == 1 && other.stderr.contains("use --force"), "{}", other.stderr);
    assert_eq!(fs::read_to_string(&path).unwrap(), contents);
    let forced = run("2", &["--force"]);
    assert!(forced.code == 0 && forced.stderr.starts_with("replaced "), "{}", forced.stderr);
    assert_ne!(fs::read_to_string(&path).unwrap(), contents);
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1, "nothing is left aside");
    assert_eq!(semfocus(&["data", "generate", "parity", "-o", &folder.path("no/such/folder.txt")]).code, 1);
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
    let text = output.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("The first and the last token alone give 100.0 % on held-out. A shortcut"), "{text}");
    assert!(text.contains("train and held-out 0 sequences"), "{text}");

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
    let folder = Folder::new("own");
    let lines: String =
        (0..200).map(|i| format!("it was {} {}\t{}\n", ["bad", "good"][i % 2], i, ["no", "yes"][i % 2])).collect();
    let film = folder.file("films.txt", &lines);
    let shown = semfocus(&["data", "show", &film]);
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    assert!(shown.stdout.starts_with("films\n=====\n\n200 examples of up to 4 tokens"), "{}", shown.stdout);
    let audit = semfocus(&["data", "audit", &film]);
    assert!(audit.code == 0 && audit.stdout.contains("films, seed 1: 2 classes"), "{}{}", audit.stdout, audit.stderr);
    assert_narrow(&audit.stdout);
    let wrong = folder.file("wrong.txt", "0 1\t1\n0 1 1\n");
    let output = semfocus(&["data", "audit", &wrong]);
    assert_eq!(output.code, 1);
    assert!(output.stderr.ends_with("wrong.txt, line 2, column 6: a tab and a label must follow the tokens\n"));
    let output = semfocus(&["data", "label", &film]);
    assert!(output.code == 1 && output.stderr.contains("no rule to compute"), "{}", output.stderr);
}
