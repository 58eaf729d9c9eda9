//! Training as a whole: the same bits with any number of threads, and short pinned loss curves.

mod common;

use burn::tensor::{Device, Int, Tensor, TensorData};
use semfocus_core::Questions;
use semfocus_nn::conformance::ZipEq;
use semfocus_nn::optimizer::{LrFactors, Rule};
use semfocus_nn::parameters::NamedGradients;
use semfocus_nn::{Encoder, Engine, Key, ModelConfig, Named, OptimizerConfig, Pass, Registry, StandardOptimizer};
use semfocus_nn::{parameters, train};

/// Bits, labelled by the parity of the number of unequal neighbours: whether the first and the last one differ.
fn even_pairs(step: u64, batch: usize, length: usize) -> train::Batch {
    let bits: Vec<i64> = (0..batch * length).map(|i| i64::from(Key::new(step).below(i as u32, 2))).collect();
    let questions = Questions::classification(bits.chunks(length).map(|bits| u16::from(bits[0] != bits[length - 1])));
    let tokens = Tensor::<2, Int>::from_data(TensorData::new(bits, [batch, length]), &Device::flex());
    train::Batch { tokens, questions }
}

/// Trains from a fixed start and returns the model with the loss of every step.
fn run(config: ModelConfig, mechanism: &str, length: usize, steps: u64) -> (Encoder, Vec<f64>) {
    let attention = Registry::standard().parse(mechanism).unwrap();
    let mut model = common::relevant(Encoder::new(config, attention, 1, &Device::flex().autodiff()).unwrap());
    let mut optimizer = train::Sgd;
    let losses = (0..steps).map(|step| {
        let batch = even_pairs(step, 25, length);
        let (next, report) = train::step(model.clone(), &mut optimizer, batch, Pass::training(1, step), 0.1, 0.5);
        model = next;
        report.loss
    });
    let losses = losses.collect();
    (model, losses)
}

fn bits(model: &Encoder) -> Vec<u32> {
    let parameters = parameters::named_parameters(model);
    parameters.iter().flat_map(|(_, data)| data.iter::<f32>().map(f32::to_bits).collect::<Vec<_>>()).collect()
}

#[test]
fn threads_do_not_change_a_bit() {
    let registry = Registry::standard();
    for (engine, length, steps) in [(Engine::Fused, 40, 4), (Engine::Fused, 130, 2), (Engine::Reference, 40, 2)] {
        let config =
            ModelConfig { d_model: 24, d_mlp: 40, heads: 2, blocks: 2, dropout: 0.1, engine, ..ModelConfig::new(2, 2) };
        for info in registry.iter() {
            let spec = &info.example().to_string();
            let with_threads = |threads: usize| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| {
                    let (model, losses) = run(config.clone(), spec, length, steps);
                    (bits(&model), losses)
                })
            };
            let expected = with_threads(1);
            for threads in [2, 4] {
                assert!(with_threads(threads) == expected, "{spec}, {engine:?}, length {length}: {threads} threads");
            }
        }
    }
}

/// Losses that this very code gave once. They guard the whole: data, start, dropout, both sublayers, clipping, update.
const PINNED: [(&str, [f64; 30]); 2] = [
    (
        "full",
        [
            0.689215, 0.673184, 0.688833, 0.703686, 0.738354, 0.760345, 0.766725, 0.670444, 0.716488, 0.680061,
            0.708596, 0.742831, 0.716530, 0.746453, 0.700024, 0.770172, 0.722861, 0.787996, 0.710898, 0.738806,
            0.660131, 1.033577, 0.677429, 0.681857, 0.749088, 0.738137, 0.717900, 0.720111, 0.684848, 0.647251,
        ],
    ),
    (
        "topk:5",
        [
            0.681940, 0.668012, 0.689251, 0.714919, 0.741681, 0.775839, 0.761135, 0.674757, 0.690020, 0.813061,
            0.669562, 0.781006, 0.698047, 0.787081, 0.703816, 0.698312, 0.699870, 0.774908, 0.722782, 0.733892,
            0.651938, 1.068426, 0.670535, 0.672205, 0.695493, 0.791444, 0.691944, 0.761488, 0.691824, 0.563766,
        ],
    ),
];

#[test]
fn loss_curves_are_as_pinned() {
    for (mechanism, pinned) in PINNED {
        for engine in [Engine::Fused, Engine::Reference] {
            let config = ModelConfig { engine, ..ModelConfig::new(2, 2) };
            let (_, losses) = run(config, mechanism, 40, 30);
            // Rounding differs between engines and processors. Where two scores are nearly equal it can exchange a kept key:
            // a learning rate that is larger by 1e-7 does so in step 9, and changes later losses by up to 0.02.
            let tolerance = |step: usize| match (mechanism, step) {
                ("full", _) => 1e-3,
                (_, ..10) => 1e-4,
                _ => 0.05,
            };
            let same = (0..30).all(|step| (losses[step] - pinned[step]).abs() < tolerance(step));
            assert!(same, "{mechanism}, {engine:?}: {losses:.6?}, pinned {pinned:?}");
        }
    }
}

