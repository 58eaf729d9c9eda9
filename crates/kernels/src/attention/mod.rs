//! The first sublayer of a block: `x + dropout(output(attention(norm(x))))`.
//!
//! Attention is visibility × selection × weighting: which keys a query can see, which of them it keeps, and how the scores of
//! the kept ones become weights. The sequences are worked on in parallel, each on one thread from start to end, so that its rows
//! stay in a core's caches.
//!
//! | to find | look in |
//! |---|---|
//! | the maps, plain and folded, and their gradients | [`maps`] |
//! | the choice of keys by a rule | [`choice`] |
//! | attention over all visible keys | [`dense`] |
//! | attention over kept keys | [`sparse`] |
//! | attention over all visible keys that treats the kept ones in another way | [`marked`] |
//! | rows that need not be computed for every sequence | [`known`] |
//! | what an observer is shown | [`observe`] |

mod choice;
mod dense;
mod known;
mod maps;
mod marked;
mod observe;
mod sparse;

use std::mem::MaybeUninit;
use std::sync::Arc;

use rayon::prelude::*;
use semfocus_core::{RelevantKeys, Visibility};

use crate::buffer::Buffer;
use crate::linear::{LinearGradient, LinearView, run_length};
use crate::matmul::{Left, Right, Start, multiply};
use crate::output;
use crate::rows::{self, NormRows, ROW_BLOCK, RowDropout};
use crate::simd::padded;
use crate::weighting::RowStatistics;
use crate::{Dropout, FusedWeighting, KeptKeys, Key, Selection};
use dense::{Head, HeadGradients, Weighing};
use maps::HeadMaps;

pub(crate) use known::KnownRows;
pub(crate) use maps::{AttentionSums, Maps, TransposedMaps};
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
    /// Which keys the queries see.
    pub visibility: Visibility,
    /// Which of the visible keys the queries keep.
    pub selection: &'a Selection,
    /// How the scores of kept keys become weights.
    pub weighting: FusedWeighting,
    /// A score is this times the product of query and key, times the temperature of the head.
    pub scale: f32,
    /// Scalars of each head.
    pub head_scalars: &'a [HeadScalars],
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
    /// What single rules ask for.
    pub hints: Hints<'a>,
}

/// What a rule may ask for in addition to the scores.
#[derive(Clone, Copy, Debug)]
pub struct Hints<'a> {
    /// Index of the layer.
    pub layer: usize,
    /// Token ids of all sequences; empty if the input is not made of tokens.
    pub tokens: &'a [usize],
    /// The relevant keys of every sequence; empty if they are not known.
    pub relevant: &'a [Arc<RelevantKeys>],
    /// Query and key map before training.
    pub initial_maps: Option<(LinearView<'a>, LinearView<'a>)>,
    /// Key of the rows that a rule draws from, numbered like those of `weight_site`.
    pub draw_key: Key,
    /// Key of this layer that is the same in every pass; query `i` of head `h` has the child `h * length + i`.
    pub fixed_key: Key,
}

/// Scalars of a head that may be learned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeadScalars {
    /// Factor of the scores.
    pub temperature: f32,
    /// The α of [`FusedWeighting::Entmax`].
    pub alpha: f32,
}

impl Default for HeadScalars {
    fn default() -> Self {
        HeadScalars { temperature: 1.0, alpha: 1.5 }
    }
}

/// What the backward pass needs in addition to the input.
#[derive(Debug)]
pub struct AttentionSaved {
    maps: Maps,
    sequences: Vec<SequenceRows>,
}

/// The rows of one sequence on their way through the sublayer.
#[derive(Debug)]
pub(crate) struct SequenceRows {
    pub(crate) norm: NormRows,
    heads: Vec<HeadRows>,
}

/// The rows of one head: `length` padded rows each.
#[derive(Debug)]
struct HeadRows {
    query: Buffer,
    /// Empty in the folded form, in which the normalised rows are the keys.
    key: Buffer,
    value: Buffer,
    context: Buffer,
    /// The weights of all visible keys, if they are kept.
    dense_weights: Buffer,
    weights: SavedWeights,
}

