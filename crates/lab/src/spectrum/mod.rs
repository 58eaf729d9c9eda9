//! Norms and eigenvalues, all in double precision.
//!
//! | to find | look in |
//! |---|---|
//! | eigenvalues and eigenvectors of a symmetric matrix | [`symmetric`] |
//! | the same of a tridiagonal matrix | [`tridiagonal`] |
//! | both ends of the spectrum, and the trace, of an operator known only by its products with vectors | [`lanczos`] |
//! | spectral norms of a model's matrices | [`norms`] |

pub mod lanczos;
pub mod norms;
pub mod symmetric;
pub mod tridiagonal;

/// Dot product, summed from left to right.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Euclidean norm.
pub(crate) fn norm(vector: &[f64]) -> f64 {
    dot(vector, vector).sqrt()
}

/// `sum += factor · vector`.
pub(crate) fn add_scaled(sum: &mut [f64], factor: f64, vector: &[f64]) {
    sum.iter_mut().zip(vector).for_each(|(sum, value)| *sum += factor * value);
}

/// The vector times a factor.
pub(crate) fn scaled(mut vector: Vec<f64>, factor: f64) -> Vec<f64> {
    vector.iter_mut().for_each(|value| *value *= factor);
    vector
}

/// The largest absolute value; 0 for no values.
pub(crate) fn max_abs<'a>(values: impl IntoIterator<Item = &'a f64>) -> f64 {
    values.into_iter().fold(0.0, |max, value| max.max(value.abs()))
}
