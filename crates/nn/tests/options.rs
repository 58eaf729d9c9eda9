//! The options of the model: both forms agree, evaluation agrees with the forward pass, and each does what it says.

mod common;

use std::collections::HashMap;

use burn::tensor::{Device, Int, Tensor, TensorData};
use common::{labels, mechanisms, model_options, questions, relevant, tokens};
use semfocus_core::{At, Question, Questions};
use semfocus_nn::conformance::ZipEq;
use semfocus_nn::parameters::NamedGradients;
use semfocus_nn::{Encoder, Engine, Head, Key, Model, ModelConfig, Pass, PositionKind, Visibility, parameters, train};

/// Fixed patterns, rules, learned numbers, global tokens, the maps before training, and a mechanism without a fast form.
const SPECS: [&str; 7] = ["full", "topk:3", "banded:3+g2", "ssmax", "entmax:learned", "initial-maps", "linear"];

/// Folded maps and narrow heads, with and without padding of the rows.
const SHAPES: [(usize, Option<usize>, usize); 3] = [(16, None, 2), (12, None, 1), (32, Some(4), 3)];

fn cases(run: impl Fn(&str, &str, ModelConfig)) {
    for (name, change) in model_options() {
        for (d_model, d_head, heads) in SHAPES {
            for spec in SPECS {
                let sizes = ModelConfig { d_model, d_head, heads, blocks: 2, d_mlp: 20, ..ModelConfig::new(4, 3) };
                let mut config = ModelConfig { dropout: 0.1, ..sizes };
                change(&mut config);
                if config.visibility == Visibility::All || !spec.contains("+g") {
                    run(name, spec, config);
                }
            }
        }
    }
}

/// A model whose parameters, scales and shifts of norms among them, are not at their initial values.
fn model(spec: &str, config: ModelConfig, engine: Engine, device: &Device) -> Encoder {
    let attention = mechanisms::registry().parse(spec).unwrap();
    let model = relevant(Encoder::new(ModelConfig { engine, ..config }, attention, 5, device).unwrap());
    let moved = parameters::named_parameters(&model).into_iter().map(|(name, data)| {
        let key = Key::new(9).named(&name);
        let unit = |i: usize| f64::from(key.bits_at(i as u32)) / 2f64.powi(31) - 1.0;
        let values = data.iter::<f64>().enumerate().map(|(i, value)| (value + 0.2 * unit(i)) as f32);
        (name, TensorData::new(values.collect(), data.shape().clone()))
    });
    let moved = moved.collect::<Vec<_>>();
    parameters::set_parameters(model, moved).unwrap()
}

fn assert_agree(what: &str, expected: &[(String, TensorData)], found: &[(String, TensorData)]) {
    for ((name, expected), (other, found)) in expected.iter().zip_eq(found) {
        assert_eq!(name, other, "{what}");
        let expected: Vec<f64> = expected.iter::<f64>().collect();
        let scale = expected.iter().fold(1e-2f64, |m, v| m.max(v.abs()));
        for (a, b) in found.iter::<f64>().zip_eq(expected) {
            assert!((a - b).abs() < 2e-5 * scale, "{what}: {name}: {a}, not {b}");
        }
    }
}

#[test]
fn both_forms_agree_layer_by_layer() {
    let device = Device::flex().autodiff();
    cases(|name, spec, config| {
        let what = format!("{name}, {spec}, {config:?}");
        let asked = questions(4, 12, 3);
        let run = |engine| {
            let model = model(spec, config.clone(), engine, &device);
            let logits = model.forward_at(tokens(4, 12, 4, &device), &asked, Pass::training(1, 2));
            let loss = train::loss(logits, &asked);
            (loss.clone().into_scalar::<f64>(), parameters::named_gradients(&model, &loss.backward()))
        };
        let ((expected_loss, expected), (loss, found)) = (run(Engine::Reference), run(Engine::Fused));
        assert!((loss - expected_loss).abs() < 1e-5, "{what}: {loss}, not {expected_loss}");
        assert_agree(&what, &expected, &found);
    });
}

