//! What a study found, made visible.
//!
//! | to find | look in |
//! |---|---|
//! | everything, written beside a run: `report.html`, `figures/`, `tables/` | [`write()`] |
//! | the figures of a run | [`pictures`] |
//! | its tables, as CSV, Markdown and HTML | [`tables`] |
//! | what probes say of the theory, on the page | [`theory`] |
//! | where the theory's conditions hold | [`regions`] |
//! | loss surfaces: contours, heat maps, a view to turn | [`surface`] |
//! | parts of the page that are there when their data are | [`section`] |
//! | the page | [`page`] |
//! | figures as SVG, PNG and PDF: panels, axes, marks, palette, ready-made charts | [`figure`] |
//!
//! ```
//! use semfocus_report::figure::charts::{Curve, compact_curves};
//! use semfocus_report::figure::{Background, Figure};
//!
//! let curve = |mechanism: &str, quartiles: &[[f64; 3]]| Curve {
//!     mechanism: mechanism.to_owned(),
//!     epochs: (1..=quartiles.len()).map(|epoch| epoch as f64).collect(),
//!     quartiles: quartiles.to_vec(),
//! };
//! let loss = [
//!     curve("full", &[[0.6, 0.7, 0.8], [0.4, 0.5, 0.6]]),
//!     curve("topk:5", &[[0.5, 0.6, 0.7], [0.01, 0.02, 0.1]]),
//! ];
//! let accuracy = [
//!     curve("full", &[[0.5, 0.5, 0.6], [0.7, 0.8, 0.9]]),
//!     curve("topk:5", &[[0.5, 0.6, 0.7], [0.9, 0.95, 1.0]]),
//! ];
//! let figure = Figure { title: "Learning curves".to_owned(), ..compact_curves(&loss, &accuracy) };
//! assert!(figure.svg(Background::White).starts_with("<svg "));
//! ```
#![forbid(unsafe_code)]

pub mod figure;
pub mod page;
pub mod pictures;
pub mod regions;
pub mod section;
pub mod surface;
pub mod tables;
pub mod theory;
mod write;

pub use write::{ReportError, Written, write, write_picture};
