//! How steep the loss of a model can be: upper bounds on its Lipschitz constants in the parameters of every layer and in
//! the input of every block. Statement and proof are in `docs/theory.md`; the tests search for violations.
//!
//! The bounds follow from spectral [norms](ModelNorms) of the matrices and a few [statistics](LayerStatistics) of each layer's
//! attention. They are products over layers, which soon overflow, so they are given as logarithms.

use semfocus_core::Activation;
use semfocus_core::model::NORM_EPSILON;
use semfocus_store::records::{LayerNorms, LayerRecord, ModelNorms, ProbeRecord, Summary};
use serde::Serialize;

use crate::theory::stability::max_weight;

/// What the bounds depend on in addition to the norms of a layer. A bound holds for a pair of models or inputs if the statistics hold
/// for both: see [`LayerStatistics::worse`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerStatistics {
    /// Minimum number of keys that a query keeps.
    pub min_kept: usize,
    /// The largest number of keys that a query keeps.
    pub max_kept: usize,
    /// Dispersion δ: the largest difference between two kept scores of a query.
    pub dispersion: f64,
    /// Separation Δ: the minimum gap between kept and dropped scores of a query. None where a change of the scores cannot
    /// exchange kept keys, because nothing is dropped or the pattern is fixed.
    pub separation: Option<f64>,
    /// Sink β: how many queries keep the most popular key, divided by [`min_kept`](Self::min_kept).
    pub sink: f64,
    /// The minimum by which the normalisation before attention divides a token: its standard deviation, with ε under
    /// the root.
    pub min_deviation_attention: f64,
    /// The same for the normalisation before the MLP.
    pub min_deviation_mlp: f64,
}

/// How much a layer can amplify a change of its input (Frobenius norm over all tokens) or of its parameters (Frobenius norm of
/// a group). For parameters the change of the output is per token; over all tokens it is `√tokens` times as large.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LayerFactors {
    /// From the input to the output of the attention sublayer, including the residual connection.
    pub attention: f64,
    /// From the input to the output of the MLP sublayer, including the residual connection.
    pub mlp: f64,
    /// From the score matrices to the output of the attention sublayer.
    pub from_score: f64,
    /// From the parameters of queries and keys to the output of the attention sublayer.
    pub from_w: f64,
    /// From the parameters of values and output to the output of the attention sublayer.
    pub from_v: f64,
    /// From the parameters of the MLP to the output of its sublayer.
    pub from_mlp: f64,
    /// The largest norm that both sublayers together can add to a token.
    pub reach: f64,
}

/// Bounds on the Lipschitz constants of the loss in a layer, as decimal logarithms. They hold for the cross-entropy of a
/// sequence and so for the mean over sequences. Minus infinity means no influence, infinity no bound (both are null in JSON).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LayerProfile {
    /// In the parameters of queries and keys together.
    pub w: f64,
    /// In the score matrices, one per head: the queries' matrix times the keys' matrix times the scale of the scores.
    pub score: f64,
    /// In the parameters of values and output together.
    pub v: f64,
    /// In the parameters of the MLP together.
    pub mlp: f64,
    /// In the input of the block.
    pub x: f64,
}

/// Bounds for a whole model, as decimal logarithms.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Profile {
    /// From the first layer to the last.
    pub layers: Vec<LayerProfile>,
    /// In the embedding.
    pub embedding: f64,
    /// In the parameters of the classifier.
    pub classifier: f64,
    /// In all parameters together.
    pub all: f64,
}

/// The largest slope of an activation, rounded up.
pub fn max_slope(activation: Activation) -> f64 {
    match activation {
        Activation::Relu => 1.0,
        Activation::Gelu => 1.128_905, // at √2: Φ(√2) + √2 φ(√2)
        Activation::Mish => 1.088_500,
    }
}

impl LayerStatistics {
    /// The worse of each statistic, for statements about a pair.
    pub fn worse(self, other: Self) -> Self {
        let sinks = self.sinks().max(other.sinks());
        let min_kept = self.min_kept.min(other.min_kept);
        LayerStatistics {
            min_kept,
            max_kept: self.max_kept.max(other.max_kept),
            dispersion: self.dispersion.max(other.dispersion),
            separation: self.separation.into_iter().chain(other.separation).reduce(f64::min),
            sink: sinks / min_kept as f64,
            min_deviation_attention: self.min_deviation_attention.min(other.min_deviation_attention),
            min_deviation_mlp: self.min_deviation_mlp.min(other.min_deviation_mlp),
        }
    }

