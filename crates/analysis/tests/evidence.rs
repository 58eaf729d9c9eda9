//! Evidence from stores with invented trials, compared with numbers worked out by hand.

use std::collections::BTreeMap;
use std::path::Path;

use semfocus_analysis::evidence::accuracy::Split;
use semfocus_analysis::evidence::claim::{Answer, Claim};
use semfocus_analysis::evidence::speedup::Ratio;
use semfocus_analysis::evidence::verdict::{Generalisation, Learning};
use semfocus_analysis::evidence::{Comparison, Evidence, GOAL, MechanismEvidence, Unit};
use semfocus_analysis::stats::permutation_tests;
use semfocus_core::{AnyName, DataFacts, Experiment, Goal, Metric, Request, SplitFacts, TrialSettings};
use semfocus_fixture::{self as fixture, Fixture, Scratch};
use semfocus_store::{Session, State, Status, Store, TrialReader};

const EPOCHS: usize = 20;

/// A trial that learns in epoch `at`, if ever, and ends after `epochs`.
fn curve(at: Option<usize>, epochs: usize, state: State) -> Fixture {
    Fixture { records: (1..=epochs).map(|epoch| fixture::jump(epoch, at, 0.99)).collect(), state, probes: Vec::new() }
}

fn jump(at: usize) -> Fixture {
    curve(Some(at), EPOCHS, State::Finished)
}

/// A store of even pairs with the learning curves that `curve` gives.
fn store(dir: &Path, mechanisms: &[&str], seeds: usize, curve: impl Fn(&TrialSettings) -> Option<Fixture>) -> Store {
    fixture::store(dir, &experiment("even-pairs", mechanisms, seeds), curve).unwrap()
}

fn experiment(name: &str, mechanisms: &[&str], seeds: usize) -> Experiment {
    Experiment::resolve(
        &Request {
            experiment: name.to_owned(),
            mechanisms: Some(mechanisms.iter().map(|&mechanism| mechanism.to_owned()).collect()),
            seeds: Some(seeds),
            epochs: Some(EPOCHS),
            ..Request::default()
        },
        &AnyName,
    )
    .unwrap()
}

fn seed_number(trial: &TrialSettings) -> usize {
    semfocus_core::study::SEEDS.iter().position(|seed| *seed == trial.seed).unwrap()
}

fn mechanism<'a>(evidence: &'a Evidence, name: &str) -> &'a MechanismEvidence {
    evidence.points[0].mechanisms.iter().find(|mechanism| mechanism.mechanism == name).unwrap()
}

fn versus<'a>(evidence: &'a Evidence, name: &str) -> Option<&'a Comparison> {
    evidence.points[0].versus_baseline(name)
}

#[test]
fn tests_are_computed_when_asked_for_and_once() {
    let scratch = Scratch::new("evidence-once");
    let store = store(scratch.path(), &["full", "topk:5", "banded:5"], 5, |trial| {
        Some(if trial.mechanism == "full" { jump(10) } else { jump(2) })
    });
    let before = permutation_tests();
    let evidence = Evidence::read(&store, GOAL).unwrap();
    assert_eq!(evidence.points[0].speedup("topk:5").unwrap().ratio, Ratio::Exactly(5.0));
    assert!(evidence.warnings().is_empty() && evidence.causes().is_empty() && evidence.best_of_grid().is_none());
    assert_eq!(permutation_tests() - before, 0, "nothing was compared");
    for _ in 0..3 {
        assert_eq!(evidence.points[0].compared().flat_map(|(_, comparison)| comparison).count(), 2);
        assert_eq!((evidence.claim().checked.len(), evidence.robustness().len()), (2, 0));
        assert_eq!(permutation_tests() - before, 2, "one for each mechanism but the baseline");
    }
}

