//! Axes: what they are called, their scales and limits, and where a value comes to lie.

use super::mark::{Extent, HUGE, TINY};

/// How numbers are spread along an axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Scale {
    /// Equal differences are equally far apart.
    Linear,
    /// Equal ratios are equally far apart. Zero and negative numbers have no place.
    Log,
    /// Names at 0, 1, 2, …: from left to right, or from top to bottom.
    Categories(Vec<String>),
}

/// How numbers are written along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// As they are.
    Number,
    /// Multiplied by 100; the label of the axis tells the unit.
    Percent,
    /// As multiples: 2×.
    Times,
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What it shows, with the unit.
    pub label: String,
    /// How numbers are spread along it.
    pub scale: Scale,
    /// How numbers are written along it.
    pub format: Format,
    /// Least and greatest value; None to show all there is.
    pub limits: Option<(f64, f64)>,
    /// Name of a strip past the greatest value, for what lies infinitely far: "not reached".
    pub beyond: Option<String>,
}

/// Positive values that span more than this factor are spread by their logarithms.
const LOG_SPAN: f64 = 100.0;

impl Axis {
    /// An axis of plain numbers.
    pub fn linear(label: &str) -> Self {
        Axis { label: label.to_owned(), scale: Scale::Linear, format: Format::Number, limits: None, beyond: None }
    }

    /// A logarithmic axis.
    pub fn log(label: &str) -> Self {
        Axis { scale: Scale::Log, ..Axis::linear(label) }
    }

    /// Logarithmic if the positive values span more than two decades and none is negative, else linear. Zeros do not
    /// count: on a logarithmic axis they are left out.
    pub fn auto(label: &str, values: impl IntoIterator<Item = f64>) -> Self {
        let (mut least, mut greatest, mut negative) = (f64::INFINITY, 0.0f64, false);
        for value in values.into_iter().filter(|value| value.is_finite()) {
            negative |= value < 0.0;
            if value > 0.0 {
                least = least.min(value);
                greatest = greatest.max(value);
            }
        }
        if !negative && greatest > LOG_SPAN * least { Axis::log(label) } else { Axis::linear(label) }
    }

    /// An axis for shares from 0 to 1, written in per cent, which the label says.
    pub fn fraction(label: &str) -> Self {
        let label = if label.is_empty() { "%".to_owned() } else { format!("{label} (%)") };
        Axis { format: Format::Percent, limits: Some((0.0, 1.0)), ..Axis::linear(&label) }
    }

    /// A logarithmic axis for multiples: 2×.
    pub fn times(label: &str) -> Self {
        Axis { format: Format::Times, ..Axis::log(label) }
    }

    /// An axis of names.
    pub fn categories<S: Into<String>>(label: &str, names: impl IntoIterator<Item = S>) -> Self {
        Axis { scale: Scale::Categories(names.into_iter().map(Into::into).collect()), ..Axis::linear(label) }
    }

    /// From least to greatest value.
    pub fn with_limits(self, least: f64, greatest: f64) -> Self {
        Axis { limits: Some((least, greatest)), ..self }
    }

    /// With a strip for what lies infinitely far.
    pub fn with_beyond(self, name: &str) -> Self {
        Axis { beyond: Some(name.to_owned()), ..self }
    }

    pub(super) fn is_log(&self) -> bool {
        self.scale == Scale::Log
    }

    /// Least and greatest value shown: finite, distinct, and positive on a logarithmic axis, whatever the data.
    pub(super) fn resolve(&self, extent: &Extent) -> (f64, f64) {
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
        let (low, high) = (if log { extent.least_positive } else { extent.least }, extent.greatest);
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

/// Room past the outermost value, as a share of the span; an arrow needs more.
fn pad(open: bool) -> f64 {
    if open { 0.14 } else { 0.04 }
}

fn padded_linear(low: f64, high: f64, extent: &Extent) -> (f64, f64) {
    // Values that differ by rounding alone are one value.
    if high - low <= 1e-12 * low.abs().max(high.abs()) {
        let room = if low == 0.0 { 1.0 } else { 0.1 * low.abs() };
        return (low - room, low + room);
    }
    let span = high - low;
    let padded = (low - pad(extent.open_low) * span, high + pad(extent.open_high) * span);
    // What cannot be negative should not look as if it could.
    if low >= 0.0 && padded.0 < 0.0 { (0.0, padded.1) } else { padded }
}

/// From values to points of the canvas.
#[derive(Clone, Debug)]
pub(super) struct Mapping {
    pub(super) log: bool,
    pub(super) low: f64,
    pub(super) high: f64,
    /// Where `low` lies.
    pub(super) start: f64,
    /// Where `high` lies.
    pub(super) end: f64,
    /// Where infinity lies.
    pub(super) beyond: Option<f64>,
}

impl Mapping {
    /// Where a value lies; None if it has no place. What is outside the limits lies outside, but never far.
    pub(super) fn at(&self, value: f64) -> Option<f64> {
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

    /// As [`Mapping::at`], but what is too small for a logarithmic axis lies below its start: for edges of bands.
    pub(super) fn edge(&self, value: f64) -> Option<f64> {
        match self.at(value) {
            None if value <= 0.0 => Some(self.start - 0.2 * (self.end - self.start)),
            None if value == f64::INFINITY => Some(self.end + 0.2 * (self.end - self.start)),
            place => place,
        }
    }

    /// Whether a value is within the limits, or in the strip beyond them.
    pub(super) fn shows(&self, value: f64) -> bool {
        let slack = 1e-9 * (self.high - self.low);
        (value >= self.low - slack && value <= self.high + slack) || (value == f64::INFINITY && self.beyond.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(axis: &Axis, values: &[f64]) -> (f64, f64) {
        axis.resolve(&Extent::of(values.iter().copied()))
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
