//! What an attention mechanism is: a rule that says which of the visible keys every query keeps, and how their scores become
//! weights.
//!
//! The reference form ([`Mechanism::keep`] and [`Mechanism::weighting`]) is the definition, in plain Burn code that runs on any
//! device. A mechanism that has only this can be trained. To run on the fused CPU operators it also offers its choice of keys as
//! a [`Selection`]. [`FastForm::new`] decides whether that is enough: selection and weighting are always taken from the same
//! mechanism, and a weighting that the fused operators do not know means that there is no fast form.

use std::sync::Arc;

use burn::tensor::{Bool, DType, Device, Tensor};
use semfocus_core::{LrFactors, Visibility};
use semfocus_kernels::{FusedWeighting, RuleScores, Selection};

use crate::context::LayerContext;
use crate::weighting::{Content, Weighting};

/// A scalar of every head that is learned with the weights of the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MechanismParameter {
    /// What it is called.
    pub name: &'static str,
    /// Its value before training.
    pub initial: f64,
}

/// The scalars of the heads, each `[heads]` and differentiable.
#[derive(Clone, Debug, Default)]
pub struct HeadTensors {
    /// Factors of the scores; 1 if not given.
    pub temperature: Option<Tensor<1>>,
    /// The α of [`FusedWeighting::Entmax`]; 1.5 if not given.
    pub alpha: Option<Tensor<1>>,
}

/// The sizes of a layer that the scalars of its heads may depend on.
#[derive(Clone, Debug)]
pub struct LayerShape {
    /// Number of heads.
    pub heads: usize,
    /// Tokens of a sequence, global tokens included.
    pub length: usize,
    /// Factor of the scores that the model has, in addition to `1 / √d_head`.
    pub inverse_temperature: f64,
    /// Device of the scalars.
    pub device: Device,
    /// Precision of the scalars.
    pub dtype: DType,
}

impl LayerShape {
    /// The same scalar for all heads.
    pub fn constant(&self, value: f64) -> Tensor<1> {
        Tensor::full([self.heads], value, (&self.device, self.dtype))
    }
}

/// An attention mechanism.
pub trait Mechanism: Send + Sync + std::fmt::Debug {
    /// Reference form of the choice: which keys every query keeps (true), at least one each.
    ///
    /// `scores` is `[batch, heads, queries, keys]`, in f32 or f64. The choice is not differentiated. In causal attention
    /// [`LayerContext::hide`] replaces the scores of keys that a query does not see; such keys are dropped whatever this returns.
    fn keep(&self, scores: &Tensor<4>, context: &LayerContext) -> Tensor<4, Bool>;

    /// As [`keep`](Self::keep), for a choice that depends on more of queries and keys than their scores. Such a mechanism has no
    /// fast form.
    fn keep_by_content(&self, scores: &Tensor<4>, content: &Content, context: &LayerContext) -> Tensor<4, Bool> {
        let _ = content;
        self.keep(scores, context)
    }

    /// Whether the choice depends on the positions that the label of a sequence depends on.
    fn needs_relevance(&self) -> bool {
        false
    }

    /// Factors of the learning rate in training with sequences of `length` tokens, in addition to those of the settings.
    fn learning_rate_factors(&self, length: usize) -> LrFactors {
        let _ = length;
        LrFactors::default()
    }

    /// The scores that [`keep`](Self::keep) gets. The weights always come from the query's own scores.
    fn scores(&self) -> RuleScores {
        RuleScores::Own
    }

    /// How the scores of the kept keys become attention weights: by default the softmax over the kept keys.
    fn weighting(&self) -> Weighting {
        Weighting::Known(FusedWeighting::Softmax)
    }

    /// The same choice as [`keep`](Self::keep) in the form that the fused operators take, for sequences of `length` tokens
    /// (global tokens included). `None`, the default, if there is no such form. A fixed pattern need not think of visibility.
    fn selection(&self, length: usize) -> Option<Selection> {
        let _ = length;
        None
    }

    /// Scalars that every head learns. By default there are none.
    fn parameters(&self) -> &'static [MechanismParameter] {
        &[]
    }

    /// The scalars of the heads, from the learned ones, `[heads, parameters]`, if there are any.
    fn head_scalars(&self, parameters: Option<Tensor<2>>, shape: &LayerShape) -> HeadTensors {
        let _ = (parameters, shape);
        HeadTensors::default()
    }
}

/// A mechanism in the form that the fused operators take.
///
/// [`FastForm::new`] is the only way to make one, so its selection and weighting are those of one mechanism.
#[derive(Clone, Debug)]
pub struct FastForm {
    pub(crate) selection: Selection,
    pub(crate) weighting: FusedWeighting,
    pub(crate) visibility: Visibility,
}

impl FastForm {
    /// The fast form of `mechanism` for sequences of `length` tokens (global tokens included). `None` if the mechanism has no
    /// [`Selection`] or the fused operators do not know its weighting: then the reference form computes.
    ///
    /// # Panics
    /// If the rule of the mechanism looks at other scores than its reference form.
    pub fn new(mechanism: &dyn Mechanism, length: usize, visibility: Visibility) -> Option<Self> {
        let Weighting::Known(weighting) = mechanism.weighting() else { return None };
        let selection = match mechanism.selection(length)? {
            Selection::Pattern(kept) if visibility != Visibility::All => {
                Selection::Pattern(Arc::new(kept.visible(visibility)))
            }
            selection => selection,
        };
        if let Selection::Rule(rule) = &selection {
            let (fast, reference) = (rule.scores(), mechanism.scores());
            assert!(fast == reference || fast == RuleScores::None, "{mechanism:?}: {fast:?} and {reference:?} scores");
        }
        Some(FastForm { selection, weighting, visibility })
    }
}
