//! The model: its parameters, how they start, and the forward pass.
//!
//! tokens → embedding · √d + positions → dropout → blocks → mean over all tokens → linear → logits. A block is two
//! residual sublayers, `x += drop(attention(norm(x)))` and `x += drop(mlp(norm(x)))`; what they compute is in
//! [`reference`](mod@crate::reference).

use burn::module::{Module, Param};
use burn::tensor::{Device, Int, Tensor, TensorData};
use semfocus_kernels::{Dropout, Key, Watch};

use crate::config::{ConfigError, Engine, ModelConfig};
use crate::fused;
use crate::positions::Positions;
use crate::reference;
use crate::registry::Attention;
use crate::streams::{self, Stream};
use crate::sublayer::{AttentionSettings, AttentionTrace, MlpSettings, NORM_EPSILON};

/// Child of a pass's key: dropout of the embedding, row = `sequence · length + token`.
const EMBEDDING_SITE: u64 = 0;
/// Child of a pass's key: the first layer; the others follow.
const FIRST_LAYER: u64 = 1;

/// `x W + b`.
#[derive(Module, Debug)]
pub struct Linear {
    /// `[inputs, outputs]`.
    pub weight: Param<Tensor<2>>,
    /// `[outputs]`.
    pub bias: Param<Tensor<1>>,
}

/// Parameters of an attention sublayer: queries, keys and values go to `heads · d_head`, the output comes back.
#[derive(Module, Debug)]
pub struct AttentionWeights {
    /// Queries.
    pub query: Linear,
    /// Keys.
    pub key: Linear,
    /// Values.
    pub value: Linear,
    /// From all heads back to the width of the model.
    pub output: Linear,
}

/// Parameters of an MLP sublayer.
#[derive(Module, Debug)]
pub struct MlpWeights {
    /// To the hidden layer.
    pub hidden: Linear,
    /// And back.
    pub output: Linear,
}

/// Parameters of a block.
#[derive(Module, Debug)]
pub struct Block {
    /// First sublayer.
    pub attention: AttentionWeights,
    /// Second sublayer.
    pub mlp: MlpWeights,
}

/// The whole model.
#[derive(Module, Debug)]
pub struct Encoder {
    /// `[vocabulary + global tokens, d_model]`.
    pub embedding: Param<Tensor<2>>,
    /// The blocks, in order.
    pub blocks: Vec<Block>,
    /// From the mean token to the logits.
    pub classifier: Linear,
    #[module(skip)]
    config: ModelConfig,
    #[module(skip)]
    attention: Attention,
    #[module(skip)]
    positions: Positions,
}

/// What a forward pass needs to know besides the tokens: which random decisions to make, and whether it trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Names the pass: another key, other dropped values and other random keys.
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

/// Sequences of token ids, made ready for [`Encoder::logits`].
#[derive(Clone, Debug)]
pub struct TokenRows {
    ids: Vec<usize>,
    sequences: usize,
    length: usize,
}

