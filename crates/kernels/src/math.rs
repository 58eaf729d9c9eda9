//! Functions of sixteen lanes: exponential, logarithm, error function, activations and their derivatives.

use crate::Activation;
use crate::simd::Simd;

/// `e^x`, within two units in the last place; below -87 it stays at about 1e-38. NaN stays NaN.
#[inline(always)]
pub(crate) fn exp<S: Simd>(simd: S, x: S::F) -> S::F {
    // The second operand wins when a comparison fails, so `x` comes second: NaN must pass.
    let x = simd.min(simd.splat(88.3), simd.max(simd.splat(-87.3), x));
    // e^x = 2^n e^r with |r| <= ln(2)/2; ln(2) in two parts keeps r exact.
    let n = simd.round(simd.mul(x, simd.splat(std::f32::consts::LOG2_E)));
    let r = simd.fma(n, simd.splat(-355.0 / 512.0), x);
    let r = simd.fma(n, simd.splat(2.121_944_4e-4), r);
    let e_r = simd.add(simd.fma(exp_polynomial(simd, r), simd.mul(r, r), r), simd.splat(1.0));
    simd.mul(e_r, simd.pow2(n))
}

/// `(e^r - 1 - r) / r²` for |r| <= ln(2)/2: the minimax polynomial of the Cephes library (S. Moshier).
#[inline(always)]
fn exp_polynomial<S: Simd>(simd: S, r: S::F) -> S::F {
    let mut p = simd.splat(1.987_569_1e-4);
    for coefficient in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        p = simd.fma(p, r, simd.splat(coefficient));
    }
    p
}

/// `e^x - 1` and `e^x - 1 - x`, accurate where `x` is small too: the first within 1e-6 of its value, the second within 4e-6.
#[inline(always)]
pub(crate) fn exp_remainders<S: Simd>(simd: S, x: S::F) -> (S::F, S::F) {
    let squared = simd.mul(x, x);
    let small = simd.mul(exp_polynomial(simd, x), squared);
    let large = simd.sub(exp(simd, x), simd.splat(1.0));
    // The polynomial holds up to ln(2)/2 = 0.346.
    let is_small = simd.sub(simd.splat(0.34 * 0.34), squared);
    (simd.where_positive(is_small, simd.add(x, small), large), simd.where_positive(is_small, small, simd.sub(large, x)))
}

/// `ln x` within 1.5e-7 of its value, for finite `x` that is zero or normal: minus infinity at zero and below. NaN stays NaN.
#[inline(always)]
pub(crate) fn ln<S: Simd>(simd: S, x: S::F) -> S::F {
    // x = 2^n (1 + f); ln(2) in two parts, the small terms first.
    let (mantissa, n) = simd.mantissa_and_exponent(x);
    let f = simd.sub(mantissa, simd.splat(1.0));
    let squared = simd.mul(f, f);
    // Minimax polynomial of (ln(1 + f) - f + f²/2) / f³ on that interval (Cephes library, S. Moshier).
    let mut p = simd.splat(7.037_683_6e-2);
    for coefficient in [
        -1.151_461e-1,
        1.167_699_9e-1,
        -1.242_014_1e-1,
        1.424_932_3e-1,
        -1.666_805_8e-1,
        2.000_071_5e-1,
        -2.499_999_4e-1,
        3.333_333e-1,
    ] {
        p = simd.fma(p, f, simd.splat(coefficient));
    }
    let small = simd.fma(n, simd.splat(-2.121_944_4e-4), simd.mul(simd.mul(p, f), squared));
    let small = simd.fma(squared, simd.splat(-0.5), small);
    let ln = simd.fma(n, simd.splat(355.0 / 512.0), simd.add(f, small));
    simd.where_positive(x, ln, simd.sub(x, simd.splat(f32::INFINITY)))
}

/// `ln(1 + x)`, accurate where `x` is small too; minus infinity for finite `x` up to -1.
#[inline(always)]
pub(crate) fn ln_1p<S: Simd>(simd: S, x: S::F) -> S::F {
    let one = simd.splat(1.0);
    let sum = simd.add(one, x);
    // What the rounded sum lacks, over the sum, and 1 / sum is near 2 - sum. Below -1/2 the sum is exact, beyond 1 its
    // rounding does not matter.
    let lost = simd.sub(x, simd.sub(sum, one));
    let inverse = simd.max(simd.sub(simd.splat(2.0), sum), simd.splat(0.0));
    simd.fma(lost, inverse, ln(simd, sum))
}

/// Distribution function of the normal distribution and `e^(-x²/2)`, both within 2e-7.
#[inline(always)]
fn normal<S: Simd>(simd: S, x: S::F) -> (S::F, S::F) {
    let zero = simd.splat(0.0);
    let magnitude = simd.max(x, simd.sub(zero, x));
    let bell = exp(simd, simd.mul(simd.mul(x, x), simd.splat(-0.5)));
    // Complementary error function of |x|/√2 as bell times a polynomial (Abramowitz and Stegun, 7.1.26).
    let one = simd.splat(1.0);
    let t = simd.div(one, simd.fma(magnitude, simd.splat(0.327_591_1 * std::f32::consts::FRAC_1_SQRT_2), one));
    let mut p = simd.splat(1.061_405_4);
    for coefficient in [-1.453_152_1, 1.421_413_8, -0.284_496_72, 0.254_829_6] {
        p = simd.fma(p, t, simd.splat(coefficient));
    }
    let tail = simd.mul(simd.mul(simd.mul(p, t), bell), simd.splat(0.5));
    (simd.where_positive(x, simd.sub(one, tail), tail), bell)
}

