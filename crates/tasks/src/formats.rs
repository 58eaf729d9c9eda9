//! Writes examples to files.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

use semfocus_core::question::{Answers, At, Question};
use serde::{Deserialize, Serialize};

use crate::task::{BuiltTask, Symbol, Task, Token, single_label, unpadded};

/// The first line of the interchange format.
pub const TSV_HEADER: &str = "Source\tTarget";

/// A file format for examples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Token ids padded to the same length, a tab, the label: what a model sees.
    Tokens,
    /// Readable symbols without padding, a tab, the label.
    Text,
    /// The interchange format of ListOps: a header, then source, a tab, target. Lists are written as nested pairs in round
    /// brackets.
    Tsv,
}

/// Writes examples over one alphabet, one per line.
#[derive(Clone, Debug)]
pub struct Writer {
    format: Format,
    alphabet: Vec<String>,
    classes: Vec<String>,
    length: usize,
    /// The task of the examples, if it is known.
    task: Option<Arc<dyn Task>>,
}

/// The interchange format cannot hold tokens that are round brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoTsv {
    name: String,
}

impl fmt::Display for NoTsv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        write!(f, "readers of tsv files drop round brackets, which are tokens of `{name}`; use `--format text`")
    }
}

impl std::error::Error for NoTsv {}

impl Writer {
    /// A writer for a task whose sequences are padded to `length` where the format has padding.
    pub fn new(task: &BuiltTask, format: Format, length: usize) -> Result<Self, NoTsv> {
        let texts = |symbols: &[Symbol]| symbols.iter().map(|symbol| symbol.text.clone().into_owned()).collect();
        let name = task.spec.to_string();
        Writer::with(&name, format, texts(&task.alphabet), texts(&task.classes), length, Some(task.task.clone()))
    }

    pub(crate) fn with(
        name: &str,
        format: Format,
        alphabet: Vec<String>,
        classes: Vec<String>,
        length: usize,
        task: Option<Arc<dyn Task>>,
    ) -> Result<Self, NoTsv> {
        if format == Format::Tsv && alphabet.iter().any(|symbol| symbol == "(" || symbol == ")") {
            return Err(NoTsv { name: name.to_owned() });
        }
        Ok(Writer { format, alphabet, classes, length, task })
    }

    /// Writes the header, if the format has one.
    pub fn header(&self, out: &mut dyn Write) -> io::Result<()> {
        match self.format {
            Format::Tsv => writeln!(out, "{TSV_HEADER}"),
            Format::Tokens | Format::Text => Ok(()),
        }
    }

    /// Writes one example as a line.
    pub fn example(&self, tokens: &[Token], answers: &Answers, out: &mut dyn Write) -> io::Result<()> {
        let sequence = match self.format {
            Format::Tokens => self.ids(tokens),
            Format::Text => self.symbols(tokens),
            Format::Tsv => {
                let interchange = self.task.as_ref().and_then(|task| task.interchange(self.unpadded(tokens)));
                interchange.unwrap_or_else(|| self.symbols(tokens))
            }
        };
        writeln!(out, "{sequence}\t{}", self.answers(answers))
    }

    /// The label; if there are other questions, each as the position of its token, a colon and the answer: a class, or the
    /// probabilities of all classes with commas between them.
    pub fn answers(&self, answers: &Answers) -> String {
        let class = |id: u16| match self.format {
            Format::Tokens => id.to_string(),
            Format::Text | Format::Tsv => self.classes.get(usize::from(id)).map_or("?", String::as_str).to_owned(),
        };
        if let Some(label) = single_label(answers) {
            return class(label);
        }
        let answer = |question: &Question| {
            let at = if let At::Token(position) = question.at { position.to_string() } else { "mean".to_owned() };
            let shares = answers.distribution(question.target, self.classes.len());
            let shares = shares.map(|shares| shares.iter().map(f32::to_string).collect::<Vec<_>>().join(","));
            let correct = || answers.correct_class(question.target, self.classes.len()).map_or_else(String::new, class);
            let target = shares.unwrap_or_else(correct);
            format!("{at}:{target}")
        };
        spaced(answers.questions.iter().map(answer))
    }

    /// Ids, padded to the length.
    fn ids(&self, tokens: &[Token]) -> String {
        let padding = std::iter::repeat_n(self.alphabet.len() as Token, self.length.saturating_sub(tokens.len()));
        spaced(tokens.iter().copied().chain(padding).map(|id| id.to_string()))
    }

    /// Readable symbols, without padding.
    pub fn symbols(&self, tokens: &[Token]) -> String {
        spaced(self.unpadded(tokens).iter().map(|&token| self.alphabet[usize::from(token)].as_str()))
    }

    fn unpadded<'a>(&self, tokens: &'a [Token]) -> &'a [Token] {
        unpadded(tokens, self.alphabet.len() as Token)
    }
}

fn spaced<T: AsRef<str>>(words: impl Iterator<Item = T>) -> String {
    let mut line = String::new();
    for word in words {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word.as_ref());
    }
    line
}
