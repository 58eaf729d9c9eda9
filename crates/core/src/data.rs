//! What a data set is made from, in addition to the task and the seed.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The task that makes its examples of a text of the user's.
pub const TEXT_TASK: &str = "text";

/// The largest length of a sequence. Far beyond what is trained on; a mistyped number is caught.
pub const MAX_LENGTH: usize = 100_000;

/// The largest number of examples of a split.
pub const MAX_EXAMPLES: usize = 100_000_000;

/// How long sequences are: all the same, or drawn for every example. Written `40` or `20..40`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Length {
    /// Every sequence has this many tokens.
    Exactly(usize),
    /// Lengths vary between two bounds. Whether the bounds themselves occur is up to the task.
    Between(usize, usize),
}

impl Length {
    /// The largest length. Shorter sequences of a data set are padded at the end up to it.
    pub fn max(&self) -> usize {
        match *self {
            Length::Exactly(length) => length,
            Length::Between(_, longest) => longest,
        }
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Length::Exactly(length) => write!(f, "{length}"),
            Length::Between(shortest, longest) => write!(f, "{shortest}..{longest}"),
        }
    }
}

impl From<Length> for String {
    fn from(length: Length) -> Self {
        length.to_string()
    }
}

impl TryFrom<String> for Length {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
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
            Some((low, high)) => number(low).zip(number(high)).map(|(low, high)| Length::Between(low, high)),
        };
        match length {
            None => Err(format!("expected a length such as `40`, or a range such as `20..40`, not `{text}`")),
            Some(Length::Between(low, high)) if low > high => {
                Err(format!("the range `{text}` is empty; write `{high}..{low}`?"))
            }
            Some(length) if length.max() > MAX_LENGTH => Err(format!("lengths go up to {MAX_LENGTH}, not `{text}`")),
            Some(length) => Ok(length),
        }
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

impl Default for Sizes {
    fn default() -> Self {
        Sizes { train: 5000, held_out: 2000, test: 0 }
    }
}

/// Data files, one for each split. Without `train` there must be no other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileSet {
    /// Examples to train on.
    pub train: Option<String>,
    /// Examples to measure generalisation with; required with `train`.
    pub held_out: Option<String>,
    /// Examples for a final measurement; optional.
    pub test: Option<String>,
}

/// Settings of a data set. With the name of the task and the trial's seed, they determine every byte of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DataSettings {
    /// Seed of the data; the trial's if none is given. With a seed of its own, all trials see the same data.
    pub seed: Option<u64>,
    /// Lengths of the sequences; the task's default if none is given.
    pub length: Option<Length>,
    /// Sizes of the splits.
    pub sizes: Sizes,
    /// Whether new examples are drawn for every step. The training split is then not trained on: it is a sample of the
    /// same distribution, for measurements.
    pub online: bool,
    /// Data files to use instead of a generated data set.
    pub files: FileSet,
    /// Whether the first line of a CSV file is an example even if it looks like a header.
    pub no_header: bool,
    /// A tokenizer that somebody else trained, for the task `text`; without one, the task trains its own.
    pub tokenizer_file: Option<String>,
}

impl DataSettings {
    /// The default settings with another length.
    pub fn with_length(length: Length) -> Self {
        DataSettings { length: Some(length), ..DataSettings::default() }
    }

    /// The seed of the data of a trial.
    pub fn seed_for(&self, trial_seed: u64) -> u64 {
        self.seed.unwrap_or(trial_seed)
    }
}
