//! `bottomk:k`: every query keeps the `k` keys with the lowest scores. The opposite of `topk`, as a control: it looks at
//! the scores as well, and takes the wrong end.
//!
//! Exactly `k`, ties to the lower index; with `k` of at least the sequence length it acts as `full`.

use std::sync::Arc;

use burn::tensor::{Bool, Tensor};
use semfocus_core::spec::Parameter;
use semfocus_kernels::TopKRule;

use super::rows::keep_highest;
use super::topk::rule_or_all;
use super::{LayerContext, Mechanism, Selection};
use crate::info::{Family, MechanismInfo};

/// The lowest scores of each query.
#[derive(Clone, Copy, Debug)]
struct BottomK {
    /// Kept keys of a query.
    k: usize,
}

pub(super) const INFO: MechanismInfo = MechanismInfo {
    family: Family::Control,
    summary: "the k keys with the lowest scores: input-dependent, but the wrong end",
    source: "control of this project",
    formula: "p = softmax of z over the k lowest z",
    isolates: "input dependence with the wrong choice",
    parameters: &[Parameter::size("k", "the number of kept keys", 5)],
    ..MechanismInfo::new("bottomk", |values| Ok(Arc::new(BottomK { k: values.whole("k") })))
};

impl Mechanism for BottomK {
    fn keep(&self, scores: &Tensor<4>, context: &LayerContext) -> Tensor<4, Bool> {
        keep_highest(context.hide(scores.clone(), f32::INFINITY).neg(), self.k)
    }

    fn selection(&self, length: usize) -> Option<Selection> {
        Some(rule_or_all(TopKRule::lowest(self.k), self.k, length))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::ruled;
    use super::*;

    fn bottomk(k: usize, row: &[f32]) -> Vec<u32> {
        ruled(&BottomK { k }, &[row.to_vec()]).remove(0)
    }

    #[test]
    fn keeps_the_lowest() {
        assert_eq!(bottomk(1, &[0.5, 2.0, -1.0]), [2]);
        assert_eq!(bottomk(2, &[1e4, -1e4, 0.0, 3.0]), [1, 2]);
    }

    #[test]
    fn ties_go_to_the_lower_index() {
        assert_eq!(bottomk(2, &[1.0, 1.0, 1.0]), [0, 1]);
        assert_eq!(bottomk(2, &[5.0, 0.0, 1.0, 1.0]), [1, 2]);
    }

    #[test]
    fn enough_places_act_as_full() {
        assert_eq!(bottomk(9, &[3.0, 1.0, 2.0]), [0, 1, 2]);
    }
}
