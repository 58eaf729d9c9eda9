//! The fused sublayers against their definition in plain `f64` loops: values, and every gradient by central differences.

use std::sync::Arc;

use semfocus_kernels::{
    Activation, AttentionKernel, Dropout, FusedWeighting, HeadScalars, Hints, InstructionSet, KeptKeys, Key,
    LinearView, MlpKernel, Row, Selection, TopKRule, Visibility,
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

/// The weights of some scores, by their definition.
fn weights(weighting: FusedWeighting, alpha: f64, scores: &[f64]) -> Vec<f64> {
    let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let count = scores.len() as f64;
    let entmax = |alpha: f64| {
        let raised =
            |tau: f64| scores.iter().map(move |z| ((alpha - 1.0) * (z - max) - tau).max(0.0).powf(1.0 / (alpha - 1.0)));
        let (mut low, mut high) = (-1.0, 0.0);
        for _ in 0..55 {
            let middle = (low + high) / 2.0;
            *if raised(middle).sum::<f64>() >= 1.0 { &mut low } else { &mut high } = middle;
        }
        raised(low).collect()
    };
    match weighting {
        FusedWeighting::Softmax => {
            let sum: f64 = scores.iter().map(|z| (z - max).exp()).sum();
            scores.iter().map(|z| (z - max).exp() / sum).collect()
        }
        FusedWeighting::Sparsemax => entmax(2.0),
        FusedWeighting::Entmax15 => entmax(1.5),
        FusedWeighting::Entmax => entmax(alpha),
        FusedWeighting::Sigmoid => scores.iter().map(|z| 1.0 / (1.0 + count * (-z).exp())).collect(),
        FusedWeighting::Relu => scores.iter().map(|z| z.max(0.0) / count).collect(),
        kind => panic!("{kind:?} depends on dropped keys, too"),
    }
}

/// `parameters`: weight and bias of query, key, value, output; then temperature and α of each head.
fn attention_definition(layer: &AttentionKernel, x: &[f64], parameters: &[Vec<f64>]) -> Vec<f64> {
    let (length, width, heads, head_width) = (layer.length, layer.width, layer.heads, layer.head_width);
    let inner = heads * head_width;
    let mut y = Vec::new();
    for (b, x) in x.chunks(length * width).enumerate() {
        let n = normalise(x, width, f64::from(layer.epsilon));
        let [q, k, v] = [0, 2, 4].map(|p| apply(&n, &parameters[p], &parameters[p + 1], width, inner));
        let mut context = vec![0.0; length * inner];
        for h in 0..heads {
            let (temperature, alpha) = (parameters[8][2 * h], parameters[8][2 * h + 1]);
            for i in 0..length {
                let row = (b * heads + h) * length + i;
                let visible = if layer.visibility == Visibility::Causal { i + 1 } else { length };
                let at = |m: &[f64], t: usize, c: usize| m[t * inner + h * head_width + c];
                let factor_of_scores = f64::from(layer.scale) * temperature;
                let scores: Vec<f64> = (0..visible)
                    .map(|j| factor_of_scores * (0..head_width).map(|c| at(&q, i, c) * at(&k, j, c)).sum::<f64>())
                    .collect();
                let mut kept = Vec::new();
                match layer.selection {
                    Selection::All => kept.extend(0..visible as u32),
                    Selection::Pattern(pattern) => kept.extend_from_slice(pattern.row(i)),
                    Selection::Rule(rule) => {
                        let scores: Vec<f32> = scores.iter().map(|&s| s as f32).collect();
                        rule.select(&Row::of_scores(&scores), &mut kept);
                    }
                }
                let pick = |from: &[f64]| kept.iter().map(|&j| from[j as usize]).collect::<Vec<f64>>();
                let kept_weights = match layer.weighting {
                    FusedWeighting::MaskedSoftmax => pick(&weights(FusedWeighting::Softmax, alpha, &scores)),
                    weighting => weights(weighting, alpha, &pick(&scores)),
                };
                for (&j, weight) in kept.iter().zip(kept_weights) {
                    let j = j as usize;
                    let weight = weight * factor(layer.weight_dropout, layer.weight_site, row, j);
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
            // The gradient of a temperature is a sum over all entries of a map, of both signs: it has fewer exact digits.
            let tolerance = if which == 9 { 5e-4 } else { 2e-5 };
            assert!(error < tolerance, "{what}: gradient {which} at {at}: {} instead of {expected}", gradient[at]);
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
            visibility: Visibility::All,
            weighting: FusedWeighting::Softmax,
            head_scalars: &SCALARS[..heads],
            scale: 1.3 / (head_width as f32).sqrt(),
            epsilon: 1e-5,
            weight_dropout: Dropout::new(dropout),
            weight_site: root.child(0),
            output_dropout: Dropout::new(dropout / 2.0),
            output_site: root.child(1),
            hints: Hints {
                layer: 0,
                tokens: &[],
                relevant: &[],
                initial_maps: None,
                draw_key: root.child(2),
                fixed_key: Key::new(9),
            },
        }
    }

    fn inputs(&self, heads: usize) -> Vec<Vec<f64>> {
        let maps = self.maps.iter().flat_map(|map| [wide(&map.weight), wide(&map.bias)]);
        let scalars = SCALARS[..heads].iter().flat_map(|scalars| [scalars.temperature, scalars.alpha]);
        std::iter::once(wide(&self.x)).chain(maps).chain([scalars.map(f64::from).collect()]).collect()
    }
}

/// Temperature and α of up to four heads.
const SCALARS: [HeadScalars; 4] = [
    HeadScalars { temperature: 1.0, alpha: 1.5 },
    HeadScalars { temperature: 0.7, alpha: 1.3 },
    HeadScalars { temperature: 1.8, alpha: 1.9 },
    HeadScalars { temperature: 1.2, alpha: 1.15 },
];

/// Compares values and all gradients with the definition.
fn check_attention(shape: (usize, usize, usize, usize, usize), case: &AttentionCase, layer: &AttentionKernel) {
    let AttentionKernel { selection, weighting, visibility, weight_dropout, .. } = layer;
    let what = format!("{shape:?} {visibility:?} {selection:?} {weighting:?} {weight_dropout:?}");
    let (y, saved) = layer.forward(&case.x, true);
    let f = |inputs: &[Vec<f64>]| attention_definition(layer, &inputs[0], &inputs[1..]);
    let inputs = case.inputs(shape.3);
    let error = distance(&y, &f(&inputs));
    assert!(error < 3e-6, "{what}: values differ by {error}");
    assert_eq!(layer.forward(&case.x, false).0, y, "{what}: the same without saving");

    let weights = values(6, y.len());
    let g = layer.backward(&saved.unwrap(), &weights);
    let maps = [&g.query, &g.key, &g.value, &g.output];
    let scalars: Vec<f32> = g.head_scalars.iter().flat_map(|scalars| [scalars.temperature, scalars.alpha]).collect();
    let gradients: Vec<&[f32]> = std::iter::once(&g.x[..])
        .chain(maps.into_iter().flat_map(|m| [&m.weight[..], &m.bias[..]]))
        .chain([&scalars[..]])
        .collect();
    check_gradients(&what, &inputs, &weights, f, &gradients);
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
                check_attention(shape, &case, &case.layer(shape, &selection, dropout));
            }
        }
    }
}

