//! What an attention mechanism is: a rule that says which keys every query keeps, and how their scores become weights.
//!
//! The reference form ([`Mechanism::keep`] and [`Mechanism::weighting`]) is the definition, in plain Burn code that runs on any
//! device. A mechanism that has only this can be trained. To run on the fused CPU operators it also offers its choice of keys as
//! a [`Selection`]. [`FastForm::new`] decides whether that is enough: selection and weighting are always taken from the same
//! mechanism, and a weighting that the fused operators do not know means that there is no fast form.

use std::sync::Arc;

use burn::tensor::{Bool, Tensor, activation};
use semfocus_kernels::{FusedWeighting, Key, Selection};

/// Where in the model a mechanism is called: everything besides the scores that its choice may depend on.
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
    /// Reference form of the choice: which keys every query keeps (true), at least one each.
    ///
    /// `scores` is `[batch, heads, queries, keys]`, in f32 or f64. The choice is not differentiated.
    fn keep(&self, scores: &Tensor<4>, site: &Site) -> Tensor<4, Bool>;

    /// How the scores of the kept keys become attention weights: by default the softmax over the kept keys.
    fn weighting(&self) -> Weighting {
        Weighting::Softmax
    }

    /// The same choice as [`keep`](Self::keep) in the form that the fused operators take, for sequences of `length` tokens
    /// (global tokens included). `None`, the default, if there is no such form.
    fn selection(&self, length: usize) -> Option<Selection> {
        let _ = length;
        None
    }
}

/// How scores become attention weights.
#[derive(Clone, Debug)]
pub enum Weighting {
    /// Softmax over the kept keys, 0 for the others.
    Softmax,
    /// A weighting that exists in tensor code only. Mechanisms that use it run in the reference form.
    Custom(Arc<dyn WeightFunction>),
}

/// A weighting in tensor code.
pub trait WeightFunction: Send + Sync + std::fmt::Debug {
    /// Differentiable weights from scores and kept keys, all `[batch, heads, queries, keys]`; dropped keys get 0.
    fn weights(&self, scores: Tensor<4>, kept: Tensor<4, Bool>) -> Tensor<4>;
}

impl Weighting {
    /// Reference form: the weights of scores and kept keys, all `[batch, heads, queries, keys]`.
    pub fn weights(&self, scores: Tensor<4>, kept: Tensor<4, Bool>) -> Tensor<4> {
        match self {
            Weighting::Softmax => activation::softmax(scores.mask_fill(kept.bool_not(), f32::NEG_INFINITY), 3),
            Weighting::Custom(function) => function.weights(scores, kept),
        }
    }

    /// The fused form, if the kernels have one. A weighting that gets one becomes a variant of its own and is named here.
    fn fused(&self) -> Option<FusedWeighting> {
        match self {
            Weighting::Softmax => Some(FusedWeighting::Softmax),
            Weighting::Custom(_) => None,
        }
    }
}

/// A mechanism in the form that the fused operators take.
///
/// [`FastForm::new`] is the only way to make one, so its selection and weighting are those of one mechanism.
#[derive(Clone, Debug)]
pub struct FastForm {
    pub(crate) selection: Selection,
    pub(crate) weighting: FusedWeighting,
}

impl FastForm {
    /// The fast form of `mechanism` for sequences of `length` tokens (global tokens included). `None` if the mechanism has no
    /// [`Selection`] or the fused operators do not know its weighting: then the reference form computes.
    pub fn new(mechanism: &dyn Mechanism, length: usize) -> Option<Self> {
        let weighting = mechanism.weighting().fused()?;
        Some(FastForm { selection: mechanism.selection(length)?, weighting })
    }
}
