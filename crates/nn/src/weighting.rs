//! How scores become attention weights, in plain, differentiable tensor code: the definition.
//!
//! All tensors are `[batch, heads, queries, keys]`; dropped keys get the weight 0.

use std::sync::Arc;

use burn::tensor::{Bool, Tensor, activation};
use semfocus_kernels::FusedWeighting;

use crate::context::LayerContext;

/// Queries and keys of a layer, each `[batch, heads, length, d_head]`.
#[derive(Clone, Debug)]
pub struct Content {
    /// The queries.
    pub query: Tensor<4>,
    /// The keys.
    pub key: Tensor<4>,
    /// A score is this times the product of a query and a key.
    pub scale: f64,
}

/// A weighting in tensor code.
pub trait WeightFunction: Send + Sync + std::fmt::Debug {
    /// Differentiable weights from scores and kept keys, or from the queries and keys themselves; dropped keys get 0.
    fn weights(&self, scores: Tensor<4>, kept: Tensor<4, Bool>, content: &Content) -> Tensor<4>;

    /// Whether the weights follow from the scores. If not, what probes say about scores is not defined.
    fn follows_scores(&self) -> bool {
        true
    }
}

/// How scores become attention weights.
#[derive(Clone, Debug)]
pub enum Weighting {
    /// One that both forms know.
    Known(FusedWeighting),
    /// A weighting that exists in tensor code only. Mechanisms that use it run in the reference form.
    Custom(Arc<dyn WeightFunction>),
}

impl Weighting {
    /// Whether the weights are a softmax of the scores, over the kept keys or over all visible ones.
    pub fn is_softmax(&self) -> bool {
        matches!(self, Weighting::Known(known) if known.is_softmax())
    }

    /// Whether the weights follow from the scores, not from the queries and keys in another way.
    pub fn follows_scores(&self) -> bool {
        match self {
            Weighting::Known(_) => true,
            Weighting::Custom(function) => function.follows_scores(),
        }
    }

    /// Reference form: the weights of scores and kept keys, all `[batch, heads, queries, keys]`; `alpha` is `[1, heads, 1, 1]`.
    pub fn weights(
        &self,
        scores: Tensor<4>,
        kept: Tensor<4, Bool>,
        alpha: Tensor<4>,
        content: &Content,
        context: &LayerContext,
    ) -> Tensor<4> {
        let of_all = |scores: Tensor<4>| activation::softmax(context.hide(scores, f32::NEG_INFINITY), 3);
        match self {
            Weighting::Known(FusedWeighting::Softmax) => softmax(scores, kept),
            Weighting::Known(FusedWeighting::Sparsemax) => entmax(scores, kept, alpha.full_like(2.0)),
            Weighting::Known(FusedWeighting::Entmax15) => entmax(scores, kept, alpha.full_like(1.5)),
            Weighting::Known(FusedWeighting::Entmax) => entmax(scores, kept, alpha),
            Weighting::Known(FusedWeighting::Sigmoid) => sigmoid(scores, kept),
            Weighting::Known(FusedWeighting::Relu) => relu(scores, kept),
            Weighting::Known(FusedWeighting::StraightThrough) => {
                let forward = softmax(scores.clone(), kept);
                with_gradient_of(forward, of_all(scores))
            }
            Weighting::Known(FusedWeighting::GradientOfKept) => {
                let forward = of_all(scores.clone());
                with_gradient_of(forward, softmax(scores, kept))
            }
            Weighting::Known(FusedWeighting::MaskedSoftmax) => of_all(scores).mask_fill(kept.bool_not(), 0.0),
            Weighting::Custom(function) => function.weights(scores, kept, content),
        }
    }
}

/// The values of `forward` with the gradient of `backward`.
fn with_gradient_of(forward: Tensor<4>, backward: Tensor<4>) -> Tensor<4> {
    forward.without_autodiff().add(backward.clone().sub(backward.without_autodiff()))
}

