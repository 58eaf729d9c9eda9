//! Which share of one speed-up another mechanism has: the ratio of two mean logarithms of paired times.
//!
//! Every seed has three times to the target: of the baseline, of the reference whose speed-up is to be explained, and of a
//! control. With the paired logarithms of the speed-ups `c = ln(baseline / control)` and `f = ln(baseline / reference)`, the share
//! is `mean(c) / mean(f)`: 1 if the control is as fast as the reference, 0 if it is as fast as the baseline.
//!
//! The interval has all shares `r` for which a t-test of `c − r f` over the seeds does not find a mean other than 0 (Fieller
//! 1954). What all trials of a seed have in common cancels in this difference. If the mean of `f` is not clearly above 0 at the
//! same level, every share is possible.

use serde::Serialize;

use super::student::{student_quantile, student_two_sided};
use super::{Interval, TimeToTarget, mean};

/// The times of one seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trio {
    /// Of the mechanism that both others are compared with.
    pub baseline: TimeToTarget,
    /// Of the mechanism whose speed-up is to be explained.
    pub reference: TimeToTarget,
    /// Of the mechanism whose share is asked for.
    pub control: TimeToTarget,
}

/// A number, or a bound on it where trials have not reached the target.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "value")]
pub enum Bounded {
    /// All trials reached the target.
    Exactly(f64),
    /// It would be larger if all trials had reached the target.
    AtLeast(f64),
    /// It would be smaller if all trials had reached the target.
    AtMost(f64),
}

impl Bounded {
    /// The number or its bound.
    pub fn value(self) -> f64 {
        match self {
            Bounded::Exactly(value) | Bounded::AtLeast(value) | Bounded::AtMost(value) => value,
        }
    }

    /// The sign that is written before a bound.
    pub fn sign(self) -> &'static str {
        match self {
            Bounded::Exactly(_) => "",
            Bounded::AtLeast(_) => ">",
            Bounded::AtMost(_) => "<",
        }
    }
}

/// A variance or covariance of the means of `c` and `f`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Errors {
    control: f64,
    both: f64,
    reference: f64,
}

impl Errors {
    /// The variance of `mean(c) − share · mean(f)`.
    fn at(&self, share: f64) -> f64 {
        self.control - 2.0 * share * self.both + share * share * self.reference
    }
}

/// Estimate, test and interval of a share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    seeds: usize,
    control: f64,
    reference: f64,
    /// From the spread over the seeds.
    spread: Errors,
    /// From rounding up to whole epochs. If all trials need the same number of epochs, the seeds have no spread, and they have
    /// the error of rounding in common; so this is not divided by the number of seeds.
    rounding: Errors,
    is_censored: Censored,
}

/// Which of the three have trials that did not reach the target.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Censored {
    baseline: bool,
    reference: bool,
    control: bool,
}

impl Share {
    /// None with fewer than two seeds.
    pub fn new(trios: &[Trio]) -> Option<Self> {
        let seeds = trios.len();
        if seeds < 2 {
            return None;
        }
        let ratio = |one: TimeToTarget, other: TimeToTarget| middle(one).ln() - middle(other).ln();
        let controls: Vec<f64> = trios.iter().map(|trio| ratio(trio.baseline, trio.control)).collect();
        let references: Vec<f64> = trios.iter().map(|trio| ratio(trio.baseline, trio.reference)).collect();
        let (control, reference) = (mean(&controls)?, mean(&references)?);
        let covariance = |one: &[f64], other: &[f64]| {
            let (first, second) = (mean(one).unwrap_or(0.0), mean(other).unwrap_or(0.0));
            let products = one.iter().zip(other).map(|(a, b)| (a - first) * (b - second));
            products.sum::<f64>() / (seeds - 1) as f64 / seeds as f64
        };
        let rounding = |side: fn(&Trio) -> TimeToTarget| {
            trios.iter().map(|trio| rounding_variance(side(trio))).sum::<f64>() / seeds as f64
        };
        let of_baseline = rounding(|trio| trio.baseline);
        let any = |side: fn(&Trio) -> TimeToTarget| trios.iter().any(|trio| !side(trio).reached);
        Some(Share {
            seeds,
            control,
            reference,
            spread: Errors {
                control: covariance(&controls, &controls),
                both: covariance(&controls, &references),
                reference: covariance(&references, &references),
            },
            rounding: Errors {
                control: of_baseline + rounding(|trio| trio.control),
                both: of_baseline,
                reference: of_baseline + rounding(|trio| trio.reference),
            },
            is_censored: Censored {
                baseline: any(|trio| trio.baseline),
                reference: any(|trio| trio.reference),
                control: any(|trio| trio.control),
            },
        })
    }

