//! Spectral norms of a model's matrices, from which its Lipschitz constants are bounded.
//!
//! Norms are exact but for rounding: the Gram matrix is made tridiagonal by reflections, then its greatest eigenvalue is
//! enclosed by bisection. All in double precision; some 50 ms for ten layers of width 64.

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::config::Activation;
use crate::model::{Block, Encoder, Linear, Pass};

/// Spectral norms of a linear layer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinearNorm {
    /// Of its matrix.
    pub weight: f64,
    /// Of its matrix with the bias as one more row: the bias is the weight of an input that is always 1.
    pub with_bias: f64,
}

/// Spectral norms of a block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayerNorms {
    /// Γ of each head: norm of the matrix M with scores `(yᵢ, 1) M yⱼ`, the factor of the scores included. The bias of the
    /// keys moves all scores of a query alike, which changes neither weights nor choice: it has no part in M.
    pub score: Vec<f64>,
    /// Of each head: the queries' matrix with its bias as one more row.
    pub query: Vec<f64>,
    /// Of each head: the keys' matrix, without bias.
    pub key: Vec<f64>,
    /// Υ: the values of all heads together.
    pub value: LinearNorm,
    /// Of each head: the values' matrix with its bias as one more row.
    pub value_of_head: Vec<f64>,
    /// From all heads back to the width of the model.
    pub output: LinearNorm,
    /// To the hidden layer of the MLP.
    pub mlp_hidden: LinearNorm,
    /// And back.
    pub mlp_output: LinearNorm,
}

/// Everything about a model's parameters that bounds on its Lipschitz constants depend on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelNorms {
    /// Width of the model.
    pub width: usize,
    /// Activation of the MLPs.
    pub activation: Activation,
    /// What the product of a query and a key is multiplied with.
    pub score_scale: f64,
    /// The blocks, in order.
    pub layers: Vec<LayerNorms>,
    /// The classifier's matrix, without bias.
    pub classifier: f64,
    /// The greatest Euclidean norm of a row of the embedding, before it is multiplied with √d.
    pub embedding: f64,
}

impl ModelNorms {
    /// The norms of a model.
    ///
    /// # Panics
    /// If a parameter is not finite.
    pub fn of(model: &Encoder) -> Self {
        let config = model.config();
        let score_scale = model.attention_settings(0, &Pass::evaluation(0, 0)).score_scale();
        let embedding = Matrix::of(&model.embedding.val());
        ModelNorms {
            width: config.d_model,
            activation: config.activation,
            score_scale,
            layers: model.blocks.iter().map(|block| LayerNorms::of(block, config.heads, score_scale)).collect(),
            classifier: Matrix::of(&model.classifier.weight.val()).spectral_norm(),
            embedding: embedding.rows().map(length).fold(0.0, f64::max),
        }
    }

    /// Each norm the greater of both, for statements about a pair of models.
    ///
    /// # Panics
    /// If the models do not have the same shape.
    pub fn greatest(&self, other: &Self) -> Self {
        assert_eq!((self.width, self.layers.len()), (other.width, other.layers.len()), "models of the same shape");
        ModelNorms {
            layers: self.layers.iter().zip(&other.layers).map(|(a, b)| a.greatest(b)).collect(),
            classifier: self.classifier.max(other.classifier),
            embedding: self.embedding.max(other.embedding),
            ..self.clone()
        }
    }
}

impl LayerNorms {
    fn of(block: &Block, heads: usize, score_scale: f64) -> Self {
        let Block { attention, mlp } = block;
        let query = Matrix::with_bias(&attention.query).split(heads);
        let key = Matrix::of(&attention.key.weight.val()).split(heads);
        let norms = |parts: &[Matrix]| parts.iter().map(Matrix::spectral_norm).collect::<Vec<f64>>();
        let score =
            query.iter().zip(&key).map(|(query, key)| score_scale * query.times_transposed(key).spectral_norm());
        LayerNorms {
            score: score.collect(),
            query: norms(&query),
            key: norms(&key),
            value: LinearNorm::of(&attention.value),
            value_of_head: norms(&Matrix::with_bias(&attention.value).split(heads)),
            output: LinearNorm::of(&attention.output),
            mlp_hidden: LinearNorm::of(&mlp.hidden),
            mlp_output: LinearNorm::of(&mlp.output),
        }
    }

