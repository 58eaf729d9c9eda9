//! Attention for evaluation alone, with two of its four maps folded into the others.
//!
//! A score is `(y_i W_q + b_q) · (y_j W_k + b_k)`. But for what all keys of a query share, and softmax does not notice, that is
//! `(y_i M + b) · y_j` with `M = W_q W_kᵀ` and `b = W_k b_q`: no map for the keys. And `Σ p (y_j W_v + b_v) W_o` is `Σ p y_j (W_v W_o)` and
//! a constant, since weights without dropout sum to 1: no map for the output.

use super::Attention;
use super::dense::Head;
use crate::buffer::Buffer;
use crate::embedding::Embedding;
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
        let width = self.width;
        rows::normalise(x, width, self.epsilon, &mut room.normalised, &mut room.inverse_deviations);
        rows::add_row(x, &folded.output_bias);
        for (h, head) in folded.heads.iter().enumerate() {
            head.project(&room.normalised, self.length, width, &mut room.query, &mut room.value);
            self.attend_folded(sequence, h, x, room);
        }
    }

    /// The same for a sequence whose rows are known beforehand.
    pub(crate) fn forward_known(
        &self,
        known: &KnownRows,
        sequence: usize,
        tokens: &[usize],
        x: &mut [f32],
        room: &mut Room,
    ) {
        let length = self.length;
        let places = || tokens.iter().enumerate().map(|(position, token)| token * length + position);
        known.gather(&known.x, places(), x);
        known.gather(&known.normalised, places(), &mut room.normalised);
        for (h, (query, value)) in known.heads.iter().enumerate() {
            known.gather(query, places(), &mut room.query);
            known.gather(value, places(), &mut room.value);
            self.attend_folded(sequence, h, x, room);
        }
    }

    /// Adds what a head finds, from what is in the room.
    fn attend_folded(&self, sequence: usize, head: usize, x: &mut [f32], room: &mut Room) {
        let (length, width, rows) = (self.length, self.width, self.length * self.width);
        let (query, key, value) = (&room.query[..rows], &room.normalised[..rows], &room.value[..rows]);
        self.attend(Head { length, width, query, key, value }, sequence, head, &mut room.context[..rows]);
        rows::add_assign(x, &room.context[..rows]);
    }

    /// The rows of the first block, which depend on nothing but token and position.
    pub(crate) fn know_rows(&self, folded: &FoldedAttention, embedding: &Embedding) -> KnownRows {
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

/// What the first block makes of every token at every position: rows by token, then position.
pub(crate) struct KnownRows {
    /// The input, with what the output adds whatever the input is.
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
