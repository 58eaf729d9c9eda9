//! `sparsemax`: the Euclidean projection of the scores on the probability simplex. Sparse, continuous, and 1-Lipschitz in the scores.

use std::sync::Arc;

use burn::tensor::{Bool, Tensor};
use semfocus_kernels::FusedWeighting;

use super::{LayerContext, Mechanism, Selection, keep_all};
use crate::info::{Family, MechanismInfo};
use crate::weighting::Weighting;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Sparsemax;

pub(super) const INFO: MechanismInfo = MechanismInfo {
    name: "sparsemax",
    family: Family::InputDependent,
    summary: "the keys whose score is above the threshold of sparsemax",
    source: "Martins and Astudillo, From Softmax to Sparsemax, 2016",
    formula: "p = [z - t]+ with the t for which p sums to 1",
    isolates: "sparsity that follows continuously from the scores: no fixed k and no jump",
    parameters: &[],
    allows_globals: false,
    build: |_| Ok(Arc::new(Sparsemax)),
};

impl Mechanism for Sparsemax {
    fn keep(&self, scores: &Tensor<4>, _context: &LayerContext) -> Tensor<4, Bool> {
        keep_all(scores)
    }

    fn selection(&self, _length: usize) -> Option<Selection> {
        Some(Selection::All)
    }

    fn weighting(&self) -> Weighting {
        Weighting::Known(FusedWeighting::Sparsemax)
    }
}
