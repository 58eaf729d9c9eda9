//! Properties that hold for all numbers.

use proptest::prelude::*;
use semfocus_analysis::stats::{
    KaplanMeier, SignFlips, TimeToTarget, holm, holm_levels, log_rank_excess, log_rank_interval, median,
    permuted_log_rank, quantile,
};

/// Integer times, so that many tie, also events with censorings.
fn trial() -> impl Strategy<Value = TimeToTarget> {
    (0u8..12, any::<bool>()).prop_map(|(time, reached)| TimeToTarget { time: f64::from(time), reached })
}

fn group(largest: usize) -> impl Strategy<Value = Vec<TimeToTarget>> {
    prop::collection::vec(trial(), 1..=largest)
}

fn values(largest: usize) -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(-1e3..1e3f64, 1..=largest)
}

fn same(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

proptest! {
    #[test]
    fn survival_falls_from_one_and_stays_within_its_interval(group in group(30)) {
        let curve = KaplanMeier::new(&group);
        let mut before = 1.0;
        for step in &curve.steps {
            prop_assert!((0.0..=before).contains(&step.survival));
            prop_assert_eq!(step.survival < before, step.events > 0);
            if let Some(interval) = step.interval {
                prop_assert!(0.0 <= interval.low && interval.high <= 1.0 && interval.contains(step.survival));
            }
            before = step.survival;
        }
        prop_assert_eq!(curve.steps.iter().map(|step| step.events + step.censored).sum::<usize>(), group.len());
    }

    #[test]
    fn a_restricted_mean_grows_with_its_horizon_but_no_faster(group in group(30), share in 0.0..1.0f64) {
        let last = group.iter().map(|trial| trial.time).fold(0.0, f64::max);
        let curve = KaplanMeier::new(&group);
        let near = curve.restricted_mean(share * last).unwrap().mean;
        let far = curve.restricted_mean(last).unwrap().mean;
        prop_assert!(near <= far + 1e-9 && far - near <= (1.0 - share) * last + 1e-9);
        prop_assert!(near <= share * last + 1e-9);
    }

    #[test]
    fn the_log_rank_test_is_symmetric_in_the_groups(first in group(7), second in group(7)) {
        prop_assert!(same(log_rank_excess(&first, &second), -log_rank_excess(&second, &first)));
        prop_assert_eq!(permuted_log_rank(&first, &second, 1), permuted_log_rank(&second, &first, 1));
    }

    /// Only the order of the times matters.
    #[test]
    fn the_log_rank_test_does_not_depend_on_the_clock(first in group(7), second in group(7)) {
        let slower = |group: &[TimeToTarget]| -> Vec<TimeToTarget> {
            group.iter().map(|trial| TimeToTarget { time: trial.time.powi(2) + 3.0, ..*trial }).collect()
        };
        prop_assert_eq!(log_rank_excess(&first, &second), log_rank_excess(&slower(&first), &slower(&second)));
        let permuted = permuted_log_rank(&first, &second, 1);
        prop_assert_eq!(permuted, permuted_log_rank(&slower(&first), &slower(&second), 1));
    }

    #[test]
    fn equal_groups_do_not_differ(group in group(8)) {
        prop_assert!(same(log_rank_excess(&group, &group), 0.0));
        prop_assert_eq!(permuted_log_rank(&group, &group, 1).p_value, 1.0);
    }

    /// One rule for test and interval: the interval of level 1 − α excludes 0 exactly if p < α.
    #[test]
    fn sign_flips_agree_with_their_interval(differences in prop::collection::vec(-5i8..9, 1..20), level in 0.001..0.5f64) {
        let differences: Vec<f64> = differences.into_iter().map(f64::from).collect();
        let flips = SignFlips::new(&differences, 1).unwrap();
        let opposite = SignFlips::new(&differences.iter().map(|d| -d).collect::<Vec<f64>>(), 1).unwrap();
        prop_assert_eq!(flips.p_value(), opposite.p_value());
        prop_assert!(flips.p_value() >= SignFlips::min_p(differences.len()));
        match flips.interval(level) {
            Some(interval) => prop_assert_eq!(!interval.contains(0.0), flips.p_value() < level),
            None => prop_assert!(flips.p_value() >= level),
        }
    }

    /// The same for the speed-up, whose interval comes from the log-rank test.
    #[test]
    fn the_log_rank_test_agrees_with_its_interval(first in group(6), second in group(6), level in 0.01..0.5f64) {
        let p_value = permuted_log_rank(&first, &second, 1).p_value;
        let interval = log_rank_interval(&first, &second, p_value, level, 1);
        prop_assert!(interval.low <= interval.high, "{interval:?}");
        prop_assert_eq!(!interval.contains(1.0), p_value < level);
        if p_value < level {
            prop_assert_eq!(interval.low > 1.0, log_rank_excess(&first, &second) > 0.0);
        }
    }

    #[test]
    fn levels_of_holm_agree_with_adjusted_p_values(raw in prop::collection::vec(0.0..=0.1f64, 0..12)) {
        for ((p, adjusted), level) in raw.iter().zip(holm(&raw)).zip(holm_levels(&raw, 0.05)) {
            prop_assert!((*p < level) == (adjusted < 0.05) || (adjusted - 0.05).abs() < 1e-12);
        }
    }

    #[test]
    fn holm_never_lowers_a_p_value_and_keeps_their_order(raw in prop::collection::vec(0.0..=1.0f64, 0..20)) {
        let adjusted = holm(&raw);
        prop_assert_eq!(adjusted.len(), raw.len());
        for (one, adjusted_one) in raw.iter().zip(&adjusted) {
            prop_assert!(one <= adjusted_one && *adjusted_one <= 1.0);
            for (other, adjusted_other) in raw.iter().zip(&adjusted) {
                prop_assert!(one > other || adjusted_one <= adjusted_other);
            }
        }
    }

    #[test]
    fn quantiles_lie_within_the_values_and_in_order(values in values(30), q in 0.0..=1.0f64, r in 0.0..=1.0f64) {
        let [min, low, high, max] =
            [0.0, q.min(r), q.max(r), 1.0].map(|share| quantile(&values, share).unwrap());
        prop_assert!(min <= low && low <= high && high <= max);
        prop_assert_eq!(min, values.iter().copied().fold(f64::INFINITY, f64::min));
        prop_assert_eq!(max, values.iter().copied().fold(f64::NEG_INFINITY, f64::max));
        prop_assert_eq!(median(&values), quantile(&values, 0.5));
    }
}
