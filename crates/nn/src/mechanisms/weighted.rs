//! All keys, with other weights than those of the softmax:
//!
//! * `sparsemax`: the Euclidean projection of the scores on the probability simplex. Sparse, continuous, and 1-Lipschitz in the scores.
//! * `sigmoid`: every key is weighed by itself, without normalising.
//! * `relu`: positive scores over the number of keys, without normalising. A query whose scores are all negative attends to nothing.

use std::sync::Arc;

use burn::tensor::{Bool, Tensor};
use semfocus_kernels::FusedWeighting;

use super::{LayerContext, Mechanism, Selection, keep_all};
use crate::info::{Family, MechanismInfo};
use crate::weighting::Weighting;

/// See the module.
#[derive(Clone, Copy, Debug)]
struct Weighted(FusedWeighting);

pub(super) const SPARSEMAX: MechanismInfo = MechanismInfo {
    family: Family::InputDependent,
    summary: "the keys whose score is above the threshold of sparsemax",
    source: "Martins and Astudillo, From Softmax to Sparsemax, 2016",
    formula: "p = [z - t]+ with the t for which p sums to 1",
    isolates: "sparsity that follows continuously from the scores: no fixed k and no jump",
    ..MechanismInfo::new("sparsemax", |_| Ok(Arc::new(Weighted(FusedWeighting::Sparsemax))))
};

pub(super) const SIGMOID: MechanismInfo = MechanismInfo {
    family: Family::Dense,
    summary: "all keys, each weighed by itself",
    source: "Ramapuram et al., Theory, Analysis, and Best Practices for Sigmoid Self-Attention, 2024",
    formula: "p = 1 / (1 + e^(ln n - z)) for n visible keys",
    isolates: "the competition of keys in the softmax",
    ..MechanismInfo::new("sigmoid", |_| Ok(Arc::new(Weighted(FusedWeighting::Sigmoid))))
};

pub(super) const RELU: MechanismInfo = MechanismInfo {
    family: Family::Dense,
    summary: "the keys with positive scores",
    source: "Wortsman et al., Replacing Softmax with ReLU in Vision Transformers, 2023",
    formula: "p = max(z, 0) / n for n visible keys",
    isolates: "the competition of keys in the softmax",
    ..MechanismInfo::new("relu", |_| Ok(Arc::new(Weighted(FusedWeighting::Relu))))
};

impl Mechanism for Weighted {
    fn keep(&self, scores: &Tensor<4>, _context: &LayerContext) -> Tensor<4, Bool> {
        keep_all(scores)
    }

    fn selection(&self, _length: usize) -> Option<Selection> {
        Some(Selection::All)
    }

    fn weighting(&self) -> Weighting {
        Weighting::Known(self.0)
    }
}
