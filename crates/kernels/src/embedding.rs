//! Tokens to vectors: `dropout(scale · table[token] + positions)`.

use std::mem::MaybeUninit;

use rayon::prelude::*;

use crate::simd::{LANES, dispatched};
use crate::{Dropout, Key, output, rows};

/// The embedding: its tables and its random site.
#[derive(Clone, Copy, Debug)]
pub struct EmbeddingKernel<'a> {
    /// Values of a token.
    pub width: usize,
    /// One row for every token id.
    pub table: &'a [f32],
    /// One row for every place in a sequence.
    pub positions: &'a [f32],
    /// Whether the positions have gradients.
    pub learns_positions: bool,
    /// Factor of the table's rows.
    pub scale: f32,
    /// Dropout of the result; row `t` (over all tokens) has the key `site.child(t)`.
    pub dropout: Dropout,
    /// Key of the rows of `dropout`.
    pub site: Key,
}

impl EmbeddingKernel<'_> {
    /// The rows of all tokens, sequence after sequence.
    ///
    /// # Panics
    /// If a token has no row in the table.
    pub fn forward(&self, tokens: &[usize]) -> Vec<f32> {
        let length = self.positions.len() / self.width;
        let mut y = output::unwritten(tokens.len() * self.width);
        (tokens.par_chunks(length), y.par_chunks_mut(length * self.width))
            .into_par_iter()
            .enumerate()
            .for_each(|(sequence, (tokens, y))| embed(*self, sequence * length, tokens, y));
        // SAFETY: the sequences cover all rows, and each row is written.
        unsafe { output::written(y) }
    }

    /// The rows of one sequence, without dropout.
    ///
    /// # Panics
    /// If a token has no row in the table.
    pub(crate) fn forward_into(&self, tokens: &[usize], x: &mut [f32]) {
        let rows = tokens.iter().zip(self.positions.chunks_exact(self.width)).zip(x.chunks_exact_mut(self.width));
        for ((&token, position), x) in rows {
            let values = &self.table[token * self.width..(token + 1) * self.width];
            for ((x, value), position) in x.iter_mut().zip(values).zip(position) {
                *x = self.scale * value + position;
            }
        }
    }

    /// Gradients of the table and of the positions, empty if they are not learned, from the gradient of the result.
    pub fn backward(&self, tokens: &[usize], gradient: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let mut table = vec![0.0; self.table.len()];
        add_gradients(*self, 0, tokens, gradient, &mut table);
        let mut positions = self.no_position_gradients();
        for (sequence, gradient) in gradient.chunks_exact(self.positions.len()).enumerate() {
            self.add_position_gradients(sequence * self.positions.len() / self.width, gradient, &mut positions);
        }
        (table, positions)
    }

    /// Zeros for every position if they are learned, and nothing if not.
    pub(crate) fn no_position_gradients(&self) -> Vec<f32> {
        vec![0.0; if self.learns_positions { self.positions.len() } else { 0 }]
    }

    /// Adds the gradient of one sequence, the tokens from `first_row` on, if positions are learned.
    pub(crate) fn add_position_gradients(&self, first_row: usize, gradient: &[f32], sums: &mut [f32]) {
        if self.learns_positions {
            let places: Vec<usize> = (0..gradient.len() / self.width).collect();
            add_gradients(EmbeddingKernel { scale: 1.0, ..*self }, first_row, &places, gradient, sums);
        }
    }

    /// The rows of one sequence, the tokens from `first_row` on.
    pub(crate) fn forward_sequence(&self, first_row: usize, tokens: &[usize], x: &mut [MaybeUninit<f32>]) {
        embed(*self, first_row, tokens, x);
    }
}

/// The gradient of the rows of the table that occur in some sequences.
pub(crate) struct TouchedRows {
    /// Where the sums of a token id are; [`NOWHERE`] unless it occurred.
    places: Vec<u32>,
    /// The ids that occurred, in the order of their sums.
    ids: Vec<usize>,
    sums: Vec<f32>,
    width: usize,
    /// The places of the tokens of a sequence.
    sequence: Vec<usize>,
}

const NOWHERE: u32 = u32::MAX;

impl TouchedRows {
    pub(crate) fn new(layer: &EmbeddingKernel) -> Self {
        let places = vec![NOWHERE; layer.table.len() / layer.width];
        TouchedRows { places, ids: Vec::new(), sums: Vec::new(), width: layer.width, sequence: Vec::new() }
    }

