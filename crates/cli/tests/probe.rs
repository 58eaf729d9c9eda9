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
