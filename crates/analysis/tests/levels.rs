//! How often each verdict is wrong in simulated experiments without the effect that it states, and how often it is found where
//! there is one. `cargo test --release -p semfocus-analysis --test levels -- --nocapture` prints the tables of docs/evidence.md.
//! Seeds are fixed, so a test that passes keeps passing.

use std::sync::LazyLock;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use semfocus_analysis::evidence::verdict::{Generalisation, Learning, unseen_failures};
use semfocus_analysis::evidence::{Comparison, GOAL, Measures, Observed, PointEvidence};
use semfocus_analysis::stats::{TimeToTarget, binomial_tail, normal_quantile};
use semfocus_core::{AnyName, DataFacts, Experiment, Request};
use semfocus_fixture::{self as fixture, Fixture, Scratch};
use semfocus_store::{State, TrialData};

const EXPERIMENTS: usize = 400;
const SEEDS: [usize; 4] = [3, 5, 7, 9];
const MECHANISMS: [&str; 3] = ["full", "topk:5", "banded:5"];
/// Epochs of a trial.
const BUDGET: f64 = 30.0;

struct World {
    words: ChaCha8Rng,
}

impl World {
    /// A uniform number in 0..1, both ends excluded.
    fn uniform(&mut self) -> f64 {
        (f64::from(self.words.next_u32()) + 0.5) / 2f64.powi(32)
    }

    fn normal(&mut self) -> f64 {
        normal_quantile(self.uniform())
    }

    /// Epochs to the target, exponential with this mean.
    fn epochs(&mut self, mean: f64) -> f64 {
        (-mean * self.uniform().ln()).ceil()
    }

    /// The accuracy that this number of examples shows of a model with this true accuracy.
    fn measured(&mut self, accuracy: f64, examples: usize) -> f64 {
        let accuracy = accuracy.clamp(0.0, 1.0);
        let hits = if examples as f64 * accuracy.min(1.0 - accuracy) < 50.0 {
            (0..examples).filter(|_| self.uniform() < accuracy).count() as f64
        } else {
            let (mean, error) = (accuracy * examples as f64, (accuracy * (1.0 - accuracy) * examples as f64).sqrt());
            (mean + error * self.normal()).round().clamp(0.0, examples as f64)
        };
        hits / examples as f64
    }
}

/// What a simulated trial shows.
#[derive(Clone, Copy)]
struct Shown {
    epochs: f64,
    accuracy: f64,
    /// Whether the accuracy is that on the held-out examples and not the true one.
    is_measured: bool,
}

/// A world in which trials are drawn: of a mechanism (0 is the baseline), given a number that all trials of a seed share.
struct Scenario {
    name: &'static str,
    held_out: usize,
    is_shared: bool,
    /// Share of the most frequent class.
    majority: f64,
    /// How often trials of mechanisms other than the baseline do not learn.
    failures: f64,
    draw: fn(&mut World, usize, f64) -> Shown,
}

/// Shares of the experiments in which any mechanism gets a verdict.
#[derive(Default)]
struct Said {
    faster: f64,
    slower: f64,
    speed_in_all: f64,
    better: f64,
    worse: f64,
    better_or_worse_in_all: f64,
    same: f64,
    not_learned: f64,
}

/// A stored trial to make others from.
static TEMPLATE: LazyLock<TrialData> = LazyLock::new(|| {
    let scratch = Scratch::new("levels");
    let request = Request { experiment: "even-pairs".to_owned(), seeds: Some(1), ..Request::default() };
    let experiment = Experiment::resolve(&request, &AnyName).unwrap();
    let invent = |_: &_| {
        Some(Fixture { records: vec![fixture::jump(1, None, 0.5)], state: State::Finished, probes: Vec::new() })
    };
    fixture::store(scratch.path(), &experiment, invent).unwrap().read().unwrap().trials.remove(0).data
});

fn observed(template: &TrialData, mechanism: &str, seed: u64, shown: Shown, scenario: &Scenario) -> Observed {
    let mut trial = template.clone();
    trial.entry.mechanism = mechanism.to_owned();
    trial.entry.seed = seed;
    trial.state = State::Finished;
    let hits = (shown.accuracy * scenario.held_out as f64).round() as usize;
    let time_to_target =
        if shown.epochs <= BUDGET { TimeToTarget::reached_at(shown.epochs) } else { TimeToTarget::censored_at(BUDGET) };
    let measures = Measures {
        time_to_target,
        best_heldout_accuracy: shown.accuracy,
        held_out: scenario.held_out,
        is_data_shared: scenario.is_shared,
        majority: Some(scenario.majority),
        luck: (BUDGET * binomial_tail(hits, scenario.held_out, scenario.majority)).min(1.0),
        ..Measures::new(template, GOAL.threshold(&DataFacts::default()).unwrap()).unwrap()
    };
    Observed { trial, measures: Some(measures) }
}

