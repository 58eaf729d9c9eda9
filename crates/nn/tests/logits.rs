//! `Encoder::logits` and `Encoder::answers`, which are for evaluation only, give the same as `Encoder::forward_at`.

mod common;

use burn::tensor::{Device, Int, Tensor, TensorData};
use common::{labels, questions, relevant, small_specs};
use semfocus_core::Questions;
use semfocus_nn::conformance::ZipEq;
use semfocus_nn::{Activation, Encoder, Engine, Key, ModelConfig, Pass, Quirks, Registry, Visibility, train};

fn tokens(batch: usize, length: usize) -> Tensor<2, Int> {
    let ids: Vec<i64> = (0..batch * length).map(|index| i64::from(Key::new(3).below(index as u32, 5))).collect();
    Tensor::from_data(TensorData::new(ids, [batch, length]), &Device::flex())
}

fn model(mechanism: &str, change: impl Fn(&mut ModelConfig)) -> Encoder {
    let mut config = ModelConfig::new(5, 3);
    (config.d_model, config.d_mlp, config.blocks) = (32, 24, 3);
    change(&mut config);
    relevant(Encoder::new(config, Registry::standard().parse(mechanism).unwrap(), 7, &Device::flex()).unwrap())
}

fn agrees(model: &Encoder, batch: usize, length: usize, what: &str) {
    let classes = model.config().classes;
    agrees_on(model, &labels(batch, classes), length, &format!("{what}, at the mean"));
    agrees_on(model, &questions(batch, length, classes), length, &format!("{what}, at the mean and at tokens"));
}

fn agrees_on(model: &Encoder, questions: &Questions, length: usize, what: &str) {
    let (pass, tokens) = (Pass::evaluation(1, 0), tokens(questions.sequences(), length));
    let expected = model.forward_at(tokens.clone(), questions, pass);
    let loss = train::loss(expected.clone(), questions).into_scalar::<f64>();
    let expected: Vec<f32> = expected.into_data().iter::<f32>().collect();
    let rows = model.token_rows(tokens);
    let found = model.logits(&rows, questions, pass);
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip_eq(&expected) {
        assert!((found - expected).abs() < 2e-5 * (1.0 + expected.abs()), "{what}: {found}, not {expected}");
    }
    let answers = model.answers(&rows, questions, pass);
    assert_eq!(answers.len(), questions.all().len(), "{what}");
    let losses =
        answers.iter().zip_eq(questions.all()).map(|(answer, question)| f64::from(question.weight) * answer.loss);
    let found = losses.sum::<f64>() / questions.total_weight();
    assert!((found - loss).abs() < 1e-5 * (1.0 + loss), "{what}: loss {found}, not {loss}");
    for (answer, logits) in answers.iter().zip_eq(expected.chunks_exact(model.config().classes)) {
        let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        assert!(logits[answer.class] > highest - 1e-4, "{what}: {answer:?} for {logits:?}");
    }
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| (model.logits(&rows, questions, pass), model.answers(&rows, questions, pass)))
    };
    assert_eq!(with(1), with(3), "{what}: threads change no bit");
}

#[test]
fn logits_are_those_of_the_forward_pass() {
    for mechanism in ["full", "topk:3", "topk:20", "banded:3", "banded:3+g1"] {
        for length in [1, 16, 70] {
            agrees(&model(mechanism, |_| {}), 5, length, &format!("{mechanism}, length {length}"));
        }
        agrees(&model(mechanism, |config| (config.d_model, config.d_head) = (16, Some(40))), 4, 9, mechanism);
        agrees(&model(mechanism, |config| config.classes = 1000), 3, 9, &format!("{mechanism}, 1,000 classes"));
    }
    for activation in [Activation::Relu, Activation::Gelu, Activation::Mish] {
        agrees(&model("topk:3", |config| config.activation = activation), 6, 12, &format!("{activation:?}"));
    }
    agrees(&model("full", |config| config.blocks = 0), 3, 4, "no blocks");
    let cold = |config: &mut ModelConfig| config.inverse_temperature = 3.0;
    agrees(&model("full", cold), 3, 20, "another temperature");
}

#[test]
fn logits_of_every_mechanism_are_those_of_the_forward_pass() {
    for mechanism in small_specs() {
        for length in [1, 7, 33] {
            agrees(&model(&mechanism, |_| {}), 5, length, &format!("{mechanism}, length {length}"));
        }
        agrees(&model(&mechanism, |config| config.heads = 3), 4, 9, &format!("{mechanism}, three heads"));
        if !mechanism.contains("+g") {
            let causal = model(&mechanism, |config| config.visibility = Visibility::Causal);
            agrees(&causal, 5, 33, &format!("causal {mechanism}"));
        }
    }
}

#[test]
fn models_that_go_layer_by_layer_give_the_same() {
    agrees(&model("full", |config| config.d_model = 20), 3, 6, "rows need padding");
    agrees(&model("full", |config| config.d_head = Some(4)), 3, 6, "narrow heads");
    agrees(&model("topk:3", |config| (config.heads, config.d_head) = (4, Some(8))), 3, 20, "narrow heads");
    agrees(&model("full", |config| config.engine = Engine::Reference), 3, 6, "the reference engine");
    agrees(&model("full", |config| config.dropout = 0.1), 3, 6, "dropout is off in evaluation");
    let quirk = Quirks { dropout_in_evaluation: true, ..Quirks::default() };
    agrees(&model("full", |config| (config.dropout, config.quirks) = (0.1, quirk)), 3, 6, "dropout of the weights");
    for mechanism in ["full", "topk:3", "bottomk:3", "randomk:3", "banded:3"] {
        let causal = model(mechanism, |config| config.visibility = Visibility::Causal);
        agrees(&causal, 5, 33, &format!("causal {mechanism}"));
    }
}
