//! A training step of a whole encoder: loss and all gradients. A sequence goes through the whole model and back before the next
//! one starts, so that its rows stay in the nearest caches and little memory is needed.

use rayon::prelude::*;

use crate::attention::{self, AttentionGradients, AttentionKernel, KeepWeights, Maps, SequenceRows, TransposedMaps};
use crate::buffer::Buffer;
use crate::embedding::EmbeddingKernel;
use crate::linear::{LinearGradient, LinearView, RUNS};
use crate::mlp::{MlpGradients, MlpKernel, MlpRows, MlpSums, PackedMlp, TransposedMlp};
use crate::output::as_unwritten;
use crate::rows;

/// An encoder with a linear classifier of the mean over its tokens.
pub struct Training<'a> {
    embedding: EmbeddingKernel<'a>,
    blocks: Vec<Block<'a>>,
    classifier: LinearView<'a>,
    length: usize,
}

struct Block<'a> {
    attention: AttentionKernel<'a>,
    maps: Maps,
    transposed_maps: Vec<TransposedMaps>,
    initial_maps: Option<Maps>,
    output_bias: Vec<f32>,
    mlp: MlpKernel<'a>,
    packed: PackedMlp,
    transposed: TransposedMlp,
}

/// Loss and gradients of a training step. The gradients of the inputs of the sublayers are left empty.
#[derive(Debug)]
pub struct TrainingGradients {
    /// Mean cross-entropy of the batch.
    pub loss: f64,
    /// Of the embedding table.
    pub table: Vec<f32>,
    /// Of the blocks, first to last.
    pub blocks: Vec<(AttentionGradients, MlpGradients)>,
    /// Of the classifier.
    pub classifier: LinearGradient,
}

/// Sums over the sequences of a run.
struct Sums {
    losses: Vec<f64>,
    table: Vec<f32>,
    blocks: Vec<(attention::Sums, MlpSums)>,
    classifier: LinearGradient,
}

/// The rows of a sequence that the way back needs, and buffers.
struct Rows {
    blocks: Vec<(SequenceRows, MlpRows)>,
    work: SharedWorkspaces,
    /// The rows of the sequence before and after a sublayer, by turns; on the way back their gradients.
    x: Buffer,
    y: Buffer,
}

impl<'a> Training<'a> {
    /// Packs the maps of an encoder for a batch of `rows` tokens. `None` if a rule looks at another example of the batch: then the
    /// model has to go layer by layer.
    pub fn new(
        embedding: EmbeddingKernel<'a>,
        blocks: Vec<(AttentionKernel<'a>, MlpKernel<'a>)>,
        classifier: LinearView<'a>,
        rows: usize,
    ) -> Option<Self> {
        if blocks.iter().any(|(attention, _)| attention.chooses_by_another_example()) {
            return None;
        }
        let block = |(attention, mlp): (AttentionKernel<'a>, MlpKernel<'a>)| {
            let maps = attention.maps(rows);
            Block {
                transposed_maps: attention.transposed_maps(&maps),
                initial_maps: attention.initial_maps(),
                output_bias: attention.padded_output_bias(),
                packed: mlp.pack(),
                transposed: mlp.pack_transposed(),
                maps,
                attention,
                mlp,
            }
        };
        let length = embedding.positions.len() / embedding.width;
        Some(Training { embedding, blocks: blocks.into_par_iter().map(block).collect(), classifier, length })
    }

    /// Loss and gradients for sequences of tokens and the class of each.
    pub fn gradients(&self, tokens: &[usize], classes: &[usize]) -> TrainingGradients {
        let batch = classes.len();
        let runs = RUNS.min(batch).max(1);
        let sums: Vec<Sums> = (0..runs)
            .into_par_iter()
            .map(|run| {
                let (mut sums, mut rows) = (Sums::new(self), Rows::new(self));
                for sequence in run * batch / runs..(run + 1) * batch / runs {
                    let tokens = &tokens[sequence * self.length..][..self.length];
                    self.forward(sequence, tokens, &mut rows);
                    let loss = self.classify(classes[sequence], batch, &mut rows, &mut sums.classifier);
                    sums.losses.push(loss);
                    self.backward(sequence, tokens, &mut rows, &mut sums);
                }
                sums
            })
            .collect();
        self.total(sums, batch)
    }

    /// The gradients from the sums of all runs. Blocks are independent of each other.
    fn total(&self, sums: Vec<Sums>, batch: usize) -> TrainingGradients {
        let mut by_block: Vec<Vec<(attention::Sums, MlpSums)>> = self.blocks.iter().map(|_| Vec::new()).collect();
        let mut outer: Option<(Vec<f64>, Vec<f32>, LinearGradient)> = None;
        for Sums { losses, table, blocks, classifier } in sums {
            by_block.iter_mut().zip(blocks).for_each(|(runs, sums)| runs.push(sums));
            outer = Some(match outer {
                None => (losses, table, classifier),
                Some((mut all_losses, mut table_sum, mut classifier_sum)) => {
                    all_losses.extend(losses);
                    rows::add_assign(&mut table_sum, &table);
                    rows::add_assign(&mut classifier_sum.weight, &classifier.weight);
                    rows::add_assign(&mut classifier_sum.bias, &classifier.bias);
                    (all_losses, table_sum, classifier_sum)
                }
            });
        }
        let blocks = by_block.into_par_iter().zip(&self.blocks).map(|(runs, block)| {
            let total = runs.into_iter().reduce(|a, b| (a.0.add(b.0), a.1.add(b.1)));
            let (attention, mlp) = total.expect("there is at least one run");
            (
                attention.into_gradients(&block.attention, &block.maps, Vec::new()),
                mlp.into_gradients(&block.mlp, Vec::new()),
            )
        });
        let blocks = blocks.collect();
        let (losses, table, classifier) = outer.expect("there is at least one run");
        TrainingGradients { loss: losses.iter().sum::<f64>() / batch as f64, table, blocks, classifier }
    }

