//! `maskedk:k`: the softmax over all keys, set to zero for all but the `k` highest scores, without renormalising. Its gradient is
//! exact: dropped scores get one, because they take part in the denominator.
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
pub struct MaskedK {
    /// Keys with the highest scores that are treated in their own way.
    pub k: usize,
}

pub(super) const INFO: MechanismInfo = MechanismInfo {
    name: "maskedk",
    family: Family::Control,
    summary: "the softmax over all keys, zero for all but the k highest scores",
    source: "control of this project",
    formula: "p = softmax(z) at the k highest z, 0 elsewhere, not renormalised",
    isolates: "renormalising over the kept keys against dropping the values of the others",
    parameters: &[Parameter::size("k", "the number of kept keys", 5)],
    allows_globals: false,
    build: |values| Ok(Arc::new(MaskedK { k: values.whole("k") })),
};

impl Mechanism for MaskedK {
    fn keep(&self, scores: &Tensor<4>, context: &LayerContext) -> Tensor<4, Bool> {
        TopK { k: self.k }.keep(scores, context)
    }

    fn selection(&self, length: usize) -> Option<Selection> {
        TopK { k: self.k }.selection(length)
    }

    fn weighting(&self) -> Weighting {
        Weighting::Known(FusedWeighting::MaskedSoftmax)
    }
}
