//! Reads text files line by line, with errors that say where they are.

use std::io::{self, BufRead, Read};

use crate::task::{Answers, BuiltTask, Label, Token};

/// Longer lines are refused, so that a file without line breaks cannot fill the memory.
pub const MAX_LINE_BYTES: usize = 1 << 20;

/// Maximum token id in a file. The ids above it are left for the pad token and global tokens.
pub const MAX_TOKEN: Token = 60_000;

/// Maximum label in a file.
pub const MAX_LABEL: Label = 999;

/// What is wrong in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineError {
    /// Counted in characters from 1.
    pub column: usize,
    /// What is wrong and, where possible, how to fix it.
    pub reason: String,
}

impl LineError {
    pub(crate) fn at<T>(column: usize, reason: impl Into<String>) -> Result<T, LineError> {
        Err(LineError { column, reason: reason.into() })
    }

    /// Adds the place of the line.
    pub fn in_line(self, file: &str, line: usize) -> ReadError {
        ReadError::Line { file: file.to_owned(), line, column: self.column, reason: self.reason }
    }
}

/// Why a file could not be read.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum ReadError {
    #[error("cannot read {file}: {error}")]
    Io { file: String, error: io::Error },
    #[error("{file}, line {line}, column {column}: {reason}")]
    Line { file: String, line: usize, column: usize, reason: String },
    #[error("{file}: {reason}")]
    Whole { file: String, reason: String },
    #[error(
        "{file}, line {line}: this sequence is also in {earlier_file}, line {earlier_line}; the splits must not share \
         sequences, but {examples} example{} of held-out or test also occur{} in an earlier file",
        if *.examples == 1 { "" } else { "s" }, if *.examples == 1 { "s" } else { "" }
    )]
    Shared { file: String, line: usize, earlier_file: String, earlier_line: usize, examples: usize },
}

/// Reads lines of bounded length.
#[derive(Debug)]
pub struct Lines<R> {
    file: String,
    reader: R,
    number: usize,
    bytes: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    /// The lines of a reader; errors call it `file`.
    pub fn new(file: impl Into<String>, reader: R) -> Self {
        Lines { file: file.into(), reader, number: 0, bytes: Vec::new() }
    }

    /// The name of the file in errors.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The number of the line that was read last, counted from 1.
    pub fn number(&self) -> usize {
        self.number
    }

    /// The next line without its line break (`\n` or `\r\n`), or nothing at the end of the file.
    pub fn read(&mut self) -> Result<Option<&str>, ReadError> {
        self.bytes.clear();
        let limit = MAX_LINE_BYTES as u64 + 2;
        let read = self.reader.by_ref().take(limit).read_until(b'\n', &mut self.bytes);
        if read.map_err(|error| ReadError::Io { file: self.file.clone(), error })? == 0 {
            return Ok(None);
        }
        self.number += 1;
        if self.bytes.ends_with(b"\n") {
            self.bytes.pop();
            if self.bytes.ends_with(b"\r") {
                self.bytes.pop();
            }
        }
        let mut start = 0;
        if self.number == 1 && self.bytes.starts_with(b"\xef\xbb\xbf") {
            start = 3; // skip a byte order mark
        }
        let wrong = |column: usize, reason: String| LineError { column, reason }.in_line(&self.file, self.number);
        if self.bytes.len() > MAX_LINE_BYTES {
            return Err(wrong(MAX_LINE_BYTES + 1, format!("the line is longer than {MAX_LINE_BYTES} bytes")));
        }
        match std::str::from_utf8(&self.bytes[start..]) {
            Ok(line) => Ok(Some(line)),
            Err(error) => {
                let valid = String::from_utf8_lossy(&self.bytes[start..start + error.valid_up_to()]);
                Err(wrong(valid.chars().count() + 1, "this is not UTF-8 text".to_owned()))
            }
        }
    }
}

/// The words of a line, separated by blanks, each with the column where it begins.
pub(crate) fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let (mut column, mut bytes) = (1, 0);
    text.split(' ').filter(|word| !word.is_empty()).map(move |word| {
        let start = word.as_ptr() as usize - text.as_ptr() as usize;
        column += text[bytes..start].chars().count();
        bytes = start;
        (column, word)
    })
}

/// The column after the last character.
pub(crate) fn end_column(text: &str) -> usize {
    text.chars().count() + 1
}

/// A whole number in decimal digits. One that does not fit becomes `usize::MAX`.
pub(crate) fn whole_number(word: &str) -> Option<usize> {
    let digits = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| word.parse().unwrap_or(usize::MAX))
}

/// A word as error messages quote it: at most 20 characters.
pub(crate) fn shown(word: &str) -> String {
    let shown: String = word.chars().take(20).flat_map(char::escape_debug).collect();
    if word.chars().nth(20).is_some() { format!("`{shown}…`") } else { format!("`{shown}`") }
}

/// The answers of a line of token ids. Anything after a tab, such as a label, is ignored.
pub fn answer_line(task: &BuiltTask, line: &str) -> Result<Answers, LineError> {
    let sequence = line.split_once('\t').map_or(line, |(sequence, _)| sequence);
    let (mut tokens, mut columns) = (Vec::new(), Vec::new());
    for (column, word) in words(sequence) {
        match whole_number(word) {
            None => return LineError::at(column, format!("expected the id of a token, not {}", shown(word))),
            Some(id) => tokens.push(Token::try_from(id).unwrap_or(Token::MAX)),
        }
        columns.push(column);
    }
    if tokens.is_empty() {
        return LineError::at(1, "the line has no tokens");
    }
    task.answers(&tokens).map_err(|illegal| LineError {
        column: columns.get(illegal.index).copied().unwrap_or_else(|| end_column(sequence)),
        reason: illegal.reason,
    })
}
