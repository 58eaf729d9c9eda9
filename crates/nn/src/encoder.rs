//! The model of the study and its forward pass.
//!
//! tokens → embedding · √d + positions → dropout → blocks → the rows that questions ask at → linear → logits. A block is two
//! residual sublayers, `x += drop(attention(norm(x)))` and `x += drop(mlp(norm(x)))`; what they compute is in
//! [`reference`](mod@crate::reference). Settings change the positions, leave out the MLPs, give norms a scale and a shift, put a norm
//! before the head and tie its weights to the embedding.

use std::borrow::Cow;
use std::sync::Arc;

use burn::module::{Module, Param};
use burn::tensor::{Device, Int, Tensor, TensorData};
use semfocus_core::{ConfigError, Engine, Head, LrFactors, ModelConfig, PositionKind, Questions};
use semfocus_kernels::{Answer, Dropout, Inference, RelevantKeys, RowObserver, RuleScores, answer};

use crate::block_attentions::BlockAttentions;
use crate::context::{InitialMaps, LayerContext};
use crate::fused::EncoderCall;
use crate::initial::Initialiser;
use crate::input::{self, Pass, Relevance, TokenRows};
use crate::mechanism::FastForm;
use crate::observer::{ObservedLayer, Observer, Rows, Unobserved};
use crate::parameters::NamedGradients;
use crate::positions::Positions;
use crate::sublayer::{
    AttentionSettings, AttentionSublayer, BlockSublayers, Embedding, MlpSettings, MlpSublayer, NORM_EPSILON,
};
use crate::trace::LayerTrace;
use crate::weights::{Block, Classifier, HeadLayer, LinearTensors, Norm};
use crate::{fused, reference};

/// The model: embedding, blocks, classifier.
#[derive(Module, Debug)]
pub struct Encoder {
    /// `[vocabulary + global tokens, d_model]`.
    pub embedding: Param<Tensor<2>>,
    /// Learned positions, `[length + global tokens, d_model]`, if it has them.
    pub positions: Option<Param<Tensor<2>>>,
    /// The blocks, first to last.
    pub blocks: Vec<Block>,
    /// Scale and shift of the norm before the head, if it has them.
    pub norm: Option<Norm>,
    /// Map from a token, or from the mean over all tokens, to the logits.
    pub classifier: Classifier,
    #[module(skip)]
    config: ModelConfig,
    #[module(skip)]
    attention: BlockAttentions,
    #[module(skip)]
    sinusoids: Positions,
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
type EmbeddingForm = fn(&TokenRows, Embedding) -> Tensor<3>;

/// Whether autodiff sees what is computed from parameters. It would keep it after every step, even if nothing needs its gradient, so
/// it must not where an operator has gradients of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Autodiff {
    Sees,
    DoesNotSee,
}

impl Autodiff {
    fn values<const D: usize>(self, parameter: &Param<Tensor<D>>) -> Tensor<D> {
        match self {
            Autodiff::Sees => parameter.val(),
            Autodiff::DoesNotSee => parameter.val().inner(),
        }
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
        let init = Initialiser { seed, config: &config, device };
        let ModelConfig { vocabulary, length, d_model, .. } = config;
        let learns_positions = config.positions == PositionKind::Learned;
        let globals = attention.globals();
        Ok(Encoder {
            embedding: init.table("embedding", [vocabulary + globals, d_model]),
            positions: learns_positions.then(|| init.table("positions", [length + globals, d_model])),
            blocks: (0..config.blocks).map(|layer| init.block(layer, attention.of_block(layer))).collect(),
            norm: if config.final_norm { init.norm() } else { None },
            classifier: init.classifier(),
            initial_maps: initial_maps(&init, &attention),
            relevance: None,
            seed,
            sinusoids: Positions::default(),
            config,
            attention,
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
        let init = Initialiser { seed: self.seed, config: &self.config, device: &device };
        for (layer, block) in self.blocks.iter_mut().enumerate() {
            if !self.attention.shares_head_scalars(&attention, layer) {
                block.attention.mechanism = init.mechanism(attention.of_block(layer));
            }
        }
        self.initial_maps = initial_maps(&init, &attention);
        self.attention = attention;
        Ok(self)
    }

    /// Logits `[batch, classes]` of a question about each sequence of `tokens`, `[batch, length]`.
    ///
    /// # Panics
    /// If there is not at least one token.
    pub fn forward(&self, tokens: Tensor<2, Int>, pass: Pass) -> Tensor<2> {
        let rows = self.token_rows(tokens);
        let x = self.forward_rows(&rows, &pass, &mut Unobserved);
        self.classify(x, &rows)
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
        reference::head(reference::asked_rows(x, &self.placed(tokens, questions)), &self.head())
    }

    /// Logits `[batch, classes]` of a question about each sequence, from the rows after the last block.
    fn classify(&self, x: Tensor<3>, tokens: &TokenRows) -> Tensor<2> {
        let about_each = Questions::classification(vec![0; tokens.sequences]);
        reference::head(reference::asked_rows(x, &self.placed(tokens, &about_each)), &self.head())
    }

    /// The questions as the model reads them: those about a whole sequence ask at its last token if the settings say so.
    fn placed<'q>(&self, tokens: &TokenRows, questions: &'q Questions) -> Cow<'q, Questions> {
        let ModelConfig { head, vocabulary, pad_token, .. } = self.config;
        if head == Head::Mean {
            return Cow::Borrowed(questions);
        }
        let last = |sequence: usize| {
            // The ids of global tokens follow the vocabulary.
            let is_own = |id: &usize| *id < vocabulary && Some(*id) != pad_token;
            let ids = tokens.ids.get(sequence * tokens.length..(sequence + 1) * tokens.length);
            let last = ids.and_then(|ids| ids.iter().rposition(is_own));
            last.unwrap_or(tokens.length - self.attention.globals() - 1) as u32
        };
        Cow::Owned(questions.at_tokens(last))
    }

