//! The range of values on an axis.

/// Values of larger (or smaller positive) magnitude are ignored: their differences and ratios would overflow.
pub(crate) const HUGE: f64 = 1e200;
pub(crate) const TINY: f64 = 1e-200;

/// The range of values that marks cover on an axis, and whether they point beyond it. Empty if `min` is above `max`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) min: f64,
    pub(crate) min_positive: f64,
    pub(crate) max: f64,
    pub(crate) open_low: bool,
    pub(crate) open_high: bool,
}

impl Extent {
    pub(crate) const EMPTY: Extent =
        Extent { min: HUGE, min_positive: HUGE, max: -HUGE, open_low: false, open_high: false };

    pub(crate) fn from_values(values: impl IntoIterator<Item = f64>) -> Self {
        let mut extent = Extent::EMPTY;
        // Comparisons with NaN are false.
        for value in values.into_iter().filter(|value| value.abs() < HUGE) {
            extent.min = extent.min.min(value);
            extent.max = extent.max.max(value);
            if value > TINY {
                extent.min_positive = extent.min_positive.min(value);
            }
        }
        extent
    }

    pub(crate) fn join(self, other: Extent) -> Extent {
        Extent {
            min: self.min.min(other.min),
            min_positive: self.min_positive.min(other.min_positive),
            max: self.max.max(other.max),
            open_low: self.open_low || other.open_low,
            open_high: self.open_high || other.open_high,
        }
    }
}
