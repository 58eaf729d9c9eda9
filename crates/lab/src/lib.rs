//! The laboratory: an experiment becomes a plan of trials, trials are trained, and everything they show is kept in a run
//! store of plain files.
//!
//! | to find | look in |
//! |---|---|
//! | the settings of a trial, and the list of them | [`settings`] |
//! | the settings of the study | [`study`] |
//! | experiment files, presets, overrides; the plan of trials | [`experiment`] |
//! | how a trial is trained | [`training`] |
//! | what is saved so that it can go on | [`checkpoint`] |
//! | a trained model out of a store | [`trained`] |
//! | what the attention of a model does with its scores | [`probe`] |
//! | the files of a run | [`store`] |
//! | many trials side by side | [`executor`] |
//! | how long it will take | [`estimate`] |
#![forbid(unsafe_code)]

pub mod checkpoint;
pub mod estimate;
pub mod executor;
pub mod experiment;
pub mod probe;
pub mod settings;
pub mod store;
pub mod study;
pub mod trained;
pub mod training;

pub use experiment::{Experiment, ExperimentError, Plan, Request, Scale, Trial, TrialId};
pub use settings::TrialSettings;
pub use store::{EpochRecord, Store};
