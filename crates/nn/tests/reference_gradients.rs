//! The reference form against central differences in double precision, for every mechanism and every parameter; and the
//! properties of the model that do not depend on how it is computed.

mod common;

use burn::tensor::{Device, TensorData};
use common::{
    labels, loss_of, mechanisms, model_options, questions, relevant, relevant_to_queries, small_specs, tokens,
};
use semfocus_nn::conformance::ZipEq;
use semfocus_nn::parameters::NamedGradients;
use semfocus_nn::{
    Activation, Encoder, Engine, Initialisation, Key, ModelConfig, Pass, PositionKind, Registry, Visibility,
    parameters, train,
};

const ACTIVATIONS: [Activation; 3] = [Activation::Relu, Activation::Gelu, Activation::Mish];

fn small(activation: Activation) -> ModelConfig {
    ModelConfig {
        d_model: 6,
        d_head: Some(4),
        heads: 2,
        blocks: 2,
        d_mlp: 5,
        activation,
        dropout: 0.2,
        inverse_temperature: 1.3,
        engine: Engine::Reference,
        ..ModelConfig::new(4, 3)
    }
}

/// Initial weights make nearly equal scores and tiny gradients; four times as large, the mechanisms really differ. Scales and shifts
/// of norms leave their initial values.
fn spread(model: Encoder) -> Encoder {
    let larger = parameters::named_parameters(&model).into_iter().map(|(name, data)| {
        let is_norm = name.starts_with("norm.") || name.contains(".norm.");
        let moved = |place: usize| 0.3 * (f64::from(Key::new(place as u64).bits_at(7)) / 2f64.powi(31) - 1.0);
        let change = |(place, value)| if is_norm { value + moved(place) } else { 4.0 * value };
        let values: Vec<f64> = data.iter::<f64>().enumerate().map(change).collect();
        (name, TensorData::new(values, data.shape().clone()))
    });
    parameters::set_parameters(model, larger.collect::<Vec<_>>()).unwrap()
}

fn check_gradients(spec: &str, config: ModelConfig, pass: Pass) {
    check_gradients_of(spec, config, pass, relevant);
}

/// `relevant` gives the model its relevant keys.
fn check_gradients_of(spec: &str, config: ModelConfig, pass: Pass, relevant: fn(Encoder) -> Encoder) {
    let what = format!("{spec} {config:?}");
    let device = Device::flex().autodiff();
    let attention = mechanisms::registry().parse(spec).unwrap();
    let model = relevant(Encoder::new(config, attention, 3, &device).unwrap());
    let model = spread(parameters::to_f64(model));
    let (tokens, questions) = (tokens(3, 5, 4, &device), questions(3, 5, 3));

    let loss = train::loss(model.forward_at(tokens.clone(), &questions, pass), &questions);
    let gradients = parameters::named_gradients(&model, &loss.backward());
    let parameters = parameters::named_parameters(&model);
    let mut largest = 0f64;
    for (which, (name, gradient)) in gradients.iter().enumerate() {
        let gradient: Vec<f64> = gradient.iter::<f64>().collect();
        // A few entries of each tensor, other ones in each.
        for sample in 0..gradient.len().min(5) {
            let entry = Key::new(which as u64).below(sample as u32, gradient.len() as u32) as usize;
            let shifted = |step: f64| {
                let mut parameters = parameters.clone();
                let (_, data) = &mut parameters[which];
                data.as_mut_slice::<f64>().unwrap()[entry] += step;
                let model = parameters::set_parameters(model.clone(), parameters).unwrap();
                loss_of(&model, &tokens, &questions, pass)
            };
            let step = 2e-6;
            let expected = (shifted(step) - shifted(-step)) / (2.0 * step);
            let error = (gradient[entry] - expected).abs();
            // The two losses have rounding errors of some 1e-15, which the step divides.
            assert!(
                error <= 1e-5 * expected.abs().max(4e-4),
                "{what}: {name}[{entry}] is {}, differences say {expected}",
                gradient[entry]
            );
            largest = largest.max(expected.abs());
        }
    }
    assert!(largest > 1e-2, "{what}: gradients are all tiny, nothing was tested");
}

