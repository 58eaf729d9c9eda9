//! What follows training, the study, and the record, as a user sees them.

mod common;

use std::path::Path;

use common::transcript::Transcript;
use common::{SMALL, Scratch, assert_refused, semfocus};
use semfocus_record::ledger::Ledger;

const AFTER: &str = r#"
[after]
show = ["conditions", "surface-lipschitz", "surface-lipschitz-dropout"]

[after.probe]
samples = 20

[[after.landscape]]
grid = 5
samples = 20

[[after.landscape]]
grid = 5
samples = 20
attention_dropout = true
"#;

#[test]
fn steps_follow_training_and_the_run_can_be_recorded() {
    let scratch = Scratch::new("after");
    let file = scratch.file("small.toml", &format!("{}{AFTER}", SMALL.replace("epochs = 12", "epochs = 2")));
    let run = scratch.path("run");
    let mut transcript = Transcript::of_trained_models(&scratch);
    let output = transcript.run(&["run", "small.toml", "-o", "run", "-j", "1"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    transcript.check("run-with-steps-after");
    // Dropout changes the loss of every cell.
    let table = |name: &str| std::fs::read_to_string(format!("{run}/tables/{name}.csv")).unwrap();
    assert_ne!(table("surface-lipschitz"), table("surface-lipschitz-dropout"));
    let surfaces = |trial: &Path| std::fs::read_dir(trial.join("surfaces")).unwrap().count();
    let counts: Vec<usize> =
        common::trials(&run).iter().filter(|trial| trial.join("surfaces").exists()).map(|t| surfaces(t)).collect();
    assert_eq!(counts, [2, 2], "one seed of each mechanism");

    // The same command finds everything done, and a larger grid is one more surface.
    let again = semfocus(&["run", &file, "-o", &run, "-q", "-s", "after.landscape.grid=7"]);
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert!(common::trials(&run).iter().any(|trial| trial.join("surfaces").exists() && surfaces(trial) == 4));

    let record = scratch.path("record");
    std::fs::create_dir(&record).unwrap();
    let ledger = "[[claim]]\nid = \"c\"\ntitle = \"C\"\npublished = \"p\"\nexpect = { \"topk:3\" = \"faster\" }\n\
                  [[run]]\nname = \"run\"\nexperiment = \"even-pairs\"\nscale = \"quick\"\nclaims = [\"c\"]\n\
                  asked = \"a\"\nestimated_core_hours = 1.0\n";
    scratch.file("record/record.toml", ledger);
    let page = scratch.file("record/c.md", "# C\n<!-- record: findings c -->\n<!-- end of record -->\n");
    let mut transcript = Transcript::of_trained_models(&scratch);
    for (arguments, code) in [
        (&["record", "add", "run", "-o", "record"][..], 0),
        (&["record", "draw", "record", "--check"], 1),
        (&["record", "draw", "record"], 0),
        (&["record", "draw", "record", "--check"], 0),
    ] {
        assert_eq!(transcript.run(arguments).code, code, "{arguments:?}");
    }
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(text.contains("`topk:3 faster` | undecided"), "{text}");
    assert!(Path::new(&record).join("results.csv").is_file());
    let changed = text.replace("2 epochs", "3 epochs");
    assert_ne!(changed, text);
    std::fs::write(&page, changed).unwrap();
    assert_eq!(transcript.run(&["record", "draw", "record", "--check"]).code, 1);
    transcript.check("record");
}

#[test]
fn wrong_steps_are_refused_before_anything_is_trained() {
    let scratch = Scratch::new("after-wrong");
    let file = format!("{SMALL}{AFTER}");
    let cases = [
        ("[after.probe]\nsamples = 20", "[after.probe]\nsample = 20", ":"),
        ("grid = 5\nsamples = 20\n\n", "grid = 2\nsamples = 20\n\n", ":"),
        ("[after.probe]", "[after.regions]", ":"),
    ];
    assert_refused("run-refused-after", &scratch, &file, &cases);
}

#[test]
fn presets_end_in_the_figure_they_are_named_after() {
    let scratch = Scratch::new("preset-figures");
    for (name, kind, file) in [
        ("figure-21", "figures", "regions-w.svg"),
        ("figure-22", "figures", "regions-x.svg"),
        ("figure-5b", "figures", "surface-lipschitz-dropout.svg"),
        ("figure-26d", "figures", "surface-map-dropout.svg"),
        ("figure-27c", "figures", "surface-lipschitz.svg"),
        ("table-6b", "tables", "conditions.md"),
    ] {
        let dir = scratch.path(name);
        let output = semfocus(&["run", name, "--smoke", "-o", &dir]);
        assert_eq!(output.code, 0, "{name}: {}", output.stderr);
        assert!(Path::new(&dir).join(kind).join(file).is_file(), "{name} has {file}");
        assert!(Path::new(&dir).join("report.html").is_file());
    }
    let mut messages = Transcript::new(&scratch);
    messages.refuse(1, &[&["list", "experiments", "figure-27x"]]);
    messages.check("list-experiments-refused");
}

#[test]
fn the_study_goes_on_where_it_stopped() {
    let scratch = Scratch::new("study");
    let dir = scratch.path("study");
    let study = |more: &[&str]| -> serde_json::Value {
        let runs = ["study", "table-6c-quick", "even-pairs-quick", "--smoke", "-o", &dir, "--json"];
        let output = semfocus(&[&runs[..], more].concat());
        assert_eq!(output.code, 0, "{}", output.stderr);
        serde_json::from_str::<serde_json::Value>(&output.stdout).unwrap()["list"].take()
    };
    // The time is over at once; whatever was begun is saved.
    assert_eq!(study(&["--hours", "0.00001"])[1]["over"], false);
    let results = study(&["--hours", "0.2"]);
    assert_eq!((&results[0]["over"], &results[1]["over"]), (&true.into(), &true.into()), "{results}");
    assert_eq!((&results[0]["name"], &results[1]["name"]), (&"even-pairs-quick".into(), &"table-6c-quick".into()));
    assert!(Path::new(&dir).join("table-6c-quick/tables/conditions.csv").is_file());
    let mut transcript = Transcript::of_trained_models(&scratch);
    transcript.run(&["study", "table-6c-quick", "even-pairs-quick", "--smoke", "-o", "study", "--hours", "0.2"]);
    transcript.refuse(1, &[&["study", "even-pair-quick", "--hours", "1"]]);
    transcript.check("study");
    let plan = semfocus(&["study", "--hours", "6", "--dry-run", "-o", &scratch.path("none")]);
    assert!(plan.code == 0 && plan.stdout.lines().all(|line| line.chars().count() <= 80), "{}", plan.stdout);
    assert!(!Path::new(&scratch.path("none")).exists());
    assert_eq!(semfocus(&["study"]).code, 2, "without a time");
}

/// The record asks for every run of `semfocus study`, by the same command.
#[test]
fn the_record_has_every_run_of_the_study() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let recorded = Ledger::read(&root.join("docs/record/record.toml")).unwrap().runs;
    let study: toml::Table = std::fs::read_to_string(root.join("experiments/study.toml")).unwrap().parse().unwrap();
    for run in study["run"].as_array().unwrap() {
        let name = run["name"].as_str().unwrap();
        let entry = recorded.iter().find(|entry| entry.name == name);
        let entry = entry.unwrap_or_else(|| panic!("record.toml has no run `{name}`"));
        let words: Vec<&str> = run["arguments"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
        let studied = format!("semfocus run {}", words.join(" "));
        assert_eq!(entry.command().trim_end_matches(" --scale quick").replace('\'', ""), studied, "{name}");
    }
}
