//! The embedding and the two sublayers of a block as single operators on Burn's CPU backend, with hand-written gradients.
//!
//! Same signatures as in [`reference`](mod@crate::reference), which defines what they compute; the arithmetic is in the
//! `semfocus-kernels` crate. This file only binds it to Burn: operators are declared with Burn's backend extension,
//! implemented for [`Flex`], and registered with autodiff by a [`Backward`] step that calls the kernels' backward pass.

use std::sync::Arc;

use burn::backend::autodiff::{
    Autodiff,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, DispatchDevice, ExtensionType, Flex, TensorMetadata, backend_extension};
use burn::tensor::{DType, Tensor, TensorData};
use semfocus_core::Questions;
use semfocus_kernels as kernels;
use semfocus_kernels::{AttentionSaved, Dropout, HeadNumbers, Key, LinearGradient, MlpSaved, RowObserver};

use crate::mechanism::{FastForm, HeadTensors, LayerShape, Mechanism};
use crate::model::{AttentionWeights, Linear, MlpWeights, TokenRows};
use crate::sublayer::{AttentionSettings, LayerSite, MlpSettings, site};

/// Whether the fused operators can take `x`: on Burn's CPU backend, in single precision.
pub fn supports<const D: usize>(x: &Tensor<D>) -> bool {
    let device = x.device().inner();
    x.dtype() == DType::F32 && matches!(device.as_dispatch(), DispatchDevice::Flex(_))
}

/// `x + drop(attention(norm(x)))` for `x` of `[batch, length, d_model]`.
///
/// # Panics
/// If [`supports`] is false for `x`.
pub fn attention(
    x: Tensor<3>,
    weights: &AttentionWeights,
    mechanism: &dyn Mechanism,
    form: &FastForm,
    settings: &AttentionSettings,
    site: &LayerSite,
) -> Tensor<3> {
    let shape = settings.shape(x.dims()[1], &x.device());
    let inputs = AttentionInputs {
        numbers: head_numbers(learned(weights), mechanism, &shape).into_dispatch(),
        x: x.into_dispatch(),
        query: LinearInputs::from(&weights.query),
        key: LinearInputs::from(&weights.key),
        value: LinearInputs::from(&weights.value),
        output: LinearInputs::from(&weights.output),
    };
    let call = AttentionCall { form: form.clone(), settings: settings.clone(), site: site.clone() };
    Tensor::from_dispatch(Dispatch::attention_sublayer(inputs, call))
}

/// As [`attention`], but without gradients, and with the observation of every sequence.
///
/// # Panics
/// If [`supports`] is false for `x`.
pub fn attention_observed<O: RowObserver>(
    x: Tensor<3>,
    weights: &AttentionWeights,
    mechanism: &dyn Mechanism,
    form: &FastForm,
    settings: &AttentionSettings,
    site: &LayerSite,
    observer: &O,
) -> (Tensor<3>, Vec<O::Observation>) {
    let device = x.device();
    let numbers = head_numbers(learned(weights), mechanism, &settings.shape(x.dims()[1], &device));
    let [x, numbers] = [x.into_data(), numbers.into_data()].map(Primitive::from_data);
    let inputs = AttentionInputs::<Flex>::from_weights(x, weights, numbers);
    let call = AttentionCall { form: form.clone(), settings: settings.clone(), site: site.clone() };
    let (y, observations) = inputs.kernel(&inputs.head_numbers(), &call).forward_observed(values(&inputs.x), observer);
    (Tensor::from_data(TensorData::new(y, inputs.x.shape()), &device), observations)
}

/// `x + drop(mlp(norm(x)))` for `x` of `[batch, length, d_model]`.
///
/// # Panics
/// If [`supports`] is false for `x`.
pub fn mlp(x: Tensor<3>, weights: &MlpWeights, settings: &MlpSettings, layer_key: Key) -> Tensor<3> {
    let inputs = MlpInputs {
        x: x.into_dispatch(),
        hidden: LinearInputs::from(&weights.hidden),
        output: LinearInputs::from(&weights.output),
    };
    let call = MlpCall { settings: settings.clone(), layer_key };
    Tensor::from_dispatch(Dispatch::mlp_sublayer(inputs, call))
}

/// The parameters of the mechanism, if it has any.
fn learned(weights: &AttentionWeights) -> Option<Tensor<2>> {
    weights.mechanism.as_ref().map(|parameters| parameters.val())
}

