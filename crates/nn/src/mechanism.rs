//! What an attention mechanism is: a rule that says which of the visible keys every query keeps, and how their scores become
//! weights.
//!
//! The reference form ([`Mechanism::keep`] and [`Mechanism::weighting`]) is the definition, in plain Burn code that runs on any
//! device. A mechanism that has only this can be trained. To run on the fused CPU operators it also offers its choice of keys as
//! a [`Selection`]. [`FastForm::new`] decides whether that is enough: selection and weighting are always taken from the same
//! mechanism, and a weighting that the fused operators do not know means that there is no fast form.

use std::sync::Arc;

use burn::tensor::{Bool, DType, Device, Int, Tensor, activation};
use semfocus_core::{LrFactors, Visibility};
use semfocus_kernels::{FusedWeighting, Key, RuleScores, Selection};

use crate::weighting::{self, WeightFunction};

/// Where in the model a mechanism is called: everything besides the scores that its choice may depend on.
#[derive(Clone, Debug)]
pub struct Site {
    /// Key of this layer in this forward pass.
    pub key: Key,
    /// Key of this layer that stays the same during the whole training.
    pub place: Key,
    /// Index of the layer.
    pub layer: usize,
    /// How many of the last tokens of the sequence are global tokens.
    pub globals: usize,
    /// Which keys a query sees.
    pub visibility: Visibility,
    /// Token ids of all sequences, one after the other. Empty if the input of the model was not made of tokens.
    pub tokens: Arc<[usize]>,
    /// The positions of every sequence that its label depends on, ascending; empty if they are not known.
    pub relevant: Arc<[Vec<u32>]>,
}

impl Site {
    /// The key of one row of scores: `query` of `length` in `head` of `heads` in `sequence` of the batch. Random rules
    /// draw from it, in both forms.
    pub fn row(&self, sequence: usize, heads: usize, head: usize, length: usize, query: usize) -> Key {
        self.key.child((((sequence * heads) + head) * length + query) as u64)
    }

    /// As [`row`](Self::row), but the same in every pass and for all sequences.
    pub fn place(&self, head: usize, length: usize, query: usize) -> Key {
        self.place.child((head * length + query) as u64)
    }

    /// The scores `[batch, heads, queries, keys]` with `value` in the place of those that a query does not see.
    pub fn hide(&self, scores: Tensor<4>, value: f32) -> Tensor<4> {
        match self.visibility {
            Visibility::All => scores,
            Visibility::Causal => {
                let hidden = visible_keys(&scores).bool_not().expand(scores.dims());
                scores.mask_fill(hidden, value)
            }
        }
    }

    /// Every key that its query sees.
    pub(crate) fn visible(&self, scores: &Tensor<4>) -> Tensor<4, Bool> {
        let all = Tensor::<4, Int>::ones(scores.dims(), &scores.device()).greater_elem(0);
        self.only_visible(all, scores)
    }

    /// The keys of a mask that their query sees.
    pub(crate) fn only_seen(&self, mask: Tensor<4, Bool>, scores: &Tensor<4>) -> Tensor<4, Bool> {
        match self.visibility {
            Visibility::All => mask,
            Visibility::Causal => mask.bool_and(visible_keys(scores)),
        }
    }

    /// The kept keys that their query sees. A query that would keep none keeps itself.
    pub(crate) fn only_visible(&self, kept: Tensor<4, Bool>, scores: &Tensor<4>) -> Tensor<4, Bool> {
        match self.visibility {
            Visibility::All => kept,
            Visibility::Causal => {
                let kept = kept.bool_and(visible_keys(scores));
                let none = kept.clone().int().sum_dim(3).equal_elem(0);
                let (query, key) = indices(scores);
                kept.bool_or(none.bool_and(query.equal(key)))
            }
        }
    }
}

/// Positions of queries, `[1, 1, queries, 1]`, and of keys, `[1, 1, 1, keys]`.
pub(crate) fn indices(scores: &Tensor<4>) -> (Tensor<4, Int>, Tensor<4, Int>) {
    let [_, _, length, keys] = scores.dims();
    assert_eq!(length, keys, "self-attention: as many keys as queries");
    let index = Tensor::<1, Int>::arange(0..length as i64, &scores.device());
    (index.clone().reshape([1, 1, length, 1]), index.reshape([1, 1, 1, length]))
}

/// Whether a query sees a key in causal attention, `[1, 1, queries, keys]`.
fn visible_keys(scores: &Tensor<4>) -> Tensor<4, Bool> {
    let (query, key) = indices(scores);
    key.lower_equal(query)
}

/// A number of every head that is learned with the weights of the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MechanismParameter {
    /// What it is called.
    pub name: &'static str,
    /// Its value before training.
    pub initial: f64,
}

/// Numbers of the heads, each `[heads]` and differentiable.
#[derive(Clone, Debug, Default)]
pub struct HeadTensors {
    /// Factors of the scores; 1 if not given.
    pub temperature: Option<Tensor<1>>,
    /// The α of [`FusedWeighting::Entmax`]; 1.5 if not given.
    pub alpha: Option<Tensor<1>>,
}

