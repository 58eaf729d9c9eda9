//! Settings of a data set: lengths, sizes of the splits, seed, files, parameters of ListOps.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use serde::Serialize;

use crate::generate::SplitName;
use crate::task::TaskInfo;

/// Maximum length of a sequence. Far longer than anything trained on, so that it only catches mistyped numbers.
pub const MAX_LENGTH: usize = 100_000;

/// Maximum number of examples of a split.
pub const MAX_EXAMPLES: usize = 100_000_000;

/// The length of sequences: one for all, or drawn for every example. Written `40` or `20..40`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(into = "String")]
pub enum Length {
    /// Every sequence has this many tokens.
    Exactly(usize),
    /// Lengths vary between two bounds. Whether the bounds themselves occur depends on the task; see
    /// [`TaskInfo::lengths`].
    Between(usize, usize),
}

impl Length {
    /// The length to which sequences are padded.
    pub fn width(&self) -> usize {
        match *self {
            Length::Exactly(length) => length,
            Length::Between(_, max) => max,
        }
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Length::Exactly(length) => write!(f, "{length}"),
            Length::Between(min, max) => write!(f, "{min}..{max}"),
        }
    }
}

impl From<Length> for String {
    fn from(length: Length) -> Self {
        length.to_string()
    }
}

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |part: &str| {
            let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| part.parse().unwrap_or(usize::MAX))
        };
        let text = text.trim();
        let length = match text.split_once("..") {
            None => number(text).map(Length::Exactly),
            Some((min, max)) => number(min).zip(number(max)).map(|(min, max)| Length::Between(min, max)),
        };
        match length {
            None => Err(format!("expected a length such as `40`, or a range such as `20..40`, not `{text}`")),
            Some(Length::Between(min, max)) if min > max => {
                Err(format!("the range `{text}` is empty; write `{max}..{min}`?"))
            }
            Some(length) if length.width() > MAX_LENGTH => Err(format!("lengths go up to {MAX_LENGTH}, not `{text}`")),
            Some(length) => Ok(length),
        }
    }
}

/// Parameters of the procedure that generates ListOps expressions. The other tasks have none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ListOps {
    /// Maximum depth of an expression: nodes at this depth are digits. The root has depth 1.
    pub max_depth: usize,
    /// Maximum number of arguments of an operator. The minimum is 2.
    pub max_args: usize,
    /// Probability that a node above the maximum depth is an operator.
    pub operator_probability: f64,
}

impl Default for ListOps {
    fn default() -> Self {
        ListOps { max_depth: 10, max_args: 10, operator_probability: 0.25 }
    }
}

/// How many examples each split has. For data files these are upper limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Examples to train on.
    pub train: usize,
    /// Examples to measure generalisation with.
    pub held_out: usize,
    /// Examples for a final measurement, untouched until all choices are made.
    pub test: usize,
}

impl Sizes {
    /// The size of one split.
    pub fn get(&self, split: SplitName) -> usize {
        match split {
            SplitName::Train => self.train,
            SplitName::HeldOut => self.held_out,
            SplitName::Test => self.test,
        }
    }
}

impl Default for Sizes {
    fn default() -> Self {
        Sizes { train: 5000, held_out: 2000, test: 0 }
    }
}

/// Data files, one for each split. Without `train` there must be no other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileSet {
    /// Examples to train on.
    pub train: Option<PathBuf>,
    /// Examples to measure generalisation with; required with `train`.
    pub held_out: Option<PathBuf>,
    /// Examples for a final measurement; optional.
    pub test: Option<PathBuf>,
}

/// Settings of a data set. With the name of the task and the trial's seed, they determine every byte of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Seed of the data; the trial's if none is given. With a seed of its own, all trials see the same data.
    pub seed: Option<u64>,
    /// Lengths of the sequences; the task's default if none is given.
    pub length: Option<Length>,
    /// Sizes of the splits.
    pub sizes: Sizes,
    /// Data files to use instead of a generated data set.
    pub files: FileSet,
    /// Parameters of the task `listops`.
    pub listops: ListOps,
}

/// Why settings cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum SettingsError {
    #[error("`{task}` needs sequences of at least {min} token{}, got length {length}", if *.min == 1 { "" } else { "s" })]
    TooShort { task: String, min: usize, length: Length },
    #[error("no length lies strictly between the bounds of `{length}`; `{task}` excludes both")]
    NothingBetween { task: String, length: Length },
    #[error("lengths go up to {MAX_LENGTH}, got {length}")]
    TooLong { length: Length },
    #[error("a ListOps expression has 1 token or at least 4, never {length}")]
    NoSuchExpression { length: Length },
    #[error("`{field}` must be {rule}, got {value}")]
    ListOps { field: &'static str, rule: &'static str, value: String },
    #[error("the {split} split can have at most {MAX_EXAMPLES} examples, got {size}")]
    TooMany { split: SplitName, size: usize },
}

impl Settings {
    /// The default settings with another length.
    pub fn with_length(length: Length) -> Self {
        Settings { length: Some(length), ..Settings::default() }
    }

    /// The seed of the data of a trial.
    pub fn seed_for(&self, trial_seed: u64) -> u64 {
        self.seed.unwrap_or(trial_seed)
    }

    /// The lengths of a task's sequences: those asked for, or the task's default.
    pub fn length_for(&self, task: &TaskInfo) -> Length {
        self.length.unwrap_or(task.default_length)
    }

    /// Checks the settings against a task and returns the lengths that its sequences may have.
    pub fn check(&self, task: &TaskInfo) -> Result<RangeInclusive<usize>, SettingsError> {
        for split in SplitName::ALL {
            let size = self.sizes.get(split);
            if size > MAX_EXAMPLES {
                return Err(SettingsError::TooMany { split, size });
            }
        }
        self.listops.check()?;
        let length = self.length_for(task);
        let lengths = task.lengths(length);
        let name = || task.name.to_owned();
        if length.width() > MAX_LENGTH {
            return Err(SettingsError::TooLong { length });
        }
        if lengths.is_empty() {
            return Err(SettingsError::NothingBetween { task: name(), length });
        }
        if *lengths.start() < task.min_length {
            return Err(SettingsError::TooShort { task: name(), min: task.min_length, length });
        }
        if task.name == crate::tasks::listops::INFO.name && *lengths.start() > 1 && *lengths.end() < 4 {
            return Err(SettingsError::NoSuchExpression { length });
        }
        Ok(lengths)
    }
}

impl ListOps {
    fn check(&self) -> Result<(), SettingsError> {
        let ListOps { max_depth, max_args, operator_probability } = *self;
        let wrong = |field, rule, value| Err(SettingsError::ListOps { field, rule, value });
        if !(1..=100).contains(&max_depth) {
            return wrong("max_depth", "from 1 to 100", max_depth.to_string());
        }
        if !(2..=1000).contains(&max_args) {
            return wrong("max_args", "from 2 to 1000", max_args.to_string());
        }
        if !(0.0..=1.0).contains(&operator_probability) {
            return wrong("operator_probability", "from 0 to 1", operator_probability.to_string());
        }
        Ok(())
    }
}
