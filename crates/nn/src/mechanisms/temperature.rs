//! `temperature:t` and `temperature:entropy=k`: full attention whose scores are multiplied with a constant.
//!
//! With `entropy=k` the constant is such that attention begins as sharp as a uniform distribution over `k` keys. The scores of a new
//! model have a standard deviation of about 1/3 times the model's inverse temperature: its inputs are normalised, and its query and key
//! maps are uniform in ± 1/√d_model. The `L` scores of a query are taken to be the quantiles `(j - 1/2) / L` of a normal distribution with
//! that deviation, and `t` is the factor with which their softmax has the entropy `ln k`, found by bisection and rounded to four
//! decimals. So it depends on the length and the inverse temperature alone. With `k` of at least `L` it acts as `full`.

use std::sync::Arc;

use burn::tensor::{Bool, Tensor};
use semfocus_core::spec::{Literal, MAX_SIZE, Parameter};

use super::{LayerContext, Mechanism, Selection, keep_all};
use crate::info::{Family, MechanismInfo};
use crate::mechanism::{HeadTensors, LayerShape};

/// Full attention with a factor of the scores.
#[derive(Clone, Copy, Debug)]
enum Temperature {
    /// This factor.
    Factor(f64),
    /// The factor with which attention begins as sharp as a uniform distribution over this number of keys.
    Matched(usize),
}

pub(super) const INFO: MechanismInfo = MechanismInfo {
    family: Family::Control,
    summary: "all keys, sharper by a fixed factor",
    source: "control of this project",
    formula: "p = softmax(t z), t fixed, or such that a new model has the entropy ln k",
    isolates: "focus without sparsity: matched sharpness",
    parameters: &[
        Parameter::number("t", "the factor of the scores", 0.0, 100.0, 4.0).default(Literal::Number(DEFAULT)),
        Parameter::whole("entropy", "the number of keys whose uniform distribution is as sharp", 2, MAX_SIZE, 5)
            .keyed()
            .optional(),
    ],
    ..MechanismInfo::new("temperature", |values| match values.get("entropy") {
        Some(_) if values.number("t") != DEFAULT => {
            Err("a factor and an entropy do not go together; leave one of them out".to_owned())
        }
        Some(_) => Ok(Arc::new(Temperature::Matched(values.whole("entropy")))),
        None => Ok(Arc::new(Temperature::Factor(values.number("t")))),
    })
};

const DEFAULT: f64 = 4.0;

impl Mechanism for Temperature {
    fn keep(&self, scores: &Tensor<4>, _context: &LayerContext) -> Tensor<4, Bool> {
        keep_all(scores)
    }

    fn selection(&self, _length: usize) -> Option<Selection> {
        Some(Selection::All)
    }

    fn head_scalars(&self, _parameters: Option<Tensor<2>>, shape: &LayerShape) -> HeadTensors {
        let factor = match *self {
            Temperature::Factor(factor) => factor,
            Temperature::Matched(k) if k >= shape.length => return HeadTensors::default(),
            Temperature::Matched(k) => matched_factor(k, shape.length, shape.inverse_temperature / 3.0),
        };
        HeadTensors { temperature: Some(shape.constant(factor)), alpha: None }
    }
}

/// The factor with which `length` normal quantiles of this deviation have a softmax of the entropy `ln k`.
fn matched_factor(k: usize, length: usize, deviation: f64) -> f64 {
    let quantiles: Vec<f64> = (0..length).map(|j| normal_quantile((j as f64 + 0.5) / length as f64)).collect();
    let entropy = |factor: f64| {
        let scores = quantiles.iter().map(|z| factor * deviation * z);
        let max = scores.clone().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = scores.clone().map(|z| (z - max).exp()).sum();
        let mean: f64 = scores.map(|z| (z - max).exp() * (z - max)).sum::<f64>() / sum;
        sum.ln() - mean
    };
    let (mut low, mut high) = (0.0, 1e6);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if entropy(middle) > (k as f64).ln() { low = middle } else { high = middle }
    }
    (low * 1e4).round() / 1e4
}

/// The value that a standard normal variable exceeds with probability `1 - p`, by bisection of its distribution function.
fn normal_quantile(p: f64) -> f64 {
    let (mut low, mut high) = (-10.0, 10.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if normal_distribution(middle) < p { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// The standard normal distribution function, by its power series around 0.
fn normal_distribution(z: f64) -> f64 {
    if z.abs() > 7.0 {
        return if z > 0.0 { 1.0 } else { 0.0 };
    }
    let (mut term, mut sum) = (z, z);
    for n in 1..200 {
        term *= z * z / f64::from(2 * n + 1);
        sum += term;
    }
    0.5 + sum * (-0.5 * z * z).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_normal_distribution_has_known_values() {
        for (z, p) in
            [(0.0, 0.5), (1.0, 0.841_344_746_068_543), (-1.959_963_984_540_054, 0.025), (3.0, 0.998_650_101_968_37)]
        {
            assert!((normal_distribution(z) - p).abs() < 1e-12, "{z}");
            assert!((normal_quantile(p) - z).abs() < 1e-9, "{p}");
        }
    }

    #[test]
    fn the_factor_gives_the_entropy() {
        // In long sequences the entropy is that of a continuous normal distribution tilted by s: ln L - s² / 2.
        let factor = matched_factor(9_000, 10_000, 0.5);
        assert!((factor * 0.5 - (2.0 * (10.0f64 / 9.0).ln()).sqrt()).abs() < 1e-3, "{factor}");
        assert!(matched_factor(5, 40, 1.0 / 3.0) > matched_factor(9, 40, 1.0 / 3.0));
        assert!((matched_factor(5, 40, 1.0 / 3.0) - 2.0 * matched_factor(5, 40, 2.0 / 3.0)).abs() < 1e-3);
    }
}