    /// The statistics that matter for a gradient: kept keys are not exchanged, so the separation does not matter.
    pub fn with_kept_keys_held(self) -> Self {
        LayerStatistics { separation: None, ..self }
    }

    /// How many queries keep the most popular key.
    fn sinks(&self) -> f64 {
        self.sink * self.min_kept as f64
    }

    /// The largest sum of weights that one key can get from all queries that keep it at one end of a change.
    fn max_column(&self) -> f64 {
        self.sinks() * max_weight(self.dispersion, self.min_kept)
    }

    /// The same over all queries that keep the key at either end.
    fn max_joint_column(&self, tokens: usize) -> f64 {
        let sinks = if self.separation.is_some() { 2.0 * self.sinks() } else { self.sinks() };
        sinks.min(tokens as f64) * max_weight(self.dispersion, self.min_kept)
    }

    /// χ: the change of the weights for a unit change of the scores. Kept keys contribute 1, or 0 if there is only one, whose
    /// weight never changes; exchanged keys contribute 2/Δ.
    fn response(&self) -> f64 {
        let kept = if self.max_kept > 1 { 1.0 } else { 0.0 };
        kept + self.separation.map_or(0.0, |separation| 2.0 / separation)
    }
}

impl LayerFactors {
    /// The factors of layer number `layer`, counted from 0, for sequences of `tokens` tokens.
    pub fn new(norms: &ModelNorms, layer: usize, statistics: &LayerStatistics, tokens: usize) -> Self {
        let d = norms.width as f64;
        let LayerNorms { score, query, key, value, value_of_head, output, mlp_hidden, mlp_output } =
            &norms.layers[layer];
        // The change of the output for a unit change of the scores, root mean square over the weights.
        let from_scores = output.weight * value.weight * d.sqrt() * statistics.response();
        let as_query = d.sqrt();
        let as_key = ((d + 1.0) * statistics.max_joint_column(tokens)).sqrt();
        let as_value = output.weight * value.weight * statistics.max_column().sqrt();
        let attention = as_value + from_scores * root_of_squares(score) * (as_query + as_key);
        let from_score = from_scores * (d * (d + 1.0)).sqrt();
        let factors = query.iter().zip(key).map(|(query, key)| norms.score_scale * query.hypot(*key));
        let mixed = (1.0 + (d + 1.0) * root_of_squares(value_of_head).powi(2)).sqrt();
        let hidden = (1.0 + (d + 1.0) * mlp_hidden.with_bias.powi(2)).sqrt();
        let slope = max_slope(norms.activation) * mlp_output.weight;
        LayerFactors {
            attention: 1.0 + attention / statistics.min_deviation_attention,
            mlp: 1.0 + slope * mlp_hidden.weight / statistics.min_deviation_mlp,
            from_score,
            from_w: from_score * factors.fold(0.0, f64::max),
            from_v: mixed.hypot(output.weight * (d + 1.0).sqrt()),
            from_mlp: hidden.hypot(slope * (d + 1.0).sqrt()),
            reach: output.with_bias * mixed + mlp_output.with_bias * hidden,
        }
    }
}

