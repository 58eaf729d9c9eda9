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
    #[should_panic(expected = "dispersion is not negative")]
    fn negative_dispersions_are_refused() {
        softmax(-1.0, 3);
    }
}