fn simulate(scenario: &Scenario, seeds: usize) -> Said {
    let names = MECHANISMS.map(str::to_owned);
    let mut world = World { words: ChaCha8Rng::seed_from_u64(seeds as u64) };
    let mut said = Said::default();
    for _ in 0..EXPERIMENTS {
        let mut trials = Vec::new();
        // If all seeds share their examples, so do the luck and bad luck in choosing them.
        let luck: Vec<f64> = MECHANISMS.iter().map(|_| world.normal()).collect();
        for seed in 0..seeds as u64 {
            let common = world.normal();
            for (number, mechanism) in MECHANISMS.iter().enumerate() {
                let mut shown = (scenario.draw)(&mut world, number, common);
                if number > 0 && scenario.failures > 0.0 && world.uniform() < scenario.failures {
                    shown.accuracy = scenario.majority;
                }
                let examples = scenario.held_out as f64;
                if shown.is_measured {
                    // Nothing is left to draw.
                } else if scenario.is_shared {
                    let error = (shown.accuracy * (1.0 - shown.accuracy) / examples).max(0.0).sqrt();
                    shown.accuracy = (shown.accuracy + luck[number] * error).clamp(0.0, 1.0);
                } else {
                    shown.accuracy = world.measured(shown.accuracy, scenario.held_out);
                }
                trials.push(observed(&TEMPLATE, mechanism, seed, shown, scenario));
            }
        }
        let point = PointEvidence::new(Vec::new(), &names, "full", trials);
        let comparisons: Vec<&Comparison> = point.compared().filter_map(|(_, comparison)| comparison).collect();
        comparisons.iter().for_each(|comparison| assert_words_and_intervals_agree(comparison));
        let share = |is_said: &dyn Fn(&Comparison) -> bool| {
            f64::from(u8::from(comparisons.iter().any(|comparison| is_said(comparison)))) / EXPERIMENTS as f64
        };
        let learning = |wanted: Learning| share(&|c| c.learning.finding == wanted);
        let general = |wanted: Generalisation| share(&|c| c.generalisation.finding == wanted);
        said.faster += learning(Learning::Faster);
        said.slower += learning(Learning::Slower);
        said.speed_in_all += share(&|c| matches!(c.learning.finding, Learning::FasterInAll | Learning::SlowerInAll));
        said.better += general(Generalisation::Better);
        said.worse += general(Generalisation::Worse);
        said.better_or_worse_in_all +=
            share(&|c| matches!(c.generalisation.finding, Generalisation::BetterInAll | Generalisation::WorseInAll));
        said.same += general(Generalisation::Same);
        said.not_learned += general(Generalisation::NotLearned);
    }
    said
}

/// One rule for both: a difference is stated exactly if the interval excludes "no difference".
fn assert_words_and_intervals_agree(comparison: &Comparison) {
    let is_stated = matches!(comparison.learning.finding, Learning::Faster | Learning::Slower);
    assert_eq!(is_stated, !comparison.speedups.contains(1.0), "{comparison:?}");
    let Some(accuracy) = &comparison.accuracy else { return };
    let stated = comparison.generalisation.finding;
    match accuracy.interval {
        Some(interval) if accuracy.learned && !matches!(stated, Generalisation::Same) => {
            let is_stated = matches!(stated, Generalisation::Better | Generalisation::Worse);
            assert_eq!(is_stated, !interval.contains(0.0), "{comparison:?}");
        }
        Some(_) => assert!(matches!(stated, Generalisation::Same | Generalisation::NotLearned)),
        None => assert!(!matches!(stated, Generalisation::Same | Generalisation::Better | Generalisation::Worse)),
    }
}

/// At most 5 %, up to 3.3 binomial standard errors.
#[track_caller]
fn assert_level(share: f64, what: &str) {
    let limit = 0.05 + 3.3 * (0.05f64 * 0.95 / EXPERIMENTS as f64).sqrt();
    assert!(share <= limit, "{what} in {share} of the experiments");
}

fn percent(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}

