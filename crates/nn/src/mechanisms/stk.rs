//! `stk:k`: the weights of `topk:k` with the gradient of the softmax over all keys (straight-through): the forward pass is sparse, and
//! every score learns as in full attention.
//!
//! Ties go to the lower index; with `k` of at least the sequence length it acts as `full`.

use std::sync::Arc;

use burn::tensor::{Bool, Tensor};
use semfocus_core::spec::Parameter;
use semfocus_kernels::FusedWeighting;

use super::topk::TopK;
use super::{LayerContext, Mechanism, Selection};
use crate::info::{Family, MechanismInfo};
use crate::weighting::Weighting;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct StraightThroughK {
    /// Keys with the highest scores that are treated in their own way.
    pub k: usize,
}

pub(super) const INFO: MechanismInfo = MechanismInfo {
    name: "stk",
    family: Family::Control,
    summary: "as topk forward, as full backward (straight-through)",
    source: "control of this project; x-transformers has it as an option",
    formula: "p = topk(z), dL/dz as if p were softmax(z)",
    isolates: "the effect of sparse weights without that of sparse gradients",
    parameters: &[Parameter::size("k", "the number of kept keys", 5)],
    allows_globals: false,
    build: |values| Ok(Arc::new(StraightThroughK { k: values.whole("k") })),
};

impl Mechanism for StraightThroughK {
    fn keep(&self, scores: &Tensor<4>, context: &LayerContext) -> Tensor<4, Bool> {
        TopK { k: self.k }.keep(scores, context)
    }

    fn selection(&self, length: usize) -> Option<Selection> {
        TopK { k: self.k }.selection(length)
    }

    fn weighting(&self) -> Weighting {
        Weighting::Known(FusedWeighting::StraightThrough)
    }
}
