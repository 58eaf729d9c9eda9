//! Attention of one head over all visible keys, without storing a length × length matrix: queries are processed in blocks, and
//! the backward pass recomputes the weights of a block from its scores and the statistics of every row.

use semfocus_core::Visibility;

use super::WeightDropout;
use crate::FusedWeighting;
use crate::buffer::Buffer;
use crate::math;
use crate::matmul::{Left, Right, Start, multiply, panels, panels_len, transpose_into_panels};
use crate::simd::{LANES, Simd, dispatched, padded};
use crate::weighting::{self, RowStatistics};

/// Queries that are processed together; their rows of scores stay in the second-level cache.
const QUERY_BLOCK: usize = 48;

/// The same for causal attention: a block costs as much as its last query sees, so blocks are small.
const CAUSAL_BLOCK: usize = 16;

/// One head's rows in one sequence: `length` padded rows each.
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

/// How the scores of one head in one sequence become weights.
#[derive(Clone, Copy)]
pub(super) struct Weighing {
    pub(super) visibility: Visibility,
    pub(super) weighting: FusedWeighting,
    pub(super) alpha: f32,
    pub(super) drop: WeightDropout,
}

fn block_length(visibility: Visibility, length: usize) -> usize {
    match visibility {
        Visibility::All => QUERY_BLOCK.min(length),
        Visibility::Causal => CAUSAL_BLOCK.min(length),
    }
}

/// Calls `use_rows(first_query, queries, scores)` for every block of queries with its rows of scores, padded to whole vectors.
/// Rows are as long as the last query of the block sees.
pub(super) fn for_score_blocks(head: Head, visibility: Visibility, mut use_rows: impl FnMut(usize, usize, &mut [f32])) {
    let stride = padded(head.width);
    let mut keys = Buffer::stale(panels_len(head.length, head.width));
    transpose_into_panels(head.key, stride, head.length, head.width, &mut keys);
    let block = block_length(visibility, head.length);
    let mut scores = Buffer::stale(block * padded(head.length));
    for first in (0..head.length).step_by(block) {
        let queries = block.min(head.length - first);
        let columns = padded(visibility.keys(first + queries - 1, head.length));
        let left = Left::rows(&head.query[first * stride..], stride);
        let right = panels(&keys, head.width);
        multiply(queries, columns, head.width, left, right, Start::Zero, &mut scores, columns);
        use_rows(first, queries, &mut scores[..queries * columns]);
    }
}

/// Writes the context (weighted sums of the values) and the statistics of every row.
pub(super) fn forward(head: Head, how: Weighing, context: &mut [f32], statistics: &mut [RowStatistics]) {
    let stride = padded(head.width);
    let is_softmax = how.weighting == FusedWeighting::Softmax;
    for_score_blocks(head, how.visibility, |first, queries, scores| {
        let statistics = &mut statistics[first..first + queries];
        let columns = scores.len() / queries;
        match is_softmax {
            true => softmax_rows(scores, columns, head.length, how, first, statistics),
            false => weigh_rows(scores, columns, head.length, how, first, statistics),
        }
        let visible = how.visibility.keys(first + queries - 1, head.length);
        let context = &mut context[first * stride..][..queries * stride];
        let (left, right) = (Left::rows(scores, columns), Right::rows(head.value, stride));
        multiply(queries, stride, visible, left, right, Start::Zero, context, stride);
        if is_softmax {
            scale_rows(context, stride, statistics);
        }
    });
}

