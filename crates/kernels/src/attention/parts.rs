//! What the passes of the attention sublayer work with: packed weights, buffers, sums of gradients.

use super::{AttentionGradients, AttentionKernel};
use crate::buffer::Buffer;
use crate::linear::{Columns, LinearGradient, unpad_columns};
use crate::matmul::Packed;
use crate::mlp::ROW_BLOCK;
use crate::rows;
use crate::simd::padded;

/// One head's part of the maps.
pub(super) struct HeadWeights {
    pub(super) query: Columns,
    pub(super) key: Columns,
    pub(super) value: Columns,
    pub(super) output: Packed,
}

/// The same, transposed, for gradients.
pub(super) struct HeadWeightsTransposed {
    pub(super) query: Packed,
    pub(super) key: Packed,
    pub(super) value: Packed,
    pub(super) output: Packed,
}

/// Buffers of the backward pass of one sequence.
pub(super) struct Workspace {
    /// One block of rows each.
    pub(super) normalised: Buffer,
    pub(super) inverse_deviations: [f32; ROW_BLOCK],
    pub(super) row_gradients: Buffer,
    /// Head after head.
    pub(super) context_gradients: Buffer,
    /// Query, key and value of one head after the other.
    pub(super) projected_gradients: Buffer,
}

impl Workspace {
    pub(super) fn new(layer: &AttentionKernel) -> Self {
        let block_rows = ROW_BLOCK.min(layer.length) * padded(layer.width);
        let head_rows = layer.heads * layer.length * padded(layer.head_width);
        Workspace {
            normalised: Buffer::stale(block_rows),
            inverse_deviations: [0.0; ROW_BLOCK],
            row_gradients: Buffer::stale(block_rows),
            context_gradients: Buffer::stale(head_rows),
            projected_gradients: Buffer::stale(3 * head_rows),
        }
    }
}

/// Gradients of the maps, summed over the sequences of a run; rows are padded.
pub(super) struct Sums {
    /// Query, key and value; in each, head after head.
    pub(super) projections: Buffer,
    pub(super) projection_biases: Buffer,
    pub(super) output: Buffer,
    pub(super) output_bias: Buffer,
}

impl Sums {
    pub(super) fn new(layer: &AttentionKernel) -> Self {
        let maps = 3 * layer.heads * padded(layer.head_width);
        Sums {
            projections: Buffer::zeros(maps * layer.width),
            projection_biases: Buffer::zeros(maps),
            output: Buffer::zeros(layer.heads * layer.head_width * padded(layer.width)),
            output_bias: Buffer::zeros(layer.width),
        }
    }

    pub(super) fn add(mut self, other: Self) -> Self {
        rows::add_assign(&mut self.projections, &other.projections);
        rows::add_assign(&mut self.projection_biases, &other.projection_biases);
        rows::add_assign(&mut self.output, &other.output);
        rows::add_assign(&mut self.output_bias, &other.output_bias);
        self
    }

    pub(super) fn into_gradients(self, layer: &AttentionKernel, x: Vec<f32>) -> AttentionGradients {
        let (inputs, outputs) = layer.projection_shape();
        let (head_width, head_stride) = (layer.head_width, padded(layer.head_width));
        let projection = |map: usize, scale: f32| {
            let mut gradient = LinearGradient { weight: vec![0.0; inputs * outputs], bias: vec![0.0; outputs] };
            for h in 0..layer.heads {
                let place = (map * layer.heads + h) * head_stride;
                let weight = &self.projections[place * inputs..][..inputs * head_stride];
                unpad_columns(weight, head_width, scale, &mut gradient.weight, outputs, h * head_width);
                let bias = &self.projection_biases[place..][..head_stride];
                unpad_columns(bias, head_width, scale, &mut gradient.bias, outputs, h * head_width);
            }
            gradient
        };
        let (query, key, value) = (projection(0, layer.scale), projection(1, 1.0), projection(2, 1.0));
        let mut output =
            LinearGradient { weight: vec![0.0; outputs * inputs], bias: self.output_bias[..inputs].to_vec() };
        unpad_columns(&self.output, inputs, 1.0, &mut output.weight, inputs, 0);
        AttentionGradients { x, query, key, value, output }
    }
}
