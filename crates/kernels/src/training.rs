//! A training step of a whole encoder: loss and all gradients. A sequence goes through the whole model and back before the next
//! one starts, so that its rows stay in the nearest caches and little memory is needed.

use rayon::prelude::*;
use semfocus_core::Questions;

use crate::asked::AskedRows;
use crate::attention::{
    AttentionGradients, AttentionKernel, AttentionSums, KeepWeights, SequenceRows, TransposedMaps, Workspace,
};
use crate::block::{Block, ByForm};
use crate::buffer::Buffer;
use crate::embedding::{EmbeddingKernel, TouchedRows};
use crate::head::{HeadKernel, HeadSums, PackedHead};
use crate::linear::{LinearGradient, RUNS};
use crate::mlp::{MlpGradients, MlpKernel, MlpRows, MlpSums, TransposedMlp};
use crate::output::as_unwritten;
use crate::rows;

/// An encoder with its maps packed for training.
pub struct Training<'a> {
    embedding: EmbeddingKernel<'a>,
    blocks: Vec<TrainingBlock<'a>>,
    head: PackedHead<'a>,
    length: usize,
}

/// A block with what its backward pass needs, too.
struct TrainingBlock<'a> {
    block: Block<'a>,
    transposed_maps: Vec<TransposedMaps>,
    output_bias: Vec<f32>,
    transposed: Option<TransposedMlp>,
}

/// Loss and gradients of a training step. The gradients of the inputs of the sublayers are left empty.
#[derive(Debug)]
pub struct TrainingGradients {
    /// Mean cross-entropy of the questions of the batch, by their weights; 0 if all weights are 0.
    pub loss: f64,
    /// Of the embedding table.
    pub table: Vec<f32>,
    /// Of the positions; empty if they are not learned.
    pub positions: Vec<f32>,
    /// Of the blocks, first to last.
    pub blocks: Vec<(AttentionGradients, Option<MlpGradients>)>,
    /// Of the head.
    pub head: LinearGradient,
}

/// Sums over the sequences of a run.
struct Sums {
    table: TouchedRows,
    positions: Vec<f32>,
    blocks: Vec<(AttentionSums, Option<MlpSums>)>,
    head: HeadSums,
}

/// The rows of a sequence that the backward pass needs, and buffers.
struct Rows {
    blocks: Vec<(SequenceRows, Option<MlpRows>)>,
    work: ByForm<Workspace>,
    head: AskedRows,
    /// The rows of the sequence before and after a sublayer, by turns; in the backward pass their gradients.
    x: Buffer,
    y: Buffer,
}

impl<'a> Training<'a> {
    /// Packs the maps of an encoder for a batch of `rows` tokens. `None` if a rule looks at another example of the batch: then the
    /// model has to go layer by layer.
    pub fn new(
        embedding: EmbeddingKernel<'a>,
        blocks: Vec<(AttentionKernel<'a>, Option<MlpKernel<'a>>)>,
        head: HeadKernel<'a>,
        rows: usize,
    ) -> Option<Self> {
        if blocks.iter().any(|(attention, _)| attention.chooses_by_another_example()) {
            return None;
        }
        let block = |block| {
            let block = Block::new(block, rows);
            TrainingBlock {
                transposed_maps: block.attention.transposed_maps(&block.maps),
                output_bias: block.attention.padded_output_bias(),
                transposed: block.mlp.as_ref().map(|(mlp, _)| mlp.pack_transposed()),
                block,
            }
        };
        let length = embedding.positions.len() / embedding.width;
        let blocks = blocks.into_par_iter().map(block).collect();
        Some(Training { embedding, blocks, head: head.pack_for_training(), length })
    }

    /// Loss and gradients for sequences of tokens and what they ask.
    ///
    /// # Panics
    /// If a question asks for a class that there is not, or at a token that a sequence does not have.
    pub fn gradients(&self, tokens: &[usize], questions: &Questions) -> TrainingGradients {
        let batch = questions.sequences();
        // If all weights are 0, so are all losses and gradients, whatever they are divided by.
        let total = Some(questions.total_weight()).filter(|total| *total > 0.0).unwrap_or(1.0);
        let runs = RUNS.min(batch).max(1);
        let sums: Vec<Sums> = (0..runs)
            .into_par_iter()
            .map(|run| {
                let (mut sums, mut rows) = (Sums::new(self), Rows::new(self));
                for sequence in run * batch / runs..(run + 1) * batch / runs {
                    let tokens = &tokens[sequence * self.length..][..self.length];
                    self.forward(sequence, tokens, &mut rows);
                    let x = &mut rows.x[..self.length * self.embedding.width];
                    self.head.add_sequence(questions, sequence, total, x, &mut rows.head, &mut sums.head);
                    self.backward(sequence, tokens, &mut rows, &mut sums);
                }
                sums
            })
            .collect();
        self.total(sums, questions, total)
    }

