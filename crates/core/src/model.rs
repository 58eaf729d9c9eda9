//! The settings of a model, with the defaults of the study.

use serde::{Deserialize, Serialize};

/// All settings of a model except its attention mechanism.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// Number of token ids in the data, the pad token included. Global tokens take the ids that follow.
    pub vocabulary: usize,
    /// Number of classes.
    pub classes: usize,
    /// Width of the model.
    pub d_model: usize,
    /// Width of one head. The study uses `d_model` whatever the number of heads: the default; the usual choice elsewhere
    /// is `d_model / heads`.
    pub d_head: Option<usize>,
    /// Heads of an attention sublayer.
    pub heads: usize,
    /// Blocks: an attention sublayer and an MLP sublayer each.
    pub blocks: usize,
    /// Width of the hidden layer of the MLP.
    pub d_mlp: usize,
    /// Activation of the MLP.
    pub activation: Activation,
    /// Probability with which dropout zeroes a value, at all of its five sites.
    pub dropout: f64,
    /// Factor of the scores.
    pub inverse_temperature: f64,
    /// Which keys a query can see.
    pub visibility: Visibility,
    /// Id of the pad token, if the data has one. It is a token like any other: there is no padding mask.
    pub pad_token: Option<usize>,
    /// Quirks of the published code to reproduce; none by default.
    pub quirks: Quirks,
    /// How the sublayers are computed.
    pub engine: Engine,
}

/// Added to the variance before the norms take its root.
pub const NORM_EPSILON: f64 = 1e-5;

/// Activation of the MLP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// `max(x, 0)`.
    #[default]
    Relu,
    /// `x Φ(x)` with the exact normal distribution function, not the tanh approximation.
    Gelu,
    /// `x tanh(ln(1 + eˣ))`.
    Mish,
}

/// Which keys a query can see, before a mechanism chooses among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Visibility {
    /// All tokens of the sequence.
    #[default]
    All,
    /// Itself and the tokens before it.
    Causal,
}

/// How the two sublayers are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// Fused operators on the CPU in f32; attention only for mechanisms with a fast form. Everything else, and other
    /// devices, through the reference.
    #[default]
    Fused,
    /// Plain tensor code: the definition, on any device.
    Reference,
}

/// Quirks of the published code. Each is a switch, so that its effect can be measured; none is on by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quirks {
    /// Dropout on the attention weights stays on during evaluation.
    pub dropout_in_evaluation: bool,
    /// The attention norm of the first block divides by the standard deviation alone. A constant row becomes NaN.
    pub first_norm_without_eps: bool,
    /// Sequences are padded with the pad token up to a multiple of the size of a mechanism that has one.
    pub pad_to_mask_multiple: bool,
}

impl Activation {
    /// The activations and how they are written.
    pub const NAMES: &'static [(&'static str, Activation)] =
        &[("relu", Activation::Relu), ("gelu", Activation::Gelu), ("mish", Activation::Mish)];
}

impl Visibility {
    /// The kinds of visibility and how they are written.
    pub const NAMES: &'static [(&'static str, Visibility)] =
        &[("all", Visibility::All), ("causal", Visibility::Causal)];

    /// Number of keys that query number `query` sees in a sequence of `length` tokens: those from the first on.
    pub fn keys(self, query: usize, length: usize) -> usize {
        match self {
            Visibility::All => length,
            Visibility::Causal => query + 1,
        }
    }
}

impl Engine {
    /// The engines and how they are written.
    pub const NAMES: &'static [(&'static str, Engine)] = &[("fused", Engine::Fused), ("reference", Engine::Reference)];
}

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// A number that must be positive is 0.
    #[error("`{field}` must be at least 1")]
    Zero {
        /// The setting.
        field: &'static str,
    },
    /// Dropout outside its range.
    #[error("`dropout` must be at least 0 and below 1, got {0}")]
    Dropout(f64),
    /// Inverse temperature outside its range.
    #[error("`inverse_temperature` must be a positive number, got {0}")]
    InverseTemperature(f64),
    /// A pad token that is not in the vocabulary.
    #[error("`pad_token` must be below the vocabulary size {vocabulary}, got {pad_token}")]
    PadToken {
        /// Given pad token.
        pad_token: usize,
        /// Size of the vocabulary.
        vocabulary: usize,
    },
    /// Global tokens, which are the last of a sequence, in a causal model.
    #[error(
        "global tokens are the last of a sequence and see all of it, so `visibility = \"causal\"` does not allow them; \
             leave `+gN` out"
    )]
    CausalGlobals,
    /// One attention for each block, of which there are more or fewer.
    #[error(
        "`{text}` gives {given} blocks their attention, and the model has {blocks} (`model.blocks`); write one mechanism for \
         each block, or one for all"
    )]
    Blocks {
        /// The attention as it is written.
        text: String,
        /// Number of mechanisms.
        given: usize,
        /// Number of blocks.
        blocks: usize,
    },
    /// Mechanisms with different numbers of global tokens in one model.
    #[error(
        "all blocks of a model, all stages of its training and its evaluation need the same number of global tokens, got \
         {0} and {1}"
    )]
    OtherGlobals(usize, usize),
    /// Padding to a multiple of a size that is not the same in all blocks.
    #[error("`quirks.pad_to_mask_multiple` needs the same size in all blocks, got {0} and {1}")]
    OtherSizes(usize, usize),
    /// Padding asked for without a token to pad with.
    #[error("`quirks.pad_to_mask_multiple` needs a `pad_token`")]
    NothingToPadWith,
}

