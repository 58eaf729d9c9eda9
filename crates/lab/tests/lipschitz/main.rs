//! The bounds on the steepness of the loss, tested with pairs of models and inputs that try to violate them.

mod hand_made;
mod measure;
mod search;

use std::collections::BTreeMap;

use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use measure::{measure, measure_from};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use semfocus_analysis::theory::lipschitz::{LayerFactors, LayerStatistics, Profile, max_slope};
use semfocus_core::Questions;
use semfocus_lab::spectrum::norms::model_norms;
use semfocus_nn::conformance::ZipEq;
use semfocus_nn::{
    Activation, AttentionSublayer, Encoder, Engine, LayerContext, MlpSublayer, ModelConfig, Pass, Registry, parameters,
    reference, train,
};
use semfocus_store::records::ModelNorms;

/// The values of all parameters, or a direction among them, in the order of the model.
type Values = Vec<Vec<f64>>;

/// What is compared with its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    W(usize),
    V(usize),
    Mlp(usize),
    Embedding,
    Classifier,
    All,
}

impl Group {
    /// All groups of a model of `blocks` blocks.
    fn all(blocks: usize) -> Vec<Group> {
        let layers = (0..blocks).flat_map(|layer| [Group::W(layer), Group::V(layer), Group::Mlp(layer)]);
        layers.chain([Group::Embedding, Group::Classifier, Group::All]).collect()
    }

    fn holds(self, name: &str) -> bool {
        let starts = |layer: usize, parts: &[&str]| {
            parts.iter().any(|part| name.starts_with(&format!("blocks.{layer}.{part}.")))
        };
        match self {
            Group::W(layer) => starts(layer, &["attention.query", "attention.key"]),
            Group::V(layer) => starts(layer, &["attention.value", "attention.output"]),
            Group::Mlp(layer) => starts(layer, &["mlp"]),
            Group::Embedding => name == "embedding",
            Group::Classifier => name.starts_with("classifier"),
            Group::All => true,
        }
    }

    fn bound(self, profile: &Profile) -> f64 {
        match self {
            Group::W(layer) => profile.layers[layer].w,
            Group::V(layer) => profile.layers[layer].v,
            Group::Mlp(layer) => profile.layers[layer].mlp,
            Group::Embedding => profile.embedding,
            Group::Classifier => profile.classifier,
            Group::All => profile.all,
        }
    }

    /// Its name in the report, whatever the layer.
    fn kind(self) -> &'static str {
        match self {
            Group::W(_) => "w",
            Group::V(_) => "v",
            Group::Mlp(_) => "mlp",
            Group::Embedding => "embedding",
            Group::Classifier => "classifier",
            Group::All => "all",
        }
    }
}

/// For each kind, the largest share of its bound that occurred.
#[derive(Default)]
struct Tally {
    shares: BTreeMap<String, f64>,
    pairs: usize,
}

impl Tally {
    /// Records a difference quotient or gradient norm, and fails if it exceeds its bound, given as a logarithm.
    fn check(&mut self, kind: &str, seen: f64, bound: f64, of: &dyn std::fmt::Debug) {
        self.pairs += 1;
        // Smaller differences of losses are rounding errors.
        let share = if seen > 1e-9 { 10f64.powf(seen.log10() - bound) } else { 0.0 };
        assert!(share <= 1.0 + 1e-6, "{kind}: {seen} exceeds 10^{bound} by the factor {share}: {of:?}");
        let max = self.shares.entry(kind.to_owned()).or_default();
        *max = max.max(share);
    }

    fn report(&self, title: &str) {
        println!("{title}: {} pairs; bound / largest seen:", self.pairs);
        self.shares.iter().for_each(|(kind, share)| println!("  {kind:<20} {:.3e}", 1.0 / share));
    }
}

/// A small model with tokens and labels.
#[derive(Clone, Debug)]
struct Case {
    spec: &'static str,
    activation: Activation,
    heads: usize,
    d_model: usize,
    d_head: usize,
    blocks: usize,
    length: usize,
    batch: usize,
    scale: f64,
    seed: u64,
}

const VOCABULARY: usize = 5;
const CLASSES: usize = 3;

fn pass() -> Pass {
    Pass::evaluation(1, 0)
}

impl Case {
    fn model(&self, device: &Device) -> Encoder {
        let config = ModelConfig {
            d_model: self.d_model,
            d_head: Some(self.d_head),
            heads: self.heads,
            blocks: self.blocks,
            d_mlp: self.d_model + 1,
            activation: self.activation,
            engine: Engine::Reference,
            ..ModelConfig::new(VOCABULARY, CLASSES)
        };
        let attention = Registry::standard().parse(self.spec).unwrap();
        let model = parameters::to_f64(Encoder::new(config, attention, self.seed, device).unwrap());
        let scaled: Values = values_of(&model).iter().map(|v| v.iter().map(|v| self.scale * v).collect()).collect();
        with_values(&model, &scaled)
    }

    fn tokens(&self, device: &Device) -> Tensor<2, Int> {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed ^ 77);
        let count = self.batch * self.length;
        let ids: Vec<i64> = (0..count).map(|_| (random.next_u64() % VOCABULARY as u64) as i64).collect();
        Tensor::from_data(TensorData::new(ids, [self.batch, self.length]), device)
    }

    fn labels(&self) -> Questions {
        Questions::classification((0..self.batch).map(|i| ((i as u64 + self.seed) % CLASSES as u64) as u16))
    }

    /// Tokens of a sequence, global ones included.
    fn all_tokens(&self, model: &Encoder) -> usize {
        self.length + model.attention().globals()
    }
}

