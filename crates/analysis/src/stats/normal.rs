//! The normal distribution, to about 13 significant digits even far out in the tails.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, PI};

/// Probability that a standard normal value is at most `x`.
pub fn normal_cdf(x: f64) -> f64 {
    0.5 * erfc(-x * FRAC_1_SQRT_2)
}

/// The quantile of the standard normal distribution; infinite at 0 and 1.
///
/// # Panics
/// If `p` is not in 0..=1.
pub fn normal_quantile(p: f64) -> f64 {
    assert!((0.0..=1.0).contains(&p), "{p} is not a probability");
    if p > 0.5 {
        return -normal_quantile(1.0 - p);
    }
    if p == 0.0 {
        return f64::NEG_INFINITY;
    }
    // A rational approximation to three digits (Hastings 1955), then Halley's method, which triples the digits each round.
    let t = (-2.0 * p.ln()).sqrt();
    let start = (2.515517 + t * (0.802853 + t * 0.010328)) / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
    (0..3).fold(start - t, |x, _| {
        let density = (-0.5 * x * x).exp() / (2.0 * PI).sqrt();
        let step = (normal_cdf(x) - p) / density;
        x - step / (1.0 + 0.5 * x * step)
    })
}

/// Probability that a standard normal value lies at least as far from 0 as `z`.
pub fn two_sided(z: f64) -> f64 {
    erfc(z.abs() * FRAC_1_SQRT_2)
}

/// The complementary error function, `1 - erf(x)`.
fn erfc(x: f64) -> f64 {
    if x < 0.0 {
        2.0 - erfc(-x)
    } else if x < 2.0 {
        1.0 - erf_series(x)
    } else {
        erfc_fraction(x)
    }
}

/// erf(x) = 2/√π · exp(-x²) · Σ 2ⁿ x²ⁿ⁺¹ / (2n + 1)!!, all terms of the same sign, so nothing cancels.
fn erf_series(x: f64) -> f64 {
    let (mut term, mut sum, mut odd) = (x, x, 1.0);
    while term > 1e-18 * sum {
        odd += 2.0;
        term *= 2.0 * x * x / odd;
        sum += term;
    }
    FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

/// erfc(x) = exp(-x²)/√π · 1/(x + ½/(x + 1/(x + 3/2/(x + …)))): from x = 2 on, a hundred terms are more than enough.
fn erfc_fraction(x: f64) -> f64 {
    let denominator = (1..=100).rev().fold(x, |below, k| x + 0.5 * f64::from(k) / below);
    (-x * x).exp() / (PI.sqrt() * denominator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_and_fraction_meet() {
        for x in [1.8, 1.9, 2.0, 2.1] {
            let (near, far) = (1.0 - erf_series(x), erfc_fraction(x));
            assert!((near / far - 1.0).abs() < 1e-12, "{x}: {near} and {far}");
        }
    }

    #[test]
    fn ends_and_middle() {
        assert_eq!(normal_quantile(0.0), f64::NEG_INFINITY);
        assert_eq!(normal_quantile(1.0), f64::INFINITY);
        assert!(normal_quantile(0.5).abs() < 1e-15);
        assert_eq!((normal_cdf(f64::NEG_INFINITY), normal_cdf(f64::INFINITY)), (0.0, 1.0));
        assert_eq!(two_sided(0.0), 1.0);
    }
}
