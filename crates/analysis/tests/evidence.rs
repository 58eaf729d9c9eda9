//! Evidence from stores with invented trials, compared with numbers worked out by hand.

use std::path::Path;

use semfocus_analysis::evidence::robustness::robustness;
use semfocus_analysis::evidence::speedup::Ratio;
use semfocus_analysis::evidence::verdict::{Generalisation, Learning};
use semfocus_analysis::evidence::{Evidence, GOAL, MechanismEvidence};
use semfocus_core::{AnyName, Experiment, Request, TrialSettings};
use semfocus_fixture::{self as fixture, Fixture, Scratch};
use semfocus_store::{State, Store};

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
    assert_eq!((full.reached, full.median_epochs_to_threshold), (5, Some(12.0)));
    assert_eq!((topk.reached, topk.median_epochs_to_threshold), (5, Some(2.0)));
    // Full: 10 to 14, all before the horizon: the 20 epochs of the banded trials.
    assert_eq!(full.restricted_mean_epochs.unwrap().mean, 12.0);
    let comparison = topk.versus_full.as_ref().unwrap();
    // Seed by seed: 10/2, 11/3, 12/2, 13/3, 14/2: the median is 5.
    assert_eq!(comparison.epochs.unwrap().ratio, Ratio::Exactly(5.0));
    assert_eq!(comparison.seconds.unwrap().ratio, Ratio::Exactly(5.0), "every epoch takes 2 s");
    // An epoch of top-k has 0.8 times the operations.
    assert!((comparison.flops.unwrap().ratio.value() - 5.0 / 0.8).abs() < 1e-12);
    // 252 divisions of ten trials; no other is as extreme but its mirror image.
    assert!((comparison.log_rank.p_value - 2.0 / 252.0).abs() < 1e-12);
    assert!((comparison.log_rank_adjusted - 6.0 / 252.0).abs() < 1e-12, "three mechanisms are compared");
    assert_eq!(comparison.learning.finding, Learning::Faster);
    assert_eq!(comparison.learning.words, "learns faster, 5.0 times fewer epochs (p = 0.024)");
    assert_eq!(comparison.generalisation.finding, Generalisation::Same);
    assert_eq!(comparison.generalisation.words, "generalises the same within ±1 point");
    assert!((comparison.epochs_saved.unwrap() - (12.0 - 2.4)).abs() < 1e-9);
    let banded = mechanism(&evidence, "banded:5");
    assert_eq!((banded.reached, banded.median_epochs_to_threshold, banded.epochs), (0, None, 20));
    let comparison = banded.versus_full.as_ref().unwrap();
    assert_eq!(comparison.epochs.unwrap().ratio, Ratio::LessThan(12.0 / 20.0));
    assert_eq!(comparison.learning.finding, Learning::Slower);
    // Five differences of -0.49 are as low as five can be, but the exact p is 1/16.
    assert_eq!(comparison.generalisation.finding, Generalisation::WorseInAll);
    assert_eq!(
        comparison.generalisation.words,
        "worse with all 5 seeds (−49.0 points, 95 % interval −49.0 to −49.0); too few seeds for a significance test"
    );
    let block = mechanism(&evidence, "block:5").versus_full.as_ref().unwrap();
    assert_eq!((block.learning.finding, block.log_rank.p_value), (Learning::NoEvidence, 1.0));
    assert_eq!(block.epochs.unwrap().ratio, Ratio::Exactly(1.0));
    let measures = evidence.points[0].of_mechanism("full").next().unwrap().1;
    assert_eq!((measures.best_epoch, measures.seconds), (10, 20.0));
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
    let comparison = mechanism(&evidence, "topk:5").versus_full.as_ref().unwrap();
    assert_eq!(comparison.learning.finding, Learning::FasterInAll);
    assert_eq!(
        comparison.learning.words,
        "faster with both seeds, 5.0 times fewer epochs; too few seeds for a significance test"
    );
    assert_eq!(
        comparison.generalisation.words,
        "held-out accuracy +0.0 points (2 seeds: too few seeds for an interval)"
    );
    assert!(comparison.epochs.unwrap().interval.is_none());
}

#[test]
fn one_seed_without_a_difference() {
    let scratch = Scratch::new("evidence-one");
    let store = store(scratch.path(), &["full", "topk:5"], 1, |_| Some(jump(7)));
    let evidence = Evidence::read(&store, GOAL).unwrap();
    let comparison = mechanism(&evidence, "topk:5").versus_full.as_ref().unwrap();
    assert_eq!(
        comparison.learning.words,
        "no evidence of a difference in speed (1 seed: too few seeds for a significance test)"
    );
}

#[test]
fn one_seed_one_mechanism_and_nothing_at_all() {
    let alone = Scratch::new("evidence-alone");
    let single = store(alone.path(), &["topk:5"], 1, |_| Some(jump(3)));
    let evidence = Evidence::read(&single, GOAL).unwrap();
    assert!(mechanism(&evidence, "topk:5").versus_full.is_none(), "there is nothing to compare with");
    assert_eq!(mechanism(&evidence, "topk:5").median_epochs_to_threshold, Some(3.0));
    let empty = Scratch::new("evidence-empty");
    let nothing = store(empty.path(), &["full", "topk:5"], 2, |_| None);
    let evidence = Evidence::read(&nothing, GOAL).unwrap();
    assert_eq!((evidence.missing().count(), mechanism(&evidence, "full").seeds), (4, 0));
    assert!(mechanism(&evidence, "topk:5").versus_full.is_none());
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
    let comparison = mechanism(&evidence, "topk:5").versus_full.as_ref().unwrap();
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
    let comparison = mechanism(&evidence, "topk:5").versus_full.as_ref().unwrap();
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
        let evidence = Evidence::read(&store, goal.parse().unwrap()).unwrap();
        assert_eq!(mechanism(&evidence, "topk:5").median_epochs_to_threshold, reached, "{goal}");
    }
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
    let [topk] = &robustness(&evidence)[..] else { panic!("one mechanism is compared") };
    assert_eq!((topk.points, topk.slower), (3, 0));
    assert_eq!(topk.min, Some((Ratio::Exactly(1.0), "blocks = 1".to_owned())));
    assert_eq!(topk.max, Some((Ratio::Exactly(3.0), "blocks = 3".to_owned())));
}
