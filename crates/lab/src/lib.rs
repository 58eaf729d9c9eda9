//! The laboratory: an experiment becomes a plan of trials, and jobs train, probe and measure them.
//!
//! | to find | look in |
//! |---|---|
//! | the mechanisms and tasks of a laboratory; adding your own | [`Lab`] |
//! | from an experiment to its trials | [`plan`] |
//! | what a job is; many jobs side by side | [`jobs`] |
//! | how a model is trained: steps, epochs, evaluation; no files | [`training`] |
//! | what the attention of a model does with its scores | [`probing`] |
//! | loss surfaces and Hessians | [`surface`] |
//! | norms and eigenvalues | [`spectrum`] |
//! | the attention of a trial, epoch by epoch and in evaluation | [`TrialAttention`] |
//! | where trained models are; loading one | [`ModelRef`]; [`TrainedModel`] |
//! | how long an experiment will take | [`estimate`] |
//! | texts, each read once; the tokenizers of a run | [`Tokenizers`] |
//! | how much memory a trial needs | [`memory`] |
//! | where the arithmetic runs | [`Device`] |
#![forbid(unsafe_code)]

mod device;
pub mod estimate;
pub mod jobs;
mod lab;
pub mod memory;
mod model;
mod model_ref;
mod own_code;
pub mod plan;
pub mod probing;
pub mod relevance;
mod schedule;
pub mod spectrum;
mod step_cost;
pub mod surface;
mod texts;
mod threads;
mod trained_model;
pub mod training;
mod trial;
mod trial_attention;

pub use device::Device;
pub use lab::{Lab, NoExamples, Part};
pub use model_ref::{ChoiceError, ChosenModels, ModelRef};
pub use own_code::{OtherCode, OwnCode};
pub use plan::{Plan, Planner};
pub use schedule::Schedule;
pub use texts::{TextSourceError, Tokenizers};
pub use threads::prepare_threads;
pub use trained_model::{ModelError, TrainedModel};
pub use trial::Trial;
pub use trial_attention::{AttentionError, TrialAttention};
