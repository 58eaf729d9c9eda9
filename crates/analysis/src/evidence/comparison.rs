//! A mechanism compared with full attention, seed by seed.

use serde::Serialize;

use super::measures::Measures;
use super::speedup::{Cost, Speedup};
use super::verdict::{Generalisation, Learning, Verdict};
use super::{BASELINE, Observed, measured};
use crate::stats::{
    Bootstrap, Differences, Interval, KaplanMeier, PermutationTest, SignedRank, TimeToTarget, holm, log_rank_excess,
    mean, permuted_log_rank,
};

/// Seed of permutations and resamples, fixed so that the same store gives the same numbers.
const SEED: u64 = 20_251_115;

/// A mechanism compared with full attention.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Seeds with at least one epoch of both.
    pub pairs: usize,
    /// Speed-up in epochs to the target.
    pub epochs: Option<Speedup>,
    /// Speed-up in floating-point operations.
    pub flops: Option<Speedup>,
    /// Speed-up in seconds.
    pub seconds: Option<Speedup>,
    /// Permutation log-rank test of the epochs to the target.
    pub log_rank: PermutationTest,
    /// Its p-value after Holm's correction over the mechanisms.
    pub log_rank_adjusted: f64,
    /// Restricted mean epochs of full attention minus those of the mechanism.
    pub epochs_saved: Option<f64>,
    /// Best held-out accuracy of the mechanism minus that of full attention, over the pairs in which both trials have ended.
    pub accuracy: Option<AccuracyDifference>,
    /// Does it learn faster?
    pub learning: Verdict<Learning>,
    /// Does it generalise better?
    pub generalisation: Verdict<Generalisation>,
}

/// Paired differences of an accuracy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AccuracyDifference {
    /// Mechanism minus full attention.
    pub differences: Differences,
    /// Bootstrap interval of the mean; none if there are too few.
    pub interval: Option<Interval>,
    /// Exact signed-rank test.
    pub signed_rank: SignedRank,
    /// Its p-value after Holm's correction over the mechanisms.
    pub adjusted: f64,
    /// Whether all of them have the same sign.
    pub one_sided: bool,
}

/// Two trials with the same seed.
struct Pair<'a> {
    baseline: &'a Measures,
    mechanism: &'a Measures,
    both_over: bool,
}

/// Compares each mechanism with full attention; None for full attention itself, or without a common seed.
pub(super) fn with_baseline(mechanisms: &[String], trials: &[Observed], horizon: f64) -> Vec<Option<Comparison>> {
    let mut comparisons: Vec<Option<Comparison>> =
        mechanisms.iter().map(|mechanism| compare(mechanism, trials, horizon)).collect();
    let correct = |p_values: Vec<Option<f64>>| {
        let mut adjusted = holm(&p_values.iter().copied().flatten().collect::<Vec<f64>>()).into_iter();
        p_values.into_iter().map(|p| p.and_then(|_| adjusted.next())).collect::<Vec<Option<f64>>>()
    };
    let log_rank = correct(comparisons.iter().map(|c| c.as_ref().map(|c| c.log_rank.p_value)).collect());
    let p_of_accuracy = |c: &Option<Comparison>| c.as_ref()?.accuracy.as_ref().map(|a| a.signed_rank.p_value);
    let accuracy = correct(comparisons.iter().map(p_of_accuracy).collect());
    let compared = comparisons.iter().flatten().count();
    for ((comparison, log_rank), signed_rank) in comparisons.iter_mut().zip(log_rank).zip(accuracy) {
        let Some(comparison) = comparison else { continue };
        comparison.log_rank_adjusted = log_rank.unwrap_or(1.0);
        if let Some(accuracy) = &mut comparison.accuracy {
            accuracy.adjusted = signed_rank.unwrap_or(1.0);
        }
        comparison.learning = Verdict::on_learning(comparison, compared);
        comparison.generalisation = Verdict::on_generalisation(comparison, compared);
    }
    comparisons
}

/// The comparison before the correction for several mechanisms, and therefore without verdicts.
fn compare(mechanism: &str, trials: &[Observed], horizon: f64) -> Option<Comparison> {
    if mechanism == BASELINE {
        return None;
    }
    let pairs: Vec<Pair<'_>> = measured(trials, BASELINE)
        .filter_map(|(full, baseline)| {
            let (other, measures) = measured(trials, mechanism).find(|(t, _)| t.entry.seed == full.entry.seed)?;
            Some(Pair { baseline, mechanism: measures, both_over: full.state.is_over() && other.state.is_over() })
        })
        .collect();
    if pairs.is_empty() {
        return None;
    }
    let times = |side: fn(&Pair<'_>) -> TimeToTarget| pairs.iter().map(side).collect::<Vec<TimeToTarget>>();
    let (baseline, other) = (times(|pair| pair.baseline.time_to_target), times(|pair| pair.mechanism.time_to_target));
    let speedup = |amount: fn(&Measures) -> Option<f64>| {
        let costs = pairs.iter().map(|pair| {
            let side = |m: &Measures| Some(Cost { amount: amount(m)?, reached: m.time_to_target.reached });
            Some((side(pair.baseline)?, side(pair.mechanism)?))
        });
        Speedup::new(&costs.collect::<Option<Vec<(Cost, Cost)>>>()?, SEED)
    };
    let restricted = |times: &[TimeToTarget]| KaplanMeier::new(times).restricted_mean(horizon).map(|m| m.mean);
    Some(Comparison {
        pairs: pairs.len(),
        epochs: speedup(|measures| Some(measures.time_to_target.time)),
        flops: speedup(|measures| measures.flops),
        seconds: speedup(|measures| Some(measures.seconds)),
        log_rank: permuted_log_rank(&other, &baseline, SEED),
        log_rank_adjusted: 1.0,
        epochs_saved: restricted(&baseline).zip(restricted(&other)).map(|(full, mine)| full - mine),
        accuracy: accuracy(&pairs),
        learning: Verdict::undecided(Learning::NoEvidence, log_rank_excess(&other, &baseline)),
        generalisation: Verdict::undecided(Generalisation::NoEvidence, 0.0),
    })
}

fn accuracy(pairs: &[Pair<'_>]) -> Option<AccuracyDifference> {
    // Rounded, so that equal differences tie.
    let difference = |pair: &Pair<'_>| {
        let difference = pair.mechanism.best_heldout_accuracy - pair.baseline.best_heldout_accuracy;
        (difference * 1e9).round() / 1e9
    };
    let differences: Vec<f64> = pairs.iter().filter(|pair| pair.both_over).map(difference).collect();
    let average = |values: &[f64]| mean(values).unwrap_or(f64::NAN);
    Some(AccuracyDifference {
        differences: Differences::new(&differences)?,
        interval: Bootstrap::new(SEED).interval(&differences, average).ok(),
        signed_rank: SignedRank::new(&differences),
        adjusted: 1.0,
        one_sided: differences.iter().all(|d| *d > 0.0) || differences.iter().all(|d| *d < 0.0),
    })
}
