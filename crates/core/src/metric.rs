//! What every epoch records, and targets: a metric and the value it is to reach. A trial may end early at a target, and
//! comparisons ask when it was reached.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::names::nearest;

/// Loss and accuracy over some examples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Mean cross-entropy.
    pub loss: f64,
    /// Share of correct answers.
    pub accuracy: f64,
}

/// What is recorded of an epoch: a line of `epochs.csv`, whose columns are named like the fields.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochRecord {
    /// Number of the epoch, from 1; 0 stands for the untrained model.
    pub epoch: usize,
    /// The learning rate of its last step; 0 in epoch 0.
    pub lr: f64,
    /// Mean loss over the whole training set after it, in evaluation mode.
    pub train_loss: f64,
    /// Share of the training set that is classified correctly.
    pub train_accuracy: f64,
    /// Mean loss over the whole held-out set.
    pub heldout_loss: f64,
    /// Share of the held-out set that is classified correctly.
    pub heldout_accuracy: f64,
    /// Joint norm of the gradients before clipping, mean over the steps of the epoch; 0 in epoch 0.
    pub grad_norm: f64,
    /// Wall-clock time of the epoch: training and evaluation.
    pub seconds: f64,
    /// Training steps from the start of the trial to the end of the epoch.
    pub steps: u64,
}

/// Losses and accuracies after an epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metrics {
    /// Mean loss over the training set.
    pub train_loss: f64,
    /// Share of the training set that is classified correctly.
    pub train_accuracy: f64,
    /// Mean loss over the held-out set.
    pub heldout_loss: f64,
    /// Share of the held-out set that is classified correctly.
    pub heldout_accuracy: f64,
}

impl EpochRecord {
    /// Its losses and accuracies.
    pub fn metrics(&self) -> Metrics {
        let EpochRecord { train_loss, train_accuracy, heldout_loss, heldout_accuracy, .. } = *self;
        Metrics { train_loss, train_accuracy, heldout_loss, heldout_accuracy }
    }
}

/// A number that every epoch records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Mean loss over the training set.
    TrainLoss,
    /// Share of the training set that is classified correctly.
    TrainAccuracy,
    /// Mean loss over the held-out set.
    HeldoutLoss,
    /// Share of the held-out set that is classified correctly.
    HeldoutAccuracy,
}

impl Metric {
    /// All metrics, in the order of their columns.
    pub const ALL: [Metric; 4] =
        [Metric::TrainLoss, Metric::TrainAccuracy, Metric::HeldoutLoss, Metric::HeldoutAccuracy];

    /// Its column in `epochs.csv`.
    pub fn name(self) -> &'static str {
        match self {
            Metric::TrainLoss => "train_loss",
            Metric::TrainAccuracy => "train_accuracy",
            Metric::HeldoutLoss => "heldout_loss",
            Metric::HeldoutAccuracy => "heldout_accuracy",
        }
    }

    /// Whether more is better.
    pub fn is_accuracy(self) -> bool {
        matches!(self, Metric::TrainAccuracy | Metric::HeldoutAccuracy)
    }

    /// Its value after an epoch.
    pub fn of(self, metrics: &Metrics) -> f64 {
        match self {
            Metric::TrainLoss => metrics.train_loss,
            Metric::TrainAccuracy => metrics.train_accuracy,
            Metric::HeldoutLoss => metrics.heldout_loss,
            Metric::HeldoutAccuracy => metrics.heldout_accuracy,
        }
    }
}

/// A target such as `train_accuracy >= 0.99` or `heldout_loss <= 0.1`: accuracies rise to it, losses fall to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// What is measured.
    pub metric: Metric,
    /// The value to reach.
    pub value: f64,
}

impl Goal {
    /// Whether an epoch reached the target.
    pub fn is_reached(&self, metrics: &Metrics) -> bool {
        let value = self.metric.of(metrics);
        if self.metric.is_accuracy() { value >= self.value } else { value <= self.value }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.metric.name(), if self.metric.is_accuracy() { ">=" } else { "<=" }, self.value)
    }
}

impl FromStr for Goal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let example = "write for instance `train_accuracy >= 0.99` or `heldout_loss <= 0.1`";
        let wrong = || format!("`{text}` is not a target; {example}");
        let (name, is_at_least, value) = match (text.split_once(">="), text.split_once("<=")) {
            (Some((name, value)), None) => (name.trim(), true, value.trim()),
            (None, Some((name, value))) => (name.trim(), false, value.trim()),
            _ => return Err(wrong()),
        };
        let names = Metric::ALL.map(Metric::name);
        let metric = Metric::ALL.into_iter().find(|metric| metric.name() == name).ok_or_else(|| {
            let hint = nearest(name, names).map_or(String::new(), |near| format!("did you mean `{near}`? "));
            format!("there is no metric `{name}`; {hint}the metrics are {}", names.join(", "))
        })?;
        if metric.is_accuracy() != is_at_least {
            return Err(format!("accuracies rise and losses fall: {example}"));
        }
        let value: f64 = value.parse().ok().filter(|value: &f64| value.is_finite()).ok_or_else(wrong)?;
        if metric.is_accuracy() && !(0.0..=1.0).contains(&value) {
            return Err(format!("an accuracy is a fraction from 0 to 1, got {value}"));
        }
        Ok(Goal { metric, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(accuracy: f64, loss: f64) -> Metrics {
        Metrics { train_loss: loss, train_accuracy: accuracy, heldout_loss: 9.0, heldout_accuracy: 0.0 }
    }

    #[test]
    fn goals_are_read_and_reached() {
        let goal: Goal = "train_accuracy>=0.95".parse().unwrap();
        assert_eq!(goal.to_string(), "train_accuracy >= 0.95");
        assert!(goal.is_reached(&record(0.95, 1.0)) && !goal.is_reached(&record(0.949, 0.0)));
        let goal: Goal = "train_loss <= 0.1".parse().unwrap();
        assert!(goal.is_reached(&record(0.0, 0.1)) && !goal.is_reached(&record(1.0, 0.11)));
        assert!(!goal.is_reached(&record(1.0, f64::NAN)));
    }

    #[test]
    fn senseless_goals_are_refused() {
        let message = |text: &str| text.parse::<Goal>().unwrap_err();
        assert!(message("train_acuracy >= 0.9").contains("did you mean `train_accuracy`?"));
        assert!(message("train_accuracy <= 0.9").contains("accuracies rise"));
        assert!(message("train_accuracy >= 95").contains("from 0 to 1"));
        assert_eq!(
            message("speed >= 0.9"),
            "there is no metric `speed`; the metrics are train_loss, train_accuracy, heldout_loss, heldout_accuracy"
        );
        assert!(message("soon").contains("is not a target"));
        assert!(message("train_loss <= nan").contains("is not a target"));
    }
}