/// The sizes of a layer that the numbers of its heads may depend on.
#[derive(Clone, Debug)]
pub struct LayerShape {
    /// Number of heads.
    pub heads: usize,
    /// Tokens of a sequence, global tokens included.
    pub length: usize,
    /// Factor of the scores that the model has, besides `1 / √d_head`.
    pub inverse_temperature: f64,
    /// Where the numbers are to be.
    pub device: Device,
    /// The precision they are to have.
    pub dtype: DType,
}

impl LayerShape {
    /// The same number for all heads.
    pub fn constant(&self, value: f64) -> Tensor<1> {
        Tensor::full([self.heads], value, (&self.device, self.dtype))
    }
}

/// Queries and keys of a layer, each `[batch, heads, length, d_head]`.
#[derive(Clone, Debug)]
pub struct Content {
    /// The queries.
    pub query: Tensor<4>,
    /// The keys.
    pub key: Tensor<4>,
    /// A score is this times the product of a query and a key.
    pub scale: f64,
}

/// An attention mechanism.
pub trait Mechanism: Send + Sync + std::fmt::Debug {
    /// Reference form of the choice: which keys every query keeps (true), at least one each.
    ///
    /// `scores` is `[batch, heads, queries, keys]`, in f32 or f64. The choice is not differentiated. In causal attention
    /// [`Site::hide`] replaces the scores of keys that a query does not see; such keys are dropped whatever this returns.
    fn keep(&self, scores: &Tensor<4>, site: &Site) -> Tensor<4, Bool>;

    /// As [`keep`](Self::keep), for a choice that depends on more of queries and keys than their scores. Such a mechanism has no
    /// fast form.
    fn keep_by_content(&self, scores: &Tensor<4>, content: &Content, site: &Site) -> Tensor<4, Bool> {
        let _ = content;
        self.keep(scores, site)
    }

    /// Whether the choice depends on the positions that the label of a sequence depends on.
    fn needs_relevance(&self) -> bool {
        false
    }

    /// Factors of the learning rate in training with sequences of `length` tokens, besides those of the settings.
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

    /// Numbers that every head learns. By default there are none.
    fn parameters(&self) -> &'static [MechanismParameter] {
        &[]
    }

    /// The numbers of the heads, from the learned ones, `[heads, parameters]`, if there are any.
    fn numbers(&self, parameters: Option<Tensor<2>>, shape: &LayerShape) -> HeadTensors {
        let _ = (parameters, shape);
        HeadTensors::default()
    }
}

/// How scores become attention weights.
#[derive(Clone, Debug)]
pub enum Weighting {
    /// One that both forms know.
    Known(FusedWeighting),
    /// A weighting that exists in tensor code only. Mechanisms that use it run in the reference form.
    Custom(Arc<dyn WeightFunction>),
}

impl Weighting {
    /// Whether the weights are a softmax of the scores, over the kept keys or over all visible ones.
    pub fn is_softmax(&self) -> bool {
        matches!(self, Weighting::Known(known) if known.is_softmax())
    }

    /// Whether the weights follow from the scores, not from the queries and keys in another way.
    pub fn follows_scores(&self) -> bool {
        match self {
            Weighting::Known(_) => true,
            Weighting::Custom(function) => function.follows_scores(),
        }
    }

    /// Reference form: the weights of scores and kept keys, all `[batch, heads, queries, keys]`; `alpha` is `[1, heads, 1, 1]`.
    pub fn weights(
        &self,
        scores: Tensor<4>,
        kept: Tensor<4, Bool>,
        alpha: Tensor<4>,
        content: &Content,
        site: &Site,
    ) -> Tensor<4> {
        let of_all = |scores: Tensor<4>| activation::softmax(site.hide(scores, f32::NEG_INFINITY), 3);
        match self {
            Weighting::Known(FusedWeighting::Softmax) => weighting::softmax(scores, kept),
            Weighting::Known(FusedWeighting::Sparsemax) => weighting::entmax(scores, kept, alpha.full_like(2.0)),
            Weighting::Known(FusedWeighting::Entmax15) => weighting::entmax(scores, kept, alpha.full_like(1.5)),
            Weighting::Known(FusedWeighting::Entmax) => weighting::entmax(scores, kept, alpha),
            Weighting::Known(FusedWeighting::Sigmoid) => weighting::sigmoid(scores, kept),
            Weighting::Known(FusedWeighting::Relu) => weighting::relu(scores, kept),
            Weighting::Known(FusedWeighting::StraightThrough) => {
                let forward = weighting::softmax(scores.clone(), kept);
                weighting::with_gradient_of(forward, of_all(scores))
            }
            Weighting::Known(FusedWeighting::GradientOfKept) => {
                let forward = of_all(scores.clone());
                weighting::with_gradient_of(forward, weighting::softmax(scores, kept))
            }
            Weighting::Known(FusedWeighting::MaskedSoftmax) => of_all(scores).mask_fill(kept.bool_not(), 0.0),
            Weighting::Custom(function) => function.weights(scores, kept, content),
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
