//! The settings that both forms of a sublayer take, the [reference](mod@crate::reference) and the fused one.
//!
//! Random decisions of a layer are made at *sites*, children of the layer's key. Both forms ask for the same keys, so
//! they drop the same values.

use std::sync::Arc;

use burn::tensor::{Bool, DType, Device, Tensor};
use semfocus_core::{Activation, Visibility};
use semfocus_kernels::{Dropout, Key, LinearView, RowObserver, RowReader};

use crate::mechanism::{LayerShape, Site};

/// Epsilon of every layer norm.
pub use semfocus_core::model::NORM_EPSILON;

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
    /// What a mechanism draws from: [`Site::key`](crate::Site::key).
    pub(crate) const MECHANISM: u64 = 4;
}

/// Where in a model, and in which forward pass, a sublayer runs.
#[derive(Clone, Debug)]
pub struct LayerSite {
    /// Index of the layer.
    pub layer: usize,
    /// Key of this layer in this pass: [`Pass::layer`](crate::Pass::layer).
    pub key: Key,
    /// Key of this layer that depends on the seed of the model alone.
    pub place: Key,
    /// How many of the last tokens of every sequence are global tokens.
    pub globals: usize,
    /// Token ids of all sequences, if the input is made of tokens.
    pub tokens: Arc<[usize]>,
    /// The relevant positions of every sequence, for mechanisms that ask; empty if they are not known.
    pub relevant: Arc<[Vec<u32>]>,
    /// Query and key map of the layer before training, for mechanisms that choose by them.
    pub initial_maps: Option<Arc<InitialMaps>>,
}

impl LayerSite {
    /// A layer of an input that is not made of tokens.
    pub fn new(layer: usize, key: Key, globals: usize) -> Self {
        let (tokens, relevant) = (Arc::new([]), Arc::new([]));
        LayerSite { layer, key, place: Key::new(0), globals, tokens, relevant, initial_maps: None }
    }

    /// What a mechanism sees of it.
    pub(crate) fn of_mechanism(&self, visibility: Visibility) -> Site {
        Site {
            key: self.key.child(site::MECHANISM),
            place: self.place,
            layer: self.layer,
            globals: self.globals,
            visibility,
            tokens: self.tokens.clone(),
            relevant: self.relevant.clone(),
        }
    }
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

/// Settings of an attention sublayer in one forward pass.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionSettings {
    /// Number of attention heads.
    pub heads: usize,
    /// Width of a query, key or value in one head.
    pub d_head: usize,
    /// Factor of the scores, besides `1 / √d_head`.
    pub inverse_temperature: f64,
    /// Which keys a query sees.
    pub visibility: Visibility,
    /// Added to the variance in the norm.
    pub norm_epsilon: f64,
    /// Dropout of the attention weights.
    pub weight_dropout: Dropout,
    /// Dropout of the output, before the residual.
    pub output_dropout: Dropout,
}

impl AttentionSettings {
    /// A score is this times the product of a query and a key.
    pub fn score_scale(&self) -> f64 {
        self.inverse_temperature / (self.d_head as f64).sqrt()
    }

    /// The layer for sequences of `length` tokens, in single precision.
    pub(crate) fn shape(&self, length: usize, device: &Device) -> LayerShape {
        let AttentionSettings { heads, inverse_temperature, .. } = *self;
        LayerShape { heads, length, inverse_temperature, device: device.clone(), dtype: DType::F32 }
    }
}

/// Settings of an MLP sublayer in one forward pass.
#[derive(Clone, Debug, PartialEq)]
pub struct MlpSettings {
    /// Activation of the hidden layer.
    pub activation: Activation,
    /// Added to the variance in the norm.
    pub norm_epsilon: f64,
    /// Dropout of the hidden layer, before its activation.
    pub hidden_dropout: Dropout,
    /// Dropout of the output, before the residual.
    pub output_dropout: Dropout,
}

/// What an attention sublayer computed on the way to its result, each `[batch, heads, queries, keys]`.
#[derive(Clone, Debug)]
pub struct AttentionTrace {
    /// Scores of all keys.
    pub scores: Tensor<4>,
    /// Whether each key was kept. Weightings other than the softmax can give a key the weight 0, which counts as dropped.
    pub kept: Tensor<4, Bool>,
    /// Attention weights before dropout.
    pub weights: Tensor<4>,
    /// Which keys a query sees.
    pub visibility: Visibility,
    /// Whether the weights follow from the scores.
    pub follows_scores: bool,
}

impl AttentionTrace {
    /// Shows every row to `observer`, as the fused form does, in single precision.
    pub(crate) fn observe_rows<O: RowObserver>(&self, observer: &O) -> Vec<O::Observation> {
        let [batch, heads, queries, keys] = self.scores.dims();
        let floats = |tensor: &Tensor<4>| tensor.clone().into_data().iter::<f32>().collect::<Vec<f32>>();
        let (scores, weights) = (floats(&self.scores), floats(&self.weights));
        let kept: Vec<bool> = self.kept.clone().into_data().iter::<bool>().collect();
        let mut reader = RowReader::default();
        let sequences = (0..batch).map(|sequence| {
            let mut observation = observer.begin(sequence);
            for row in 0..heads * queries {
                let at = (sequence * heads * queries + row) * keys;
                let visible = self.visibility.keys(row % queries, keys);
                let kept: Vec<u32> = (0..keys as u32).filter(|&key| kept[at + key as usize]).collect();
                let weights: Vec<f32> = kept.iter().map(|&key| weights[at + key as usize]).collect();
                let (head, query) = (row / queries, row % queries);
                let mut row = reader.read_weighted(head, query, &scores[at..at + visible], &kept, &weights);
                if !self.follows_scores {
                    (row.dispersion, row.separation) = (None, None);
                }
                observer.row(&mut observation, &row);
            }
            observation
        });
        sequences.collect()
    }
}
