//! Matrix products for the shapes of a small transformer: tens to hundreds of rows, tens of columns.
//!
//! One register tile serves all of them. The left matrix is read one value at a time, so it may be transposed; the right one is
//! read in vectors, in panels of [`PANEL`] columns. Every element of the result is one chain of fused multiply-adds in the order
//! of `k`, so the shapes of tiles and blocks never change a bit.

use crate::buffer::Buffer;
use crate::simd::{LANES, Simd, dispatched, padded};

/// Columns of a panel: a tile of the widest kind.
pub(crate) const PANEL: usize = 64;

/// Rows of the right matrix per pass: a panel of this depth stays in the first-level cache.
const DEPTH: usize = 128;

/// The left matrix: element (i, k) is at `i * row + k * column`.
#[derive(Clone, Copy)]
pub(crate) struct Left<'a> {
    data: &'a [f32],
    row: usize,
    column: usize,
}

impl<'a> Left<'a> {
    /// A row-major matrix with `stride` values from row to row.
    pub(crate) fn rows(data: &'a [f32], stride: usize) -> Self {
        Left { data, row: stride, column: 1 }
    }

    /// The transpose of a row-major matrix with `stride` values from row to row.
    pub(crate) fn transposed(data: &'a [f32], stride: usize) -> Self {
        Left { data, row: 1, column: stride }
    }
}

/// The right matrix in panels of [`PANEL`] columns: row k of panel p starts at `p * panel + k * row`.
#[derive(Clone, Copy)]
pub(crate) struct Right<'a> {
    data: &'a [f32],
    row: usize,
    panel: usize,
}

impl<'a> Right<'a> {
    /// A row-major matrix with `stride` values from row to row, a multiple of the vector width.
    pub(crate) fn rows(data: &'a [f32], stride: usize) -> Self {
        Right { data, row: stride, panel: PANEL }
    }
}

/// What a product is added to.
#[derive(Clone, Copy)]
pub(crate) enum Start<'a> {
    /// Nothing.
    Zero,
    /// The present contents of the result.
    Result,
    /// The same row for every row of the result.
    Bias(&'a [f32]),
}

/// A right-hand matrix copied into panels, its columns padded with zeros to whole vectors.
#[derive(Debug)]
pub(crate) struct Packed {
    data: Buffer,
    depth: usize,
}

impl Packed {
    /// Packs the `depth` × `columns` matrix whose element (k, j) is at `start + k * row + j * column`, times `scale`.
    pub(crate) fn new(
        source: &[f32],
        (start, row, column): (usize, usize, usize),
        depth: usize,
        columns: usize,
        scale: f32,
    ) -> Self {
        let mut packed = Packed { data: Buffer::stale(columns.div_ceil(PANEL) * PANEL * depth), depth };
        packed.fill(source, (start, row, column), columns, scale);
        packed
    }

    fn fill(&mut self, source: &[f32], (start, row, column): (usize, usize, usize), columns: usize, scale: f32) {
        for (panel, to) in self.data.chunks_mut(PANEL * self.depth).enumerate() {
            let first = panel * PANEL;
            let width = PANEL.min(columns - first.min(columns));
            for (k, to) in to.chunks_exact_mut(PANEL).enumerate() {
                let from = start + k * row + first * column;
                if column == 1 {
                    for (to, from) in to.iter_mut().zip(&source[from..from + width]) {
                        *to = from * scale;
                    }
                } else {
                    for (j, to) in to[..width].iter_mut().enumerate() {
                        *to = source[from + j * column] * scale;
                    }
                }
                to[width..].fill(0.0);
            }
        }
    }

    /// The packed matrix as the right side of a product.
    pub(crate) fn right(&self) -> Right<'_> {
        self.right_from(0)
    }

    /// The columns from `first` on, the first of a panel.
    pub(crate) fn right_from(&self, first: usize) -> Right<'_> {
        assert!(first.is_multiple_of(PANEL), "panels are read from their start");
        Right { data: &self.data[first * self.depth..], row: PANEL, panel: PANEL * self.depth }
    }
}

