//! Where the data of a trial comes from: test splits, a seed of the data, a file for each split.

mod common;

use std::path::Path;

use common::{SMALL, Scratch, epochs, semfocus, semfocus_in, semfocus_with_input, trials};

fn json_file(path: &Path) -> serde_json::Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Accuracy of the last model of a trial on lines `tokens <TAB> label`.
fn accuracy(trial: &Path, examples: &str, more: &[&str]) -> f64 {
    let (sequences, labels): (Vec<&str>, Vec<&str>) =
        examples.lines().map(|line| line.split_once('\t').unwrap()).unzip();
    let arguments = [&["predict", trial.to_str().unwrap()], more].concat();
    let output = semfocus_with_input(&arguments, &(sequences.join("\n") + "\n"));
    assert_eq!(output.code, 0, "{}", output.stderr);
    let right = output.stdout.lines().zip(&labels).filter(|(line, label)| line.split('\t').next() == Some(**label));
    right.count() as f64 / labels.len() as f64
}

/// The examples of a split of the small experiment.
fn split(name: &str, seed: &str, n: &str) -> String {
    let arguments = ["data", "generate", "even-pairs", "--length", "10", "--split", name, "--seed", seed, "-n", n];
    let output = semfocus(&arguments);
    assert_eq!(output.code, 0, "{}", output.stderr);
    output.stdout
}

#[test]
fn the_test_split_is_evaluated_at_the_end() {
    let scratch = Scratch::new("test-split");
    let file = scratch.file("small.toml", &SMALL.replace("held_out = 100", "held_out = 100\ntest = 50"));
    let dir = scratch.path("run");
    let arguments = ["run", &file, "-o", &dir, "--seeds", "1", "--mechanisms", "topk:3", "--epochs", "3", "--quiet"];
    assert_eq!(semfocus(&arguments).code, 0);
    let trial = &trials(&dir)[0];
    let status = json_file(&trial.join("status.json"));
    let examples = split("test", "153476998", "50");
    for (model, more) in [("last", &[][..]), ("best", &["--best"])] {
        let expected = accuracy(trial, &examples, more);
        assert_eq!(status["test"][model]["accuracy"].as_f64(), Some(expected), "{status}");
        assert!(status["test"][model]["loss"].as_f64().is_some_and(|loss| loss > 0.0), "{status}");
    }
    let shown = semfocus(&["show", trial.to_str().unwrap()]).stdout;
    assert!(shown.lines().any(|line| line.starts_with("test       accuracy")), "{shown}");
    let shown = semfocus(&["show", trial.to_str().unwrap(), "--json"]).stdout;
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["status"]["test"], status["test"]);
    // Without a test split there is no such result.
    let (file, dir) = (scratch.file("small.toml", SMALL), scratch.path("without"));
    assert_eq!(semfocus(&["run", &file, "-o", &dir, "--seeds", "1", "--epochs", "1", "--quiet"]).code, 0);
    assert!(json_file(&trials(&dir)[0].join("status.json"))["test"].is_null());
    assert!(!semfocus(&["show", trials(&dir)[0].to_str().unwrap()]).stdout.contains("\ntest "));
}

