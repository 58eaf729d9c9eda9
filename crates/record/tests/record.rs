//! The record: what it keeps of a run, and that its pages are what its data say.

use std::path::Path;

use semfocus_analysis::evidence::{Comparison, Evidence, GOAL, Measures, Unit};
use semfocus_core::{AnyName, DataFacts, Experiment, Request, Scale, SplitFacts, TrialSettings};
use semfocus_fixture::{self as fixture, Fixture, Scratch};
use semfocus_record::{Record, RecordedRun, add, results};
use semfocus_store::{Grid, State, Status, Store, SurfaceFolder, SurfaceSettings, TestResult};

const EPOCHS: usize = 20;

const LEDGER: &str = r#"
[[claim]]
id = "faster"
title = "It is faster"
published = "faster."
expect = { "topk:5" = "faster", "banded:5" = "not faster" }

[[claim]]
id = "flat"
title = "It is flat"
published = "flat."
test = "lipschitz"

[[claim]]
id = "conditions"
title = "The conditions hold"
published = "they hold."
test = "conditions"

[[run]]
name = "small"
experiment = "even-pairs"
scale = "full"
claims = ["faster", "flat", "conditions"]
asked = "a small run"
estimated_core_hours = 0.1

[[run]]
name = "large"
experiment = "parity"
scale = "full"
claims = ["faster"]
asked = "a large run"
estimated_core_hours = 123.4
remark = "Too long."
"#;

const PAGE: &str = "# Page

Prose stays.

<!-- record: claims -->
<!-- end of record -->
<!-- record: findings faster -->
old text
<!-- end of record -->
<!-- record: findings flat -->
<!-- end of record -->
<!-- record: findings conditions -->
<!-- end of record -->
<!-- record: provenance faster -->
<!-- end of record -->
<!-- record: figure small curves -->
<!-- end of record -->
<!-- record: figure small surface-lipschitz-dropout -->
<!-- end of record -->
<!-- record: figure large curves -->
<!-- end of record -->
<!-- record: table small mechanisms -->
<!-- end of record -->
<!-- record: figure theory regions-w -->
<!-- end of record -->
";

/// Full attention learns late, top-k early, the band never; the best accuracies differ.
fn invented(trial: &TrialSettings) -> Option<Fixture> {
    let seed = semfocus_core::study::SEEDS.iter().position(|seed| *seed == trial.seed).unwrap();
    let (at, accuracy) = match trial.mechanism.as_str() {
        "full" => (Some(10 + seed), 0.97),
        "banded:5" => (None, 0.5),
        _ => (Some(2 + seed % 2), 0.9815),
    };
    let records = (1..=EPOCHS).map(|epoch| fixture::jump(epoch, at, accuracy)).collect();
    let probes = match trial.mechanism.as_str() {
        "full" => vec![fixture::probe(EPOCHS, 40, 8.61, None, 40.0)],
        "topk:5" => vec![fixture::probe(EPOCHS, 5, 3.51, Some(0.016), 1.0)],
        _ => Vec::new(),
    };
    Some(Fixture { records, state: State::Finished, probes })
}

/// A run with surfaces that are twice as steep for full attention, and noisy ones with dropout.
fn run(dir: &Path) -> Store {
    let mechanisms = ["full", "topk:5", "banded:5"].map(str::to_owned).to_vec();
    let request = Request {
        experiment: "even-pairs".to_owned(),
        scale: Some(Scale::Full),
        mechanisms: Some(mechanisms),
        seeds: Some(6),
        epochs: Some(EPOCHS),
        ..Request::default()
    };
    let store = fixture::store(dir, &Experiment::resolve(&request, &AnyName).unwrap(), invented).unwrap();
    for trial in store.read().unwrap().trials {
        let slope = match trial.entry.mechanism.as_str() {
            "full" => 2.0,
            "topk:5" => 1.0,
            _ => continue,
        };
        for attention_dropout in [false, true] {
            let grid = Grid { side: 5, range: 1.0 };
            let settings = SurfaceSettings {
                epoch: EPOCHS,
                weights: "abc".to_owned(),
                directions: "tensor".to_owned(),
                seed: 1,
                draw: 0,
                grid,
                samples: 10,
                attention_dropout,
                path: Vec::new(),
            };
            let surface = SurfaceFolder::new(&trial.folder, settings);
            let lease = fixture::lease(surface.path()).unwrap();
            surface.begin(&lease).unwrap();
            let noise = |cell: usize| if attention_dropout { 3.0 * (cell % 2) as f64 } else { 0.0 };
            let cells: Vec<semfocus_core::Evaluation> = (0..grid.cells())
                .map(|cell| {
                    let (x, y) = grid.place(cell);
                    let loss = 10.0 + slope * (x - y) / 3.0 + noise(cell) / slope;
                    semfocus_core::Evaluation { loss, accuracy: 0.5 }
                })
                .collect();
            surface.append(&lease, 0, &cells).unwrap();
        }
    }
    store
}