#[test]
fn five_seeds_show_a_difference() {
    let scratch = Scratch::new("evidence-five");
    let store = store(scratch.path(), &["full", "topk:5", "banded:5", "block:5"], 5, |trial| {
        let seed = seed_number(trial);
        Some(match trial.mechanism.as_str() {
            "full" => jump(10 + seed),
            "topk:5" => jump(2 + seed % 2),
            "banded:5" => curve(None, EPOCHS, State::Finished),
            _ => jump(10 + seed), // exactly as full attention
        })
    });
    let evidence = Evidence::read(&store, GOAL).unwrap();
    let (full, topk) = (mechanism(&evidence, "full"), mechanism(&evidence, "topk:5"));
    assert_eq!((full.reached, full.median_epochs_to_target), (5, Some(12.0)));
    assert_eq!((topk.reached, topk.median_epochs_to_target), (5, Some(2.0)));
    // Full: 10 to 14, all before the horizon: the 20 epochs of the banded trials.
    assert_eq!(full.restricted_mean_epochs.unwrap().mean, 12.0);
    let comparison = versus(&evidence, "topk:5").unwrap();
    // Seed by seed: 10/2, 11/3, 12/2, 13/3, 14/2: the median is 5.
    assert_eq!(comparison.epochs.unwrap().ratio, Ratio::Exactly(5.0));
    assert_eq!(comparison.seconds.unwrap().ratio, Ratio::Exactly(5.0), "every epoch takes 2 s");
    // An epoch of top-k has 0.8 times the operations.
    assert!((comparison.flops.unwrap().ratio.value() - 5.0 / 0.8).abs() < 1e-12);
    // 252 divisions of ten trials; no other is as extreme but its mirror image.
    assert!((comparison.log_rank.p_value - 2.0 / 252.0).abs() < 1e-12);
    assert!((comparison.log_rank_adjusted - 6.0 / 252.0).abs() < 1e-12, "three mechanisms are compared");
    assert_eq!(comparison.learning.finding, Learning::Faster);
    let words = &comparison.learning.words;
    assert!(words.starts_with("learns in 5.0× fewer epochs (95 % interval "), "{words}");
    assert!(words.ends_with(", p = 0.024)"), "{words}");
    // All differences are 0, but five seeds are too few to say that they are the same.
    assert_eq!(comparison.generalisation.finding, Generalisation::NoEvidence);
    assert_eq!(
        comparison.generalisation.words,
        "same held-out accuracy (5 seeds are too few for a test, which needs 7)"
    );
    assert!((comparison.epochs_saved.unwrap() - (12.0 - 2.4)).abs() < 1e-9);
    let banded = mechanism(&evidence, "banded:5");
    assert_eq!((banded.reached, banded.median_epochs_to_target, banded.epochs), (0, None, 20));
    let comparison = versus(&evidence, "banded:5").unwrap();
    assert_eq!(comparison.epochs.unwrap().ratio, Ratio::LessThan(12.0 / 20.0));
    assert_eq!(comparison.learning.finding, Learning::Slower);
    // Five differences of -0.49 are as low as five can be, but the exact p is 1/16.
    assert_eq!(comparison.generalisation.finding, Generalisation::WorseInAll);
    assert_eq!(
        comparison.generalisation.words,
        "less accurate with all 5 seeds: held-out accuracy −49.0 points (5 seeds are too few for a test, which needs 7)"
    );
    let block = versus(&evidence, "block:5").unwrap();
    assert_eq!((block.learning.finding, block.log_rank.p_value), (Learning::NoEvidence, 1.0));
    assert_eq!(block.epochs.unwrap().ratio, Ratio::Exactly(1.0));
    let headline = evidence.headline().unwrap();
    assert!(headline.starts_with("topk:5 learns in 5.0× fewer epochs than full attention ("), "{headline}");
    assert!(headline.ends_with(" p = 0.024, 5 seeds); banded:5 never reaches the target."), "{headline}");
    let measures = evidence.points[0].of_mechanism("full").next().unwrap().1;
    assert_eq!((measures.best_epoch, measures.seconds), (10, Some(20.0)));
    // Nine epochs of 0.5 and eleven of 0.99, by trapezoids over 19 intervals.
    let area = (8.0 * 0.5 + (0.5 + 0.99) / 2.0 + 10.0 * 0.99) / 19.0;
    assert!((measures.mean_heldout_accuracy - area).abs() < 1e-12);
    assert!((measures.generalisation_gap - 0.01).abs() < 1e-12);
}

