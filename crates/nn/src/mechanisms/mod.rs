//! The mechanisms, a file for each or for a few that differ in one respect: definition, reference form, fast selection, entry in the
//! registry, tests by hand.
//!
//! To add one: copy the file that is closest, change it, and name it in `all`. The conformance tests find it there.

mod banded;
mod bigbird;
mod block;
mod bottomk;
mod differential;
mod dilated;
mod entmax;
mod full;
mod hashk;
mod linear;
mod lsh;
mod marked;
mod matchedgrad;
mod minp;
mod moba;
mod oracle;
mod otherscores;
mod randomk;
mod routing;
mod rows;
mod sinks;
mod ssmax;
mod strided;
mod temperature;
mod topk;
mod topp;
mod weighted;

pub use full::Full;
pub use topk::TopK;

use std::ops::Range;

use burn::tensor::{Bool, Int, Tensor};
use semfocus_kernels::{KeptKeys, Selection};

use crate::context::{LayerContext, indices};
use crate::info::MechanismInfo;
use crate::mechanism::Mechanism;

/// The entries of the standard registry, in the order in which they are listed.
pub(crate) fn all() -> Vec<MechanismInfo> {
    vec![
        full::INFO,
        banded::INFO,
        block::INFO,
        strided::INFO,
        dilated::INFO,
        sinks::INFO,
        bigbird::INFO,
        topk::INFO,
        topp::INFO,
        minp::INFO,
        moba::INFO,
        weighted::SPARSEMAX,
        entmax::INFO,
        lsh::INFO,
        routing::INFO,
        ssmax::INFO,
        weighted::SIGMOID,
        weighted::RELU,
        differential::INFO,
        linear::INFO,
        bottomk::INFO,
        randomk::RANDOMK,
        randomk::FIXEDK,
        hashk::INFO,
        otherscores::FROZENK,
        otherscores::SHUFFLEDK,
        oracle::ORACLE,
        oracle::ANTIORACLE,
        marked::STK,
        marked::GRADK,
        marked::MASKEDK,
        temperature::INFO,
        matchedgrad::INFO,
    ]
}

/// Keeps every key.
fn keep_all(scores: &Tensor<4>) -> Tensor<4, Bool> {
    Tensor::<4, Int>::ones(scores.dims(), &scores.device()).greater_elem(0)
}

/// The pattern in which the last `globals` of `length` tokens attend to all and all attend to them, and any other query
/// keeps the range `local(query, locals)` of the `locals` tokens that are not global.
fn pattern_with_globals(length: usize, globals: usize, local: impl Fn(usize, usize) -> Range<usize>) -> KeptKeys {
    let locals = length.saturating_sub(globals);
    KeptKeys::from_rows(length, |query| {
        let range = if query < locals { local(query, locals) } else { 0..locals };
        range.chain(locals..length)
    })
}

/// Adds the global tokens, the last `globals`, to the local part `[1, 1, length, length]` of a pattern, for all heads.
fn keep_with_globals(scores: &Tensor<4>, globals: usize, local: Tensor<4, Bool>) -> Tensor<4, Bool> {
    let (query, key) = indices(scores);
    let first_global = scores.dims()[2].saturating_sub(globals) as i64;
    let global = query.greater_equal_elem(first_global).bool_or(key.greater_equal_elem(first_global));
    local.bool_or(global).expand(scores.dims())
}

#[cfg(test)]
mod tests {
    //! What the tests of all mechanisms share.

    use burn::tensor::{Device, Tensor, TensorData};
    use semfocus_kernels::{KeptKeys, Key, Row, Visibility};

    use super::{LayerContext, Mechanism, Selection};

    pub(super) fn context() -> LayerContext {
        LayerContext { fixed_key: Key::new(6), ..LayerContext::new(0, Key::new(5), 0, Visibility::All) }
    }

    /// The kept keys of every query of one sequence and head, by the reference form.
    pub(super) fn reference(mechanism: &dyn Mechanism, rows: &[Vec<f32>]) -> Vec<Vec<u32>> {
        let length = rows[0].len();
        let scores = TensorData::new(rows.concat(), [1, 1, rows.len(), length]);
        let kept = mechanism.keep(&Tensor::from_data(scores, &Device::flex()), &context()).into_data();
        let kept: Vec<bool> = kept.iter::<bool>().collect();
        kept.chunks(length).map(|row| (0..length as u32).filter(|&key| row[key as usize]).collect()).collect()
    }

    /// The kept keys of every query of `length`, by both forms of a fixed pattern, which must agree.
    pub(super) fn fixed(mechanism: &dyn Mechanism, length: usize) -> Vec<Vec<u32>> {
        let Some(Selection::Pattern(pattern)) = mechanism.selection(length) else {
            panic!("{mechanism:?} is no pattern")
        };
        let fast = rows(&pattern);
        assert_eq!(fast, reference(mechanism, &vec![vec![0.0; length]; length]), "{mechanism:?} of length {length}");
        fast
    }

    fn rows(pattern: &KeptKeys) -> Vec<Vec<u32>> {
        (0..pattern.length()).map(|query| pattern.row(query).to_vec()).collect()
    }

    /// The kept keys of every query by both forms of a rule, which must agree.
    pub(super) fn ruled(mechanism: &dyn Mechanism, rows: &[Vec<f32>]) -> Vec<Vec<u32>> {
        let length = rows[0].len();
        let form = mechanism.selection(length).expect("there is a selection");
        let fast: Vec<Vec<u32>> = (rows.iter().enumerate())
            .map(|(query, row)| match &form {
                Selection::All => (0..length as u32).collect(),
                Selection::Pattern(_) => panic!("{mechanism:?} has no rule"),
                Selection::Rule(rule) => {
                    let mut kept = Vec::new();
                    let draw = context().row(0, 1, 0, length, query);
                    rule.select(&Row { draw, query, ..Row::of_scores(row) }, &mut kept);
                    kept
                }
            })
            .collect();
        assert_eq!(fast, reference(mechanism, rows), "{mechanism:?} on {rows:?}");
        fast
    }
}
