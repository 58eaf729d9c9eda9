//! What can be observed of a forward pass: the rows of attention, and the inputs of the norms.
//!
//! [`Encoder`](crate::Encoder) has one loop over its blocks. It hands every attention sublayer to an [`Observer`], which runs it and
//! looks at as much of it as it wants: nothing, the rows of scores and weights at the speed of the fused operator, or whole
//! tensors in the reference form.

use burn::tensor::Tensor;
use semfocus_kernels::{Dropout, RowObserver};

use crate::mechanism::FastForm;
use crate::model::AttentionWeights;
use crate::registry::Attention;
use crate::sublayer::{AttentionSettings, AttentionTrace, LayerSite};
use crate::{fused, reference};

/// An attention sublayer of a forward pass, ready to run.
pub(crate) struct AttentionSublayer<'a> {
    pub(crate) attention: &'a Attention,
    pub(crate) weights: &'a AttentionWeights,
    /// Run by the fused operator if there is a fast form, otherwise by the reference.
    pub(crate) form: Option<&'a FastForm>,
    pub(crate) settings: AttentionSettings,
    pub(crate) site: LayerSite,
}

impl AttentionSublayer<'_> {
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        match self.form {
            Some(form) => {
                fused::attention(x, self.weights, self.attention.mechanism.as_ref(), form, &self.settings, &self.site)
            }
            None => self.forward_reference(x).0,
        }
    }

    fn forward_observed<O: RowObserver>(&self, x: Tensor<3>, rows: &O) -> (Tensor<3>, Vec<O::Observation>) {
        match self.form {
            Some(form) => {
                let mechanism = self.attention.mechanism.as_ref();
                fused::attention_observed(x, self.weights, mechanism, form, &self.settings, &self.site, rows)
            }
            None => {
                let (x, trace) = self.forward_reference(x);
                (x, trace.observe_rows(rows))
            }
        }
    }

    fn forward_reference(&self, x: Tensor<3>) -> (Tensor<3>, AttentionTrace) {
        reference::attention(x, self.weights, self.attention.mechanism.as_ref(), &self.settings, &self.site)
    }
}

/// Runs the attention sublayers of a forward pass and observes them.
pub(crate) trait Observer {
    /// Called with the input of each norm: that of the attention, then that of the MLP, layer by layer.
    fn norm_input(&mut self, x: &Tensor<3>);

    /// Runs the attention of the next layer on `x`, `[batch, length, d_model]`.
    fn attention(&mut self, sublayer: AttentionSublayer<'_>, x: Tensor<3>) -> Tensor<3>;
}

/// Observes nothing.
pub(crate) struct Unobserved;

impl Observer for Unobserved {
    fn norm_input(&mut self, _x: &Tensor<3>) {}

    fn attention(&mut self, sublayer: AttentionSublayer<'_>, x: Tensor<3>) -> Tensor<3> {
        sublayer.forward(x)
    }
}

/// The observations of a layer in a forward pass.
#[derive(Clone, Debug)]
pub struct ObservedLayer<T> {
    /// The attention of every sequence of the batch.
    pub sequences: Vec<T>,
    /// The minimum standard deviation of a token before the norm of the attention and before that of the MLP.
    pub min_deviations: [f64; 2],
}

/// Shows the rows of all layers to `rows`.
pub(crate) struct Rows<'a, O: RowObserver> {
    pub(crate) rows: &'a O,
    pub(crate) sequences: Vec<Vec<O::Observation>>,
    pub(crate) deviations: Deviations,
}

impl<O: RowObserver> Observer for Rows<'_, O> {
    fn norm_input(&mut self, x: &Tensor<3>) {
        self.deviations.add(x);
    }

    fn attention(&mut self, sublayer: AttentionSublayer<'_>, x: Tensor<3>) -> Tensor<3> {
        let (x, sequences) = sublayer.forward_observed(x, self.rows);
        self.sequences.push(sequences);
        x
    }
}

impl<O: RowObserver> Rows<'_, O> {
    pub(crate) fn into_layers(self) -> Vec<ObservedLayer<O::Observation>> {
        let layers = self.sequences.into_iter().zip(self.deviations.layers());
        layers.map(|(sequences, min_deviations)| ObservedLayer { sequences, min_deviations }).collect()
    }
}

/// What a layer did in the reference form, as tensors.
#[derive(Clone, Debug)]
pub struct LayerTrace {
    /// Scores, kept keys and weights of the attention.
    pub attention: AttentionTrace,
    /// The minimum standard deviation of a token before the norm of the attention and before that of the MLP.
    pub min_deviations: [f64; 2],
}

/// Runs the reference form without dropout and keeps the tensors of all layers.
#[derive(Default)]
pub(crate) struct Tracer {
    attention: Vec<AttentionTrace>,
    deviations: Deviations,
}

impl Observer for Tracer {
    fn norm_input(&mut self, x: &Tensor<3>) {
        self.deviations.add(x);
    }

    fn attention(&mut self, mut sublayer: AttentionSublayer<'_>, x: Tensor<3>) -> Tensor<3> {
        sublayer.settings.weight_dropout = Dropout::NONE; // a quirk may leave it on in evaluation
        let (x, trace) = sublayer.forward_reference(x);
        self.attention.push(trace);
        x
    }
}

impl Tracer {
    pub(crate) fn into_layers(self) -> Vec<LayerTrace> {
        let layers = self.attention.into_iter().zip(self.deviations.layers());
        layers.map(|(attention, min_deviations)| LayerTrace { attention, min_deviations }).collect()
    }
}

/// The minimum deviation of a token at each norm, two per layer.
#[derive(Default)]
pub(crate) struct Deviations(Vec<f64>);

impl Deviations {
    fn add(&mut self, x: &Tensor<3>) {
        self.0.push(min_deviation(x));
    }

    fn layers(&self) -> impl Iterator<Item = [f64; 2]> {
        self.0.as_chunks::<2>().0.iter().copied()
    }
}

/// The minimum over all tokens of the standard deviation of a token's values.
fn min_deviation(x: &Tensor<3>) -> f64 {
    let width = x.dims()[2];
    let values: Vec<f64> = x.clone().into_data().iter::<f64>().collect();
    let variance = |token: &[f64]| {
        let mean = token.iter().sum::<f64>() / width as f64;
        token.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / width as f64
    };
    values.chunks_exact(width).map(variance).fold(f64::INFINITY, f64::min).sqrt()
}