    /// Seeds that count.
    pub fn seeds(&self) -> usize {
        self.seeds
    }

    /// The share; None if the trials that have not reached the target leave it open, or if the reference has no speed-up.
    pub fn value(&self) -> Option<Bounded> {
        let share = (self.reference > 0.0).then(|| self.control / self.reference)?;
        let Censored { baseline, reference, control } = self.is_censored;
        // A baseline that takes longer moves the share towards 1, a reference that takes longer moves it away from 0.
        let is_more = (baseline && share < 1.0) || (reference && share > 0.0);
        let is_less = control || (baseline && share > 1.0) || (reference && share < 0.0);
        match (is_more, is_less) {
            (false, false) => Some(Bounded::Exactly(share)),
            (true, false) => Some(Bounded::AtLeast(share)),
            (false, true) => Some(Bounded::AtMost(share)),
            (true, true) => None,
        }
    }

    /// The geometric mean of the speed-ups of the control over the baseline; None if trials of both did not reach the target.
    pub fn speedup(&self) -> Option<Bounded> {
        let value = self.control.exp();
        match (self.is_censored.baseline, self.is_censored.control) {
            (false, false) => Some(Bounded::Exactly(value)),
            (true, false) => Some(Bounded::AtLeast(value)),
            (false, true) => Some(Bounded::AtMost(value)),
            (true, true) => None,
        }
    }

    /// The p-value of a speed-up of 1.
    pub fn speedup_p_value(&self) -> f64 {
        self.p(self.control, self.spread.control.max(self.rounding.control))
    }

    /// The speed-ups that a t-test of the logarithms does not exclude. An end that the trials do not determine is 0 or infinite.
    pub fn speedup_interval(&self, level: f64) -> Interval {
        let width = self.quantile(level) * self.spread.control.max(self.rounding.control).sqrt();
        let low = if self.is_censored.control { 0.0 } else { (self.control - width).exp() };
        let high = if self.is_censored.baseline { f64::INFINITY } else { (self.control + width).exp() };
        Interval { low, high }
    }

    /// The p-value of a share between 0 and 1: below a level exactly if the interval at this level does not contain the share.
    ///
    /// # Panics
    /// If the share is not between 0 and 1.
    pub fn p_value(&self, share: f64) -> f64 {
        assert!(share > 0.0 && share < 1.0, "a share between 0 and 1, not {share}");
        let distance = self.control - share * self.reference;
        let Censored { baseline, reference, control } = self.is_censored;
        if self.reference <= 0.0 || if distance > 0.0 { control } else { baseline || reference } {
            return 1.0;
        }
        let of = |errors: Errors| self.p(distance, errors.at(share)).max(self.p(self.reference, errors.reference));
        of(self.spread).max(of(self.rounding))
    }

    /// All shares that are not excluded at this level. An end that the trials do not determine is infinite.
    pub fn interval(&self, level: f64) -> Interval {
        let everything = Interval { low: f64::NEG_INFINITY, high: f64::INFINITY };
        let of = |errors| self.fieller(errors, level);
        let (Some(spread), Some(rounding)) = (of(self.spread), of(self.rounding)) else { return everything };
        let (mut low, mut high) = (spread.low.min(rounding.low), spread.high.max(rounding.high));
        // What a trial that has not reached the target would still change, see `value`.
        let Censored { baseline, reference, control } = self.is_censored;
        if baseline {
            (low, high) = (low.min(1.0), high.max(1.0));
        }
        if control || (reference && low < 0.0) {
            low = f64::NEG_INFINITY;
        }
        if reference && high > 0.0 {
            high = f64::INFINITY;
        }
        Interval { low, high }
    }

    /// How many seeds it would take to exclude a share at this level if means and spread stayed as they are; None if more than
    /// a hundred, or if trials that have not reached the target are in the way.
    pub fn seeds_to_exclude(&self, share: f64, level: f64) -> Option<usize> {
        let is_excluded = |seeds: usize| {
            let factor = self.seeds as f64 / seeds as f64;
            let Errors { control, both, reference } = self.spread;
            let spread = Errors { control: control * factor, both: both * factor, reference: reference * factor };
            let interval = Share { seeds, spread, ..*self }.interval(level);
            !interval.contains(share)
        };
        (self.seeds..=100).find(|&seeds| is_excluded(seeds))
    }

