//! `gradk:k`: the weights of full attention with the gradient of `topk:k`: every key is attended to, but only the scores of the `k`
//! highest learn. The mirror image of `stk`.
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
pub struct GradientK {
    /// Keys with the highest scores that are treated in their own way.
    pub k: usize,
}

pub(super) const INFO: MechanismInfo = MechanismInfo {
    name: "gradk",
    family: Family::Control,
    summary: "as full forward, as topk backward",
    source: "control of this project",
    formula: "p = softmax(z), dL/dz as if p were topk(z)",
    isolates: "the effect of sparse gradients without that of sparse weights",
    parameters: &[Parameter::size("k", "the number of kept keys", 5)],
    allows_globals: false,
    build: |values| Ok(Arc::new(GradientK { k: values.whole("k") })),
};

impl Mechanism for GradientK {
    fn keep(&self, scores: &Tensor<4>, context: &LayerContext) -> Tensor<4, Bool> {
        TopK { k: self.k }.keep(scores, context)
    }

    fn selection(&self, length: usize) -> Option<Selection> {
        TopK { k: self.k }.selection(length)
    }

    fn weighting(&self) -> Weighting {
        Weighting::Known(FusedWeighting::GradientOfKept)
    }
}
