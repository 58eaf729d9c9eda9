//! What is recorded of a trial, one file for each kind: appended, never rewritten. Every line says the version of its
//! format.

mod epochs;
mod evaluations;
mod log;
mod probes;
mod sharpness;

pub use epochs::RecordHash;
pub(crate) use epochs::{Epochs, Recorded};
pub use evaluations::EvaluationRecord;
pub(crate) use log::Log;
pub use probes::{LayerNorms, LayerRecord, LinearNorm, ModelNorms, ProbeRecord, QUANTILES, Relevance, Summary};
pub use sharpness::{Sharpness, SharpnessRecord};