#[test]
fn every_visibility_and_weighting_equals_its_definition_and_central_differences() {
    use FusedWeighting::{Entmax, Entmax15, MaskedSoftmax, Relu, Sigmoid, Softmax, Sparsemax};
    // Heads as wide as the model, whose maps are folded, and narrow ones; one token; more tokens than a block of queries.
    for shape in [(2, 1, 3, 2, 3), (2, 7, 5, 2, 3), (2, 19, 8, 1, 8), (3, 13, 20, 4, 5), (1, 61, 4, 1, 4)] {
        let case = AttentionCase::new(shape);
        for visibility in [Visibility::All, Visibility::Causal] {
            let pattern = Selection::Pattern(Arc::new(case.pattern.visible(visibility)));
            let rule = Selection::Rule(Arc::new(TopKRule::highest(5)));
            for selection in [Selection::All, pattern, rule] {
                for weighting in [Softmax, Sparsemax, Entmax15, Entmax, Sigmoid, Relu, MaskedSoftmax] {
                    let layer = case.layer(shape, &selection, 0.3);
                    check_attention(shape, &case, &AttentionKernel { visibility, weighting, ..layer });
                }
            }
        }
    }
}

#[test]
fn a_causal_row_does_not_depend_on_later_tokens() {
    let shape @ (_, length, width, ..) = (1, 61, 16, 1, 16);
    let case = AttentionCase::new(shape);
    for selection in [Selection::All, Selection::Rule(Arc::new(TopKRule::highest(5)))] {
        let layer = AttentionKernel { visibility: Visibility::Causal, ..case.layer(shape, &selection, 0.1) };
        let (y, _) = layer.forward(&case.x, false);
        let mut changed = case.x.clone();
        changed[40 * width..].iter_mut().for_each(|value| *value += 1.0 + value.abs());
        let (other, _) = layer.forward(&changed, false);
        assert_eq!(y[..40 * width], other[..40 * width]);
        assert!((40..length).all(|row| y[row * width] != other[row * width]));
    }
}

