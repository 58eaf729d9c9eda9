//! The mean loss of a model over fixed examples, and its gradient, as functions of all weights in one vector.
//!
//! The loss is the cross-entropy that training minimises, in an evaluation pass: without dropout (unless a quirk of the model
//! keeps it on) and with the same random decisions at all weights. Batches have a fixed size and order and are summed in double
//! precision, so the number of threads does not change the result.
//!
//! Everything after the logits is computed in double precision. A model that has learned its task gives the right class a
//! probability of 1 − 1e-7; the gradient is the difference from 1, of which single precision would keep no digit.

use burn::tensor::{DType, Device as BurnDevice, TensorData};
use semfocus_core::Questions;
use semfocus_nn::{Engine, Model, ModelConfig, Pass, cross_entropy};
use semfocus_tasks::Split;

use super::PASS_SEED;
use super::directions::{Parameter, named, weights_of};
use crate::Device;
use crate::spectrum::max_abs;
use crate::training::{BATCH, batch};

/// The mean loss of a model over the first examples of a split.
#[derive(Debug)]
pub struct Objective<'a> {
    /// On a device with autodiff, whatever the device of the original model; its parameter values do not matter.
    model: Box<dyn Model>,
    split: &'a Split,
    samples: usize,
    parameters: Vec<Parameter>,
    weights: Vec<f64>,
    precision: DType,
    device: BurnDevice,
}

/// The loss at some weights and its gradient there.
#[derive(Clone, Debug, PartialEq)]
pub struct Slope {
    /// The mean over the examples.
    pub loss: f64,
    /// In the order of the weights.
    pub gradient: Vec<f64>,
}

impl<'a> Objective<'a> {
    /// The loss of `model` over the first `samples` examples of `split`, or all if there are fewer, with the engine and the
    /// precision of the model.
    pub fn new(model: &dyn Model, split: &'a Split, samples: usize, device: &Device) -> Self {
        let precision = model.parameters()[0].1.dtype();
        Self::with(model, model.config().clone(), precision, split, samples, device)
    }

    /// The same on the CPU with the reference form in double precision, whatever the model uses: slow and exact.
    pub fn exact(model: &dyn Model, split: &'a Split, samples: usize) -> Self {
        let config = ModelConfig { engine: Engine::Reference, ..model.config().clone() };
        Self::with(model, config, DType::F64, split, samples, &Device::cpu())
    }

    fn with(
        model: &dyn Model,
        config: ModelConfig,
        precision: DType,
        split: &'a Split,
        samples: usize,
        device: &Device,
    ) -> Self {
        let (parameters, weights) = weights_of(model);
        let copy = model.rebuilt(config, precision, &device.autodiff());
        let model = copy.expect("a model with such settings is there");
        let (samples, device) = (samples.min(split.len()), device.plain());
        Objective { model, split, samples, parameters, weights, precision, device }
    }

    /// The weights of the model, in the order of its [parameters](Model::parameters).
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// The number of examples.
    pub fn samples(&self) -> usize {
        self.samples
    }

    /// The precision in which the model computes.
    pub fn precision(&self) -> DType {
        self.precision
    }

    /// Loss and gradient at some weights, which the model rounds to its precision. NaN if there are no examples.
    ///
    /// # Panics
    /// If the number of weights is not that of the model.
    pub fn slope(&self, weights: &[f64]) -> Slope {
        let model = self.model_at(weights);
        let (mut loss, mut total_weight, mut gradient) = (0.0, 0.0, vec![0.0; weights.len()]);
        for (number, first) in (0..self.samples).step_by(BATCH).enumerate() {
            let examples = first..self.samples.min(first + BATCH);
            let batch = batch(self.split, examples, &self.device);
            let (questions, pass) = (batch.questions.clone(), Pass::evaluation(PASS_SEED, number as u64));
            if questions.all().is_empty() {
                continue;
            }
            total_weight += questions.total_weight();
            let mut scale = 0.0;
            let gradients = model.gradients_from(batch, pass, &mut |logits| {
                let (batch_loss, errors) = cross_entropies(&logits, &questions);
                loss += batch_loss;
                scale = max_abs(&errors);
                // Scaled to about 1, so that nothing underflows in single precision; the gradient is linear in the errors.
                errors.iter().map(|error| if scale == 0.0 { 0.0 } else { error / scale }).collect()
            });
            let values = gradients.iter().flat_map(|data| data.iter::<f64>().collect::<Vec<_>>());
            gradient.iter_mut().zip(values).for_each(|(sum, value)| *sum += scale * value);
        }
        gradient.iter_mut().for_each(|value| *value /= total_weight);
        Slope { loss: loss / total_weight, gradient }
    }

    fn model_at(&self, weights: &[f64]) -> Box<dyn Model> {
        assert_eq!(weights.len(), self.weights.len(), "weights of the model");
        self.model.with_parameters(named(&self.parameters, weights)).expect("names and shapes are those of the model")
    }
}

/// The weighted sum of the losses of a batch, and its gradient in the logits.
fn cross_entropies(logits: &TensorData, questions: &Questions) -> (f64, Vec<f64>) {
    let mut errors: Vec<f64> = logits.iter::<f64>().collect();
    let classes = errors.len() / questions.all().len();
    let losses = errors.chunks_exact_mut(classes).zip(questions.all()).map(|(logits, question)| {
        let weight = f64::from(question.weight);
        let loss = cross_entropy(logits, questions, question.target);
        logits.iter_mut().for_each(|error| *error *= weight);
        weight * loss
    });
    (losses.sum(), errors)
}
