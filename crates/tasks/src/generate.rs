//! From a task, settings and a seed to examples, and to splits that share none.
//!
//! # How splits are kept apart
//!
//! Every sequence belongs to one split, whether it is ever drawn or not. A hash of its tokens and the seed decides which: 5
//! of 8 sequences belong to train, 2 to held-out, 1 to test. Each split draws from its own random stream and discards
//! sequences that belong to another split. So splits are disjoint by construction, even where a task has few sequences and
//! draws repeat; a split does not depend on the size of the others; and the first examples of a split stay the same when
//! more are asked for. Within a split, sequences follow the distribution of the task. If a task has so few sequences that
//! none belongs to a split, generating fails instead of searching forever.
//!
//! Online training draws new examples for every step. They are sequences that belong to train, so held-out and test share
//! none with them, however many steps there are. Every step has a stream of its own, so what it draws does not depend on
//! the steps before it. Steps remember nothing: where sequences are few they repeat, also in tasks whose splits have no
//! sequence twice.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use semfocus_core::{Key, Stream, fnv_1a};
use serde::{Deserialize, Serialize};

use crate::random::Random;
use semfocus_core::DataSettings;

use crate::settings::SettingsError;
use crate::task::{Label, Recipe, TaskInfo, Token};

/// The parts of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SplitName {
    /// Examples to train on.
    Train,
    /// Examples to measure generalisation with.
    HeldOut,
    /// Examples for a final measurement, untouched until all choices are made.
    Test,
}

impl SplitName {
    /// In the order in which data sets list their splits.
    pub const ALL: [SplitName; 3] = [SplitName::Train, SplitName::HeldOut, SplitName::Test];

    /// The split that a sequence belongs to. Padding at its end must have been removed.
    pub fn for_sequence(seed: u64, sequence: &[Token]) -> SplitName {
        match Key::of_stream(seed, Stream::Data).named("splits").child(hash(sequence)).bits() >> 61 {
            0..=4 => SplitName::Train,
            5 | 6 => SplitName::HeldOut,
            _ => SplitName::Test,
        }
    }
}

impl fmt::Display for SplitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            SplitName::Train => "train",
            SplitName::HeldOut => "held-out",
            SplitName::Test => "test",
        })
    }
}

impl FromStr for SplitName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = SplitName::ALL.into_iter().find(|split| split.to_string() == text);
        found.ok_or_else(|| format!("expected `train`, `held-out` or `test`, not `{text}`"))
    }
}

/// FNV-1a of the tokens, as two bytes each in little-endian order.
pub(crate) fn hash(tokens: &[Token]) -> u64 {
    fnv_1a(tokens.iter().flat_map(|token| token.to_le_bytes()))
}

/// A sequence and its label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// The sequence as drawn, not padded to the width of a data set.
    pub tokens: Vec<Token>,
    /// The label on which generator and evaluator agree.
    pub label: Label,
}

/// A generator gave up, because sequences of the lengths asked for hardly ever occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unlikely {
    /// How many sequences were tried.
    pub attempts: u64,
}

/// Why examples could not be generated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum GenerateError {
    #[error(transparent)]
    DataSettings(#[from] SettingsError),
    #[error(
        "`{task}` found no expression of length {length} in {attempts} attempts; allow a wider range of lengths or \
         change the parameters of the procedure"
    )]
    Unlikely { task: String, length: String, attempts: u64 },
    #[error("the task `{task}` is wrongly defined: {problem}; the sequence is `{sequence}`")]
    WrongTask { task: String, sequence: String, problem: String },
    #[error(
        "`{task}` has too few different sequences of length {length}: none of {attempts} draws was {wanted}; take \
         longer sequences or fewer examples"
    )]
    Exhausted { task: String, length: String, attempts: u64, wanted: String },
    #[error("`{name}` is a file with its own examples: none can be drawn for a step")]
    NotGenerated { name: String },
}

/// The streams that follow those of the three splits: examples of no split, and those of online training.
const FREE_STREAM: u64 = 3;
const ONLINE_STREAM: u64 = 4;

/// A split counts as exhausted after this many discarded draws in a row.
const MAX_REJECTIONS: u64 = 20_000;

