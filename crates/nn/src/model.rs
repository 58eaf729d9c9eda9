//! The model: its parameters, how they start, and the forward pass.
//!
//! tokens → embedding · √d + positions → dropout → blocks → mean over all tokens → linear → logits. A block is two
//! residual sublayers, `x += drop(attention(norm(x)))` and `x += drop(mlp(norm(x)))`; what they compute is in
//! [`reference`](mod@crate::reference).

use burn::module::{Module, Param};
use burn::tensor::{Device, Int, Tensor, TensorData};
use semfocus_core::{ConfigError, Engine, ModelConfig};
use semfocus_kernels::{Dropout, Key, RowObserver};

use crate::mechanism::FastForm;
use crate::observer::{AttentionSublayer, Deviations, LayerTrace, ObservedLayer, Observer, Rows, Tracer, Unobserved};
use crate::positions::Positions;
use crate::registry::Attention;
use crate::streams::{self, Stream};
use crate::sublayer::{AttentionSettings, MlpSettings, NORM_EPSILON};
use crate::{fused, reference};

/// Child of a pass's key: dropout of the embedding, row = `sequence · length + token`.
const EMBEDDING_SITE: u64 = 0;
/// Child of a pass's key: the first layer; the other layers follow.
const FIRST_LAYER: u64 = 1;

/// `x W + b`.
#[derive(Module, Debug)]
pub struct Linear {
    /// `[inputs, outputs]`.
    pub weight: Param<Tensor<2>>,
    /// `[outputs]`.
    pub bias: Param<Tensor<1>>,
}

/// Parameters of an attention sublayer. Head `h` has the columns from `h · d_head` of queries, keys and values.
#[derive(Module, Debug)]
pub struct AttentionWeights {
    /// Map to the queries, `d_model` → `heads · d_head`.
    pub query: Linear,
    /// Map to the keys, `d_model` → `heads · d_head`.
    pub key: Linear,
    /// Map to the values, `d_model` → `heads · d_head`.
    pub value: Linear,
    /// Map from all heads back to the width of the model.
    pub output: Linear,
}

/// Parameters of an MLP sublayer.
#[derive(Module, Debug)]
pub struct MlpWeights {
    /// Map to the hidden layer, `d_model` → `d_mlp`.
    pub hidden: Linear,
    /// Map back, `d_mlp` → `d_model`.
    pub output: Linear,
}

/// Parameters of a block.
#[derive(Module, Debug)]
pub struct Block {
    /// The first sublayer.
    pub attention: AttentionWeights,
    /// The second sublayer.
    pub mlp: MlpWeights,
}

/// The model: embedding, blocks, classifier.
#[derive(Module, Debug)]
pub struct Encoder {
    /// `[vocabulary + global tokens, d_model]`.
    pub embedding: Param<Tensor<2>>,
    /// The blocks, first to last.
    pub blocks: Vec<Block>,
    /// Map from the mean over the tokens to the logits.
    pub classifier: Linear,
    #[module(skip)]
    config: ModelConfig,
    #[module(skip)]
    attention: Attention,
    #[module(skip)]
    positions: Positions,
}

/// Everything besides the tokens that determines a forward pass: its random decisions, and whether it trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Key of all random decisions of the pass: dropout, and the keys that random mechanisms keep.
    pub key: Key,
    /// Whether dropout is on.
    pub training: bool,
}

impl Pass {
    /// Step number `step` of a training run.
    pub fn training(seed: u64, step: u64) -> Self {
        Pass { key: streams::key(seed, Stream::Dropout).child(0).child(step), training: true }
    }

    /// Evaluation pass number `step`. It needs a key too: for random mechanisms and dropout during evaluation.
    pub fn evaluation(seed: u64, step: u64) -> Self {
        Pass { key: streams::key(seed, Stream::Dropout).child(1).child(step), training: false }
    }

