//! How much attention weights can change with the scores: constants C with `‖weights(z) − weights(z̄)‖₁ ≤ C ‖z − z̄‖₁`. They are
//! the definition of what `docs/theory.md` proves; the tests search for pairs that violate them.

/// The constant of softmax over `n` keys whose scores lie within `dispersion` δ of each other, before and after the change:
/// `2p(1−p)` at `p = min(½, e^δ / (e^δ + n − 1))`. A single key always has weight 1.
///
/// # Panics
/// If there is no key, or the dispersion is negative or not a number.
pub fn softmax(dispersion: f64, n: usize) -> f64 {
    check(dispersion, n);
    if n == 1 {
        return 0.0;
    }
    let p = max_weight(dispersion, n).min(0.5);
    2.0 * p * (1.0 - p)
}

/// The largest weight that one of `n` keys can have: `e^δ / (e^δ + n − 1)`.
pub(crate) fn max_weight(dispersion: f64, n: usize) -> f64 {
    // Divided by e^δ, which may overflow.
    1.0 / (1.0 + (n - 1) as f64 * (-dispersion).exp())
}

/// The constant of softmax over the `k` highest scores, where before and after the change the kept scores lie within
/// `dispersion` δ of each other and at least `separation` Δ above the dropped ones.
///
/// The largest of three effects: kept keys alone (`softmax(δ, k)`), kept keys while `m` others are exchanged, and the exchange
/// itself (`e^δ / (e^δ + k − 1) / Δ`). Without separation the constant is infinite.
///
/// # Panics
/// If there is no key, or the dispersion or the separation is negative or not a number.
pub fn top_k(dispersion: f64, separation: f64, k: usize) -> f64 {
    check(dispersion, k);
    assert!(separation >= 0.0, "separation is not negative, got {separation}");
    let exchange = max_weight(dispersion, k) / separation;
    let kept = (0..k).map(|exchanged| {
        let common = (k - exchanged) as f64;
        let mass = 1.0 / (1.0 + exchanged as f64 * (-dispersion).exp() / common);
        mass * softmax(dispersion, k - exchanged)
    });
    kept.fold(exchange, f64::max)
}

/// The constant of softmax over `n` keys of which only the `k` highest keep their weight, without dividing by its sum: kept scores
/// at least `separation` Δ above the dropped ones, and all scores within `dispersion` δ of each other, before and after.
///
/// # Panics
/// As [`top_k`].
pub fn masked_top_k(dispersion: f64, separation: f64, n: usize) -> f64 {
    assert!(separation >= 0.0, "separation is not negative, got {separation}");
    softmax(dispersion, n) + max_weight(dispersion, n) / separation
}

/// The constant of α-entmax over `n` keys, whatever their scores: `2 (a / (1 + a))^(3 − α)` with `a = (n − 1)^((α − 1)/(3 − α))`.
/// It is ½ for α = 1, the softmax, and `2(1 − 1/n)` for α = 2, sparsemax.
///
/// # Panics
/// If there is no key, or α is not from 1 to 2.
pub fn entmax(alpha: f64, n: usize) -> f64 {
    check(0.0, n);
    assert!((1.0..=2.0).contains(&alpha), "α is from 1 to 2, got {alpha}");
    if n == 1 {
        return 0.0;
    }
    let a = ((n - 1) as f64).powf((alpha - 1.0) / (3.0 - alpha));
    2.0 * (a / (1.0 + a)).powf(3.0 - alpha)
}

/// The constant of sparsemax over `n` keys, whatever their scores: `2(1 − 1/n)`.
///
/// # Panics
/// If there is no key.
pub fn sparsemax(n: usize) -> f64 {
    entmax(2.0, n)
}

/// The constant of sigmoid attention: the largest slope of the logistic function.
pub const SIGMOID: f64 = 0.25;

/// The constant of ReLU attention over `n` keys, whose weights are the positive scores divided by `n`.
///
/// # Panics
/// If there is no key.
pub fn relu(n: usize) -> f64 {
    check(0.0, n);
    1.0 / n as f64
}

/// The constant of weights that are computed from the scores times `factor`, from that of the weights without it; `constant` is
/// given the factor, because it multiplies dispersion and separation, too.
pub fn scaled(factor: f64, constant: impl FnOnce(f64) -> f64) -> f64 {
    factor * constant(factor)
}

fn check(dispersion: f64, n: usize) {
    assert!(n > 0, "there is at least one key");
    assert!(dispersion >= 0.0, "dispersion is not negative, got {dispersion}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_agree_with_a_few_by_hand() {
        // Two keys of equal score: p = ½. Many: p = 1/n.
        assert_eq!(softmax(0.0, 2), 0.5);
        assert!((softmax(0.0, 10) - 2.0 * 0.1 * 0.9).abs() < 1e-15);
        // e^ln 9 = 9: p = min(½, 9/18).
        assert_eq!(softmax(9f64.ln(), 10), 0.5);
        assert_eq!((softmax(1e6, 5), softmax(3.0, 1)), (0.5, 0.0));
        // With a wide separation only the kept keys matter; without one the constant is infinite.
        assert_eq!(top_k(0.0, 1e9, 2), softmax(0.0, 2));
        assert!((top_k(0.0, 0.01, 4) - 25.0).abs() < 1e-9);
        assert_eq!(top_k(1.0, 0.0, 3), f64::INFINITY);
    }

    #[test]
    fn constants_of_other_weightings_agree_with_a_few_by_hand() {
        assert_eq!((sparsemax(1), sparsemax(2), sparsemax(4)), (0.0, 1.0, 1.5));
        assert_eq!((entmax(1.0, 2), entmax(1.0, 50)), (0.5, 0.5));
        // Two keys, α = 1.5: a = 1.
        assert!((entmax(1.5, 2) - 0.5f64.sqrt()).abs() < 1e-15);
        // Nine keys, α = 1.5: a = 2.
        assert!((entmax(1.5, 9) - 2.0 * (2f64 / 3.0).powf(1.5)).abs() < 1e-15);
        assert_eq!((relu(4), SIGMOID), (0.25, 0.25));
        assert_eq!(masked_top_k(0.0, 0.5, 2), 0.5 + 1.0);
        assert_eq!(scaled(3.0, |factor| softmax(factor * 0.0, 2)), 1.5);
    }

    #[test]
    #[should_panic(expected = "dispersion is not negative")]
    fn negative_dispersions_are_refused() {
        softmax(-1.0, 3);
    }
}