#[test]
fn both_forms_of_a_training_step_agree() {
    let device = Device::flex().autodiff();
    cases(|name, spec, config| {
        let what = format!("{name}, {spec}, {config:?}");
        for (asked, length) in [(labels(9, 3), 12), (questions(9, 7, 3), 7)] {
            let run = |engine| {
                let model = model(spec, config.clone(), engine, &device);
                let batch = train::Batch { tokens: tokens(9, length, 4, &device), questions: asked.clone() };
                let (loss, gradients) = Model::loss_and_gradients(&model, batch, Pass::training(1, 2));
                (loss, in_order(&model, &gradients))
            };
            let ((expected_loss, expected), (loss, found)) = (run(Engine::Reference), run(Engine::Fused));
            assert!((loss - expected_loss).abs() < 1e-5, "{what}: {loss}, not {expected_loss}");
            assert_agree(&what, &expected, &found);
        }
    });
}

/// The gradients in the order of the parameters; zeros where nothing depends on one.
fn in_order(model: &Encoder, gradients: &NamedGradients) -> Vec<(String, TensorData)> {
    let values = gradients.iter().collect::<HashMap<_, _>>();
    let of = |(name, parameter): (String, TensorData)| {
        let values = values[name.as_str()].map_or_else(|| vec![0.0; parameter.num_elements()], <[f32]>::to_vec);
        (name, TensorData::from(&values[..]))
    };
    let found = parameters::named_parameters(model).into_iter().map(of).collect::<Vec<_>>();
    assert_eq!(found.len(), values.len());
    found
}

#[test]
fn evaluation_is_that_of_the_forward_pass() {
    let device = Device::flex();
    cases(|name, spec, config| {
        let what = format!("{name}, {spec}, {config:?}");
        for asked in [labels(6, 3), questions(6, 12, 3)] {
            let model = model(spec, config.clone(), Engine::Fused, &device);
            let pass = Pass::evaluation(1, 0);
            let expected = model.forward_at(tokens(6, 12, 4, &device), &asked, pass);
            let loss = train::loss(expected.clone(), &asked).into_scalar::<f64>();
            let rows = model.token_rows(tokens(6, 12, 4, &device));
            for (found, expected) in model.logits(&rows, &asked, pass).iter().zip_eq(expected.into_data().iter::<f32>())
            {
                assert!((found - expected).abs() < 2e-5 * (1.0 + expected.abs()), "{what}: {found}, not {expected}");
            }
            let answers = model.answers(&rows, &asked, pass);
            let losses = answers.iter().zip_eq(asked.all()).map(|(one, asked)| f64::from(asked.weight) * one.loss);
            let found = losses.sum::<f64>() / asked.total_weight();
            assert!((found - loss).abs() < 1e-5 * (1.0 + loss), "{what}: loss {found}, not {loss}");
        }
    });
}

#[test]
fn threads_change_no_bit() {
    for spec in ["full", "topk:3"] {
        for (name, change) in model_options() {
            let mut config = ModelConfig { d_model: 16, blocks: 2, d_mlp: 20, dropout: 0.1, ..ModelConfig::new(4, 3) };
            change(&mut config);
            let model = model(spec, config, Engine::Fused, &Device::flex());
            let run = |threads: usize| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| {
                    let questions = questions(11, 12, 3);
                    let batch = train::Batch { tokens: tokens(11, 12, 4, &Device::flex()), questions };
                    let (loss, gradients) = Model::loss_and_gradients(&model, batch.clone(), Pass::training(1, 2));
                    let rows = model.token_rows(batch.tokens);
                    (loss, gradients, model.logits(&rows, &batch.questions, Pass::evaluation(1, 0)))
                })
            };
            assert!(run(1) == run(3), "{name}, {spec}");
        }
    }
}

