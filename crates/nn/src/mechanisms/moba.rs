//! `moba:block=b,k=n`: keys are divided into consecutive blocks of `b`, the last of which may be shorter. Every query keeps the `n` blocks
//! with the highest gate, the product of the query with the mean of the block's keys, which is the mean of their scores. Its own block is
//! always one of them. Ties go to the earlier block; blocks after the query's own are out of sight in causal models.

use std::sync::Arc;

use burn::tensor::{Bool, Int, Tensor};
use semfocus_core::spec::Parameter;
use semfocus_kernels::{Row, RowRule, TopKRule};

use super::rows::keep_highest;
use super::{LayerContext, Mechanism, Selection, indices};
use crate::info::{Family, MechanismInfo};
use semfocus_core::Visibility;

/// The best blocks of keys.
#[derive(Clone, Copy, Debug)]
struct Moba {
    /// Keys of a block.
    block: usize,
    /// Kept blocks of a query.
    k: usize,
}

pub(super) const INFO: MechanismInfo = MechanismInfo {
    family: Family::InputDependent,
    summary: "the k blocks of keys with the highest mean score, its own among them",
    source: "Lu et al., MoBA: Mixture of Block Attention for Long-Context LLMs, 2025",
    formula: "p = softmax of z over the k blocks with the highest mean z",
    isolates: "how coarse the choice may be",
    parameters: &[
        Parameter::size("block", "the number of keys in a block", 8).keyed(),
        Parameter::size("k", "the number of kept blocks", 2),
    ],
    ..MechanismInfo::new("moba", |values| Ok(Arc::new(Moba { block: values.whole("block"), k: values.whole("k") })))
};

impl Mechanism for Moba {
    fn keep(&self, scores: &Tensor<4>, context: &LayerContext) -> Tensor<4, Bool> {
        let scores = scores.clone().without_autodiff();
        let length = scores.dims()[3];
        let blocks = length.div_ceil(self.block);
        let (query, key) = indices(&scores);
        let number = Tensor::<1, Int>::arange(0..blocks as i64, &scores.device()).reshape([1, 1, 1, blocks]);
        // Which keys a block has, [1, 1, keys, blocks], and which block a query is in, [1, 1, queries, blocks].
        let block_of = |position: Tensor<4, Int>| position.div_scalar(self.block as i64);
        let has = block_of(key.swap_dims(2, 3)).equal(number.clone());
        let own = block_of(query.clone()).equal(number.clone());
        let members = has.clone().float().cast(scores.dtype());
        let counts = members.clone().sum_dim(2); // [1, 1, 1, blocks]
        let gates =
            scores.clone().matmul(members.expand([scores.dims()[0], scores.dims()[1], length, blocks])).div(counts);
        let mut gates = gates.clone().mask_fill(own.expand(gates.dims()), f32::INFINITY);
        if context.visibility == Visibility::Causal {
            let future = number.greater(block_of(query));
            gates = gates.clone().mask_fill(future.expand(gates.dims()), f32::NEG_INFINITY);
        }
        let [batch, heads, queries, _] = scores.dims();
        let kept = keep_highest(gates, self.k).float(); // [batch, heads, queries, blocks]
        let has = has.float().swap_dims(2, 3).expand([batch, heads, blocks, queries]);
        kept.matmul(has).greater_elem(0.5)
    }

    fn selection(&self, _length: usize) -> Option<Selection> {
        Some(Selection::Rule(Arc::new(*self)))
    }
}

impl RowRule for Moba {
    fn ignores_common_shift(&self) -> bool {
        true
    }

    fn select(&self, row: &Row<'_>, kept: &mut Vec<u32>) {
        let own = row.query / self.block;
        let mean = |scores: &[f32]| scores.iter().sum::<f32>() / scores.len() as f32;
        let mut gates: Vec<f32> = row.scores.chunks(self.block).map(mean).collect();
        gates[own] = f32::INFINITY;
        let mut blocks = Vec::new();
        TopKRule::highest(self.k).select(&Row { scores: &gates, visible: gates.len(), ..*row }, &mut blocks);
        for block in blocks {
            let first = block as usize * self.block;
            kept.extend(first as u32..row.visible.min(first + self.block) as u32);
        }
    }
}