/// Writes the gradients of query, key and value from the gradient of the context, and returns that of α.
pub(super) fn backward(
    head: Head,
    how: Weighing,
    statistics: &[RowStatistics],
    context: &[f32],
    context_gradient: &[f32],
    gradients: HeadGradients,
) -> f32 {
    let stride = padded(head.width);
    let mut values = Buffer::stale(panels_len(head.length, head.width));
    transpose_into_panels(head.value, stride, head.length, head.width, &mut values);
    let mut weight_gradients = Buffer::stale(block_length(how.visibility, head.length) * padded(head.length));
    let mut alpha_gradient = 0.0;
    if how.visibility == Visibility::Causal {
        // The first blocks do not reach the last keys.
        gradients.key.fill(0.0);
        gradients.value.fill(0.0);
    }
    for_score_blocks(head, how.visibility, |first, queries, scores| {
        let (columns, visible) = (scores.len() / queries, how.visibility.keys(first + queries - 1, head.length));
        let block = first * stride..(first + queries) * stride;
        let (context, context_gradient) = (&context[block.clone()], &context_gradient[block.clone()]);
        let query = &head.query[block.clone()];
        let weight_gradients = &mut weight_gradients[..queries * columns];
        let left = Left::rows(context_gradient, stride);
        let right = panels(&values, head.width);
        multiply(queries, columns, head.width, left, right, Start::Zero, weight_gradients, columns);
        let statistics = &statistics[first..first + queries];
        if how.weighting == FusedWeighting::Softmax {
            let rows = (&mut *scores, &mut *weight_gradients);
            softmax_backward(rows, columns, head.length, how, first, statistics, context, context_gradient);
        } else {
            alpha_gradient += weigh_backward(scores, weight_gradients, columns, head.length, how, first, statistics);
        }
        let weights = &*scores;
        let start = if first == 0 && how.visibility == Visibility::All { Start::Zero } else { Start::Result };
        let (left, right) = (Left::transposed(weights, columns), Right::rows(context_gradient, stride));
        multiply(visible, stride, queries, left, right, start, gradients.value, stride);
        let (left, right) = (Left::rows(weight_gradients, columns), Right::rows(head.key, stride));
        multiply(queries, stride, visible, left, right, Start::Zero, &mut gradients.query[block], stride);
        let (left, right) = (Left::transposed(weight_gradients, columns), Right::rows(query, stride));
        multiply(visible, stride, queries, left, right, start, gradients.key, stride);
    });
    alpha_gradient
}

/// `weight` with the dropout of its row, for sixteen keys from `key` on.
#[inline(always)]
fn dropped<S: Simd>(simd: S, weight: S::F, drop: &WeightDropout, words: (u32, u32), key: usize) -> S::F {
    if drop.is_none() { weight } else { simd.dropout(weight, words, key as u32, &drop.dropout) }
}

dispatched! {
    /// Turns rows of scores into `dropout(e^(score - max))`, zero where a key is not visible, and stores each row's maximum and
    /// one over its sum.
    fn softmax_rows(simd; scores: &mut [f32], columns: usize, length: usize, how: Weighing, first_query: usize, statistics: &mut [RowStatistics]) {
        let lowest = simd.splat(f32::NEG_INFINITY);
        for (row, (scores, statistics)) in scores.chunks_exact_mut(columns).zip(statistics).enumerate() {
            let visible = how.visibility.keys(first_query + row, length);
            // The last vector may reach beyond the visible keys; those lanes must not count.
            let whole = (visible - 1) / LANES * LANES;
            let in_last = visible - whole;
            let (scores, hidden) = scores.split_at_mut(whole + LANES);
            hidden.fill(0.0);
            let (whole, last) = scores.split_at_mut(whole);
            let mut max = simd.first_or(in_last, simd.load(last), lowest);
            for scores in whole.chunks_exact(LANES) {
                max = simd.max(simd.load(scores), max);
            }
            let max = simd.max_lane(max);
            let shift = simd.splat(max);
            let words = how.drop.words(first_query + row);
            let weight = simd.keep_first(math::exp(simd, simd.sub(simd.load(last), shift)), in_last);
            let mut sum = weight;
            simd.store(last, dropped(simd, weight, &how.drop, words, whole.len()));
            for (v, scores) in whole.chunks_exact_mut(LANES).enumerate() {
                let weight = math::exp(simd, simd.sub(simd.load(scores), shift));
                sum = simd.add(sum, weight);
                simd.store(scores, dropped(simd, weight, &how.drop, words, v * LANES));
            }
            *statistics = [max, 1.0 / simd.sum(sum)];
        }
    }
}

