//! Probes: what the attention of a trained model does with its scores.
//!
//! Of every query and head: the dispersion of the kept scores, the separation from the dropped ones, the entropy of the
//! weights; of every key: how many queries keep it. Statistics are kept for each layer and query, scores are not.

use burn::module::Module;
use semfocus_lab::Trial;
use semfocus_lab::checkpoint::{Checkpoint, Refused};
use semfocus_lab::store::{CheckpointName, TrialFolder};
use semfocus_lab::training::{Trainer, TrainingError, batch_of};
use semfocus_nn::Pass;
use semfocus_nn::sublayer::AttentionTrace;
use serde::Serialize;

use crate::stats::quantile;
use crate::theory::conditions::{Conditions, Statistics};

/// The quantiles that are reported, in per cent.
pub const QUANTILES: [f64; 11] = [0.0, 1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 100.0];

/// Sequences that go through the model together.
const BATCH: usize = 10;

/// The least separation that counts: below it, numbers are rounding.
const LEAST_SEPARATION: f64 = 1e-9;

/// What the queries and keys of a layer showed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LayerProbe {
    /// Greatest less least kept score, of every query and head.
    pub dispersion: Vec<f64>,
    /// Least kept less greatest dropped score, of every query and head that drops any.
    pub separation: Vec<f64>,
    /// Entropy of the weights in nats, of every query and head.
    pub entropy: Vec<f64>,
    /// How many queries keep a key, of every key, head and sequence.
    pub sinks: Vec<f64>,
    /// Most keys that a query keeps.
    pub kept: usize,
}

impl LayerProbe {
    /// Adds what a trace shows.
    pub fn add(&mut self, trace: &AttentionTrace) {
        let [_, _, queries, keys] = trace.scores.dims();
        let floats = |tensor: burn::tensor::Tensor<4>| tensor.into_data().iter::<f64>().collect::<Vec<f64>>();
        let (scores, weights) = (floats(trace.scores.clone()), floats(trace.weights.clone()));
        let kept: Vec<bool> = trace.kept.clone().into_data().iter::<bool>().collect();
        for ((scores, weights), kept) in scores
            .chunks_exact(queries * keys)
            .zip(weights.chunks_exact(queries * keys))
            .zip(kept.chunks_exact(queries * keys))
        {
            self.add_head(scores, weights, kept, keys);
        }
    }

    /// Adds one head of one sequence: matrices of queries × keys.
    fn add_head(&mut self, scores: &[f64], weights: &[f64], kept: &[bool], keys: usize) {
        let mut popularity = vec![0.0; keys];
        for ((scores, weights), kept) in
            scores.chunks_exact(keys).zip(weights.chunks_exact(keys)).zip(kept.chunks_exact(keys))
        {
            let (mut least, mut greatest, mut dropped, mut count) =
                (f64::INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY, 0);
            for (key, (&score, &is_kept)) in scores.iter().zip(kept).enumerate() {
                if is_kept {
                    (least, greatest, count) = (least.min(score), greatest.max(score), count + 1);
                    popularity[key] += 1.0;
                } else {
                    dropped = dropped.max(score);
                }
            }
            self.kept = self.kept.max(count);
            self.dispersion.push(greatest - least);
            if count < keys {
                self.separation.push(least - dropped);
            }
            self.entropy.push(weights.iter().filter(|weight| **weight > 0.0).map(|weight| -weight * weight.ln()).sum());
        }
        self.sinks.extend(popularity);
    }

    fn join(&mut self, other: &LayerProbe) {
        self.dispersion.extend(&other.dispersion);
        self.separation.extend(&other.separation);
        self.entropy.extend(&other.entropy);
        self.sinks.extend(&other.sinks);
        self.kept = self.kept.max(other.kept);
    }

    /// Its quantiles, in the order of [`QUANTILES`].
    pub fn summary(&self) -> Summary {
        let quantiles = |values: &[f64]| QUANTILES.iter().filter_map(|q| quantile(values, q / 100.0)).collect();
        Summary {
            dispersion: quantiles(&self.dispersion),
            separation: quantiles(&self.separation),
            entropy: quantiles(&self.entropy),
            sink: quantiles(&self.sinks),
        }
    }
}

/// Quantiles of a layer or of all of them; empty where there is nothing, as for the separation of full attention.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Of the dispersion.
    pub dispersion: Vec<f64>,
    /// Of the separation.
    pub separation: Vec<f64>,
    /// Of the entropy.
    pub entropy: Vec<f64>,
    /// Of the sink counts.
    pub sink: Vec<f64>,
}

/// What the attention of a model does.
#[derive(Clone, Debug)]
pub struct Probe {
    /// Its mechanism.
    pub mechanism: String,
    /// Epochs it was trained for.
    pub epoch: usize,
    /// Sequences that were looked at.
    pub samples: usize,
    /// Layer by layer.
    pub layers: Vec<LayerProbe>,
}

