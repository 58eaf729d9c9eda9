//! The second sublayer of a block: `x + dropout(output(activation(dropout(hidden(norm(x))))))`.

use std::mem::MaybeUninit;

use rayon::prelude::*;

use crate::buffer::Buffer;
use crate::linear::{
    Columns, LinearGradient, LinearView, pack_columns, pack_columns_transposed, run_length, unpad_columns,
};
use crate::matmul::{Left, Packed, Right, Start, multiply};
use crate::output;
use crate::rows::{self, NormRows, ROW_BLOCK, RowDropout};
use crate::simd::padded;
use crate::{Activation, Dropout, Key};

/// The MLP sublayer: its sizes, its parameters and its random sites.
#[derive(Clone, Copy, Debug)]
pub struct MlpKernel<'a> {
    /// Values of a token.
    pub width: usize,
    /// Values of the hidden layer.
    pub hidden_width: usize,
    /// First map, `width` → `hidden_width`.
    pub hidden: LinearView<'a>,
    /// Second map, `hidden_width` → `width`.
    pub output: LinearView<'a>,
    /// Activation between the maps.
    pub activation: Activation,
    /// Added to the variance in the norm.
    pub epsilon: f32,
    /// Dropout before the activation; row `t` (over all tokens) has the key `hidden_site.child(t)`.
    pub hidden_dropout: Dropout,
    /// Key of the rows of `hidden_dropout`.
    pub hidden_site: Key,
    /// Dropout before the residual; row `t` has the key `output_site.child(t)`.
    pub output_dropout: Dropout,
    /// Key of the rows of `output_dropout`.
    pub output_site: Key,
}

/// What the backward pass needs: the rows of each run.
#[derive(Debug)]
pub struct MlpSaved {
    runs: Vec<MlpRows>,
}

/// What the backward pass needs of some tokens: padded rows.
#[derive(Debug)]
pub(crate) struct MlpRows {
    norm: NormRows,
    /// The hidden layer after its dropout.
    hidden: Buffer,
}

/// Gradients of the sublayer.
#[derive(Debug)]
pub struct MlpGradients {
    /// Of the input.
    pub x: Vec<f32>,
    /// Of the first map.
    pub hidden: LinearGradient,
    /// Of the second map.
    pub output: LinearGradient,
}

/// Both maps, packed.
pub(crate) struct PackedMlp {
    hidden: Columns,
    output: Columns,
}

/// Both maps transposed, for gradients.
pub(crate) struct TransposedMlp {
    hidden: Packed,
    output: Packed,
}

impl MlpRows {
    pub(crate) fn new(layer: &MlpKernel, rows: usize) -> Self {
        MlpRows { norm: NormRows::new(rows, layer.width), hidden: Buffer::stale(rows * padded(layer.hidden_width)) }
    }
}