#[test]
fn speed_without_a_difference() {
    let scenarios = [
        (
            "budget of twice the mean",
            (|world, _, _| Shown { epochs: world.epochs(15.0), accuracy: 1.0, is_measured: false })
                as fn(&mut World, usize, f64) -> Shown,
        ),
        ("epochs 2 and 3 alone", |world, _, _| Shown {
            epochs: 2.0 + world.uniform().round(),
            accuracy: 1.0,
            is_measured: false,
        }),
        ("nearly all in epoch 1", |world, _, _| Shown {
            epochs: if world.uniform() < 0.9 { 1.0 } else { 2.0 },
            accuracy: 1.0,
            is_measured: false,
        }),
        ("seeds differ more than trials", |world, _, common: f64| Shown {
            epochs: (10.0 * common.exp() * (0.1 * world.normal()).exp()).ceil().max(1.0),
            accuracy: 1.0,
            is_measured: false,
        }),
        ("few reach the target", |world, _, _| Shown {
            epochs: world.epochs(200.0),
            accuracy: 1.0,
            is_measured: false,
        }),
    ];
    println!(
        "| no difference in speed | seeds | faster | slower | faster or slower with all seeds (too few) |\n|---|--:|--:|--:|--:|"
    );
    for (name, draw) in scenarios {
        for seeds in SEEDS {
            let scenario = Scenario { name, held_out: 1000, is_shared: false, majority: 0.5, failures: 0.0, draw };
            let Said { faster, slower, speed_in_all, .. } = simulate(&scenario, seeds);
            println!("| {name} | {seeds} | {} | {} | {} |", percent(faster), percent(slower), percent(speed_in_all));
            assert_level(faster + slower, &format!("{name}, {seeds} seeds: faster or slower"));
        }
    }
}

fn accuracy(accuracy: f64) -> Shown {
    Shown { epochs: 5.0, accuracy, is_measured: false }
}

#[test]
fn generalisation_without_a_difference() {
    let scenario =
        |name, held_out, draw| Scenario { name, held_out, is_shared: false, majority: 0.5, failures: 0.0, draw };
    let scenarios = [
        scenario("80 % ± 3, 1,000 examples", 1000, |world, _, _| accuracy(0.8 + 0.03 * world.normal())),
        scenario("99.9 %, 200 examples", 200, |_, _, _| accuracy(0.999)),
        scenario("100 %, 20 examples", 20, |_, _, _| accuracy(1.0)),
        scenario("three in ten trials fail", 1000, |world, _, _| {
            accuracy(if world.uniform() < 0.3 { 0.5 } else { 0.99 })
        }),
        scenario("seeds differ more than trials", 1000, |world, _, common: f64| {
            accuracy(0.8 + 0.1 * common + 0.01 * world.normal())
        }),
        Scenario {
            is_shared: true,
            ..scenario("80 % ± 1, all seeds share 200 examples", 200, |world, _, _| {
                accuracy(0.8 + 0.01 * world.normal())
            })
        },
    ];
    println!(
        "| no difference in accuracy | seeds | better | worse | better or worse with all seeds (too few) |\n|---|--:|--:|--:|--:|"
    );
    for scenario in scenarios {
        for seeds in SEEDS {
            let Said { better, worse, better_or_worse_in_all, .. } = simulate(&scenario, seeds);
            let name = scenario.name;
            println!(
                "| {name} | {seeds} | {} | {} | {} |",
                percent(better),
                percent(worse),
                percent(better_or_worse_in_all)
            );
            assert_level(better + worse, &format!("{name}, {seeds} seeds: better or worse"));
        }
    }
}

