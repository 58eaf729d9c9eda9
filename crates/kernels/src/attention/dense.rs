//! Attention of one head over all keys, without storing a length × length matrix: queries are processed in blocks, and the
//! backward pass recomputes the weights of a block from the maximum score and the sum of every row.

use super::WeightDropout;
use crate::buffer::Buffer;
use crate::math;
use crate::matmul::{Left, Right, Start, multiply, panels, panels_len, transpose_into_panels};
use crate::simd::{LANES, dispatched, padded};

/// Queries that are processed together; their rows of scores stay in the second-level cache.
const QUERY_BLOCK: usize = 48;

/// One head's projections in one sequence: `length` padded rows each.
#[derive(Clone, Copy)]
pub(super) struct Head<'a> {
    pub(super) length: usize,
    pub(super) width: usize,
    pub(super) query: &'a [f32],
    pub(super) key: &'a [f32],
    pub(super) value: &'a [f32],
}

/// Gradients of the same.
pub(super) struct HeadGradients<'a> {
    pub(super) query: &'a mut [f32],
    pub(super) key: &'a mut [f32],
    pub(super) value: &'a mut [f32],
}

/// Calls `use_rows(first_query, queries, scores)` for every block of queries with its padded rows of scores.
pub(super) fn for_score_blocks(head: Head, mut use_rows: impl FnMut(usize, usize, &mut [f32])) {
    let (stride, score_stride) = (padded(head.width), padded(head.length));
    let mut keys = Buffer::stale(panels_len(head.length, head.width));
    transpose_into_panels(head.key, stride, head.length, head.width, &mut keys);
    let mut scores = Buffer::stale(QUERY_BLOCK.min(head.length) * score_stride);
    for first in (0..head.length).step_by(QUERY_BLOCK) {
        let queries = QUERY_BLOCK.min(head.length - first);
        let left = Left::rows(&head.query[first * stride..], stride);
        multiply(
            queries,
            score_stride,
            head.width,
            left,
            panels(&keys, head.width),
            Start::Zero,
            &mut scores,
            score_stride,
        );
        use_rows(first, queries, &mut scores[..queries * score_stride]);
    }
}

/// Writes the context (weighted sums of the values) and, for every query, the maximum score and one over the sum of
/// `e^(score - max)`.
pub(super) fn forward(head: Head, drop: WeightDropout, context: &mut [f32], row_statistics: &mut [[f32; 2]]) {
    let (stride, score_stride) = (padded(head.width), padded(head.length));
    for_score_blocks(head, |first, queries, scores| {
        let statistics = &mut row_statistics[first..first + queries];
        softmax_rows(scores, head.length, drop, first, statistics);
        let context = &mut context[first * stride..][..queries * stride];
        let (left, right) = (Left::rows(scores, score_stride), Right::rows(head.value, stride));
        multiply(queries, stride, head.length, left, right, Start::Zero, context, stride);
        scale_rows(context, stride, statistics);
    });
}

/// Writes the gradients of query, key and value from the gradient of the context.
pub(super) fn backward(
    head: Head,
    drop: WeightDropout,
    row_statistics: &[[f32; 2]],
    context: &[f32],
    context_gradient: &[f32],
    gradients: HeadGradients,
) {
    let (stride, score_stride) = (padded(head.width), padded(head.length));
    let mut values = Buffer::stale(panels_len(head.length, head.width));
    transpose_into_panels(head.value, stride, head.length, head.width, &mut values);
    let mut weight_gradients = Buffer::stale(QUERY_BLOCK.min(head.length) * score_stride);
    gradients.key.fill(0.0);
    gradients.value.fill(0.0);
    for_score_blocks(head, |first, queries, scores| {
        let block = first * stride..(first + queries) * stride;
        let (context, context_gradient) = (&context[block.clone()], &context_gradient[block.clone()]);
        let query = &head.query[block.clone()];
        let left = Left::rows(context_gradient, stride);
        let right = panels(&values, head.width);
        multiply(queries, score_stride, head.width, left, right, Start::Zero, &mut weight_gradients, score_stride);
        let statistics = &row_statistics[first..first + queries];
        softmax_backward(
            scores,
            &mut weight_gradients,
            head.length,
            drop,
            first,
            statistics,
            context,
            context_gradient,
        );

        let (left, right) = (Left::transposed(scores, score_stride), Right::rows(context_gradient, stride));
        multiply(head.length, stride, queries, left, right, Start::Result, gradients.value, stride);
        let (left, right) = (Left::rows(&weight_gradients, score_stride), Right::rows(head.key, stride));
        multiply(queries, stride, head.length, left, right, Start::Zero, &mut gradients.query[block], stride);
        let (left, right) = (Left::transposed(&weight_gradients, score_stride), Right::rows(query, stride));
        multiply(head.length, stride, queries, left, right, Start::Result, gradients.key, stride);
    });
}

