//! Models whose blocks have different attention.

mod common;

use burn::tensor::Device;
use common::{labels, tokens};
use semfocus_nn::conformance::ZipEq;
use semfocus_nn::parameters::named_parameters;
use semfocus_nn::train::{self, Batch};
use semfocus_nn::{
    BlockAttentions, ConfigError, Encoder, Engine, ModelConfig, ObservedRow, Pass, Registry, RowObserver, Visibility,
};

const LENGTH: usize = 9;

fn attentions(text: &str) -> Result<BlockAttentions, ConfigError> {
    let registry: Registry = common::mechanisms::registry();
    BlockAttentions::new(text.split('/').map(|text| registry.parse(text).unwrap()).collect())
}

fn config(engine: Engine) -> ModelConfig {
    let (blocks, dropout) = (3, 0.1);
    ModelConfig { d_model: 16, d_mlp: 12, heads: 2, blocks, dropout, engine, ..ModelConfig::new(4, 3) }
}

fn model(text: &str, engine: Engine) -> Encoder {
    Encoder::new(config(engine), attentions(text).unwrap(), 3, &Device::flex().autodiff()).unwrap()
}

/// Losses of some training steps, the parameters after them, and the logits of an evaluation.
fn trained(mut model: Encoder, steps: u64) -> (Vec<f64>, Vec<Vec<f32>>, Vec<f32>) {
    let device = Device::flex();
    let batch = Batch { tokens: tokens(10, LENGTH, 4, &device), questions: labels(10, 3) };
    let mut losses = Vec::new();
    for step in 0..steps {
        let (next, report) = train::step(model, &mut train::Sgd, batch.clone(), Pass::training(1, step), 0.1, 0.5);
        model = next;
        losses.push(report.loss);
    }
    let logits = model.logits(&model.token_rows(batch.tokens), &batch.questions, Pass::evaluation(1, 0));
    let parameters = named_parameters(&model).into_iter().map(|(_, data)| data.iter::<f32>().collect());
    (losses, parameters.collect(), logits)
}

#[test]
fn the_same_attention_for_each_block_is_that_attention_for_all() {
    for engine in [Engine::Fused, Engine::Reference] {
        for text in ["topk:3", "banded:3+g2", "warm", "sigmoid", "initial-maps"] {
            let each = [text; 3].join("/");
            assert!(trained(model(text, engine), 3) == trained(model(&each, engine), 3), "{text}, {engine:?}");
        }
    }
}

#[test]
fn the_fused_form_of_every_mixture_agrees_with_the_reference() {
    // Folded and plain maps, fixed patterns, rules and all keys, learned numbers in some blocks, maps before training, and a rule
    // that keeps the whole model from being one operator.
    let mixtures = [
        "topk:3/full/banded:3",
        "sigmoid/full/sigmoid-top",
        "full/relu/full",
        "warm/full/alpha-entmax",
        "full/initial-maps/topk:2",
        "full/next-example/randomk:3",
        "banded:3+g2/block:3+g2/banded:5+g2",
    ];
    for text in mixtures {
        let (losses, parameters, logits) = trained(model(text, Engine::Fused), 4);
        let (expected_losses, expected_parameters, expected_logits) = trained(model(text, Engine::Reference), 4);
        let close = |found: &[f32], expected: &[f32], what: &str| {
            assert_eq!(found.len(), expected.len());
            for (found, expected) in found.iter().zip_eq(expected) {
                assert!((found - expected).abs() < 2e-4, "{text}, {what}: {found}, not {expected}");
            }
        };
        for (found, expected) in losses.iter().zip_eq(&expected_losses) {
            assert!((found - expected).abs() < 1e-4, "{text}: {losses:?}, not {expected_losses:?}");
        }
        parameters.iter().zip_eq(&expected_parameters).for_each(|(a, b)| close(a, b, "parameters"));
        close(&logits, &expected_logits, "logits");
    }
}

/// The largest and the smallest number of kept keys in each layer.
struct KeptCounts;

impl RowObserver for KeptCounts {
    type Observation = Vec<usize>;

    fn begin(&self, _sequence: usize) -> Vec<usize> {
        Vec::new()
    }

    fn row(&self, seen: &mut Vec<usize>, row: &ObservedRow<'_>) {
        seen.push(row.kept.len());
    }
}

#[test]
fn observers_see_the_attention_of_each_block() {
    let model = model("topk:3/full/topk:2", Engine::Fused);
    let (_, layers) =
        model.forward_observed(tokens(4, LENGTH, 4, &Device::flex()), Pass::evaluation(1, 0), &KeptCounts);
    for (layer, kept) in layers.iter().zip_eq([3, LENGTH, 2]) {
        assert!(layer.sequences.iter().flatten().all(|count| *count == kept), "{kept}");
    }
}

#[test]
fn learned_numbers_stay_where_the_next_mechanism_has_them_too() {
    let start = model("warm/full/warm", Engine::Fused);
    let device = Device::flex();
    let batch = Batch { tokens: tokens(10, LENGTH, 4, &device), questions: labels(10, 3) };
    let (learned, _) = train::step(start, &mut train::Sgd, batch, Pass::training(1, 0), 0.5, 10.0);
    let numbers = |model: &Encoder| -> Vec<Option<Vec<f32>>> {
        let numbers = model.blocks.iter().map(|block| block.attention.mechanism.as_ref());
        numbers.map(|numbers| numbers.map(|numbers| numbers.val().into_data().iter::<f32>().collect())).collect()
    };
    let before = numbers(&learned);
    let initial = numbers(&model("warm/warm/warm", Engine::Fused));
    assert_ne!(before[0], initial[0], "the step moved the numbers");
    let next = learned.with_attention(attentions("alpha-entmax/warm/full").unwrap()).unwrap();
    assert_eq!(numbers(&next), [before[0].clone(), initial[1].clone(), None]);
}

#[test]
fn what_does_not_fit_is_refused_with_numbers() {
    let message = |text: &str, change: &dyn Fn(&mut ModelConfig)| {
        let mut config = config(Engine::Fused);
        change(&mut config);
        let attention = attentions(text).map_err(|error| error.to_string());
        let built = attention.and_then(|attention| {
            Encoder::new(config, attention, 3, &Device::flex()).map_err(|error| error.to_string())
        });
        built.map(drop).unwrap_err()
    };
    let causal = |config: &mut ModelConfig| config.visibility = Visibility::Causal;
    let padded = |config: &mut ModelConfig| {
        (config.quirks.pad_to_mask_multiple, config.pad_token) = (true, Some(0));
    };
    let messages = [
        message("topk:3/full", &|_| {}),
        message("banded:3+g2/full/full", &|_| {}),
        message("banded:3+g2/block:3+g2/banded:5+g2", &causal),
        message("topk:3/full/topk:4", &padded),
    ];
    insta::assert_snapshot!("layers-refused", messages.join("\n"));
}
