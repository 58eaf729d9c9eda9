//! All blocks of an encoder for evaluation only. A sequence goes through the whole model before the next one starts, so that its
//! rows stay in the nearest caches, and the maps of the attention are [folded](crate::attention).

use rayon::prelude::*;

use crate::attention::{AttentionKernel, FoldedAttention, KnownRows, SequenceBuffers};
use crate::buffer::Buffer;
use crate::embedding::EmbeddingKernel;
use crate::mlp::{MlpKernel, PackedMlp};
use crate::rows;
use crate::simd::padded;

/// An encoder with its maps folded and packed for evaluation.
pub struct Inference<'a> {
    blocks: Vec<FoldedBlock<'a>>,
    embedding: EmbeddingKernel<'a>,
    length: usize,
}

struct FoldedBlock<'a> {
    attention: AttentionKernel<'a>,
    folded: FoldedAttention,
    mlp: MlpKernel<'a>,
    packed: PackedMlp,
}

impl<'a> Inference<'a> {
    /// Folds and packs the maps of an encoder; `None` if one of its blocks cannot be folded or has dropout.
    pub fn new(embedding: EmbeddingKernel<'a>, blocks: Vec<(AttentionKernel<'a>, MlpKernel<'a>)>) -> Option<Self> {
        let length = embedding.positions.len() / embedding.width;
        let is_plain = |mlp: &MlpKernel| mlp.hidden_dropout.is_none() && mlp.output_dropout.is_none();
        let fits = |(attention, mlp): &(AttentionKernel, MlpKernel)| attention.can_be_folded() && is_plain(mlp);
        if !blocks.iter().all(fits) || !embedding.dropout.is_none() || padded(embedding.width) != embedding.width {
            return None;
        }
        let block = |(attention, mlp): (AttentionKernel<'a>, MlpKernel<'a>)| {
            let (folded, packed) = (attention.fold(), mlp.pack());
            FoldedBlock { attention, folded, mlp, packed }
        };
        Some(Inference { blocks: blocks.into_iter().map(block).collect(), embedding, length })
    }

    /// The mean over the tokens of every sequence after the last block, sequence by sequence.
    pub fn forward(&self, tokens: &[usize]) -> Vec<f32> {
        let width = self.embedding.width;
        // The input of the first block has one distinct row per token id and position. If there are many more tokens than
        // that, it is worth computing those rows once.
        let is_worth_it = tokens.len() > 2 * self.embedding.table.len() / width * self.length;
        let first = self.blocks.first().filter(|_| is_worth_it);
        let known = first.map(|block| block.attention.know_rows(&block.folded, &self.embedding));
        let mut pooled = vec![0.0; tokens.len() / self.length * width];
        let sequences = (tokens.par_chunks_exact(self.length), pooled.par_chunks_exact_mut(width)).into_par_iter();
        sequences.enumerate().for_each_init(
            || (Buffer::stale(self.length * width), SequenceBuffers::new(self.length, width)),
            |(x, buffers), (sequence, (tokens, pooled))| {
                let x = &mut x[..self.length * width];
                self.forward_sequence(known.as_ref(), sequence, tokens, x, buffers, pooled);
            },
        );
        pooled
    }

    fn forward_sequence(
        &self,
        known: Option<&KnownRows>,
        sequence: usize,
        tokens: &[usize],
        x: &mut [f32],
        buffers: &mut SequenceBuffers,
        pooled: &mut [f32],
    ) {
        if known.is_none() {
            self.embedding.forward_into(tokens, x);
        }
        for (number, FoldedBlock { attention, folded, mlp, packed }) in self.blocks.iter().enumerate() {
            match known.filter(|_| number == 0) {
                Some(known) => attention.forward_known(known, sequence, tokens, x, buffers),
                None => attention.forward_folded(folded, sequence, x, buffers),
            }
            if number + 1 < self.blocks.len() {
                mlp.forward_in_place(packed, x, buffers);
            } else {
                mlp.forward_pooled(packed, x, buffers, pooled);
            }
        }
        if self.blocks.is_empty() {
            rows::add_row_sums(x, self.embedding.width, pooled);
            pooled.iter_mut().for_each(|sum| *sum /= self.length as f32);
        }
    }
}
