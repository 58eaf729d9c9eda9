//! Single-precision matrix products by the `gemm` crate, called directly, in GFLOP/s: all threads together, each on matrices
//! of its own.
//!
//! `semfocus bench` compares the fused operators with `semfocus_nn::cost::matmul_gflops`, which measures the same products
//! through Burn. The best of these numbers shows whether Burn makes that one smaller.

use std::time::{Duration, Instant};

fn main() {
    for shape in [(1000, 64, 64), (192, 192, 190), (128, 128, 400), (48, 128, 1100), (256, 256, 256), (512, 512, 512)] {
        println!("{shape:?}: {:.1} GFLOP/s", gflops(shape));
    }
}

/// The best of many short rounds.
fn gflops((m, n, k): (usize, usize, usize)) -> f64 {
    let flops = (2 * m * n * k) as f64;
    let repeats = (5e7 / flops).ceil() as usize;
    let start = Instant::now();
    let mut best = f64::INFINITY;
    while start.elapsed() < Duration::from_millis(1500) {
        let seconds = rayon::broadcast(|_| {
            let (a, b, mut c) = (vec![0.5; m * k], vec![0.25; k * n], vec![0.0; m * n]);
            multiply((m, n, k), &a, &b, &mut c);
            let start = Instant::now();
            for _ in 0..repeats {
                multiply((m, n, k), &a, &b, &mut c);
            }
            std::hint::black_box(&c);
            start.elapsed().as_secs_f64()
        });
        best = best.min(seconds.into_iter().fold(0.0, f64::max));
    }
    flops * (repeats * rayon::current_num_threads()) as f64 / best / 1e9
}

/// `c = a · b` for row-major matrices, on the calling thread.
fn multiply((m, n, k): (usize, usize, usize), a: &[f32], b: &[f32], c: &mut [f32]) {
    assert!(a.len() == m * k && b.len() == k * n && c.len() == m * n, "sizes fit");
    let (row_a, row_b, row_c) = (k as isize, n as isize, n as isize);
    // SAFETY: the assertion makes every element that these shapes and strides reach lie within its slice.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            c.as_mut_ptr(),
            1,
            row_c,
            false,
            a.as_ptr(),
            1,
            row_a,
            b.as_ptr(),
            1,
            row_b,
            0.0,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}
