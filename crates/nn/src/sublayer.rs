//! The embedding and the sublayers of a block as both of their forms take them, the [reference](mod@crate::reference) and the
//! [fused](mod@crate::fused) one.

use burn::tensor::{DType, Device, Tensor};
use semfocus_core::Activation;
use semfocus_kernels::{Dropout, Key};

use crate::context::LayerContext;
use crate::mechanism::{FastForm, LayerShape, Mechanism};
use crate::weights::{AttentionWeights, MlpWeights};

/// Epsilon of every layer norm.
pub use semfocus_core::model::NORM_EPSILON;

/// The embedding in one forward pass: everything but the tokens.
#[derive(Clone, Debug)]
pub struct Embedding {
    /// `[ids, d_model]`.
    pub table: Tensor<2>,
    /// `[length, d_model]`.
    pub positions: Tensor<2>,
    /// Factor of the rows of the table.
    pub scale: f64,
    /// Dropout of the sum.
    pub dropout: Dropout,
    /// Key of the rows of the dropout.
    pub site: Key,
}

/// A block in one forward pass.
#[derive(Clone, Debug)]
pub struct BlockSublayers<'a> {
    /// The first sublayer.
    pub attention: AttentionSublayer<'a>,
    /// The fast form of the attention, if its mechanism has one and the engine may use it.
    pub form: Option<FastForm>,
    /// The second sublayer, if there is one.
    pub mlp: Option<MlpSublayer<'a>>,
}

/// An attention sublayer in one forward pass: everything but its input.
#[derive(Clone, Debug)]
pub struct AttentionSublayer<'a> {
    /// The mechanism.
    pub mechanism: &'a dyn Mechanism,
    /// Its parameters.
    pub weights: &'a AttentionWeights,
    /// Its sizes and dropout.
    pub settings: AttentionSettings,
    /// Where in the model and in which pass it runs.
    pub context: LayerContext,
}

/// An MLP sublayer in one forward pass: everything but its input.
#[derive(Clone, Debug)]
pub struct MlpSublayer<'a> {
    /// Its parameters.
    pub weights: &'a MlpWeights,
    /// Its activation and dropout.
    pub settings: MlpSettings,
    /// Key of the layer in this pass: [`Pass::layer`](crate::Pass::layer).
    pub key: Key,
}

/// Settings of an attention sublayer in one forward pass.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionSettings {
    /// Number of attention heads.
    pub heads: usize,
    /// Width of a query, key or value in one head.
    pub d_head: usize,
    /// Factor of the scores, in addition to `1 / √d_head`.
    pub inverse_temperature: f64,
    /// Added to the variance in the norm.
    pub norm_epsilon: f64,
    /// Dropout of the attention weights.
    pub weight_dropout: Dropout,
    /// Dropout of the output, before the residual.
    pub output_dropout: Dropout,
}

impl AttentionSettings {
    /// A score is this times the product of a query and a key.
    pub fn score_scale(&self) -> f64 {
        self.inverse_temperature / (self.d_head as f64).sqrt()
    }

    /// The layer for sequences of `length` tokens.
    pub(crate) fn shape(&self, length: usize, device: &Device, dtype: DType) -> LayerShape {
        let AttentionSettings { heads, inverse_temperature, .. } = *self;
        LayerShape { heads, length, inverse_temperature, device: device.clone(), dtype }
    }
}

/// Settings of an MLP sublayer in one forward pass.
#[derive(Clone, Debug, PartialEq)]
pub struct MlpSettings {
    /// Activation of the hidden layer.
    pub activation: Activation,
    /// Added to the variance in the norm.
    pub norm_epsilon: f64,
    /// Dropout of the hidden layer, before its activation.
    pub hidden_dropout: Dropout,
    /// Dropout of the output, before the residual.
    pub output_dropout: Dropout,
}
