//! `hashk:k`: every query keeps the `k` keys with the greatest hash of seed, layer, head, both tokens and both positions. The choice
//! depends on the input and never changes during training, but means nothing. With `k` of at least the sequence length it acts as
//! `full`.
//!
//! Where the input of the model is not made of tokens, every token counts as the same.

use std::sync::Arc;

use semfocus_core::spec::Parameter;
use semfocus_kernels::{Row, RowRule, RuleScores};

use super::rows::ByRow;
use crate::info::{Family, MechanismInfo};

/// Keys by a hash of the tokens.
#[derive(Clone, Copy, Debug)]
struct HashK {
    /// Kept keys of a query.
    k: usize,
}

pub(super) const INFO: MechanismInfo = MechanismInfo {
    family: Family::Control,
    summary: "the k keys with the greatest hash of both tokens and positions",
    source: "control of this project",
    formula: "p = softmax of z over the k greatest hash(layer, head, i, j, x_i, x_j)",
    isolates: "input dependence without meaning",
    parameters: &[Parameter::size("k", "the number of kept keys", 5)],
    ..MechanismInfo::new("hashk", |values| Ok(Arc::new(ByRow(HashK { k: values.whole("k") }))))
};

/// Child of a place: below it are the hashes of the keys. Draws of other mechanisms at the same place are not below it.
const HASHES: u64 = 1 << 32;

impl RowRule for HashK {
    fn scores(&self) -> RuleScores {
        RuleScores::None
    }

    fn select(&self, row: &Row<'_>, kept: &mut Vec<u32>) {
        kept.extend(0..row.visible as u32);
        if self.k >= row.visible {
            return;
        }
        let token = |position: usize| row.tokens.get(position).copied().unwrap_or(0) as u64;
        let of_query = row.fixed_key.child(HASHES + token(row.query));
        let hash = |key: u32| of_query.child(token(key as usize)).bits_at(key);
        kept.sort_by_cached_key(|&key| (std::cmp::Reverse(hash(key)), key));
        kept.truncate(self.k);
        kept.sort_unstable();
    }
}