#[test]
fn few_seeds_are_not_overinterpreted() {
    let scratch = Scratch::new("evidence-few");
    let store = store(scratch.path(), &["full", "topk:5"], 2, |trial| {
        Some(if trial.mechanism == "full" { jump(10) } else { jump(2) })
    });
    let evidence = Evidence::read(&store, GOAL).unwrap();
    let comparison = versus(&evidence, "topk:5").unwrap();
    assert_eq!(comparison.learning.finding, Learning::FasterInAll);
    assert_eq!(
        comparison.learning.words,
        "needs 5.0× fewer epochs with both seeds (2 seeds are too few for a test, which needs 4)"
    );
    assert_eq!(
        comparison.generalisation.words,
        "same held-out accuracy (2 seeds are too few for a test, which needs 6)"
    );
    assert!(comparison.epochs.unwrap().interval.is_none());
    assert_eq!(
        evidence.headline().as_deref(),
        Some("topk:5 learns in 5.0× fewer epochs than full attention (too few seeds for a test, 2 seeds).")
    );
}

#[test]
fn a_headline_claims_no_more_than_a_test_has_shown() {
    let names = ["full", "topk:3", "topk:5", "topk:9", "oracle:5", "banded:5", "block:5", "block:9"];
    let headline = |seeds: usize| {
        let scratch = Scratch::new(&format!("evidence-headline-{seeds}"));
        let store = store(scratch.path(), &names, seeds, |trial| match trial.mechanism.as_str() {
            "full" => Some(jump(10)),
            "banded:5" | "block:5" | "block:9" => Some(jump(15)),
            _ => Some(jump(2)),
        });
        Evidence::read(&store, GOAL).unwrap().headline().unwrap()
    };
    assert_eq!(
        headline(2),
        "4 of 7 mechanisms learn in fewer epochs than full attention with every seed (too few for a test), oracle:5 with the largest \
         difference: 5.0× fewer epochs; banded:5, block:5 and block:9 need more epochs with every seed (too few for a test)."
    );
    assert!(headline(8).starts_with("4 of 7 mechanisms learn in fewer epochs than full attention, oracle:5 with"));
}

#[test]
fn one_seed_without_a_difference() {
    let scratch = Scratch::new("evidence-one");
    let store = store(scratch.path(), &["full", "topk:5"], 1, |_| Some(jump(7)));
    let evidence = Evidence::read(&store, GOAL).unwrap();
    let comparison = versus(&evidence, "topk:5").unwrap();
    assert_eq!(
        comparison.learning.words,
        "no evidence of a difference in speed (1 seed is too few for a test, which needs 4)"
    );
}

#[test]
fn one_seed_one_mechanism_and_nothing_at_all() {
    let alone = Scratch::new("evidence-alone");
    let single = store(alone.path(), &["topk:5"], 1, |_| Some(jump(3)));
    let evidence = Evidence::read(&single, GOAL).unwrap();
    assert!(versus(&evidence, "topk:5").is_none(), "there is nothing to compare with");
    assert_eq!(mechanism(&evidence, "topk:5").median_epochs_to_target, Some(3.0));
    let empty = Scratch::new("evidence-empty");
    let nothing = store(empty.path(), &["full", "topk:5"], 2, |_| None);
    let evidence = Evidence::read(&nothing, GOAL).unwrap();
    assert_eq!((evidence.missing().count(), mechanism(&evidence, "full").seeds), (4, 0));
    assert!(versus(&evidence, "topk:5").is_none());
}

#[test]
fn unfinished_trials_are_censored_at_their_last_epoch() {
    let scratch = Scratch::new("evidence-half");
    let store =
        store(scratch.path(), &["full", "topk:5"], 3, |trial| match (trial.mechanism.as_str(), seed_number(trial)) {
            ("full", 2) => None,
            ("full", _) => Some(curve(None, 7, State::Interrupted)),
            _ => Some(jump(3)),
        });
    let evidence = Evidence::read(&store, GOAL).unwrap();
    assert_eq!(evidence.missing().count(), 3);
    let full = mechanism(&evidence, "full");
    assert_eq!((full.seeds, full.planned, full.unfinished, full.reached), (2, 3, 3, 0));
    assert_eq!(evidence.points[0].horizon, 7.0);
    let comparison = versus(&evidence, "topk:5").unwrap();
    assert_eq!((comparison.pairs, comparison.epochs.unwrap().ratio), (2, Ratio::MoreThan(7.0 / 3.0)));
    assert!(comparison.accuracy.is_none(), "no pair is over");
}