/// The numbers of the heads, `[heads, 2]`: temperature and α.
fn head_numbers(parameters: Option<Tensor<2>>, mechanism: &dyn Mechanism, shape: &LayerShape) -> Tensor<2> {
    let HeadTensors { temperature, alpha } = mechanism.numbers(parameters, shape);
    let HeadNumbers { temperature: default_temperature, alpha: default_alpha } = HeadNumbers::default();
    let or = |numbers: Option<Tensor<1>>, default: f32| numbers.unwrap_or_else(|| shape.constant(default.into()));
    Tensor::stack(vec![or(temperature, default_temperature), or(alpha, default_alpha)], 1)
}

/// The same as plain numbers. Most mechanisms have the default ones, and need no tensors for them.
fn head_number_values(weights: &AttentionWeights, mechanism: &dyn Mechanism, shape: &LayerShape) -> Vec<HeadNumbers> {
    if let HeadTensors { temperature: None, alpha: None } = mechanism.numbers(learned(weights), shape) {
        return vec![HeadNumbers::default(); shape.heads];
    }
    let numbers: Vec<f32> = head_numbers(learned(weights), mechanism, shape).into_data().iter::<f32>().collect();
    number_pairs(&numbers)
}

fn number_pairs(numbers: &[f32]) -> Vec<HeadNumbers> {
    let pairs = numbers.as_chunks::<2>().0;
    pairs.iter().map(|&[temperature, alpha]| HeadNumbers { temperature, alpha }).collect()
}

/// `drop(√d · table[token] + position)` for `tokens` of `[batch, length]`, `table` of `[ids, d]` and `positions` of
/// `[length, d]`.
///
/// # Panics
/// If [`supports`] is false for the table, or a token has no row in it.
pub fn embedding(
    table: Tensor<2>,
    tokens: &TokenRows,
    positions: Tensor<2>,
    dropout: &Dropout,
    site: Key,
) -> Tensor<3> {
    let call = EmbeddingCall {
        tokens: tokens.ids.clone(),
        positions: positions.into_data().iter::<f32>().collect(),
        shape: [tokens.sequences, tokens.length],
        scale: (table.dims()[1] as f32).sqrt(),
        dropout: *dropout,
        site,
    };
    Tensor::from_dispatch(Dispatch::embedding(table.into_dispatch(), call))
}

/// A whole model in one forward pass, for operators that run all of its blocks.
pub(crate) struct EncoderCall<'a> {
    pub(crate) table: Tensor<2>,
    pub(crate) positions: Tensor<2>,
    pub(crate) dropout: Dropout,
    pub(crate) embedding_site: Key,
    pub(crate) blocks: Vec<BlockCall<'a>>,
}

/// A block of an [`EncoderCall`].
pub(crate) struct BlockCall<'a> {
    pub(crate) mechanism: &'a dyn Mechanism,
    pub(crate) form: FastForm,
    pub(crate) attention: &'a AttentionWeights,
    pub(crate) attention_settings: AttentionSettings,
    pub(crate) mlp: &'a MlpWeights,
    pub(crate) mlp_settings: MlpSettings,
    pub(crate) site: LayerSite,
}

