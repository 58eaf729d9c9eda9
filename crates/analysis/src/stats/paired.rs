//! Paired values: the sign-flip test, its interval, and how large the difference is.

use serde::Serialize;

use super::Interval;
use super::quantile::{mean, median};
use super::random::Random;

/// Up to this many differences all subsets are taken; with more, as many are drawn.
pub const EXACT_VALUES: usize = 14;

/// Means that differ by less than this count as equal: two subsets with the same mean may be rounded differently.
const ROUNDING: f64 = 1e-12;

/// The sign-flip test of paired differences and the interval that belongs to it. The null hypothesis is that the differences are
/// symmetric about 0, as they are if it makes no difference which value of a pair comes first. Then every choice of signs is
/// equally likely, whatever the distribution of the sizes, and ties and zeros need no special treatment.
///
/// Test and interval come from one list, the means of all subsets of the differences: if the differences are symmetric about a
/// value, it lies with equal probability in each of the gaps between these means (Hartigan 1969). So the interval of level
/// 1 − α excludes 0 exactly if p < α.
#[derive(Clone, Debug, PartialEq)]
pub struct SignFlips {
    /// Means of subsets, ascending.
    means: Vec<f64>,
}

impl SignFlips {
    /// None without differences.
    ///
    /// # Panics
    /// If one is infinite or not a number.
    pub fn new(differences: &[f64], seed: u64) -> Option<Self> {
        assert!(differences.iter().all(|d| d.is_finite()), "differences are finite numbers");
        let count = differences.len();
        let mut means = match count {
            0 => return None,
            1..=EXACT_VALUES => {
                (1..1usize << count).map(|subset| mean_of(differences, |i| subset >> i & 1 == 1)).collect()
            }
            _ => drawn(differences, seed),
        };
        means.sort_by(f64::total_cmp);
        Some(SignFlips { means })
    }

    /// Two-sided; never below [`SignFlips::min_p`].
    pub fn p_value(&self) -> f64 {
        let below = self.means.partition_point(|mean| *mean <= 0.0);
        let above = self.means.len() - self.means.partition_point(|mean| *mean < 0.0);
        (self.share(below.min(above) + 1)).min(1.0)
    }

    /// The interval that leaves out less than `level`; None if there are too few differences for it.
    pub fn interval(&self, level: f64) -> Option<Interval> {
        // The largest number of gaps on either side whose share is below the level.
        let gaps = (level * (self.means.len() + 1) as f64 / 2.0).ceil() as usize;
        let gaps = (0..=gaps).rev().find(|&gaps| self.share(gaps) < level)?;
        let low = gaps.checked_sub(1)?;
        Some(Interval { low: self.means[low], high: self.means[self.means.len() - 1 - low] })
    }

    /// The probability of this many gaps on both sides.
    fn share(&self, gaps: usize) -> f64 {
        2.0 * gaps as f64 / (self.means.len() + 1) as f64
    }

    /// The lowest p-value that this number of differences can give.
    pub fn min_p(differences: usize) -> f64 {
        2.0 / 2f64.powi(differences.min(EXACT_VALUES) as i32)
    }
}

fn mean_of(differences: &[f64], is_chosen: impl Fn(usize) -> bool) -> f64 {
    let chosen = differences.iter().enumerate().filter(|(index, _)| is_chosen(*index));
    let (sum, count) = chosen.fold((0.0, 0.0), |(sum, count), (_, difference)| (sum + difference, count + 1.0));
    (sum / count / ROUNDING).round() * ROUNDING
}

/// The means of random subsets, as many as there are of [`EXACT_VALUES`] differences.
fn drawn(differences: &[f64], seed: u64) -> Vec<f64> {
    let mut random = Random::new(seed);
    let mut means = Vec::new();
    while means.len() < (1 << EXACT_VALUES) - 1 {
        let chosen: Vec<bool> = differences.iter().map(|_| random.below(2) == 1).collect();
        if chosen.contains(&true) {
            means.push(mean_of(differences, |index| chosen[index]));
        }
    }
    means
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
    /// The Hodges–Lehmann estimate: the median of the means of any two differences, including each with itself.
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

    fn flips(differences: &[f64]) -> SignFlips {
        SignFlips::new(differences, 1).unwrap()
    }

    #[test]
    fn three_differences_by_hand() {
        // Means of subsets: 1, 2, 6, 1.5, 3.5, 4, 3.
        let test = flips(&[1.0, 2.0, 6.0]);
        assert_eq!(test.means, [1.0, 1.5, 2.0, 3.0, 3.5, 4.0, 6.0]);
        assert_eq!(test.p_value(), 0.25);
        assert_eq!(test.interval(0.3), Some(Interval { low: 1.0, high: 6.0 }), "leaves out a quarter");
        assert_eq!(test.interval(0.51), Some(Interval { low: 1.5, high: 4.0 }), "leaves out half");
        assert_eq!(test.interval(0.25), None, "a quarter is not below a quarter");
    }

    #[test]
    fn signs_by_hand() {
        // Of the eight choices of signs of 1, 2, 6, two have a sum as far from 0 as 1 - 2 + 6 = 5, and four are farther: ±7, ±9.
        assert_eq!(flips(&[1.0, -2.0, 6.0]).p_value(), 6.0 / 8.0);
    }

    #[test]
    fn zeros_and_ties() {
        for differences in [&[0.0][..], &[0.0, -0.0, 0.0], &[0.1, 0.2, -0.3, 0.0], &[0.5, -0.5]] {
            assert_eq!(flips(differences).p_value(), 1.0, "{differences:?}");
        }
        assert_eq!(flips(&[0.3; 6]).p_value(), SignFlips::min_p(6));
        assert_eq!(flips(&[0.3; 6]).interval(0.05), Some(Interval { low: 0.3, high: 0.3 }));
        assert_eq!(flips(&[0.3; 5]).interval(0.05), None);
        assert_eq!(SignFlips::new(&[], 1), None);
    }

    #[test]
    fn drawn_subsets_agree_with_all() {
        let differences: Vec<f64> = (0..EXACT_VALUES).map(|i| (i as f64 * 1.7).sin() + 0.3).collect();
        let (all, some) = (
            flips(&differences),
            SignFlips {
                means: {
                    let mut m = drawn(&differences, 3);
                    m.sort_by(f64::total_cmp);
                    m
                },
            },
        );
        assert!((all.p_value() - some.p_value()).abs() < 0.02, "{} and {}", all.p_value(), some.p_value());
        let (all, some) = (all.interval(0.05).unwrap(), some.interval(0.05).unwrap());
        assert!((all.low - some.low).abs() < 0.03 && (all.high - some.high).abs() < 0.03, "{all:?} and {some:?}");
    }

    #[test]
    fn hodges_and_lehmann_by_hand() {
        // Means of two of 1, 2, 9: 1, 1.5, 5, 2, 5.5, 9.
        let found = Differences::new(&[9.0, 1.0, 2.0]).unwrap();
        assert_eq!(found, Differences { pairs: 3, mean: 4.0, median: 2.0, hodges_lehmann: 3.5 });
        assert_eq!(Differences::new(&[]), None);
    }
}