fn record(dir: &Path) -> Store {
    let store = run(&dir.join("run"));
    let record = dir.join("record");
    std::fs::create_dir_all(&record).unwrap();
    std::fs::write(record.join("record.toml"), LEDGER).unwrap();
    std::fs::write(record.join("page.md"), PAGE).unwrap();
    add(&store, &record, "small", None, &AnyName).unwrap();
    store
}

fn replace(path: &Path, from: &str, to: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{from} is in {text}");
    std::fs::write(path, text.replacen(from, to, 1)).unwrap();
    text
}

#[test]
fn verdicts_from_the_record_are_those_of_the_run() {
    let scratch = Scratch::new("record-verdicts");
    let store = record(scratch.path());
    let kept = RecordedRun::read(&scratch.path().join("record/data/small"), &AnyName).unwrap().evidence;
    let whole = Evidence::read(&store, GOAL).unwrap();
    assert_eq!(kept.claim(), whole.claim());
    let comparisons = |evidence: &Evidence| -> Vec<(String, String)> {
        let compared = evidence.points.iter().flat_map(|point| point.compared()).filter_map(|(_, found)| found);
        compared.map(|found| (found.learning.words.clone(), found.generalisation.words.clone())).collect()
    };
    assert_eq!(comparisons(&kept), comparisons(&whole));
    assert_eq!(comparisons(&kept).len(), 2);
    assert_same_measures(&kept, &whole);
}

/// Everything but the time, which the record does not keep by epoch: it is not known rather than wrong.
fn assert_same_measures(kept: &Evidence, whole: &Evidence) {
    assert_eq!((kept.unit(), kept.trials().count()), (whole.unit(), whole.trials().count()));
    for (one, other) in kept.trials().zip(whole.trials()) {
        assert_eq!((one.trial.entry.id, one.trial.state), (other.trial.entry.id, other.trial.state));
        assert_eq!(one.trial.test_accuracy, other.trial.test_accuracy);
        let Some(measures) = other.measures else {
            assert!(one.measures.is_none());
            continue;
        };
        assert!(measures.seconds.is_some() && measures.flops.is_some());
        assert_eq!(one.measures, Some(Measures { seconds: None, ..measures }));
    }
    let points = kept.points.iter().zip(&whole.points);
    for ((_, one), (_, other)) in points.flat_map(|(one, other)| one.compared().zip(other.compared())) {
        let known = other.map(|other| Comparison { seconds: None, ..other.clone() });
        assert_eq!(one.cloned(), known);
    }
}