#[test]
fn a_diverged_trial_never_reaches_the_target() {
    let scratch = Scratch::new("evidence-diverged");
    let store = store(scratch.path(), &["full", "topk:5"], 2, |trial| {
        Some(if trial.mechanism == "full" { curve(None, 2, State::Diverged) } else { jump(4) })
    });
    let evidence = Evidence::read(&store, GOAL).unwrap();
    let full = mechanism(&evidence, "full");
    assert_eq!((full.diverged, full.unfinished), (2, 0));
    // It counts as observed for all 20 epochs, not for two.
    let comparison = versus(&evidence, "topk:5").unwrap();
    assert_eq!(comparison.epochs.unwrap().ratio, Ratio::MoreThan(20.0 / 4.0));
}

#[test]
fn other_goals_can_be_asked_for() {
    let scratch = Scratch::new("evidence-goals");
    let store = store(scratch.path(), &["full", "topk:5"], 1, |trial| {
        Some(if trial.mechanism == "full" { jump(8) } else { jump(4) })
    });
    for (goal, reached) in [
        ("heldout_accuracy >= 0.99", Some(4.0)),
        ("heldout_accuracy >= 0.995", None),
        ("train_loss <= 0.05", Some(4.0)),
        ("train_accuracy >= 0.4", Some(1.0)),
    ] {
        let evidence = Evidence::read(&store, goal.parse::<Goal>().unwrap()).unwrap();
        assert_eq!(mechanism(&evidence, "topk:5").median_epochs_to_target, reached, "{goal}");
    }
}

/// Writes down what is known of the held-out split of a trial.
fn set_facts(trial: &TrialReader, unigram: f64, floor: Option<f64>) {
    let held_out = SplitFacts { unigram: Some(unigram), floor, characters: None };
    let lease = fixture::lease(trial.path()).unwrap();
    let status = trial.status().unwrap().unwrap();
    let facts = Some(DataFacts { held_out, ..DataFacts::default() });
    trial.writer(&lease).write_status(&Status { facts, ..status }).unwrap();
}

#[test]
fn goals_on_the_way_to_the_floor_are_those_of_the_data_of_each_trial() {
    let scratch = Scratch::new("evidence-facts");
    let falling = |epoch: usize| {
        let mut record = fixture::jump(epoch, None, 0.5);
        record.metrics[Metric::HeldoutLoss] = 1.0 - 0.04 * epoch as f64;
        record
    };
    let store = store(scratch.path(), &["full"], 2, |_| {
        Some(Fixture { records: (1..=EPOCHS).map(falling).collect(), state: State::Finished, probes: Vec::new() })
    });
    let goal: Goal = "heldout_learned >= 0.5".parse().unwrap();
    let read = || Evidence::read(&store, goal);
    let error = read().unwrap_err().to_string();
    assert!(error.contains("the version that trained it did not write it down"), "{error}");
    assert!(Evidence::read(&store, "heldout_perplexity <= 2".parse::<Goal>().unwrap()).is_ok(), "it needs nothing");
    let trials: Vec<TrialReader> = store.index().unwrap().iter().map(|entry| store.trial(entry.id)).collect();
    // Half of the way is a loss of 0.5 for one, and of 0.79 for the other.
    set_facts(&trials[0], 1.0, Some(0.0));
    set_facts(&trials[1], 1.2, Some(0.38));
    let times = |evidence: &Evidence| -> Vec<Option<f64>> {
        evidence.trials().map(|observed| Some(observed.measures?.time_to_target.time)).collect()
    };
    let evidence = read().unwrap();
    assert_eq!(times(&evidence), [Some(13.0), Some(6.0)]);
    let last = &mechanism(&evidence, "full").last;
    let (one, other) = (0.8, (1.2 - 0.2) / (1.2 - 0.38));
    assert!((last["heldout_learned"] - (one + other) / 2.0).abs() < 1e-9, "{last:?}");
    assert!(last.contains_key("train_perplexity") && !last.contains_key("train_excess"), "{last:?}");
    let excess = Evidence::read(&store, "heldout_excess <= 0.31".parse::<Goal>().unwrap()).unwrap();
    assert_eq!(times(&excess), [Some(18.0), Some(8.0)]);
    // A trial whose status is damaged is left out, and the output names it.
    let status = trials[1].path().join("status.json");
    let text = std::fs::read_to_string(&status).unwrap();
    std::fs::write(&status, text.replace("1.2", "1.3")).unwrap();
    let left = read().unwrap();
    assert_eq!((times(&left), left.damage.len()), (vec![Some(13.0), None], 1));
    std::fs::write(&status, text).unwrap();
    set_facts(&trials[1], 1.2, None);
    let error = read().unwrap_err().to_string();
    assert!(
        error.contains("needs the loss of the best possible predictor") && error.contains("do not have it"),
        "{error}"
    );
}

