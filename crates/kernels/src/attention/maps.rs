//! The four maps of the attention, ready for products, and the way back from the gradients of the products to those of the
//! maps.
//!
//! **Folding.** A score is `(y_i W_q + b_q) · (y_j W_k + b_k)`. Up to a constant per query that is `(y_i M + u) · y_j` with
//! `M = W_q W_kᵀ` and `u = W_k b_q`: the keys need no map. And `(y_j W_v + b_v) W_o` is `y_j N + c` with `N = W_v W_o` and
//! `c = b_v W_o`: the output needs no map. So two products of rows with maps take the place of four, forward and backward, if
//! nothing depends on that constant. The gradients of the four maps follow from those of `M`, `u`, `N` and `c` by products of
//! small matrices; that of the key bias is zero.

use super::{AttentionGradients, AttentionKernel, HeadScalars};
use crate::Selection;
use crate::buffer::Buffer;
use crate::linear::{Columns, LinearGradient, pack_columns, pack_columns_transposed, unpad_columns};
use crate::matmul::{Left, Packed, Right, Start, multiply};
use crate::rows;
use crate::selection::RuleScores;
use crate::simd::padded;

/// The maps of all heads.
#[derive(Debug)]
pub(crate) struct Maps {
    pub(super) heads: Vec<HeadMaps>,
    pub(crate) folded: bool,
    /// Values of a query, key, value and context of one head.
    pub(super) inner_width: usize,
}

/// The maps of one head. In the folded form the keys are the normalised rows, and the context is the output.
#[derive(Debug)]
pub(crate) struct HeadMaps {
    pub(super) query: Columns,
    pub(super) key: Option<Columns>,
    pub(super) value: Columns,
    pub(super) output: Option<Packed>,
    /// `M` and `N` as padded rows, in the folded form.
    products: Option<[Buffer; 2]>,
}

/// The same, transposed, for gradients.
pub(crate) struct TransposedMaps {
    pub(super) query: Packed,
    pub(super) key: Option<Packed>,
    pub(super) value: Packed,
    pub(super) output: Option<Packed>,
}

