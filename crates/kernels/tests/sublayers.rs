//! The fused sublayers against their definition in plain `f64` loops: values, and every gradient by central differences.

use std::sync::Arc;

use semfocus_kernels::{
    Activation, AttentionKernel, Dropout, FusedWeighting, InstructionSet, KeptKeys, Key, LinearView, MlpKernel,
    Selection, TopKRule,
};

/// Uniform values in (-1, 1).
fn values(seed: u64, n: usize) -> Vec<f32> {
    let key = Key::new(seed);
    (0..n).map(|i| key.bits_at(i as u32) as f32 / 2f32.powi(31) - 1.0).collect()
}

struct OwnedLinear {
    weight: Vec<f32>,
    bias: Vec<f32>,
}

impl OwnedLinear {
    fn new(seed: u64, inputs: usize, outputs: usize) -> Self {
        OwnedLinear { weight: values(seed, inputs * outputs), bias: values(seed + 1000, outputs) }
    }

    fn view(&self) -> LinearView<'_> {
        LinearView { weight: &self.weight, bias: &self.bias }
    }
}

// ---- the definition, in f64 ------------------------------------------------------------------------------------------

/// Rows of `x` times `linear`; the numbers are inputs and outputs.
fn apply(x: &[f64], weight: &[f64], bias: &[f64], inputs: usize, outputs: usize) -> Vec<f64> {
    x.chunks(inputs)
        .flat_map(|x| {
            (0..outputs).map(move |o| bias[o] + (0..inputs).map(|i| x[i] * weight[i * outputs + o]).sum::<f64>())
        })
        .collect()
}

fn normalise(x: &[f64], width: usize, epsilon: f64) -> Vec<f64> {
    x.chunks(width)
        .flat_map(|x| {
            let mean = x.iter().sum::<f64>() / width as f64;
            let variance = x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / width as f64;
            x.iter().map(move |v| (v - mean) / (variance + epsilon).sqrt())
        })
        .collect()
}

fn factor(dropout: Dropout, site: Key, row: usize, column: usize) -> f64 {
    f64::from(dropout.factor(site.child(row as u64), column as u32))
}

/// `parameters`: weight and bias of query, key, value, output.
fn attention_definition(layer: &AttentionKernel, x: &[f64], parameters: &[Vec<f64>]) -> Vec<f64> {
    let (length, width, heads, head_width) = (layer.length, layer.width, layer.heads, layer.head_width);
    let inner = heads * head_width;
    let mut y = Vec::new();
    for (b, x) in x.chunks(length * width).enumerate() {
        let n = normalise(x, width, f64::from(layer.epsilon));
        let [q, k, v] = [0, 2, 4].map(|p| apply(&n, &parameters[p], &parameters[p + 1], width, inner));
        let mut context = vec![0.0; length * inner];
        for h in 0..heads {
            for i in 0..length {
                let row = (b * heads + h) * length + i;
                let at = |m: &[f64], t: usize, c: usize| m[t * inner + h * head_width + c];
                let scores: Vec<f64> = (0..length)
                    .map(|j| f64::from(layer.scale) * (0..head_width).map(|c| at(&q, i, c) * at(&k, j, c)).sum::<f64>())
                    .collect();
                let mut kept = Vec::new();
                match layer.selection {
                    Selection::All => kept.extend(0..length as u32),
                    Selection::Pattern(pattern) => kept.extend_from_slice(pattern.row(i)),
                    Selection::Rule(rule) => {
                        let scores: Vec<f32> = scores.iter().map(|&s| s as f32).collect();
                        rule.select(layer.rule_site.child(row as u64), &scores, &mut kept);
                    }
                }
                let max = kept.iter().map(|&j| scores[j as usize]).fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = kept.iter().map(|&j| (scores[j as usize] - max).exp()).sum();
                for &j in &kept {
                    let j = j as usize;
                    let weight =
                        (scores[j] - max).exp() / sum * factor(layer.weight_dropout, layer.weight_site, row, j);
                    for c in 0..head_width {
                        context[i * inner + h * head_width + c] += weight * at(&v, j, c);
                    }
                }
            }
        }
        let update = apply(&context, &parameters[6], &parameters[7], inner, width);
        y.extend((0..length * width).map(|at| {
            let row = b * length + at / width;
            x[at] + update[at] * factor(layer.output_dropout, layer.output_site, row, at % width)
        }));
    }
    y
}

