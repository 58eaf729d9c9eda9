//! Tick values and labels of an axis: round numbers, at most six, without overlap.

use crate::axis::{Axis, Format, Mapping, Scale};
use crate::number::{brief, plain, power_of_ten, scientific};
use crate::text::TICK;

const MAX_TICKS: usize = 6;

/// A labelled tick.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    pub(crate) value: f64,
    pub(crate) label: String,
}

/// The ticks of an axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ticks {
    pub(crate) major: Vec<Tick>,
    pub(crate) minor: Vec<f64>,
}

/// The direction of an axis, along which its labels need space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    X,
    Y,
}

impl Direction {
    /// Space that a label takes along the axis, including the gap to the next.
    fn space(self, label: &str) -> f64 {
        match self {
            Direction::X => TICK.width(label) + 5.0,
            Direction::Y => TICK.line() + 1.0,
        }
    }
}

impl Ticks {
    pub(crate) fn new(axis: &Axis, mapping: &Mapping, direction: Direction) -> Self {
        Ticks::at_most(MAX_TICKS, axis, mapping, direction)
    }

    fn at_most(max: usize, axis: &Axis, mapping: &Mapping, direction: Direction) -> Self {
        if let Scale::Categories(names) = &axis.scale {
            let tick = |(index, name): (usize, &String)| Tick { value: index as f64, label: name.clone() };
            return Ticks { major: names.iter().enumerate().map(tick).collect(), minor: Vec::new() };
        }
        let fits = |values: &[f64], labels: &[String]| {
            let place = |&value: &f64| mapping.at(value).unwrap_or(f64::NAN);
            let places: Vec<(f64, f64)> =
                values.iter().map(place).zip(labels.iter().map(|label| direction.space(label))).collect();
            places.windows(2).all(|pair| (pair[1].0 - pair[0].0).abs() >= (pair[0].1 + pair[1].1) / 2.0)
        };
        let factor = if axis.format == Format::Percent { 100.0 } else { 1.0 };
        let (low, high) = (mapping.low * factor, mapping.high * factor);
        let suffix = if axis.format == Format::Times { "×" } else { "" };
        let finish = |values: &[f64], labels: &[String]| -> Vec<Tick> {
            let is_plain = |value: f64| axis.format == Format::Whole && is_whole(value) && value.abs() < 1e5;
            let tick = |(&value, label): (&f64, &String)| {
                let label = if is_plain(value) { plain(value, 0) } else { format!("{label}{suffix}") };
                Tick { value: value / factor, label }
            };
            values.iter().zip(labels).map(tick).collect()
        };
        let accept = |values: &[f64], labels: &[String]| {
            let ticks = finish(values, labels);
            let (values, labels): (Vec<f64>, Vec<String>) = ticks.iter().map(|t| (t.value, t.label.clone())).unzip();
            let are_allowed = axis.format != Format::Whole || values.iter().all(|&value| is_whole(value));
            (values.len() <= max && are_allowed && fits(&values, &labels)).then_some(ticks)
        };
        if mapping.log {
            let mut ticks = log_ticks(low, high, &accept, factor, max);
            ticks.minor.retain(|&minor| axis.format != Format::Whole || is_whole(minor));
            ticks
        } else {
            Ticks { major: linear_ticks(low, high, &accept, max), minor: Vec::new() }
        }
    }
}

impl Axis {
    /// Round values between two others with their labels, as they would appear along the axis.
    pub fn round_values(&self, low: f64, high: f64) -> Vec<(f64, String)> {
        self.at_most(MAX_TICKS, low, high)
    }

    /// At most `max` round values between two others.
    pub(crate) fn levels(&self, max: usize, low: f64, high: f64) -> Vec<f64> {
        self.at_most(max, low, high).into_iter().map(|(value, _)| value).collect()
    }

    fn at_most(&self, max: usize, low: f64, high: f64) -> Vec<(f64, String)> {
        // Long enough for the maximum number of labels.
        let mapping = Mapping { log: self.is_log(), low, high, start: 0.0, end: 40.0 * max as f64, beyond: None };
        let ticks = Ticks::at_most(max, self, &mapping, Direction::Y).major;
        ticks.into_iter().map(|tick| (tick.value, tick.label)).collect()
    }
}

/// Turns values and labels into ticks if they are readable together.
type Accept<'a> = dyn Fn(&[f64], &[String]) -> Option<Vec<Tick>> + 'a;

fn is_whole(value: f64) -> bool {
    (value - value.round()).abs() < 1e-6
}

