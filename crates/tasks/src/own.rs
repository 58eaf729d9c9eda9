//! Data of your own: a file as a task.
//!
//! One example a line: tokens separated by blanks, a tab, the label. Where all tokens of the file are whole numbers they
//! are token ids as they stand; otherwise they are symbols, which get ids in ascending order of their bytes. The same
//! holds for labels. The order of the lines has no part in it. A file that begins with the header of the interchange form
//! is read as that: round brackets are dropped, and expressions of ListOps get the ids of the task `listops` and are
//! checked against their labels.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use semfocus_kernels::fnv_1a;

use crate::formats::{Format, NoTsv, TSV_HEADER, Writer};
use crate::generate::{Dataset, Split, SplitName};
use crate::lines::{LineError, Lines, MAX_LABEL, MAX_TOKEN, ReadError, end_column, shown, whole_number, words};
use crate::registry::{Label, Token};
use crate::settings::{MAX_LENGTH, Sizes};
use crate::tasks::listops;

/// The contents of a data file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnData {
    /// Name of the file without folders and extension.
    pub name: String,
    /// How each token id is written.
    pub alphabet: Vec<String>,
    /// How each class is written.
    pub classes: Vec<String>,
    /// Whether these are expressions of ListOps, in its vocabulary.
    pub is_listops: bool,
    tokens: Vec<Token>,
    ends: Vec<usize>,
    labels: Vec<Label>,
}

impl OwnData {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        let file = path.display().to_string();
        let name = path.file_stem().map_or_else(|| file.clone(), |stem| stem.to_string_lossy().into_owned());
        match File::open(path) {
            Ok(reader) => OwnData::parse(name, Lines::new(file, BufReader::new(reader))),
            Err(error) => Err(ReadError::Io { file, error }),
        }
    }

    /// Reads lines as the task `name`.
    pub fn parse<R: BufRead>(name: String, mut lines: Lines<R>) -> Result<Self, ReadError> {
        let mut reading = Reading::default();
        let file = lines.file().to_owned();
        loop {
            let number = lines.number() + 1;
            let Some(line) = lines.read()? else { break };
            if number == 1 && line == TSV_HEADER {
                reading.is_tsv = true;
                continue;
            }
            reading.line(line, number).map_err(|error| error.in_line(&file, number))?;
        }
        if reading.labels.is_empty() {
            return Err(ReadError::Whole { file, reason: "has no examples".to_owned() });
        }
        let place = |wrong: (usize, LineError)| wrong.1.in_line(&file, wrong.0);
        let ids = if reading.is_listops {
            let alphabet: Vec<String> = listops::INFO.alphabet.iter().map(|symbol| symbol.text.to_owned()).collect();
            (alphabet, reading.tokens.listops_ids())
        } else {
            reading.tokens.ids("token", MAX_TOKEN).map_err(place)?
        };
        let classes = if reading.is_listops {
            let classes: Vec<String> = (0..10).map(|value| value.to_string()).collect();
            (classes, reading.classes.words.iter().map(|word| word.text.parse().unwrap_or(0)).collect())
        } else {
            reading.classes.ids("label", MAX_LABEL).map_err(place)?
        };
        Ok(OwnData {
            name,
            alphabet: ids.0,
            classes: classes.0,
            is_listops: reading.is_listops,
            tokens: reading.sequence.iter().map(|&word| ids.1[word as usize]).collect(),
            ends: reading.ends,
            labels: reading.labels.iter().map(|&word| classes.1[word as usize]).collect(),
        })
    }

    /// The number of examples.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there is no example.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The id of the pad token: the next after those of the file.
    pub fn pad(&self) -> Token {
        self.alphabet.len() as Token
    }

    /// The length of the longest sequence.
    pub fn width(&self) -> usize {
        self.iter().map(|(tokens, _)| tokens.len()).max().unwrap_or(0)
    }

    /// The sequences and their labels, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = (&[Token], Label)> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).zip(&self.labels).map(|((start, &end), &label)| (&self.tokens[start..end], label))
    }

    /// FNV-1a of the examples and of how tokens and classes are written: another file, another number.
    pub fn checksum(&self) -> u64 {
        let names = self.alphabet.iter().chain(&self.classes).flat_map(|name| name.bytes().chain([0]));
        let examples = self.iter().flat_map(|(tokens, label)| tokens.iter().copied().chain([Token::MAX, label]));
        fnv_1a(names.chain(examples.flat_map(u16::to_le_bytes)))
    }

    /// A writer for these examples.
    pub fn writer(&self, format: Format) -> Result<Writer, NoTsv> {
        let (alphabet, classes) = (self.alphabet.clone(), self.classes.clone());
        Writer::with(&self.name, format, alphabet, classes, self.width(), self.is_listops)
    }

    /// The splits under a seed, in the order of the file: every sequence goes where [`SplitName::of`] puts it, so that
    /// copies stay together. The share of the test split goes to train unless a test split is asked for. `sizes` are
    /// upper limits.
    pub fn dataset(&self, sizes: &Sizes, seed: u64) -> Dataset {
        let (pad, width) = (self.pad(), self.width());
        let [mut train, mut held_out, mut test] = [(); 3].map(|()| Split::new(width));
        for (tokens, label) in self.iter() {
            let (split, size) = match SplitName::of(seed, tokens) {
                SplitName::HeldOut => (&mut held_out, sizes.held_out),
                SplitName::Test if sizes.test > 0 => (&mut test, sizes.test),
                SplitName::Train | SplitName::Test => (&mut train, sizes.train),
            };
            if split.len() < size {
                split.push(tokens, label, pad);
            }
        }
        Dataset {
            name: self.name.clone(),
            vocabulary: self.alphabet.len() + 1,
            classes: self.classes.len(),
            pad,
            width,
            train,
            held_out,
            test,
        }
    }
}

