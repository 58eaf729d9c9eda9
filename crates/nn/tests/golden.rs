//! The model against an independent implementation in PyTorch: `golden/make_golden.py` says how the file is made.

mod common;

use std::collections::HashMap;

use burn::tensor::{Device, Int, Tensor, TensorData};
use safetensors::SafeTensors;
use semfocus_core::{At, Question, Questions};
use semfocus_nn::conformance::ZipEq;
use semfocus_nn::optimizer::Parameter;
use semfocus_nn::{Activation, Encoder, Engine, Head, ModelConfig, Pass, PositionKind, Visibility, parameters, train};
use serde::Deserialize;

const FILE: &[u8] = include_bytes!("golden/golden.safetensors");

/// A value may be off by this share of its tensor's largest magnitude.
const TOLERANCE: f64 = 1e-4;

/// Gradients that are zero in exact arithmetic (those of a key bias: it shifts all scores of a query alike) are rounding
/// noise on both sides. The file holds less than 1e-16 for them, and more than 1e-4 for the largest of any other tensor.
const NOISE: f64 = 1e-7;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Shape {
    mechanism: String,
    vocabulary: usize,
    classes: usize,
    d_model: usize,
    d_head: usize,
    heads: usize,
    blocks: usize,
    d_mlp: usize,
    activation: Activation,
    inverse_temperature: f64,
    visibility: Visibility,
    positions: PositionKind,
    scale_embedding: bool,
    head: Head,
    per_token: bool,
    final_norm: bool,
    affine_norms: bool,
    tied: bool,
}

impl Shape {
    fn config(&self, length: usize, engine: Engine) -> ModelConfig {
        ModelConfig {
            d_model: self.d_model,
            d_head: Some(self.d_head),
            heads: self.heads,
            blocks: self.blocks,
            d_mlp: self.d_mlp,
            activation: self.activation,
            inverse_temperature: self.inverse_temperature,
            visibility: self.visibility,
            positions: self.positions,
            length,
            scale_embedding: self.scale_embedding,
            head: self.head,
            final_norm: self.final_norm,
            affine_norms: self.affine_norms,
            tied: self.tied,
            dropout: 0.0,
            engine,
            ..ModelConfig::new(self.vocabulary, self.classes)
        }
    }
}

/// Writes down the gradients of a training step and changes nothing.
#[derive(Default)]
struct Recorder(HashMap<usize, Vec<f32>>);

impl train::Optimizer for Recorder {
    fn update(&mut self, parameter: Parameter<'_>, _values: &mut [f32], gradient: &[f32], _learning_rate: f64) {
        self.0.insert(parameter.number, gradient.to_vec());
    }
}

struct Golden {
    cases: HashMap<String, String>,
    file: SafeTensors<'static>,
}

impl Golden {
    fn read() -> Self {
        let (_, metadata) = SafeTensors::read_metadata(FILE).unwrap();
        let cases = metadata.metadata().clone().expect("the cases are in the metadata");
        Golden { cases, file: SafeTensors::deserialize(FILE).unwrap() }
    }

    fn floats(&self, name: &str) -> TensorData {
        let view = self.file.tensor(name).unwrap_or_else(|_| panic!("{name} is not in the file"));
        assert_eq!(view.dtype(), safetensors::Dtype::F32);
        let (values, _) = view.data().as_chunks::<4>();
        TensorData::new(values.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect(), view.shape().to_vec())
    }

    fn ints<const D: usize>(&self, name: &str, device: &Device) -> Tensor<D, Int> {
        let view = self.file.tensor(name).unwrap();
        assert_eq!(view.dtype(), safetensors::Dtype::I32);
        let (values, _) = view.data().as_chunks::<4>();
        let values: Vec<i32> = values.iter().map(|&bytes| i32::from_le_bytes(bytes)).collect();
        Tensor::from_data(TensorData::new(values, view.shape().to_vec()), device)
    }

    /// Names below `case/kind/`.
    fn names(&self, case: &str, kind: &str) -> Vec<String> {
        let prefix = format!("{case}/{kind}/");
        self.file.names().into_iter().filter_map(|name| name.strip_prefix(&prefix).map(str::to_owned)).collect()
    }

    fn shape(&self, case: &str) -> Shape {
        serde_json::from_str(&self.cases[case]).unwrap()
    }

    fn tokens(&self, case: &str, device: &Device) -> Tensor<2, Int> {
        self.ints(&format!("{case}/tokens"), device)
    }

    /// The model of a case, with its parameters.
    fn model(&self, case: &str, engine: Engine, device: &Device) -> Encoder {
        let (shape, length) = (self.shape(case), self.tokens(case, device).dims()[1]);
        let attention = common::mechanisms::registry().parse(&shape.mechanism).unwrap();
        let model = common::relevant(Encoder::new(shape.config(length, engine), attention, 0, device).unwrap());
        let parameters = self.names(case, "param").into_iter();
        let parameters = parameters.map(|name| (name.clone(), self.floats(&format!("{case}/param/{name}"))));
        parameters::set_parameters(model, parameters).unwrap()
    }