    /// None if the mean of the reference is not clearly other than 0: then every share is possible.
    fn fieller(&self, errors: Errors, level: f64) -> Option<Interval> {
        let square = self.quantile(level).powi(2);
        let leading = self.reference.powi(2) - square * errors.reference;
        if self.reference <= 0.0 || leading <= 0.0 {
            return None;
        }
        let middle = self.control * self.reference - square * errors.both;
        let root = (middle.powi(2) - leading * (self.control.powi(2) - square * errors.control)).max(0.0).sqrt();
        Some(Interval { low: (middle - root) / leading, high: (middle + root) / leading })
    }

    fn quantile(&self, level: f64) -> f64 {
        student_quantile(level, self.seeds - 1)
    }

    fn p(&self, distance: f64, variance: f64) -> f64 {
        if distance == 0.0 { 1.0 } else { student_two_sided(distance / variance.max(0.0).sqrt(), self.seeds - 1) }
    }
}

/// A trial that reached the target in epoch 7 reached it between the ends of epochs 6 and 7; one that has not needs longer than
/// it was observed.
fn middle(time: TimeToTarget) -> f64 {
    if time.reached { (time.time - 0.5).max(0.5) } else { time.time.max(0.5) }
}

/// The variance of the logarithm of a time that is uniform within its epoch. The first epoch begins with a quarter of itself,
/// because the logarithm of 0 is infinite.
fn rounding_variance(time: TimeToTarget) -> f64 {
    if !time.reached {
        return 0.0;
    }
    let end = time.time.max(1.0);
    (end / (end - 1.0).max(0.25)).ln().powi(2) / 12.0
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

    fn share(baseline: &[TimeToTarget], reference: &[TimeToTarget], control: &[TimeToTarget]) -> Share {
        let sides = baseline.iter().zip(reference).zip(control);
        let trios: Vec<Trio> =
            sides.map(|((&baseline, &reference), &control)| Trio { baseline, reference, control }).collect();
        Share::new(&trios).unwrap()
    }

    /// Epochs so late that half an epoch does not matter, with noise of its own in every series.
    fn late(mean: f64, noise: [f64; 6]) -> [TimeToTarget; 6] {
        noise.map(|noise| at(mean * (0.1 * noise).exp()))
    }

    const ONE: [f64; 6] = [0.3, -1.1, 0.6, 0.2, -0.7, 0.9];
    const TWO: [f64; 6] = [-0.2, 0.5, -0.9, 1.3, 0.1, -0.4];
    const THREE: [f64; 6] = [1.0, -0.3, -0.6, 0.4, -1.2, 0.5];

    #[test]
    fn shares_of_known_speed_ups() {
        let (full, fast) = (late(1e6, ONE), late(1e5, TWO));
        for (mean, expected) in [(1e6, 0.0), (316_227.8, 0.5), (1e5, 1.0), (1e7, -1.0), (1e4, 2.0)] {
            let found = share(&full, &fast, &late(mean, THREE));
            let Some(Bounded::Exactly(value)) = found.value() else { panic!("{found:?}") };
            assert!((value - expected).abs() < 0.03, "{value} instead of {expected}");
            let interval = found.interval(0.05);
            assert!(interval.contains(expected) && interval.high - interval.low < 0.25, "{interval:?}");
            let speedup = found.speedup_interval(0.05);
            assert!(speedup.contains(1e6 / mean) && speedup.high / speedup.low < 1.5, "{speedup:?}");
        }
        // The reference as its own control has share 1, whatever it is.
        let own = share(&full, &fast, &fast);
        assert!((own.interval(0.05).low - 1.0).abs() < 1e-4 && (own.interval(0.05).high - 1.0).abs() < 1e-4);
    }

    /// The interval was computed by solving the quadratic equation by hand for two seeds with c = 1, 3 and f = 4, 4: variance of
    /// the mean of c 1, t quantile 12.706 at level 0.05, so 2 ± 12.706 over 4.
    #[test]
    fn the_interval_by_hand() {
        let times = |logarithms: [f64; 2]| logarithms.map(|y: f64| at(1e9 * y.exp()));
        let found = share(&times([10.0, 10.0]), &times([6.0, 6.0]), &times([9.0, 7.0]));
        let interval = found.interval(0.05);
        assert!((interval.low - (2.0 - 12.706) / 4.0).abs() < 1e-3, "{interval:?}");
        assert!((interval.high - (2.0 + 12.706) / 4.0).abs() < 1e-3, "{interval:?}");
    }

    #[test]
    fn test_and_interval_agree() {
        let (full, fast, control) = (late(1e4, ONE), late(2e3, TWO), late(6e3, THREE));
        let found = share(&full, &fast, &control);
        for share in [0.05, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.7] {
            for level in [0.3, 0.05, 0.01, 0.001] {
                let is_excluded = !found.interval(level).contains(share);
                assert_eq!(is_excluded, found.p_value(share) < level, "{share} at level {level}");
            }
        }
    }

    #[test]
    fn without_a_clear_speed_up_of_the_reference_everything_is_possible() {
        let (full, other) = (late(1e4, ONE), late(0.99e4, TWO));
        let found = share(&full, &other, &late(5e3, THREE));
        assert_eq!(found.interval(0.05), Interval { low: f64::NEG_INFINITY, high: f64::INFINITY });
        assert!(found.p_value(0.5) > 0.05);
        assert_eq!(share(&full, &late(2e4, TWO), &full).value(), None, "slower than the baseline");
        assert_eq!(Share::new(&[]), None);
    }

    #[test]
    fn equal_epochs_leave_the_error_of_rounding() {
        let found = share(&[at(20.0); 5], &[at(3.0); 5], &[at(10.0); 5]);
        let interval = found.interval(0.05);
        // The true times may be anything from 19 to 20, from 2 to 3, and from 9 to 10.
        let extremes =
            [(19.0f64, 2.5f64, 9.5f64), (20.0, 2.5, 9.5), (19.5, 2.0, 9.5), (19.5, 3.0, 9.5), (19.5, 2.5, 9.0)];
        for (full, fast, control) in extremes {
            let true_share = (full / control).ln() / (full / fast).ln();
            assert!(interval.contains(true_share), "{interval:?} and {true_share}");
        }
        assert!(interval.high - interval.low < 0.3, "{interval:?}");
    }

    #[test]
    fn trials_that_did_not_reach_the_target_leave_ends_open() {
        let (full, fast, slow) = ([at(20.0), at(22.0), at(19.0)], [at(4.0), at(5.0), at(4.0)], [not_by(40.0); 3]);
        let never = share(&full, &fast, &slow);
        let interval = never.interval(0.05);
        assert!(interval.low == f64::NEG_INFINITY && interval.high < 0.0, "{interval:?}");
        assert!(matches!(never.value(), Some(Bounded::AtMost(share)) if share < 0.0));
        assert!(matches!(never.speedup(), Some(Bounded::AtMost(speedup)) if speedup < 1.0));
        // A baseline that might take any time: the control's share may be as large as 1.
        let open = share(&slow, &fast, &full);
        assert_eq!(open.interval(0.05).high, 1.0);
        assert!(matches!(open.value(), Some(Bounded::AtLeast(share)) if share > 0.0 && share < 1.0));
        // Neither is known.
        assert_eq!(share(&slow, &fast, &slow).value(), None);
        assert_eq!([&never, &open].map(|share| share.p_value(0.5) < 0.05), [true, false]);
        assert_eq!(share(&slow, &fast, &slow).interval(0.05), Interval { low: f64::NEG_INFINITY, high: 1.0 });
        // The reference would be slower: its speed-up is smaller, and the share larger.
        let mut late = fast;
        late[0] = not_by(6.0);
        let interval = share(&full, &late, &[at(6.0), at(7.0), at(6.0)]).interval(0.2);
        assert!(interval.low > 0.0 && interval.high == f64::INFINITY, "{interval:?}");
    }

    #[test]
    fn more_seeds_would_decide() {
        let found = share(&late(1e4, ONE), &late(5e3, TWO), &late(6.3e3, THREE));
        assert!(found.interval(0.003).contains(0.5));
        let needed = found.seeds_to_exclude(0.5, 0.003).unwrap();
        assert!((7..60).contains(&needed), "{needed}");
        assert!(share(&[not_by(40.0); 3], &[at(4.0); 3], &[not_by(40.0); 3]).seeds_to_exclude(0.5, 0.05).is_none());
    }
}
