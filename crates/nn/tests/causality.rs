//! In a causal model nothing flows back: another token later in the sequence changes no bit of earlier answers.

mod common;

use std::sync::Arc;

use burn::tensor::{Device, Int, Tensor, TensorData};
use common::mechanisms;
use semfocus_core::{At, Question, Questions};
use semfocus_nn::conformance::specs;
use semfocus_nn::{
    ConfigError, Encoder, Engine, Key, Model, ModelConfig, Named, Pass, PositionKind, Relevance, RelevantKeys,
    Visibility, train,
};

const LENGTH: usize = 37;
const BATCH: usize = 2;
/// A token that only sequences changed by [`tokens`] have.
const CHANGED: i64 = 4;

/// Calls a position relevant by its own token: what is relevant at a position does not depend on later ones.
#[derive(Debug)]
struct ByToken;

impl Relevance for ByToken {
    fn keys(&self, tokens: &[usize]) -> Arc<RelevantKeys> {
        Arc::new(RelevantKeys::shared((0..tokens.len()).filter(|&place| tokens[place] == 1)))
    }
}

/// All mechanisms with the values that tests use, without global tokens, and with both engines that they can run on.
fn models(mut run: impl FnMut(&str, &Encoder)) {
    let registry = mechanisms::registry();
    for info in registry.iter() {
        let mut specs = specs(info, LENGTH);
        specs.retain(|spec| !spec.contains("+g"));
        for (number, spec) in specs.iter().enumerate() {
            for engine in [Engine::Fused, Engine::Reference] {
                // Folded maps with rows of whole vectors, and narrow heads with rows that need padding.
                let (d_model, d_head) = if number % 2 == 0 { (16, None) } else { (12, Some(4)) };
                let config = ModelConfig { d_model, d_head, heads: 2, blocks: 2, d_mlp: 12, ..ModelConfig::new(5, 3) };
                let config = ModelConfig { dropout: 0.1, visibility: Visibility::Causal, engine, ..config };
                // A norm before the head and learned positions do not look at other tokens either.
                let options = ModelConfig {
                    positions: PositionKind::Learned,
                    length: LENGTH,
                    final_norm: true,
                    affine_norms: true,
                    tied: true,
                    ..config.clone()
                };
                let config = if number % 3 == 0 { options } else { config };
                let model = Encoder::new(config, registry.parse(spec).unwrap(), 3, &Device::flex().autodiff()).unwrap();
                run(&format!("{spec} {engine:?}"), &model.with_relevance(Some(Arc::new(ByToken))));
            }
        }
    }
}

/// Tokens below [`CHANGED`]; that one from position `changed` on.
fn tokens(changed: usize) -> Tensor<2, Int> {
    let ids = (0..BATCH * LENGTH).map(|i| match i % LENGTH {
        place if place >= changed => CHANGED,
        _ => i64::from(Key::new(1).below(i as u32, CHANGED as u32)),
    });
    Tensor::from_data(TensorData::new(ids.collect::<Vec<_>>(), [BATCH, LENGTH]), &Device::flex())
}

/// Questions at the tokens before `end`.
fn before(end: usize) -> Questions {
    let mut questions = Questions::default();
    for sequence in 0..BATCH {
        let ask = |t: usize| Question { at: At::Token(t as u32), ..Question::classify(((t + sequence) % 3) as u16) };
        questions.push((0..end).map(ask));
    }
    questions
}

#[test]
fn later_tokens_change_no_bit_of_earlier_answers() {
    models(|what, model| {
        for changed in [1, 15, 16, LENGTH - 1] {
            let questions = before(changed);
            for pass in [Pass::training(1, 0), Pass::evaluation(1, 0)] {
                let logits = |tokens| model.forward_at(tokens, &questions, pass).into_data();
                assert_eq!(logits(tokens(LENGTH)), logits(tokens(changed)), "{what}, from token {changed} on");
            }
            let logits = |tokens| model.logits(&model.token_rows(tokens), &questions, Pass::evaluation(1, 0));
            let found = logits(tokens(changed));
            assert_eq!(logits(tokens(LENGTH)), found, "{what}, evaluated, from token {changed} on");
            assert!(found.iter().all(|logit| logit.is_finite()), "{what}");
        }
    });
}

#[test]
fn later_tokens_have_no_gradient() {
    models(|what, model| {
        for changed in [1, 16, LENGTH - 1] {
            let gradients = |changed| {
                let batch = train::Batch { tokens: tokens(changed), questions: before(changed.min(LENGTH - 1)) };
                let (loss, gradients) = Model::loss_and_gradients(model, batch, Pass::training(1, 0));
                let table = gradients.iter().find(|(name, _)| *name == "embedding").unwrap().1.unwrap().to_vec();
                (loss, table)
            };
            let (loss, table) = gradients(changed);
            let width = model.config().d_model;
            let of_changed = &table[CHANGED as usize * width..][..width];
            // A tied classifier has three classes, so the changed token is not among them.
            assert!(of_changed.iter().all(|value| *value == 0.0), "{what}, from token {changed} on: {of_changed:?}");
            assert!(loss > 0.0 && table.iter().any(|value| *value != 0.0), "{what}");
        }
    });
}

/// The test can fail: without a causal mask everything flows everywhere.
#[test]
fn models_that_see_everything_are_not_causal() {
    let config = ModelConfig { d_model: 16, blocks: 2, ..ModelConfig::new(5, 3) };
    let model = Encoder::new(config, mechanisms::registry().parse("full").unwrap(), 3, &Device::flex()).unwrap();
    let questions = before(16);
    let logits = |tokens| model.logits(&model.token_rows(tokens), &questions, Pass::evaluation(1, 0));
    assert_ne!(logits(tokens(LENGTH)), logits(tokens(16)));
}

#[test]
fn global_tokens_are_refused() {
    let registry = mechanisms::registry();
    for info in registry.iter().filter(|info| info.allows_globals) {
        let spec = format!("{}+g1", info.example());
        let config = ModelConfig { visibility: Visibility::Causal, ..ModelConfig::new(5, 3) };
        let refused = Encoder::new(config, registry.parse(&spec).unwrap(), 3, &Device::flex()).unwrap_err();
        assert_eq!(refused, ConfigError::CausalGlobals, "{spec}");
    }
}
