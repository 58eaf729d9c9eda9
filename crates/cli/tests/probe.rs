//! `semfocus probe`, on models that were just trained.

mod common;

use std::path::{Path, PathBuf};
use std::time::Duration;

use common::{SMALL, Scratch, semfocus, signal, start, trials};

#[test]
fn trained_models_can_be_probed() {
    let scratch = Scratch::new("probe");
    let text = SMALL.replace(r#"["full", "topk:3"]"#, r#"["full", "topk:3", "banded:3+g1"]"#);
    let file = scratch.file("small.toml", &text.replace("seeds = 2", "seeds = 1"));
    let dir = scratch.path("run");
    assert_eq!(semfocus(&["run", &file, "-o", &dir, "--epochs", "2"]).code, 0);
    let output = semfocus(&["probe", &dir, "--samples", "30", "--json"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let report: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    let probes = report["probes"].as_array().unwrap();
    assert_eq!(probes.len(), 3);
    for probe in probes {
        assert_eq!((probe["epoch"].as_u64(), probe["layers"].as_array().unwrap().len()), (Some(2), 2));
        let dispersion: Vec<f64> =
            probe["pooled"]["dispersion"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect();
        assert!(dispersion.len() == 11 && dispersion.is_sorted() && dispersion[10] > 0.0, "{dispersion:?}");
        assert!(
            probe["lipschitz"]["all"].as_f64().unwrap() > 0.0 && probe["norms"]["layers"][1]["score"][0].is_number()
        );
        let separation = probe["pooled"]["separation"].as_array().unwrap();
        match probe["mechanism"].as_str().unwrap() {
            "full" => assert!(separation.is_empty(), "nothing is dropped"),
            "topk:3" => assert!(separation[0].as_f64().unwrap() >= 0.0, "kept scores are above the dropped ones"),
            // A band does not look at the scores: some dropped one is higher.
            _ => assert!(separation[0].as_f64().unwrap() < 0.0),
        }
        // Ten keys: the entropy of full attention is at most ln 10, that of three keys at most ln 3.
        let entropy = probe["pooled"]["entropy"][10].as_f64().unwrap();
        let most: f64 = if probe["mechanism"] == "topk:3" { 3.0 } else { 11.0 };
        assert!(entropy <= most.ln() + 1e-6, "{entropy}");
    }
    let pairs = report["pairs"].as_array().unwrap();
    let rows =
        |pair: usize| (pairs[pair]["mechanism"].as_str().unwrap(), pairs[pair]["rows"].as_array().unwrap().len());
    assert_eq!((pairs.len(), rows(0), rows(1)), (2, ("topk:3", 4), ("banded:3+g1", 0)));
    let table = semfocus(&["probe", trials(&dir)[0].to_str().unwrap(), "--samples", "5", "--best"]);
    assert_eq!(table.code, 0, "{}", table.stderr);
    assert!(table.stdout.lines().all(|line| line.chars().count() <= 80), "{}", table.stdout);
    assert_eq!(semfocus(&["probe", &scratch.path("nowhere/a1")]).code, 1);
}

/// The lines of a record of all trials.
fn lines(dir: &str, name: &str) -> Vec<serde_json::Value> {
    let text = |trial: PathBuf| std::fs::read_to_string(trial.join(name)).unwrap_or_default();
    let all: String = trials(dir).into_iter().map(text).collect();
    all.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn trained_models_can_be_evaluated_on_other_data() {
    let scratch = Scratch::new("evaluate");
    let after = "\n[[after.evaluate]]\ndata.length = 14\nsamples = 30\n";
    let file = scratch.file("small.toml", &(SMALL.replace("seeds = 2", "seeds = 1") + after));
    let dir = scratch.path("run");
    let run = semfocus(&["run", &file, "-o", &dir, "--epochs", "2"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("then: evaluate data.length=14 --samples 30"), "{}", run.stderr);
    let recorded = lines(&dir, "evaluations.jsonl");
    assert_eq!(recorded.len(), 2);
    assert_eq!((&recorded[0]["data"]["length"], &recorded[0]["samples"]), (&"14".into(), &30.into()));
    // On the data of the trial itself it is what the last epoch recorded.
    let held_out = "100";
    let output = semfocus(&["evaluate", &dir, "--samples", held_out, "--json"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let report: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    for entry in report["list"].as_array().unwrap() {
        let epochs = std::fs::read_to_string(Path::new(entry["trial"].as_str().unwrap()).join("epochs.csv")).unwrap();
        let (head, last) = (epochs.lines().next().unwrap(), epochs.lines().last().unwrap());
        let column = |name: &str| -> f64 {
            let place = head.split(',').position(|column| column == name).unwrap();
            last.split(',').nth(place).unwrap().parse().unwrap()
        };
        assert_eq!(entry["loss"].as_f64(), Some(column("heldout_loss")), "{epochs}");
        assert_eq!(entry["accuracy"].as_f64(), Some(column("heldout_accuracy")));
    }
    // What is on record is not evaluated again, by workers either.
    for arguments in
        [&["evaluate", &dir, "data.length=14", "--samples", "30"][..], &["work", &dir, "--evaluate=data.seed=3"]]
    {
        let output = semfocus(arguments);
        assert_eq!(output.code, 0, "{}", output.stderr);
    }
    let recorded = lines(&dir, "evaluations.jsonl");
    let data: Vec<String> = recorded.iter().map(|record| record["data"].to_string()).collect();
    assert_eq!(data[..3], [r#"{"length":"14"}"#, "{}", r#"{"seed":3}"#]);
    assert_eq!(recorded.len(), 6);
    for (arguments, code, words) in [
        (&["evaluate", &dir, "data.lenght=14"][..], 1, "a model cannot be evaluated with another `data.lenght`"),
        (&["evaluate", &dir, "data.length=0"], 1, "needs sequences of at least"),
        (&["evaluate", &dir, "--samples", "0"], 2, "expected a number from 1"),
        (&["probe", &dir, "data.length=14"], 1, "there is no such folder"),
    ] {
        let output = semfocus(arguments);
        assert!(output.code == code && output.stderr.contains(words), "{arguments:?}: {}", output.stderr);
    }
}

/// What the probes of all trials say, but for the time they took.
fn probes(dir: &str) -> Vec<serde_json::Value> {
    let mut found = Vec::new();
    for trial in trials(dir) {
        for line in std::fs::read_to_string(trial.join("probes.jsonl")).unwrap().lines() {
            let mut probe: serde_json::Value = serde_json::from_str(line).unwrap();
            probe["seconds"] = 0.into();
            // It depends on the time.
            probe.as_object_mut().unwrap().remove("check");
            probe["trial"] = trial.file_name().unwrap().to_str().into();
            found.push(probe);
        }
    }
    found
}

fn bytes(dir: &str, file: &str) -> Vec<Vec<u8>> {
    trials(dir).iter().map(|trial| std::fs::read(trial.join(file)).unwrap()).collect()
}

#[test]
fn probes_along_training_change_nothing_and_survive_interruptions() {
    let scratch = Scratch::new("probe-along");
    let file = scratch.file("small.toml", &SMALL.replace("seeds = 2", "seeds = 1"));
    let [plain, probed, broken] = ["plain", "probed", "broken"].map(|name| scratch.path(name));
    assert_eq!(semfocus(&["run", &file, "-o", &plain, "--epochs", "4"]).code, 0);
    let every = ["-s", "probe_every=2", "-s", "probe_samples=20"];
    let run =
        |dir: &str, epochs: &str| semfocus(&[&["run", &file, "-o", dir, "--epochs", epochs][..], &every].concat());
    let whole = run(&probed, "4");
    assert_eq!(whole.code, 0, "{}", whole.stderr);
    assert_eq!(bytes(&plain, "last.safetensors"), bytes(&probed, "last.safetensors"));
    assert_eq!(bytes(&plain, "best.safetensors"), bytes(&probed, "best.safetensors"));
    let found = probes(&probed);
    let epochs: Vec<u64> = found.iter().map(|probe| probe["epoch"].as_u64().unwrap()).collect();
    assert_eq!(epochs, [0, 2, 4, 0, 2, 4]);
    let overlaps = found.iter().filter(|probe| probe["layers"][0]["overlap"].is_number()).count();
    assert_eq!(overlaps, 2, "topk:3 after epochs 2 and 4");

    // In two sessions, with half a line at the end as a kill leaves it, and a probe whose epoch was lost.
    assert_eq!(run(&broken, "3").code, 0);
    for trial in trials(&broken) {
        let path = trial.join("probes.jsonl");
        let text = std::fs::read_to_string(&path).unwrap();
        // Of the same trial, trained for longer.
        let further = trials(&probed).into_iter().find(|other| other.file_name() == trial.file_name()).unwrap();
        let further = std::fs::read_to_string(further.join("probes.jsonl")).unwrap();
        assert!(text.lines().count() < further.lines().count());
        std::fs::write(&path, format!("{text}{}\n{{\"epoch\": 6, \"sam", further.lines().last().unwrap())).unwrap();
    }
    let again = run(&broken, "4");
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert_eq!(probes(&broken), found);

    // A trial that starts again is probed again. Of several probes of an epoch the last one counts.
    for file in ["last", "previous", "best"] {
        let _ = std::fs::remove_file(trials(&broken)[0].join(format!("{file}.safetensors")));
        let _ = std::fs::remove_file(trials(&broken)[0].join("status.json"));
    }
    assert_eq!(run(&broken, "4").code, 0);
    assert_eq!(probes(&broken), found);

    // A file that makes no sense is kept aside and said.
    let trial = &trials(&broken)[0];
    std::fs::write(trial.join("probes.jsonl"), "nonsense\n").unwrap();
    let refused = semfocus(&["report", &broken]);
    assert!(refused.code == 3 && refused.stderr.contains("probes.jsonl"), "{}", refused.stderr);
    let longer = run(&broken, "6");
    assert_eq!(longer.code, 0, "{}", longer.stderr);
    assert!(trial.join("probes.jsonl.refused").is_file(), "what makes no sense is kept");
    assert_eq!(semfocus(&["report", &broken]).code, 0);
    let page = std::fs::read_to_string(std::path::Path::new(&broken).join("report.html")).unwrap();
    assert!(page.contains("id=\"theory\"") && page.contains("figures/theory-"));
    assert_eq!(semfocus(&["run", &file, "-o", &broken, "-s", "probe_every=-1"]).code, 2);
}

/// The bytes of `probes.jsonl`, but for the time that each probe took and the checksum, which depends on it.
fn timeless(trial: &Path) -> String {
    let text = std::fs::read_to_string(trial.join("probes.jsonl")).unwrap();
    let text: String = text.lines().map(|line| line.rsplit_once(",\"check\"").unwrap().0.to_owned() + "}\n").collect();
    let mut parts = text.split("\"seconds\":");
    let mut result = parts.next().unwrap().to_owned();
    for part in parts {
        let end = part.find([',', '}']).unwrap();
        result += "\"seconds\":0";
        result += &part[end..];
    }
    result
}

#[test]
#[cfg(unix)]
fn probes_have_the_same_bytes_after_an_interruption_and_are_never_rewritten() {
    let scratch = Scratch::new("probe-bytes");
    let one = SMALL.replace("seeds = 2", "seeds = 1").replace(r#""full", "#, "");
    let file = scratch.file("small.toml", &one.replace("train = 400", "train = 4000"));
    let [whole, stopped] = ["whole", "stopped"].map(|name| scratch.path(name));
    let arguments = |dir: &str| -> Vec<String> {
        ["run", &file, "-o", dir, "--epochs", "8", "-s", "probe_every=1", "-s", "probe_samples=20", "--quiet"]
            .map(str::to_owned)
            .to_vec()
    };
    let run = |dir: &str| {
        let arguments = arguments(dir);
        semfocus(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).code
    };
    assert_eq!(run(&whole), 0);
    let expected = timeless(&trials(&whole)[0]);
    assert_eq!(expected.lines().count(), 9);

    // Stopped after some epoch, twice, in different ways.
    let path = || -> Option<PathBuf> { Some(trials(&stopped).first()?.join("probes.jsonl")) };
    let mut seen = String::new();
    for (name, probes) in [("INT", 3), ("KILL", 6)] {
        let arguments = arguments(&stopped);
        let child = start(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        let began = std::time::Instant::now();
        while began.elapsed() < common::PATIENCE {
            let text = if Path::new(&stopped).join("trials").is_dir() {
                path().and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default()
            } else {
                String::new()
            };
            let complete = text.rfind('\n').map_or("", |end| &text[..=end]);
            // A probe whose epoch is not saved yet may be cut off when a killed process resumes, but never changes.
            let common = seen.len().min(complete.len());
            assert_eq!(complete[..common], seen[..common], "what was written is not rewritten");
            complete.clone_into(&mut seen);
            if complete.lines().count() >= probes {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(seen.lines().count() >= probes, "{seen}");
        signal(&child, name);
        child.wait_with_output().unwrap();
    }
    assert_eq!(run(&stopped), 0);
    let trial = &trials(&stopped)[0];
    assert_eq!(timeless(trial), expected);

    // A probe of the finished model is added, and counts from now on.
    let before = std::fs::read_to_string(trial.join("probes.jsonl")).unwrap();
    assert_eq!(semfocus(&["probe", &stopped, "--samples", "10"]).code, 0);
    let after = std::fs::read_to_string(trial.join("probes.jsonl")).unwrap();
    assert!(after.starts_with(&before) && after.lines().count() == 10);
}

#[test]
fn diverged_trials_are_skipped_with_a_message() {
    let scratch = Scratch::new("probe-diverged");
    let text = SMALL.replace("seeds = 2", "seeds = 1").replace("momentum = 0.9", "clip = inf");
    let file = scratch.file("small.toml", &(text + "\n[grid]\ntraining.learning_rate = [0.1, 1e30]\n"));
    let dir = scratch.path("run");
    assert_eq!(semfocus(&["run", &file, "-o", &dir, "--epochs", "1", "--quiet"]).code, 3);
    for arguments in [
        &["probe", &dir, "--samples", "5", "--json"][..],
        &["landscape", &dir, "--grid", "3", "--samples", "5", "--json"],
        &["sharpness", &dir, "--samples", "5", "--probes", "2", "--json"],
    ] {
        let output = semfocus(arguments);
        assert_eq!(output.code, 0, "{arguments:?}: {}", output.stderr);
        assert_eq!(output.stderr.matches(": diverged, skipped\n").count(), 2, "{arguments:?}: {}", output.stderr);
        let report: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
        let entries = report["list"].as_array().or_else(|| report["probes"].as_array()).unwrap();
        assert_eq!(entries.len(), 2, "{arguments:?}: the two trials that did not diverge");
    }
}
