//! How the parameters of a model start.

use burn::module::Param;
use burn::tensor::{Device, Tensor, TensorData};
use semfocus_core::{Initialisation, ModelConfig};

use crate::context::InitialMaps;
use crate::registry::Attention;
use crate::streams;
use crate::weights::{AttentionWeights, Block, Classifier, Linear, MlpWeights, Norm};

/// Draws the initial parameters: each from its own generator, named by the path of the parameter.
pub(crate) struct Initialiser<'a> {
    pub(crate) seed: u64,
    pub(crate) config: &'a ModelConfig,
    pub(crate) device: &'a Device,
}

/// Standard deviation of the weights in [`Initialisation::Gpt2`].
const GPT2_DEVIATION: f64 = 0.02;

/// Bound of the embedding, positions and the classifier in [`Initialisation::Study`].
const STUDY_BOUND: f64 = 0.1;

impl Initialiser<'_> {
    fn parameter<const D: usize>(&self, values: Vec<f32>, shape: [usize; D]) -> Param<Tensor<D>> {
        Param::from_data(TensorData::new(values, shape), self.device)
    }

    /// Rows of the embedding or of the positions, or the weights of the classifier.
    pub(crate) fn table(&self, name: &str, shape: [usize; 2]) -> Param<Tensor<2>> {
        let count = shape.iter().product();
        let values = match self.config.initialisation {
            Initialisation::Study => streams::initial_values(self.seed, name, count, STUDY_BOUND),
            Initialisation::Gpt2 => streams::initial_normal_values(self.seed, name, count, GPT2_DEVIATION),
        };
        self.parameter(values, shape)
    }

    /// The map to the logits, whose bias starts at zero.
    pub(crate) fn classifier(&self) -> Classifier {
        let ModelConfig { d_model, classes, tied, .. } = *self.config;
        Classifier {
            weight: (!tied).then(|| self.table("classifier.weight", [d_model, classes])),
            bias: self.parameter(streams::initial_values(self.seed, "classifier.bias", classes, 0.0), [classes]),
        }
    }

    /// Scale and shift of a norm, if norms have them.
    pub(crate) fn norm(&self) -> Option<Norm> {
        let ModelConfig { affine_norms, d_model, .. } = *self.config;
        let of = |value: f32| self.parameter(vec![value; d_model], [d_model]);
        affine_norms.then(|| Norm { scale: of(1.0), shift: of(0.0) })
    }

    fn linear(&self, name: &str, inputs: usize, outputs: usize) -> Linear {
        let [weight, bias] = self.initial_map(name, inputs, outputs);
        Linear { weight: self.parameter(weight, [inputs, outputs]), bias: self.parameter(bias, [outputs]) }
    }

    /// Weight and bias of a map in a block.
    fn initial_map(&self, name: &str, inputs: usize, outputs: usize) -> [Vec<f32>; 2] {
        match self.config.initialisation {
            Initialisation::Study => {
                let bound = 1.0 / (inputs as f64).sqrt();
                [("weight", inputs * outputs), ("bias", outputs)]
                    .map(|(part, count)| streams::initial_values(self.seed, &format!("{name}.{part}"), count, bound))
            }
            Initialisation::Gpt2 => {
                // Each of the maps that end a sublayer adds to the rows of all blocks.
                let sublayers = if name.ends_with(".output") { 2.0 * self.config.blocks as f64 } else { 1.0 };
                let (name, deviation) = (format!("{name}.weight"), GPT2_DEVIATION / sublayers.sqrt());
                let weight = streams::initial_normal_values(self.seed, &name, inputs * outputs, deviation);
                [weight, vec![0.0; outputs]]
            }
        }
    }

    pub(crate) fn initial_maps(&self, layer: usize) -> InitialMaps {
        let (inputs, outputs) = (self.config.d_model, self.config.heads * self.config.head_width());
        let map = |name: &str| self.initial_map(&format!("blocks.{layer}.attention.{name}"), inputs, outputs);
        InitialMaps { query: map("query"), key: map("key") }
    }

    /// Parameters of a mechanism, the same for all heads.
    pub(crate) fn mechanism(&self, attention: &Attention) -> Option<Param<Tensor<2>>> {
        let heads = self.config.heads;
        let parameters = attention.mechanism.parameters();
        let values: Vec<f32> = parameters.iter().map(|parameter| parameter.initial as f32).collect();
        let data = || TensorData::new(values.repeat(heads), [heads, parameters.len()]);
        (!parameters.is_empty()).then(|| Param::from_data(data(), self.device))
    }

    pub(crate) fn block(&self, layer: usize, attention: &Attention) -> Block {
        let ModelConfig { d_model: d, d_mlp, heads, .. } = *self.config;
        let all_heads = heads * self.config.head_width();
        let linear = |name: &str, inputs, outputs| self.linear(&format!("blocks.{layer}.{name}"), inputs, outputs);
        Block {
            attention: AttentionWeights {
                norm: self.norm(),
                query: linear("attention.query", d, all_heads),
                key: linear("attention.key", d, all_heads),
                value: linear("attention.value", d, all_heads),
                output: linear("attention.output", all_heads, d),
                mechanism: self.mechanism(attention),
            },
            mlp: (d_mlp > 0).then(|| MlpWeights {
                norm: self.norm(),
                hidden: linear("mlp.hidden", d, d_mlp),
                output: linear("mlp.output", d_mlp, d),
            }),
        }
    }
}