    fn greatest(&self, other: &Self) -> Self {
        let each = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a.max(*b)).collect();
        LayerNorms {
            score: each(&self.score, &other.score),
            query: each(&self.query, &other.query),
            key: each(&self.key, &other.key),
            value: self.value.greatest(other.value),
            value_of_head: each(&self.value_of_head, &other.value_of_head),
            output: self.output.greatest(other.output),
            mlp_hidden: self.mlp_hidden.greatest(other.mlp_hidden),
            mlp_output: self.mlp_output.greatest(other.mlp_output),
        }
    }
}

impl LinearNorm {
    fn of(linear: &Linear) -> Self {
        LinearNorm {
            weight: Matrix::of(&linear.weight.val()).spectral_norm(),
            with_bias: Matrix::with_bias(linear).spectral_norm(),
        }
    }

    fn greatest(self, other: Self) -> Self {
        LinearNorm { weight: self.weight.max(other.weight), with_bias: self.with_bias.max(other.with_bias) }
    }
}

/// A matrix by rows, in double precision.
#[derive(Clone, Debug)]
struct Matrix {
    columns: usize,
    values: Vec<f64>,
}

impl Matrix {
    fn of(tensor: &Tensor<2>) -> Self {
        Matrix { columns: tensor.dims()[1], values: tensor.to_data().iter::<f64>().collect() }
    }

    /// The matrix of a linear layer, and its bias as one more row.
    fn with_bias(linear: &Linear) -> Self {
        let mut matrix = Matrix::of(&linear.weight.val());
        matrix.values.extend(linear.bias.val().to_data().iter::<f64>());
        matrix
    }

    fn rows(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        self.values.chunks_exact(self.columns)
    }

    /// Its columns in `parts` equal groups.
    fn split(&self, parts: usize) -> Vec<Matrix> {
        let columns = self.columns / parts;
        let part = |part: usize| self.rows().flat_map(move |row| row[part * columns..][..columns].iter().copied());
        (0..parts).map(|number| Matrix { columns, values: part(number).collect() }).collect()
    }

    fn transposed(&self) -> Matrix {
        let values = (0..self.columns).flat_map(|column| self.rows().map(move |row| row[column])).collect();
        Matrix { columns: self.rows().len(), values }
    }

    /// `A Bᵀ`.
    fn times_transposed(&self, other: &Matrix) -> Matrix {
        let mut product = Matrix { columns: other.rows().len(), values: Vec::new() };
        let right = other.transposed();
        for row in self.rows() {
            let mut sum = vec![0.0; product.columns];
            row.iter().zip(right.rows()).for_each(|(&factor, right)| add(&mut sum, factor, right));
            product.values.extend(sum);
        }
        product
    }

    /// The greatest singular value, rounded up.
    fn spectral_norm(&self) -> f64 {
        assert!(self.values.iter().all(|value| value.is_finite()), "a parameter is not finite");
        let scale = self.values.iter().fold(0.0, |greatest: f64, value| greatest.max(value.abs()));
        if scale == 0.0 {
            return 0.0;
        }
        // Scaled, so that squares neither overflow nor vanish; the smaller of both Gram matrices.
        let scaled = Matrix { columns: self.columns, values: self.values.iter().map(|value| value / scale).collect() };
        let scaled = if self.columns < self.rows().len() { scaled.transposed() } else { scaled };
        let (diagonal, beside) = tridiagonal(scaled.times_transposed(&scaled));
        scale * greatest_eigenvalue(&diagonal, &beside).sqrt()
    }
}

/// `sum += factor · row`.
fn add(sum: &mut [f64], factor: f64, row: &[f64]) {
    sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += factor * value);
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn length(row: &[f64]) -> f64 {
    dot(row, row).sqrt()
}

