//! Directions through the weights of a model: two of them span a plane.
//!
//! Random directions are drawn for every parameter by its name, so that models whose parameters match get the same ones; then
//! they are scaled to the weights of the model at hand, for a network that computes the same with greater weights must not look
//! flatter.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use semfocus_lab::trained::Trained;
use semfocus_nn::parameters::named_parameters;
use semfocus_nn::{Encoder, Key};

use super::spectrum::{dot, norm};

/// A parameter of a model: its place among all weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
}

impl Parameter {
    fn len(&self) -> usize {
        self.shape.iter().product()
    }
}

/// The parameters of a model and their values, one after another.
pub fn weights_of(model: &Encoder) -> (Vec<Parameter>, Vec<f64>) {
    let (mut parameters, mut weights) = (Vec::new(), Vec::new());
    for (name, data) in named_parameters(model) {
        parameters.push(Parameter { name, shape: data.shape().to_vec() });
        weights.extend(data.iter::<f64>());
    }
    (parameters, weights)
}

/// How a random direction is fitted to the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scaling {
    /// Every parameter's part has the norm of that parameter, as in the study.
    Tensor,
    /// The part of every unit (a column of a matrix, which is `[inputs, outputs]`; a row of the embedding) has the norm of
    /// that unit's weights. Biases as a whole.
    Filter,
}

/// A plane through the weights of a model, reached at `centre + x · first + y · second`.
#[derive(Clone, Debug, PartialEq)]
pub struct Plane {
    /// The trained weights.
    pub centre: Vec<f64>,
    /// First direction.
    pub first: Vec<f64>,
    /// Second direction.
    pub second: Vec<f64>,
    /// Where models of the training path lie in it, projected; epoch, x, y. Empty for random planes.
    pub path: Vec<(usize, f64, f64)>,
}

/// Why there is no such plane.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPlane {
    /// Too little of the training path was kept.
    #[error(
        "the training path has {0} kept models; its principal directions need at least 3: train with `-s probe_every=N`"
    )]
    ShortPath(usize),
    /// The directions coincide.
    #[error("the given models lie on one line: they span no plane")]
    Line,
    /// A given model has other parameters.
    #[error("`{0}` has another shape in the given model")]
    Shape(String),
}

impl Plane {
    /// Along two random directions, number `draw` of a seed.
    pub fn random(model: &Encoder, scaling: Scaling, seed: u64, draw: usize) -> Self {
        let (parameters, centre) = weights_of(model);
        let key = Key::new(seed).named("surface").child(draw as u64);
        let [first, second] = [0, 1].map(|number| random_direction(&parameters, &centre, scaling, key.child(number)));
        Plane { centre, first, second, path: Vec::new() }
    }

    /// From a model to two others: they lie at (1, 0) and (0, 1).
    pub fn through(model: &Encoder, one: &Encoder, other: &Encoder) -> Result<Self, NoPlane> {
        let (parameters, centre) = weights_of(model);
        let towards = |model: &Encoder| {
            let (theirs, weights) = weights_of(model);
            match parameters.iter().zip(&theirs).find(|(ours, theirs)| ours != theirs) {
                Some((ours, _)) => Err(NoPlane::Shape(ours.name.clone())),
                None => Ok(weights.iter().zip(&centre).map(|(to, from)| to - from).collect::<Vec<f64>>()),
            }
        };
        let (first, second) = (towards(one)?, towards(other)?);
        let cosine = dot(&first, &second) / (norm(&first) * norm(&second));
        if !cosine.is_finite() || cosine.abs() > 1.0 - 1e-9 {
            return Err(NoPlane::Line);
        }
        Ok(Plane { centre, first, second, path: Vec::new() })
    }

