//! All blocks of an encoder for evaluation alone: one sequence goes through the whole model before the next begins, so that
//! its rows never leave the nearest caches, and maps that can be [folded](crate::attention) are.

use rayon::prelude::*;

use crate::attention::{Attention, FoldedAttention, KnownRows, Room};
use crate::buffer::Buffer;
use crate::embedding::Embedding;
use crate::mlp::{Mlp, PackedMlp};
use crate::rows;
use crate::simd::padded;

/// An encoder made ready for evaluation.
pub struct Inference<'a> {
    blocks: Vec<Block<'a>>,
    embedding: Embedding<'a>,
    length: usize,
}

struct Block<'a> {
    attention: Attention<'a>,
    folded: FoldedAttention,
    mlp: Mlp<'a>,
    packed: PackedMlp,
}

impl<'a> Inference<'a> {
    /// Makes an encoder ready; none if one of its blocks cannot be folded or has dropout.
    pub fn new(embedding: Embedding<'a>, blocks: Vec<(Attention<'a>, Mlp<'a>)>) -> Option<Self> {
        let length = embedding.positions.len() / embedding.width;
        let is_plain = |mlp: &Mlp| mlp.hidden_dropout.is_none() && mlp.output_dropout.is_none();
        let fits = |(attention, mlp): &(Attention, Mlp)| attention.can_be_folded() && is_plain(mlp);
        if !blocks.iter().all(fits) || !embedding.dropout.is_none() || padded(embedding.width) != embedding.width {
            return None;
        }
        let block = |(attention, mlp): (Attention<'a>, Mlp<'a>)| {
            let (folded, packed) = (attention.fold(), mlp.pack());
            Block { attention, folded, mlp, packed }
        };
        Some(Inference { blocks: blocks.into_iter().map(block).collect(), embedding, length })
    }

    /// The mean over the tokens of every sequence behind the last block, sequence after sequence.
    pub fn forward(&self, tokens: &[usize]) -> Vec<f32> {
        let width = self.embedding.width;
        // There are as many different rows as ids and positions; where tokens are many more, the first block need not compute them again.
        let is_worth_it = tokens.len() > 2 * self.embedding.table.len() / width * self.length;
        let first = self.blocks.first().filter(|_| is_worth_it);
        let known = first.map(|block| block.attention.know_rows(&block.folded, &self.embedding));
        let mut pooled = vec![0.0; tokens.len() / self.length * width];
        let sequences = (tokens.par_chunks_exact(self.length), pooled.par_chunks_exact_mut(width)).into_par_iter();
        sequences.enumerate().for_each_init(
            || (Buffer::uninit(self.length * width), Room::new(self.length, width)),
            |(x, room), (sequence, (tokens, pooled))| {
                let x = &mut x[..self.length * width];
                self.forward_sequence(known.as_ref(), sequence, tokens, x, room, pooled);
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
        room: &mut Room,
        pooled: &mut [f32],
    ) {
        if known.is_none() {
            self.embedding.forward_into(tokens, x);
        }
        for (number, Block { attention, folded, mlp, packed }) in self.blocks.iter().enumerate() {
            match known.filter(|_| number == 0) {
                Some(known) => attention.forward_known(known, sequence, tokens, x, room),
                None => attention.forward_folded(folded, sequence, x, room),
            }
            if number + 1 < self.blocks.len() {
                mlp.forward_in_place(packed, x, room);
            } else {
                mlp.forward_pooled(packed, x, room, pooled);
            }
        }
        if self.blocks.is_empty() {
            rows::add_row_sums(x, self.embedding.width, pooled);
            pooled.iter_mut().for_each(|sum| *sum /= self.length as f32);
        }
    }
}
