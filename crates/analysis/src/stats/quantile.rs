//! Mean, quantiles, and the area under a curve.

/// The arithmetic mean; None of no values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The middle value, or the mean of the two middle ones; None of no values.
///
/// # Panics
/// If a value is not a number.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The quantile at the share `q`, with linear interpolation (type 7 of Hyndman and Fan, the usual default); None of no
/// values. Values may be infinite, as the epoch in which a trial reaches a target that it never reaches. Between a finite value
/// and an infinite one the quantile is infinite.
///
/// # Panics
/// If a value is not a number, or `q` lies outside 0..=1.
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    assert!((0.0..=1.0).contains(&q), "{q} is not a share");
    assert!(!values.iter().any(|value| value.is_nan()), "a quantile needs numbers");
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    quantile_of_sorted(&sorted, q)
}

/// [`quantile`] of values in ascending order.
pub(super) fn quantile_of_sorted(sorted: &[f64], q: f64) -> Option<f64> {
    let position = q * sorted.len().checked_sub(1)? as f64;
    let (low, high) = (sorted[position.floor() as usize], sorted[position.ceil() as usize]);
    let fraction = position.fract();
    // The difference of two infinite values is not a number.
    Some(if low == high { low } else { (low + (high - low) * fraction).clamp(low, high) })
}

/// The area under the polyline through the points `(x, y)`; 0 for fewer than two points.
///
/// # Panics
/// If an `x` is less than the one before it.
pub fn area_under_curve(points: &[(f64, f64)]) -> f64 {
    let strips = points.windows(2).map(|ends| {
        let [(left, from), (right, to)] = [ends[0], ends[1]];
        assert!(left <= right, "a curve goes from left to right, not from {left} to {right}");
        (right - left) * (from + to) / 2.0
    });
    strips.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_that_never_reach_the_target_count_as_last() {
        let never = f64::INFINITY;
        assert_eq!(median(&[never, 3.0, 4.0]), Some(4.0));
        assert_eq!(median(&[never, 3.0]), Some(never));
        assert_eq!(median(&[never, never, 3.0]), Some(never));
        assert_eq!(quantile(&[never, 3.0, 4.0], 0.5), Some(4.0), "the finite value itself, not an interpolation");
    }

    #[test]
    fn few_values_and_few_points() {
        assert_eq!((median(&[]), mean(&[])), (None, None));
        assert_eq!((median(&[7.0]), quantile(&[7.0], 0.9)), (Some(7.0), Some(7.0)));
        assert_eq!((area_under_curve(&[]), area_under_curve(&[(3.0, 5.0)])), (0.0, 0.0));
        assert_eq!(area_under_curve(&[(0.0, 1.0), (1.0, 3.0), (1.0, 0.0), (3.0, 2.0)]), 4.0, "a jump has no area");
    }
}
