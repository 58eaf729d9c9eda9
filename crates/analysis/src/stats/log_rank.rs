//! Do two groups of trials reach the target equally soon? The permutation log-rank test.
//!
//! The statistic counts how many trials of the first group reached the target in excess of what the group's share of the
//! trials still under way predicts. So the test is strongest where one group is ahead all along, and weak where the curves
//! cross.

use super::Interval;
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

/// Arrangements that are tried for each value that an interval is tried with.
const TRIED: u64 = 4_000;

/// How many times as fast the first group is as the second: all factors by which the times of the second group can be divided
/// without the test telling the groups apart at this level. An end that the trials do not determine is 0 or infinite.
///
/// The interval excludes 1 exactly if the test does, whose p-value is given: that decision is not made again.
///
/// # Panics
/// If a time is negative, infinite or not a number.
pub fn log_rank_interval(
    first: &[TimeToTarget],
    second: &[TimeToTarget],
    p_value: f64,
    level: f64,
    seed: u64,
) -> Interval {
    let is_told_apart = |p: f64| p < level;
    // 1 if the first group is faster than the second after division by the factor, -1 if it is slower, 0 if neither is shown.
    let shown = |factor: f64| {
        let divided: Vec<TimeToTarget> =
            second.iter().map(|trial| TimeToTarget { time: trial.time / factor, ..*trial }).collect();
        let scores = scores(&[first, &divided].concat());
        let excess: f64 = scores[..first.len()].iter().sum();
        let test = permutation::permute_groups_with(&scores, first.len(), TRIED, TRIED - 1, seed);
        if is_told_apart(test.p_value) { excess.signum() } else { 0.0 }
    };
    // The test sees the order of the times alone, which changes only at their ratios.
    let ratio = |(one, other): (&TimeToTarget, &TimeToTarget)| other.time / one.time;
    let pairs = first.iter().flat_map(|one| second.iter().map(move |other| (one, other)));
    let mut ratios: Vec<f64> = pairs.map(ratio).filter(|ratio| ratio.is_normal()).collect();
    ratios.sort_by(f64::total_cmp);
    ratios.dedup_by(|one, other| (*one / *other - 1.0).abs() < 1e-9);
    let (low, high) = match (ratios.first(), ratios.last()) {
        (Some(min), Some(max)) => {
            let between = ratios.windows(2).map(|pair| (pair[0] * pair[1]).sqrt());
            // factors[i] lies between ratios[i - 1] and ratios[i].
            let factors: Vec<f64> = [0.5 * min].into_iter().chain(between).chain([2.0 * max]).collect();
            let not_faster = factors.partition_point(|&factor| shown(factor) > 0.0);
            let slower = factors.partition_point(|&factor| shown(factor) >= 0.0);
            let low = not_faster.checked_sub(1).map_or(0.0, |before| ratios[before.min(ratios.len() - 1)]);
            let high = if slower == factors.len() { f64::INFINITY } else { ratios[slower.max(1) - 1] };
            (low, high.max(low))
        }
        _ => (0.0, f64::INFINITY),
    };
    let excess = log_rank_excess(first, second);
    let outside = 1e-3;
    match is_told_apart(p_value) {
        true if excess > 0.0 => Interval { low: low.max(1.0 + outside), high: high.max(1.0 + outside) },
        true => Interval { low: low.min(1.0 - outside), high: high.min(1.0 - outside) },
        false => Interval { low: low.min(1.0), high: high.max(1.0) },
    }
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
    fn the_interval_shifts_one_group_until_it_cannot_be_told_apart() {
        // Twice as fast, seed by seed.
        let first = [3.0, 5.0, 8.0, 13.0, 21.0, 34.0].map(at);
        let second = [6.0, 10.0, 16.0, 26.0, 42.0, 68.0].map(at);
        let interval =
            |level: f64| log_rank_interval(&first, &second, permuted_log_rank(&first, &second, 1).p_value, level, 1);
        let wide = interval(0.05);
        assert!(wide.low < 1.0 && wide.high > 4.0 && wide.high.is_finite(), "{wide:?}");
        assert!(interval(0.3).high < wide.high && interval(0.3).low > wide.low);
        // Far apart: from the smallest quotients to the largest.
        let late = [60.0, 70.0, 80.0, 90.0, 100.0, 110.0].map(at);
        let p = permuted_log_rank(&first, &late, 1).p_value;
        let apart = log_rank_interval(&first, &late, p, 0.05, 1);
        assert!(p < 0.05 && apart.low > 1.5 && apart.high < 30.0, "{apart:?}");
        // Three trials each: no level of 0.05 can be reached.
        let few = log_rank_interval(&first[..3], &late[..3], 0.1, 0.05, 1);
        assert_eq!(few, Interval { low: 0.0, high: f64::INFINITY });
        // The second group never reaches the target: no upper end.
        let never = [not_by(40.0); 6];
        let p = permuted_log_rank(&first, &never, 1).p_value;
        let open = log_rank_interval(&first, &never, p, 0.05, 1);
        assert!(open.low > 1.0 && open.high.is_infinite(), "{open:?}");
    }

    #[test]
    fn one_trial_in_each_group() {
        // At the first event each of two trials has probability 1/2; at the second one is left, which says nothing.
        assert_eq!(log_rank_excess(&[at(1.0)], &[at(2.0)]), 0.5);
        assert_eq!(permuted_log_rank(&[at(1.0)], &[at(2.0)], 1).p_value, 1.0);
    }
}