    /// Along the two principal directions of the training path as seen from the model, each as long as the path goes along it.
    pub fn of_path(model: &Encoder, path: &[Trained]) -> Result<Self, NoPlane> {
        let (_, centre) = weights_of(model);
        let steps: Vec<Vec<f64>> = path
            .iter()
            .map(|trained| weights_of(&trained.model).1.iter().zip(&centre).map(|(a, b)| a - b).collect())
            .collect();
        if steps.iter().filter(|step| norm(step) > 0.0).count() < 2 {
            return Err(NoPlane::ShortPath(path.len()));
        }
        let first = principal(&steps).ok_or(NoPlane::ShortPath(path.len()))?;
        let along = |direction: &[f64]| steps.iter().map(|step| dot(step, direction)).collect::<Vec<f64>>();
        let rest: Vec<Vec<f64>> = steps
            .iter()
            .map(|step| {
                let part = dot(step, &first);
                step.iter().zip(&first).map(|(value, direction)| value - part * direction).collect()
            })
            .collect();
        let second = principal(&rest).ok_or(NoPlane::Line)?;
        let (x, y) = (along(&first), along(&second));
        let reach = |values: &[f64]| values.iter().fold(0.0f64, |greatest, value| greatest.max(value.abs()));
        let (far_x, far_y) = (reach(&x), reach(&y));
        let scaled = |direction: Vec<f64>, factor: f64| direction.into_iter().map(|value| value * factor).collect();
        let place = |((trained, x), y): ((&Trained, &f64), &f64)| (trained.epoch, x / far_x, y / far_y);
        let path = path.iter().zip(&x).zip(&y).map(place).collect();
        Ok(Plane { centre, first: scaled(first, far_x), second: scaled(second, far_y), path })
    }

    /// The weights at a place.
    pub fn at(&self, x: f64, y: f64) -> Vec<f32> {
        let directions = self.first.iter().zip(&self.second);
        self.centre
            .iter()
            .zip(directions)
            .map(|(centre, (first, second))| (centre + x * first + y * second) as f32)
            .collect()
    }
}

/// The direction of most variation about the origin: the greatest eigenvector of the sum of outer products, by power iteration
/// in the space of the rows, of which there are few.
fn principal(rows: &[Vec<f64>]) -> Option<Vec<f64>> {
    let gram: Vec<Vec<f64>> = rows.iter().map(|a| rows.iter().map(|b| dot(a, b)).collect()).collect();
    let largest = (0..rows.len()).max_by(|&a, &b| gram[a][a].total_cmp(&gram[b][b]))?;
    // The longest row is a good start, and never at right angles to the wanted one.
    let mut mix: Vec<f64> = gram[largest].clone();
    for _ in 0..1000 {
        let next: Vec<f64> = gram.iter().map(|row| dot(row, &mix)).collect();
        let length = norm(&next);
        if length == 0.0 || !length.is_finite() {
            return None;
        }
        mix = next.into_iter().map(|value| value / length).collect();
    }
    let mut direction = vec![0.0; rows[0].len()];
    for (row, share) in rows.iter().zip(&mix) {
        direction.iter_mut().zip(row).for_each(|(sum, value)| *sum += share * value);
    }
    let length = norm(&direction);
    (length > 0.0).then(|| direction.into_iter().map(|value| value / length).collect())
}

fn random_direction(parameters: &[Parameter], weights: &[f64], scaling: Scaling, key: Key) -> Vec<f64> {
    let mut direction = Vec::with_capacity(weights.len());
    let mut rest = weights;
    for parameter in parameters {
        let (values, after) = rest.split_at(parameter.len());
        rest = after;
        let mut drawn = gaussian(key.named(&parameter.name), values.len());
        match (scaling, &parameter.shape[..]) {
            (Scaling::Filter, &[rows, columns]) if parameter.name == "embedding" => {
                (0..rows).for_each(|row| fit(&mut drawn, values, (row * columns..(row + 1) * columns).collect()));
            }
            (Scaling::Filter, &[rows, columns]) => {
                let column = |column: usize| (0..rows).map(|row| row * columns + column).collect();
                (0..columns).for_each(|number| fit(&mut drawn, values, column(number)));
            }
            _ => fit(&mut drawn, values, (0..values.len()).collect()),
        }
        direction.extend(drawn);
    }
    direction
}

/// Gives some of the drawn values the norm of those weights.
fn fit(drawn: &mut [f64], weights: &[f64], places: Vec<usize>) {
    let square_sum = |values: &[f64]| places.iter().map(|&place| values[place] * values[place]).sum::<f64>();
    let (has, wanted) = (square_sum(drawn), square_sum(weights));
    let factor = if has > 0.0 { (wanted / has).sqrt() } else { 0.0 };
    places.iter().for_each(|&place| drawn[place] *= factor);
}

