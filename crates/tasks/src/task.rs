//! What a task is: tokens, classes, a generator, and an evaluator that is written apart from it.

use std::borrow::Cow;
use std::fmt::Debug;
use std::ops::RangeInclusive;
use std::sync::Arc;

use semfocus_core::data::Length;
pub use semfocus_core::question::Answers;
use semfocus_core::question::{At, Question, Target};
use semfocus_core::spec::{Named, Parameter, Spec, Values};
use serde::Serialize;

use crate::random::Random;

/// A token id: the token's position in the alphabet of its task.
pub type Token = u16;

/// A class id: the class's position in the list of classes of its task.
pub type Label = u16;

/// The lengths that sequences may have. [`Random::within`] draws one.
pub type Lengths = RangeInclusive<usize>;

/// The answers of a classification task: one class, asked for at the mean of the tokens.
pub fn label(class: Label) -> Answers {
    Answers::from_iter([Question::classify(class)])
}

/// What the [evaluator](Task::answers) of a task gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Evaluator {
    /// The right answers: they follow from the tokens.
    #[default]
    Exact,
    /// The best possible prediction from the tokens. The generator draws the answers, and gives what it has drawn: for instance the next token,
    /// where the evaluator gives a probability for every token.
    BestPrediction,
    /// A good prediction. The generator draws the answers, and nobody knows what is best.
    Estimate,
}

/// A token of an alphabet, or a class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Symbol {
    /// How it is written in text files and examples. Contains no blanks.
    pub text: Cow<'static, str>,
    /// What it stands for.
    pub meaning: Cow<'static, str>,
}

/// Shorthand for tables of symbols.
pub const fn symbol(text: &'static str, meaning: &'static str) -> Symbol {
    Symbol { text: Cow::Borrowed(text), meaning: Cow::Borrowed(meaning) }
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

/// A generator gave up, because sequences of the lengths asked for hardly ever occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unlikely {
    /// How many sequences were tried.
    pub attempts: u64,
}