/// Cases that cover mechanisms, activations, shapes and scales, `per_spec` of them for each mechanism.
fn cases(per_spec: u64, max_blocks: usize) -> Vec<Case> {
    let specs = ["full", "topk:2", "topk:1", "topk:4", "bottomk:2", "banded:3", "banded:3+g1", "block:2"];
    let mut cases = Vec::new();
    for (which, spec) in specs.into_iter().enumerate() {
        for number in 0..per_spec {
            let seed = 100 * which as u64 + number;
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let mut below = |n: u64| (random.next_u64() % n) as usize;
            cases.push(Case {
                spec,
                activation: [Activation::Relu, Activation::Gelu, Activation::Mish][below(3)],
                heads: 1 + below(3),
                d_model: 4 + below(9),
                d_head: 2 + below(5),
                blocks: 1 + below(max_blocks as u64),
                length: 3 + below(8),
                batch: 1 + below(2),
                scale: [0.3, 1.0, 3.0, 8.0][below(4)],
                seed,
            });
        }
    }
    cases
}

fn values_of(model: &Encoder) -> Values {
    parameters::named_parameters(model).iter().map(|(_, data)| data.iter::<f64>().collect()).collect()
}

fn with_values(model: &Encoder, values: &Values) -> Encoder {
    let named = parameters::named_parameters(model).into_iter().zip_eq(values);
    let named: Vec<_> =
        named.map(|((name, data), values)| (name, TensorData::new(values.clone(), data.shape().clone()))).collect();
    parameters::set_parameters(model.clone(), named).unwrap()
}

/// Moves along a direction.
fn moved(model: &Encoder, direction: &Values, step: f64) -> Encoder {
    let mut values = values_of(model);
    for (values, direction) in values.iter_mut().zip_eq(direction) {
        values.iter_mut().zip_eq(direction).for_each(|(value, along)| *value += step * along);
    }
    with_values(model, &values)
}

fn norm(values: &Values) -> f64 {
    values.iter().flatten().map(|value| value * value).sum::<f64>().sqrt()
}

/// The part of a direction within a group, with norm 1; none if there is nothing.
fn within(group: Group, model: &Encoder, direction: &Values) -> Option<Values> {
    let names = parameters::named_parameters(model);
    let mut part = direction.clone();
    for (values, (name, _)) in part.iter_mut().zip_eq(&names) {
        if !group.holds(name) {
            values.fill(0.0);
        }
    }
    let norm = norm(&part);
    part.iter_mut().flatten().for_each(|value| *value /= norm);
    (norm > 1e-12).then_some(part)
}

/// A number in [-1, 1).
fn unit(random: &mut ChaCha8Rng) -> f64 {
    (random.next_u64() >> 11) as f64 * 2f64.powi(-52) - 1.0
}

fn random_like(values: &Values, random: &mut ChaCha8Rng) -> Values {
    values.iter().map(|values| values.iter().map(|_| unit(random)).collect()).collect()
}

/// A model, its loss, and what the bounds depend on.
struct Point {
    model: Encoder,
    loss: f64,
    norms: ModelNorms,
    statistics: Vec<LayerStatistics>,
}

impl Point {
    fn new(model: Encoder, case: &Case) -> Self {
        let device = model.embedding.val().device();
        let (logits, statistics) = measure_from(&model, 0, model.embedded(case.tokens(&device)), pass());
        let loss = scalar(train::loss(logits, &case.labels()));
        Point { loss, norms: model_norms(&model).unwrap(), statistics, model }
    }

    /// The bounds that hold for the pair.
    fn profile(&self, other: &Point, tokens: usize) -> Profile {
        Profile::new(&self.norms.max(&other.norms), &worse(&self.statistics, &other.statistics), tokens)
    }
}

fn worse(a: &[LayerStatistics], b: &[LayerStatistics]) -> Vec<LayerStatistics> {
    a.iter().zip_eq(b).map(|(a, b)| a.worse(*b)).collect()
}

fn held(statistics: &[LayerStatistics]) -> Vec<LayerStatistics> {
    statistics.iter().map(|layer| layer.with_kept_keys_held()).collect()
}

fn scalar(tensor: Tensor<1>) -> f64 {
    tensor.into_data().iter::<f64>().next().unwrap()
}

fn gradient(point: &Point, case: &Case) -> Values {
    let device = Device::flex().autodiff();
    let model = with_values(&case.model(&device), &values_of(&point.model));
    let loss = train::loss(model.forward(case.tokens(&device), pass()), &case.labels());
    let gradients = parameters::named_gradients(&model, &loss.backward());
    gradients.iter().map(|(_, data)| data.iter::<f64>().collect()).collect()
}

fn floats<const D: usize>(tensor: &Tensor<D>) -> Vec<f64> {
    tensor.to_data().iter::<f64>().collect()
}

/// The Frobenius norm of a difference.
fn distance<const D: usize>(a: &Tensor<D>, b: &Tensor<D>) -> f64 {
    floats(a).iter().zip_eq(floats(b)).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
}