/// An endless stream of examples of a task. Keeps no memory of earlier ones unless the task allows none twice.
#[derive(Debug)]
pub struct Examples<'a> {
    task: &'a TaskInfo,
    recipe: Recipe,
    length: String,
    width: usize,
    seed: u64,
    split: Option<SplitName>,
    random: Random,
    /// Hashes of the sequences so far, if they must be distinct. A collision only costs a draw.
    seen: Option<HashSet<u64>>,
}

impl<'a> Examples<'a> {
    /// The examples of a split. Without one, all sequences of the task may occur, drawn from a stream of their own.
    pub fn new(
        task: &'a TaskInfo,
        settings: &DataSettings,
        trial_seed: u64,
        split: Option<SplitName>,
    ) -> Result<Self, SettingsError> {
        let (lengths, seed) = (task.check(settings)?, settings.seed_for(trial_seed));
        let (stream, length) = (split.map_or(FREE_STREAM, |split| split as u64), task.length_for(settings));
        Ok(Examples {
            task,
            recipe: Recipe { lengths, listops: settings.listops },
            length: length.to_string(),
            width: length.width(),
            seed,
            split,
            random: Random::new(Key::of_stream(seed, Stream::Data).named(task.name).child(stream)),
            seen: task.distinct.then(HashSet::new),
        })
    }

    /// The examples of a step of online training: sequences that belong to train, from a stream that depends on the seed
    /// and the number of the step alone.
    pub fn for_step(
        task: &'a TaskInfo,
        settings: &DataSettings,
        trial_seed: u64,
        step: u64,
    ) -> Result<Self, SettingsError> {
        let examples = Examples::new(task, settings, trial_seed, Some(SplitName::Train))?;
        let key = Key::of_stream(examples.seed, Stream::Data).named(task.name).child(ONLINE_STREAM).child(step);
        Ok(Examples { random: Random::new(key), seen: None, ..examples })
    }

    /// The next `count` examples, padded to one width.
    pub fn take_split(&mut self, count: usize) -> Result<Split, GenerateError> {
        let mut split = Split::new(self.width);
        for _ in 0..count {
            let example = self.draw()?;
            split.push(&example.tokens, example.label, self.task.pad());
        }
        Ok(split)
    }

    /// The next example.
    pub fn draw(&mut self) -> Result<Example, GenerateError> {
        let task = self.task;
        let mut tokens = Vec::with_capacity(*self.recipe.lengths.end());
        for _ in 0..MAX_REJECTIONS {
            tokens.clear();
            let constructed = (task.generate)(&self.recipe, &mut self.random, &mut tokens).map_err(|unlikely| {
                GenerateError::Unlikely {
                    task: task.name.to_owned(),
                    length: self.length.clone(),
                    attempts: unlikely.attempts,
                }
            })?;
            let sequence = task.without_padding(&tokens);
            if self.split.is_some_and(|split| split != SplitName::for_sequence(self.seed, sequence)) {
                continue;
            }
            if self.seen.as_mut().is_some_and(|seen| !seen.insert(hash(sequence))) {
                continue;
            }
            return match self.check(&tokens, constructed) {
                Ok(()) => Ok(Example { tokens, label: constructed }),
                Err(problem) => {
                    let sequence = task.written(&tokens);
                    Err(GenerateError::WrongTask { task: task.name.to_owned(), sequence, problem })
                }
            };
        }
        let wanted = match (self.split, self.seen.is_some()) {
            (None, _) => "new".to_owned(),
            (Some(split), false) => format!("in the {split} split"),
            (Some(split), true) => format!("new and in the {split} split"),
        };
        Err(GenerateError::Exhausted {
            task: task.name.to_owned(),
            length: self.length.clone(),
            attempts: MAX_REJECTIONS,
            wanted,
        })
    }

