//! The mean loss of a model over fixed examples, and its gradient, as functions of all weights in one vector.
//!
//! The loss is the cross-entropy that training minimises, in an evaluation pass: without dropout (unless a quirk of the model
//! keeps it on) and with the same random decisions at all weights. Batches have a fixed size and order and are summed in double
//! precision, so the number of threads does not change the result.
//!
//! Everything after the logits is computed in double precision. A model that has learned its task gives the right class a
//! probability of 1 − 1e-7; the gradient is the difference from 1, of which single precision would keep no digit.

use burn::tensor::{DType, Device as BurnDevice, TensorData};
use semfocus_nn::{Engine, Model, ModelConfig, Pass};
use semfocus_tasks::Split;

use super::PASS_SEED;
use super::directions::weights_of;
use crate::Device;
use crate::spectrum::max_abs;
use crate::training::{BATCH, batch, labels};

/// The mean loss of a model over the first examples of a split.
#[derive(Debug)]
pub struct Objective<'a> {
    /// On a device with autodiff, whatever the device of the original model; its parameter values do not matter.
    model: Box<dyn Model>,
    split: &'a Split,
    samples: usize,
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
        let (_, weights) = weights_of(model);
        let copy = model.rebuilt(config, precision, &device.autodiff());
        let model = copy.expect("a model with such settings is there");
        Objective { model, split, samples: samples.min(split.len()), weights, precision, device: device.plain() }
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
        let (mut loss, mut gradient) = (0.0, vec![0.0; weights.len()]);
        for (number, first) in (0..self.samples).step_by(BATCH).enumerate() {
            let examples = first..self.samples.min(first + BATCH);
            let labels = labels(self.split, examples.clone());
            let tokens = batch(self.split, examples, &self.device).tokens;
            let mut scale = 0.0;
            let gradients = model.gradients_from(tokens, Pass::evaluation(PASS_SEED, number as u64), &mut |logits| {
                let (batch_loss, errors) = cross_entropies(&logits, &labels);
                loss += batch_loss;
                scale = max_abs(&errors);
                // Scaled to about 1, so that nothing underflows in single precision; the gradient is linear in the errors.
                errors.iter().map(|error| if scale == 0.0 { 0.0 } else { error / scale }).collect()
            });
            let values = gradients.iter().flat_map(|data| data.iter::<f64>().collect::<Vec<_>>());
            gradient.iter_mut().zip(values).for_each(|(sum, value)| *sum += scale * value);
        }
        let samples = self.samples as f64;
        gradient.iter_mut().for_each(|value| *value /= samples);
        Slope { loss: loss / samples, gradient }
    }

    fn model_at(&self, weights: &[f64]) -> Box<dyn Model> {
        assert_eq!(weights.len(), self.weights.len(), "weights of the model");
        let mut rest = weights;
        let parameters = self.model.parameters().into_iter().map(|(name, data)| {
            let (values, others) = rest.split_at(data.shape().num_elements());
            rest = others;
            (name, TensorData::new(values.to_vec(), data.shape().clone()))
        });
        self.model.with_parameters(parameters.collect()).expect("names and shapes are those of the model")
    }
}

/// The sum of the losses of a batch, and its gradient in the logits: the probabilities, minus 1 for the right class.
fn cross_entropies(logits: &TensorData, labels: &[u16]) -> (f64, Vec<f64>) {
    let mut errors: Vec<f64> = logits.iter::<f64>().collect();
    let classes = errors.len() / labels.len();
    let losses = errors.chunks_exact_mut(classes).zip(labels);
    let loss = losses.map(|(logits, &label)| cross_entropy(logits, usize::from(label))).sum();
    (loss, errors)
}

/// Cross-entropy of logits and a label; the logits are replaced by its gradient. Both keep all their digits when the
/// probability of the label is close to 1: it is never subtracted from 1.
fn cross_entropy(logits: &mut [f64], label: usize) -> f64 {
    let max = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let of_label = logits[label] - max;
    logits.iter_mut().for_each(|logit| *logit = (*logit - max).exp());
    let others: f64 = logits.iter().enumerate().filter(|(class, _)| *class != label).map(|(_, weight)| weight).sum();
    let sum = others + logits[label];
    logits[label] = -others;
    logits.iter_mut().for_each(|weight| *weight /= sum);
    if of_label == 0.0 { others.ln_1p() } else { sum.ln() - of_label }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_and_gradient_of_a_few_logits() {
        let check = |logits: &[f64], label: usize, loss: f64, gradient: &[f64]| {
            let mut errors = logits.to_vec();
            let found = cross_entropy(&mut errors, label);
            assert!((found - loss).abs() <= 1e-15 * loss, "loss {found} instead of {loss}");
            let near = errors.iter().zip(gradient).all(|(a, b)| (a - b).abs() <= 1e-15 * b.abs());
            assert!(near, "{errors:?} instead of {gradient:?}");
        };
        let p = 1.0 / (1.0 + 2f64.exp());
        check(&[2.0, 0.0], 0, 0.126_928_011_042_972_5, &[-p, p]);
        check(&[2.0, 0.0], 1, 2.126_928_011_042_972_5, &[1.0 - p, p - 1.0]);
        // Far beyond the digits of a number close to 1: 1 − p ≈ e^−50.
        let tiny = (-50f64).exp();
        check(&[0.0, 50.0], 1, tiny, &[tiny, -tiny]);
        check(&[0.0, -50.0, -50.0], 0, 2.0 * tiny, &[-2.0 * tiny, tiny, tiny]);
        check(&[1e4, -1e4, 0.0], 1, 2e4, &[1.0, -1.0, 0.0]);
        assert!(cross_entropy(&mut [f64::NAN, 0.0], 1).is_nan());
    }
}
