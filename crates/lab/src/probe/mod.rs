//! Probes: what the attention of a model does with its scores.
//!
//! Of every query and head: the dispersion of the kept scores, their separation from the dropped ones, the entropy of the
//! weights, and the share of weight that full attention would have given to the kept keys. Of every key: how many queries keep
//! it. Of every layer: how many kept keys an earlier model kept too, and, where the task says on which tokens a label hangs,
//! how far the kept keys are those. Quantiles are streamed ([`Sketch`]); scores are never stored.

mod look;
mod sketch;

use semfocus_nn::norms::ModelNorms;
use serde::{Deserialize, Serialize};

pub use look::Prober;
pub use sketch::Sketch;

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
    /// Most keys that a query keeps.
    pub kept: usize,
    /// Fewest keys that a query keeps.
    pub least_kept: usize,
    /// Seconds that it took.
    pub seconds: f64,
    /// All layers together.
    pub pooled: Summary,
    /// Layer by layer.
    pub layers: Vec<LayerRecord>,
    /// Norms of the parameters.
    pub norms: ModelNorms,
}

/// What a probe found in a layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayerRecord {
    /// All heads together.
    pub all: Summary,
    /// Head by head.
    pub heads: Vec<Summary>,
    /// The least standard deviation of a token before the norm of the attention and before that of the MLP.
    pub least_deviations: [f64; 2],
    /// Keys that both this and the earlier probe keep, as a share of those that either keeps; the mean over queries. None for
    /// the first probe, and for mechanisms that keep the same keys whatever the scores are.
    pub overlap: Option<f64>,
    /// Whether the kept keys are those that the label hangs on; none where that is not known.
    pub relevance: Option<Relevance>,
}

/// Quantiles in the order of [`QUANTILES`]; empty where there is nothing, as for the separation of full attention.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Greatest less least kept score, over queries.
    pub dispersion: Vec<f64>,
    /// Least kept less greatest dropped score, over queries that drop any.
    pub separation: Vec<f64>,
    /// Entropy of the weights in nats, over queries.
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
