//! Attention of one head over kept keys only: time and memory grow with the number of kept pairs.

use super::WeightDropout;
use super::dense::{Head, HeadGradients, Weighing};
use crate::math;
use crate::simd::{LANES, Simd, dispatched, padded};
use crate::weighting::{self, RowStatistics};
use crate::{FusedWeighting, KeptKeys};

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

/// `to += Σ factors[i] * rows[keys[i]]` for padded rows.
#[inline(always)]
fn add_weighted_rows<S: Simd, const VECTORS: usize>(
    simd: S,
    to: &mut [f32],
    factors: &[f32; LANES],
    keys: &[u32],
    rows: &[f32],
) {
    if VECTORS == 0 {
        for (factor, &key) in factors.iter().zip(keys) {
            add_scaled(simd, to, *factor, &rows[key as usize * to.len()..]);
        }
        return;
    }
    // The sum stays in registers.
    let mut sums = [simd.splat(0.0); VECTORS];
    for (v, sum) in sums.iter_mut().enumerate() {
        *sum = simd.load(&to[v * LANES..]);
    }
    for (factor, &key) in factors.iter().zip(keys) {
        let (factor, row) = (simd.splat(*factor), &rows[key as usize * VECTORS * LANES..][..VECTORS * LANES]);
        for (v, sum) in sums.iter_mut().enumerate() {
            *sum = simd.fma(factor, simd.load(&row[v * LANES..]), *sum);
        }
    }
    for (v, sum) in sums.iter().enumerate() {
        simd.store(&mut to[v * LANES..], *sum);
    }
}

/// Values from row to row, known when the code is compiled if `VECTORS` is.
#[inline(always)]
fn row_stride<const VECTORS: usize>(head: &Head) -> usize {
    if VECTORS > 0 { VECTORS * LANES } else { padded(head.width) }
}

/// Dropout factors of up to sixteen keys of a row.
#[inline(always)]
fn dropout_factors<S: Simd>(simd: S, drop: &WeightDropout, words: (u32, u32), keys: &[u32]) -> S::F {
    let ones = simd.splat(1.0);
    if drop.is_none() {
        return ones;
    }
    let mut columns = [0; LANES];
    for (column, &key) in columns.iter_mut().zip(keys) {
        *column = key;
    }
    simd.dropout_at(ones, words, &columns, &drop.dropout)
}

dispatched! {
    /// The scores of all kept pairs, in the order of the pattern.
    pub(super) fn scores(simd, VECTORS of head.width; head: Head, kept: &KeptKeys, scores: &mut Vec<f32>) {
        let stride = row_stride::<VECTORS>(&head);
        for (query, row) in head.query.chunks_exact(stride).enumerate() {
            for &key in kept.row(query) {
                scores.push(dot(simd, row, &head.key[key as usize * stride..][..stride]));
            }
        }
    }
}

dispatched! {
    /// Turns the scores of the kept pairs into weights (before dropout), in place, and writes the context. Appends the statistics
    /// of each row for weightings other than softmax.
    pub(super) fn forward(simd, VECTORS of head.width; head: Head, kept: &KeptKeys, how: Weighing, pairs: &mut [f32], context: &mut [f32], statistics: &mut Vec<RowStatistics>) {
        let stride = row_stride::<VECTORS>(&head);
        let mut scratch = Vec::new();
        let mut rest = pairs;
        for (query, context) in context.chunks_exact_mut(stride).enumerate() {
            let keys = kept.row(query);
            let (weights, after) = rest.split_at_mut(keys.len());
            rest = after;
            if how.weighting == FusedWeighting::Softmax {
                softmax(simd, weights);
            } else {
                let row = weighting::statistics(simd, how.weighting, how.alpha, weights, &mut scratch);
                weighting::weigh(simd, how.weighting, how.alpha, row, weights);
                statistics.push(row);
            }
            let words = how.drop.words(query);
            context.fill(0.0);
            for (weights, keys) in weights.chunks(LANES).zip(keys.chunks(LANES)) {
                let mut dropped = [0.0; LANES];
                let factors = dropout_factors(simd, &how.drop, words, keys);
                simd.store(&mut dropped, simd.mul(simd.load_some(weights), factors));
                add_weighted_rows::<S, VECTORS>(simd, context, &dropped, keys, head.value);
            }
        }
    }
}

