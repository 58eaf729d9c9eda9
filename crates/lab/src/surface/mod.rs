//! The surface of the training loss around the weights of a model.
//!
//! | to find | look in |
//! |---|---|
//! | planes through the weights: random, along the training path, through given models | [`directions`] |
//! | loss and accuracy over a grid in a plane, on all cores | [`evaluator`] |
//! | the mean loss over fixed examples and its gradient, as functions of the weights | [`objective`] |
//! | sharpness: the largest eigenvalues of the Hessian and its trace | [`hessian`] |

pub mod directions;
pub mod evaluator;
pub mod hessian;
pub mod objective;

use semfocus_core::settings::find;
use semfocus_core::{Key, TrialSettings};

use crate::ModelRef;

/// Hash of a model's weights.
pub fn fingerprint(weights: &[f64]) -> String {
    let mut key = Key::new(weights.len() as u64);
    for weight in weights {
        key = key.child(weight.to_bits());
    }
    format!("{:016x}", key.bits())
}

/// Why two models cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{one} and {other} cannot be compared: they have {difference}. Give them in separate commands, or choose trials of one \
     kind"
)]
pub struct NotComparable {
    one: String,
    other: String,
    difference: String,
}

/// Surfaces can only be compared for models of the same shape on the same task.
pub fn check_comparable(models: &[ModelRef]) -> Result<(), NotComparable> {
    let Some((one, rest)) = models.split_first() else { return Ok(()) };
    for other in rest {
        if let Some(difference) = difference(&one.settings, &other.settings) {
            let name = |model: &ModelRef| model.folder.path().display().to_string();
            return Err(NotComparable { one: name(one), other: name(other), difference });
        }
    }
    Ok(())
}

/// The first difference that keeps two trials from being compared.
fn difference(a: &TrialSettings, b: &TrialSettings) -> Option<String> {
    let numbers = [
        ("blocks", a.model.blocks, b.model.blocks),
        ("d_model", a.model.d_model, b.model.d_model),
        ("d_mlp", a.model.d_mlp, b.model.d_mlp),
        ("heads", a.model.heads, b.model.heads),
        ("d_head", a.model.head_width(), b.model.head_width()),
    ];
    let number = numbers.into_iter().find(|(_, a, b)| a != b).map(|(name, a, b)| format!("{name} {a} and {b}"));
    let structure = [
        "model.positions",
        "model.scale_embedding",
        "model.head",
        "model.final_norm",
        "model.affine_norms",
        "model.tied",
    ];
    let other = || {
        let of = |path: &str| [a, b].map(|one| find(path).and_then(|setting| setting.get(one)));
        let (path, [a, b]) = structure.iter().map(|path| (path, of(path))).find(|(_, [a, b])| a != b)?;
        Some(format!("{path} {} and {}", a?, b?))
    };
    // Data files are known by their contents, wherever they are.
    let is_same_data = a.data_checksum == b.data_checksum && (a.data_checksum.is_some() || a.task == b.task);
    let task = || (!is_same_data).then(|| format!("tasks {} and {}", a.task, b.task));
    let length = || (a.data.length != b.data.length).then(|| "sequences of different lengths".to_owned());
    number.or_else(other).or_else(task).or_else(length)
}

/// Seed of the evaluation passes, from which `randomk` draws its keys.
const PASS_SEED: u64 = 0;