    /// Holds the generator to the evaluator. This never fails for the tasks of this crate, but it may for others.
    fn check(&self, tokens: &[Token], constructed: Label) -> Result<(), String> {
        let label = self.task.label(tokens).map_err(|illegal| format!("its evaluator rejects {illegal}"))?;
        if label != constructed {
            return Err(format!("its generator says the label is {constructed}, its evaluator says {label}"));
        }
        if usize::from(label) >= self.task.classes.len() {
            return Err(format!("it has no class for the label {label}"));
        }
        let lengths = &self.recipe.lengths;
        if !lengths.contains(&tokens.len()) {
            let (min, max) = (lengths.start(), lengths.end());
            return Err(format!("{min} to {max} tokens were asked for, {} generated", tokens.len()));
        }
        Ok(())
    }
}

impl Iterator for Examples<'_> {
    type Item = Result<Example, GenerateError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.draw())
    }
}

/// The examples of one split, padded to one width.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// All sequences one after another, each padded to `width`: `[examples, width]`.
    pub tokens: Vec<Token>,
    /// The class of every example.
    pub labels: Vec<Label>,
    /// The number of tokens of every example before padding.
    pub lengths: Vec<usize>,
    /// The length to which every sequence is padded.
    pub width: usize,
}

impl Split {
    pub(crate) fn new(width: usize) -> Self {
        Split { width, ..Split::default() }
    }

    pub(crate) fn push(&mut self, tokens: &[Token], label: Label, pad: Token) {
        self.tokens.extend_from_slice(tokens);
        self.tokens.resize((self.labels.len() + 1) * self.width, pad);
        self.labels.push(label);
        self.lengths.push(tokens.len());
    }

    /// The number of examples.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there is no example.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Share of the most frequent class: what always giving the same answer gets right. None without examples.
    pub fn majority(&self) -> Option<f64> {
        let mut labels = self.labels.clone();
        labels.sort_unstable();
        let most = labels.chunk_by(|one, other| one == other).map(<[Label]>::len).max()?;
        Some(most as f64 / self.len() as f64)
    }

    /// The sequences with their padding, and their labels.
    pub fn iter(&self) -> impl Iterator<Item = (&[Token], Label)> {
        self.tokens.chunks_exact(self.width.max(1)).zip(self.labels.iter().copied())
    }

    /// FNV-1a of all tokens and labels, as two bytes each in little-endian order.
    pub fn checksum(&self) -> u64 {
        fnv_1a(self.iter().flat_map(|(tokens, label)| tokens.iter().copied().chain([label])).flat_map(u16::to_le_bytes))
    }
}

/// Three disjoint splits, ready for training.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dataset {
    /// Name of the task or of the data file.
    pub name: String,
    /// Number of token ids, including the pad token. Global tokens take the ids that follow.
    pub vocabulary: usize,
    /// Number of classes.
    pub classes: usize,
    /// How each class is written.
    pub class_names: Vec<String>,
    /// Id of the pad token.
    pub pad: Token,
    /// The length to which every sequence is padded.
    pub width: usize,
    /// Examples to train on.
    pub train: Split,
    /// Examples to measure generalisation with.
    pub held_out: Split,
    /// Examples for a final measurement; empty unless asked for.
    pub test: Split,
}

impl Dataset {
    /// Generates the splits of a task: a pure function of its arguments. `settings.seed` takes precedence over the trial's.
    pub fn generate(task: &TaskInfo, settings: &DataSettings, trial_seed: u64) -> Result<Self, GenerateError> {
        let make = |name: SplitName| -> Result<Split, GenerateError> {
            Examples::new(task, settings, trial_seed, Some(name))?.take_split(name.size_in(&settings.sizes))
        };
        Ok(Dataset {
            name: task.name.to_owned(),
            vocabulary: task.vocabulary(),
            classes: task.classes.len(),
            class_names: task.classes.iter().map(|class| class.text.to_owned()).collect(),
            pad: task.pad(),
            width: task.length_for(settings).width(),
            train: make(SplitName::Train)?,
            held_out: make(SplitName::HeldOut)?,
            test: make(SplitName::Test)?,
        })
    }

    /// The splits by name.
    pub fn splits(&self) -> [(SplitName, &Split); 3] {
        [(SplitName::Train, &self.train), (SplitName::HeldOut, &self.held_out), (SplitName::Test, &self.test)]
    }
}