/// The diagonal of a tridiagonal matrix with the eigenvalues of a symmetric one, and the values beside it.
///
/// Householder's method: step by step a reflection turns what is left of a column, below the value beside the diagonal,
/// into zeros.
fn tridiagonal(mut symmetric: Matrix) -> (Vec<f64>, Vec<f64>) {
    let n = symmetric.columns;
    let (mut diagonal, mut beside) = (Vec::with_capacity(n), Vec::with_capacity(n));
    for step in 0..n {
        diagonal.push(symmetric.values[step * n + step]);
        let rest = step + 1..n;
        let mut mirror = symmetric.values[step * n..][rest.clone()].to_vec();
        let Some(&first) = mirror.first() else { break };
        let target = -length(&mirror).copysign(first);
        beside.push(target);
        mirror[0] -= target;
        let norm = length(&mirror);
        if norm == 0.0 {
            continue;
        }
        mirror.iter_mut().for_each(|value| *value /= norm);
        // A becomes (1 − 2uuᵀ) A (1 − 2uuᵀ) = A − u wᵀ − w uᵀ with w = 2 (A u − (uᵀA u) u).
        let mut image = vec![0.0; mirror.len()];
        for (row, &u) in rest.clone().zip(&mirror) {
            add(&mut image, u, &symmetric.values[row * n..][rest.clone()]);
        }
        let along = dot(&image, &mirror);
        let change: Vec<f64> = image.iter().zip(&mirror).map(|(image, u)| 2.0 * (image - along * u)).collect();
        for (row, (&u, &w)) in rest.clone().zip(mirror.iter().zip(&change)) {
            let row = &mut symmetric.values[row * n..][rest.clone()];
            add(row, -u, &change);
            add(row, -w, &mirror);
        }
    }
    (diagonal, beside)
}

