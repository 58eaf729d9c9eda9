//! Compares a mechanism's fast form with its reference form: values and every gradient, on awkward shapes and inputs.
//!
//! The tests run this over the whole registry, so every registered mechanism is covered. Authors of mechanisms in other crates
//! can call [`check`] from their own tests.

use std::sync::Arc;

use burn::module::{Module, Param};
use burn::tensor::{Device, Gradients, Tensor, TensorData};
use semfocus_core::Visibility;
use semfocus_core::spec::{Named, SpecValue};
use semfocus_kernels::{Dropout, Key, RelevantKeys};

use crate::context::{InitialMaps, LayerContext};
use crate::encoder::Encoder;
use crate::info::MechanismInfo;
use crate::input::Relevance;
use crate::mechanism::{FastForm, Mechanism};
use crate::registry::{Attention, Registry};
use crate::sublayer::{AttentionSettings, AttentionSublayer, NORM_EPSILON};
use crate::weights::{AttentionWeights, Linear, Norm};
use crate::{fused, reference};

/// The model with both ends of a sequence as its relevant positions, for mechanisms that ask: for tests and for measuring time.
pub fn with_stand_ins(model: Encoder) -> Encoder {
    model.with_relevance(Some(Arc::new(BothEnds)))
}

/// Calls the first and the last position of every sequence relevant.
#[derive(Clone, Copy, Debug)]
pub struct BothEnds;

impl Relevance for BothEnds {
    fn keys(&self, tokens: &[usize]) -> Arc<RelevantKeys> {
        let last = tokens.len() - 1;
        Arc::new(RelevantKeys::shared(if last == 0 { vec![0] } else { vec![0, last] }))
    }
}

/// Pairs of two lists that have to be equally long.
pub trait ZipEq: Iterator + Sized {
    /// As [`zip`](Iterator::zip).
    ///
    /// # Panics
    /// If one list is longer than the other: a comparison would leave out its end.
    fn zip_eq<J: IntoIterator>(self, other: J) -> impl Iterator<Item = (Self::Item, J::Item)> {
        let (one, other) = (self.collect::<Vec<_>>(), other.into_iter().collect::<Vec<_>>());
        assert_eq!(one.len(), other.len(), "lists that are compared have the same length");
        one.into_iter().zip(other)
    }
}

impl<I: Iterator> ZipEq for I {}

/// The kind of scores in a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scores {
    /// All different, as large as in trained models.
    Ordinary,
    /// All zero.
    Equal,
    /// Few distinct values, so that most rows have ties.
    Ties,
    /// Up to about ±10,000.
    Huge,
}

/// The sizes and inputs of one comparison.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Sequences in the batch.
    pub batch: usize,
    /// Tokens of a sequence, global tokens included.
    pub length: usize,
    /// Width of the model.
    pub d_model: usize,
    /// Number of attention heads.
    pub heads: usize,
    /// Width of a head.
    pub d_head: usize,
    /// Dropout probability, on weights and output.
    pub dropout: f64,
    /// What kind of scores the weights and inputs give.
    pub scores: Scores,
    /// Which keys a query sees.
    pub visibility: Visibility,
    /// Whether the norm has a scale and a shift.
    pub affine: bool,
    /// Seed of weights, input and dropout.
    pub seed: u64,
}

impl Default for Case {
    fn default() -> Self {
        Case {
            batch: 3,
            length: 12,
            d_model: 16,
            heads: 2,
            d_head: 8,
            dropout: 0.1,
            scores: Scores::Ordinary,
            visibility: Visibility::All,
            affine: false,
            seed: 1,
        }
    }
}

/// The specs of `info` that are worth testing with sequences of `length`: every value in turn small, usual and large, the
/// first size also the length and more, with and without global tokens.
pub fn specs(info: &MechanismInfo, length: usize) -> Vec<String> {
    let example = info.example();
    let mut specs = vec![example.clone()];
    for (number, parameter) in info.parameters.iter().enumerate() {
        let numbers = match (parameter.whole, number) {
            (true, 0) => vec![1.0, 5.0, 9.0, length as f64, (length + 3) as f64],
            (true, _) => vec![1.0, 4.0, length as f64],
            (false, _) => {
                let usual = SpecValue::from(parameter.example).number().unwrap_or(parameter.min);
                vec![parameter.min, usual, parameter.max.min(10.0 * usual)]
            }
        };
        let numbers = numbers.into_iter().filter(|number| (parameter.min..=parameter.max).contains(number));
        let words = parameter.words.iter().map(|word| SpecValue::Word((*word).to_owned()));
        for value in numbers.map(SpecValue::Number).chain(words) {
            let mut spec = example.clone();
            match number == 0 && !parameter.keyed {
                true => spec.first = Some(value),
                false => {
                    spec.named.retain(|(key, _)| key != parameter.name);
                    spec.named.push((parameter.name.to_owned(), value));
                }
            }
            specs.push(spec);
        }
    }
    let globals: &[&str] = if info.allows_globals { &["", "+g1", "+g3"] } else { &[""] };
    let mut texts: Vec<String> =
        specs.iter().flat_map(|spec| globals.iter().map(move |globals| format!("{spec}{globals}"))).collect();
    texts.sort_unstable();
    texts.dedup();
    texts
}

