//! Directions through the weights of a model: two of them span a plane.
//!
//! Random directions are drawn for each parameter by its name, so that models with the same parameters get the same
//! directions. They are then scaled to the weights of the model: a network that computes the same with larger weights must not
//! look flatter.

use burn::tensor::{Element, TensorData};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use semfocus_core::Key;
use semfocus_nn::Model;

use crate::TrainedModel;
use crate::spectrum::symmetric::eigenpairs;
use crate::spectrum::{add_scaled, dot, max_abs, norm, scaled};

/// If the path varies this much less along its second principal direction than along its first, measured by squares, the
/// second is rounding error.
const NEGLIGIBLE: f64 = 1e-12;

/// A parameter of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// As in [`Model::parameters`].
    pub name: String,
    /// One entry per dimension.
    pub shape: Vec<usize>,
}

impl Parameter {
    fn len(&self) -> usize {
        self.shape.iter().product()
    }
}

/// The parameters of a model, and all their values in one row.
pub fn weights_of(model: &dyn Model) -> (Vec<Parameter>, Vec<f64>) {
    let (mut parameters, mut weights) = (Vec::new(), Vec::new());
    for (name, data) in model.parameters() {
        parameters.push(Parameter { name, shape: data.shape().to_vec() });
        weights.extend(data.iter::<f64>());
    }
    (parameters, weights)
}

/// Weights in one vector as the parameters that they belong to.
pub(crate) fn named<T: Element>(parameters: &[Parameter], weights: &[T]) -> Vec<(String, TensorData)> {
    let mut rest = weights;
    let mut named = |Parameter { name, shape }: &Parameter| {
        let (values, after) = rest.split_at(shape.iter().product());
        rest = after;
        (name.clone(), TensorData::new(values.to_vec(), shape.clone()))
    };
    parameters.iter().map(&mut named).collect()
}

/// How a random direction is scaled to the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scaling {
    /// The part of each parameter gets the norm of that parameter, as in the study.
    Tensor,
    /// The part of each unit (a column of a matrix, which is `[inputs, outputs]`; a row of the embedding) gets the norm of that
    /// unit's weights. A bias counts as one unit.
    Filter,
}

/// A plane through the weights of a model: `centre + x · first + y · second`.
#[derive(Clone, Debug, PartialEq)]
pub struct Plane {
    /// The trained weights.
    pub centre: Vec<f64>,
    /// The direction of x.
    pub first: Vec<f64>,
    /// The direction of y.
    pub second: Vec<f64>,
    /// The training path projected onto the plane: epoch, x, y. Empty except for [`Plane::along_path`].
    pub path: Vec<(usize, f64, f64)>,
}

