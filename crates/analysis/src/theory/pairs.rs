//! Models with full and with sparse attention side by side: the study's Table 6 at every epoch at which both were probed.

use semfocus_core::Point;
use semfocus_store::TrialData;
use semfocus_store::records::{ProbeRecord, Summary};
use serde::Serialize;

use super::conditions::{Conditions, Statistics};
use crate::evidence::{BASELINE, Evidence, Observed, PointEvidence};

/// Smaller separations are rounding errors and are raised to this.
const MIN_SEPARATION: f64 = 1e-9;

/// The quantiles of the table, in per cent.
pub const TABLE_QUANTILES: [f64; 4] = [75.0, 90.0, 95.0, 100.0];

/// How a speed-up is predicted, as users read it.
pub const PREDICTION_RULE: &str = "The prediction is the ratio of the two guarantees in the attention parameters, \
    exp(δs − δh) / (2 (1 + 1/Δ)), at the 75 % quantile of the last epoch at which both models were probed. A guarantee is an upper bound \
    on the sensitivity of the loss, so the ratio of two guarantees need not be the ratio of two learning times.";

/// A row of the study's Table 6.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Row {
    /// In per cent.
    pub quantile: f64,
    /// Dispersion of full attention at this quantile.
    pub full_dispersion: f64,
    /// Dispersion of the kept scores at this quantile.
    pub dispersion: f64,
    /// Separation at the opposite quantile, at least 1e-9.
    pub separation: f64,
    /// Sink count at this quantile.
    pub sink: f64,
    /// With the sink count divided by k.
    pub conditions: Conditions,
}

impl Row {
    /// The ratio of the guarantees of full and of sparse attention in the attention parameters.
    pub fn predicted_ratio(&self) -> f64 {
        (self.full_dispersion * (1.0 - self.conditions.w_lhs)).exp()
    }
}

/// The rows for a pair of models. Empty where a statistic is missing or out of range, as for a mechanism that does not keep the
/// highest scores, and for weights that are not a softmax, which the conditions do not speak of.
pub fn table(full: &ProbeRecord, sparse: &ProbeRecord) -> Vec<Row> {
    let is_softmax = sparse.layers.iter().all(|layer| layer.is_softmax);
    let (k, full, sparse) = (sparse.kept as f64, &full.pooled, &sparse.pooled);
    if !is_softmax || sparse.separation.first().is_none_or(|min| *min < 0.0) {
        return Vec::new();
    }
    let row = |quantile: f64| {
        let statistics = Statistics {
            full_dispersion: Summary::at(&full.dispersion, quantile)?,
            dispersion: Summary::at(&sparse.dispersion, quantile)?,
            separation: Summary::at(&sparse.separation, 100.0 - quantile)?.max(MIN_SEPARATION),
            sink: Summary::at(&sparse.sink, quantile)? / k,
        };
        let conditions = Conditions::new(&statistics).ok()?;
        let Statistics { full_dispersion, dispersion, separation, sink } = statistics;
        Some(Row { quantile, full_dispersion, dispersion, separation, sink: sink * k, conditions })
    };
    TABLE_QUANTILES.into_iter().filter_map(row).collect()
}

/// A trial paired with the trial of full attention with the same seed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pair {
    /// Of the trial that is not full attention.
    pub mechanism: String,
    /// The seed of both.
    pub seed: u64,
    /// Values on the axes of the grid.
    #[serde(skip)]
    pub point: Point,
    /// The table at every epoch at which both were probed, in ascending order.
    pub epochs: Vec<PairAt>,
    /// Speed-up in epochs to the target; none unless both reached it.
    pub measured_speedup: Option<f64>,
}

/// A pair at an epoch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PairAt {
    /// Epochs of training.
    pub epoch: usize,
    /// Empty where the conditions do not apply.
    pub rows: Vec<Row>,
}

impl Pair {
    /// The row at the 75 % quantile of the last epoch.
    pub fn last_row(&self) -> Option<&Row> {
        self.epochs.last()?.rows.first()
    }

    /// Whether the conditions apply to this mechanism.
    pub fn has_conditions(&self) -> bool {
        self.epochs.iter().any(|at| !at.rows.is_empty())
    }
}

/// All probed pairs of a run.
pub fn pairs(evidence: &Evidence) -> Vec<Pair> {
    evidence.points.iter().flat_map(pairs_at).collect()
}

fn pairs_at(point: &PointEvidence) -> Vec<Pair> {
    let others = point.trials.iter().filter(|observed| observed.trial.entry.mechanism != BASELINE);
    let pair = |other: &Observed| {
        let entry = &other.trial.entry;
        let is_partner = |observed: &&Observed| {
            observed.trial.entry.mechanism == BASELINE && observed.trial.entry.seed == entry.seed
        };
        let full = point.trials.iter().find(is_partner)?;
        let epochs = common_epochs(&full.trial, &other.trial);
        (!epochs.is_empty()).then(|| Pair {
            mechanism: entry.mechanism.clone(),
            seed: entry.seed,
            point: point.point.clone(),
            epochs,
            measured_speedup: measured_speedup(full, other),
        })
    };
    others.filter_map(pair).collect()
}

fn common_epochs(full: &TrialData, other: &TrialData) -> Vec<PairAt> {
    let at = |record: &ProbeRecord| {
        let partner = full.probes.iter().find(|full| full.epoch == record.epoch)?;
        Some(PairAt { epoch: record.epoch, rows: table(partner, record) })
    };
    other.probes.iter().filter_map(at).collect()
}

fn measured_speedup(full: &Observed, other: &Observed) -> Option<f64> {
    let time = |observed: &Observed| observed.measures.as_ref().map(|measures| measures.time_to_target);
    let (full, other) = (time(full)?, time(other)?);
    (full.reached && other.reached && other.time > 0.0).then(|| full.time / other.time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use semfocus_fixture::probe;

    #[test]
    fn a_pair_gives_the_rows_of_the_table() {
        // The statistics published for ListOps at 75 %, at all quantiles.
        let full = probe(1, 600, 8.61, None, 600.0);
        let rows = table(&full, &probe(1, 5, 3.51, Some(0.016), 1.0));
        assert_eq!(rows.len(), 4);
        assert!((rows[0].conditions.w_lhs - 0.9703).abs() < 1e-4 && (rows[0].conditions.x_lhs - 0.8982).abs() < 1e-4);
        // e^(8.61 − 3.51) / (2 · 63.5) = 164.02 / 127.
        assert!((rows[0].predicted_ratio() - 1.2915).abs() < 1e-3, "{}", rows[0].predicted_ratio());
        assert!(table(&full, &full).is_empty(), "no separation, no rows");
        assert!(table(&full, &probe(1, 5, 3.51, Some(-1.0), 1.0)).is_empty(), "nor if it is negative");
    }
}
