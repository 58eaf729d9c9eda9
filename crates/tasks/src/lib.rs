//! Tasks for sequence models with exact definitions: the same task, settings and seed give the same bytes on every machine and
//! in every version.
//!
//! | to find | look in |
//! |---|---|
//! | what a task is; the list of tasks | [`task`], [`registry`] |
//! | the tasks of this crate, one file each: alphabet, generator, evaluator, explanation | `tasks/` |
//! | which lengths and sizes go with a task | [`settings`] |
//! | a split: tokens and questions; which split a sequence belongs to | [`split`] |
//! | the loss of the best predictor and of the unigram predictor | `floor.rs` |
//! | from a task and a seed to examples and disjoint splits | [`generate`](mod@generate) |
//! | where random numbers come from | [`random`] |
//! | how examples are written to files | [`formats`] |
//! | data files of your own | [`own`], [`lines`] |
//! | a task or data files, whichever a name stands for | [`source`] |
//! | texts of your own: language models | [`text`] |
//! | properties of questions by which loss and accuracy are split | [`slices`] |
//! | which tokens an answer depends on | [`relevance`] |
//! | properties of a data set: balance, copies, baselines | [`audit`] |
//!
//! ```
//! use semfocus_tasks::{Dataset, DataSettings, Tasks, label};
//!
//! let tasks = Tasks::standard();
//! let parity = tasks.find("parity")?;
//! assert_eq!(parity.answers(&[1, 0, 1, 1])?, label(1)); // three ones: odd
//!
//! let data = Dataset::generate(&parity, &DataSettings::default(), 7)?;
//! assert_eq!((data.train.len(), data.held_out.len(), data.length), (5000, 2000, 40));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod audit;
mod floor;
pub mod formats;
pub mod generate;
pub mod lines;
pub mod own;
pub mod random;
pub mod registry;
pub mod relevance;
pub mod settings;
pub mod slices;
pub mod source;
pub mod split;
pub mod task;
mod tasks;
pub mod text;

pub use audit::Audit;
pub use formats::{Format, Writer};
pub use generate::{Dataset, Example, Examples, GenerateError};
pub use lines::{Lines, ReadError, answer_line};
pub use own::OwnData;
pub use random::Random;
pub use registry::Tasks;
pub use semfocus_core::data::{DataSettings, FileSet, Length, Sizes};
pub use semfocus_core::question::{At, Question, Questions, Target};
pub use semfocus_core::spec::{Literal, Named, Parameter, Values};
pub use settings::SettingsError;
pub use slices::SliceTable;
pub use source::{Source, SourceError};
pub use split::{Split, SplitName};
pub use task::{
    Answers, BuiltTask, Evaluator, Illegal, Label, Lengths, POSITION, Slice, Symbol, Task, TaskInfo, Token,
    TrivialRule, Unlikely, label, single_label, symbol,
};
pub use text::{Text, TextData, TextSettings};