fn gelu(x: f64) -> f64 {
    let z = x / 2f64.sqrt();
    if z.abs() > 4.0 {
        // The series loses its digits here, and the function is within 2e-8 of its limit.
        return x.max(0.0);
    }
    let (mut sum, mut term) = (0.0, z);
    for n in 0..100 {
        sum += term / f64::from(2 * n + 1);
        term *= -z * z / f64::from(n + 1);
    }
    x * 0.5 * (1.0 + sum * std::f64::consts::FRAC_2_SQRT_PI)
}

/// `parameters`: weight and bias of hidden, output.
fn mlp_definition(layer: &MlpKernel, x: &[f64], parameters: &[Vec<f64>]) -> Vec<f64> {
    let (width, hidden_width) = (layer.width, layer.hidden_width);
    let n = normalise(x, width, f64::from(layer.epsilon));
    let mut hidden = apply(&n, &parameters[0], &parameters[1], width, hidden_width);
    for (at, v) in hidden.iter_mut().enumerate() {
        *v *= factor(layer.hidden_dropout, layer.hidden_site, at / hidden_width, at % hidden_width);
        *v = match layer.activation {
            Activation::Relu => v.max(0.0),
            Activation::Gelu => gelu(*v),
            Activation::Mish => *v * v.exp().ln_1p().tanh(),
        };
    }
    let update = apply(&hidden, &parameters[2], &parameters[3], hidden_width, width);
    (0..x.len())
        .map(|at| x[at] + update[at] * factor(layer.output_dropout, layer.output_site, at / width, at % width))
        .collect()
}

// ---- comparison ------------------------------------------------------------------------------------------------------

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&v| f64::from(v)).collect()
}

/// Largest difference over the largest magnitude.
fn distance(a: &[f32], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let scale = b.iter().fold(1e-3f64, |m, v| m.max(v.abs()));
    a.iter().zip(b).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max) / scale
}

/// Checks analytic gradients of `Σ weights · f` against central differences in f64, at some entries of every input.
fn check_gradients(
    what: &str,
    inputs: &[Vec<f64>],
    weights: &[f32],
    f: impl Fn(&[Vec<f64>]) -> Vec<f64>,
    gradients: &[&[f32]],
) {
    let objective = |inputs: &[Vec<f64>]| f(inputs).iter().zip(weights).map(|(y, w)| y * f64::from(*w)).sum::<f64>();
    let largest = |gradient: &[f32]| gradient.iter().fold(0f64, |m, v| m.max(f64::from(v.abs())));
    let overall = gradients.iter().map(|gradient| largest(gradient)).fold(0.0, f64::max);
    for (which, gradient) in gradients.iter().enumerate() {
        assert_eq!(gradient.len(), inputs[which].len(), "{what}: size of gradient {which}");
        // The key bias of full attention has no influence at all: its gradient is rounding, small compared with the others.
        let scale = largest(gradient).max(0.1 * overall);
        let step = inputs[which].len().div_ceil(12);
        for at in (0..inputs[which].len()).step_by(step) {
            let h = 1e-6;
            let moved = |by: f64| {
                let mut inputs = inputs.to_vec();
                inputs[which][at] += by;
                objective(&inputs)
            };
            let expected = (moved(h) - moved(-h)) / (2.0 * h);
            let error = (f64::from(gradient[at]) - expected).abs() / scale;
            assert!(error < 2e-5, "{what}: gradient {which} at {at}: {} instead of {expected}", gradient[at]);
        }
    }
}

struct AttentionCase {
    x: Vec<f32>,
    maps: [OwnedLinear; 4],
    pattern: Arc<KeptKeys>,
}

const SHAPES: [(usize, usize, usize, usize, usize); 6] =
    // batch, length, width, heads, head width
    [(1, 1, 3, 1, 3), (3, 2, 4, 2, 4), (2, 7, 5, 2, 3), (2, 40, 16, 1, 16), (9, 13, 20, 4, 5), (2, 61, 8, 1, 24)];

