//! Reads the lines of data files and gives ids to the words in them.

use std::collections::{BTreeSet, HashMap};
use std::io::BufRead;

use super::OwnData;
use super::rows::{Layout, Row};
use crate::lines::{LineError, Lines, MAX_LABEL, MAX_TOKEN, ReadError, shown, whole_number};
use crate::task::{BuiltTask, Symbol, Token, single_label};
use crate::tasks::listops;
use semfocus_core::data::MAX_LENGTH;

/// What has been read so far, from one file or several.
#[derive(Default)]
pub(super) struct Reading {
    files: Vec<String>,
    notes: Vec<String>,
    /// How the lines of the file at hand are divided.
    layout: Layout,
    /// The task whose sequences these are, if the format says so.
    task: Option<BuiltTask>,
    tokens: Words,
    classes: Words,
    sequence: Vec<u32>,
    ends: Vec<usize>,
    labels: Vec<u32>,
    /// The line of every example in its file.
    lines: Vec<u32>,
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
                let opening = Layout::detect(&file, line).map_err(|error| error.in_line(&file, number))?;
                let (has_header, expected) =
                    [opening.layout, self.layout].map(|layout| layout == Layout::Interchange).into();
                if self.files.len() > 1 && has_header != expected {
                    let begins = if has_header { "begins" } else { "does not begin" };
                    let first = &self.files[0];
                    return Err(whole(format!("{begins} with the header `Source<TAB>Target`, unlike {first}")));
                }
                self.layout = opening.layout;
                if opening.is_header {
                    if !has_header {
                        let names = line.replace(['\t', ','], ", ");
                        self.notes.push(format!("{file}: line 1 is a header ({names}) and no example"));
                    }
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

    /// The line of every example in its file.
    pub(super) fn line_numbers(&self) -> Vec<u32> {
        self.lines.clone()
    }

    pub(super) fn finish(self, name: String) -> Result<OwnData, ReadError> {
        let place = |wrong: (Place, LineError)| wrong.1.in_line(&self.files[wrong.0.file], wrong.0.line);
        let ((alphabet, token_ids), (classes, label_ids)) = match &self.task {
            Some(task) => (self.tokens.ids_in(&task.alphabet), self.classes.ids_in(&task.classes)),
            None => (
                self.tokens.ids("token", MAX_TOKEN).map_err(place)?,
                self.classes.ids("label", MAX_LABEL).map_err(place)?,
            ),
        };
        let suspects = self.suspected_headers();
        let is_csv = |file: &&String| file.to_lowercase().ends_with(".csv");
        let headers = suspects.iter().filter(|(file, _)| is_csv(file)).map(|(_, reason)| reason.clone()).collect();
        let notes = suspects.into_iter().filter(|(file, _)| !is_csv(file)).map(|(_, reason)| reason);
        let notes = self.notes.iter().cloned().chain(notes).collect();
        Ok(OwnData {
            name,
            alphabet,
            classes,
            task: self.task.map(|task| task.task),
            tokens: self.sequence.iter().map(|&word| token_ids[word as usize]).collect(),
            ends: self.ends,
            labels: self.labels.iter().map(|&word| label_ids[word as usize]).collect(),
            file_sizes: None,
            notes,
            headers,
        })
    }

    /// First lines whose label occurs nowhere else, which makes them look like headers: their files, and what to do.
    fn suspected_headers(&self) -> Vec<(&String, String)> {
        const ENOUGH: usize = 20;
        let mut members = vec![0usize; self.classes.words.len()];
        self.labels.iter().for_each(|&label| members[label as usize] += 1);
        if self.labels.len() < ENOUGH {
            return Vec::new();
        }
        let words = self.classes.words.iter().zip(&members);
        let suspects = words.filter(|(word, members)| **members == 1 && word.place.line == 1);
        let note = |(Word { text, place }, _): (&Word, &usize)| {
            let file = &self.files[place.file];
            let text = shown(text);
            let reason = format!(
                "{file}: the label of line 1, {text}, occurs nowhere else; if this is a header, call its columns `text` and \
                 `label` or remove the line"
            );
            (file, reason)
        };
        suspects.map(note).collect()
    }

    fn line(&mut self, line: &str, number: usize) -> Result<(), LineError> {
        let Row { words, label, label_column, end } = self.layout.row(line)?;
        let has_brackets = self.layout == Layout::Interchange;
        let (start, file) = (self.sequence.len(), self.files.len() - 1);
        let (mut columns, mut depth) = (Vec::new(), 0usize);
        for (column, word) in &words {
            let (column, word) = (*column, word.as_ref());
            match word {
                "(" if has_brackets => depth += 1,
                ")" if has_brackets => match depth.checked_sub(1) {
                    Some(less) => depth = less,
                    None => return LineError::at(column, "`)` without a matching `(`"),
                },
                _ => {
                    if has_brackets && self.labels.is_empty() && self.task.is_none() {
                        self.task = listops::of_interchange(word);
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
            return LineError::at(end, format!("{depth} `(` without a matching `)`"));
        }
        if columns.is_empty() {
            let place = if matches!(self.layout, Layout::Tabs | Layout::Interchange) { " before the tab" } else { "" };
            return LineError::at(1, format!("the line has no tokens{place}"));
        }
        if let Some(task) = &self.task {
            self.check(task, start, &columns, &label, label_column, end)?;
        }
        self.ends.push(self.sequence.len());
        self.lines.push(u32::try_from(number).unwrap_or(u32::MAX));
        self.labels.push(self.classes.number(&label, Place { file, line: number, column: label_column }));
        Ok(())
    }

    /// Checks a sequence and its label against the task whose sequences these are.
    fn check(
        &self,
        task: &BuiltTask,
        start: usize,
        columns: &[usize],
        label: &str,
        label_column: usize,
        end: usize,
    ) -> Result<(), LineError> {
        let mut tokens = Vec::with_capacity(columns.len());
        for (&word, &column) in self.sequence[start..].iter().zip(columns) {
            let text = &self.tokens.words[word as usize].text;
            match id_in(&task.alphabet, text) {
                Some(id) => tokens.push(id),
                None => return LineError::at(column, format!("{} is not a symbol of `{}`", shown(text), task.spec)),
            }
        }
        let answers = task.answers(&tokens).map_err(|illegal| LineError {
            column: columns.get(illegal.index).copied().unwrap_or(end),
            reason: illegal.reason,
        })?;
        let value = single_label(&answers).map_or("", |label| &task.classes[usize::from(label)].text);
        if label == value {
            return Ok(());
        }
        LineError::at(
            label_column,
            format!("the label is {}, but by the rule of `{}` it is {value}", shown(label), task.spec),
        )
    }
}

fn id_in(symbols: &[Symbol], text: &str) -> Option<Token> {
    symbols.iter().position(|symbol| symbol.text == text).map(|id| id as Token)
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

    /// The symbols, and the id of every word among them.
    fn ids_in(&self, symbols: &[Symbol]) -> (Vec<String>, Vec<Token>) {
        let texts = symbols.iter().map(|symbol| symbol.text.clone().into_owned()).collect();
        (texts, self.words.iter().map(|word| id_in(symbols, &word.text).unwrap_or(0)).collect())
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
