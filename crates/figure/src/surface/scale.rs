//! One scale for the losses of all surfaces, robust to a few diverged values.

use super::Surface;

/// The smallest and the largest loss that figures of these surfaces distinguish, on a logarithmic scale.
///
/// Exploding losses, or a few close to zero, must not make the rest of the surface look flat. Of the finite positive
/// losses of all surfaces, the upper end is therefore the smallest of: the 99th percentile, the loss before a jump by more
/// than a factor of 1000, and 10⁶ times the 2nd percentile. The lower end is the smallest loss, but not below 1/1000 of the
/// 2nd percentile. Losses outside, including those of 0 and below, get the colour and height of the nearer end.
pub fn shown_range(surfaces: &[Surface]) -> (f64, f64) {
    let values = surfaces.iter().flat_map(|surface| surface.rows.iter().flatten()).copied();
    let mut positive: Vec<f64> = values.filter(|value| value.is_finite() && *value > 0.0).collect();
    positive.sort_by(f64::total_cmp);
    let Some(&min) = positive.first() else { return (1.0, 10.0) };
    let rank = |share: f64| (share * (positive.len() - 1) as f64).round() as usize;
    let (valley, top) = (positive[rank(0.02)], positive[rank(0.99)]);
    let jump = positive[rank(0.02)..].windows(2).find(|pair| pair[1] > 1e3 * pair[0]);
    let high = top.min(jump.map_or(f64::INFINITY, |pair| pair[0])).min(1e6 * valley).min(1e100);
    // Ratios of more extreme numbers would overflow.
    let low = min.max(1e-3 * valley).clamp(1e-100, 1e100);
    if high > 1.001 * low { (low, high) } else { (low / 1.5, low * 1.5) }
}

/// Clamps finite values to the range; others become NaN.
pub(super) fn clipped(rows: &[Vec<f64>], (low, high): (f64, f64)) -> Vec<Vec<f64>> {
    let clip = |&value: &f64| if value.is_finite() { value.clamp(low, high) } else { f64::NAN };
    rows.iter().map(|row| row.iter().map(clip).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn surface(values: Vec<f64>) -> Surface {
        Surface { name: "full".to_owned(), range: 1.0, rows: values.chunks(10).map(<[f64]>::to_vec).collect() }
    }

    /// A hundred values from 0.001 to 10 at equal ratios.
    fn valley() -> Vec<f64> {
        (0..100).map(|step| 10f64.powf(-3.0 + 4.0 * f64::from(step) / 99.0)).collect()
    }

    #[test]
    fn diverged_values_do_not_flatten_the_rest() {
        let (low, high) = shown_range(&[surface(valley())]);
        assert!((low - 0.001).abs() < 1e-9 && high > 9.0 && high <= 10.0, "{low} {high}");
        let mut diverged = valley();
        // Of 100 values, 30 have exploded: the scale ends where the others do.
        for value in &mut diverged[70..] {
            *value = 1e30;
        }
        diverged[0] = f64::NAN;
        diverged[1] = f64::INFINITY;
        diverged[2] = -1.0;
        diverged[3] = 1e-30;
        let expected = diverged[69];
        let (low, high) = shown_range(&[surface(diverged)]);
        assert!(low > 1e-6 && low < 1e-5 && high == expected, "{low} {high}");
        let gradually: Vec<f64> = (0..100).map(|step| 10f64.powf(-3.0 + 0.3 * f64::from(step))).collect();
        let (low, high) = shown_range(&[surface(gradually)]);
        assert!((low - 0.001).abs() < 1e-9 && high > 1e3 && high < 1e4, "{low} {high}");
    }

    #[test]
    fn strange_values_still_have_a_range() {
        let strange: [&[f64]; 8] = [
            &[],
            &[f64::NAN],
            &[0.0, -1.0],
            &[3.0],
            &[f64::MAX],
            &[5e-324],
            &[f64::MIN_POSITIVE, f64::MAX],
            &[1.0, 1.0],
        ];
        for values in strange {
            let range = shown_range(&[surface(values.to_vec())]);
            assert!(range.0 > 0.0 && range.1 > range.0 && range.1.is_finite(), "{values:?}: {range:?}");
        }
    }

    #[test]
    fn clipping_leaves_holes() {
        let rows = clipped(&[vec![0.0, 5.0, 1e30, f64::INFINITY, f64::NAN]], (1.0, 10.0));
        assert_eq!(rows[0][..3], [1.0, 5.0, 10.0]);
        assert!(rows[0][3].is_nan() && rows[0][4].is_nan());
    }
}
