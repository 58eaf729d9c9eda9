//! Spectral norms of a model's matrices, from which its Lipschitz constants are bounded. They are exact up to rounding.

use burn::tensor::Tensor;
use semfocus_nn::Model;
use semfocus_nn::weights::{Block, Linear, Maps};
use semfocus_store::records::{LayerNorms, LinearNorm, ModelNorms};

use super::symmetric::eigenvalues;
use super::{add_scaled, max_abs, norm};

/// The norms of all matrices of a model. None for models about which nothing is proved: those with another
/// [structure](semfocus_nn::ModelConfig::is_of_the_study) than that of the study.
///
/// # Panics
/// If a parameter is not finite.
pub fn model_norms(model: &dyn Model) -> Option<ModelNorms> {
    let (config, Maps { embedding, blocks, classifier }) = (model.config(), model.maps());
    if !config.is_of_the_study() {
        return None;
    }
    let layers = blocks.iter().map(|block| layer_norms(block, config.heads, config.score_scale()));
    Some(ModelNorms {
        width: config.d_model,
        activation: config.activation,
        score_scale: config.score_scale(),
        layers: layers.collect::<Option<_>>()?,
        classifier: Matrix::new(&classifier.weight).spectral_norm(),
        embedding: Matrix::new(&embedding.val()).0.iter().map(|row| norm(row)).fold(0.0, f64::max),
    })
}

fn layer_norms(Block { attention, mlp }: &Block, heads: usize, score_scale: f64) -> Option<LayerNorms> {
    let mlp = mlp.as_ref()?;
    let query = Matrix::with_bias(&attention.query).split(heads);
    let key = Matrix::new(&attention.key.weight.val()).split(heads);
    let norms = |parts: &[Matrix]| parts.iter().map(Matrix::spectral_norm).collect::<Vec<f64>>();
    let score = query.iter().zip(&key).map(|(query, key)| score_scale * query.times_transposed(key).spectral_norm());
    Some(LayerNorms {
        score: score.collect(),
        query: norms(&query),
        key: norms(&key),
        value: linear_norm(&attention.value),
        value_of_head: norms(&Matrix::with_bias(&attention.value).split(heads)),
        output: linear_norm(&attention.output),
        mlp_hidden: linear_norm(&mlp.hidden),
        mlp_output: linear_norm(&mlp.output),
    })
}

fn linear_norm(linear: &Linear) -> LinearNorm {
    let with_bias = Matrix::with_bias(linear).spectral_norm();
    LinearNorm { weight: Matrix::new(&linear.weight.val()).spectral_norm(), with_bias }
}

/// A matrix by rows.
#[derive(Clone, Debug)]
struct Matrix(Vec<Vec<f64>>);

impl Matrix {
    fn new(weight: &Tensor<2>) -> Self {
        let values: Vec<f64> = weight.to_data().iter::<f64>().collect();
        Matrix(values.chunks_exact(weight.dims()[1]).map(<[f64]>::to_vec).collect())
    }

    /// The matrix of a linear layer with its bias as one more row.
    fn with_bias(linear: &Linear) -> Self {
        let mut matrix = Matrix::new(&linear.weight.val());
        matrix.0.push(linear.bias.val().into_data().iter::<f64>().collect());
        matrix
    }

    fn columns(&self) -> usize {
        self.0.first().map_or(0, Vec::len)
    }

    /// The columns in `parts` groups of equal size.
    fn split(&self, parts: usize) -> Vec<Matrix> {
        let columns = self.columns() / parts;
        let part = |part: usize| self.0.iter().map(|row| row[part * columns..][..columns].to_vec()).collect();
        (0..parts).map(|number| Matrix(part(number))).collect()
    }

    fn transposed(&self) -> Matrix {
        Matrix((0..self.columns()).map(|column| self.0.iter().map(|row| row[column]).collect()).collect())
    }

    /// `A Bᵀ`.
    fn times_transposed(&self, other: &Matrix) -> Matrix {
        let right = other.transposed();
        let product = self.0.iter().map(|row| {
            let mut sum = vec![0.0; other.0.len()];
            row.iter().zip(&right.0).for_each(|(&factor, right)| add_scaled(&mut sum, factor, right));
            sum
        });
        Matrix(product.collect())
    }

