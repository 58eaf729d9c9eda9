//! Rows of the first block, which depend only on token and position when no dropout precedes: computed once for many sequences.

use super::{AttentionKernel, HeadMaps, HeadRows, Maps, SavedWeights, SequenceRows};
use crate::buffer::Buffer;
use crate::embedding::EmbeddingKernel;
use crate::linear::Columns;
use crate::matmul::{Left, Start, multiply};
use crate::rows;
use crate::simd::padded;

/// The first block's rows of every token id at every position, ordered by id, then position.
pub(crate) struct KnownRows {
    x: Vec<f32>,
    rows: SequenceRows,
    /// Number of rows.
    count: usize,
}

impl KnownRows {
    /// Embeds, normalises and projects every token id at every position. Rows have whole vectors.
    pub(crate) fn new(layer: &AttentionKernel, maps: &Maps, embedding: &EmbeddingKernel) -> Self {
        let (length, width) = (layer.length, layer.width);
        let count = embedding.table.len() / width * length;
        let mut x = vec![0.0; count * width];
        for (token, x) in x.chunks_exact_mut(length * width).enumerate() {
            embedding.forward_into(&vec![token; length], x);
        }
        let (mut normalised, mut inverse_deviations) = (Buffer::stale(count * width), Buffer::stale(count));
        rows::normalise(&x, width, layer.epsilon, &mut normalised, &mut inverse_deviations[..count]);
        let inner = padded(maps.inner_width);
        let project = |map: Option<&Columns>| {
            let mut rows = map.map_or_else(Buffer::default, |_| Buffer::stale(count * inner));
            if let Some(map) = map {
                let (left, start) = (Left::rows(&normalised, width), Start::Bias(&map.bias));
                multiply(count, inner, width, left, map.weight.right(), start, &mut rows, inner);
            }
            rows
        };
        let head = |maps: &HeadMaps| HeadRows {
            query: project(Some(&maps.query)),
            key: project(maps.key.as_ref()),
            value: project(Some(&maps.value)),
            context: Buffer::default(),
            dense_weights: Buffer::default(),
            weights: SavedWeights::default(),
        };
        let heads = maps.heads.iter().map(head).collect();
        KnownRows { x, rows: SequenceRows { normalised, inverse_deviations, heads }, count }
    }

    /// Copies the rows of a sequence.
    pub(crate) fn gather(&self, tokens: &[usize], x: &mut [f32], rows: &mut SequenceRows) {
        self.copy(tokens, &self.x, x);
        self.copy(tokens, &self.rows.normalised, &mut rows.normalised);
        for (from, to) in self.rows.heads.iter().zip(&mut rows.heads) {
            self.copy(tokens, &from.query, &mut to.query);
            self.copy(tokens, &from.key, &mut to.key);
            self.copy(tokens, &from.value, &mut to.value);
        }
    }

    fn copy(&self, tokens: &[usize], from: &[f32], to: &mut [f32]) {
        let stride = from.len() / self.count;
        if stride == 0 {
            return; // folded maps have no key rows
        }
        for (position, (token, to)) in tokens.iter().zip(to.chunks_exact_mut(stride)).enumerate() {
            let at = token * tokens.len() + position;
            to.copy_from_slice(&from[at * stride..(at + 1) * stride]);
        }
    }
}
