//! What the laboratory asks of a model, whatever its architecture.

use std::any::Any;
use std::fmt;

use burn::module::Module;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use semfocus_core::{ConfigError, LrFactors, ModelConfig, Questions};
use semfocus_kernels::{Answer, ObservedRow, RowObserver};

use crate::block_attentions::BlockAttentions;
use crate::encoder::Encoder;
use crate::input::{Pass, TokenRows};
use crate::loss::{self, Batch};
use crate::observer::ObservedLayer;
use crate::parameters::{self, NamedGradients, ParameterError};
use crate::weights::Maps;

/// A model that can be trained, evaluated and observed.
pub trait Model: Send + Sync + fmt::Debug {
    /// The settings it was built with.
    fn config(&self) -> &ModelConfig;

    /// The attention of its blocks.
    fn attention(&self) -> &BlockAttentions;

    /// Where its parameters are.
    fn device(&self) -> Device;

    /// All parameters with their names, in a fixed order.
    fn parameters(&self) -> Vec<(String, TensorData)>;

    /// Its linear maps, which bound how steep it is.
    fn maps(&self) -> Maps<'_>;

    /// The same model with other values of all parameters; their precision stays that of the model.
    fn with_parameters(&self, parameters: Vec<(String, TensorData)>) -> Result<Box<dyn Model>, ParameterError>;

    /// The same model with another attention. Weights stay as they are, and so do the learned scalars of the mechanism in blocks
    /// whose new mechanism has scalars of the same names; others start at their initial values.
    fn with_attention(&self, attention: BlockAttentions) -> Result<Box<dyn Model>, ConfigError>;

    /// A model with the same mechanism, but other settings, precision and device, and the initial weights of its seed.
    fn rebuilt(&self, config: ModelConfig, precision: DType, device: &Device) -> Result<Box<dyn Model>, ConfigError>;

    /// The same model on a device without autodiff.
    fn without_autodiff(&self) -> Box<dyn Model>;

    /// Tokens of `[batch, length]` as the model sees them.
    fn token_rows(&self, tokens: Tensor<2, Int>) -> TokenRows;

    /// Loss and answer for every question in evaluation, without gradients.
    fn answers(&self, tokens: &TokenRows, questions: &Questions, pass: Pass) -> Vec<Answer>;

    /// Logits of all questions in evaluation, row by row, without gradients.
    fn logits(&self, tokens: &TokenRows, questions: &Questions, pass: Pass) -> Vec<f32>;

    /// Mean loss of a batch and the gradients of all parameters.
    fn loss_and_gradients(&self, batch: Batch, pass: Pass) -> (f64, NamedGradients);

    /// The gradients of all parameters, in their order, for gradients in the logits `[questions, classes]`: `errors` computes those
    /// from the logits. The model has to be on a device with autodiff.
    fn gradients_from(
        &self,
        batch: Batch,
        pass: Pass,
        errors: &mut dyn FnMut(TensorData) -> Vec<f64>,
    ) -> Vec<TensorData>;

    /// Factors of the learning rate that the mechanism of each block asks for, for sequences of `length` tokens.
    fn learning_rate_factors(&self, length: usize) -> Vec<LrFactors>;

    /// The model with each parameter changed by `update`, which gets its number in the order of the parameters, its name, its values and
    /// its gradient. Autodiff does not track the new parameters.
    ///
    /// # Panics
    /// If a parameter has no gradient, or a gradient has no parameter.
    fn updated(self: Box<Self>, gradients: NamedGradients, update: &mut Update<'_>) -> Box<dyn Model>;

    /// Shows the attention rows of every layer to `rows`, in evaluation.
    fn observe_rows(&self, tokens: Tensor<2, Int>, pass: Pass, rows: &AnyRows<'_>) -> Vec<ObservedLayer<Seen>>;

    /// A copy that shares the values of the parameters.
    fn boxed(&self) -> Box<dyn Model>;
}

/// Changes the values of a parameter, given its number, name and gradient.
pub type Update<'a> = dyn FnMut(usize, &str, &mut [f32], &[f32]) + 'a;

/// An observation of any type.
pub type Seen = Box<dyn Any + Send>;

/// A [`RowObserver`] whose observations may have any type.
pub struct AnyRows<'a>(&'a dyn RowObserver<Observation = Seen>);

impl RowObserver for AnyRows<'_> {
    type Observation = Seen;

    fn begin(&self, sequence: usize) -> Seen {
        self.0.begin(sequence)
    }

    fn row(&self, observation: &mut Seen, row: &ObservedRow<'_>) {
        self.0.row(observation, row);
    }
}