/// Softmax of a row, in place.
#[inline(always)]
fn softmax<S: Simd>(simd: S, scores: &mut [f32]) {
    let mut max = f32::NEG_INFINITY;
    for &score in scores.iter() {
        max = if score > max { score } else { max };
    }
    let mut sum = simd.splat(0.0);
    for scores in scores.chunks_mut(LANES) {
        let raised = math::exp(simd, simd.sub(simd.load_some(scores), simd.splat(max)));
        sum = simd.add(sum, simd.keep_first(raised, scores.len()));
        simd.store_some(scores, raised);
    }
    let inverse = simd.splat(1.0 / simd.sum(sum));
    for weights in scores.chunks_mut(LANES) {
        simd.store_some(weights, simd.mul(simd.load_some(weights), inverse));
    }
}

dispatched! {
    /// Writes the gradients of query, key and value from the weights (before dropout) and the gradient of the context. Returns the
    /// gradient of α.
    pub(super) fn backward(simd, VECTORS of head.width; head: Head, kept: &KeptKeys, how: Weighing, weights: &[f32], statistics: &[RowStatistics], context_gradient: &[f32], gradients: HeadGradients) -> f32 {
        let stride = row_stride::<VECTORS>(&head);
        let HeadGradients { query: query_gradients, key: key_gradients, value: value_gradients } = gradients;
        query_gradients.fill(0.0);
        key_gradients.fill(0.0);
        value_gradients.fill(0.0);
        let mut alpha_gradient = 0.0;
        let mut row_gradients: Vec<f32> = Vec::new();
        let mut rest = weights;
        let rows = head.query.chunks_exact(stride).zip(context_gradient.chunks_exact(stride));
        for (query, ((query_row, context_gradient), query_gradient)) in
            rows.zip(query_gradients.chunks_exact_mut(stride)).enumerate()
        {
            let keys = kept.row(query);
            let (weights, after) = rest.split_at(keys.len());
            rest = after;
            let words = how.drop.words(query);
            // Gradients of the weights, then of the scores.
            row_gradients.resize(keys.len().next_multiple_of(LANES), 0.0);
            for (keys, gradients) in keys.chunks(LANES).zip(row_gradients.chunks_exact_mut(LANES)) {
                let mut products = [0.0; LANES];
                for (product, &key) in products.iter_mut().zip(keys) {
                    *product = dot(simd, context_gradient, &head.value[key as usize * stride..][..stride]);
                }
                let factors = dropout_factors(simd, &how.drop, words, keys);
                simd.store(gradients, simd.mul(simd.load(&products), factors));
            }
            if how.weighting == FusedWeighting::Softmax {
                softmax_backward(simd, weights, &mut row_gradients);
            } else {
                let gradients = &mut row_gradients[..keys.len()];
                alpha_gradient +=
                    weighting::weigh_backward(simd, how.weighting, how.alpha, statistics[query], weights, gradients);
            }
            let chunks = weights.chunks(LANES).zip(keys.chunks(LANES));
            for ((weights, keys), gradients) in chunks.zip(row_gradients.as_chunks::<LANES>().0) {
                let mut dropped = [0.0; LANES];
                let factors = dropout_factors(simd, &how.drop, words, keys);
                simd.store(&mut dropped, simd.mul(simd.load_some(weights), factors));
                add_weighted_rows::<S, VECTORS>(simd, query_gradient, gradients, keys, head.key);
                for ((gradient, dropped), &key) in gradients.iter().zip(&dropped).zip(keys) {
                    let at = key as usize * stride..(key as usize + 1) * stride;
                    add_scaled(simd, &mut key_gradients[at.clone()], *gradient, query_row);
                    add_scaled(simd, &mut value_gradients[at], *dropped, context_gradient);
                }
            }
        }
        alpha_gradient
    }
}

/// From gradients of the weights to those of the scores, in place; `gradients` is padded to whole vectors.
#[inline(always)]
fn softmax_backward<S: Simd>(simd: S, weights: &[f32], gradients: &mut [f32]) {
    let mut product = simd.splat(0.0);
    for (weights, gradients) in weights.chunks(LANES).zip(gradients.chunks_exact(LANES)) {
        product = simd.fma(simd.load_some(weights), simd.load(gradients), product);
    }
    let product = simd.splat(simd.sum(product));
    for (weights, gradients) in weights.chunks(LANES).zip(gradients.chunks_exact_mut(LANES)) {
        simd.store(gradients, simd.mul(simd.load_some(weights), simd.sub(simd.load(gradients), product)));
    }
}
