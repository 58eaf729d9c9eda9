//! All blocks of an encoder for evaluation only. A sequence goes through the whole model before the next one starts, so that its
//! rows stay in the nearest caches, and nothing is saved for a backward pass.

use rayon::prelude::*;

use crate::attention::{AttentionKernel, KeepWeights, KnownRows, Maps, SequenceRows};
use crate::buffer::Buffer;
use crate::embedding::EmbeddingKernel;
use crate::mlp::{MlpKernel, PackedMlp};
use crate::rows;
use crate::simd::padded;

/// An encoder with its maps packed for evaluation.
pub struct Inference<'a> {
    blocks: Vec<Block<'a>>,
    embedding: EmbeddingKernel<'a>,
    length: usize,
}

struct Block<'a> {
    attention: AttentionKernel<'a>,
    maps: Maps,
    initial_maps: Option<Maps>,
    mlp: MlpKernel<'a>,
    packed: PackedMlp,
}

impl<'a> Inference<'a> {
    /// Packs the maps of an encoder for sequences of `rows` tokens in all. `None` for models that have to go layer by layer: with
    /// dropout other than that of the attention weights, with a rule that looks at another example of the batch, or with a width
    /// that is not a multiple of 16.
    pub fn new(
        embedding: EmbeddingKernel<'a>,
        blocks: Vec<(AttentionKernel<'a>, MlpKernel<'a>)>,
        rows: usize,
    ) -> Option<Self> {
        let length = embedding.positions.len() / embedding.width;
        let fits = |(attention, mlp): &(AttentionKernel, MlpKernel)| {
            let dropouts = [attention.output_dropout, mlp.hidden_dropout, mlp.output_dropout];
            dropouts.iter().all(|dropout| dropout.is_none()) && !attention.chooses_by_another_example()
        };
        if !blocks.iter().all(fits) || !embedding.dropout.is_none() || padded(embedding.width) != embedding.width {
            return None;
        }
        let block = |(attention, mlp): (AttentionKernel<'a>, MlpKernel<'a>)| {
            let (maps, initial_maps, packed) = (attention.maps(rows), attention.initial_maps(), mlp.pack());
            Block { attention, maps, initial_maps, mlp, packed }
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
        let known = first.map(|block| KnownRows::new(&block.attention, &block.maps, &self.embedding));
        let mut pooled = vec![0.0; tokens.len() / self.length * width];
        let sequences = (tokens.par_chunks_exact(self.length), pooled.par_chunks_exact_mut(width)).into_par_iter();
        sequences.enumerate().for_each_init(
            || (Buffer::stale(self.length * width), SharedRows::default()),
            |(x, rows), (sequence, (tokens, pooled))| {
                let x = &mut x[..self.length * width];
                self.forward_sequence(known.as_ref(), sequence, tokens, x, rows, pooled);
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
        shared: &mut SharedRows,
        pooled: &mut [f32],
    ) {
        if known.is_none() {
            self.embedding.forward_into(tokens, x);
        }
        if self.blocks.is_empty() {
            rows::add_row_sums(x, self.embedding.width, pooled);
            pooled.iter_mut().for_each(|sum| *sum /= self.length as f32);
            return;
        }
        for (number, block) in self.blocks.iter().enumerate() {
            let Block { attention, maps, initial_maps, mlp, packed } = block;
            let rows = shared.of(block);
            match known.filter(|_| number == 0) {
                Some(known) => known.gather(tokens, x, rows),
                None => attention.project(maps, x, rows),
            }
            let choice = attention.rows_to_choose_by(maps, initial_maps.as_ref(), x, 0);
            attention.attend(maps, sequence, rows, choice.as_ref());
            attention.add_output_in_place(maps, rows, x);
            if number + 1 < self.blocks.len() {
                mlp.forward_in_place(packed, x, rows);
            } else {
                mlp.forward_pooled(packed, x, rows, pooled);
            }
        }
    }
}

/// Buffers for one sequence. Blocks share them if their maps have the same form, which decides the sizes.
#[derive(Default)]
struct SharedRows {
    plain: Option<SequenceRows>,
    folded: Option<SequenceRows>,
}

impl SharedRows {
    fn of(&mut self, block: &Block) -> &mut SequenceRows {
        let rows = if block.maps.folded { &mut self.folded } else { &mut self.plain };
        rows.get_or_insert_with(|| SequenceRows::new(&block.attention, &block.maps, KeepWeights::No))
    }
}
