//! What there is to know about a task, and the list of tasks. Help texts, `semfocus list tasks` and tests are generated
//! from the list.

use std::ops::RangeInclusive;

use serde::Serialize;

use crate::generate::Unlikely;
use crate::random::Random;
use crate::tasks;
use semfocus_core::data::{Length, ListOps};

/// A token id: the token's position in the alphabet of its task.
pub type Token = u16;

/// A class id: the class's position in the list of classes of its task.
pub type Label = u16;

/// A token of an alphabet, or a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Symbol {
    /// How it is written in text files and examples. Contains no blanks.
    pub text: &'static str,
    /// What it stands for.
    pub meaning: &'static str,
}

/// Shorthand for tables of symbols.
pub const fn symbol(text: &'static str, meaning: &'static str) -> Symbol {
    Symbol { text, meaning }
}

/// Why a sequence does not belong to a task, and at which token that shows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("token {}: {reason}", .index + 1)]
pub struct Illegal {
    /// Index of the offending token; the length of the sequence if it ends too early.
    pub index: usize,
    /// What is wrong with it.
    pub reason: String,
}

impl Illegal {
    /// The error as a result, for use in evaluators: `return Illegal::at(index, "…")`.
    pub fn at<T>(index: usize, reason: impl Into<String>) -> Result<T, Illegal> {
        Err(Illegal { index, reason: reason.into() })
    }
}

/// What a generator needs to know: how long sequences may be, and the parameters of its task.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// The allowed lengths.
    pub lengths: RangeInclusive<usize>,
    /// Parameters of the ListOps procedure.
    pub listops: ListOps,
}

impl Recipe {
    /// Draws a length uniformly. Uses no random number if only one length is allowed.
    pub fn draw_length(&self, random: &mut Random) -> usize {
        let (min, max) = (*self.lengths.start(), *self.lengths.end());
        if min == max { min } else { random.between(min, max) }
    }
}

/// Appends one sequence without padding to a width, and returns its label as known from the construction.
pub type Generate = fn(&Recipe, &mut Random, &mut Vec<Token>) -> Result<Label, Unlikely>;

/// Returns the label of a sequence. The sequence is not empty, has no padding at its end and no token beyond the alphabet.
pub type Evaluate = fn(&[Token]) -> Result<Label, Illegal>;

/// Returns the positions that the label of a legal sequence without padding depends on, in ascending order.
pub type Relevant = fn(&[Token]) -> Vec<usize>;

/// The definition and the description of a task.
///
/// The generator and the evaluator are separate functions: the generator reports the label that follows from how it built
/// the sequence, the evaluator reads the finished sequence. Every generated example is checked: where the two disagree,
/// generating fails with an error. So a task can be defined in any crate:
///
/// ```
/// use semfocus_tasks::{Dataset, Illegal, Label, Random, Recipe, DataSettings, Symbol, TaskInfo, Tasks, Token, Unlikely, symbol};
///
/// const BITS: &[Symbol] = &[symbol("0", "zero"), symbol("1", "one")];
///
/// const FIRST_BIT: TaskInfo = TaskInfo {
///     summary: "the first of some uniform bits",
///     ..TaskInfo::new("first-bit", BITS, BITS, generate, evaluate)
/// };
///
/// fn generate(recipe: &Recipe, random: &mut Random, out: &mut Vec<Token>) -> Result<Label, Unlikely> {
///     let first = random.below(2) as Label;
///     out.push(first);
///     out.extend((1..recipe.draw_length(random)).map(|_| random.below(2) as Token));
///     Ok(first)
/// }
///
/// fn evaluate(bits: &[Token]) -> Result<Label, Illegal> {
///     Ok(bits[0])
/// }
///
/// let tasks = Tasks::standard().with(FIRST_BIT);
/// let data = Dataset::generate(tasks.find("first-bit")?, &DataSettings::default(), 1)?;
/// assert_eq!(data.train.len(), 5000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Serialize)]
pub struct TaskInfo {
    /// Name on the command line and in experiment files.
    pub name: &'static str,
    /// What the label is, in one line.
    pub summary: &'static str,
    /// The ability that a model shows by learning the task.
    pub tests: &'static str,
    /// Where the task comes from: authors, title, year.
    pub source: &'static str,
    /// The tokens; a token's id is its position.
    pub alphabet: &'static [Symbol],
    /// The classes; a class's id is its position.
    pub classes: &'static [Symbol],
    /// Length of the sequences unless another one is asked for.
    pub default_length: Length,
    /// The shortest length that the generator can produce.
    pub min_length: usize,
    /// Whether the bounds of a range of lengths are excluded, as in the original procedure of ListOps.
    pub excludes_bounds: bool,
    /// Whether a sequence may occur only once in a split.
    pub distinct: bool,
    /// Lengths at which examples are short enough to explain on paper.
    #[serde(skip)]
    pub lesson_length: Length,
    /// See [`Generate`].
    #[serde(skip)]
    pub generate: Generate,
    /// See [`Evaluate`].
    #[serde(skip)]
    pub evaluate: Evaluate,
    /// How the label of a legal sequence comes about, step by step.
    #[serde(skip)]
    pub explain: fn(&[Token]) -> Vec<String>,
    /// A rule of the task's own for [`relevant_positions`](TaskInfo::relevant_positions). Without one, a position is relevant
    /// if replacing its token alone can change the label. This fails where several tokens say the same and a single
    /// different one is illegal.
    #[serde(skip)]
    pub relevant: Option<Relevant>,
}

