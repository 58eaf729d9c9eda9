//! `topk:k`: every query keeps the `k` keys with the highest scores.
//!
//! It keeps exactly `k`: of equal scores the one with the lower index goes first. With `k` of at least the sequence length it acts
//! as `full`.

use std::sync::Arc;

use burn::tensor::{Bool, Tensor};
use semfocus_kernels::TopKRule;

use super::{Mechanism, Selection, Site, keep_all};
use crate::registry::{Family, MechanismInfo};
use crate::values::Parameter;

/// The highest scores of each query.
#[derive(Clone, Copy, Debug)]
pub struct TopK {
    /// Kept keys of a query.
    pub k: usize,
}

pub(super) const INFO: MechanismInfo = MechanismInfo {
    name: "topk",
    family: Family::InputDependent,
    summary: "the k keys with the highest scores: semantic focus",
    source: "Gupta et al., Memory-efficient Transformers via Top-k Attention, 2021",
    parameters: &[Parameter::size("k", "the number of kept keys", 5)],
    allows_globals: false,
    build: |values| Ok(Arc::new(TopK { k: values.whole("k") })),
};

impl Mechanism for TopK {
    fn keep(&self, scores: &Tensor<4>, site: &Site) -> Tensor<4, Bool> {
        keep_highest(site.hide(scores.clone(), f32::NEG_INFINITY), self.k)
    }

    fn selection(&self, length: usize) -> Option<Selection> {
        Some(rule_or_all(TopKRule::highest(self.k), self.k, length))
    }
}

/// The `k` highest of each row, ties to the lower index. The order in which the device sorts ties does not matter: the k-th highest
/// value is the threshold, everything above it is kept, and of the values equal to it the first ones that still fit.
pub(super) fn keep_highest(scores: Tensor<4>, k: usize) -> Tensor<4, Bool> {
    let keys = scores.dims()[3];
    if k >= keys {
        return keep_all(&scores);
    }
    let scores = scores.without_autodiff(); // the selection is not differentiated
    let threshold = scores.clone().sort_descending(3).narrow(3, k - 1, 1); // [batch, heads, queries, 1]
    let above = scores.clone().greater(threshold.clone());
    let equal = scores.equal(threshold);
    let places_left = above.clone().int().sum_dim(3).neg().add_scalar(k as i64); // [batch, heads, queries, 1]
    let place_among_equals = equal.clone().int().cumsum(3); // counted from one
    above.bool_or(equal.bool_and(place_among_equals.lower_equal(places_left)))
}

/// The selection of a rule that keeps `k` of `length` keys: no rule at all when that is every key.
pub(super) fn rule_or_all(rule: TopKRule, k: usize, length: usize) -> Selection {
    if k >= length { Selection::All } else { Selection::Rule(Arc::new(rule)) }
}

#[cfg(test)]
mod tests {
    use semfocus_core::Key;

    use super::super::tests::ruled;
    use super::*;

    fn topk(k: usize, row: &[f32]) -> Vec<u32> {
        ruled(&TopK { k }, &[row.to_vec()]).remove(0)
    }

    #[test]
    fn keeps_the_highest() {
        assert_eq!(topk(1, &[0.5, 2.0, -1.0]), [1]);
        assert_eq!(topk(2, &[0.5, 2.0, -1.0, 0.6]), [1, 3]);
        assert_eq!(topk(3, &[-4.0, -3.0, -2.0, -1.0, -5.0]), [1, 2, 3]);
    }

    #[test]
    fn ties_go_to_the_lower_index() {
        assert_eq!(topk(2, &[1.0, 1.0, 1.0, 1.0]), [0, 1]);
        assert_eq!(topk(2, &[0.0, 3.0, 1.0, 1.0]), [1, 2]);
        assert_eq!(topk(3, &[1.0, 0.0, 2.0, 1.0, 2.0, 2.0]), [2, 4, 5]);
        assert_eq!(topk(2, &[0.0, -0.0, 0.0]), [0, 1]);
        assert_eq!(topk(2, &[-1.0, -0.0, 0.0, -0.0]), [1, 2]);
    }

    #[test]
    fn enough_places_act_as_full() {
        for k in [3, 4, 1_000_000] {
            assert_eq!(topk(k, &[3.0, 1.0, 2.0]), [0, 1, 2]);
        }
        assert_eq!(topk(5, &[7.0]), [0]);
    }

    #[test]
    fn huge_scores() {
        assert_eq!(topk(2, &[1e4, -1e4, 1e4, 1e4, -1e4]), [0, 2]);
        assert_eq!(topk(2, &[f32::MAX, f32::MIN, 0.0]), [0, 2]);
    }

    #[test]
    fn rows_with_many_ties_agree_with_ranks() {
        // Rank of a key = keys above it + equal keys before it: the definition, too slow to be the reference form.
        let key = Key::new(1);
        for length in [1, 2, 7, 61] {
            let row: Vec<f32> = (0..length).map(|c| key.below(c, 5) as f32 - 2.0).collect();
            for k in [1, 2, 5, 9, length as usize] {
                let rank = |j: usize| {
                    let goes_first = |i: usize| row[i] > row[j] || (row[i] == row[j] && i < j);
                    (0..row.len()).filter(|&i| goes_first(i)).count()
                };
                let expected: Vec<u32> = (0..length).filter(|&j| rank(j as usize) < k).collect();
                assert_eq!(topk(k, &row), expected, "k {k}, {row:?}");
            }
        }
    }
}