/// Normal numbers of a place; more of them do not change the first ones.
fn gaussian(key: Key, count: usize) -> Vec<f64> {
    let mut generator = ChaCha8Rng::from_seed(key.generator_seed());
    let mut uniform = || ((generator.next_u64() >> 11) as f64 + 0.5) * 2f64.powi(-53); // (0, 1)
    let normal = |_| (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
    (0..count).map(normal).collect()
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;
    use semfocus_nn::{ModelConfig, Registry};

    use super::*;

    fn model(mechanism: &str, seed: u64) -> Encoder {
        let mut config = ModelConfig::new(3, 2);
        (config.d_model, config.d_mlp, config.blocks) = (6, 5, 2);
        Encoder::new(config, Registry::standard().parse(mechanism).unwrap(), seed, &Device::flex()).unwrap()
    }

    fn part<'a>(parameters: &[Parameter], values: &'a [f64], name: &str) -> &'a [f64] {
        let place = parameters.iter().position(|parameter| parameter.name == name).unwrap();
        let before: usize = parameters[..place].iter().map(Parameter::len).sum();
        &values[before..before + parameters[place].len()]
    }

    #[test]
    fn parts_have_the_norms_of_the_weights() {
        let model = model("full", 3);
        let (parameters, weights) = weights_of(&model);
        let plane = Plane::random(&model, Scaling::Tensor, 1, 0);
        for Parameter { name, .. } in &parameters {
            let of = |values: &[f64]| norm(part(&parameters, values, name));
            assert!((of(&plane.first) - of(&weights)).abs() < 1e-9, "{name}");
            assert!((of(&plane.second) - of(&weights)).abs() < 1e-9, "{name}");
        }
        let filters = Plane::random(&model, Scaling::Filter, 1, 0);
        let name = "blocks.1.mlp.hidden.weight"; // [6, 5]
        for unit in 0..5 {
            let of = |values: &[f64]| {
                norm(&part(&parameters, values, name).iter().skip(unit).step_by(5).copied().collect::<Vec<_>>())
            };
            assert!((of(&filters.first) - of(&weights)).abs() < 1e-9);
        }
        assert_eq!(plane.at(0.0, 0.0), weights.iter().map(|w| *w as f32).collect::<Vec<_>>());
    }

    #[test]
    fn directions_follow_from_seed_draw_and_name() {
        let plane = |mechanism, seed, draw| Plane::random(&model(mechanism, 3), Scaling::Tensor, seed, draw);
        let full = plane("full", 1, 0);
        assert_eq!(full, plane("full", 1, 0));
        assert_ne!(full.first, plane("full", 2, 0).first);
        assert_ne!(full.first, plane("full", 1, 1).first);
        assert_ne!(full.first, full.second);
        assert_eq!(full.first, plane("topk:2", 1, 0).first, "the mechanisms have the same parameters");
        // A global token adds a row to the embedding and changes nothing else.
        let (parameters, _) = weights_of(&model("full", 3));
        let (with_global, _) = weights_of(&model("banded:3+g1", 3));
        let global = plane("banded:3+g1", 1, 0);
        let name = "blocks.0.attention.query.weight";
        assert_eq!(part(&parameters, &full.first, name), part(&with_global, &global.first, name));
    }

    #[test]
    fn numbers_are_normal() {
        let values = gaussian(Key::new(5), 100_000);
        let mean = values.iter().sum::<f64>() / 1e5;
        let fourth = values.iter().map(|value| value.powi(4)).sum::<f64>() / 1e5;
        let variance = values.iter().map(|value| value * value).sum::<f64>() / 1e5;
        assert!(mean.abs() < 0.015 && (variance - 1.0).abs() < 0.02 && (fourth - 3.0).abs() < 0.2);
    }

    #[test]
    fn planes_through_models_and_along_a_path() {
        let (a, b, c) = (model("full", 1), model("full", 2), model("full", 3));
        let plane = Plane::through(&a, &b, &c).unwrap();
        let weights = |model: &Encoder| weights_of(model).1.iter().map(|w| *w as f32).collect::<Vec<_>>();
        let close = |a: Vec<f32>, b: Vec<f32>| a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-6);
        assert!(close(plane.at(1.0, 0.0), weights(&b)) && close(plane.at(0.0, 1.0), weights(&c)));
        assert_eq!(Plane::through(&a, &b, &b), Err(NoPlane::Line));
        assert!(
            matches!(Plane::through(&a, &b, &model("banded:3+g1", 1)), Err(NoPlane::Shape(name)) if name == "embedding")
        );
        // Rows that vary most along (3, 4) and a little at right angles to it.
        let rows: Vec<Vec<f64>> =
            [-2.0, -1.0, 1.0, 2.5].iter().map(|t| vec![3.0 * t - 0.04 * t * t, 4.0 * t + 0.03 * t * t]).collect();
        let found = principal(&rows).unwrap();
        assert!((found[0].abs() - 0.6).abs() < 0.01 && (found[1].abs() - 0.8).abs() < 0.01, "{found:?}");
        assert_eq!(principal(&[vec![0.0, 0.0]]), None);
    }
}
