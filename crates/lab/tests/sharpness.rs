//! Sharpness compared with an explicit Hessian: the models are so small that each row can be computed by differences of
//! gradients, here with nothing but Burn's loss and Burn's autodiff.

use burn::module::Module;
use burn::tensor::{DType, Device, TensorData};
use semfocus_fixture::Scratch;
use semfocus_lab::surface::hessian::{self, Differences, Hessian, SharpnessError, SharpnessOptions};
use semfocus_lab::surface::objective::Objective;
use semfocus_lab::training::batch;
use semfocus_nn::conformance::ZipEq;
use semfocus_nn::parameters::{named_gradients, named_parameters, set_parameters, to_f64};
use semfocus_nn::{Activation, Encoder, Engine, Key, ModelConfig, Pass, Registry, train};
use semfocus_store::{Sharpness, SharpnessRecord, TrialReader};
use semfocus_tasks::{Questions, Split};

/// More than one batch, the last one smaller.
const EXAMPLES: usize = 70;

const OPTIONS: SharpnessOptions = SharpnessOptions {
    samples: EXAMPLES,
    eigenvalues: 4,
    steps: 147,
    tolerance: 1e-6,
    probes: 30,
    seed: 5,
    differences: Differences::Exact,
};

/// Bits, labelled by whether the first and the last one differ.
fn even_pairs(length: usize) -> Split {
    let tokens: Vec<u16> = (0..EXAMPLES * length).map(|place| Key::new(8).below(place as u32, 2) as u16).collect();
    let labels = tokens.chunks(length).map(|bits| u16::from(bits[0] != bits[length - 1]));
    Split {
        questions: Questions::classification(labels),
        tokens,
        lengths: vec![length; EXAMPLES],
        length,
        floor: None,
        characters: None,
    }
}

/// Multiplies the parameters whose names start with `prefix`.
fn enlarged(model: Encoder, prefix: &str, factor: f64) -> Encoder {
    let larger = named_parameters(&model).into_iter().map(|(name, data)| {
        let factor = if name.starts_with(prefix) { factor } else { 1.0 };
        let values: Vec<f64> = data.iter::<f64>().map(|value| factor * value).collect();
        (name, TensorData::new(values, data.shape().clone()))
    });
    set_parameters(model, larger.collect::<Vec<_>>()).unwrap()
}

/// A model of 147 parameters after a few steps of training from weights large enough for the mechanisms to differ.
fn trained(mechanism: &str, activation: Activation, split: &Split) -> Encoder {
    let config = ModelConfig { d_model: 4, d_mlp: 5, blocks: 1, activation, ..ModelConfig::new(2, 2) };
    let attention = Registry::standard().parse(mechanism).unwrap();
    let model = Encoder::new(config, attention, 3, &Device::flex().autodiff()).unwrap();
    let mut model = enlarged(model, "", 3.0);
    for step in 0..20 {
        let batch = batch(split, 0..25, &Device::flex());
        (model, _) = train::step(model, &mut train::Sgd, batch, Pass::training(1, step), 0.1, 0.5);
    }
    model
}

/// The same model in double precision with the reference form.
fn exact_copy(model: &Encoder) -> Encoder {
    let config = ModelConfig { engine: Engine::Reference, ..model.config().clone() };
    let copy = Encoder::new(config, model.attention().clone(), 0, &Device::flex().autodiff()).unwrap();
    set_parameters(to_f64(copy), named_parameters(model)).unwrap()
}

fn values(parameters: &[(String, TensorData)]) -> Vec<f64> {
    parameters.iter().flat_map(|(_, data)| data.iter::<f64>().collect::<Vec<_>>()).collect()
}

/// All rows of the Hessian, by central differences of Burn's gradient of the whole loss.
fn explicit_hessian(model: &Encoder, split: &Split) -> Vec<Vec<f64>> {
    let model = exact_copy(model);
    let weights = named_parameters(&model);
    let step = 1e-7;
    let gradient = |number: usize, entry: usize, step: f64| {
        let mut weights = weights.clone();
        weights[number].1.as_mut_slice::<f64>().unwrap()[entry] += step;
        let model = set_parameters(model.clone(), weights).unwrap();
        let batch = batch(split, 0..EXAMPLES, &Device::flex());
        let loss = train::loss(model.forward(batch.tokens, Pass::evaluation(0, 0)), &batch.questions);
        values(&named_gradients(&model, &loss.backward()))
    };
    let mut rows = Vec::new();
    for (number, (_, data)) in weights.iter().enumerate() {
        for entry in 0..data.shape().num_elements() {
            let (ahead, behind) = (gradient(number, entry, step), gradient(number, entry, -step));
            rows.push(ahead.iter().zip_eq(behind).map(|(ahead, behind)| (ahead - behind) / (2.0 * step)).collect());
        }
    }
    rows
}

