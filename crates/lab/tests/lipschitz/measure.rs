//! The statistics that the bounds depend on, measured with the reference form.

use burn::tensor::{Int, Tensor};
use semfocus_analysis::theory::lipschitz::LayerStatistics;
use semfocus_nn::conformance::ZipEq;
use semfocus_nn::{Attention, AttentionTrace, Encoder, Family, Pass};

/// The statistics of every layer for `tokens`, `[batch, length]`, without dropout.
pub(crate) fn measure(model: &Encoder, tokens: Tensor<2, Int>, pass: Pass) -> Vec<LayerStatistics> {
    measure_from(model, 0, model.embedded(tokens), pass).1
}

/// The logits for `x`, `[batch, length, d_model]`, as the input of block number `first`, and the statistics of this block and
/// all later ones.
pub(crate) fn measure_from(
    model: &Encoder,
    first: usize,
    x: Tensor<3>,
    pass: Pass,
) -> (Tensor<2>, Vec<LayerStatistics>) {
    let pass = Pass { training: false, ..pass };
    let (logits, layers) = model.trace(first, x, None, pass);
    let root = |deviation: f64, epsilon: f64| (deviation * deviation + epsilon).sqrt();
    let statistics = (first..).zip(&layers).map(|(layer, trace)| {
        let [attention, mlp] = trace.min_deviations;
        let attention = root(attention, model.attention_settings(layer, &pass).norm_epsilon);
        let mlp = root(mlp, model.mlp_settings(&pass).norm_epsilon);
        statistics_of(&trace.attention, model.attention().of_block(layer), attention, mlp)
    });
    (logits, statistics.collect())
}

fn statistics_of(trace: &AttentionTrace, attention: &Attention, attention_norm: f64, mlp_norm: f64) -> LayerStatistics {
    let lowest = attention.info.name == "bottomk";
    let chooses = lowest || attention.info.family == Family::InputDependent;
    let worst = Worst::new(trace, lowest);
    LayerStatistics {
        min_kept: worst.min_kept,
        max_kept: worst.max_kept,
        dispersion: worst.dispersion,
        separation: worst.separation.filter(|_| chooses),
        sink: worst.sinks as f64 / worst.min_kept as f64,
        min_deviation_attention: attention_norm,
        min_deviation_mlp: mlp_norm,
    }
}

/// The worst over all queries of a layer, in double precision.
struct Worst {
    min_kept: usize,
    max_kept: usize,
    dispersion: f64,
    /// 0 if there is no gap between kept and dropped scores: then there is no bound.
    separation: Option<f64>,
    sinks: usize,
}

impl Worst {
    /// With `lowest` the lowest scores are kept, that is the highest of their negatives.
    fn new(trace: &AttentionTrace, lowest: bool) -> Self {
        let [_, _, queries, keys] = trace.scores.dims();
        let sign = if lowest { -1.0 } else { 1.0 };
        let scores: Vec<f64> = trace.scores.clone().into_data().iter::<f64>().map(|score| sign * score).collect();
        let kept: Vec<bool> = trace.kept.clone().into_data().iter::<bool>().collect();
        let mut worst = Worst { min_kept: keys, max_kept: 0, dispersion: 0.0, separation: None, sinks: 0 };
        for (scores, kept) in scores.chunks_exact(keys).zip_eq(kept.chunks_exact(keys)) {
            let of = |wanted: bool| {
                scores.iter().zip_eq(kept).filter(move |(_, kept)| **kept == wanted).map(|(score, _)| *score)
            };
            let (min, max) = (of(true).fold(f64::INFINITY, f64::min), of(true).fold(f64::NEG_INFINITY, f64::max));
            let count = of(true).count();
            (worst.min_kept, worst.max_kept) = (worst.min_kept.min(count), worst.max_kept.max(count));
            worst.dispersion = worst.dispersion.max(max - min);
            let gap = of(false).reduce(f64::max).map(|dropped| (min - dropped).max(0.0));
            worst.separation = worst.separation.into_iter().chain(gap).reduce(f64::min);
        }
        for head in kept.chunks_exact(queries * keys) {
            let popularity = |key| head.chunks_exact(keys).filter(|kept| kept[key]).count();
            worst.sinks = worst.sinks.max((0..keys).map(popularity).max().unwrap_or(0));
        }
        worst
    }
}