/// Why a trial cannot be probed.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// Its files cannot be read.
    #[error(transparent)]
    Store(#[from] semfocus_lab::store::StoreError),
    /// Its settings make no trial any more.
    #[error("{0}")]
    Settings(String),
    /// Its model cannot be built.
    #[error(transparent)]
    Training(#[from] TrainingError),
    /// Its checkpoint cannot be used.
    #[error("{path}: {reason}")]
    Checkpoint {
        /// The file.
        path: String,
        /// Why.
        reason: Refused,
    },
}

impl Probe {
    /// Looks at the first `samples` training examples with the model of a checkpoint.
    pub fn of(folder: &TrialFolder, checkpoint: CheckpointName, samples: usize) -> Result<Self, ProbeError> {
        let trial = Trial::of(folder.settings()?).map_err(ProbeError::Settings)?;
        let path = folder.checkpoint(checkpoint);
        let refused = |reason| ProbeError::Checkpoint { path: path.display().to_string(), reason };
        let stored = Checkpoint::read(&path, Some(trial.id)).map_err(refused)?;
        let epoch = stored.progress.epoch;
        let mut trainer = Trainer::new(&trial)?;
        trainer.restore(stored).map_err(refused)?;
        let model = trainer.model().valid();
        let split = &trainer.data().train;
        let samples = samples.min(split.len());
        let mut layers = vec![LayerProbe::default(); trial.settings.model.blocks];
        for (number, first) in (0..samples).step_by(BATCH).enumerate() {
            let tokens = batch_of(split, first..samples.min(first + BATCH)).tokens;
            let (_, traces) = model.forward_traced(tokens, Pass::evaluation(trial.settings.seed, number as u64));
            for (layer, trace) in layers.iter_mut().zip(&traces) {
                layer.add(trace);
            }
        }
        Ok(Probe { mechanism: trial.settings.mechanism, epoch, samples, layers })
    }

    /// All layers together.
    pub fn pooled(&self) -> LayerProbe {
        let mut pooled = LayerProbe::default();
        self.layers.iter().for_each(|layer| pooled.join(layer));
        pooled
    }
}

/// A row of the study's Table 6.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The quantile, in per cent.
    pub quantile: f64,
    /// Dispersion of full attention at it.
    pub full_dispersion: f64,
    /// Dispersion of the kept scores at it.
    pub dispersion: f64,
    /// Separation at the opposite quantile, at least 1e-9.
    pub separation: f64,
    /// Sink count at it.
    pub sink: f64,
    /// Both conditions, with the sink count divided by k.
    pub conditions: Conditions,
}

/// The rows for a pair of models, at 75, 90, 95 and 100 per cent; none where a statistic is missing or makes no sense, as for
/// a mechanism that does not keep the highest scores.
pub fn table(full: &Probe, sparse: &Probe) -> Vec<Row> {
    let (full, sparse) = (full.pooled(), sparse.pooled());
    if sparse.separation.iter().any(|separation| *separation < 0.0) {
        return Vec::new();
    }
    let row = |percent: f64| {
        let q = percent / 100.0;
        let statistics = Statistics {
            full_dispersion: quantile(&full.dispersion, q)?,
            dispersion: quantile(&sparse.dispersion, q)?,
            separation: quantile(&sparse.separation, 1.0 - q)?.max(LEAST_SEPARATION),
            sink: quantile(&sparse.sinks, q)? / sparse.kept as f64,
        };
        let conditions = Conditions::of(&statistics).ok()?;
        let Statistics { full_dispersion, dispersion, separation, sink } = statistics;
        Some(Row {
            quantile: percent,
            full_dispersion,
            dispersion,
            separation,
            sink: sink * sparse.kept as f64,
            conditions,
        })
    };
    [75.0, 90.0, 95.0, 100.0].into_iter().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_of_a_head_by_hand() {
        // Two queries over three keys; the first keeps keys 0 and 2, the second all.
        let scores = [3.0, -1.0, 1.0, 0.0, 2.0, 5.0];
        let weights = [0.5, 0.0, 0.5, 0.0, 0.0, 1.0];
        let kept = [true, false, true, true, true, true];
        let mut probe = LayerProbe::default();
        probe.add_head(&scores, &weights, &kept, 3);
        assert_eq!(probe.dispersion, [2.0, 5.0]);
        assert_eq!(probe.separation, [2.0], "the second query drops nothing");
        assert_eq!(probe.sinks, [2.0, 1.0, 2.0]);
        assert!((probe.entropy[0] - 2f64.ln()).abs() < 1e-15 && probe.entropy[1] == 0.0);
        assert_eq!(probe.kept, 3);
        let summary = probe.summary();
        assert_eq!((summary.dispersion[0], summary.dispersion[5], summary.dispersion[10]), (2.0, 3.5, 5.0));
    }

    #[test]
    fn a_pair_gives_the_rows_of_the_table() {
        let probe = |mechanism: &str, dispersion: f64, separation: Option<f64>| Probe {
            mechanism: mechanism.to_owned(),
            epoch: 1,
            samples: 1,
            layers: vec![LayerProbe {
                dispersion: vec![dispersion; 4],
                separation: separation.into_iter().collect(),
                entropy: vec![1.0],
                sinks: vec![1.0; 4],
                kept: 5,
            }],
        };
        // The statistics published for ListOps at 75 %.
        let rows = table(&probe("full", 8.61, None), &probe("topk:5", 3.51, Some(0.016)));
        assert_eq!(rows.len(), 4);
        assert!((rows[0].conditions.w_lhs - 0.9703).abs() < 1e-4 && (rows[0].conditions.x_lhs - 0.8982).abs() < 1e-4);
        assert!(table(&probe("full", 8.61, None), &probe("full", 3.51, None)).is_empty(), "no separation, no rows");
        assert!(
            table(&probe("full", 8.61, None), &probe("banded:5", 3.51, Some(-1.0))).is_empty(),
            "nor if it is negative"
        );
    }
}