#[test]
fn a_grid_is_summarised() {
    let scratch = Scratch::new("evidence-grid");
    let dir = scratch.path().join("run");
    let file = scratch.path().join("grid.toml");
    std::fs::write(&file, "claim = \"x\"\nbase = \"even-pairs\"\n[grid]\nmodel.blocks = [1, 2, 3]\n").unwrap();
    let store = fixture::store(&dir, &experiment(file.to_str().unwrap(), &["full", "topk:5"], 1), |trial| {
        // Full attention needs 12 epochs, top-k 12 divided by the number of blocks.
        Some(jump(if trial.mechanism == "full" { 12 } else { 12 / trial.model.blocks }))
    })
    .unwrap();
    let evidence = Evidence::read(&store, GOAL).unwrap();
    assert_eq!(evidence.points.len(), 3);
    let [topk] = evidence.robustness() else { panic!("one mechanism is compared") };
    assert_eq!((topk.points, topk.slower), (3, 0));
    assert_eq!(topk.min, Some((Ratio::Exactly(1.0), "blocks = 1".to_owned())));
    assert_eq!(topk.max, Some((Ratio::Exactly(3.0), "blocks = 3".to_owned())));
}

#[test]
fn times_are_counted_in_steps_where_an_epoch_is_a_number_of_steps() {
    for (setting, unit, words) in [
        ("", Unit::Epochs, "learns in 2.0× fewer epochs"),
        ("training.evaluate_every = 200\n", Unit::Steps(200), "learns in 2.0× fewer steps"),
    ] {
        let scratch = Scratch::new("evidence-steps");
        let file = scratch.path().join("steps.toml");
        std::fs::write(&file, format!("claim = \"x\"\nbase = \"even-pairs\"\n{setting}")).unwrap();
        let experiment = experiment(file.to_str().unwrap(), &["full", "topk:5"], 5);
        let store = fixture::store(&scratch.path().join("run"), &experiment, |trial| {
            Some(jump(if trial.mechanism == "full" { 12 } else { 6 }))
        });
        let evidence = Evidence::read(&store.unwrap(), GOAL).unwrap();
        assert_eq!(evidence.unit(), unit);
        let said = &versus(&evidence, "topk:5").unwrap().learning.words;
        assert!(said.starts_with(words), "{said}");
    }
    assert_eq!((Unit::Steps(200).count(1.5), Unit::Epochs.count(1.5)), (300.0, 1.5));
}

#[test]
fn the_same_takes_learning_seeds_and_examples() {
    let scratch = Scratch::new("evidence-same");
    let found = |name: &str, seeds: usize, held_out: i64, at: Option<usize>| {
        let file = scratch.path().join(format!("{name}.toml"));
        std::fs::write(&file, format!("base = \"even-pairs\"\ndata.held_out = {held_out}\n")).unwrap();
        let experiment = experiment(file.to_str().unwrap(), &["full", "topk:5"], seeds);
        let store =
            fixture::store(&scratch.path().join(name), &experiment, |_| Some(curve(at, EPOCHS, State::Finished)));
        let evidence = Evidence::read(&store.unwrap(), GOAL).unwrap();
        let comparison = versus(&evidence, "topk:5").unwrap();
        (comparison.generalisation.finding, comparison.generalisation.words.clone(), evidence)
    };
    let (finding, words, _) = found("enough", 8, 2000, Some(3));
    assert_eq!(finding, Generalisation::Same, "{words}");
    assert!(
        words.starts_with("generalises the same within ±1 point (held-out accuracy +0.0 points, 95 % interval −0.")
    );
    let (finding, words, _) = found("few-seeds", 5, 2000, Some(3));
    assert_eq!(finding, Generalisation::NoEvidence, "{words}");
    let (finding, words, _) = found("few-examples", 8, 20, Some(3));
    assert_eq!(finding, Generalisation::NoEvidence);
    assert!(words.contains("20 held-out examples are too few to show a difference of 1 point"), "{words}");
    let (finding, _, evidence) = found("nothing", 8, 2000, None);
    assert_eq!(finding, Generalisation::NotLearned);
    assert!(evidence.has_learned_nothing());
    let warnings = evidence.warnings();
    assert!(
        warnings.len() == 1 && warnings[0].starts_with("nothing learned: no trial reached a training accuracy of 95 %"),
        "{warnings:?}"
    );
}

