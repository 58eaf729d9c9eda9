//! The embedding, the two sublayers of a block and whole models as single operators on Burn's CPU backend, with hand-written
//! gradients.
//!
//! [`reference`](mod@crate::reference) defines what they compute; the arithmetic is in the `semfocus-kernels` crate. This folder only
//! binds it to Burn: operators are declared with Burn's backend extension ([`SublayerOps`]), implemented for
//! [`Flex`](burn::backend::Flex) (`cpu.rs`), and registered with autodiff by steps that call the kernels' backward pass
//! (`gradients.rs`). `call.rs` has what an operator is called with. `encoder.rs` runs all blocks at once, without autodiff, and
//! `parameters.rs` gives the gradients of that to the parameters.

mod call;
mod cpu;
mod encoder;
mod gradients;
mod parameters;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, DispatchDevice, backend_extension};
use burn::tensor::{DType, Tensor};
use semfocus_kernels::{HeadScalars, RowObserver};

use crate::input::TokenRows;
use crate::mechanism::{FastForm, HeadTensors, LayerShape, Mechanism};
use crate::sublayer::{AttentionSublayer, Embedding, MlpSublayer};

pub use call::{AttentionCall, AttentionInputs, EmbeddingCall, LinearInputs, MlpCall, MlpInputs};
pub(crate) use encoder::EncoderCall;

/// The fused operators, as an extension of Burn's backends.
#[backend_extension(Flex, Autodiff)]
pub trait SublayerOps: Backend {
    /// See [`embedding`].
    fn embedding(table: FloatTensor<Self>, positions: FloatTensor<Self>, call: EmbeddingCall) -> FloatTensor<Self>;
    /// See [`attention`].
    fn attention_sublayer(#[extension_type] inputs: AttentionInputs<Self>, call: AttentionCall) -> FloatTensor<Self>;
    /// See [`mlp`].
    fn mlp_sublayer(#[extension_type] inputs: MlpInputs<Self>, call: MlpCall) -> FloatTensor<Self>;
}

/// Whether the fused operators can take `x`: on Burn's CPU backend, in single precision.
pub fn supports<const D: usize>(x: &Tensor<D>) -> bool {
    let device = x.device().inner();
    x.dtype() == DType::F32 && matches!(device.as_dispatch(), DispatchDevice::Flex(_))
}

/// `drop(scale · table[token] + position)` for `tokens` of `[batch, length]`.
///
/// # Panics
/// If [`supports`] is false for the table, or a token has no row in it.
pub fn embedding(tokens: &TokenRows, embedding: Embedding) -> Tensor<3> {
    let Embedding { table, positions, scale, dropout, site } = embedding;
    let shape = [tokens.sequences, tokens.length];
    // Fixed positions are not on a device with autodiff.
    let positions = if table.is_autodiff() { positions.autodiff() } else { positions.inner() };
    let call = EmbeddingCall { tokens: tokens.ids.clone(), shape, scale: scale as f32, dropout, site };
    Tensor::from_dispatch(Dispatch::embedding(table.into_dispatch(), positions.into_dispatch(), call))
}

/// `x + drop(attention(norm(x)))` for `x` of `[batch, length, d_model]`.
///
/// # Panics
/// If [`supports`] is false for `x`.
pub fn attention(x: Tensor<3>, sublayer: &AttentionSublayer<'_>, form: &FastForm) -> Tensor<3> {
    let scalars = scalars_of(sublayer, &x);
    let inputs = AttentionInputs::<Dispatch>::new(x.into_dispatch(), sublayer.weights, scalars.into_dispatch());
    Tensor::from_dispatch(Dispatch::attention_sublayer(inputs, AttentionCall::new(sublayer, form)))
}

/// As [`attention`], but without gradients, and with the observation of every sequence.
///
/// # Panics
/// If [`supports`] is false for `x`.
pub fn attention_observed<O: RowObserver>(
    x: Tensor<3>,
    sublayer: &AttentionSublayer<'_>,
    form: &FastForm,
    observer: &O,
) -> (Tensor<3>, Vec<O::Observation>) {
    let (device, scalars) = (x.device(), scalars_of(sublayer, &x));
    let (y, observations) = cpu::attention_observed(x.into_data(), scalars.into_data(), sublayer, form, observer);
    (Tensor::from_data(y, &device), observations)
}

/// `x + drop(mlp(norm(x)))` for `x` of `[batch, length, d_model]`.
///
/// # Panics
/// If [`supports`] is false for `x`.
pub fn mlp(x: Tensor<3>, sublayer: &MlpSublayer<'_>) -> Tensor<3> {
    let inputs = MlpInputs::<Dispatch>::new(x.into_dispatch(), sublayer.weights);
    Tensor::from_dispatch(Dispatch::mlp_sublayer(inputs, MlpCall::from(sublayer)))
}

/// The scalars of the heads, `[heads, 2]`: temperature and α.
fn scalars_of(sublayer: &AttentionSublayer<'_>, x: &Tensor<3>) -> Tensor<2> {
    let shape = sublayer.settings.shape(x.dims()[1], &x.device(), DType::F32);
    head_scalars(sublayer.weights.learned(), sublayer.mechanism, &shape)
}

fn head_scalars(parameters: Option<Tensor<2>>, mechanism: &dyn Mechanism, shape: &LayerShape) -> Tensor<2> {
    let HeadTensors { temperature, alpha } = mechanism.head_scalars(parameters, shape);
    let HeadScalars { temperature: default_temperature, alpha: default_alpha } = HeadScalars::default();
    let or = |scalars: Option<Tensor<1>>, default: f32| scalars.unwrap_or_else(|| shape.constant(default.into()));
    Tensor::stack(vec![or(temperature, default_temperature), or(alpha, default_alpha)], 1)
}
