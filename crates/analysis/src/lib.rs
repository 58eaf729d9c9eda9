//! What the numbers of an experiment do and do not show.
//!
//! | to find | look in |
//! |---|---|
//! | what a run shows: measures, comparisons, verdicts | [`evidence`] |
//! | stability of attention weights, the study's two conditions, and what probes say of them | [`theory`] |
//! | the surface of the loss around trained weights | [`surface`] |
//! | the statistical methods: pure functions of numbers and a seed | [`stats`] |
#![forbid(unsafe_code)]

pub mod evidence;
pub mod stats;
pub mod surface;
pub mod theory;
