//! How soon trials reach their target, where some had not when they ended: the Kaplan–Meier curve and its restricted mean.

use serde::Serialize;

use super::normal::normal_quantile;
use super::{CONFIDENCE, Interval};

/// How long a trial took to reach its target; censored if it ended before.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TimeToTarget {
    /// When it reached the target; if it did not, how long it was observed.
    pub time: f64,
    /// Whether it reached the target. If not, it is censored: all that is known is that it would take longer than `time`.
    #[serde(rename = "arrived")]
    pub reached: bool,
}

impl TimeToTarget {
    /// A trial that reached the target at this time.
    pub fn reached_at(time: f64) -> Self {
        TimeToTarget { time, reached: true }
    }

    /// A trial that ended at this time without having reached the target.
    pub fn censored_at(time: f64) -> Self {
        TimeToTarget { time, reached: false }
    }
}

/// The trials under way at a time when some reached the target or ended. A trial censored at the same time as an event still
/// counts as under way: the event comes first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RiskSet {
    pub(super) time: f64,
    pub(super) at_risk: usize,
    pub(super) events: usize,
    pub(super) censored: usize,
}

/// The risk sets at all times at which a trial reached the target or ended, in ascending order.
///
/// # Panics
/// If a time is negative, infinite or not a number.
pub(super) fn risk_sets(trials: &[TimeToTarget]) -> Vec<RiskSet> {
    let mut sorted = trials.to_vec();
    assert!(
        sorted.iter().all(|trial| trial.time >= 0.0 && trial.time.is_finite()),
        "times are finite and not negative"
    );
    sorted.sort_by(|a, b| a.time.total_cmp(&b.time));
    let mut at_risk = sorted.len();
    let same_time = sorted.chunk_by(|a, b| a.time == b.time);
    let sets = same_time.map(|trials| {
        let events = trials.iter().filter(|trial| trial.reached).count();
        let set = RiskSet { time: trials[0].time, at_risk, events, censored: trials.len() - events };
        at_risk -= trials.len();
        set
    });
    sets.collect()
}

/// A step of the curve: a time at which a trial reached the target or ended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Step {
    /// When it happened.
    pub time: f64,
    /// Trials under way just before.
    pub at_risk: usize,
    /// Trials that reached the target at this time.
    pub events: usize,
    /// Trials that ended at this time without having reached it.
    pub censored: usize,
    /// Estimated share of trials that need longer.
    pub survival: f64,
    /// Pointwise interval of the share, from Greenwood's variance on the log(−log) scale. None where that scale has no value:
    /// before the first event, and once all trials have reached the target.
    pub interval: Option<Interval>,
}

/// The Kaplan–Meier estimate: the share of trials that have not reached the target, as a function of time.
///
/// It assumes that censoring is independent of how soon a trial would have reached the target, as when trials end with their
/// budget of epochs. A trial stopped because it was doing badly violates this.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KaplanMeier {
    /// In ascending order of time; the share is 1 before the first.
    pub steps: Vec<Step>,
}

/// Mean time to the target, where every time counts only up to a horizon.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RestrictedMean {
    /// The area under the curve up to the horizon.
    pub mean: f64,
    /// Standard error from Greenwood's variance. Too small for few trials; 0 if none reached the target before the horizon.
    pub standard_error: f64,
}

impl KaplanMeier {
    /// Estimates the curve from some trials.
    ///
    /// # Panics
    /// If a time is negative, infinite or not a number.
    pub fn new(trials: &[TimeToTarget]) -> Self {
        let (mut survival, mut greenwood) = (1.0, 0.0);
        let steps = risk_sets(trials).into_iter().map(|RiskSet { time, at_risk, events, censored }| {
            survival *= (at_risk - events) as f64 / at_risk as f64;
            greenwood += greenwood_term(at_risk, events);
            Step { time, at_risk, events, censored, survival, interval: log_log_interval(survival, greenwood) }
        });
        KaplanMeier { steps: steps.collect() }
    }

    /// The mean time to the target up to a horizon. None if the horizon lies after the last step of a curve that has not
    /// come down to 0: nothing was observed there.
    ///
    /// # Panics
    /// If the horizon is negative, infinite or not a number.
    pub fn restricted_mean(&self, horizon: f64) -> Option<RestrictedMean> {
        assert!(horizon >= 0.0 && horizon.is_finite(), "a horizon is finite and not negative");
        let last = self.steps.last()?;
        if horizon > last.time && last.survival > 0.0 {
            return None;
        }
        // From right to left: the variance of each step is weighted with the squared area to its right.
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

/// What a step adds to the variance of the logarithm of the curve; infinite where the curve comes down to 0.
fn greenwood_term(at_risk: usize, events: usize) -> f64 {
    events as f64 / (at_risk as f64 * (at_risk - events) as f64)
}

/// S^exp(±z·σ/log S), where σ² is the variance of log S: an interval that stays within 0..1.
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
    fn an_event_comes_before_a_censoring_at_the_same_time() {
        let curve = KaplanMeier::new(&[
            TimeToTarget::censored_at(2.0),
            TimeToTarget::reached_at(2.0),
            TimeToTarget::reached_at(3.0),
        ]);
        let [first, second] = &curve.steps[..] else { panic!("two steps") };
        assert_eq!((first.at_risk, first.events, first.censored), (3, 1, 1));
        assert!((first.survival - 2.0 / 3.0).abs() < 1e-15);
        assert_eq!((second.at_risk, second.survival, second.interval), (1, 0.0, None));
    }

    /// Without censoring the curve is the share of later values, and its area is the mean of the values cut at the horizon,
    /// whose standard error is well known.
    #[test]
    fn without_censoring_the_restricted_mean_is_a_mean() {
        let times = [4.0, 1.0, 4.0, 7.0, 11.0, 2.0];
        let curve = KaplanMeier::new(&times.map(TimeToTarget::reached_at));
        for horizon in [0.5, 3.0, 4.0, 9.0, 11.0, 100.0] {
            let cut = times.map(|time| f64::min(time, horizon));
            let mean = cut.iter().sum::<f64>() / 6.0;
            let variance = cut.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / 36.0;
            let found = curve.restricted_mean(horizon).unwrap();
            assert!((found.mean - mean).abs() < 1e-12, "up to {horizon}: {found:?}, not {mean}");
            assert!((found.standard_error - variance.sqrt()).abs() < 1e-12, "up to {horizon}: {found:?}");
        }
    }

    #[test]
    fn nothing_is_said_about_what_was_not_observed() {
        let curve = KaplanMeier::new(&[
            TimeToTarget::reached_at(2.0),
            TimeToTarget::censored_at(5.0),
            TimeToTarget::censored_at(5.0),
        ]);
        assert_eq!(curve.restricted_mean(5.1), None);
        let mean = curve.restricted_mean(5.0).unwrap().mean;
        assert!((mean - 4.0).abs() < 1e-12, "2 + 3 · 2/3, found {mean}");
        let nobody = KaplanMeier::new(&[]);
        assert_eq!((nobody.restricted_mean(1.0), nobody.steps.len()), (None, 0));
    }

    #[test]
    #[should_panic = "times are finite"]
    fn infinite_times_are_refused() {
        KaplanMeier::new(&[TimeToTarget::reached_at(f64::INFINITY)]);
    }
}
