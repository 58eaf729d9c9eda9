//! Attention of one head over all visible keys in which the kept keys are treated in another way than the dropped ones, forward or
//! backward: see [`FusedWeighting::involves_dropped_keys`]. As fast as attention over all keys, whatever is kept.

use super::dense::{BackwardBlocks, Head, HeadGradients, Weighing, drop_weights, for_score_blocks};
use crate::matmul::{Left, Right, Start, multiply};
use crate::simd::{Simd, dispatched, padded};
use crate::weighting::{self, RowStatistics};
use crate::{FusedWeighting, KeptKeys};

/// Writes the context and the statistics of every row.
pub(super) fn forward(
    head: Head,
    kept: &KeptKeys,
    how: Weighing,
    context: &mut [f32],
    statistics: &mut [RowStatistics],
) {
    let stride = padded(head.width);
    for_score_blocks(head, how.visibility, |first, queries, scores| {
        let columns = scores.len() / queries;
        weigh_rows(scores, columns, head.length, kept, how, first, &mut statistics[first..first + queries]);
        let visible = how.visibility.keys(first + queries - 1, head.length);
        let context = &mut context[first * stride..][..queries * stride];
        let (left, right) = (Left::rows(scores, columns), Right::rows(head.value, stride));
        multiply(queries, stride, visible, left, right, Start::Zero, context, stride);
    });
}

/// Writes the gradients of query, key and value from the gradient of the context.
pub(super) fn backward(
    head: Head,
    kept: &KeptKeys,
    how: Weighing,
    statistics: &[RowStatistics],
    context_gradient: &[f32],
    gradients: HeadGradients,
) {
    let mut blocks = BackwardBlocks::new(head, how.visibility, context_gradient, gradients);
    for_score_blocks(head, how.visibility, |first, queries, scores| {
        let columns = scores.len() / queries;
        let statistics = &statistics[first..first + queries];
        blocks.add(first, queries, scores, |scores, gradients, _| {
            weigh_backward(scores, gradients, columns, head.length, kept, how, first, statistics);
        });
    });
}

dispatched! {
    /// Turns rows of scores into weights with dropout, zero where a key is not visible, and stores the statistics of each row.
    fn weigh_rows(simd; scores: &mut [f32], columns: usize, length: usize, kept: &KeptKeys, how: Weighing, first_query: usize, statistics: &mut [RowStatistics]) {
        let mut scratch = Vec::new();
        for (row, (scores, statistics)) in scores.chunks_exact_mut(columns).zip(statistics).enumerate() {
            let query = first_query + row;
            let (scores, hidden) = scores.split_at_mut(how.visibility.keys(query, length));
            hidden.fill(0.0);
            *statistics = weighting::statistics(simd, FusedWeighting::Softmax, how.alpha, scores, &mut scratch);
            weighting::weigh(simd, FusedWeighting::Softmax, how.alpha, *statistics, scores);
            mark(how.weighting, scores, kept.row(query), &mut scratch);
            drop_weights(simd, scores, &how.drop, query);
        }
    }
}

dispatched! {
    /// In place: rows of scores become weights with dropout, and gradients of the dropped weights become gradients of the scores.
    #[allow(clippy::too_many_arguments)]
    fn weigh_backward(simd; scores: &mut [f32], gradients: &mut [f32], columns: usize, length: usize, kept: &KeptKeys, how: Weighing, first_query: usize, statistics: &[RowStatistics]) {
        let mut scratch = Vec::new();
        let rows = scores.chunks_exact_mut(columns).zip(gradients.chunks_exact_mut(columns)).zip(statistics);
        for (row, ((weights, gradients), statistics)) in rows.enumerate() {
            let query = first_query + row;
            let visible = how.visibility.keys(query, length);
            let (weights, hidden) = weights.split_at_mut(visible);
            hidden.fill(0.0);
            let (gradients, hidden) = gradients.split_at_mut(visible);
            hidden.fill(0.0);
            weighting::weigh(simd, FusedWeighting::Softmax, how.alpha, *statistics, weights);
            drop_weights(simd, gradients, &how.drop, query);
            score_gradients(simd, how.weighting, weights, gradients, kept.row(query), &mut scratch);
            mark(how.weighting, weights, kept.row(query), &mut scratch);
            drop_weights(simd, weights, &how.drop, query);
        }
    }
}

/// From the softmax over all keys to the weights of the forward pass.
#[inline(always)]
fn mark(weighting: FusedWeighting, weights: &mut [f32], kept: &[u32], scratch: &mut Vec<f32>) {
    if weighting == FusedWeighting::GradientOfKept {
        return;
    }
    take_kept(weights, kept, scratch);
    let factor = match weighting {
        FusedWeighting::StraightThrough => 1.0 / scratch.iter().sum::<f32>(),
        _ => 1.0,
    };
    for (&key, weight) in kept.iter().zip(&*scratch) {
        weights[key as usize] = weight * factor;
    }
}

/// From gradients of the weights to gradients of the scores, in place; `weights` are the softmax over all keys.
#[inline(always)]
fn score_gradients<S: Simd>(
    simd: S,
    weighting: FusedWeighting,
    weights: &[f32],
    gradients: &mut [f32],
    kept: &[u32],
    scratch: &mut Vec<f32>,
) {
    if weighting != FusedWeighting::StraightThrough {
        // The weights of dropped keys are constant, or their scores get no gradient.
        take_kept(gradients, kept, scratch);
        for (&key, gradient) in kept.iter().zip(&*scratch) {
            gradients[key as usize] = *gradient;
        }
    }
    if weighting != FusedWeighting::GradientOfKept {
        weighting::weigh_backward(simd, FusedWeighting::Softmax, 0.0, [0.0; 2], weights, gradients);
        return;
    }
    let (mut sum, mut product) = (0.0, 0.0);
    for &key in kept {
        let weight = weights[key as usize];
        sum += weight;
        product += weight * gradients[key as usize];
    }
    let (factor, mean) = (1.0 / sum, product / sum);
    for &key in kept {
        let gradient = &mut gradients[key as usize];
        *gradient = weights[key as usize] * factor * (*gradient - mean);
    }
}

/// Moves the values of kept keys to `scratch` and leaves zeros.
#[inline(always)]
fn take_kept(values: &mut [f32], kept: &[u32], scratch: &mut Vec<f32>) {
    scratch.clear();
    scratch.extend(kept.iter().map(|&key| values[key as usize]));
    values.fill(0.0);
}
