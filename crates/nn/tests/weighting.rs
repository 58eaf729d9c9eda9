//! A mechanism with weights of its own gets them in either engine, even if its choice of keys has a fast form.

mod common;

use std::sync::Arc;

use burn::tensor::{Bool, Device, Tensor};
use common::{labels, tokens};
use semfocus_nn::conformance::ZipEq;
use semfocus_nn::mechanisms::TopK;
use semfocus_nn::{
    Attention, Content, Encoder, Engine, FastForm, LayerContext, Mechanism, MechanismInfo, ModelConfig, Pass, Registry,
    Selection, Visibility, WeightFunction, Weighting, parameters, train,
};

/// The keys of `topk:3`, all with the same weight.
#[derive(Debug)]
struct UniformTopK;

#[derive(Debug)]
struct Uniform;

impl WeightFunction for Uniform {
    fn weights(&self, _scores: Tensor<4>, kept: Tensor<4, Bool>, _: &Content) -> Tensor<4> {
        let kept = kept.float();
        kept.clone().div(kept.sum_dim(3))
    }
}

impl Mechanism for UniformTopK {
    fn keep(&self, scores: &Tensor<4>, context: &LayerContext) -> Tensor<4, Bool> {
        TopK { k: 3 }.keep(scores, context)
    }

    fn weighting(&self) -> Weighting {
        Weighting::Custom(Arc::new(Uniform))
    }

    fn selection(&self, length: usize) -> Option<Selection> {
        TopK { k: 3 }.selection(length)
    }
}

fn registry() -> Registry {
    let registry = Registry::standard();
    let topk = registry.get("topk").expect("it is a standard mechanism").clone();
    registry.with(MechanismInfo { name: "uniform", parameters: &[], build: |_| Ok(Arc::new(UniformTopK)), ..topk })
}

/// The loss, and the gradients of all parameters.
fn run(mechanism: &str, engine: Engine) -> (f64, Vec<f64>) {
    let device = Device::flex().autodiff();
    let attention = registry().parse(mechanism).unwrap();
    let config = ModelConfig { d_model: 16, heads: 2, blocks: 2, d_mlp: 16, engine, ..ModelConfig::new(4, 3) };
    let model = Encoder::new(config, attention, 5, &device).unwrap();
    let logits = model.forward(tokens(5, 12, 4, &device), Pass::training(1, 2));
    let loss = train::loss(logits, &labels(5, 3));
    let gradients = parameters::named_gradients(&model, &loss.backward());
    (loss.into_scalar(), gradients.iter().flat_map(|(_, values)| values.iter::<f64>()).collect())
}

#[test]
fn own_weights_are_used_by_both_engines() {
    let (expected, expected_gradients) = run("uniform", Engine::Reference);
    let (loss, gradients) = run("uniform", Engine::Fused);
    assert!((loss - expected).abs() < 1e-6, "{loss}, not {expected}");
    for (found, expected) in gradients.iter().zip_eq(&expected_gradients) {
        assert!((found - expected).abs() < 1e-6, "{found}, not {expected}");
    }
    // With softmax weights the same keys give another loss: the comparison can fail.
    let (softmax, _) = run("topk:3", Engine::Fused);
    assert!((softmax - expected).abs() > 2e-5, "{softmax} and {expected}");
}

#[test]
fn own_weights_mean_no_fast_form() {
    let has_fast_form = |name: &str| {
        let Attention { mechanism, info, .. } = registry().parse(name).unwrap();
        assert!(mechanism.selection(12).is_some());
        assert_eq!(info.has_fast_form(), FastForm::new(mechanism.as_ref(), 12, Visibility::All).is_some());
        info.has_fast_form()
    };
    assert!(!has_fast_form("uniform"));
    assert!(has_fast_form("topk:3"));
}

#[test]
fn learned_numbers_are_parameters_like_any_other() {
    let device = Device::flex().autodiff();
    let attention = common::mechanisms::registry().parse("alpha-entmax").unwrap();
    let config = ModelConfig { d_model: 16, heads: 3, blocks: 2, d_mlp: 16, ..ModelConfig::new(4, 3) };
    let model = Encoder::new(config, attention, 5, &device).unwrap();
    let named = parameters::named_parameters(&model);
    let (_, learned) = named.iter().find(|(name, _)| name == "blocks.1.attention.mechanism").expect("it has a name");
    assert_eq!(learned.shape().to_vec(), [3, 2]);
    // They can be stored and read, and a training step changes them.
    let model = parameters::set_parameters(model, named.clone()).unwrap();
    let batch = train::Batch { tokens: tokens(5, 12, 4, &device), questions: labels(5, 3) };
    let (model, _) = train::step(model, &mut train::Sgd, batch, Pass::training(1, 2), 0.5, 1e3);
    for ((name, before), (_, after)) in named.iter().zip_eq(parameters::named_parameters(&model)) {
        let moved = before.iter::<f32>().zip_eq(after.iter::<f32>()).any(|(before, after)| before != after);
        // The key bias shifts all scores of a query alike, which entmax does not see.
        assert_eq!(moved, !name.ends_with("key.bias"), "{name}");
    }
}
