//! `fixedk:k`: every query keeps `k` keys drawn uniformly without replacement, once: the draw depends on the seed of the model, the
//! layer, the head and the query, and is the same for all inputs and during the whole training. A control with the reach of `topk`
//! that does not depend on the input. With `k` of at least the sequence length it acts as `full`.
//!
//! In causal models the keys are drawn from those that the query sees.

use std::sync::Arc;

use burn::tensor::{Bool, Tensor};
use semfocus_core::spec::Parameter;
use semfocus_kernels::{Row, RowRule, RuleScores};

use super::randomk::draw_into;
use super::rows::keep_rows;
use super::{LayerContext, Mechanism, Selection};
use crate::info::{Family, MechanismInfo};

/// Random keys for each query that never change.
#[derive(Clone, Copy, Debug)]
pub struct FixedK {
    /// Kept keys of a query.
    pub k: usize,
}

pub(super) const INFO: MechanismInfo = MechanismInfo {
    name: "fixedk",
    family: Family::Control,
    summary: "k keys drawn once for each layer, head and query",
    source: "control of this project",
    formula: "p = softmax of z over k keys drawn once",
    isolates: "a fixed choice with global reach: the input-agnostic counterpart of topk",
    parameters: &[Parameter::size("k", "the number of kept keys", 5)],
    allows_globals: false,
    build: |values| Ok(Arc::new(FixedK { k: values.whole("k") })),
};

impl Mechanism for FixedK {
    fn keep(&self, scores: &Tensor<4>, context: &LayerContext) -> Tensor<4, Bool> {
        keep_rows(scores, context, |row, kept| self.select(row, kept))
    }

    fn selection(&self, _length: usize) -> Option<Selection> {
        Some(Selection::Rule(Arc::new(*self)))
    }
}

impl RowRule for FixedK {
    fn scores(&self) -> RuleScores {
        RuleScores::None
    }

    fn select(&self, row: &Row<'_>, kept: &mut Vec<u32>) {
        draw_into(row.fixed_key, row.visible, self.k, kept);
    }
}
