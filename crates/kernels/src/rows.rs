//! Passes over rows that sit between the matrix products: norm, residual, dropout, activation, sums.
//!
//! "Plain" rows are as the caller stores them, `width` values each. "Padded" rows are internal, whole vectors each, with
//! zeros after the first `width` values.

use std::mem::MaybeUninit;

use crate::buffer::Buffer;
use crate::math;
use crate::simd::{LANES, Simd, dispatched, padded};
use crate::{Activation, Dropout, Key};

impl Dropout {
    /// All factors of a `rows` × `columns` matrix whose row `r` has the key `site.child(r)`.
    pub fn mask(&self, site: Key, rows: usize, columns: usize) -> Vec<f32> {
        let mut factors = vec![0.0; rows * columns];
        fill_mask(*self, site, columns, &mut factors);
        factors
    }
}

dispatched! {
    /// Fills rows of `columns` factors; row `r` has the key `site.child(r)`.
    fn fill_mask(simd; dropout: Dropout, site: Key, columns: usize, factors: &mut [f32]) {
        let ones = simd.splat(1.0);
        for (r, row) in factors.chunks_exact_mut(columns.max(1)).enumerate() {
            let words = site.child(r as u64).words();
            for (v, factors) in row.chunks_mut(LANES).enumerate() {
                simd.store_some(factors, simd.dropout(ones, words, (v * LANES) as u32, &dropout));
            }
        }
    }
}

/// Dropout at one site: row `r` of the whole tensor has the key `site.child(r)`.
#[derive(Clone, Copy)]
pub(crate) struct RowDropout {
    pub(crate) dropout: Dropout,
    pub(crate) site: Key,
    /// Index of the first row of the pass in the whole tensor.
    pub(crate) first_row: usize,
}

impl RowDropout {
    #[inline(always)]
    fn words(&self, row: usize) -> (u32, u32) {
        self.site.child((self.first_row + row) as u64).words()
    }
}

/// This many rows go through a whole sublayer before the next ones, so that their buffers stay in the nearest caches.
pub(crate) const ROW_BLOCK: usize = 96;

/// Normalised rows, padded, and `1 / √(variance + ε)` of each.
#[derive(Debug)]
pub(crate) struct NormRows {
    pub(crate) normalised: Buffer,
    pub(crate) inverse_deviations: Buffer,
}

impl NormRows {
    pub(crate) fn new(rows: usize, width: usize) -> Self {
        NormRows { normalised: Buffer::stale(rows * padded(width)), inverse_deviations: Buffer::stale(rows) }
    }
}

/// The `v`-th vector of a plain row, with zeros after the end of the row.
#[inline(always)]
fn part<S: Simd, const VECTORS: usize>(simd: S, row: &[f32], v: usize) -> S::F {
    // All but the last vector of a row of known length are whole.
    if v + 1 < VECTORS { simd.load(&row[v * LANES..]) } else { simd.load_some(&row[v * LANES..]) }
}

dispatched! {
    /// Layer norm without scale and shift: padded rows from plain rows, and `1 / sqrt(variance + epsilon)` of each.
    pub(crate) fn normalise(simd, VECTORS of width; x: &[f32], width: usize, epsilon: f32, out: &mut [f32], inverse_deviations: &mut [f32]) {
        let stride = padded(width);
        let vectors = if VECTORS > 0 { VECTORS } else { stride / LANES };
        let in_last = width - (stride - LANES);
        let per_value = 1.0 / width as f32;
        for ((x, out), inverse_deviation) in x.chunks_exact(width).zip(out.chunks_exact_mut(stride)).zip(inverse_deviations)
        {
            let mut sum = simd.splat(0.0);
            for v in 0..vectors {
                sum = simd.add(sum, part::<S, VECTORS>(simd, x, v));
            }
            let mean = simd.splat(simd.sum(sum) * per_value);
            let mut squares = simd.splat(0.0);
            let mut row = [simd.splat(0.0); VECTORS];
            for v in 0..vectors {
                let mut centred = simd.sub(part::<S, VECTORS>(simd, x, v), mean);
                if v + 1 == vectors {
                    centred = simd.keep_first(centred, in_last);
                }
                squares = simd.fma(centred, centred, squares);
                if VECTORS > 0 {
                    row[v] = centred;
                } else {
                    simd.store(&mut out[v * LANES..], centred);
                }
            }
            *inverse_deviation = 1.0 / (simd.sum(squares) * per_value + epsilon).sqrt();
            let factor = simd.splat(*inverse_deviation);
            for v in 0..vectors {
                let centred = if VECTORS > 0 { row[v] } else { simd.load(&out[v * LANES..]) };
                simd.store(&mut out[v * LANES..], simd.mul(centred, factor));
            }
        }
    }
}

