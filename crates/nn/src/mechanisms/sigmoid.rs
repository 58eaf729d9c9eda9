//! `sigmoid`: every key is weighed by itself, without normalising.

use std::sync::Arc;

use burn::tensor::{Bool, Tensor};
use semfocus_kernels::FusedWeighting;

use super::{LayerContext, Mechanism, Selection, keep_all};
use crate::info::{Family, MechanismInfo};
use crate::weighting::Weighting;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Sigmoid;

pub(super) const INFO: MechanismInfo = MechanismInfo {
    name: "sigmoid",
    family: Family::Dense,
    summary: "all keys, each weighed by itself",
    source: "Ramapuram et al., Theory, Analysis, and Best Practices for Sigmoid Self-Attention, 2024",
    formula: "p = 1 / (1 + e^(ln n - z)) for n visible keys",
    isolates: "the competition of keys in the softmax",
    parameters: &[],
    allows_globals: false,
    build: |_| Ok(Arc::new(Sigmoid)),
};

impl Mechanism for Sigmoid {
    fn keep(&self, scores: &Tensor<4>, _context: &LayerContext) -> Tensor<4, Bool> {
        keep_all(scores)
    }

    fn selection(&self, _length: usize) -> Option<Selection> {
        Some(Selection::All)
    }

    fn weighting(&self) -> Weighting {
        Weighting::Known(FusedWeighting::Sigmoid)
    }
}
