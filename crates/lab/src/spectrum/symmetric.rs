//! Eigenvalues and eigenvectors of a full symmetric matrix: Householder reflections make it tridiagonal, and
//! [`tridiagonal`] solves that.
//!
//! ```
//! use semfocus_lab::spectrum::symmetric::eigenpairs;
//!
//! let found = eigenpairs(vec![vec![2.0, 1.0], vec![1.0, 2.0]]);
//! assert!((found[0].value - 3.0).abs() < 1e-14 && (found[1].value - 1.0).abs() < 1e-14);
//! assert!((found[0].vector[0] - found[0].vector[1]).abs() < 1e-14);
//! ```

use super::tridiagonal::{self, Eigenpair};
use super::{add_scaled, dot, norm, scaled};

/// All eigenvalues of a symmetric matrix, given by rows, largest first.
///
/// The error is a few rounding errors of the largest eigenvalue. Only the upper triangle has to be right.
///
/// # Panics
/// If there are no rows.
pub fn eigenvalues(matrix: Vec<Vec<f64>>) -> Vec<f64> {
    solve(matrix, Vec::new()).into_iter().map(|pair| pair.value).collect()
}

/// All eigenvalues, largest first, with eigenvectors of length 1. The sign of an eigenvector follows from the matrix but
/// has no meaning.
///
/// # Panics
/// If there are no rows.
pub fn eigenpairs(matrix: Vec<Vec<f64>>) -> Vec<Eigenpair> {
    let size = matrix.len();
    let unit = |row: usize| (0..size).map(|column| if column == row { 1.0 } else { 0.0 }).collect();
    solve(matrix, (0..size).map(unit).collect())
}

/// Householder's method: each step reflects what is left of a row, beyond the entry next to the diagonal, to zeros. The same
/// reflections are applied to `rows`, those rows of the matrix of eigenvectors that are wanted.
fn solve(mut matrix: Vec<Vec<f64>>, mut rows: Vec<Vec<f64>>) -> Vec<Eigenpair> {
    let size = matrix.len();
    let mut off_diagonal = Vec::with_capacity(size);
    for first in 1..size {
        let rest = matrix[first - 1][first..].to_vec();
        let target = -norm(&rest).copysign(rest[0]);
        off_diagonal.push(target);
        let mut normal = rest;
        normal[0] -= target;
        let length = norm(&normal);
        if length == 0.0 {
            continue;
        }
        let normal = scaled(normal, 1.0 / length);
        // A becomes (1 − 2uuᵀ) A (1 − 2uuᵀ) = A − u wᵀ − w uᵀ with w = 2 (A u − (uᵀA u) u).
        let mut change = vec![0.0; normal.len()];
        matrix[first..].iter().zip(&normal).for_each(|(row, &u)| add_scaled(&mut change, 2.0 * u, &row[first..]));
        let along = dot(&change, &normal);
        add_scaled(&mut change, -along, &normal);
        for (row, (&u, &w)) in matrix[first..].iter_mut().zip(normal.iter().zip(&change)) {
            add_scaled(&mut row[first..], -u, &change);
            add_scaled(&mut row[first..], -w, &normal);
        }
        for row in &mut rows {
            let part = dot(&row[first..], &normal);
            add_scaled(&mut row[first..], -2.0 * part, &normal);
        }
    }
    let diagonal: Vec<f64> = matrix.iter().enumerate().map(|(place, row)| row[place]).collect();
    tridiagonal::eigenpairs(&diagonal, &off_diagonal, rows)
}

#[cfg(test)]
mod tests {
    use semfocus_core::Key;

    use super::*;

    fn random(size: usize, seed: u64) -> Vec<Vec<f64>> {
        let entry = |row: usize, column: usize| {
            let (low, high) = (row.min(column), row.max(column));
            f64::from(Key::new(seed).bits_at((high * size + low) as u32)) * 2f64.powi(-31) - 1.0
        };
        (0..size).map(|row| (0..size).map(|column| entry(row, column)).collect()).collect()
    }

    #[test]
    fn eigenpairs_of_random_matrices_satisfy_their_equation() {
        for size in [1, 2, 3, 8, 33, 90] {
            let matrix = random(size, size as u64);
            let pairs = eigenpairs(matrix.clone());
            let scale = pairs[0].value.abs().max(pairs[size - 1].value.abs());
            for (number, Eigenpair { value, vector }) in pairs.iter().enumerate() {
                for (row, component) in matrix.iter().zip(vector) {
                    assert!((dot(row, vector) - value * component).abs() <= 1e-13 * scale, "size {size}, {value}");
                }
                for (other, pair) in pairs.iter().enumerate() {
                    let expected = if other == number { 1.0 } else { 0.0 };
                    assert!((dot(vector, &pair.vector) - expected).abs() <= 1e-12, "size {size}: {number}, {other}");
                }
            }
            assert!(pairs.is_sorted_by(|a, b| a.value >= b.value));
            let trace: f64 = (0..size).map(|place| matrix[place][place]).sum();
            assert!((pairs.iter().map(|pair| pair.value).sum::<f64>() - trace).abs() <= 1e-12 * scale);
            let values: Vec<f64> = pairs.iter().map(|pair| pair.value).collect();
            assert_eq!(eigenvalues(matrix), values, "vectors do not change the values");
        }
    }

    #[test]
    fn repeated_and_zero_eigenvalues() {
        // 1 on and off the diagonal: the eigenvalues are n and n − 1 zeros.
        let found = eigenvalues(vec![vec![1.0; 7]; 7]);
        assert!((found[0] - 7.0).abs() < 1e-13 && found[1..].iter().all(|value| value.abs() < 1e-14), "{found:?}");
        assert_eq!(eigenvalues(vec![vec![0.0; 3]; 3]), [0.0; 3]);
        let not_finite = eigenvalues(vec![vec![f64::NAN, 1.0, 0.0], vec![1.0, 2.0, 1.0], vec![0.0, 1.0, 3.0]]);
        assert!(not_finite.iter().any(|value| value.is_nan()));
    }
}
