//! Properties that hold for all numbers.

use proptest::prelude::*;
use semfocus_analysis::stats::{
    Bootstrap, KaplanMeier, SignedRank, TimeToTarget, holm, log_rank_excess, mean, median, permuted_log_rank, quantile,
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

    #[test]
    fn signed_ranks_do_not_depend_on_the_direction(differences in prop::collection::vec(-5i8..5, 0..60)) {
        let differences: Vec<f64> = differences.into_iter().map(f64::from).collect();
        let opposite: Vec<f64> = differences.iter().map(|d| -d).collect();
        let (there, back) = (SignedRank::new(&differences), SignedRank::new(&opposite));
        prop_assert_eq!((there.positive, there.p_value), (back.negative, back.p_value));
        prop_assert!(there.p_value > 0.0 && there.p_value <= 1.0);
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

    #[test]
    fn bootstrap_intervals_of_a_mean_lie_within_the_values(values in values(12), seed: u64) {
        let bootstrap = Bootstrap { resamples: 200, seed };
        if let Ok(interval) = bootstrap.interval(&values, |sample| mean(sample).unwrap()) {
            let (min, max) = (quantile(&values, 0.0).unwrap(), quantile(&values, 1.0).unwrap());
            prop_assert!(min - 1e-9 <= interval.low && interval.low <= interval.high);
            prop_assert!(interval.high <= max + 1e-9);
        }
    }
}
