//! `banded:w[+gN]`: every query keeps `w` consecutive keys around itself.
//!
//! Query `i` keeps `(w - 1) / 2` keys before it (rounded down), itself, and the rest after. Near both ends the band is
//! shifted inwards so that every row has exactly `w` keys; with `w` of at least the sequence length it acts as `full`.
//! Global tokens are the last `N` of the sequence: the band runs over the others only.

use std::ops::Range;
use std::sync::Arc;

use burn::tensor::{Bool, Tensor};
use semfocus_core::spec::Parameter;
use semfocus_kernels::KeptKeys;

use super::rows::window;
use super::{LayerContext, Mechanism, Selection, indices, keep_with_globals, pattern_with_globals};
use crate::info::{Family, MechanismInfo};

/// A band of keys around each query.
#[derive(Clone, Copy, Debug)]
struct Banded {
    /// Keys in the band.
    width: usize,
    /// Global tokens at the end of the sequence.
    globals: usize,
}

pub(super) const INFO: MechanismInfo = MechanismInfo {
    family: Family::InputAgnostic,
    summary: "w consecutive keys around the query, shifted inwards at both ends",
    source: "Beltagy, Peters, Cohan, Longformer: The Long-Document Transformer, 2020 (sliding window, global tokens)",
    formula: "p = softmax of z over the band",
    isolates: "a fixed local pattern: sparsity without regard to the input",
    parameters: &[Parameter::size("w", "the width of the band", 5)],
    allows_globals: true,
    ..MechanismInfo::new("banded", |values| {
        Ok(Arc::new(Banded { width: values.whole("w"), globals: values.globals() }))
    })
};

impl Banded {
    /// Keys that each query of `length` tokens (global ones included) keeps.
    fn pattern(&self, length: usize) -> KeptKeys {
        pattern_with_globals(length, self.globals, |query, locals| self.band(query, locals))
    }

    fn band(&self, query: usize, locals: usize) -> Range<usize> {
        window(query, locals, self.width)
    }
}

impl Mechanism for Banded {
    fn keep(&self, scores: &Tensor<4>, _context: &LayerContext) -> Tensor<4, Bool> {
        let locals = scores.dims()[2].saturating_sub(self.globals);
        let width = self.width.min(locals) as i64;
        let (query, key) = indices(scores);
        let start = query.sub_scalar((width - 1) / 2).clamp(0, locals as i64 - width); // [1, 1, queries, 1]
        let end = start.clone().add_scalar(width);
        let band = key.clone().greater_equal(start).bool_and(key.lower(end)); // [1, 1, queries, keys]
        keep_with_globals(scores, self.globals, band)
    }

    fn selection(&self, length: usize) -> Option<Selection> {
        Some(Selection::Pattern(Arc::new(self.pattern(length))))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::fixed;
    use super::*;

    fn banded(width: usize, globals: usize, length: usize) -> Vec<Vec<u32>> {
        fixed(&Banded { width, globals }, length)
    }

    #[test]
    fn odd_band_is_centred_and_shifted_at_both_ends() {
        assert_eq!(banded(3, 0, 5), [[0, 1, 2], [0, 1, 2], [1, 2, 3], [2, 3, 4], [2, 3, 4]]);
    }

    #[test]
    fn even_band_has_its_extra_key_after_the_query() {
        assert_eq!(
            banded(4, 0, 6),
            [[0, 1, 2, 3], [0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5], [2, 3, 4, 5], [2, 3, 4, 5]]
        );
        assert_eq!(banded(2, 0, 3), [[0, 1], [1, 2], [1, 2]]);
    }

    #[test]
    fn band_of_one_is_the_query_itself() {
        assert_eq!(banded(1, 0, 3), [[0], [1], [2]]);
        assert_eq!(banded(1, 0, 1), [[0]]);
    }

    #[test]
    fn wide_band_acts_as_full() {
        for width in [3, 4, 99] {
            assert_eq!(banded(width, 0, 3), vec![vec![0, 1, 2]; 3]);
        }
    }

    #[test]
    fn global_tokens_are_last_and_outside_the_band() {
        assert_eq!(banded(2, 1, 4), [vec![0, 1, 3], vec![1, 2, 3], vec![1, 2, 3], vec![0, 1, 2, 3]]);
        assert_eq!(banded(1, 2, 4), [vec![0, 2, 3], vec![1, 2, 3], vec![0, 1, 2, 3], vec![0, 1, 2, 3]]);
        assert_eq!(banded(5, 3, 4), vec![vec![0, 1, 2, 3]; 4]);
    }

    #[test]
    fn every_row_has_exactly_w_keys_and_holds_its_query() {
        for length in [1, 2, 7, 40] {
            for width in [1, 2, 5, 8, 9] {
                for (query, row) in banded(width, 0, length).iter().enumerate() {
                    assert_eq!(row.len(), width.min(length));
                    assert!(row.contains(&(query as u32)));
                    assert!(row.windows(2).all(|pair| pair[0] + 1 == pair[1]));
                }
            }
        }
    }
}
