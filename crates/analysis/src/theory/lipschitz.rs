//! How steep the loss of a model can be: upper bounds on its Lipschitz constants in the parameters of every layer and in
//! the input of every block. Statement and proof are in `docs/theory.md`; the tests try to break them.
//!
//! Plain numbers in, plain numbers out: spectral [norms](ModelNorms) of the matrices and a few [statistics](LayerStatistics)
//! of each layer's attention, which [`measure`] takes from a model. Bounds are products over layers and soon beyond all
//! numbers, so they are logarithms.

use burn::tensor::{Int, Tensor};
use semfocus_lab::probe::{LayerRecord, ProbeRecord, Summary};
use semfocus_nn::norms::LayerNorms;
use semfocus_nn::sublayer::{AttentionSettings, AttentionTrace, NORM_EPSILON};
use semfocus_nn::{Activation, Attention, Dropout, Encoder, Family, ModelNorms, Pass, reference};
use serde::{Deserialize, Serialize};

use crate::theory::stability::greatest_weight;

/// What the bounds need to know of a layer besides its norms. A bound holds for a pair of models or inputs if the
/// statistics do at both ends: see [`LayerStatistics::worse`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayerStatistics {
    /// Fewest keys that a query keeps.
    pub least_kept: usize,
    /// Most keys that a query keeps.
    pub most_kept: usize,
    /// Dispersion δ: the greatest difference between two kept scores of a query.
    pub dispersion: f64,
    /// Separation Δ: the least gap between kept and dropped scores of a query. None where a change of the scores cannot
    /// exchange kept keys: nothing is dropped, or the pattern is fixed.
    pub separation: Option<f64>,
    /// Sink β: how many queries keep the most popular key, divided by [`least_kept`](Self::least_kept).
    pub sink: f64,
    /// The least value by which the norm before attention divides a token: its standard deviation, with ε under the root.
    pub least_deviation_attention: f64,
    /// The same for the norm before the MLP.
    pub least_deviation_mlp: f64,
}

/// How much a layer can enlarge a change: of its input (Frobenius norm over all tokens) or of its parameters (Frobenius
/// norm of a group). The change of the output is per token for parameters: `√tokens` times as much for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LayerFactors {
    /// Attention sublayer, input to output, the residual connection included.
    pub attention: f64,
    /// MLP sublayer, input to output, the residual connection included.
    pub mlp: f64,
    /// Matrices of the scores to the output of the attention sublayer.
    pub from_score: f64,
    /// Parameters of queries and keys to the output of the attention sublayer.
    pub from_w: f64,
    /// Parameters of values and output to the output of the attention sublayer.
    pub from_v: f64,
    /// Parameters of the MLP to the output of its sublayer.
    pub from_mlp: f64,
    /// The greatest norm that both sublayers together can add to a token.
    pub reach: f64,
}

/// Bounds on the Lipschitz constants of the loss in a layer, as decimal logarithms: of the cross-entropy of a sequence,
/// and so of the mean over sequences. Minus infinity where there is no influence, infinity where there is no bound (both
/// null in JSON).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LayerProfile {
    /// In the parameters of queries and keys together.
    pub w: f64,
    /// In the matrices of the scores, one for each head: queries' times keys', times the factor of the scores.
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
    /// Layer by layer.
    pub layers: Vec<LayerProfile>,
    /// In the embedding.
    pub embedding: f64,
    /// In the parameters of the classifier.
    pub classifier: f64,
    /// In all parameters together.
    pub all: f64,
}

/// The greatest slope of an activation, rounded up.
pub fn steepest(activation: Activation) -> f64 {
    match activation {
        Activation::Relu => 1.0,
        Activation::Gelu => 1.128_905, // at √2: Φ(√2) + √2 φ(√2)
        Activation::Mish => 1.088_500,
    }
}

