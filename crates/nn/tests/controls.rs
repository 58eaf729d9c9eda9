//! The property of each control that makes it one.

mod common;

use std::sync::Arc;

use burn::tensor::{Device, Int, Tensor, TensorData, activation};
use common::{relevant, relevant_to_queries, tokens};
use semfocus_nn::Named;
use semfocus_nn::conformance::ZipEq;
use semfocus_nn::{
    Content, Encoder, Key, LayerContext, Mechanism, ModelConfig, Pass, Registry, Row, Selection, Visibility, parameters,
};

const BATCH: usize = 3;
const LENGTH: usize = 12;

fn mechanism(spec: &str) -> Arc<dyn Mechanism> {
    Registry::standard().parse(spec).unwrap().mechanism
}

fn model(spec: &str) -> Encoder {
    let config = ModelConfig { d_model: 16, heads: 2, blocks: 2, d_mlp: 8, dropout: 0.0, ..ModelConfig::new(4, 3) };
    relevant(Encoder::new(config, Registry::standard().parse(spec).unwrap(), 3, &Device::flex()).unwrap())
}

/// The model with all parameters whose names contain one of `parts` multiplied with `-3`.
fn changed(model: Encoder, parts: &[&str]) -> Encoder {
    let parameters = parameters::named_parameters(&model).into_iter().map(|(name, data)| {
        let factor = if parts.iter().any(|part| name.contains(part)) { -3.0 } else { 1.0 };
        let values: Vec<f32> = data.iter::<f32>().map(|value| factor * value).collect();
        (name, TensorData::new(values, data.shape().clone()))
    });
    let parameters: Vec<_> = parameters.collect();
    parameters::set_parameters(model, parameters).unwrap()
}

/// The kept keys of a layer: of every sequence, head and query.
fn kept(model: &Encoder, tokens: Tensor<2, Int>, pass: Pass, layer: usize) -> Vec<Vec<u32>> {
    let rows = model.token_rows(tokens.clone());
    let (_, layers) = model.trace(0, model.embedded(tokens), Some(&rows), pass);
    let kept: Vec<bool> = layers[layer].attention.kept.to_data().iter::<bool>().collect();
    kept.chunks(LENGTH).map(|row| (0..LENGTH as u32).filter(|&key| row[key as usize]).collect()).collect()
}

fn usual_tokens() -> Tensor<2, Int> {
    tokens(BATCH, LENGTH, 4, &Device::flex())
}

/// Other tokens in the first sequence only.
fn other_first_sequence() -> Tensor<2, Int> {
    let mut ids: Vec<i64> = usual_tokens().to_data().iter::<i64>().collect();
    ids[..LENGTH].iter_mut().for_each(|id| *id = 3 - *id);
    Tensor::from_data(TensorData::new(ids, [BATCH, LENGTH]), &Device::flex())
}

const PASS: fn() -> Pass = || Pass::evaluation(1, 0);

#[test]
fn a_fixed_choice_never_changes() {
    for spec in ["fixedk:3", "bigbird"] {
        let fixed = model(spec);
        let expected = kept(&fixed, usual_tokens(), PASS(), 0);
        assert_eq!(kept(&fixed, other_first_sequence(), Pass::training(1, 7), 0), expected, "{spec}: inputs and steps");
        assert_eq!(kept(&changed(fixed.clone(), &["embedding", "blocks"]), usual_tokens(), PASS(), 0), expected);
        let per_sequence = expected.len() / BATCH;
        assert_eq!(expected[..per_sequence], expected[per_sequence..2 * per_sequence], "the same for all sequences");
        assert_ne!(expected[..LENGTH], expected[LENGTH..2 * LENGTH], "heads differ");
        assert_ne!(kept(&fixed, usual_tokens(), PASS(), 1), expected, "layers differ");
    }
    let random = model("randomk:3");
    assert_ne!(kept(&random, usual_tokens(), Pass::training(1, 7), 0), kept(&random, usual_tokens(), PASS(), 0));
}

#[test]
fn a_hash_depends_on_tokens_and_not_on_weights() {
    let hash = model("hashk:3");
    let expected = kept(&hash, usual_tokens(), PASS(), 1);
    assert_eq!(
        kept(&changed(hash.clone(), &["embedding", "blocks"]), usual_tokens(), Pass::training(1, 7), 1),
        expected
    );
    let other = kept(&hash, other_first_sequence(), PASS(), 1);
    let rows = 2 * LENGTH;
    assert_ne!(other[..rows], expected[..rows]);
    assert_eq!(other[rows..], expected[rows..]);
}