impl AttentionKernel<'_> {
    /// Whether folded maps give the same function with less work. This is the only place that decides it.
    pub(crate) fn should_fold(&self, rows: usize) -> bool {
        let ignores_shift = self.weighting.ignores_common_shift()
            && match self.selection {
                Selection::Rule(rule) => match rule.scores() {
                    RuleScores::None | RuleScores::InitialMaps => true,
                    RuleScores::Own | RuleScores::NextExample => rule.ignores_common_shift(),
                },
                Selection::All | Selection::Pattern(_) => true,
            };
        // Multiplications of one head in a forward pass: maps, products of queries and keys, weighted sums of values.
        let (rows, length, width, inner) = (rows, self.length, self.width, self.head_width);
        let plain = rows * (4 * width * inner + 2 * length * inner);
        let folded = rows * (2 * width * width + 2 * length * width) + 2 * width * width * inner;
        ignores_shift && folded <= plain
    }

    /// The maps for products with `rows` rows.
    pub(crate) fn maps(&self, rows: usize) -> Maps {
        let folded = self.should_fold(rows);
        let heads = (0..self.heads).map(|head| if folded { self.folded_head(head) } else { self.plain_head(head) });
        Maps { heads: heads.collect(), folded, inner_width: if folded { self.width } else { self.head_width } }
    }

    /// The query and key maps before training.
    pub(crate) fn initial_maps(&self) -> Option<Maps> {
        let (query, key) = self.hints.initial_maps?;
        let initial = AttentionKernel { query, key, ..*self };
        let heads = (0..self.heads).map(|head| initial.plain_head(head)).collect();
        Some(Maps { heads, folded: false, inner_width: self.head_width })
    }

    /// The factor of the scores of a head is multiplied into the query map, where it costs nothing.
    fn score_factor(&self, head: usize) -> f32 {
        self.scale * self.head_scalars[head].temperature
    }

    /// What folded maps leave out of the scores of a head: for a normalised row `y` it is `y · vector + constant`.
    pub(super) fn left_out_by_folding(&self, head: usize) -> (Vec<f32>, f32) {
        let (columns, all_heads) = (self.columns(head), self.heads * self.head_width);
        let factor = f64::from(self.score_factor(head));
        let key_bias = &self.key.bias[columns.clone()];
        let along = |values: &[f32]| (factor * dot(&values[columns.clone()], key_bias)) as f32;
        (self.query.weight.chunks_exact(all_heads).map(along).collect(), along(self.query.bias))
    }

    fn columns(&self, head: usize) -> std::ops::Range<usize> {
        head * self.head_width..(head + 1) * self.head_width
    }

    /// Inputs and outputs of the query, key and value maps.
    fn projection_shape(&self) -> (usize, usize) {
        (self.width, self.heads * self.head_width)
    }

    fn plain_head(&self, head: usize) -> HeadMaps {
        let (first, head_width) = (self.columns(head).start, self.head_width);
        let pack = |map, scale| pack_columns(map, self.projection_shape(), first, head_width, scale);
        HeadMaps {
            query: pack(self.query, self.score_factor(head)),
            key: Some(pack(self.key, 1.0)),
            value: pack(self.value, 1.0),
            output: Some(self.packed_output(head)),
            products: None,
        }
    }

    fn folded_head(&self, head: usize) -> HeadMaps {
        let (first, all_heads) = (self.columns(head).start, self.heads * self.head_width);
        let key =
            pack_columns_transposed(self.key, self.projection_shape(), first, self.head_width, self.score_factor(head));
        let output = self.packed_output(head);
        let fold = |rows: usize, left: &[f32], right: &Packed| {
            let (stride, left) = (padded(self.width), Left::rows(&left[first..], all_heads));
            let mut result = Buffer::stale(rows * stride);
            multiply(rows, stride, self.head_width, left, right.right(), Start::Zero, &mut result, stride);
            result
        };
        let score = fold(self.width, self.query.weight, &key);
        let value = fold(self.width, self.value.weight, &output);
        let pack = |product: &Buffer| Packed::new(product, (0, padded(self.width), 1), self.width, self.width, 1.0);
        HeadMaps {
            query: Columns { weight: pack(&score), bias: fold(1, self.query.bias, &key).to_vec() },
            key: None,
            value: Columns { weight: pack(&value), bias: fold(1, self.value.bias, &output).to_vec() },
            output: None,
            products: Some([score, value]),
        }
    }

    fn packed_output(&self, head: usize) -> Packed {
        let first = self.columns(head).start;
        Packed::new(self.output.weight, (first * self.width, self.width, 1), self.head_width, self.width, 1.0)
    }

    fn packed_output_transposed(&self, head: usize) -> Packed {
        let first = self.columns(head).start;
        Packed::new(self.output.weight, (first * self.width, 1, self.width), self.width, self.head_width, 1.0)
    }

    pub(crate) fn transposed_maps(&self, maps: &Maps) -> Vec<TransposedMaps> {
        let (width, head_width) = (self.width, self.head_width);
        let transposed = |(head, maps): (usize, &HeadMaps)| match &maps.products {
            Some(products) => {
                let pack = |product: &Buffer| Packed::new(product, (0, 1, padded(width)), width, width, 1.0);
                TransposedMaps { query: pack(&products[0]), key: None, value: pack(&products[1]), output: None }
            }
            None => {
                let first = self.columns(head).start;
                let pack = |map, scale| pack_columns_transposed(map, self.projection_shape(), first, head_width, scale);
                TransposedMaps {
                    query: pack(self.query, self.score_factor(head)),
                    key: Some(pack(self.key, 1.0)),
                    value: pack(self.value, 1.0),
                    output: Some(self.packed_output_transposed(head)),
                }
            }
        };
        maps.heads.iter().enumerate().map(transposed).collect()
    }
}

