//! Eigenvalues of a symmetric tridiagonal matrix, by implicit QL steps with Wilkinson's shift.

/// Steps for one eigenvalue before it is taken as it is. Two or three are usual; the limit is for matrices with NaN.
const MAX_STEPS: usize = 60;

/// An eigenvalue, and the last component of its eigenvector of length 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Eigenvalue {
    /// The eigenvalue.
    pub value: f64,
    /// Last component of the eigenvector; its sign means nothing.
    pub last: f64,
}

/// A matrix on its way to a diagonal one.
struct Matrix {
    diagonal: Vec<f64>,
    /// Entry `i` stands between `i` and `i + 1`; the last is 0.
    off_diagonal: Vec<f64>,
    /// Last row of the product of all rotations so far.
    last_row: Vec<f64>,
    /// Up to this size an entry beside the diagonal counts as 0: rounding makes errors of the same size.
    negligible: f64,
}

/// All eigenvalues, largest first, of the matrix with this diagonal and these entries beside it.
///
/// Errors are a few units of rounding of the greatest entry. Entries that are not finite give eigenvalues that are not.
///
/// # Panics
/// If there is not exactly one entry less beside the diagonal than on it.
pub fn eigenvalues(diagonal: &[f64], off_diagonal: &[f64]) -> Vec<Eigenvalue> {
    assert_eq!(off_diagonal.len() + 1, diagonal.len(), "entries beside the diagonal");
    let size = diagonal.len();
    let greatest = diagonal.iter().chain(off_diagonal).fold(0.0, |greatest: f64, entry| greatest.max(entry.abs()));
    let mut matrix = Matrix {
        diagonal: diagonal.to_vec(),
        off_diagonal: off_diagonal.iter().copied().chain([0.0]).collect(),
        last_row: (0..size).map(|column| f64::from(u8::from(column + 1 == size))).collect(),
        negligible: f64::EPSILON * greatest,
    };
    for first in 0..size {
        for _ in 0..MAX_STEPS {
            let end = matrix.end_of_block(first);
            if end == first {
                break;
            }
            matrix.step(first, end);
        }
    }
    let mut found: Vec<Eigenvalue> =
        matrix.diagonal.iter().zip(&matrix.last_row).map(|(&value, &last)| Eigenvalue { value, last }).collect();
    found.sort_by(|a, b| b.value.total_cmp(&a.value));
    found
}

impl Matrix {
    /// Last row of the block that begins with `first` and hangs together.
    fn end_of_block(&self, first: usize) -> usize {
        let is_negligible = |entry: &f64| entry.abs() <= self.negligible;
        let after = self.off_diagonal[first..].iter().position(is_negligible);
        after.map_or(self.diagonal.len() - 1, |after| first + after)
    }

    /// One QL step on the rows `first` to `end`: rotations from below that chase one entry upwards.
    fn step(&mut self, first: usize, end: usize) {
        let Matrix { diagonal, off_diagonal, last_row, .. } = self;
        let half_gap = (diagonal[first + 1] - diagonal[first]) / (2.0 * off_diagonal[first]);
        let shift = diagonal[first] - off_diagonal[first] / (half_gap + half_gap.hypot(1.0).copysign(half_gap));
        let (mut sine, mut cosine, mut moved, mut bulge) = (1.0, 1.0, 0.0, diagonal[end] - shift);
        for row in (first..end).rev() {
            let (above, beside) = (sine * off_diagonal[row], cosine * off_diagonal[row]);
            let length = above.hypot(bulge);
            off_diagonal[row + 1] = length;
            if length == 0.0 {
                // The block fell apart here.
                diagonal[row + 1] -= moved;
                off_diagonal[end] = 0.0;
                return;
            }
            (sine, cosine) = (above / length, bulge / length);
            let base = diagonal[row + 1] - moved;
            let turn = (diagonal[row] - base) * sine + 2.0 * cosine * beside;
            moved = sine * turn;
            diagonal[row + 1] = base + moved;
            bulge = cosine * turn - beside;
            (last_row[row], last_row[row + 1]) =
                (cosine * last_row[row] - sine * last_row[row + 1], sine * last_row[row] + cosine * last_row[row + 1]);
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
        eigenvalues(diagonal, off_diagonal).iter().map(|eigenvalue| eigenvalue.value).collect()
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
        let pair = eigenvalues(&[2.0, -1.0], &[2.0]); // 3 with (2, 1) / √5, −2 with (1, −2) / √5
        assert_close(&[pair[0].value, pair[1].value], &[3.0, -2.0], 1e-14);
        assert_close(&[pair[0].last.abs(), pair[1].last.abs()], &[0.2f64.sqrt(), 0.8f64.sqrt()], 1e-14);
    }

    #[test]
    fn second_differences_have_cosines_for_eigenvalues() {
        for size in [2usize, 3, 10, 77, 300] {
            let angle = |number: usize| number as f64 * PI / (size + 1) as f64;
            let found = eigenvalues(&vec![2.0; size], &vec![-1.0; size - 1]);
            let expected: Vec<f64> = (1..=size).rev().map(|number| 2.0 - 2.0 * angle(number).cos()).collect();
            assert_close(&found.iter().map(|e| e.value).collect::<Vec<_>>(), &expected, 1e-13);
            // Component j of eigenvector i is sin(i j π / (n + 1)), up to the length √((n + 1) / 2).
            let length = ((size + 1) as f64 / 2.0).sqrt();
            let last: Vec<f64> =
                (1..=size).rev().map(|number| (angle(number) * size as f64).sin().abs() / length).collect();
            assert_close(&found.iter().map(|e| e.last.abs()).collect::<Vec<_>>(), &last, 1e-12);
        }
    }

    #[test]
    fn close_pairs_and_great_differences_in_scale_are_no_trouble() {
        // Wilkinson's matrix of size 21: its two largest eigenvalues differ by 7e-15.
        let diagonal: Vec<f64> = (0..21).map(|row| (row as f64 - 10.0).abs()).collect();
        let found = values(&diagonal, &[1.0; 20]);
        assert_close(&found[..3], &[10.746_194_182_903_39, 10.746_194_182_903_32, 9.210_678_647_361_332], 1e-13);
        assert!((found.iter().sum::<f64>() - 110.0).abs() < 1e-12, "the trace stays");
        assert_close(&values(&[1e12, 1.0, 1e-12], &[1.0, 1e-3]), &[1e12, 1.0, 0.0], 1e-3);
    }

    #[test]
    fn nan_comes_back_and_does_not_hang() {
        assert!(values(&[1.0, f64::NAN, 2.0], &[1.0, 1.0]).iter().any(|value| value.is_nan()));
        assert_eq!(values(&[1.0; 100], &[f64::INFINITY; 99]).len(), 100);
    }
}
