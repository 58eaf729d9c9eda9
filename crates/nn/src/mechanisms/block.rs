//! `block:b[+gN]`: the sequence is cut into blocks of `b`, every query keeps the keys of its own block.
//!
//! The last block is short when `b` does not divide the length; with `b` of at least the length it acts as `full`.
//! Global tokens are the last `N` of the sequence: the blocks cover the others only.

use std::sync::Arc;

use burn::tensor::{Bool, Int, Tensor};
use semfocus_core::spec::Parameter;
use semfocus_kernels::KeptKeys;

use super::{LayerContext, Mechanism, Selection, indices, keep_with_globals, pattern_with_globals};
use crate::info::{Family, MechanismInfo};

/// Attention within blocks.
#[derive(Clone, Copy, Debug)]
struct Blockwise {
    /// Tokens of a block.
    size: usize,
    /// Global tokens at the end of the sequence.
    globals: usize,
}

pub(super) const INFO: MechanismInfo = MechanismInfo {
    family: Family::InputAgnostic,
    summary: "the keys of the query's own block of b; the last block may be short",
    source: "Qiu et al., Blockwise Self-Attention for Long Document Understanding, 2020",
    formula: "p = softmax of z over the own block",
    isolates: "a fixed local pattern: sparsity without regard to the input",
    parameters: &[Parameter::size("b", "the number of tokens in a block", 5)],
    allows_globals: true,
    ..MechanismInfo::new("block", |values| {
        Ok(Arc::new(Blockwise { size: values.whole("b"), globals: values.globals() }))
    })
};

impl Blockwise {
    /// Keys that each query of `length` tokens (global ones included) keeps.
    fn pattern(&self, length: usize) -> KeptKeys {
        pattern_with_globals(length, self.globals, |query, locals| {
            let start = query / self.size * self.size;
            start..locals.min(start + self.size)
        })
    }
}

impl Mechanism for Blockwise {
    fn keep(&self, scores: &Tensor<4>, _context: &LayerContext) -> Tensor<4, Bool> {
        let (query, key) = indices(scores);
        let block = |index: Tensor<4, Int>| index.div_scalar(self.size as i64);
        keep_with_globals(scores, self.globals, block(query).equal(block(key)))
    }

    fn selection(&self, length: usize) -> Option<Selection> {
        Some(Selection::Pattern(Arc::new(self.pattern(length))))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::fixed;
    use super::*;

    fn block(size: usize, globals: usize, length: usize) -> Vec<Vec<u32>> {
        fixed(&Blockwise { size, globals }, length)
    }

    #[test]
    fn last_block_may_be_short() {
        assert_eq!(block(2, 0, 5), [vec![0, 1], vec![0, 1], vec![2, 3], vec![2, 3], vec![4]]);
    }

    #[test]
    fn one_block_acts_as_full() {
        for size in [3, 4, 1_000_000] {
            assert_eq!(block(size, 0, 3), vec![vec![0, 1, 2]; 3]);
        }
        assert_eq!(block(1, 0, 3), [[0], [1], [2]]);
    }

    #[test]
    fn global_tokens_are_last_and_outside_the_blocks() {
        // Three local tokens in blocks of two: the global token 3 does not fill the short block.
        assert_eq!(block(2, 1, 4), [vec![0, 1, 3], vec![0, 1, 3], vec![2, 3], vec![0, 1, 2, 3]]);
        assert_eq!(block(1, 2, 4), [vec![0, 2, 3], vec![1, 2, 3], vec![0, 1, 2, 3], vec![0, 1, 2, 3]]);
    }

    #[test]
    fn lengths_that_nothing_divides_agree() {
        for length in [1, 2, 7, 40, 61] {
            for size in [1, 5, 9, length, length + 1] {
                let kept = block(size, 0, length);
                assert_eq!(kept[length - 1].len(), (length - 1) % size + 1);
            }
        }
    }
}