/// Gradients of the maps, summed over the sequences of a run.
pub(crate) struct AttentionSums {
    pub(super) heads: Vec<MapSums>,
    pub(super) output_bias: Buffer,
}

/// Sums of one head: padded rows, as wide as the maps that the products used.
pub(crate) struct MapSums {
    pub(super) query: Buffer,
    pub(super) query_bias: Buffer,
    /// Empty in the folded form, like `output`.
    pub(super) key: Buffer,
    pub(super) key_bias: Buffer,
    pub(super) value: Buffer,
    pub(super) value_bias: Buffer,
    pub(super) output: Buffer,
    pub(super) alpha: f32,
}

impl AttentionSums {
    pub(crate) fn new(layer: &AttentionKernel, maps: &Maps) -> Self {
        let (stride, inner) = (padded(layer.width), padded(maps.inner_width));
        let plain = usize::from(!maps.folded);
        let head = || MapSums {
            query: Buffer::zeros(layer.width * inner),
            query_bias: Buffer::zeros(inner),
            key: Buffer::zeros(plain * layer.width * inner),
            key_bias: Buffer::zeros(plain * inner),
            value: Buffer::zeros(layer.width * inner),
            value_bias: Buffer::zeros(inner),
            output: Buffer::zeros(plain * layer.head_width * stride),
            alpha: 0.0,
        };
        AttentionSums { heads: (0..layer.heads).map(|_| head()).collect(), output_bias: Buffer::zeros(layer.width) }
    }

    pub(crate) fn add(mut self, other: Self) -> Self {
        for (sums, other) in self.heads.iter_mut().zip(&other.heads) {
            rows::add_assign(&mut sums.query, &other.query);
            rows::add_assign(&mut sums.query_bias, &other.query_bias);
            rows::add_assign(&mut sums.key, &other.key);
            rows::add_assign(&mut sums.key_bias, &other.key_bias);
            rows::add_assign(&mut sums.value, &other.value);
            rows::add_assign(&mut sums.value_bias, &other.value_bias);
            rows::add_assign(&mut sums.output, &other.output);
            sums.alpha += other.alpha;
        }
        rows::add_assign(&mut self.output_bias, &other.output_bias);
        self
    }

    pub(crate) fn into_gradients(self, layer: &AttentionKernel, maps: &Maps, x: Vec<f32>) -> AttentionGradients {
        let (inputs, outputs) = layer.projection_shape();
        let projection = || LinearGradient { weight: vec![0.0; inputs * outputs], bias: vec![0.0; outputs] };
        let mut gradients = AttentionGradients {
            x,
            query: projection(),
            key: projection(),
            value: projection(),
            output: LinearGradient { weight: vec![0.0; outputs * inputs], bias: self.output_bias[..inputs].to_vec() },
            head_scalars: Vec::new(),
        };
        for (head, (sums, maps)) in self.heads.iter().zip(&maps.heads).enumerate() {
            match &maps.products {
                Some(_) => layer.unfold_gradients(head, sums, &mut gradients),
                None => layer.copy_gradients(head, sums, &mut gradients),
            }
            // The scaled query map is proportional to the temperature.
            let along = match &maps.products {
                Some([score, _]) => dot(&sums.query, score) + dot(&sums.query_bias, &maps.query.bias),
                None => layer.along_query_map(head, sums),
            };
            let temperature = (along / f64::from(layer.head_scalars[head].temperature)) as f32;
            gradients.head_scalars.push(HeadScalars { temperature, alpha: sums.alpha });
        }
        gradients
    }
}

