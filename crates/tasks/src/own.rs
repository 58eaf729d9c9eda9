//! Data files of your own.
//!
//! One example per line: tokens separated by blanks, a tab, the label; or CSV, or JSON lines. If all tokens of all files are whole numbers, they
//! are used as token ids. Otherwise they are symbols, which get ids in ascending order of their bytes. The same goes for
//! labels. The order of the lines does not matter for the ids. A file that begins with the header of the interchange
//! format is read as such: round brackets are dropped, and ListOps expressions get the ids of the task `listops` and are
//! checked against their labels.

mod reading;
mod rows;

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use crate::formats::{Format, NoTsv, Writer};
use crate::generate::Dataset;
use crate::lines::{Lines, ReadError};
use crate::split::{Split, SplitName};
use crate::task::{Label, Task, Token};
use reading::Reading;
use semfocus_core::data::{DataSettings, Sizes};
use semfocus_core::fnv_1a;

/// The contents of a data file that is to be split, or of one file for each split.
#[derive(Clone, Debug)]
pub struct OwnData {
    /// Name of the data set: by default that of its first file, without folders and extension.
    pub name: String,
    /// How each token id is written.
    pub alphabet: Vec<String>,
    /// How each class is written.
    pub classes: Vec<String>,
    /// The task whose sequences these are, if the format says so.
    task: Option<Arc<dyn Task>>,
    tokens: Vec<Token>,
    ends: Vec<usize>,
    labels: Vec<Label>,
    /// How many examples the file of each split has; none if a single file is to be split.
    file_sizes: Option<Sizes>,
    notes: Vec<String>,
    /// First lines of CSV files that look like headers, in words.
    headers: Vec<String>,
}

