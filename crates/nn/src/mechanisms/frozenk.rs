//! `frozenk:k`: every query keeps the `k` keys with the highest scores by the query and key maps as they were before training, applied
//! to the present input of the layer. The weights come from the trained maps.
//!
//! Exactly `k`, ties to the lower index; with `k` of at least the sequence length it acts as `full`.

use std::sync::Arc;

use burn::tensor::{Bool, Tensor};
use semfocus_core::spec::Parameter;
use semfocus_kernels::{RuleScores, TopKRule};

use super::rows::{HighestBy, keep_highest};
use super::{LayerContext, Mechanism, Selection};
use crate::info::{Family, MechanismInfo};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct FrozenK {
    /// Kept keys of a query.
    pub k: usize,
}

pub(super) const INFO: MechanismInfo = MechanismInfo {
    name: "frozenk",
    family: Family::Control,
    summary: "the k keys with the highest scores by the maps before training",
    source: "control of this project; compare Dong et al., Attention Retrieves, MLP Memorizes, 2025",
    formula: "p = softmax of z over the k highest z of the initial maps",
    isolates: "a learned choice against one that only depends on the content",
    parameters: &[Parameter::size("k", "the number of kept keys", 5)],
    allows_globals: false,
    build: |values| Ok(Arc::new(FrozenK { k: values.whole("k") })),
};

impl Mechanism for FrozenK {
    fn keep(&self, scores: &Tensor<4>, context: &LayerContext) -> Tensor<4, Bool> {
        keep_highest(context.hide(scores.clone(), f32::NEG_INFINITY), self.k)
    }

    fn scores(&self) -> RuleScores {
        RuleScores::InitialMaps
    }

    fn selection(&self, _length: usize) -> Option<Selection> {
        let rule = HighestBy { rule: TopKRule::highest(self.k), scores: RuleScores::InitialMaps };
        Some(Selection::Rule(Arc::new(rule)))
    }
}
