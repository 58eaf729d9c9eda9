//! A mechanism compared with another, full attention unless asked otherwise, seed by seed.

use serde::Serialize;

use super::accuracy::AccuracyDifference;
use super::measures::Measures;
use super::speedup::{Cost, Speedup};
use super::verdict::{Generalisation, LEVEL, Learning, Verdict, min_log_rank_p, seeds_needed};
use super::{Observed, Unit, measured};
use crate::stats::{
    Interval, KaplanMeier, PermutationTest, TimeToTarget, holm, holm_levels, log_rank_excess, log_rank_interval,
    permuted_log_rank,
};

/// Seed of permutations and drawn subsets, fixed so that the same store gives the same numbers.
const SEED: u64 = 20_251_115;

/// A mechanism compared with a baseline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The mechanism it is compared with.
    pub baseline: String,
    /// Seeds with at least one epoch of both.
    pub pairs: usize,
    /// Trials of the two that reached the target.
    pub reached: usize,
    /// Speed-up in epochs to the target.
    pub epochs: Option<Speedup>,
    /// Speed-up in floating-point operations.
    pub flops: Option<Speedup>,
    /// Speed-up in seconds.
    pub seconds: Option<Speedup>,
    /// Permutation log-rank test of the epochs to the target.
    pub log_rank: PermutationTest,
    /// Its p-value after Holm's correction over the comparisons.
    pub log_rank_adjusted: f64,
    /// The level at which Holm's procedure decides this comparison.
    pub log_rank_level: f64,
    /// The speed-ups in epochs that the test does not rule out at that level; an end that the trials do not determine is 0 or
    /// infinite. It excludes 1 exactly if the p-value is below the level.
    #[serde(skip)]
    pub speedups: Interval,
    /// Seeds that this test needs to be able to show a difference.
    #[serde(skip)]
    pub seeds_needed: usize,
    /// Restricted mean epochs of the baseline minus those of the mechanism.
    pub epochs_saved: Option<f64>,
    /// Accuracy of the mechanism minus that of the baseline, over the pairs in which both trials have ended.
    pub accuracy: Option<AccuracyDifference>,
    /// Does it learn faster?
    pub learning: Verdict<Learning>,
    /// Does it generalise better?
    pub generalisation: Verdict<Generalisation>,
}

/// Two trials with the same seed.
struct Pair<'a> {
    baseline: &'a Measures,
    mechanism: &'a Measures,
    both_over: bool,
}

/// Makes comparisons of a mechanism with a baseline each, corrected for their number; None without a common seed.
pub(super) fn compare_all(wanted: &[(&str, &str)], trials: &[Observed], horizon: f64) -> Vec<Option<Comparison>> {
    let mut comparisons: Vec<Option<Comparison>> =
        wanted.iter().map(|(mechanism, baseline)| compare(mechanism, baseline, trials, horizon)).collect();
    let (compared, unit) = (comparisons.iter().flatten().count(), Unit::new(trials.iter()));
    let mut found: Vec<&mut Comparison> = comparisons.iter_mut().flatten().collect();
    let p_values: Vec<f64> = found.iter().map(|comparison| comparison.log_rank.p_value).collect();
    for ((comparison, adjusted), level) in found.iter_mut().zip(holm(&p_values)).zip(holm_levels(&p_values, LEVEL)) {
        (comparison.log_rank_adjusted, comparison.log_rank_level) = (adjusted, level);
    }
    let mut accuracies: Vec<&mut AccuracyDifference> = found.iter_mut().filter_map(|c| c.accuracy.as_mut()).collect();
    let p_values: Vec<f64> = accuracies.iter().map(|accuracy| accuracy.p_value).collect();
    for ((accuracy, adjusted), level) in accuracies.iter_mut().zip(holm(&p_values)).zip(holm_levels(&p_values, LEVEL)) {
        accuracy.correct(adjusted, level);
    }
    for (comparison, (mechanism, baseline)) in comparisons.iter_mut().zip(wanted) {
        let Some(comparison) = comparison else { continue };
        let pairs = pairs(mechanism, baseline, trials);
        let (first, second) = (times(&pairs, |pair| pair.mechanism), times(&pairs, |pair| pair.baseline));
        let (p_value, level) = (comparison.log_rank.p_value, comparison.log_rank_level);
        comparison.speedups = log_rank_interval(&first, &second, p_value, level, SEED);
        let all_reached = first.iter().chain(&second).all(|time| time.reached);
        let is_closed = comparison.speedups.low > 0.0 && comparison.speedups.high.is_finite();
        if let Some(epochs) = comparison.epochs.as_mut().filter(|_| all_reached && is_closed) {
            epochs.interval = Some(comparison.speedups);
        }
        comparison.seeds_needed = seeds_needed(compared, min_log_rank_p);
        comparison.learning = Verdict::on_learning(comparison, unit);
        comparison.generalisation = Verdict::on_generalisation(comparison, compared);
    }
    comparisons
}

