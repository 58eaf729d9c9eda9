//! What training minimises, and its gradients.

use burn::tensor::{Int, Tensor, activation};
use semfocus_core::Questions;

use crate::encoder::Encoder;
use crate::input::Pass;
use crate::parameters::{self, NamedGradients};

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

/// Mean loss of a batch and the gradients of all parameters: by one operator for the whole model if the engine and the model allow
/// it, if not by autodiff.
pub fn loss_and_gradients(model: &Encoder, batch: Batch, pass: Pass) -> (f64, NamedGradients) {
    let questions = Questions::classification(batch.labels.to_data().iter::<i64>().map(|label| label as u16));
    let tokens = model.token_rows(batch.tokens.clone());
    model.gradients(&tokens, &questions, &pass).unwrap_or_else(|| {
        let model = parameters::tracked(model.clone());
        let loss = loss(model.forward(batch.tokens, pass), batch.labels);
        (loss.clone().into_scalar::<f64>(), NamedGradients::take(&model, loss.backward()))
    })
}
