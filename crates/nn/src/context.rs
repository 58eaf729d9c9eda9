//! Where in a model, and in which forward pass, a sublayer runs.
//!
//! Random decisions of a layer are made at *sites*, children of the layer's key. Both forms ask for the same keys, so they drop the
//! same values.

use std::sync::Arc;

use burn::tensor::{Bool, Int, Tensor};
use semfocus_core::Visibility;
use semfocus_kernels::{Key, LinearView, RelevantKeys};

/// Sites of a layer: the children of its key.
pub(crate) mod site {
    /// Dropout of the attention weights: row `(sequence · heads + head) · length + query`, column = key index.
    pub(crate) const ATTENTION_WEIGHTS: u64 = 0;
    /// Dropout of the attention output: row `sequence · length + token`, column = feature; so are the next two.
    pub(crate) const ATTENTION_OUTPUT: u64 = 1;
    /// Dropout before the activation of the MLP.
    pub(crate) const MLP_HIDDEN: u64 = 2;
    /// Dropout of the MLP output.
    pub(crate) const MLP_OUTPUT: u64 = 3;
    /// What a mechanism draws from: [`LayerContext::draw_key`](super::LayerContext::draw_key).
    pub(crate) const MECHANISM: u64 = 4;
}

/// A layer in a forward pass: everything except the scores that the choice of a mechanism may depend on.
#[derive(Clone, Debug)]
pub struct LayerContext {
    /// Index of the layer.
    pub layer: usize,
    /// Key of this layer in this pass: [`Pass::layer`](crate::Pass::layer).
    pub key: Key,
    /// Key of this layer that stays the same during the whole training: it depends on the seed of the model alone.
    pub fixed_key: Key,
    /// How many of the last tokens of every sequence are global tokens.
    pub globals: usize,
    /// Which keys a query sees.
    pub visibility: Visibility,
    /// Token ids of all sequences, one after the other. Empty if the input of the model was not made of tokens.
    pub tokens: Arc<[usize]>,
    /// The relevant keys of every sequence, for mechanisms that ask; empty if they are not known.
    pub relevant: Arc<[Arc<RelevantKeys>]>,
    /// Query and key map of the layer before training, for mechanisms that choose by them.
    pub initial_maps: Option<Arc<InitialMaps>>,
}

/// Query and key map of a layer before training.
#[derive(Clone, Debug)]
pub struct InitialMaps {
    /// Weight and bias of the query map.
    pub query: [Vec<f32>; 2],
    /// Weight and bias of the key map.
    pub key: [Vec<f32>; 2],
}

impl InitialMaps {
    pub(crate) fn views(&self) -> (LinearView<'_>, LinearView<'_>) {
        let InitialMaps { query, key } = self;
        let query = LinearView { weight: &query[0], bias: &query[1] };
        (query, LinearView { weight: &key[0], bias: &key[1] })
    }
}

impl LayerContext {
    /// A layer of an input that is not made of tokens.
    pub fn new(layer: usize, key: Key, globals: usize, visibility: Visibility) -> Self {
        let (tokens, relevant) = (Arc::new([]), Arc::new([]));
        LayerContext { layer, key, fixed_key: Key::new(0), globals, visibility, tokens, relevant, initial_maps: None }
    }

    /// The key below which a mechanism draws random numbers in this pass.
    pub(crate) fn draw_key(&self) -> Key {
        self.key.child(site::MECHANISM)
    }

    /// The key of one row of scores: `query` of `length` in `head` of `heads` in `sequence` of the batch. Random rules
    /// draw from it, in both forms.
    pub fn row(&self, sequence: usize, heads: usize, head: usize, length: usize, query: usize) -> Key {
        self.draw_key().child((((sequence * heads) + head) * length + query) as u64)
    }

    /// As [`row`](Self::row), but the same in every pass and for all sequences.
    pub fn fixed_row(&self, head: usize, length: usize, query: usize) -> Key {
        self.fixed_key.child((head * length + query) as u64)
    }

    /// The scores `[batch, heads, queries, keys]` with `value` instead of those that a query does not see.
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
