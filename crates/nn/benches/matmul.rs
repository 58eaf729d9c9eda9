//! The number that `semfocus bench` compares with: matrix products through Burn, in GFLOP/s.
//!
//! `cargo bench -p semfocus-kernels --bench gemm` measures the same products without Burn.

use burn::tensor::Device;

fn main() {
    println!("{:.1} GFLOP/s", semfocus_nn::cost::matmul_gflops(&Device::flex()));
}
