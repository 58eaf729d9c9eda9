//! The keys with the highest (or lowest) scores.

use crate::simd::{LANES, dispatched};
use crate::{Key, RowRule};

/// Keeps exactly `k` keys of every row, or all when there are fewer; ties go to the lower index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopK {
    k: usize,
    lowest: bool,
}

/// Up to here the best keys are held in a sorted list; beyond, a partial sort of the whole row is cheaper.
const SORTED_LIST: usize = 32;

impl TopK {
    /// The rule that keeps the `k` highest scores.
    ///
    /// # Panics
    /// If `k` is zero: a query must keep a key.
    pub fn highest(k: usize) -> Self {
        assert!(k > 0, "a query must keep at least one key");
        TopK { k, lowest: false }
    }

    /// The rule that keeps the `k` lowest scores.
    ///
    /// # Panics
    /// If `k` is zero: a query must keep a key.
    pub fn lowest(k: usize) -> Self {
        TopK { lowest: true, ..Self::highest(k) }
    }
}

impl RowRule for TopK {
    fn select(&self, _row: Key, scores: &[f32], kept: &mut Vec<u32>) {
        let sign = if self.lowest { -1.0 } else { 1.0 };
        if self.k >= scores.len() {
            kept.extend(0..scores.len() as u32);
        } else if self.k <= SORTED_LIST {
            let mut best = [0; SORTED_LIST];
            scan(scores, sign, &mut best[..self.k]);
            best[..self.k].sort_unstable();
            kept.extend_from_slice(&best[..self.k]);
        } else {
            // Adding zero makes -0 equal to +0, as a tie must be; NaN takes its place at an end of the total order.
            kept.extend(0..scores.len() as u32);
            kept.select_nth_unstable_by(self.k - 1, |&a, &b| {
                let value = |key: u32| sign * scores[key as usize] + 0.0;
                value(b).total_cmp(&value(a)).then(a.cmp(&b))
            });
            kept.truncate(self.k);
            kept.sort_unstable();
        }
    }
}

dispatched! {
    /// Fills `best` with the indices of the highest `sign * scores`, best first; `scores` has more values than `best`.
    fn scan(simd; scores: &[f32], sign: f32, best: &mut [u32]) {
        let k = best.len();
        let mut values = [f32::NEG_INFINITY; SORTED_LIST];
        let values = &mut values[..k];
        // A newcomer goes behind its equals: they came earlier and have the lower index.
        let insert = |values: &mut [f32], best: &mut [u32], filled: usize, value: f32, index: u32| {
            let mut at = filled;
            while at > 0 && values[at - 1] < value {
                if at < k {
                    values[at] = values[at - 1];
                    best[at] = best[at - 1];
                }
                at -= 1;
            }
            if at < k {
                values[at] = value;
                best[at] = index;
            }
        };
        for (index, score) in scores[..k].iter().enumerate() {
            insert(values, best, index, sign * score, index as u32);
        }
        let mut index = k;
        let signs = simd.splat(sign);
        while index + LANES <= scores.len() {
            // Most vectors hold nothing above the worst of the best, and cost one comparison.
            let candidates = simd.mul(simd.load(&scores[index..]), signs);
            let mut above = simd.greater(candidates, simd.splat(values[k - 1]));
            while above != 0 {
                let lane = above.trailing_zeros() as usize;
                above &= above - 1;
                let value = sign * scores[index + lane];
                if value > values[k - 1] {
                    insert(values, best, k, value, (index + lane) as u32);
                }
            }
            index += LANES;
        }
        for (offset, score) in scores[index..].iter().enumerate() {
            if sign * score > values[k - 1] {
                insert(values, best, k, sign * score, (index + offset) as u32);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn select(rule: TopK, scores: &[f32]) -> Vec<u32> {
        let mut kept = Vec::new();
        rule.select(Key::new(0), scores, &mut kept);
        kept
    }

    /// The definition: a key is kept when fewer than `k` keys beat it, by score or by an equal score and a lower index.
    fn definition(scores: &[f32], k: usize, sign: f32) -> Vec<u32> {
        let beats = |a: usize, b: usize| sign * scores[a] > sign * scores[b] || (scores[a] == scores[b] && a < b);
        (0..scores.len())
            .filter(|&j| (0..scores.len()).filter(|&other| beats(other, j)).count() < k)
            .map(|j| j as u32)
            .collect()
    }

    proptest! {
        #[test]
        fn selection_equals_the_definition(
            // Few distinct values, both zeros among them, so that ties are common.
            scores in prop::collection::vec(prop_oneof![(-3i8..3).prop_map(f32::from), Just(-0.0), -1e4f32..1e4], 1..130),
            k in 1usize..140,
        ) {
            prop_assert_eq!(select(TopK::highest(k), &scores), definition(&scores, k, 1.0));
            prop_assert_eq!(select(TopK::lowest(k), &scores), definition(&scores, k, -1.0));
        }
    }

    #[test]
    fn ties_go_to_the_lower_index() {
        assert_eq!(select(TopK::highest(3), &[1.0; 40]), [0, 1, 2]);
        assert_eq!(select(TopK::lowest(3), &[1.0; 40]), [0, 1, 2]);
        assert_eq!(select(TopK::highest(50), &[1.0; 100]), (0..50).collect::<Vec<_>>());
        assert_eq!(select(TopK::highest(2), &[0.0, -0.0, 1.0, 0.0]), [0, 2]);
    }

    #[test]
    fn not_a_number_still_gives_a_legal_set() {
        for k in [1, 5, 40] {
            let kept = select(TopK::highest(k), &[f32::NAN; 60]);
            assert_eq!(kept.len(), k);
            assert!(kept.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }
}
