//! `dilated:w[,gap=d]`: every query keeps itself and `w - 1` keys around it with `d` keys between two of them: `(w - 1) / 2` before it
//! (rounded down) and the rest after. Those beyond the ends of the sequence are left out.

use std::sync::Arc;

use burn::tensor::{Bool, Tensor};
use semfocus_core::spec::{Literal, MAX_SIZE, Parameter};
use semfocus_kernels::KeptKeys;

use super::{LayerContext, Mechanism, Selection, indices};
use crate::info::{Family, MechanismInfo};

/// A window with gaps.
#[derive(Clone, Copy, Debug)]
struct Dilated {
    /// Keys in the window.
    width: usize,
    /// Keys between two of them.
    gap: usize,
}

pub(super) const INFO: MechanismInfo = MechanismInfo {
    family: Family::InputAgnostic,
    summary: "w keys around the query with gaps between them",
    source: "Beltagy, Peters, Cohan, Longformer: The Long-Document Transformer, 2020 (dilated window)",
    formula: "p = softmax of z over j = i + (d + 1) o for w offsets o around 0",
    isolates: "a published fixed pattern with a longer reach",
    parameters: &[
        Parameter::size("w", "the number of keys in the window", 5),
        Parameter::whole("gap", "the number of keys between two kept ones", 0, MAX_SIZE, 1)
            .default(Literal::Number(1.0)),
    ],
    ..MechanismInfo::new("dilated", |values| {
        Ok(Arc::new(Dilated { width: values.whole("w"), gap: values.whole("gap") }))
    })
};

impl Mechanism for Dilated {
    fn keep(&self, scores: &Tensor<4>, _context: &LayerContext) -> Tensor<4, Bool> {
        let (query, key) = indices(scores);
        let (step, width) = (self.gap as i64 + 1, self.width as i64);
        let offset = key.sub(query); // [1, 1, queries, keys]
        let is_near = offset.clone().greater_equal_elem(-(width - 1) / 2 * step);
        let is_near = is_near.bool_and(offset.clone().lower_equal_elem(width / 2 * step));
        is_near.bool_and(offset.abs().remainder_scalar(step).equal_elem(0)).expand(scores.dims())
    }

    fn selection(&self, length: usize) -> Option<Selection> {
        let step = self.gap + 1;
        let row = |query: usize| {
            let before = ((self.width - 1) / 2).min(query / step);
            let after = (self.width / 2).min((length - 1 - query) / step);
            (query - before * step..=query + after * step).step_by(step)
        };
        Some(Selection::Pattern(Arc::new(KeptKeys::from_rows(length, row))))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::fixed;
    use super::*;

    #[test]
    fn windows_by_hand() {
        let rows = fixed(&Dilated { width: 5, gap: 1 }, 9);
        assert_eq!((&rows[0][..], &rows[4][..], &rows[7][..]), (&[0, 2, 4][..], &[0, 2, 4, 6, 8][..], &[3, 5, 7][..]));
        assert_eq!(fixed(&Dilated { width: 4, gap: 0 }, 9)[4], [3, 4, 5, 6]);
        assert_eq!(fixed(&Dilated { width: 1, gap: 5 }, 2), [[0], [1]]);
    }
}