#[test]
fn not_a_number_reaches_the_result() {
    let shape @ (_, length, width, ..) = (1, 20, 16, 1, 16);
    let mut case = AttentionCase::new(shape);
    case.x[7 * width] = f32::NAN;
    let rules = [TopKRule::highest(5), TopKRule::lowest(2)].map(|rule| Selection::Rule(Arc::new(rule)));
    for selection in [Selection::All, Selection::Pattern(case.pattern.clone())].into_iter().chain(rules) {
        for visibility in [Visibility::All, Visibility::Causal] {
            let selection = match &selection {
                Selection::Pattern(pattern) => Selection::Pattern(Arc::new(pattern.visible(visibility))),
                other => other.clone(),
            };
            let layer = AttentionKernel { visibility, ..case.layer(shape, &selection, 0.0) };
            let (y, saved) = layer.forward(&case.x, true);
            assert!(y[7 * width..8 * width].iter().all(|value| value.is_nan()), "{selection:?}");
            assert!((0..length).any(|row| row != 7 && y[row * width].is_nan()) || visibility == Visibility::Causal);
            layer.backward(&saved.unwrap(), &vec![1.0; y.len()]);
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
                let g = layer.backward(&saved.unwrap(), &weights);
                let gradients = [&g.x[..], &g.hidden.weight, &g.hidden.bias, &g.output.weight, &g.output.bias];
                check_gradients(&what, &inputs, &weights, f, &gradients);
            }
        }
    }
}

/// Weightings of the kept keys alone.
const OF_KEPT: [(Visibility, FusedWeighting); 7] = [
    (Visibility::All, FusedWeighting::Softmax),
    (Visibility::Causal, FusedWeighting::Softmax),
    (Visibility::All, FusedWeighting::Sparsemax),
    (Visibility::Causal, FusedWeighting::Entmax15),
    (Visibility::All, FusedWeighting::Entmax),
    (Visibility::Causal, FusedWeighting::Sigmoid),
    (Visibility::All, FusedWeighting::Relu),
];

/// Weightings that involve dropped keys.
const OF_ALL: [(Visibility, FusedWeighting); 4] = [
    (Visibility::All, FusedWeighting::StraightThrough),
    (Visibility::Causal, FusedWeighting::GradientOfKept),
    (Visibility::All, FusedWeighting::MaskedSoftmax),
    (Visibility::Causal, FusedWeighting::MaskedSoftmax),
];

/// Everything that forward and backward of both sublayers give, as bits.
fn all_bits() -> Vec<u32> {
    [bits_of(&OF_KEPT), bits_of(&OF_ALL)].concat()
}

fn bits_of(weightings: &[(Visibility, FusedWeighting)]) -> Vec<u32> {
    let mut bits = Vec::new();
    let rule = Arc::new(TopKRule::highest(5));
    for shape @ (batch, length, width, ..) in [(9, 13, 20, 4, 5), (11, 40, 64, 1, 64), (3, 101, 24, 2, 12)] {
        let case = AttentionCase::new(shape);
        let incoming = values(8, batch * length * width);
        for selection in [Selection::All, Selection::Pattern(case.pattern.clone()), Selection::Rule(rule.clone())] {
            let layer = case.layer(shape, &selection, 0.1);
            for &(visibility, weighting) in weightings {
                let selection = match &selection {
                    Selection::Pattern(pattern) => Selection::Pattern(Arc::new(pattern.visible(visibility))),
                    other => other.clone(),
                };
                let layer = AttentionKernel { selection: &selection, visibility, weighting, ..layer };
                let (y, saved) = layer.forward(&case.x, true);
                let g = layer.backward(&saved.unwrap(), &incoming);
                let maps = [&g.query.weight, &g.query.bias, &g.key.weight, &g.value.weight, &g.output.weight];
                for part in [&y, &g.x].into_iter().chain(maps) {
                    bits.extend(part.iter().map(|v| v.to_bits()));
                }
                bits.extend(g.head_scalars.iter().flat_map(|n| [n.temperature.to_bits(), n.alpha.to_bits()]));
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
            let g = layer.backward(&saved.unwrap(), &incoming);
            for part in [&y, &g.x, &g.hidden.weight, &g.hidden.bias, &g.output.weight, &g.output.bias] {
                bits.extend(part.iter().map(|v| v.to_bits()));
            }
        }
    }
    bits
}

/// What [`bits_of`] gives on every processor for [`OF_KEPT`], as a checksum.
const CHECKSUM: u64 = 0x4831e553acae9d1e;

/// Detects differences between processors that no test on a single machine can see.
#[test]
fn bits_are_those_of_every_other_processor() {
    // FNV-1a, a word at a time.
    let checksum = bits_of(&OF_KEPT)
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