#[test]
fn gradients_agree_with_finite_differences() {
    // The gradients of these are not those of their weights, on purpose.
    let differ = ["stk:2", "gradk:2"];
    for spec in small_specs().into_iter().filter(|spec| !differ.contains(&spec.as_str())) {
        for (step, activation) in ACTIVATIONS.into_iter().enumerate() {
            check_gradients(&spec, small(activation), Pass::training(1, step as u64));
        }
        check_gradients(&spec, small(Activation::Gelu), Pass::evaluation(1, 0));
    }
}

#[test]
fn gradients_of_all_options_agree_with_finite_differences() {
    for (name, change) in model_options() {
        let mut config = small(Activation::Gelu);
        change(&mut config);
        for spec in ["full", "topk:2", "entmax:learned", "initial-maps"] {
            check_gradients(spec, config.clone(), Pass::training(1, name.len() as u64));
        }
        if config.visibility == Visibility::All {
            check_gradients("banded:2+g2", config, Pass::evaluation(1, 0));
        }
    }
}

#[test]
fn options_have_their_parameters_and_initial_values() {
    let attention = || Registry::standard().parse("block:5+g3").unwrap();
    let with = |change: fn(&mut ModelConfig)| {
        let mut config = ModelConfig { blocks: 2, ..small(Activation::Relu) };
        change(&mut config);
        let model = Encoder::new(config, attention(), 1, &Device::flex()).unwrap();
        let values = |data: TensorData| data.iter::<f64>().collect::<Vec<f64>>();
        parameters::named_parameters(&model)
            .into_iter()
            .map(|(name, data)| (name, data.shape().to_vec(), values(data)))
            .collect::<Vec<_>>()
    };
    let names = |change| with(change).into_iter().map(|(name, shape, _)| (name, shape)).collect::<Vec<_>>();
    let plain = names(|_| ());
    let is_like_plain = |found: &[(String, Vec<usize>)], more: &[(&str, &[usize])], less: &[&str]| {
        let kept = plain.iter().filter(|(name, _)| !less.iter().any(|less| name.contains(less)));
        let more = more.iter().map(|(name, shape)| ((*name).to_owned(), shape.to_vec()));
        let mut expected: Vec<_> = kept.cloned().chain(more).collect();
        let mut found = found.to_vec();
        expected.sort();
        found.sort();
        assert_eq!(found, expected);
    };
    let learned = |c: &mut ModelConfig| (c.positions, c.length) = (PositionKind::Learned, 5);
    is_like_plain(&names(learned), &[("positions", &[8, 6])], &[]);
    is_like_plain(&names(|c| c.tied = true), &[], &["classifier.weight"]);
    is_like_plain(&names(|c| c.d_mlp = 0), &[], &[".mlp."]);
    is_like_plain(&names(|c| c.final_norm = true), &[], &[]);
    let of_norms =
        ["blocks.0.attention.norm", "blocks.0.mlp.norm", "blocks.1.attention.norm", "blocks.1.mlp.norm", "norm"];
    let of_norms = of_norms.iter().flat_map(|name| [format!("{name}.scale"), format!("{name}.shift")]);
    let of_norms = of_norms.collect::<Vec<_>>();
    let of_norms: Vec<(&str, &[usize])> = of_norms.iter().map(|name| (name.as_str(), &[6][..])).collect();
    is_like_plain(&names(|c| (c.affine_norms, c.final_norm) = (true, true)), &of_norms, &[]);
    is_like_plain(&names(|c| c.affine_norms = true), &of_norms[..8], &[]);

    for (name, _, values) in with(|c| (c.affine_norms, c.final_norm) = (true, true)) {
        assert!(!name.ends_with("norm.scale") || values.iter().all(|value| *value == 1.0), "{name}");
        assert!(!name.ends_with("norm.shift") || values.iter().all(|value| *value == 0.0), "{name}");
    }
    // Wide enough to tell the deviations apart.
    let gpt2 = with(|c| {
        (c.initialisation, c.positions, c.length) = (Initialisation::Gpt2, PositionKind::Learned, 500);
        (c.vocabulary, c.d_model, c.d_mlp, c.classes) = (500, 40, 50, 60);
    });
    for (name, _, values) in gpt2 {
        let deviation = (values.iter().map(|value| value * value).sum::<f64>() / values.len() as f64).sqrt();
        let expected = if name.ends_with(".bias") {
            0.0
        } else if name.ends_with(".output.weight") {
            0.01 // two blocks have four sublayers
        } else {
            0.02
        };
        assert!((deviation - expected).abs() <= 0.1 * expected, "{name}: {deviation}, not {expected}");
    }
}

