//! Attention of one head over kept keys only: time and memory grow with the number of kept pairs.

use super::WeightDropout;
use super::dense::{Head, HeadGradients};
use crate::KeptKeys;
use crate::math;
use crate::simd::{LANES, Simd, dispatched, padded, with_vectors};

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
    pub(super) fn scores(simd; head: Head, kept: &KeptKeys, scores: &mut Vec<f32>) {
        with_vectors!(head.width, scores_rows::<S>(simd, head, kept, scores));
    }
}

#[inline(always)]
fn scores_rows<S: Simd, const VECTORS: usize>(simd: S, head: Head, kept: &KeptKeys, scores: &mut Vec<f32>) {
    let stride = row_stride::<VECTORS>(&head);
    for (query, row) in head.query.chunks_exact(stride).enumerate() {
        for &key in kept.row(query) {
            scores.push(dot(simd, row, &head.key[key as usize * stride..][..stride]));
        }
    }
}

dispatched! {
    /// Turns the scores of the kept pairs into weights (before dropout), in place, and writes the context.
    pub(super) fn forward(simd; head: Head, kept: &KeptKeys, drop: WeightDropout, pairs: &mut [f32], context: &mut [f32]) {
        with_vectors!(head.width, forward_rows::<S>(simd, head, kept, drop, pairs, context));
    }
}

#[inline(always)]
fn forward_rows<S: Simd, const VECTORS: usize>(
    simd: S,
    head: Head,
    kept: &KeptKeys,
    drop: WeightDropout,
    pairs: &mut [f32],
    context: &mut [f32],
) {
    let stride = row_stride::<VECTORS>(&head);
    let mut rest = pairs;
    for (query, context) in context.chunks_exact_mut(stride).enumerate() {
        let keys = kept.row(query);
        let (weights, after) = rest.split_at_mut(keys.len());
        rest = after;
        let max = weights.iter().fold(f32::NEG_INFINITY, |a, &b| if b > a { b } else { a });
        let mut sum = simd.splat(0.0);
        for weights in weights.chunks_mut(LANES) {
            let raised = math::exp(simd, simd.sub(simd.load_some(weights), simd.splat(max)));
            sum = simd.add(sum, simd.keep_first(raised, weights.len()));
            simd.store_some(weights, raised);
        }
        let inverse = simd.splat(1.0 / simd.sum(sum));
        let words = drop.words(query);
        context.fill(0.0);
        for (weights, keys) in weights.chunks_mut(LANES).zip(keys.chunks(LANES)) {
            let weight = simd.mul(simd.load_some(weights), inverse);
            simd.store_some(weights, weight);
            let mut dropped = [0.0; LANES];
            simd.store(&mut dropped, simd.mul(weight, dropout_factors(simd, &drop, words, keys)));
            add_weighted_rows::<S, VECTORS>(simd, context, &dropped, keys, head.value);
        }
    }
}

dispatched! {
    /// Writes the gradients of query, key and value from the weights (before dropout) and the gradient of the context.
    pub(super) fn backward(simd; head: Head, kept: &KeptKeys, drop: WeightDropout, weights: &[f32], context_gradient: &[f32], gradients: HeadGradients) {
        with_vectors!(head.width, backward_rows::<S>(simd, head, kept, drop, weights, context_gradient, gradients));
    }
}

#[inline(always)]
fn backward_rows<S: Simd, const VECTORS: usize>(
    simd: S,
    head: Head,
    kept: &KeptKeys,
    drop: WeightDropout,
    weights: &[f32],
    context_gradient: &[f32],
    gradients: HeadGradients,
) {
    let stride = row_stride::<VECTORS>(&head);
    let HeadGradients { query: query_gradients, key: key_gradients, value: value_gradients } = gradients;
    query_gradients.fill(0.0);
    key_gradients.fill(0.0);
    value_gradients.fill(0.0);
    let mut weight_gradients: Vec<f32> = Vec::new();
    let mut rest = weights;
    let rows = head.query.chunks_exact(stride).zip(context_gradient.chunks_exact(stride));
    for (query, ((query_row, context_gradient), query_gradient)) in
        rows.zip(query_gradients.chunks_exact_mut(stride)).enumerate()
    {
        let keys = kept.row(query);
        let (weights, after) = rest.split_at(keys.len());
        rest = after;
        let words = drop.words(query);
        weight_gradients.resize(keys.len().next_multiple_of(LANES), 0.0);
        let mut product = simd.splat(0.0);
        let chunks = weights.chunks(LANES).zip(keys.chunks(LANES));
        for ((weights, keys), gradients) in chunks.clone().zip(weight_gradients.chunks_exact_mut(LANES)) {
            let mut products = [0.0; LANES];
            for (product, &key) in products.iter_mut().zip(keys) {
                *product = dot(simd, context_gradient, &head.value[key as usize * stride..][..stride]);
            }
            let gradient = simd.mul(simd.load(&products), dropout_factors(simd, &drop, words, keys));
            simd.store(gradients, gradient);
            product = simd.fma(simd.load_some(weights), gradient, product);
        }
        let product = simd.splat(simd.sum(product));
        for ((weights, keys), gradients) in chunks.zip(weight_gradients.chunks_exact(LANES)) {
            let weight = simd.load_some(weights);
            let (mut score_gradients, mut dropped) = ([0.0; LANES], [0.0; LANES]);
            simd.store(&mut score_gradients, simd.mul(weight, simd.sub(simd.load(gradients), product)));
            simd.store(&mut dropped, simd.mul(weight, dropout_factors(simd, &drop, words, keys)));
            add_weighted_rows::<S, VECTORS>(simd, query_gradient, &score_gradients, keys, head.key);
            for ((score_gradient, dropped), &key) in score_gradients.iter().zip(&dropped).zip(keys) {
                let at = key as usize * stride..(key as usize + 1) * stride;
                add_scaled(simd, &mut key_gradients[at.clone()], *score_gradient, query_row);
                add_scaled(simd, &mut value_gradients[at], *dropped, context_gradient);
            }
        }
    }
}
