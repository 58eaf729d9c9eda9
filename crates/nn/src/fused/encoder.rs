//! A whole model as one operator: all blocks at once, without autodiff.

use burn::backend::Flex;
use burn::tensor::{DType, Tensor, TensorData};
use semfocus_core::Questions;
use semfocus_kernels as kernels;
use semfocus_kernels::HeadScalars;

use super::call::{AttentionCall, AttentionInputs, LinearInputs, MlpCall, MlpInputs};
use super::cpu::{Primitive, scalar_pairs};
use super::head_scalars;
use crate::mechanism::{HeadTensors, LayerShape};
use crate::parameters::NamedGradients;
use crate::sublayer::{AttentionSublayer, BlockSublayers, Embedding, NORM_EPSILON};
use crate::weights::HeadLayer;

const PLAIN: &str = "parameters are contiguous and in single precision";

/// A whole model in one forward pass.
pub(crate) struct EncoderCall<'a> {
    pub(crate) embedding: Embedding,
    /// Values of the parameter that the positions are the first rows of, if they are learned.
    pub(crate) learned_positions: Option<usize>,
    pub(crate) blocks: Vec<BlockSublayers<'a>>,
    pub(crate) head: HeadLayer<'a>,
    /// Whether the weights of the head are those of the embedding.
    pub(crate) is_tied: bool,
}

impl EncoderCall<'_> {
    /// Calls `run` with the kernels of the embedding, of all blocks and of the head. `None` if a block has no fast form.
    fn with_kernels<R>(
        &self,
        run: impl FnOnce(
            kernels::EmbeddingKernel<'_>,
            Vec<(kernels::AttentionKernel<'_>, Option<kernels::MlpKernel<'_>>)>,
            kernels::HeadKernel<'_>,
        ) -> Option<R>,
    ) -> Option<R> {
        let Embedding { table, positions, scale, dropout, site } = &self.embedding;
        let [length, width] = positions.dims();
        let no_rows = || Primitive::from_data(TensorData::new(Vec::<f32>::new(), [0, length, width]));
        let no_scalars = || Primitive::from_data(TensorData::new(Vec::<f32>::new(), [0, 2]));
        let inputs = self.blocks.iter().map(|BlockSublayers { attention, form, mlp }| {
            let call = AttentionCall::new(attention, form.as_ref()?);
            let device = attention.weights.query.weight.val().device();
            let scalars = scalar_values(attention, &attention.settings.shape(length, &device, DType::F32));
            let inputs = AttentionInputs::<Flex>::new(no_rows(), attention.weights, no_scalars());
            let mlp = mlp.as_ref().map(|mlp| (MlpInputs::<Flex>::new(no_rows(), mlp.weights), MlpCall::from(mlp)));
            Some((scalars, inputs, call, mlp))
        });
        let inputs = inputs.collect::<Option<Vec<_>>>()?;
        let (table, positions) = (table.clone().into_data(), positions.clone().into_data());
        let embedding = kernels::EmbeddingKernel {
            width,
            table: table.as_slice::<f32>().expect(PLAIN),
            positions: positions.as_slice::<f32>().expect(PLAIN),
            learns_positions: self.learned_positions.is_some(),
            scale: *scale as f32,
            dropout: *dropout,
            site: *site,
        };
        let kernels = inputs.iter().map(|(scalars, attention, call, mlp)| {
            (attention.kernel(scalars, call), mlp.as_ref().map(|(mlp, call)| mlp.kernel(call)))
        });
        let HeadLayer { map, normalises, norm } = &self.head;
        let map = LinearInputs::<Flex>::new(map.clone(), *norm);
        let norm = normalises.then_some(NORM_EPSILON as f32);
        run(embedding, kernels.collect(), kernels::HeadKernel { width, map: map.view(), norm })
    }

    /// What `ask` gets from the model, for evaluation only: answers or logits. `None` for models that have to go layer by layer:
    /// see [`kernels::Inference::new`].
    ///
    /// # Panics
    /// If [`supports`](super::supports) is false for the table, or a token has no row in it.
    pub(crate) fn ask<R>(
        &self,
        tokens: &[usize],
        ask: impl FnOnce(&kernels::Inference<'_>, &[usize]) -> R,
    ) -> Option<R> {
        self.with_kernels(|embedding, blocks, head| {
            Some(ask(&kernels::Inference::new(embedding, blocks, head, tokens.len())?, tokens))
        })
    }

    /// Loss of a training step and the gradients of all parameters. `None` for models that have to go layer by layer: see
    /// [`kernels::Training::new`].
    ///
    /// # Panics
    /// If [`supports`](super::supports) is false for the table, or a token has no row in it.
    pub(crate) fn gradients(&self, tokens: &[usize], questions: &Questions) -> Option<(f64, NamedGradients)> {
        let result = self.with_kernels(|embedding, blocks, head| {
            let training = kernels::Training::new(embedding, blocks, head, tokens.len())?;
            Some(training.gradients(tokens, questions))
        })?;
        Some((result.loss, self.of_parameters(result)))
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
pub(super) fn parameter_gradient(
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
