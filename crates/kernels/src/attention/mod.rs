//! The first sublayer of a block: `x + dropout(output(attention(norm(x))))`.
//!
//! The sequences are worked on in parallel, each on one thread from start to end, so that its rows stay in a core's caches:
//! norm, projections, the attention of every head ([`dense`] or [`sparse`]), output projection, residual.

mod dense;
mod folded;
mod observe;
mod parts;
mod sparse;

use std::mem::MaybeUninit;

use rayon::prelude::*;

use crate::buffer::Buffer;
use crate::linear::{LinearGradient, LinearView, pack_columns, pack_columns_transposed, run_length};
use crate::matmul::{Left, Packed, Right, Start, multiply};
use crate::mlp::ROW_BLOCK;
use crate::output;
use crate::rows::{self, RowDropout};
use crate::selection::assert_valid_row;
use crate::simd::padded;
use crate::{Dropout, FusedWeighting, KeptKeys, Key, RowRule, Selection};
use dense::{Head, HeadGradients};
use parts::{HeadWeights, HeadWeightsTransposed, Sums, Workspace};

pub(crate) use folded::{FoldedAttention, KnownRows, SequenceBuffers};
pub use observe::{ObservedRow, RowObserver, RowReader};

/// The attention sublayer: its sizes, its parameters and its random sites.
#[derive(Clone, Copy, Debug)]
pub struct AttentionKernel<'a> {
    /// Tokens of a sequence.
    pub length: usize,
    /// Values of a token.
    pub width: usize,
    /// Number of heads.
    pub heads: usize,
    /// Values of a query, key or value in one head.
    pub head_width: usize,
    /// Maps `width` → `heads * head_width`; head `h` has the columns from `h * head_width`.
    pub query: LinearView<'a>,
    /// As `query`.
    pub key: LinearView<'a>,
    /// As `query`.
    pub value: LinearView<'a>,
    /// Map `heads * head_width` → `width`.
    pub output: LinearView<'a>,
    /// Which keys the queries keep.
    pub selection: &'a Selection,
    /// How the scores of kept keys become weights.
    pub weighting: FusedWeighting,
    /// A score is this times the product of query and key.
    pub scale: f32,
    /// Added to the variance in the norm.
    pub epsilon: f32,
    /// Dropout of the attention weights. The row of query `i` in head `h` of sequence `b` has the key
    /// `weight_site.child((b * heads + h) * length + i)`, its columns are the keys.
    pub weight_dropout: Dropout,
    /// Key of the rows of `weight_dropout`.
    pub weight_site: Key,
    /// Dropout before the residual; row `t` (over all tokens) has the key `output_site.child(t)`.
    pub output_dropout: Dropout,
    /// Key of the rows of `output_dropout`.
    pub output_site: Key,
    /// Key of the rows that a rule draws from, numbered like those of `weight_site`.
    pub rule_site: Key,
}

/// What the backward pass needs besides the input, one entry for every sequence.
#[derive(Debug)]
pub struct AttentionSaved {
    sequences: Vec<SequenceSaved>,
}

#[derive(Debug)]
struct SequenceSaved {
    /// Query, key, value and context of every head: `length` padded rows each.
    projections: Buffer,
    heads: Vec<HeadSaved>,
}

#[derive(Debug)]
enum HeadSaved {
    /// Maximum score and one over the sum of the weights of every query.
    Dense(Vec<[f32; 2]>),
    /// Weights of the pairs of the fixed pattern.
    Pattern(Vec<f32>),
    /// Kept keys and their weights.
    Rule(KeptKeys, Vec<f32>),
}

/// Gradients of the sublayer.
#[derive(Debug)]
pub struct AttentionGradients {
    /// Of the input.
    pub x: Vec<f32>,
    /// Of the query map.
    pub query: LinearGradient,
    /// Of the key map.
    pub key: LinearGradient,
    /// Of the value map.
    pub value: LinearGradient,
    /// Of the output map.
    pub output: LinearGradient,
}

/// Dropout on the weights of one head in one sequence.
#[derive(Clone, Copy)]
struct WeightDropout {
    dropout: Dropout,
    site: Key,
    first_row: usize,
}