#[test]
fn a_shuffled_choice_does_not_depend_on_the_example_itself() {
    let rows = 2 * LENGTH;
    let both = |spec: &str| {
        let model = model(spec);
        [usual_tokens(), other_first_sequence()].map(|tokens| kept(&model, tokens, PASS(), 0))
    };
    let [expected, other] = both("shuffledk:3");
    // The first sequence chooses by the second, the last by the first.
    assert_eq!(other[..2 * rows], expected[..2 * rows]);
    assert_ne!(other[2 * rows..], expected[2 * rows..]);
    let [own, other_own] = both("topk:3");
    assert_ne!(own[..rows], other_own[..rows]);
    assert_eq!(expected[..rows], own[rows..2 * rows], "it is what the next example keeps");
    assert_eq!(expected[2 * rows..], own[..rows], "after the last comes the first");
}

#[test]
fn a_frozen_choice_does_not_learn() {
    let maps = ["attention.query", "attention.key.weight"];
    let choice = |spec: &str, parts: &[&str]| kept(&changed(model(spec), parts), usual_tokens(), PASS(), 0);
    assert_eq!(choice("frozenk:3", &maps[..1]), choice("frozenk:3", &[]));
    assert_eq!(choice("frozenk:3", &maps), choice("frozenk:3", &[]));
    assert_ne!(choice("topk:3", &maps[..1]), choice("topk:3", &[]));
    assert_eq!(choice("frozenk:3", &[]), choice("topk:3", &[]), "before training they are the same");
    assert_ne!(choice("frozenk:3", &["embedding"]), choice("frozenk:3", &[]), "it sees the input of the layer");
}

#[test]
fn an_oracle_keeps_the_relevant_keys_and_its_opposite_none() {
    let last = LENGTH as u32 - 1;
    for k in [2, 3, 5, LENGTH - 1] {
        for row in kept(&model(&format!("oracle:{k}")), usual_tokens(), PASS(), 0) {
            assert!(row.contains(&0) && row.contains(&last) && row.len() == k, "{k}: {row:?}");
        }
        for row in kept(&model(&format!("antioracle:{k}")), usual_tokens(), PASS(), 0) {
            assert!(!row.contains(&0) && !row.contains(&last) && row.len() == k.min(LENGTH - 2), "{k}: {row:?}");
        }
    }
    for row in kept(&model("oracle:1"), usual_tokens(), PASS(), 0) {
        assert!(row == [0] || row == [last], "the better of both: {row:?}");
    }
}

#[test]
fn an_oracle_is_told_the_keys_of_each_query() {
    let ids: Vec<usize> = usual_tokens().to_data().iter::<i64>().map(|id| id as usize).collect();
    for visibility in [Visibility::All, Visibility::Causal] {
        let rows = |spec: &str| {
            let config = ModelConfig { dropout: 0.0, visibility, ..model(spec).config().clone() };
            let model = Encoder::new(config, Registry::standard().parse(spec).unwrap(), 3, &Device::flex()).unwrap();
            kept(&relevant_to_queries(model), usual_tokens(), PASS(), 0)
        };
        let (oracle, opposite, highest) = (rows("oracle:4"), rows("antioracle:4"), rows("topk:4"));
        assert_eq!(oracle.len(), BATCH * 2 * LENGTH, "all sequences, heads and queries");
        for (number, row) in oracle.iter().enumerate() {
            let (sequence, query) = (number / LENGTH / 2, number % LENGTH);
            if query % 3 != 0 {
                assert_eq!((row, &opposite[number]), (&highest[number], &highest[number]), "nothing is known");
                continue;
            }
            let tokens = &ids[sequence * LENGTH..(sequence + 1) * LENGTH];
            let first = tokens.iter().position(|token| *token == tokens[query]).unwrap();
            let visible = visibility.keys(query, LENGTH);
            for key in [first, first + 1, LENGTH - 1].into_iter().filter(|&key| key < visible) {
                assert!(row.contains(&(key as u32)), "{visibility:?} {number}: {row:?} without {key}");
                let itself_alone = opposite[number] == [query as u32];
                assert!(itself_alone || !opposite[number].contains(&(key as u32)), "{visibility:?} {number}: {key}");
            }
            assert_eq!(row.len(), visible.min(4));
        }
        assert_ne!(oracle, highest);
    }
}

/// Rules by themselves: short rows, everything relevant, and scores that are not numbers.
#[test]
fn rules_are_defined_at_the_edges() {
    let select = |spec: &str, row: &Row<'_>| {
        let Some(Selection::Rule(rule)) = mechanism(spec).selection(100) else { panic!("{spec} has no rule") };
        let mut kept = Vec::new();
        rule.select(row, &mut kept);
        kept
    };
    let all = [0, 1, 2];
    let row = Row { relevant: Some(&all), query: 1, ..Row::of_scores(&[0.5, 2.0, 1.0]) };
    assert_eq!(select("antioracle:2", &row), [1], "itself if every key is relevant");
    assert_eq!(select("oracle:2", &row), [1, 2]);
    assert_eq!(select("oracle:2", &Row { relevant: None, ..row }), [1, 2]);
    assert_eq!(select("antioracle:2", &Row { relevant: None, ..row }), [1, 2]);
    // Relevant positions that the query does not see do not count.
    assert_eq!(select("oracle:2", &Row { relevant: Some(&[0, 9]), ..row }), [0, 1]);
    let nan = [f32::NAN; 20];
    for info in Registry::standard().iter() {
        let spec = info.example().to_string();
        let Some(Selection::Rule(rule)) = mechanism(&spec).selection(100) else { continue };
        for scores in [&[1.0][..], &[0.0, -0.0, 0.0], &nan] {
            let mut kept = Vec::new();
            let tokens = vec![0; scores.len()];
            rule.select(&Row { tokens: &tokens, query: scores.len() - 1, ..Row::of_scores(scores) }, &mut kept);
            assert!(kept.windows(2).all(|pair| pair[0] < pair[1]), "{spec}: {kept:?}");
            assert!(kept.iter().all(|&key| (key as usize) < scores.len()), "{spec}: {kept:?}");
            // The kernels keep everything if a row of NaN keeps nothing.
            assert!(!kept.is_empty() || scores[0].is_nan(), "{spec}");
            assert!(scores.len() > 1 || kept == [0], "{spec}");
        }
    }
}

