//! Do two groups of trials arrive equally soon? The log-rank test in three forms, which differ in what they take for
//! granted:
//!
//! | | null hypothesis | keeps its level |
//! |---|---|---|
//! | [`LogRank`] | both groups have the same distribution of arrival times | with many arrivals, trials independent |
//! | [`permuted_log_rank`] | the groups do not differ at all: same arrivals *and* same censoring | trials independent |
//! | [`paired_log_rank`] | exchanging the trials of any pair changes nothing; pairs may differ | pairs independent |
//!
//! All three look at the arrivals of the first group in excess of what its share of the trials under way predicts,
//! so they are strongest where one group is ahead all along, and weak where the curves cross.

use serde::Serialize;

use super::normal::two_sided;
use super::permutation::{self, PermutationTest};
use super::survival::{Arrival, RiskSet, risk_sets};

/// The log-rank statistic of two groups, ties included.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LogRank {
    /// Arrivals in the first group.
    pub observed: usize,
    /// Arrivals to be expected in it if, at every arrival, each trial under way is equally likely to be the one.
    pub expected: f64,
    /// Variance of the arrivals in the first group under the same assumption (hypergeometric).
    pub variance: f64,
}

impl LogRank {
    /// Compares two groups.
    ///
    /// # Panics
    /// If a time is negative, infinite or not a number.
    pub fn new(first: &[Arrival], second: &[Arrival]) -> Self {
        let (mut expected, mut variance) = (0.0, 0.0);
        for RiskSet { time, at_risk, events, .. } in risk_sets(&[first, second].concat()) {
            let (at_risk, events) = (at_risk as f64, events as f64);
            let share = first.iter().filter(|arrival| arrival.time >= time).count() as f64 / at_risk;
            expected += events * share;
            if at_risk > 1.0 {
                variance += events * share * (1.0 - share) * (at_risk - events) / (at_risk - 1.0);
            }
        }
        LogRank { observed: first.iter().filter(|arrival| arrival.arrived).count(), expected, variance }
    }

    /// Arrivals in the first group in excess of the expected: positive where it is the sooner one.
    pub fn excess(&self) -> f64 {
        self.observed as f64 - self.expected
    }

    /// The statistic, with one degree of freedom. None where there is nothing to compare: no arrival, or none while
    /// both groups were under way.
    pub fn chi_squared(&self) -> Option<f64> {
        (self.variance > 0.0).then(|| self.excess().powi(2) / self.variance)
    }

    /// The two-sided p-value by the chi-squared distribution; 1 without a statistic. Not to be trusted with fewer than
    /// some ten arrivals in each group.
    pub fn p_value(&self) -> f64 {
        self.chi_squared().map_or(1.0, |statistic| two_sided(statistic.sqrt()))
    }
}

/// The two-sided permutation p-value of the log-rank numerator, [`LogRank::excess`], over all ways to divide the trials
/// into groups of these sizes; over random ways if there are more than
/// [`MAX_ARRANGEMENTS`](super::MAX_ARRANGEMENTS).
///
/// It tests that the groups do not differ in anything, so groups with different budgets of epochs may be told apart
/// although they learn alike. Without any arrival p is 1.
///
/// # Panics
/// If a time is negative, infinite or not a number.
pub fn permuted_log_rank(first: &[Arrival], second: &[Arrival], seed: u64) -> PermutationTest {
    permutation::of_groups(&scores(&[first, second].concat()), first.len(), seed)
}

/// The two-sided permutation p-value of the log-rank numerator, [`LogRank::excess`], over all ways to exchange the two
/// trials within pairs; over random ways if there are more than [`MAX_EXACT_PAIRS`](super::MAX_EXACT_PAIRS) pairs.
///
/// It tests that it makes no difference for any pair which trial is the first, so pairs may be as different from each
/// other as they like: with the seed as the pair, what a lucky seed does for both is not mistaken for chance. Of n
/// pairs p is at least 2 / 2^n, so with fewer than six pairs it cannot fall below 0.05. Without any arrival p is 1.
///
/// # Panics
/// If a time is negative, infinite or not a number.
pub fn paired_log_rank(pairs: &[(Arrival, Arrival)], seed: u64) -> PermutationTest {
    let (first, second): (Vec<Arrival>, Vec<Arrival>) = pairs.iter().copied().unzip();
    let scores = scores(&[first, second].concat());
    let (first, second) = scores.split_at(pairs.len());
    // All scores sum to 0, so the sum over the first group is half the sum of these.
    let differences: Vec<f64> = first.iter().zip(second).map(|(first, second)| first - second).collect();
    permutation::of_signs(&differences, seed)
}

/// The log-rank scores of trials in one pool: 1 for an arrival, less the hazard that the trial has outlived (Nelson and
/// Aalen's estimate). Over any group they sum to its observed less its expected arrivals, so permuting groups needs no
/// new risk sets; over all trials they sum to 0.
fn scores(pool: &[Arrival]) -> Vec<f64> {
    let sets = risk_sets(pool);
    let score = |arrival: &Arrival| {
        let outlived = sets.iter().take_while(|set| set.time <= arrival.time);
        let hazard: f64 = outlived.map(|set| set.events as f64 / set.at_risk as f64).sum();
        f64::from(u8::from(arrival.arrived)) - hazard
    };
    pool.iter().map(score).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_of_a_group_sum_to_its_excess() {
        let first = [Arrival::at(2.0), Arrival::at(3.0), Arrival::not_by(3.0), Arrival::at(9.0)];
        let second = [Arrival::at(3.0), Arrival::not_by(1.0), Arrival::at(7.0), Arrival::not_by(9.0), Arrival::at(3.0)];
        let scores = scores(&[&first[..], &second].concat());
        let excess = LogRank::new(&first, &second).excess();
        assert!((scores[..4].iter().sum::<f64>() - excess).abs() < 1e-14);
        assert!(scores.iter().sum::<f64>().abs() < 1e-14);
    }

    #[test]
    fn without_arrivals_there_is_no_statistic() {
        let (first, second) = ([Arrival::not_by(5.0); 3], [Arrival::not_by(4.0); 4]);
        let test = LogRank::new(&first, &second);
        assert_eq!((test.chi_squared(), test.p_value()), (None, 1.0));
        assert_eq!(permuted_log_rank(&first, &second, 1).p_value, 1.0);
        assert_eq!(paired_log_rank(&[(first[0], second[0]); 4], 1).p_value, 1.0);
        assert_eq!(permuted_log_rank(&first, &[], 1).p_value, 1.0);
        assert_eq!(paired_log_rank(&[], 1).p_value, 1.0);
    }

    #[test]
    fn one_trial_in_each_group() {
        // At the first arrival each of two trials has probability 1/2; at the second one is left, which tells nothing.
        let test = LogRank::new(&[Arrival::at(1.0)], &[Arrival::at(2.0)]);
        assert_eq!(test, LogRank { observed: 1, expected: 0.5, variance: 0.25 });
        assert_eq!(permuted_log_rank(&[Arrival::at(1.0)], &[Arrival::at(2.0)], 1).p_value, 1.0);
        assert_eq!(paired_log_rank(&[(Arrival::at(1.0), Arrival::at(2.0))], 1).p_value, 1.0);
    }
}
