//! Attention for evaluation alone, with two of its four maps folded into the others.
//!
//! A score is `(y_i W_q + b_q) · (y_j W_k + b_k)`. But for what all keys of a query share, and softmax does not notice, that is
//! `(y_i M + b) · y_j` with `M = W_q W_kᵀ` and `b = W_k b_q`: no map for the keys. And `Σ p (y_j W_v + b_v) W_o` is `Σ p y_j (W_v W_o)` and
//! a constant, since weights without dropout sum to 1: no map for the output.

use super::Attention;
use super::dense::Head;
use crate::buffer::Buffer;
use crate::linear::Columns;
use crate::matmul::{Left, Packed, Start, multiply};
use crate::rows;

/// The maps of all heads, folded.
pub(crate) struct FoldedAttention {
    heads: Vec<FoldedHead>,
    /// All that does not depend on the input.
    output_bias: Vec<f32>,
}

struct FoldedHead {
    /// From a token to what its scores with all tokens are taken from.
    score: Columns,
    /// From a token to what it adds to the output.
    value: Packed,
}

/// What a sequence needs on its way: `length` rows each.
pub(crate) struct Room {
    pub(crate) normalised: Buffer,
    pub(crate) inverse_deviations: Vec<f32>,
    query: Buffer,
    value: Buffer,
    context: Buffer,
}

impl Room {
    pub(crate) fn new(length: usize, width: usize) -> Self {
        let rows = || Buffer::uninit(length * width);
        let inverse_deviations = vec![0.0; length];
        Room { normalised: rows(), inverse_deviations, query: rows(), value: rows(), context: rows() }
    }
}

impl Attention<'_> {
    /// Whether folding gives the same function with less work: the scores may be off by a constant for each query, rows need no
    /// padding, weights sum to 1, and heads are about as wide as the model.
    pub(crate) fn can_be_folded(&self) -> bool {
        let ignores_shift = match self.selection {
            super::Selection::Rule(rule) => rule.ignores_common_shift(),
            super::Selection::All | super::Selection::Pattern(_) => true,
        };
        let is_plain = self.weight_dropout.is_none() && self.output_dropout.is_none();
        let (length, width, head_width) = (self.length, self.width, self.head_width);
        let saves = 2 * width * width + 2 * length * width <= 4 * width * head_width + 2 * length * head_width;
        ignores_shift && is_plain && saves && width == crate::simd::padded(width)
    }

    /// Folds the maps, in double precision.
    pub(crate) fn fold(&self) -> FoldedAttention {
        let all_heads = self.heads * self.head_width;
        let mut output_bias: Vec<f64> = self.output.bias.iter().map(|&bias| f64::from(bias)).collect();
        let heads = (0..self.heads)
            .map(|head| {
                let columns = head * self.head_width..(head + 1) * self.head_width;
                let of_rows = |weight: &[f32]| -> Vec<f64> {
                    let rows = weight.chunks_exact(all_heads);
                    rows.flat_map(|row| row[columns.clone()].iter().map(|&value| f64::from(value))).collect()
                };
                let (query, key, value) =
                    (of_rows(self.query.weight), of_rows(self.key.weight), of_rows(self.value.weight));
                let out = &self.output.weight[columns.start * self.width..columns.end * self.width];
                let out: Vec<f64> = out.iter().map(|&value| f64::from(value)).collect();
                let widened =
                    |bias: &[f32]| -> Vec<f64> { bias[columns.clone()].iter().map(|&b| f64::from(b)).collect() };
                let transposed_key = transposed(&key, self.head_width);
                let score = product(&query, &transposed_key, self.head_width, self.width);
                let score_bias = product(&widened(self.query.bias), &transposed_key, self.head_width, self.width);
                let constant = product(&widened(self.value.bias), &out, self.head_width, self.width);
                output_bias.iter_mut().zip(constant).for_each(|(sum, value)| *sum += value);
                let narrowed = |values: Vec<f64>, scale: f64| -> Vec<f32> {
                    values.into_iter().map(|value| (value * scale) as f32).collect()
                };
                let pack = |values: &[f32]| Packed::new(values, (0, self.width, 1), self.width, self.width, 1.0);
                let scale = f64::from(self.scale);
                FoldedHead {
                    score: Columns { weight: pack(&narrowed(score, scale)), bias: narrowed(score_bias, scale) },
                    value: pack(&narrowed(product(&value, &out, self.head_width, self.width), 1.0)),
                }
            })
            .collect();
        FoldedAttention { heads, output_bias: output_bias.into_iter().map(|value| value as f32).collect() }
    }

    /// The sublayer for one sequence, in place.
    pub(crate) fn forward_folded(&self, folded: &FoldedAttention, sequence: usize, x: &mut [f32], room: &mut Room) {
        let (length, width) = (self.length, self.width);
        rows::normalise(x, width, self.epsilon, &mut room.normalised, &mut room.inverse_deviations);
        rows::add_row(x, &folded.output_bias);
        for (h, head) in folded.heads.iter().enumerate() {
            let left = || Left::rows(&room.normalised, width);
            let start = Start::Bias(&head.score.bias);
            multiply(length, width, width, left(), head.score.weight.right(), start, &mut room.query, width);
            multiply(length, width, width, left(), head.value.right(), Start::Zero, &mut room.value, width);
            let rows = length * width;
            let parts = Head {
                length,
                width,
                query: &room.query[..rows],
                key: &room.normalised[..rows],
                value: &room.value[..rows],
            };
            self.attend(parts, sequence, h, &mut room.context[..rows]);
            rows::add_assign(x, &room.context[..rows]);
        }
    }
}

/// `a · b` for rows of `depth` values and of `columns` values.
fn product(a: &[f64], b: &[f64], depth: usize, columns: usize) -> Vec<f64> {
    let mut result = vec![0.0; a.len() / depth * columns];
    for (a, result) in a.chunks_exact(depth).zip(result.chunks_exact_mut(columns)) {
        for (&factor, b) in a.iter().zip(b.chunks_exact(columns)) {
            result.iter_mut().zip(b).for_each(|(sum, value)| *sum += factor * value);
        }
    }
    result
}

/// The transpose of rows of `columns` values.
fn transposed(a: &[f64], columns: usize) -> Vec<f64> {
    (0..columns).flat_map(|column| a.iter().skip(column).step_by(columns).copied()).collect()
}
