//! `differential[:lambda=x]`: the difference of two softmaxes, by the first and the second half of the head: queries and keys are divided
//! in the middle of their width, `p = softmax(q₁k₁) - λ softmax(q₂k₂)`.
//!
//! Published are twice as many heads of queries and keys, a learned λ for each layer, and a norm of each head's output. Here λ is a
//! constant, there is no such norm, and the model keeps its size. Runs in the reference form.

use std::sync::Arc;

use burn::tensor::{Bool, Tensor};
use semfocus_core::spec::{Literal, Parameter};

use super::{LayerContext, Mechanism, keep_all};
use crate::info::{Family, MechanismInfo};
use crate::weighting::{Content, WeightFunction, Weighting, softmax};

/// Differential attention.
#[derive(Clone, Copy, Debug)]
struct Differential {
    /// Weight of the second softmax.
    lambda: f64,
}

pub(super) const INFO: MechanismInfo = MechanismInfo {
    family: Family::Dense,
    summary: "all keys, by the difference of two softmaxes",
    source: "Ye et al., Differential Transformer, 2024 (here with a constant lambda and without the norm)",
    formula: "p = softmax(q1 k1) - lambda softmax(q2 k2) for two halves of a head",
    isolates: "a dense reference that cancels noise",
    parameters: &[Parameter::number("lambda", "the weight of the second softmax", 0.0, 1.0, 0.5)
        .keyed()
        .default(Literal::Number(0.5))],
    ..MechanismInfo::new("differential", |values| Ok(Arc::new(Differential { lambda: values.number("lambda") })))
};

impl Mechanism for Differential {
    fn keep(&self, scores: &Tensor<4>, _context: &LayerContext) -> Tensor<4, Bool> {
        keep_all(scores)
    }

    fn weighting(&self) -> Weighting {
        Weighting::Custom(Arc::new(*self))
    }
}

impl WeightFunction for Differential {
    fn follows_scores(&self) -> bool {
        false
    }

    fn weights(&self, _scores: Tensor<4>, kept: Tensor<4, Bool>, content: &Content) -> Tensor<4> {
        let width = content.query.dims()[3];
        let first = width.div_ceil(2);
        let half = |from: usize, count: usize| {
            let [query, key] = [&content.query, &content.key].map(|rows| rows.clone().narrow(3, from, count));
            // Scores of half the width are divided by the root of half the width.
            let scale = content.scale * (width as f64 / count as f64).sqrt();
            softmax(query.matmul(key.swap_dims(2, 3)).mul_scalar(scale), kept.clone())
        };
        match width - first {
            0 => half(0, first),
            second => half(0, first).sub(half(first, second).mul_scalar(self.lambda)),
        }
    }
}
