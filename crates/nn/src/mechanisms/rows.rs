//! What several mechanisms share: choices made row by row, and choices by rank.

use std::ops::Range;
use std::sync::Arc;

use burn::tensor::{Bool, Int, Tensor, TensorData};
use semfocus_kernels::{Row, RowRule};

use super::{LayerContext, Mechanism, Selection, keep_all};

/// A mask from a choice that is made row by row on the processor, for choices that tensor code would not make clearer.
pub(super) fn keep_rows(
    scores: &Tensor<4>,
    context: &LayerContext,
    choose: impl Fn(&Row<'_>, &mut Vec<u32>),
) -> Tensor<4, Bool> {
    let [batch, heads, queries, keys] = scores.dims();
    let values: Vec<f32> = scores.clone().into_data().iter::<f32>().collect();
    let mut mask = vec![false; batch * heads * queries * keys];
    let mut kept = Vec::new();
    for (number, (mask, scores)) in mask.chunks_mut(keys).zip(values.chunks(keys)).enumerate() {
        let (sequence, head, query) = (number / queries / heads, number / queries % heads, number % queries);
        let visible = context.visibility.keys(query, keys);
        kept.clear();
        let row = Row {
            draw: context.row(sequence, heads, head, queries, query),
            fixed_key: context.fixed_row(head, queries, query),
            layer: context.layer,
            head,
            query,
            visible,
            scores: &scores[..visible],
            tokens: context.tokens.get(sequence * keys..(sequence + 1) * keys).unwrap_or(&[]),
            relevant: context.relevant.get(sequence).and_then(|keys| keys.of_query(query, visible)),
        };
        choose(&row, &mut kept);
        kept.iter().for_each(|&key| mask[key as usize] = true);
    }
    Tensor::from_data(TensorData::new(mask, scores.shape()), &scores.device())
}

/// A choice that is made row by row, in both forms.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByRow<R>(pub(super) R);

impl<R: RowRule + Copy + 'static> Mechanism for ByRow<R> {
    fn keep(&self, scores: &Tensor<4>, context: &LayerContext) -> Tensor<4, Bool> {
        keep_rows(scores, context, |row, kept| self.0.select(row, kept))
    }

    fn selection(&self, _length: usize) -> Option<Selection> {
        Some(Selection::Rule(Arc::new(self.0)))
    }
}

/// The relevant keys of each query as a mask of the shape of the scores.
pub(super) fn relevant_keys(scores: &Tensor<4>, context: &LayerContext) -> Tensor<4, Bool> {
    let [batch, _, queries, keys] = scores.dims();
    let mut mask = vec![false; batch * queries * keys];
    for (mask, relevant) in mask.chunks_mut(queries * keys).zip(context.relevant.iter()) {
        for (query, mask) in mask.chunks_mut(keys).enumerate() {
            let relevant = relevant.of_query(query, keys).unwrap_or(&[]);
            relevant.iter().for_each(|&key| mask[key as usize] = true);
        }
    }
    let mask = TensorData::new(mask, [batch, 1, queries, keys]);
    Tensor::<4, Bool>::from_data(mask, &scores.device()).expand(scores.dims())
}

/// `width` keys around a query of those that it sees, shifted inwards at both ends; in causal models the last ones up to itself.
pub(super) fn window(query: usize, visible: usize, width: usize) -> Range<usize> {
    let width = width.min(visible);
    let start = query.saturating_sub((width - 1) / 2).min(visible - width);
    start..start + width
}

/// The `k` highest of each row, ties to the lower index. The order in which the device sorts ties does not matter: the k-th highest
/// value is the threshold, everything above it is kept, and of the values equal to it the first ones that still fit.
pub(super) fn keep_highest(scores: Tensor<4>, k: usize) -> Tensor<4, Bool> {
    let keys = scores.dims()[3];
    if k >= keys {
        return keep_all(&scores);
    }
    let scores = scores.without_autodiff(); // the selection is not differentiated
    let threshold = scores.clone().sort_descending(3).narrow(3, k - 1, 1); // [batch, heads, queries, 1]
    let above = scores.clone().greater(threshold.clone());
    let places_left = above.clone().int().sum_dim(3).neg().add_scalar(k as i64); // [batch, heads, queries, 1]
    keep_to_threshold(scores, above, threshold, places_left)
}

/// The same with a number of keys for each row, `[batch, heads, queries, 1]`, at least one.
pub(super) fn keep_highest_of_each(scores: Tensor<4>, counts: Tensor<4, Int>) -> Tensor<4, Bool> {
    let scores = scores.without_autodiff();
    let sorted = scores.clone().sort_descending(3);
    let threshold = sorted.gather(3, counts.clone().sub_scalar(1)); // [batch, heads, queries, 1]
    let above = scores.clone().greater(threshold.clone());
    let places_left = counts.sub(above.clone().int().sum_dim(3));
    keep_to_threshold(scores, above, threshold, places_left)
}

fn keep_to_threshold(
    scores: Tensor<4>,
    above: Tensor<4, Bool>,
    threshold: Tensor<4>,
    places_left: Tensor<4, Int>,
) -> Tensor<4, Bool> {
    let equal = scores.equal(threshold);
    let place_among_equals = equal.clone().int().cumsum(3); // counted from one
    above.bool_or(equal.bool_and(place_among_equals.lower_equal(places_left)))
}