/// `tanh(ln(1 + e^x))` as `n / (n + 2)` with `n = e^x (e^x + 2)`: no cancellation for either sign.
#[inline(always)]
fn tanh_softplus<S: Simd>(simd: S, x: S::F) -> (S::F, S::F) {
    // Beyond 20 the quotient is 1 in f32, and its square must not overflow.
    let e = exp(simd, simd.min(x, simd.splat(20.0)));
    let two = simd.splat(2.0);
    let n = simd.mul(e, simd.add(e, two));
    (simd.div(n, simd.add(n, two)), e)
}

/// The activation of sixteen values.
#[inline(always)]
pub(crate) fn activate<S: Simd>(simd: S, activation: Activation, x: S::F) -> S::F {
    match activation {
        Activation::Relu => simd.max(x, simd.splat(0.0)),
        Activation::Gelu => simd.mul(x, normal(simd, x).0),
        Activation::Mish => simd.mul(x, tanh_softplus(simd, x).0),
    }
}

/// The activation of sixteen values and its derivative there.
#[inline(always)]
pub(crate) fn activate_with_slope<S: Simd>(simd: S, activation: Activation, x: S::F) -> (S::F, S::F) {
    let (zero, one) = (simd.splat(0.0), simd.splat(1.0));
    match activation {
        Activation::Relu => (simd.max(x, zero), simd.where_positive(x, one, zero)),
        Activation::Gelu => {
            let (probability, bell) = normal(simd, x);
            let density = simd.mul(bell, simd.splat(0.398_942_3));
            (simd.mul(x, probability), simd.fma(x, density, probability))
        }
        Activation::Mish => {
            // With t = tanh(softplus(x)): t' = (1 - t²) e^x / (1 + e^x).
            let (t, e) = tanh_softplus(simd, x);
            let sigmoid = simd.div(e, simd.add(e, one));
            let t_slope = simd.mul(simd.sub(one, simd.mul(t, t)), sigmoid);
            (simd.mul(x, t), simd.fma(x, t_slope, t))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::dispatched;

    dispatched! {
        fn exp_of(simd; x: &[f32; 16]) -> [f32; 16] {
            let mut out = [0.0; 16];
            simd.store(&mut out, exp(simd, simd.load(x)));
            out
        }
    }

    dispatched! {
        fn exp_remainders_of(simd; x: &[f32; 16]) -> ([f32; 16], [f32; 16]) {
            let mut out = ([0.0; 16], [0.0; 16]);
            let (first, second) = exp_remainders(simd, simd.load(x));
            simd.store(&mut out.0, first);
            simd.store(&mut out.1, second);
            out
        }
    }

    dispatched! {
        fn ln_of(simd; x: &[f32; 16]) -> ([f32; 16], [f32; 16]) {
            let mut out = ([0.0; 16], [0.0; 16]);
            simd.store(&mut out.0, ln(simd, simd.load(x)));
            simd.store(&mut out.1, ln_1p(simd, simd.load(x)));
            out
        }
    }

    dispatched! {
        fn activation_of(simd; activation: Activation, x: &[f32; 16]) -> ([f32; 16], [f32; 16], [f32; 16]) {
            let mut out = ([0.0; 16], [0.0; 16], [0.0; 16]);
            let (value, slope) = activate_with_slope(simd, activation, simd.load(x));
            simd.store(&mut out.0, value);
            simd.store(&mut out.1, slope);
            simd.store(&mut out.2, activate(simd, activation, simd.load(x)));
            out
        }
    }

    fn grid() -> impl Iterator<Item = [f32; 16]> {
        (-640..640).map(|i| std::array::from_fn(|lane| (i as f32 + lane as f32 / 16.0) / 40.0))
    }

    #[test]
    fn exp_is_within_two_units_in_the_last_place() {
        for x in grid().map(|x| x.map(|x| 5.0 * x)) {
            for (x, y) in x.iter().zip(exp_of(&x)) {
                let exact = f64::from(*x).exp();
                assert!((f64::from(y) / exact - 1.0).abs() < 2.4e-7 || *x < -87.0, "exp({x}) = {y}, not {exact}");
            }
        }
        let far = exp_of(&[-1e4; 16])[0];
        assert!((0.0..2e-38).contains(&far));
        assert_eq!(exp_of(&[f32::NEG_INFINITY; 16])[0], far);
    }

    #[test]
    fn exp_passes_nan_in_its_lane_only() {
        let mut x = [1.0; 16];
        (x[0], x[7], x[15]) = (f32::NAN, -f32::NAN, f32::NAN);
        for (x, y) in x.into_iter().zip(exp_of(&x)) {
            assert_eq!(y.is_nan(), x.is_nan());
        }
    }

    /// Panics unless the difference is at most `tolerance` times the exact value.
    fn assert_close(name: &str, x: f32, y: f32, exact: f64, tolerance: f64) {
        assert!((f64::from(y) - exact).abs() <= tolerance * exact.abs(), "{name}({x}) = {y}, not {exact}");
    }

    #[test]
    fn exp_remainders_are_accurate_near_zero_too() {
        for scale in [1e-6, 1e-3, 0.05, 1.0, 5.0] {
            for x in grid().map(|x| x.map(|x| scale * x)) {
                let (firsts, seconds) = exp_remainders_of(&x);
                for (x, (first, second)) in x.into_iter().zip(firsts.into_iter().zip(seconds)) {
                    let wide = f64::from(x);
                    let mut series = 0.0;
                    for n in (2..20).rev() {
                        series = (series + 1.0) * wide / f64::from(n);
                    }
                    let exact = if wide.abs() < 0.5 { series * wide } else { wide.exp_m1() - wide };
                    assert_close("exp_m1", x, first, wide.exp_m1(), 1e-6);
                    assert_close("exp_m1_less_x", x, second, exact, 4e-6);
                }
            }
        }
    }

    #[test]
    fn ln_is_accurate_for_all_magnitudes_and_near_one() {
        for power in -125..127 {
            let x: [f32; 16] = std::array::from_fn(|lane| (1.0 + lane as f32 / 16.0) * 2f32.powi(power));
            for (x, y) in x.into_iter().zip(ln_of(&x).0) {
                assert_close("ln", x, y, f64::from(x).ln(), 1.5e-7);
            }
        }
        for x in grid().map(|x| x.map(|x| 1.0 + x / 20.0)) {
            for (x, y) in x.into_iter().zip(ln_of(&x).0) {
                assert_close("ln", x, y, f64::from(x).ln(), 1.5e-7);
            }
        }
        for scale in [1e-7, 1e-4, 0.01, 0.06] {
            for x in grid().map(|x| x.map(|x| scale * x)) {
                for (x, y) in x.into_iter().zip(ln_of(&x).1) {
                    assert_close("ln_1p", x, y, f64::from(x).ln_1p(), 2e-7);
                }
            }
        }
        for x in grid().map(|x| x.map(|x| 20.0 * (16.0 + x))) {
            for (x, y) in x.into_iter().zip(ln_of(&x).1) {
                assert_close("ln_1p", x, y, f64::from(x).ln_1p(), 2e-7);
            }
        }
        let mut edges = [0.0; 16];
        (edges[1], edges[2], edges[3]) = (-1.0, f32::NAN, f32::MIN_POSITIVE);
        let (ln, ln_1p) = ln_of(&edges);
        assert_eq!(ln[..2], [f32::NEG_INFINITY; 2]);
        assert!(ln[2].is_nan() && ln_1p[2].is_nan());
        assert_close("ln", edges[3], ln[3], f64::from(f32::MIN_POSITIVE).ln(), 1.5e-7);
        assert_eq!((ln_1p[0], ln_1p[1]), (0.0, f32::NEG_INFINITY));
    }

    /// Error function by its Taylor series in f64; beyond 4 its terms cancel too much.
    fn erf(x: f64) -> f64 {
        let (mut sum, mut term) = (0.0, x);
        for n in 0..200 {
            sum += term / f64::from(2 * n + 1);
            term *= -x * x / f64::from(n + 1);
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    }

    #[test]
    fn activations_and_slopes_equal_their_definitions() {
        for activation in [Activation::Relu, Activation::Gelu, Activation::Mish] {
            let definition = |x: f64| match activation {
                Activation::Relu => x.max(0.0),
                Activation::Gelu => x * 0.5 * (1.0 + erf(x / 2f64.sqrt())),
                Activation::Mish => x * x.exp().ln_1p().tanh(),
            };
            for x in grid() {
                let (values, slopes, plain) = activation_of(activation, &x);
                assert_eq!(values, plain);
                for lane in 0..16 {
                    let at = f64::from(x[lane]);
                    if activation == Activation::Gelu && at.abs() > 5.0 {
                        continue;
                    }
                    let h = 1e-5;
                    let slope = (definition(at + h) - definition(at - h)) / (2.0 * h);
                    assert!((f64::from(values[lane]) - definition(at)).abs() < 3e-6, "{activation:?}({at})");
                    if !(activation == Activation::Relu && at.abs() < h) {
                        assert!((f64::from(slopes[lane]) - slope).abs() < 3e-6, "{activation:?}'({at})");
                    }
                }
            }
        }
        for activation in [Activation::Relu, Activation::Gelu, Activation::Mish] {
            let (values, slopes, _) = activation_of(activation, &[1e4; 16]);
            assert_eq!((values[0], slopes[0]), (1e4, 1.0));
            let (values, slopes, _) = activation_of(activation, &[-1e4; 16]);
            assert!(values[0].abs() < 1e-30 && slopes[0].abs() < 1e-30);
        }
    }
}