impl AttentionKernel<'_> {
    /// The product of the scaled query map with its gradient.
    fn along_query_map(&self, head: usize, sums: &MapSums) -> f64 {
        let (columns, all_heads, stride) = (self.columns(head), self.heads * self.head_width, padded(self.head_width));
        let rows = self.query.weight.chunks_exact(all_heads).zip(sums.query.chunks_exact(stride));
        let weight: f64 = rows.map(|(map, sums)| dot(&map[columns.clone()], sums)).sum();
        f64::from(self.score_factor(head)) * (weight + dot(&self.query.bias[columns], &sums.query_bias))
    }

    fn copy_gradients(&self, head: usize, sums: &MapSums, gradients: &mut AttentionGradients) {
        let (first, all_heads) = (self.columns(head).start, self.heads * self.head_width);
        let copy = |from: &[f32], scale: f32, to: &mut [f32]| {
            unpad_columns(from, self.head_width, scale, to, all_heads, first);
        };
        copy(&sums.query, self.score_factor(head), &mut gradients.query.weight);
        copy(&sums.query_bias, self.score_factor(head), &mut gradients.query.bias);
        copy(&sums.key, 1.0, &mut gradients.key.weight);
        copy(&sums.key_bias, 1.0, &mut gradients.key.bias);
        copy(&sums.value, 1.0, &mut gradients.value.weight);
        copy(&sums.value_bias, 1.0, &mut gradients.value.bias);
        let output = &mut gradients.output.weight[first * self.width..];
        unpad_columns(&sums.output, self.width, 1.0, output, self.width, 0);
    }

    /// From the gradients of `M` and `N` to those of the four maps.
    fn unfold_gradients(&self, head: usize, sums: &MapSums, gradients: &mut AttentionGradients) {
        let (first, all_heads) = (self.columns(head).start, self.heads * self.head_width);
        let (width, stride) = (self.width, padded(self.width));
        let (head_width, head_stride) = (self.head_width, padded(self.head_width));
        let scale = self.score_factor(head);
        let shape = self.projection_shape();
        let query = pack_columns(self.query, shape, first, head_width, 1.0);
        let key = pack_columns(self.key, shape, first, head_width, 1.0);
        let output = self.packed_output_transposed(head);
        let mut product = Buffer::stale(width * head_stride);
        let mut put = |rows: usize, left: Left, right: Right, scale: f32, to: &mut [f32]| {
            multiply(rows, head_stride, width, left, right, Start::Zero, &mut product, head_stride);
            unpad_columns(&product[..rows * head_stride], head_width, scale, to, all_heads, first);
        };
        put(width, Left::rows(&sums.query, stride), key.weight.right(), scale, &mut gradients.query.weight);
        put(1, Left::rows(&sums.query_bias, stride), key.weight.right(), scale, &mut gradients.query.bias);
        put(width, Left::transposed(&sums.query, stride), query.weight.right(), scale, &mut gradients.key.weight);
        put(width, Left::rows(&sums.value, stride), output.right(), 1.0, &mut gradients.value.weight);
        put(1, Left::rows(&sums.value_bias, stride), output.right(), 1.0, &mut gradients.value.bias);
        // `u` depends on the key map through the query bias.
        let key_gradients = gradients.key.weight.chunks_exact_mut(all_heads);
        for (gradient, u) in key_gradients.zip(&sums.query_bias[..width]) {
            for (gradient, bias) in gradient[first..].iter_mut().zip(&query.bias[..head_width]) {
                *gradient += scale * u * bias;
            }
        }
        // N and `c` depend on the output map through the value map and its bias.
        let mut out = Buffer::stale(head_width * stride);
        let left = Left::transposed(&self.value.weight[first..], all_heads);
        multiply(head_width, stride, width, left, Right::rows(&sums.value, stride), Start::Zero, &mut out, stride);
        let bias = Left::rows(&self.value.bias[first..], 1);
        let right = Right::rows(&sums.value_bias, stride);
        multiply(head_width, stride, 1, bias, right, Start::Result, &mut out, stride);
        unpad_columns(&out, width, 1.0, &mut gradients.output.weight[first * width..], width, 0);
    }
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}
