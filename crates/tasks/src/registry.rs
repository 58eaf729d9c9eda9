//! The list of tasks. Help, `semfocus list tasks` and the tests are generated from it.

use std::ops::RangeInclusive;

use serde::Serialize;

use crate::generate::Unlikely;
use crate::random::Random;
use crate::settings::{Length, ListOps};
use crate::tasks;

/// The id of a token.
pub type Token = u16;

/// The id of a class.
pub type Label = u16;

/// A token of an alphabet, or a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Symbol {
    /// How it is written in text files and examples; has no blanks.
    pub text: &'static str,
    /// What it stands for.
    pub meaning: &'static str,
}

/// Shorthand for the tables of the tasks.
pub(crate) const fn symbol(text: &'static str, meaning: &'static str) -> Symbol {
    Symbol { text, meaning }
}

/// Why a sequence is not one of a task, and at which token that shows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("token {}: {reason}", .index + 1)]
pub struct Illegal {
    /// Index of the offending token; the length of the sequence if it ends too early.
    pub index: usize,
    /// What is wrong there.
    pub reason: String,
}

impl Illegal {
    pub(crate) fn at<T>(index: usize, reason: impl Into<String>) -> Result<T, Illegal> {
        Err(Illegal { index, reason: reason.into() })
    }
}

/// What a generator is told: how long the sequence may be, and the parameters of its task.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// Lengths that may occur.
    pub lengths: RangeInclusive<usize>,
    /// Parameters of the ListOps procedure.
    pub listops: ListOps,
}

impl Recipe {
    /// Draws a length, each as likely as the others. A single one costs no random number.
    pub fn draw_length(&self, random: &mut Random) -> usize {
        let (shortest, longest) = (*self.lengths.start(), *self.lengths.end());
        if shortest == longest { shortest } else { random.between(shortest, longest) }
    }
}

/// All there is to know about a task.
///
/// The generator and the evaluator are separate functions: the generator reports the label that follows from how it built
/// the sequence, the evaluator reads the finished sequence, and tests hold them to each other. Data sets carry the labels
/// of the evaluator.
#[derive(Clone, Debug, Serialize)]
pub struct TaskInfo {
    /// Name on the command line and in experiment files.
    pub name: &'static str,
    /// One line: what the label is.
    pub summary: &'static str,
    /// What a model shows when it learns the task.
    pub tests: &'static str,
    /// Where it comes from: authors, title, year.
    pub source: &'static str,
    /// The alphabet; the id of a token is its place.
    pub alphabet: &'static [Symbol],
    /// The classes; the id of a class is its place.
    pub classes: &'static [Symbol],
    /// Lengths unless others are asked for.
    pub default_length: Length,
    /// Least length.
    pub min_length: usize,
    /// Whether the bounds of a range of lengths are excluded, as in the procedure this task is known by.
    pub excludes_bounds: bool,
    /// Whether no sequence may occur twice.
    pub distinct: bool,
    /// Lengths at which examples are short enough to be explained on paper.
    #[serde(skip)]
    pub lesson_length: Length,
    /// Appends one sequence without padding, and gives its label as known from the construction.
    #[serde(skip)]
    pub generate: fn(&Recipe, &mut Random, &mut Vec<Token>) -> Result<Label, Unlikely>,
    /// The label of a sequence without padding at its end.
    #[serde(skip)]
    pub evaluate: fn(&[Token]) -> Result<Label, Illegal>,
    /// How the label of a legal sequence comes about, step by step.
    #[serde(skip)]
    pub explain: fn(&[Token]) -> Vec<String>,
}

impl TaskInfo {
    /// The id of the pad token: the first that the alphabet leaves free. Global tokens take the ids after it.
    pub fn pad(&self) -> Token {
        self.alphabet.len() as Token
    }

    /// The number of token ids, the pad token included.
    pub fn vocabulary(&self) -> usize {
        self.alphabet.len() + 1
    }

