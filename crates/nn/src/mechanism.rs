//! What an attention mechanism is: a rule that says which keys every query keeps.
//!
//! The [reference form](Mechanism::keep) is the definition, in plain Burn code that runs on any device. A mechanism that
//! has only this trains at once. The [fast form](Mechanism::fast) is optional, for the fused operators on a CPU.

use std::sync::Arc;

use burn::tensor::{Bool, Tensor, activation};
use semfocus_kernels::{KeptKeys, Key, RowRule};

/// Everything about the place of a call that a rule may depend on besides the scores.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    /// Key of this layer in this forward pass.
    pub key: Key,
    /// How many of the last tokens of the sequence are global tokens.
    pub globals: usize,
}

impl Site {
    /// The key of one row of scores: `query` of `length` in `head` of `heads` in `sequence` of the batch. Random rules
    /// draw from it, in both forms.
    pub fn row(&self, sequence: usize, heads: usize, head: usize, length: usize, query: usize) -> Key {
        self.key.child((((sequence * heads) + head) * length + query) as u64)
    }
}

/// An attention mechanism.
pub trait Mechanism: Send + Sync + std::fmt::Debug {
    /// Reference form: which keys every query keeps (true), at least one each.
    ///
    /// `scores` is `[batch, heads, queries, keys]`, in f32 or f64. The choice is not differentiated.
    fn keep(&self, scores: &Tensor<4>, site: &Site) -> Tensor<4, Bool>;

    /// Attention weights from scores and kept keys: by default the softmax over the kept ones, 0 for the others.
    ///
    /// A mechanism with other weights overrides this and then has no fast form.
    fn weights(&self, scores: Tensor<4>, kept: Tensor<4, Bool>) -> Tensor<4> {
        activation::softmax(scores.mask_fill(kept.bool_not(), f32::NEG_INFINITY), 3)
    }

    /// Fast form for sequences of `length` tokens (global tokens included), if there is one.
    fn fast(&self, length: usize) -> Option<FastForm> {
        let _ = length;
        None
    }
}

/// The choice of keys in the form that the fused operators take.
#[derive(Clone, Debug)]
pub enum FastForm {
    /// Every query keeps every key.
    All,
    /// Kept keys are the same for every input.
    Pattern(Arc<KeptKeys>),
    /// Kept keys depend on the scores, or are drawn.
    Rule(Arc<dyn RowRule>),
}