    /// The key of a layer of this pass.
    pub fn layer(&self, layer: usize) -> Key {
        self.key.child(FIRST_LAYER + layer as u64)
    }
}

/// Sequences of token ids in the form that [`Encoder::logits`] takes.
#[derive(Clone, Debug)]
pub struct TokenRows {
    ids: Vec<usize>,
    sequences: usize,
    length: usize,
}

/// The embedding in either form.
type EmbeddingForm = fn(Tensor<2>, Tensor<2, Int>, Tensor<2>, &Dropout, Key) -> Tensor<3>;

/// Draws the initial parameters: each from its own generator, named by the path of the parameter.
struct Initialiser<'a> {
    seed: u64,
    device: &'a Device,
}

impl Initialiser<'_> {
    fn parameter<const D: usize>(&self, name: &str, shape: [usize; D], bound: f64) -> Param<Tensor<D>> {
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

    fn block(&self, layer: usize, config: &ModelConfig) -> Block {
        let (d, all_heads) = (config.d_model, config.heads * config.head_width());
        let linear = |name: &str, inputs, outputs| self.linear(&format!("blocks.{layer}.{name}"), inputs, outputs);
        Block {
            attention: AttentionWeights {
                query: linear("attention.query", d, all_heads),
                key: linear("attention.key", d, all_heads),
                value: linear("attention.value", d, all_heads),
                output: linear("attention.output", all_heads, d),
            },
            mlp: MlpWeights {
                hidden: linear("mlp.hidden", d, config.d_mlp),
                output: linear("mlp.output", config.d_mlp, d),
            },
        }
    }
}

impl Linear {
    /// `x W + b` for every token of `x`, `[batch, length, inputs]`.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let [batch, length, inputs] = x.dims();
        self.forward_rows(x.reshape([batch * length, inputs])).reshape([batch as i64, length as i64, -1])
    }

    /// `x W + b` for every row of `x`, `[rows, inputs]`.
    pub fn forward_rows(&self, x: Tensor<2>) -> Tensor<2> {
        x.matmul(self.weight.val()).add(self.bias.val().unsqueeze())
    }
}

impl Encoder {
    /// A new model with the initial weights of `seed`. On a device with autodiff it can be trained.
    ///
    /// Models with the same settings and seed start with the same weights, even if their mechanisms differ.
    pub fn new(config: ModelConfig, attention: Attention, seed: u64, device: &Device) -> Result<Self, ConfigError> {
        config.validate()?;
        let init = Initialiser { seed, device };
        let ModelConfig { d_model, classes, .. } = config;
        let tokens = config.vocabulary + attention.spec.globals;
        Ok(Encoder {
            embedding: init.parameter("embedding", [tokens, d_model], 0.1),
            blocks: (0..config.blocks).map(|layer| init.block(layer, &config)).collect(),
            classifier: Linear {
                weight: init.parameter("classifier.weight", [d_model, classes], 0.1),
                bias: init.parameter("classifier.bias", [classes], 0.0),
            },
            config,
            attention,
            positions: Positions::default(),
        })
    }

    /// Settings the model was built with.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Mechanism the model was built with.
    pub fn attention(&self) -> &Attention {
        &self.attention
    }

    /// Logits `[batch, classes]` of `tokens`, `[batch, length]`.
    ///
    /// # Panics
    /// If there is not at least one token.
    pub fn forward(&self, tokens: Tensor<2, Int>, pass: Pass) -> Tensor<2> {
        self.forward_with(tokens, &pass, &mut Unobserved)
    }

    /// As [`forward`](Self::forward), but without gradients, and with the observations of every layer.
    ///
    /// Runs in the same form and at nearly the same speed as `forward`.
    pub fn forward_observed<O: RowObserver>(
        &self,
        tokens: Tensor<2, Int>,
        pass: Pass,
        rows: &O,
    ) -> (Tensor<2>, Vec<ObservedLayer<O::Observation>>) {
        let mut observer = Rows { rows, sequences: Vec::new(), deviations: Deviations::default() };
        let logits = self.forward_with(tokens, &pass, &mut observer);
        (logits, observer.into_layers())
    }

