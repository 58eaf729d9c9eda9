//! `sinks:w[,s=n]`: every query keeps the first `s` keys and a window of `w` keys: in causal models the last `w` up to itself, otherwise `w`
//! around it, shifted inwards at both ends as in `banded`.

use std::sync::Arc;

use burn::tensor::{Bool, Tensor};
use semfocus_core::spec::{Literal, MAX_SIZE, Parameter};
use semfocus_kernels::{Row, RowRule, RuleScores};

use super::rows::{keep_rows, window};
use super::{LayerContext, Mechanism, Selection};
use crate::info::{Family, MechanismInfo};

/// The first keys and a window.
#[derive(Clone, Copy, Debug)]
struct Sinks {
    /// Keys in the window.
    width: usize,
    /// First keys that every query keeps.
    sinks: usize,
}

pub(super) const INFO: MechanismInfo = MechanismInfo {
    family: Family::InputAgnostic,
    summary: "the first s keys and w keys around the query",
    source: "Xiao et al., Efficient Streaming Language Models with Attention Sinks, 2023",
    formula: "p = softmax of z over j < s or j in the window",
    isolates: "a published fixed pattern: a window and attention sinks",
    parameters: &[
        Parameter::size("w", "the width of the window", 5),
        Parameter::whole("s", "the number of first keys", 0, MAX_SIZE, 4).default(Literal::Number(4.0)),
    ],
    ..MechanismInfo::new("sinks", |values| Ok(Arc::new(Sinks { width: values.whole("w"), sinks: values.whole("s") })))
};

impl Mechanism for Sinks {
    fn keep(&self, scores: &Tensor<4>, context: &LayerContext) -> Tensor<4, Bool> {
        keep_rows(scores, context, |row, kept| {
            let near = window(row.query, row.visible, self.width);
            kept.extend((0..row.visible).filter(|key| *key < self.sinks || near.contains(key)).map(|key| key as u32));
        })
    }

    fn selection(&self, _length: usize) -> Option<Selection> {
        Some(Selection::Rule(Arc::new(*self)))
    }
}

impl RowRule for Sinks {
    fn scores(&self) -> RuleScores {
        RuleScores::None
    }

    fn select(&self, row: &Row<'_>, kept: &mut Vec<u32>) {
        let near = window(row.query, row.visible, self.width);
        let sinks = self.sinks.min(near.start);
        kept.extend(0..sinks as u32);
        kept.extend(near.start as u32..near.end.max(self.sinks.min(row.visible)) as u32);
    }
}