impl WeightDropout {
    #[inline(always)]
    fn is_none(&self) -> bool {
        self.dropout.is_none()
    }

    #[inline(always)]
    fn row(&self, query: usize) -> Key {
        self.site.child((self.first_row + query) as u64)
    }

    #[inline(always)]
    fn words(&self, query: usize) -> (u32, u32) {
        self.row(query).words()
    }
}

impl AttentionKernel<'_> {
    /// The sublayer for all sequences in `x`; `save` keeps what [`backward`](Self::backward) needs.
    pub fn forward(&self, x: &[f32], save: bool) -> (Vec<f32>, Option<AttentionSaved>) {
        let (y, sequences) = self.forward_sequences(x, |_, saved| save.then_some(saved));
        (y, save.then(|| AttentionSaved { sequences: sequences.into_iter().flatten().collect() }))
    }

    /// The sublayer for all sequences in `x`, and the observation of each.
    pub fn forward_observed<O: RowObserver>(&self, x: &[f32], observer: &O) -> (Vec<f32>, Vec<O::Observation>) {
        self.forward_sequences(x, |sequence, saved| self.observe_sequence(sequence, &saved, observer))
    }

    /// The sublayer for all sequences in `x`, and what `then` returns for each.
    fn forward_sequences<T: Send>(
        &self,
        x: &[f32],
        then: impl Fn(usize, SequenceSaved) -> T + Sync,
    ) -> (Vec<f32>, Vec<T>) {
        let per_sequence = self.length * self.width;
        let weights: Vec<HeadWeights> = (0..self.heads).map(|head| self.pack_head(head)).collect();
        let mut output_bias = self.output.bias.to_vec();
        output_bias.resize(padded(self.width), 0.0);

        let mut y = output::unwritten(x.len());
        let results = (x.par_chunks(per_sequence), y.par_chunks_mut(per_sequence))
            .into_par_iter()
            .enumerate()
            .map(|(sequence, (x, y))| then(sequence, self.forward_sequence(sequence, x, &weights, &output_bias, y)))
            .collect();
        // SAFETY: the sequences cover all values, and the last pass over each writes it.
        (unsafe { output::written(y) }, results)
    }

    /// Computes all scores again, those that a fixed pattern drops too, and shows them to the observer row by row.
    fn observe_sequence<O: RowObserver>(&self, sequence: usize, saved: &SequenceSaved, observer: &O) -> O::Observation {
        self.assert_softmax();
        let mut observation = observer.begin(sequence);
        let (part, score_stride) = (self.length * padded(self.head_width), padded(self.length));
        let all: Vec<u32> = (0..self.length as u32).collect();
        let mut reader = RowReader::default();
        for (h, head_saved) in saved.heads.iter().enumerate() {
            let projected = &saved.projections[4 * part * h..][..3 * part];
            dense::for_score_blocks(self.head(projected), |first, _, scores| {
                for (query, scores) in (first..).zip(scores.chunks_exact(score_stride)) {
                    let kept = match (head_saved, self.selection) {
                        (HeadSaved::Rule(kept, _), _) => kept.row(query),
                        (_, Selection::Pattern(kept)) => kept.row(query),
                        _ => &all,
                    };
                    observer.row(&mut observation, &reader.read(h, query, &scores[..self.length], kept));
                }
            });
        }
        observation
    }

    fn forward_sequence(
        &self,
        sequence: usize,
        x: &[f32],
        weights: &[HeadWeights],
        output_bias: &[f32],
        y: &mut [MaybeUninit<f32>],
    ) -> SequenceSaved {
        let (width, stride) = (self.width, padded(self.width));
        let (head_width, head_stride) = (self.head_width, padded(self.head_width));
        let part = self.length * head_stride;
        let block = ROW_BLOCK.min(self.length);
        let mut rows_buffer = Buffer::stale(block * stride);
        let mut inverse_deviations = [0.0; ROW_BLOCK];
        let mut projections = Buffer::stale(4 * part * self.heads);
        for (b, x) in x.chunks(block * width).enumerate() {
            let (first, rows) = (b * block, x.len() / width);
            rows::normalise(x, width, self.epsilon, &mut rows_buffer, &mut inverse_deviations);
            for (weights, projections) in weights.iter().zip(projections.chunks_mut(4 * part)) {
                let maps = [&weights.query, &weights.key, &weights.value];
                for (columns, to) in maps.into_iter().zip(projections.chunks_mut(part)) {
                    let (left, to) = (Left::rows(&rows_buffer, stride), &mut to[first * head_stride..]);
                    let start = Start::Bias(&columns.bias);
                    multiply(rows, head_stride, width, left, columns.weight.right(), start, to, head_stride);
                }
            }
        }
        let heads = (projections.chunks_mut(4 * part).take(self.heads).enumerate())
            .map(|(h, projections)| {
                let (projected, context) = projections.split_at_mut(3 * part);
                self.attend(self.head(projected), sequence, h, &mut context[..part])
            })
            .collect();
        for (b, (x, y)) in x.chunks(block * width).zip(y.chunks_mut(block * width)).enumerate() {
            let (first, rows) = (b * block, x.len() / width);
            for (h, (weights, projections)) in weights.iter().zip(projections.chunks(4 * part)).enumerate() {
                let left = Left::rows(&projections[3 * part + first * head_stride..], head_stride);
                let start = if h == 0 { Start::Bias(output_bias) } else { Start::Result };
                multiply(rows, stride, head_width, left, weights.output.right(), start, &mut rows_buffer, stride);
            }
            rows::add_with_dropout(x, &rows_buffer, width, self.output_drop(sequence, first), y);
        }
        SequenceSaved { projections, heads }
    }

    /// The attention of one head: writes its context and returns what the backward pass needs.
    ///
    /// This and [`attend_backward`](Self::attend_backward) are where a new weighting chooses its own row functions.
    fn attend(&self, head: Head, sequence: usize, h: usize, context: &mut [f32]) -> HeadSaved {
        self.assert_softmax();
        let drop = self.weight_drop(sequence, h);
        match self.selection {
            Selection::All => {
                let mut statistics = vec![[0.0; 2]; self.length];
                dense::forward(head, drop, context, &mut statistics);
                HeadSaved::Dense(statistics)
            }
            Selection::Pattern(kept) => {
                let mut pairs = Vec::with_capacity(kept.pairs());
                sparse::scores(head, kept, &mut pairs);
                sparse::forward(head, kept, drop, &mut pairs, context);
                HeadSaved::Pattern(pairs)
            }
            Selection::Rule(rule) => {
                let (kept, mut pairs) = self.apply_rule(rule.as_ref(), head, sequence, h);
                sparse::forward(head, &kept, drop, &mut pairs, context);
                HeadSaved::Rule(kept, pairs)
            }
        }
    }

    /// The keys that a rule keeps, and their scores.
    fn apply_rule(&self, rule: &dyn RowRule, head: Head, sequence: usize, h: usize) -> (KeptKeys, Vec<f32>) {
        let score_stride = padded(self.length);
        let (mut kept, mut pairs) = (KeptKeys::with_capacity(self.length), Vec::new());
        let mut row_keys = Vec::new();
        dense::for_score_blocks(head, |first, _, scores| {
            for (query, scores) in scores.chunks_exact(score_stride).enumerate() {
                let scores = &scores[..self.length];
                let query = first + query;
                row_keys.clear();
                rule.select(self.rule_site.child(self.row(sequence, h, query) as u64), scores, &mut row_keys);
                if row_keys.is_empty() && scores.iter().any(|score| score.is_nan()) {
                    // A diverged model must not fail the assertion below: let the NaN reach the loss.
                    row_keys.extend(0..self.length as u32);
                }
                assert_valid_row(&row_keys, self.length, query);
                kept.push_row(&row_keys);
                pairs.extend(row_keys.iter().map(|&key| scores[key as usize]));
            }
        });
        (kept, pairs)
    }

    /// Gradients of the sublayer at `x`, from the gradient of its result.
    pub fn backward(&self, x: &[f32], saved: &AttentionSaved, gradient: &[f32]) -> AttentionGradients {
        let weights: Vec<HeadWeightsTransposed> = (0..self.heads).map(|head| self.pack_head_transposed(head)).collect();
        let run = run_length(saved.sequences.len());
        let per_sequence = self.length * self.width;
        let mut x_gradient = output::unwritten(x.len());
        let sums: Vec<Sums> = (x.par_chunks(run * per_sequence), gradient.par_chunks(run * per_sequence))
            .into_par_iter()
            .zip(x_gradient.par_chunks_mut(run * per_sequence))
            .zip(saved.sequences.par_chunks(run))
            .enumerate()
            .map(|(index, (((x, gradient), x_gradient), saved))| {
                let mut sums = Sums::new(self);
                let mut work = Workspace::new(self);
                let sequences = x.chunks(per_sequence).zip(gradient.chunks(per_sequence)).zip(saved);
                for (s, (((x, gradient), saved), x_gradient)) in
                    sequences.zip(x_gradient.chunks_mut(per_sequence)).enumerate()
                {
                    self.backward_sequence(
                        index * run + s,
                        x,
                        saved,
                        gradient,
                        &weights,
                        &mut work,
                        &mut sums,
                        x_gradient,
                    );
                }
                sums
            })
            .collect();
        let total = sums.into_iter().reduce(Sums::add).unwrap_or_else(|| Sums::new(self));
        // SAFETY: the sequences cover all values, and the last pass over each writes it.
        total.into_gradients(self, unsafe { output::written(x_gradient) })
    }

    #[allow(clippy::too_many_arguments)]
    fn backward_sequence(
        &self,
        sequence: usize,
        x: &[f32],
        saved: &SequenceSaved,
        gradient: &[f32],
        weights: &[HeadWeightsTransposed],
        work: &mut Workspace,
        sums: &mut Sums,
        x_gradient: &mut [MaybeUninit<f32>],
    ) {
        let (width, stride) = (self.width, padded(self.width));
        let (head_width, head_stride) = (self.head_width, padded(self.head_width));
        let part = self.length * head_stride;
        let block = ROW_BLOCK.min(self.length);

        // From the gradient of the result to that of every head's context.
        for (b, gradient) in gradient.chunks(block * width).enumerate() {
            let (first, rows) = (b * block, gradient.len() / width);
            let (drop, output_gradient) = (self.output_drop(sequence, first), &mut work.row_gradients);
            rows::dropout_backward(gradient, width, drop, output_gradient, &mut sums.output_bias);
            for (h, weights) in weights.iter().enumerate() {
                let context = &saved.projections[(4 * h + 3) * part + first * head_stride..];
                let (left, right) = (Left::rows(output_gradient, stride), weights.output.right());
                let to = &mut work.context_gradients[h * part + first * head_stride..];
                multiply(rows, head_stride, width, left, right, Start::Zero, to, head_stride);
                let (left, right) = (Left::transposed(context, head_stride), Right::rows(output_gradient, stride));
                let sum = &mut sums.output[h * head_width * stride..];
                multiply(head_width, stride, rows, left, right, Start::Result, sum, stride);
            }
        }

        // Through the attention of every head.
        for (h, head_saved) in saved.heads.iter().enumerate() {
            let (projected, context) = saved.projections[4 * part * h..][..4 * part].split_at(3 * part);
            let (query, rest) = work.projected_gradients[3 * part * h..][..3 * part].split_at_mut(part);
            let (key, value) = rest.split_at_mut(part);
            let context_gradient = &work.context_gradients[h * part..][..part];
            let gradients = HeadGradients { query, key, value };
            self.attend_backward(self.head(projected), sequence, h, head_saved, context, context_gradient, gradients);
        }

        // From the gradients of queries, keys and values to that of the input.
        let blocks = x.chunks(block * width).zip(gradient.chunks(block * width));
        for (b, ((x, gradient), x_gradient)) in blocks.zip(x_gradient.chunks_mut(block * width)).enumerate() {
            let (first, rows) = (b * block, x.len() / width);
            let (normalised, inverse_deviations) = (&mut work.normalised, &mut work.inverse_deviations);
            rows::normalise(x, width, self.epsilon, normalised, inverse_deviations);
            for (h, weights) in weights.iter().enumerate() {
                for (m, map) in [&weights.query, &weights.key, &weights.value].into_iter().enumerate() {
                    let at = (3 * h + m) * part + first * head_stride;
                    let projected_gradient = &work.projected_gradients[at..at + rows * head_stride];
                    let place = m * self.heads + h;
                    let (left, right) =
                        (Left::transposed(normalised, stride), Right::rows(projected_gradient, head_stride));
                    let sum = &mut sums.projections[place * width * head_stride..];
                    multiply(width, head_stride, rows, left, right, Start::Result, sum, head_stride);
                    let bias_sum = &mut sums.projection_biases[place * head_stride..][..head_stride];
                    rows::add_row_sums(projected_gradient, head_stride, bias_sum);
                    let start = if h + m == 0 { Start::Zero } else { Start::Result };
                    let (left, right) = (Left::rows(projected_gradient, head_stride), map.right());
                    multiply(rows, stride, head_width, left, right, start, &mut work.row_gradients, stride);
                }
            }
            rows::normalise_backward(normalised, inverse_deviations, &work.row_gradients, gradient, width, x_gradient);
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn attend_backward(
        &self,
        head: Head,
        sequence: usize,
        h: usize,
        saved: &HeadSaved,
        context: &[f32],
        context_gradient: &[f32],
        gradients: HeadGradients,
    ) {
        self.assert_softmax();
        let drop = self.weight_drop(sequence, h);
        match (saved, self.selection) {
            (HeadSaved::Dense(statistics), _) => {
                dense::backward(head, drop, statistics, context, context_gradient, gradients);
            }
            (HeadSaved::Pattern(pairs), Selection::Pattern(kept)) => {
                sparse::backward(head, kept, drop, pairs, context_gradient, gradients);
            }
            (HeadSaved::Rule(kept, pairs), _) => {
                sparse::backward(head, kept, drop, pairs, context_gradient, gradients);
            }
            (HeadSaved::Pattern(_), _) => panic!("these weights were saved by a sublayer with a fixed pattern"),
        }
    }

    fn head<'b>(&self, projected: &'b [f32]) -> Head<'b> {
        let part = self.length * padded(self.head_width);
        Head {
            length: self.length,
            width: self.head_width,
            query: &projected[..part],
            key: &projected[part..2 * part],
            value: &projected[2 * part..],
        }
    }

    fn assert_softmax(&self) {
        assert_eq!(self.weighting, FusedWeighting::Softmax, "the fused attention has no other weighting yet");
    }

    /// Number of a query's row over the whole batch.
    fn row(&self, sequence: usize, head: usize, query: usize) -> usize {
        (sequence * self.heads + head) * self.length + query
    }

    fn weight_drop(&self, sequence: usize, head: usize) -> WeightDropout {
        let first_row = self.row(sequence, head, 0);
        WeightDropout { dropout: self.weight_dropout, site: self.weight_site, first_row }
    }

    fn output_drop(&self, sequence: usize, first: usize) -> RowDropout {
        let first_row = sequence * self.length + first;
        RowDropout { dropout: self.output_dropout, site: self.output_site, first_row }
    }

    /// Inputs and outputs of the query, key and value maps.
    fn projection_shape(&self) -> (usize, usize) {
        (self.width, self.heads * self.head_width)
    }

    /// The scale of the scores is multiplied into the query map, where it costs nothing.
    fn pack_head(&self, head: usize) -> HeadWeights {
        let (first, head_width) = (head * self.head_width, self.head_width);
        let pack = |map, scale| pack_columns(map, self.projection_shape(), first, head_width, scale);
        HeadWeights {
            query: pack(self.query, self.scale),
            key: pack(self.key, 1.0),
            value: pack(self.value, 1.0),
            output: Packed::new(self.output.weight, (first * self.width, self.width, 1), head_width, self.width, 1.0),
        }
    }

    fn pack_head_transposed(&self, head: usize) -> HeadWeightsTransposed {
        let (first, head_width) = (head * self.head_width, self.head_width);
        let pack = |map, scale| pack_columns_transposed(map, self.projection_shape(), first, head_width, scale);
        HeadWeightsTransposed {
            query: pack(self.query, self.scale),
            key: pack(self.key, 1.0),
            value: pack(self.value, 1.0),
            output: Packed::new(self.output.weight, (first * self.width, 1, self.width), self.width, head_width, 1.0),
        }
    }
}
