//! The operators on Burn's CPU backend: views of tensors become kernels.

use burn::backend::Flex;
use burn::backend::TensorMetadata;
use burn::backend::tensor::FloatTensor;
use burn::tensor::TensorData;
use semfocus_kernels as kernels;
use semfocus_kernels::{HeadScalars, Hints, RowObserver};

use super::SublayerOps;
use super::call::{AttentionCall, AttentionInputs, EmbeddingCall, LinearInputs, MlpCall, MlpInputs};
use crate::context::site;
use crate::mechanism::FastForm;
use crate::sublayer::AttentionSublayer;

pub(super) type Primitive = FloatTensor<Flex>;

pub(super) fn values(tensor: &Primitive) -> &[f32] {
    tensor.as_slice().expect("inputs of the fused operators are contiguous and in single precision")
}

pub(super) fn tensor(values: Vec<f32>, like: &Primitive) -> Primitive {
    Primitive::from_data(TensorData::new(values, like.shape()))
}

/// Temperature and α of each head, out of `[heads, 2]`.
pub(super) fn scalar_pairs(scalars: &[f32]) -> Vec<HeadScalars> {
    let pairs = scalars.as_chunks::<2>().0;
    pairs.iter().map(|&[temperature, alpha]| HeadScalars { temperature, alpha }).collect()
}

/// See [`super::attention_observed`].
pub(super) fn attention_observed<O: RowObserver>(
    x: TensorData,
    head_scalars: TensorData,
    sublayer: &AttentionSublayer<'_>,
    form: &FastForm,
    observer: &O,
) -> (TensorData, Vec<O::Observation>) {
    let [x, head_scalars] = [x, head_scalars].map(Primitive::from_data);
    let inputs = AttentionInputs::<Flex>::new(x, sublayer.weights, head_scalars);
    let (scalars, call) = (inputs.scalars(), AttentionCall::new(sublayer, form));
    let (y, observations) = inputs.kernel(&scalars, &call).forward_observed(values(&inputs.x), observer);
    (TensorData::new(y, inputs.x.shape()), observations)
}

impl LinearInputs<Flex> {
    pub(super) fn view(&self) -> kernels::LinearView<'_> {
        kernels::LinearView { weight: values(&self.weight), bias: values(&self.bias) }
    }
}

impl AttentionInputs<Flex> {
    pub(super) fn contiguous(self) -> Self {
        self.map(|tensor| tensor.to_contiguous())
    }

    pub(super) fn scalars(&self) -> Vec<HeadScalars> {
        scalar_pairs(values(&self.head_scalars))
    }

    /// The kernel for these tensors; `head_scalars` are their [`scalars`](Self::scalars).
    pub(super) fn kernel<'a>(
        &'a self,
        head_scalars: &'a [HeadScalars],
        call: &'a AttentionCall,
    ) -> kernels::AttentionKernel<'a> {
        let AttentionCall { form, settings, context } = call;
        let shape = self.x.shape();
        kernels::AttentionKernel {
            length: shape[1],
            width: shape[2],
            heads: settings.heads,
            head_width: settings.d_head,
            query: self.query.view(),
            key: self.key.view(),
            value: self.value.view(),
            output: self.output.view(),
            visibility: form.visibility,
            selection: &form.selection,
            weighting: form.weighting,
            scale: settings.score_scale() as f32,
            head_scalars,
            epsilon: settings.norm_epsilon as f32,
            weight_dropout: settings.weight_dropout,
            weight_site: context.key.child(site::ATTENTION_WEIGHTS),
            output_dropout: settings.output_dropout,
            output_site: context.key.child(site::ATTENTION_OUTPUT),
            hints: Hints {
                layer: context.layer,
                tokens: &context.tokens,
                relevant: &context.relevant,
                initial_maps: context.initial_maps.as_ref().map(|maps| maps.views()),
                draw_key: context.draw_key(),
                fixed_key: context.fixed_key,
            },
        }
    }
}

impl MlpInputs<Flex> {
    pub(super) fn contiguous(self) -> Self {
        self.map(|tensor| tensor.to_contiguous())
    }

    /// The kernel for these tensors.
    pub(super) fn kernel(&self, call: &MlpCall) -> kernels::MlpKernel<'_> {
        let MlpCall { settings, key } = call;
        kernels::MlpKernel {
            width: self.x.shape()[2],
            hidden_width: self.hidden.bias.shape()[0],
            hidden: self.hidden.view(),
            output: self.output.view(),
            activation: settings.activation,
            epsilon: settings.norm_epsilon as f32,
            hidden_dropout: settings.hidden_dropout,
            hidden_site: key.child(site::MLP_HIDDEN),
            output_dropout: settings.output_dropout,
            output_site: key.child(site::MLP_OUTPUT),
        }
    }
}

impl EmbeddingCall {
    /// The kernel for this table and these positions, which have gradients.
    pub(super) fn kernel<'a>(&self, [table, positions]: &'a [Primitive; 2]) -> kernels::EmbeddingKernel<'a> {
        let EmbeddingCall { scale, dropout, site, .. } = self;
        let width = table.shape()[1];
        kernels::EmbeddingKernel {
            width,
            table: values(table),
            positions: values(positions),
            learns_positions: true,
            scale: *scale,
            dropout: *dropout,
            site: *site,
        }
    }
}

impl SublayerOps for Flex {
    fn embedding(table: Primitive, positions: Primitive, call: EmbeddingCall) -> Primitive {
        let inputs = [table, positions].map(|tensor| tensor.to_contiguous());
        let [batch, length] = call.shape;
        let y = call.kernel(&inputs).forward(&call.tokens);
        Primitive::from_data(TensorData::new(y, [batch, length, inputs[0].shape()[1]]))
    }

    fn attention_sublayer(inputs: AttentionInputs<Self>, call: AttentionCall) -> Primitive {
        let inputs = inputs.contiguous();
        let (y, _) = inputs.kernel(&inputs.scalars(), &call).forward(values(&inputs.x), false);
        tensor(y, &inputs.x)
    }

    fn mlp_sublayer(inputs: MlpInputs<Self>, call: MlpCall) -> Primitive {
        let inputs = inputs.contiguous();
        let (y, _) = inputs.kernel(&call).forward(values(&inputs.x), false);
        tensor(y, &inputs.x)
    }
}
