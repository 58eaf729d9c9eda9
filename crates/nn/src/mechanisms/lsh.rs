//! `lsh[:buckets=b,rounds=n]`: every query keeps itself and the keys that fall into its bucket in at least one of `n` rounds. A bucket is
//! the direction that is nearest to a vector, of `b / 2` random ones and their opposites (`b` is rounded up to an even number); queries
//! and keys use the same directions, which are drawn once for each layer and head.
//!
//! Published are shared queries and keys, sorting into chunks of a fixed size, and directions that are new in every pass. Here queries and
//! keys are different, a bucket is as large as it is, and the choice does not change with the pass. Runs in the reference form.

use std::sync::Arc;

use burn::tensor::{Bool, Tensor, TensorData};
use semfocus_core::Key;
use semfocus_core::spec::{Literal, Parameter};

use super::{LayerContext, Mechanism, indices};
use crate::info::{Family, MechanismInfo};
use crate::weighting::Content;

/// Keys in the same bucket of a hash that keeps near vectors together.
#[derive(Clone, Copy, Debug)]
struct Lsh {
    /// Number of buckets.
    buckets: usize,
    /// Number of rounds.
    rounds: usize,
}

/// Child of a place: below it are the directions.
const DIRECTIONS: u64 = 1 << 33;

pub(super) const INFO: MechanismInfo = MechanismInfo {
    family: Family::InputDependent,
    summary: "the keys in the same bucket of a locality-sensitive hash",
    source: "Kitaev, Kaiser, Levskaya, Reformer: The Efficient Transformer, 2020 (here without sorting into chunks)",
    formula: "p = softmax of z over keys with argmax [xR; -xR] as the query in one of n rounds",
    isolates: "a choice by content that is not by the attention scores",
    parameters: &[
        Parameter::whole("buckets", "the number of buckets", 2, 1000, 8).keyed().default(Literal::Number(8.0)),
        Parameter::whole("rounds", "the number of rounds", 1, 100, 2).default(Literal::Number(2.0)),
    ],
    ..MechanismInfo::new("lsh", |values| {
        Ok(Arc::new(Lsh { buckets: values.whole("buckets"), rounds: values.whole("rounds") }))
    })
};

impl Mechanism for Lsh {
    fn keep(&self, _scores: &Tensor<4>, _context: &LayerContext) -> Tensor<4, Bool> {
        unreachable!("the choice is made by content")
    }

    fn keep_by_content(&self, scores: &Tensor<4>, content: &Content, context: &LayerContext) -> Tensor<4, Bool> {
        let (query, key) = indices(scores);
        let mut kept = query.equal(key).expand(scores.dims());
        for round in 0..self.rounds {
            let directions = self.directions(round, content, context);
            let bucket = |rows: &Tensor<4>| {
                let along = rows.clone().without_autodiff().matmul(directions.clone()); // [batch, heads, length, b / 2]
                Tensor::cat(vec![along.clone(), along.neg()], 3).argmax(3) // [batch, heads, length, 1]
            };
            let same = bucket(&content.query).equal(bucket(&content.key).swap_dims(2, 3));
            kept = kept.bool_or(same);
        }
        kept
    }
}

impl Lsh {
    /// The directions of a round, `[batch, heads, d_head, b / 2]`: uniform in a cube.
    fn directions(&self, round: usize, content: &Content, context: &LayerContext) -> Tensor<4> {
        let [batch, heads, _, width] = content.query.dims();
        let count = self.buckets.div_ceil(2);
        let root: Key = context.fixed_key.child(DIRECTIONS + round as u64);
        let values: Vec<f32> = (0..heads)
            .flat_map(|head| {
                let key = root.child(head as u64);
                (0..width * count).map(move |i| key.bits_at(i as u32) as f32 / 2f32.powi(31) - 1.0)
            })
            .collect();
        let place = (&content.query.device(), content.query.dtype());
        Tensor::<4>::from_data(TensorData::new(values, [1, heads, width, count]), place)
            .expand([batch, heads, width, count])
    }
}
