//! What the numbers of an experiment do and do not show.
//!
//! | to find | look in |
//! |---|---|
//! | what a run shows: measures, comparisons, verdicts | [`evidence`] |
//! | what the attention of a trained model does with its scores | [`probe`] |
//! | stability of attention weights, and the study's two conditions | [`theory`] |
//! | the statistical methods: pure functions of numbers and a seed | [`stats`] |
#![forbid(unsafe_code)]

pub mod evidence;
pub mod probe;
pub mod stats;
pub mod theory;
