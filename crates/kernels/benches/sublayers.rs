//! Time of each fused sublayer, forward and backward, at the sizes of the study.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use semfocus_kernels::{
    Activation, AttentionKernel, Dropout, FusedWeighting, HeadScalars, Hints, KeptKeys, Key, LinearView, MlpKernel,
    Selection, TopKRule, Visibility,
};

const BATCH: usize = 25;
const WIDTH: usize = 64;

fn values(seed: u64, n: usize) -> Vec<f32> {
    let key = Key::new(seed);
    (0..n).map(|i| (key.bits_at(i as u32) as f32 / 2f32.powi(31) - 1.0) / 8.0).collect()
}

fn attention(criterion: &mut Criterion) {
    let (weight, bias) = (values(1, WIDTH * WIDTH), values(2, WIDTH));
    let map = LinearView { weight: &weight, bias: &bias };
    for length in [40, 600] {
        let mut group = criterion.benchmark_group(format!("attention, length {length}"));
        group.sample_size(10);
        let band = KeptKeys::from_rows(length, |i| {
            let first = i.saturating_sub(2).min(length - 5);
            first..first + 5
        });
        let x = values(3, BATCH * length * WIDTH);
        for (name, selection) in [
            ("full", Selection::All),
            ("banded:5", Selection::Pattern(Arc::new(band))),
            ("topk:5", Selection::Rule(Arc::new(TopKRule::highest(5)))),
        ] {
            let layer = AttentionKernel {
                length,
                width: WIDTH,
                heads: 1,
                head_width: WIDTH,
                query: map,
                key: map,
                value: map,
                output: map,
                selection: &selection,
                visibility: Visibility::All,
                weighting: FusedWeighting::Softmax,
                head_scalars: &[HeadScalars { temperature: 1.0, alpha: 1.5 }; 4],
                scale: 0.125,
                epsilon: 1e-5,
                weight_dropout: Dropout::new(0.01),
                weight_site: Key::new(4),
                output_dropout: Dropout::new(0.01),
                output_site: Key::new(5),
                hints: Hints {
                    layer: 0,
                    tokens: &[],
                    relevant: &[],
                    initial_maps: None,
                    draw_key: Key::new(6),
                    fixed_key: Key::new(9),
                },
            };
            group.bench_function(BenchmarkId::new("forward", name), |b| b.iter(|| layer.forward(black_box(&x), true)));
            let saved = layer.forward(&x, true).1.expect("saving was asked for");
            group.bench_function(BenchmarkId::new("backward", name), |b| {
                b.iter(|| layer.backward(&saved, black_box(&x)))
            });
        }
    }
}

fn mlp(criterion: &mut Criterion) {
    let (weight, bias) = (values(1, WIDTH * WIDTH), values(2, WIDTH));
    let map = LinearView { weight: &weight, bias: &bias };
    for length in [40, 600] {
        let mut group = criterion.benchmark_group(format!("mlp, length {length}"));
        group.sample_size(10);
        let x = values(3, BATCH * length * WIDTH);
        for activation in [Activation::Relu, Activation::Gelu, Activation::Mish] {
            let layer = MlpKernel {
                width: WIDTH,
                hidden_width: WIDTH,
                hidden: map,
                output: map,
                activation,
                epsilon: 1e-5,
                hidden_dropout: Dropout::new(0.01),
                hidden_site: Key::new(4),
                output_dropout: Dropout::new(0.01),
                output_site: Key::new(5),
            };
            let name = format!("{activation:?}");
            group.bench_function(BenchmarkId::new("forward", &name), |b| b.iter(|| layer.forward(black_box(&x), true)));
            let saved = layer.forward(&x, true).1.expect("saving was asked for");
            group.bench_function(BenchmarkId::new("backward", &name), |b| {
                b.iter(|| layer.backward(&saved, black_box(&x)))
            });
        }
    }
}

criterion_group!(benches, attention, mlp);
criterion_main!(benches);
