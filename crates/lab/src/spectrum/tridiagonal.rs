//! Eigenvalues of a symmetric tridiagonal matrix, and as much of its eigenvectors as is wanted, by implicit QL steps with
//! Wilkinson's shift.

use super::max_abs;

/// QL steps for one eigenvalue before its current value is accepted. Two or three are usual; the limit only matters for
/// matrices with NaN.
const MAX_STEPS: usize = 60;

/// An eigenvalue with its eigenvector, or some components of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Eigenpair {
    /// The eigenvalue.
    pub value: f64,
    /// The wanted components of the eigenvector, which has length 1 as a whole. The sign has no meaning.
    pub vector: Vec<f64>,
}

/// The matrix while rotations make it diagonal.
struct Rotated {
    diagonal: Vec<f64>,
    /// Entry `i` couples rows `i` and `i + 1`; the last is 0.
    off_diagonal: Vec<f64>,
    /// The wanted rows of the product of all rotations.
    rows: Vec<Vec<f64>>,
    /// Off-diagonal entries up to this size count as 0: they are no larger than rounding errors.
    negligible: f64,
}

/// All eigenvalues, largest first, of the matrix T with this diagonal and off-diagonal.
///
/// `rows` selects components of the eigenvectors: where they are rows of an orthogonal matrix Q, the result has the same rows
/// of Q V, and the columns of V are the eigenvectors of T. The unit vector `e_i` selects component `i`; no rows, none.
///
/// The error is a few rounding errors of the largest entry. Entries that are not finite give eigenvalues that are not finite.
///
/// # Panics
/// Unless the off-diagonal has exactly one entry fewer than the diagonal.
pub fn eigenpairs(diagonal: &[f64], off_diagonal: &[f64], rows: Vec<Vec<f64>>) -> Vec<Eigenpair> {
    assert_eq!(off_diagonal.len() + 1, diagonal.len(), "off-diagonal entries");
    let mut matrix = Rotated {
        diagonal: diagonal.to_vec(),
        off_diagonal: off_diagonal.iter().copied().chain([0.0]).collect(),
        rows,
        negligible: f64::EPSILON * max_abs(diagonal.iter().chain(off_diagonal)),
    };
    for first in 0..diagonal.len() {
        for _ in 0..MAX_STEPS {
            let end = matrix.end_of_block(first);
            if end == first {
                break;
            }
            matrix.step(first, end);
        }
    }
    let Rotated { diagonal, rows, .. } = matrix;
    let vector = |column: usize| rows.iter().map(|row| row[column]).collect();
    let mut pairs: Vec<Eigenpair> =
        diagonal.iter().enumerate().map(|(column, &value)| Eigenpair { value, vector: vector(column) }).collect();
    pairs.sort_by(|a, b| b.value.total_cmp(&a.value));
    pairs
}

impl Rotated {
    /// The last row of the block that starts at `first` and is coupled throughout.
    fn end_of_block(&self, first: usize) -> usize {
        let is_negligible = |entry: &f64| entry.abs() <= self.negligible;
        let after = self.off_diagonal[first..].iter().position(is_negligible);
        after.map_or(self.diagonal.len() - 1, |after| first + after)
    }

