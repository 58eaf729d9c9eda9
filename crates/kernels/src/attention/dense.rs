//! Attention of one head over all visible keys. Queries are processed in blocks. The backward pass takes the weights of a block from
//! the forward pass if they were kept; if not, it computes them again from the scores and the statistics of every row, so that no
//! length × length matrix has to be stored.

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

/// Values that [`forward`] keeps of the weights: rows of all blocks, one after the other.
pub(super) fn kept_len(visibility: Visibility, length: usize) -> usize {
    let block = block_length(visibility, length);
    let blocks = (0..length).step_by(block).map(|first| (first, block.min(length - first)));
    blocks.map(|(first, queries)| queries * padded(visibility.keys(first + queries - 1, length))).sum()
}

/// Writes the context (weighted sums of the values) and the statistics of every row. The weights before dropout are written to
/// `kept` if it has the length [`kept_len`]; those of softmax are not divided by their sum.
pub(super) fn forward(
    head: Head,
    how: Weighing,
    context: &mut [f32],
    statistics: &mut [RowStatistics],
    mut kept: &mut [f32],
) {
    let stride = padded(head.width);
    let is_softmax = how.weighting == FusedWeighting::Softmax;
    for_score_blocks(head, how.visibility, |first, queries, scores| {
        let statistics = &mut statistics[first..first + queries];
        let columns = scores.len() / queries;
        let in_block = scores.len().min(kept.len());
        let (kept_rows, rest) = std::mem::take(&mut kept).split_at_mut(in_block);
        kept = rest;
        match is_softmax {
            true => softmax_rows(scores, kept_rows, columns, head.length, how, first, statistics),
            false => weigh_rows(scores, kept_rows, columns, head.length, how, first, statistics),
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

/// Calls `use_rows(first_query, queries, weights)` for every block of queries with its rows of weights before dropout: those that
/// were kept, or computed again.
fn for_weight_blocks(
    head: Head,
    how: Weighing,
    statistics: &[RowStatistics],
    mut kept: &[f32],
    mut use_rows: impl FnMut(usize, usize, &mut [f32]),
) {
    if kept.is_empty() {
        return for_score_blocks(head, how.visibility, |first, queries, scores| {
            let columns = scores.len() / queries;
            weigh_again(scores, columns, head.length, how, first, &statistics[first..first + queries]);
            use_rows(first, queries, scores);
        });
    }
    let block = block_length(how.visibility, head.length);
    let mut weights = Buffer::stale(block * padded(head.length));
    for first in (0..head.length).step_by(block) {
        let queries = block.min(head.length - first);
        let columns = padded(how.visibility.keys(first + queries - 1, head.length));
        let (rows, rest) = kept.split_at(queries * columns);
        kept = rest;
        let weights = &mut weights[..rows.len()];
        match how.weighting {
            FusedWeighting::Softmax => divide_rows(rows, columns, &statistics[first..first + queries], weights),
            _ => weights.copy_from_slice(rows),
        }
        use_rows(first, queries, weights);
    }
}

/// Writes the gradients of query, key and value from the gradient of the context, and returns that of α. `kept` holds what
/// [`forward`] kept of the weights, or nothing.
pub(super) fn backward(
    head: Head,
    how: Weighing,
    statistics: &[RowStatistics],
    kept: &[f32],
    context: &[f32],
    context_gradient: &[f32],
    gradients: HeadGradients,
) -> f32 {
    let stride = padded(head.width);
    let mut blocks = BackwardBlocks::new(head, how.visibility, context_gradient, gradients);
    let mut alpha_gradient = 0.0;
    for_weight_blocks(head, how, statistics, kept, |first, queries, weights| {
        let columns = weights.len() / queries;
        blocks.add(first, queries, weights, |weights, weight_gradients, context_gradient| {
            if how.weighting == FusedWeighting::Softmax {
                let context = &context[first * stride..(first + queries) * stride];
                softmax_backward((weights, weight_gradients), columns, how, first, context, context_gradient);
            } else {
                let statistics = &statistics[first..first + queries];
                alpha_gradient +=
                    weigh_backward(weights, weight_gradients, columns, head.length, how, first, statistics);
            }
        });
    });
    alpha_gradient
}

/// The backward pass of a head, one block of queries after the other, whatever turns its scores into weights.
pub(super) struct BackwardBlocks<'a> {
    head: Head<'a>,
    visibility: Visibility,
    context_gradient: &'a [f32],
    gradients: HeadGradients<'a>,
    /// The values as panels.
    values: Buffer,
    weight_gradients: Buffer,
}

impl<'a> BackwardBlocks<'a> {
    pub(super) fn new(
        head: Head<'a>,
        visibility: Visibility,
        context_gradient: &'a [f32],
        gradients: HeadGradients<'a>,
    ) -> Self {
        let mut values = Buffer::stale(panels_len(head.length, head.width));
        transpose_into_panels(head.value, padded(head.width), head.length, head.width, &mut values);
        let weight_gradients = Buffer::stale(block_length(visibility, head.length) * padded(head.length));
        if visibility == Visibility::Causal {
            // The first blocks do not reach the last keys.
            gradients.key.fill(0.0);
            gradients.value.fill(0.0);
        }
        BackwardBlocks { head, visibility, context_gradient, gradients, values, weight_gradients }
    }

    /// Writes the gradients of a block's queries and adds to those of keys and values. `to_scores` gets the block's rows, the
    /// gradients of its weights after dropout, and the gradient of its context: it turns the rows into weights after dropout, and
    /// the gradients into those of the scores.
    pub(super) fn add(
        &mut self,
        first: usize,
        queries: usize,
        weights: &mut [f32],
        to_scores: impl FnOnce(&mut [f32], &mut [f32], &[f32]),
    ) {
        let BackwardBlocks { head, visibility, gradients, .. } = self;
        let (width, stride) = (head.width, padded(head.width));
        let (columns, visible) = (weights.len() / queries, visibility.keys(first + queries - 1, head.length));
        let block = first * stride..(first + queries) * stride;
        let (query, context_gradient) = (&head.query[block.clone()], &self.context_gradient[block.clone()]);
        let score_gradients = &mut self.weight_gradients[..queries * columns];
        let (left, right) = (Left::rows(context_gradient, stride), panels(&self.values, width));
        multiply(queries, columns, width, left, right, Start::Zero, score_gradients, columns);
        to_scores(weights, score_gradients, context_gradient);
        let start = if first == 0 && *visibility == Visibility::All { Start::Zero } else { Start::Result };
        let (left, right) = (Left::transposed(weights, columns), Right::rows(context_gradient, stride));
        multiply(visible, stride, queries, left, right, start, gradients.value, stride);
        let (left, right) = (Left::rows(score_gradients, columns), Right::rows(head.key, stride));
        multiply(queries, stride, visible, left, right, Start::Zero, &mut gradients.query[block], stride);
        let (left, right) = (Left::transposed(score_gradients, columns), Right::rows(query, stride));
        multiply(visible, stride, queries, left, right, start, gradients.key, stride);
    }
}

/// `weight` with the dropout of its row, for sixteen keys from `key` on.
#[inline(always)]
fn dropped<S: Simd>(simd: S, weight: S::F, drop: &WeightDropout, words: (u32, u32), key: usize) -> S::F {
    if drop.is_none() { weight } else { simd.dropout(weight, words, key as u32, &drop.dropout) }
}

dispatched! {
    /// Turns rows of scores into `dropout(e^(score - max))`, zero where a key is not visible, and stores each row's maximum and
    /// one over its sum; `kept` gets the same without dropout, unless it is empty.
    fn softmax_rows(simd; scores: &mut [f32], kept: &mut [f32], columns: usize, length: usize, how: Weighing, first_query: usize, statistics: &mut [RowStatistics]) {
        let lowest = simd.splat(f32::NEG_INFINITY);
        let keeps = !kept.is_empty();
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
            let kept = if keeps { &mut kept[row * columns..][..columns] } else { &mut [][..] };
            if keeps {
                kept[whole.len() + LANES..].fill(0.0);
                simd.store(&mut kept[whole.len()..], weight);
            }
            simd.store(last, dropped(simd, weight, &how.drop, words, whole.len()));
            for (v, scores) in whole.chunks_exact_mut(LANES).enumerate() {
                let weight = math::exp(simd, simd.sub(simd.load(scores), shift));
                sum = simd.add(sum, weight);
                if keeps {
                    simd.store(&mut kept[v * LANES..], weight);
                }
                simd.store(scores, dropped(simd, weight, &how.drop, words, v * LANES));
            }
            *statistics = [max, 1.0 / simd.sum(sum)];
        }
    }
}

dispatched! {
    /// Rows times one over the sum of their weights.
    fn divide_rows(simd; rows: &[f32], columns: usize, statistics: &[RowStatistics], to: &mut [f32]) {
        for ((row, [_, factor]), to) in rows.chunks_exact(columns).zip(statistics).zip(to.chunks_exact_mut(columns)) {
            let factor = simd.splat(*factor);
            for (values, to) in row.chunks_exact(LANES).zip(to.chunks_exact_mut(LANES)) {
                simd.store(to, simd.mul(simd.load(values), factor));
            }
        }
    }
}

dispatched! {
    /// Turns rows of scores into weights before dropout again, zero where a key is not visible.
    fn weigh_again(simd; scores: &mut [f32], columns: usize, length: usize, how: Weighing, first_query: usize, statistics: &[RowStatistics]) {
        for (row, (scores, statistics)) in scores.chunks_exact_mut(columns).zip(statistics).enumerate() {
            let (scores, hidden) = scores.split_at_mut(how.visibility.keys(first_query + row, length));
            hidden.fill(0.0);
            weighting::weigh(simd, how.weighting, how.alpha, *statistics, scores);
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
    /// In place: weights get their dropout, and gradients of the dropped weights become gradients of the scores.
    ///
    /// A row of the softmax maps the gradient `g` to `w (g - Σ w g)`, and `Σ w g` is the product of the row's context with
    /// its gradient, because the context is the weighted sum of the values.
    fn softmax_backward(simd; rows: (&mut [f32], &mut [f32]), columns: usize, how: Weighing, first_query: usize, context: &[f32], context_gradient: &[f32]) {
        let context_stride = context.len() / (rows.0.len() / columns);
        let rows = rows.0.chunks_exact_mut(columns).zip(rows.1.chunks_exact_mut(columns));
        let contexts = context.chunks_exact(context_stride).zip(context_gradient.chunks_exact(context_stride));
        for (row, ((weights, gradients), (context, context_gradient))) in rows.zip(contexts).enumerate() {
            let mut product = simd.splat(0.0);
            for (a, b) in context.chunks_exact(LANES).zip(context_gradient.chunks_exact(LANES)) {
                product = simd.fma(simd.load(a), simd.load(b), product);
            }
            let product = simd.splat(simd.sum(product));
            let words = how.drop.words(first_query + row);
            for (v, (weights, gradients)) in weights.chunks_exact_mut(LANES).zip(gradients.chunks_exact_mut(LANES)).enumerate() {
                let weight = simd.load(weights);
                let mut gradient = simd.load(gradients);
                if !how.drop.is_none() {
                    let factors = simd.dropout(simd.splat(1.0), words, (v * LANES) as u32, &how.drop.dropout);
                    simd.store(weights, simd.mul(weight, factors));
                    gradient = simd.mul(gradient, factors);
                }
                simd.store(gradients, simd.mul(weight, simd.sub(gradient, product)));
            }
        }
    }
}

dispatched! {
    /// Turns rows of scores into weights with dropout, zero where a key is not visible, and stores the statistics of each row;
    /// `kept` gets the weights without dropout, unless it is empty.
    fn weigh_rows(simd; scores: &mut [f32], kept: &mut [f32], columns: usize, length: usize, how: Weighing, first_query: usize, statistics: &mut [RowStatistics]) {
        let mut scratch = Vec::new();
        let keeps = !kept.is_empty();
        for (row, (row_scores, statistics)) in scores.chunks_exact_mut(columns).zip(statistics).enumerate() {
            let (scores, hidden) = row_scores.split_at_mut(how.visibility.keys(first_query + row, length));
            hidden.fill(0.0);
            *statistics = weighting::statistics(simd, how.weighting, how.alpha, scores, &mut scratch);
            weighting::weigh(simd, how.weighting, how.alpha, *statistics, scores);
            if keeps {
                kept[row * columns..][..columns].copy_from_slice(row_scores);
            }
            drop_weights(simd, &mut row_scores[..how.visibility.keys(first_query + row, length)], &how.drop, first_query + row);
        }
    }
}

dispatched! {
    /// In place: weights get their dropout, and gradients of the dropped weights become gradients of the scores. Returns the
    /// gradient of α.
    fn weigh_backward(simd; weights: &mut [f32], gradients: &mut [f32], columns: usize, length: usize, how: Weighing, first_query: usize, statistics: &[RowStatistics]) -> f32 {
        let mut alpha_gradient = 0.0;
        let rows = weights.chunks_exact_mut(columns).zip(gradients.chunks_exact_mut(columns)).zip(statistics);
        for (row, ((weights, gradients), statistics)) in rows.enumerate() {
            let visible = how.visibility.keys(first_query + row, length);
            let (gradients, hidden) = gradients.split_at_mut(visible);
            hidden.fill(0.0);
            let weights = &mut weights[..visible];
            drop_weights(simd, gradients, &how.drop, first_query + row);
            alpha_gradient += weighting::weigh_backward(simd, how.weighting, how.alpha, *statistics, weights, gradients);
            drop_weights(simd, weights, &how.drop, first_query + row);
        }
        alpha_gradient
    }
}

/// Dropout on the values of all visible keys of a query.
#[inline(always)]
pub(super) fn drop_weights<S: Simd>(simd: S, values: &mut [f32], drop: &WeightDropout, query: usize) {
    if drop.is_none() {
        return;
    }
    let words = drop.words(query);
    for (v, values) in values.chunks_mut(LANES).enumerate() {
        simd.store_some(values, dropped(simd, simd.load_some(values), drop, words, v * LANES));
    }
}
