//! What the numbers of an experiment do and do not show.
//!
//! | to find | look in |
//! |---|---|
//! | what a run shows: measures, comparisons, verdicts | [`evidence`] |
//! | how a run stands: states, progress, time left | [`overview`] |
//! | stability of attention weights, the study's two conditions, and bounds from probes | [`theory`] |
//! | how steep a loss surface is | [`steepness`] |
//! | the statistical methods | [`stats`] |
#![forbid(unsafe_code)]

pub mod evidence;
pub mod overview;
pub mod stats;
pub mod steepness;
pub mod theory;