impl LayerStatistics {
    /// The worse of both, for statements about a pair.
    pub fn worse(self, other: Self) -> Self {
        let sinks = self.sinks().max(other.sinks());
        let least_kept = self.least_kept.min(other.least_kept);
        LayerStatistics {
            least_kept,
            most_kept: self.most_kept.max(other.most_kept),
            dispersion: self.dispersion.max(other.dispersion),
            separation: self.separation.into_iter().chain(other.separation).reduce(f64::min),
            sink: sinks / least_kept as f64,
            least_deviation_attention: self.least_deviation_attention.min(other.least_deviation_attention),
            least_deviation_mlp: self.least_deviation_mlp.min(other.least_deviation_mlp),
        }
    }

    /// As the gradient sees it: kept keys stay as they are, so that their separation does not matter.
    pub fn with_kept_keys_held(self) -> Self {
        LayerStatistics { separation: None, ..self }
    }

    /// How many queries keep the most popular key.
    fn sinks(&self) -> f64 {
        self.sink * self.least_kept as f64
    }

    /// The greatest sum of the weights that one key can have over all queries that keep it at one end of a change.
    fn greatest_column(&self) -> f64 {
        self.sinks() * greatest_weight(self.dispersion, self.least_kept)
    }

    /// The same, over all queries that keep it at either end.
    fn greatest_joint_column(&self, tokens: usize) -> f64 {
        let sinks = if self.separation.is_some() { 2.0 * self.sinks() } else { self.sinks() };
        sinks.min(tokens as f64) * greatest_weight(self.dispersion, self.least_kept)
    }

    /// χ: the change of the weights for a change of the scores by 1. Kept keys contribute 1, the weight of a single key
    /// never changes; exchanged ones 2/Δ.
    fn response(&self) -> f64 {
        let kept = if self.most_kept > 1 { 1.0 } else { 0.0 };
        kept + self.separation.map_or(0.0, |separation| 2.0 / separation)
    }
}

impl LayerFactors {
    /// The factors of layer number `layer` for sequences of `tokens` tokens.
    pub fn of(norms: &ModelNorms, layer: usize, statistics: &LayerStatistics, tokens: usize) -> Self {
        let d = norms.width as f64;
        let LayerNorms { score, query, key, value, value_of_head, output, mlp_hidden, mlp_output } =
            &norms.layers[layer];
        // What the output changes by for a change of the scores by 1, root mean square over the weights.
        let from_scores = output.weight * value.weight * d.sqrt() * statistics.response();
        let as_query = d.sqrt();
        let as_key = ((d + 1.0) * statistics.greatest_joint_column(tokens)).sqrt();
        let as_value = output.weight * value.weight * statistics.greatest_column().sqrt();
        let attention = as_value + from_scores * root_of_squares(score) * (as_query + as_key);
        let from_score = from_scores * (d * (d + 1.0)).sqrt();
        let factors = query.iter().zip(key).map(|(query, key)| norms.score_scale * query.hypot(*key));
        let mixed = (1.0 + (d + 1.0) * root_of_squares(value_of_head).powi(2)).sqrt();
        let hidden = (1.0 + (d + 1.0) * mlp_hidden.with_bias.powi(2)).sqrt();
        let slope = steepest(norms.activation) * mlp_output.weight;
        LayerFactors {
            attention: 1.0 + attention / statistics.least_deviation_attention,
            mlp: 1.0 + slope * mlp_hidden.weight / statistics.least_deviation_mlp,
            from_score,
            from_w: from_score * factors.fold(0.0, f64::max),
            from_v: mixed.hypot(output.weight * (d + 1.0).sqrt()),
            from_mlp: hidden.hypot(slope * (d + 1.0).sqrt()),
            reach: output.with_bias * mixed + mlp_output.with_bias * hidden,
        }
    }
}

