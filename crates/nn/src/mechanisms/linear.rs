//! `linear`: attention by a product of positive features of query and key, `φ(x) = elu(x) + 1`, in place of the exponential of their
//! product. Runs in the reference form: the point of the published method, a cost that does not grow with the square of the length, is
//! not made use of.

use std::sync::Arc;

use burn::tensor::{Bool, Tensor};

use super::{LayerContext, Mechanism, keep_all};
use crate::info::{Family, MechanismInfo};
use crate::weighting::{Content, WeightFunction, Weighting};

/// Linear attention.
#[derive(Clone, Copy, Debug)]
struct Linear;

pub(super) const INFO: MechanismInfo = MechanismInfo {
    family: Family::Dense,
    summary: "all keys, by products of positive features",
    source: "Katharopoulos et al., Transformers are RNNs: Fast Autoregressive Transformers with Linear Attention, 2020",
    formula: "p = f(q) f(k) / sum of f(q) f(k), f(x) = elu(x) + 1",
    isolates: "a dense reference that can hardly focus",
    ..MechanismInfo::new("linear", |_| Ok(Arc::new(Linear)))
};

impl Mechanism for Linear {
    fn keep(&self, scores: &Tensor<4>, _context: &LayerContext) -> Tensor<4, Bool> {
        keep_all(scores)
    }

    fn weighting(&self) -> Weighting {
        Weighting::Custom(Arc::new(Linear))
    }
}

impl WeightFunction for Linear {
    fn follows_scores(&self) -> bool {
        false
    }

    fn weights(&self, _scores: Tensor<4>, kept: Tensor<4, Bool>, content: &Content) -> Tensor<4> {
        let products = feature(content.query.clone()).matmul(feature(content.key.clone()).swap_dims(2, 3));
        let products = products.mask_fill(kept.bool_not(), 0.0);
        products.clone().div(products.sum_dim(3))
    }
}

/// `elu(x) + 1`: `x + 1` for positive `x`, `eˣ` for others.
fn feature(x: Tensor<4>) -> Tensor<4> {
    let is_positive = x.clone().greater_elem(0.0);
    // The exponent is never positive, so that nothing overflows where it is not used.
    x.clone().clamp_max(0.0).exp().mask_where(is_positive, x.add_scalar(1.0))
}
