//! How soon trials arrive, where some had not when they ended: the Kaplan–Meier curve and what is read from it.

use serde::Serialize;

use super::normal::normal_quantile;
use super::{CONFIDENCE, Interval};

/// When a trial arrived, or until when it was seen not to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Arrival {
    /// Time of the arrival; if there was none, the last time at which the trial was looked at.
    pub time: f64,
    /// Whether it arrived. If not, it is censored: it would have arrived after `time`.
    pub arrived: bool,
}

impl Arrival {
    /// A trial that arrived at this time.
    pub fn at(time: f64) -> Self {
        Arrival { time, arrived: true }
    }

    /// A trial that had not arrived by this time, when it ended.
    pub fn not_by(time: f64) -> Self {
        Arrival { time, arrived: false }
    }
}

/// Trials under way at a time at which something happened. A trial censored at the time of an arrival still counts as
/// under way: the arrival comes first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RiskSet {
    pub(super) time: f64,
    pub(super) at_risk: usize,
    pub(super) events: usize,
    pub(super) censored: usize,
}

/// The risk sets of all times at which a trial arrived or ended, in ascending order.
///
/// # Panics
/// If a time is negative, infinite or not a number.
pub(super) fn risk_sets(arrivals: &[Arrival]) -> Vec<RiskSet> {
    let mut sorted = arrivals.to_vec();
    assert!(sorted.iter().all(|a| a.time >= 0.0 && a.time.is_finite()), "times are finite and not negative");
    sorted.sort_by(|a, b| a.time.total_cmp(&b.time));
    let mut at_risk = sorted.len();
    let same_time = sorted.chunk_by(|a, b| a.time == b.time);
    let sets = same_time.map(|trials| {
        let events = trials.iter().filter(|trial| trial.arrived).count();
        let set = RiskSet { time: trials[0].time, at_risk, events, censored: trials.len() - events };
        at_risk -= trials.len();
        set
    });
    sets.collect()
}

/// A time at which a trial arrived or ended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Step {
    /// The time.
    pub time: f64,
    /// Trials under way just before it.
    pub at_risk: usize,
    /// Trials that arrived at it.
    pub events: usize,
    /// Trials that ended at it without having arrived.
    pub censored: usize,
    /// Estimated share of trials that arrive after it.
    pub survival: f64,
    /// Pointwise interval of the share, from Greenwood's variance on the scale log(-log). None where that scale has no
    /// value: as long as none has arrived, and once all have.
    pub interval: Option<Interval>,
}

/// The estimated share of trials that have not arrived, as a function of time: 1 at first, lower after every arrival.
///
/// Censoring has to say nothing about the time of arrival that the time itself does not, as when trials end because
/// their budget of epochs does. A trial stopped because it was doing badly breaks this.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KaplanMeier {
    /// The times at which something happened, in ascending order.
    pub steps: Vec<Step>,
}

/// Mean time to arrival where every time counts up to a horizon only.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RestrictedMean {
    /// The mean: the area under the curve up to the horizon.
    pub mean: f64,
    /// Its standard error, from Greenwood's variance. Too small for few trials; 0 where none arrived before the
    /// horizon.
    pub standard_error: f64,
}

impl KaplanMeier {
    /// The curve of some trials.
    ///
    /// # Panics
    /// If a time is negative, infinite or not a number.
    pub fn new(arrivals: &[Arrival]) -> Self {
        let (mut survival, mut greenwood) = (1.0, 0.0);
        let steps = risk_sets(arrivals).into_iter().map(|RiskSet { time, at_risk, events, censored }| {
            survival *= (at_risk - events) as f64 / at_risk as f64;
            greenwood += greenwood_term(at_risk, events);
            Step { time, at_risk, events, censored, survival, interval: log_log_interval(survival, greenwood) }
        });
        KaplanMeier { steps: steps.collect() }
    }

    /// Estimated share of trials that arrive after a time. After the last step it is only an upper bound.
    pub fn survival(&self, time: f64) -> f64 {
        self.steps.iter().take_while(|step| step.time <= time).last().map_or(1.0, |step| step.survival)
    }

    /// The first time by which at least half have arrived. None if fewer than half did. Of an even number of trials
    /// without censoring this is the lower of the two middle times, not their mean.
    pub fn median(&self) -> Option<f64> {
        // A product such as 3/4 · 2/3 may miss one half by a rounding error.
        self.steps.iter().find(|step| step.survival <= 0.5 + 1e-12).map(|step| step.time)
    }

