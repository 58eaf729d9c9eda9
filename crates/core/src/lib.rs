//! What all parts of semfocus name. Values, texts and their rules; no files are written here and nothing is computed.
//!
//! | to find | look in |
//! |---|---|
//! | the settings of a trial and the list of them | [`settings`] |
//! | settings of the model, the optimiser, the learning rate, the data | [`model`], [`optimizer`], [`settings::learning_rate`], [`data`] |
//! | the settings of the study | [`study`] |
//! | experiment files, presets, overrides | [`experiment`] |
//! | how mechanisms, tasks and measurements are written, and the values that they take | [`spec`] |
//! | attention that differs between blocks or changes during training; lists of mechanisms | [`mechanism`] |
//! | what is measured on trained models | [`measurement`] |
//! | what an epoch records; what follows from it and the data; targets | [`metric`], [`quantity`], [`goal`] |
//! | what examples ask, and the right answers | [`question`] |
//! | where a sequence holds what an answer has to be looked up from | [`relevant_keys`] |
//! | the id of a trial; the stored weights that it starts with | [`trial`], [`origin`] |
//! | opening files that may come from a stranger | [`mod@file`] |
//! | which epochs and values slices are recorded for | [`two_digits`](mod@two_digits) |
//! | random numbers that depend on where they are drawn | [`random`] |
#![forbid(unsafe_code)]

pub mod allocation;
pub mod data;
pub mod experiment;
pub mod file;
pub mod goal;
pub mod measurement;
pub mod mechanism;
pub mod metric;
pub mod model;
pub mod names;
pub mod optimizer;
pub mod origin;
pub mod quantity;
pub mod question;
pub mod random;
pub mod relevant_keys;
pub mod settings;
pub mod spec;
pub mod study;
pub mod time_left;
pub mod trial;
pub mod two_digits;

pub use allocation::Allocation;
pub use data::{DataSettings, FileSet, Length, Sizes};
pub use experiment::{
    AnyName, Difference, Expectation, Expected, Experiment, ExperimentError, Names, Outcome, Request, Scale,
};
pub use goal::{Goal, Threshold, UnknownFact};
pub use measurement::Measurement;
pub use mechanism::{BASELINE, MechanismList, Schedule};
pub use metric::{EpochRecord, Evaluation, METRICS, Metric, Metrics};
pub use model::{Activation, ConfigError, Engine, Head, Initialisation, ModelConfig, PositionKind, Quirks, Visibility};
pub use optimizer::{Decayed, LrFactors, OptimizerConfig, Rule};
pub use origin::Origin;
pub use quantity::{DataFacts, Fact, Quantity, SplitFacts};
pub use question::{Answers, At, Question, Questions, Target};
pub use random::{Key, Stream, fnv_1a};
pub use relevant_keys::RelevantKeys;
pub use settings::TrialSettings;
pub use settings::learning_rate::{RateSchedule, RateSettings};
pub use spec::{Parameter, Spec, SpecError, SpecValue, Values};
pub use trial::{Point, TrialId};
pub use two_digits::two_digits;