    /// The logits for `x`, `[batch, length, d_model]`, as the input of block number `first`, and what this and all later blocks
    /// did. In the reference form, in evaluation and without any dropout.
    ///
    /// [`embedded`](Self::embedded) gives the `x` of block 0 for some tokens.
    pub fn trace(&self, first: usize, x: Tensor<3>, pass: Pass) -> (Tensor<2>, Vec<LayerTrace>) {
        let mut tracer = Tracer::default();
        let logits = self.forward_blocks(first, x, &Pass { training: false, ..pass }, false, &mut tracer);
        (logits, tracer.into_layers())
    }

    fn forward_with(&self, tokens: Tensor<2, Int>, pass: &Pass, observer: &mut impl Observer) -> Tensor<2> {
        let fused = self.is_fused();
        let x = self.embed(tokens, pass, if fused { fused::embedding } else { reference::embedding });
        self.forward_blocks(0, x, pass, fused, observer)
    }

    /// The blocks from number `first` on, then the classifier: the only loop over the blocks besides
    /// [`logits`](Self::logits), which runs them as one operator.
    fn forward_blocks(
        &self,
        first: usize,
        mut x: Tensor<3>,
        pass: &Pass,
        fused: bool,
        observer: &mut impl Observer,
    ) -> Tensor<2> {
        let form = if fused { FastForm::new(self.attention.mechanism.as_ref(), x.dims()[1]) } else { None };
        for (layer, Block { attention, mlp }) in self.blocks.iter().enumerate().skip(first) {
            let layer_key = pass.layer(layer);
            observer.norm_input(&x);
            let sublayer = AttentionSublayer {
                attention: &self.attention,
                weights: attention,
                form: form.as_ref(),
                settings: self.attention_settings(layer, pass),
                layer_key,
            };
            x = observer.attention(sublayer, x);
            observer.norm_input(&x);
            let settings = self.mlp_settings(pass);
            x = if fused {
                fused::mlp(x, mlp, &settings, layer_key)
            } else {
                reference::mlp(x, mlp, &settings, layer_key)
            };
        }
        self.classify(x)
    }

    /// Tokens of `[batch, length]` in the form that [`logits`](Self::logits) takes, padding and global tokens added.
    pub fn token_rows(&self, tokens: Tensor<2, Int>) -> TokenRows {
        let tokens = self.append_globals(self.pad(tokens));
        let [sequences, length] = tokens.dims();
        TokenRows { ids: tokens.into_data().iter::<i64>().map(|id| id as usize).collect(), sequences, length }
    }

    /// Logits of all sequences, row by row. The same as [`forward`](Self::forward) up to rounding, but faster; meant for evaluating the
    /// same sequences with many different weights. Maps of the attention are folded into each other beforehand, so kept keys may
    /// differ where scores nearly tie. `None` if the engine or the model does not allow it; `forward` always works.
    pub fn logits(&self, tokens: &TokenRows, pass: Pass) -> Option<Vec<f32>> {
        if !self.is_fused() || pass.training {
            return None;
        }
        let form = FastForm::new(self.attention.mechanism.as_ref(), tokens.length)?;
        let table = self.embedding.val();
        let positions = self.positions.get(tokens.length, self.config.d_model, &table.device(), table.dtype());
        let blocks = self.blocks.iter().enumerate().map(|(layer, Block { attention, mlp })| {
            (attention, self.attention_settings(layer, &pass), mlp, self.mlp_settings(&pass), pass.layer(layer))
        });
        let pooled = fused::pooled(table, positions, &tokens.ids, blocks.collect(), &form)?;
        let pooled = TensorData::new(pooled, [tokens.sequences, self.config.d_model]);
        let logits = self.classifier.forward_rows(Tensor::from_data(pooled, &self.embedding.val().device()));
        Some(logits.into_data().iter::<f32>().collect())
    }

