//! A mechanism of your own: the definition, which trains at once, and the fast form. `docs/adding-a-mechanism.md` walks
//! through this file; a test holds both forms together and trains it.
//!
//! Run it with `cargo run --release --example own_mechanism`.

use std::sync::Arc;

use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use semfocus_nn::registry::Parameter;
use semfocus_nn::{
    Encoder, Family, FastForm, Key, Mechanism, MechanismInfo, ModelConfig, Pass, Registry, RowRule, Site, train,
};

// [definition]
/// `within:m`: every query keeps the keys whose score is at most `m` below its best one, as many as there are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Within {
    margin: f32,
}

impl Mechanism for Within {
    fn keep(&self, scores: &Tensor<4>, _site: &Site) -> Tensor<4, Bool> {
        let best = scores.clone().max_dim(3); // [batch, heads, queries, 1]
        scores.clone().greater_equal(best - self.margin)
    }

    fn fast(&self, _length: usize) -> Option<FastForm> {
        Some(FastForm::Rule(Arc::new(*self))) // leave this method out until there is a fast form
    }
}

/// What `semfocus list mechanisms` would say about it, and how it is built.
pub(crate) const WITHIN: MechanismInfo = MechanismInfo {
    name: "within",
    family: Family::InputDependent,
    summary: "the keys whose score is at most m below the best one",
    source: "an example",
    size: Some(Parameter { name: "m", meaning: "the margin below the best score", min: 1, max: 100, example: 2 }),
    allows_globals: false,
    build: |spec| Arc::new(Within { margin: spec.size.unwrap_or(2) as f32 }),
};
// [end of definition]

// [fast form]
impl RowRule for Within {
    fn select(&self, _row: Key, scores: &[f32], kept: &mut Vec<u32>) {
        let best = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        kept.extend((0..).zip(scores).filter(|(_, score)| **score >= best - self.margin).map(|(key, _)| key));
    }
}
// [end of fast form]

/// Sequences of bits; the label says whether ones are in the majority.
fn batch(step: u64) -> train::Batch {
    const BATCH: usize = 25;
    const LENGTH: usize = 21;
    let bits: Vec<i64> = (0..BATCH * LENGTH).map(|i| i64::from(Key::new(step).below(i as u32, 2))).collect();
    let labels: Vec<i64> =
        bits.chunks(LENGTH).map(|bits| i64::from(2 * bits.iter().sum::<i64>() > LENGTH as i64)).collect();
    let device = Device::flex();
    train::Batch {
        tokens: Tensor::<2, Int>::from_data(TensorData::new(bits, [BATCH, LENGTH]), &device),
        labels: Tensor::<1, Int>::from_data(TensorData::new(labels, [BATCH]), &device),
    }
}

/// Trains a small model for `steps` steps and returns the mean loss of every tenth part of them.
pub(crate) fn losses(mechanism: &str, steps: u64) -> Vec<f64> {
    let registry = Registry::standard().with(WITHIN);
    let attention = registry.parse(mechanism).expect("the mechanism is registered");
    let config = ModelConfig { d_model: 32, d_mlp: 32, blocks: 2, ..ModelConfig::new(2, 2) };
    let mut model = Encoder::new(config, attention, 1, &Device::flex().autodiff()).expect("the settings are sound");
    let mut optimizer = train::Sgd;
    let mut losses = Vec::new();
    for step in 0..steps {
        let report;
        (model, report) = train::step(model, &mut optimizer, batch(step), Pass::training(1, step), 0.1, 0.5);
        losses.push(report.loss);
    }
    losses.chunks(losses.len().div_ceil(10)).map(|part| part.iter().sum::<f64>() / part.len() as f64).collect()
}

#[allow(dead_code, reason = "the test that includes this file has no use for it")]
fn main() {
    for mechanism in ["full", "within:2", "topk:5"] {
        let losses: Vec<String> = losses(mechanism, 600).iter().map(|loss| format!("{loss:.3}")).collect();
        println!("{mechanism:9} loss: {}", losses.join(" "));
    }
}
