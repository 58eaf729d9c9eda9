//! Rows of the first block, which depend only on token and position when no dropout precedes: computed once for many sequences.

use super::{AttentionKernel, KeepWeights, Maps, SequenceRows};
use crate::embedding::EmbeddingKernel;

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
        // Norm and maps do not mix rows, so all of them may stand in one long sequence.
        let all = AttentionKernel { length: count, ..*layer };
        let mut rows = SequenceRows::new(&all, maps, KeepWeights::No);
        all.project(maps, &x, &mut rows);
        KnownRows { x, rows, count }
    }

    /// Copies the rows of a sequence.
    pub(crate) fn gather(&self, tokens: &[usize], x: &mut [f32], rows: &mut SequenceRows) {
        self.copy(tokens, &self.x, x);
        self.copy(tokens, &self.rows.norm.normalised, &mut rows.norm.normalised);
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