#[test]
fn gradients_agree_where_queries_have_their_own_relevant_keys() {
    for spec in ["oracle:1", "oracle:2", "oracle:4", "antioracle:1", "antioracle:2"] {
        check_gradients_of(spec, small(Activation::Gelu), Pass::training(1, 0), relevant_to_queries);
    }
}

#[test]
fn parameters_have_their_names_and_shapes() {
    let attention = Registry::standard().parse("block:5+g3").unwrap();
    let config = ModelConfig { blocks: 1, ..small(Activation::Relu) };
    let model = relevant(Encoder::new(config, attention, 1, &Device::flex()).unwrap());
    let found: Vec<(String, Vec<usize>)> =
        parameters::named_parameters(&model).into_iter().map(|(name, data)| (name, data.shape().to_vec())).collect();
    let expected = [
        ("embedding", vec![7, 6]),
        ("blocks.0.attention.query.weight", vec![6, 8]),
        ("blocks.0.attention.query.bias", vec![8]),
        ("blocks.0.attention.key.weight", vec![6, 8]),
        ("blocks.0.attention.key.bias", vec![8]),
        ("blocks.0.attention.value.weight", vec![6, 8]),
        ("blocks.0.attention.value.bias", vec![8]),
        ("blocks.0.attention.output.weight", vec![8, 6]),
        ("blocks.0.attention.output.bias", vec![6]),
        ("blocks.0.mlp.hidden.weight", vec![6, 5]),
        ("blocks.0.mlp.hidden.bias", vec![5]),
        ("blocks.0.mlp.output.weight", vec![5, 6]),
        ("blocks.0.mlp.output.bias", vec![6]),
        ("classifier.weight", vec![6, 3]),
        ("classifier.bias", vec![3]),
    ];
    assert_eq!(found, expected.map(|(name, shape)| (name.to_owned(), shape)));
}

#[test]
fn mechanisms_share_their_initial_weights() {
    let values = |spec: &str, seed| {
        let attention = Registry::standard().parse(spec).unwrap();
        let model = relevant(Encoder::new(small(Activation::Relu), attention, seed, &Device::flex()).unwrap());
        // Parameters that a mechanism has of its own are not shared.
        let named = parameters::named_parameters(&model).into_iter().filter(|(name, _)| !name.ends_with("mechanism"));
        named.map(|(name, data)| (name, data.iter::<f32>().collect())).collect::<Vec<(String, Vec<f32>)>>()
    };
    let full = values("full", 7);
    for spec in small_specs() {
        for ((name, a), (other_name, b)) in full.iter().zip_eq(values(&spec, 7)) {
            assert_eq!(*name, other_name);
            // Global tokens add rows at the end of the embedding and change nothing else.
            assert_eq!(a[..], b[..a.len()], "{spec}: {name}");
        }
    }
    let other = values("full", 8);
    assert!(
        full.iter().zip_eq(&other).all(|(a, b)| a.1 != b.1 || a.0 == "classifier.bias"),
        "another seed, other weights"
    );
    let bound = |name: &str| full.iter().find(|(n, _)| n == name).unwrap().1.iter().fold(0f32, |m, x| m.max(x.abs()));
    assert!((0.05..=0.1).contains(&bound("embedding")) && (0.05..=0.1).contains(&bound("classifier.weight")));
    assert!((0.3..=1.0 / 6f32.sqrt()).contains(&bound("blocks.1.mlp.hidden.weight")));
    assert!((0.2..=1.0 / 8f32.sqrt()).contains(&bound("blocks.0.attention.output.bias")));
    assert_eq!(bound("classifier.bias"), 0.0);
}