/// All eigenvalues of a symmetric matrix, largest first, by Jacobi rotations.
fn eigenvalues(mut matrix: Vec<Vec<f64>>) -> Vec<f64> {
    let size = matrix.len();
    for _ in 0..12 {
        for p in 0..size {
            for q in p + 1..size {
                if matrix[p][q] == 0.0 {
                    continue;
                }
                let half_gap = (matrix[q][q] - matrix[p][p]) / (2.0 * matrix[p][q]);
                let tangent = 1f64.copysign(half_gap) / (half_gap.abs() + half_gap.hypot(1.0));
                let cosine = 1.0 / tangent.hypot(1.0);
                let sine = tangent * cosine;
                for row in &mut matrix {
                    (row[p], row[q]) = (cosine * row[p] - sine * row[q], sine * row[p] + cosine * row[q]);
                }
                let (upper, lower) = matrix.split_at_mut(q);
                for (above, below) in upper[p].iter_mut().zip_eq(&mut lower[0]) {
                    (*above, *below) = (cosine * *above - sine * *below, sine * *above + cosine * *below);
                }
            }
        }
    }
    let mut found: Vec<f64> = (0..size).map(|row| matrix[row][row]).collect();
    found.sort_by(|a, b| b.total_cmp(a));
    found
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip_eq(b).map(|(a, b)| a * b).sum()
}

