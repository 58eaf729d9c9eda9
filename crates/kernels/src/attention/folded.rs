//! Attention for evaluation only, with two of its four maps folded into the others.
//!
//! A score is `(y_i W_q + b_q) · (y_j W_k + b_k)`. Up to a constant per query, which softmax ignores, that is `(y_i M + b) · y_j`
//! with `M = W_q W_kᵀ` and `b = W_k b_q`: the keys need no map. And `Σ p (y_j W_v + b_v) W_o` is `Σ p y_j (W_v W_o)` plus a
//! constant, because weights without dropout sum to 1: the output needs no map.

use super::AttentionKernel;
use super::dense::Head;
use crate::buffer::Buffer;
use crate::embedding::EmbeddingKernel;
use crate::linear::Columns;
use crate::matmul::{Left, Packed, Start, multiply};
use crate::rows;
use crate::{FusedWeighting, Selection};

/// The maps of all heads, folded.
pub(crate) struct FoldedAttention {
    heads: Vec<FoldedHead>,
    /// Everything that does not depend on the input.
    output_bias: Vec<f32>,
}

struct FoldedHead {
    /// From a token to the vector whose products with all tokens are its scores.
    score: Columns,
    /// From a token to its contribution to the output.
    value: Packed,
}

/// Buffers for one sequence on its way through the model: `length` rows each.
pub(crate) struct SequenceBuffers {
    pub(crate) normalised: Buffer,
    pub(crate) inverse_deviations: Vec<f32>,
    query: Buffer,
    value: Buffer,
    context: Buffer,
}

impl SequenceBuffers {
    pub(crate) fn new(length: usize, width: usize) -> Self {
        let rows = || Buffer::stale(length * width);
        let inverse_deviations = vec![0.0; length];
        SequenceBuffers { normalised: rows(), inverse_deviations, query: rows(), value: rows(), context: rows() }
    }
}

impl AttentionKernel<'_> {
    /// Whether folding gives the same function with less work: the scores may be off by a constant for each query, weights sum
    /// to 1, rows need no padding, and heads are about as wide as the model.
    pub(crate) fn can_be_folded(&self) -> bool {
        let ignores_shift = match self.selection {
            Selection::Rule(rule) => rule.ignores_common_shift(),
            Selection::All | Selection::Pattern(_) => true,
        };
        let is_plain = self.weight_dropout.is_none() && self.output_dropout.is_none();
        let (length, width, head_width) = (self.length, self.width, self.head_width);
        let saves = 2 * width * width + 2 * length * width <= 4 * width * head_width + 2 * length * head_width;
        self.weighting == FusedWeighting::Softmax
            && ignores_shift
            && is_plain
            && saves
            && width == crate::simd::padded(width)
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
    pub(crate) fn forward_folded(
        &self,
        folded: &FoldedAttention,
        sequence: usize,
        x: &mut [f32],
        buffers: &mut SequenceBuffers,
    ) {
        let width = self.width;
        rows::normalise(x, width, self.epsilon, &mut buffers.normalised, &mut buffers.inverse_deviations);
        rows::add_row(x, &folded.output_bias);
        for (h, head) in folded.heads.iter().enumerate() {
            head.project(&buffers.normalised, self.length, width, &mut buffers.query, &mut buffers.value);
            self.attend_folded(sequence, h, x, buffers);
        }
    }

    /// The same for a sequence whose rows have been computed beforehand.
    pub(crate) fn forward_known(
        &self,
        known: &KnownRows,
        sequence: usize,
        tokens: &[usize],
        x: &mut [f32],
        buffers: &mut SequenceBuffers,
    ) {
        let length = self.length;
        let places = || tokens.iter().enumerate().map(|(position, token)| token * length + position);
        known.gather(&known.x, places(), x);
        known.gather(&known.normalised, places(), &mut buffers.normalised);
        for (h, (query, value)) in known.heads.iter().enumerate() {
            known.gather(query, places(), &mut buffers.query);
            known.gather(value, places(), &mut buffers.value);
            self.attend_folded(sequence, h, x, buffers);
        }
    }

    /// Adds the output of a head, whose query, key and value rows are in `buffers`.
    fn attend_folded(&self, sequence: usize, head: usize, x: &mut [f32], buffers: &mut SequenceBuffers) {
        let (length, width, rows) = (self.length, self.width, self.length * self.width);
        let (query, key, value) = (&buffers.query[..rows], &buffers.normalised[..rows], &buffers.value[..rows]);
        self.attend(Head { length, width, query, key, value }, sequence, head, &mut buffers.context[..rows]);
        rows::add_assign(x, &buffers.context[..rows]);
    }

    /// The rows of the first block, which depend only on token and position.
    pub(crate) fn know_rows(&self, folded: &FoldedAttention, embedding: &EmbeddingKernel) -> KnownRows {
        let (length, width) = (self.length, self.width);
        let ids = embedding.table.len() / width;
        let mut x = vec![0.0; ids * length * width];
        for (token, x) in x.chunks_exact_mut(length * width).enumerate() {
            embedding.forward_into(&vec![token; length], x);
        }
        let rows = || vec![0.0; ids * length * width];
        let (mut normalised, mut inverse_deviations) = (rows(), vec![0.0; ids * length]);
        rows::normalise(&x, width, self.epsilon, &mut normalised, &mut inverse_deviations);
        rows::add_row(&mut x, &folded.output_bias);
        let project = |head: &FoldedHead| {
            let (mut query, mut value) = (rows(), rows());
            head.project(&normalised, ids * length, width, &mut query, &mut value);
            (query, value)
        };
        let heads = folded.heads.iter().map(project).collect();
        KnownRows { x, normalised, heads, width }
    }
}

impl FoldedHead {
    fn project(&self, normalised: &[f32], rows: usize, width: usize, query: &mut [f32], value: &mut [f32]) {
        let left = || Left::rows(normalised, width);
        let start = Start::Bias(&self.score.bias);
        multiply(rows, width, width, left(), self.score.weight.right(), start, query, width);
        multiply(rows, width, width, left(), self.value.right(), Start::Zero, value, width);
    }
}

/// The first block's rows of every token at every position, ordered by token, then position.
pub(crate) struct KnownRows {
    /// The input plus the constant part of the output.
    x: Vec<f32>,
    normalised: Vec<f32>,
    /// Queries and values of every head.
    heads: Vec<(Vec<f32>, Vec<f32>)>,
    width: usize,
}

impl KnownRows {
    fn gather(&self, rows: &[f32], places: impl Iterator<Item = usize>, to: &mut [f32]) {
        for (place, to) in places.zip(to.chunks_exact_mut(self.width)) {
            to.copy_from_slice(&rows[place * self.width..(place + 1) * self.width]);
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