#[test]
fn a_trace_shows_what_attention_did() {
    let device = Device::flex();
    for spec in small_specs() {
        let attention = Registry::standard().parse(&spec).unwrap();
        let globals = attention.spec.globals;
        let model = relevant(Encoder::new(small(Activation::Relu), attention, 3, &device).unwrap());
        let (batch, length) = (3, 5 + globals);
        let pass = Pass::evaluation(1, 4);
        let rows = model.token_rows(tokens(batch, 5, 4, &device));
        let (logits, traces) = model.trace(0, model.embedded(tokens(batch, 5, 4, &device)), Some(&rows), pass);
        assert_eq!(logits.into_data(), model.forward(tokens(batch, 5, 4, &device), pass).into_data());
        assert_eq!(traces.len(), 2);
        for trace in traces.into_iter().map(|layer| layer.attention) {
            assert_eq!(trace.scores.dims(), [batch, 2, length, length]);
            let kept: Vec<bool> = trace.kept.into_data().iter::<bool>().collect();
            let weights: Vec<f32> = trace.weights.into_data().iter::<f32>().collect();
            for (kept, weights) in kept.chunks(length).zip_eq(weights.chunks(length)) {
                let sum = weights.iter().sum::<f32>();
                let is_normal = !["sigmoid", "relu", "maskedk:2", "differential"].contains(&spec.as_str());
                assert!(!is_normal || (sum - 1.0).abs() < 1e-5, "{spec}: {sum}");
                let has_all = !["relu", "sparsemax", "entmax", "differential"].contains(&spec.as_str());
                let is_right =
                    |kept: bool, weight: f32| if has_all { kept == (weight > 0.0) } else { kept || weight == 0.0 };
                assert!(kept.iter().zip_eq(weights).all(|(&kept, &weight)| is_right(kept, weight)), "{spec}");
            }
        }
    }
}

#[test]
fn enough_size_acts_as_full() {
    let device = Device::flex();
    let logits = |spec: &str| {
        let attention = Registry::standard().parse(spec).unwrap();
        let model = relevant(Encoder::new(small(Activation::Relu), attention, 3, &device).unwrap());
        model.forward(tokens(2, 7, 4, &device), Pass::training(1, 0)).into_data()
    };
    let full = logits("full");
    for name in ["banded", "block", "topk", "bottomk", "randomk", "fixedk", "hashk", "frozenk", "shuffledk", "oracle"] {
        assert_ne!(logits(&format!("{name}:2")), full, "{name}");
        for size in [7, 8, 99] {
            assert_eq!(logits(&format!("{name}:{size}")), full, "{name}:{size}");
        }
    }
}

