//! `entmax[:alpha]`: between softmax (α = 1) and sparsemax (α = 2). With `entmax:learned` every head learns its own α between 1 and 2,
//! `α = 1 + σ(a)`, beginning at 1.5.

use std::sync::Arc;

use burn::tensor::{Bool, Tensor, activation};
use semfocus_core::spec::{Literal, Parameter};
use semfocus_kernels::FusedWeighting;

use super::{LayerContext, Mechanism, Selection, keep_all};
use crate::info::{Family, MechanismInfo};
use crate::mechanism::{HeadTensors, LayerShape, MechanismParameter};
use crate::weighting::Weighting;

/// α-entmax over all keys.
#[derive(Clone, Copy, Debug)]
struct Entmax {
    /// The α of all heads; `None` if every head learns its own.
    alpha: Option<f64>,
}

pub(super) const INFO: MechanismInfo = MechanismInfo {
    family: Family::InputDependent,
    summary: "the keys whose score is above the threshold of entmax",
    source: "Peters et al., Sparse Sequence-to-Sequence Models, 2019; Correia et al., Adaptively Sparse Transformers, 2019",
    formula: "p = [(a - 1) z - t]+ ^ (1 / (a - 1)) with the t for which p sums to 1",
    isolates: "sparsity that follows continuously from the scores, from dense to sparse",
    parameters: &[Parameter::number("alpha", "how sparse: 1 is softmax, 2 is sparsemax", 1.0, 2.0, 1.5)
        .or_words(&["learned"])
        .default(Literal::Number(1.5))],
    ..MechanismInfo::new("entmax", |values| {
        Ok(Arc::new(Entmax { alpha: values.get("alpha").and_then(|alpha| alpha.number()) }))
    })
};

const LEARNED: &[MechanismParameter] = &[MechanismParameter { name: "alpha", initial: 0.0 }];

impl Mechanism for Entmax {
    fn keep(&self, scores: &Tensor<4>, _context: &LayerContext) -> Tensor<4, Bool> {
        keep_all(scores)
    }

    fn selection(&self, _length: usize) -> Option<Selection> {
        Some(Selection::All)
    }

    fn weighting(&self) -> Weighting {
        Weighting::Known(match self.alpha {
            Some(1.0) => FusedWeighting::Softmax,
            Some(1.5) => FusedWeighting::Entmax15,
            Some(2.0) => FusedWeighting::Sparsemax,
            _ => FusedWeighting::Entmax,
        })
    }

    fn parameters(&self) -> &'static [MechanismParameter] {
        if self.alpha.is_none() { LEARNED } else { &[] }
    }

    fn head_scalars(&self, parameters: Option<Tensor<2>>, shape: &LayerShape) -> HeadTensors {
        let alpha = match self.alpha {
            Some(1.0 | 1.5 | 2.0) => None,
            Some(alpha) => Some(shape.constant(alpha)),
            None => parameters.map(|parameters| activation::sigmoid(parameters.squeeze_dim::<1>(1)).add_scalar(1.0)),
        };
        HeadTensors { temperature: None, alpha }
    }
}
