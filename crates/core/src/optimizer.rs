//! Settings of the optimiser.

use serde::{Deserialize, Serialize};

/// The rule of an optimiser.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// Stochastic gradient descent, with momentum if asked for.
    #[default]
    Sgd,
    /// Adam; weight decay is added to the gradient.
    Adam,
    /// Adam with decoupled weight decay.
    AdamW,
}

/// Settings of an optimiser.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OptimizerConfig {
    /// Its rule.
    pub rule: Rule,
    /// Share of the last update that the next one keeps; SGD only.
    pub momentum: f64,
    /// Decay of the mean of gradients; Adam and AdamW only.
    pub beta1: f64,
    /// Decay of the mean of squared gradients; Adam and AdamW only.
    pub beta2: f64,
    /// Added to the root of the mean of squared gradients; Adam and AdamW only.
    pub epsilon: f64,
    /// Weight decay.
    pub weight_decay: f64,
}

impl Default for OptimizerConfig {
    fn default() -> Self {
        OptimizerConfig { rule: Rule::Sgd, momentum: 0.0, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.0 }
    }
}

impl OptimizerConfig {
    /// Names of the numbers that are kept for every parameter, in the order in which a checkpoint has them.
    pub fn slot_names(&self) -> &'static [&'static str] {
        match self.rule {
            Rule::Sgd if self.momentum == 0.0 => &[],
            Rule::Sgd => &["momentum"],
            Rule::Adam | Rule::AdamW => &["first_moment", "second_moment"],
        }
    }
}

impl Rule {
    /// The rules and how they are written.
    pub const NAMES: &'static [(&'static str, Rule)] =
        &[("sgd", Rule::Sgd), ("adam", Rule::Adam), ("adamw", Rule::AdamW)];
}