    /// The largest singular value: the root of the largest eigenvalue of the smaller of the two Gram matrices.
    fn spectral_norm(&self) -> f64 {
        assert!(self.0.iter().flatten().all(|value| value.is_finite()), "a parameter is not finite");
        let scale = max_abs(self.0.iter().flatten());
        if scale == 0.0 {
            return 0.0;
        }
        // Scaled, so that squares neither overflow nor underflow.
        let unit = Matrix(self.0.iter().map(|row| row.iter().map(|value| value / scale).collect()).collect());
        let unit = if self.columns() < self.0.len() { unit.transposed() } else { unit };
        scale * eigenvalues(unit.times_transposed(&unit).0)[0].sqrt()
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{DType, Device, Int, TensorData};
    use semfocus_core::Key;
    use semfocus_nn::{Encoder, ModelConfig, Pass, Registry, parameters};

    use super::*;
    use crate::spectrum::dot;

    fn matrix(columns: usize, values: &[f64]) -> Matrix {
        Matrix(values.chunks_exact(columns).map(<[f64]>::to_vec).collect())
    }

    fn close(got: f64, expected: f64) {
        assert!((got - expected).abs() <= 1e-12 * expected.abs(), "{got}, expected {expected}");
    }

    /// Values from −1 to 1.
    fn random(rows: usize, columns: usize, name: &str) -> Matrix {
        let key = Key::new(1).named(name);
        let value = |place: usize| f64::from(key.bits_at(place as u32)) * 2f64.powi(-31) - 1.0;
        matrix(columns, &(0..rows * columns).map(value).collect::<Vec<f64>>())
    }

    #[test]
    fn norms_of_known_matrices() {
        close(matrix(1, &[-3.0]).spectral_norm(), 3.0);
        close(matrix(3, &[0.0, 0.0, -7.0, 2.0, 0.0, 0.0]).spectral_norm(), 7.0);
        // Rank one: the product of the lengths.
        close(matrix(2, &[3.0, 4.0, 6.0, 8.0, 6.0, 8.0]).spectral_norm(), 15.0);
        // A shear: the golden ratio.
        close(matrix(2, &[1.0, 1.0, 0.0, 1.0]).spectral_norm(), (1.0 + 5f64.sqrt()) / 2.0);
        // n × n, ones on and below the diagonal: 1 / (2 sin(π / (4n + 2))).
        let lower: Vec<f64> = (0..20 * 20).map(|i| if i % 20 <= i / 20 { 1.0 } else { 0.0 }).collect();
        close(matrix(20, &lower).spectral_norm(), 0.5 / (std::f64::consts::PI / 82.0).sin());
        assert_eq!(matrix(2, &[0.0; 6]).spectral_norm(), 0.0);
        // The squares of these overflow or underflow.
        close(matrix(2, &[1e200, 0.0, 0.0, 1e-200]).spectral_norm(), 1e200);
        close(matrix(1, &[3e-200, 4e-200]).spectral_norm(), 5e-200);
    }

    #[test]
    fn nearly_equal_singular_values_are_told_apart() {
        let mut diagonal = vec![0.0; 50 * 50];
        (0..50).for_each(|i| diagonal[i * 51] = 1.0 + 1e-7 * i as f64);
        close(matrix(50, &diagonal).spectral_norm(), 1.0 + 49e-7);
    }

    #[test]
    fn norms_of_random_matrices_agree_with_power_iteration() {
        for (rows, columns) in [(1, 5), (5, 1), (7, 7), (12, 40), (65, 64), (40, 12)] {
            let a = random(rows, columns, "power");
            let spectral = a.spectral_norm();
            let mut vector = vec![1.0; columns];
            for _ in 0..20_000 {
                let image: Vec<f64> = a.0.iter().map(|row| dot(row, &vector)).collect();
                vector.fill(0.0);
                image.iter().zip(&a.0).for_each(|(&factor, row)| add_scaled(&mut vector, factor, row));
                let size = norm(&vector);
                vector.iter_mut().for_each(|value| *value /= size);
            }
            let stretched = norm(&a.0.iter().map(|row| dot(row, &vector)).collect::<Vec<f64>>());
            assert!((spectral / stretched - 1.0).abs() < 1e-9, "{rows} × {columns}: {spectral}, {stretched}");
            close(a.transposed().spectral_norm(), spectral);
        }
    }

    fn model(spec: &str, heads: usize, d_head: usize) -> Encoder {
        let config = ModelConfig { d_model: 6, d_head: Some(d_head), heads, blocks: 2, ..ModelConfig::new(3, 4) };
        let attention = Registry::standard().parse(spec).unwrap();
        parameters::to_f64(Encoder::new(config, attention, 5, &Device::flex()).unwrap())
    }

    #[test]
    fn scores_never_exceed_their_norm() {
        let model = model("full", 2, 3);
        let norms = model_norms(&model).unwrap();
        assert_eq!((norms.layers.len(), norms.layers[0].score.len(), norms.width), (2, 2, 6));
        let layer = &norms.layers[1];
        assert!((0..2).all(|head| layer.score[head] <= norms.score_scale * layer.query[head] * layer.key[head]));
        assert!(layer.value.weight <= layer.value.with_bias && layer.value_of_head[0] <= layer.value.with_bias);
        // Differences between the scores of a query are bounded by the norm times the distance of the keys' tokens.
        let Block { attention, .. } = &model.blocks[1];
        let y = |name: &str| {
            let values = TensorData::new(random(9, 6, name).0.concat(), [9, 6]);
            Tensor::<2>::from_data(values, (&Device::flex(), DType::F64))
        };
        let rows = |x: Tensor<2>| matrix(6, &x.into_data().iter::<f64>().collect::<Vec<f64>>());
        let queries = rows(attention.query.forward_rows(y("queries")));
        let keys = rows(attention.key.forward_rows(y("keys")));
        let (inputs, targets) = (rows(y("queries")), rows(y("keys")));
        for head in 0..2 {
            let scores = queries.split(2)[head].times_transposed(&keys.split(2)[head]);
            for (scores, input) in scores.0.iter().zip(&inputs.0) {
                let max = layer.score[head] * (dot(input, input) + 1.0).sqrt();
                for (score, target) in scores.iter().zip(&targets.0) {
                    let apart: Vec<f64> = target.iter().zip(&targets.0[0]).map(|(a, b)| a - b).collect();
                    assert!(norms.score_scale * (score - scores[0]).abs() <= max * norm(&apart) + 1e-12);
                }
            }
        }
    }

    #[test]
    fn models_of_another_structure_have_no_norms() {
        use semfocus_core::{Head, PositionKind, Visibility};
        let has = |change: fn(&mut ModelConfig)| {
            let mut config = ModelConfig { d_model: 6, blocks: 2, length: 5, ..ModelConfig::new(3, 3) };
            change(&mut config);
            let attention = Registry::standard().parse("full").unwrap();
            model_norms(&Encoder::new(config, attention, 5, &Device::flex()).unwrap()).is_some()
        };
        assert!(has(|_| ()) && has(|c| (c.visibility, c.heads, c.blocks) = (Visibility::Causal, 3, 0)));
        let others: [fn(&mut ModelConfig); 8] = [
            |c| c.positions = PositionKind::Learned,
            |c| c.positions = PositionKind::None,
            |c| c.scale_embedding = false,
            |c| c.head = Head::Last,
            |c| c.final_norm = true,
            |c| c.affine_norms = true,
            |c| c.tied = true,
            |c| c.d_mlp = 0,
        ];
        assert!(others.into_iter().all(|change| !has(change)));
    }

    #[test]
    fn the_maximum_over_two_models() {
        let [a, b] = [0, 1].map(|_| model_norms(&model("full", 2, 3)).unwrap());
        let mut larger = b.clone();
        larger.layers[1].score[0] *= 2.0;
        larger.layers[0].value.weight *= 0.5;
        let max = a.max(&larger);
        assert_eq!(max.layers[1].score[0], 2.0 * a.layers[1].score[0]);
        assert_eq!(max.layers[0], a.layers[0]);
    }

    #[test]
    fn embedded_tokens_are_what_the_model_starts_from() {
        let mut model = model("banded:3+g2", 1, 6);
        model.blocks.clear();
        let tokens = Tensor::<2, Int>::from_data([[0, 1, 2, 1], [2, 2, 0, 0]], &Device::flex());
        let mean = model.embedded(tokens.clone()).mean_dim(1).squeeze_dim(1);
        let logits = model.head().map.forward_rows(mean).into_data();
        assert_eq!(logits, model.forward(tokens, Pass::evaluation(1, 0)).into_data());
    }
}
