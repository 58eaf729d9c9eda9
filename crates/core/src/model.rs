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
    /// Width of the hidden layer of the MLP; 0 for blocks without an MLP sublayer.
    pub d_mlp: usize,
    /// Activation of the MLP.
    pub activation: Activation,
    /// Probability with which dropout zeroes a value, at all of its five sites.
    pub dropout: f64,
    /// Factor of the scores.
    pub inverse_temperature: f64,
    /// Which keys a query can see.
    pub visibility: Visibility,
    /// What is added to the embedded tokens.
    pub positions: PositionKind,
    /// Whether embedded tokens are multiplied by `√d_model` before positions are added.
    pub scale_embedding: bool,
    /// Where a question about the whole sequence is read.
    pub head: Head,
    /// Whether the row that the head reads is normalised.
    pub final_norm: bool,
    /// Whether all norms have a learned scale and shift.
    pub affine_norms: bool,
    /// Whether the weights of the classifier are the embedding of the first `classes` tokens.
    pub tied: bool,
    /// How the parameters start.
    pub initialisation: Initialisation,
    /// Tokens of a sequence, without global ones: learned positions have that many rows. Nothing else depends on it.
    pub length: usize,
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

/// Where a question about the whole sequence ([`At::Mean`](crate::At::Mean)) is read. Questions at tokens are read there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Head {
    /// The mean over all tokens that the model sees, padding and global tokens included.
    #[default]
    Mean,
    /// The last token that is neither padding nor global.
    Last,
}

/// What tells the model where a token is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PositionKind {
    /// Fixed sines and cosines.
    #[default]
    Sinusoidal,
    /// A learned row for every position.
    Learned,
    /// Nothing.
    None,
}

/// How the parameters of a model start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Initialisation {
    /// Maps in blocks uniform in ±`1 / √inputs`, their biases too; embedding, positions and classifier uniform in ±0.1.
    #[default]
    Study,
    /// Weights normal with standard deviation 0.02, divided by `√(2 · blocks)` in the maps that end a sublayer; biases 0.
    Gpt2,
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

impl Head {
    /// The places and how they are written.
    pub const NAMES: &'static [(&'static str, Head)] = &[("mean", Head::Mean), ("last", Head::Last)];
}

impl PositionKind {
    /// The kinds of positions and how they are written.
    pub const NAMES: &'static [(&'static str, PositionKind)] =
        &[("sinusoidal", PositionKind::Sinusoidal), ("learned", PositionKind::Learned), ("none", PositionKind::None)];
}

impl Initialisation {
    /// The ways to start and how they are written.
    pub const NAMES: &'static [(&'static str, Initialisation)] =
        &[("study", Initialisation::Study), ("gpt2", Initialisation::Gpt2)];
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
    /// A classifier that would be the embedding of tokens that there are not.
    #[error(
        "`tied` makes the embedding of token i the weights of class i, and there are {classes} classes but {vocabulary} tokens; \
             leave `tied` out"
    )]
    TiedClasses {
        /// Number of classes.
        classes: usize,
        /// Size of the vocabulary.
        vocabulary: usize,
    },
    /// Learned positions and sequences whose length depends on the mechanism.
    #[error("`quirks.pad_to_mask_multiple` makes sequences longer, so it does not go with `positions = \"learned\"`")]
    PaddedPositions,
    /// A sequence that is longer than the learned positions reach.
    #[error("the model has learned positions for {positions} tokens, and a sequence has {length}")]
    TooLong {
        /// Positions that the model knows.
        positions: usize,
        /// Tokens of the sequence.
        length: usize,
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
            positions: PositionKind::default(),
            scale_embedding: true,
            head: Head::default(),
            final_norm: false,
            affine_norms: false,
            tied: false,
            initialisation: Initialisation::default(),
            length: 0,
            pad_token: None,
            quirks: Quirks::default(),
            engine: Engine::default(),
        }
    }

    /// Width of one head.
    pub fn head_width(&self) -> usize {
        self.d_head.unwrap_or(self.d_model)
    }

    /// Factor of embedded tokens.
    pub fn embedding_scale(&self) -> f64 {
        if self.scale_embedding { (self.d_model as f64).sqrt() } else { 1.0 }
    }

    /// Whether it is the model of the study but for sizes, activation and visibility: the one about which the bounds on the
    /// steepness of the loss are proved.
    pub fn is_of_the_study(&self) -> bool {
        let ModelConfig { positions, scale_embedding, head, final_norm, affine_norms, tied, d_mlp, .. } = *self;
        (positions, head) == (PositionKind::Sinusoidal, Head::Mean)
            && scale_embedding
            && !(final_norm || affine_norms || tied)
            && d_mlp > 0
    }

    /// Checks that sequences of `length` tokens, without global ones, are not longer than learned positions reach.
    pub fn check_length(&self, length: usize) -> Result<(), ConfigError> {
        match self.positions {
            PositionKind::Learned if length > self.length => {
                Err(ConfigError::TooLong { positions: self.length, length })
            }
            _ => Ok(()),
        }
    }

    /// Checks that a model can be built. Any width will do, odd ones included; a model without blocks is allowed too.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let positive = [
            ("vocabulary", self.vocabulary),
            ("classes", self.classes),
            ("d_model", self.d_model),
            ("d_head", self.head_width()),
            ("heads", self.heads),
            ("length", if self.positions == PositionKind::Learned { self.length } else { 1 }),
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
        if self.tied && self.classes > self.vocabulary {
            return Err(ConfigError::TiedClasses { classes: self.classes, vocabulary: self.vocabulary });
        }
        if self.positions == PositionKind::Learned && self.quirks.pad_to_mask_multiple {
            return Err(ConfigError::PaddedPositions);
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
        assert_eq!(message(|c| c.positions = PositionKind::Learned), "`length` must be at least 1");
        let tied = message(|c| (c.tied, c.classes) = (true, 4));
        assert!(tied.contains("there are 4 classes but 3 tokens; leave `tied` out"), "{tied}");
        let padded = message(|c| {
            (c.positions, c.length, c.quirks.pad_to_mask_multiple) = (PositionKind::Learned, 5, true);
        });
        assert!(padded.contains("does not go with `positions = \"learned\"`"), "{padded}");
        let learned = ModelConfig { positions: PositionKind::Learned, length: 5, ..ModelConfig::new(3, 3) };
        assert_eq!((learned.validate(), learned.check_length(5)), (Ok(()), Ok(())));
        let long = learned.check_length(6).unwrap_err().to_string();
        assert_eq!(long, "the model has learned positions for 5 tokens, and a sequence has 6");
        assert_eq!(ModelConfig::new(3, 3).check_length(6), Ok(()));
        let mut odd = ModelConfig::new(1, 1);
        (odd.d_model, odd.blocks, odd.d_mlp) = (7, 0, 0);
        assert_eq!(odd.validate(), Ok(()));
    }
}
