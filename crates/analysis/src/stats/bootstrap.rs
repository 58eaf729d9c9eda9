//! Bootstrap intervals, bias-corrected and accelerated (BCa; Efron 1987).

use serde::Serialize;
use thiserror::Error;

use super::normal::{normal_cdf, normal_quantile};
use super::quantile::quantile_of_sorted;
use super::random::Random;
use super::{CONFIDENCE, Interval};

/// The default number of resamples. It leaves the ends of an interval uncertain by about 4 % of the standard error.
pub const RESAMPLES: usize = 10_000;

/// Fewer values get no interval. The interval of two values would always be the two values themselves: the tails of their
/// resamples contain nothing else, and two values have no skewness to correct for.
pub const MIN_VALUES: usize = 3;

/// A bootstrap with a number of resamples and a seed.
///
/// With few values the intervals are too short, as with every method that estimates the spread from the values: for normally
/// distributed values they contain the true mean 72 % of the time with 3 values, 84 % with 5, 90 % with 10 and 92 % with 20,
/// not 95 %.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bootstrap {
    /// How many samples are drawn, with replacement.
    pub resamples: usize,
    /// The same seed draws the same samples.
    pub seed: u64,
}

/// Why there is no interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoInterval {
    /// Too few values.
    #[error("{0} values are too few for an interval: it takes {MIN_VALUES}")]
    TooFew(usize),
    /// All resamples lie on the same side of the estimate, or so nearly all that the bias cannot be corrected; or the
    /// statistic of some resample is not finite.
    #[error("the statistic does not vary around its value, so there is no interval")]
    Undefined,
}

impl Bootstrap {
    /// [`RESAMPLES`] resamples from a seed.
    pub fn new(seed: u64) -> Self {
        Bootstrap { resamples: RESAMPLES, seed }
    }

    /// The interval for a statistic of the values, for example their [`mean`](super::mean). Values that are all equal give a
    /// single point: they say nothing about the uncertainty.
    ///
    /// # Errors
    /// If there are fewer than [`MIN_VALUES`], or if the statistic cannot be bootstrapped.
    pub fn interval(&self, values: &[f64], statistic: impl Fn(&[f64]) -> f64) -> Result<Interval, NoInterval> {
        if values.len() < MIN_VALUES {
            return Err(NoInterval::TooFew(values.len()));
        }
        let estimate = statistic(values);
        if values.iter().all(|value| *value == values[0]) {
            return Ok(Interval { low: estimate, high: estimate });
        }
        let resampled = self.resampled(values, &statistic);
        let below = share_below(&resampled, estimate);
        let finite = estimate.is_finite() && resampled.iter().all(|value| value.is_finite());
        if !finite || below <= 0.0 || below >= 1.0 {
            return Err(NoInterval::Undefined);
        }
        let bias = normal_quantile(below);
        let acceleration = acceleration(values, &statistic);
        let end = |level: f64| {
            let shifted = bias + normal_quantile(level);
            let slowed = 1.0 - acceleration * shifted;
            let level = (slowed > 0.0).then(|| normal_cdf(bias + shifted / slowed));
            level.and_then(|level| quantile_of_sorted(&resampled, level)).ok_or(NoInterval::Undefined)
        };
        Ok(Interval { low: end(0.5 - CONFIDENCE / 2.0)?, high: end(0.5 + CONFIDENCE / 2.0)? })
    }

    /// The statistic on samples drawn with replacement, in ascending order.
    fn resampled(&self, values: &[f64], statistic: &impl Fn(&[f64]) -> f64) -> Vec<f64> {
        let mut random = Random::new(self.seed);
        let mut sample = vec![0.0; values.len()];
        let resample = |_| {
            sample.iter_mut().for_each(|place| *place = values[random.below(values.len())]);
            statistic(&sample)
        };
        let mut resampled: Vec<f64> = (0..self.resamples).map(resample).collect();
        resampled.sort_unstable_by(f64::total_cmp);
        resampled
    }
}

/// The share of values below the estimate; those equal to it, which are many with few values or a median, count half. The
/// same values summed in another order may differ in the last digits and still count as equal.
fn share_below(sorted: &[f64], estimate: f64) -> f64 {
    let (Some(min), Some(max)) = (sorted.first(), sorted.last()) else { return 0.0 };
    let rounding = 1e-9 * (max - min);
    let below = sorted.partition_point(|value| *value < estimate - rounding);
    let not_above = sorted.partition_point(|value| *value <= estimate + rounding);
    (below + not_above) as f64 / 2.0 / sorted.len() as f64
}