dispatched! {
    /// `c = start + a · b` for `m` rows, `n` columns (whole vectors) and depth `k`; rows of `c` are `stride` values apart.
    pub(crate) fn multiply(simd; m: usize, n: usize, k: usize, a: Left, b: Right, start: Start, c: &mut [f32], stride: usize) {
        if m == 0 || n == 0 {
            return;
        }
        assert!(n.is_multiple_of(LANES), "columns come in whole vectors");
        assert!(c.len() >= (m - 1) * stride + n, "the result is large enough");
        if let Start::Bias(bias) = start {
            assert!(bias.len() >= n, "the bias covers all columns");
        }
        if k > 0 {
            assert!(a.data.len() > (m - 1) * a.row + (k - 1) * a.column, "the left matrix is large enough");
            let last = (n - 1) / PANEL;
            assert!(b.data.len() >= last * b.panel + (k - 1) * b.row + (n - last * PANEL), "the right matrix is large enough");
        }
        let mut done = 0;
        loop {
            let depth = DEPTH.min(k - done);
            let start = if done == 0 { start } else { Start::Result };
            for first in (0..n).step_by(S::TILE_VECTORS * LANES) {
                let vectors = ((n - first) / LANES).min(S::TILE_VECTORS);
                // A tile never crosses a panel: tile widths divide the panel width.
                let b_at = (first / PANEL) * b.panel + first % PANEL + done * b.row;
                let tiles = m.div_ceil(S::TILE_ROWS);
                let mut row = 0;
                for tile in 0..tiles {
                    // Rows are spread evenly over the tiles, so that no tile is left with one row.
                    let rows = (m - row).div_ceil(tiles - tile);
                    let place = Tile {
                        depth,
                        a: a.data.as_ptr().wrapping_add(row * a.row + done * a.column),
                        a_row: a.row,
                        a_column: a.column,
                        b: b.data.as_ptr().wrapping_add(b_at),
                        b_row: b.row,
                        c: c.as_mut_ptr().wrapping_add(row * stride + first),
                        c_row: stride,
                        start: match start {
                            Start::Zero => TileStart::Zero,
                            Start::Result => TileStart::Result,
                            Start::Bias(bias) => TileStart::Bias(bias.as_ptr().wrapping_add(first)),
                        },
                    };
                    // SAFETY: the assertions above cover the last element that any tile touches in `a`, `b`, `c` and
                    // the bias, and the tile lies within `m` rows, `n` columns and depth `k`.
                    unsafe { place.run(simd, rows, vectors) };
                    row += rows;
                }
            }
            done += depth;
            if done == k {
                break;
            }
        }
    }
}

/// Where a tile starts from, with a pointer to the bias of its first column.
enum TileStart {
    Zero,
    Result,
    Bias(*const f32),
}

/// A part of the result that is held in registers while it is computed.
struct Tile {
    depth: usize,
    a: *const f32,
    a_row: usize,
    a_column: usize,
    b: *const f32,
    b_row: usize,
    c: *mut f32,
    c_row: usize,
    start: TileStart,
}

impl Tile {
    /// # Safety
    /// All pointers must cover `rows` rows, `vectors` vectors and the depth of the tile.
    #[inline(always)]
    unsafe fn run<S: Simd>(&self, simd: S, rows: usize, vectors: usize) {
        macro_rules! shapes {
            ($($rows:literal: $($vectors:literal)*;)*) => {
                match (rows, vectors) {
                    $($(($rows, $vectors) if $rows <= S::TILE_ROWS && $vectors <= S::TILE_VECTORS => {
                        // SAFETY: passed on from the caller.
                        unsafe { self.compute::<S, $rows, $vectors>(simd) }
                    })*)*
                    _ => unreachable!("a tile has 1 to 6 rows and 1 to 4 vectors"),
                }
            };
        }
        shapes! { 1: 1 2 3 4; 2: 1 2 3 4; 3: 1 2 3 4; 4: 1 2 3 4; 5: 1 2 3 4; 6: 1 2 3 4; }
    }

    /// # Safety
    /// All pointers must cover `ROWS` rows, `VECTORS` vectors and the depth of the tile.
    #[inline(always)]
    unsafe fn compute<S: Simd, const ROWS: usize, const VECTORS: usize>(&self, simd: S) {
        let mut sums = [[simd.splat(0.0); VECTORS]; ROWS];
        // SAFETY: the caller guarantees that every element addressed below is covered.
        unsafe {
            match self.start {
                TileStart::Zero => {}
                TileStart::Result => {
                    for (r, sums) in sums.iter_mut().enumerate() {
                        for (v, sum) in sums.iter_mut().enumerate() {
                            *sum = simd.load_at(self.c.add(r * self.c_row + v * LANES));
                        }
                    }
                }
                TileStart::Bias(bias) => {
                    for sums in &mut sums {
                        for (v, sum) in sums.iter_mut().enumerate() {
                            *sum = simd.load_at(bias.add(v * LANES));
                        }
                    }
                }
            }
            let (mut a, mut b) = (self.a, self.b);
            for _ in 0..self.depth {
                let mut right = [simd.splat(0.0); VECTORS];
                for (v, right) in right.iter_mut().enumerate() {
                    *right = simd.load_at(b.add(v * LANES));
                }
                for (r, sums) in sums.iter_mut().enumerate() {
                    let left = simd.splat(*a.add(r * self.a_row));
                    for (sum, right) in sums.iter_mut().zip(right) {
                        *sum = simd.fma(left, right, *sum);
                    }
                }
                a = a.wrapping_add(self.a_column);
                b = b.wrapping_add(self.b_row);
            }
            for (r, sums) in sums.iter().enumerate() {
                for (v, sum) in sums.iter().enumerate() {
                    simd.store_at(self.c.add(r * self.c_row + v * LANES), *sum);
                }
            }
        }
    }
}

