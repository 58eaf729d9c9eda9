//! Eigenvalues and trace of a symmetric operator that is known only by its products with vectors.
//!
//! [`lanczos`] finds both ends of the spectrum, [`hutchinson`] estimates the trace. Both draw their vectors from a seed, so the
//! same call gives the same answer. If the operator fails, its error is returned at once.
//!
//! ```
//! use std::convert::Infallible;
//! use semfocus_lab::spectrum::lanczos::{Search, hutchinson, lanczos};
//!
//! let operator = |v: &[f64]| Ok::<_, Infallible>(vec![3.0 * v[0] + v[1], v[0] + 3.0 * v[1], -v[2]]);
//! let spectrum = lanczos(3, &Search { largest: 2, steps: 3, tolerance: 0.0, seed: 1 }, operator)?;
//! assert!((spectrum.largest[0].value - 4.0).abs() < 1e-12 && (spectrum.largest[1].value - 2.0).abs() < 1e-12);
//! assert!((spectrum.smallest.value + 1.0).abs() < 1e-12);
//! let trace = hutchinson(3, 1000, 1, operator)?;
//! assert!((trace.value - 5.0).abs() < 4.0 * trace.standard_error);
//! # Ok::<(), Infallible>(())
//! ```

use semfocus_core::Key;

use super::{add_scaled, dot, max_abs, norm, scaled, tridiagonal};

/// What [`lanczos`] searches for, and when it stops.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Search {
    /// How many of the largest eigenvalues are wanted.
    pub largest: usize,
    /// The maximum number of products.
    pub steps: usize,
    /// The search stops when the residual of every wanted eigenvalue is at most `tolerance` times that eigenvalue, or
    /// `tolerance²` times the largest one, so that an eigenvalue of 0 can be found too. With 0 all steps are taken.
    pub tolerance: f64,
    /// Seed of the random start vector.
    pub seed: u64,
}

/// An approximate eigenvalue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Approximation {
    /// The approximation.
    pub value: f64,
    /// The operator has an eigenvalue at most this far away. If all others are far, the error is much smaller: about the
    /// square of the residual divided by the distance to the next one.
    pub residual: f64,
}

/// Both ends of a spectrum.
#[derive(Clone, Debug, PartialEq)]
pub struct Spectrum {
    /// The largest eigenvalues, largest first: as many as were wanted, or as many as there were steps.
    pub largest: Vec<Approximation>,
    /// The smallest one. The search does not wait for it to converge.
    pub smallest: Approximation,
    /// How often the operator was applied.
    pub products: usize,
    /// Whether the wanted eigenvalues are within the tolerance.
    pub converged: bool,
}

/// Both ends of the spectrum of a symmetric operator, by the Lanczos method with full reorthogonalisation.
///
/// One start vector finds an eigenvalue once, whatever its multiplicity. A new start is made only when the vectors so far
/// span an invariant subspace. So all multiplicities are found if `steps` reaches the dimension and the tolerance is 0;
/// otherwise some may be missed. If the operator is not quite symmetric or linear, residuals below its errors mean nothing.
///
/// # Panics
/// If the dimension or the number of steps is 0.
pub fn lanczos<E>(
    dimension: usize,
    search: &Search,
    mut operator: impl FnMut(&[f64]) -> Result<Vec<f64>, E>,
) -> Result<Spectrum, E> {
    assert!(dimension > 0 && search.steps > 0, "the dimension and the number of steps must not be 0");
    let starts = Key::new(search.seed).named("lanczos");
    let mut basis: Vec<Vec<f64>> = Vec::new();
    let (mut diagonal, mut off_diagonal) = (Vec::new(), Vec::new());
    let mut direction = new_start(dimension, starts.child(0), &basis);
    loop {
        let mut rest = operator(&direction)?;
        diagonal.push(dot(&direction, &rest));
        basis.push(direction);
        make_orthogonal(&mut rest, &basis);
        let coupling = norm(&rest);
        let spectrum = Spectrum::new(&diagonal, &off_diagonal, coupling, search);
        if basis.len() == search.steps.min(dimension) || spectrum.converged {
            return Ok(spectrum);
        }
        let scale = max_abs(diagonal.iter().chain(&off_diagonal));
        let is_invariant = coupling <= dimension as f64 * f64::EPSILON * scale;
        off_diagonal.push(if is_invariant { 0.0 } else { coupling });
        direction = if is_invariant {
            new_start(dimension, starts.child(basis.len() as u64), &basis)
        } else {
            scaled(rest, 1.0 / coupling)
        };
    }
}

