//! Axes: labels, scales, limits, and the position of a value.

use crate::extent::{Extent, HUGE, TINY};
use crate::number::significant;

#[derive(Clone, Debug, PartialEq)]
pub enum Scale {
    Linear,
    /// Logarithmic: zero and negative numbers cannot be shown.
    Log,
    /// Names at 0, 1, 2, …, from left to right or from top to bottom.
    Categories(Vec<String>),
}

/// How tick labels are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Number,
    /// Multiplied by 100. The unit is in the label of the axis.
    Percent,
    /// As multiples: 2×.
    Times,
    /// Whole numbers, such as epochs: there are no ticks between them.
    Whole,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Includes the unit.
    pub label: String,
    pub scale: Scale,
    pub format: Format,
    /// Smallest and largest value; None to fit the data.
    pub limits: Option<(f64, f64)>,
    /// Label of an extra strip for infinite values, such as "not reached"; None for no strip.
    pub beyond: Option<String>,
}

/// [`Axis::auto`] is logarithmic if the positive values span more than this factor.
const LOG_SPAN: f64 = 100.0;

impl Axis {
    pub fn linear(label: &str) -> Self {
        Axis { label: label.to_owned(), scale: Scale::Linear, format: Format::Number, limits: None, beyond: None }
    }

    pub fn log(label: &str) -> Self {
        Axis { scale: Scale::Log, ..Axis::linear(label) }
    }

    /// Logarithmic if the positive values span more than two decades and none is negative, otherwise linear. Zeros do not
    /// count: a logarithmic axis leaves them out.
    pub fn auto(label: &str, values: impl IntoIterator<Item = f64>) -> Self {
        let (mut min, mut max, mut negative) = (f64::INFINITY, 0.0f64, false);
        for value in values.into_iter().filter(|value| value.is_finite()) {
            negative |= value < 0.0;
            if value > 0.0 {
                min = min.min(value);
                max = max.max(value);
            }
        }
        if !negative && max > LOG_SPAN * min { Axis::log(label) } else { Axis::linear(label) }
    }

    /// Fractions from 0 to 1, shown as percentages. Adds the unit to the label.
    pub fn fraction(label: &str) -> Self {
        let label = if label.is_empty() { "%".to_owned() } else { format!("{label} (%)") };
        Axis { format: Format::Percent, limits: Some((0.0, 1.0)), ..Axis::linear(&label) }
    }

    /// The same axis for a quantity that only takes whole numbers.
    pub fn whole(self) -> Self {
        Axis { format: Format::Whole, ..self }
    }

    /// A value in words, as it is shown when the pointer rests on it: `97.5 %`, `2.1×`, `12`, `0.031`.
    pub(crate) fn spoken(&self, value: f64) -> String {
        match (&self.scale, self.format) {
            (_, _) if value == f64::INFINITY => self.beyond.clone().unwrap_or_else(|| "∞".to_owned()),
            (Scale::Categories(names), _) => names.get(value.round() as usize).cloned().unwrap_or_default(),
            (_, Format::Percent) => format!("{:.1} %", 100.0 * value),
            (_, Format::Times) => format!("{}×", significant(value, 3)),
            (_, Format::Whole) if value.fract() == 0.0 => value.to_string(),
            (_, Format::Number | Format::Whole) => significant(value, 3),
        }
    }

    /// A logarithmic axis of multiples such as 2×.
    pub fn times(label: &str) -> Self {
        Axis { format: Format::Times, ..Axis::log(label) }
    }

    pub fn categories<S: Into<String>>(label: &str, names: impl IntoIterator<Item = S>) -> Self {
        Axis { scale: Scale::Categories(names.into_iter().map(Into::into).collect()), ..Axis::linear(label) }
    }

    pub fn with_limits(self, min: f64, max: f64) -> Self {
        Axis { limits: Some((min, max)), ..self }
    }

    /// Adds a strip for infinite values.
    pub fn with_beyond(self, name: &str) -> Self {
        Axis { beyond: Some(name.to_owned()), ..self }
    }

    pub(crate) fn is_log(&self) -> bool {
        self.scale == Scale::Log
    }

    /// The smallest and the largest value shown: finite, distinct, and positive on a logarithmic axis, whatever the data.
    pub(crate) fn resolve(&self, extent: &Extent) -> (f64, f64) {
        let log = self.is_log();
        let usable = |value: &f64| value.is_finite() && value.abs() < HUGE && (!log || *value > TINY);
        if let Some((low, high)) = self.limits
            && usable(&low)
            && usable(&high)
            && low != high
        {
            return (low.min(high), low.max(high));
        }
        if let Scale::Categories(names) = &self.scale {
            return (-0.5, names.len().max(1) as f64 - 0.5);
        }
        let (low, high) = (if log { extent.min_positive } else { extent.min }, extent.max);
        match (low > high, log) {
            (true, false) => (0.0, 1.0),
            (true, true) => (1.0, 10.0),
            (false, false) => padded_linear(low, high, extent),
            (false, true) => {
                let (low, high) = if low == high { (low / 2.0, high * 2.0) } else { (low, high) };
                let span = (high / low).ln();
                (low * (-pad(extent.open_low) * span).exp(), high * (pad(extent.open_high) * span).exp())
            }
        }
    }
}

/// Padding past the outermost value as a fraction of the span; an arrow needs more.
fn pad(open: bool) -> f64 {
    if open { 0.14 } else { 0.04 }
}

