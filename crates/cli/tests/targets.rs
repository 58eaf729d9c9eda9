//! Targets that follow from losses and the data, and learning rates that fall to the end of the training.

mod common;

use common::{SMALL, Scratch, epochs, semfocus, trials};
use serde_json::Value;

fn ok(arguments: &[&str]) -> String {
    let output = semfocus(arguments);
    assert_eq!(output.code, 0, "{arguments:?}: {}", output.stderr);
    output.stdout
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&ok(&[arguments, &["--json"]].concat())).unwrap()
}

#[test]
fn trials_stop_at_a_loss_above_the_floor() {
    let scratch = Scratch::new("targets");
    let file = scratch.file("small.toml", SMALL);
    let whole = scratch.path("whole");
    let run = |dir: &str, further: &[&str]| ok(&[&["run", &file, "-o", dir, "--seeds", "1", "-q"], further].concat());
    run(&whole, &["--epochs", "6"]);
    let table = ok(&["export", &whole, "--format", "jsonl"]);
    let rows: Vec<Value> = table.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let number = |value: &Value, name: &str| value[name].as_f64().unwrap_or_else(|| panic!("{name} of {value}"));
    for row in &rows {
        let status = std::fs::read_to_string(format!("{whole}/trials/{}/status.json", row["trial"].as_str().unwrap()));
        let facts = &serde_json::from_str::<Value>(&status.unwrap()).unwrap()["facts"]["held_out"];
        let (loss, unigram, floor) = (number(row, "heldout_loss"), number(facts, "unigram"), number(facts, "floor"));
        assert_eq!((floor, number(row, "heldout_excess")), (0.0, loss), "answers follow from the tokens");
        assert!((number(row, "heldout_learned") - (unigram - loss) / unigram).abs() < 1e-12, "{row}");
        assert!((number(row, "train_perplexity") - number(row, "train_loss").exp()).abs() < 1e-9, "{row}");
        assert!(row["heldout_bits_per_character"].is_null(), "it is not text");
    }
    let last: Vec<f64> = json(&["status", &whole])["list"]
        .as_array()
        .unwrap()
        .iter()
        .map(|trial| number(&trial["last"], "heldout_learned"))
        .collect();
    let ends: Vec<f64> =
        rows.iter().filter(|row| row["epoch"] == 6).map(|row| number(row, "heldout_learned")).collect();
    assert_eq!(last, ends);

    // What the best epoch of full attention reached, its trial reaches again, and stops.
    let excess = |row: &Value| number(row, "heldout_excess");
    let of_full = rows.iter().filter(|row| row["mechanism"] == "full" && row["epoch"] != 0);
    let best = of_full.min_by(|a, b| excess(a).total_cmp(&excess(b))).unwrap();
    let epoch = best["epoch"].as_u64().unwrap() as usize;
    let target = format!("heldout_excess <= {}", excess(best));
    let compared = json(&["compare", &whole, "--target", &target]);
    assert_eq!(compared["list"][0]["last"].as_object().unwrap().len(), 9, "all but bits per character: {compared}");
    assert_eq!(compared["list"][0]["median_epochs_to_target"], epoch as f64);
    let stopped = scratch.path("stopped");
    run(&stopped, &["--epochs", "6", "--mechanisms", "full", "-s", &format!("training.stop_when={target}")]);
    assert_eq!(epochs(&trials(&stopped)[0]).len(), epoch + 1, "epoch 0 and those up to the target");
    ok(&["report", &whole, "--target", &target]);
    let page = std::fs::read_to_string(format!("{whole}/report.html")).unwrap();
    assert!(page.contains("held-out excess loss"), "{target}");

    let refused = semfocus(&["compare", &whole, "--target", "train_bits_per_character <= 1"]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(refused.stderr.contains("needs the number of characters, which only text has"), "{}", refused.stderr);
    let refused = semfocus(&["run", &file, "-o", &whole, "-s", "training.stop_when=heldout_bits_per_character <= 1"]);
    assert!(refused.code == 2 && refused.stderr.contains("which only text has"), "{}", refused.stderr);
}

#[test]
fn a_run_whose_learning_rate_falls_to_its_end_does_not_become_longer() {
    let scratch = Scratch::new("schedules");
    let file = scratch
        .file("small.toml", &SMALL.replace("momentum = 0.9", "momentum = 0.9\nschedule = \"cosine\"\nwarmup = 3"));
    let dir = scratch.path("run");
    let run =
        |further: &[&str]| semfocus(&[&["run", &file, "-o", &dir, "--mechanisms", "full", "-q"], further].concat());
    let first = run(&["--epochs", "2", "--seeds", "1"]);
    assert_eq!(first.code, 0, "{}", first.stderr);
    let settings = std::fs::read_to_string(trials(&dir)[0].join("trial.toml")).unwrap();
    assert!(settings.contains("schedule_steps = 32"), "{settings}");
    let before = epochs(&trials(&dir)[0]);
    for other in ["1", "3"] {
        let refused = run(&["--epochs", other, "--seeds", "1"]);
        let expected = format!(
            "holds another experiment: training.epochs {other} instead of 2 (with `training.schedule = \"cosine\"`"
        );
        assert!(refused.code == 1 && refused.stderr.contains(&expected), "{}", refused.stderr);
    }
    // It grows by seeds, and continues from its folder.
    assert_eq!(run(&["--epochs", "2", "--seeds", "2"]).code, 0);
    assert_eq!(semfocus(&["run", &dir, "-q"]).code, 0);
    assert!(trials(&dir).len() == 2 && trials(&dir).iter().any(|trial| epochs(trial) == before));
    // With steps of its own, the schedule leaves the length open.
    let open = scratch.path("open");
    for length in ["1", "2"] {
        let arguments = ["run", &file, "-o", &open, "--mechanisms", "full", "--seeds", "1", "-q", "--epochs", length];
        assert_eq!(semfocus(&[&arguments[..], &["-s", "training.schedule_steps=32"]].concat()).code, 0);
    }
    let long = &trials(&open)[0];
    let same = std::path::Path::new(&dir).join("trials").join(long.file_name().unwrap());
    assert_eq!(epochs(long), epochs(&same), "and it is the trial of this length");
}
