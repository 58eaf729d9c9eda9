//! `probes.jsonl`: what the attention of a model does with its scores, and the norms of its matrices.

use semfocus_core::Activation;
use serde::{Deserialize, Serialize};

use super::Measured;

/// The quantiles that are reported, in per cent.
pub const QUANTILES: [f64; 11] = [0.0, 1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 100.0];

/// What a probe found: one line of `probes.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbeRecord {
    /// Epochs that the model was trained for.
    pub epoch: usize,
    /// Training examples that were looked at: the first ones.
    pub samples: usize,
    /// Tokens of a sequence, padding and global tokens included.
    pub length: usize,
    /// Maximum number of keys that a query keeps.
    pub kept: usize,
    /// Minimum number of keys that a query keeps.
    #[serde(rename = "least_kept")]
    pub min_kept: usize,
    /// Seconds that it took. A store always has them, like the norms; the record of the study keeps neither.
    pub seconds: Option<f64>,
    /// All layers together.
    pub pooled: Summary,
    /// Layer by layer.
    pub layers: Vec<LayerRecord>,
    /// Norms of the parameters, of models about which bounds are proved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norms: Option<ModelNorms>,
    /// Whether examples ask at tokens. The bounds on the steepness of the loss are about the mean over the tokens.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asks_at_tokens: bool,
}

impl Measured for ProbeRecord {
    const FILE: &'static str = "probes.jsonl";

    fn epoch(&self) -> usize {
        self.epoch
    }

    fn rank(&self) -> usize {
        self.samples
    }

    fn is_about_the_same(&self, other: &Self) -> bool {
        self.epoch == other.epoch
    }
}

/// What a probe found in a layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayerRecord {
    /// Whether the weights are the softmax of the model's own scores, over the kept keys: what the theory is about.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub is_softmax: bool,
    /// All heads together.
    pub all: Summary,
    /// Head by head.
    pub heads: Vec<Summary>,
    /// The minimum standard deviation of a token before the norm of the attention and before that of the MLP.
    pub least_deviations: [f64; 2],
    /// Keys that both this and the earlier probe keep, as a share of those that either keeps; the mean over queries. None for
    /// the first probe, and for mechanisms that keep the same keys whatever the scores are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<f64>,
    /// Whether the kept keys are those that the label hangs on; none where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relevance: Option<Relevance>,
}

fn yes() -> bool {
    true
}

fn is_yes(value: &bool) -> bool {
    *value
}

/// Quantiles in the order of [`QUANTILES`]; empty where there is nothing, as for the separation of full attention, and where nothing
/// is defined, as for the scores of linear attention, which does not use them. A kept key is one with a weight other than 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Maximum minus minimum kept score, over queries that keep any.
    pub dispersion: Vec<f64>,
    /// Minimum kept minus maximum dropped score, over queries that keep some and drop some.
    pub separation: Vec<f64>,
    /// Entropy in nats of the weights divided by their sum, over queries without negative weights that have a positive one.
    pub entropy: Vec<f64>,
    /// How many queries keep a key, over keys.
    pub sink: Vec<f64>,
    /// Share of the weight that the softmax over all keys would give to the kept ones, over queries.
    pub full_mass: Vec<f64>,
}

impl Summary {
    /// The quantile of one of the lists at a per cent number of [`QUANTILES`].
    pub fn at(values: &[f64], percent: f64) -> Option<f64> {
        let place = QUANTILES.iter().position(|quantile| *quantile == percent)?;
        values.get(place).copied()
    }
}

/// How far kept keys are those that the label hangs on: means over all queries.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Relevance {
    /// Share of the kept keys that are relevant.
    pub precision: f64,
    /// Share of the relevant keys that are kept.
    pub recall: f64,
    /// Attention weight of the relevant keys.
    pub mass: f64,
    /// Precision, and mass, of as many keys drawn at random with equal weights: the share of relevant keys.
    pub random_precision: f64,
    /// Recall of as many keys drawn at random: the share of keys that are kept.
    pub random_recall: f64,
}

/// Spectral norms of a linear layer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinearNorm {
    /// Of its matrix.
    pub weight: f64,
    /// Of its matrix with the bias as one more row: the bias is the weight of an input that is always 1.
    pub with_bias: f64,
}

/// Spectral norms of a block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayerNorms {
    /// Γ of each head: norm of the matrix M with scores `(yᵢ, 1) M yⱼ`, the factor of the scores included. The bias of the
    /// keys moves all scores of a query alike, which changes neither weights nor choice: it has no part in M.
    pub score: Vec<f64>,
    /// Of each head: the queries' matrix with its bias as one more row.
    pub query: Vec<f64>,
    /// Of each head: the keys' matrix, without bias.
    pub key: Vec<f64>,
    /// Υ: the values of all heads together.
    pub value: LinearNorm,
    /// Of each head: the values' matrix with its bias as one more row.
    pub value_of_head: Vec<f64>,
    /// From all heads back to the width of the model.
    pub output: LinearNorm,
    /// To the hidden layer of the MLP.
    pub mlp_hidden: LinearNorm,
    /// And back.
    pub mlp_output: LinearNorm,
}

/// Everything about a model's parameters that bounds on its Lipschitz constants depend on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelNorms {
    /// Width of the model.
    pub width: usize,
    /// Activation of the MLPs.
    pub activation: Activation,
    /// What the product of a query and a key is multiplied with.
    pub score_scale: f64,
    /// The blocks, in order.
    pub layers: Vec<LayerNorms>,
    /// The classifier's matrix, without bias.
    pub classifier: f64,
    /// The largest Euclidean norm of a row of the embedding, before it is multiplied with √d.
    pub embedding: f64,
}

impl ModelNorms {
    /// The larger of both for each norm, for statements about a pair of models.
    ///
    /// # Panics
    /// If the models do not have the same shape.
    pub fn max(&self, other: &Self) -> Self {
        assert_eq!((self.width, self.layers.len()), (other.width, other.layers.len()), "models of the same shape");
        ModelNorms {
            layers: self.layers.iter().zip(&other.layers).map(|(a, b)| a.max(b)).collect(),
            classifier: self.classifier.max(other.classifier),
            embedding: self.embedding.max(other.embedding),
            ..self.clone()
        }
    }
}

impl LayerNorms {
    fn max(&self, other: &Self) -> Self {
        let each = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a.max(*b)).collect();
        LayerNorms {
            score: each(&self.score, &other.score),
            query: each(&self.query, &other.query),
            key: each(&self.key, &other.key),
            value: self.value.max(other.value),
            value_of_head: each(&self.value_of_head, &other.value_of_head),
            output: self.output.max(other.output),
            mlp_hidden: self.mlp_hidden.max(other.mlp_hidden),
            mlp_output: self.mlp_output.max(other.mlp_output),
        }
    }
}

impl LinearNorm {
    fn max(self, other: Self) -> Self {
        LinearNorm { weight: self.weight.max(other.weight), with_bias: self.with_bias.max(other.with_bias) }
    }
}
