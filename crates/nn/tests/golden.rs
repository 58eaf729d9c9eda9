//! The model against an independent implementation in PyTorch: `golden/make_golden.py` says how the file is made.

use std::collections::HashMap;

use burn::tensor::{Device, Int, Tensor, TensorData};
use safetensors::SafeTensors;
use semfocus_nn::{Activation, Encoder, Engine, ModelConfig, Pass, Registry, parameters, train};
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
}

impl Shape {
    fn config(&self, engine: Engine) -> ModelConfig {
        ModelConfig {
            d_model: self.d_model,
            d_head: Some(self.d_head),
            heads: self.heads,
            blocks: self.blocks,
            d_mlp: self.d_mlp,
            activation: self.activation,
            inverse_temperature: self.inverse_temperature,
            engine,
            ..ModelConfig::new(self.vocabulary, self.classes)
        }
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

    fn check(&self, case: &str, engine: Engine) {
        let shape: Shape = serde_json::from_str(&self.cases[case]).unwrap();
        let device = Device::flex().autodiff();
        let attention = Registry::standard().parse(&shape.mechanism).unwrap();
        let model = Encoder::new(shape.config(engine), attention, 0, &device).unwrap();
        let parameters = self.names(case, "param").into_iter();
        let parameters = parameters.map(|name| (name.clone(), self.floats(&format!("{case}/param/{name}"))));
        let model = parameters::set_parameters(model, parameters).unwrap();

        let logits = model.forward(self.ints(&format!("{case}/tokens"), &device), Pass::evaluation(0, 0));
        let loss = train::loss(logits.clone(), self.ints(&format!("{case}/labels"), &device));
        let gradients = parameters::named_gradients(&model, &loss.backward());
        let compare = |name: &str, found: &TensorData| {
            let expected = self.floats(&format!("{case}/{name}"));
            assert_close(&format!("{case} ({engine:?}): {name}"), found, &expected);
        };
        compare("logits", &logits.into_data());
        compare("loss", &loss.into_data());
        assert_eq!(gradients.len(), self.names(case, "grad").len());
        for (name, gradient) in &gradients {
            compare(&format!("grad/{name}"), gradient);
        }
    }
}

fn assert_close(what: &str, found: &TensorData, expected: &TensorData) {
    assert_eq!(found.shape(), expected.shape(), "{what}");
    let largest = expected.iter::<f64>().fold(0.0, |largest: f64, x| largest.max(x.abs()));
    let tolerance = if largest < 1e-12 { NOISE } else { TOLERANCE * largest };
    for (index, (found, expected)) in found.iter::<f64>().zip(expected.iter::<f64>()).enumerate() {
        let close = (found - expected).abs() <= tolerance;
        assert!(close, "{what}[{index}] is {found}, expected {expected} (largest {largest})");
    }
}

#[test]
fn the_reference_engine_agrees_with_pytorch() {
    let golden = Golden::read();
    assert_eq!(golden.cases.len(), 9);
    golden.cases.keys().for_each(|case| golden.check(case, Engine::Reference));
}

#[test]
fn the_fused_engine_agrees_with_pytorch() {
    let golden = Golden::read();
    golden.cases.keys().for_each(|case| golden.check(case, Engine::Fused));
}
