//! `shuffledk:k`: every query keeps the `k` keys that the query at the same position in the next example of the batch would keep as
//! `topk` (after the last example comes the first). The weights come from the query's own scores.
//!
//! Exactly `k`, ties to the lower index; with `k` of at least the sequence length it acts as `full`. An example that is alone in its
//! batch is its own next one, which is `topk`: evaluate in batches.

use std::sync::Arc;

use burn::tensor::{Bool, Tensor};
use semfocus_core::spec::Parameter;
use semfocus_kernels::{RuleScores, TopKRule};

use super::rows::{HighestBy, keep_highest};
use super::{LayerContext, Mechanism, Selection};
use crate::info::{Family, MechanismInfo};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct ShuffledK {
    /// Kept keys of a query.
    pub k: usize,
}

pub(super) const INFO: MechanismInfo = MechanismInfo {
    name: "shuffledk",
    family: Family::Control,
    summary: "the k keys that topk would keep in the next example of the batch",
    source: "control of this project",
    formula: "p = softmax of z over the k highest z of another example",
    isolates: "whether the choice has to belong to this input: same number and statistics of kept keys",
    parameters: &[Parameter::size("k", "the number of kept keys", 5)],
    allows_globals: false,
    build: |values| Ok(Arc::new(ShuffledK { k: values.whole("k") })),
};

impl Mechanism for ShuffledK {
    fn keep(&self, scores: &Tensor<4>, context: &LayerContext) -> Tensor<4, Bool> {
        keep_highest(context.hide(scores.clone(), f32::NEG_INFINITY), self.k)
    }

    fn scores(&self) -> RuleScores {
        RuleScores::NextExample
    }

    fn selection(&self, _length: usize) -> Option<Selection> {
        let rule = HighestBy { rule: TopKRule::highest(self.k), scores: RuleScores::NextExample };
        Some(Selection::Rule(Arc::new(rule)))
    }
}
