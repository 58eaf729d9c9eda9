//! How much the weights of attention can change when scores do: constants C with
//! `‖weights(z) − weights(z̄)‖₁ ≤ C ‖z − z̄‖₁`. Proofs are in `docs/theory.md`; the tests try to break them.

/// Softmax over `n` keys whose scores lie within `dispersion` of each other, before and after the change: `2p(1−p)` at
/// `p = min(½, e^δ / (e^δ + n − 1))`. A single key has weight 1 whatever its score.
///
/// # Panics
/// If there is no key, or the dispersion is negative or not a number.
pub fn softmax(dispersion: f64, n: usize) -> f64 {
    check(dispersion, n);
    if n == 1 {
        return 0.0;
    }
    let p = greatest_weight(dispersion, n).min(0.5);
    2.0 * p * (1.0 - p)
}

/// The greatest weight that one of `n` keys can have: `e^δ / (e^δ + n − 1)`.
pub(crate) fn greatest_weight(dispersion: f64, n: usize) -> f64 {
    // Divided by e^δ, which may be beyond all numbers.
    1.0 / (1.0 + (n - 1) as f64 * (-dispersion).exp())
}

/// Softmax over the `k` highest scores, where before and after the change the kept scores lie within `dispersion` of each
/// other and the lowest of them at least `separation` above the highest dropped one.
///
/// The greatest of three effects: kept keys alone (`softmax(δ, k)`), kept keys beside `m` that are exchanged, and the
/// exchange itself (`e^δ / (e^δ + k − 1) / Δ`). Without separation there is no such constant: it is infinite.
///
/// # Panics
/// If there is no key, or the dispersion or the separation is negative or not a number.
pub fn top_k(dispersion: f64, separation: f64, k: usize) -> f64 {
    check(dispersion, k);
    assert!(separation >= 0.0, "separation is not negative, got {separation}");
    let exchange = greatest_weight(dispersion, k) / separation;
    let beside = (0..k).map(|exchanged| {
        let common = (k - exchanged) as f64;
        let mass = 1.0 / (1.0 + exchanged as f64 * (-dispersion).exp() / common);
        mass * softmax(dispersion, k - exchanged)
    });
    beside.fold(exchange, f64::max)
}

/// Softmax over a fixed set of `k` keys: the constant of [`softmax`] with the dispersion of the keys it holds, which were
/// chosen without looking at the scores and so may have the dispersion of all keys.
///
/// # Panics
/// If there is no key, or the dispersion is negative or not a number.
pub fn fixed_pattern(dispersion_of_all: f64, k: usize) -> f64 {
    softmax(dispersion_of_all, k)
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
        // Wide separation: only the kept keys matter. None: there is no constant.
        assert_eq!(top_k(0.0, 1e9, 2), softmax(0.0, 2));
        assert!((top_k(0.0, 0.01, 4) - 25.0).abs() < 1e-9);
        assert_eq!(top_k(1.0, 0.0, 3), f64::INFINITY);
    }

    #[test]
    #[should_panic(expected = "dispersion is not negative")]
    fn senseless_dispersions_are_refused() {
        softmax(-1.0, 3);
    }
}
