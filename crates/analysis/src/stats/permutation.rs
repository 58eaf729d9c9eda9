//! Permutation tests of a sum of scores: how often chance alone would make it as large.

use std::cell::Cell;

use serde::Serialize;

use super::random::Random;

/// Up to this many ways to divide the scores into two groups, all are tried; if there are more, some are drawn.
pub const MAX_ARRANGEMENTS: u64 = 200_000;

/// How many arrangements are drawn where not all are tried. The p-value then has a standard error of at most 0.0016, and of
/// 0.0007 near 0.05.
pub const DRAWS: u64 = 99_999;

/// Sums that differ by less than this count as equal: the scores are sums of fractions, and two arrangements with the
/// same sum may be rounded differently.
const ROUNDING: f64 = 1e-10;

/// The result of a permutation test.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PermutationTest {
    /// Share of the arrangements whose statistic is at least as far from 0 as the observed one.
    pub p_value: f64,
    /// The arrangements that were tried.
    pub arrangements: Arrangements,
}

/// The arrangements that a permutation test tried.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "count")]
pub enum Arrangements {
    /// All of them: the p-value is exact.
    All(u64),
    /// Random ones. The observed one is counted among them, (hits + 1) / (draws + 1), so that the test keeps its level.
    Drawn(u64),
}

thread_local! {
    static TESTS: Cell<usize> = const { Cell::new(0) };
}

/// The permutation tests that this thread has computed: with it, tests show that nothing is computed twice or for nothing.
pub fn permutation_tests() -> usize {
    TESTS.get()
}

/// How often `count` of the scores, which sum to 0, have a sum as far from 0 as the first `count` of them.
pub(super) fn permute_groups(scores: &[f64], count: usize, seed: u64) -> PermutationTest {
    TESTS.set(TESTS.get() + 1);
    permute_groups_with(scores, count, MAX_ARRANGEMENTS, DRAWS, seed)
}

/// The same with other limits.
pub(super) fn permute_groups_with(scores: &[f64], count: usize, max: u64, draws: u64, seed: u64) -> PermutationTest {
    // The sums of both groups differ only in sign: use the smaller one.
    let (first, second) = scores.split_at(count);
    let smaller = if first.len() <= second.len() { first } else { second };
    let observed: f64 = smaller.iter().sum();
    match choices(scores.len(), smaller.len()).filter(|&all| all <= max) {
        // Every sum is at least as far from 0.
        Some(all) if limit(observed) <= 0.0 => exact(all, all),
        Some(all) => exact(hits_of_choices(scores, smaller.len(), 0.0, limit(observed)), all),
        None => drawn_groups(scores, smaller.len(), observed, draws, seed),
    }
}

fn exact(hits: u64, all: u64) -> PermutationTest {
    PermutationTest { p_value: hits as f64 / all as f64, arrangements: Arrangements::All(all) }
}

fn drawn(hits: u64, draws: u64) -> PermutationTest {
    PermutationTest { p_value: (hits + 1) as f64 / (draws + 1) as f64, arrangements: Arrangements::Drawn(draws) }
}

/// How far from 0 a sum has to be to count as a hit.
fn limit(observed: f64) -> f64 {
    observed.abs() - ROUNDING
}

/// In how many ways `count` of `total` can be chosen; None on overflow.
fn choices(total: usize, count: usize) -> Option<u64> {
    (0..count as u64).try_fold(1u64, |product, taken| Some(product.checked_mul(total as u64 - taken)? / (taken + 1)))
}

/// How many choices of `count` scores bring the sum to the limit or beyond.
fn hits_of_choices(scores: &[f64], count: usize, sum: f64, limit: f64) -> u64 {
    if count == 0 {
        return u64::from(sum.abs() >= limit);
    }
    let without = if scores.len() > count { hits_of_choices(&scores[1..], count, sum, limit) } else { 0 };
    without + hits_of_choices(&scores[1..], count - 1, sum + scores[0], limit)
}

fn drawn_groups(scores: &[f64], count: usize, observed: f64, draws: u64, seed: u64) -> PermutationTest {
    let mut random = Random::new(seed);
    let mut scores = scores.to_vec();
    let hits = (0..draws).filter(|_| {
        // A Fisher–Yates shuffle of the chosen places alone.
        (0..count).for_each(|place| {
            let other = place + random.below(scores.len() - place);
            scores.swap(place, other);
        });
        scores[..count].iter().sum::<f64>().abs() >= limit(observed)
    });
    drawn(hits.count() as u64, draws)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_binomial_coefficients() {
        assert_eq!((choices(20, 10), choices(5, 0), choices(0, 0)), (Some(184_756), Some(1), Some(1)));
        assert_eq!(choices(50, 25), Some(126_410_606_437_752));
        assert_eq!(choices(200, 100), None);
    }

    #[test]
    fn by_hand() {
        // Of 3, -1, -2 two are chosen: sums 2, 1, -3. At least 2 from 0 are 2 and -3; the smaller group is the -2
        // alone.
        assert_eq!(permute_groups(&[3.0, -1.0, -2.0], 2, 0), exact(2, 3));
    }

    /// A share p of 40,000 draws has a standard error of at most 0.0025; allowed are four.
    #[test]
    fn draws_agree_with_all_arrangements() {
        let scores: [f64; 12] = [0.9, 0.4, 0.8, 0.1, -0.3, 0.7, -0.9, -0.2, -0.6, 0.3, -1.0, -0.2];
        for count in [3, 5, 6] {
            let all = permute_groups(&scores, count, 0).p_value;
            let some = drawn_groups(&scores, count, scores[..count].iter().sum(), 40_000, 7).p_value;
            assert!((all - some).abs() < 0.01, "{count} of 12: {all} and {some}");
        }
    }

    #[test]
    fn drawn_p_values_are_never_zero() {
        let scores: Vec<f64> = (0..60).map(|i| if i < 30 { 1.0 } else { -1.0 }).collect();
        let test = permute_groups(&scores, 30, 3);
        assert_eq!(test, PermutationTest { p_value: 1e-5, arrangements: Arrangements::Drawn(DRAWS) });
    }
}
