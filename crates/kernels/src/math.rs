//! Functions of sixteen lanes: exponential, error function, activations and their derivatives.

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
    // Minimax polynomial of (e^r - 1 - r) / r^2 on that interval (Cephes library, S. Moshier).
    let mut p = simd.splat(1.987_569_1e-4);
    for coefficient in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        p = simd.fma(p, r, simd.splat(coefficient));
    }
    let e_r = simd.add(simd.fma(p, simd.mul(r, r), r), simd.splat(1.0));
    simd.mul(e_r, simd.pow2(n))
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