impl EncoderCall<'_> {
    /// Calls `run` with the kernels of the embedding and of all blocks.
    fn with_kernels<R>(
        self,
        run: impl FnOnce(kernels::EmbeddingKernel<'_>, Vec<(kernels::AttentionKernel<'_>, kernels::MlpKernel<'_>)>) -> R,
    ) -> R {
        let [length, width] = self.positions.dims();
        let device = self.table.device();
        let no_rows = || Primitive::from_data(TensorData::new(Vec::<f32>::new(), [0, length, width]));
        let no_numbers = || Primitive::from_data(TensorData::new(Vec::<f32>::new(), [0, 2]));
        let inputs: Vec<_> = self
            .blocks
            .into_iter()
            .map(|BlockCall { mechanism, form, attention, attention_settings, mlp, mlp_settings, site }| {
                let shape = attention_settings.shape(length, &device);
                let numbers = head_number_values(attention, mechanism, &shape);
                let attention = AttentionInputs::<Flex>::from_weights(no_rows(), attention, no_numbers());
                let mlp = MlpInputs::<Flex> {
                    x: no_rows(),
                    hidden: LinearInputs::from_weights(&mlp.hidden),
                    output: LinearInputs::from_weights(&mlp.output),
                };
                let mlp_call = MlpCall { settings: mlp_settings, layer_key: site.key };
                let call = AttentionCall { form, settings: attention_settings, site };
                (numbers, attention, call, mlp, mlp_call)
            })
            .collect();
        let (table, positions) = (self.table.into_data(), self.positions.into_data());
        let embedding = kernels::EmbeddingKernel {
            width,
            table: table.as_slice::<f32>().expect(PLAIN),
            positions: positions.as_slice::<f32>().expect(PLAIN),
            scale: (width as f32).sqrt(),
            dropout: self.dropout,
            site: self.embedding_site,
        };
        let kernels = inputs
            .iter()
            .map(|(numbers, attention, call, mlp, mlp_call)| (attention.kernel(numbers, call), mlp.kernel(mlp_call)));
        run(embedding, kernels.collect())
    }

    /// The logits of all questions, row by row, for evaluation only. `None` for models that have to go layer by layer: see
    /// [`kernels::Inference::new`].
    ///
    /// # Panics
    /// If [`supports`] is false for the table, or a token has no row in it.
    pub(crate) fn logits(self, head: &Linear, tokens: &[usize], questions: &Questions) -> Option<Vec<f32>> {
        let head = LinearInputs::from_weights(head);
        self.with_kernels(|embedding, blocks| {
            let head = kernels::HeadKernel { width: embedding.width, map: head.view() };
            Some(kernels::Inference::new(embedding, blocks, head, tokens.len())?.logits(tokens, questions))
        })
    }

    /// Loss and gradients of a training step. `None` for models that have to go layer by layer: see [`kernels::Training::new`].
    ///
    /// # Panics
    /// If [`supports`] is false for the table, or a token has no row in it.
    pub(crate) fn gradients(
        self,
        head: &Linear,
        tokens: &[usize],
        questions: &Questions,
    ) -> Option<kernels::TrainingGradients> {
        let head = LinearInputs::from_weights(head);
        self.with_kernels(|embedding, blocks| {
            let head = kernels::HeadKernel { width: embedding.width, map: head.view() };
            let training = kernels::Training::new(embedding, blocks, head, tokens.len())?;
            Some(training.gradients(tokens, questions))
        })
    }
}

/// The gradient of a mechanism's parameters, `[heads, parameters]`, from those of the numbers of its heads.
pub(crate) fn parameter_gradient(
    weights: &AttentionWeights,
    mechanism: &dyn Mechanism,
    shape: &LayerShape,
    gradients: &[HeadNumbers],
) -> Option<Vec<f32>> {
    // A leaf of its own: autodiff need not track the parameters of a model that one operator trains.
    let parameters = weights.mechanism.as_ref()?.val().detach().require_grad();
    let heads = gradients.len();
    let device = parameters.device();
    let gradients = gradients.iter().flat_map(|gradient| [gradient.temperature, gradient.alpha]).collect::<Vec<f32>>();
    let gradients = Tensor::<2>::from_data(TensorData::new(gradients, [heads, 2]), &device);
    let along = head_numbers(Some(parameters.clone()), mechanism, shape).mul(gradients).sum().backward();
    Some(parameters.grad(&along)?.into_data().iter::<f32>().collect())
}

const PLAIN: &str = "parameters are contiguous and in single precision";