impl MlpKernel<'_> {
    pub(crate) fn pack(&self) -> PackedMlp {
        let (width, hidden_width) = (self.width, self.hidden_width);
        PackedMlp {
            hidden: pack_columns(self.hidden, (width, hidden_width), 0, hidden_width, 1.0),
            output: pack_columns(self.output, (hidden_width, width), 0, width, 1.0),
        }
    }

    /// The sublayer without dropout for rows of whole vectors, in place.
    pub(crate) fn forward_in_place(&self, packed: &PackedMlp, x: &mut [f32], scratch: &mut NormRows) {
        let (rows, width, stride) = (x.len() / self.width, self.width, padded(self.hidden_width));
        let active = self.active_rows(packed, x, scratch);
        rows::add_row(x, &packed.output.bias);
        let left = Left::rows(&active, stride);
        multiply(rows, width, self.hidden_width, left, packed.output.weight.right(), Start::Result, x, width);
    }

    /// The mean over the rows of the sublayer's result: the last map is linear, so the mean is taken before it.
    pub(crate) fn forward_mean(&self, packed: &PackedMlp, x: &[f32], scratch: &mut NormRows) -> Vec<f32> {
        let (rows, width, stride) = (x.len() / self.width, self.width, padded(self.hidden_width));
        let active = self.active_rows(packed, x, scratch);
        let mut mean = vec![0.0; stride];
        rows::add_row_sums(&active[..rows * stride], stride, &mut mean);
        mean.iter_mut().for_each(|sum| *sum /= rows as f32);
        let (mut update, left) = (vec![0.0; width], Left::rows(&mean, stride));
        let start = Start::Bias(&packed.output.bias);
        multiply(1, width, self.hidden_width, left, packed.output.weight.right(), start, &mut update, width);
        let mut mean = vec![0.0; width];
        rows::add_row_sums(x, width, &mut mean);
        mean.iter_mut().zip(update).for_each(|(sum, update)| *sum = *sum / rows as f32 + update);
        mean
    }

    /// The hidden layer after its activation: padded rows.
    fn active_rows(&self, packed: &PackedMlp, x: &[f32], scratch: &mut NormRows) -> Buffer {
        let (rows, width, stride) = (x.len() / self.width, self.width, padded(self.hidden_width));
        rows::normalise(x, width, self.epsilon, &mut scratch.normalised, &mut scratch.inverse_deviations);
        let mut hidden = Buffer::stale(rows * stride);
        let (left, start) = (Left::rows(&scratch.normalised, width), Start::Bias(&packed.hidden.bias));
        multiply(rows, stride, width, left, packed.hidden.weight.right(), start, &mut hidden, stride);
        rows::activate_in_place(&mut hidden[..rows * stride], self.activation);
        hidden
    }

    pub(crate) fn pack_transposed(&self) -> TransposedMlp {
        let (width, hidden_width) = (self.width, self.hidden_width);
        TransposedMlp {
            hidden: pack_columns_transposed(self.hidden, (width, hidden_width), 0, hidden_width, 1.0),
            output: pack_columns_transposed(self.output, (hidden_width, width), 0, width, 1.0),
        }
    }

    /// The sublayer for all tokens in `x`; `save` keeps what [`backward`](Self::backward) needs.
    pub fn forward(&self, x: &[f32], save: bool) -> (Vec<f32>, Option<MlpSaved>) {
        let (width, packed) = (self.width, self.pack());
        let run = run_length(x.len() / width);
        let mut y = output::unwritten(x.len());
        let runs: Vec<Option<MlpRows>> = (x.par_chunks(run * width), y.par_chunks_mut(run * width))
            .into_par_iter()
            .enumerate()
            .map(|(index, (x, y))| {
                let mut rows = MlpRows::new(self, x.len() / width);
                self.forward_rows(&packed, index * run, x, &mut rows, y);
                save.then_some(rows)
            })
            .collect();
        // SAFETY: the runs cover all rows, and the last pass over each writes it.
        (unsafe { output::written(y) }, save.then(|| MlpSaved { runs: runs.into_iter().flatten().collect() }))
    }

    /// The sublayer for the tokens from `first_row` on, on one thread.
    pub(crate) fn forward_rows(
        &self,
        packed: &PackedMlp,
        first_row: usize,
        x: &[f32],
        rows: &mut MlpRows,
        y: &mut [MaybeUninit<f32>],
    ) {
        let (width, stride) = (self.width, padded(self.width));
        let (hidden_width, hidden_stride) = (self.hidden_width, padded(self.hidden_width));
        let block = ROW_BLOCK.min(x.len() / width);
        let mut active = Buffer::stale(block * hidden_stride);
        let mut update = Buffer::stale(block * stride);
        for (b, (x, y)) in x.chunks(ROW_BLOCK * width).zip(y.chunks_mut(ROW_BLOCK * width)).enumerate() {
            let (first, count) = (b * ROW_BLOCK, x.len() / width);
            let normalised = &mut rows.norm.normalised[first * stride..][..count * stride];
            let hidden = &mut rows.hidden[first * hidden_stride..][..count * hidden_stride];
            rows::normalise(
                x,
                width,
                self.epsilon,
                normalised,
                &mut rows.norm.inverse_deviations[first..first + count],
            );
            let (left, start) = (Left::rows(normalised, stride), Start::Bias(&packed.hidden.bias));
            multiply(count, hidden_stride, width, left, packed.hidden.weight.right(), start, hidden, hidden_stride);
            let drop = self.hidden_drop(first_row + first);
            rows::activate_rows(hidden, hidden_width, self.activation, drop, &mut active);
            let (left, right) = (Left::rows(&active, hidden_stride), packed.output.weight.right());
            multiply(count, stride, hidden_width, left, right, Start::Zero, &mut update, stride);
            let drop = self.output_drop(first_row + first);
            rows::add_with_dropout(x, &update, &packed.output.bias, width, drop, y);
        }
    }

    /// Gradients of the sublayer, from the gradient of its result.
    pub fn backward(&self, saved: &MlpSaved, gradient: &[f32]) -> MlpGradients {
        let (width, transposed) = (self.width, self.pack_transposed());
        let run = run_length(gradient.len() / width);
        let mut x_gradient = output::unwritten(gradient.len());
        let sums: Vec<MlpSums> = (gradient.par_chunks(run * width), &saved.runs)
            .into_par_iter()
            .zip(x_gradient.par_chunks_mut(run * width))
            .enumerate()
            .map(|(index, ((gradient, rows), x_gradient))| {
                let mut sums = MlpSums::new(self);
                self.backward_rows(&transposed, index * run, rows, gradient, &mut sums, x_gradient);
                sums
            })
            .collect();
        let total = sums.into_iter().reduce(MlpSums::add).unwrap_or_else(|| MlpSums::new(self));
        // SAFETY: the runs cover all rows, and the last pass over each writes it.
        total.into_gradients(self, unsafe { output::written(x_gradient) })
    }

    /// The gradient of the tokens from `first_row` on; those of the maps are added to `sums`.
    pub(crate) fn backward_rows(
        &self,
        transposed: &TransposedMlp,
        first_row: usize,
        rows: &MlpRows,
        gradient: &[f32],
        sums: &mut MlpSums,
        x_gradient: &mut [MaybeUninit<f32>],
    ) {
        let (width, stride) = (self.width, padded(self.width));
        let (hidden_width, hidden_stride) = (self.hidden_width, padded(self.hidden_width));
        let block = ROW_BLOCK.min(gradient.len() / width);
        let mut active = Buffer::stale(block * hidden_stride);
        let mut output_gradient = Buffer::stale(block * stride);
        let mut hidden_gradient = Buffer::stale(block * hidden_stride);
        let mut normalised_gradient = Buffer::stale(block * stride);
        let blocks = gradient.chunks(ROW_BLOCK * width).zip(x_gradient.chunks_mut(ROW_BLOCK * width));
        for (b, (gradient, x_gradient)) in blocks.enumerate() {
            let (first, count) = (b * ROW_BLOCK, gradient.len() / width);
            let normalised = &rows.norm.normalised[first * stride..][..count * stride];
            let inverse_deviations = &rows.norm.inverse_deviations[first..first + count];
            let hidden = &rows.hidden[first * hidden_stride..][..count * hidden_stride];
            let drop = self.output_drop(first_row + first);
            rows::dropout_backward(gradient, width, drop, &mut output_gradient, &mut sums.output_bias);
            let through = &mut hidden_gradient[..count * hidden_stride];
            let left = Left::rows(&output_gradient, stride);
            let right = transposed.output.right();
            multiply(count, hidden_stride, width, left, right, Start::Zero, through, hidden_stride);
            let drop = self.hidden_drop(first_row + first);
            let bias_sums = &mut sums.hidden_bias;
            rows::activate_backward(hidden, hidden_width, self.activation, drop, &mut active, through, bias_sums);
            let (left, right) = (Left::transposed(&active, hidden_stride), Right::rows(&output_gradient, stride));
            multiply(hidden_width, stride, count, left, right, Start::Result, &mut sums.output, stride);
            let (left, right) = (Left::transposed(normalised, stride), Right::rows(through, hidden_stride));
            multiply(width, hidden_stride, count, left, right, Start::Result, &mut sums.hidden, hidden_stride);
            let (left, right) = (Left::rows(through, hidden_stride), transposed.hidden.right());
            multiply(count, stride, hidden_width, left, right, Start::Zero, &mut normalised_gradient, stride);
            rows::normalise_backward(normalised, inverse_deviations, &normalised_gradient, gradient, width, x_gradient);
        }
    }

    fn hidden_drop(&self, first_row: usize) -> RowDropout {
        RowDropout { dropout: self.hidden_dropout, site: self.hidden_site, first_row }
    }

    fn output_drop(&self, first_row: usize) -> RowDropout {
        RowDropout { dropout: self.output_dropout, site: self.output_site, first_row }
    }
}