impl Profile {
    /// The bounds for a model with these norms, and statistics for each of its layers, on sequences of `tokens` tokens,
    /// global tokens included.
    ///
    /// # Panics
    /// If there are not as many statistics as layers, or no tokens.
    pub fn of(norms: &ModelNorms, statistics: &[LayerStatistics], tokens: usize) -> Self {
        assert_eq!(norms.layers.len(), statistics.len(), "statistics for every layer");
        assert!(tokens > 0, "there is at least one token");
        let factors: Vec<LayerFactors> = statistics
            .iter()
            .enumerate()
            .map(|(layer, statistics)| LayerFactors::of(norms, layer, statistics, tokens))
            .collect();
        let per_token = 0.5 * (tokens as f64).log10();
        // From the tokens to the loss; then from the end of the model to its beginning.
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
        let reach = farthest_start(norms) + factors.iter().map(|factors| factors.reach).sum::<f64>();
        let classifier = (2.0 * (1.0 + reach * reach)).log10() / 2.0;
        let embedding = after + per_token + 0.5 * (norms.width as f64).log10();
        let groups = layers.iter().flat_map(|layer| [layer.w, layer.v, layer.mlp]).chain([embedding, classifier]);
        let all = log_root_of_squares(groups.collect());
        Profile { layers, embedding, classifier, all }
    }
}

/// The greatest norm of a token before the first block: its embedding, and its position, whose sines and cosines come in
/// pairs of length 1.
fn farthest_start(norms: &ModelNorms) -> f64 {
    (norms.width as f64).sqrt() * norms.embedding + (norms.width.div_ceil(2) as f64).sqrt()
}

fn root_of_squares(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum::<f64>().sqrt()
}

/// The same for decimal logarithms, whose numbers may be beyond all numbers.
fn log_root_of_squares(logs: Vec<f64>) -> f64 {
    let greatest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if greatest.is_infinite() {
        return greatest;
    }
    let sum: f64 = logs.iter().map(|log| 10f64.powf(2.0 * (log - greatest))).sum();
    greatest + 0.5 * sum.log10()
}

/// The statistics of every layer for `tokens` of `[batch, length]`, through the reference form and without dropout.
pub fn measure(model: &Encoder, tokens: Tensor<2, Int>, pass: Pass) -> Vec<LayerStatistics> {
    measure_from(model, 0, model.embedded(tokens), pass).1
}

/// The logits for `x`, `[batch, length, d_model]`, as the input of block number `first`, and the statistics of this and
/// all later layers.
pub fn measure_from(model: &Encoder, first: usize, mut x: Tensor<3>, pass: Pass) -> (Tensor<2>, Vec<LayerStatistics>) {
    let pass = Pass { training: false, ..pass };
    let Attention { mechanism, spec, .. } = model.attention();
    let mut statistics = Vec::new();
    for (layer, block) in model.blocks.iter().enumerate().skip(first) {
        let key = pass.layer(layer);
        let settings = AttentionSettings { weight_dropout: Dropout::NONE, ..model.attention_settings(layer, &pass) };
        let before_attention = least_deviation(&x, settings.norm_epsilon);
        let trace;
        (x, trace) = reference::attention(x, &block.attention, mechanism.as_ref(), &settings, key, spec.globals);
        let settings = model.mlp_settings(&pass);
        let before_mlp = least_deviation(&x, settings.norm_epsilon);
        x = reference::mlp(x, &block.mlp, &settings, key);
        statistics.push(statistics_of(&trace, model.attention(), before_attention, before_mlp));
    }
    (model.classifier.forward_rows(x.mean_dim(1).squeeze_dim(1)), statistics)
}

/// The least `√(variance + ε)` of a token.
fn least_deviation(x: &Tensor<3>, epsilon: f64) -> f64 {
    let centred = x.clone().sub(x.clone().mean_dim(2));
    let deviations = centred.square().mean_dim(2).add_scalar(epsilon).sqrt();
    deviations.into_data().iter::<f64>().fold(f64::INFINITY, f64::min)
}

