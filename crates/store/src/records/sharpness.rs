//! `sharpness.jsonl`: how curved the training loss is at models of a trial.

use serde::{Deserialize, Serialize};

use super::Measured;

/// A line of `sharpness.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SharpnessRecord {
    /// Epochs that the model was trained for.
    pub epoch: usize,
    /// Training examples: the first ones.
    pub samples: usize,
    /// Whether the products are exact but for rounding.
    pub exact: bool,
    /// Random vectors that the trace was estimated from.
    pub probes: usize,
    /// What was found.
    #[serde(flatten)]
    pub sharpness: Sharpness,
    /// Seconds that it took.
    pub seconds: f64,
}

impl Measured for SharpnessRecord {
    const FILE: &'static str = "sharpness.jsonl";

    fn epoch(&self) -> usize {
        self.epoch
    }

    /// Whether both are about the same model, examples and kind of differences.
    fn is_about_the_same(&self, other: &Self) -> bool {
        (self.epoch, self.samples, self.exact) == (other.epoch, other.samples, other.exact)
    }
}

/// How sharp the training loss is at the weights of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sharpness {
    /// The largest eigenvalues of the Hessian, largest first.
    pub eigenvalues: Vec<f64>,
    /// There is an eigenvalue within this distance of each.
    pub residuals: Vec<f64>,
    /// The minimum eigenvalue: negative where the loss falls on both sides.
    #[serde(rename = "least")]
    pub min: f64,
    /// There is an eigenvalue within this distance of it. The search does not wait for it to converge.
    #[serde(rename = "least_residual")]
    pub min_residual: f64,
    /// Sum of all eigenvalues.
    pub trace: f64,
    /// Standard error of the trace.
    pub trace_error: f64,
    /// Products with the Hessian, of two gradients each.
    pub products: usize,
    /// Length of the gradient.
    pub gradient_norm: f64,
    /// Mean loss.
    pub loss: f64,
}