#[test]
fn grids_steps_and_trials_that_did_not_finish_are_kept() {
    let scratch = Scratch::new("record-grid");
    let file = scratch.path().join("grid.toml");
    let text = "base = \"even-pairs\"\ntraining.evaluate_every = 200\n\
                [grid]\nmodel.blocks = [1, 2]\nmodel.activation = [\"relu\", \"gelu\"]\n";
    std::fs::write(&file, text).unwrap();
    let request = Request {
        experiment: file.display().to_string(),
        mechanisms: Some(["full", "topk:5"].map(str::to_owned).to_vec()),
        seeds: Some(4),
        epochs: Some(EPOCHS),
        ..Request::default()
    };
    let experiment = Experiment::resolve(&request, &AnyName).unwrap();
    let store = fixture::store(&scratch.path().join("run"), &experiment, |trial| {
        let mut fixture = invented(trial)?;
        let seed = semfocus_core::study::SEEDS.iter().position(|seed| *seed == trial.seed).unwrap();
        match (seed, trial.model.blocks) {
            (0, 1) => return None,
            (1, 1) => (fixture.state, fixture.records) = (State::Diverged, fixture.records[..3].to_vec()),
            (2, _) => (fixture.state, fixture.records) = (State::Interrupted, fixture.records[..9].to_vec()),
            _ => {}
        }
        Some(fixture)
    });
    let store = store.unwrap();
    // Those that are over have a test split, with another accuracy for each mechanism.
    for trial in store.read().unwrap().trials {
        let Some(mut status) = trial.folder.status().unwrap().filter(|status| status.state == State::Finished) else {
            continue;
        };
        let accuracy = if trial.entry.mechanism == "full" { 0.91 } else { 0.9375 };
        let evaluation = semfocus_core::Evaluation { loss: 0.1, accuracy };
        status.test = Some(TestResult { last: evaluation, best: evaluation });
        trial.folder.writer(&fixture::lease(trial.folder.path()).unwrap()).write_status(&status).unwrap();
    }
    let kept = add(&store, &scratch.path().join("record"), "grid", None, &AnyName).unwrap().evidence;
    let whole = Evidence::read(&store, GOAL).unwrap();
    assert_eq!((whole.points.len(), whole.unit()), (4, Unit::Steps(200)));
    assert_eq!(whole.missing().count(), 12, "four have not begun, eight were interrupted");
    assert_same_measures(&kept, &whole);
    assert!(kept.trials().any(|observed| observed.trial.test_accuracy == Some(0.9375)));
    assert_eq!(kept.robustness(), whole.robustness());
}

#[test]
fn pages_are_made_from_the_data_and_any_change_is_noticed() {
    let scratch = Scratch::new("record-pages");
    record(scratch.path());
    let dir = scratch.path().join("record");
    let outdated = || Record::read(&dir, &AnyName).unwrap().outdated().unwrap();
    assert!(!outdated().is_empty());
    let changed = Record::read(&dir, &AnyName).unwrap().draw().unwrap();
    assert_eq!(outdated(), Vec::<std::path::PathBuf>::new());
    assert!(changed.iter().any(|path| path.ends_with("figures/small-curves.svg")), "{changed:?}");
    let page = std::fs::read_to_string(dir.join("page.md")).unwrap();
    for words in [
        "Prose stays.",
        "| [It is faster](faster.md) | **supported** (reduced runs only) | supported: even-pairs | 2 supported; 1 run, 1 not run |",
        "`topk:5 faster` | supported | learns in 5.0× fewer epochs",
        "`banded:5 not faster` | supported | needs at least",
        "| large | a large run | not run | about 123 core-hours. Too long. |",
        "`topk:5 flatter, without attention dropout` | supported | its loss is flatter",
        "`topk:5 flatter, with attention dropout` | (not supported) | its loss is steeper",
        "`(W) and (X) hold for topk:5` | supported",
        "![Learning curves](figures/small-curves.svg)",
        "figures/small-surface-lipschitz-dropout.svg",
        "*Not run: a large run. `semfocus run parity --scale full`, about 123 core-hours. Too long.*",
        "| topk:5 | 6 | 6 |",
        "18 trials, ",
    ] {
        assert!(page.contains(words), "{words}\n{page}");
    }
    assert!(!page.contains("old text"));
    let csv = results::parse(&std::fs::read_to_string(dir.join("results.csv")).unwrap()).unwrap();
    assert_eq!((csv[0].answer.as_str(), csv[0].result.as_str(), csv[0].is_run()), ("supported", "topk:5 5.0×", true));
    assert_eq!((csv[1].status.as_str(), csv[1].hours), ("not run", 123.4));

    // A number on a page, a figure, a figure too many.
    let page = dir.join("page.md");
    let before = replace(&page, "5.0×", "6.0 times");
    assert_eq!(outdated(), std::slice::from_ref(&page));
    std::fs::write(&page, before).unwrap();
    let figure = dir.join("figures/small-curves.svg");
    replace(&figure, "<svg ", "<svg  ");
    let stray = dir.join("figures/stray.svg");
    std::fs::write(&stray, "").unwrap();
    assert_eq!(outdated(), [figure, stray.clone()]);
    Record::read(&dir, &AnyName).unwrap().draw().unwrap();
    assert!(outdated().is_empty() && !stray.exists());

    // A number of the data, whether a figure shows it or not.
    let data = dir.join("data/small");
    for (file, from, to) in [
        ("curves.csv", "1,20,0.01,1,0.05,0.97", "1,20,0.02,1,0.05,0.97"),
        ("curves.csv", "1,20,0.01,1,0.05,0.97", "1,20,0.01,1,0.05,0.98"),
        ("surfaces.csv", ",10,false,", ",11,false,"),
        ("probes.csv", "8.61", "8.62"),
        ("trials.csv", "finished", "stopped"),
        ("experiment.toml", "even-pairs", "parity"),
    ] {
        let before = replace(&data.join(file), from, to);
        let error = Record::read(&dir, &AnyName).unwrap_err().to_string();
        assert!(error.contains("provenance.toml: the files beside it have changed"), "{file}: {error}");
        std::fs::write(data.join(file), before).unwrap();
    }
    assert!(outdated().is_empty());
}

