//! A mechanism of your own: the definition, which trains at once, and the fast form.
//! `docs/adding-a-mechanism.md` walks through this file.

use std::sync::Arc;

use semfocus::burn::tensor::{Bool, Tensor};
use semfocus::nn::{Family, LayerContext, Mechanism, MechanismInfo, Parameter, Row, RowRule, Selection};

// [definition]
/// `within:m`: every query keeps the keys whose score is at most `m` below its best one, as many as there are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Within {
    margin: f32,
}

impl Mechanism for Within {
    fn keep(&self, scores: &Tensor<4>, context: &LayerContext) -> Tensor<4, Bool> {
        let scores = context.hide(scores.clone(), f32::NEG_INFINITY); // of keys that a query does not see, in causal models
        let best = scores.clone().max_dim(3); // [batch, heads, queries, 1]
        scores.greater_equal(best - self.margin)
    }

    fn selection(&self, _length: usize) -> Option<Selection> {
        Some(Selection::Rule(Arc::new(*self))) // leave this method out until there is a `RowRule`
    }
}

/// What `list mechanisms` says about it, and how it is built.
pub(crate) const WITHIN: MechanismInfo = MechanismInfo {
    name: "within",
    family: Family::InputDependent,
    summary: "the keys whose score is at most m below the best one",
    source: "an example",
    formula: "p = softmax of z over z >= max z - m",
    isolates: "the spread of the kept scores",
    parameters: &[Parameter::number("m", "the margin below the best score", 0.0, 100.0, 2.0)],
    allows_globals: false,
    build: |values| Ok(Arc::new(Within { margin: values.number("m") as f32 })),
};
// [end of definition]

// [fast form]
impl RowRule for Within {
    fn select(&self, row: &Row<'_>, kept: &mut Vec<u32>) {
        let best = row.scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        kept.extend((0..).zip(row.scores).filter(|(_, score)| **score >= best - self.margin).map(|(key, _)| key));
    }
}
// [end of fast form]

#[cfg(test)]
mod tests {
    use semfocus::nn::conformance::{Case, Scores, check, specs};
    use semfocus::nn::{Registry, Visibility};

    use super::WITHIN;

    // [test]
    #[test]
    fn both_forms_agree() {
        let registry = Registry::standard().with(WITHIN);
        for length in [1, 2, 7, 40] {
            for spec in specs(&WITHIN, length) {
                for scores in [Scores::Ordinary, Scores::Equal, Scores::Ties, Scores::Huge] {
                    let case = Case { length, scores, seed: 3, ..Case::default() };
                    check(&registry, &spec, case).unwrap();
                    check(&registry, &spec, Case { visibility: Visibility::Causal, ..case }).unwrap();
                }
            }
        }
    }
    // [end of test]
}