fn linear_ticks(low: f64, high: f64, accept: &Accept<'_>, max: usize) -> Vec<Tick> {
    let finest = ((high - low) / max as f64).log10().floor() as i32;
    let steps = (finest..finest + 4).flat_map(|power| [(1.0, power), (2.0, power), (2.5, power), (5.0, power)]);
    for (factor, power) in steps {
        let step = factor * 10f64.powi(power);
        let slack = 1e-9 * (high - low);
        let first = ((low - slack) / step).ceil();
        let count = ((high + slack) / step).floor() - first;
        if !(0.0..max as f64).contains(&count) {
            continue;
        }
        let decimals = usize::try_from(-power).unwrap_or(0) + usize::from(factor == 2.5 && power <= 0);
        let values: Vec<f64> = (0..=count as usize).map(|index| (first + index as f64) * step).collect();
        let largest = low.abs().max(high.abs());
        // Digits after the first that are needed to tell the ticks apart.
        let digits = (largest.log10().floor() as i32 - power).clamp(0, 9) as usize + usize::from(factor == 2.5);
        let many_digits = !(1e-4..99_999.5).contains(&largest);
        let label = |&value: &f64| if many_digits { scientific(value, digits) } else { plain(value, decimals) };
        let labels: Vec<String> = values.iter().map(label).collect();
        if let Some(ticks) = accept(&values, &labels) {
            return ticks;
        }
    }
    Vec::new()
}

