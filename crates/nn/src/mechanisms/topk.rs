//! `topk:k`: every query keeps the `k` keys with the highest scores.
//!
//! It keeps exactly `k`: of equal scores the one with the lower index goes first, or with `ties=random` one that is drawn anew in every
//! pass. With `k` of at least the sequence length it acts as `full`.

use std::sync::Arc;

use burn::tensor::{Bool, Tensor};
use semfocus_core::spec::{Literal, Parameter};
use semfocus_kernels::{Row, RowRule, TopKRule};

use super::rows::{keep_highest, keep_rows};
use super::{LayerContext, Mechanism, Selection};
use crate::info::{Family, MechanismInfo};

/// The highest scores of each query.
#[derive(Clone, Copy, Debug)]
pub struct TopK {
    /// Kept keys of a query.
    pub k: usize,
}

pub(super) const INFO: MechanismInfo = MechanismInfo {
    family: Family::InputDependent,
    summary: "the k keys with the highest scores: semantic focus",
    source: "Gupta et al., Memory-efficient Transformers via Top-k Attention, 2021",
    formula: "p = softmax of z over the k highest z",
    isolates: "semantic focus: a choice by the scores at hand",
    parameters: &[
        Parameter::size("k", "the number of kept keys", 5),
        Parameter::word("ties", "which of equal scores go first", &["first", "random"]).default(Literal::Word("first")),
    ],
    ..MechanismInfo::new("topk", |values| {
        let k = values.whole("k");
        Ok(if values.is("ties", "random") { Arc::new(RandomTies { k }) } else { Arc::new(TopK { k }) })
    })
};

impl Mechanism for TopK {
    fn keep(&self, scores: &Tensor<4>, context: &LayerContext) -> Tensor<4, Bool> {
        keep_highest(context.hide(scores.clone(), f32::NEG_INFINITY), self.k)
    }

    fn selection(&self, length: usize) -> Option<Selection> {
        Some(rule_or_all(TopKRule::highest(self.k), self.k, length))
    }
}

/// The highest scores of each query, equal ones in a drawn order.
#[derive(Clone, Copy, Debug)]
struct RandomTies {
    k: usize,
}

impl Mechanism for RandomTies {
    fn keep(&self, scores: &Tensor<4>, context: &LayerContext) -> Tensor<4, Bool> {
        keep_rows(scores, context, |row, kept| {
            let value = |key: u32| (row.scores[key as usize] + 0.0, row.draw.bits_at(key)); // -0 is equal to +0
            kept.extend(0..row.visible as u32);
            kept.sort_by(|&a, &b| {
                let ((one, first), (other, second)) = (value(a), value(b));
                other.total_cmp(&one).then(second.cmp(&first))
            });
            kept.truncate(self.k);
        })
    }

    fn selection(&self, length: usize) -> Option<Selection> {
        Some(if self.k >= length { Selection::All } else { Selection::Rule(Arc::new(*self)) })
    }
}

impl RowRule for RandomTies {
    fn ignores_common_shift(&self) -> bool {
        true
    }

    fn select(&self, row: &Row<'_>, kept: &mut Vec<u32>) {
        TopKRule::highest(self.k).select(row, kept);
        let score = |key: u32| row.scores[key as usize];
        let Some(lowest) = kept.iter().map(|&key| score(key)).min_by(f32::total_cmp) else { return };
        // Draw again those that are equal to the lowest that was kept.
        kept.retain(|&key| score(key) > lowest);
        let mut equal: Vec<u32> = (0..row.visible as u32).filter(|&key| score(key) == lowest).collect();
        equal.sort_by_key(|&key| std::cmp::Reverse(row.draw.bits_at(key)));
        kept.extend(equal.iter().take(self.k - kept.len().min(self.k)));
        kept.sort_unstable();
    }
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
    fn equal_scores_are_drawn() {
        let random = RandomTies { k: 3 };
        assert_eq!(ruled(&random, &[vec![0.5, 2.0, -1.0, 0.6, 3.0]]), [[1, 3, 4]]);
        let rows = ruled(&random, &vec![[vec![2.0], vec![1.0; 8], vec![0.0; 3]].concat(); 40]);
        assert!(rows.iter().all(|row| row.len() == 3 && row[0] == 0 && row[2] < 9), "{rows:?}");
        let taken = |key: u32| rows.iter().filter(|row| row.contains(&key)).count();
        assert!(
            (1..9).all(|key| (2..=22).contains(&taken(key))),
            "each of eight is taken a quarter of the time: {rows:?}"
        );
        assert_eq!(ruled(&random, &[vec![0.0, -0.0]]), [[0, 1]]);
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