impl Profile {
    /// The bounds for a model with these norms and these statistics of its layers, on sequences of `tokens` tokens including
    /// global ones.
    ///
    /// # Panics
    /// If the number of statistics is not the number of layers, or there are no tokens.
    pub fn new(norms: &ModelNorms, statistics: &[LayerStatistics], tokens: usize) -> Self {
        assert_eq!(norms.layers.len(), statistics.len(), "statistics for every layer");
        assert!(tokens > 0, "there is at least one token");
        let factors: Vec<LayerFactors> = statistics
            .iter()
            .enumerate()
            .map(|(layer, statistics)| LayerFactors::new(norms, layer, statistics, tokens))
            .collect();
        let per_token = 0.5 * (tokens as f64).log10();
        // From the tokens after the last block to the loss; then from the last block back to the first.
        let mut after = 0.5 * 2f64.log10() + norms.classifier.log10() - per_token;
        let mut layers = Vec::with_capacity(factors.len());
        for factors in factors.iter().rev() {
            let mlp = after + per_token + factors.from_mlp.log10();
            after += factors.mlp.log10();
            let from = |factor: f64| after + per_token + factor.log10();
            let (w, score, v) = (from(factors.from_w), from(factors.from_score), from(factors.from_v));
            after += factors.attention.log10();
            layers.push(LayerProfile { w, score, v, mlp, x: after });
        }
        layers.reverse();
        let reach = max_start_norm(norms) + factors.iter().map(|factors| factors.reach).sum::<f64>();
        let classifier = (2.0 * (1.0 + reach * reach)).log10() / 2.0;
        let embedding = after + per_token + 0.5 * (norms.width as f64).log10();
        let groups = layers.iter().flat_map(|layer| [layer.w, layer.v, layer.mlp]).chain([embedding, classifier]);
        let all = log_root_of_squares(groups.collect());
        Profile { layers, embedding, classifier, all }
    }
}

/// The largest norm of a token before the first block: its embedding plus its position, whose sines and cosines come in pairs
/// of norm 1.
fn max_start_norm(norms: &ModelNorms) -> f64 {
    (norms.width as f64).sqrt() * norms.embedding + (norms.width.div_ceil(2) as f64).sqrt()
}

fn root_of_squares(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum::<f64>().sqrt()
}

/// The same for numbers given by their decimal logarithms, which may be too large for an f64.
fn log_root_of_squares(logs: Vec<f64>) -> f64 {
    let max = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if max.is_infinite() {
        return max;
    }
    let sum: f64 = logs.iter().map(|log| 10f64.powf(2.0 * (log - max))).sum();
    max + 0.5 * sum.log10()
}

impl LayerStatistics {
    /// The worst values that a probe found in each layer. The deviations in the record are without ε, which is added here.
    pub fn from_record(record: &ProbeRecord) -> Vec<Self> {
        let end = |values: &[f64], percent: f64| Summary::at(values, percent);
        let of_layer = |layer: &LayerRecord| {
            let [attention, mlp] =
                layer.least_deviations.map(|deviation| (deviation * deviation + NORM_EPSILON).sqrt());
            LayerStatistics {
                min_kept: record.min_kept,
                max_kept: record.kept,
                dispersion: end(&layer.all.dispersion, 100.0).unwrap_or(0.0),
                // A probe is of a single model, so no keys are exchanged.
                separation: None,
                sink: end(&layer.all.sink, 100.0).unwrap_or(0.0) / record.min_kept as f64,
                min_deviation_attention: attention,
                min_deviation_mlp: mlp,
            }
        };
        record.layers.iter().map(of_layer).collect()
    }
}

impl Profile {
    /// The bounds on the gradient of a probed model; none if the weights of a layer are not the softmax of its scores, or examples ask
    /// at tokens instead of at their mean: nothing is proved for those.
    pub fn from_record(record: &ProbeRecord) -> Option<Self> {
        let is_proved = !record.asks_at_tokens && record.layers.iter().all(|layer| layer.is_softmax);
        let norms = record.norms.as_ref().filter(|_| is_proved)?;
        Some(Profile::new(norms, &LayerStatistics::from_record(record), record.length))
    }
}

#[cfg(test)]
mod tests {
    use semfocus_store::records::LinearNorm;

    use super::*;

    fn norms(layers: usize) -> ModelNorms {
        let linear = |weight| LinearNorm { weight, with_bias: weight };
        let layer = LayerNorms {
            score: vec![0.5],
            query: vec![3.0],
            key: vec![4.0],
            value: linear(2.0),
            value_of_head: vec![2.0],
            output: linear(1.0),
            mlp_hidden: linear(1.5),
            mlp_output: linear(2.0),
        };
        ModelNorms {
            width: 3,
            activation: Activation::Relu,
            score_scale: 0.1,
            layers: vec![layer; layers],
            classifier: 2f64.sqrt(),
            embedding: 1.0,
        }
    }