    /// What the model does with the rows that questions ask at.
    pub fn head(&self) -> HeadLayer<'_> {
        self.head_of(Autodiff::Sees)
    }

    fn head_of(&self, autodiff: Autodiff) -> HeadLayer<'_> {
        let ModelConfig { classes, final_norm, .. } = self.config;
        let weight = match &self.classifier.weight {
            Some(weight) => autodiff.values(weight),
            None => autodiff.values(&self.embedding).narrow(0, 0, classes).transpose(),
        };
        let map = LinearTensors { weight, bias: autodiff.values(&self.classifier.bias) };
        HeadLayer { map, normalises: final_norm, norm: self.norm.as_ref() }
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
        let rows = self.token_rows(tokens);
        let x = self.forward_rows(&rows, &pass, &mut observer);
        (self.classify(x, &rows), observer.into_layers())
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
        let tokens = tokens.unwrap_or(&unknown);
        let mut blocks = self.sublayers(tokens, &pass, false);
        for block in &mut blocks {
            block.attention.settings.weight_dropout = Dropout::NONE; // a quirk may leave it on in evaluation
        }
        let (x, layers) = reference::blocks(x, &blocks[first..]);
        (self.classify(x, tokens), layers)
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
            x = match mlp {
                Some(mlp) if fused => fused::mlp(x, &mlp),
                Some(mlp) => reference::mlp(x, &mlp),
                None => x,
            };
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
            mlp: block.mlp.as_ref().map(|weights| {
                let settings = self.mlp_settings(pass);
                MlpSublayer { weights, settings, key: pass.layer(layer) }
            }),
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
        let questions = &self.placed(tokens, questions);
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
        let questions = &self.placed(tokens, questions);
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
        call.ask(&tokens.ids, ask)
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
        self.encoder_call(tokens, pass)?.gradients(&tokens.ids, &self.placed(tokens, questions))
    }

    fn encoder_call(&self, tokens: &TokenRows, pass: &Pass) -> Option<EncoderCall<'_>> {
        self.is_fused().then(|| EncoderCall {
            embedding: self.embedding(tokens.length, pass, Autodiff::DoesNotSee),
            learned_positions: self.positions.as_ref().map(|positions| positions.shape().num_elements()),
            blocks: self.sublayers(tokens, pass, true),
            head: self.head_of(Autodiff::DoesNotSee),
            is_tied: self.config.tied,
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
    fn embed(&self, tokens: &TokenRows, pass: &Pass, form: EmbeddingForm) -> Tensor<3> {
        form(tokens, self.embedding(tokens.length, pass, Autodiff::Sees))
    }

    /// The embedding of sequences of `length` tokens, global ones included, in a pass.
    ///
    /// # Panics
    /// If learned positions do not reach that far.
    fn embedding(&self, length: usize, pass: &Pass, autodiff: Autodiff) -> Embedding {
        let (table, width) = (autodiff.values(&self.embedding), self.config.d_model);
        let (device, precision) = (table.device(), table.dtype());
        let positions = match &self.positions {
            Some(learned) => {
                let known = learned.dims()[0];
                assert!(length <= known, "learned positions reach {known} tokens, and a sequence has {length}");
                autodiff.values(learned).narrow(0, 0, length)
            }
            None if self.config.positions == PositionKind::None => {
                Tensor::zeros([length, width], (&device.inner(), precision))
            }
            None => self.sinusoids.get(length, width, &device, precision),
        };
        Embedding {
            table,
            positions,
            scale: self.config.embedding_scale(),
            dropout: self.dropout(pass.training),
            site: pass.embedding(),
        }
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
fn initial_maps(init: &Initialiser, attention: &BlockAttentions) -> Vec<Option<Arc<InitialMaps>>> {
    let asks = |layer: &usize| attention.of_block(*layer).mechanism.scores() == RuleScores::InitialMaps;
    let maps = |layer: usize| Some(layer).filter(asks).map(|layer| Arc::new(init.initial_maps(layer)));
    (0..init.config.blocks).map(maps).collect()
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