/// Compares both forms of `spec` on `case`, and returns whether there was something to compare: a mechanism without a fast form passes.
///
/// # Errors
/// A message that says what differs, and by how much.
pub fn check(registry: &Registry, spec: &str, case: Case) -> Result<bool, String> {
    let attention = registry.parse(spec).map_err(|error| error.to_string())?;
    let Some(form) = FastForm::new(attention.mechanism.as_ref(), case.length, case.visibility) else {
        return Ok(false);
    };
    let Attention { mechanism, spec: parsed, .. } = &attention;
    if parsed.globals >= case.length || (parsed.globals > 0 && case.visibility == Visibility::Causal) {
        return Ok(false); // there is at least one token that is not global, and causal models have no global tokens
    }
    let device = Device::flex().autodiff();
    let weights = weights(&case, mechanism.as_ref(), &device);
    let x = input(&case, &device);
    let settings = AttentionSettings {
        heads: case.heads,
        d_head: case.d_head,
        inverse_temperature: 1.0,
        norm_epsilon: NORM_EPSILON,
        weight_dropout: Dropout::new(case.dropout),
        output_dropout: Dropout::new(case.dropout),
    };
    let context = context(&case, parsed.globals);
    let sublayer = AttentionSublayer { mechanism: mechanism.as_ref(), weights: &weights, settings, context };
    let (expected, trace) = reference::attention(x.clone(), &sublayer);
    let actual = fused::attention(x.clone(), &sublayer, &form);
    let largest_score = trace.scores.abs().max().into_scalar::<f64>();
    // A score is accurate to about 1e-7 of its size, and a weight changes by as much as its score.
    let tolerance = 1e-5f64.max(1e-6 * largest_score);
    let fail = |what: &str, error: f64| {
        Err(format!("{spec} on {case:?}: {what} differs by {error:.2e}, tolerance {tolerance:.2e}"))
    };
    let error = distance(expected.clone(), actual.clone());
    if error.is_nan() || error >= tolerance {
        return fail("output", error);
    }
    let directions = uniform(Key::new(case.seed).child(7), expected.dims(), 1.0, &device);
    let expected = gradients(&x, &weights, &expected.mul(directions.clone()).sum().backward());
    let actual = gradients(&x, &weights, &actual.mul(directions).sum().backward());
    for ((name, expected), (_, actual)) in expected.into_iter().zip_eq(actual) {
        let error = distance(expected, actual);
        if error.is_nan() || error >= 3.0 * tolerance {
            return fail(&format!("gradient of {name}"), error);
        }
    }
    Ok(true)
}

/// Gradients of the input and of all weights, with their names.
fn gradients(x: &Tensor<3>, weights: &AttentionWeights, gradients: &Gradients) -> Vec<(String, Tensor<1>)> {
    let maps =
        [("query", &weights.query), ("key", &weights.key), ("value", &weights.value), ("output", &weights.output)];
    let maps = maps.into_iter().flat_map(|(name, Linear { weight, bias })| {
        let weight = weight.val().grad(gradients).expect("every weight takes part").flatten(0, 1);
        let bias = bias.val().grad(gradients).expect("every bias takes part");
        [(format!("{name}.weight"), weight), (format!("{name}.bias"), bias)]
    });
    let x = x.grad(gradients).expect("the input takes part").flatten(0, 2);
    let mechanism = weights.mechanism.iter().map(|parameters| {
        ("mechanism".to_owned(), parameters.val().grad(gradients).expect("every parameter takes part").flatten(0, 1))
    });
    let norm = weights.norm.iter().flat_map(|Norm { scale, shift }| {
        [("norm.scale", scale), ("norm.shift", shift)]
            .map(|(name, values)| (name.to_owned(), values.val().grad(gradients).expect("the norm takes part")))
    });
    std::iter::once(("x".to_owned(), x)).chain(maps).chain(mechanism).chain(norm).collect()
}