/// The fused operators, as an extension of Burn's backends.
#[backend_extension(Flex, Autodiff)]
pub trait SublayerOps: Backend {
    /// See [`embedding`].
    fn embedding(table: FloatTensor<Self>, call: EmbeddingCall) -> FloatTensor<Self>;
    /// See [`attention`].
    fn attention_sublayer(#[extension_type] inputs: AttentionInputs<Self>, call: AttentionCall) -> FloatTensor<Self>;
    /// See [`mlp`].
    fn mlp_sublayer(#[extension_type] inputs: MlpInputs<Self>, call: MlpCall) -> FloatTensor<Self>;
}

/// Weight and bias of a linear map.
#[derive(ExtensionType, Clone, Debug)]
pub struct LinearInputs<B: Backend> {
    weight: FloatTensor<B>,
    bias: FloatTensor<B>,
}

impl From<&Linear> for LinearInputs<Dispatch> {
    fn from(linear: &Linear) -> Self {
        LinearInputs { weight: linear.weight.val().into_dispatch(), bias: linear.bias.val().into_dispatch() }
    }
}

/// Tensors of the attention sublayer.
#[derive(ExtensionType, Clone, Debug)]
pub struct AttentionInputs<B: Backend> {
    x: FloatTensor<B>,
    /// Temperature and α of each head, `[heads, 2]`.
    numbers: FloatTensor<B>,
    #[extension_type]
    query: LinearInputs<B>,
    #[extension_type]
    key: LinearInputs<B>,
    #[extension_type]
    value: LinearInputs<B>,
    #[extension_type]
    output: LinearInputs<B>,
}

/// Tensors of the MLP sublayer.
#[derive(ExtensionType, Clone, Debug)]
pub struct MlpInputs<B: Backend> {
    x: FloatTensor<B>,
    #[extension_type]
    hidden: LinearInputs<B>,
    #[extension_type]
    output: LinearInputs<B>,
}

/// The inputs of the attention operator that are not tensors.
#[derive(Clone, Debug)]
pub struct AttentionCall {
    form: FastForm,
    settings: AttentionSettings,
    site: LayerSite,
}

/// The inputs of the MLP operator that are not tensors.
#[derive(Clone, Debug)]
pub struct MlpCall {
    settings: MlpSettings,
    layer_key: Key,
}

/// The inputs of the embedding other than its table.
#[derive(Clone, Debug)]
pub struct EmbeddingCall {
    tokens: Arc<[usize]>,
    positions: Arc<[f32]>,
    shape: [usize; 2],
    scale: f32,
    dropout: Dropout,
    site: Key,
}

// ---- on the CPU ------------------------------------------------------------------------------------------------------

type Primitive = FloatTensor<Flex>;

fn values(tensor: &Primitive) -> &[f32] {
    tensor.as_slice().expect("inputs of the fused operators are contiguous and in single precision")
}

fn tensor(values: Vec<f32>, like: &Primitive) -> Primitive {
    Primitive::from_data(TensorData::new(values, like.shape()))
}

impl LinearInputs<Flex> {
    fn from_weights(linear: &Linear) -> Self {
        LinearInputs {
            weight: Primitive::from_data(linear.weight.val().into_data()),
            bias: Primitive::from_data(linear.bias.val().into_data()),
        }
    }

    fn contiguous(self) -> Self {
        LinearInputs { weight: self.weight.to_contiguous(), bias: self.bias.to_contiguous() }
    }

    fn view(&self) -> kernels::LinearView<'_> {
        kernels::LinearView { weight: values(&self.weight), bias: values(&self.bias) }
    }

    fn gradients(&self, gradient: LinearGradient) -> [Primitive; 2] {
        [tensor(gradient.weight, &self.weight), tensor(gradient.bias, &self.bias)]
    }
}

impl AttentionInputs<Flex> {
    fn from_weights(x: Primitive, weights: &AttentionWeights, numbers: Primitive) -> Self {
        AttentionInputs {
            x,
            numbers,
            query: LinearInputs::from_weights(&weights.query),
            key: LinearInputs::from_weights(&weights.key),
            value: LinearInputs::from_weights(&weights.value),
            output: LinearInputs::from_weights(&weights.output),
        }
    }

    fn contiguous(self) -> Self {
        AttentionInputs {
            x: self.x.to_contiguous(),
            numbers: self.numbers.to_contiguous(),
            query: self.query.contiguous(),
            key: self.key.contiguous(),
            value: self.value.contiguous(),
            output: self.output.contiguous(),
        }
    }

    fn head_numbers(&self) -> Vec<HeadNumbers> {
        number_pairs(values(&self.numbers))
    }

    /// The kernel for these tensors; `numbers` are their [`head_numbers`](Self::head_numbers).
    fn kernel<'a>(&'a self, numbers: &'a [HeadNumbers], call: &'a AttentionCall) -> kernels::AttentionKernel<'a> {
        let AttentionCall { form, settings, site } = call;
        let LayerSite { layer, key, place, tokens, relevant, initial_maps, .. } = site;
        let shape = self.x.shape();
        kernels::AttentionKernel {
            layer: *layer,
            numbers,
            visibility: form.visibility,
            initial_maps: initial_maps.as_ref().map(|maps| maps.views()),
            tokens,
            relevant,
            place_site: *place,
            length: shape[1],
            width: shape[2],
            heads: settings.heads,
            head_width: settings.d_head,
            query: self.query.view(),
            key: self.key.view(),
            value: self.value.view(),
            output: self.output.view(),
            selection: &form.selection,
            weighting: form.weighting,
            scale: settings.score_scale() as f32,
            epsilon: settings.norm_epsilon as f32,
            weight_dropout: settings.weight_dropout,
            weight_site: key.child(site::ATTENTION_WEIGHTS),
            output_dropout: settings.output_dropout,
            output_site: key.child(site::ATTENTION_OUTPUT),
            rule_site: key.child(site::MECHANISM),
        }
    }
}

