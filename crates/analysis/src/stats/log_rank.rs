//! Do two groups of trials reach the target equally soon? The permutation log-rank test.
//!
//! The statistic counts how many trials of the first group reached the target in excess of what the group's share of the
//! trials still under way predicts. So the test is strongest where one group is ahead all along, and weak where the curves
//! cross.

use super::permutation::{self, PermutationTest};
use super::survival::{TimeToTarget, risk_sets};

/// The log-rank statistic: how many trials of the first group reached the target, less how many would have if, each time a
/// trial reached it, all trials under way had been equally likely to. Positive where the first group is faster.
///
/// # Panics
/// If a time is negative, infinite or not a number.
pub fn log_rank_excess(first: &[TimeToTarget], second: &[TimeToTarget]) -> f64 {
    scores(&[first, second].concat())[..first.len()].iter().sum()
}

/// The two-sided permutation p-value of [`log_rank_excess`] over all ways to divide the trials into groups of these sizes;
/// over random ones if there are more than [`MAX_ARRANGEMENTS`](super::MAX_ARRANGEMENTS).
///
/// The null hypothesis is that the groups do not differ in anything, so groups with different budgets of epochs may be told
/// apart although they learn equally fast. If no trial reached the target, p is 1.
///
/// # Panics
/// If a time is negative, infinite or not a number.
pub fn permuted_log_rank(first: &[TimeToTarget], second: &[TimeToTarget], seed: u64) -> PermutationTest {
    permutation::permute_groups(&scores(&[first, second].concat()), first.len(), seed)
}

/// The log-rank scores of all trials: 1 for a trial that reached the target, less the hazard accumulated until its time
/// (the Nelson–Aalen estimate). The scores of a group sum to its excess, so permuting groups needs no new risk sets; all
/// scores sum to 0.
fn scores(trials: &[TimeToTarget]) -> Vec<f64> {
    let sets = risk_sets(trials);
    let score = |trial: &TimeToTarget| {
        let until = sets.iter().take_while(|set| set.time <= trial.time);
        let hazard: f64 = until.map(|set| set.events as f64 / set.at_risk as f64).sum();
        f64::from(u8::from(trial.reached)) - hazard
    };
    trials.iter().map(score).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: f64) -> TimeToTarget {
        TimeToTarget::reached_at(time)
    }

    fn not_by(time: f64) -> TimeToTarget {
        TimeToTarget::censored_at(time)
    }

    #[test]
    fn the_excess_is_observed_less_expected() {
        let first = [at(2.0), at(3.0), not_by(3.0), at(9.0)];
        let second = [at(3.0), not_by(1.0), at(7.0), not_by(9.0), at(3.0)];
        // Of those under way: 1 event among 4 of 8 at time 2, 3 among 3 of 7 at 3, 1 among 1 of 3 at 7, 1 among 1 of 2 at 9.
        let expected = 4.0 / 8.0 + 3.0 * 3.0 / 7.0 + 1.0 / 3.0 + 1.0 / 2.0;
        assert!((log_rank_excess(&first, &second) - (3.0 - expected)).abs() < 1e-14);
        assert!(scores(&[&first[..], &second].concat()).iter().sum::<f64>().abs() < 1e-14);
    }

    #[test]
    fn without_events_nothing_can_be_told_apart() {
        let (first, second) = ([not_by(5.0); 3], [not_by(4.0); 4]);
        assert_eq!(log_rank_excess(&first, &second), 0.0);
        assert_eq!(permuted_log_rank(&first, &second, 1).p_value, 1.0);
        assert_eq!(permuted_log_rank(&first, &[], 1).p_value, 1.0);
    }

    #[test]
    fn one_trial_in_each_group() {
        // At the first event each of two trials has probability 1/2; at the second one is left, which says nothing.
        assert_eq!(log_rank_excess(&[at(1.0)], &[at(2.0)]), 0.5);
        assert_eq!(permuted_log_rank(&[at(1.0)], &[at(2.0)], 1).p_value, 1.0);
    }
}