/// What has been read so far.
#[derive(Default)]
struct Reading {
    is_tsv: bool,
    is_listops: bool,
    tokens: Words,
    classes: Words,
    sequence: Vec<u32>,
    ends: Vec<usize>,
    labels: Vec<u32>,
}

impl Reading {
    fn line(&mut self, line: &str, number: usize) -> Result<(), LineError> {
        let Some((sequence, rest)) = line.split_once('\t') else {
            return match line.trim() {
                "" => LineError::at(1, "the line is empty; every line holds tokens, a tab and a label"),
                _ => LineError::at(end_column(line), "a tab and a label must follow the tokens"),
            };
        };
        let label_column = end_column(sequence) + 1;
        let label = rest.trim_matches(' ');
        if label.is_empty() {
            return LineError::at(label_column, "a label must follow the tab");
        }
        if let Some(place) = label.find(['\t', ' ']) {
            let blanks = rest.len() - rest.trim_start_matches(' ').len();
            let column = label_column + blanks + label[..place].chars().count();
            return LineError::at(column, "the label is one word, and nothing follows it");
        }
        let start = self.sequence.len();
        let (mut columns, mut depth) = (Vec::new(), 0usize);
        for (column, word) in words(sequence) {
            match word {
                "(" if self.is_tsv => depth += 1,
                ")" if self.is_tsv => match depth.checked_sub(1) {
                    Some(less) => depth = less,
                    None => return LineError::at(column, "`)` without its `(`"),
                },
                _ => {
                    if self.is_tsv && self.labels.is_empty() && word.starts_with('[') {
                        self.is_listops = true;
                    }
                    if columns.len() == MAX_LENGTH {
                        return LineError::at(column, format!("the sequence has more than {MAX_LENGTH} tokens"));
                    }
                    self.sequence.push(self.tokens.number(word, number, column));
                    columns.push(column);
                }
            }
        }
        if depth > 0 {
            return LineError::at(end_column(sequence), format!("{depth} of the `(` lack their `)`"));
        }
        if columns.is_empty() {
            return LineError::at(1, "the line has no tokens before the tab");
        }
        if self.is_listops {
            self.check_listops(start, &columns, label, label_column, end_column(sequence))?;
        }
        self.ends.push(self.sequence.len());
        self.labels.push(self.classes.number(label, number, label_column));
        Ok(())
    }

    fn check_listops(
        &self,
        start: usize,
        columns: &[usize],
        label: &str,
        label_column: usize,
        end: usize,
    ) -> Result<(), LineError> {
        let mut tokens = Vec::with_capacity(columns.len());
        for (&word, &column) in self.sequence[start..].iter().zip(columns) {
            let text = &self.tokens.words[word as usize].text;
            match listops_id(text) {
                Some(id) => tokens.push(id),
                None => return LineError::at(column, format!("{} is not a symbol of ListOps", shown(text))),
            }
        }
        let value = listops::INFO.label(&tokens).map_err(|illegal| LineError {
            column: columns.get(illegal.index).copied().unwrap_or(end),
            reason: illegal.reason,
        })?;
        if label == value.to_string() {
            return Ok(());
        }
        LineError::at(label_column, format!("the label is {} but the expression's value is {value}", shown(label)))
    }
}

fn listops_id(text: &str) -> Option<Token> {
    listops::INFO.alphabet.iter().position(|symbol| symbol.text == text).map(|id| id as Token)
}

/// The different words of a file, numbered as they come, with the place where each was seen first.
#[derive(Default)]
struct Words {
    numbers: HashMap<String, u32>,
    words: Vec<Word>,
}

struct Word {
    text: String,
    line: usize,
    column: usize,
}

impl Words {
    fn number(&mut self, text: &str, line: usize, column: usize) -> u32 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = self.words.len() as u32;
        self.numbers.insert(text.to_owned(), number);
        self.words.push(Word { text: text.to_owned(), line, column });
        number
    }

    fn listops_ids(&self) -> Vec<Token> {
        self.words.iter().map(|word| listops_id(&word.text).unwrap_or(0)).collect()
    }

    /// The alphabet, and the id of every word: numbers as they stand if all are, otherwise by their order.
    fn ids(&self, what: &str, most: u16) -> Result<(Vec<String>, Vec<Token>), (usize, LineError)> {
        let most = usize::from(most);
        let too_great = |word: &Word, reason: String| Err((word.line, LineError { column: word.column, reason }));
        let numbers: Option<Vec<usize>> = self.words.iter().map(|word| whole_number(&word.text)).collect();
        if let Some(numbers) = numbers {
            if let Some(wrong) = numbers.iter().position(|&number| number > most) {
                let word = &self.words[wrong];
                return too_great(word, format!("{what} ids go up to {most}, not {}", shown(&word.text)));
            }
            let count = numbers.iter().max().map_or(0, |greatest| greatest + 1);
            let ids = numbers.iter().map(|&number| number as Token).collect();
            return Ok(((0..count).map(|id| id.to_string()).collect(), ids));
        }
        if let Some(word) = self.words.get(most + 1) {
            return too_great(word, format!("the file has more than {} different {what}s", most + 1));
        }
        let sorted: BTreeSet<&str> = self.words.iter().map(|word| word.text.as_str()).collect();
        let sorted: Vec<&str> = sorted.into_iter().collect();
        let id = |word: &Word| sorted.binary_search(&word.text.as_str()).unwrap_or(0) as Token;
        let ids = self.words.iter().map(id).collect();
        Ok((sorted.iter().map(|&text| text.to_owned()).collect(), ids))
    }
}