/// A task with its values filled in.
///
/// The generator and the evaluator are written apart: the generator reports the answers that follow from how it built the sequence,
/// the evaluator reads the finished sequence. Every generated example is checked: where the two disagree, generating fails
/// with an error. So a task can be defined in any crate:
///
/// ```
/// use std::sync::Arc;
/// use semfocus_tasks::{
///     Answers, DataSettings, Dataset, Illegal, Lengths, Random, Symbol, Task, TaskInfo, Tasks, Token, Unlikely, label, symbol,
/// };
///
/// const BITS: &[Symbol] = &[symbol("0", "zero"), symbol("1", "one")];
///
/// const FIRST_BIT: TaskInfo = TaskInfo {
///     summary: "the first of some uniform bits",
///     alphabet: BITS,
///     classes: BITS,
///     ..TaskInfo::new("first-bit", |_| Ok(Arc::new(FirstBit)))
/// };
///
/// #[derive(Debug)]
/// struct FirstBit;
///
/// impl Task for FirstBit {
///     fn generate(&self, lengths: &Lengths, random: &mut Random, out: &mut Vec<Token>) -> Result<Answers, Unlikely> {
///         let first = random.below(2) as Token;
///         out.push(first);
///         out.extend((1..random.within(lengths)).map(|_| random.below(2) as Token));
///         Ok(label(first))
///     }
///
///     fn answers(&self, bits: &[Token]) -> Result<Answers, Illegal> {
///         Ok(label(bits[0]))
///     }
/// }
///
/// let tasks = Tasks::standard().with(FIRST_BIT);
/// let data = Dataset::generate(&tasks.find("first-bit")?, &DataSettings::default(), 1)?;
/// assert_eq!(data.train.len(), 5000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Task: Debug + Send + Sync {
    /// The tokens, if they depend on values of the task; otherwise they are in its [`TaskInfo`]. A token's id is its position.
    fn alphabet(&self) -> Vec<Symbol> {
        Vec::new()
    }

    /// The classes, if they depend on values of the task; otherwise they are in its [`TaskInfo`]. A class's id is its position.
    fn classes(&self) -> Vec<Symbol> {
        Vec::new()
    }

    /// Appends one sequence with one of these lengths, not padded, and returns its answers as known from the construction: see
    /// [`evaluator`](Task::evaluator) for tasks that draw them.
    fn generate(&self, lengths: &Lengths, random: &mut Random, out: &mut Vec<Token>) -> Result<Answers, Unlikely>;

    /// The questions of a sequence with their right answers. The sequence is not empty, has no padding at its end and no token
    /// beyond the alphabet.
    fn answers(&self, tokens: &[Token]) -> Result<Answers, Illegal>;

    /// What [`answers`](Task::answers) gives. If the generator draws the answers, what was drawn is what models are trained on, and a
    /// best prediction is what they are compared with in the held-out and test splits: their loss there, less its [floor](crate::Split::floor), is
    /// the Kullback–Leibler divergence from the best prediction, without noise from drawing.
    fn evaluator(&self) -> Evaluator {
        Evaluator::Exact
    }

    /// How the answers of a legal sequence come about, step by step.
    fn explain(&self, tokens: &[Token]) -> Vec<String> {
        let _ = tokens;
        Vec::new()
    }

    /// A rule of the task's own for the [relevant positions](BuiltTask::relevant_keys) of a legal sequence without padding,
    /// in ascending order. Without one, a position is relevant if replacing its token alone can change an answer. This fails
    /// where several tokens say the same and a single different one is illegal.
    fn relevant(&self, tokens: &[Token]) -> Option<Vec<usize>> {
        let _ = tokens;
        None
    }

    /// For each question of a legal sequence without padding, in the order of its [answers](Task::answers): the positions that hold
    /// what the answer has to be looked up from, in ascending order, for tasks that know it. In a causal model none comes after the
    /// question.
    fn relevant_to_questions(&self, tokens: &[Token]) -> Option<Vec<Vec<usize>>> {
        let _ = tokens;
        None
    }

    /// The properties of questions by which loss and accuracy are split in records and reports. The position of a question is one of
    /// them in every task that asks at tokens, and is not listed here.
    fn slices(&self) -> Vec<Slice> {
        Vec::new()
    }

    /// For each question of a legal sequence without padding, in the order of its [answers](Task::answers): the values of all
    /// [slices](Task::slices), in their order. None leaves a question out of a slice.
    fn slice_values(&self, tokens: &[Token]) -> Vec<Vec<Option<u32>>> {
        let _ = tokens;
        Vec::new()
    }

    /// Length of the sequences unless another one is asked for.
    fn default_length(&self) -> Length {
        Length::Exactly(40)
    }

    /// Lengths at which examples are short enough to explain on paper.
    fn lesson_length(&self) -> Length {
        Length::Between(6, 10)
    }

    /// The shortest length that the generator can produce.
    fn min_length(&self) -> usize {
        1
    }

    /// The lengths that occur when `length` is asked for, or why there are none.
    fn lengths(&self, length: Length) -> Result<Lengths, String> {
        Ok(match length {
            Length::Exactly(length) => length..=length,
            Length::Between(min, max) => min..=max,
        })
    }

    /// Whether a sequence may occur only once in a split.
    fn is_distinct(&self) -> bool {
        false
    }

    /// Trivial rules that an audit tries in addition to its own.
    fn trivial_rules(&self) -> Vec<TrivialRule> {
        Vec::new()
    }

    /// How the interchange format writes a sequence, if not as its symbols one after the other.
    fn interchange(&self, tokens: &[Token]) -> Option<String> {
        let _ = tokens;
        None
    }
}

/// A rule that looks at a part of what precedes a question and gives the answer that is most frequent there in training. A model
/// that beats the rule has learned something else.
#[derive(Clone, Copy, Debug)]
pub struct TrivialRule {
    /// Name of the rule.
    pub name: &'static str,
    /// The part of a sequence that it looks at, as the subject of a sentence.
    pub looks_at: &'static str,
    /// That part: of the tokens up to the one at which the question is asked, or of all tokens if it is asked at the mean.
    pub part: fn(&[Token]) -> Vec<Token>,
}

/// A property of questions that has a whole number for each of them, such as the number of pairs in the sequence or the distance to
/// the key. Loss and accuracy are split by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Slice {
    /// Name in records and in names of files: lowercase letters, digits and hyphens.
    pub name: &'static str,
    /// What the numbers are, as the label of an axis: `pairs in the sequence`.
    pub words: &'static str,
}

/// The slice of every task that asks at tokens: the position of the question, from 0.
pub const POSITION: Slice = Slice { name: "position", words: "position of the question" };

/// Describes a task, and knows how to build it.
#[derive(Clone, Debug, Serialize)]
pub struct TaskInfo {
    /// Name on the command line and in experiment files.
    pub name: &'static str,
    /// What the answer is, in one line.
    pub summary: &'static str,
    /// The ability that a model shows by learning the task.
    pub tests: &'static str,
    /// Where the task comes from: authors, title, year.
    pub source: &'static str,
    /// The values that it takes, in the order in which they are written.
    pub parameters: &'static [Parameter],
    /// The tokens, unless the task says them itself.
    #[serde(skip)]
    pub alphabet: &'static [Symbol],
    /// The classes, unless the task says them itself.
    #[serde(skip)]
    pub classes: &'static [Symbol],
    /// Builds the task from values that have been checked against `parameters`, or says why they do not go together.
    #[serde(skip)]
    pub build: fn(&Values) -> Result<Arc<dyn Task>, String>,
}