impl OwnData {
    /// Reads a file that is to be split.
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        OwnData::parse(stem(path), open(path)?)
    }

    /// Reads one file for each split; the test file is optional. Vocabulary and classes are those of all files together.
    ///
    /// No sequence may occur in two files, whatever its labels: a model would be measured on what it was trained on.
    pub fn read_files(name: &str, train: &Path, held_out: &Path, test: Option<&Path>) -> Result<Self, ReadError> {
        let name = if name.is_empty() { stem(train) } else { name.to_owned() };
        let files = [Some(train), Some(held_out), test].into_iter().flatten().map(open);
        OwnData::parse_files(name, files.collect::<Result<_, _>>()?)
    }

    /// Reads lines that are to be split.
    pub fn parse<R: BufRead>(name: String, lines: Lines<R>) -> Result<Self, ReadError> {
        let mut reading = Reading::default();
        reading.file(lines)?;
        reading.finish(name)
    }

    /// Reads the lines of train, held-out and, if there are three, test.
    fn parse_files<R: BufRead>(name: String, files: Vec<Lines<R>>) -> Result<Self, ReadError> {
        let mut reading = Reading::default();
        let mut counts = [0; 3];
        for (lines, count) in files.into_iter().zip(&mut counts) {
            *count = reading.file(lines)?;
        }
        let (names, lines) = (reading.file_names(), reading.line_numbers());
        let [train, held_out, test] = counts;
        let data = OwnData { file_sizes: Some(Sizes { train, held_out, test }), ..reading.finish(name)? };
        data.check_disjoint(&names, &lines)?;
        Ok(data)
    }

    fn check_disjoint(&self, files: &[String], lines: &[u32]) -> Result<(), ReadError> {
        let place = |index: usize| (self.split_of(index), lines[index] as usize);
        let mut seen: HashMap<&[Token], usize> = HashMap::new();
        let (mut first, mut examples) = (None, 0);
        for (index, (tokens, _)) in self.iter().enumerate() {
            let earlier = *seen.entry(tokens).or_insert(index);
            if self.split_of(earlier) != self.split_of(index) {
                first.get_or_insert((earlier, index));
                examples += 1;
            }
        }
        let Some((earlier, later)) = first else { return Ok(()) };
        let ((earlier, earlier_line), (later, line)) = (place(earlier), place(later));
        let (file, earlier_file) = (files[later as usize].clone(), files[earlier as usize].clone());
        Err(ReadError::Shared { file, line, earlier_file, earlier_line, examples })
    }

    /// The number of examples.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there is no example.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The id of the pad token: the first one after those of the files.
    pub fn pad(&self) -> Token {
        self.alphabet.len() as Token
    }

    /// The length of the longest sequence.
    pub fn length(&self) -> usize {
        self.iter().map(|(tokens, _)| tokens.len()).max().unwrap_or(0)
    }

    /// The sequences and their labels, in the order of the lines: train, held-out, test.
    pub fn iter(&self) -> impl Iterator<Item = (&[Token], Label)> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).zip(&self.labels).map(|((start, &end), &label)| (&self.tokens[start..end], label))
    }

    /// What a user should know about how the files were read, such as that a line was taken as a header.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// First lines of CSV files that were read as examples and look like headers, in words.
    pub fn suspected_headers(&self) -> &[String] {
        &self.headers
    }

    /// How many examples the file of each split has; none if a single file is to be split.
    pub fn file_sizes(&self) -> Option<Sizes> {
        self.file_sizes
    }

    fn file_size(&self, split: SplitName) -> usize {
        self.file_sizes.map_or(0, |sizes| split.size_in(&sizes))
    }

    /// The split in whose file an example stands.
    fn split_of(&self, index: usize) -> SplitName {
        let train = self.file_size(SplitName::Train);
        match index {
            _ if index < train => SplitName::Train,
            _ if index < train + self.file_size(SplitName::HeldOut) => SplitName::HeldOut,
            _ => SplitName::Test,
        }
    }

    /// FNV-1a of the examples, of how tokens and classes are written, and of where one file ends and the next begins.
    pub fn checksum(&self) -> u64 {
        let names = self.alphabet.iter().chain(&self.classes).flat_map(|name| name.bytes().chain([0]));
        let examples = self.iter().flat_map(|(tokens, label)| tokens.iter().copied().chain([Token::MAX, label]));
        let sizes = self.file_sizes.map(|sizes| SplitName::ALL.map(|split| split.size_in(&sizes) as u64));
        let sizes = sizes.into_iter().flatten().flat_map(u64::to_le_bytes);
        fnv_1a(names.chain(examples.flat_map(u16::to_le_bytes)).chain(sizes))
    }

    /// A writer for these examples.
    pub fn writer(&self, format: Format) -> Result<Writer, NoTsv> {
        let (alphabet, classes) = (self.alphabet.clone(), self.classes.clone());
        Writer::with(&self.name, format, alphabet, classes, self.length(), self.task.clone())
    }

    /// How many examples the splits of [`dataset`](Self::dataset) have.
    pub fn sizes(&self, settings: &DataSettings, trial_seed: u64) -> Sizes {
        let (seed, mut counts) = (settings.seed_for(trial_seed), [0; 3]);
        for (index, (tokens, _)) in self.iter().enumerate() {
            counts[self.split_for(seed, index, tokens) as usize] += 1;
        }
        let [train, held_out, test] =
            SplitName::ALL.map(|name| counts[name as usize].min(name.size_in(&settings.sizes)));
        Sizes { train, held_out, test }
    }

    /// The split to which an example belongs.
    fn split_for(&self, seed: u64, index: usize, tokens: &[Token]) -> SplitName {
        match self.file_sizes {
            Some(_) => self.split_of(index),
            None => SplitName::for_sequence(seed, tokens),
        }
    }

    /// The splits, each in the order of the lines and cut to the size in `settings`.
    ///
    /// If there is one file for each split, that decides, and the seed does not matter. A single file is split as generated
    /// data is: [`SplitName::for_sequence`] decides where each sequence belongs, so copies of a sequence stay together, and
    /// the test split's share stays aside even if no test split is asked for.
    pub fn dataset(&self, settings: &DataSettings, trial_seed: u64) -> Dataset {
        let (pad, length, seed) = (self.pad(), self.length(), settings.seed_for(trial_seed));
        let mut splits = SplitName::ALL.map(|_| Split::new(length, self.classes.len()));
        for (index, (tokens, label)) in self.iter().enumerate() {
            let name = self.split_for(seed, index, tokens);
            let split = &mut splits[name as usize];
            if split.len() < name.size_in(&settings.sizes) {
                split.push(tokens, &crate::task::label(label), pad);
            }
        }
        let [train, held_out, test] = splits;
        Dataset {
            name: self.name.clone(),
            vocabulary: self.alphabet.len() + 1,
            classes: self.classes.len(),
            class_names: self.classes.clone(),
            is_generated: false,
            answers_are_drawn: false,
            pad,
            length,
            train,
            held_out,
            test,
        }
    }
}

fn stem(path: &Path) -> String {
    path.file_stem().map_or_else(|| path.display().to_string(), |stem| stem.to_string_lossy().into_owned())
}

fn open(path: &Path) -> Result<Lines<BufReader<File>>, ReadError> {
    let file = path.display().to_string();
    match File::open(path) {
        Ok(reader) => Ok(Lines::new(file, BufReader::new(reader))),
        Err(error) => Err(ReadError::Io { file, error }),
    }
}