/// What was seen of a layer in a forward pass.
#[derive(Clone, Debug)]
pub struct LayerSeen<S> {
    /// Of the attention in every sequence of the batch.
    pub sequences: Vec<S>,
    /// The least standard deviation of a token before the norm of the attention and before that of the MLP.
    pub least_deviations: [f64; 2],
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
    /// Models with the same settings and seed start with the same weights, whatever their mechanism.
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
        let fused = self.is_fused();
        let mut x = self.embed(tokens, &pass, if fused { fused::embedding } else { reference::embedding });
        let form = if fused { self.attention.mechanism.fast(x.dims()[1]) } else { None };
        for (layer, Block { attention, mlp }) in self.blocks.iter().enumerate() {
            let key = pass.layer(layer);
            x = match &form {
                Some(form) => fused::attention(x, attention, form.clone(), &self.attention_settings(layer, &pass), key),
                None => self.reference_attention(x, layer, &pass).0,
            };
            let settings = self.mlp_settings(&pass);
            x = if fused { fused::mlp(x, mlp, &settings, key) } else { reference::mlp(x, mlp, &settings, key) };
        }
        self.classify(x)
    }

    /// As [`forward`](Self::forward), through the reference form, and what every layer's attention did.
    pub fn forward_traced(&self, tokens: Tensor<2, Int>, pass: Pass) -> (Tensor<2>, Vec<AttentionTrace>) {
        let mut x = self.embed(tokens, &pass, reference::embedding);
        let mut traces = Vec::with_capacity(self.blocks.len());
        for (layer, block) in self.blocks.iter().enumerate() {
            let trace;
            (x, trace) = self.reference_attention(x, layer, &pass);
            traces.push(trace);
            x = reference::mlp(x, &block.mlp, &self.mlp_settings(&pass), pass.layer(layer));
        }
        (self.classify(x), traces)
    }

    /// As [`forward`](Self::forward), and what `watch` saw of every layer.
    pub fn forward_watched<W: Watch>(
        &self,
        tokens: Tensor<2, Int>,
        pass: Pass,
        watch: &W,
    ) -> (Tensor<2>, Vec<LayerSeen<W::Seen>>) {
        let fused = self.is_fused();
        let mut x = self.embed(tokens, &pass, if fused { fused::embedding } else { reference::embedding });
        let form = if fused { self.attention.mechanism.fast(x.dims()[1]) } else { None };
        let mut layers = Vec::with_capacity(self.blocks.len());
        for (layer, Block { attention, mlp }) in self.blocks.iter().enumerate() {
            let (key, before_attention) = (pass.layer(layer), least_deviation(&x));
            let sequences;
            (x, sequences) = match &form {
                Some(form) => {
                    let settings = self.attention_settings(layer, &pass);
                    fused::attention_watched(x, attention, form.clone(), &settings, key, watch)
                }
                None => {
                    let (x, trace) = self.reference_attention(x, layer, &pass);
                    (x, trace.show(watch))
                }
            };
            layers.push(LayerSeen { sequences, least_deviations: [before_attention, least_deviation(&x)] });
            let settings = self.mlp_settings(&pass);
            x = if fused { fused::mlp(x, mlp, &settings, key) } else { reference::mlp(x, mlp, &settings, key) };
        }
        (self.classify(x), layers)
    }

    /// Tokens of `[batch, length]` in the form that [`logits`](Self::logits) takes, padding and global tokens added.
    pub fn token_rows(&self, tokens: Tensor<2, Int>) -> TokenRows {
        let tokens = self.append_globals(self.pad(tokens));
        let [sequences, length] = tokens.dims();
        TokenRows { ids: tokens.into_data().iter::<i64>().map(|id| id as usize).collect(), sequences, length }
    }

    /// Logits of all sequences, row by row: as [`forward`](Self::forward) up to rounding, but faster, for whoever evaluates the
    /// same sequences with many weights. Maps of the attention that need not be apart are multiplied beforehand, so kept keys may
    /// differ where scores nearly tie. None where the engine or the model does not allow it; `forward` always works.
    pub fn logits(&self, tokens: &TokenRows, pass: Pass) -> Option<Vec<f32>> {
        if !self.is_fused() || pass.training {
            return None;
        }
        let form = self.attention.mechanism.fast(tokens.length)?;
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

    fn reference_attention(&self, x: Tensor<3>, layer: usize, pass: &Pass) -> (Tensor<3>, AttentionTrace) {
        let settings = self.attention_settings(layer, pass);
        let Attention { mechanism, spec, .. } = &self.attention;
        let weights = &self.blocks[layer].attention;
        reference::attention(x, weights, mechanism.as_ref(), &settings, pass.layer(layer), spec.globals)
    }

    /// Settings of the attention sublayer of a layer in a pass.
    pub fn attention_settings(&self, layer: usize, pass: &Pass) -> AttentionSettings {
        let ModelConfig { oddities, .. } = self.config;
        AttentionSettings {
            heads: self.config.heads,
            d_head: self.config.head_width(),
            inverse_temperature: self.config.inverse_temperature,
            norm_epsilon: if layer == 0 && oddities.first_norm_without_eps { 0.0 } else { NORM_EPSILON },
            weight_dropout: self.dropout(pass.training || oddities.dropout_in_evaluation),
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

    /// What the first block gets in evaluation, `[batch, length, d_model]`, through the reference form.
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

    /// Pads up to a multiple of the mechanism's size, if that oddity is asked for.
    fn pad(&self, tokens: Tensor<2, Int>) -> Tensor<2, Int> {
        let length = tokens.dims()[1];
        match (self.config.oddities.pad_to_mask_multiple, self.attention.spec.size, self.config.pad_token) {
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

/// The least standard deviation of a token's values.
fn least_deviation(x: &Tensor<3>) -> f64 {
    let width = x.dims()[2];
    let values: Vec<f64> = x.clone().into_data().iter::<f64>().collect();
    let variance = |token: &[f64]| {
        let mean = token.iter().sum::<f64>() / width as f64;
        token.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / width as f64
    };
    values.chunks_exact(width).map(variance).fold(f64::INFINITY, f64::min).sqrt()
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
