//! The model of the study and its forward pass.
//!
//! tokens → embedding · √d + positions → dropout → blocks → the rows that questions ask at → linear → logits. A block is two
//! residual sublayers, `x += drop(attention(norm(x)))` and `x += drop(mlp(norm(x)))`; what they compute is in
//! [`reference`](mod@crate::reference).

use std::sync::Arc;

use burn::module::{Module, Param};
use burn::tensor::{Device, Int, Tensor, TensorData};
use semfocus_core::{ConfigError, Engine, LrFactors, ModelConfig, Questions};
use semfocus_kernels::{Answer, Dropout, Inference, Key, RelevantKeys, RowObserver, RuleScores, answer};

use crate::block_attentions::BlockAttentions;
use crate::context::{InitialMaps, LayerContext};
use crate::fused::EncoderCall;
use crate::initial::Initialiser;
use crate::input::{self, Pass, Relevance, TokenRows};
use crate::mechanism::FastForm;
use crate::observer::{ObservedLayer, Observer, Rows, Unobserved};
use crate::parameters::NamedGradients;
use crate::positions::Positions;
use crate::sublayer::{AttentionSettings, AttentionSublayer, BlockSublayers, MlpSettings, MlpSublayer, NORM_EPSILON};
use crate::trace::LayerTrace;
use crate::weights::{Block, Linear};
use crate::{fused, reference};

/// The model: embedding, blocks, classifier.
#[derive(Module, Debug)]
pub struct Encoder {
    /// `[vocabulary + global tokens, d_model]`.
    pub embedding: Param<Tensor<2>>,
    /// The blocks, first to last.
    pub blocks: Vec<Block>,
    /// The head: map from a token, or from the mean over all tokens, to the logits.
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

/// Models that cannot be evaluated by a single operator are evaluated with this many sequences at a time.
const EVALUATION_BATCH: usize = 50;

/// The embedding in either form.
type EmbeddingForm = fn(Tensor<2>, &TokenRows, Tensor<2>, &Dropout, Key) -> Tensor<3>;

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

    /// The same model with another attention. Weights stay as they are, and so do the learned scalars of the mechanism in blocks
    /// whose new mechanism has scalars of the same names; others start at their initial values.
    pub fn with_attention(mut self, attention: BlockAttentions) -> Result<Self, ConfigError> {
        attention.check(&self.config)?;
        if attention.globals() != self.attention.globals() {
            return Err(ConfigError::OtherGlobals(self.attention.globals(), attention.globals()));
        }
        let device = self.embedding.val().device();
        let init = Initialiser { seed: self.seed, device: &device };
        for (layer, block) in self.blocks.iter_mut().enumerate() {
            if !self.attention.shares_head_scalars(&attention, layer) {
                block.attention.mechanism = init.mechanism(attention.of_block(layer), self.config.heads);
            }
        }
        self.initial_maps = initial_maps(&init, &self.config, &attention);
        self.attention = attention;
        Ok(self)
    }

    /// Logits `[batch, classes]` at the mean of `tokens`, `[batch, length]`.
    ///
    /// # Panics
    /// If there is not at least one token.
    pub fn forward(&self, tokens: Tensor<2, Int>, pass: Pass) -> Tensor<2> {
        let x = self.forward_rows(&self.token_rows(tokens), &pass, &mut Unobserved);
        reference::classify(x, &self.classifier)
    }

    /// Logits `[questions, classes]` where the questions of `tokens`, `[batch, length]`, ask.
    ///
    /// # Panics
    /// If there is not at least one token and one question.
    pub fn forward_at(&self, tokens: Tensor<2, Int>, questions: &Questions, pass: Pass) -> Tensor<2> {
        self.forward_at_rows(&self.token_rows(tokens), questions, &pass)
    }

    fn forward_at_rows(&self, tokens: &TokenRows, questions: &Questions, pass: &Pass) -> Tensor<2> {
        let x = self.forward_rows(tokens, pass, &mut Unobserved);
        self.classifier.forward_rows(reference::asked_rows(x, questions))
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
        let mut observer = Rows { rows, sequences: Vec::new(), deviations: Vec::new() };
        let x = self.forward_rows(&self.token_rows(tokens), &pass, &mut observer);
        (reference::classify(x, &self.classifier), observer.into_layers())
    }