impl AttentionCase {
    fn new((batch, length, width, heads, head_width): (usize, usize, usize, usize, usize)) -> Self {
        let inner = heads * head_width;
        AttentionCase {
            x: values(1, batch * length * width),
            maps: [
                OwnedLinear::new(2, width, inner),
                OwnedLinear::new(3, width, inner),
                OwnedLinear::new(4, width, inner),
                OwnedLinear::new(5, inner, width),
            ],
            pattern: Arc::new(KeptKeys::from_rows(length, |i| {
                (0..length).filter(move |j| j.abs_diff(i) % 3 == 0 || *j == 0)
            })),
        }
    }

    fn layer<'a>(
        &'a self,
        (_, length, width, heads, head_width): (usize, usize, usize, usize, usize),
        selection: &'a Selection,
        dropout: f64,
    ) -> AttentionKernel<'a> {
        let root = Key::new(77);
        AttentionKernel {
            length,
            width,
            heads,
            head_width,
            query: self.maps[0].view(),
            key: self.maps[1].view(),
            value: self.maps[2].view(),
            output: self.maps[3].view(),
            selection,
            weighting: FusedWeighting::Softmax,
            scale: 1.3 / (head_width as f32).sqrt(),
            epsilon: 1e-5,
            weight_dropout: Dropout::new(dropout),
            weight_site: root.child(0),
            output_dropout: Dropout::new(dropout / 2.0),
            output_site: root.child(1),
            rule_site: root.child(2),
        }
    }

    fn inputs(&self) -> Vec<Vec<f64>> {
        let maps = self.maps.iter().flat_map(|map| [wide(&map.weight), wide(&map.bias)]);
        std::iter::once(wide(&self.x)).chain(maps).collect()
    }
}

#[test]
fn attention_equals_its_definition_and_central_differences() {
    for shape in SHAPES {
        let case = AttentionCase::new(shape);
        let rules = [TopKRule::highest(5), TopKRule::lowest(2), TopKRule::highest(37)];
        let rules = rules.map(|rule| Selection::Rule(Arc::new(rule)));
        let selections = [Selection::All, Selection::Pattern(case.pattern.clone())].into_iter().chain(rules);
        for selection in selections {
            for dropout in [0.0, 0.3] {
                let what = format!("{shape:?} {selection:?} dropout {dropout}");
                let layer = case.layer(shape, &selection, dropout);
                let (y, saved) = layer.forward(&case.x, true);
                let f = |inputs: &[Vec<f64>]| attention_definition(&layer, &inputs[0], &inputs[1..]);
                let inputs = case.inputs();
                let error = distance(&y, &f(&inputs));
                assert!(error < 3e-6, "{what}: values differ by {error}");
                assert_eq!(layer.forward(&case.x, false).0, y, "{what}: the same without saving");

                let weights = values(6, y.len());
                let g = layer.backward(&case.x, &saved.unwrap(), &weights);
                let maps = [&g.query, &g.key, &g.value, &g.output];
                let gradients: Vec<&[f32]> = std::iter::once(&g.x[..])
                    .chain(maps.into_iter().flat_map(|m| [&m.weight[..], &m.bias[..]]))
                    .collect();
                check_gradients(&what, &inputs, &weights, f, &gradients);
            }
        }
    }
}

