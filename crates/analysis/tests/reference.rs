//! The methods compared with SciPy, lifelines and statsmodels: `reference/statistics.py` computed the numbers. What both
//! sides compute exactly has to agree to 1e-10; where either side draws, the test says how far chance may move it.

use semfocus_analysis::stats::{
    Arrangements, DRAWS, Differences, KaplanMeier, MAX_ARRANGEMENTS, PermutationTest, TimeToTarget, area_under_curve,
    holm, log_rank_excess, normal_cdf, normal_quantile, permuted_log_rank, quantile, two_sided,
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Reference {
    normal: Normal,
    curves: Vec<Curve>,
    log_rank: Vec<LogRankCase>,
    differences: Vec<DifferencesCase>,
    holm: Vec<HolmCase>,
    quantiles: Vec<QuantileCase>,
    areas: Vec<AreaCase>,
}

fn reference() -> Reference {
    serde_json::from_str(include_str!("reference/statistics.json")).expect("the file fits")
}

/// Times, and whether the target was reached then.
type Group = Vec<(f64, bool)>;

fn trials(group: &Group) -> Vec<TimeToTarget> {
    group.iter().map(|&(time, reached)| TimeToTarget { time, reached }).collect()
}

#[track_caller]
fn assert_close(found: f64, expected: f64, what: &str) {
    assert!((found - expected).abs() <= 1e-10 * expected.abs().max(1.0), "{what}: {found}, not {expected}");
}

#[derive(Deserialize)]
struct Normal {
    cdf: Vec<(f64, f64, f64)>,
    quantile: Vec<(f64, f64)>,
}

#[test]
fn the_normal_distribution_is_right_to_twelve_digits() {
    let relative = |found: f64, expected: f64| (found - expected).abs() / expected.abs();
    let Normal { cdf, quantile } = reference().normal;
    for (x, below, outside) in cdf {
        assert!(relative(normal_cdf(x), below) < 1e-12, "cdf of {x}: {}, not {below}", normal_cdf(x));
        assert!(relative(two_sided(x), outside) < 1e-12, "outside {x}: {}, not {outside}", two_sided(x));
    }
    for (p, x) in quantile {
        assert!(relative(normal_quantile(p), x) < 1e-12, "quantile of {p}: {}, not {x}", normal_quantile(p));
    }
}

#[derive(Deserialize)]
struct Curve {
    name: String,
    group: Group,
    /// Time, at risk, events, censored, survival, both ends of the interval.
    steps: Vec<(f64, usize, usize, usize, f64, f64, f64)>,
    horizon: f64,
    restricted_mean: f64,
    standard_error: f64,
}

#[test]
fn curves() {
    for case in reference().curves {
        let curve = KaplanMeier::new(&trials(&case.group));
        assert_eq!(curve.steps.len(), case.steps.len(), "{}", case.name);
        for (step, &(time, at_risk, events, censored, survival, low, high)) in curve.steps.iter().zip(&case.steps) {
            let what = format!("{} at {time}", case.name);
            assert_eq!(
                (step.time, step.at_risk, step.events, step.censored),
                (time, at_risk, events, censored),
                "{what}"
            );
            assert_close(step.survival, survival, &what);
            match step.interval {
                Some(interval) => {
                    assert_close(interval.low, low, &what);
                    assert_close(interval.high, high, &what);
                }
                // Where the formula has no value, lifelines repeats the estimate.
                None => assert!(low == high && (low == 0.0 || low == 1.0), "{what}: no interval"),
            }
        }
        let restricted = curve.restricted_mean(case.horizon).expect("a mean");
        assert_close(restricted.mean, case.restricted_mean, &case.name);
        assert_close(restricted.standard_error, case.standard_error, &case.name);
    }
}

#[derive(Deserialize)]
struct LogRankCase {
    name: String,
    first: Group,
    second: Group,
    chi_squared: Option<f64>,
    permuted: f64,
    permuted_arrangements: u64,
    permuted_draws: Option<u64>,
}

/// The hypergeometric variance of the log-rank statistic, from the definition.
fn log_rank_variance(first: &[TimeToTarget], second: &[TimeToTarget]) -> f64 {
    let all = [first, second].concat();
    let mut times: Vec<f64> = all.iter().filter(|trial| trial.reached).map(|trial| trial.time).collect();
    times.sort_by(f64::total_cmp);
    times.dedup();
    let variance_at = |time: &f64| {
        let under_way = |group: &[TimeToTarget]| group.iter().filter(|trial| trial.time >= *time).count() as f64;
        let events = all.iter().filter(|trial| trial.reached && trial.time == *time).count() as f64;
        let (at_risk, share) = (under_way(&all), under_way(first) / under_way(&all));
        events * share * (1.0 - share) * (at_risk - events) / (at_risk - 1.0).max(1.0)
    };
    times.iter().map(variance_at).sum()
}

/// SciPy and lifelines give the squared statistic over its variance. They have none where the variance is 0.
#[test]
fn log_rank_statistics() {
    for case in reference().log_rank {
        let (first, second) = (trials(&case.first), trials(&case.second));
        let (excess, variance) = (log_rank_excess(&first, &second), log_rank_variance(&first, &second));
        assert_eq!(variance > 0.0, case.chi_squared.is_some(), "{}", case.name);
        assert_close(excess * excess, case.chi_squared.unwrap_or(0.0) * variance, &case.name);
    }
}

/// Exact p-values have to agree. Drawn ones may differ by five standard errors, of both sides if both drew, and by the one
/// arrangement that is counted although it was not drawn.
#[track_caller]
fn assert_permuted(test: PermutationTest, expected: f64, expected_draws: Option<u64>, what: &str) {
    match test.arrangements {
        Arrangements::All(_) => {
            assert_eq!(expected_draws, None, "{what}");
            assert_close(test.p_value, expected, what);
        }
        Arrangements::Drawn(draws) => {
            assert_eq!(draws, DRAWS, "{what}");
            let one_over_draws = 1.0 / draws as f64 + expected_draws.map_or(0.0, |draws| 1.0 / draws as f64);
            let allowed = 5.0 * (expected * (1.0 - expected) * one_over_draws).sqrt() + 1e-5;
            assert!((test.p_value - expected).abs() < allowed, "{what}: {}, not {expected}", test.p_value);
        }
    }
}

#[test]
fn log_rank_by_permutation() {
    let mut drawn = 0;
    for case in reference().log_rank {
        let test = permuted_log_rank(&trials(&case.first), &trials(&case.second), 5);
        let all = case.permuted_arrangements;
        if all <= MAX_ARRANGEMENTS {
            assert_eq!(test.arrangements, Arrangements::All(all), "{}", case.name);
        } else {
            drawn += 1;
        }
        assert_permuted(test, case.permuted, case.permuted_draws, &case.name);
    }
    assert_eq!(drawn, 3, "exact and drawn p-values are both tested");
}

#[derive(Deserialize)]
struct DifferencesCase {
    name: String,
    values: Vec<f64>,
    mean: f64,
    median: f64,
    hodges_lehmann: f64,
}

#[test]
fn sizes_of_differences() {
    for case in reference().differences {
        let sizes = Differences::new(&case.values).expect("some differences");
        assert_eq!(sizes.pairs, case.values.len());
        assert_close(sizes.mean, case.mean, &case.name);
        assert_close(sizes.median, case.median, &case.name);
        assert_close(sizes.hodges_lehmann, case.hodges_lehmann, &case.name);
    }
}

#[derive(Deserialize)]
struct HolmCase {
    raw: Vec<f64>,
    adjusted: Vec<f64>,
}

#[test]
fn holm_adjusts_as_statsmodels_does() {
    for case in reference().holm {
        for (found, expected) in holm(&case.raw).into_iter().zip(&case.adjusted) {
            assert_close(found, *expected, &format!("{:?}", case.raw));
        }
    }
}

#[derive(Deserialize)]
struct QuantileCase {
    values: Vec<f64>,
    quantiles: Vec<(f64, f64)>,
}

#[test]
fn quantiles_interpolate_as_numpy_does() {
    for case in reference().quantiles {
        for (q, expected) in case.quantiles {
            assert_close(quantile(&case.values, q).unwrap(), expected, &format!("{q} of {:?}", case.values));
        }
    }
}

#[derive(Deserialize)]
struct AreaCase {
    points: Vec<(f64, f64)>,
    area: f64,
}

#[test]
fn areas_by_the_trapezoid_rule() {
    for case in reference().areas {
        assert_close(area_under_curve(&case.points), case.area, "area");
    }
}