impl MlpInputs<Flex> {
    fn contiguous(self) -> Self {
        MlpInputs { x: self.x.to_contiguous(), hidden: self.hidden.contiguous(), output: self.output.contiguous() }
    }

    /// The kernel for these tensors.
    fn kernel(&self, call: &MlpCall) -> kernels::MlpKernel<'_> {
        let MlpCall { settings, layer_key } = call;
        kernels::MlpKernel {
            width: self.x.shape()[2],
            hidden_width: self.hidden.bias.shape()[0],
            hidden: self.hidden.view(),
            output: self.output.view(),
            activation: settings.activation,
            epsilon: settings.norm_epsilon as f32,
            hidden_dropout: settings.hidden_dropout,
            hidden_site: layer_key.child(site::MLP_HIDDEN),
            output_dropout: settings.output_dropout,
            output_site: layer_key.child(site::MLP_OUTPUT),
        }
    }
}

impl EmbeddingCall {
    /// The kernel for this table.
    fn kernel<'a>(&'a self, table: &'a Primitive) -> kernels::EmbeddingKernel<'a> {
        let EmbeddingCall { positions, scale, dropout, site, .. } = self;
        let width = table.shape()[1];
        kernels::EmbeddingKernel {
            width,
            table: values(table),
            positions,
            scale: *scale,
            dropout: *dropout,
            site: *site,
        }
    }
}

impl SublayerOps for Flex {
    fn embedding(table: Primitive, call: EmbeddingCall) -> Primitive {
        let table = table.to_contiguous();
        let [batch, length] = call.shape;
        let y = call.kernel(&table).forward(&call.tokens);
        Primitive::from_data(TensorData::new(y, [batch, length, table.shape()[1]]))
    }

    fn attention_sublayer(inputs: AttentionInputs<Self>, call: AttentionCall) -> Primitive {
        let inputs = inputs.contiguous();
        let (y, _) = inputs.kernel(&inputs.head_numbers(), &call).forward(values(&inputs.x), false);
        tensor(y, &inputs.x)
    }

    fn mlp_sublayer(inputs: MlpInputs<Self>, call: MlpCall) -> Primitive {
        let inputs = inputs.contiguous();
        let (y, _) = inputs.kernel(&call).forward(values(&inputs.x), false);
        tensor(y, &inputs.x)
    }
}

// ---- with gradients --------------------------------------------------------------------------------------------------

#[derive(Debug)]
struct EmbeddingBackward;

impl Backward<Flex, 1> for EmbeddingBackward {
    type State = (Primitive, EmbeddingCall);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (table, call) = ops.state;
        let gradient = grads.consume::<Flex>(&ops.node).to_contiguous();
        if let [Some(parent)] = ops.parents {
            let result = call.kernel(&table).backward(&call.tokens, values(&gradient));
            grads.register::<Flex>(parent.id, tensor(result, &table));
        }
    }
}

#[derive(Debug)]
struct AttentionBackward;

impl Backward<Flex, 10> for AttentionBackward {
    type State = (AttentionInputs<Flex>, AttentionCall, Arc<AttentionSaved>);

    fn backward(self, ops: Ops<Self::State, 10>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (inputs, call, saved) = ops.state;
        let gradient = grads.consume::<Flex>(&ops.node).to_contiguous();
        let numbers = inputs.head_numbers();
        let result = inputs.kernel(&numbers, &call).backward(&saved, values(&gradient));
        let numbers = result.numbers.iter().flat_map(|number| [number.temperature, number.alpha]).collect();
        let numbers = tensor(numbers, &inputs.numbers);
        let [query_weight, query_bias] = inputs.query.gradients(result.query);
        let [key_weight, key_bias] = inputs.key.gradients(result.key);
        let [value_weight, value_bias] = inputs.value.gradients(result.value);
        let [output_weight, output_bias] = inputs.output.gradients(result.output);
        let x = tensor(result.x, &inputs.x);
        let maps =
            [query_weight, query_bias, key_weight, key_bias, value_weight, value_bias, output_weight, output_bias];
        let all = [x, numbers].into_iter().chain(maps);
        for (parent, gradient) in ops.parents.into_iter().zip(all) {
            if let Some(parent) = parent {
                grads.register::<Flex>(parent.id, gradient);
            }
        }
    }
}