/// The greatest eigenvalue of a tridiagonal matrix without negative ones, from above to the last digits.
fn greatest_eigenvalue(diagonal: &[f64], beside: &[f64]) -> f64 {
    let mut above = diagonal.iter().sum::<f64>(); // the sum of all eigenvalues
    let mut below = 0.0;
    // x exceeds all eigenvalues if all pivots of x − T are positive.
    let exceeds_all = |x: f64| {
        let mut pivot = f64::INFINITY;
        diagonal.iter().zip(std::iter::once(&0.0).chain(beside)).all(|(diagonal, beside)| {
            pivot = x - diagonal - beside * beside / pivot;
            pivot > 0.0
        })
    };
    while above - below > 1e-14 * above {
        let middle = 0.5 * (above + below);
        if exceeds_all(middle) {
            above = middle;
        } else {
            below = middle;
        }
    }
    above
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Int};

    use super::*;
    use crate::parameters;
    use crate::{ModelConfig, Registry, streams};

    fn matrix(columns: usize, values: &[f64]) -> Matrix {
        Matrix { columns, values: values.to_vec() }
    }

    fn close(got: f64, expected: f64) {
        assert!((got - expected).abs() <= 1e-12 * expected.abs(), "{got}, expected {expected}");
    }

    fn random(rows: usize, columns: usize, name: &str) -> Matrix {
        let values = streams::initial_values(1, name, rows * columns, 1.0);
        Matrix { columns, values: values.into_iter().map(f64::from).collect() }
    }

    #[test]
    fn norms_of_known_matrices() {
        close(matrix(1, &[-3.0]).spectral_norm(), 3.0);
        close(matrix(3, &[0.0, 0.0, -7.0, 2.0, 0.0, 0.0]).spectral_norm(), 7.0);
        // Rank one: the product of the lengths.
        close(matrix(2, &[3.0, 4.0, 6.0, 8.0, 6.0, 8.0]).spectral_norm(), 15.0);
        // A shear: the golden ratio.
        close(matrix(2, &[1.0, 1.0, 0.0, 1.0]).spectral_norm(), (1.0 + 5f64.sqrt()) / 2.0);
        // Ones below the diagonal of n rows: 1 / (2 sin(π / (4n + 2))).
        let lower: Vec<f64> = (0..20 * 20).map(|i| if i % 20 <= i / 20 { 1.0 } else { 0.0 }).collect();
        close(matrix(20, &lower).spectral_norm(), 0.5 / (std::f64::consts::PI / 82.0).sin());
        assert_eq!(matrix(2, &[0.0; 6]).spectral_norm(), 0.0);
        // Squares of these are beyond all numbers, or vanish.
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
            let norm = a.spectral_norm();
            let mut vector = vec![1.0; columns];
            for _ in 0..20_000 {
                let image: Vec<f64> = a.rows().map(|row| dot(row, &vector)).collect();
                vector.fill(0.0);
                image.iter().zip(a.rows()).for_each(|(&factor, row)| add(&mut vector, factor, row));
                let size = length(&vector);
                vector.iter_mut().for_each(|value| *value /= size);
            }
            let stretched = length(&a.rows().map(|row| dot(row, &vector)).collect::<Vec<f64>>());
            assert!((norm / stretched - 1.0).abs() < 1e-9, "{rows} × {columns}: {norm}, {stretched}");
            close(a.transposed().spectral_norm(), norm);
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
        let norms = ModelNorms::of(&model);
        assert_eq!((norms.layers.len(), norms.layers[0].score.len(), norms.width), (2, 2, 6));
        let layer = &norms.layers[1];
        assert!((0..2).all(|head| layer.score[head] <= norms.score_scale * layer.query[head] * layer.key[head]));
        assert!(layer.value.weight <= layer.value.with_bias && layer.value_of_head[0] <= layer.value.with_bias);
        // A token moved by a tenth of a unit moves the differences between scores by no more than its norm says.
        let Block { attention, .. } = &model.blocks[1];
        let y = |name: &str| {
            Tensor::<2>::from_data(
                burn::tensor::TensorData::new(random(9, 6, name).values, [9, 6]),
                (&Device::flex(), burn::tensor::DType::F64),
            )
        };
        let queries = Matrix::of(&attention.query.forward_rows(y("queries")));
        let keys = Matrix::of(&attention.key.forward_rows(y("keys")));
        let (inputs, targets) = (Matrix::of(&y("queries")), Matrix::of(&y("keys")));
        for head in 0..2 {
            let scores = queries.split(2)[head].times_transposed(&keys.split(2)[head]);
            for (scores, input) in scores.rows().zip(inputs.rows()) {
                let most = layer.score[head] * (dot(input, input) + 1.0).sqrt();
                for (score, target) in scores.iter().zip(targets.rows()) {
                    let apart: Vec<f64> =
                        target.iter().zip(targets.rows().next().unwrap()).map(|(a, b)| a - b).collect();
                    assert!(norms.score_scale * (score - scores[0]).abs() <= most * length(&apart) + 1e-12);
                }
            }
        }
    }

    #[test]
    fn the_greater_of_two_models() {
        let (a, b) = (ModelNorms::of(&model("full", 2, 3)), ModelNorms::of(&model("full", 2, 3)));
        let mut larger = b.clone();
        larger.layers[1].score[0] *= 2.0;
        larger.layers[0].value.weight *= 0.5;
        let greatest = a.greatest(&larger);
        assert_eq!(greatest.layers[1].score[0], 2.0 * a.layers[1].score[0]);
        assert_eq!(greatest.layers[0], a.layers[0]);
    }

    #[test]
    fn embedded_tokens_are_what_the_model_starts_from() {
        let mut model = model("banded:3+g2", 1, 6);
        model.blocks.clear();
        let tokens = Tensor::<2, Int>::from_data([[0, 1, 2, 1], [2, 2, 0, 0]], &Device::flex());
        let mean = model.embedded(tokens.clone()).mean_dim(1).squeeze_dim(1);
        let logits = model.classifier.forward_rows(mean).into_data();
        assert_eq!(logits, model.forward(tokens, Pass::evaluation(1, 0)).into_data());
    }

    #[test]
    fn a_model_of_ten_layers_takes_a_moment() {
        let config = ModelConfig { blocks: 10, ..ModelConfig::new(3, 4) };
        let model = Encoder::new(config, Registry::standard().parse("full").unwrap(), 5, &Device::flex()).unwrap();
        let start = std::time::Instant::now();
        let norms = ModelNorms::of(&model);
        println!("{} layers in {:.1?}", norms.layers.len(), start.elapsed());
        assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
    }
}
