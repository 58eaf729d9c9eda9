//! The report of a run: what a study found, as figures, tables and a page.
//!
//! | to find | look in |
//! |---|---|
//! | everything, written into a run's folder: `report.html`, `figures/`, `tables/` | [`write()`] |
//! | all that a report has | [`contents`] |
//! | the figures of a run | [`pictures`] |
//! | the style of a mechanism in all figures | [`palette`] |
//! | the tables | [`tables`] |
//! | what a table is, for people and as a [`Frame`](frame::Frame) of typed columns for programs | [`table`], [`frame`] |
//! | the formats of tables, frames and figures | [`export`] |
//! | the section about losses; what is known of the data, such as the floor | [`losses`]; `known.rs` |
//! | the section about questions, by position and other properties | [`questions`] |
//! | the section about the causes of the speed-up | [`causes`] |
//! | the section about probes and theory | [`theory`] |
//! | what probes found, over seeds; attention on the keys that answers depend on | `probed.rs`; `relevance.rs` |
//! | the section about loss surfaces, with a rotatable view | [`surface`] |
//! | the regions in which the conditions of the theory hold | [`regions`] |
//! | what a section consists of | [`section`] |
//! | the page | [`page`] |
//!
//! Figures are drawn by `semfocus-figure`.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "a name that says everything needs no comment")]

pub mod causes;
pub mod contents;
pub mod export;
pub mod frame;
mod grid;
mod known;
pub mod losses;
pub mod page;
pub mod palette;
pub mod pictures;
mod probed;
pub mod questions;
pub mod regions;
mod relevance;
pub mod section;
pub mod surface;
pub mod table;
pub mod tables;
pub mod theory;
mod write;

pub use contents::Contents;
pub use export::ReportError;
pub use write::{Written, write};