impl Spectrum {
    /// From the tridiagonal matrix of the steps so far and what couples it to the next step.
    fn new(diagonal: &[f64], off_diagonal: &[f64], coupling: f64, search: &Search) -> Self {
        let mut last_component = vec![0.0; diagonal.len()];
        last_component[diagonal.len() - 1] = 1.0;
        let all: Vec<Approximation> = tridiagonal::eigenpairs(diagonal, off_diagonal, vec![last_component])
            .into_iter()
            .map(|pair| Approximation { value: pair.value, residual: (coupling * pair.vector[0]).abs() })
            .collect();
        let (first, smallest) = (all[0], all[all.len() - 1]);
        let scale = first.value.abs().max(smallest.value.abs());
        let tolerance = search.tolerance;
        let is_exact = |found: &Approximation| found.residual <= tolerance * found.value.abs().max(tolerance * scale);
        let largest: Vec<Approximation> = all.iter().take(search.largest).copied().collect();
        let converged = tolerance > 0.0 && largest.len() == search.largest && largest.iter().all(is_exact);
        Spectrum { largest, smallest, products: diagonal.len(), converged }
    }
}

/// An estimate from random vectors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceEstimate {
    /// The unbiased estimate.
    pub value: f64,
    /// Its standard error, from the spread over the random vectors.
    pub standard_error: f64,
}

/// The trace of a symmetric operator A, by Hutchinson's estimator: the mean of `vᵀ A v` over vectors `v` of random signs.
///
/// # Panics
/// If there are fewer than two probes: one has no spread.
pub fn hutchinson<E>(
    dimension: usize,
    probes: usize,
    seed: u64,
    mut operator: impl FnMut(&[f64]) -> Result<Vec<f64>, E>,
) -> Result<TraceEstimate, E> {
    assert!(probes >= 2, "a standard error needs at least two probes, got {probes}");
    let key = Key::new(seed).named("hutchinson");
    let mut values = Vec::with_capacity(probes);
    for probe in 0..probes as u64 {
        let signs = signs(dimension, key.child(probe));
        values.push(dot(&signs, &operator(&signs)?));
    }
    let count = probes as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    Ok(TraceEstimate { value: mean, standard_error: (variance / count).sqrt() })
}

/// Random signs: 1 and −1 are equally likely.
fn signs(dimension: usize, key: Key) -> Vec<f64> {
    (0..dimension as u32).map(|column| if key.bits_at(column) >> 31 == 0 { 1.0 } else { -1.0 }).collect()
}

/// A random direction orthogonal to a basis.
fn new_start(dimension: usize, key: Key, basis: &[Vec<f64>]) -> Vec<f64> {
    let uniform = |column: u32| (f64::from(key.bits_at(column)) + 0.5) * 2f64.powi(-31) - 1.0;
    let mut start: Vec<f64> = (0..dimension as u32).map(uniform).collect();
    make_orthogonal(&mut start, basis);
    let length = norm(&start);
    scaled(start, 1.0 / length)
}

