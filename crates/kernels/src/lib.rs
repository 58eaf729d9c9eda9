//! Fused transformer sublayers for CPUs: `f32` slices in, slices out.
//!
//! This crate knows nothing of tensors, autodiff or models. It holds what the training loop spends its time in, and it is
//! the only crate of the workspace with `unsafe` code.

mod attention;
mod buffer;
mod embedding;
mod inference;
mod linear;
mod math;
mod matmul;
mod memory;
mod mlp;
mod output;
mod random;
mod rows;
mod selection;
mod simd;
mod topk;
mod yardstick;

pub use attention::{Attention, AttentionGradients, AttentionSaved, RowReader, SeenRow, Selection, Watch};
pub use embedding::Embedding;
pub use inference::Inference;
pub use linear::{Linear, LinearGradient};
pub use math::Activation;
pub use memory::keep_freed_memory;
pub use mlp::{Mlp, MlpGradients, MlpSaved};
pub use random::{Dropout, Key, Stream, fnv_1a};
pub use selection::{KeptKeys, RowRule};
pub use simd::InstructionSet;
pub use topk::TopK;
pub use yardstick::gemm_gflops;