/// The mechanism is a little more than one point worse, so "the same within ±1 point" is wrong.
#[test]
fn equivalence_where_there_is_none() {
    let scenario =
        |name, held_out, draw| Scenario { name, held_out, is_shared: false, majority: 0.5, failures: 0.0, draw };
    let scenarios = [
        scenario("100 and 98.9 %, 20 examples", 20, |_, number, _| accuracy(if number == 0 { 1.0 } else { 0.989 })),
        scenario("100 and 98.9 %, 200 examples", 200, |_, number, _| accuracy(if number == 0 { 1.0 } else { 0.989 })),
        scenario("100 and 98.9 %, 2,000 examples", 2000, |_, number, _| {
            accuracy(if number == 0 { 1.0 } else { 0.989 })
        }),
        scenario("80 and 78.9 % ± 0.5, 20,000 examples", 20_000, |world, number, _| {
            accuracy(0.8 - if number == 0 { 0.0 } else { 0.011 } + 0.005 * world.normal())
        }),
        Scenario {
            is_shared: true,
            ..scenario("90 and 88.9 % ± 0.3, all seeds share 500 examples", 500, |world, number, _| {
                accuracy(0.9 - if number == 0 { 0.0 } else { 0.011 } + 0.003 * world.normal())
            })
        },
        scenario("at chance, 20 examples", 20, |world, _, _| at_chance(world, 20)),
        scenario("at chance, 2,000 examples", 2000, |world, _, _| at_chance(world, 2000)),
    ];
    println!("| not the same | seeds | the same | nothing learned |\n|---|--:|--:|--:|");
    for scenario in scenarios {
        for seeds in SEEDS {
            let Said { same, not_learned, .. } = simulate(&scenario, seeds);
            println!("| {} | {seeds} | {} | {} |", scenario.name, percent(same), percent(not_learned));
            assert_level(same, &format!("{}, {seeds} seeds: the same", scenario.name));
            if scenario.name.starts_with("at chance") {
                assert!(not_learned > 0.95, "{}: {not_learned}", scenario.name);
            }
        }
    }
}

/// "The same" says which failure rates it rules out, so it is wrong where trials fail that often. Rarer failures do not show.
#[test]
fn equivalence_where_trials_fail() {
    let scenario =
        |name, held_out, draw| Scenario { name, held_out, is_shared: false, majority: 0.5, failures: 0.0, draw };
    println!("| trials fail | seeds | the same |\n|---|--:|--:|");
    for seeds in SEEDS {
        let failing = |name, failures| Scenario { failures, ..scenario(name, 2000, |_, _, _| accuracy(1.0)) };
        let often = failing("trials fail as often as it rules out", unseen_failures(seeds, MECHANISMS.len() - 1));
        let rarely = failing("one trial in twenty fails", 0.05);
        // The accuracies are the same, but so they are for all who do not learn.
        let alike = scenario("all fail with the same seeds, one in three", 2000, |_, _, common: f64| {
            accuracy(if common > 0.43 { 0.5 } else { 1.0 })
        });
        let [often_same, rarely_same, alike_same] = [&often, &rarely, &alike].map(|scenario| {
            let same = simulate(scenario, seeds).same;
            println!("| {} | {seeds} | {} |", scenario.name, percent(same));
            same
        });
        assert_level(often_same, &format!("{}, {seeds} seeds: the same", often.name));
        // Said only about a mechanism of which no trial failed.
        assert!(rarely_same < 1.0 - (1.0 - 0.95f64.powi(seeds as i32)).powi(2) + 0.06, "{rarely_same}");
        assert!(alike_same <= (2.0 / 3.0f64).powi(seeds as i32) + 0.06, "{alike_same}");
    }
}

/// The best of all epochs of a model that guesses; it never reaches the target.
fn at_chance(world: &mut World, examples: usize) -> Shown {
    let best = (0..BUDGET as usize).map(|_| world.measured(0.5, examples)).fold(0.0, f64::max);
    Shown { epochs: f64::INFINITY, accuracy: best, is_measured: true }
}

/// A rule that never says anything keeps every level.
#[test]
fn effects_are_found() {
    let scenario = |draw| Scenario { name: "", held_out: 2000, is_shared: false, majority: 0.5, failures: 0.0, draw };
    let fast = scenario(|world, number, _| Shown {
        epochs: (if number == 0 { 15.0 } else { 5.0 } * (0.3 * world.normal()).exp()).ceil(),
        accuracy: 0.99 + 0.001 * world.normal(),
        is_measured: false,
    });
    let worse = scenario(|world, number, _| accuracy(if number == 0 { 0.95 } else { 0.9 } + 0.01 * world.normal()));
    println!("| effect | seeds | found |\n|---|--:|--:|");
    for seeds in SEEDS {
        let (fast, worse) = (simulate(&fast, seeds), simulate(&worse, seeds));
        println!("| three times as fast: faster | {seeds} | {} |", percent(fast.faster));
        println!("| 95 and 90 % ± 1, 2,000 examples: worse | {seeds} | {} |", percent(worse.worse));
        println!("| both 99 %, 2,000 examples: the same | {seeds} | {} |", percent(fast.same));
        if seeds >= 7 {
            assert!(fast.faster > 0.9 && worse.worse > 0.9 && fast.same > 0.5, "{seeds} seeds");
        }
        if seeds < 6 {
            assert_eq!((worse.worse, fast.same), (0.0, 0.0), "{seeds} seeds are too few");
        }
    }
}
