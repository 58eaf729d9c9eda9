//! Writes examples to files.

use std::fmt;
use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use crate::task::{Label, TaskInfo, Token};
use crate::tasks::listops;

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
    width: usize,
    nests: bool,
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
    /// A writer for a task whose sequences are padded to `width` where the format has padding.
    pub fn new(task: &TaskInfo, format: Format, width: usize) -> Result<Self, NoTsv> {
        let texts = |symbols: &[crate::Symbol]| symbols.iter().map(|symbol| symbol.text.to_owned()).collect();
        let nests = task.name == listops::INFO.name;
        Writer::with(task.name, format, texts(task.alphabet), texts(task.classes), width, nests)
    }

    pub(crate) fn with(
        name: &str,
        format: Format,
        alphabet: Vec<String>,
        classes: Vec<String>,
        width: usize,
        nests: bool,
    ) -> Result<Self, NoTsv> {
        if format == Format::Tsv && alphabet.iter().any(|symbol| symbol == "(" || symbol == ")") {
            return Err(NoTsv { name: name.to_owned() });
        }
        Ok(Writer { format, alphabet, classes, width, nests })
    }

    /// Writes the header, if the format has one.
    pub fn header(&self, out: &mut dyn Write) -> io::Result<()> {
        match self.format {
            Format::Tsv => writeln!(out, "{TSV_HEADER}"),
            Format::Tokens | Format::Text => Ok(()),
        }
    }

    /// Writes one example as a line.
    pub fn example(&self, tokens: &[Token], label: Label, out: &mut dyn Write) -> io::Result<()> {
        let label_text = self.classes.get(usize::from(label)).map_or("?", String::as_str);
        match self.format {
            Format::Tokens => writeln!(out, "{}\t{label}", self.ids(tokens)),
            Format::Text => writeln!(out, "{}\t{label_text}", self.symbols(tokens)),
            Format::Tsv if self.nests => writeln!(out, "{}\t{label_text}", nested(self.unpadded(tokens))),
            Format::Tsv => writeln!(out, "{}\t{label_text}", self.symbols(tokens)),
        }
    }

    /// Ids, padded to the width.
    fn ids(&self, tokens: &[Token]) -> String {
        let padding = std::iter::repeat_n(self.alphabet.len() as Token, self.width.saturating_sub(tokens.len()));
        spaced(tokens.iter().copied().chain(padding).map(|id| id.to_string()))
    }

    /// Readable symbols, without padding.
    pub fn symbols(&self, tokens: &[Token]) -> String {
        spaced(self.unpadded(tokens).iter().map(|&token| self.alphabet[usize::from(token)].as_str()))
    }

    fn unpadded<'a>(&self, tokens: &'a [Token]) -> &'a [Token] {
        let pad = self.alphabet.len();
        let end = tokens.iter().rposition(|&token| usize::from(token) < pad).map_or(0, |last| last + 1);
        &tokens[..end]
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

/// A ListOps expression as left-nested pairs: `[MAX 3 4 ]` becomes `( ( ( [MAX 3 ) 4 ) ] )`.
///
/// The innermost pair is the operator and its first argument. Each further argument, and finally `]`, forms a pair with
/// what is before it. So an operator opens one bracket for each of its arguments and one more.
pub fn nested(tokens: &[Token]) -> String {
    let mut brackets = vec![0; tokens.len()]; // how many brackets an operator at this index opens
    let mut open = Vec::new();
    for (index, &token) in tokens.iter().enumerate() {
        if token >= listops::DIGITS && token != listops::END {
            open.push(index);
            continue;
        }
        if token == listops::END
            && let Some(list) = open.pop()
        {
            brackets[list] += 1;
        }
        if let Some(&list) = open.last() {
            brackets[list] += 1; // a value is complete: an argument of the list around it
        }
    }
    let mut depth = 0;
    let mut words = Vec::new();
    for (&token, &brackets) in tokens.iter().zip(&brackets) {
        let text = listops::INFO.text(token);
        if token >= listops::DIGITS && token != listops::END {
            words.extend(std::iter::repeat_n("(", brackets));
            words.push(text);
            depth += 1;
            continue;
        }
        words.push(text);
        if token == listops::END {
            words.push(")");
            depth -= 1;
        }
        if depth > 0 {
            words.push(")");
        }
    }
    words.join(" ")
}