fn statistics_of(trace: &AttentionTrace, attention: &Attention, attention_norm: f64, mlp_norm: f64) -> LayerStatistics {
    let lowest = attention.info.name == "bottomk";
    let chooses = lowest || attention.info.family == Family::InputDependent;
    let worst = Worst::of(trace, lowest);
    LayerStatistics {
        least_kept: worst.least_kept,
        most_kept: worst.most_kept,
        dispersion: worst.dispersion,
        separation: worst.separation.filter(|_| chooses),
        sink: worst.sinks as f64 / worst.least_kept as f64,
        least_deviation_attention: attention_norm,
        least_deviation_mlp: mlp_norm,
    }
}

/// The worst over all queries of a layer, in double precision.
struct Worst {
    least_kept: usize,
    most_kept: usize,
    dispersion: f64,
    /// At least 0: a choice by scores that leaves no gap between kept and dropped ones has no bound.
    separation: Option<f64>,
    sinks: usize,
}

impl Worst {
    /// `lowest` if the lowest scores are kept: the highest of their negatives.
    fn of(trace: &AttentionTrace, lowest: bool) -> Self {
        let [_, _, queries, keys] = trace.scores.dims();
        let sign = if lowest { -1.0 } else { 1.0 };
        let scores: Vec<f64> = trace.scores.clone().into_data().iter::<f64>().map(|score| sign * score).collect();
        let kept: Vec<bool> = trace.kept.clone().into_data().iter::<bool>().collect();
        let mut worst = Worst { least_kept: keys, most_kept: 0, dispersion: 0.0, separation: None, sinks: 0 };
        for (scores, kept) in scores.chunks_exact(keys).zip(kept.chunks_exact(keys)) {
            let of = |wanted: bool| {
                scores.iter().zip(kept).filter(move |(_, kept)| **kept == wanted).map(|(score, _)| *score)
            };
            let (least, greatest) =
                (of(true).fold(f64::INFINITY, f64::min), of(true).fold(f64::NEG_INFINITY, f64::max));
            let count = of(true).count();
            (worst.least_kept, worst.most_kept) = (worst.least_kept.min(count), worst.most_kept.max(count));
            worst.dispersion = worst.dispersion.max(greatest - least);
            let gap = of(false).reduce(f64::max).map(|dropped| (least - dropped).max(0.0));
            worst.separation = worst.separation.into_iter().chain(gap).reduce(f64::min);
        }
        for head in kept.chunks_exact(queries * keys) {
            let popularity = |key| head.chunks_exact(keys).filter(|kept| kept[key]).count();
            worst.sinks = worst.sinks.max((0..keys).map(popularity).max().unwrap_or(0));
        }
        worst
    }
}

impl LayerStatistics {
    /// The worst that a probe saw of each layer, with the [kept keys held](Self::with_kept_keys_held). The deviations of
    /// the record are without ε, which is added here.
    fn from_probe(record: &ProbeRecord) -> Vec<Self> {
        let end = |values: &[f64], percent: f64| Summary::at(values, percent);
        let of_layer = |layer: &LayerRecord| {
            let [attention, mlp] =
                layer.least_deviations.map(|deviation| (deviation * deviation + NORM_EPSILON).sqrt());
            LayerStatistics {
                least_kept: record.least_kept,
                most_kept: record.kept,
                dispersion: end(&layer.all.dispersion, 100.0).unwrap_or(0.0),
                separation: None,
                sink: end(&layer.all.sink, 100.0).unwrap_or(0.0) / record.least_kept as f64,
                least_deviation_attention: attention,
                least_deviation_mlp: mlp,
            }
        };
        record.layers.iter().map(of_layer).collect()
    }
}

impl Profile {
    /// The profile of a probed model, as its gradient sees it: the kept keys stay as they are.
    pub fn from_probe(record: &ProbeRecord) -> Self {
        Profile::of(&record.norms, &LayerStatistics::from_probe(record), record.length)
    }
}