pub(crate) fn softmax(scores: Tensor<4>, kept: Tensor<4, Bool>) -> Tensor<4> {
    activation::softmax(scores.mask_fill(kept.bool_not(), f32::NEG_INFINITY), 3)
}

/// `σ(score - ln n)` for `n` kept keys.
fn sigmoid(scores: Tensor<4>, kept: Tensor<4, Bool>) -> Tensor<4> {
    let shift = kept_keys(&scores, &kept).log();
    activation::sigmoid(scores.sub(shift)).mask_fill(kept.bool_not(), 0.0)
}

/// `max(score, 0) / n` for `n` kept keys.
fn relu(scores: Tensor<4>, kept: Tensor<4, Bool>) -> Tensor<4> {
    let count = kept_keys(&scores, &kept);
    activation::relu(scores).div(count).mask_fill(kept.bool_not(), 0.0)
}

/// Number of kept keys of each query, `[batch, heads, queries, 1]`, in the precision of the scores.
fn kept_keys(scores: &Tensor<4>, kept: &Tensor<4, Bool>) -> Tensor<4> {
    kept.clone().float().cast(scores.dtype()).sum_dim(3)
}

/// α-entmax: `[(α - 1) score - τ]₊ ^ (1 / (α - 1))` with the τ that makes the weights sum to 1, for α above 1, `[1, heads, 1, 1]`.
///
/// τ is found by bisection, without gradients. Then one Newton step, with gradients and a derivative held fixed, leaves its value
/// as it is and gives it its exact gradient: that of the implicit function.
fn entmax(scores: Tensor<4>, kept: Tensor<4, Bool>, alpha: Tensor<4>) -> Tensor<4> {
    let slope = alpha.sub_scalar(1.0);
    let dropped = kept.bool_not();
    // The largest kept score is subtracted: τ is then between -1 and 0.
    let max = scores.clone().mask_fill(dropped.clone(), f32::NEG_INFINITY).max_dim(3).without_autodiff();
    let raised = scores.sub(max).mul(slope.clone()); // [batch, heads, queries, keys]
    let weights = |raised: Tensor<4>, slope: Tensor<4>, threshold: Tensor<4>, power: fn(Tensor<4>) -> Tensor<4>| {
        let above = raised.sub(threshold);
        let is_zero = above.clone().lower_equal_elem(0.0).bool_or(dropped.clone());
        // Zero would have an infinite logarithm; those places are set to zero below.
        let logarithm = above.mask_fill(is_zero.clone(), 1.0).log();
        logarithm.mul(power(slope)).exp().mask_fill(is_zero, 0.0)
    };
    let (fixed_raised, fixed_slope) = (raised.clone().without_autodiff(), slope.clone().without_autodiff());
    let sum = |threshold: Tensor<4>| {
        weights(fixed_raised.clone(), fixed_slope.clone(), threshold, |slope| slope.recip()).sum_dim(3)
    };
    let start = fixed_raised.clone().max_dim(3).zeros_like(); // [batch, heads, queries, 1]
    let (mut low, mut high) = (start.clone().sub_scalar(1.0), start);
    for _ in 0..60 {
        let middle = low.clone().add(high.clone()).mul_scalar(0.5);
        let too_low = sum(middle.clone()).greater_equal_elem(1.0);
        low = low.mask_where(too_low.clone(), middle.clone());
        high = high.mask_where(too_low.bool_not(), middle);
    }
    let derivative = weights(fixed_raised, fixed_slope.clone(), low.clone(), |slope| slope.recip().sub_scalar(1.0));
    let derivative = derivative.sum_dim(3).div(fixed_slope);
    let excess = weights(raised.clone(), slope.clone(), low.clone(), |slope| slope.recip()).sum_dim(3).sub_scalar(1.0);
    let threshold = low.add(excess.div(derivative));
    weights(raised, slope, threshold, |slope| slope.recip())
}
