//! The model: its parameters, how they start, and the forward pass.
//!
//! tokens → embedding · √d + positions → dropout → blocks → mean over all tokens → linear → logits. A block is two
//! residual sublayers, `x += drop(attention(norm(x)))` and `x += drop(mlp(norm(x)))`; what they compute is in
//! [`reference`](mod@crate::reference).

use std::sync::Arc;

use burn::module::{Module, Param};
use burn::tensor::{Device, Int, Tensor, TensorData};
use semfocus_core::{ConfigError, Engine, LrFactors, ModelConfig, Questions};
use semfocus_kernels::{Dropout, Key, LinearGradient, RowObserver, RuleScores};

use crate::block_attentions::BlockAttentions;
use crate::fused::{BlockCall, EncoderCall};
use crate::initial::Initialiser;
use crate::mechanism::FastForm;
use crate::observer::{AttentionSublayer, Deviations, LayerTrace, ObservedLayer, Observer, Rows, Tracer, Unobserved};
use crate::positions::Positions;
use crate::streams::{self, Stream};
use crate::sublayer::{AttentionSettings, InitialMaps, LayerSite, MlpSettings, NORM_EPSILON};
use crate::{fused, reference};

/// Child of a pass's key: dropout of the embedding, row = `sequence · length + token`.
const EMBEDDING_SITE: u64 = 0;
/// Child of the key of all random decisions: the places of the layers. The passes are the children 0 and 1.
const PLACES: u64 = 2;
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
    /// Parameters of the mechanism, `[heads, parameters]`, if it has any.
    pub mechanism: Option<Param<Tensor<2>>>,
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
    attention: BlockAttentions,
    #[module(skip)]
    positions: Positions,
    #[module(skip)]
    seed: u64,
    /// Query and key maps of every layer before training, if its mechanism asks for them.
    #[module(skip)]
    initial_maps: Vec<Option<Arc<InitialMaps>>>,
    /// Finds relevant positions, for mechanisms that ask.
    #[module(skip)]
    relevance: Option<Arc<dyn Relevance>>,
}

/// Finds the positions of a sequence that its label depends on.
pub trait Relevance: Send + Sync + std::fmt::Debug {
    /// The relevant positions, ascending.
    fn positions(&self, tokens: &[usize]) -> Vec<u32>;
}

/// Calls the first and the last position of every sequence relevant: for tests and for measuring time.
#[derive(Clone, Copy, Debug)]
pub struct BothEnds;

impl Relevance for BothEnds {
    fn positions(&self, tokens: &[usize]) -> Vec<u32> {
        let last = tokens.len() as u32 - 1;
        if last == 0 { vec![0] } else { vec![0, last] }
    }
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

/// Sequences of token ids as the model sees them, padding and global tokens included.
#[derive(Clone, Debug)]
pub struct TokenRows {
    pub(crate) ids: Arc<[usize]>,
    /// The relevant positions of every sequence, if the mechanism asks for them.
    pub(crate) relevant: Arc<[Vec<u32>]>,
    pub(crate) sequences: usize,
    pub(crate) length: usize,
}

/// Models that cannot be evaluated by a single operator are evaluated with this many sequences at a time.
const EVALUATION_BATCH: usize = 50;

/// The embedding in either form.
type EmbeddingForm = fn(Tensor<2>, &TokenRows, Tensor<2>, &Dropout, Key) -> Tensor<3>;

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
    pub fn new(
        config: ModelConfig,
        attention: impl Into<BlockAttentions>,
        seed: u64,
        device: &Device,
    ) -> Result<Self, ConfigError> {
        let attention = attention.into();
        config.validate()?;
        attention.check(&config)?;
        let init = Initialiser { seed, device };
        let ModelConfig { d_model, classes, .. } = config;
        let tokens = config.vocabulary + attention.globals();
        Ok(Encoder {
            embedding: init.parameter("embedding", [tokens, d_model], 0.1),
            blocks: (0..config.blocks).map(|layer| init.block(layer, &config, attention.of_block(layer))).collect(),
            initial_maps: initial_maps(&init, &config, &attention),
            relevance: None,
            seed,
            classifier: Linear {
                weight: init.parameter("classifier.weight", [d_model, classes], 0.1),
                bias: init.parameter("classifier.bias", [classes], 0.0),
            },
            config,
            attention,
            positions: Positions::default(),
        })
    }

