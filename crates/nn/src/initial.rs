//! How the parameters of a model start.

use burn::module::Param;
use burn::tensor::{Device, Tensor, TensorData};
use semfocus_core::ModelConfig;

use crate::context::InitialMaps;
use crate::registry::Attention;
use crate::streams;
use crate::weights::{AttentionWeights, Block, Linear, MlpWeights};

/// Draws the initial parameters: each from its own generator, named by the path of the parameter.
pub(crate) struct Initialiser<'a> {
    pub(crate) seed: u64,
    pub(crate) device: &'a Device,
}

impl Initialiser<'_> {
    pub(crate) fn parameter<const D: usize>(&self, name: &str, shape: [usize; D], bound: f64) -> Param<Tensor<D>> {
        let values = streams::initial_values(self.seed, name, shape.iter().product(), bound);
        Param::from_data(TensorData::new(values, shape), self.device)
    }

    /// Weights and biases uniform in ± `1 / √inputs`.
    fn linear(&self, name: &str, inputs: usize, outputs: usize) -> Linear {
        let bound = 1.0 / (inputs as f64).sqrt();
        Linear {
            weight: self.parameter(&format!("{name}.weight"), [inputs, outputs], bound),
            bias: self.parameter(&format!("{name}.bias"), [outputs], bound),
        }
    }

    /// Weight and bias of a map that depends on the seed alone.
    fn initial_map(&self, name: &str, inputs: usize, outputs: usize) -> [Vec<f32>; 2] {
        let bound = 1.0 / (inputs as f64).sqrt();
        [("weight", inputs * outputs), ("bias", outputs)]
            .map(|(part, count)| streams::initial_values(self.seed, &format!("{name}.{part}"), count, bound))
    }

    pub(crate) fn initial_maps(&self, layer: usize, config: &ModelConfig) -> InitialMaps {
        let (inputs, outputs) = (config.d_model, config.heads * config.head_width());
        let map = |name: &str| self.initial_map(&format!("blocks.{layer}.attention.{name}"), inputs, outputs);
        InitialMaps { query: map("query"), key: map("key") }
    }

    /// Parameters of a mechanism, the same for all heads.
    pub(crate) fn mechanism(&self, attention: &Attention, heads: usize) -> Option<Param<Tensor<2>>> {
        let parameters = attention.mechanism.parameters();
        let values: Vec<f32> = parameters.iter().map(|parameter| parameter.initial as f32).collect();
        let data = || TensorData::new(values.repeat(heads), [heads, parameters.len()]);
        (!parameters.is_empty()).then(|| Param::from_data(data(), self.device))
    }

    pub(crate) fn block(&self, layer: usize, config: &ModelConfig, attention: &Attention) -> Block {
        let (d, all_heads) = (config.d_model, config.heads * config.head_width());
        let linear = |name: &str, inputs, outputs| self.linear(&format!("blocks.{layer}.{name}"), inputs, outputs);
        Block {
            attention: AttentionWeights {
                query: linear("attention.query", d, all_heads),
                key: linear("attention.key", d, all_heads),
                value: linear("attention.value", d, all_heads),
                output: linear("attention.output", all_heads, d),
                mechanism: self.mechanism(attention, config.heads),
            },
            mlp: MlpWeights {
                hidden: linear("mlp.hidden", d, config.d_mlp),
                output: linear("mlp.output", config.d_mlp, d),
            },
        }
    }
}
