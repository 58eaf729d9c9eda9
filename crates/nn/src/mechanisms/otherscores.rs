//! The `k` keys with the highest scores, by other scores than the query's own. The weights come from its own.
//!
//! * `frozenk:k`: scores by the query and key maps as they were before training, applied to the present input of the layer.
//! * `shuffledk:k`: scores of the query at the same position in the next example of the batch (after the last example comes the
//!   first). An example that is alone in its batch is its own next one, which is `topk`: evaluate in batches.
//!
//! Exactly `k`, ties to the lower index; with `k` of at least the sequence length they act as `full`.

use std::sync::Arc;

use burn::tensor::{Bool, Tensor};
use semfocus_core::spec::Parameter;
use semfocus_kernels::{Row, RowRule, RuleScores, TopKRule};

use super::rows::keep_highest;
use super::{LayerContext, Mechanism, Selection};
use crate::info::{Family, MechanismInfo};

/// The `k` highest of some scores.
#[derive(Clone, Copy, Debug)]
struct HighestBy {
    k: usize,
    scores: RuleScores,
}

const K: &[Parameter] = &[Parameter::size("k", "the number of kept keys", 5)];

pub(super) const FROZENK: MechanismInfo = MechanismInfo {
    family: Family::Control,
    summary: "the k keys with the highest scores by the maps before training",
    source: "control of this project; compare Dong et al., Attention Retrieves, MLP Memorizes, 2025",
    formula: "p = softmax of z over the k highest z of the initial maps",
    isolates: "a learned choice against one that only depends on the content",
    parameters: K,
    ..MechanismInfo::new("frozenk", |values| {
        Ok(Arc::new(HighestBy { k: values.whole("k"), scores: RuleScores::InitialMaps }))
    })
};

pub(super) const SHUFFLEDK: MechanismInfo = MechanismInfo {
    family: Family::Control,
    summary: "the k keys that topk would keep in the next example of the batch",
    source: "control of this project",
    formula: "p = softmax of z over the k highest z of another example",
    isolates: "whether the choice has to belong to this input: same number and statistics of kept keys",
    parameters: K,
    ..MechanismInfo::new("shuffledk", |values| {
        Ok(Arc::new(HighestBy { k: values.whole("k"), scores: RuleScores::NextExample }))
    })
};

impl Mechanism for HighestBy {
    fn keep(&self, scores: &Tensor<4>, context: &LayerContext) -> Tensor<4, Bool> {
        keep_highest(context.hide(scores.clone(), f32::NEG_INFINITY), self.k)
    }

    fn scores(&self) -> RuleScores {
        self.scores
    }

    fn selection(&self, _length: usize) -> Option<Selection> {
        Some(Selection::Rule(Arc::new(*self)))
    }
}

impl RowRule for HighestBy {
    fn scores(&self) -> RuleScores {
        self.scores
    }

    fn ignores_common_shift(&self) -> bool {
        true
    }

    fn select(&self, row: &Row<'_>, kept: &mut Vec<u32>) {
        TopKRule::highest(self.k).select(row, kept);
    }
}