fn norm(vector: &[f64]) -> f64 {
    dot(vector, vector).sqrt()
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip_eq(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

fn random(dimension: usize, seed: u64) -> Vec<f64> {
    (0..dimension as u32).map(|column| f64::from(Key::new(seed).bits_at(column)) * 2f64.powi(-31) - 1.0).collect()
}

fn measure(model: &Encoder, split: &Split, options: &SharpnessOptions) -> Result<Sharpness, SharpnessError> {
    hessian::measure(model, split, options, &semfocus_lab::Device::cpu(), &mut |_, _| true)
}

const MODELS: [(&str, Activation); 4] = [
    ("full", Activation::Gelu),
    ("full", Activation::Relu),
    ("topk:2", Activation::Relu),
    ("banded:3", Activation::Mish),
];

#[test]
fn exact_differences_find_the_spectrum_of_the_hessian() {
    let split = even_pairs(4);
    for (mechanism, activation) in MODELS {
        let model = trained(mechanism, activation, &split);
        let hessian = explicit_hessian(&model, &split);
        let expected = eigenvalues(hessian.clone());
        let found = measure(&model, &split, &OPTIONS).unwrap();
        let scale = expected[0];
        println!("{mechanism}: {found:?}, expected {:?} to {:?}", &expected[..4], expected.last());
        assert_eq!(found.eigenvalues.len(), 4);
        for ((found, residual), expected) in found.eigenvalues.iter().zip_eq(&found.residuals).zip_eq(&expected[..4]) {
            assert!((found - expected).abs() < 1e-6 * scale, "{mechanism}: {found} instead of {expected}");
            assert!(*residual <= 1e-6 * found);
        }
        let min = *expected.last().unwrap();
        assert!((found.min - min).abs() < 1e-6 * scale + found.min_residual, "{mechanism}: {min}");
        let trace: f64 = expected.iter().sum();
        assert!((found.trace - trace).abs() < 4.0 * found.trace_error, "{mechanism}: {} or {trace}", found.trace);
        assert!(found.trace_error < 0.5 * trace.abs());
        let batch = batch(&split, 0..EXAMPLES, &Device::flex());
        let copy = exact_copy(&model);
        let loss = train::loss(copy.forward(batch.tokens, Pass::evaluation(0, 0)), &batch.questions);
        let gradient = values(&named_gradients(&copy, &loss.backward()));
        assert!((found.gradient_norm - norm(&gradient)).abs() < 1e-12);
        assert!((found.loss - loss.into_scalar::<f64>()).abs() < 1e-12);
    }
}

#[test]
fn products_are_those_of_the_hessian_and_symmetric() {
    let split = even_pairs(4);
    for (mechanism, activation) in MODELS {
        let model = trained(mechanism, activation, &split);
        let rows = explicit_hessian(&model, &split);
        let exact = Objective::exact(&model, &split, EXAMPLES);
        let fast = Objective::new(&model, &split, EXAMPLES, &semfocus_lab::Device::cpu());
        let (exact, fast) = (Hessian::new(&exact), Hessian::new(&fast));
        let (mut exact_error, mut fast_error, mut asymmetry) = (0f64, 0f64, 0f64);
        for seed in 0..5 {
            let (u, v) = (random(rows.len(), 2 * seed), random(rows.len(), 2 * seed + 1));
            let expected: Vec<f64> = rows.iter().map(|row| dot(row, &v)).collect();
            let (of_u, of_v) = (exact.times(&u), exact.times(&v));
            exact_error = exact_error.max(distance(&of_v, &expected) / norm(&expected));
            fast_error = fast_error.max(distance(&fast.times(&v), &expected) / norm(&expected));
            asymmetry = asymmetry.max((dot(&u, &of_v) - dot(&v, &of_u)).abs() / (norm(&u) * norm(&of_v)));
        }
        println!(
            "{mechanism} {activation:?}: exact {exact_error:.1e}, fast {fast_error:.1e}, asymmetry {asymmetry:.1e}"
        );
        assert!(exact_error < 1e-4 && asymmetry < 1e-5, "{mechanism}: {exact_error}, {asymmetry}");
        let limit = if activation == Activation::Relu { 0.05 } else { 0.01 };
        assert!(fast_error < limit, "{mechanism}: {fast_error}");
        assert_eq!(exact.times(&vec![0.0; rows.len()]), vec![0.0; rows.len()]);
    }
}

#[test]
fn single_precision_sees_the_same_sharpness_where_there_are_no_kinks() {
    let split = even_pairs(4);
    for activation in [Activation::Gelu, Activation::Mish] {
        let model = trained("full", activation, &split);
        let exact = measure(&model, &split, &OPTIONS).unwrap();
        let options = SharpnessOptions { differences: Differences::Fast, tolerance: 0.01, ..OPTIONS };
        let fast = measure(&model, &split, &options).unwrap();
        println!("{exact:?}\n{fast:?}");
        let scale = exact.eigenvalues[0];
        let close = |a: f64, b: f64| (a - b).abs() < 0.003 * scale;
        assert!(fast.eigenvalues.iter().zip_eq(&exact.eigenvalues).all(|(a, b)| close(*a, *b)));
        // The same random signs in both.
        assert!(close(fast.trace, exact.trace) && (fast.loss - exact.loss).abs() < 1e-6);
    }
}

#[test]
fn a_saturated_model_keeps_its_digits() {
    let split = even_pairs(4);
    let model = trained("full", Activation::Gelu, &split);
    // Label all examples as the model does, and make it sure of itself.
    let tokens = batch(&split, 0..EXAMPLES, &Device::flex()).tokens;
    let logits: Vec<f64> = model.valid().forward(tokens, Pass::evaluation(0, 0)).into_data().iter::<f64>().collect();
    let labels = logits.chunks(2).map(|logits| u16::from(logits[1] > logits[0]));
    let split = Split { questions: Questions::classification(labels), ..split };
    let min = logits.chunks(2).map(|logits| (logits[1] - logits[0]).abs()).fold(f64::INFINITY, f64::min);
    let model = enlarged(model, "classifier", 25.0 / min);
    let slopes = [
        Objective::new(&model, &split, EXAMPLES, &semfocus_lab::Device::cpu()),
        Objective::exact(&model, &split, EXAMPLES),
    ]
    .map(|objective| objective.slope(objective.weights()));
    let [fast, exact] = slopes;
    assert!(exact.loss > 0.0 && exact.loss < 1e-9, "loss {}", exact.loss);
    let error = distance(&fast.gradient, &exact.gradient) / norm(&exact.gradient);
    assert!(error < 1e-3, "relative error of the gradient {error}");
    let found = measure(&model, &split, &OPTIONS).unwrap();
    assert!(found.eigenvalues[0] > 0.0 && found.residuals[0] < 1e-5 * found.eigenvalues[0]);
}

#[test]
fn threads_do_not_change_a_bit() {
    let split = even_pairs(12);
    for mechanism in ["full", "topk:3", "randomk:3"] {
        let config = ModelConfig { d_model: 16, d_mlp: 24, heads: 2, blocks: 2, ..ModelConfig::new(2, 2) };
        let attention = Registry::standard().parse(mechanism).unwrap();
        let model = Encoder::new(config, attention, 3, &Device::flex()).unwrap();
        for differences in [Differences::Exact, Differences::Fast] {
            let options = SharpnessOptions { steps: 4, probes: 2, differences, ..OPTIONS };
            let with_threads = |threads: usize| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                pool.install(|| measure(&model, &split, &options).unwrap())
            };
            let one = with_threads(1);
            assert_eq!(one, with_threads(2), "{mechanism}");
            assert_ne!(one, measure(&model, &split, &SharpnessOptions { seed: 6, ..options }).unwrap());
        }
    }
}

#[test]
fn the_device_of_the_model_does_not_matter_and_it_stays_as_it_was() {
    let split = even_pairs(4);
    let model = trained("full", Activation::Relu, &split);
    let before = named_parameters(&model);
    let options = SharpnessOptions { steps: 3, probes: 2, ..OPTIONS };
    assert_eq!(measure(&model, &split, &options), measure(&model.valid(), &split, &options));
    assert_eq!(named_parameters(&model), before);
    let fast = SharpnessOptions { differences: Differences::Fast, ..options };
    let (single, double) =
        (measure(&model, &split, &fast).unwrap(), measure(&exact_copy(&model), &split, &fast).unwrap());
    assert_eq!(double, measure(&model, &split, &options).unwrap(), "a model in double precision is already exact");
    assert_ne!(single, double);
    let objective = Objective::new(&model, &split, EXAMPLES, &semfocus_lab::Device::cpu());
    assert_eq!((objective.precision(), objective.weights().len()), (DType::F32, 147));
    assert_eq!(objective.weights(), values(&before));
}

#[test]
fn a_diverged_model_is_an_error() {
    let split = even_pairs(4);
    for broken in [f64::NAN, f64::INFINITY] {
        let model = enlarged(trained("topk:2", Activation::Relu, &split), "blocks.0.mlp", broken);
        for differences in [Differences::Exact, Differences::Fast] {
            let options = SharpnessOptions { differences, ..OPTIONS };
            assert_eq!(measure(&model, &split, &options), Err(SharpnessError::NotFinite));
        }
    }
}

#[test]
fn progress_is_reported_and_can_stop_the_measurement() {
    let split = even_pairs(4);
    let model = trained("full", Activation::Relu, &split);
    let options = SharpnessOptions { samples: 10, steps: 20, tolerance: 0.1, probes: 3, ..OPTIONS };
    let mut told = Vec::new();
    let found = hessian::measure(&model, &split, &options, &semfocus_lab::Device::cpu(), &mut |done, total| {
        told.push((done, total));
        true
    });
    let products = found.unwrap().products;
    assert_eq!(told.iter().map(|(done, _)| *done).collect::<Vec<_>>(), (1..=products).collect::<Vec<_>>());
    assert!(told[0] == (1, 23) && told.last() == Some(&(products, products)) && products < 23, "{told:?}");
    let stopped = hessian::measure(&model, &split, &options, &semfocus_lab::Device::cpu(), &mut |done, _| done < 2);
    assert_eq!(stopped, Err(SharpnessError::Stopped));
}

#[test]
fn options_that_are_too_small_are_errors() {
    let split = even_pairs(4);
    let model = trained("full", Activation::Relu, &split);
    let message = |split: &Split, options: SharpnessOptions| measure(&model, split, &options).unwrap_err().to_string();
    assert_eq!(message(&split, SharpnessOptions { samples: 0, ..OPTIONS }), "sharpness needs at least 1 samples");
    assert_eq!(message(&Split::default(), OPTIONS), "sharpness needs at least 1 samples");
    assert_eq!(message(&split, SharpnessOptions { steps: 0, ..OPTIONS }), "sharpness needs at least 1 steps");
    assert_eq!(message(&split, SharpnessOptions { probes: 1, ..OPTIONS }), "sharpness needs at least 2 probes");
}

#[test]
fn what_is_written_is_read() {
    let split = even_pairs(4);
    let options = SharpnessOptions { steps: 5, ..OPTIONS };
    let record = SharpnessRecord {
        epoch: 3,
        samples: options.samples,
        exact: true,
        probes: options.probes,
        sharpness: measure(&trained("full", Activation::Relu, &split), &split, &options).unwrap(),
        seconds: 0.5,
    };
    let scratch = Scratch::new("sharpness");
    let folder = TrialReader::new(scratch.path().to_path_buf(), "a1".parse().unwrap());
    folder.writer(&semfocus_fixture::lease(folder.path()).unwrap()).add(&record).unwrap();
    assert_eq!(folder.measured::<SharpnessRecord>().unwrap(), [record]);
}
