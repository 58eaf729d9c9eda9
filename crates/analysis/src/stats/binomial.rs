//! The binomial distribution: how often luck alone gets a number of examples right.

/// Probability of at least `hits` in `trials` independent trials that succeed with this probability each.
pub fn binomial_tail(hits: usize, trials: usize, probability: f64) -> f64 {
    if hits == 0 || probability >= 1.0 {
        return 1.0;
    }
    if hits > trials || probability <= 0.0 {
        return 0.0;
    }
    // The logarithm of the first term, then each term from the one before it.
    let ln_choices: f64 = (1..=trials - hits).map(|i| ((hits + i) as f64 / i as f64).ln()).sum();
    let first = ln_choices + hits as f64 * probability.ln() + (trials - hits) as f64 * (1.0 - probability).ln();
    let odds = probability / (1.0 - probability);
    let (mut term, mut sum) = (1.0f64, 0.0);
    for count in hits..=trials {
        sum += term;
        if term < 1e-17 * sum && count as f64 > trials as f64 * probability {
            break;
        }
        term *= (trials - count) as f64 / (count + 1) as f64 * odds;
    }
    (first + sum.ln()).exp().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coins_by_hand() {
        assert!((binomial_tail(9, 10, 0.5) - 11.0 / 1024.0).abs() < 1e-15);
        assert!((binomial_tail(1, 3, 0.2) - (1.0 - 0.512)).abs() < 1e-15);
        assert_eq!((binomial_tail(0, 5, 0.3), binomial_tail(6, 5, 0.3)), (1.0, 0.0));
        assert_eq!((binomial_tail(3, 5, 1.0), binomial_tail(3, 5, 0.0)), (1.0, 0.0));
    }

    #[test]
    fn many_trials_are_nearly_normal() {
        // 1,000 ± 22.4: 1,050.5 is 2.258 standard errors above the mean.
        let found = binomial_tail(1051, 2000, 0.5);
        let normal = crate::stats::two_sided(50.5 / 500f64.sqrt()) / 2.0;
        assert!((found / normal - 1.0).abs() < 0.01, "{found} and {normal}");
        assert!((binomial_tail(1, 100_000, 0.5) - 1.0).abs() < 1e-9);
        assert!(binomial_tail(100_000, 100_000, 0.5) < 1e-300);
    }
}
