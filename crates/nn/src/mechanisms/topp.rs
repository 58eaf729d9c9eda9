//! `topp:p`: every query keeps the fewest keys with the highest scores that together have at least the share `p` of the softmax over all
//! visible keys, at least one. Ties go to the lower index. Weights are the softmax over the kept keys.
//!
//! With `p` of 1 it acts as `full`. A share that misses `p` by less than 1e-5 counts as reached, so that rounding does not decide.

use std::sync::Arc;

use burn::tensor::{Bool, Tensor, activation};
use semfocus_core::spec::Parameter;
use semfocus_kernels::{Row, RowRule};

use super::rows::keep_highest_of_each;
use super::{LayerContext, Mechanism, Selection, keep_all};
use crate::info::{Family, MechanismInfo};

/// The highest scores up to a share of the softmax.
#[derive(Clone, Copy, Debug)]
struct TopP {
    /// The share.
    p: f64,
}

const TOLERANCE: f64 = 1e-5;

pub(super) const INFO: MechanismInfo = MechanismInfo {
    family: Family::InputDependent,
    summary: "the fewest keys with at least the share p of the softmax",
    source: "Holtzman et al., The Curious Case of Neural Text Degeneration, 2020 (for sampling); Lin et al., Twilight, 2025 (for attention)",
    formula: "p = softmax of z over the fewest highest z with softmax mass of at least p",
    isolates: "whether the number of kept keys or the focus is what counts",
    parameters: &[Parameter::number("p", "the share of the softmax that is kept", 0.0, 1.0, 0.5)],
    ..MechanismInfo::new("topp", |values| Ok(Arc::new(TopP { p: values.number("p") })))
};

impl Mechanism for TopP {
    fn keep(&self, scores: &Tensor<4>, context: &LayerContext) -> Tensor<4, Bool> {
        if self.p >= 1.0 {
            return keep_all(scores);
        }
        let scores = context.hide(scores.clone(), f32::NEG_INFINITY).without_autodiff();
        let weights = activation::softmax(scores.clone(), 3).sort_descending(3);
        let before = weights.clone().cumsum(3).sub(weights); // the share of those before each
        let counts = before.lower_elem(self.p - TOLERANCE).int().sum_dim(3).clamp_min(1); // [batch, heads, queries, 1]
        keep_highest_of_each(scores, counts)
    }

    fn selection(&self, _length: usize) -> Option<Selection> {
        Some(if self.p >= 1.0 { Selection::All } else { Selection::Rule(Arc::new(*self)) })
    }
}

impl RowRule for TopP {
    fn ignores_common_shift(&self) -> bool {
        true
    }

    fn select(&self, row: &Row<'_>, kept: &mut Vec<u32>) {
        let score = |key: u32| row.scores[key as usize] + 0.0; // -0 is equal to +0
        kept.extend(0..row.visible as u32);
        kept.sort_by(|&a, &b| score(b).total_cmp(&score(a)).then(a.cmp(&b)));
        let best = f64::from(score(kept[0]));
        let raised: Vec<f64> = kept.iter().map(|&key| (f64::from(score(key)) - best).exp()).collect();
        let enough = (self.p - TOLERANCE) * raised.iter().sum::<f64>();
        let mut before = 0.0;
        let count = raised.iter().take_while(|&&raised| {
            let takes = before < enough;
            before += raised;
            takes
        });
        let count = count.count().max(1);
        kept.truncate(count);
        kept.sort_unstable();
    }
}
