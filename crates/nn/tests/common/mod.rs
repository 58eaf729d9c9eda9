//! What the tests of the model share.
#![allow(dead_code, reason = "every test file uses a part of it")]

pub(crate) mod mechanisms;

use std::sync::Arc;

use burn::tensor::{Device, Int, Tensor, TensorData};
use semfocus_core::{At, Question, Questions, Target};
use semfocus_nn::{
    Encoder, Head, Initialisation, ModelConfig, Named, Pass, PositionKind, Registry, Relevance, RelevantKeys,
    Visibility, conformance, train,
};

/// An option of the model and how it is switched on.
pub(crate) type ModelOption = (&'static str, fn(&mut ModelConfig));

/// Every option that changes what a model computes, alone and together with others; for sequences of up to 40 tokens.
pub(crate) fn model_options() -> Vec<ModelOption> {
    vec![
        ("head at the last token", |c| (c.head, c.pad_token) = (Head::Last, Some(3))),
        ("learned positions", |c| (c.positions, c.length) = (PositionKind::Learned, 40)),
        ("no positions", |c| c.positions = PositionKind::None),
        ("plain embedding", |c| c.scale_embedding = false),
        ("no MLP", |c| c.d_mlp = 0),
        ("final norm", |c| c.final_norm = true),
        ("tied", |c| c.tied = true),
        ("affine norms", |c| c.affine_norms = true),
        ("affine final norm", |c| (c.affine_norms, c.final_norm) = (true, true)),
        ("language model", |c| {
            (c.positions, c.length, c.scale_embedding) = (PositionKind::Learned, 40, false);
            (c.tied, c.final_norm, c.affine_norms) = (true, true, true);
            (c.initialisation, c.visibility, c.head) = (Initialisation::Gpt2, Visibility::Causal, Head::Last);
        }),
        ("language model without MLP", |c| {
            (c.positions, c.length, c.scale_embedding) = (PositionKind::Learned, 40, false);
            (c.tied, c.final_norm, c.affine_norms, c.d_mlp) = (true, true, true, 0);
            c.visibility = Visibility::Causal;
        }),
    ]
}

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

/// Every third query has its own relevant keys: the first token like its own, one after it, and the last token.
#[derive(Debug)]
pub(crate) struct OfQueries;

impl Relevance for OfQueries {
    fn keys(&self, tokens: &[usize]) -> Arc<RelevantKeys> {
        let last = tokens.len() - 1;
        let first = |query: usize| tokens.iter().position(|token| *token == tokens[query]).unwrap();
        let keys = |query: usize| [first(query), (first(query) + 1).min(last), last];
        Arc::new(RelevantKeys::of_queries((0..=last).step_by(3).map(|query| (query, keys(query)))))
    }
}

/// The model with relevant keys for every third query.
pub(crate) fn relevant_to_queries(model: Encoder) -> Encoder {
    model.with_relevance(Some(Arc::new(OfQueries)))
}

/// A fixed batch of `[batch, length]` tokens below `vocabulary`.
pub(crate) fn tokens(batch: usize, length: usize, vocabulary: usize, device: &Device) -> Tensor<2, Int> {
    let ids: Vec<i64> = (0..batch * length).map(|i| ((i * i + i / 3 + 1) % vocabulary) as i64).collect();
    Tensor::from_data(TensorData::new(ids, [batch, length]), device)
}

/// Classes `0, 1, …` below `classes`, one for each sequence.
pub(crate) fn labels(batch: usize, classes: usize) -> Questions {
    Questions::classification((0..batch).map(|i| (i % classes) as u16))
}

/// Questions at the mean and at tokens, for classes and distributions, with different weights; the first sequence asks nothing.
pub(crate) fn questions(batch: usize, length: usize, classes: usize) -> Questions {
    let mut distributions = vec![0.5 / (classes - 1) as f32; 2 * classes];
    (distributions[0], distributions[classes + 1]) = (0.5, 0.5);
    let mut questions = Questions::with_distributions(distributions, classes);
    questions.push([]);
    for sequence in 1..batch {
        let ask = |number: usize| Question {
            at: if (sequence + number).is_multiple_of(3) {
                At::Mean
            } else {
                At::Token(((sequence * 5 + number) % length) as u32)
            },
            target: match (sequence + number) % 4 {
                0 => Target::Soft((number % 2) as u32),
                _ => Target::Class(((sequence + 2 * number) % classes) as u16),
            },
            weight: [1.0, 0.5, 0.0, 2.0][number % 4],
        };
        questions.push((0..sequence + 2).map(ask));
    }
    questions
}

/// The loss of a model on a batch.
pub(crate) fn loss_of(model: &Encoder, tokens: &Tensor<2, Int>, questions: &Questions, pass: Pass) -> f64 {
    train::loss(model.forward_at(tokens.clone(), questions, pass), questions).into_data().iter::<f64>().sum()
}
