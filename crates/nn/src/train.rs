//! The training step: loss, gradients, clipping of their joint norm, update.

use semfocus_core::LrFactors;

use crate::input::Pass;
pub use crate::loss::{Batch, loss, loss_and_gradients};
use crate::model::Trainable;
pub use crate::optimizer::{Optimizer, Parameter, Sgd};
use crate::parameters::NamedGradients;

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
pub fn step<M: Trainable>(
    model: M,
    optimizer: &mut impl Optimizer,
    batch: Batch,
    pass: Pass,
    learning_rate: f64,
    max_gradient_norm: f64,
) -> (M, StepReport) {
    let factors = model.as_model().learning_rate_factors(batch.tokens.dims()[1]);
    let (loss, mut gradients) = model.as_model().loss_and_gradients(batch, pass);
    let gradient_norm = clip_global_norm(&mut gradients, max_gradient_norm);
    let report = StepReport { loss, gradient_norm };
    optimizer.begin_step();
    let model = model.updated(gradients, &mut |number, name, values, gradient| {
        let factor = mechanism_factor(&factors, name);
        optimizer.update(Parameter { number, name }, values, gradient, factor * learning_rate);
    });
    (model, report)
}

/// The factor of the learning rate that the mechanism of a parameter's block asks for.
fn mechanism_factor(blocks: &[LrFactors], name: &str) -> f64 {
    let block = name.strip_prefix("blocks.").and_then(|rest| rest.split('.').next()?.parse::<usize>().ok());
    block.and_then(|block| blocks.get(block)?.for_parameter(name)).unwrap_or(1.0)
}

/// Scales the gradients so that their joint norm is at most `max`, and returns their norm before that.
///
/// As in PyTorch, the factor is `max / (norm + 1e-6)` where that is below 1. The norm is summed in double precision and in a fixed
/// order. If it is not finite, the gradients are left as they are.
pub fn clip_global_norm(gradients: &mut NamedGradients, max: f64) -> f64 {
    let norm = gradients.iter().filter_map(|(_, values)| values).map(square_sum).sum::<f64>().sqrt();
    let factor = max / (norm + 1e-6);
    if norm.is_finite() && factor < 1.0 {
        let factor = factor as f32;
        gradients.values_mut().flatten().for_each(|value| *value *= factor);
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
