//! The switches for the quirks of the published code: each does what it says, in both engines, and nothing when off.

mod common;

use burn::tensor::{Device, Int, Tensor, TensorData};
use common::tokens;
use semfocus_nn::conformance::ZipEq;
use semfocus_nn::{Encoder, Engine, ModelConfig, Pass, Quirks, Registry};

fn logits(engine: Engine, quirks: Quirks, mechanism: &str, tokens: Tensor<2, Int>, pass: Pass) -> Vec<f32> {
    let config = ModelConfig {
        d_model: 8,
        blocks: 2,
        dropout: 0.3,
        engine,
        quirks,
        pad_token: Some(2),
        ..ModelConfig::new(3, 2)
    };
    let attention = Registry::standard().parse(mechanism).unwrap();
    let model = Encoder::new(config, attention, 1, &Device::flex()).unwrap();
    model.forward(tokens, pass).into_data().iter::<f32>().collect()
}

fn close(a: &[f32], b: &[f32]) -> bool {
    a.iter().zip_eq(b).all(|(a, b)| (a - b).abs() < 1e-5)
}

const ENGINES: [Engine; 2] = [Engine::Fused, Engine::Reference];

#[test]
fn dropout_in_evaluation_depends_on_the_key_of_the_pass() {
    let seven = || tokens(3, 7, 2, &Device::flex());
    let odd = Quirks { dropout_in_evaluation: true, ..Quirks::default() };
    let run = |engine, quirks, step| logits(engine, quirks, "full", seven(), Pass::evaluation(1, step));
    for engine in ENGINES {
        let plain = run(engine, Quirks::default(), 0);
        assert_eq!(plain, run(engine, Quirks::default(), 1), "evaluation is not random");
        assert!(!close(&run(engine, odd, 0), &run(engine, odd, 1)), "with the switch it is");
        assert!(!close(&run(engine, odd, 0), &plain));
    }
    assert!(close(&run(Engine::Fused, odd, 0), &run(Engine::Reference, odd, 0)));
}

#[test]
fn the_first_norm_can_do_without_epsilon() {
    let seven = || tokens(3, 7, 2, &Device::flex());
    let odd = Quirks { first_norm_without_eps: true, ..Quirks::default() };
    let run = |engine, quirks| logits(engine, quirks, "topk:3", seven(), Pass::evaluation(1, 0));
    let (fused, reference) = (run(Engine::Fused, odd), run(Engine::Reference, odd));
    assert!(close(&fused, &reference));
    assert_ne!(fused, run(Engine::Fused, Quirks::default()), "epsilon is small, but it shows");
}

#[test]
fn sequences_can_be_padded_to_a_multiple_of_the_size() {
    let device = Device::flex();
    let odd = Quirks { pad_to_mask_multiple: true, ..Quirks::default() };
    let short = vec![0i64, 1, 1, 0, 1, 0, 0];
    let padded: Vec<i64> = short.iter().copied().chain([2, 2, 2]).collect();
    let row = |ids: &[i64]| Tensor::<2, Int>::from_data(TensorData::new(ids.to_vec(), [1, ids.len()]), &device);
    for engine in ENGINES {
        for mechanism in ["topk:5", "banded:5", "block:5+g1"] {
            let run = |quirks, ids: &[i64]| logits(engine, quirks, mechanism, row(ids), Pass::evaluation(1, 0));
            assert_eq!(run(odd, &short), run(Quirks::default(), &padded), "{mechanism}: 7 tokens become 10");
            assert_eq!(run(odd, &padded), run(Quirks::default(), &padded), "{mechanism}: 10 stay 10");
        }
        let run = |quirks| logits(engine, quirks, "full", row(&short), Pass::evaluation(1, 0));
        assert_eq!(run(odd), run(Quirks::default()), "full attention has no size to pad to");
    }
}