fn padded_linear(low: f64, high: f64, extent: &Extent) -> (f64, f64) {
    // Values that differ only by rounding count as equal.
    if high - low <= 1e-12 * low.abs().max(high.abs()) {
        let padding = if low == 0.0 { 1.0 } else { 0.1 * low.abs() };
        return (low - padding, low + padding);
    }
    let span = high - low;
    let padded = (low - pad(extent.open_low) * span, high + pad(extent.open_high) * span);
    // Quantities that are never negative should not look as if they could be.
    if low >= 0.0 && padded.0 < 0.0 { (0.0, padded.1) } else { padded }
}

/// Maps values to positions on the canvas.
#[derive(Clone, Debug)]
pub(crate) struct Mapping {
    pub(crate) log: bool,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Position of `low`.
    pub(crate) start: f64,
    /// Position of `high`.
    pub(crate) end: f64,
    /// Position of infinity.
    pub(crate) beyond: Option<f64>,
}

impl Mapping {
    /// The position of a value; None if the axis cannot show it. Values outside the limits get positions outside, clamped
    /// to a few axis lengths.
    pub(crate) fn at(&self, value: f64) -> Option<f64> {
        if value == f64::INFINITY && self.beyond.is_some() {
            return self.beyond;
        }
        if !value.is_finite() || (self.log && value <= 0.0) {
            return None;
        }
        let share = if self.log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        Some(self.start + share.clamp(-3.0, 4.0) * (self.end - self.start))
    }

    /// As [`Mapping::at`], but zero and negative values on a logarithmic axis lie below its start: for edges of bands.
    pub(crate) fn edge(&self, value: f64) -> Option<f64> {
        match self.at(value) {
            None if value <= 0.0 => Some(self.start - 0.2 * (self.end - self.start)),
            None if value == f64::INFINITY => Some(self.end + 0.2 * (self.end - self.start)),
            place => place,
        }
    }

    /// Whether a value is within the limits or in the strip for infinity.
    pub(crate) fn shows(&self, value: f64) -> bool {
        let slack = 1e-9 * (self.high - self.low);
        (value >= self.low - slack && value <= self.high + slack) || (value == f64::INFINITY && self.beyond.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(axis: &Axis, values: &[f64]) -> (f64, f64) {
        axis.resolve(&Extent::from_values(values.iter().copied()))
    }

    #[test]
    fn auto_takes_logarithms_from_two_decades_on() {
        assert_eq!(Axis::auto("", [0.01, 1.0]).scale, Scale::Linear);
        assert_eq!(Axis::auto("", [0.009, 1.0]).scale, Scale::Log);
        assert_eq!(Axis::auto("", [0.0, 0.009, 1.0, f64::NAN, f64::INFINITY]).scale, Scale::Log);
        assert_eq!(Axis::auto("", [-0.1, 0.009, 1.0]).scale, Scale::Linear);
        assert_eq!(Axis::auto("", []).scale, Scale::Linear);
        assert_eq!(Axis::auto("", [0.0, 0.0]).scale, Scale::Linear);
    }

    #[test]
    fn limits_hold_whatever_the_data() {
        let linear = Axis::linear("");
        assert_eq!(limits(&linear, &[]), (0.0, 1.0));
        assert_eq!(limits(&linear, &[0.0, 0.0]), (-1.0, 1.0));
        assert_eq!(limits(&linear, &[5.0]), (4.5, 5.5));
        assert_eq!(limits(&linear, &[0.0, 100.0, f64::NAN]), (0.0, 104.0));
        assert_eq!(limits(&linear, &[-100.0, 100.0]), (-108.0, 108.0));
        assert_eq!(limits(&linear, &[f64::MAX, f64::MIN]), (0.0, 1.0));
        let log = Axis::log("");
        assert_eq!(limits(&log, &[0.0, -3.0]), (1.0, 10.0));
        assert_eq!(limits(&log, &[0.0, 1.0, 100.0]).0, 1.0 * (-0.04 * 100f64.ln()).exp());
        assert_eq!(limits(&log.clone().with_limits(0.0, 1.0), &[]), (1.0, 10.0), "no logarithm of zero");
        assert_eq!(limits(&linear.clone().with_limits(2.0, 1.0), &[]), (1.0, 2.0));
        assert_eq!(limits(&linear.with_limits(f64::NAN, 1.0), &[3.0, 4.0]), (2.96, 4.04));
        assert_eq!(limits(&Axis::categories("", ["a", "b"]), &[9.0]), (-0.5, 1.5));
    }

    #[test]
    fn values_lie_where_they_should() {
        let log = Mapping { log: true, low: 0.01, high: 100.0, start: 10.0, end: 50.0, beyond: None };
        assert!((log.at(1.0).unwrap() - 30.0).abs() < 1e-9);
        assert_eq!((log.at(0.0), log.at(f64::NAN), log.at(f64::INFINITY)), (None, None, None));
        assert!((log.edge(0.0).unwrap() - 2.0).abs() < 1e-9);
        let down = Mapping { log: false, low: 0.0, high: 4.0, start: 100.0, end: 20.0, beyond: Some(10.0) };
        assert_eq!((down.at(1.0), down.at(f64::INFINITY), down.at(1e300)), (Some(80.0), Some(10.0), Some(-220.0)));
        assert!(down.shows(4.0) && down.shows(f64::INFINITY) && !down.shows(4.1) && !down.shows(f64::NAN));
    }
}
