//! The second sublayer of a block: `x + dropout(output(activation(dropout(hidden(norm(x))))))`.

use rayon::prelude::*;

use crate::attention::SequenceBuffers;
use crate::buffer::Buffer;
use crate::linear::{
    Columns, LinearGradient, LinearView, pack_columns, pack_columns_transposed, run_length, unpad_columns,
};
use crate::matmul::{Left, Right, Start, multiply};
use crate::output;
use crate::rows::{self, RowDropout};
use crate::simd::padded;
use crate::{Activation, Dropout, Key};

/// This many rows go through the whole sublayer before the next ones, so that their buffers stay in the nearest caches.
pub(crate) const ROW_BLOCK: usize = 96;

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

/// What the backward pass needs besides the input: the hidden layer after its dropout, one buffer per run.
#[derive(Debug)]
pub struct MlpSaved {
    hidden: Vec<Buffer>,
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

impl MlpKernel<'_> {
    pub(crate) fn pack(&self) -> PackedMlp {
        let (width, hidden_width) = (self.width, self.hidden_width);
        PackedMlp {
            hidden: pack_columns(self.hidden, (width, hidden_width), 0, hidden_width, 1.0),
            output: pack_columns(self.output, (hidden_width, width), 0, width, 1.0),
        }
    }

    /// The sublayer without dropout for rows of whole vectors, in place.
    pub(crate) fn forward_in_place(&self, packed: &PackedMlp, x: &mut [f32], buffers: &mut SequenceBuffers) {
        let (rows, width, stride) = (x.len() / self.width, self.width, padded(self.hidden_width));
        let active = self.active_rows(packed, x, buffers);
        rows::add_row(x, &packed.output.bias);
        let left = Left::rows(&active, stride);
        multiply(rows, width, self.hidden_width, left, packed.output.weight.right(), Start::Result, x, width);
    }

    /// Adds the mean over the rows of the sublayer's result to `pooled`: the last map is linear, so the mean is taken before it.
    pub(crate) fn forward_pooled(
        &self,
        packed: &PackedMlp,
        x: &[f32],
        buffers: &mut SequenceBuffers,
        pooled: &mut [f32],
    ) {
        let (rows, width, stride) = (x.len() / self.width, self.width, padded(self.hidden_width));
        let active = self.active_rows(packed, x, buffers);
        let mut mean = vec![0.0; stride];
        rows::add_row_sums(&active[..rows * stride], stride, &mut mean);
        mean.iter_mut().for_each(|sum| *sum /= rows as f32);
        let (mut update, left) = (vec![0.0; width], Left::rows(&mean, stride));
        let start = Start::Bias(&packed.output.bias);
        multiply(1, width, self.hidden_width, left, packed.output.weight.right(), start, &mut update, width);
        rows::add_row_sums(x, width, pooled);
        pooled.iter_mut().zip(update).for_each(|(sum, update)| *sum = *sum / rows as f32 + update);
    }

    /// The hidden layer after its activation: padded rows.
    fn active_rows(&self, packed: &PackedMlp, x: &[f32], buffers: &mut SequenceBuffers) -> Buffer {
        let (rows, width, stride) = (x.len() / self.width, self.width, padded(self.hidden_width));
        rows::normalise(x, width, self.epsilon, &mut buffers.normalised, &mut buffers.inverse_deviations);
        let mut hidden = Buffer::stale(rows * stride);
        let (left, start) = (Left::rows(&buffers.normalised, width), Start::Bias(&packed.hidden.bias));
        multiply(rows, stride, width, left, packed.hidden.weight.right(), start, &mut hidden, stride);
        rows::activate_in_place(&mut hidden[..rows * stride], self.activation);
        hidden
    }

    /// The sublayer for all tokens in `x`; `save` keeps what [`backward`](Self::backward) needs.
    pub fn forward(&self, x: &[f32], save: bool) -> (Vec<f32>, Option<MlpSaved>) {
        let (width, stride) = (self.width, padded(self.width));
        let (hidden_width, hidden_stride) = (self.hidden_width, padded(self.hidden_width));
        let first = pack_columns(self.hidden, (width, hidden_width), 0, hidden_width, 1.0);
        let second = pack_columns(self.output, (hidden_width, width), 0, width, 1.0);

        let run = run_length(x.len() / width);
        let mut y = output::unwritten(x.len());
        let hidden = (x.par_chunks(run * width), y.par_chunks_mut(run * width))
            .into_par_iter()
            .enumerate()
            .map(|(index, (x, y))| {
                let block = ROW_BLOCK.min(run);
                let mut normalised = Buffer::stale(block * stride);
                let mut inverse_deviations = [0.0; ROW_BLOCK];
                let mut active = Buffer::stale(block * hidden_stride);
                let mut update = Buffer::stale(block * stride);
                // Without a backward pass all blocks can share the same rows.
                let mut all_hidden = Buffer::stale(if save { run } else { block } * hidden_stride);
                for (b, (x, y)) in x.chunks(block * width).zip(y.chunks_mut(block * width)).enumerate() {
                    let rows = x.len() / width;
                    let first_row = index * run + b * block;
                    let at = if save { b * block * hidden_stride } else { 0 };
                    let hidden = &mut all_hidden[at..at + rows * hidden_stride];
                    rows::normalise(x, width, self.epsilon, &mut normalised, &mut inverse_deviations);
                    let left = Left::rows(&normalised, stride);
                    let start = Start::Bias(&first.bias);
                    multiply(rows, hidden_stride, width, left, first.weight.right(), start, hidden, hidden_stride);
                    rows::activate_rows(
                        hidden,
                        hidden_width,
                        self.activation,
                        self.hidden_drop(first_row),
                        &mut active,
                    );
                    let left = Left::rows(&active, hidden_stride);
                    let start = Start::Bias(&second.bias);
                    multiply(rows, stride, hidden_width, left, second.weight.right(), start, &mut update, stride);
                    rows::add_with_dropout(x, &update, width, self.output_drop(first_row), y);
                }
                all_hidden
            })
            .collect();
        // SAFETY: the blocks cover all rows, and the last pass over each writes it.
        (unsafe { output::written(y) }, save.then_some(MlpSaved { hidden }))
    }

