//! What is recorded of a trial, one file for each kind: appended, never rewritten. Every line says the version of its
//! format.

use serde::Serialize;
use serde::de::DeserializeOwned;

mod epochs;
mod evaluations;
mod log;
mod probes;
mod sharpness;
mod slices;
mod table;

pub use epochs::RecordHash;
pub(crate) use epochs::{Epochs, Recorded};
pub use evaluations::EvaluationRecord;
pub(crate) use log::Log;
pub use probes::{LayerNorms, LayerRecord, LinearNorm, ModelNorms, ProbeRecord, QUANTILES, Relevance, Summary};
pub use sharpness::{Sharpness, SharpnessRecord};
pub use slices::SliceRecord;
pub(crate) use slices::Slices;
pub(crate) use table::Table;

/// What is measured on models of a trial and kept in a file of its own kind.
pub trait Measured: Serialize + DeserializeOwned {
    /// Name of the file.
    const FILE: &'static str;

    /// Epochs that the model was trained for.
    fn epoch(&self) -> usize;

    /// Of records about the same the one with the highest rank is read, and of those the last.
    fn rank(&self) -> usize {
        0
    }

    /// Whether both answer the same question.
    fn is_about_the_same(&self, other: &Self) -> bool;
}

/// Of all records the ones that are read, by ascending epoch.
pub(crate) fn latest<T: Measured>(mut records: Vec<T>) -> Vec<T> {
    records.sort_by_key(|record| (record.epoch(), record.rank()));
    let mut kept: Vec<T> = Vec::with_capacity(records.len());
    for record in records {
        kept.retain(|earlier| !earlier.is_about_the_same(&record));
        kept.push(record);
    }
    kept
}