    /// The model with something that finds relevant positions, which some mechanisms need.
    pub fn with_relevance(mut self, relevance: Option<Arc<dyn Relevance>>) -> Self {
        self.relevance = relevance;
        self
    }

    /// The model with both ends of a sequence as relevant positions, for mechanisms that ask. For tests and for measuring time.
    pub fn with_stand_ins(self) -> Self {
        self.with_relevance(Some(Arc::new(BothEnds)))
    }

    /// A model with the same mechanism, initial weights and relevant positions, but other settings.
    pub fn rebuilt(&self, config: ModelConfig, device: &Device) -> Result<Self, ConfigError> {
        let model = Self::new(config, self.attention.clone(), self.seed, device)?;
        Ok(model.with_relevance(self.relevance.clone()))
    }

    /// Settings the model was built with.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Factors of the learning rate that the mechanism of each block asks for, for sequences of `length` tokens.
    pub(crate) fn learning_rate_factors(&self, length: usize) -> Vec<LrFactors> {
        let length = length + self.attention.globals();
        self.attention.for_blocks(self.blocks.len(), |attention| attention.mechanism.learning_rate_factors(length))
    }

    /// The attention of its blocks.
    pub fn attention(&self) -> &BlockAttentions {
        &self.attention
    }

    /// The same model with another attention. Weights stay as they are, and so do the learned numbers of the mechanism in blocks
    /// whose new mechanism has numbers of the same names; others start at their initial values.
    pub fn with_attention(mut self, attention: BlockAttentions) -> Result<Self, ConfigError> {
        attention.check(&self.config)?;
        if attention.globals() != self.attention.globals() {
            return Err(ConfigError::OtherGlobals(self.attention.globals(), attention.globals()));
        }
        let device = self.embedding.val().device();
        let init = Initialiser { seed: self.seed, device: &device };
        for (layer, block) in self.blocks.iter_mut().enumerate() {
            if !self.attention.shares_numbers(&attention, layer) {
                block.attention.mechanism = init.mechanism(attention.of_block(layer), self.config.heads);
            }
        }
        self.initial_maps = initial_maps(&init, &self.config, &attention);
        self.attention = attention;
        Ok(self)
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
    /// [`embedded`](Self::embedded) gives the `x` of block 0 for some tokens. Mechanisms that look at tokens need them besides.
    pub fn trace(
        &self,
        first: usize,
        x: Tensor<3>,
        tokens: Option<&TokenRows>,
        pass: Pass,
    ) -> (Tensor<2>, Vec<LayerTrace>) {
        let mut tracer = Tracer::default();
        let pass = Pass { training: false, ..pass };
        let [sequences, length, _] = x.dims();
        let none = TokenRows { ids: Arc::new([]), relevant: Arc::new([]), sequences, length };
        let logits = self.forward_blocks(first, x, tokens.unwrap_or(&none), &pass, false, &mut tracer);
        (logits, tracer.into_layers())
    }

    fn forward_with(&self, tokens: Tensor<2, Int>, pass: &Pass, observer: &mut impl Observer) -> Tensor<2> {
        self.forward_rows(&self.token_rows(tokens), pass, observer)
    }

    fn forward_rows(&self, tokens: &TokenRows, pass: &Pass, observer: &mut impl Observer) -> Tensor<2> {
        let fused = self.is_fused();
        let x = self.embed(tokens, pass, if fused { fused::embedding } else { reference::embedding });
        self.forward_blocks(0, x, tokens, pass, fused, observer)
    }

    /// The blocks from number `first` on, then the classifier: the only loop over the blocks besides
    /// [`logits`](Self::logits), which runs them as one operator.
    fn forward_blocks(
        &self,
        first: usize,
        mut x: Tensor<3>,
        tokens: &TokenRows,
        pass: &Pass,
        fused: bool,
        observer: &mut impl Observer,
    ) -> Tensor<2> {
        let forms = if fused { self.fast_forms(x.dims()[1]) } else { vec![None; self.blocks.len()] };
        for (layer, Block { attention, mlp }) in self.blocks.iter().enumerate().skip(first) {
            let site = self.site(layer, pass, tokens);
            let layer_key = site.key;
            observer.norm_input(&x);
            let sublayer = AttentionSublayer {
                attention: self.attention.of_block(layer),
                weights: attention,
                form: forms[layer].as_ref(),
                settings: self.attention_settings(layer, pass),
                site,
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

    /// The fast form of every block that has one.
    fn fast_forms(&self, length: usize) -> Vec<Option<FastForm>> {
        self.attention.for_blocks(self.blocks.len(), |attention| {
            FastForm::new(attention.mechanism.as_ref(), length, self.config.visibility)
        })
    }

    fn site(&self, layer: usize, pass: &Pass, tokens: &TokenRows) -> LayerSite {
        LayerSite {
            layer,
            key: pass.layer(layer),
            place: streams::key(self.seed, Stream::Dropout).child(PLACES).child(layer as u64),
            globals: self.attention.globals(),
            tokens: tokens.ids.clone(),
            relevant: tokens.relevant.clone(),
            initial_maps: self.initial_maps[layer].clone(),
        }
    }

    /// Tokens of `[batch, length]` as the model sees them, padding and global tokens added.
    ///
    /// # Panics
    /// If the mechanism asks for relevant positions and the model was not given what [finds them](Self::with_relevance).
    pub fn token_rows(&self, tokens: Tensor<2, Int>) -> TokenRows {
        let relevant = match self.attention.attentions().iter().any(|one| one.mechanism.needs_relevance()) {
            true => self.relevant_positions(&tokens),
            false => Arc::new([]),
        };
        let tokens = self.append_globals(self.pad(tokens));
        let [sequences, length] = tokens.dims();
        let ids: Arc<[usize]> = ids(tokens).into();
        TokenRows { ids, relevant, sequences, length }
    }

    fn relevant_positions(&self, tokens: &Tensor<2, Int>) -> Arc<[Vec<u32>]> {
        let relevance = self.relevance.as_ref();
        let relevance =
            relevance.unwrap_or_else(|| panic!("`{}` is not told which positions are relevant", self.attention));
        ids(tokens.clone()).chunks(tokens.dims()[1]).map(|tokens| relevance.positions(tokens)).collect()
    }

    /// Logits of all sequences in evaluation, row by row: the same as [`forward`](Self::forward) up to rounding, but without
    /// gradients and faster. All blocks run as one operator where the engine and the model allow it; if not, they run layer by
    /// layer, some sequences at a time.
    pub fn logits(&self, tokens: &TokenRows, pass: Pass) -> Vec<f32> {
        let pass = Pass { training: false, ..pass };
        let rows = |logits: Tensor<2>| logits.into_data().iter::<f32>().collect::<Vec<f32>>();
        let asked = Questions::classification(vec![0; tokens.sequences]);
        let call = self.encoder_call(tokens, &pass);
        if let Some(logits) = call.and_then(|call| call.logits(&self.classifier, &tokens.ids, &asked)) {
            return logits;
        }
        let batches = tokens.ids.chunks(EVALUATION_BATCH * tokens.length).zip(0..);
        let logits = batches.flat_map(|(ids, number)| {
            let sequences = ids.len() / tokens.length;
            let first = number as usize * EVALUATION_BATCH;
            let relevant = tokens.relevant.get(first..first + sequences).unwrap_or(&[]).into();
            let batch = TokenRows { ids: ids.into(), relevant, sequences, length: tokens.length };
            // The first batch has the key of the pass, as in `forward`; the others have keys far from those of the layers.
            let key = if number == 0 { pass.key } else { pass.key.child(u64::MAX - number) };
            let pass = Pass { key, ..pass };
            rows(self.forward_rows(&batch, &pass, &mut Unobserved))
        });
        logits.collect()
    }

    /// Mean loss of a batch and the gradients of all parameters, in the order of the model, if one operator can compute them.
    pub(crate) fn gradients(
        &self,
        tokens: &TokenRows,
        questions: &Questions,
        pass: &Pass,
    ) -> Option<(f64, Vec<Option<Vec<f32>>>)> {
        let call = self.encoder_call(tokens, pass)?;
        let result = call.gradients(&self.classifier, &tokens.ids, questions)?;
        let mut gradients = vec![Some(result.table)];
        let maps = |maps: [LinearGradient; 2]| maps.into_iter().flat_map(|map| [Some(map.weight), Some(map.bias)]);
        for (layer, (block, (attention, mlp))) in self.blocks.iter().zip(result.blocks).enumerate() {
            gradients.extend(maps([attention.query, attention.key]));
            gradients.extend(maps([attention.value, attention.output]));
            if block.attention.mechanism.is_some() {
                let mechanism = self.attention.of_block(layer).mechanism.as_ref();
                let shape = self.attention_settings(0, pass).shape(tokens.length, &self.embedding.val().device());
                gradients.push(fused::parameter_gradient(&block.attention, mechanism, &shape, &attention.numbers));
            }
            gradients.extend(maps([mlp.hidden, mlp.output]));
        }
        gradients.extend([Some(result.head.weight), Some(result.head.bias)]);
        Some((result.loss, gradients))
    }

    fn encoder_call(&self, tokens: &TokenRows, pass: &Pass) -> Option<EncoderCall<'_>> {
        if !self.is_fused() {
            return None;
        }
        let table = self.embedding.val();
        let forms = self.fast_forms(tokens.length).into_iter().collect::<Option<Vec<FastForm>>>()?;
        let blocks =
            self.blocks.iter().zip(forms).enumerate().map(|(layer, (Block { attention, mlp }, form))| BlockCall {
                mechanism: self.attention.of_block(layer).mechanism.as_ref(),
                form,
                attention,
                attention_settings: self.attention_settings(layer, pass),
                mlp,
                mlp_settings: self.mlp_settings(pass),
                site: self.site(layer, pass, tokens),
            });
        Some(EncoderCall {
            positions: self.positions.get(tokens.length, self.config.d_model, &table.device(), table.dtype()),
            table,
            dropout: self.dropout(pass.training),
            embedding_site: pass.key.child(EMBEDDING_SITE),
            blocks: blocks.collect(),
        })
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
            visibility: self.config.visibility,
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
        self.embed(&self.token_rows(tokens), &Pass::evaluation(0, 0), reference::embedding)
    }

    /// Tokens as vectors with their positions, `[batch, length, d_model]`.
    fn embed(&self, tokens: &TokenRows, pass: &Pass, embedding: EmbeddingForm) -> Tensor<3> {
        let table = self.embedding.val();
        let positions = self.positions.get(tokens.length, self.config.d_model, &table.device(), table.dtype());
        embedding(table, tokens, positions, &self.dropout(pass.training), pass.key.child(EMBEDDING_SITE))
    }

    /// Mean over all tokens, then the logits.
    fn classify(&self, x: Tensor<3>) -> Tensor<2> {
        self.classifier.forward_rows(x.mean_dim(1).squeeze_dim(1))
    }

    /// Pads up to a multiple of the mechanism's size, if that quirk is asked for.
    fn pad(&self, tokens: Tensor<2, Int>) -> Tensor<2, Int> {
        let length = tokens.dims()[1];
        match (self.config.quirks.pad_to_mask_multiple, self.attention.size(), self.config.pad_token) {
            (true, Some(size), Some(pad)) => append(tokens, &vec![pad; length.next_multiple_of(size) - length]),
            _ => tokens,
        }
    }

    /// Appends the global tokens, whose ids follow the vocabulary.
    fn append_globals(&self, tokens: Tensor<2, Int>) -> Tensor<2, Int> {
        let first = self.config.vocabulary;
        append(tokens, &(first..first + self.attention.globals()).collect::<Vec<_>>())
    }
}

/// Query and key maps before training of the blocks whose mechanisms ask for them.
fn initial_maps(
    init: &Initialiser,
    config: &ModelConfig,
    attention: &BlockAttentions,
) -> Vec<Option<Arc<InitialMaps>>> {
    let asks = |layer: &usize| attention.of_block(*layer).mechanism.scores() == RuleScores::InitialMaps;
    let maps = |layer: usize| Some(layer).filter(asks).map(|layer| Arc::new(init.initial_maps(layer, config)));
    (0..config.blocks).map(maps).collect()
}

fn ids(tokens: Tensor<2, Int>) -> Vec<usize> {
    tokens.into_data().iter::<i64>().map(|id| id as usize).collect()
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