    /// The gradients from the sums of all runs. Blocks are independent of each other.
    fn total(&self, sums: Vec<Sums>, questions: &Questions, total_weight: f64) -> TrainingGradients {
        let mut by_block: Vec<Vec<(AttentionSums, Option<MlpSums>)>> = self.blocks.iter().map(|_| Vec::new()).collect();
        let mut table = vec![0.0; self.embedding.table.len()];
        let mut positions = self.embedding.no_position_gradients();
        let mut heads = Vec::new();
        for Sums { table: touched, positions: of_run, blocks, head } in sums {
            rows::add_assign(&mut positions, &of_run);
            by_block.iter_mut().zip(blocks).for_each(|(runs, sums)| runs.push(sums));
            touched.add_to(&mut table);
            heads.push(head);
        }
        let (loss, head) = self.head.total(questions, heads);
        let blocks = by_block.into_par_iter().zip(&self.blocks).map(|(runs, TrainingBlock { block, .. })| {
            let total = runs.into_iter().reduce(|a, b| (a.0.add(b.0), a.1.zip(b.1).map(|(a, b)| a.add(b))));
            let (attention, mlp) = total.expect("there is at least one run");
            let mlp = mlp.zip(block.mlp.as_ref());
            (
                attention.into_gradients(&block.attention, &block.maps, Vec::new()),
                mlp.map(|(sums, (mlp, _))| sums.into_gradients(mlp, Vec::new())),
            )
        });
        TrainingGradients { loss: loss / total_weight, table, positions, blocks: blocks.collect(), head }
    }

    /// Leaves the rows after the last block in `rows.x`.
    fn forward(&self, sequence: usize, tokens: &[usize], rows: &mut Rows) {
        let Rows { blocks, x, y, .. } = rows;
        let (first_row, used) = (sequence * self.length, self.length * self.embedding.width);
        let (x, y) = (&mut x[..used], &mut y[..used]);
        self.embedding.forward_sequence(first_row, tokens, as_unwritten(x));
        for (TrainingBlock { block, output_bias, .. }, (attention_rows, mlp_rows)) in self.blocks.iter().zip(blocks) {
            let Block { attention, maps, initial_maps, mlp } = block;
            attention.project(maps, x, attention_rows);
            let choice = attention.rows_to_choose_by(maps, initial_maps.as_ref(), x, 0);
            attention.attend(maps, sequence, attention_rows, choice.as_ref());
            attention.add_output(maps, sequence, x, attention_rows, output_bias, as_unwritten(y));
            match mlp.as_ref().zip(mlp_rows.as_mut()) {
                Some(((mlp, packed), rows)) => mlp.forward_rows(packed, first_row, y, rows, as_unwritten(x)),
                None => x.copy_from_slice(y),
            }
        }
    }

    fn backward(&self, sequence: usize, tokens: &[usize], rows: &mut Rows, sums: &mut Sums) {
        let Rows { blocks, work, x, y, .. } = rows;
        let (first_row, used) = (sequence * self.length, self.length * self.embedding.width);
        let (x, y) = (&mut x[..used], &mut y[..used]);
        let blocks = self.blocks.iter().zip(blocks).zip(&mut sums.blocks).rev();
        for ((block, (attention_rows, mlp_rows)), (attention_sums, mlp_sums)) in blocks {
            let TrainingBlock { block, transposed_maps, transposed, .. } = block;
            let Block { attention, maps, mlp, .. } = block;
            let work = work.get(block, |block| Workspace::new(&block.attention, &block.maps));
            let parts = mlp.as_ref().zip(transposed.as_ref()).zip(mlp_rows.as_ref()).zip(mlp_sums.as_mut());
            match parts {
                Some(((((mlp, _), transposed), rows), sums)) => {
                    mlp.backward_rows(transposed, first_row, rows, x, sums, as_unwritten(y));
                }
                None => y.copy_from_slice(x),
            }
            attention.backward_sequence(
                maps,
                transposed_maps,
                sequence,
                attention_rows,
                y,
                work,
                attention_sums,
                as_unwritten(x),
            );
        }
        sums.table.add(&self.embedding, first_row, tokens, x);
        self.embedding.add_position_gradients(first_row, x, &mut sums.positions);
    }
}

impl Rows {
    fn new(model: &Training) -> Self {
        let block = |TrainingBlock { block, .. }: &TrainingBlock| {
            let mlp = block.mlp.as_ref().map(|(mlp, _)| MlpRows::new(mlp, model.length));
            (SequenceRows::new(&block.attention, &block.maps, KeepWeights::Yes), mlp)
        };
        let used = model.length * model.embedding.width;
        Rows {
            blocks: model.blocks.iter().map(block).collect(),
            work: ByForm::default(),
            head: AskedRows::default(),
            x: Buffer::stale(used),
            y: Buffer::stale(used),
        }
    }
}

impl Sums {
    fn new(model: &Training) -> Self {
        let block = |TrainingBlock { block, .. }: &TrainingBlock| {
            let mlp = block.mlp.as_ref().map(|(mlp, _)| MlpSums::new(mlp));
            (AttentionSums::new(&block.attention, &block.maps), mlp)
        };
        Sums {
            table: TouchedRows::new(&model.embedding),
            positions: model.embedding.no_position_gradients(),
            blocks: model.blocks.iter().map(block).collect(),
            head: HeadSums::new(&model.head),
        }
    }
}
