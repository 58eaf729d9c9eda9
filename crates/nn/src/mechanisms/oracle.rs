//! `oracle:k`: every query keeps the keys at the relevant positions of its sequence, filled up to `k` by those with the highest scores.
//! If more than `k` are relevant, it keeps the `k` of them with the highest scores. Ties go to the lower index; with `k` of at least
//! the sequence length it acts as `full`.
//!
//! Relevant is a position that the label depends on: for most tasks one where another token alone can change it
//! (`TaskInfo::relevant_positions`). Tasks compute it; data files do not say it, so this cannot be trained on them.

use std::sync::Arc;

use burn::tensor::{Bool, Tensor};
use semfocus_core::spec::Parameter;
use semfocus_kernels::{Row, RowRule, TopKRule};

use super::rows::{keep_highest, relevant_keys};
use super::{LayerContext, Mechanism, Selection};
use crate::info::{Family, MechanismInfo};

/// See the module.
#[derive(Clone, Copy, Debug)]
struct Oracle {
    /// Kept keys of a query.
    k: usize,
}

pub(super) const INFO: MechanismInfo = MechanismInfo {
    family: Family::Control,
    summary: "the positions that the label depends on, then the highest scores up to k",
    source: "control of this project",
    formula: "p = softmax of z over the relevant keys, filled up to k by the highest z",
    isolates: "how much of the gain is knowing where to look: an upper bound for the choice",
    parameters: &[Parameter::size("k", "the number of kept keys", 5)],
    ..MechanismInfo::new("oracle", |values| Ok(Arc::new(Oracle { k: values.whole("k") })))
};

impl Mechanism for Oracle {
    fn keep(&self, scores: &Tensor<4>, context: &LayerContext) -> Tensor<4, Bool> {
        let relevant = relevant_keys(scores, context);
        let count = context.only_seen(relevant.clone(), scores).int().sum_dim(3); // [batch, heads, queries, 1]
        let too_many = count.greater_equal_elem(self.k as i64).expand(scores.dims());
        let ranked = scores.clone().mask_fill(relevant.clone().bool_and(too_many.clone().bool_not()), f32::INFINITY);
        let ranked = ranked.mask_fill(relevant.bool_not().bool_and(too_many), f32::NEG_INFINITY);
        keep_highest(context.hide(ranked, f32::NEG_INFINITY), self.k)
    }

    fn needs_relevance(&self) -> bool {
        true
    }

    fn selection(&self, _length: usize) -> Option<Selection> {
        Some(Selection::Rule(Arc::new(*self)))
    }
}

impl RowRule for Oracle {
    fn ignores_common_shift(&self) -> bool {
        true
    }

    fn select(&self, row: &Row<'_>, kept: &mut Vec<u32>) {
        if self.k >= row.visible {
            kept.extend(0..row.visible as u32);
            return;
        }
        let relevant = row.relevant.unwrap_or(&[]);
        let relevant = &relevant[..relevant.partition_point(|&key| (key as usize) < row.visible)];
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
}