#[test]
fn the_last_token_is_the_one_before_padding_and_global_tokens() {
    let device = Device::flex().autodiff();
    let ids = [[1i64, 2, 3, 3, 3], [0, 1, 3, 2, 3], [2, 0, 1, 2, 0]]; // 3 is padding, also inside
    let last = [1, 3, 4];
    let ids = Tensor::<2, Int>::from_data(ids, &device);
    for spec in ["full", "banded:3+g2"] {
        for engine in [Engine::Fused, Engine::Reference] {
            let of = |head| {
                let config = ModelConfig { d_model: 16, pad_token: Some(3), head, ..ModelConfig::new(4, 3) };
                model(spec, config, engine, &device)
            };
            let (mean, at_last) = (of(Head::Mean), of(Head::Last));
            let mut asked = Questions::default();
            last.iter().for_each(|&t| asked.push([Question { at: At::Token(t), ..Question::classify(0) }]));
            let pass = Pass::evaluation(1, 0);
            let expected = mean.forward_at(ids.clone(), &asked, pass).into_data();
            assert_eq!(at_last.forward(ids.clone(), pass).into_data(), expected);
            assert_eq!(at_last.forward_at(ids.clone(), &labels(3, 3), pass).into_data(), expected);
            assert_ne!(mean.forward(ids.clone(), pass).into_data(), expected);
            let (rows, each) = (mean.token_rows(ids.clone()), labels(3, 3));
            assert_eq!(at_last.logits(&rows, &each, pass), mean.logits(&rows, &asked, pass), "{spec} {engine:?}");
            // Questions at tokens stay where they are.
            let elsewhere = questions(3, 5, 3).at_tokens(|_| 2);
            assert_eq!(at_last.answers(&rows, &elsewhere, pass), mean.answers(&rows, &elsewhere, pass));
            let loss = |model: &Encoder, questions: &Questions| {
                let batch = train::Batch { tokens: ids.clone(), questions: questions.clone() };
                Model::loss_and_gradients(model, batch, Pass::training(1, 0))
            };
            assert!(loss(&at_last, &each).1 != loss(&mean, &each).1);
            let classes = each.all().iter().zip(last).map(|(asked, t)| [Question { at: At::Token(t), ..*asked }]);
            let mut asked = Questions::default();
            classes.for_each(|question| asked.push(question));
            assert!(loss(&at_last, &each) == loss(&mean, &asked), "{spec} {engine:?}");
        }
    }
}

#[test]
fn shorter_sequences_take_the_first_learned_positions() {
    let device = Device::flex();
    let config = ModelConfig { d_model: 16, positions: PositionKind::Learned, length: 12, ..ModelConfig::new(4, 3) };
    let long = model("full", config.clone(), Engine::Fused, &device);
    let short = model("full", ModelConfig { length: 7, ..config }, Engine::Fused, &device);
    let logits = |model: &Encoder| model.forward(tokens(3, 7, 4, &device), Pass::evaluation(1, 0)).into_data();
    assert_eq!(logits(&long), logits(&short));
    let positions = |model: &Encoder| model.positions.as_ref().map(|positions| positions.dims());
    assert_eq!((positions(&long), positions(&short)), (Some([12, 16]), Some([7, 16])));
}

/// Without positions the mean does not know the order of the tokens.
#[test]
fn without_positions_the_order_of_the_tokens_does_not_matter() {
    let device = Device::flex();
    let logits = |positions, ids: [i64; 5]| {
        let config = ModelConfig { d_model: 16, positions, ..ModelConfig::new(4, 3) };
        let model = model("full", config, Engine::Reference, &device);
        let ids = Tensor::<2, Int>::from_data([ids], &device);
        model.forward(ids, Pass::evaluation(1, 0)).into_data().iter::<f32>().collect::<Vec<_>>()
    };
    let apart = |positions| {
        let (one, other) = (logits(positions, [0, 1, 2, 3, 1]), logits(positions, [3, 1, 1, 0, 2]));
        one.iter().zip(other).fold(0f32, |largest, (a, b)| largest.max((a - b).abs()))
    };
    assert!(apart(PositionKind::None) < 1e-5 && apart(PositionKind::Sinusoidal) > 1e-3);
}
