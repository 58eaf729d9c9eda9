//! What the numbers of an experiment do and do not show.
//!
//! | to find | look in |
//! |---|---|
//! | the statistical methods: pure functions of numbers and a seed | [`stats`] |
#![forbid(unsafe_code)]

pub mod stats;
