//! How many times faster, where some trials never arrive.

use serde::Serialize;

use crate::stats::{Arrival, Bootstrap, Interval, median};

/// A ratio, or a bound for it where one side has not arrived.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "value")]
pub enum Ratio {
    /// Known.
    Exactly(f64),
    /// The baseline has not arrived.
    MoreThan(f64),
    /// The mechanism has not arrived.
    LessThan(f64),
}

impl Ratio {
    /// The number, of whichever kind.
    pub fn value(self) -> f64 {
        match self {
            Ratio::Exactly(value) | Ratio::MoreThan(value) | Ratio::LessThan(value) => value,
        }
    }
}

impl std::fmt::Display for Ratio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let number = |value: f64| if value < 0.95 { format!("{value:.2}") } else { format!("{value:.1}") };
        f.pad(&match *self {
            Ratio::Exactly(value) => format!("{}×", number(value)),
            Ratio::MoreThan(value) => format!(">{}×", number(value)),
            Ratio::LessThan(value) => format!("<{}×", number(value)),
        })
    }
}

/// What one trial needed, or had spent without arriving.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Need {
    /// Epochs, operations or seconds.
    pub amount: f64,
    /// Whether it arrived with that.
    pub arrived: bool,
}

impl From<Arrival> for Need {
    fn from(arrival: Arrival) -> Self {
        Need { amount: arrival.time, arrived: arrival.arrived }
    }
}

/// How many times less a mechanism needs than the baseline, over pairs of trials with the same seed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Speedup {
    /// Median of the ratios of the pairs.
    pub ratio: Ratio,
    /// Bootstrap interval of the median, if every pair arrived on both sides and there are enough of them.
    pub interval: Option<Interval>,
}

impl Speedup {
    /// From what baseline and mechanism needed, pair by pair. None if nothing can be said: no pair, or as many bounds above
    /// as below.
    ///
    /// A pair of which one trial has not arrived has a ratio above or below a bound; one of which neither has, any. The
    /// median of the least possible ratios and that of the greatest possible ones bound the median ratio.
    pub fn of(pairs: &[(Need, Need)], seed: u64) -> Option<Self> {
        let bounds = |&(baseline, mechanism): &(Need, Need)| {
            let ratio = baseline.amount / mechanism.amount;
            match (baseline.arrived, mechanism.arrived) {
                (true, true) => (ratio, ratio),
                (false, true) => (ratio, f64::INFINITY),
                (true, false) => (0.0, ratio),
                (false, false) => (0.0, f64::INFINITY),
            }
        };
        let (least, greatest): (Vec<f64>, Vec<f64>) = pairs.iter().map(bounds).unzip();
        let ratio = match (median(&least)?, median(&greatest)?) {
            (low, high) if low == high => Ratio::Exactly(low),
            (low, _) if low > 0.0 => Ratio::MoreThan(low),
            (_, high) if high.is_finite() => Ratio::LessThan(high),
            _ => return None,
        };
        let known = least == greatest;
        let middle = |values: &[f64]| median(values).unwrap_or(f64::NAN);
        let interval = if known { Bootstrap::new(seed).interval(&least, middle).ok() } else { None };
        Some(Speedup { ratio, interval })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(amount: f64) -> Need {
        Need { amount, arrived: true }
    }

    fn not_by(amount: f64) -> Need {
        Need { amount, arrived: false }
    }

    fn ratio(pairs: &[(Need, Need)]) -> Option<Ratio> {
        Speedup::of(pairs, 1).map(|speedup| speedup.ratio)
    }

    #[test]
    fn pairs_that_did_not_arrive_give_bounds() {
        assert_eq!(ratio(&[]), None);
        assert_eq!(ratio(&[(at(20.0), at(5.0))]), Some(Ratio::Exactly(4.0)));
        assert_eq!(ratio(&[(not_by(40.0), at(5.0))]), Some(Ratio::MoreThan(8.0)));
        assert_eq!(ratio(&[(at(10.0), not_by(40.0))]), Some(Ratio::LessThan(0.25)));
        assert_eq!(ratio(&[(not_by(40.0), not_by(40.0))]), None);
        // The middle one of three is known whatever the others are.
        let three = [(at(20.0), at(5.0)), (not_by(40.0), at(5.0)), (at(10.0), not_by(40.0))];
        assert_eq!(ratio(&three), Some(Ratio::Exactly(4.0)));
        // Of two, the mean of the middle ones is at least (4 + 8) / 2.
        assert_eq!(ratio(&three[..2]), Some(Ratio::MoreThan(6.0)));
    }

    #[test]
    fn an_interval_needs_three_pairs_that_all_arrived() {
        let pairs = [(at(20.0), at(5.0)), (at(30.0), at(5.0)), (at(24.0), at(4.0)), (at(28.0), at(4.0))];
        let interval = Speedup::of(&pairs, 1).unwrap().interval.unwrap();
        assert!(interval.low >= 4.0 && interval.low < 6.0 && interval.high <= 7.0, "{interval:?}");
        assert_eq!(Speedup::of(&pairs[..2], 1).unwrap().interval, None);
        let censored = [pairs[0], pairs[1], (not_by(40.0), at(4.0))];
        assert_eq!(Speedup::of(&censored, 1).unwrap().interval, None);
    }

    #[test]
    fn ratios_are_written_with_their_bounds() {
        assert_eq!(Ratio::Exactly(5.714).to_string(), "5.7×");
        assert_eq!(Ratio::MoreThan(10.0).to_string(), ">10.0×");
        assert_eq!(Ratio::LessThan(0.333).to_string(), "<0.33×");
        assert_eq!(format!("{:>8}", Ratio::Exactly(1.0)), "    1.0×");
    }
}
