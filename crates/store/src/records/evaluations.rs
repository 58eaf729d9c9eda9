//! `evaluations.jsonl`: models of a trial on other data than that of the trial.

use semfocus_core::Evaluation;
use serde::{Deserialize, Serialize};

use super::Measured;

/// A line of `evaluations.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvaluationRecord {
    /// Epochs that the model was trained for.
    pub epoch: usize,
    /// Settings of the data that differ from those of the trial, without `data.` before their names.
    pub data: toml::Table,
    /// Examples: the first ones of the held-out split. Data files may have fewer than were asked for.
    pub samples: usize,
    /// Share of the examples that belong to the most frequent class: what a model reaches that always gives the same answer.
    pub majority: f64,
    /// Loss and accuracy.
    #[serde(flatten)]
    pub evaluation: Evaluation,
    /// Seconds that it took.
    pub seconds: f64,
}

impl Measured for EvaluationRecord {
    const FILE: &'static str = "evaluations.jsonl";

    fn epoch(&self) -> usize {
        self.epoch
    }

    /// Whether both are about the same model and the same examples.
    fn is_about_the_same(&self, other: &Self) -> bool {
        (self.epoch, &self.data, self.samples) == (other.epoch, &other.data, other.samples)
    }
}