fn log_ticks(low: f64, high: f64, accept: &Accept<'_>, factor: f64, max: usize) -> Ticks {
    let slack = 1e-9;
    let within = |value: &f64| *value >= low * (1.0 - slack) && *value <= high * (1.0 + slack);
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let decades = |every: i32, multiples: &[f64]| -> Vec<f64> {
        let powers = (first..=last).filter(|power| power.rem_euclid(every) == 0);
        powers.flat_map(|power| multiples.iter().map(move |m| m * 10f64.powi(power))).filter(within).collect()
    };
    let ninths = |every: i32| {
        if every == 1 { decades(1, &[2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]) } else { decades(1, &[1.0]) }
    };
    let spans = [1, 2, 3, 5, 10, 20, 50, 100, 200].map(|every| (every, vec![1.0]));
    // Where there may be many values, such as contour lines.
    let fine = (max > MAX_TICKS).then(|| (1, vec![1.0, 1.5, 2.0, 3.0, 5.0, 7.0]));
    let coarse = [(1, vec![1.0, 2.0, 5.0]), (1, vec![1.0, 3.0])];
    let choices = fine.into_iter().chain(coarse).chain(spans);
    for (every, multiples) in choices {
        let values = decades(every, &multiples);
        // Three decades or more are enough by themselves; otherwise numbers between them help.
        let plain_decades = max <= MAX_TICKS && decades(1, &[1.0]).len() >= 3;
        let skipped = match multiples.len() {
            1 => values.len() < 2,
            2 | 3 => plain_decades || values.len() < 3,
            // Within a decade, equal steps are finer.
            _ => values.len() < MAX_TICKS,
        };
        if skipped {
            continue;
        }
        let powers = multiples.len() == 1 && (values[0] < 0.9e-3 || values[values.len() - 1] > 1.1e4);
        let labels: Vec<String> =
            values.iter().map(|&value| if powers { power_of_ten(value) } else { brief(value) }).collect();
        if let Some(major) = accept(&values, &labels) {
            let minor = ninths(every).into_iter().map(|value| value / factor);
            let minor = minor.filter(|value| major.iter().all(|tick| (tick.value / value - 1.0).abs() > 1e-6));
            return Ticks { minor: minor.collect(), major };
        }
    }
    // Less than a decade: equally spaced round numbers are easier to read.
    Ticks { major: linear_ticks(low, high, accept, max), minor: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::significant;

    fn labels(axis: &Axis, low: f64, high: f64, length: f64, direction: Direction) -> Vec<String> {
        let mapping = Mapping { log: axis.is_log(), low, high, start: 0.0, end: length, beyond: None };
        Ticks::new(axis, &mapping, direction).major.into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn linear_ticks_are_round_and_few() {
        let axis = Axis::linear("");
        assert_eq!(labels(&axis, 0.0, 1000.0, 200.0, Direction::X), ["0", "200", "400", "600", "800", "1000"]);
        assert_eq!(labels(&axis, 0.0, 1000.0, 60.0, Direction::X), ["0", "500", "1000"]);
        assert_eq!(labels(&axis, -0.3, 0.3, 100.0, Direction::Y), ["−0.2", "0.0", "0.2"]);
        assert_eq!(labels(&axis, 0.0, 3e6, 200.0, Direction::X), ["0", "1×10⁶", "2×10⁶", "3×10⁶"]);
        assert_eq!(labels(&axis, 0.61, 0.69, 100.0, Direction::Y), ["0.62", "0.64", "0.66", "0.68"]);
        assert_eq!(labels(&Axis::fraction(""), 0.0, 1.0, 100.0, Direction::Y), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(labels(&Axis::fraction(""), 0.0, 1.0, 30.0, Direction::Y), ["0", "50", "100"]);
        assert_eq!(labels(&axis, 1e6, 1.0002e6, 300.0, Direction::X)[1], "1.00005×10⁶");
        assert_eq!(labels(&axis, 0.0, 4e-7, 100.0, Direction::Y)[1], "1×10⁻⁷");
        assert!(labels(&axis, 0.0, 1.0, 3.0, Direction::Y).len() <= 1);
    }

    #[test]
    fn logarithmic_ticks_are_decades_or_finer() {
        let axis = Axis::log("");
        assert_eq!(labels(&axis, 0.0009, 2.0, 100.0, Direction::Y), ["0.001", "0.01", "0.1", "1"]);
        assert_eq!(labels(&axis, 1e-6, 2.0, 100.0, Direction::Y), ["10⁻⁶", "10⁻⁴", "10⁻²", "10⁰"]);
        assert_eq!(labels(&axis, 0.5, 12.0, 150.0, Direction::X), ["0.5", "1", "2", "5", "10"]);
        assert_eq!(labels(&Axis::times(""), 0.9, 4.0, 150.0, Direction::X), ["1×", "2×", "3×", "4×"]);
        assert_eq!(labels(&axis, 1.0, 1.0001, 150.0, Direction::X)[1], "1.000025");
        let mapping = Mapping { log: true, low: 1.0, high: 1000.0, start: 0.0, end: 100.0, beyond: None };
        let minor = Ticks::new(&axis, &mapping, Direction::Y).minor;
        assert_eq!((minor.len(), minor[0], minor[23]), (24, 2.0, 900.0));
    }

    #[test]
    fn epochs_have_no_ticks_between_whole_numbers() {
        let axis = Axis::linear("").whole();
        assert_eq!(labels(&axis, 0.0, 1.0, 200.0, Direction::X), ["0", "1"]);
        assert_eq!(labels(&axis, 0.9, 1.1, 200.0, Direction::X), ["1"]);
        assert_eq!(labels(&axis, 1.0, 4.0, 200.0, Direction::X), ["1", "2", "3", "4"]);
        assert_eq!(labels(&axis, 0.0, 12.0, 200.0, Direction::X), ["0", "5", "10"]);
        assert_eq!(labels(&Axis::log("").whole(), 2.0, 3.4, 100.0, Direction::Y), ["2", "3"]);
        assert_eq!(labels(&axis, 2.2, 2.8, 100.0, Direction::Y), [""; 0]);
    }

    #[test]
    fn a_dozen_levels_are_round_too() {
        let levels = |low, high| -> Vec<String> {
            Axis::log("loss").levels(12, low, high).into_iter().map(|level| significant(level, 2)).collect()
        };
        assert_eq!(levels(0.65, 1.8)[..4], ["0.70", "0.80", "0.90", "1.0"]);
        assert_eq!(levels(1.1e-3, 9.0)[..4], ["0.0020", "0.0050", "0.010", "0.020"]);
        for (low, high) in [(0.65, 1.8), (1.1e-3, 9.0), (0.01, 1e4), (1e-90, 1e90), (0.69, 0.7)] {
            assert!((3..=12).contains(&levels(low, high).len()), "{low} to {high}: {:?}", levels(low, high));
        }
    }

    #[test]
    fn numbers_of_a_few_digits_are_plain() {
        let written = [0.65, 1.8432, 412.3, 99.96, 0.00031, 1e7, -0.5, 0.0].map(|value| significant(value, 2));
        assert_eq!(written, ["0.65", "1.8", "410", "100", "3.1×10⁻⁴", "1×10⁷", "−0.50", "0"]);
        assert_eq!(significant(f64::NAN, 2), "NaN");
    }

    #[test]
    fn numbers_are_written_briefly() {
        assert_eq!([0.001, 0.02, 1.0, 50.0].map(brief), ["0.001", "0.02", "1", "50"]);
        assert_eq!(plain(-0.0, 1), "0.0");
        assert_eq!(plain(-12.0, 0), "−12");
        assert_eq!(scientific(-2.5e-7, 2), "−2.5×10⁻⁷");
        assert_eq!(scientific(3e6, 0), "3×10⁶");
    }
}
