//! `full`: every query keeps every key. Standard attention.

use std::sync::Arc;

use burn::tensor::{Bool, Tensor};

use super::{LayerContext, Mechanism, Selection, keep_all};
use crate::info::{Family, MechanismInfo};

/// Standard attention.
#[derive(Clone, Copy, Debug)]
pub struct Full;

pub(super) const INFO: MechanismInfo = MechanismInfo {
    family: Family::Baseline,
    summary: "every key: standard attention",
    source: "Vaswani et al., Attention Is All You Need, 2017",
    formula: "p = softmax(z)",
    isolates: "the baseline",
    ..MechanismInfo::new("full", |_| Ok(Arc::new(Full)))
};

impl Mechanism for Full {
    fn keep(&self, scores: &Tensor<4>, _context: &LayerContext) -> Tensor<4, Bool> {
        keep_all(scores)
    }

    fn selection(&self, _length: usize) -> Option<Selection> {
        Some(Selection::All)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::reference;
    use super::*;

    #[test]
    fn keeps_everything() {
        assert_eq!(reference(&Full, &[vec![1.0, -1e4], vec![0.0, 0.0]]), [[0, 1], [0, 1]]);
        assert!(matches!(Full.selection(3), Some(Selection::All)));
    }
}