impl dyn Model + '_ {
    /// The observations of every layer in an evaluation pass.
    pub fn observe<O: RowObserver<Observation: 'static>>(
        &self,
        tokens: Tensor<2, Int>,
        pass: Pass,
        rows: &O,
    ) -> Vec<ObservedLayer<O::Observation>> {
        struct Erased<'a, O>(&'a O);
        impl<O: RowObserver<Observation: 'static>> RowObserver for Erased<'_, O> {
            type Observation = Seen;
            fn begin(&self, sequence: usize) -> Seen {
                Box::new(self.0.begin(sequence))
            }
            fn row(&self, observation: &mut Seen, row: &ObservedRow<'_>) {
                self.0.row(observation.downcast_mut().expect(SAME), row);
            }
        }
        const SAME: &str = "an observer gets its own observations";
        let layers = self.observe_rows(tokens, pass, &AnyRows(&Erased(rows))).into_iter();
        layers.map(|layer| layer.map(|seen| *seen.downcast::<O::Observation>().expect(SAME))).collect()
    }
}

impl Clone for Box<dyn Model> {
    fn clone(&self) -> Self {
        self.boxed()
    }
}

impl From<Encoder> for Box<dyn Model> {
    fn from(model: Encoder) -> Self {
        Box::new(model)
    }
}

/// What a training step replaces by its result: any model, or one whose type stays known.
pub trait Trainable {
    /// The model.
    fn as_model(&self) -> &dyn Model;

    /// See [`Model::updated`].
    fn updated(self, gradients: NamedGradients, update: &mut Update<'_>) -> Self;
}

impl Trainable for Box<dyn Model> {
    fn as_model(&self) -> &dyn Model {
        self.as_ref()
    }

    fn updated(self, gradients: NamedGradients, update: &mut Update<'_>) -> Self {
        Model::updated(self, gradients, update)
    }
}

impl Trainable for Encoder {
    fn as_model(&self) -> &dyn Model {
        self
    }

    fn updated(self, gradients: NamedGradients, update: &mut Update<'_>) -> Self {
        gradients.apply(self, update)
    }
}

impl Model for Encoder {
    fn config(&self) -> &ModelConfig {
        self.config()
    }

    fn attention(&self) -> &BlockAttentions {
        self.attention()
    }

    fn device(&self) -> Device {
        self.embedding.val().device()
    }

    fn parameters(&self) -> Vec<(String, TensorData)> {
        parameters::named_parameters(self)
    }

    fn maps(&self) -> Maps<'_> {
        Maps { embedding: &self.embedding, blocks: &self.blocks, classifier: self.head().map }
    }

    fn with_parameters(&self, parameters: Vec<(String, TensorData)>) -> Result<Box<dyn Model>, ParameterError> {
        Ok(parameters::set_parameters(self.clone(), parameters)?.into())
    }

    fn with_attention(&self, attention: BlockAttentions) -> Result<Box<dyn Model>, ConfigError> {
        Ok(self.clone().with_attention(attention)?.into())
    }

    fn rebuilt(&self, config: ModelConfig, precision: DType, device: &Device) -> Result<Box<dyn Model>, ConfigError> {
        let model = self.rebuilt(config, device)?;
        Ok(if precision == DType::F64 { parameters::to_f64(model) } else { model }.into())
    }

    fn without_autodiff(&self) -> Box<dyn Model> {
        self.valid().into()
    }

    fn token_rows(&self, tokens: Tensor<2, Int>) -> TokenRows {
        self.token_rows(tokens)
    }

    fn answers(&self, tokens: &TokenRows, questions: &Questions, pass: Pass) -> Vec<Answer> {
        self.answers(tokens, questions, pass)
    }

    fn logits(&self, tokens: &TokenRows, questions: &Questions, pass: Pass) -> Vec<f32> {
        self.logits(tokens, questions, pass)
    }

    fn loss_and_gradients(&self, batch: Batch, pass: Pass) -> (f64, NamedGradients) {
        loss::loss_and_gradients(self, batch, pass)
    }

    fn gradients_from(
        &self,
        batch: Batch,
        pass: Pass,
        errors: &mut dyn FnMut(TensorData) -> Vec<f64>,
    ) -> Vec<TensorData> {
        let logits = self.forward_at(batch.tokens, &batch.questions, pass); // [questions, classes]
        let errors = TensorData::new(errors(logits.to_data()), logits.dims());
        let errors = Tensor::<2>::from_data(errors, (&logits.device().inner(), logits.dtype()));
        let gradients = parameters::named_gradients(self, &logits.mul(errors).sum().backward());
        gradients.into_iter().map(|(_, gradient)| gradient).collect()
    }

    fn learning_rate_factors(&self, length: usize) -> Vec<LrFactors> {
        self.learning_rate_factors(length)
    }

    fn updated(self: Box<Self>, gradients: NamedGradients, update: &mut Update<'_>) -> Box<dyn Model> {
        Trainable::updated(*self, gradients, update).into()
    }

    fn observe_rows(&self, tokens: Tensor<2, Int>, pass: Pass, rows: &AnyRows<'_>) -> Vec<ObservedLayer<Seen>> {
        self.forward_observed(tokens, pass, rows).1
    }

    fn boxed(&self) -> Box<dyn Model> {
        self.clone().into()
    }
}
