//! What an observer of a forward pass is shown, in both engines, against the tensors of the reference form.

mod common;

use burn::tensor::{Device, Tensor};
use common::{relevant, small_specs, tokens};
use semfocus_nn::conformance::ZipEq;
use semfocus_nn::{
    AttentionSublayer, Encoder, Engine, LayerContext, LayerTrace, MlpSublayer, ModelConfig, ObservedRow, Pass,
    Registry, RowObserver, Visibility, reference,
};

const BATCH: usize = 3;
const LENGTH: usize = 9;

/// Notes everything.
struct Everything;

#[derive(Clone, Debug, PartialEq)]
struct Row {
    place: (usize, usize, usize),
    scores: Vec<f32>,
    kept: Vec<u32>,
    weights: Vec<f32>,
}

impl RowObserver for Everything {
    type Observation = (usize, Vec<Row>);

    fn begin(&self, sequence: usize) -> Self::Observation {
        (sequence, Vec::new())
    }

    fn row(&self, (sequence, rows): &mut Self::Observation, row: &ObservedRow<'_>) {
        rows.push(Row {
            place: (*sequence, row.head, row.query),
            scores: row.scores.to_vec(),
            kept: row.kept.to_vec(),
            weights: row.weights.to_vec(),
        });
    }
}

fn model(spec: &str, engine: Engine, change: impl Fn(&mut ModelConfig)) -> Encoder {
    let mut config =
        ModelConfig { d_model: 16, heads: 2, blocks: 3, d_mlp: 8, dropout: 0.2, engine, ..ModelConfig::new(4, 3) };
    change(&mut config);
    relevant(Encoder::new(config, Registry::standard().parse(spec).unwrap(), 3, &Device::flex()).unwrap())
}

fn trace(model: &Encoder, pass: Pass) -> (Tensor<2>, Vec<LayerTrace>) {
    let tokens = tokens(BATCH, LENGTH, 4, &Device::flex());
    model.trace(0, model.embedded(tokens.clone()), Some(&model.token_rows(tokens)), pass)
}

fn close(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip_eq(b).all(|(a, b)| (a - b).abs() < 1e-5)
}

/// The rows of a layer, from its tensors.
fn rows(layer: &LayerTrace) -> Vec<Row> {
    let [batch, heads, queries, keys] = layer.attention.scores.dims();
    let floats = |tensor: &Tensor<4>| tensor.to_data().iter::<f32>().collect::<Vec<f32>>();
    let (scores, weights) = (floats(&layer.attention.scores), floats(&layer.attention.weights));
    let kept: Vec<bool> = layer.attention.kept.to_data().iter::<bool>().collect();
    let row = |row: usize| {
        let at = row * keys..(row + 1) * keys;
        let kept: Vec<u32> = (0..keys as u32).filter(|&key| kept[row * keys + key as usize]).collect();
        Row {
            place: (row / queries / heads, row / queries % heads, row % queries),
            scores: scores[at].to_vec(),
            weights: kept.iter().map(|&key| weights[row * keys + key as usize]).collect(),
            kept,
        }
    };
    (0..batch * heads * queries).map(row).collect()
}

#[test]
fn observed_rows_are_those_of_the_trace() {
    let pass = Pass::evaluation(1, 4);
    for spec in small_specs() {
        for engine in [Engine::Fused, Engine::Reference] {
            let model = model(&spec, engine, |_| {});
            let (expected_logits, expected) = trace(&model, pass);
            let tokens = tokens(BATCH, LENGTH, 4, &Device::flex());
            let (logits, layers) = model.forward_observed(tokens.clone(), pass, &Everything);
            assert_eq!(logits.to_data(), model.forward(tokens, pass).to_data(), "observing changes nothing: {spec}");
            let logits: Vec<f32> = logits.to_data().iter::<f32>().collect();
            assert!(close(&logits, &expected_logits.to_data().iter::<f32>().collect::<Vec<f32>>()), "{spec}");
            assert_eq!((layers.len(), expected.len()), (3, 3));
            for (layer, expected) in layers.into_iter().zip_eq(&expected) {
                let (min, expected_min) = (layer.min_deviations, expected.min_deviations);
                assert!(min.iter().zip_eq(expected_min).all(|(a, b)| (a - b).abs() < 1e-5), "{spec}: {min:?}");
                assert_eq!(layer.sequences.iter().map(|(sequence, _)| *sequence).collect::<Vec<_>>(), [0, 1, 2]);
                let found: Vec<Row> = layer.sequences.into_iter().flat_map(|(_, rows)| rows).collect();
                let expected = rows(expected);
                assert_eq!(found.len(), expected.len());
                for (found, expected) in found.iter().zip_eq(&expected) {
                    assert_eq!((found.place, &found.kept), (expected.place, &expected.kept), "{spec} {engine:?}");
                    assert!(close(&found.scores, &expected.scores), "{spec} {engine:?}: {found:?}, not {expected:?}");
                    assert!(close(&found.weights, &expected.weights), "{spec} {engine:?}: {found:?}, not {expected:?}");
                }
            }
        }
    }
}

#[test]
fn a_trace_may_start_at_any_block_and_has_no_dropout() {
    let pass = Pass::evaluation(1, 4);
    let whole = model("topk:3", Engine::Reference, |_| {});
    let (logits, layers) = trace(&whole, pass);
    // The deviations by their definition: before the first norm, and before that of the first MLP.
    let x = whole.embedded(tokens(BATCH, LENGTH, 4, &Device::flex()));
    let settings = whole.attention_settings(0, &pass);
    let (weights, mechanism) = (&whole.blocks[0].attention, whole.attention().of_block(0).mechanism.as_ref());
    let context = LayerContext::new(0, pass.layer(0), 0, Visibility::All);
    let (after, _) = reference::attention(x.clone(), &AttentionSublayer { mechanism, weights, settings, context });
    for (x, found) in [&x, &after].into_iter().zip_eq(layers[0].min_deviations) {
        let expected: f64 = x.clone().var_bias(2).sqrt().min().into_scalar();
        assert!((found - expected).abs() < 1e-5, "{found}, not {expected}");
    }
    // From the second block on, with what the first one made of the tokens.
    let (weights, settings) = (whole.blocks[0].mlp.as_ref().unwrap(), whole.mlp_settings(&pass));
    let after = reference::mlp(after, &MlpSublayer { weights, settings, key: pass.layer(0) });
    let (later_logits, later) = whole.trace(1, after, None, pass);
    assert_eq!(later_logits.to_data(), logits.to_data());
    assert_eq!(later.len(), 2);
    assert_eq!(later[1].attention.scores.to_data(), layers[2].attention.scores.to_data());
    // Neither a training pass nor the quirk of the published code brings dropout in.
    let training = Pass { training: true, ..pass };
    assert_eq!(trace(&whole, training).0.to_data(), logits.to_data());
    let quirk = model("topk:3", Engine::Reference, |config| config.quirks.dropout_in_evaluation = true);
    assert_eq!(trace(&quirk, pass).0.to_data(), logits.to_data());
    let with_dropout = quirk.forward(tokens(BATCH, LENGTH, 4, &Device::flex()), pass);
    assert_ne!(with_dropout.to_data(), logits.to_data());
}