/// Weights of a mechanism for the same random scores, and the gradient of their product with other random numbers.
fn weights_and_gradient(spec: &str, visibility: Visibility) -> (Vec<f64>, Vec<f64>) {
    let device = Device::flex().autodiff();
    let random = |seed: u64, bound: f32| {
        let values: Vec<f32> =
            (0..144).map(|i| (Key::new(seed).bits_at(i) as f32 / 2f32.powi(31) - 1.0) * bound).collect();
        Tensor::<4>::from_data(TensorData::new(values, [1, 1, 12, 12]), &device)
    };
    let (scores, directions) = (random(1, 3.0).require_grad(), random(2, 1.0));
    let context = LayerContext::new(0, Key::new(1), 0, visibility);
    let mechanism = mechanism(spec);
    let hidden = Tensor::<4>::zeros([1, 1, 12, 12], &device);
    let content = Content { query: hidden.clone(), key: hidden.clone(), scale: 1.0 };
    let mut kept = mechanism.keep(&scores, &context);
    if visibility == Visibility::Causal {
        let place = |axis| Tensor::<4, Int>::from_data(indices(axis), &device);
        kept = kept.bool_and(place(0).greater_equal(place(1)));
    }
    let alpha = Tensor::full([1, 1, 1, 1], 1.5, &device);
    let weights = mechanism.weighting().weights(scores.clone(), kept, alpha, &content, &context);
    let gradients = weights.clone().mul(directions).sum().backward();
    let values = |tensor: Tensor<4>| tensor.into_data().iter::<f64>().collect();
    (values(weights), values(scores.grad(&gradients).unwrap()))
}

/// The row or the column of every entry.
fn indices(axis: usize) -> TensorData {
    let values: Vec<i64> = (0..144).map(|i| if axis == 0 { i / 12 } else { i % 12 }).collect();
    TensorData::new(values, [1, 1, 12, 12])
}

fn assert_close(found: &[f64], expected: &[f64], what: &str) {
    let error = found.iter().zip_eq(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(error < 1e-6, "{what}: {error}");
}

#[test]
fn straight_through_and_its_mirror_image_exchange_forward_and_backward() {
    for visibility in [Visibility::All, Visibility::Causal] {
        let of = |spec: &str| weights_and_gradient(spec, visibility);
        let ((full, full_gradient), (top, top_gradient)) = (of("full"), of("topk:3"));
        let ((through, through_gradient), (mirror, mirror_gradient)) = (of("stk:3"), of("gradk:3"));
        assert_close(&through, &top, "stk forward");
        assert_close(&through_gradient, &full_gradient, "stk backward");
        assert_close(&mirror, &full, "gradk forward");
        assert_close(&mirror_gradient, &top_gradient, "gradk backward");
        let (masked, masked_gradient) = of("maskedk:3");
        let expected: Vec<f64> =
            full.iter().zip_eq(&top).map(|(all, top)| if *top > 0.0 { *all } else { 0.0 }).collect();
        assert_close(&masked, &expected, "maskedk keeps the weights of full attention");
        let dropped = top.iter().zip_eq(&masked_gradient).filter(|(top, _)| **top == 0.0);
        assert!(dropped.map(|(_, gradient)| gradient.abs()).fold(0.0, f64::max) > 1e-3, "dropped scores learn, too");
    }
}

#[test]
fn softmax_is_the_softmax_of_burn() {
    // The comparison above would say nothing if `full` were not what it is meant to be.
    let device = Device::flex();
    let scores: Vec<f32> = (0..144).map(|i| (Key::new(1).bits_at(i) as f32 / 2f32.powi(31) - 1.0) * 3.0).collect();
    let expected = activation::softmax(Tensor::<2>::from_data(TensorData::new(scores, [12, 12]), &device), 1);
    let expected: Vec<f64> = expected.into_data().iter::<f64>().collect();
    assert_close(&weights_and_gradient("full", Visibility::All).0, &expected, "full");
}