/// Removes the part in the span of an orthonormal basis; twice, because the first pass leaves rounding errors that matter
/// when little remains.
fn make_orthogonal(vector: &mut [f64], basis: &[Vec<f64>]) {
    for _ in 0..2 {
        for direction in basis {
            let part = dot(vector, direction);
            add_scaled(vector, -part, direction);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// Reflects a vector at hyperplanes with random normals: an orthogonal map that mixes all coordinates.
    fn reflected(vector: &[f64], normals: &[Vec<f64>]) -> Vec<f64> {
        let mut vector = vector.to_vec();
        for normal in normals {
            let part = dot(&vector, normal);
            add_scaled(&mut vector, -2.0 * part, normal);
        }
        vector
    }

    /// The operator with these eigenvalues, along the axes or along reflected axes.
    fn operator(eigenvalues: Vec<f64>, rotated: bool) -> impl FnMut(&[f64]) -> Result<Vec<f64>, Infallible> {
        let dimension = eigenvalues.len();
        let count = if rotated { 3 } else { 0 };
        let normals: Vec<_> = (0..count).map(|i| new_start(dimension, Key::new(77).child(i), &[])).collect();
        let backwards: Vec<_> = normals.iter().rev().cloned().collect();
        move |vector| {
            let along: Vec<f64> = reflected(vector, &normals).iter().zip(&eigenvalues).map(|(v, e)| v * e).collect();
            Ok(reflected(&along, &backwards))
        }
    }

    fn find(eigenvalues: &[f64], rotated: bool, search: &Search) -> Spectrum {
        let Ok(found) = lanczos(eigenvalues.len(), search, operator(eigenvalues.to_vec(), rotated));
        found
    }

    fn descending(mut values: Vec<f64>) -> Vec<f64> {
        values.sort_by(|a, b| b.total_cmp(a));
        values
    }

    /// Spectra of all kinds: spread, clustered, negative, rank-deficient, repeated, over a large range.
    fn spectra(dimension: usize) -> Vec<Vec<f64>> {
        let all = |value: &dyn Fn(usize) -> f64| (0..dimension).map(value).collect::<Vec<f64>>();
        vec![
            all(&|i| 1.0 + i as f64),
            all(&|i| if i < 3 { 10.0 + 1e-6 * i as f64 } else { (i as f64).sin() }),
            all(&|i| -1.0 - (i as f64).sqrt()),
            all(&|i| if i % 5 == 0 { 2.0 + i as f64 } else { 0.0 }),
            all(&|i| if i % 2 == 0 { 3.0 } else { -4.0 }),
            all(&|_| 0.0),
            all(&|i| 1e6 * 0.5f64.powi(i as i32)),
        ]
    }

    #[test]
    fn all_steps_find_every_eigenvalue_with_its_multiplicity() {
        for dimension in [1, 2, 3, 7, 60, 300] {
            for (kind, eigenvalues) in spectra(dimension).into_iter().enumerate() {
                for rotated in [false, true] {
                    let search = Search { largest: dimension, steps: dimension + 3, tolerance: 0.0, seed: 5 };
                    let found = find(&eigenvalues, rotated, &search);
                    assert_eq!((found.products, found.converged), (dimension, false));
                    let expected = descending(eigenvalues.clone());
                    let scale = expected.iter().fold(1.0, |scale: f64, value| scale.max(value.abs()));
                    for (found, expected) in found.largest.iter().zip(&expected) {
                        let error = (found.value - expected).abs();
                        assert!(error <= 1e-12 * scale, "dimension {dimension}, kind {kind}: {found:?}, {expected}");
                        assert!(found.residual <= 1e-12 * scale, "dimension {dimension}, kind {kind}: {found:?}");
                    }
                    assert_eq!(found.largest.last(), Some(&found.smallest));
                }
            }
        }
    }

    #[test]
    fn few_steps_find_both_ends_and_stop_within_the_tolerance() {
        // A bulk of 300 small eigenvalues, three large ones and a negative one: what Hessians look like.
        let mut eigenvalues: Vec<f64> = (0..296).map(|i| 0.5 * (1.0 + (i as f64).sin())).collect();
        eigenvalues.extend([12.0, 7.0, 5.0, -3.0]);
        for rotated in [false, true] {
            let search = Search { largest: 3, steps: 300, tolerance: 0.01, seed: 2 };
            let found = find(&eigenvalues, rotated, &search);
            assert!(found.converged && found.products < 20, "{} products", found.products);
            for (found, expected) in found.largest.iter().zip([12.0, 7.0, 5.0]) {
                assert!((found.value - expected).abs() <= found.residual && found.residual <= 0.01 * expected);
            }
            assert!((found.smallest.value + 3.0).abs() <= found.smallest.residual + 1e-9);
            let exact = find(&eigenvalues, rotated, &Search { tolerance: 1e-9, ..search });
            assert!(exact.converged && exact.products > found.products);
            assert!((exact.largest[0].value - 12.0).abs() < 1e-9);
            let short = find(&eigenvalues, rotated, &Search { steps: 4, ..search });
            assert!(!short.converged && short.products == 4 && short.largest[2].residual > 0.05);
        }
    }

    #[test]
    fn residuals_bound_the_distance_to_an_eigenvalue() {
        for eigenvalues in spectra(60) {
            for steps in 1..60 {
                let found = find(&eigenvalues, true, &Search { largest: 5, steps, tolerance: 0.0, seed: steps as u64 });
                let scale = eigenvalues.iter().fold(1.0, |scale: f64, value| scale.max(value.abs()));
                for found in found.largest.iter().chain([&found.smallest]) {
                    let nearest = eigenvalues.iter().map(|value| (value - found.value).abs()).fold(f64::MAX, f64::min);
                    assert!(nearest <= found.residual + 1e-12 * scale, "{found:?} is {nearest} away, {steps} steps");
                }
            }
        }
    }

    #[test]
    fn an_eigenvalue_of_zero_can_be_found() {
        let mut eigenvalues = vec![0.0; 100];
        eigenvalues[3] = 2.0;
        let found = find(&eigenvalues, true, &Search { largest: 3, steps: 100, tolerance: 0.01, seed: 1 });
        assert!(found.converged && found.products <= 5, "{found:?}");
        assert!(found.largest[1].value.abs() < 1e-12 && found.smallest.value.abs() < 1e-12);
    }

    #[test]
    fn the_result_depends_on_the_seed_alone() {
        let eigenvalues: Vec<f64> = (0..50).map(f64::from).collect();
        let search = Search { largest: 2, steps: 10, tolerance: 0.0, seed: 1 };
        assert_eq!(find(&eigenvalues, true, &search), find(&eigenvalues, true, &search));
        assert_ne!(find(&eigenvalues, true, &search), find(&eigenvalues, true, &Search { seed: 2, ..search }));
    }

    #[test]
    fn errors_are_returned_and_nan_does_not_hang() {
        let mut calls = 0;
        let mut fails = |vector: &[f64]| {
            calls += 1;
            if calls > 2 { Err("enough") } else { Ok(vec![vector[1], vector[0], vector[2] * 2.0, 0.0]) }
        };
        let search = Search { largest: 1, steps: 4, tolerance: 0.0, seed: 1 };
        assert_eq!(lanczos(4, &search, &mut fails), Err("enough"));
        assert_eq!(hutchinson(4, 9, 1, &mut fails), Err("enough"));
        let Ok(found) =
            lanczos(9, &Search { steps: 9, ..search }, |v: &[f64]| Ok::<_, Infallible>(vec![f64::NAN; v.len()]));
        assert!(found.largest[0].value.is_nan());
    }

    #[test]
    fn the_trace_is_exact_along_the_axes() {
        let Ok(found) = hutchinson(40, 3, 1, operator((0..40).map(f64::from).collect(), false));
        assert_eq!(found, TraceEstimate { value: 780.0, standard_error: 0.0 });
    }

    #[test]
    fn the_trace_is_unbiased_and_its_standard_error_is_right() {
        let eigenvalues: Vec<f64> = (0..30).map(|i| if i % 3 == 0 { -2.0 } else { f64::from(i) }).collect();
        let trace: f64 = eigenvalues.iter().sum();
        let (seeds, probes) = (2000, 20);
        let mut operator = operator(eigenvalues, true);
        let (mut deviations, mut squares, mut covered) = (0.0, 0.0, 0);
        for seed in 0..seeds {
            let Ok(found) = hutchinson(30, probes, seed, &mut operator);
            let deviation = (found.value - trace) / found.standard_error;
            deviations += (found.value - trace) / seeds as f64;
            squares += (found.value - trace).powi(2) / seeds as f64;
            // 97.5 % quantile of Student's t with 19 degrees of freedom.
            covered += usize::from(deviation.abs() < 2.093);
        }
        let spread = squares.sqrt();
        assert!(deviations.abs() < 4.0 * spread / (seeds as f64).sqrt(), "bias {deviations}, spread {spread}");
        let coverage = covered as f64 / seeds as f64;
        // Four standard errors of a share of 95 % are 2 %.
        assert!((0.93..0.97).contains(&coverage), "95 % intervals cover {coverage}");
    }
}