#[test]
fn mlp_equals_its_definition_and_central_differences() {
    for (tokens, width, hidden_width) in [(1, 3, 2), (7, 5, 9), (61, 16, 16), (130, 20, 40)] {
        for activation in [Activation::Relu, Activation::Gelu, Activation::Mish] {
            for dropout in [0.0, 0.25] {
                let what = format!("{tokens}x{width}x{hidden_width} {activation:?} dropout {dropout}");
                let x = values(1, tokens * width);
                let maps = [OwnedLinear::new(2, width, hidden_width), OwnedLinear::new(3, hidden_width, width)];
                let layer = MlpKernel {
                    width,
                    hidden_width,
                    hidden: maps[0].view(),
                    output: maps[1].view(),
                    activation,
                    epsilon: 1e-5,
                    hidden_dropout: Dropout::new(dropout),
                    hidden_site: Key::new(5),
                    output_dropout: Dropout::new(dropout / 2.0),
                    output_site: Key::new(6),
                };
                let (y, saved) = layer.forward(&x, true);
                let inputs: Vec<Vec<f64>> = std::iter::once(wide(&x))
                    .chain(maps.iter().flat_map(|map| [wide(&map.weight), wide(&map.bias)]))
                    .collect();
                let f = |inputs: &[Vec<f64>]| mlp_definition(&layer, &inputs[0], &inputs[1..]);
                let error = distance(&y, &f(&inputs));
                assert!(error < 3e-6, "{what}: values differ by {error}");
                assert_eq!(layer.forward(&x, false).0, y, "{what}: the same without saving");
                let weights = values(6, y.len());
                let g = layer.backward(&x, &saved.unwrap(), &weights);
                let gradients = [&g.x[..], &g.hidden.weight, &g.hidden.bias, &g.output.weight, &g.output.bias];
                check_gradients(&what, &inputs, &weights, f, &gradients);
            }
        }
    }
}

/// Everything that forward and backward of both sublayers give, as bits.
fn all_bits() -> Vec<u32> {
    let mut bits = Vec::new();
    let rule = Arc::new(TopKRule::highest(5));
    for shape @ (batch, length, width, ..) in [(9, 13, 20, 4, 5), (11, 40, 64, 1, 64), (3, 101, 24, 2, 12)] {
        let case = AttentionCase::new(shape);
        let incoming = values(8, batch * length * width);
        for selection in [Selection::All, Selection::Pattern(case.pattern.clone()), Selection::Rule(rule.clone())] {
            let layer = case.layer(shape, &selection, 0.1);
            let (y, saved) = layer.forward(&case.x, true);
            let g = layer.backward(&case.x, &saved.unwrap(), &incoming);
            for part in [&y, &g.x, &g.query.weight, &g.query.bias, &g.key.weight, &g.value.weight, &g.output.weight] {
                bits.extend(part.iter().map(|v| v.to_bits()));
            }
        }
        for activation in [Activation::Relu, Activation::Gelu, Activation::Mish] {
            let maps = [OwnedLinear::new(2, width, 30), OwnedLinear::new(3, 30, width)];
            let dropout = Dropout::new(0.1);
            let layer = MlpKernel {
                width,
                hidden_width: 30,
                hidden: maps[0].view(),
                output: maps[1].view(),
                activation,
                epsilon: 1e-5,
                hidden_dropout: dropout,
                hidden_site: Key::new(5),
                output_dropout: dropout,
                output_site: Key::new(6),
            };
            let (y, saved) = layer.forward(&case.x, true);
            let g = layer.backward(&case.x, &saved.unwrap(), &incoming);
            for part in [&y, &g.x, &g.hidden.weight, &g.hidden.bias, &g.output.weight, &g.output.bias] {
                bits.extend(part.iter().map(|v| v.to_bits()));
            }
        }
    }
    bits
}

/// What [`all_bits`] gives on every processor, as a checksum.
const CHECKSUM: u64 = 0x8dd13581be4bf553;

/// Detects differences between processors that no test on a single machine can see.
#[test]
fn bits_are_those_of_every_other_processor() {
    // FNV-1a, a word at a time.
    let checksum = all_bits()
        .into_iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, word| (hash ^ u64::from(word)).wrapping_mul(0x100_0000_01b3));
    assert_eq!(
        checksum, CHECKSUM,
        "the kernels' results have other bits than before. If you meant to change the arithmetic, write `const CHECKSUM: u64 = \
         {checksum:#018x};` into crates/kernels/tests/sublayers.rs and run `.ci/aarch64 kernels`. If not, this processor rounds \
         differently, or a kernel does.",
    );
}

/// One test for both, because the choice of the instruction set holds for the whole process.
#[test]
fn threads_and_instruction_sets_do_not_change_a_bit() {
    let expected = all_bits();
    for threads in [1, 2, 4, 7] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        assert!(pool.install(all_bits) == expected, "{threads} threads");
    }
    let best = InstructionSet::current();
    for set in InstructionSet::available() {
        set.force();
        assert!(all_bits() == expected, "{set:?} against {best:?}");
    }
    best.force();
}
