//! Nanoseconds per row of every weighting on one thread: scores to weights, and gradients of weights to gradients of scores.
//!
//! The rows are like those of an untrained model: scores about normal with a deviation of one third.

use std::hint::black_box;
use std::time::{Duration, Instant};

use semfocus_kernels::{FusedWeighting, Key};

/// Different rows are measured in turn, so that their branches cannot be predicted.
const ROWS: usize = 256;

fn main() {
    println!("{:>24} {:>6} {:>9} {:>9}", "weighting", "length", "forward", "backward");
    for length in [40, 600] {
        for (weighting, alpha) in [
            (FusedWeighting::Softmax, 1.0),
            (FusedWeighting::Sparsemax, 2.0),
            (FusedWeighting::Entmax15, 1.5),
            (FusedWeighting::Entmax, 1.1),
            (FusedWeighting::Entmax, 1.5),
            (FusedWeighting::Entmax, 1.9),
            (FusedWeighting::Sigmoid, 1.0),
            (FusedWeighting::Relu, 1.0),
        ] {
            let name = match weighting {
                FusedWeighting::Entmax => format!("{weighting:?} {alpha}"),
                _ => format!("{weighting:?}"),
            };
            let (forward, backward) = nanoseconds(weighting, alpha, length);
            println!("{name:>24} {length:>6} {forward:>9.0} {backward:>9.0}");
        }
    }
}

/// Forward and backward, each the best of many short rounds. Both include the copy of the row that they work on.
fn nanoseconds(weighting: FusedWeighting, alpha: f32, length: usize) -> (f64, f64) {
    let scores = normal(1, ROWS * length);
    let gradients = normal(2, ROWS * length);
    let (mut weights, mut results) = (vec![0.0; ROWS * length], vec![0.0; ROWS * length]);
    let mut statistics = vec![[0.0; 2]; ROWS];
    let mut scratch = Vec::new();
    let (mut forward, mut backward) = (f64::INFINITY, f64::INFINITY);
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(500) {
        forward = forward.min(time(|| {
            weights.copy_from_slice(&scores);
            for (row, statistics) in weights.chunks_exact_mut(length).zip(&mut statistics) {
                *statistics = weighting.weigh(alpha, row, &mut scratch);
            }
        }));
        backward = backward.min(time(|| {
            results.copy_from_slice(&gradients);
            let rows = weights.chunks_exact(length).zip(results.chunks_exact_mut(length));
            for ((weights, results), statistics) in rows.zip(&statistics) {
                black_box(weighting.weigh_backward(alpha, *statistics, weights, results));
            }
        }));
        black_box(&results);
    }
    (forward, backward)
}

/// Nanoseconds per row of `run`, which handles all rows once.
fn time(run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_secs_f64() * 1e9 / ROWS as f64
}

/// Sums of uniform numbers, about normal with a deviation of one third.
fn normal(seed: u64, n: usize) -> Vec<f32> {
    let key = Key::new(seed);
    let uniform = |at: usize| key.bits_at(at as u32) as f32 / 2f32.powi(31) - 1.0;
    (0..n).map(|i| (uniform(3 * i) + uniform(3 * i + 1) + uniform(3 * i + 2)) / 3.0).collect()
}