    const STATISTICS: LayerStatistics = LayerStatistics {
        min_kept: 4,
        max_kept: 4,
        dispersion: 0.0,
        separation: None,
        sink: 1.0,
        min_deviation_attention: 2.0,
        min_deviation_mlp: 0.5,
    };

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-12 * b.abs().max(1.0), "{a}, expected {b}");
    }

    #[test]
    fn a_block_by_hand() {
        // All weights ¼, four queries: columns of 1. d = 3, so queries count √3 and keys 2.
        let factors = LayerFactors::new(&norms(1), 0, &STATISTICS, 4);
        let root = 3f64.sqrt();
        close(factors.attention, 1.0 + (2.0 + 2.0 * root * 0.5 * (root + 2.0)) / 2.0);
        close(factors.mlp, 1.0 + 2.0 * 1.5 / 0.5);
        close(factors.from_score, 2.0 * root * 2.0 * root);
        close(factors.from_w, factors.from_score * 0.1 * 5.0);
        close(factors.from_v, (1.0 + 4.0 * 4.0 + 4.0f64).sqrt());
        close(factors.from_mlp, (1.0 + 4.0 * 2.25 + 4.0 * 4.0f64).sqrt());
        close(factors.reach, 17f64.sqrt() + 2.0 * 10f64.sqrt());
        // The loss: √2 · √2 for the logits, a half for the mean of four tokens, which parameters move together.
        let profile = Profile::new(&norms(1), &[STATISTICS], 4);
        close(profile.layers[0].x, (factors.attention * factors.mlp).log10());
        close(profile.layers[0].w, (2.0 * factors.mlp * factors.from_w).log10());
        close(profile.layers[0].v, (2.0 * factors.mlp * factors.from_v).log10());
        close(profile.layers[0].mlp, (2.0 * factors.from_mlp).log10());
        close(profile.embedding, profile.layers[0].x + 12f64.log10() / 2.0);
        close(profile.classifier, (2.0 + 2.0 * (root + 2f64.sqrt() + factors.reach).powi(2)).log10() / 2.0);
    }

    #[test]
    fn exchanged_keys_cost_two_over_the_separation() {
        let sparse = LayerStatistics { separation: Some(0.5), sink: 0.5, ..STATISTICS };
        let (all, chosen) =
            (LayerFactors::new(&norms(1), 0, &STATISTICS, 9), LayerFactors::new(&norms(1), 0, &sparse, 9));
        close(chosen.from_score, 5.0 * all.from_score);
        let held = LayerFactors::new(&norms(1), 0, &sparse.with_kept_keys_held(), 9);
        close(held.from_score, all.from_score);
        assert!(held.attention < all.attention, "fewer queries keep the same key");
        let single = LayerStatistics { min_kept: 1, max_kept: 1, ..STATISTICS };
        assert_eq!(LayerFactors::new(&norms(1), 0, &single, 9).from_w, 0.0, "the only key has weight 1");
        let touching = LayerStatistics { separation: Some(0.0), ..STATISTICS };
        assert_eq!(Profile::new(&norms(1), &[touching], 9).all, f64::INFINITY);
    }

    #[test]
    fn many_layers_do_not_overflow() {
        let profile = Profile::new(&norms(1000), &[STATISTICS; 1000], 4);
        let one = Profile::new(&norms(1), &[STATISTICS], 4).layers[0].x;
        assert!((profile.layers[0].x - 1000.0 * one).abs() < 1e-6 && profile.all > profile.layers[0].x);
        assert!(profile.layers.iter().is_sorted_by(|a, b| a.x > b.x));
    }

    #[test]
    fn the_worse_of_both() {
        let other = LayerStatistics {
            min_kept: 2,
            separation: Some(3.0),
            sink: 1.5,
            min_deviation_mlp: 0.25,
            dispersion: 1.0,
            ..STATISTICS
        };
        let worse = LayerStatistics { sink: 2.0, ..other };
        assert_eq!(
            (STATISTICS.worse(other), other.worse(STATISTICS)),
            (worse, worse),
            "four queries keep the same key"
        );
    }
}
