//! Training as a whole: the same bits with any number of threads, and short pinned loss curves.

use burn::tensor::{Device, Int, Tensor, TensorData};
use semfocus_nn::conformance::specs;
use semfocus_nn::{Encoder, Engine, Key, ModelConfig, Pass, Registry, parameters, train};

/// Bits, labelled by the parity of the number of unequal neighbours: whether the first and the last one differ.
fn even_pairs(step: u64, batch: usize, length: usize) -> train::Batch {
    let bits: Vec<i64> = (0..batch * length).map(|i| i64::from(Key::new(step).below(i as u32, 2))).collect();
    let labels: Vec<i64> = bits.chunks(length).map(|bits| i64::from(bits[0] != bits[length - 1])).collect();
    let device = Device::flex();
    train::Batch {
        tokens: Tensor::<2, Int>::from_data(TensorData::new(bits, [batch, length]), &device),
        labels: Tensor::<1, Int>::from_data(TensorData::new(labels, [batch]), &device),
    }
}

/// Trains from a fixed start and returns the model with the loss of every step.
fn run(config: ModelConfig, mechanism: &str, length: usize, steps: u64) -> (Encoder, Vec<f64>) {
    let attention = Registry::standard().parse(mechanism).unwrap();
    let mut model = Encoder::new(config, attention, 1, &Device::flex().autodiff()).unwrap();
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
            let spec = &specs(info, length)[info.size.as_ref().map_or(0, |_| 1)];
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
    for (a, b) in fused.iter().zip(&reference) {
        assert!((a - b).abs() < 1e-4, "{fused:?} {reference:?}");
    }
}