    /// The logits for `x`, `[batch, length, d_model]`, as the input of block number `first`, and what this and all later blocks
    /// did. In the reference form, in evaluation and without any dropout.
    ///
    /// [`embedded`](Self::embedded) gives the `x` of block 0 for some tokens. Mechanisms that look at tokens need them, too.
    pub fn trace(
        &self,
        first: usize,
        x: Tensor<3>,
        tokens: Option<&TokenRows>,
        pass: Pass,
    ) -> (Tensor<2>, Vec<LayerTrace>) {
        let pass = Pass { training: false, ..pass };
        let [sequences, length, _] = x.dims();
        let unknown = TokenRows::unknown(sequences, length);
        let mut blocks = self.sublayers(tokens.unwrap_or(&unknown), &pass, false);
        for block in &mut blocks {
            block.attention.settings.weight_dropout = Dropout::NONE; // a quirk may leave it on in evaluation
        }
        reference::blocks(x, &blocks[first..], &self.classifier)
    }

    /// The rows after the last block, `[batch, length, d_model]`, layer by layer: as [`reference::blocks`], but every part runs in
    /// the form that the engine and its mechanism allow.
    fn forward_rows(&self, tokens: &TokenRows, pass: &Pass, observer: &mut impl Observer) -> Tensor<3> {
        let fused = self.is_fused();
        let mut x = self.embed(tokens, pass, if fused { fused::embedding } else { reference::embedding });
        for BlockSublayers { attention, form, mlp } in self.sublayers(tokens, pass, fused) {
            observer.norm_input(&x);
            x = observer.attention(&attention, form.as_ref(), x);
            observer.norm_input(&x);
            x = if fused { fused::mlp(x, &mlp) } else { reference::mlp(x, &mlp) };
        }
        x
    }