dispatched! {
    /// Gradient of `x + f(norm(x))` in `x`: `residual` (plain) is the gradient of the sum, `gradient` (padded) that of the
    /// normalised rows.
    pub(crate) fn normalise_backward(simd, VECTORS of width; normalised: &[f32], inverse_deviations: &[f32], gradient: &[f32], residual: &[f32], width: usize, out: &mut [MaybeUninit<f32>]) {
        let stride = padded(width);
        let vectors = if VECTORS > 0 { VECTORS } else { stride / LANES };
        let per_value = 1.0 / width as f32;
        let rows = normalised.chunks_exact(stride).zip(gradient.chunks_exact(stride)).zip(inverse_deviations);
        for (((normalised, gradient), inverse_deviation), (residual, out)) in
            rows.zip(residual.chunks_exact(width).zip(out.chunks_exact_mut(width)))
        {
            let (mut sum, mut along) = (simd.splat(0.0), simd.splat(0.0));
            for v in 0..vectors {
                let g = simd.load(&gradient[v * LANES..]);
                sum = simd.add(sum, g);
                along = simd.fma(simd.load(&normalised[v * LANES..]), g, along);
            }
            let mean = simd.splat(simd.sum(sum) * per_value);
            let along = simd.splat(-simd.sum(along) * per_value);
            let factor = simd.splat(*inverse_deviation);
            for v in 0..vectors {
                let centred = simd.sub(simd.load(&gradient[v * LANES..]), mean);
                let straight = simd.fma(simd.load(&normalised[v * LANES..]), along, centred);
                let value = simd.fma(straight, factor, part::<S, VECTORS>(simd, residual, v));
                simd.store_new(&mut out[v * LANES..], value);
            }
        }
    }
}

dispatched! {
    /// `x + dropout(update + bias)`: plain rows from plain rows and padded rows.
    pub(crate) fn add_with_dropout(simd, VECTORS of width; x: &[f32], update: &[f32], bias: &[f32], width: usize, drop: RowDropout, out: &mut [MaybeUninit<f32>]) {
        let stride = padded(width);
        let vectors = if VECTORS > 0 { VECTORS } else { stride / LANES };
        let drops = !drop.dropout.is_none();
        for (row, ((x, update), out)) in
            x.chunks_exact(width).zip(update.chunks_exact(stride)).zip(out.chunks_exact_mut(width)).enumerate()
        {
            let words = drop.words(row);
            for v in 0..vectors {
                let mut value = simd.add(simd.load(&update[v * LANES..]), simd.load(&bias[v * LANES..]));
                if drops {
                    value = simd.dropout(value, words, (v * LANES) as u32, &drop.dropout);
                }
                simd.store_new(&mut out[v * LANES..], simd.add(part::<S, VECTORS>(simd, x, v), value));
            }
        }
    }
}

dispatched! {
    /// The gradient before a dropout from the one after it: padded rows from plain rows; their column sums are added to `sums`.
    pub(crate) fn dropout_backward(simd, VECTORS of width; gradient: &[f32], width: usize, drop: RowDropout, out: &mut [f32], sums: &mut [f32]) {
        let stride = padded(width);
        let vectors = if VECTORS > 0 { VECTORS } else { stride / LANES };
        let drops = !drop.dropout.is_none();
        for (row, (gradient, out)) in gradient.chunks_exact(width).zip(out.chunks_exact_mut(stride)).enumerate() {
            let words = drop.words(row);
            for v in 0..vectors {
                let mut value = part::<S, VECTORS>(simd, gradient, v);
                if drops {
                    value = simd.dropout(value, words, (v * LANES) as u32, &drop.dropout);
                }
                simd.store(&mut out[v * LANES..], value);
                let sum = &mut sums[v * LANES..];
                simd.store(sum, simd.add(simd.load(sum), value));
            }
        }
    }
}

