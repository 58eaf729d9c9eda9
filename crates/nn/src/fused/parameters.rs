//! From the gradients that the operator for whole models computes to those of the parameters. The operator knows neither scales and
//! shifts of norms, which are [folded](LinearTensors::folded) into the maps after them, nor tied weights.

use semfocus_kernels::{LinearGradient, TrainingGradients};

use super::encoder::{EncoderCall, parameter_gradient};
use crate::parameters::NamedGradients;
use crate::sublayer::BlockSublayers;
use crate::weights::{LinearTensors, Norm};

impl EncoderCall<'_> {
    /// The gradients of all parameters by name.
    pub(super) fn of_parameters(&self, result: TrainingGradients) -> NamedGradients {
        let TrainingGradients { mut table, mut positions, blocks, mut head, .. } = result;
        let length = self.embedding.positions.dims()[0];
        let mut gradients = NamedGradients::default();
        for ((layer, (mut attention, mlp)), sublayers) in blocks.into_iter().enumerate().zip(&self.blocks) {
            let BlockSublayers { attention: of_attention, mlp: of_mlp, .. } = sublayers;
            let name = |part: &str| format!("blocks.{layer}.{part}");
            let weights = of_attention.weights;
            let maps = [
                (weights.query.tensors(), &mut attention.query),
                (weights.key.tensors(), &mut attention.key),
                (weights.value.tensors(), &mut attention.value),
            ];
            gradients.add_norm(&name("attention.norm"), unfold(weights.norm.as_ref(), maps));
            gradients.add_linear(&name("attention.query"), attention.query);
            gradients.add_linear(&name("attention.key"), attention.key);
            gradients.add_linear(&name("attention.value"), attention.value);
            gradients.add_linear(&name("attention.output"), attention.output);
            if weights.mechanism.is_some() {
                let gradient = parameter_gradient(of_attention, length, &attention.head_scalars);
                gradients.add(name("attention.mechanism"), gradient);
            }
            if let Some((mut mlp, of_mlp)) = mlp.zip(of_mlp.as_ref()) {
                let maps = [(of_mlp.weights.hidden.tensors(), &mut mlp.hidden)];
                gradients.add_norm(&name("mlp.norm"), unfold(of_mlp.weights.norm.as_ref(), maps));
                gradients.add_linear(&name("mlp.hidden"), mlp.hidden);
                gradients.add_linear(&name("mlp.output"), mlp.output);
            }
        }
        gradients.add_norm("norm", unfold(self.head.norm, [(self.head.map.clone(), &mut head)]));
        if self.is_tied {
            add_transposed(&head, &mut table);
        } else {
            gradients.add("classifier.weight".to_owned(), Some(head.weight));
        }
        gradients.add("classifier.bias".to_owned(), Some(head.bias));
        gradients.add("embedding".to_owned(), Some(table));
        if let Some(values) = self.learned_positions {
            positions.resize(values, 0.0); // sequences may be shorter than positions reach
            gradients.add("positions".to_owned(), Some(positions));
        }
        gradients
    }
}

/// Turns the gradients of maps that a norm was folded into into those of the maps themselves, and gives those of its scale and shift.
/// With `W' = diag(s) W` and `b' = b + t W`, they are `dW = diag(s) dW' + t db'ᵀ`, `ds = Σ W ⊙ dW'` over the outputs and `dt = W db'`.
fn unfold<const N: usize>(
    norm: Option<&Norm>,
    maps: [(LinearTensors, &mut LinearGradient); N],
) -> Option<[Vec<f32>; 2]> {
    let norm = norm?;
    let [scale, shift] = [&norm.scale, &norm.shift].map(|values| values.val().into_data().iter::<f32>().collect());
    let (scale, shift): (Vec<f32>, Vec<f32>) = (scale, shift);
    let mut sums = vec![[0f64; 2]; scale.len()];
    for (map, gradient) in maps {
        let weight: Vec<f32> = map.weight.into_data().iter::<f32>().collect();
        let LinearGradient { weight: of_weight, bias } = gradient;
        let rows = weight.chunks_exact(bias.len()).zip(of_weight.chunks_exact_mut(bias.len()));
        for (((weight, gradient), sums), (&scale, &shift)) in rows.zip(&mut sums).zip(scale.iter().zip(&shift)) {
            for ((weight, gradient), &of_bias) in weight.iter().zip(gradient).zip(&*bias) {
                sums[0] += f64::from(weight * *gradient);
                sums[1] += f64::from(weight * of_bias);
                *gradient = scale * *gradient + shift * of_bias;
            }
        }
    }
    Some([0, 1].map(|part| sums.iter().map(|sums| sums[part] as f32).collect()))
}

/// Adds the gradient of weights, `[d_model, classes]`, to that of the first rows of the embedding.
fn add_transposed(LinearGradient { weight, bias }: &LinearGradient, table: &mut [f32]) {
    let (classes, width) = (bias.len(), weight.len() / bias.len());
    for (class, row) in table.chunks_exact_mut(width).take(classes).enumerate() {
        row.iter_mut().zip(weight[class..].iter().step_by(classes)).for_each(|(sum, value)| *sum += value);
    }
}