#[test]
fn passes_differ_where_they_should() {
    let device = Device::flex();
    let logits = |spec: &str, change: fn(&mut ModelConfig), pass: Pass| {
        let mut config = small(Activation::Relu);
        change(&mut config);
        let attention = Registry::standard().parse(spec).unwrap();
        let model = relevant(Encoder::new(config, attention, 3, &device).unwrap());
        model.forward(tokens(2, 7, 4, &device), pass).into_data()
    };
    let [train0, train1] = [0, 1].map(|step| Pass::training(1, step));
    let [eval0, eval1] = [0, 1].map(|step| Pass::evaluation(1, step));
    let plain: fn(&mut ModelConfig) = |_| ();
    // Dropout is drawn anew for every training step, and absent in evaluation.
    assert_ne!(logits("full", plain, train0), logits("full", plain, train1));
    assert_eq!(logits("full", plain, train0), logits("full", plain, train0));
    assert_eq!(logits("full", plain, eval0), logits("full", plain, eval1));
    assert_eq!(logits("full", |c| c.dropout = 0.0, train0), logits("full", plain, eval0));
    // Random keys are drawn anew in evaluation too.
    assert_ne!(logits("randomk:2", plain, eval0), logits("randomk:2", plain, eval1));
    // The quirks: dropout that stays, the norm without epsilon, padding.
    let stays: fn(&mut ModelConfig) = |c| c.quirks.dropout_in_evaluation = true;
    assert_ne!(logits("full", stays, eval0), logits("full", stays, eval1));
    assert_ne!(logits("full", |c| c.quirks.first_norm_without_eps = true, eval0), logits("full", plain, eval0));
    let padded: fn(&mut ModelConfig) = |c| {
        c.pad_token = Some(3);
        c.quirks.pad_to_mask_multiple = true;
    };
    assert_eq!(logits("full", padded, eval0), logits("full", plain, eval0), "no size, no padding");
    assert_eq!(logits("topk:7", padded, eval0), logits("topk:7", plain, eval0), "7 tokens are a multiple of 7");
    assert_ne!(logits("topk:5", padded, eval0), logits("topk:5", plain, eval0), "padded to 10 tokens");
}

#[test]
fn parameters_that_do_not_fit_are_refused() {
    let attention = Registry::standard().parse("full").unwrap();
    let model = relevant(Encoder::new(small(Activation::Relu), attention, 3, &Device::flex()).unwrap());
    let parameters = parameters::named_parameters(&model);
    let refused = |parameters: Vec<(String, TensorData)>| {
        parameters::set_parameters(model.clone(), parameters).unwrap_err().to_string()
    };
    assert_eq!(refused(parameters[1..].to_vec()), "parameter `embedding` is missing");
    let mut more = parameters.clone();
    more.push(("blocks.7.mlp.hidden.bias".to_owned(), TensorData::zeros::<f32, _>([5])));
    assert_eq!(refused(more), "the model has no parameter `blocks.7.mlp.hidden.bias`");
    let mut wrong = parameters;
    wrong[0].1 = TensorData::zeros::<f32, _>([6, 4]);
    assert_eq!(refused(wrong), "parameter `embedding` has shape [6, 4], the model needs [4, 6]");
}

#[test]
fn clipping_limits_the_joint_norm() {
    let device = Device::flex().autodiff();
    let attention = Registry::standard().parse("full").unwrap();
    let model = relevant(Encoder::new(small(Activation::Relu), attention, 3, &device).unwrap());
    let backward = || {
        let logits = model.forward(tokens(3, 5, 4, &device), Pass::evaluation(1, 0));
        train::loss(logits, &labels(3, 3)).backward()
    };
    let square = |data: &TensorData| data.iter::<f64>().map(|x| x * x).sum::<f64>();
    let norm =
        parameters::named_gradients(&model, &backward()).iter().map(|(_, data)| square(data)).sum::<f64>().sqrt();
    for (max, expected) in [(norm / 4.0, norm / 4.0), (norm * 4.0, norm)] {
        let mut gradients = NamedGradients::take(&model, backward());
        let before = train::clip_global_norm(&mut gradients, max);
        assert!((before / norm - 1.0).abs() < 1e-9);
        assert_eq!(gradients.iter().count(), 27);
        let clipped: Vec<f32> = gradients.iter().filter_map(|(_, values)| values).flatten().copied().collect();
        let after = clipped.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
        assert!((after / expected - 1.0).abs() < 1e-5, "{after}, expected {expected}");
    }
}