dispatched! {
    /// Multiplies every row with one over the sum of its weights.
    fn scale_rows(simd; rows: &mut [f32], stride: usize, statistics: &[RowStatistics]) {
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
    fn softmax_backward(simd; rows: (&mut [f32], &mut [f32]), columns: usize, length: usize, how: Weighing, first_query: usize, statistics: &[RowStatistics], context: &[f32], context_gradient: &[f32]) {
        let context_stride = context.len() / statistics.len();
        let rows = rows.0.chunks_exact_mut(columns).zip(rows.1.chunks_exact_mut(columns)).zip(statistics);
        let contexts = context.chunks_exact(context_stride).zip(context_gradient.chunks_exact(context_stride));
        for (row, (((scores, gradients), [max, inverse_sum]), (context, context_gradient))) in rows.zip(contexts).enumerate() {
            let mut product = simd.splat(0.0);
            for (a, b) in context.chunks_exact(LANES).zip(context_gradient.chunks_exact(LANES)) {
                product = simd.fma(simd.load(a), simd.load(b), product);
            }
            let product = simd.splat(simd.sum(product));
            let (shift, factor) = (simd.splat(*max), simd.splat(*inverse_sum));
            let words = how.drop.words(first_query + row);
            let visible = how.visibility.keys(first_query + row, length);
            for (v, (scores, gradients)) in scores.chunks_exact_mut(LANES).zip(gradients.chunks_exact_mut(LANES)).enumerate() {
                if v * LANES >= visible {
                    scores.fill(0.0);
                    gradients.fill(0.0);
                    continue;
                }
                let weight = simd.mul(math::exp(simd, simd.sub(simd.load(scores), shift)), factor);
                let weight = simd.keep_first(weight, visible - v * LANES);
                let mut kept_weight = weight;
                let mut gradient = simd.load(gradients);
                if !how.drop.is_none() {
                    let factors = simd.dropout(simd.splat(1.0), words, (v * LANES) as u32, &how.drop.dropout);
                    kept_weight = simd.mul(weight, factors);
                    gradient = simd.mul(gradient, factors);
                }
                simd.store(scores, kept_weight);
                simd.store(gradients, simd.mul(weight, simd.sub(gradient, product)));
            }
        }
    }
}

dispatched! {
    /// Turns rows of scores into weights with dropout, zero where a key is not visible, and stores the statistics of each row.
    fn weigh_rows(simd; scores: &mut [f32], columns: usize, length: usize, how: Weighing, first_query: usize, statistics: &mut [RowStatistics]) {
        let mut scratch = Vec::new();
        for (row, (scores, statistics)) in scores.chunks_exact_mut(columns).zip(statistics).enumerate() {
            let (scores, hidden) = scores.split_at_mut(how.visibility.keys(first_query + row, length));
            hidden.fill(0.0);
            *statistics = weighting::statistics(simd, how.weighting, how.alpha, scores, &mut scratch);
            weighting::weigh(simd, how.weighting, how.alpha, *statistics, scores);
            drop_weights(simd, scores, &how.drop, first_query + row);
        }
    }
}

dispatched! {
    /// In place: scores become weights after dropout, and gradients of those weights become gradients of the scores. Returns the
    /// gradient of α.
    fn weigh_backward(simd; scores: &mut [f32], gradients: &mut [f32], columns: usize, length: usize, how: Weighing, first_query: usize, statistics: &[RowStatistics]) -> f32 {
        let mut alpha_gradient = 0.0;
        let rows = scores.chunks_exact_mut(columns).zip(gradients.chunks_exact_mut(columns)).zip(statistics);
        for (row, ((scores, gradients), statistics)) in rows.enumerate() {
            let visible = how.visibility.keys(first_query + row, length);
            let ((scores, hidden), (gradients, hidden_gradients)) =
                (scores.split_at_mut(visible), gradients.split_at_mut(visible));
            hidden.fill(0.0);
            hidden_gradients.fill(0.0);
            weighting::weigh(simd, how.weighting, how.alpha, *statistics, scores);
            drop_weights(simd, gradients, &how.drop, first_query + row);
            alpha_gradient += weighting::weigh_backward(simd, how.weighting, how.alpha, *statistics, scores, gradients);
            drop_weights(simd, scores, &how.drop, first_query + row);
        }
        alpha_gradient
    }
}

/// Dropout on the values of all visible keys of a query.
#[inline(always)]
fn drop_weights<S: Simd>(simd: S, values: &mut [f32], drop: &WeightDropout, query: usize) {
    if drop.is_none() {
        return;
    }
    let words = drop.words(query);
    for (v, values) in values.chunks_mut(LANES).enumerate() {
        simd.store_some(values, dropped(simd, simd.load_some(values), drop, words, v * LANES));
    }
}
