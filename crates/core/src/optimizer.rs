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

/// The parameters that weight decay applies to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decayed {
    /// All of them, as in an optimiser of PyTorch with one parameter group.
    #[default]
    All,
    /// The weights of the maps, the embedding and learned positions, as is usual for GPT-2; not biases, scales and shifts of
    /// norms, and parameters of mechanisms.
    Matrices,
}

impl Decayed {
    /// The choices and how they are written.
    pub const NAMES: &'static [(&'static str, Decayed)] = &[("all", Decayed::All), ("matrices", Decayed::Matrices)];

    /// Whether the decay applies to a parameter, such as `blocks.0.attention.query.weight`.
    pub fn includes(self, name: &str) -> bool {
        self == Decayed::All || name.ends_with(".weight") || ["embedding", "positions"].contains(&name)
    }
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
    /// What it applies to.
    pub weight_decay_of: Decayed,
    /// Factors of the learning rate for groups of parameters.
    pub lr_factors: LrFactors,
}

/// Factors of the learning rate, one for each kind of parameter. As with a parameter group of PyTorch whose rate is
/// `lr · factor`, everything that is multiplied by the learning rate is multiplied by the factor: the update itself, and the
/// decoupled weight decay of AdamW. Parameters with factor 0 keep their initial values. Gradients are clipped before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LrFactors {
    /// The embedding of the tokens, global ones included.
    pub embedding: f64,
    /// The map to the queries of every block: weight and bias, as in all maps below.
    pub query: f64,
    /// The map to the keys.
    pub key: f64,
    /// The map to the values.
    pub value: f64,
    /// The map from the heads of an attention sublayer back to the width of the model.
    pub output: f64,
    /// The map to the hidden layer of the MLP.
    pub hidden: f64,
    /// The map from the hidden layer of the MLP back to the width of the model.
    pub mlp_output: f64,
    /// The map to the logits. Weights that are tied to the embedding belong to that.
    pub classifier: f64,
    /// Learned positions.
    pub positions: f64,
    /// Scales and shifts of the norms.
    pub norms: f64,
    /// Parameters that belong to the attention mechanism, if it has any.
    pub mechanism: f64,
}

impl Default for LrFactors {
    fn default() -> Self {
        LrFactors {
            embedding: 1.0,
            query: 1.0,
            key: 1.0,
            value: 1.0,
            output: 1.0,
            hidden: 1.0,
            mlp_output: 1.0,
            classifier: 1.0,
            positions: 1.0,
            norms: 1.0,
            mechanism: 1.0,
        }
    }
}

impl LrFactors {
    /// The factor of a parameter, such as `blocks.0.attention.query.weight`; none if it is of no kind that has one.
    pub fn for_parameter(&self, name: &str) -> Option<f64> {
        let mut parts = name.split('.');
        Some(match parts.next()? {
            "embedding" => self.embedding,
            "positions" => self.positions,
            "norm" => self.norms,
            "classifier" => self.classifier,
            "blocks" => match (parts.nth(1)?, parts.next()?) {
                ("attention", "query") => self.query,
                ("attention", "key") => self.key,
                ("attention", "value") => self.value,
                ("attention", "output") => self.output,
                ("attention", "mechanism") => self.mechanism,
                ("attention" | "mlp", "norm") => self.norms,
                ("mlp", "hidden") => self.hidden,
                ("mlp", "output") => self.mlp_output,
                _ => return None,
            },
            _ => return None,
        })
    }
}

impl Default for OptimizerConfig {
    fn default() -> Self {
        OptimizerConfig {
            rule: Rule::Sgd,
            momentum: 0.0,
            beta1: 0.9,
            beta2: 0.999,
            epsilon: 1e-8,
            weight_decay: 0.0,
            weight_decay_of: Decayed::All,
            lr_factors: LrFactors::default(),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decay_of_matrices_leaves_out_biases_norms_and_mechanisms() {
        for name in ["embedding", "positions", "blocks.0.attention.query.weight", "classifier.weight"] {
            assert!(Decayed::Matrices.includes(name), "{name}");
        }
        for name in
            ["blocks.0.mlp.hidden.bias", "norm.scale", "blocks.0.mlp.norm.shift", "blocks.1.attention.mechanism"]
        {
            assert!(!Decayed::Matrices.includes(name) && Decayed::All.includes(name), "{name}");
        }
    }

    #[test]
    fn factors_are_found_by_the_names_of_parameters() {
        let factors = LrFactors {
            embedding: 1.0,
            query: 2.0,
            key: 3.0,
            value: 4.0,
            output: 5.0,
            hidden: 6.0,
            mlp_output: 7.0,
            classifier: 8.0,
            positions: 10.0,
            norms: 11.0,
            mechanism: 9.0,
        };
        for (name, factor) in [
            ("embedding", 1.0),
            ("blocks.0.attention.query.weight", 2.0),
            ("blocks.11.attention.query.bias", 2.0),
            ("blocks.0.attention.key.weight", 3.0),
            ("blocks.3.attention.value.bias", 4.0),
            ("blocks.0.attention.output.weight", 5.0),
            ("blocks.0.mlp.hidden.bias", 6.0),
            ("blocks.0.mlp.output.weight", 7.0),
            ("classifier.weight", 8.0),
            ("classifier.bias", 8.0),
            ("blocks.2.attention.mechanism", 9.0),
            ("blocks.2.attention.mechanism.scale", 9.0),
            ("positions", 10.0),
            ("norm.shift", 11.0),
            ("blocks.0.attention.norm.scale", 11.0),
            ("blocks.7.mlp.norm.shift", 11.0),
        ] {
            assert_eq!(factors.for_parameter(name), Some(factor), "{name}");
        }
        for name in ["", "blocks", "blocks.0", "blocks.0.attention", "blocks.0.mlp.query.weight", "query", "scale"] {
            assert_eq!(factors.for_parameter(name), None, "{name}");
        }
    }
}