impl Comparison {
    /// Whether the p-values of the log-rank test mean anything: there are enough seeds, and some trial reached the target.
    pub fn has_speed_test(&self) -> bool {
        let is_shown = matches!(self.learning.finding, Learning::Faster | Learning::Slower);
        is_shown || self.reached > 0 && self.pairs >= self.seeds_needed
    }
}

fn pairs<'a>(mechanism: &'a str, baseline: &'a str, trials: &'a [Observed]) -> Vec<Pair<'a>> {
    let partner = |(one, measures): (&'a semfocus_store::TrialData, &'a Measures)| {
        let (other, of_mechanism) = measured(trials, mechanism).find(|(t, _)| t.entry.seed == one.entry.seed)?;
        let both_over = one.state.is_over() && other.state.is_over();
        Some(Pair { baseline: measures, mechanism: of_mechanism, both_over })
    };
    measured(trials, baseline).filter_map(partner).collect()
}

fn times<'a>(pairs: &[Pair<'a>], side: fn(&Pair<'a>) -> &'a Measures) -> Vec<TimeToTarget> {
    pairs.iter().map(|pair| side(pair).time_to_target).collect()
}

fn epochs(measures: &Measures) -> Option<f64> {
    Some(measures.time_to_target.time)
}

/// None if an amount is not known of all trials.
fn speedup(pairs: &[Pair], amount: fn(&Measures) -> Option<f64>) -> Option<Speedup> {
    let costs = pairs.iter().map(|pair| {
        let side = |m: &Measures| Some(Cost { amount: amount(m)?, reached: m.time_to_target.reached });
        Some((side(pair.baseline)?, side(pair.mechanism)?))
    });
    Speedup::new(&costs.collect::<Option<Vec<(Cost, Cost)>>>()?)
}

/// With how many seeds a mechanism needs fewer epochs than a baseline, and of how many. None for the baseline itself.
pub(super) fn seeds_in_favour(mechanism: &str, baseline: &str, trials: &[Observed]) -> Option<(usize, usize)> {
    let pairs = pairs(mechanism, baseline, trials);
    let is_faster = |pair: &&Pair| {
        let (fast, slow) = (pair.mechanism.time_to_target, pair.baseline.time_to_target);
        fast.reached && (fast.time < slow.time || !slow.reached && fast.time == slow.time)
    };
    (mechanism != baseline).then(|| (pairs.iter().filter(is_faster).count(), pairs.len()))
}

/// How many times fewer epochs a mechanism needs than a baseline, without any test. None for the baseline itself.
pub(super) fn speedup_in_epochs(mechanism: &str, baseline: &str, trials: &[Observed]) -> Option<Speedup> {
    if mechanism == baseline { None } else { speedup(&pairs(mechanism, baseline, trials), epochs) }
}

/// The comparison before the correction for several comparisons, and therefore without verdicts.
fn compare(mechanism: &str, baseline: &str, trials: &[Observed], horizon: f64) -> Option<Comparison> {
    let pairs = pairs(mechanism, baseline, trials);
    if mechanism == baseline || pairs.is_empty() {
        return None;
    }
    let (first, second) = (times(&pairs, |pair| pair.mechanism), times(&pairs, |pair| pair.baseline));
    let speedup = |amount| speedup(&pairs, amount);
    let restricted = |times: &[TimeToTarget]| KaplanMeier::new(times).restricted_mean(horizon).map(|m| m.mean);
    let log_rank = permuted_log_rank(&first, &second, SEED);
    let over: Vec<(&Measures, &Measures)> =
        pairs.iter().filter(|pair| pair.both_over).map(|pair| (pair.baseline, pair.mechanism)).collect();
    Some(Comparison {
        baseline: baseline.to_owned(),
        pairs: pairs.len(),
        reached: first.iter().chain(&second).filter(|time| time.reached).count(),
        epochs: speedup(epochs),
        flops: speedup(|measures| measures.flops),
        seconds: speedup(|measures| measures.seconds),
        log_rank,
        log_rank_adjusted: log_rank.p_value,
        log_rank_level: LEVEL,
        speedups: Interval { low: 0.0, high: f64::INFINITY },
        seeds_needed: 0,
        epochs_saved: restricted(&second).zip(restricted(&first)).map(|(full, mine)| full - mine),
        accuracy: AccuracyDifference::new(&over, trials.len(), SEED),
        learning: Verdict::undecided(Learning::NoEvidence, log_rank_excess(&first, &second)),
        generalisation: Verdict::undecided(Generalisation::NoEvidence, 0.0),
    })
}
