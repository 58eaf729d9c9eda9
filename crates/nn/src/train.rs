//! The training step: loss, gradients, clipping of their joint norm, update.

use burn::module::Param;
use burn::tensor::{Gradients, Int, Tensor, activation};
use semfocus_core::{LrFactors, Questions};

use crate::model::{Encoder, Pass};
pub use crate::optimizer::{Optimizer, Parameter, Sgd};
use crate::parameters::{self, Tracking, Visit};

/// Mean cross-entropy of `logits`, `[batch, classes]`, against `labels`, `[batch]`.
pub fn loss(logits: Tensor<2>, labels: Tensor<1, Int>) -> Tensor<1> {
    activation::log_softmax(logits, 1).gather(1, labels.unsqueeze_dim(1)).mean().neg()
}

/// The examples of one step.
#[derive(Clone, Debug)]
pub struct Batch {
    /// `[batch, length]`.
    pub tokens: Tensor<2, Int>,
    /// `[batch]`.
    pub labels: Tensor<1, Int>,
}

/// Loss and gradient norm of a training step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepReport {
    /// Mean loss of the batch before the step.
    pub loss: f64,
    /// Norm of all gradients together before clipping.
    pub gradient_norm: f64,
}

/// One training step: forward, backward, clipping of the joint gradient norm, update. Autodiff does not track the parameters of the
/// model that it returns.
pub fn step(
    model: Encoder,
    optimizer: &mut impl Optimizer,
    batch: Batch,
    pass: Pass,
    learning_rate: f64,
    max_gradient_norm: f64,
) -> (Encoder, StepReport) {
    let factors = model.learning_rate_factors(batch.tokens.dims()[1]);
    let (loss, mut gradients) = loss_and_gradients(&model, batch, pass);
    let gradient_norm = clip_global_norm(&mut gradients, max_gradient_norm);
    let report = StepReport { loss, gradient_norm };
    optimizer.begin_step();
    let mut number = 0;
    let model = parameters::map(model, Tracking::Off, |name, mut value| {
        let values = value.as_mut_slice::<f32>().expect("models are trained in single precision");
        // A parameter that the loss does not depend on stays as it is.
        if let Some(gradient) = &gradients[number] {
            let factor = mechanism_factor(&factors, name);
            optimizer.update(Parameter { number, name }, values, gradient, factor * learning_rate);
        }
        number += 1;
        let dtype = value.dtype();
        (value, dtype)
    });
    (model, report)
}

/// The factor of the learning rate that the mechanism of a parameter's block asks for.
fn mechanism_factor(blocks: &[LrFactors], name: &str) -> f64 {
    let block = name.strip_prefix("blocks.").and_then(|rest| rest.split('.').next()?.parse::<usize>().ok());
    block.and_then(|block| blocks.get(block)?.for_parameter(name)).unwrap_or(1.0)
}

/// Mean loss of a batch and the gradients of all parameters, in the order of the model: by one operator for the whole model if the
/// engine and the model allow it, if not by autodiff.
fn loss_and_gradients(model: &Encoder, batch: Batch, pass: Pass) -> (f64, Vec<Option<Vec<f32>>>) {
    let questions = Questions::classification(batch.labels.to_data().iter::<i64>().map(|label| label as u16));
    let tokens = model.token_rows(batch.tokens.clone());
    model.gradients(&tokens, &questions, &pass).unwrap_or_else(|| {
        let model = parameters::tracked(model.clone());
        let loss = loss(model.forward(batch.tokens, pass), batch.labels);
        (loss.clone().into_scalar::<f64>(), parameter_gradients(&model, loss.backward()))
    })
}

/// The gradients of all parameters, in the order of the model; `None` for a parameter that the loss does not depend on.
pub fn parameter_gradients(model: &Encoder, gradients: Gradients) -> Vec<Option<Vec<f32>>> {
    struct Take(Gradients, Vec<Option<Vec<f32>>>);
    impl Visit for Take {
        fn visit<const D: usize>(&mut self, _name: String, parameter: &Param<Tensor<D>>) {
            let gradient = parameter.val().grad_remove(&mut self.0);
            let values = |gradient: Tensor<D>| gradient.into_data().try_into_vec::<f32>();
            self.1.push(gradient.map(|gradient| values(gradient).expect("models are trained in single precision")));
        }
    }
    let mut take = Take(gradients, Vec::new());
    parameters::visit(model, &mut take);
    take.1
}

/// Scales the gradients so that their joint norm is at most `max`, and returns their norm before that.
///
/// As in PyTorch, the factor is `max / (norm + 1e-6)` where that is below 1. The norm is summed in double precision and in a fixed
/// order. If it is not finite, the gradients are left as they are.
pub fn clip_global_norm(gradients: &mut [Option<Vec<f32>>], max: f64) -> f64 {
    let norm = gradients.iter().flatten().map(|values| square_sum(values)).sum::<f64>().sqrt();
    let factor = max / (norm + 1e-6);
    if norm.is_finite() && factor < 1.0 {
        let factor = factor as f32;
        gradients.iter_mut().flatten().flatten().for_each(|value| *value *= factor);
    }
    norm
}

/// Sum of squares, as eight parallel sums, which the compiler turns into vector instructions.
fn square_sum(values: &[f32]) -> f64 {
    let mut lanes = [0.0; 8];
    let (chunks, rest) = values.as_chunks::<8>();
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane += f64::from(value) * f64::from(value);
        }
    }
    lanes.iter().sum::<f64>() + rest.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>()
}