#[derive(Debug)]
struct MlpBackward;

impl Backward<Flex, 5> for MlpBackward {
    type State = (MlpInputs<Flex>, MlpCall, Arc<MlpSaved>);

    fn backward(self, ops: Ops<Self::State, 5>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (inputs, call, saved) = ops.state;
        let gradient = grads.consume::<Flex>(&ops.node).to_contiguous();
        let result = inputs.kernel(&call).backward(&saved, values(&gradient));
        let [hidden_weight, hidden_bias] = inputs.hidden.gradients(result.hidden);
        let [output_weight, output_bias] = inputs.output.gradients(result.output);
        let x = tensor(result.x, &inputs.x);
        for (parent, gradient) in
            ops.parents.into_iter().zip([x, hidden_weight, hidden_bias, output_weight, output_bias])
        {
            if let Some(parent) = parent {
                grads.register::<Flex>(parent.id, gradient);
            }
        }
    }
}

impl<C: CheckpointStrategy> LinearInputs<Autodiff<Flex, C>> {
    fn inner(self) -> LinearInputs<Flex> {
        LinearInputs { weight: self.weight.into_primitive(), bias: self.bias.into_primitive() }
    }
}

impl<C: CheckpointStrategy> SublayerOps for Autodiff<Flex, C> {
    fn embedding(table: FloatTensor<Self>, call: EmbeddingCall) -> FloatTensor<Self> {
        let (table, node) = table.into_parts();
        match EmbeddingBackward.prepare::<C>([node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let table = table.to_contiguous();
                let y = Flex::embedding(table.clone(), call.clone());
                prep.finish((table, call), y)
            }
            OpsKind::UnTracked(prep) => prep.finish(Flex::embedding(table, call)),
        }
    }

    fn attention_sublayer(inputs: AttentionInputs<Self>, call: AttentionCall) -> FloatTensor<Self> {
        let AttentionInputs { x, numbers, query, key, value, output } = inputs;
        let nodes = [
            x.node(),
            numbers.node(),
            query.weight.node(),
            query.bias.node(),
            key.weight.node(),
            key.bias.node(),
            value.weight.node(),
            value.bias.node(),
            output.weight.node(),
            output.bias.node(),
        ];
        let inputs = AttentionInputs {
            x: x.into_primitive(),
            numbers: numbers.into_primitive(),
            query: query.inner(),
            key: key.inner(),
            value: value.inner(),
            output: output.inner(),
        };
        match AttentionBackward.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let inputs = inputs.contiguous();
                let (y, saved) = inputs.kernel(&inputs.head_numbers(), &call).forward(values(&inputs.x), true);
                let (y, saved) = (tensor(y, &inputs.x), saved.expect("saving was asked for"));
                prep.finish((inputs, call, Arc::new(saved)), y)
            }
            OpsKind::UnTracked(prep) => prep.finish(Flex::attention_sublayer(inputs, call)),
        }
    }

    fn mlp_sublayer(inputs: MlpInputs<Self>, call: MlpCall) -> FloatTensor<Self> {
        let MlpInputs { x, hidden, output } = inputs;
        let nodes = [x.node(), hidden.weight.node(), hidden.bias.node(), output.weight.node(), output.bias.node()];
        let inputs = MlpInputs { x: x.into_primitive(), hidden: hidden.inner(), output: output.inner() };
        match MlpBackward.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let inputs = inputs.contiguous();
                let (y, saved) = inputs.kernel(&call).forward(values(&inputs.x), true);
                let (y, saved) = (tensor(y, &inputs.x), saved.expect("saving was asked for"));
                prep.finish((inputs, call, Arc::new(saved)), y)
            }
            OpsKind::UnTracked(prep) => prep.finish(Flex::mlp_sublayer(inputs, call)),
        }
    }
}
