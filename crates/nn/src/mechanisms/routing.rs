//! `routing[:clusters=c,decay=x]`: every query keeps itself and, of the keys that it sees, the share `1 / c` that is nearest to the centroid of
//! its cluster. Clusters are found in each sequence and head by online k-means on queries and keys of length 1: position after position,
//! the key and then the query join the cluster with the nearest centroid (the largest product; ties to the lower index), and then each
//! moves its centroid to `decay · centroid + (1 - decay) · itself`, scaled to length 1. The centroids start at the directions of the axes,
//! first the positive and then the negative ones. A query is compared with its centroid as it is at its position.
//!
//! Published are centroids that all sequences share and that move with decay 0.999 during training, and queries that are taken by
//! centroids, too, so that one may get no keys. Here centroids are those of the sequence, so that there is no state other than the weights, and
//! a choice never looks at later tokens in causal models. Runs in the reference form.

use std::sync::Arc;

use burn::tensor::{Bool, Tensor, TensorData};
use semfocus_core::spec::{Literal, Parameter};

use super::{LayerContext, Mechanism};
use crate::info::{Family, MechanismInfo};
use crate::weighting::Content;

/// The keys nearest to the centroid of the query.
#[derive(Clone, Copy, Debug)]
struct Routing {
    /// Number of clusters of a head.
    clusters: usize,
    /// What a centroid keeps of itself when a vector joins.
    decay: f64,
}

pub(super) const INFO: MechanismInfo = MechanismInfo {
    family: Family::InputDependent,
    summary: "the keys nearest to the centroid of the query's cluster",
    source: "Roy, Saffar, Vaswani, Grangier, Efficient Content-Based Sparse Attention with Routing Transformers, 2021 (here with \
             clusters of each sequence)",
    formula: "p = softmax of z over the share 1/c of the keys nearest to the query's centroid",
    isolates: "a choice by content that is not by the attention scores",
    parameters: &[
        Parameter::whole("clusters", "the number of clusters", 1, 1000, 4).keyed().default(Literal::Number(4.0)),
        Parameter::number("decay", "what a centroid keeps of itself when a vector joins", 0.0, 1.0, 0.9)
            .default(Literal::Number(0.9)),
    ],
    ..MechanismInfo::new("routing", |values| {
        Ok(Arc::new(Routing { clusters: values.whole("clusters"), decay: values.number("decay") }))
    })
};

impl Mechanism for Routing {
    fn keep(&self, _scores: &Tensor<4>, _context: &LayerContext) -> Tensor<4, Bool> {
        unreachable!("the choice is made by content")
    }

    fn keep_by_content(&self, scores: &Tensor<4>, content: &Content, context: &LayerContext) -> Tensor<4, Bool> {
        let [_, _, length, width] = content.query.dims();
        let values = |rows: &Tensor<4>| rows.clone().without_autodiff().into_data().iter::<f64>().collect::<Vec<f64>>();
        let (queries, keys) = (values(&content.query), values(&content.key));
        let heads = queries.chunks(length * width).zip(keys.chunks(length * width));
        let visible = |query| context.visibility.keys(query, length);
        let mask: Vec<bool> =
            heads.flat_map(|(queries, keys)| self.keep_in_head(queries, keys, width, visible)).collect();
        Tensor::from_data(TensorData::new(mask, scores.shape()), &scores.device())
    }
}

impl Routing {
    /// Whether each query of a head keeps each key, row by row.
    fn keep_in_head(&self, queries: &[f64], keys: &[f64], width: usize, visible: impl Fn(usize) -> usize) -> Vec<bool> {
        let mut centroids: Vec<Vec<f64>> = (0..self.clusters).map(|number| axis(number, width)).collect();
        let keys: Vec<Vec<f64>> = keys.chunks(width).map(scaled).collect();
        let mut mask = vec![false; keys.len() * keys.len()];
        for (position, (query, row)) in queries.chunks(width).zip(mask.chunks_mut(keys.len())).enumerate() {
            self.join(&mut centroids, &keys[position]);
            let centroid = self.join(&mut centroids, &scaled(query));
            let seen = &keys[..visible(position)];
            let products: Vec<f64> = seen.iter().map(|key| product(&centroids[centroid], key)).collect();
            let mut order: Vec<usize> = (0..seen.len()).collect();
            order.sort_by(|&a, &b| products[b].total_cmp(&products[a]).then(a.cmp(&b)));
            order.iter().take(seen.len().div_ceil(self.clusters)).for_each(|&key| row[key] = true);
            row[position] = true;
        }
        mask
    }

