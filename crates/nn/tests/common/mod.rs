//! What the tests of the model share.
#![allow(dead_code, reason = "every test file uses a part of it")]

pub(crate) mod mechanisms;

use burn::tensor::{Device, Int, Tensor, TensorData};
use semfocus_nn::{Encoder, Named, Pass, Registry, conformance, train};

/// Specs that cover the whole registry: every mechanism with a small size, and with global tokens where it takes them.
pub(crate) fn small_specs() -> Vec<String> {
    let registry = Registry::standard();
    let mut specs = Vec::new();
    for info in registry.iter() {
        let mut spec = info.example();
        spec.first = spec.first.map(|first| if first.whole().is_some() { 2.into() } else { first });
        specs.push(spec.to_string());
        if info.allows_globals {
            spec.globals = 2;
            specs.push(spec.to_string());
        }
    }
    specs
}

/// The model with relevant positions, for mechanisms that ask for them.
pub(crate) fn relevant(model: Encoder) -> Encoder {
    conformance::with_stand_ins(model)
}

/// A fixed batch of `[batch, length]` tokens below `vocabulary`.
pub(crate) fn tokens(batch: usize, length: usize, vocabulary: usize, device: &Device) -> Tensor<2, Int> {
    let ids: Vec<i64> = (0..batch * length).map(|i| ((i * i + i / 3 + 1) % vocabulary) as i64).collect();
    Tensor::from_data(TensorData::new(ids, [batch, length]), device)
}

/// Labels `0, 1, …` below `classes`.
pub(crate) fn labels(batch: usize, classes: usize, device: &Device) -> Tensor<1, Int> {
    let labels: Vec<i64> = (0..batch).map(|i| (i % classes) as i64).collect();
    Tensor::from_data(TensorData::new(labels, [batch]), device)
}

/// The loss of a model on a batch.
pub(crate) fn loss_of(model: &Encoder, tokens: &Tensor<2, Int>, labels: &Tensor<1, Int>, pass: Pass) -> f64 {
    train::loss(model.forward(tokens.clone(), pass), labels.clone()).into_data().iter::<f64>().sum()
}
