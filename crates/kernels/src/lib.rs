//! Fused transformer sublayers for CPUs: `f32` slices in, slices out.
//!
//! This crate knows nothing about tensors, autodiff or models. It contains the code in which training spends its time, and it
//! is the only crate of the workspace with `unsafe` code.

mod asked;
mod attention;
mod block;
mod buffer;
mod dropout;
mod embedding;
mod head;
mod inference;
mod linear;
mod math;
mod matmul;
mod memory;
mod mlp;
mod output;
mod rows;
mod selection;
mod simd;
mod topk;
mod training;
mod weighting;

pub use attention::{
    AttentionGradients, AttentionKernel, AttentionSaved, HeadScalars, Hints, ObservedRow, RowObserver, RowReader,
};
pub use dropout::Dropout;
pub use embedding::EmbeddingKernel;
pub use head::{Answer, HeadKernel, SMALL_HEAD, answer, cross_entropy};
pub use inference::Inference;
pub use linear::{LinearGradient, LinearView};
pub use memory::keep_freed_memory;
pub use mlp::{MlpGradients, MlpKernel, MlpSaved};
pub use selection::{KeptKeys, Row, RowRule, RuleScores, Selection};
pub use semfocus_core::{Activation, Key, RelevantKeys, Visibility};
pub use simd::{INSTRUCTIONS, InstructionSet};
pub use topk::TopKRule;
pub use training::{Training, TrainingGradients};
pub use weighting::FusedWeighting;
