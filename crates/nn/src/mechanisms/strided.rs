//! `strided:l`: query `i` keeps the keys nearer than `l` and every `l`-th key from itself, in both directions: the union of the two parts
//! of the published pattern. With `l` of 1 it acts as `full`, and so it does with `l` of at least the sequence length.

use std::sync::Arc;

use burn::tensor::{Bool, Tensor};
use semfocus_core::spec::Parameter;
use semfocus_kernels::KeptKeys;

use super::{LayerContext, Mechanism, Selection, indices};
use crate::info::{Family, MechanismInfo};

/// A window and a stride.
#[derive(Clone, Copy, Debug)]
struct Strided {
    /// Reach of the window, and distance of the keys beyond it.
    stride: usize,
}

pub(super) const INFO: MechanismInfo = MechanismInfo {
    family: Family::InputAgnostic,
    summary: "the keys nearer than l, and every l-th key",
    source: "Child et al., Generating Long Sequences with Sparse Transformers, 2019 (strided)",
    formula: "p = softmax of z over |i - j| < l or (i - j) mod l = 0",
    isolates: "a published fixed pattern with global reach",
    parameters: &[Parameter::size("l", "the reach of the window and the distance of keys beyond it", 6)],
    ..MechanismInfo::new("strided", |values| Ok(Arc::new(Strided { stride: values.whole("l") })))
};

impl Mechanism for Strided {
    fn keep(&self, scores: &Tensor<4>, _context: &LayerContext) -> Tensor<4, Bool> {
        let (query, key) = indices(scores);
        let distance = query.sub(key).abs(); // [1, 1, queries, keys]
        let stride = self.stride as i64;
        let kept = distance.clone().lower_elem(stride).bool_or(distance.remainder_scalar(stride).equal_elem(0));
        kept.expand(scores.dims())
    }

    fn selection(&self, length: usize) -> Option<Selection> {
        let keeps = |distance: usize| distance < self.stride || distance.is_multiple_of(self.stride);
        let row = |query: usize| (0..length).filter(move |key| keeps(query.abs_diff(*key)));
        Some(Selection::Pattern(Arc::new(KeptKeys::from_rows(length, row))))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::fixed;
    use super::*;

    #[test]
    fn window_and_stride_by_hand() {
        let rows = fixed(&Strided { stride: 3 }, 9);
        assert_eq!(rows[0], [0, 1, 2, 3, 6]);
        assert_eq!(rows[4], [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(fixed(&Strided { stride: 1 }, 3), vec![vec![0, 1, 2]; 3]);
        assert_eq!(fixed(&Strided { stride: 9 }, 1), [[0]]);
    }
}