/// How the spread of the statistic changes with its value, from the skewness of its jackknife values. 0 if leaving out a
/// value never changes the statistic, as with a median among equal values.
fn acceleration(values: &[f64], statistic: &impl Fn(&[f64]) -> f64) -> f64 {
    let mut rest = values[1..].to_vec();
    let mut without = vec![statistic(&rest)];
    for index in 1..values.len() {
        rest[index - 1] = values[index - 1];
        without.push(statistic(&rest));
    }
    let mean = without.iter().sum::<f64>() / without.len() as f64;
    let squares: f64 = without.iter().map(|value| (mean - value).powi(2)).sum();
    let cubes: f64 = without.iter().map(|value| (mean - value).powi(3)).sum();
    if squares > 0.0 { cubes / (6.0 * squares.powf(1.5)) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::super::quantile::{mean, median};
    use super::*;

    fn of_mean(values: &[f64]) -> Result<Interval, NoInterval> {
        Bootstrap::new(1).interval(values, |sample| mean(sample).unwrap())
    }

    #[test]
    fn few_or_equal_values() {
        assert_eq!(of_mean(&[]), Err(NoInterval::TooFew(0)));
        assert_eq!(of_mean(&[1.0, 2.0]), Err(NoInterval::TooFew(2)));
        assert_eq!(of_mean(&[0.25; 3]), Ok(Interval { low: 0.25, high: 0.25 }));
        assert_eq!(NoInterval::TooFew(2).to_string(), "2 values are too few for an interval: it takes 3");
    }

    #[test]
    fn the_jackknife_of_a_mean_is_skewed_as_the_values_are() {
        // For the mean, the acceleration is Σ(x - x̄)³ / (6 (Σ(x - x̄)²)^1.5): here (-2, -1, 3), so 18 / (6 · 14^1.5).
        let found = acceleration(&[1.0, 2.0, 6.0], &|sample: &[f64]| mean(sample).unwrap());
        assert!((found - 18.0 / (6.0 * 14f64.powf(1.5))).abs() < 1e-14, "{found}");
    }

    #[test]
    fn a_statistic_that_no_resample_reaches_has_no_interval() {
        let distinct = |sample: &[f64]| {
            let mut sample = sample.to_vec();
            sample.sort_by(f64::total_cmp);
            sample.dedup();
            sample.len() as f64
        };
        let values: Vec<f64> = (0..40).map(f64::from).collect();
        assert_eq!(Bootstrap::new(1).interval(&values, distinct), Err(NoInterval::Undefined));
        let not_finite = |sample: &[f64]| 1.0 / (sample[0] - values[0]);
        assert_eq!(Bootstrap::new(1).interval(&values, not_finite), Err(NoInterval::Undefined));
    }

    #[test]
    fn a_median_among_equal_values_has_an_interval() {
        let interval = Bootstrap::new(1).interval(&[5.0, 5.0, 5.0, 5.0, 9.0], |sample| median(sample).unwrap());
        assert!(interval.unwrap().contains(5.0));
    }

    /// Every fifth resample of three values contains all three, so it has the same mean up to rounding, which must not put it
    /// on one side.
    #[test]
    fn rounding_does_not_move_the_interval() {
        let whole = of_mean(&[1.0, 7.0, 3.0]).unwrap();
        for unit in [0.1, 0.01, 0.7, 1.0 / 3.0] {
            let scaled = of_mean(&[unit, 7.0 * unit, 3.0 * unit]).unwrap();
            let off = [scaled.low / unit - whole.low, scaled.high / unit - whole.high];
            assert!(off.iter().all(|off| off.abs() < 1e-9), "unit {unit}: {scaled:?}, not {whole:?} of them");
        }
    }

    #[test]
    fn the_seed_decides() {
        let values = [0.3, 1.7, 2.9, 3.1, 5.8, 8.0];
        let of_seed = |seed| Bootstrap::new(seed).interval(&values, |sample| mean(sample).unwrap());
        assert_eq!(of_seed(4), of_seed(4));
        assert_ne!(of_seed(4), of_seed(5));
    }
}
