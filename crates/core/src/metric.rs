//! What every epoch records.

use std::collections::BTreeMap;
use std::ops::{Index, IndexMut, RangeInclusive};

use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Loss and accuracy over some examples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Mean cross-entropy.
    pub loss: f64,
    /// Share of correct answers.
    pub accuracy: f64,
}

/// A number that every epoch records. [`METRICS`] says what each of them is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// The learning rate of the last step; 0 in epoch 0.
    Lr,
    /// Mean loss over the whole training set after the epoch, in evaluation mode.
    TrainLoss,
    /// Share of the training set that is classified correctly.
    TrainAccuracy,
    /// Mean loss over the whole held-out set.
    HeldoutLoss,
    /// Share of the held-out set that is classified correctly.
    HeldoutAccuracy,
    /// Joint norm of the gradients before clipping, mean over the steps of the epoch; 0 in epoch 0.
    GradNorm,
}

/// What is to be known of a metric. Files, checks, targets, comparisons and figures follow from it.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricInfo {
    /// Which metric it is.
    pub metric: Metric,
    /// Its column in `epochs.csv` and its field in JSON.
    pub name: &'static str,
    /// Its name for people.
    pub words: &'static str,
    /// Which values are better; none if that cannot be said. Only what can be better can be a target.
    pub better: Option<Better>,
    /// Whether it is a share, which is written in per cent for people.
    pub is_share: bool,
    /// The values that it can have. All of them are finite.
    pub range: RangeInclusive<f64>,
}

/// Which values of a metric are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// It rises to a target.
    Higher,
    /// It falls to a target.
    Lower,
}

/// All metrics, in the order of their columns. To add one, add a variant and its entry here, compute it in the trainer, and raise the
/// version of the format of `epochs.csv`.
pub const METRICS: [MetricInfo; 6] = [
    size(Metric::Lr, "lr", "learning rate"),
    loss(Metric::TrainLoss, "train_loss", "training loss"),
    accuracy(Metric::TrainAccuracy, "train_accuracy", "training accuracy"),
    loss(Metric::HeldoutLoss, "heldout_loss", "held-out loss"),
    accuracy(Metric::HeldoutAccuracy, "heldout_accuracy", "held-out accuracy"),
    size(Metric::GradNorm, "grad_norm", "norm of the gradient"),
];

const fn size(metric: Metric, name: &'static str, words: &'static str) -> MetricInfo {
    MetricInfo { metric, name, words, better: None, is_share: false, range: 0.0..=f64::MAX }
}

const fn loss(metric: Metric, name: &'static str, words: &'static str) -> MetricInfo {
    MetricInfo { metric, name, words, better: Some(Better::Lower), is_share: false, range: f64::MIN..=f64::MAX }
}

const fn accuracy(metric: Metric, name: &'static str, words: &'static str) -> MetricInfo {
    MetricInfo { metric, name, words, better: Some(Better::Higher), is_share: true, range: 0.0..=1.0 }
}

impl Metric {
    /// What is known of it.
    pub fn info(self) -> &'static MetricInfo {
        const { &METRICS }.get(self as usize).expect("every metric has an entry")
    }

    /// Its column in `epochs.csv`.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// Metrics that say how good a model is, in the order of their columns. They can be targets, and the record keeps them.
    pub fn of_quality() -> impl Iterator<Item = &'static MetricInfo> {
        const { &METRICS }.iter().filter(|info| info.better.is_some())
    }
}

/// The metrics of an epoch. A source that does not know one, such as the record of the study, has NaN there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metrics([f64; METRICS.len()]);

impl Metrics {
    /// Each metric has the value that `value` gives for it.
    pub fn new(value: impl FnMut(Metric) -> f64) -> Self {
        Metrics(METRICS.map(|info| info.metric).map(value))
    }

    /// Whether all of them are finite; those of a model that diverged are not.
    pub fn are_finite(&self) -> bool {
        self.0.iter().all(|value| value.is_finite())
    }

    /// The metrics with their values, in the order of their columns.
    pub fn iter(&self) -> impl Iterator<Item = (&'static MetricInfo, f64)> {
        const { &METRICS }.iter().zip(self.0)
    }
}

impl Index<Metric> for Metrics {
    type Output = f64;

    fn index(&self, metric: Metric) -> &f64 {
        &self.0[metric as usize]
    }
}

impl IndexMut<Metric> for Metrics {
    fn index_mut(&mut self, metric: Metric) -> &mut f64 {
        &mut self.0[metric as usize]
    }
}

impl Serialize for Metrics {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(info, value)| (info.name, value)))
    }
}

impl<'de> Deserialize<'de> for Metrics {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// What an epoch is written with may have other fields, such as the checksum of its line.
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Field {
            Number(f64),
            Other(IgnoredAny),
        }
        let fields = BTreeMap::<String, Field>::deserialize(deserializer)?;
        let mut missing = None;
        let metrics = Metrics::new(|metric| match fields.get(metric.name()) {
            Some(Field::Number(number)) => *number,
            _ => {
                missing = Some(metric.name());
                f64::NAN
            }
        });
        missing.map_or(Ok(metrics), |name| Err(D::Error::missing_field(name)))
    }
}

/// What is recorded of an epoch: a line of `epochs.csv`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochRecord {
    /// Number of the epoch, from 1; 0 stands for the untrained model.
    pub epoch: usize,
    /// What was measured.
    #[serde(flatten)]
    pub metrics: Metrics,
    /// Wall-clock time of the epoch: training and evaluation.
    pub seconds: f64,
    /// Training steps from the start of the trial to the end of the epoch.
    pub steps: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(accuracy: f64, loss: f64) -> Metrics {
        Metrics::new(|metric| match metric {
            Metric::TrainLoss => loss,
            Metric::TrainAccuracy => accuracy,
            Metric::HeldoutLoss => 9.0,
            _ => 0.0,
        })
    }

    #[test]
    fn a_line_may_have_more_fields() {
        let epoch = EpochRecord { epoch: 3, metrics: record(0.5, 0.25), seconds: 1.5, steps: 30 };
        let text = toml::to_string(&epoch).unwrap();
        let more = format!("event = \"epoch\"\n{text}check = \"7f\"\n");
        assert_eq!(toml::from_str::<EpochRecord>(&more).unwrap(), epoch);
        let less = text.replace("train_loss", "loss");
        assert!(toml::from_str::<EpochRecord>(&less).unwrap_err().to_string().contains("train_loss"));
    }

    #[test]
    fn every_metric_has_its_entry() {
        for (place, info) in METRICS.iter().enumerate() {
            assert_eq!((info.metric as usize, info.metric.name()), (place, info.name));
        }
    }
}
