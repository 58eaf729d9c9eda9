//! Student's t distribution with a whole number of degrees of freedom.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};

/// Probability that a value lies at least as far from 0 as `t`.
///
/// # Panics
/// Without degrees of freedom.
pub fn student_two_sided(t: f64, freedom: usize) -> f64 {
    assert!(freedom > 0, "there are degrees of freedom");
    if t.is_infinite() {
        return 0.0;
    }
    // Abramowitz and Stegun 26.7.3 and 26.7.4: finite sums of powers of cos² θ with tan θ = t / √freedom.
    let angle = (t.abs() / (freedom as f64).sqrt()).atan();
    let (sine, square) = (angle.sin(), angle.cos().powi(2));
    let odd = freedom % 2 == 1;
    let mut term = if odd { angle.cos() } else { 1.0 };
    let mut sum = 0.0;
    let mut order = if odd { 3 } else { 2 };
    while order <= freedom {
        sum += term;
        term *= square * (order - 1) as f64 / order as f64;
        order += 2;
    }
    let within = if odd { FRAC_2_PI * (angle + sine * sum) } else { sine * (sum) };
    (1.0 - within).clamp(0.0, 1.0)
}

/// The value that is exceeded in size with probability `level`.
///
/// # Panics
/// If `level` is not between 0 and 1, or without degrees of freedom.
pub fn student_quantile(level: f64, freedom: usize) -> f64 {
    assert!(level > 0.0 && level < 1.0, "{level} is a probability between 0 and 1");
    // Bisection of the angle, in which the probability is smooth up to infinity.
    let (mut low, mut high) = (0.0, FRAC_PI_2);
    for _ in 0..60 {
        let middle: f64 = 0.5 * (low + high);
        if student_two_sided(middle.tan(), freedom) > level { low = middle } else { high = middle }
    }
    high.tan()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the tables in every textbook.
    #[test]
    fn quantiles_of_the_tables() {
        for (freedom, level, expected) in [
            (1, 0.05, 12.706),
            (2, 0.05, 4.303),
            (2, 0.1, 2.920),
            (3, 0.05, 3.182),
            (4, 0.01, 4.604),
            (5, 0.05, 2.571),
            (9, 0.1, 1.833),
            (10, 0.05, 2.228),
            (30, 0.05, 2.042),
            (120, 0.05, 1.980),
        ] {
            let found = student_quantile(level, freedom);
            assert!((found - expected).abs() < 6e-4, "{freedom} degrees, {level}: {found}");
            assert!((student_two_sided(found, freedom) - level).abs() < 1e-12);
        }
    }

    #[test]
    fn the_middle_and_the_ends() {
        for freedom in 1..8 {
            assert_eq!(student_two_sided(0.0, freedom), 1.0);
            assert_eq!(student_two_sided(f64::INFINITY, freedom), 0.0);
        }
        // One degree of freedom is Cauchy's distribution: half of it lies beyond 1.
        assert!((student_two_sided(1.0, 1) - 0.5).abs() < 1e-15);
    }
}