/// What gives the weights of a head again.
#[derive(Debug, Default)]
struct SavedWeights {
    /// One entry for each query, except for softmax over kept keys, which needs none.
    statistics: Vec<RowStatistics>,
    /// Kept keys, unless all visible keys are kept.
    kept: Option<Arc<KeptKeys>>,
    /// Weights of the kept pairs, before dropout.
    pairs: Vec<f32>,
}

/// Whether the weights of all visible keys are kept for the backward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeepWeights {
    /// One number for each pair: worth it if the backward pass of the sequence follows at once.
    Yes,
    /// Two numbers for each query: the weights are computed again if they are needed.
    No,
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
    /// Of the scalars of each head.
    pub head_scalars: Vec<HeadScalars>,
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
    fn words(&self, query: usize) -> (u32, u32) {
        self.site.child((self.first_row + query) as u64).words()
    }
}

impl SequenceRows {
    pub(crate) fn new(layer: &AttentionKernel, maps: &Maps, keep_weights: KeepWeights) -> Self {
        let rows = |width: usize| Buffer::stale(layer.length * padded(width));
        let keeps = keep_weights == KeepWeights::Yes && matches!(layer.selection, Selection::All);
        let dense_weights = if keeps { dense::kept_len(layer.visibility, layer.length) } else { 0 };
        let head = |_| HeadRows {
            dense_weights: Buffer::stale(dense_weights),
            query: rows(maps.inner_width),
            key: rows(if maps.folded { 0 } else { maps.inner_width }),
            value: rows(maps.inner_width),
            context: rows(maps.inner_width),
            weights: SavedWeights::default(),
        };
        SequenceRows { norm: NormRows::new(layer.length, layer.width), heads: (0..layer.heads).map(head).collect() }
    }

    fn head<'b>(&'b self, layer: &AttentionKernel, maps: &Maps, h: usize) -> Head<'b> {
        let (rows, used) = (&self.heads[h], layer.length * padded(maps.inner_width));
        Head {
            length: layer.length,
            width: maps.inner_width,
            query: &rows.query[..used],
            key: if maps.folded { &self.norm.normalised[..used] } else { &rows.key[..used] },
            value: &rows.value[..used],
        }
    }
}