/// Gradients of the maps, summed over the tokens of a run; rows are padded.
pub(crate) struct MlpSums {
    hidden: Buffer,
    hidden_bias: Buffer,
    output: Buffer,
    output_bias: Buffer,
}

impl MlpSums {
    pub(crate) fn new(layer: &MlpKernel) -> Self {
        MlpSums {
            hidden: Buffer::zeros(layer.width * padded(layer.hidden_width)),
            hidden_bias: Buffer::zeros(layer.hidden_width),
            output: Buffer::zeros(layer.hidden_width * padded(layer.width)),
            output_bias: Buffer::zeros(layer.width),
        }
    }

    pub(crate) fn add(mut self, other: Self) -> Self {
        rows::add_assign(&mut self.hidden, &other.hidden);
        rows::add_assign(&mut self.hidden_bias, &other.hidden_bias);
        rows::add_assign(&mut self.output, &other.output);
        rows::add_assign(&mut self.output_bias, &other.output_bias);
        self
    }

    pub(crate) fn into_gradients(self, layer: &MlpKernel, x: Vec<f32>) -> MlpGradients {
        MlpGradients {
            x,
            hidden: linear_gradient(&self.hidden, &self.hidden_bias, layer.width, layer.hidden_width),
            output: linear_gradient(&self.output, &self.output_bias, layer.hidden_width, layer.width),
        }
    }
}

fn linear_gradient(weight: &[f32], bias: &[f32], inputs: usize, outputs: usize) -> LinearGradient {
    let mut gradient = LinearGradient { weight: vec![0.0; inputs * outputs], bias: bias[..outputs].to_vec() };
    unpad_columns(weight, outputs, 1.0, &mut gradient.weight, outputs, 0);
    gradient
}
