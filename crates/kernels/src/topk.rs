//! The keys with the highest (or lowest) scores.

use crate::simd::{ALL_LANES, LANES, dispatched};
use crate::{Row, RowRule};

/// Keeps exactly `k` keys of every row, or all when there are fewer; ties go to the lower index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopKRule {
    k: usize,
    lowest: bool,
}

/// Up to this `k` the best keys are held in a sorted list; above it the whole row is partially sorted.
const SORTED_LIST: usize = LANES;

impl TopKRule {
    /// The rule that keeps the `k` highest scores.
    ///
    /// # Panics
    /// If `k` is zero: a query must keep a key.
    pub fn highest(k: usize) -> Self {
        assert!(k > 0, "a query must keep at least one key");
        TopKRule { k, lowest: false }
    }

    /// The rule that keeps the `k` lowest scores.
    ///
    /// # Panics
    /// If `k` is zero: a query must keep a key.
    pub fn lowest(k: usize) -> Self {
        TopKRule { lowest: true, ..Self::highest(k) }
    }
}

impl RowRule for TopKRule {
    fn ignores_common_shift(&self) -> bool {
        true
    }

    fn select(&self, row: &Row<'_>, kept: &mut Vec<u32>) {
        let scores = row.scores;
        let sign = if self.lowest { -1.0 } else { 1.0 };
        if self.k >= scores.len() {
            kept.extend(0..scores.len() as u32);
        } else if self.k <= SORTED_LIST {
            let mut best = [0; SORTED_LIST];
            let best = &mut best[..self.k];
            if scores.len() <= SHORT {
                let mut taken = take_highest(scores, sign, self.k);
                for key in best.iter_mut() {
                    *key = taken.trailing_zeros();
                    taken &= taken - 1;
                }
            } else {
                scan(scores, sign, best);
                best.sort_unstable();
            }
            kept.extend_from_slice(best);
        } else {
            // Adding zero makes -0 equal to +0, as a tie must be; NaN goes to one end of the total order.
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

/// Rows of up to this length are held in registers as a whole.
const SHORT: usize = 4 * LANES;

dispatched! {
    /// The `k` highest of at most [`SHORT`] `sign * scores`, as a set of bits. Only ties and NaN cause a branch that depends on
    /// the scores.
    fn take_highest(simd; scores: &[f32], sign: f32, k: usize) -> u64 {
        let lowest = simd.splat(f32::NEG_INFINITY);
        let mut vectors = [lowest; SHORT / LANES];
        for (vector, scores) in vectors.iter_mut().zip(scores.chunks(LANES)) {
            *vector = simd.first_or(scores.len(), simd.mul(simd.load_some(scores), simd.splat(sign)), lowest);
        }
        let there = u64::MAX >> (SHORT - scores.len());

        // The k-th highest distinct value. If exactly k scores reach it, those are the answer. Nothing leaves the vectors on
        // this path, which halves the time.
        let mut rest = vectors;
        let mut threshold = f32::NEG_INFINITY;
        for _ in 0..k {
            let [a, b, c, d] = rest;
            threshold = simd.max_lane(simd.max(simd.max(a, b), simd.max(c, d)));
            for vector in &mut rest {
                *vector = simd.below_or(*vector, simd.splat(threshold), lowest);
            }
        }
        let mut reach = 0;
        for (v, vector) in vectors.iter().enumerate() {
            reach |= u64::from(!simd.greater(simd.splat(threshold), *vector) & ALL_LANES) << (v * LANES);
        }
        if (reach & there).count_ones() as usize == k {
            return reach & there;
        }

        // Ties or NaN: take the maximum k times, the first of equal ones.
        let mut taken = 0;
        for _ in 0..k {
            let [a, b, c, d] = vectors;
            let max = simd.splat(simd.max_lane(simd.max(simd.max(a, b), simd.max(c, d))));
            let mut reach = 0;
            for (v, vector) in vectors.iter().enumerate() {
                // Not "equal": NaN counts too, so that there is always one to take.
                reach |= u64::from(!simd.greater(max, *vector) & ALL_LANES) << (v * LANES);
            }
            let next = reach & there & !taken;
            let first = next & next.wrapping_neg();
            taken |= first;
            for (v, vector) in vectors.iter_mut().enumerate() {
                *vector = simd.replace(*vector, (first >> (v * LANES)) as u32 & ALL_LANES, lowest);
            }
        }
        taken
    }
}

dispatched! {
    /// Fills `best` with the indices of the highest `sign * scores`, best first; `scores` has more values than `best`.
    fn scan(simd; scores: &[f32], sign: f32, best: &mut [u32]) {
        let signs = simd.splat(sign);
        let (vectors, rest) = scores.as_chunks::<LANES>();

        // The maxima of the lanes belong to different keys, so the k-th highest of them is at most the k-th highest of all
        // scores, and everything below it can be skipped. That leaves little more than k keys.
        let lowest = simd.splat(f32::NEG_INFINITY);
        let mut maxima = [lowest; 4];
        let (quads, singles) = vectors.as_chunks::<4>();
        for quad in quads {
            for (max, scores) in maxima.iter_mut().zip(quad) {
                *max = simd.max(simd.mul(simd.load(scores), signs), *max);
            }
        }
        for scores in singles {
            maxima[0] = simd.max(simd.mul(simd.load(scores), signs), maxima[0]);
        }
        let [a, b, c, d] = maxima;
        let mut lane_maxima = simd.max(simd.max(a, b), simd.max(c, d));
        let mut threshold = simd.max_lane(lane_maxima);
        for _ in 1..best.len() {
            // This removes equal maxima together, which only lowers the threshold.
            lane_maxima = simd.below_or(lane_maxima, simd.splat(threshold), lowest);
            threshold = simd.max_lane(lane_maxima);
        }

        let mut list = Best { values: [0.0; SORTED_LIST], filled: 0, keys: best };
        let thresholds = simd.splat(threshold);
        for (v, scores) in vectors.iter().enumerate() {
            let candidates = simd.mul(simd.load(scores), signs);
            // Not "at least", so that NaN passes; it ends up at the end of the list.
            let mut worth = !simd.greater(thresholds, candidates) & ALL_LANES;
            while worth != 0 {
                let lane = worth.trailing_zeros() as usize;
                worth &= worth - 1;
                list.offer(sign * scores[lane], (v * LANES + lane) as u32);
            }
        }
        for (offset, score) in rest.iter().enumerate() {
            list.offer(sign * score, (vectors.len() * LANES + offset) as u32);
        }
    }
}

/// The best keys so far, best first.
struct Best<'a> {
    values: [f32; SORTED_LIST],
    filled: usize,
    keys: &'a mut [u32],
}

impl Best<'_> {
    /// Adds the key if the list is not full or the key beats the last one. It goes after its equals: they came earlier
    /// and have the lower index.
    #[inline(always)]
    fn offer(&mut self, value: f32, key: u32) {
        let capacity = self.keys.len();
        let mut at = self.filled;
        if at == capacity {
            let beats_last = value > self.values[capacity - 1];
            if !beats_last {
                return;
            }
            at -= 1;
        } else {
            self.filled += 1;
        }
        while at > 0 && self.values[at - 1] < value {
            self.values[at] = self.values[at - 1];
            self.keys[at] = self.keys[at - 1];
            at -= 1;
        }
        self.values[at] = value;
        self.keys[at] = key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn select(rule: TopKRule, scores: &[f32]) -> Vec<u32> {
        let mut kept = Vec::new();
        rule.select(&Row::of_scores(scores), &mut kept);
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
            scores in prop::collection::vec(prop_oneof![(-3i8..3).prop_map(f32::from), Just(-0.0), -1e4f32..1e4], 1..200),
            k in 1usize..140,
        ) {
            prop_assert_eq!(select(TopKRule::highest(k), &scores), definition(&scores, k, 1.0));
            prop_assert_eq!(select(TopKRule::lowest(k), &scores), definition(&scores, k, -1.0));
        }
    }

    #[test]
    fn ties_go_to_the_lower_index() {
        assert_eq!(select(TopKRule::highest(3), &[1.0; 40]), [0, 1, 2]);
        assert_eq!(select(TopKRule::lowest(3), &[1.0; 40]), [0, 1, 2]);
        assert_eq!(select(TopKRule::highest(50), &[1.0; 100]), (0..50).collect::<Vec<_>>());
        assert_eq!(select(TopKRule::highest(2), &[0.0, -0.0, 1.0, 0.0]), [0, 2]);
    }

    #[test]
    fn not_a_number_still_gives_a_legal_set() {
        for k in [1, 5, 40] {
            for scores in
                [vec![f32::NAN; 60], vec![f32::NAN; 90], [f32::NAN, 1.0].repeat(30), [f32::NAN, 1.0].repeat(50)]
            {
                let kept = select(TopKRule::highest(k), &scores);
                assert_eq!(kept.len(), k);
                assert!(kept.windows(2).all(|pair| pair[0] < pair[1]));
            }
        }
    }
}
