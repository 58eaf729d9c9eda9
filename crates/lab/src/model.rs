//! Building models: the only place that says which there are.

use std::sync::Arc;

use burn::tensor::Device;
use semfocus_core::{ConfigError, ModelConfig};
use semfocus_nn::{BlockAttentions, Encoder, Model, Relevance};

/// A model with the initial weights of `seed`. On a device with autodiff it can be trained. `relevance` finds relevant positions, for
/// mechanisms that ask.
pub(crate) fn new_model(
    config: &ModelConfig,
    attention: impl Into<BlockAttentions>,
    seed: u64,
    relevance: Option<Arc<dyn Relevance>>,
    device: &Device,
) -> Result<Box<dyn Model>, ConfigError> {
    Ok(Encoder::new(config.clone(), attention, seed, device)?.with_relevance(relevance).into())
}