    /// Lets a vector join the nearest cluster, of equally near ones the first, and moves its centroid. Gives the cluster.
    fn join(&self, centroids: &mut [Vec<f64>], vector: &[f64]) -> usize {
        let mut nearest = (0, f64::NEG_INFINITY);
        for (number, centroid) in centroids.iter().enumerate() {
            let product = product(centroid, vector);
            if product > nearest.1 {
                nearest = (number, product);
            }
        }
        let centroid = &mut centroids[nearest.0];
        let moved = centroid.iter().zip(vector).map(|(c, x)| self.decay * c + (1.0 - self.decay) * x);
        *centroid = scaled(&moved.collect::<Vec<f64>>());
        nearest.0
    }
}

/// The direction of an axis: the positive ones first, then the negative ones, then the same again.
fn axis(number: usize, width: usize) -> Vec<f64> {
    let sign = if (number / width).is_multiple_of(2) { 1.0 } else { -1.0 };
    (0..width).map(|place| if place == number % width { sign } else { 0.0 }).collect()
}

/// The vector with length 1.
fn scaled(vector: &[f64]) -> Vec<f64> {
    let length = vector.iter().map(|x| x * x).sum::<f64>().sqrt().max(1e-12);
    vector.iter().map(|x| x / length).collect()
}

fn product(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_by_hand() {
        // Centroids that never move: the four directions of the axes.
        let fixed = Routing { clusters: 4, decay: 1.0 };
        let mut centroids: Vec<Vec<f64>> = (0..4).map(|number| axis(number, 2)).collect();
        let around = [[3.0, 0.1], [0.1, 2.0], [-1.0, 0.3], [0.2, -0.5]];
        assert_eq!(around.map(|vector| fixed.join(&mut centroids, &scaled(&vector))), [0, 1, 2, 3]);
        assert_eq!(axis(5, 2), [0.0, 1.0], "after all directions they come again");
        // A vector moves its centroid half of the way to itself: from (1, 0) to (0, -1).
        let moving = Routing { clusters: 2, decay: 0.5 };
        let mut centroids: Vec<Vec<f64>> = (0..2).map(|number| axis(number, 2)).collect();
        assert_eq!(moving.join(&mut centroids, &[0.0, -1.0]), 0);
        assert!((centroids[0][0] - 0.5f64.sqrt()).abs() < 1e-12 && (centroids[0][1] + 0.5f64.sqrt()).abs() < 1e-12);
        assert_eq!(moving.join(&mut centroids, &scaled(&[0.6, 0.5])), 1, "without the move it would be the first");
    }

    #[test]
    fn a_query_keeps_the_keys_of_its_direction_and_itself() {
        let fixed = Routing { clusters: 2, decay: 1.0 };
        let keys = [1.0, 0.0, 0.0, 1.0, 0.9, 0.1, 0.2, 0.9];
        let queries = [0.1, 1.0, 1.0, 0.1, 1.0, 0.0, 0.0, 1.0];
        let rows = |visible: fn(usize) -> usize| -> Vec<Vec<usize>> {
            let mask = fixed.keep_in_head(&queries, &keys, 2, visible);
            mask.chunks(4).map(|row| (0..4).filter(|&key| row[key]).collect()).collect()
        };
        assert_eq!(rows(|_| 4), [vec![0, 1, 3], vec![0, 1, 2], vec![0, 2], vec![1, 3]]);
        assert_eq!(rows(|query| query + 1), [vec![0], vec![0, 1], vec![0, 2], vec![1, 3]]);
    }
}