    /// Leaves the rows after the last block in `rows.x`.
    fn forward(&self, sequence: usize, tokens: &[usize], rows: &mut Rows) {
        let Rows { blocks, x, y, .. } = rows;
        let (first_row, used) = (sequence * self.length, self.length * self.embedding.width);
        let (x, y) = (&mut x[..used], &mut y[..used]);
        self.embedding.forward_sequence(first_row, tokens, as_unwritten(x));
        for (block, (attention_rows, mlp_rows)) in self.blocks.iter().zip(blocks) {
            let Block { attention, maps, initial_maps, output_bias, mlp, packed, .. } = block;
            attention.project(maps, x, attention_rows);
            let choice = attention.rows_to_choose_by(maps, initial_maps.as_ref(), x, 0);
            attention.attend(maps, sequence, attention_rows, choice.as_ref());
            attention.add_output(maps, sequence, x, attention_rows, output_bias, as_unwritten(y));
            mlp.forward_rows(packed, first_row, y, mlp_rows, as_unwritten(x));
        }
    }

    /// The loss of a sequence from `rows.x`, which becomes the gradient of the mean loss of the batch.
    fn classify(&self, class: usize, batch: usize, rows: &mut Rows, sums: &mut LinearGradient) -> f64 {
        let (width, classes) = (self.embedding.width, self.classifier.bias.len());
        let x = &mut rows.x[..self.length * width];
        let mut pooled = vec![0.0; width];
        for row in x.chunks_exact(width) {
            pooled.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
        }
        pooled.iter_mut().for_each(|sum| *sum /= self.length as f32);
        let mut logits = self.classifier.bias.to_vec();
        for (value, weights) in pooled.iter().zip(self.classifier.weight.chunks_exact(classes)) {
            logits.iter_mut().zip(weights).for_each(|(logit, weight)| *logit += value * weight);
        }
        let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let exponentials: Vec<f64> = logits.iter().map(|&logit| f64::from(logit - max).exp()).collect();
        let sum: f64 = exponentials.iter().sum();
        let loss = sum.ln() - f64::from(logits[class] - max);
        let gradient: Vec<f32> = (exponentials.iter().enumerate())
            .map(|(index, value)| ((value / sum - f64::from(u8::from(index == class))) / batch as f64) as f32)
            .collect();

        sums.bias.iter_mut().zip(&gradient).for_each(|(sum, value)| *sum += value);
        for (value, sums) in pooled.iter().zip(sums.weight.chunks_exact_mut(classes)) {
            sums.iter_mut().zip(&gradient).for_each(|(sum, gradient)| *sum += value * gradient);
        }
        for (to, weights) in pooled.iter_mut().zip(self.classifier.weight.chunks_exact(classes)) {
            let product: f32 = weights.iter().zip(&gradient).map(|(a, b)| a * b).sum();
            *to = product / self.length as f32;
        }
        x.chunks_exact_mut(width).for_each(|row| row.copy_from_slice(&pooled));
        loss
    }

    fn backward(&self, sequence: usize, tokens: &[usize], rows: &mut Rows, sums: &mut Sums) {
        let Rows { blocks, work, x, y } = rows;
        let (first_row, used) = (sequence * self.length, self.length * self.embedding.width);
        let (x, y) = (&mut x[..used], &mut y[..used]);
        let blocks = self.blocks.iter().zip(blocks).zip(&mut sums.blocks).rev();
        for ((block, (attention_rows, mlp_rows)), (attention_sums, mlp_sums)) in blocks {
            let Block { attention, maps, transposed_maps, mlp, transposed, .. } = block;
            mlp.backward_rows(transposed, first_row, mlp_rows, x, mlp_sums, as_unwritten(y));
            attention.backward_sequence(
                maps,
                transposed_maps,
                sequence,
                attention_rows,
                y,
                work.of(block),
                attention_sums,
                as_unwritten(x),
            );
        }
        self.embedding.backward_sequence(first_row, tokens, x, &mut sums.table);
    }
}

impl Rows {
    fn new(model: &Training) -> Self {
        let block = |block: &Block| {
            (SequenceRows::new(&block.attention, &block.maps, KeepWeights::Yes), MlpRows::new(&block.mlp, model.length))
        };
        let used = model.length * model.embedding.width;
        Rows {
            blocks: model.blocks.iter().map(block).collect(),
            work: SharedWorkspaces::default(),
            x: Buffer::stale(used),
            y: Buffer::stale(used),
        }
    }
}

/// Buffers of the way back. Blocks share them if their maps have the same form, which decides the sizes.
#[derive(Default)]
struct SharedWorkspaces {
    plain: Option<attention::Workspace>,
    folded: Option<attention::Workspace>,
}

impl SharedWorkspaces {
    fn of(&mut self, block: &Block) -> &mut attention::Workspace {
        let work = if block.maps.folded { &mut self.folded } else { &mut self.plain };
        work.get_or_insert_with(|| attention::Workspace::new(&block.attention, &block.maps))
    }
}

impl Sums {
    fn new(model: &Training) -> Self {
        let LinearView { weight, bias } = model.classifier;
        let block = |block: &Block| (attention::Sums::new(&block.attention, &block.maps), MlpSums::new(&block.mlp));
        Sums {
            losses: Vec::new(),
            table: vec![0.0; model.embedding.table.len()],
            blocks: model.blocks.iter().map(block).collect(),
            classifier: LinearGradient { weight: vec![0.0; weight.len()], bias: vec![0.0; bias.len()] },
        }
    }
}