#[test]
fn reference_engine_trains_a_random_mechanism_like_the_fused_one() {
    let config =
        |engine| ModelConfig { d_model: 16, d_mlp: 16, blocks: 2, dropout: 0.1, engine, ..ModelConfig::new(2, 2) };
    let (_, fused) = run(config(Engine::Fused), "randomk:5", 40, 20);
    let (_, reference) = run(config(Engine::Reference), "randomk:5", 40, 20);
    for (a, b) in fused.iter().zip_eq(&reference) {
        assert!((a - b).abs() < 1e-4, "{fused:?} {reference:?}");
    }
}

fn small_model(mechanism: &str) -> Encoder {
    let config = ModelConfig { d_model: 12, d_mlp: 10, blocks: 2, dropout: 0.0, ..ModelConfig::new(2, 2) };
    common::relevant(
        Encoder::new(config, Registry::standard().parse(mechanism).unwrap(), 1, &Device::flex().autodiff()).unwrap(),
    )
}

fn values(model: &Encoder) -> Vec<(String, Vec<f32>)> {
    let parameters = parameters::named_parameters(model).into_iter();
    parameters.map(|(name, data)| (name, data.iter::<f32>().collect())).collect()
}

#[test]
fn a_step_with_factors_is_as_computed_by_hand() {
    let model = small_model("full");
    let (pass, batch) = (Pass::training(1, 0), even_pairs(0, 25, 10));
    let loss = train::loss(model.forward(batch.tokens.clone(), pass), &batch.questions);
    let gradients = NamedGradients::take(&model, loss.backward());
    let before = values(&model);
    let lr_factors = LrFactors { query: 8.0, mlp_output: 0.25, embedding: 0.0, ..LrFactors::default() };
    let mut optimizer = StandardOptimizer::new(OptimizerConfig { lr_factors, ..OptimizerConfig::default() });
    let (after, _) = train::step(model, &mut optimizer, batch, pass, 0.1, f64::INFINITY);
    let mut moved = 0;
    for ((name, before), (_, after)) in before.iter().zip_eq(values(&after)) {
        let gradient = gradients.iter().find_map(|(of, gradient)| gradient.filter(|_| of == name)).unwrap();
        let factor = match name.as_str() {
            "embedding" => 0.0,
            name if name.contains(".attention.query.") => 8.0,
            name if name.contains(".mlp.output.") => 0.25,
            _ => 1.0,
        };
        let rate = (0.1 * factor) as f32;
        for ((before, after), gradient) in before.iter().zip_eq(after).zip_eq(gradient) {
            // The step sums the gradients in another order than autodiff.
            let expected = before - rate * gradient;
            assert!((after - expected).abs() < 1e-6, "{name}: {after}, not {expected}");
            moved += usize::from(after != *before);
        }
    }
    assert!(moved > 1000, "{moved} values moved");
}

#[test]
fn frozen_parameters_keep_their_bits_and_the_others_learn() {
    let frozen = ["query", "classifier"];
    for (rule, momentum) in [(Rule::Sgd, 0.0), (Rule::Sgd, 0.9), (Rule::Adam, 0.0), (Rule::AdamW, 0.0)] {
        let lr_factors = LrFactors { query: 0.0, classifier: 0.0, ..LrFactors::default() };
        let config = OptimizerConfig { rule, momentum, weight_decay: 0.1, lr_factors, ..OptimizerConfig::default() };
        let mut optimizer = StandardOptimizer::new(config);
        let mut model = small_model("topk:3");
        let before = values(&model);
        for step in 0..5 {
            (model, _) =
                train::step(model, &mut optimizer, even_pairs(step, 25, 10), Pass::training(1, step), 0.01, 0.5);
        }
        for ((name, before), (_, after)) in before.iter().zip_eq(values(&model)) {
            let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            let is_frozen = frozen.iter().any(|part| name.split('.').any(|other| other == *part));
            assert_eq!(bits(before) == bits(&after), is_frozen, "{name}, {rule:?} with momentum {momentum}");
        }
    }
}

#[test]
fn every_parameter_has_a_learning_rate_factor() {
    for info in Registry::standard().iter() {
        for (name, _) in values(&small_model(&info.example().to_string())) {
            assert_eq!(LrFactors::default().for_parameter(&name), Some(1.0), "{name}");
        }
    }
}
