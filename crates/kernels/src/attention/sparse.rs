//! Attention of one head over kept keys only: time and memory grow with the number of kept pairs.

use super::WeightDropout;
use super::dense::{Head, HeadGradients};
use crate::KeptKeys;
use crate::math;
use crate::simd::{LANES, Simd, dispatched, padded};

/// Scalar product of two padded rows.
#[inline(always)]
fn dot<S: Simd>(simd: S, a: &[f32], b: &[f32]) -> f32 {
    let mut sum = simd.splat(0.0);
    for (a, b) in a.chunks_exact(LANES).zip(b.chunks_exact(LANES)) {
        sum = simd.fma(simd.load(a), simd.load(b), sum);
    }
    simd.sum(sum)
}

/// `to += factor * from` for padded rows.
#[inline(always)]
fn add_scaled<S: Simd>(simd: S, to: &mut [f32], factor: f32, from: &[f32]) {
    let factor = simd.splat(factor);
    for (to, from) in to.chunks_exact_mut(LANES).zip(from.chunks_exact(LANES)) {
        simd.store(to, simd.fma(factor, simd.load(from), simd.load(to)));
    }
}

dispatched! {
    /// The scores of all kept pairs, in the order of the pattern.
    pub(super) fn scores(simd; head: Head, kept: &KeptKeys, scores: &mut Vec<f32>) {
        let stride = padded(head.width);
        for (query, row) in head.query.chunks_exact(stride).enumerate() {
            for &key in kept.row(query) {
                scores.push(dot(simd, row, &head.key[key as usize * stride..][..stride]));
            }
        }
    }
}

dispatched! {
    /// Turns the scores of the kept pairs into weights (before dropout), in place, and writes the context.
    pub(super) fn forward(simd; head: Head, kept: &KeptKeys, drop: WeightDropout, pairs: &mut [f32], context: &mut [f32]) {
        let stride = padded(head.width);
        let mut rest = pairs;
        for (query, context) in context.chunks_exact_mut(stride).enumerate() {
            let keys = kept.row(query);
            let (weights, after) = rest.split_at_mut(keys.len());
            rest = after;
            let greatest = weights.iter().fold(f32::NEG_INFINITY, |a, &b| if b > a { b } else { a });
            let mut sum = simd.splat(0.0);
            for weights in weights.chunks_mut(LANES) {
                let raised = math::exp(simd, simd.sub(simd.load_some(weights), simd.splat(greatest)));
                sum = simd.add(sum, simd.keep_first(raised, weights.len()));
                simd.store_some(weights, raised);
            }
            let inverse = 1.0 / simd.sum(sum);
            let row = drop.row(query);
            context.fill(0.0);
            for (weight, &key) in weights.iter_mut().zip(keys) {
                *weight *= inverse;
                let dropped = if drop.is_none() { *weight } else { *weight * drop.dropout.factor(row, key) };
                add_scaled(simd, context, dropped, &head.value[key as usize * stride..][..stride]);
            }
        }
    }
}

dispatched! {
    /// Writes the gradients of query, key and value from the weights (before dropout) and the gradient of the context.
    pub(super) fn backward(simd; head: Head, kept: &KeptKeys, drop: WeightDropout, weights: &[f32], context_gradient: &[f32], gradients: HeadGradients) {
        let stride = padded(head.width);
        let HeadGradients { query: query_gradients, key: key_gradients, value: value_gradients } = gradients;
        query_gradients.fill(0.0);
        key_gradients.fill(0.0);
        value_gradients.fill(0.0);
        let mut factors: Vec<f32> = Vec::new();
        let mut weight_gradients: Vec<f32> = Vec::new();
        let mut rest = weights;
        let rows = head.query.chunks_exact(stride).zip(context_gradient.chunks_exact(stride));
        for (query, ((query_row, context_gradient), query_gradient)) in rows.zip(query_gradients.chunks_exact_mut(stride)).enumerate() {
            let keys = kept.row(query);
            let (weights, after) = rest.split_at(keys.len());
            rest = after;
            let row = drop.row(query);
            factors.clear();
            weight_gradients.clear();
            let mut product = 0.0;
            for (weight, &key) in weights.iter().zip(keys) {
                let factor = if drop.is_none() { 1.0 } else { drop.dropout.factor(row, key) };
                let gradient = factor * dot(simd, context_gradient, &head.value[key as usize * stride..][..stride]);
                product += weight * gradient;
                factors.push(factor);
                weight_gradients.push(gradient);
            }
            for (((weight, factor), gradient), &key) in weights.iter().zip(&factors).zip(&weight_gradients).zip(keys) {
                let at = key as usize * stride..(key as usize + 1) * stride;
                let score_gradient = weight * (gradient - product);
                add_scaled(simd, query_gradient, score_gradient, &head.key[at.clone()]);
                add_scaled(simd, &mut key_gradients[at.clone()], score_gradient, query_row);
                add_scaled(simd, &mut value_gradients[at], weight * factor, context_gradient);
            }
        }
    }
}
