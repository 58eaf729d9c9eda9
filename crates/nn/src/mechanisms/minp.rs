//! `minp:m`: every query keeps the keys whose score is at most `m` below its best one: those whose weight in full attention is at least
//! `e^-m` times the largest. The spread of the kept scores, the dispersion of the theory, is at most `m` by construction.

use std::sync::Arc;

use burn::tensor::{Bool, Tensor};
use semfocus_core::spec::Parameter;
use semfocus_kernels::{Row, RowRule};

use super::{LayerContext, Mechanism, Selection};
use crate::info::{Family, MechanismInfo};

/// Scores near the best one.
#[derive(Clone, Copy, Debug)]
struct MinP {
    /// How far below the best score a kept one may be.
    margin: f32,
}

pub(super) const INFO: MechanismInfo = MechanismInfo {
    family: Family::InputDependent,
    summary: "the keys whose score is at most m below the best one",
    source: "compare Nguyen et al., Min-p Sampling, 2024 (for sampling)",
    formula: "p = softmax of z over z >= max z - m",
    isolates: "the dispersion of kept scores, bounded directly",
    parameters: &[Parameter::number("m", "the margin below the best score", 0.0, 1000.0, 2.0)],
    ..MechanismInfo::new("minp", |values| Ok(Arc::new(MinP { margin: values.number("m") as f32 })))
};

impl Mechanism for MinP {
    fn keep(&self, scores: &Tensor<4>, context: &LayerContext) -> Tensor<4, Bool> {
        let scores = context.hide(scores.clone(), f32::NEG_INFINITY);
        let best = scores.clone().max_dim(3); // [batch, heads, queries, 1]
        scores.greater_equal(best.sub_scalar(self.margin))
    }

    fn selection(&self, _length: usize) -> Option<Selection> {
        Some(Selection::Rule(Arc::new(*self)))
    }
}

impl RowRule for MinP {
    fn ignores_common_shift(&self) -> bool {
        true
    }

    fn select(&self, row: &Row<'_>, kept: &mut Vec<u32>) {
        let best = row.scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let is_near = |score: f32| score >= best - self.margin;
        kept.extend((0..).zip(row.scores).filter(|(_, score)| is_near(**score)).map(|(key, _)| key));
    }
}