    /// The lengths that occur when `length` is asked for; empty if there are none.
    pub fn lengths(&self, length: Length) -> RangeInclusive<usize> {
        match length {
            Length::Exactly(length) => length..=length,
            Length::Between(low, high) if self.excludes_bounds => low + 1..=high.saturating_sub(1),
            Length::Between(low, high) => low..=high,
        }
    }

    /// A sequence without the pad tokens at its end.
    pub fn without_padding<'a>(&self, tokens: &'a [Token]) -> &'a [Token] {
        let end = tokens.iter().rposition(|&token| token != self.pad()).map_or(0, |last| last + 1);
        &tokens[..end]
    }

    /// The label of a sequence; pad tokens at its end do not matter.
    pub fn label(&self, tokens: &[Token]) -> Result<Label, Illegal> {
        let sequence = self.without_padding(tokens);
        if sequence.is_empty() {
            return Illegal::at(0, "the sequence is empty");
        }
        if let Some(index) = sequence.iter().position(|&token| usize::from(token) >= self.alphabet.len()) {
            return Illegal::at(index, self.unknown_token(sequence[index]));
        }
        (self.evaluate)(sequence)
    }

    fn unknown_token(&self, token: Token) -> String {
        let pad = self.pad();
        if token == pad {
            format!("the pad token {pad} may stand at the end only")
        } else {
            format!("there is no token {token}; `{}` has tokens 0 to {} and pads with {pad}", self.name, pad - 1)
        }
    }

    /// How a token is written. The pad token is `_`.
    pub fn text(&self, token: Token) -> &'static str {
        self.alphabet.get(usize::from(token)).map_or("_", |symbol| symbol.text)
    }

    /// A sequence in readable symbols, without padding.
    pub fn written(&self, tokens: &[Token]) -> String {
        let symbols: Vec<&str> = self.without_padding(tokens).iter().map(|&token| self.text(token)).collect();
        symbols.join(" ")
    }
}

/// A name that no task has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum UnknownTask {
    #[error("unknown task `{name}`; did you mean `{suggestion}`?")]
    Misspelt { name: String, suggestion: String },
    #[error("unknown task `{name}`; known are {known}; a data file is named by its path")]
    Unknown { name: String, known: String },
}

/// The tasks that can be named.
#[derive(Clone, Debug)]
pub struct Registry {
    tasks: Vec<TaskInfo>,
}

impl Registry {
    /// The tasks of this crate.
    pub fn standard() -> Self {
        Registry { tasks: tasks::all() }
    }

    /// The same with one more task.
    ///
    /// # Panics
    /// If the name is taken.
    pub fn with(mut self, info: TaskInfo) -> Self {
        assert!(self.get(info.name).is_none(), "a task named `{}` is registered already", info.name);
        self.tasks.push(info);
        self
    }

    /// The entries, in the order in which they are listed.
    pub fn iter(&self) -> impl Iterator<Item = &TaskInfo> {
        self.tasks.iter()
    }

    /// The entry of a name.
    pub fn get(&self, name: &str) -> Option<&TaskInfo> {
        self.iter().find(|info| info.name == name)
    }

    /// The entry of a name, or an error that helps.
    pub fn find(&self, name: &str) -> Result<&TaskInfo, UnknownTask> {
        self.get(name).ok_or_else(|| {
            let plain = name.to_lowercase().replace(['_', ' '], "-");
            let nearest = self
                .iter()
                .map(|info| (strsim::damerau_levenshtein(&plain, info.name), info.name))
                .min()
                .filter(|(distance, nearest)| *distance <= nearest.len() / 3);
            let name = name.to_owned();
            match nearest {
                Some((_, nearest)) => UnknownTask::Misspelt { name, suggestion: nearest.to_owned() },
                None => {
                    let names: Vec<String> = self.iter().map(|info| format!("`{}`", info.name)).collect();
                    UnknownTask::Unknown { name, known: names.join(", ") }
                }
            }
        })
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self::standard()
    }
}
