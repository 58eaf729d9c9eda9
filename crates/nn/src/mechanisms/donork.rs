//! `donork:k`: every query keeps the `k` keys with the highest scores in a stored model, the donor, that reads the same tokens: in the
//! same layer, head and query, by the donor's own weights and layer inputs. The weights come from the scores of the model itself.
//!
//! The choice depends on the input and does not change during training. Exactly `k`, ties to the lower index; with `k` of at least the
//! sequence length it acts as `full`. Which trial is the donor is a setting of the trial, `training.donor`.

use std::sync::Arc;

use burn::tensor::{Bool, Tensor};
use semfocus_core::spec::Parameter;
use semfocus_kernels::{Row, RowRule, RuleScores};

use super::rows::keep_rows;
use super::{Mechanism, Selection, Site};
use crate::info::{Family, MechanismInfo};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct DonorK {
    /// Kept keys of a query.
    pub k: usize,
}

pub(super) const INFO: MechanismInfo = MechanismInfo {
    name: "donork",
    family: Family::Control,
    summary: "the k keys with the highest scores in a stored model (`run --donor`)",
    source: "control of this project",
    formula: "p = softmax of z over the k highest z of a stored model",
    isolates: "whether a good choice of keys alone makes training fast",
    parameters: &[Parameter::size("k", "the number of kept keys", 5)],
    allows_globals: false,
    build: |values| Ok(Arc::new(DonorK { k: values.whole("k") })),
};

impl Mechanism for DonorK {
    fn keep(&self, scores: &Tensor<4>, site: &Site) -> Tensor<4, Bool> {
        keep_rows(scores, site, |row, kept| self.select(row, kept))
    }

    fn donor_keys(&self) -> Option<usize> {
        Some(self.k)
    }

    fn selection(&self, _length: usize) -> Option<Selection> {
        Some(Selection::Rule(Arc::new(*self)))
    }
}

impl RowRule for DonorK {
    fn scores(&self) -> RuleScores {
        RuleScores::None
    }

    fn select(&self, row: &Row<'_>, kept: &mut Vec<u32>) {
        match row.donor {
            Some(keys) => kept.extend_from_slice(keys),
            // Models always have a donor; without one, somebody wants to know how many keys are kept.
            None => kept.extend(0..self.k.min(row.visible) as u32),
        }
    }
}