impl TaskInfo {
    /// A task without values and without a description.
    pub const fn new(name: &'static str, build: fn(&Values) -> Result<Arc<dyn Task>, String>) -> Self {
        TaskInfo { name, summary: "", tests: "", source: "", parameters: &[], alphabet: &[], classes: &[], build }
    }
}

impl Named for TaskInfo {
    const KIND: &'static str = "task";

    fn name(&self) -> &'static str {
        self.name
    }

    fn parameters(&self) -> &'static [Parameter] {
        self.parameters
    }
}

/// A task that is ready for use, with the spec it was built from and its entry in the list of tasks.
#[derive(Clone, Debug)]
pub struct BuiltTask {
    /// What was written, in its usual spelling.
    pub spec: Spec,
    /// The entry that `spec` names.
    pub info: TaskInfo,
    /// The task with its values filled in.
    pub task: Arc<dyn Task>,
    /// The tokens; a token's id is its position.
    pub alphabet: Vec<Symbol>,
    /// The classes; a class's id is its position.
    pub classes: Vec<Symbol>,
}

impl BuiltTask {
    /// Builds a task from values that were checked against its entry, or says why they do not go together.
    pub fn new(info: &TaskInfo, spec: Spec, values: &Values) -> Result<Self, String> {
        let task = (info.build)(values)?;
        let or = |own: Vec<Symbol>, table: &[Symbol]| if own.is_empty() { table.to_vec() } else { own };
        let (alphabet, classes) = (or(task.alphabet(), info.alphabet), or(task.classes(), info.classes));
        if alphabet.is_empty() || classes.is_empty() {
            return Err("the task names no tokens or no classes".to_owned());
        }
        Ok(BuiltTask { alphabet, classes, spec, info: info.clone(), task })
    }

    /// Its name, without values.
    pub fn name(&self) -> &'static str {
        self.info.name
    }

    /// The id of the pad token: the first one after the alphabet. Global tokens take the ids after it.
    pub fn pad(&self) -> Token {
        self.alphabet.len() as Token
    }

    /// The number of token ids, including the pad token.
    pub fn vocabulary(&self) -> usize {
        self.alphabet.len() + 1
    }

    /// Removes the pad tokens at the end of a sequence.
    pub fn without_padding<'a>(&self, tokens: &'a [Token]) -> &'a [Token] {
        unpadded(tokens, self.pad())
    }

    /// The answers of a sequence, ignoring pad tokens at its end.
    pub fn answers(&self, tokens: &[Token]) -> Result<Answers, Illegal> {
        let sequence = self.without_padding(tokens);
        if sequence.is_empty() {
            return Illegal::at(0, "the sequence is empty");
        }
        if let Some(index) = sequence.iter().position(|&token| usize::from(token) >= self.alphabet.len()) {
            return Illegal::at(index, self.unknown_token(sequence[index]));
        }
        self.task.answers(sequence)
    }

    fn unknown_token(&self, token: Token) -> String {
        let (pad, name) = (self.pad(), &self.spec);
        if token == pad {
            format!("the pad token {pad} is only allowed at the end")
        } else {
            format!("there is no token {token}; `{name}` has tokens 0 to {} and pads with {pad}", pad - 1)
        }
    }

    /// How a token is written. The pad token is `_`.
    pub fn text(&self, token: Token) -> &str {
        self.alphabet.get(usize::from(token)).map_or("_", |symbol| &symbol.text)
    }

    /// A sequence in readable symbols, without padding.
    pub fn written(&self, tokens: &[Token]) -> String {
        let symbols: Vec<&str> = self.without_padding(tokens).iter().map(|&token| self.text(token)).collect();
        symbols.join(" ")
    }
}

/// A sequence without the padding at its end.
pub(crate) fn unpadded(tokens: &[Token], pad: Token) -> &[Token] {
    let end = tokens.iter().rposition(|&token| token != pad).map_or(0, |last| last + 1);
    &tokens[..end]
}

/// The class, if these are the answers of a classification task.
pub fn single_label<A: AsRef<[Question]> + ?Sized>(answers: &A) -> Option<Label> {
    match *answers.as_ref() {
        [Question { at: At::Mean, target: Target::Class(class), weight: 1.0 }] => Some(class),
        _ => None,
    }
}