    fn is_fused(&self) -> bool {
        self.config.engine == Engine::Fused && fused::supports(&self.embedding.val())
    }

    /// Settings of the attention sublayer of a layer in a pass.
    pub fn attention_settings(&self, layer: usize, pass: &Pass) -> AttentionSettings {
        let ModelConfig { quirks, .. } = self.config;
        AttentionSettings {
            heads: self.config.heads,
            d_head: self.config.head_width(),
            inverse_temperature: self.config.inverse_temperature,
            norm_epsilon: if layer == 0 && quirks.first_norm_without_eps { 0.0 } else { NORM_EPSILON },
            weight_dropout: self.dropout(pass.training || quirks.dropout_in_evaluation),
            output_dropout: self.dropout(pass.training),
        }
    }

    /// Settings of the MLP sublayers in a pass.
    pub fn mlp_settings(&self, pass: &Pass) -> MlpSettings {
        MlpSettings {
            activation: self.config.activation,
            norm_epsilon: NORM_EPSILON,
            hidden_dropout: self.dropout(pass.training),
            output_dropout: self.dropout(pass.training),
        }
    }

    fn dropout(&self, on: bool) -> Dropout {
        if on { Dropout::new(self.config.dropout) } else { Dropout::NONE }
    }

    /// The input of the first block in evaluation, `[batch, length, d_model]`, in the reference form.
    pub fn embedded(&self, tokens: Tensor<2, Int>) -> Tensor<3> {
        self.embed(tokens, &Pass::evaluation(0, 0), reference::embedding)
    }

    /// Tokens as vectors with their positions, `[batch, length, d_model]`; padding and global tokens are added here.
    fn embed(&self, tokens: Tensor<2, Int>, pass: &Pass, embedding: EmbeddingForm) -> Tensor<3> {
        let tokens = self.append_globals(self.pad(tokens));
        let table = self.embedding.val();
        let positions = self.positions.get(tokens.dims()[1], self.config.d_model, &table.device(), table.dtype());
        embedding(table, tokens, positions, &self.dropout(pass.training), pass.key.child(EMBEDDING_SITE))
    }

    /// Mean over all tokens, then the logits.
    fn classify(&self, x: Tensor<3>) -> Tensor<2> {
        self.classifier.forward_rows(x.mean_dim(1).squeeze_dim(1))
    }

    /// Pads up to a multiple of the mechanism's size, if that quirk is asked for.
    fn pad(&self, tokens: Tensor<2, Int>) -> Tensor<2, Int> {
        let length = tokens.dims()[1];
        match (self.config.quirks.pad_to_mask_multiple, self.attention.spec.size, self.config.pad_token) {
            (true, Some(size), Some(pad)) => append(tokens, &vec![pad; length.next_multiple_of(size) - length]),
            _ => tokens,
        }
    }

    /// Appends the global tokens, whose ids follow the vocabulary.
    fn append_globals(&self, tokens: Tensor<2, Int>) -> Tensor<2, Int> {
        let first = self.config.vocabulary;
        append(tokens, &(first..first + self.attention.spec.globals).collect::<Vec<_>>())
    }
}

/// The same tokens at the end of every sequence.
fn append(tokens: Tensor<2, Int>, ids: &[usize]) -> Tensor<2, Int> {
    if ids.is_empty() {
        return tokens;
    }
    let ids: Vec<i64> = ids.iter().map(|&id| id as i64).collect();
    let [batch, count] = [tokens.dims()[0], ids.len()];
    let ids = Tensor::<2, Int>::from_data(TensorData::new(ids, [1, count]), (&tokens.device(), tokens.dtype()));
    Tensor::cat(vec![tokens, ids.expand([batch, count])], 1)
}