impl AttentionKernel<'_> {
    /// The sublayer for all sequences in `x`; `save` keeps what [`backward`](Self::backward) needs.
    pub fn forward(&self, x: &[f32], save: bool) -> (Vec<f32>, Option<AttentionSaved>) {
        let (y, maps, sequences) = self.forward_sequences(x, |_, _, rows| save.then_some(rows));
        (y, save.then(|| AttentionSaved { maps, sequences: sequences.into_iter().flatten().collect() }))
    }

    /// The sublayer for all sequences in `x`, and the observation of each.
    pub fn forward_observed<O: RowObserver>(&self, x: &[f32], observer: &O) -> (Vec<f32>, Vec<O::Observation>) {
        let (y, _, observations) =
            self.forward_sequences(x, |sequence, maps, rows| self.observe_sequence(sequence, maps, &rows, observer));
        (y, observations)
    }

    /// The sublayer for all sequences in `x`, and what `then` returns for each.
    fn forward_sequences<T: Send>(
        &self,
        x: &[f32],
        then: impl Fn(usize, &Maps, SequenceRows) -> T + Sync,
    ) -> (Vec<f32>, Maps, Vec<T>) {
        let per_sequence = self.length * self.width;
        let (maps, initial) = (self.maps(x.len() / self.width), self.initial_maps());
        let output_bias = self.padded_output_bias();
        let mut y = output::unwritten(x.len());
        let results = y
            .par_chunks_mut(per_sequence)
            .enumerate()
            .map(|(sequence, y)| {
                let mut rows = SequenceRows::new(self, &maps, KeepWeights::No);
                let own = &x[sequence * per_sequence..][..per_sequence];
                self.project(&maps, own, &mut rows);
                let choice = self.rows_to_choose_by(&maps, initial.as_ref(), x, sequence);
                self.attend(&maps, sequence, &mut rows, choice.as_ref());
                self.add_output(&maps, sequence, own, &rows, &output_bias, y);
                then(sequence, &maps, rows)
            })
            .collect();
        // SAFETY: the sequences cover all values, and the last pass over each writes it.
        (unsafe { output::written(y) }, maps, results)
    }

    pub(crate) fn padded_output_bias(&self) -> Vec<f32> {
        let mut bias = self.output.bias.to_vec();
        bias.resize(padded(self.width), 0.0);
        bias
    }

    /// Normalises the rows of a sequence and multiplies them with the maps, a block of rows after the other.
    pub(crate) fn project(&self, maps: &Maps, x: &[f32], rows: &mut SequenceRows) {
        let (width, stride, inner) = (self.width, padded(self.width), padded(maps.inner_width));
        let SequenceRows { norm: NormRows { normalised, inverse_deviations }, heads } = rows;
        for (b, x) in x.chunks(ROW_BLOCK * width).enumerate() {
            let (first, count) = (b * ROW_BLOCK, x.len() / width);
            let normalised = &mut normalised[first * stride..][..count * stride];
            rows::normalise(x, width, self.epsilon, normalised, &mut inverse_deviations[first..first + count]);
            for (HeadMaps { query, key, value, .. }, rows) in maps.heads.iter().zip(&mut *heads) {
                let products =
                    [(Some(query), &mut rows.query), (key.as_ref(), &mut rows.key), (Some(value), &mut rows.value)];
                for (map, to) in products {
                    let Some(map) = map else { continue };
                    let (left, start) = (Left::rows(normalised, stride), Start::Bias(&map.bias));
                    multiply(count, inner, width, left, map.weight.right(), start, &mut to[first * inner..], inner);
                }
            }
        }
    }

    /// The attention of all heads of a sequence. A rule chooses by the scores of `choice`, if given.
    pub(crate) fn attend(
        &self,
        maps: &Maps,
        sequence: usize,
        rows: &mut SequenceRows,
        choice: Option<&choice::ChoiceRows>,
    ) {
        for h in 0..self.heads {
            let used = self.length * padded(maps.inner_width);
            let mut context = std::mem::take(&mut rows.heads[h].context);
            let mut dense_weights = std::mem::take(&mut rows.heads[h].dense_weights);
            let head = rows.head(self, maps, h);
            let how = self.weighing(sequence, h);
            let kept = match self.selection {
                Selection::All => None,
                Selection::Pattern(kept) => {
                    let mut pairs = Vec::with_capacity(kept.pairs());
                    sparse::scores(head, kept, &mut pairs);
                    Some((kept.clone(), pairs))
                }
                Selection::Rule(rule) => Some(self.choose(rule.as_ref(), head, sequence, h, choice)),
            };
            rows.heads[h].weights = match kept {
                None => {
                    let mut statistics = vec![RowStatistics::default(); self.length];
                    dense::forward(head, how, &mut context[..used], &mut statistics, &mut dense_weights);
                    SavedWeights { statistics, ..SavedWeights::default() }
                }
                Some((kept, _)) if how.weighting.involves_dropped_keys() => {
                    let mut statistics = vec![RowStatistics::default(); self.length];
                    marked::forward(head, &kept, how, &mut context[..used], &mut statistics);
                    SavedWeights { statistics, kept: Some(kept), pairs: Vec::new() }
                }
                Some((kept, mut pairs)) => {
                    let mut statistics = Vec::new();
                    sparse::forward(head, &kept, how, &mut pairs, &mut context[..used], &mut statistics);
                    SavedWeights { statistics, kept: Some(kept), pairs }
                }
            };
            (rows.heads[h].context, rows.heads[h].dense_weights) = (context, dense_weights);
        }
    }

    /// Adds the output of all heads to the input.
    pub(crate) fn add_output(
        &self,
        maps: &Maps,
        sequence: usize,
        x: &[f32],
        rows: &SequenceRows,
        output_bias: &[f32],
        y: &mut [MaybeUninit<f32>],
    ) {
        let (width, stride, inner) = (self.width, padded(self.width), padded(maps.inner_width));
        let mut updates = Buffer::stale(ROW_BLOCK.min(self.length) * stride);
        for (b, (x, y)) in x.chunks(ROW_BLOCK * width).zip(y.chunks_mut(ROW_BLOCK * width)).enumerate() {
            let (first, count) = (b * ROW_BLOCK, x.len() / width);
            let update = match (&rows.heads[..], maps.folded) {
                ([head], true) => &head.context[first * inner..],
                _ => {
                    self.sum_outputs(maps, rows, first, count, &mut updates);
                    &updates[..]
                }
            };
            rows::add_with_dropout(x, update, output_bias, width, self.output_drop(sequence, first), y);
        }
    }

    /// The outputs of all heads for some rows, without the bias.
    fn sum_outputs(&self, maps: &Maps, rows: &SequenceRows, first: usize, count: usize, sums: &mut [f32]) {
        let (stride, inner) = (padded(self.width), padded(maps.inner_width));
        for (h, (maps, rows)) in maps.heads.iter().zip(&rows.heads).enumerate() {
            let context = &rows.context[first * inner..][..count * inner];
            match &maps.output {
                Some(output) => {
                    let (left, start) = (Left::rows(context, inner), if h == 0 { Start::Zero } else { Start::Result });
                    multiply(count, stride, self.head_width, left, output.right(), start, sums, stride);
                }
                None if h == 0 => sums[..count * stride].copy_from_slice(context),
                None => rows::add_assign(&mut sums[..count * stride], context),
            }
        }
    }

    /// The sublayer's update of a sequence in evaluation, in place; rows have whole vectors.
    pub(crate) fn add_output_in_place(&self, maps: &Maps, rows: &SequenceRows, x: &mut [f32]) {
        let (width, inner) = (self.width, padded(maps.inner_width));
        for (maps, rows) in maps.heads.iter().zip(&rows.heads) {
            match &maps.output {
                Some(output) => {
                    let left = Left::rows(&rows.context, inner);
                    multiply(self.length, width, self.head_width, left, output.right(), Start::Result, x, width);
                }
                None => rows::add_assign(x, &rows.context[..x.len()]),
            }
        }
        rows::add_row(x, self.output.bias);
    }

    /// Gradients of the sublayer, from the gradient of its result.
    pub fn backward(&self, saved: &AttentionSaved, gradient: &[f32]) -> AttentionGradients {
        let AttentionSaved { maps, sequences } = saved;
        let transposed = self.transposed_maps(maps);
        let run = run_length(sequences.len());
        let per_sequence = self.length * self.width;
        let mut x_gradient = output::unwritten(gradient.len());
        let sums: Vec<AttentionSums> =
            (gradient.par_chunks(run * per_sequence), x_gradient.par_chunks_mut(run * per_sequence))
                .into_par_iter()
                .zip(sequences.par_chunks(run))
                .enumerate()
                .map(|(index, ((gradient, x_gradient), sequences))| {
                    let mut sums = AttentionSums::new(self, maps);
                    let mut work = Workspace::new(self, maps);
                    let outer = gradient.chunks(per_sequence).zip(x_gradient.chunks_mut(per_sequence));
                    for (s, ((gradient, x_gradient), rows)) in outer.zip(sequences).enumerate() {
                        let sequence = index * run + s;
                        self.backward_sequence(
                            maps,
                            &transposed,
                            sequence,
                            rows,
                            gradient,
                            &mut work,
                            &mut sums,
                            x_gradient,
                        );
                    }
                    sums
                })
                .collect();
        let total = sums.into_iter().reduce(AttentionSums::add).unwrap_or_else(|| AttentionSums::new(self, maps));
        // SAFETY: the sequences cover all values, and the last pass over each writes it.
        total.into_gradients(self, maps, unsafe { output::written(x_gradient) })
    }

    #[allow(clippy::too_many_arguments)]
    pub(crate) fn backward_sequence(
        &self,
        maps: &Maps,
        transposed: &[TransposedMaps],
        sequence: usize,
        rows: &SequenceRows,
        gradient: &[f32],
        work: &mut Workspace,
        sums: &mut AttentionSums,
        x_gradient: &mut [MaybeUninit<f32>],
    ) {
        let (width, stride) = (self.width, padded(self.width));
        let (head_width, inner) = (self.head_width, padded(maps.inner_width));
        let (length, used) = (self.length, self.length * inner);
        let drop = self.output_drop(sequence, 0);
        rows::dropout_backward(gradient, width, drop, &mut work.output, &mut sums.output_bias);
        for (h, (maps_of_head, sums)) in transposed.iter().zip(&mut sums.heads).enumerate() {
            let context = &rows.heads[h].context[..used];
            // From the gradient of the output to that of the context: in the folded form they are the same.
            if let Some(map) = &maps_of_head.output {
                let left = Left::rows(&work.output, stride);
                multiply(length, inner, width, left, map.right(), Start::Zero, &mut work.context, inner);
                let (left, right) = (Left::transposed(context, inner), Right::rows(&work.output, stride));
                multiply(head_width, stride, length, left, right, Start::Result, &mut sums.output, stride);
            }
            let context_gradient = if maps.folded { &work.output[..used] } else { &work.context[..used] };

            // In the folded form the keys are the normalised rows: those of the first head begin the gradient of the rows.
            let key_is_first = maps.folded && h == 0;
            let key = if key_is_first { &mut work.rows[..used] } else { &mut work.key[..used] };
            let gradients = HeadGradients { query: &mut work.query[..used], key, value: &mut work.value[..used] };
            let (head, how) = (rows.head(self, maps, h), self.weighing(sequence, h));
            let SavedWeights { statistics, kept, pairs } = &rows.heads[h].weights;
            sums.alpha += match kept {
                None => {
                    let kept = &rows.heads[h].dense_weights;
                    dense::backward(head, how, statistics, kept, context, context_gradient, gradients)
                }
                Some(kept) if how.weighting.involves_dropped_keys() => {
                    marked::backward(head, kept, how, statistics, context_gradient, gradients);
                    0.0
                }
                Some(kept) => sparse::backward(head, kept, how, pairs, statistics, context_gradient, gradients),
            };

            // From the gradients of queries, keys and values to those of the maps and of the normalised rows.
            let parts = [
                (&work.query, Some(&maps_of_head.query), &mut sums.query, &mut sums.query_bias),
                (&work.key, maps_of_head.key.as_ref(), &mut sums.key, &mut sums.key_bias),
                (&work.value, Some(&maps_of_head.value), &mut sums.value, &mut sums.value_bias),
            ];
            for (part, (gradient, map, sum, bias_sum)) in parts.into_iter().enumerate() {
                let gradient = &gradient[..used];
                let start = if h + part == 0 && !maps.folded { Start::Zero } else { Start::Result };
                match map {
                    Some(map) => {
                        let (left, right) =
                            (Left::transposed(&rows.norm.normalised, stride), Right::rows(gradient, inner));
                        multiply(width, inner, length, left, right, Start::Result, sum, inner);
                        rows::add_row_sums(gradient, inner, bias_sum);
                        let left = Left::rows(gradient, inner);
                        multiply(length, stride, maps.inner_width, left, map.right(), start, &mut work.rows, stride);
                    }
                    None if key_is_first => {}
                    None => rows::add_assign(&mut work.rows[..used], gradient),
                }
            }
        }
        rows::normalise_backward(
            &rows.norm.normalised,
            &rows.norm.inverse_deviations,
            &work.rows,
            gradient,
            width,
            x_gradient,
        );
    }

    /// Number of a query's row over the whole batch.
    fn row(&self, sequence: usize, head: usize, query: usize) -> usize {
        (sequence * self.heads + head) * self.length + query
    }

    fn weighing(&self, sequence: usize, head: usize) -> Weighing {
        let first_row = self.row(sequence, head, 0);
        Weighing {
            visibility: self.visibility,
            weighting: match self.selection {
                Selection::All => self.weighting.of_all_keys(),
                _ => self.weighting,
            },
            alpha: self.head_scalars[head].alpha,
            drop: WeightDropout { dropout: self.weight_dropout, site: self.weight_site, first_row },
        }
    }

    fn output_drop(&self, sequence: usize, first: usize) -> RowDropout {
        let first_row = sequence * self.length + first;
        RowDropout { dropout: self.output_dropout, site: self.output_site, first_row }
    }
}

/// Buffers of the backward pass of one sequence: gradients of `length` rows each.
pub(crate) struct Workspace {
    output: Buffer,
    context: Buffer,
    query: Buffer,
    key: Buffer,
    value: Buffer,
    rows: Buffer,
}

impl Workspace {
    pub(crate) fn new(layer: &AttentionKernel, maps: &Maps) -> Self {
        let rows = |width: usize| Buffer::stale(layer.length * padded(width));
        Workspace {
            output: rows(layer.width),
            context: rows(if maps.folded { 0 } else { maps.inner_width }),
            query: rows(maps.inner_width),
            key: rows(maps.inner_width),
            value: rows(maps.inner_width),
            rows: rows(layer.width),
        }
    }
}