    fn compare(&self, case: &str, path: &str, name: &str, found: &TensorData) {
        let expected = self.floats(&format!("{case}/{name}"));
        assert_close(&format!("{case} ({path}): {name}"), found, &expected);
    }

    fn questions(&self, case: &str) -> Questions {
        let labels: Tensor<1, Int> = self.ints(&format!("{case}/labels"), &Device::flex());
        let labels: Vec<u16> = labels.into_data().iter::<i64>().map(|label| label as u16).collect();
        if !self.shape(case).per_token {
            return Questions::classification(labels);
        }
        let mut questions = Questions::default();
        for labels in labels.chunks(self.tokens(case, &Device::flex()).dims()[1]) {
            let asked = (0..).zip(labels).map(|(t, label)| Question { at: At::Token(t), ..Question::classify(*label) });
            questions.push(asked);
        }
        questions
    }

    /// Logits, loss and gradients through autodiff.
    fn check(&self, case: &str, engine: Engine) {
        let device = Device::flex().autodiff();
        let model = self.model(case, engine, &device);
        let (tokens, questions, pass) = (self.tokens(case, &device), self.questions(case), Pass::evaluation(0, 0));
        let logits = model.forward_at(tokens.clone(), &questions, pass);
        let loss = train::loss(logits.clone(), &questions);
        let gradients = parameters::named_gradients(&model, &loss.backward());
        let compare = |name: &str, found: &TensorData| self.compare(case, &format!("{engine:?}"), name, found);
        let shape = logits.shape();
        compare("logits", &logits.into_data());
        compare("logits", &TensorData::new(model.logits(&model.token_rows(tokens), &questions, pass), shape));
        compare("loss", &loss.into_data());
        assert_eq!(gradients.len(), self.names(case, "grad").len());
        for (name, gradient) in &gradients {
            compare(&format!("grad/{name}"), gradient);
        }
    }

    /// Loss and gradients of a training step, which the fused engine computes with one operator for the whole model. The
    /// gradients are taken as the optimiser gets them: the difference of the weights would have lost their last digits.
    fn check_step(&self, case: &str, engine: Engine) {
        let device = Device::flex().autodiff();
        let model = self.model(case, engine, &device);
        let parameters = parameters::named_parameters(&model);
        let tokens = self.tokens(case, &device);
        let mut recorder = Recorder::default();
        let batch = train::Batch { tokens, questions: self.questions(case) };
        let (_, report) = train::step(model, &mut recorder, batch, Pass::training(0, 0), 1.0, f64::INFINITY);
        let compare = |name: &str, found: &TensorData| self.compare(case, &format!("{engine:?} step"), name, found);
        compare("loss", &TensorData::new(vec![report.loss], [1]));
        assert_eq!(parameters.len(), self.names(case, "grad").len());
        let mut squares = 0.0;
        for (number, (name, value)) in parameters.iter().enumerate() {
            let gradient = recorder.0.remove(&number).unwrap_or_else(|| panic!("{case}: {name} has no gradient"));
            squares += gradient.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>();
            compare(&format!("grad/{name}"), &TensorData::new(gradient, value.shape()));
        }
        assert!((report.gradient_norm - squares.sqrt()).abs() < 1e-6 * squares.sqrt(), "{case}: {report:?}");
    }
}

fn assert_close(what: &str, found: &TensorData, expected: &TensorData) {
    assert_eq!(found.shape(), expected.shape(), "{what}");
    let largest = expected.iter::<f64>().fold(0.0, |largest: f64, x| largest.max(x.abs()));
    let tolerance = if largest < 1e-12 { NOISE } else { TOLERANCE * largest };
    for (index, (found, expected)) in found.iter::<f64>().zip_eq(expected.iter::<f64>()).enumerate() {
        let close = (found - expected).abs() <= tolerance;
        assert!(close, "{what}[{index}] is {found}, expected {expected} (largest {largest})");
    }
}

#[test]
fn the_reference_engine_agrees_with_pytorch() {
    let golden = Golden::read();
    assert_eq!(golden.cases.len(), 50);
    golden.cases.keys().for_each(|case| golden.check(case, Engine::Reference));
}

#[test]
fn the_fused_engine_agrees_with_pytorch() {
    let golden = Golden::read();
    golden.cases.keys().for_each(|case| golden.check(case, Engine::Fused));
}

#[test]
fn training_steps_agree_with_pytorch() {
    let golden = Golden::read();
    for engine in [Engine::Reference, Engine::Fused] {
        golden.cases.keys().for_each(|case| golden.check_step(case, engine));
    }
}