dispatched! {
    /// Turns rows of scores into `dropout(e^(score - max))` and stores each row's maximum and one over its sum.
    fn softmax_rows(simd; scores: &mut [f32], length: usize, drop: WeightDropout, first_query: usize, statistics: &mut [[f32; 2]]) {
        let stride = padded(length);
        // The last vector may reach into the padding; those lanes must not count.
        let in_last = length - (stride - LANES);
        let lowest = simd.splat(f32::NEG_INFINITY);
        for (row, (scores, statistics)) in scores.chunks_exact_mut(stride).zip(statistics).enumerate() {
            let (whole, last) = scores.split_at_mut(stride - LANES);
            let mut max = simd.first_or(in_last, simd.load(last), lowest);
            for scores in whole.chunks_exact(LANES) {
                max = simd.max(simd.load(scores), max);
            }
            let max = simd.max_lane(max);
            let shift = simd.splat(max);
            let words = drop.words(first_query + row);
            let weigh = |at: usize, weight: S::F| match drop.is_none() {
                true => weight,
                false => simd.dropout(weight, words, at as u32, &drop.dropout),
            };
            let weight = simd.keep_first(math::exp(simd, simd.sub(simd.load(last), shift)), in_last);
            let mut sum = weight;
            simd.store(last, weigh(whole.len(), weight));
            for (v, scores) in whole.chunks_exact_mut(LANES).enumerate() {
                let weight = math::exp(simd, simd.sub(simd.load(scores), shift));
                sum = simd.add(sum, weight);
                simd.store(scores, weigh(v * LANES, weight));
            }
            *statistics = [max, 1.0 / simd.sum(sum)];
        }
    }
}

dispatched! {
    /// Multiplies every row with one over the sum of its weights.
    fn scale_rows(simd; rows: &mut [f32], stride: usize, statistics: &[[f32; 2]]) {
        for (row, [_, factor]) in rows.chunks_exact_mut(stride).zip(statistics) {
            let factor = simd.splat(*factor);
            for values in row.chunks_exact_mut(LANES) {
                simd.store(values, simd.mul(simd.load(values), factor));
            }
        }
    }
}

dispatched! {
    /// In place: scores become weights after dropout, and gradients of those weights become gradients of the scores.
    ///
    /// A row of the softmax maps the gradient `g` to `w (g - Σ w g)`, and `Σ w g` is the product of the row's context with
    /// its gradient, because the context is the weighted sum of the values.
    fn softmax_backward(simd; scores: &mut [f32], gradients: &mut [f32], length: usize, drop: WeightDropout, first_query: usize, statistics: &[[f32; 2]], context: &[f32], context_gradient: &[f32]) {
        let stride = padded(length);
        let context_stride = context.len() / statistics.len();
        let rows = scores.chunks_exact_mut(stride).zip(gradients.chunks_exact_mut(stride)).zip(statistics);
        let contexts = context.chunks_exact(context_stride).zip(context_gradient.chunks_exact(context_stride));
        for (row, (((scores, gradients), [max, inverse_sum]), (context, context_gradient))) in rows.zip(contexts).enumerate() {
            let mut product = simd.splat(0.0);
            for (a, b) in context.chunks_exact(LANES).zip(context_gradient.chunks_exact(LANES)) {
                product = simd.fma(simd.load(a), simd.load(b), product);
            }
            let product = simd.splat(simd.sum(product));
            let (shift, factor) = (simd.splat(*max), simd.splat(*inverse_sum));
            let words = drop.words(first_query + row);
            for (v, (scores, gradients)) in scores.chunks_exact_mut(LANES).zip(gradients.chunks_exact_mut(LANES)).enumerate() {
                let weight = simd.mul(math::exp(simd, simd.sub(simd.load(scores), shift)), factor);
                let mut dropped = weight;
                let mut gradient = simd.load(gradients);
                if !drop.is_none() {
                    let factors = simd.dropout(simd.splat(1.0), words, (v * LANES) as u32, &drop.dropout);
                    dropped = simd.mul(weight, factors);
                    gradient = simd.mul(gradient, factors);
                }
                simd.store(scores, dropped);
                simd.store(gradients, simd.mul(weight, simd.sub(gradient, product)));
            }
        }
    }
}
