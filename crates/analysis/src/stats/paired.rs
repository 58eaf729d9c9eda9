//! Paired values: Wilcoxon's signed-rank test, and how large the difference is.

use serde::Serialize;

use super::normal::two_sided;
use super::quantile::{mean, median};

/// Up to this many differences other than 0 the p-value is exact; with more it is a normal approximation.
pub const EXACT_VALUES: usize = 50;

/// Wilcoxon's signed-rank test, two-sided. The null hypothesis is that the differences are symmetric about 0, as they are if
/// it makes no difference which value of a pair comes first.
///
/// Differences of 0 are dropped before ranking, as Wilcoxon did: they say nothing about the direction, but many of them are
/// evidence of no effect, which the test ignores. Equal sizes share their mean rank, and the exact p-value takes the tied ranks
/// into account. Only identical numbers tie, so differences that should tie have to be rounded first.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SignedRank {
    /// Differences other than 0.
    pub used: usize,
    /// Sum of the ranks of the positive differences.
    pub positive: f64,
    /// Sum of the ranks of the negative differences.
    pub negative: f64,
    /// Two-sided; 1 if all differences are 0.
    pub p_value: f64,
    /// Whether the p-value is exact, or a normal approximation with the variance of the tied ranks and no continuity correction.
    pub exact: bool,
}

impl SignedRank {
    /// Runs the test.
    ///
    /// # Panics
    /// If one is infinite or not a number.
    pub fn new(differences: &[f64]) -> Self {
        assert!(differences.iter().all(|d| d.is_finite()), "differences are finite numbers");
        let mut nonzero: Vec<f64> = differences.iter().copied().filter(|&d| d != 0.0).collect();
        nonzero.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
        let doubled = doubled_ranks(&nonzero);
        let total: usize = doubled.iter().sum();
        let positive: usize = nonzero.iter().zip(&doubled).filter(|(d, _)| **d > 0.0).map(|(_, rank)| rank).sum();
        let exact = nonzero.len() <= EXACT_VALUES;
        let lesser = positive.min(total - positive);
        let p_value = if exact { exact_p_value(&doubled, lesser) } else { normal_p_value(&doubled, lesser) };
        let (positive, negative) = (positive as f64 / 2.0, (total - positive) as f64 / 2.0);
        SignedRank { used: nonzero.len(), positive, negative, p_value, exact }
    }
}

/// Twice the rank of each size: an integer even where ties share a mean rank.
fn doubled_ranks(ascending: &[f64]) -> Vec<usize> {
    let mut ranks = Vec::with_capacity(ascending.len());
    for tied in ascending.chunk_by(|a, b| a.abs() == b.abs()) {
        let (first, last) = (ranks.len() + 1, ranks.len() + tied.len());
        ranks.extend(std::iter::repeat_n(first + last, tied.len()));
    }
    ranks
}

/// Twice the probability that the positive ranks sum to `lesser` or less if all signs are equally likely. The number of sign
/// choices for each sum is built up rank by rank; there are at most 2^50, which an f64 holds exactly.
fn exact_p_value(ranks: &[usize], lesser: usize) -> f64 {
    let mut ways = vec![0u64; ranks.iter().sum::<usize>() + 1];
    ways[0] = 1;
    for &rank in ranks {
        for sum in (rank..ways.len()).rev() {
            ways[sum] += ways[sum - rank];
        }
    }
    let tail: u64 = ways[..=lesser].iter().sum();
    let all = (1u64 << ranks.len()) as f64;
    (2.0 * tail as f64 / all).min(1.0)
}

/// A sum of independent ranks, each counted with probability 1/2: mean Σr/2, variance Σr²/4.
fn normal_p_value(ranks: &[usize], lesser: usize) -> f64 {
    let mean = ranks.iter().sum::<usize>() as f64 / 2.0;
    let variance = ranks.iter().map(|&rank| (rank as f64).powi(2)).sum::<f64>() / 4.0;
    two_sided((lesser as f64 - mean) / variance.sqrt())
}

/// How large paired differences are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Differences {
    /// How many differences there are.
    pub pairs: usize,
    /// Their mean.
    pub mean: f64,
    /// Their median.
    pub median: f64,
    /// The Hodges–Lehmann estimate, which belongs to [`SignedRank`]: the median of the means of any two differences, including
    /// each with itself.
    pub hodges_lehmann: f64,
}

impl Differences {
    /// None if there are no differences.
    ///
    /// # Panics
    /// If one is not a number.
    pub fn new(differences: &[f64]) -> Option<Self> {
        let means_of_two = differences
            .iter()
            .enumerate()
            .flat_map(|(index, first)| differences[index..].iter().map(move |second| 0.5 * first + 0.5 * second));
        Some(Differences {
            pairs: differences.len(),
            mean: mean(differences)?,
            median: median(differences)?,
            hodges_lehmann: median(&means_of_two.collect::<Vec<f64>>())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_share_their_mean_rank() {
        // Sizes 1, 1, 2: ranks 1.5, 1.5, 3. The sums of positive ranks are 0, 1.5 (twice), 3 (twice), 4.5 (twice), 6.
        let test = SignedRank::new(&[1.0, 0.0, -1.0, 2.0]);
        assert_eq!((test.used, test.positive, test.negative), (3, 4.5, 1.5));
        assert_eq!((test.p_value, test.exact), (6.0 / 8.0, true));
    }

    #[test]
    fn only_differences_of_zero() {
        for differences in [&[][..], &[0.0], &[0.0, -0.0, 0.0]] {
            let test = SignedRank::new(differences);
            assert_eq!((test.used, test.p_value), (0, 1.0));
        }
        assert_eq!(Differences::new(&[]), None);
    }

    #[test]
    fn the_normal_approximation_takes_over_smoothly() {
        let differences: Vec<f64> = (1..=50).map(|i| if i % 3 == 0 { -f64::from(i) } else { f64::from(i) }).collect();
        let ranks = doubled_ranks(&differences);
        let lesser = (1..=50).filter(|i| i % 3 == 0).map(|i| 2 * i).sum();
        let (exact, normal) = (exact_p_value(&ranks, lesser), normal_p_value(&ranks, lesser));
        assert!((exact - normal).abs() < 0.002, "{exact} and {normal}");
        assert!(SignedRank::new(&differences).exact && !SignedRank::new(&[differences, vec![51.0]].concat()).exact);
    }

    #[test]
    fn hodges_and_lehmann_by_hand() {
        // Means of two of 1, 2, 9: 1, 1.5, 5, 2, 5.5, 9.
        let found = Differences::new(&[9.0, 1.0, 2.0]).unwrap();
        assert_eq!(found, Differences { pairs: 3, mean: 4.0, median: 2.0, hodges_lehmann: 3.5 });
    }
}
