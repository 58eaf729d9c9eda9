//! What matrix products could do on this machine: the speed that the fused sublayers are measured against.

use std::time::Instant;

/// Single-precision matrix products by the `gemm` crate in GFLOP/s, all threads of the current pool together.
///
/// Every thread multiplies matrices of its own; the best of a few shapes counts.
pub fn gemm_gflops() -> f64 {
    let shapes = [(1000, 64, 64), (256, 256, 256), (512, 512, 512)];
    shapes.into_iter().map(speed).fold(0.0, f64::max)
}

fn speed((m, n, k): (usize, usize, usize)) -> f64 {
    let flops = (2 * m * n * k) as f64;
    let repeats = (2e9 / flops).ceil() as usize;
    let round = || {
        let seconds = rayon::broadcast(|_| {
            let (a, b, mut c) = (vec![0.5; m * k], vec![0.25; k * n], vec![0.0; m * n]);
            let start = Instant::now();
            for _ in 0..repeats {
                multiply((m, n, k), &a, &b, &mut c);
            }
            std::hint::black_box(&c);
            start.elapsed().as_secs_f64()
        });
        seconds.into_iter().fold(0.0, f64::max)
    };
    round();
    let best = (0..3).map(|_| round()).fold(f64::INFINITY, f64::min);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_products() {
        let mut c = [0.0; 4];
        multiply((2, 2, 3), &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[1.0, 0.0, 0.0, 1.0, 2.0, 2.0], &mut c);
        assert_eq!(c, [7.0, 8.0, 16.0, 17.0]);
    }
}
