//! What the operators are called with: tensors, which may have gradients, and everything else.

use std::sync::Arc;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, Dispatch, ExtensionType, Flex};
use burn::tensor::Tensor;
use semfocus_kernels::{Dropout, Key};

use crate::context::LayerContext;
use crate::mechanism::FastForm;
use crate::sublayer::{AttentionSettings, AttentionSublayer, MlpSettings, MlpSublayer};
use crate::weights::{AttentionWeights, LinearTensors, MlpWeights, Norm};

/// A backend whose tensors can be made of the parameters of a model.
pub(super) trait FromParameter: Backend {
    /// The tensor as this backend computes with it: without autodiff if the backend has none. Autodiff would keep what is computed
    /// from parameters even if nothing needs its gradient.
    fn own<const D: usize>(tensor: Tensor<D>) -> Tensor<D>;
    fn from_parameter<const D: usize>(parameter: Tensor<D>) -> FloatTensor<Self>;
}

impl FromParameter for Dispatch {
    fn own<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
        tensor
    }
    fn from_parameter<const D: usize>(parameter: Tensor<D>) -> FloatTensor<Self> {
        parameter.into_dispatch()
    }
}

impl FromParameter for Flex {
    fn own<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
        tensor.inner()
    }
    fn from_parameter<const D: usize>(parameter: Tensor<D>) -> FloatTensor<Self> {
        FloatTensor::<Flex>::from_data(parameter.into_data())
    }
}

/// Weight and bias of a linear map, or the gradients of both.
#[derive(ExtensionType, Clone, Debug)]
pub struct LinearInputs<B: Backend> {
    pub(super) weight: FloatTensor<B>,
    pub(super) bias: FloatTensor<B>,
}

impl<B: Backend> LinearInputs<B> {
    /// A map of rows that `norm` scales and shifts, as a map of the rows before that: so norms with scale and shift cost a few
    /// operations on maps, and nothing for each row.
    pub(super) fn new(map: LinearTensors, norm: Option<&Norm>) -> Self
    where
        B: FromParameter,
    {
        let map = LinearTensors { weight: B::own(map.weight), bias: B::own(map.bias) };
        let LinearTensors { weight, bias } = match norm {
            Some(Norm { scale, shift }) => map.folded(B::own(scale.val()), B::own(shift.val())),
            None => map,
        };
        LinearInputs { weight: B::from_parameter(weight), bias: B::from_parameter(bias) }
    }

    fn map<C: Backend>(self, map: impl Fn(FloatTensor<B>) -> FloatTensor<C>) -> LinearInputs<C> {
        LinearInputs { weight: map(self.weight), bias: map(self.bias) }
    }
}

/// Tensors of the attention sublayer, or the gradients of all of them.
#[derive(ExtensionType, Clone, Debug)]
pub struct AttentionInputs<B: Backend> {
    pub(super) x: FloatTensor<B>,
    /// Temperature and α of each head, `[heads, 2]`.
    pub(super) head_scalars: FloatTensor<B>,
    #[extension_type]
    pub(super) query: LinearInputs<B>,
    #[extension_type]
    pub(super) key: LinearInputs<B>,
    #[extension_type]
    pub(super) value: LinearInputs<B>,
    #[extension_type]
    pub(super) output: LinearInputs<B>,
}

impl<B: Backend> AttentionInputs<B> {
    pub(super) fn new(x: FloatTensor<B>, weights: &AttentionWeights, head_scalars: FloatTensor<B>) -> Self
    where
        B: FromParameter,
    {
        AttentionInputs {
            x,
            head_scalars,
            query: LinearInputs::new(weights.query.tensors(), weights.norm.as_ref()),
            key: LinearInputs::new(weights.key.tensors(), weights.norm.as_ref()),
            value: LinearInputs::new(weights.value.tensors(), weights.norm.as_ref()),
            output: LinearInputs::new(weights.output.tensors(), None),
        }
    }

    pub(super) fn map<C: Backend>(self, map: impl Fn(FloatTensor<B>) -> FloatTensor<C>) -> AttentionInputs<C> {
        AttentionInputs {
            x: map(self.x),
            head_scalars: map(self.head_scalars),
            query: self.query.map(&map),
            key: self.key.map(&map),
            value: self.value.map(&map),
            output: self.output.map(&map),
        }
    }

    /// All tensors, in the order in which autodiff numbers them.
    pub(super) fn leaves(self) -> [FloatTensor<B>; 10] {
        let AttentionInputs { x, head_scalars, query, key, value, output } = self;
        let [query, key, value, output] =
            [query, key, value, output].map(|LinearInputs { weight, bias }| [weight, bias]);
        let ([qw, qb], [kw, kb], [vw, vb], [ow, ob]) = (query, key, value, output);
        [x, head_scalars, qw, qb, kw, kb, vw, vb, ow, ob]
    }
}

/// Tensors of the MLP sublayer, or the gradients of all of them.
#[derive(ExtensionType, Clone, Debug)]
pub struct MlpInputs<B: Backend> {
    pub(super) x: FloatTensor<B>,
    #[extension_type]
    pub(super) hidden: LinearInputs<B>,
    #[extension_type]
    pub(super) output: LinearInputs<B>,
}

impl<B: Backend> MlpInputs<B> {
    pub(super) fn new(x: FloatTensor<B>, weights: &MlpWeights) -> Self
    where
        B: FromParameter,
    {
        let hidden = LinearInputs::new(weights.hidden.tensors(), weights.norm.as_ref());
        MlpInputs { x, hidden, output: LinearInputs::new(weights.output.tensors(), None) }
    }

    pub(super) fn map<C: Backend>(self, map: impl Fn(FloatTensor<B>) -> FloatTensor<C>) -> MlpInputs<C> {
        MlpInputs { x: map(self.x), hidden: self.hidden.map(&map), output: self.output.map(&map) }
    }

    /// All tensors, in the order in which autodiff numbers them.
    pub(super) fn leaves(self) -> [FloatTensor<B>; 5] {
        let MlpInputs { x, hidden, output } = self;
        [x, hidden.weight, hidden.bias, output.weight, output.bias]
    }
}

/// The inputs of the attention operator that are not tensors.
#[derive(Clone, Debug)]
pub struct AttentionCall {
    pub(super) form: FastForm,
    pub(super) settings: AttentionSettings,
    pub(super) context: LayerContext,
}

impl AttentionCall {
    pub(super) fn new(sublayer: &AttentionSublayer<'_>, form: &FastForm) -> Self {
        let AttentionSublayer { settings, context, .. } = sublayer;
        AttentionCall { form: form.clone(), settings: settings.clone(), context: context.clone() }
    }
}

/// The inputs of the MLP operator that are not tensors.
#[derive(Clone, Debug)]
pub struct MlpCall {
    pub(super) settings: MlpSettings,
    pub(super) key: Key,
}

impl From<&MlpSublayer<'_>> for MlpCall {
    fn from(MlpSublayer { settings, key, .. }: &MlpSublayer<'_>) -> Self {
        MlpCall { settings: settings.clone(), key: *key }
    }
}

/// The inputs of the embedding other than its table and the positions.
#[derive(Clone, Debug)]
pub struct EmbeddingCall {
    pub(super) tokens: Arc<[usize]>,
    pub(super) shape: [usize; 2],
    pub(super) scale: f32,
    pub(super) dropout: Dropout,
    pub(super) site: Key,
}