#[cfg(test)]
mod tests {
    use semfocus_nn::norms::LinearNorm;

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
        least_kept: 4,
        most_kept: 4,
        dispersion: 0.0,
        separation: None,
        sink: 1.0,
        least_deviation_attention: 2.0,
        least_deviation_mlp: 0.5,
    };

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-12 * b.abs().max(1.0), "{a}, expected {b}");
    }

    #[test]
    fn a_block_by_hand() {
        // All weights ¼, four queries: columns of 1. d = 3, so queries count √3 and keys 2.
        let factors = LayerFactors::of(&norms(1), 0, &STATISTICS, 4);
        let root = 3f64.sqrt();
        close(factors.attention, 1.0 + (2.0 + 2.0 * root * 0.5 * (root + 2.0)) / 2.0);
        close(factors.mlp, 1.0 + 2.0 * 1.5 / 0.5);
        close(factors.from_score, 2.0 * root * 2.0 * root);
        close(factors.from_w, factors.from_score * 0.1 * 5.0);
        close(factors.from_v, (1.0 + 4.0 * 4.0 + 4.0f64).sqrt());
        close(factors.from_mlp, (1.0 + 4.0 * 2.25 + 4.0 * 4.0f64).sqrt());
        close(factors.reach, 17f64.sqrt() + 2.0 * 10f64.sqrt());
        // The loss: √2 · √2 for the logits, a half for the mean of four tokens, which parameters move together.
        let profile = Profile::of(&norms(1), &[STATISTICS], 4);
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
            (LayerFactors::of(&norms(1), 0, &STATISTICS, 9), LayerFactors::of(&norms(1), 0, &sparse, 9));
        close(chosen.from_score, 5.0 * all.from_score);
        let held = LayerFactors::of(&norms(1), 0, &sparse.with_kept_keys_held(), 9);
        close(held.from_score, all.from_score);
        assert!(held.attention < all.attention, "fewer queries keep the same key");
        let single = LayerStatistics { least_kept: 1, most_kept: 1, ..STATISTICS };
        assert_eq!(LayerFactors::of(&norms(1), 0, &single, 9).from_w, 0.0, "the only key has weight 1");
        let touching = LayerStatistics { separation: Some(0.0), ..STATISTICS };
        assert_eq!(Profile::of(&norms(1), &[touching], 9).all, f64::INFINITY);
    }

    #[test]
    fn many_layers_do_not_overflow() {
        let profile = Profile::of(&norms(1000), &[STATISTICS; 1000], 4);
        let one = Profile::of(&norms(1), &[STATISTICS], 4).layers[0].x;
        assert!((profile.layers[0].x - 1000.0 * one).abs() < 1e-6 && profile.all > profile.layers[0].x);
        assert!(profile.layers.iter().is_sorted_by(|a, b| a.x > b.x));
    }

    #[test]
    fn the_worse_of_both() {
        let other = LayerStatistics {
            least_kept: 2,
            separation: Some(3.0),
            sink: 1.5,
            least_deviation_mlp: 0.25,
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

    #[test]
    fn slopes_of_activations_are_bounded_closely() {
        use burn::tensor::{DType, Device, TensorData};
        for activation in [Activation::Relu, Activation::Gelu, Activation::Mish] {
            let step = 1e-4;
            let points: Vec<f64> = (-100_000..=100_000).map(|i| i as f64 * step).collect();
            let data = TensorData::new(points.clone(), [1, 1, points.len()]);
            let values = reference::activate(Tensor::from_data(data, (&Device::flex(), DType::F64)), activation);
            let values: Vec<f64> = values.into_data().iter::<f64>().collect();
            let greatest = values.windows(2).map(|pair| (pair[1] - pair[0]).abs() / step).fold(0.0, f64::max);
            let bound = steepest(activation);
            assert!(greatest <= bound + 1e-9 && greatest > bound - 1e-5, "{activation:?}: {greatest}, {bound}");
            let no_larger = values.iter().zip(&points).all(|(value, point)| value.abs() <= point.abs());
            assert!(no_larger, "{activation:?} never exceeds its argument");
        }
    }
}