#[test]
fn a_run_that_grew_is_brought_up_to_date_and_strangers_are_refused() {
    let scratch = Scratch::new("record-grown");
    let store = record(scratch.path());
    let dir = scratch.path().join("record");
    Record::read(&dir, &AnyName).unwrap().draw().unwrap();
    add(&store, &dir, "small", None, &AnyName).unwrap();
    assert!(Record::read(&dir, &AnyName).unwrap().outdated().unwrap().is_empty(), "the same run changes nothing");
    add(&store, &dir, "stranger", None, &AnyName).unwrap();
    let error = Record::read(&dir, &AnyName).unwrap_err().to_string();
    assert!(error.contains("stranger is in data, but record.toml has no [[run]] with this name"), "{error}");
    std::fs::remove_dir_all(dir.join("data/stranger")).unwrap();
    for (from, to, message) in [
        ("claims = [\"faster\"]", "claims = [\"fastr\"]", "there is no claim `fastr`"),
        ("\"topk:5\" = \"faster\"", "\"topk:5\" = \"quicker\"", "`quicker` is not an outcome"),
        ("name = \"large\"", "name = \"small\"", "the run `small` is there twice"),
        ("test = \"conditions\"", "", "needs either `expect` or `test`"),
    ] {
        let before = replace(&dir.join("record.toml"), from, to);
        let error = Record::read(&dir, &AnyName).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
        std::fs::write(dir.join("record.toml"), before).unwrap();
    }
    replace(&dir.join("page.md"), "figure small curves", "figure small curve");
    let error = Record::read(&dir, &AnyName).unwrap().draw().unwrap_err().to_string();
    assert!(
        error.contains("page.md: line ") && error.contains("`small` has no figure `curve`; it has curves"),
        "{error}"
    );
}

/// Keys that are chosen before training are as good as learned ones.
#[test]
fn controls_judge_the_explanation() {
    let scratch = Scratch::new("record-causes");
    let request = Request {
        experiment: "even-pairs".to_owned(),
        scale: Some(Scale::Quick),
        mechanisms: Some(["full", "topk:5", "frozenk:5"].map(str::to_owned).to_vec()),
        seeds: Some(6),
        epochs: Some(EPOCHS),
        ..Request::default()
    };
    let experiment = Experiment::resolve(&request, &AnyName).unwrap();
    let store = fixture::store(&scratch.path().join("run"), &experiment, invented).unwrap();
    let dir = scratch.path().join("record");
    std::fs::create_dir_all(&dir).unwrap();
    let ledger = "[[claim]]\nid = \"why\"\ntitle = \"Why\"\npublished = \"because.\"\ntest = \"causes\"\n\
                  [[run]]\nname = \"causes\"\nexperiment = \"even-pairs\"\nscale = \"quick\"\nclaims = [\"why\"]\n\
                  asked = \"why\"\nestimated_core_hours = 0.1\n";
    std::fs::write(dir.join("record.toml"), ledger).unwrap();
    std::fs::write(dir.join("why.md"), "<!-- record: findings why -->\n<!-- end of record -->\n<!-- record: provenance why -->\n<!-- end of record -->\n").unwrap();
    add(&store, &dir, "causes", None, &AnyName).unwrap();
    Record::read(&dir, &AnyName).unwrap().draw().unwrap();
    let page = std::fs::read_to_string(dir.join("why.md")).unwrap();
    let words =
        "`topk:5 faster because of relevant keys` | not supported | the choice of keys need not be learned (frozenk:5)";
    assert!(page.contains(words), "{page}");
    // The command line and the scale both change the epochs: the page has the difference from the published experiment, once.
    let words = "6 seeds instead of 10; mechanisms full topk:5 frozenk:5 instead of full topk:5 topk:9";
    assert!(page.contains(words), "{page}");
    assert!(page.contains(&format!("training.epochs {EPOCHS} instead of 100; ")), "{page}");
    assert_eq!(page.matches("training.epochs").count(), 1, "{page}");
    let csv = results::parse(&std::fs::read_to_string(dir.join("results.csv")).unwrap()).unwrap();
    assert_eq!(csv[0].answer, "not supported");
}