    /// Adds the gradient of one sequence, the tokens from `first_row` on.
    pub(crate) fn add(&mut self, layer: &EmbeddingKernel, first_row: usize, tokens: &[usize], gradient: &[f32]) {
        let TouchedRows { places, ids, sums, sequence, .. } = self;
        sequence.clear();
        for &id in tokens {
            if places[id] == NOWHERE {
                places[id] = ids.len() as u32;
                ids.push(id);
            }
            sequence.push(places[id] as usize);
        }
        sums.resize(ids.len() * layer.width, 0.0);
        add_gradients(*layer, first_row, sequence, gradient, sums);
    }

    /// Adds the sums to the gradient of the whole table.
    pub(crate) fn add_to(&self, table: &mut [f32]) {
        for (id, sums) in self.ids.iter().zip(self.sums.chunks_exact(self.width)) {
            rows::add_assign(&mut table[id * self.width..][..self.width], sums);
        }
    }
}

dispatched! {
    fn embed(simd; layer: EmbeddingKernel, first_row: usize, tokens: &[usize], y: &mut [MaybeUninit<f32>]) {
        let width = layer.width;
        let scale = simd.splat(layer.scale);
        let rows = tokens.iter().zip(layer.positions.chunks_exact(width)).zip(y.chunks_exact_mut(width));
        for (row, ((token, position), y)) in rows.enumerate() {
            let words = layer.site.child((first_row + row) as u64).words();
            let values = &layer.table[token * width..(token + 1) * width];
            for (v, y) in y.chunks_mut(LANES).enumerate() {
                let (value, position) = (simd.load_some(&values[v * LANES..]), simd.load_some(&position[v * LANES..]));
                let mut value = simd.fma(value, scale, position);
                if !layer.dropout.is_none() {
                    value = simd.dropout(value, words, (v * LANES) as u32, &layer.dropout);
                }
                simd.store_new(y, value);
            }
        }
    }
}

dispatched! {
    /// In the order of the tokens and on one thread, so that the number of threads does not change a bit.
    fn add_gradients(simd; layer: EmbeddingKernel, first_row: usize, tokens: &[usize], gradient: &[f32], table: &mut [f32]) {
        let width = layer.width;
        let scale = simd.splat(layer.scale);
        for (row, (token, gradient)) in tokens.iter().zip(gradient.chunks_exact(width)).enumerate() {
            let words = layer.site.child((first_row + row) as u64).words();
            let sums = &mut table[token * width..(token + 1) * width];
            for (v, sums) in sums.chunks_mut(LANES).enumerate() {
                let mut value = simd.load_some(&gradient[v * LANES..]);
                if !layer.dropout.is_none() {
                    value = simd.dropout(value, words, (v * LANES) as u32, &layer.dropout);
                }
                simd.store_some(sums, simd.fma(value, scale, simd.load_some(sums)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_gradients_equal_the_definition() {
        let (width, length) = (20, 3);
        let table: Vec<f32> = (0..4 * width).map(|i| (i as f32).sin()).collect();
        let positions: Vec<f32> = (0..length * width).map(|i| (i as f32).cos()).collect();
        let tokens = [3, 0, 3, 1, 1, 3];
        let dropout = Dropout::new(0.3);
        let layer = EmbeddingKernel {
            width,
            table: &table,
            positions: &positions,
            learns_positions: true,
            scale: 2.5,
            dropout,
            site: Key::new(9),
        };
        let y = layer.forward(&tokens);
        let gradient: Vec<f32> = (0..y.len()).map(|i| (i as f32 * 0.3).sin()).collect();
        let mut expected_gradient = vec![0f64; table.len()];
        let mut expected_positions = vec![0f64; positions.len()];
        for (at, y) in y.iter().enumerate() {
            let (row, column) = (at / width, at % width);
            let factor = dropout.factor(Key::new(9).child(row as u64), column as u32);
            let from = tokens[row] * width + column;
            let expected = factor * (2.5 * table[from] + positions[row % length * width + column]);
            assert!((y - expected).abs() < 1e-6, "{row} {column}");
            expected_gradient[from] += f64::from(factor) * 2.5 * f64::from(gradient[at]);
            expected_positions[row % length * width + column] += f64::from(factor) * f64::from(gradient[at]);
        }
        let (found, found_positions) = layer.backward(&tokens, &gradient);
        assert_eq!((found.len(), found_positions.len()), (table.len(), positions.len()));
        let expected = expected_gradient.iter().chain(&expected_positions);
        for (a, b) in found.iter().chain(&found_positions).zip(expected) {
            assert!((f64::from(*a) - b).abs() < 1e-5);
        }
        let fixed = EmbeddingKernel { learns_positions: false, ..layer };
        assert_eq!(fixed.backward(&tokens, &gradient), (found, Vec::new()));
    }
}
