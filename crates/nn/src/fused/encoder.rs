//! A whole model as one operator: all blocks at once, without autodiff.

use burn::backend::Flex;
use burn::tensor::{DType, Tensor, TensorData};
use semfocus_core::Questions;
use semfocus_kernels as kernels;
use semfocus_kernels::{Dropout, HeadScalars, Key};

use super::call::{AttentionCall, AttentionInputs, LinearInputs, MlpCall, MlpInputs};
use super::cpu::{Primitive, scalar_pairs};
use super::head_scalars;
use crate::mechanism::{HeadTensors, LayerShape};
use crate::sublayer::{AttentionSublayer, BlockSublayers};
use crate::weights::Linear;

const PLAIN: &str = "parameters are contiguous and in single precision";

/// A whole model in one forward pass.
pub(crate) struct EncoderCall<'a> {
    pub(crate) table: Tensor<2>,
    pub(crate) positions: Tensor<2>,
    pub(crate) dropout: Dropout,
    pub(crate) embedding_site: Key,
    pub(crate) blocks: Vec<BlockSublayers<'a>>,
}

impl EncoderCall<'_> {
    /// Calls `run` with the kernels of the embedding and of all blocks. `None` if a block has no fast form.
    fn with_kernels<R>(
        &self,
        run: impl FnOnce(
            kernels::EmbeddingKernel<'_>,
            Vec<(kernels::AttentionKernel<'_>, kernels::MlpKernel<'_>)>,
        ) -> Option<R>,
    ) -> Option<R> {
        let [length, width] = self.positions.dims();
        let device = self.table.device();
        let no_rows = || Primitive::from_data(TensorData::new(Vec::<f32>::new(), [0, length, width]));
        let no_scalars = || Primitive::from_data(TensorData::new(Vec::<f32>::new(), [0, 2]));
        let inputs = self.blocks.iter().map(|BlockSublayers { attention, form, mlp }| {
            let call = AttentionCall::new(attention, form.as_ref()?);
            let scalars = scalar_values(attention, &attention.settings.shape(length, &device, DType::F32));
            let inputs = AttentionInputs::<Flex>::new(no_rows(), attention.weights, no_scalars());
            Some((scalars, inputs, call, MlpInputs::<Flex>::new(no_rows(), mlp.weights), MlpCall::from(mlp)))
        });
        let inputs = inputs.collect::<Option<Vec<_>>>()?;
        let (table, positions) = (self.table.clone().into_data(), self.positions.clone().into_data());
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
            .map(|(scalars, attention, call, mlp, mlp_call)| (attention.kernel(scalars, call), mlp.kernel(mlp_call)));
        run(embedding, kernels.collect())
    }

    /// What `ask` gets from the model, for evaluation only: answers or logits. `None` for models that have to go layer by layer:
    /// see [`kernels::Inference::new`].
    ///
    /// # Panics
    /// If [`supports`](super::supports) is false for the table, or a token has no row in it.
    pub(crate) fn ask<R>(
        &self,
        head: &Linear,
        tokens: &[usize],
        ask: impl FnOnce(&kernels::Inference<'_>, &[usize]) -> R,
    ) -> Option<R> {
        let head = LinearInputs::<Flex>::new(head);
        self.with_kernels(|embedding, blocks| {
            let head = kernels::HeadKernel { width: embedding.width, map: head.view() };
            Some(ask(&kernels::Inference::new(embedding, blocks, head, tokens.len())?, tokens))
        })
    }

    /// Loss and gradients of a training step. `None` for models that have to go layer by layer: see [`kernels::Training::new`].
    ///
    /// # Panics
    /// If [`supports`](super::supports) is false for the table, or a token has no row in it.
    pub(crate) fn gradients(
        &self,
        head: &Linear,
        tokens: &[usize],
        questions: &Questions,
    ) -> Option<kernels::TrainingGradients> {
        let head = LinearInputs::<Flex>::new(head);
        self.with_kernels(|embedding, blocks| {
            let head = kernels::HeadKernel { width: embedding.width, map: head.view() };
            let training = kernels::Training::new(embedding, blocks, head, tokens.len())?;
            Some(training.gradients(tokens, questions))
        })
    }
}

/// The scalars of the heads as plain numbers. Most mechanisms have the default ones, and need no tensors for them.
fn scalar_values(sublayer: &AttentionSublayer<'_>, shape: &LayerShape) -> Vec<HeadScalars> {
    let AttentionSublayer { mechanism, weights, .. } = sublayer;
    if let HeadTensors { temperature: None, alpha: None } = mechanism.head_scalars(weights.learned(), shape) {
        return vec![HeadScalars::default(); shape.heads];
    }
    let scalars = head_scalars(weights.learned(), *mechanism, shape).into_data();
    scalar_pairs(&scalars.iter::<f32>().collect::<Vec<f32>>())
}

/// The gradient of a mechanism's parameters, `[heads, parameters]`, from those of the scalars of its heads. `None` if it has no
/// parameters, or nothing depends on them.
pub(crate) fn parameter_gradient(
    sublayer: &AttentionSublayer<'_>,
    length: usize,
    gradients: &[HeadScalars],
) -> Option<Vec<f32>> {
    // A leaf of its own: autodiff need not track the parameters of a model that one operator trains.
    let parameters = sublayer.weights.learned()?.detach().require_grad();
    let shape = sublayer.settings.shape(length, &parameters.device(), DType::F32);
    let values = gradients.iter().flat_map(|gradient| [gradient.temperature, gradient.alpha]).collect::<Vec<f32>>();
    let values = Tensor::<2>::from_data(TensorData::new(values, [gradients.len(), 2]), &parameters.device());
    let along = head_scalars(Some(parameters.clone()), sublayer.mechanism, &shape).mul(values).sum().backward();
    Some(parameters.grad(&along)?.into_data().iter::<f32>().collect())
}
