//! All blocks of an encoder for evaluation only. A sequence goes through the whole model before the next one starts, so that its
//! rows stay in the nearest caches, and nothing is saved for a backward pass.

use rayon::prelude::*;
use semfocus_core::{At, Question, Questions};

use crate::asked::AskedRows;
use crate::attention::{AttentionKernel, KeepWeights, KnownRows, SequenceRows};
use crate::block::{Block, ByForm};
use crate::buffer::Buffer;
use crate::embedding::EmbeddingKernel;
use crate::head::{Answer, HeadKernel, PackedHead};
use crate::mlp::MlpKernel;
use crate::simd::padded;

/// An encoder with its maps packed for evaluation.
pub struct Inference<'a> {
    blocks: Vec<Block<'a>>,
    embedding: EmbeddingKernel<'a>,
    head: PackedHead<'a>,
    length: usize,
}

impl<'a> Inference<'a> {
    /// Packs the maps of an encoder for sequences of `rows` tokens in all. `None` for models that have to go layer by layer: with
    /// dropout other than that of the attention weights, with a rule that looks at another example of the batch, or with a width
    /// that is not a multiple of 16.
    pub fn new(
        embedding: EmbeddingKernel<'a>,
        blocks: Vec<(AttentionKernel<'a>, Option<MlpKernel<'a>>)>,
        head: HeadKernel<'a>,
        rows: usize,
    ) -> Option<Self> {
        let length = embedding.positions.len() / embedding.width;
        let fits = |(attention, mlp): &(AttentionKernel, Option<MlpKernel>)| {
            let of_mlp = mlp.iter().flat_map(|mlp| [mlp.hidden_dropout, mlp.output_dropout]);
            let no_dropout = of_mlp.chain([attention.output_dropout]).all(|dropout| dropout.is_none());
            no_dropout && !attention.chooses_by_another_example()
        };
        if !blocks.iter().all(fits) || !embedding.dropout.is_none() || padded(embedding.width) != embedding.width {
            return None;
        }
        let blocks = blocks.into_iter().map(|block| Block::new(block, rows)).collect();
        Some(Inference { blocks, embedding, head: head.pack(), length })
    }

    /// Loss and answer for every question, in their order.
    ///
    /// # Panics
    /// If a question asks for a class that there is not, or at a token that a sequence does not have.
    pub fn answers(&self, tokens: &[usize], questions: &Questions) -> Vec<Answer> {
        self.for_each_sequence(tokens, questions, |asked, rows| self.head.answers(questions, asked, rows))
    }

    /// All logits for every question, row after row.
    ///
    /// # Panics
    /// If a question asks at a token that a sequence does not have.
    pub fn logits(&self, tokens: &[usize], questions: &Questions) -> Vec<f32> {
        self.for_each_sequence(tokens, questions, |_, rows| self.head.logits(rows))
    }

    /// Calls `answer` with the questions of every sequence and the rows that they ask at, and joins the results in order.
    fn for_each_sequence<T: Send>(
        &self,
        tokens: &[usize],
        questions: &Questions,
        answer: impl Fn(&[Question], &[f32]) -> Vec<T> + Sync,
    ) -> Vec<T> {
        let width = self.embedding.width;
        // The input of the first block has one distinct row per token id and position. If there are many more tokens than
        // that, it is worth computing those rows once.
        let is_worth_it = tokens.len() > 2 * self.embedding.table.len() / width * self.length;
        let first = self.blocks.first().filter(|_| is_worth_it);
        let known = first.map(|block| KnownRows::new(&block.attention, &block.maps, &self.embedding));
        let sequences = tokens.par_chunks_exact(self.length).enumerate();
        let answers = sequences.map_init(
            || (Buffer::stale(self.length * width), ByForm::default(), AskedRows::default()),
            |(x, shared, buffers), (sequence, tokens)| {
                let (x, asked) = (&mut x[..self.length * width], questions.of_sequence(sequence));
                // The mean alone costs less than all rows of the last sublayer.
                let only_mean = asked.iter().all(|question| question.at == At::Mean);
                let mean = self.forward_sequence(known.as_ref(), sequence, tokens, x, shared, only_mean);
                match mean {
                    Some(mean) => buffers.repeat(&mean, asked.len(), self.head.norm()),
                    None => buffers.read(x, width, asked, self.head.norm()),
                }
                answer(asked, &buffers.rows)
            },
        );
        answers.collect::<Vec<Vec<T>>>().into_iter().flatten().collect()
    }

    /// Leaves the rows after the last block in `x`, or returns nothing but their mean.
    fn forward_sequence(
        &self,
        known: Option<&KnownRows>,
        sequence: usize,
        tokens: &[usize],
        x: &mut [f32],
        shared: &mut ByForm<SequenceRows>,
        only_mean: bool,
    ) -> Option<Vec<f32>> {
        if known.is_none() {
            self.embedding.forward_into(tokens, x);
        }
        for (number, block) in self.blocks.iter().enumerate() {
            let Block { attention, maps, initial_maps, mlp } = block;
            let rows = shared.get(block, |block| SequenceRows::new(&block.attention, &block.maps, KeepWeights::No));
            match known.filter(|_| number == 0) {
                Some(known) => known.gather(tokens, x, rows),
                None => attention.project(maps, x, rows),
            }
            let choice = attention.rows_to_choose_by(maps, initial_maps.as_ref(), x, 0);
            attention.attend(maps, sequence, rows, choice.as_ref());
            attention.add_output_in_place(maps, rows, x);
            let Some((mlp, packed)) = mlp else { continue };
            if only_mean && number + 1 == self.blocks.len() {
                return Some(mlp.forward_mean(packed, x, &mut rows.norm));
            }
            mlp.forward_in_place(packed, x, &mut rows.norm);
        }
        None
    }
}