#[test]
fn trials_with_a_seed_of_the_data_share_their_data() {
    let scratch = Scratch::new("data-seed");
    let file = scratch.file("small.toml", &SMALL.replace("train = 400", "train = 400\nseed = 1"));
    let dir = scratch.path("run");
    let output = semfocus(&["run", &file, "-o", &dir, "--mechanisms", "topk:3", "--epochs", "3", "--quiet"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(trials(&dir).len(), 2);
    let (train, held_out) = (split("train", "1", "400"), split("held-out", "1", "100"));
    for trial in trials(&dir) {
        let settings: toml::Table = std::fs::read_to_string(trial.join("trial.toml")).unwrap().parse().unwrap();
        assert_eq!(settings["data"]["seed"].as_integer(), Some(1));
        assert_ne!(settings["seed"].as_integer(), Some(1), "the seeds of the trials are others");
        let last = epochs(&trial)[3].clone();
        let recorded: Vec<f64> = last.split(',').map(|number| number.parse().unwrap()).collect();
        assert_eq!(accuracy(&trial, &train, &[]), recorded[3], "{last}");
        assert_eq!(accuracy(&trial, &held_out, &[]), recorded[5], "{last}");
    }
}

#[test]
fn every_split_can_have_its_file() {
    let scratch = Scratch::new("split-files");
    std::fs::create_dir(scratch.path("mine")).unwrap();
    for (name, n) in [("train", "300"), ("held-out", "100"), ("test", "60")] {
        scratch.file(&format!("mine/{name}.txt"), &split(name, "5", n));
    }
    let files = "train_file = \"mine/train.txt\"\nheld_out_file = \"mine/held-out.txt\"\ntest_file = \"mine/test.txt\"";
    let text = SMALL.replace("length = 10\ntrain = 400\nheld_out = 100", files).replace("even-pairs", "my-pairs");
    scratch.file("mine.toml", &text);
    let run = |more: &[&str]| {
        let arguments = ["run", "mine.toml", "-o", "run", "--epochs", "2", "--seeds", "1", "--mechanisms", "topk:3"];
        semfocus_in(&scratch.path(""), &[&arguments[..], more].concat(), "")
    };
    let output = run(&[]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let trial = trials(&scratch.path("run")).remove(0);
    let settings: toml::Table = std::fs::read_to_string(trial.join("trial.toml")).unwrap().parse().unwrap();
    let data = settings["data"].as_table().unwrap();
    assert_eq!(data["train_file"].as_str(), Some(&scratch.path("mine/train.txt")[..]), "recorded from the root");
    assert_eq!(
        [&data["train"], &data["held_out"], &data["test"]].map(|size| size.as_integer().unwrap()),
        [300, 100, 60]
    );
    let shown = semfocus_in(&scratch.path(""), &["show", trial.to_str().unwrap()], "").stdout;
    assert!(shown.contains("topk:3 on my-pairs") && shown.contains("\ntest       accuracy"), "{shown}");
    let probed = semfocus_in("/", &["probe", &scratch.path("run"), "--samples", "5"], "");
    assert_eq!(probed.code, 0, "{}", probed.stderr);

    // Files that have changed make another experiment; missing ones are named.
    let test = std::fs::read_to_string(scratch.path("mine/test.txt")).unwrap();
    std::fs::write(scratch.path("mine/test.txt"), test.lines().skip(1).collect::<Vec<_>>().join("\n") + "\n").unwrap();
    let changed = run(&[]);
    assert_eq!(changed.code, 1);
    assert!(changed.stderr.contains("its data files have other contents now"), "{}", changed.stderr);
    std::fs::write(scratch.path("mine/test.txt"), test).unwrap();
    let missing = run(&["-s", "data.held_out_file=mine/nowhere.txt"]);
    assert_eq!(missing.code, 2, "{}", missing.stderr);
    assert!(missing.stderr.contains("mine/nowhere.txt: "), "{}", missing.stderr);
    let without = text.replace("held_out_file = \"mine/held-out.txt\"\n", "");
    scratch.file("mine.toml", &without);
    let without = run(&[]);
    assert_eq!(without.code, 2, "{}", without.stderr);
    assert!(
        without.stderr.contains("`data.train_file` is set but `data.held_out_file` is not; both are needed"),
        "{}",
        without.stderr
    );
}

#[test]
fn paths_start_at_the_experiment_file_and_do_not_change_ids() {
    let scratch = Scratch::new("own-paths");
    std::fs::create_dir_all(scratch.path("own/data")).unwrap();
    let rows: String = split("train", "5", "400");
    scratch.file("own/data/pairs.tsv", &format!("text\tlabel\n{rows}"));
    let file = |task: &str| SMALL.replace("length = 10\n", "").replace("\"even-pairs\"", &format!("\"{task}\""));
    scratch.file("own/pairs.toml", &file("data/pairs.tsv"));
    let options = ["--epochs", "1", "--seeds", "1", "--mechanisms", "full,topk:3"];
    let run = |folder: &str, path: &str, dir: &str| {
        semfocus_in(folder, &[&["run", path, "-o", dir][..], &options].concat(), "")
    };
    // From three folders, by three spellings: the same trials.
    let dirs = ["one", "two", "three"].map(|name| scratch.path(name));
    let first = run(&scratch.path(""), "own/pairs.toml", &dirs[0]);
    assert_eq!(first.code, 0, "{}", first.stderr);
    let said = first.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("line 1 is a header (text, label) and no example"), "{}", first.stderr);
    assert_eq!(run(&scratch.path("own/data"), "../pairs.toml", &dirs[1]).code, 0);
    scratch.file("elsewhere.toml", &file(&scratch.path("own/data/pairs.tsv")));
    assert_eq!(run("/", &scratch.path("elsewhere.toml"), &dirs[2]).code, 0);
    let names =
        |dir: &String| trials(dir).iter().map(|trial| trial.file_name().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(names(&dirs[0]), names(&dirs[1]));
    assert_eq!(names(&dirs[0]), names(&dirs[2]));
    for command in [&["probe", "--samples", "5"][..], &["landscape", "--grid", "3", "--samples", "5"]] {
        let output = semfocus_in("/", &[command, &[&dirs[0]]].concat(), "");
        assert_eq!(output.code, 0, "{command:?}: {}", output.stderr);
    }
    // On the command line a path starts at the current folder, and a run whose file named it so grows.
    let task = ["-s", "task=own/data/pairs.tsv"];
    let grown = [&["run", "own/pairs.toml", "-o", &dirs[0], "--epochs", "2"][..], &options[2..], &task].concat();
    let grown = semfocus_in(&scratch.path(""), &grown, "");
    assert_eq!(grown.code, 0, "{}", grown.stderr);
}

/// A file with fewer examples than the settings ask for has fewer steps.
#[test]
fn a_plan_counts_the_examples_of_its_file() {
    let scratch = Scratch::new("plan-of-file");
    let file = scratch.file("pairs.tsv", &split("train", "5", "300"));
    let dir = scratch.path("run");
    let task = format!("task={file}");
    let run = ["run", "even-pairs", "-s", &task, "--epochs", "1", "--seeds", "1", "--mechanisms", "full", "-o", &dir];
    let planned = semfocus(&[&run[..], &["--dry-run", "--json"]].concat());
    let planned: serde_json::Value = serde_json::from_str(&planned.stdout).unwrap();
    let trained = semfocus(&[&run[..], &["-q"]].concat());
    assert_eq!(trained.code, 0, "{}", trained.stderr);
    let events = std::fs::read_to_string(trials(&dir)[0].join("events.jsonl")).unwrap();
    let events = events.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let steps: Vec<u64> = events.filter_map(|event| event["total"].as_u64()).collect();
    let planned = planned["list"][0]["steps"].as_u64().unwrap();
    assert!(!steps.is_empty() && steps.iter().all(|steps| *steps == planned), "{planned}, {steps:?}");
    assert!(planned < 20, "300 lines make fewer than 200 steps: {planned}");
}

/// Examples of even pairs as a CSV file without a header.
fn csv(n: &str) -> String {
    split("train", "1", n).replace('\t', ",")
}

#[test]
fn a_data_file_is_an_experiment() {
    let scratch = Scratch::new("data-file");
    let json_lines = |csv: &str| -> String {
        let line = |line: &str| {
            let (text, label) = line.split_once(',').unwrap();
            format!("{{\"text\": \"{text}\", \"label\": \"{label}\"}}\n")
        };
        csv.lines().map(line).collect()
    };
    let examples = csv("300");
    for (name, text) in [
        ("mine.csv", examples.clone()),
        ("films.tsv", examples.replace(',', "\t")),
        ("lines.jsonl", json_lines(&examples)),
    ] {
        scratch.file(name, &text);
        let dir = format!("runs/{}", name.split_once('.').unwrap().0);
        let run = |what: &str, more: &[&str]| {
            let output = semfocus_in(&scratch.path(""), &[&["run", what, "--quiet", "--json"], more].concat(), "");
            assert_eq!(output.code, 0, "{}", output.stderr);
            serde_json::from_str::<serde_json::Value>(&output.stdout).unwrap()
        };
        let planned = run(name, &["--dry-run"]);
        assert_eq!(
            (&planned["trials"], &planned["dir"], &planned["claim"]),
            (&10.into(), &dir.as_str().into(), &"".into())
        );
        assert!(planned["list"][1]["title"].as_str().unwrap().starts_with("topk:5"), "{planned}");
        let result = run(name, &["--epochs", "1", "--seeds", "1"]);
        assert_eq!((&result["finished"], &result["expectations"]), (&2.into(), &serde_json::Value::Null));
        let resumed = run(&dir, &["--dry-run"]);
        assert_eq!((&resumed["done"], &resumed["trials"]), (&2.into(), &2.into()));
    }
    // Of sequences with six tokens, five keys would be nearly all.
    let line = |number: u32| {
        let letter = |place: u32| ["a", "b", "c"][(number / 3_u32.pow(place)) as usize % 3];
        format!("{},{}\n", (0..6).map(letter).collect::<Vec<_>>().join(" "), ["x", "y"][number as usize % 2])
    };
    scratch.file("short.csv", &(0..200).map(line).collect::<String>());
    let output = semfocus_in(&scratch.path(""), &["run", "short.csv", "--dry-run"], "");
    assert!(output.code == 0 && output.stdout.contains("topk:3"), "{}{}", output.stdout, output.stderr);
    scratch.file("notes.yaml", "task: parity\n");
    let output = semfocus_in(&scratch.path(""), &["run", "notes.yaml"], "");
    assert!(output.code == 2 && output.stderr.contains("that of a data file in .csv"), "{}", output.stderr);
}

#[test]
fn copies_are_noted_and_counted_once() {
    let scratch = Scratch::new("copies");
    let arguments = ["run", "missing-duplicate", "--seeds", "1", "--epochs", "1", "--mechanisms", "full", "-o", "run"];
    let output = semfocus_in(&scratch.path(""), &arguments, "");
    assert_eq!(output.code, 0, "{}", output.stderr);
    let said = output.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    let note = "473 of 2500 training sequences are different and 199 of 1000 held-out sequences are different";
    assert!(said.contains(note), "{said}");
    let status = json_file(&trials(&scratch.path("run"))[0].join("status.json"));
    assert_eq!((&status["held_out"]["distinct"], &status["held_out"]["independent"]), (&199.into(), &199.into()));
    let page = std::fs::read_to_string(scratch.path("run/report.html")).unwrap();
    assert!(page.contains("473 of 2500 training sequences are different"), "the report says so");
}

#[test]
fn a_header_that_is_not_recognised_is_no_example() {
    let scratch = Scratch::new("header");
    scratch.file("mine.csv", &format!("seq,y\n{}", csv("300")));
    let run = |more: &[&str]| semfocus_in(&scratch.path(""), &[&["run", "mine.csv", "--dry-run"], more].concat(), "");
    let output = run(&[]);
    assert_eq!(output.code, 2);
    for words in ["mine.csv: the label of line 1, `y`, occurs nowhere else", "data.no_header=true"] {
        assert!(output.stderr.contains(words), "{}", output.stderr);
    }
    assert_eq!(run(&["-s", "data.no_header=true"]).code, 0);
}

#[test]
fn numbers_on_the_command_line_are_read_or_explained() {
    let output = semfocus(&["run", "even-pairs", "--dry-run", "data.train=1e3", "--json"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stdout.contains("data.train 1000 instead of"), "{}", output.stdout);
    let output = semfocus(&["run", "even-pairs", "--epochs", "-1"]);
    assert!(output.code == 2 && output.stderr.contains("invalid value '-1' for '--epochs"), "{}", output.stderr);
}
