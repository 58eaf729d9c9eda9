//! Weights and biases as the caller stores them, and the packed copies that the products read.

use crate::matmul::Packed;
use crate::simd::padded;

/// A linear map: `y = x · weight + bias`, the weight row-major with one row per input.
#[derive(Clone, Copy, Debug)]
pub struct LinearView<'a> {
    /// `[inputs, outputs]`.
    pub weight: &'a [f32],
    /// `[outputs]`.
    pub bias: &'a [f32],
}

/// Gradient of a [`LinearView`], laid out like it.
#[derive(Clone, Debug)]
pub struct LinearGradient {
    /// `[inputs, outputs]`.
    pub weight: Vec<f32>,
    /// `[outputs]`.
    pub bias: Vec<f32>,
}

/// Some columns of a linear map, ready for products: all of them, or those of one head.
#[derive(Debug)]
pub(crate) struct Columns {
    pub(crate) weight: Packed,
    /// Padded to whole vectors.
    pub(crate) bias: Vec<f32>,
}

/// Packs the columns `first..first + width` of a map with `inputs` inputs and `outputs` outputs, times `scale`.
pub(crate) fn pack_columns(
    linear: LinearView,
    (inputs, outputs): (usize, usize),
    first: usize,
    width: usize,
    scale: f32,
) -> Columns {
    let mut bias: Vec<f32> = linear.bias[first..first + width].iter().map(|b| b * scale).collect();
    bias.resize(padded(width), 0.0);
    Columns { weight: Packed::new(linear.weight, (first, outputs, 1), inputs, width, scale), bias }
}

/// Packs the transpose of the same columns: `width` rows of `inputs` values, times `scale`.
pub(crate) fn pack_columns_transposed(
    linear: LinearView,
    (inputs, outputs): (usize, usize),
    first: usize,
    width: usize,
    scale: f32,
) -> Packed {
    Packed::new(linear.weight, (first, 1, outputs), width, inputs, scale)
}

/// Gradients are summed over this many runs of sequences or rows, whose sums are then added in order: so the number of threads does
/// not change a bit.
pub(crate) const RUNS: usize = 8;

/// Splits `items` into runs of equal length (the last may be shorter) for parallel work with sums.
///
/// The number of runs depends only on the number of items. Sums are formed run by run and then over the runs in order, so the
/// number of threads does not change their bits.
pub(crate) fn run_length(items: usize) -> usize {
    items.div_ceil(RUNS).max(1)
}

/// Copies padded rows into columns `first..first + width` of plain rows of `outputs` values, times `scale`.
pub(crate) fn unpad_columns(from: &[f32], width: usize, scale: f32, to: &mut [f32], outputs: usize, first: usize) {
    for (from, to) in from.chunks_exact(padded(width)).zip(to.chunks_exact_mut(outputs)) {
        for (from, to) in from[..width].iter().zip(&mut to[first..first + width]) {
            *to = from * scale;
        }
    }
}
