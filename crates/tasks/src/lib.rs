//! Classification tasks for sequence models with exact definitions: the same task, settings and seed give the same bytes
//! on every machine and in every version.
//!
//! | to find | look in |
//! |---|---|
//! | the tasks of this crate, one file each: alphabet, generator, evaluator, explanation | [`tasks`] |
//! | how a task is defined, and the list of tasks | [`task`] |
//! | lengths, sizes of the splits, seed, files, parameters | [`settings`] |
//! | from a task and a seed to examples and disjoint splits | [`generate`](mod@generate) |
//! | where random numbers come from | [`random`] |
//! | how examples are written to files | [`formats`] |
//! | data files of your own | [`own`], [`lines`] |
//! | a task or data files, whichever a name stands for | [`source`] |
//! | which tokens a label depends on | [`relevance`] |
//! | properties of a data set: balance, copies, baselines | [`audit`] |
//!
//! ```
//! use semfocus_tasks::{Dataset, DataSettings, Tasks};
//!
//! let tasks = Tasks::standard();
//! let parity = tasks.find("parity")?;
//! assert_eq!(parity.label(&[1, 0, 1, 1])?, 1); // three ones: odd
//!
//! let data = Dataset::generate(parity, &DataSettings::default(), 7)?;
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
pub mod relevance;
pub mod settings;
pub mod source;
pub mod task;
pub mod tasks;

pub use audit::Audit;
pub use formats::{Format, Writer};
pub use generate::{Dataset, Example, Examples, GenerateError, Split, SplitName, Unlikely};
pub use lines::{Lines, ReadError, label_line};
pub use own::OwnData;
pub use random::Random;
pub use semfocus_core::data::{DataSettings, FileSet, Length, ListOps, Sizes};
pub use settings::SettingsError;
pub use source::{Source, SourceError};
pub use task::{Illegal, Label, Recipe, Symbol, TaskInfo, Tasks, Token, UnknownTask, symbol};