dispatched! {
    /// Transposes `rows` padded rows of `columns` values (`stride` apart) into panels, so that the rows become columns of a
    /// right matrix of depth `columns`; `to` needs `panels_len(rows, columns)` values.
    pub(crate) fn transpose_into_panels(simd; from: &[f32], stride: usize, rows: usize, columns: usize, to: &mut [f32]) {
        assert!(stride >= padded(columns), "rows are padded");
        for (panel, to) in to.chunks_exact_mut(PANEL * columns).enumerate() {
            for first in (panel * PANEL..((panel + 1) * PANEL).min(rows)).step_by(LANES) {
                for column in (0..columns).step_by(LANES) {
                    // Rows past the last become columns of zeros.
                    let mut square = [simd.splat(0.0); LANES];
                    for (row, values) in square.iter_mut().enumerate().take(rows - first) {
                        *values = simd.load(&from[(first + row) * stride + column..]);
                    }
                    let square = simd.transpose(square);
                    let at = first % PANEL;
                    for (c, line) in square.iter().enumerate().take(columns - column) {
                        simd.store(&mut to[(column + c) * PANEL + at..], *line);
                    }
                }
            }
        }
    }
}

/// Values that [`transpose_into_panels`] writes.
pub(crate) fn panels_len(rows: usize, columns: usize) -> usize {
    rows.div_ceil(PANEL) * PANEL * columns
}

/// Panels of depth `columns` as the right side of a product.
pub(crate) fn panels(data: &[f32], columns: usize) -> Right<'_> {
    Right { data, row: PANEL, panel: PANEL * columns }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

    fn values(seed: u64, n: usize) -> Vec<f32> {
        let key = Key::new(seed);
        (0..n).map(|i| key.bits_at(i as u32) as f32 / 2f32.powi(31) - 1.0).collect()
    }

    /// The definition, one fused multiply-add after another in the order of `k`.
    fn naive(
        m: usize,
        n: usize,
        k: usize,
        a: impl Fn(usize, usize) -> f32,
        b: impl Fn(usize, usize) -> f32,
    ) -> Vec<f32> {
        (0..m * n).map(|at| (0..k).fold(0.0, |sum, l| f32::mul_add(a(at / n, l), b(l, at % n), sum))).collect()
    }

    #[test]
    fn products_equal_the_definition_bit_for_bit() {
        for (m, n, k) in [(1, 16, 1), (5, 48, 3), (7, 64, 64), (13, 80, 130), (40, 192, 64), (23, 16, 300)] {
            let (a, b) = (values(1, m * k), values(2, n * k));
            let mut c = Buffer::stale(m * (n + 16));
            let expected = naive(m, n, k, |i, l| a[i * k + l], |l, j| b[l * n + j]);
            let check = |c: &[f32], what: &str| {
                for i in 0..m {
                    assert_eq!(c[i * (n + 16)..][..n], expected[i * n..][..n], "{what} {m}x{n}x{k} row {i}");
                }
            };
            multiply(m, n, k, Left::rows(&a, k), Right::rows(&b, n), Start::Zero, &mut c, n + 16);
            check(&c, "row-major");

            let packed = Packed::new(&b, (0, n, 1), k, n, 1.0);
            multiply(m, n, k, Left::rows(&a, k), packed.right(), Start::Zero, &mut c, n + 16);
            check(&c, "packed");

            let a_transposed: Vec<f32> = (0..m * k).map(|at| a[(at % m) * k + at / m]).collect();
            multiply(m, n, k, Left::transposed(&a_transposed, m), packed.right(), Start::Zero, &mut c, n + 16);
            check(&c, "left transposed");

            let mut b_transposed = Buffer::stale(n * padded(k));
            for (at, value) in b.iter().enumerate() {
                b_transposed[at % n * padded(k) + at / n] = *value;
            }
            let mut right = Buffer::stale(panels_len(n, k));
            transpose_into_panels(&b_transposed, padded(k), n, k, &mut right);
            multiply(m, n, k, Left::rows(&a, k), panels(&right, k), Start::Zero, &mut c, n + 16);
            check(&c, "right transposed");
        }
    }

    #[test]
    fn products_start_from_bias_or_result() {
        let (m, n, k) = (9, 32, 11);
        let (a, b, bias) = (values(1, m * k), values(2, n * k), values(3, n));
        let mut c = Buffer::stale(m * n);
        multiply(m, n, k, Left::rows(&a, k), Right::rows(&b, n), Start::Bias(&bias), &mut c, n);
        multiply(m, n, k, Left::rows(&a, k), Right::rows(&b, n), Start::Result, &mut c, n);
        for i in 0..m {
            for j in 0..n {
                let product: f64 = (0..k).map(|l| f64::from(a[i * k + l]) * f64::from(b[l * n + j])).sum();
                let expected = f64::from(bias[j]) + 2.0 * product;
                assert!((f64::from(c[i * n + j]) - expected).abs() < 1e-5);
            }
        }
    }

    #[test]
    fn padding_of_packed_columns_is_zero() {
        let source = values(4, 3 * 70);
        let packed = Packed::new(&source, (0, 70, 1), 3, 70, 2.0);
        assert_eq!(packed.data[PANEL * 3 + 5], source[69] * 2.0);
        assert!(packed.data[PANEL * 3 + 6..][..PANEL - 6].iter().all(|&v| v == 0.0));
    }
}
