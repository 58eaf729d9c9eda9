//! From (task, settings, seed) to examples, and to splits that share none.
//!
//! # How splits are kept apart
//!
//! Every sequence belongs to one split, whether it is ever drawn or not: the one that a hash of its tokens and the seed
//! says, 5 in 8 sequences to train, 2 in 8 to held-out, 1 in 8 to test. Each split draws from a stream of its own and
//! draws again whenever a sequence belongs elsewhere. So splits are disjoint by construction, also where the task has
//! few sequences and the draws repeat; a split does not depend on the size of the others; and the first examples of a
//! split stay the same when more are asked for. Among the sequences of its split every draw follows the distribution of
//! the task. Where a task has so few sequences that none falls into a split, that is an error and not an endless search.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use semfocus_kernels::{Key, Stream, fnv_1a};
use serde::{Deserialize, Serialize};

use crate::random::Random;
use crate::registry::{Label, Recipe, TaskInfo, Token};
use crate::settings::{Settings, SettingsError};

/// A part of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SplitName {
    /// Examples to train on.
    Train,
    /// Examples to measure generalisation with.
    HeldOut,
    /// Examples kept for the very end.
    Test,
}

impl SplitName {
    /// All of them.
    pub const ALL: [SplitName; 3] = [SplitName::Train, SplitName::HeldOut, SplitName::Test];

    /// The split that a sequence belongs to under a seed. Padding at its end must have been removed.
    pub fn of(seed: u64, sequence: &[Token]) -> SplitName {
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

/// FNV-1a of the tokens, two bytes each, the lower one first.
pub(crate) fn hash(tokens: &[Token]) -> u64 {
    fnv_1a(tokens.iter().flat_map(|token| token.to_le_bytes()))
}

/// A sequence and its label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// The sequence as drawn, not padded to the width of a data set.
    pub tokens: Vec<Token>,
    /// Its class.
    pub label: Label,
}

/// A generator gave up: what was asked of it hardly ever happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unlikely {
    /// How many random numbers or expressions were tried.
    pub attempts: u64,
}

/// Why no examples could be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum GenerateError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(
        "`{task}` found no expression of length {length} in {attempts} attempts; allow a wider range of lengths or \
         change the parameters of the procedure"
    )]
    Unlikely { task: String, length: String, attempts: u64 },
    #[error(
        "`{task}` has too few different sequences of length {length}: none of {attempts} draws was {wanted}; take \
         longer sequences or fewer examples"
    )]
    Exhausted { task: String, length: String, attempts: u64, wanted: String },
}

/// So many draws in a row may be thrown away before a split counts as exhausted.
const MAX_REJECTIONS: u64 = 20_000;

/// An endless source of examples of a task, without memory unless the task demands distinct sequences.
#[derive(Debug)]
pub struct Examples<'a> {
    task: &'a TaskInfo,
    recipe: Recipe,
    length: String,
    seed: u64,
    split: Option<SplitName>,
    random: Random,
    /// Hashes of the sequences given so far, if they must be distinct. Two sequences with one hash merely cost a draw.
    seen: Option<HashSet<u64>>,
}

impl<'a> Examples<'a> {
    /// The examples of a split; or, without one, of the task as it is defined: all its sequences, from a further stream.
    pub fn new(
        task: &'a TaskInfo,
        settings: &Settings,
        seed: u64,
        split: Option<SplitName>,
    ) -> Result<Self, SettingsError> {
        let lengths = settings.check(task)?;
        let stream = split.map_or(3, |split| split as u64);
        Ok(Examples {
            task,
            recipe: Recipe { lengths, listops: settings.listops },
            length: settings.length_for(task).to_string(),
            seed,
            split,
            random: Random::new(Key::of_stream(seed, Stream::Data).named(task.name).child(stream)),
            seen: task.distinct.then(HashSet::new),
        })
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
            if self.split.is_some_and(|split| split != SplitName::of(self.seed, sequence)) {
                continue;
            }
            if self.seen.as_mut().is_some_and(|seen| !seen.insert(hash(sequence))) {
                continue;
            }
            let label = task.label(sequence).expect("generators write legal sequences");
            debug_assert_eq!(label, constructed, "generator and evaluator of {} disagree on {tokens:?}", task.name);
            return Ok(Example { tokens, label });
        }
        let new = if self.seen.is_some() { "new" } else { "" };
        let wanted = match (self.split, self.seen.is_some()) {
            (None, _) => new.to_owned(),
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
    /// Tokens of an example with its padding.
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

    /// The sequences with their padding, and their labels.
    pub fn iter(&self) -> impl Iterator<Item = (&[Token], Label)> {
        self.tokens.chunks_exact(self.width.max(1)).zip(self.labels.iter().copied())
    }

    /// FNV-1a of all tokens and labels, two bytes each, the lower one first: the same bytes give the same number.
    pub fn checksum(&self) -> u64 {
        fnv_1a(self.iter().flat_map(|(tokens, label)| tokens.iter().copied().chain([label])).flat_map(u16::to_le_bytes))
    }
}

/// A task's data, ready for training.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dataset {
    /// Name of the task.
    pub name: String,
    /// Number of token ids, the pad token included. Global tokens take the ids that follow.
    pub vocabulary: usize,
    /// Number of classes.
    pub classes: usize,
    /// Id of the pad token.
    pub pad: Token,
    /// Tokens of an example with its padding.
    pub width: usize,
    /// Examples to train on.
    pub train: Split,
    /// Examples to measure generalisation with.
    pub held_out: Split,
    /// Examples kept for the very end.
    pub test: Split,
}

impl Dataset {
    /// Generates the splits of a task: a pure function of its arguments.
    pub fn generate(task: &TaskInfo, settings: &Settings, seed: u64) -> Result<Self, GenerateError> {
        let (pad, width) = (task.pad(), settings.length_for(task).width());
        let make = |name: SplitName, size: usize| -> Result<Split, GenerateError> {
            let mut examples = Examples::new(task, settings, seed, Some(name))?;
            let mut split = Split::new(width);
            for _ in 0..size {
                let example = examples.draw()?;
                split.push(&example.tokens, example.label, pad);
            }
            Ok(split)
        };
        Ok(Dataset {
            name: task.name.to_owned(),
            vocabulary: task.vocabulary(),
            classes: task.classes.len(),
            pad,
            width,
            train: make(SplitName::Train, settings.sizes.train)?,
            held_out: make(SplitName::HeldOut, settings.sizes.held_out)?,
            test: make(SplitName::Test, settings.sizes.test)?,
        })
    }

    /// The splits by name.
    pub fn splits(&self) -> [(SplitName, &Split); 3] {
        [(SplitName::Train, &self.train), (SplitName::HeldOut, &self.held_out), (SplitName::Test, &self.test)]
    }
}
