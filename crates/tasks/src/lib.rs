//! Classification tasks for sequence models, defined exactly: the same task, settings and seed give the same bytes on
//! every machine and in every version.
//!
//! | to find | look in |
//! |---|---|
//! | the tasks themselves, one file each: alphabet, generator, evaluator, explanation | [`tasks`] |
//! | the list of them, and what there is to know about a task | [`registry`] |
//! | lengths, sizes of the splits, parameters | [`settings`] |
//! | from a task and a seed to examples and disjoint splits | [`generate`](mod@generate) |
//! | where random numbers come from | [`random`] |
//! | how examples are written into files | [`formats`] |
//! | a file of your own as a task | [`own`], [`lines`] |
//! | a task or a file, whichever a name stands for | [`source`] |
//! | which tokens a label hangs on | [`relevance`] |
//! | what a data set gives away: balance, copies, baselines | [`audit`] |
//!
//! ```
//! use semfocus_tasks::{Dataset, Registry, Settings};
//!
//! let registry = Registry::standard();
//! let parity = registry.find("parity")?;
//! assert_eq!(parity.label(&[1, 0, 1, 1])?, 1); // three ones: odd
//!
//! let data = Dataset::generate(parity, &Settings::default(), 7)?;
//! assert_eq!((data.train.len(), data.held_out.len(), data.width), (5000, 2000, 40));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod audit;
pub mod formats;
pub mod generate;
pub mod lines;
pub mod own;
pub mod random;
pub mod registry;
pub mod relevance;
pub mod settings;
pub mod source;
pub mod tasks;

pub use audit::Audit;
pub use formats::{Format, Writer};
pub use generate::{Dataset, Example, Examples, GenerateError, Split, SplitName};
pub use lines::{Lines, ReadError, label_line};
pub use own::OwnData;
pub use registry::{Illegal, Label, Registry, Symbol, TaskInfo, Token, UnknownTask};
pub use settings::{Length, ListOps, Settings, SettingsError, Sizes};
pub use source::{Source, SourceError};