impl TaskInfo {
    /// A task with sequences of 40 tokens by default and at least 1, all lengths of a range allowed, repetitions allowed,
    /// no rule of its own for relevant positions, and no description.
    pub const fn new(
        name: &'static str,
        alphabet: &'static [Symbol],
        classes: &'static [Symbol],
        generate: Generate,
        evaluate: Evaluate,
    ) -> Self {
        TaskInfo {
            name,
            summary: "",
            tests: "",
            source: "",
            alphabet,
            classes,
            default_length: Length::Exactly(40),
            min_length: 1,
            excludes_bounds: false,
            distinct: false,
            lesson_length: Length::Between(6, 10),
            generate,
            evaluate,
            explain: |_| Vec::new(),
            relevant: None,
        }
    }

    /// The id of the pad token: the first one after the alphabet. Global tokens take the ids after it.
    pub fn pad(&self) -> Token {
        self.alphabet.len() as Token
    }

    /// The number of token ids, including the pad token.
    pub fn vocabulary(&self) -> usize {
        self.alphabet.len() + 1
    }

    /// The lengths that occur when `length` is asked for. The range may be empty.
    pub fn lengths(&self, length: Length) -> RangeInclusive<usize> {
        match length {
            Length::Exactly(length) => length..=length,
            Length::Between(min, max) if self.excludes_bounds => min + 1..=max.saturating_sub(1),
            Length::Between(min, max) => min..=max,
        }
    }

    /// Removes the pad tokens at the end of a sequence.
    pub fn without_padding<'a>(&self, tokens: &'a [Token]) -> &'a [Token] {
        let end = tokens.iter().rposition(|&token| token != self.pad()).map_or(0, |last| last + 1);
        &tokens[..end]
    }

    /// The label of a sequence, ignoring pad tokens at its end.
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
            format!("the pad token {pad} is only allowed at the end")
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

/// There is no task of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum UnknownTask {
    #[error("unknown task `{name}`; did you mean `{suggestion}`?")]
    Misspelt { name: String, suggestion: String },
    #[error("unknown task `{name}`; the tasks are {known}; to use a data file, give its path")]
    Unknown { name: String, known: String },
}

/// The tasks that can be used by name.
#[derive(Clone, Debug)]
pub struct Tasks {
    tasks: Vec<TaskInfo>,
}

impl Tasks {
    /// The tasks of this crate.
    pub fn standard() -> Self {
        Tasks { tasks: tasks::all() }
    }

    /// Adds a task.
    ///
    /// # Panics
    /// If there is a task of this name already.
    pub fn with(mut self, info: TaskInfo) -> Self {
        assert!(self.get(info.name).is_none(), "there is a task named `{}` already", info.name);
        self.tasks.push(info);
        self
    }

    /// The tasks in the order in which they are listed.
    pub fn iter(&self) -> impl Iterator<Item = &TaskInfo> {
        self.tasks.iter()
    }

    /// The task of this name, if there is one.
    pub fn get(&self, name: &str) -> Option<&TaskInfo> {
        self.iter().find(|info| info.name == name)
    }

    /// The task of this name, or an error that suggests a similar name.
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
