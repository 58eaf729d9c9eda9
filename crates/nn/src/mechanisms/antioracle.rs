//! `antioracle:k`: every query keeps the `k` keys with the highest scores among those that are not at relevant positions. Ties go to the
//! lower index; if there are fewer than `k` it keeps them all, and if there are none it keeps itself.
//!
//! Relevant is a position that the label depends on: for most tasks one where another token alone can change it
//! (`TaskInfo::relevant_positions`). Tasks compute it; data files do not say it, so this cannot be trained on them.

use std::sync::Arc;

use burn::tensor::{Bool, Tensor};
use semfocus_core::spec::Parameter;
use semfocus_kernels::{Row, RowRule, TopKRule};

use super::rows::{keep_highest, relevant_keys};
use super::{LayerContext, Mechanism, Selection, indices};
use crate::info::{Family, MechanismInfo};

/// See the module.
#[derive(Clone, Copy, Debug)]
struct AntiOracle {
    /// Kept keys of a query.
    k: usize,
}

pub(super) const INFO: MechanismInfo = MechanismInfo {
    family: Family::Control,
    summary: "the highest scores among the positions that the label does not depend on",
    source: "control of this project",
    formula: "p = softmax of z over the k highest z of keys that are not relevant",
    isolates: "whether relevant keys are needed at all; fails where the label takes several of them",
    parameters: &[Parameter::size("k", "the number of kept keys", 5)],
    ..MechanismInfo::new("antioracle", |values| Ok(Arc::new(AntiOracle { k: values.whole("k") })))
};

impl Mechanism for AntiOracle {
    fn keep(&self, scores: &Tensor<4>, context: &LayerContext) -> Tensor<4, Bool> {
        let relevant = relevant_keys(scores, context);
        let ranked = scores.clone().mask_fill(relevant.clone(), f32::NEG_INFINITY);
        let kept = keep_highest(context.hide(ranked, f32::NEG_INFINITY), self.k).bool_and(relevant.bool_not());
        let kept = context.only_seen(kept, scores);
        let none = kept.clone().int().sum_dim(3).equal_elem(0); // [batch, heads, queries, 1]
        let (query, key) = indices(scores);
        kept.bool_or(none.bool_and(query.equal(key)))
    }

    fn needs_relevance(&self) -> bool {
        true
    }

    fn selection(&self, _length: usize) -> Option<Selection> {
        Some(Selection::Rule(Arc::new(*self)))
    }
}

impl RowRule for AntiOracle {
    fn ignores_common_shift(&self) -> bool {
        true
    }

    fn select(&self, row: &Row<'_>, kept: &mut Vec<u32>) {
        let relevant = row.relevant.unwrap_or(&[]);
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