#[test]
fn expectations_are_answered_first() {
    let scratch = Scratch::new("evidence-claim");
    let file = scratch.path().join("claim.toml");
    let text = "base = \"even-pairs\"\nclaim = \"so\"\nmechanisms = [\"full\", \"topk:5\", \"banded:5\", \"block:5\"]\n\
                [expect]\n\"topk:5\" = [\"faster\", \"not worse\"]\n\"banded:5\" = \"not faster\"\n\"block:5\" = \"faster\"\n";
    std::fs::write(&file, text).unwrap();
    let request = Request {
        experiment: file.to_str().unwrap().to_owned(),
        seeds: Some(8),
        epochs: Some(EPOCHS),
        ..Request::default()
    };
    let experiment = Experiment::resolve(&request, &AnyName).unwrap();
    assert_eq!(experiment.changes_to_claim(), [], "other numbers of seeds and epochs are no other experiment");
    let store = fixture::store(&scratch.path().join("run"), &experiment, |trial| {
        let seed = seed_number(trial);
        Some(match trial.mechanism.as_str() {
            "full" => jump(8 + seed),
            "topk:5" => jump(2 + seed % 2),
            "banded:5" => jump(8 + seed),
            _ => curve(None, EPOCHS, State::Finished),
        })
    });
    let evidence = Evidence::read(&store.unwrap(), GOAL).unwrap();
    let claim = Claim::new(&evidence);
    let answers: Vec<(&str, Answer)> = claim.checked.iter().map(|c| (c.expectation.as_str(), c.answer)).collect();
    assert_eq!(
        answers,
        [
            ("topk:5 faster", Answer::Supported),
            ("topk:5 not worse", Answer::Supported),
            ("banded:5 not faster", Answer::Undecided), // the interval of no difference reaches beyond 1.25
            ("block:5 faster", Answer::NotSupported),
        ]
    );
    assert_eq!(claim.sentence().unwrap(), "not supported: block:5 faster (2 of 4 supported)");
    assert_eq!(claim.unchecked, None);
    // Without the table, and with other settings, the text is not checked.
    let other = Request { overrides: vec!["data.length=8".to_owned()], ..request };
    let mut changed = evidence;
    changed.experiment = Experiment::resolve(&other, &AnyName).unwrap();
    assert!(
        Claim::new(&changed).unchecked.unwrap().contains("data.length 8 instead of"),
        "{:?}",
        changed.experiment.changed
    );
}

#[test]
fn any_mechanism_can_be_the_baseline() {
    let scratch = Scratch::new("evidence-baseline");
    let store = store(scratch.path(), &["topk:9", "topk:3", "block:5"], 5, |trial| {
        Some(jump(match trial.mechanism.as_str() {
            "topk:9" => 4,
            "topk:3" => 8,
            _ => 12,
        }))
    });
    let evidence = Evidence::read(&store, GOAL).unwrap();
    assert!(evidence.warnings()[0].contains("no full attention"), "{:?}", evidence.warnings());
    let evidence = Evidence::read_against(&store, GOAL, Some("topk:9")).unwrap();
    assert!(evidence.warnings().is_empty());
    let comparison = versus(&evidence, "topk:3").unwrap();
    assert_eq!((comparison.baseline.as_str(), comparison.learning.finding), ("topk:9", Learning::Slower));
    assert_eq!(comparison.epochs.unwrap().ratio.to_string(), "2.0× slower");
    assert!(comparison.learning.words.starts_with("needs 2.0× as many epochs"), "{:?}", comparison.learning);
    let pairs = evidence.points[0].all_pairs();
    let named: Vec<(&str, &str)> = pairs.iter().map(|(name, found)| (name.as_str(), found.baseline.as_str())).collect();
    assert_eq!(named, [("topk:3", "topk:9"), ("block:5", "topk:9"), ("block:5", "topk:3")]);
    assert!(Evidence::read_against(&store, GOAL, Some("full")).is_err());
}

