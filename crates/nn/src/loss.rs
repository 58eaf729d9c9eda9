//! What training minimises, and its gradients.

use burn::tensor::{Int, Tensor};
use semfocus_core::Questions;

use crate::encoder::Encoder;
use crate::input::Pass;
use crate::parameters::{self, NamedGradients};
pub use crate::reference::loss;

/// The examples of one step.
#[derive(Clone, Debug)]
pub struct Batch {
    /// `[batch, length]`.
    pub tokens: Tensor<2, Int>,
    /// What the sequences ask.
    pub questions: Questions,
}

/// Mean loss of a batch and the gradients of all parameters: by one operator for the whole model if the engine and the model allow
/// it, if not by autodiff.
pub fn loss_and_gradients(model: &Encoder, batch: Batch, pass: Pass) -> (f64, NamedGradients) {
    let Batch { tokens, questions } = batch;
    let rows = model.token_rows(tokens.clone());
    model.gradients(&rows, &questions, &pass).unwrap_or_else(|| {
        if questions.all().is_empty() {
            return (0.0, NamedGradients::zeros(model));
        }
        let model = parameters::tracked(model.clone());
        let loss = loss(model.forward_at(tokens, &questions, pass), &questions);
        (loss.clone().into_scalar::<f64>(), NamedGradients::take(&model, loss.backward()))
    })
}
