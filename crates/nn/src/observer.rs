//! What can be observed of a forward pass: the rows of attention, and the inputs of the norms.
//!
//! [`Encoder`](crate::Encoder) hands every attention sublayer to an [`Observer`], which runs it and looks at as much of it as it wants:
//! nothing, or the rows of scores and weights at the speed of the fused operator.

use burn::tensor::Tensor;
use semfocus_kernels::RowObserver;

use crate::mechanism::FastForm;
use crate::sublayer::AttentionSublayer;
use crate::trace::min_deviation;
use crate::{fused, reference};

/// Runs the attention sublayers of a forward pass and observes them. The fused operator runs those that have a fast form, the
/// reference form the others.
pub(crate) trait Observer {
    /// Called with the input and with the result of each attention sublayer, which is the input of the MLP if there is one.
    fn norm_input(&mut self, x: &Tensor<3>);

    /// Runs the attention of the next layer on `x`, `[batch, length, d_model]`.
    fn attention(&mut self, sublayer: &AttentionSublayer<'_>, form: Option<&FastForm>, x: Tensor<3>) -> Tensor<3>;
}

/// Observes nothing.
pub(crate) struct Unobserved;

impl Observer for Unobserved {
    fn norm_input(&mut self, _x: &Tensor<3>) {}

    fn attention(&mut self, sublayer: &AttentionSublayer<'_>, form: Option<&FastForm>, x: Tensor<3>) -> Tensor<3> {
        match form {
            Some(form) => fused::attention(x, sublayer, form),
            None => reference::attention(x, sublayer).0,
        }
    }
}

/// The observations of a layer in a forward pass.
#[derive(Clone, Debug)]
pub struct ObservedLayer<T> {
    /// The attention of every sequence of the batch.
    pub sequences: Vec<T>,
    /// The minimum standard deviation of a token before the norm of the attention, and after the attention, where the MLP has its
    /// norm.
    pub min_deviations: [f64; 2],
}

impl<T> ObservedLayer<T> {
    /// The same with other observations.
    pub(crate) fn map<U>(self, map: impl FnMut(T) -> U) -> ObservedLayer<U> {
        ObservedLayer { sequences: self.sequences.into_iter().map(map).collect(), min_deviations: self.min_deviations }
    }
}

/// Shows the rows of all layers to `rows`.
pub(crate) struct Rows<'a, O: RowObserver> {
    pub(crate) rows: &'a O,
    pub(crate) sequences: Vec<Vec<O::Observation>>,
    /// The minimum deviation of a token at each norm, two per layer.
    pub(crate) deviations: Vec<f64>,
}

impl<O: RowObserver> Observer for Rows<'_, O> {
    fn norm_input(&mut self, x: &Tensor<3>) {
        self.deviations.push(min_deviation(x));
    }

    fn attention(&mut self, sublayer: &AttentionSublayer<'_>, form: Option<&FastForm>, x: Tensor<3>) -> Tensor<3> {
        let (x, sequences) = match form {
            Some(form) => fused::attention_observed(x, sublayer, form, self.rows),
            None => {
                let (x, trace) = reference::attention(x, sublayer);
                (x, trace.observe_rows(self.rows))
            }
        };
        self.sequences.push(sequences);
        x
    }
}

impl<O: RowObserver> Rows<'_, O> {
    pub(crate) fn into_layers(self) -> Vec<ObservedLayer<O::Observation>> {
        let layers = self.sequences.into_iter().zip(self.deviations.as_chunks::<2>().0);
        layers.map(|(sequences, &min_deviations)| ObservedLayer { sequences, min_deviations }).collect()
    }
}