/// Why there is no such plane.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPlane {
    /// Too few models of the training path were kept.
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
    /// Along two random directions. `draw` numbers the planes of a seed.
    pub fn random(model: &dyn Model, scaling: Scaling, seed: u64, draw: usize) -> Self {
        let (parameters, centre) = weights_of(model);
        let key = Key::new(seed).named("surface").child(draw as u64);
        let [first, second] = [0, 1].map(|number| random_direction(&parameters, &centre, scaling, key.child(number)));
        Plane { centre, first, second, path: Vec::new() }
    }

    /// Through a model and two others, which lie at (1, 0) and (0, 1).
    pub fn through(model: &dyn Model, one: &dyn Model, other: &dyn Model) -> Result<Self, NoPlane> {
        let (parameters, centre) = weights_of(model);
        let towards = |model: &dyn Model| {
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

    /// Along the two principal directions of the training path relative to the model. Each is scaled so that the path reaches
    /// from −1 to 1 at most.
    ///
    /// The models of the path are taken with the attention of the model: numbers that only one of their mechanisms learns have
    /// their initial values, or are left out.
    pub fn along_path(model: &dyn Model, path: &[TrainedModel]) -> Result<Self, NoPlane> {
        let (_, centre) = weights_of(model);
        let step = |trained: &TrainedModel| {
            let same = trained.model.with_attention(model.attention().clone());
            let same = same.expect("models of a trial have the same blocks and global tokens");
            weights_of(same.as_ref()).1.iter().zip(&centre).map(|(a, b)| a - b).collect()
        };
        let steps: Vec<Vec<f64>> = path.iter().map(step).collect();
        let [first, second] = principal_directions(&steps)?;
        let along = |direction: &[f64]| steps.iter().map(|step| dot(step, direction)).collect::<Vec<f64>>();
        let (x, y) = (along(&first), along(&second));
        let (far_x, far_y) = (max_abs(&x), max_abs(&y));
        let place = |((trained, x), y): ((&TrainedModel, &f64), &f64)| (trained.epoch, x / far_x, y / far_y);
        let path = path.iter().zip(&x).zip(&y).map(place).collect();
        Ok(Plane { centre, first: scaled(first, far_x), second: scaled(second, far_y), path })
    }

    /// The weights at (x, y).
    pub fn at(&self, x: f64, y: f64) -> Vec<f32> {
        let directions = self.first.iter().zip(&self.second);
        self.centre
            .iter()
            .zip(directions)
            .map(|(centre, (first, second))| (centre + x * first + y * second) as f32)
            .collect()
    }
}

/// The two orthonormal directions along which the steps vary most about the origin: eigenvectors of the sum of their outer
/// products, computed from the much smaller Gram matrix of the steps. Of what the directions before leave of each step, the
/// longest has a positive component, so that the signs are unique.
fn principal_directions(steps: &[Vec<f64>]) -> Result<[Vec<f64>; 2], NoPlane> {
    let short = NoPlane::ShortPath(steps.len());
    if steps.iter().filter(|step| norm(step) > 0.0).count() < 2 {
        return Err(short);
    }
    let gram: Vec<Vec<f64>> = steps.iter().map(|a| steps.iter().map(|b| dot(a, b)).collect()).collect();
    let mut left: Vec<f64> = (0..steps.len()).map(|number| gram[number][number]).collect();
    let pairs = eigenpairs(gram);
    let (most, next) = (pairs[0].value, pairs[1].value);
    if !most.is_finite() {
        return Err(short);
    }
    if next <= NEGLIGIBLE * most {
        return Err(NoPlane::Line);
    }
    let mut directions = [0, 1].map(|number| {
        let (value, shares) = (pairs[number].value, &pairs[number].vector);
        let longest = (0..steps.len()).max_by(|&a, &b| left[a].total_cmp(&left[b])).unwrap_or(0);
        left.iter_mut().zip(shares).for_each(|(left, share)| *left -= value * share * share);
        let mut direction = vec![0.0; steps[0].len()];
        let sign = shares[longest].signum();
        steps.iter().zip(shares).for_each(|(step, share)| add_scaled(&mut direction, sign * share, step));
        direction
    });
    let [first, second] = &mut directions;
    *first = normalised(std::mem::take(first));
    // Rounding leaves a little of the first direction, which is much longer, in the second.
    let part = dot(second, first);
    add_scaled(second, -part, first);
    *second = normalised(std::mem::take(second));
    Ok(directions)
}

fn normalised(vector: Vec<f64>) -> Vec<f64> {
    let length = norm(&vector);
    scaled(vector, 1.0 / length)
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

/// Scales the drawn values at some places to the norm of the weights there.
fn fit(drawn: &mut [f64], weights: &[f64], places: Vec<usize>) {
    let square_sum = |values: &[f64]| places.iter().map(|&place| values[place] * values[place]).sum::<f64>();
    let (has, wanted) = (square_sum(drawn), square_sum(weights));
    let factor = if has > 0.0 { (wanted / has).sqrt() } else { 0.0 };
    places.iter().for_each(|&place| drawn[place] *= factor);
}

/// Standard normal numbers of a key. A larger `count` does not change the first ones.
fn gaussian(key: Key, count: usize) -> Vec<f64> {
    let mut generator = ChaCha8Rng::from_seed(key.generator_seed());
    let mut uniform = || ((generator.next_u64() >> 11) as f64 + 0.5) * 2f64.powi(-53); // (0, 1)
    let normal = |_| (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
    (0..count).map(normal).collect()
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;
    use semfocus_nn::{Encoder, ModelConfig, Registry};

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
    fn random_numbers_are_normal() {
        let values = gaussian(Key::new(5), 100_000);
        let mean = values.iter().sum::<f64>() / 1e5;
        let fourth = values.iter().map(|value| value.powi(4)).sum::<f64>() / 1e5;
        let variance = values.iter().map(|value| value * value).sum::<f64>() / 1e5;
        assert!(mean.abs() < 0.015 && (variance - 1.0).abs() < 0.02 && (fourth - 3.0).abs() < 0.2);
    }

    #[test]
    fn planes_through_models() {
        let (a, b, c) = (model("full", 1), model("full", 2), model("full", 3));
        let plane = Plane::through(&a, &b, &c).unwrap();
        let weights = |model: &Encoder| weights_of(model).1.iter().map(|w| *w as f32).collect::<Vec<_>>();
        let close = |a: Vec<f32>, b: Vec<f32>| a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-6);
        assert!(close(plane.at(1.0, 0.0), weights(&b)) && close(plane.at(0.0, 1.0), weights(&c)));
        assert_eq!(Plane::through(&a, &b, &b), Err(NoPlane::Line));
        assert!(
            matches!(Plane::through(&a, &b, &model("banded:3+g1", 1)), Err(NoPlane::Shape(name)) if name == "embedding")
        );
    }

    #[test]
    fn principal_directions_of_a_bent_path() {
        // Steps that vary most along (3, 4), a little orthogonally to it, and not at all in the third coordinate.
        let steps: Vec<Vec<f64>> =
            [-2.0, -1.0, 1.0, 2.5].iter().map(|t| vec![3.0 * t - 0.04 * t * t, 4.0 * t + 0.03 * t * t, 0.0]).collect();
        let [first, second] = principal_directions(&steps).unwrap();
        // The longest step, the last one, lies on the positive side.
        assert!((first[0] - 0.6).abs() < 0.01 && (first[1] - 0.8).abs() < 0.01 && first[2] == 0.0, "{first:?}");
        assert!(dot(&first, &second).abs() < 1e-15 && (norm(&second) - 1.0).abs() < 1e-15);
        // Of what is left after the first direction, the longest step lies on the positive side, too.
        let rest = |step: &Vec<f64>| (norm(step).powi(2) - dot(step, &first).powi(2), dot(step, &second));
        let longest = steps.iter().map(rest).max_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
        assert!(longest.1 > 0.0, "{longest:?}");
        // All of the variation is in the two of them.
        let total: f64 = steps.iter().map(|step| dot(step, step)).sum();
        let along = |direction: &[f64]| steps.iter().map(|step| dot(step, direction).powi(2)).sum::<f64>();
        assert!((along(&first) + along(&second) - total).abs() < 1e-12 * total && along(&first) > along(&second));
    }

    #[test]
    fn a_straight_or_short_path_spans_no_plane() {
        let straight: Vec<Vec<f64>> = [1.0, -2.0, 0.3].iter().map(|t| vec![0.1 * t, 0.7 * t, 0.2 * t]).collect();
        assert_eq!(principal_directions(&straight), Err(NoPlane::Line));
        for steps in [vec![vec![0.0; 2]; 3], vec![vec![1.0, 0.0], vec![0.0; 2]], vec![vec![f64::NAN; 2]; 3], vec![]] {
            assert_eq!(principal_directions(&steps), Err(NoPlane::ShortPath(steps.len())), "{steps:?}");
        }
    }
}
