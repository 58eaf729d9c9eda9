//! `semfocus probe`, on models that were just trained.

mod common;

use common::{SMALL, Scratch, semfocus, trials};

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
    let none = semfocus(&["probe", &scratch.path("nowhere/a1")]);
    assert!(none.code == 1 && none.stderr.contains("there is no trial at"), "{}", none.stderr);
}

/// What the probes of all trials say, but for the time they took.
fn probes(dir: &str) -> Vec<serde_json::Value> {
    let mut found = Vec::new();
    for trial in trials(dir) {
        for line in std::fs::read_to_string(trial.join("probes.jsonl")).unwrap().lines() {
            let mut probe: serde_json::Value = serde_json::from_str(line).unwrap();
            probe["seconds"] = 0.into();
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
    assert!(whole.stderr.contains("probes took"), "{}", whole.stderr);
    assert!(!whole.stderr.contains("probe_every 2 instead"), "{}", whole.stderr);
    assert_eq!(bytes(&plain, "last.safetensors"), bytes(&probed, "last.safetensors"));
    assert_eq!(bytes(&plain, "best.safetensors"), bytes(&probed, "best.safetensors"));
    let found = probes(&probed);
    let epochs: Vec<u64> = found.iter().map(|probe| probe["epoch"].as_u64().unwrap()).collect();
    assert_eq!(epochs, [0, 2, 4, 0, 2, 4]);
    let overlaps = found.iter().filter(|probe| probe["layers"][0]["overlap"].is_number()).count();
    assert_eq!(overlaps, 2, "topk:3 after epochs 2 and 4");

    // In two stays, with half a line at the end as a kill leaves it, and a probe whose epoch was lost.
    assert_eq!(run(&broken, "3").code, 0);
    for trial in trials(&broken) {
        let path = trial.join("probes.jsonl");
        let text = std::fs::read_to_string(&path).unwrap();
        let lost = text.lines().last().unwrap().replace("\"epoch\":2", "\"epoch\":4");
        std::fs::write(&path, format!("{text}{lost}\n{{\"epoch\": 6, \"sam")).unwrap();
    }
    let again = run(&broken, "4");
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert_eq!(probes(&broken), found);

    // A trial that begins again is probed again, and has every epoch once.
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
    assert!(refused.code == 1 && refused.stderr.contains("probes.jsonl is damaged: line 1"), "{}", refused.stderr);
    let longer = run(&broken, "6");
    assert!(longer.code == 0 && longer.stderr.contains("probes.jsonl.refused"), "{}", longer.stderr);
    assert_eq!(semfocus(&["report", &broken]).code, 0);
    let page = std::fs::read_to_string(std::path::Path::new(&broken).join("report.html")).unwrap();
    assert!(page.contains("id=\"theory\"") && page.contains("figures/theory-course.svg"));
    let wrong = semfocus(&["run", &file, "-o", &broken, "-s", "probe_every=-1"]);
    assert!(
        wrong.code == 2 && wrong.stderr.contains("a whole number of at least 0"),
        "{} {}",
        wrong.code,
        wrong.stderr
    );
}
