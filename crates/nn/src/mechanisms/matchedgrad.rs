//! `matchedgrad:k`: full attention whose query and key maps learn `L / k` times as fast in sequences of `L` tokens. The weights of full
//! attention are about `1 / L` and those of `topk:k` about `1 / k`, so the gradients of its scores are about `L / k` times smaller at
//! the beginning: this makes up for it. With `k` of at least the sequence length it acts as `full`.
//!
//! The factor multiplies that of the settings `training.lr_factor.query` and `training.lr_factor.key`.

use std::sync::Arc;

use burn::tensor::{Bool, Tensor};
use semfocus_core::LrFactors;
use semfocus_core::spec::Parameter;

use super::{LayerContext, Mechanism, Selection, keep_all};
use crate::info::{Family, MechanismInfo};

/// Full attention with larger steps of its query and key maps.
#[derive(Clone, Copy, Debug)]
struct MatchedGradient {
    /// Kept keys of the mechanism it is compared with.
    k: usize,
}

pub(super) const INFO: MechanismInfo = MechanismInfo {
    family: Family::Control,
    summary: "all keys; query and key maps learn L / k times as fast",
    source: "control of this project",
    formula: "p = softmax(z), learning rate of query and key maps times L / k",
    isolates: "whether larger gradients of the scores alone explain the gain",
    parameters: &[Parameter::size("k", "the number of kept keys of the mechanism it is compared with", 5)],
    ..MechanismInfo::new("matchedgrad", |values| Ok(Arc::new(MatchedGradient { k: values.whole("k") })))
};

impl Mechanism for MatchedGradient {
    fn keep(&self, scores: &Tensor<4>, _context: &LayerContext) -> Tensor<4, Bool> {
        keep_all(scores)
    }

    fn selection(&self, _length: usize) -> Option<Selection> {
        Some(Selection::All)
    }

    fn learning_rate_factors(&self, length: usize) -> LrFactors {
        let factor = (length as f64 / self.k as f64).max(1.0);
        LrFactors { query: factor, key: factor, ..LrFactors::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_follow_the_length() {
        let factors = MatchedGradient { k: 5 }.learning_rate_factors(40);
        assert_eq!((factors.query, factors.key, factors.value, factors.mechanism), (8.0, 8.0, 1.0, 1.0));
        assert_eq!(MatchedGradient { k: 50 }.learning_rate_factors(40), LrFactors::default());
    }
}