    /// All blocks in a pass, with the fast forms of their mechanisms if they may be used.
    fn sublayers(&self, tokens: &TokenRows, pass: &Pass, fused: bool) -> Vec<BlockSublayers<'_>> {
        let forms = self.attention.for_blocks(self.blocks.len(), |attention| {
            let form = || FastForm::new(attention.mechanism.as_ref(), tokens.length, self.config.visibility);
            fused.then(form).flatten()
        });
        let blocks = self.blocks.iter().zip(forms).enumerate().map(|(layer, (block, form))| BlockSublayers {
            attention: AttentionSublayer {
                mechanism: self.attention.of_block(layer).mechanism.as_ref(),
                weights: &block.attention,
                settings: self.attention_settings(layer, pass),
                context: self.context(layer, pass, tokens),
            },
            form,
            mlp: MlpSublayer { weights: &block.mlp, settings: self.mlp_settings(pass), key: pass.layer(layer) },
        });
        blocks.collect()
    }

    fn context(&self, layer: usize, pass: &Pass, tokens: &TokenRows) -> LayerContext {
        LayerContext {
            layer,
            key: pass.layer(layer),
            fixed_key: input::fixed_key(self.seed, layer),
            globals: self.attention.globals(),
            visibility: self.config.visibility,
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
            true => self.relevant_keys(&tokens),
            false => Arc::new([]),
        };
        let tokens = self.append_globals(self.pad(tokens));
        let [sequences, length] = tokens.dims();
        let ids: Arc<[usize]> = ids(tokens).into();
        TokenRows { ids, relevant, sequences, length }
    }

    fn relevant_keys(&self, tokens: &Tensor<2, Int>) -> Arc<[Arc<RelevantKeys>]> {
        let relevance = self.relevance.as_ref();
        let relevance =
            relevance.unwrap_or_else(|| panic!("`{}` is not told which positions are relevant", self.attention));
        ids(tokens.clone()).chunks(tokens.dims()[1]).map(|tokens| relevance.keys(tokens)).collect()
    }

    /// Loss and answer for every question in evaluation, without gradients. All blocks and the head run as one operator where the
    /// engine and the model allow it, which never holds all logits; if not, they run layer by layer, some sequences at a time.
    ///
    /// # Panics
    /// If there are not the questions of each sequence, or one asks for a class or a token that there is not.
    pub fn answers(&self, tokens: &TokenRows, questions: &Questions, pass: Pass) -> Vec<Answer> {
        let at_once = self.ask(tokens, questions, pass, |model, ids| model.answers(ids, questions));
        at_once.unwrap_or_else(|| {
            let answers = |questions: &Questions, logits: Vec<f32>| {
                let rows = logits.chunks_exact(self.config.classes).zip(questions.all());
                rows.map(|(logits, question)| answer(logits, questions, question.target)).collect::<Vec<_>>()
            };
            self.ask_by_layer(tokens, questions, pass, answers)
        })
    }

    /// Logits of all questions in evaluation, row by row: the same as [`forward_at`](Self::forward_at) up to rounding, but without
    /// gradients and faster.
    ///
    /// # Panics
    /// If there are not the questions of each sequence, or one asks at a token that there is not.
    pub fn logits(&self, tokens: &TokenRows, questions: &Questions, pass: Pass) -> Vec<f32> {
        let at_once = self.ask(tokens, questions, pass, |model, ids| model.logits(ids, questions));
        at_once.unwrap_or_else(|| self.ask_by_layer(tokens, questions, pass, |_, logits| logits))
    }

    fn ask<R>(
        &self,
        tokens: &TokenRows,
        questions: &Questions,
        pass: Pass,
        ask: impl FnOnce(&Inference<'_>, &[usize]) -> R,
    ) -> Option<R> {
        assert_eq!(questions.sequences(), tokens.sequences, "every sequence has its questions");
        let call = self.encoder_call(tokens, &Pass { training: false, ..pass })?;
        call.ask(&self.classifier, &tokens.ids, ask)
    }

    fn ask_by_layer<R>(
        &self,
        tokens: &TokenRows,
        questions: &Questions,
        pass: Pass,
        answer: impl Fn(&Questions, Vec<f32>) -> Vec<R>,
    ) -> Vec<R> {
        let pass = Pass { training: false, ..pass };
        let mut first = 0;
        let batches = tokens.batches(EVALUATION_BATCH).zip(0..).map(|(batch, number)| {
            let asked = questions.select(first..first + batch.sequences);
            first += batch.sequences;
            if asked.all().is_empty() {
                return Vec::new();
            }
            let logits = self.forward_at_rows(&batch, &asked, &pass.of_batch(number)).into_data();
            answer(&asked, logits.iter::<f32>().collect())
        });
        batches.flatten().collect()
    }

    /// Mean loss of a batch and the gradients of all parameters, if one operator can compute them.
    pub(crate) fn gradients(
        &self,
        tokens: &TokenRows,
        questions: &Questions,
        pass: &Pass,
    ) -> Option<(f64, NamedGradients)> {
        let call = self.encoder_call(tokens, pass)?;
        let result = call.gradients(&self.classifier, &tokens.ids, questions)?;
        let mut gradients = NamedGradients::default();
        gradients.add("embedding".to_owned(), Some(result.table));
        for (layer, ((attention, mlp), block)) in result.blocks.into_iter().zip(&call.blocks).enumerate() {
            let name = |part: &str| format!("blocks.{layer}.{part}");
            gradients.add_linear(&name("attention.query"), attention.query);
            gradients.add_linear(&name("attention.key"), attention.key);
            gradients.add_linear(&name("attention.value"), attention.value);
            gradients.add_linear(&name("attention.output"), attention.output);
            if block.attention.weights.mechanism.is_some() {
                let gradient = fused::parameter_gradient(&block.attention, tokens.length, &attention.head_scalars);
                gradients.add(name("attention.mechanism"), gradient);
            }
            gradients.add_linear(&name("mlp.hidden"), mlp.hidden);
            gradients.add_linear(&name("mlp.output"), mlp.output);
        }
        gradients.add_linear("classifier", result.head);
        Some((result.loss, gradients))
    }

    fn encoder_call(&self, tokens: &TokenRows, pass: &Pass) -> Option<EncoderCall<'_>> {
        if !self.is_fused() {
            return None;
        }
        let table = self.embedding.val();
        Some(EncoderCall {
            positions: self.positions.get(tokens.length, self.config.d_model, &table.device(), table.dtype()),
            table,
            dropout: self.dropout(pass.training),
            embedding_site: pass.embedding(),
            blocks: self.sublayers(tokens, pass, true),
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
        embedding(table, tokens, positions, &self.dropout(pass.training), pass.embedding())
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
