//! Reads the lines of data files and gives ids to the words in them.

use std::collections::{BTreeSet, HashMap};
use std::io::BufRead;

use super::OwnData;
use crate::formats::TSV_HEADER;
use crate::lines::{LineError, Lines, MAX_LABEL, MAX_TOKEN, ReadError, end_column, shown, whole_number, words};
use crate::task::Token;
use crate::tasks::listops;
use semfocus_core::data::MAX_LENGTH;

/// What has been read so far, from one file or several.
#[derive(Default)]
pub(super) struct Reading {
    files: Vec<String>,
    is_tsv: bool,
    is_listops: bool,
    tokens: Words,
    classes: Words,
    sequence: Vec<u32>,
    ends: Vec<usize>,
    labels: Vec<u32>,
}

impl Reading {
    /// Reads one more file; returns the number of its examples.
    pub(super) fn file<R: BufRead>(&mut self, mut lines: Lines<R>) -> Result<usize, ReadError> {
        let (file, before) = (lines.file().to_owned(), self.labels.len());
        let whole = |reason: String| ReadError::Whole { file: file.clone(), reason };
        self.files.push(file.clone());
        loop {
            let number = lines.number() + 1;
            let Some(line) = lines.read()? else { break };
            if number == 1 {
                let has_header = line == TSV_HEADER;
                if self.files.len() > 1 && has_header != self.is_tsv {
                    let begins = if has_header { "begins" } else { "does not begin" };
                    let first = &self.files[0];
                    return Err(whole(format!("{begins} with the header `Source<TAB>Target`, unlike {first}")));
                }
                self.is_tsv = has_header;
                if has_header {
                    continue;
                }
            }
            self.line(line, number).map_err(|error| error.in_line(&file, number))?;
        }
        match self.labels.len() - before {
            0 => Err(whole("has no examples".to_owned())),
            examples => Ok(examples),
        }
    }

    pub(super) fn file_names(&self) -> Vec<String> {
        self.files.clone()
    }

    /// How many lines precede the first example of every file.
    pub(super) fn header_lines(&self) -> usize {
        usize::from(self.is_tsv)
    }

    pub(super) fn finish(self, name: String) -> Result<OwnData, ReadError> {
        let place = |wrong: (Place, LineError)| wrong.1.in_line(&self.files[wrong.0.file], wrong.0.line);
        let (alphabet, token_ids) = if self.is_listops {
            let alphabet = listops::INFO.alphabet.iter().map(|symbol| symbol.text.to_owned()).collect();
            (alphabet, self.tokens.listops_ids())
        } else {
            self.tokens.ids("token", MAX_TOKEN).map_err(place)?
        };
        let (classes, label_ids) = if self.is_listops {
            let classes = listops::INFO.classes.iter().map(|symbol| symbol.text.to_owned()).collect();
            (classes, self.classes.words.iter().map(|word| word.text.parse().unwrap_or(0)).collect())
        } else {
            self.classes.ids("label", MAX_LABEL).map_err(place)?
        };
        Ok(OwnData {
            name,
            alphabet,
            classes,
            is_listops: self.is_listops,
            tokens: self.sequence.iter().map(|&word| token_ids[word as usize]).collect(),
            ends: self.ends,
            labels: self.labels.iter().map(|&word| label_ids[word as usize]).collect(),
            file_sizes: None,
        })
    }

    fn line(&mut self, line: &str, number: usize) -> Result<(), LineError> {
        let Some((sequence, rest)) = line.split_once('\t') else {
            return match line.trim() {
                "" => LineError::at(1, "the line is empty; every line must hold tokens, a tab and a label"),
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
            return LineError::at(column, "the label must be a single word at the end of the line");
        }
        let (start, file) = (self.sequence.len(), self.files.len() - 1);
        let (mut columns, mut depth) = (Vec::new(), 0usize);
        for (column, word) in words(sequence) {
            match word {
                "(" if self.is_tsv => depth += 1,
                ")" if self.is_tsv => match depth.checked_sub(1) {
                    Some(less) => depth = less,
                    None => return LineError::at(column, "`)` without a matching `(`"),
                },
                _ => {
                    if self.is_tsv && self.labels.is_empty() && word.starts_with('[') {
                        self.is_listops = true;
                    }
                    if columns.len() == MAX_LENGTH {
                        return LineError::at(column, format!("the sequence has more than {MAX_LENGTH} tokens"));
                    }
                    self.sequence.push(self.tokens.number(word, Place { file, line: number, column }));
                    columns.push(column);
                }
            }
        }
        if depth > 0 {
            return LineError::at(end_column(sequence), format!("{depth} `(` without a matching `)`"));
        }
        if columns.is_empty() {
            return LineError::at(1, "the line has no tokens before the tab");
        }
        if self.is_listops {
            self.check_listops(start, &columns, label, label_column, end_column(sequence))?;
        }
        self.ends.push(self.sequence.len());
        self.labels.push(self.classes.number(label, Place { file, line: number, column: label_column }));
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

/// The different words of the files, numbered in order of appearance, with the place where each was seen first.
#[derive(Default)]
struct Words {
    numbers: HashMap<String, u32>,
    words: Vec<Word>,
}

struct Word {
    text: String,
    place: Place,
}

#[derive(Clone, Copy)]
struct Place {
    file: usize,
    line: usize,
    column: usize,
}

impl Words {
    fn number(&mut self, text: &str, place: Place) -> u32 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = self.words.len() as u32;
        self.numbers.insert(text.to_owned(), number);
        self.words.push(Word { text: text.to_owned(), place });
        number
    }

    fn listops_ids(&self) -> Vec<Token> {
        self.words.iter().map(|word| listops_id(&word.text).unwrap_or(0)).collect()
    }

    /// The alphabet, and the id of every word: if all words are numbers, these numbers; otherwise their rank.
    fn ids(&self, what: &str, max: u16) -> Result<(Vec<String>, Vec<Token>), (Place, LineError)> {
        let max = usize::from(max);
        let error = |word: &Word, reason: String| Err((word.place, LineError { column: word.place.column, reason }));
        let numbers: Option<Vec<usize>> = self.words.iter().map(|word| whole_number(&word.text)).collect();
        if let Some(numbers) = numbers {
            if let Some(wrong) = numbers.iter().position(|&number| number > max) {
                let word = &self.words[wrong];
                return error(word, format!("{what} ids go up to {max}, not {}", shown(&word.text)));
            }
            let count = numbers.iter().max().map_or(0, |max| max + 1);
            let ids = numbers.iter().map(|&number| number as Token).collect();
            return Ok(((0..count).map(|id| id.to_string()).collect(), ids));
        }
        if let Some(word) = self.words.get(max + 1) {
            return error(word, format!("there are more than {} different {what}s", max + 1));
        }
        let sorted: BTreeSet<&str> = self.words.iter().map(|word| word.text.as_str()).collect();
        let sorted: Vec<&str> = sorted.into_iter().collect();
        let id = |word: &Word| sorted.binary_search(&word.text.as_str()).unwrap_or(0) as Token;
        let ids = self.words.iter().map(id).collect();
        Ok((sorted.iter().map(|&text| text.to_owned()).collect(), ids))
    }
}