dispatched! {
    /// Dropout on `hidden` in place, then the activation into `active`; rows are padded.
    pub(crate) fn activate_rows(simd; hidden: &mut [f32], width: usize, activation: Activation, drop: RowDropout, active: &mut [f32]) {
        let stride = padded(width);
        for (row, (hidden, active)) in hidden.chunks_exact_mut(stride).zip(active.chunks_exact_mut(stride)).enumerate() {
            let words = drop.words(row);
            for (v, (hidden, active)) in hidden.chunks_exact_mut(LANES).zip(active.chunks_exact_mut(LANES)).enumerate() {
                let mut value = simd.load(hidden);
                if !drop.dropout.is_none() {
                    value = simd.dropout(value, words, (v * LANES) as u32, &drop.dropout);
                    simd.store(hidden, value);
                }
                simd.store(active, math::activate(simd, activation, value));
            }
        }
    }
}

dispatched! {
    /// Recomputes the activation of `hidden` (after its dropout) into `active`, and takes the gradient through activation and
    /// dropout, in place; its column sums are added to `sums`. Rows are padded.
    pub(crate) fn activate_backward(simd; hidden: &[f32], width: usize, activation: Activation, drop: RowDropout, active: &mut [f32], gradient: &mut [f32], sums: &mut [f32]) {
        let stride = padded(width);
        let rows = hidden.chunks_exact(stride).zip(active.chunks_exact_mut(stride)).zip(gradient.chunks_exact_mut(stride));
        for (row, ((hidden, active), gradient)) in rows.enumerate() {
            let words = drop.words(row);
            let vectors = hidden.chunks_exact(LANES).zip(active.chunks_exact_mut(LANES)).zip(gradient.chunks_exact_mut(LANES));
            for (v, (((hidden, active), gradient), sums)) in vectors.zip(sums.chunks_exact_mut(LANES)).enumerate() {
                let (value, slope) = math::activate_with_slope(simd, activation, simd.load(hidden));
                simd.store(active, value);
                let mut through = simd.mul(simd.load(gradient), slope);
                if !drop.dropout.is_none() {
                    through = simd.dropout(through, words, (v * LANES) as u32, &drop.dropout);
                }
                simd.store(gradient, through);
                simd.store(sums, simd.add(simd.load(sums), through));
            }
        }
    }
}

dispatched! {
    /// Adds the sum of the padded rows to `sums`.
    pub(crate) fn add_row_sums(simd; rows: &[f32], stride: usize, sums: &mut [f32]) {
        for row in rows.chunks_exact(stride) {
            for (value, sum) in row.chunks_exact(LANES).zip(sums.chunks_exact_mut(LANES)) {
                simd.store(sum, simd.add(simd.load(sum), simd.load(value)));
            }
        }
    }
}

dispatched! {
    /// The activation of all values.
    pub(crate) fn activate_in_place(simd; values: &mut [f32], activation: Activation) {
        for values in values.chunks_exact_mut(LANES) {
            simd.store(values, math::activate(simd, activation, simd.load(values)));
        }
    }
}

dispatched! {
    /// Adds the same row, of whole vectors, to all rows.
    pub(crate) fn add_row(simd; rows: &mut [f32], row: &[f32]) {
        for values in rows.chunks_exact_mut(row.len()) {
            for (values, row) in values.chunks_exact_mut(LANES).zip(row.chunks_exact(LANES)) {
                simd.store(values, simd.add(simd.load(values), simd.load(row)));
            }
        }
    }
}

dispatched! {
    /// `to += from`, value by value.
    pub(crate) fn add_assign(simd; to: &mut [f32], from: &[f32]) {
        for (to, from) in to.chunks_mut(LANES).zip(from.chunks(LANES)) {
            simd.store_some(to, simd.add(simd.load_some(to), simd.load_some(from)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalised_rows_have_mean_zero_and_variance_one() {
        for width in [3, 16, 17, 64] {
            let x: Vec<f32> = (0..2 * width).map(|i| (i as f32 * 0.7).sin() + 3.0).collect();
            let (mut out, mut inverse) = (vec![f32::NAN; 2 * padded(width)], [0.0; 2]);
            normalise(&x, width, 0.0, &mut out, &mut inverse);
            for (row, x) in out.chunks(padded(width)).zip(x.chunks(width)) {
                let mean: f32 = row[..width].iter().sum::<f32>() / width as f32;
                let variance: f32 = row[..width].iter().map(|v| v * v).sum::<f32>() / width as f32;
                assert!(mean.abs() < 1e-5 && (variance - 1.0).abs() < 1e-4, "{mean} {variance}");
                assert!(row[width..].iter().all(|&v| v == 0.0));
                assert!((row[1] - row[0]).signum() == (x[1] - x[0]).signum());
            }
        }
    }
}
