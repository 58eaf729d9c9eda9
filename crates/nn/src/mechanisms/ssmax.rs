//! `ssmax`: softmax whose scores are multiplied with `s ln L` in sequences of `L` tokens; every head learns its `s`, beginning at 1, so
//! that attention stays focused in longer sequences. With sequences of one length it is a learned temperature.
//!
//! A single token counts as two, because `ln 1` is 0. In causal models `L` is the length of the sequence for every query, not the number of keys that it sees.

use std::sync::Arc;

use burn::tensor::{Bool, Tensor};

use super::{LayerContext, Mechanism, Selection, keep_all};
use crate::info::{Family, MechanismInfo};
use crate::mechanism::{HeadTensors, LayerShape, MechanismParameter};

/// Scalable softmax.
#[derive(Clone, Copy, Debug)]
struct Ssmax;

pub(super) const INFO: MechanismInfo = MechanismInfo {
    family: Family::Dense,
    summary: "all keys, sharper by a learned factor",
    source: "Nakanishi, Scalable-Softmax Is Superior for Attention, 2025",
    formula: "p = softmax(s ln(L) z), s learned by every head",
    isolates: "focus without sparsity, learned",
    ..MechanismInfo::new("ssmax", |_| Ok(Arc::new(Ssmax)))
};

const LEARNED: &[MechanismParameter] = &[MechanismParameter { name: "s", initial: 1.0 }];

impl Mechanism for Ssmax {
    fn keep(&self, scores: &Tensor<4>, _context: &LayerContext) -> Tensor<4, Bool> {
        keep_all(scores)
    }

    fn selection(&self, _length: usize) -> Option<Selection> {
        Some(Selection::All)
    }

    fn parameters(&self) -> &'static [MechanismParameter] {
        LEARNED
    }

    fn head_scalars(&self, parameters: Option<Tensor<2>>, shape: &LayerShape) -> HeadTensors {
        let factor = (shape.length.max(2) as f64).ln();
        let temperature = parameters.map(|s| s.squeeze_dim::<1>(1).mul_scalar(factor));
        HeadTensors { temperature, alpha: None }
    }
}