    /// The mean time to arrival up to a horizon. None if the horizon lies after the last step of a curve that has not
    /// come down to 0: what happens there was not seen.
    ///
    /// # Panics
    /// If the horizon is negative, infinite or not a number.
    pub fn restricted_mean(&self, horizon: f64) -> Option<RestrictedMean> {
        assert!(horizon >= 0.0 && horizon.is_finite(), "a horizon is finite and not negative");
        let last = self.steps.last()?;
        if horizon > last.time && last.survival > 0.0 {
            return None;
        }
        // From right to left: the area behind each step is what its variance is weighted with.
        let (mut area, mut variance, mut right) = (0.0, 0.0, horizon);
        for step in self.steps.iter().rev().filter(|step| step.time < horizon) {
            area += step.survival * (right - step.time);
            right = step.time;
            if area > 0.0 {
                variance += area * area * greenwood_term(step.at_risk, step.events);
            }
        }
        Some(RestrictedMean { mean: area + right, standard_error: f64::sqrt(variance) })
    }
}

/// What a step adds to the variance of the logarithm of the curve: infinite where the curve comes down to 0.
fn greenwood_term(at_risk: usize, events: usize) -> f64 {
    events as f64 / (at_risk as f64 * (at_risk - events) as f64)
}

/// S^exp(±z·σ/log S), where σ² is the variance of log S: an interval that never leaves 0..1.
fn log_log_interval(survival: f64, log_variance: f64) -> Option<Interval> {
    if survival <= 0.0 || survival >= 1.0 {
        return None;
    }
    let z = normal_quantile(0.5 + CONFIDENCE / 2.0);
    let width = (z * log_variance.sqrt() / -survival.ln()).exp();
    Some(Interval { low: survival.powf(width), high: survival.powf(1.0 / width) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arrival_comes_before_a_censoring_at_the_same_time() {
        let curve = KaplanMeier::new(&[Arrival::not_by(2.0), Arrival::at(2.0), Arrival::at(3.0)]);
        let [first, second] = &curve.steps[..] else { panic!("two steps") };
        assert_eq!((first.at_risk, first.events, first.censored), (3, 1, 1));
        assert!((first.survival - 2.0 / 3.0).abs() < 1e-15);
        assert_eq!((second.at_risk, second.survival, second.interval), (1, 0.0, None));
        assert_eq!((curve.survival(1.9), curve.survival(2.0)), (1.0, first.survival));
    }

    /// Without censoring the curve is the share of later values, and its area is the mean of the values cut at the
    /// horizon, whose standard error everyone knows.
    #[test]
    fn without_censoring_the_restricted_mean_is_a_mean() {
        let times = [4.0, 1.0, 4.0, 7.0, 11.0, 2.0];
        let curve = KaplanMeier::new(&times.map(Arrival::at));
        for horizon in [0.5, 3.0, 4.0, 9.0, 11.0, 100.0] {
            let cut = times.map(|time| f64::min(time, horizon));
            let mean = cut.iter().sum::<f64>() / 6.0;
            let variance = cut.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / 36.0;
            let found = curve.restricted_mean(horizon).unwrap();
            assert!((found.mean - mean).abs() < 1e-12, "up to {horizon}: {found:?}, not {mean}");
            assert!((found.standard_error - variance.sqrt()).abs() < 1e-12, "up to {horizon}: {found:?}");
        }
        assert_eq!(curve.median(), Some(4.0));
    }

    #[test]
    fn nothing_is_said_about_what_was_not_seen() {
        let curve = KaplanMeier::new(&[Arrival::at(2.0), Arrival::not_by(5.0), Arrival::not_by(5.0)]);
        assert_eq!(curve.median(), None);
        assert_eq!(curve.restricted_mean(5.1), None);
        let mean = curve.restricted_mean(5.0).unwrap().mean;
        assert!((mean - 4.0).abs() < 1e-12, "2 + 3 · 2/3, found {mean}");
        let nobody = KaplanMeier::new(&[]);
        assert_eq!((nobody.median(), nobody.restricted_mean(1.0), nobody.survival(1.0)), (None, None, 1.0));
    }

    #[test]
    fn the_median_survives_rounding() {
        for count in 1..200 {
            let times: Vec<Arrival> = (1..=2 * count).map(|time| Arrival::at(f64::from(time))).collect();
            assert_eq!(KaplanMeier::new(&times).median(), Some(f64::from(count)));
        }
    }

    #[test]
    #[should_panic = "times are finite"]
    fn infinite_times_are_refused() {
        KaplanMeier::new(&[Arrival::at(f64::INFINITY)]);
    }
}