#[test]
fn what_is_known_of_the_data_is_kept() {
    let scratch = Scratch::new("record-facts");
    let store = record(scratch.path());
    let dir = scratch.path().join("record");
    let learned = "heldout_learned >= 0.75".parse().unwrap();
    assert!(add(&store, &dir, "small", Some(learned), &AnyName).is_err(), "nothing is known yet");
    for (entry, floor) in store.index().unwrap().iter().zip([0.01, 0.02].into_iter().cycle()) {
        let trial = store.trial(entry.id);
        let lease = fixture::lease(trial.path()).unwrap();
        let held_out = SplitFacts { floor: Some(floor), unigram: Some(1.0 / 3.0), characters: None };
        let train = SplitFacts { floor: Some(0.0), ..SplitFacts::default() };
        let facts = Some(DataFacts { train, held_out, test: SplitFacts::default() });
        let status = trial.status().unwrap().unwrap();
        trial.writer(&lease).write_status(&Status { facts, ..status }).unwrap();
    }
    let kept = add(&store, &dir, "small", Some(learned), &AnyName).unwrap();
    let whole = Evidence::read(&store, learned).unwrap();
    for (kept, whole) in kept.evidence.trials().zip(whole.trials()) {
        assert_eq!(kept.trial.facts, whole.trial.facts);
        assert_eq!(kept.measures.unwrap().time_to_target, whole.measures.unwrap().time_to_target);
    }
}

/// A run whose trials do not come near the usual target is recorded with its own, which pages name.
#[test]
fn a_run_can_have_its_own_target() {
    let scratch = Scratch::new("record-target");
    let store = record(scratch.path());
    let dir = scratch.path().join("record");
    let goal = "heldout_accuracy >= 0.975".parse().unwrap();
    let kept = add(&store, &dir, "small", Some(goal), &AnyName).unwrap();
    assert_eq!(kept.evidence.goal, goal);
    let times = |evidence: &Evidence| -> Vec<_> {
        evidence.trials().map(|observed| observed.measures.unwrap().time_to_target).collect()
    };
    assert_eq!(times(&kept.evidence), times(&Evidence::read(&store, goal).unwrap()));
    assert_ne!(times(&kept.evidence), times(&Evidence::read(&store, GOAL).unwrap()), "or the target says nothing");
    let again = add(&store, &dir, "small", None, &AnyName).unwrap();
    assert_eq!(again.evidence.goal, goal, "a run that is added again keeps its target");
    let loss = "train_loss <= 0.1".parse().unwrap();
    let kept = add(&store, &dir, "small", Some(loss), &AnyName).unwrap();
    assert_eq!(times(&kept.evidence), times(&Evidence::read(&store, loss).unwrap()), "its loss keeps all digits");
    add(&store, &dir, "small", Some(goal), &AnyName).unwrap();
    Record::read(&dir, &AnyName).unwrap().draw().unwrap();
    let csv = results::parse(&std::fs::read_to_string(dir.join("results.csv")).unwrap()).unwrap();
    assert!(csv[0].result.ends_with(" to heldout_accuracy >= 0.975"), "{}", csv[0].result);
    let page = std::fs::read_to_string(dir.join("page.md")).unwrap();
    assert!(page.contains("epochs, heldout_accuracy >= 0.975) |"), "{page}");

    let path = dir.join("data/small/provenance.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace(">= 0.975", ">= 97.5 %")).unwrap();
    let error = Record::read(&dir, &AnyName).unwrap_err().to_string();
    assert!(error.contains("provenance.toml: ") && error.contains("97.5 %"), "{error}");
}
