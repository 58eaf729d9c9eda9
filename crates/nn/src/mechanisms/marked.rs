//! Attention over all keys that treats the `k` with the highest scores in another way, forward or backward:
//!
//! * `stk:k`: the weights of `topk:k` with the gradient of the softmax over all keys (straight-through): the forward pass is sparse, and
//!   every score learns as in full attention.
//! * `gradk:k`: the weights of full attention with the gradient of `topk:k`: every key is attended to, but only the scores of the `k`
//!   highest learn. The mirror image of `stk`.
//! * `maskedk:k`: the softmax over all keys, set to zero for all but the `k` highest scores, without renormalising. Its gradient is
//!   exact: dropped scores get one, because they take part in the denominator.
//!
//! Ties go to the lower index; with `k` of at least the sequence length they act as `full`.

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
struct Marked {
    highest: TopK,
    weighting: FusedWeighting,
}

const K: &[Parameter] = &[Parameter::size("k", "the number of kept keys", 5)];

pub(super) const STK: MechanismInfo = MechanismInfo {
    family: Family::Control,
    summary: "as topk forward, as full backward (straight-through)",
    source: "control of this project; x-transformers has it as an option",
    formula: "p = topk(z), dL/dz as if p were softmax(z)",
    isolates: "the effect of sparse weights without that of sparse gradients",
    parameters: K,
    ..MechanismInfo::new("stk", |values| Ok(marked(values.whole("k"), FusedWeighting::StraightThrough)))
};

pub(super) const GRADK: MechanismInfo = MechanismInfo {
    family: Family::Control,
    summary: "as full forward, as topk backward",
    source: "control of this project",
    formula: "p = softmax(z), dL/dz as if p were topk(z)",
    isolates: "the effect of sparse gradients without that of sparse weights",
    parameters: K,
    ..MechanismInfo::new("gradk", |values| Ok(marked(values.whole("k"), FusedWeighting::GradientOfKept)))
};

pub(super) const MASKEDK: MechanismInfo = MechanismInfo {
    family: Family::Control,
    summary: "the softmax over all keys, zero for all but the k highest scores",
    source: "control of this project",
    formula: "p = softmax(z) at the k highest z, 0 elsewhere, not renormalised",
    isolates: "renormalising over the kept keys against dropping the values of the others",
    parameters: K,
    ..MechanismInfo::new("maskedk", |values| Ok(marked(values.whole("k"), FusedWeighting::MaskedSoftmax)))
};

fn marked(k: usize, weighting: FusedWeighting) -> Arc<dyn Mechanism> {
    Arc::new(Marked { highest: TopK { k }, weighting })
}

impl Mechanism for Marked {
    fn keep(&self, scores: &Tensor<4>, context: &LayerContext) -> Tensor<4, Bool> {
        self.highest.keep(scores, context)
    }

    fn selection(&self, length: usize) -> Option<Selection> {
        self.highest.selection(length)
    }

    fn weighting(&self) -> Weighting {
        Weighting::Known(self.weighting)
    }
}