    /// Gradients of the sublayer at `x`, from the gradient of its result.
    pub fn backward(&self, x: &[f32], saved: &MlpSaved, gradient: &[f32]) -> MlpGradients {
        let (width, stride) = (self.width, padded(self.width));
        let (hidden_width, hidden_stride) = (self.hidden_width, padded(self.hidden_width));
        let first = pack_columns_transposed(self.hidden, (width, hidden_width), 0, hidden_width, 1.0);
        let second = pack_columns_transposed(self.output, (hidden_width, width), 0, width, 1.0);

        let run = run_length(x.len() / width);
        let mut x_gradient = output::unwritten(x.len());
        let sums: Vec<Sums> = (x.par_chunks(run * width), gradient.par_chunks(run * width), &saved.hidden)
            .into_par_iter()
            .zip(x_gradient.par_chunks_mut(run * width))
            .enumerate()
            .map(|(index, ((x, gradient, all_hidden), x_gradient))| {
                let block = ROW_BLOCK.min(run);
                let mut normalised = Buffer::stale(block * stride);
                let mut inverse_deviations = [0.0; ROW_BLOCK];
                let mut active = Buffer::stale(block * hidden_stride);
                let mut output_gradient = Buffer::stale(block * stride);
                let mut hidden_gradient = Buffer::stale(block * hidden_stride);
                let mut normalised_gradient = Buffer::stale(block * stride);
                let mut sums = Sums::new(width, hidden_width);
                let blocks = x.chunks(block * width).zip(gradient.chunks(block * width));
                for (b, ((x, gradient), x_gradient)) in blocks.zip(x_gradient.chunks_mut(block * width)).enumerate() {
                    let rows = x.len() / width;
                    let first_row = index * run + b * block;
                    let hidden = &all_hidden[b * block * hidden_stride..][..rows * hidden_stride];
                    rows::normalise(x, width, self.epsilon, &mut normalised, &mut inverse_deviations);
                    let drop = self.output_drop(first_row);
                    rows::dropout_backward(gradient, width, drop, &mut output_gradient, &mut sums.output_bias);
                    let left = Left::rows(&output_gradient, stride);
                    multiply(
                        rows,
                        hidden_stride,
                        width,
                        left,
                        second.right(),
                        Start::Zero,
                        &mut hidden_gradient,
                        hidden_stride,
                    );
                    let drop = self.hidden_drop(first_row);
                    let through = &mut hidden_gradient[..rows * hidden_stride];
                    rows::activate_backward(
                        hidden,
                        hidden_width,
                        self.activation,
                        drop,
                        &mut active,
                        through,
                        &mut sums.hidden_bias,
                    );
                    let (left, right) =
                        (Left::transposed(&active, hidden_stride), Right::rows(&output_gradient, stride));
                    multiply(hidden_width, stride, rows, left, right, Start::Result, &mut sums.output, stride);
                    let (left, right) =
                        (Left::transposed(&normalised, stride), Right::rows(&hidden_gradient, hidden_stride));
                    multiply(width, hidden_stride, rows, left, right, Start::Result, &mut sums.hidden, hidden_stride);
                    let left = Left::rows(&hidden_gradient, hidden_stride);
                    multiply(
                        rows,
                        stride,
                        hidden_width,
                        left,
                        first.right(),
                        Start::Zero,
                        &mut normalised_gradient,
                        stride,
                    );
                    rows::normalise_backward(
                        &normalised,
                        &inverse_deviations,
                        &normalised_gradient,
                        gradient,
                        width,
                        x_gradient,
                    );
                }
                sums
            })
            .collect();

        let total = sums.into_iter().reduce(Sums::add).unwrap_or_else(|| Sums::new(width, hidden_width));
        MlpGradients {
            // SAFETY: the blocks cover all rows, and the last pass over each writes it.
            x: unsafe { output::written(x_gradient) },
            hidden: linear_gradient(&total.hidden, &total.hidden_bias, width, hidden_width),
            output: linear_gradient(&total.output, &total.output_bias, hidden_width, width),
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
struct Sums {
    hidden: Buffer,
    hidden_bias: Buffer,
    output: Buffer,
    output_bias: Buffer,
}

impl Sums {
    fn new(width: usize, hidden_width: usize) -> Self {
        Sums {
            hidden: Buffer::zeros(width * padded(hidden_width)),
            hidden_bias: Buffer::zeros(hidden_width),
            output: Buffer::zeros(hidden_width * padded(width)),
            output_bias: Buffer::zeros(width),
        }
    }

    fn add(mut self, other: Self) -> Self {
        rows::add_assign(&mut self.hidden, &other.hidden);
        rows::add_assign(&mut self.hidden_bias, &other.hidden_bias);
        rows::add_assign(&mut self.output, &other.output);
        rows::add_assign(&mut self.output_bias, &other.output_bias);
        self
    }
}

fn linear_gradient(weight: &[f32], bias: &[f32], inputs: usize, outputs: usize) -> LinearGradient {
    let mut gradient = LinearGradient { weight: vec![0.0; inputs * outputs], bias: bias[..outputs].to_vec() };
    unpad_columns(weight, outputs, 1.0, &mut gradient.weight, outputs, 0);
    gradient
}