    /// One QL step on the rows `first` to `end`: rotations from the bottom up, each moving the bulge one row higher.
    fn step(&mut self, first: usize, end: usize) {
        let Rotated { diagonal, off_diagonal, rows, .. } = self;
        let half_gap = (diagonal[first + 1] - diagonal[first]) / (2.0 * off_diagonal[first]);
        let shift = diagonal[first] - off_diagonal[first] / (half_gap + half_gap.hypot(1.0).copysign(half_gap));
        let (mut sine, mut cosine, mut moved, mut bulge) = (1.0, 1.0, 0.0, diagonal[end] - shift);
        for row in (first..end).rev() {
            let (above, coupling) = (sine * off_diagonal[row], cosine * off_diagonal[row]);
            let length = above.hypot(bulge);
            off_diagonal[row + 1] = length;
            if length == 0.0 {
                // The block has split here.
                diagonal[row + 1] -= moved;
                off_diagonal[end] = 0.0;
                return;
            }
            (sine, cosine) = (above / length, bulge / length);
            let base = diagonal[row + 1] - moved;
            let turn = (diagonal[row] - base) * sine + 2.0 * cosine * coupling;
            moved = sine * turn;
            diagonal[row + 1] = base + moved;
            bulge = cosine * turn - coupling;
            for vector in rows.iter_mut() {
                let (upper, lower) = (vector[row], vector[row + 1]);
                vector[row] = cosine * upper - sine * lower;
                vector[row + 1] = sine * upper + cosine * lower;
            }
        }
        diagonal[first] -= moved;
        off_diagonal[first] = bulge;
        off_diagonal[end] = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::PI;

    use super::*;

    fn values(diagonal: &[f64], off_diagonal: &[f64]) -> Vec<f64> {
        eigenpairs(diagonal, off_diagonal, Vec::new()).iter().map(|pair| pair.value).collect()
    }

    /// Eigenvalues, and the sizes of the last components of the eigenvectors.
    fn with_last_components(diagonal: &[f64], off_diagonal: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let mut last = vec![0.0; diagonal.len()];
        last[diagonal.len() - 1] = 1.0;
        eigenpairs(diagonal, off_diagonal, vec![last]).iter().map(|pair| (pair.value, pair.vector[0].abs())).unzip()
    }

    #[track_caller]
    fn assert_close(found: &[f64], expected: &[f64], tolerance: f64) {
        assert_eq!(found.len(), expected.len());
        let near = found.iter().zip(expected).all(|(a, b)| (a - b).abs() <= tolerance);
        assert!(near, "{found:?} instead of {expected:?}");
    }

    #[test]
    fn matrices_solved_by_hand() {
        assert_eq!(values(&[3.0], &[]), [3.0]);
        assert_eq!(values(&[1.0, -2.0, 5.0], &[0.0, 0.0]), [5.0, 1.0, -2.0]);
        assert_eq!(values(&[0.0; 4], &[0.0; 3]), [0.0; 4]);
        assert_close(&values(&[0.0, 0.0], &[1.0]), &[1.0, -1.0], 1e-15);
        assert_close(&values(&[1.0, 2.0, 3.0], &[1.0, 1.0]), &[2.0 + 3f64.sqrt(), 2.0, 2.0 - 3f64.sqrt()], 1e-14);
        // 3 with (2, 1) / √5, −2 with (1, −2) / √5.
        let (found, last) = with_last_components(&[2.0, -1.0], &[2.0]);
        assert_close(&found, &[3.0, -2.0], 1e-14);
        assert_close(&last, &[0.2f64.sqrt(), 0.8f64.sqrt()], 1e-14);
    }

    #[test]
    fn second_differences_have_cosines_for_eigenvalues() {
        for size in [2usize, 3, 10, 77, 300] {
            let angle = |number: usize| number as f64 * PI / (size + 1) as f64;
            let (found, found_last) = with_last_components(&vec![2.0; size], &vec![-1.0; size - 1]);
            let expected: Vec<f64> = (1..=size).rev().map(|number| 2.0 - 2.0 * angle(number).cos()).collect();
            assert_close(&found, &expected, 1e-13);
            // Component j of eigenvector i is sin(i j π / (n + 1)), up to the length √((n + 1) / 2).
            let length = ((size + 1) as f64 / 2.0).sqrt();
            let last: Vec<f64> =
                (1..=size).rev().map(|number| (angle(number) * size as f64).sin().abs() / length).collect();
            assert_close(&found_last, &last, 1e-12);
        }
    }

    #[test]
    fn close_pairs_and_large_differences_in_scale() {
        // Wilkinson's matrix of size 21: its two largest eigenvalues differ by 7e-15.
        let diagonal: Vec<f64> = (0..21).map(|row| (row as f64 - 10.0).abs()).collect();
        let found = values(&diagonal, &[1.0; 20]);
        assert_close(&found[..3], &[10.746_194_182_903_39, 10.746_194_182_903_32, 9.210_678_647_361_332], 1e-13);
        assert!((found.iter().sum::<f64>() - 110.0).abs() < 1e-12, "the trace is unchanged");
        assert_close(&values(&[1e12, 1.0, 1e-12], &[1.0, 1e-3]), &[1e12, 1.0, 0.0], 1e-3);
    }

    #[test]
    fn nan_is_returned_and_does_not_hang() {
        assert!(values(&[1.0, f64::NAN, 2.0], &[1.0, 1.0]).iter().any(|value| value.is_nan()));
        assert_eq!(values(&[1.0; 100], &[f64::INFINITY; 99]).len(), 100);
    }
}
