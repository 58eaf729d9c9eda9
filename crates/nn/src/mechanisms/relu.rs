//! `relu`: positive scores over the number of keys, without normalising. A query whose scores are all negative attends to nothing.

use std::sync::Arc;

use burn::tensor::{Bool, Tensor};
use semfocus_kernels::FusedWeighting;

use super::{LayerContext, Mechanism, Selection, keep_all};
use crate::info::{Family, MechanismInfo};
use crate::weighting::Weighting;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Relu;

pub(super) const INFO: MechanismInfo = MechanismInfo {
    name: "relu",
    family: Family::Dense,
    summary: "the keys with positive scores",
    source: "Wortsman et al., Replacing Softmax with ReLU in Vision Transformers, 2023",
    formula: "p = max(z, 0) / n for n visible keys",
    isolates: "the competition of keys in the softmax",
    parameters: &[],
    allows_globals: false,
    build: |_| Ok(Arc::new(Relu)),
};

impl Mechanism for Relu {
    fn keep(&self, scores: &Tensor<4>, _context: &LayerContext) -> Tensor<4, Bool> {
        keep_all(scores)
    }

    fn selection(&self, _length: usize) -> Option<Selection> {
        Some(Selection::All)
    }

    fn weighting(&self) -> Weighting {
        Weighting::Known(FusedWeighting::Relu)
    }
}