/// Largest difference, relative to the largest magnitude but at least to one; NaN if there is one anywhere.
fn distance<const D: usize>(expected: Tensor<D>, actual: Tensor<D>) -> f64 {
    let (expected, actual) = (expected.into_data(), actual.into_data());
    let scale = expected.iter::<f64>().fold(1.0, |largest: f64, value| largest.max(value.abs()));
    let differences = expected.iter::<f64>().zip_eq(actual.iter::<f64>()).map(|(a, b)| (a - b).abs());
    differences.fold(0.0, |largest, value| if value > largest || value.is_nan() { value } else { largest }) / scale
}

fn uniform<const D: usize>(key: Key, shape: [usize; D], bound: f32, device: &Device) -> Tensor<D> {
    let values = (0..shape.iter().product()).map(|i: usize| {
        let unit = key.bits_at(i as u32) as f32 / 2f32.powi(31) - 1.0;
        unit * bound
    });
    Tensor::from_data(TensorData::new(values.collect::<Vec<f32>>(), shape), device)
}

/// Input rows; with ties there are only three different ones.
fn input(case: &Case, device: &Device) -> Tensor<3> {
    let key = Key::new(case.seed).child(0);
    let rows = case.batch * case.length;
    let values = (0..rows).flat_map(|row| {
        let row = if case.scores == Scores::Ties { key.below(row as u32, 3) as usize } else { row };
        let key = key.child(row as u64);
        (0..case.d_model).map(move |c| key.bits_at(c as u32) as f32 / 2f32.powi(31) - 1.0)
    });
    let data = TensorData::new(values.collect::<Vec<f32>>(), [case.batch, case.length, case.d_model]);
    Tensor::from_data(data, device).require_grad()
}

/// A layer with tokens and with other weights before training, for mechanisms that ask.
fn context(case: &Case, globals: usize) -> LayerContext {
    let root = Key::new(case.seed).child(2);
    let values = |key: Key, count: usize| -> Vec<f32> {
        (0..count).map(|i| key.bits_at(i as u32) as f32 / 2f32.powi(31) - 1.0).collect()
    };
    let inner = case.heads * case.d_head;
    let map = |key: Key| [values(key.child(0), case.d_model * inner), values(key.child(1), inner)];
    LayerContext {
        layer: 3,
        key: Key::new(case.seed).child(99),
        fixed_key: Key::new(case.seed).child(98),
        globals,
        visibility: case.visibility,
        tokens: (0..case.batch * case.length).map(|i| root.below(i as u32, 5) as usize).collect(),
        relevant: (0..case.batch).map(|sequence| Arc::new(relevant_keys(case, sequence, root.child(5)))).collect(),
        initial_maps: Some(Arc::new(InitialMaps { query: map(root.child(3)), key: map(root.child(4)) })),
    }
}

/// Up to two relevant keys for each of some queries, which need not see them; in every second sequence the same for all queries.
fn relevant_keys(case: &Case, sequence: usize, key: Key) -> RelevantKeys {
    let place = |i: usize| key.below((2 * sequence + i) as u32, case.length as u32) as usize;
    let two = |i: usize| [place(i).min(place(i + 1)), place(i).max(place(i + 1))];
    match sequence % 2 {
        0 => RelevantKeys::of_queries((0..case.length).step_by(2).map(|query| (query, two(query)))),
        _ if place(0) == place(1) => RelevantKeys::shared([place(0)]),
        _ => RelevantKeys::shared(two(0)),
    }
}

fn weights(case: &Case, mechanism: &dyn Mechanism, device: &Device) -> AttentionWeights {
    let inner = case.heads * case.d_head;
    let root = Key::new(case.seed).child(1);
    let map = |place: u64, inputs: usize, outputs: usize, factor: f32| {
        let bound = factor * (3.0 / inputs as f32).sqrt();
        Linear {
            weight: Param::from_tensor(uniform(root.child(2 * place), [inputs, outputs], bound, device)),
            bias: Param::from_tensor(uniform(root.child(2 * place + 1), [outputs], bound, device)),
        }
    };
    let query = match case.scores {
        Scores::Ordinary | Scores::Ties => 1.0,
        Scores::Equal => 0.0,
        Scores::Huge => 3e3,
    };
    let of_norm = |place: u64, add: f32| {
        Param::from_tensor(uniform(root.child(place), [case.d_model], 0.5, device).add_scalar(add))
    };
    AttentionWeights {
        norm: case.affine.then(|| Norm { scale: of_norm(200, 1.0), shift: of_norm(201, 0.0) }),
        query: map(0, case.d_model, inner, query),
        key: map(1, case.d_model, inner, 1.0),
        value: map(2, case.d_model, inner, 1.0),
        output: map(3, inner, case.d_model, 1.0),
        mechanism: (!mechanism.parameters().is_empty()).then(|| {
            let shape = [case.heads, mechanism.parameters().len()];
            Param::from_tensor(uniform(root.child(100), shape, 0.5, device))
        }),
    }
    .train()
}
