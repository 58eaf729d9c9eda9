//! Speed-ups, where some trials never reach the target.

use serde::Serialize;

use crate::stats::{Interval, median};

/// A speed-up, or a bound on it where one side has not reached the target.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "value")]
pub enum Ratio {
    /// Both sides reached the target.
    Exactly(f64),
    /// The baseline has not reached the target.
    MoreThan(f64),
    /// The mechanism has not reached the target.
    LessThan(f64),
}

impl Ratio {
    /// The speed-up or its bound.
    pub fn value(self) -> f64 {
        match self {
            Ratio::Exactly(value) | Ratio::MoreThan(value) | Ratio::LessThan(value) => value,
        }
    }

    /// Whether it is written as a slow-down.
    pub fn is_slow_down(self) -> bool {
        self.value() < SLOWER
    }
}

impl std::fmt::Display for Ratio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (sign, value) = match *self {
            Ratio::Exactly(value) => ("", value),
            Ratio::MoreThan(value) => (">", value),
            Ratio::LessThan(value) => ("<", value),
        };
        f.pad(&if self.is_slow_down() {
            let turned = match sign {
                ">" => "<",
                "<" => ">",
                none => none,
            };
            format!("{turned}{:.1}× slower", 1.0 / value)
        } else {
            format!("{sign}{value:.1}×")
        })
    }
}

/// Speed-ups below this are written as a slow-down. Those above it round to 1.0.
const SLOWER: f64 = 0.95;

/// What one trial spent to reach the target, or without reaching it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Epochs, operations or seconds.
    pub amount: f64,
    /// Whether the trial reached the target.
    pub reached: bool,
}

/// How many times less a mechanism needs than the baseline, over pairs of trials with the same seed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Speedup {
    /// Median of the ratios of the pairs.
    pub ratio: Ratio,
    /// The interval of the test that decides, if all trials reached the target and there are enough of them. Only speed-ups in
    /// epochs have one.
    pub interval: Option<Interval>,
}

impl Speedup {
    /// From the costs of baseline and mechanism, pair by pair. None if nothing is known: there is no pair, or as many ratios
    /// are bounded from above as from below.
    ///
    /// If one trial of a pair has not reached the target, the ratio has a lower or an upper bound; if neither has, it has
    /// none. The median of the lower bounds and the median of the upper bounds then bracket
    /// the median ratio.
    pub fn new(pairs: &[(Cost, Cost)]) -> Option<Self> {
        let bounds = |&(baseline, mechanism): &(Cost, Cost)| {
            // Equal amounts may both be 0.
            let is_equal = baseline.amount == mechanism.amount;
            let ratio = if is_equal { 1.0 } else { baseline.amount / mechanism.amount };
            match (baseline.reached, mechanism.reached) {
                (true, true) => (ratio, ratio),
                (false, true) => (ratio, f64::INFINITY),
                (true, false) => (0.0, ratio),
                (false, false) => (0.0, f64::INFINITY),
            }
        };
        let (min, max): (Vec<f64>, Vec<f64>) = pairs.iter().map(bounds).unzip();
        let ratio = match (median(&min)?, median(&max)?) {
            (low, high) if low == high => Ratio::Exactly(low),
            (low, _) if low > 0.0 => Ratio::MoreThan(low),
            (_, high) if high.is_finite() => Ratio::LessThan(high),
            _ => return None,
        };
        Some(Speedup { ratio, interval: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(amount: f64) -> Cost {
        Cost { amount, reached: true }
    }

    fn not_by(amount: f64) -> Cost {
        Cost { amount, reached: false }
    }

    fn ratio(pairs: &[(Cost, Cost)]) -> Option<Ratio> {
        Speedup::new(pairs).map(|speedup| speedup.ratio)
    }

    #[test]
    fn trials_that_did_not_reach_the_target_give_bounds() {
        assert_eq!(ratio(&[]), None);
        assert_eq!(ratio(&[(at(20.0), at(5.0))]), Some(Ratio::Exactly(4.0)));
        assert_eq!(ratio(&[(not_by(40.0), at(5.0))]), Some(Ratio::MoreThan(8.0)));
        assert_eq!(ratio(&[(at(10.0), not_by(40.0))]), Some(Ratio::LessThan(0.25)));
        assert_eq!(ratio(&[(not_by(40.0), not_by(40.0))]), None);
        // The median of three is known whatever the others are.
        let three = [(at(20.0), at(5.0)), (not_by(40.0), at(5.0)), (at(10.0), not_by(40.0))];
        assert_eq!(ratio(&three), Some(Ratio::Exactly(4.0)));
        // The median of two is at least (4 + 8) / 2.
        assert_eq!(ratio(&three[..2]), Some(Ratio::MoreThan(6.0)));
    }

    #[test]
    fn ratios_are_written_with_their_bounds() {
        assert_eq!(Ratio::Exactly(5.714).to_string(), "5.7×");
        assert_eq!(Ratio::MoreThan(10.0).to_string(), ">10.0×");
        assert_eq!(Ratio::LessThan(1.4).to_string(), "<1.4×");
        assert_eq!(Ratio::Exactly(0.97).to_string(), "1.0×");
        assert_eq!(Ratio::Exactly(2.0 / 3.0).to_string(), "1.5× slower");
        assert_eq!(Ratio::LessThan(0.56).to_string(), ">1.8× slower");
        assert_eq!(Ratio::MoreThan(0.5).to_string(), "<2.0× slower");
        assert_eq!(format!("{:>8}", Ratio::Exactly(1.0)), "    1.0×");
    }
}
