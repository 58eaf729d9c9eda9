//! `k` keys for every query, drawn uniformly without replacement. Controls: as sparse as `topk`, without focus.
//!
//! * `randomk:k`: a new draw for every query, head, layer and forward pass.
//! * `fixedk:k`: drawn once. The draw depends on the seed of the model, the layer, the head and the query, and is the same for all
//!   inputs and during the whole training: the reach of `topk` without its dependence on the input.
//!
//! The draw is a function of the row's [`Key`], so the same seed and step give the same keys on any device and with any number
//! of threads. In causal models the keys are drawn from those that the query sees. With `k` of at least the sequence length they act as
//! `full`.

use std::sync::Arc;

use semfocus_core::spec::Parameter;
use semfocus_kernels::{Key, Row, RowRule, RuleScores};

use super::rows::ByRow;
use crate::info::{Family, MechanismInfo};

/// Random keys for each query.
#[derive(Clone, Copy, Debug)]
struct Drawn {
    k: usize,
    /// Whether every pass has its own draw.
    is_anew: bool,
}

const K: &[Parameter] = &[Parameter::size("k", "the number of kept keys", 5)];

pub(super) const RANDOMK: MechanismInfo = MechanismInfo {
    family: Family::Control,
    summary: "k keys drawn afresh, uniformly without replacement, per query, head and pass",
    source: "control of this project",
    formula: "p = softmax of z over k keys drawn for every pass",
    isolates: "sparsity with a choice that is noise",
    parameters: K,
    ..MechanismInfo::new("randomk", |values| Ok(Arc::new(ByRow(Drawn { k: values.whole("k"), is_anew: true }))))
};

pub(super) const FIXEDK: MechanismInfo = MechanismInfo {
    family: Family::Control,
    summary: "k keys drawn once for each layer, head and query",
    source: "control of this project",
    formula: "p = softmax of z over k keys drawn once",
    isolates: "a fixed choice with global reach: the input-agnostic counterpart of topk",
    parameters: K,
    ..MechanismInfo::new("fixedk", |values| Ok(Arc::new(ByRow(Drawn { k: values.whole("k"), is_anew: false }))))
};

impl RowRule for Drawn {
    fn scores(&self) -> RuleScores {
        RuleScores::None
    }

    fn select(&self, row: &Row<'_>, kept: &mut Vec<u32>) {
        draw_into(if self.is_anew { row.draw } else { row.fixed_key }, row.visible, self.k, kept);
    }
}

/// Draws `k` of `length` keys for the row that `row` names, ascending; all of them if `k` is at least `length`.
pub(super) fn draw_into(row: Key, length: usize, k: usize, kept: &mut Vec<u32>) {
    if k >= length {
        kept.extend(0..length as u32);
        return;
    }
    // Floyd's algorithm: every step draws from the first `last + 1` keys, and takes `last` if the drawn key is already taken.
    // After each step all sets are equally likely.
    for (step, last) in (length - k..length).enumerate() {
        let (step, last) = (step as u32, last as u32);
        let drawn = row.below(step, last + 1);
        match kept.binary_search(&drawn) {
            Ok(_) => kept.push(last), // larger than all so far
            Err(place) => kept.insert(place, drawn),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::super::tests::ruled;
    use super::*;

    fn draw(row: Key, length: usize, k: usize) -> Vec<u32> {
        let mut kept = Vec::new();
        draw_into(row, length, k, &mut kept);
        kept
    }

    #[test]
    fn draws_k_keys_and_both_forms_agree() {
        for length in [1, 2, 7, 40] {
            for k in [1, 5, 9, 40, 41] {
                for row in ruled(&ByRow(Drawn { k, is_anew: true }), &vec![vec![0.0; length]; length]) {
                    assert_eq!(row.len(), k.min(length));
                    assert!(row.windows(2).all(|pair| pair[0] < pair[1]) && row[row.len() - 1] < length as u32);
                }
            }
        }
    }

    #[test]
    fn every_set_is_equally_likely() {
        let (draws, sets) = (20_000, 10.0); // 2 of 5 keys: 10 sets
        let mut count: HashMap<Vec<u32>, f64> = HashMap::new();
        for row in 0..draws {
            *count.entry(draw(Key::new(9).child(row), 5, 2)).or_default() += 1.0;
        }
        assert_eq!(count.len(), 10);
        let expected = draws as f64 / sets;
        let chi2: f64 = count.values().map(|n| (n - expected).powi(2) / expected).sum();
        assert!(chi2 < 27.9, "chi-squared {chi2} with 9 degrees of freedom (27.9: one in a thousand)");
    }

    #[test]
    fn queries_and_keys_of_the_place_matter() {
        let rows: Vec<_> = (0..20).map(|query| draw(Key::new(1).child(query), 40, 5)).collect();
        assert!(rows.windows(2).all(|pair| pair[0] != pair[1]));
        assert_eq!(draw(Key::new(1), 40, 5), draw(Key::new(1), 40, 5));
    }
}