impl ModelConfig {
    /// A score is this times the product of a query and a key.
    pub fn score_scale(&self) -> f64 {
        self.inverse_temperature / (self.head_width() as f64).sqrt()
    }

    /// The settings of the study for a task of `vocabulary` tokens and `classes` classes.
    pub fn new(vocabulary: usize, classes: usize) -> Self {
        ModelConfig {
            vocabulary,
            classes,
            d_model: 64,
            d_head: None,
            heads: 1,
            blocks: 5,
            d_mlp: 64,
            activation: Activation::default(),
            dropout: 0.01,
            inverse_temperature: 1.0,
            visibility: Visibility::default(),
            pad_token: None,
            quirks: Quirks::default(),
            engine: Engine::default(),
        }
    }

    /// Width of one head.
    pub fn head_width(&self) -> usize {
        self.d_head.unwrap_or(self.d_model)
    }

    /// Checks that a model can be built. Any width will do, odd ones included; a model without blocks is allowed too.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let positive = [
            ("vocabulary", self.vocabulary),
            ("classes", self.classes),
            ("d_model", self.d_model),
            ("d_head", self.head_width()),
            ("heads", self.heads),
            ("d_mlp", self.d_mlp),
        ];
        if let Some((field, _)) = positive.into_iter().find(|(_, value)| *value == 0) {
            return Err(ConfigError::Zero { field });
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return Err(ConfigError::Dropout(self.dropout));
        }
        if !(self.inverse_temperature.is_finite() && self.inverse_temperature > 0.0) {
            return Err(ConfigError::InverseTemperature(self.inverse_temperature));
        }
        match self.pad_token {
            Some(pad_token) if pad_token >= self.vocabulary => {
                Err(ConfigError::PadToken { pad_token, vocabulary: self.vocabulary })
            }
            None if self.quirks.pad_to_mask_multiple => Err(ConfigError::NothingToPadWith),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_study() {
        let config = ModelConfig::new(3, 2);
        assert_eq!((config.d_model, config.head_width(), config.blocks, config.dropout), (64, 64, 5, 0.01));
        let config = ModelConfig { heads: 4, ..config };
        assert_eq!(config.head_width(), 64, "as in the study, heads do not share the width");
    }

    #[test]
    fn senseless_settings_are_refused() {
        let message = |change: fn(&mut ModelConfig)| {
            let mut config = ModelConfig::new(3, 2);
            change(&mut config);
            config.validate().unwrap_err().to_string()
        };
        assert_eq!(message(|c| c.heads = 0), "`heads` must be at least 1");
        assert_eq!(message(|c| c.d_head = Some(0)), "`d_head` must be at least 1");
        assert_eq!(message(|c| c.dropout = 1.0), "`dropout` must be at least 0 and below 1, got 1");
        assert_eq!(message(|c| c.dropout = f64::NAN), "`dropout` must be at least 0 and below 1, got NaN");
        assert_eq!(message(|c| c.inverse_temperature = 0.0), "`inverse_temperature` must be a positive number, got 0");
        assert_eq!(message(|c| c.pad_token = Some(3)), "`pad_token` must be below the vocabulary size 3, got 3");
        assert_eq!(
            message(|c| c.quirks.pad_to_mask_multiple = true),
            "`quirks.pad_to_mask_multiple` needs a `pad_token`"
        );
        let mut odd = ModelConfig::new(1, 1);
        (odd.d_model, odd.blocks) = (7, 0);
        assert_eq!(odd.validate(), Ok(()));
    }
}
