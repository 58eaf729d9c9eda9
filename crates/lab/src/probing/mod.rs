//! Probes: what the attention of a model does with its scores.
//!
//! For each query and head: the dispersion of the kept scores, their separation from the dropped ones, the entropy of the
//! weights, and the share of weight that full attention would give to the kept keys. For each key: how many queries keep it.
//! For each layer: the overlap of the kept keys with those of an earlier model and, where the task says which tokens decide the
//! label, with those tokens. Quantiles are streamed ([`Sketch`]); scores are never stored.

mod prober;
mod sketch;

pub use prober::Prober;
pub use sketch::Sketch;