#[test]
fn each_mechanism_at_its_best_point() {
    let scratch = Scratch::new("evidence-tuned");
    let file = scratch.path().join("grid.toml");
    std::fs::write(&file, "base = \"even-pairs\"\n[grid]\ntraining.learning_rate = [0.1, 1.0]\n").unwrap();
    let store = fixture::store(
        &scratch.path().join("run"),
        &experiment(file.to_str().unwrap(), &["full", "topk:5"], 5),
        |trial| {
            // Full attention generalises best at 0.1 but learns faster at 1.0; top-k is the same at both, but faster at 1.0.
            let is_slow = trial.training.learning_rate < 0.5;
            let (at, accuracy) = match (trial.mechanism.as_str(), is_slow) {
                ("full", true) => (12, 0.99),
                ("full", false) => (3, 0.8),
                (_, true) => (10, 0.95),
                (_, false) => (4, 0.95),
            };
            let records = (1..=EPOCHS).map(|epoch| fixture::jump(epoch, Some(at), accuracy)).collect();
            Some(Fixture { records, state: State::Finished, probes: Vec::new() })
        },
    );
    let evidence = Evidence::read(&store.unwrap(), GOAL).unwrap();
    let best = evidence.best_of_grid().unwrap();
    let chosen: Vec<&str> = best.mechanisms.iter().map(|tuned| tuned.point[0].1.as_str()).collect();
    assert_eq!((chosen, best.split), (vec!["0.1", "1.0"], Split::HeldOut));
    let comparison = best.mechanisms[1].versus_baseline.as_ref().unwrap();
    assert_eq!(comparison.epochs.unwrap().ratio, Ratio::Exactly(3.0), "12 epochs at its best point against 4");
}

#[test]
fn pairs_on_different_processors_are_named() {
    let session = |cpu: &str| Session {
        version: "1".to_owned(),
        commit: None,
        cpu: cpu.to_owned(),
        instruction_set: "Avx2".to_owned(),
        cores: 1,
        threads: 1,
        jobs: 1,
        device: "cpu".to_owned(),
        system: "linux".to_owned(),
        host: "n1".to_owned(),
        pid: 1,
        command: Vec::new(),
        started: "2026-11-18T00:00:00Z".to_owned(),
        from_epoch: 0,
        program: None,
        own_code: BTreeMap::new(),
    };
    let scratch = Scratch::new("evidence-processors");
    let store = store(scratch.path(), &["full", "topk:5", "block:5"], 3, |_| Some(jump(4)));
    let add_session = |trial: &TrialReader, session| {
        trial.writer(&fixture::lease(trial.path()).unwrap()).add_session(session).unwrap();
    };
    let warned = || Evidence::read(&store, GOAL).unwrap().warnings();
    for trial in store.read().unwrap().trials {
        add_session(&trial.folder, session("Zen"));
    }
    assert!(warned().is_empty(), "{:?}", warned());
    let other = |mechanism: &str, place: usize| {
        let trials = store.read().unwrap().trials;
        let folder =
            trials.iter().filter(|trial| trial.entry.mechanism == mechanism).nth(place).unwrap().folder.clone();
        add_session(&folder, Session { instruction_set: "Avx512".to_owned(), ..session("Zen") });
        add_session(&folder, session("Xeon"));
    };
    other("topk:5", 1);
    let [warning] = &warned()[..] else { panic!("{:?}", warned()) };
    assert!(warning.starts_with("different processors (Xeon; Zen)"), "{warning}");
    assert!(warning.ends_with(": topk:5 with seed 2."), "{warning}");
    // The partner of two others.
    other("full", 2);
    let [warning] = &warned()[..] else { panic!("{:?}", warned()) };
    assert!(warning.ends_with(": topk:5 with seeds 2, 3; block:5 with seed 3."), "{warning}");
}
