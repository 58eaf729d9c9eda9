//! Training does not grow: thousands of steps need no more memory than a few hundred.

#![cfg(target_os = "linux")]

mod common;

use burn::tensor::Device;
use common::{labels, relevant, tokens};
use semfocus_nn::optimizer::OptimizerConfig;
use semfocus_nn::train::{Batch, step};
use semfocus_nn::{Encoder, Engine, ModelConfig, Pass, PositionKind, Registry, StandardOptimizer};

/// Bytes of this process that are in memory.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = text.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// How much memory a number of steps adds, after some that fill all pools.
fn growth(spec: &str, engine: Engine, options: bool, steps: u64) -> usize {
    let device = Device::flex().autodiff();
    let base = ModelConfig { d_model: 16, heads: 2, blocks: 2, d_mlp: 32, engine, ..ModelConfig::new(4, 2) };
    let learned = ModelConfig { positions: PositionKind::Learned, length: 6, final_norm: true, ..base.clone() };
    let config = if options { ModelConfig { affine_norms: true, tied: true, ..learned } } else { base };
    let model = Encoder::new(config, Registry::standard().parse(spec).unwrap(), 1, &device).unwrap();
    let mut model = Some(relevant(model));
    let mut optimizer = StandardOptimizer::new(OptimizerConfig::default());
    let mut train = |first: u64, count: u64| {
        for number in first..first + count {
            let batch = Batch { tokens: tokens(2, 6, 4, &Device::flex()), questions: labels(2, 2) };
            let present = model.take().expect("every step gives the model back");
            model = Some(step(present, &mut optimizer, batch, Pass::training(1, number), 0.01, 1.0).0);
        }
    };
    train(0, 300);
    let before = resident();
    train(300, steps);
    resident().saturating_sub(before)
}

#[test]
fn steps_leave_nothing_behind() {
    // One operator for the whole model; layer by layer with fused operators; tensor code.
    let kinds = [
        ("topk:2", Engine::Fused, false, 3000),
        ("ssmax", Engine::Fused, false, 3000),
        ("full", Engine::Fused, true, 2000),
        ("shuffledk:2", Engine::Fused, false, 1500),
        ("linear", Engine::Fused, false, 1000),
        ("full", Engine::Reference, false, 1000),
    ];
    for (spec, engine, options, steps) in kinds {
        let growth = growth(spec, engine, options, steps);
        // What is left behind by each step, were it only the 4,000 parameters, would be 16 MB after 1,000 steps.
        assert!(growth < 6_000_000, "{spec} {engine:?}: {growth} bytes more after {steps} steps");
    }
}
