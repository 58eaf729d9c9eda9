//! Choices by relevant positions. Ties go to the lower index.
//!
//! * `oracle:k`: every query keeps the keys at its relevant positions, filled up to `k` by those with the highest scores. If more than `k`
//!   are relevant, it keeps the `k` of them with the highest scores. With `k` of at least the sequence length it acts as `full`.
//! * `antioracle:k`: every query keeps the `k` keys with the highest scores among those that are not at its relevant positions. If there are
//!   fewer than `k` it keeps them all, and if there are none it keeps itself.
//!
//! In classification, the positions that the label depends on are relevant to every query: for most tasks those where another token
//! alone can change it (`BuiltTask::relevant_keys`). Where a task asks at tokens and knows it, each query at which it asks has the
//! positions that this answer has to be looked up from; about the other queries nothing is known, and both mechanisms keep the highest
//! scores. Data files do not say which positions are relevant, so these mechanisms cannot be trained on them.

use std::sync::Arc;

use burn::tensor::{Bool, Tensor};
use semfocus_core::spec::Parameter;
use semfocus_kernels::{Row, RowRule, TopKRule};

use super::rows::{keep_highest, relevant_keys};
use super::{LayerContext, Mechanism, Selection, indices};
use crate::info::{Family, MechanismInfo};

/// See the module.
#[derive(Clone, Copy, Debug)]
struct ByRelevance {
    k: usize,
    keeps: Kept,
}

#[derive(Clone, Copy, Debug)]
enum Kept {
    Relevant,
    Others,
}

const K: &[Parameter] = &[Parameter::size("k", "the number of kept keys", 5)];

pub(super) const ORACLE: MechanismInfo = MechanismInfo {
    family: Family::Control,
    summary: "the positions that the label depends on, then the highest scores up to k",
    source: "control of this project",
    formula: "p = softmax of z over the relevant keys, filled up to k by the highest z",
    isolates: "how much of the gain is knowing where to look: an upper bound for the choice",
    parameters: K,
    ..MechanismInfo::new("oracle", |values| Ok(Arc::new(ByRelevance { k: values.whole("k"), keeps: Kept::Relevant })))
};

pub(super) const ANTIORACLE: MechanismInfo = MechanismInfo {
    family: Family::Control,
    summary: "the highest scores among the positions that the label does not depend on",
    source: "control of this project",
    formula: "p = softmax of z over the k highest z of keys that are not relevant",
    isolates: "whether relevant keys are needed at all; fails where the label takes several of them",
    parameters: K,
    ..MechanismInfo::new("antioracle", |values| Ok(Arc::new(ByRelevance { k: values.whole("k"), keeps: Kept::Others })))
};

impl Mechanism for ByRelevance {
    fn keep(&self, scores: &Tensor<4>, context: &LayerContext) -> Tensor<4, Bool> {
        let relevant = relevant_keys(scores, context);
        match self.keeps {
            Kept::Relevant => {
                let count = context.only_seen(relevant.clone(), scores).int().sum_dim(3); // [batch, heads, queries, 1]
                let too_many = count.greater_equal_elem(self.k as i64).expand(scores.dims());
                let first = relevant.clone().bool_and(too_many.clone().bool_not());
                let ranked = scores.clone().mask_fill(first, f32::INFINITY);
                let ranked = ranked.mask_fill(relevant.bool_not().bool_and(too_many), f32::NEG_INFINITY);
                keep_highest(context.hide(ranked, f32::NEG_INFINITY), self.k)
            }
            Kept::Others => {
                let ranked = scores.clone().mask_fill(relevant.clone(), f32::NEG_INFINITY);
                let kept = keep_highest(context.hide(ranked, f32::NEG_INFINITY), self.k).bool_and(relevant.bool_not());
                let kept = context.only_seen(kept, scores);
                let none = kept.clone().int().sum_dim(3).equal_elem(0); // [batch, heads, queries, 1]
                let (query, key) = indices(scores);
                kept.bool_or(none.bool_and(query.equal(key)))
            }
        }
    }

    fn needs_relevance(&self) -> bool {
        true
    }

    fn selection(&self, _length: usize) -> Option<Selection> {
        Some(Selection::Rule(Arc::new(*self)))
    }
}

impl RowRule for ByRelevance {
    fn ignores_common_shift(&self) -> bool {
        true
    }

    fn select(&self, row: &Row<'_>, kept: &mut Vec<u32>) {
        let relevant = row.relevant.unwrap_or(&[]);
        let relevant = &relevant[..relevant.partition_point(|&key| (key as usize) < row.visible)];
        match self.keeps {
            Kept::Relevant => self.select_relevant(row, relevant, kept),
            Kept::Others => self.select_others(row, relevant, kept),
        }
    }
}

impl ByRelevance {
    fn select_relevant(&self, row: &Row<'_>, relevant: &[u32], kept: &mut Vec<u32>) {
        if self.k >= row.visible {
            kept.extend(0..row.visible as u32);
            return;
        }
        let mut ranked = match relevant.len() < self.k {
            true => row.scores.to_vec(),
            false => vec![f32::NEG_INFINITY; row.visible],
        };
        for &key in relevant {
            let score = row.scores[key as usize];
            ranked[key as usize] = if relevant.len() < self.k { f32::INFINITY } else { score };
        }
        TopKRule::highest(self.k).select(&Row { scores: &ranked, ..*row }, kept);
    }

    fn select_others(&self, row: &Row<'_>, relevant: &[u32], kept: &mut Vec<u32>) {
        let others: Vec<u32> = (0..row.visible as u32).filter(|key| relevant.binary_search(key).is_err()).collect();
        if others.is_empty() {
            kept.push(row.query as u32);
            return;
        }
        let scores: Vec<f32> = others.iter().map(|&key| row.scores[key as usize]).collect();
        TopKRule::highest(self.k).select(&Row { scores: &scores, visible: scores.len(), ..*row }, kept);
        kept.iter_mut().for_each(|key| *key = others[*key as usize]);
    }
}
