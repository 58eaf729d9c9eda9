//! What a layer did in the reference form, as tensors.

use burn::tensor::{Bool, Tensor};
use semfocus_core::Visibility;
use semfocus_kernels::{RowObserver, RowReader};

/// What a layer did in the reference form, as tensors.
#[derive(Clone, Debug)]
pub struct LayerTrace {
    /// Scores, kept keys and weights of the attention.
    pub attention: AttentionTrace,
    /// The minimum standard deviation of a token before the norm of the attention, and after the attention, where the MLP has its
    /// norm.
    pub min_deviations: [f64; 2],
}

/// What an attention sublayer computed on the way to its result, each `[batch, heads, queries, keys]`.
#[derive(Clone, Debug)]
pub struct AttentionTrace {
    /// Scores of all keys.
    pub scores: Tensor<4>,
    /// Whether each key was kept. Weightings other than the softmax can give a key the weight 0, which counts as dropped.
    pub kept: Tensor<4, Bool>,
    /// Attention weights before dropout.
    pub weights: Tensor<4>,
    /// Which keys a query sees.
    pub visibility: Visibility,
    /// Whether the weights follow from the scores.
    pub follows_scores: bool,
}

impl AttentionTrace {
    /// Shows every row to `observer`, as the fused form does, in single precision.
    pub(crate) fn observe_rows<O: RowObserver>(&self, observer: &O) -> Vec<O::Observation> {
        let [batch, heads, queries, keys] = self.scores.dims();
        let floats = |tensor: &Tensor<4>| tensor.clone().into_data().iter::<f32>().collect::<Vec<f32>>();
        let (scores, weights) = (floats(&self.scores), floats(&self.weights));
        let kept: Vec<bool> = self.kept.clone().into_data().iter::<bool>().collect();
        let mut reader = RowReader::default();
        let sequences = (0..batch).map(|sequence| {
            let mut observation = observer.begin(sequence);
            for row in 0..heads * queries {
                let at = (sequence * heads * queries + row) * keys;
                let visible = self.visibility.keys(row % queries, keys);
                let kept: Vec<u32> = (0..keys as u32).filter(|&key| kept[at + key as usize]).collect();
                let weights: Vec<f32> = kept.iter().map(|&key| weights[at + key as usize]).collect();
                let (head, query) = (row / queries, row % queries);
                let mut row = reader.read_weighted(head, query, &scores[at..at + visible], &kept, &weights);
                if !self.follows_scores {
                    (row.dispersion, row.separation) = (None, None);
                }
                observer.row(&mut observation, &row);
            }
            observation
        });
        sequences.collect()
    }
}

/// The minimum over all tokens of the standard deviation of a token's values.
pub(crate) fn min_deviation(x: &Tensor<3>) -> f64 {
    let width = x.dims()[2];
    let values: Vec<f64> = x.clone().into_data().iter::<f64>().collect();
    let variance = |token: &[f64]| {
        let mean = token.iter().sum::<f64>() / width as f64;
        token.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / width as f64
    };
    values.chunks_exact(width).map(variance).fold(f64::INFINITY, f64::min).sqrt()
}
