//! `semfocus data`: the data of the tasks, for people and for other programs.

mod audit;
mod convert;
mod generate;
mod label;
mod show;

use std::io::Write;
use std::sync::Arc;

use clap::{Args as ClapArgs, Subcommand};
use semfocus_core::TrialSettings;
use semfocus_lab::{Lab, NoExamples, Tokenizers};
use semfocus_tasks::{Answers, BuiltTask, DataSettings, FileSet, Length, Question, Source, TextSettings, single_label};
use serde::Serialize;

use crate::talk::say;
use crate::{Error, Exit};

#[derive(Debug, Subcommand)]
pub(crate) enum Args {
    /// Write examples of a task
    ///
    /// The same task, options and seed give the same bytes on every machine and in every version.
    Generate(generate::Args),
    /// Compute the labels of sequences of token ids, one per line
    Label(label::Args),
    /// Explain a task with a few worked examples
    Show(show::Args),
    /// Look for shortcuts in a data set: imbalance, duplicates, leaks, trivial rules
    Audit(audit::Args),
    /// Convert a data file of your own to another format
    Convert(convert::Args),
}

pub(crate) fn run(args: &Args, lab: &Lab, out: &mut dyn Write) -> Result<Exit, Error> {
    match args {
        Args::Generate(args) => generate::run(args, lab, out),
        Args::Label(args) => label::run(args, lab, out),
        Args::Show(args) => show::run(args, lab, out),
        Args::Audit(args) => audit::run(args, lab, out),
        Args::Convert(args) => convert::run(args, out),
    }
}

/// Files in place of a generated data set.
#[derive(Debug, ClapArgs)]
struct FileArgs {
    /// Data in separate files: the training examples; for the task `text`, a text or a folder of texts
    #[arg(long, value_name = "FILE")]
    train_file: Option<String>,
    /// Data in separate files: the held-out examples or text
    #[arg(long, value_name = "FILE")]
    held_out_file: Option<String>,
    /// Data in separate files: the test examples or text
    #[arg(long, value_name = "FILE")]
    test_file: Option<String>,
    /// For the task `text`: a tokenizer of SentencePiece (.model) or Hugging Face (tokenizer.json) [default: it trains one]
    #[arg(long, value_name = "FILE")]
    tokenizer_file: Option<String>,
}

impl FileArgs {
    fn settings(&self, data: DataSettings) -> DataSettings {
        let FileArgs { train_file, held_out_file, test_file, tokenizer_file } = self;
        let files = FileSet { train: train_file.clone(), held_out: held_out_file.clone(), test: test_file.clone() };
        DataSettings { files, tokenizer_file: tokenizer_file.clone(), ..data }
    }
}

/// A task, or a data file; what is to be known about how the file was read goes to standard error.
fn find(lab: &Lab, name: &str, data: &DataSettings) -> Result<Source, NoExamples> {
    let settings = TrialSettings { task: name.to_owned(), data: data.clone(), ..TrialSettings::default() };
    let source = lab.source(&settings, &Tokenizers::New)?;
    source.notes().iter().for_each(|note| say!("note: {note}"));
    Ok(source)
}

/// A task. For a data file, an error that says why it cannot be used.
fn task_only(lab: &Lab, name: &str, why: &str) -> Result<Arc<BuiltTask>, Error> {
    if TextSettings::is_named(name) {
        return Err("`text` is about a text of yours, which has its examples: `semfocus data show` and `data audit` tell what they are".into());
    }
    match find(lab, name, &DataSettings::default())? {
        Source::Task(task) => Ok(task),
        Source::Own(_) | Source::Text(_) => Err(format!("{name} is a data file, {why}").into()),
    }
}

/// Lengths, the same for all commands that generate.
#[derive(Debug, ClapArgs)]
struct Shape {
    /// Length of the sequences: a number such as 40, or a range such as 20..40 [default: the task's]
    ///
    /// With a range, the length of every example is drawn, and shorter ones are padded at the end. Both bounds may occur,
    /// except for listops, whose lengths lie strictly between them.
    #[arg(long, value_name = "L|MIN..MAX")]
    length: Option<Length>,
}

impl Shape {
    fn settings(&self) -> DataSettings {
        DataSettings { length: self.length, ..DataSettings::default() }
    }
}

/// Answers as JSON: the label of a classification task, or what is asked where.
#[derive(Serialize)]
struct Answered {
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<u16>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    questions: Vec<Question>,
    /// The rows that questions name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    distributions: Vec<Vec<f32>>,
}

impl Answered {
    fn new(answers: &Answers, classes: usize) -> Self {
        let label = single_label(answers);
        let questions = if label.is_some() { Vec::new() } else { answers.questions.clone() };
        Answered {
            label,
            questions,
            distributions: answers.distributions.chunks(classes).map(<[f32]>::to_vec).collect(),
        }
    }
}

/// The ways to write examples.
const FORMATS: &[(&str, &str)] = &[
    ("tokens", "Token ids with padding, a tab, the label"),
    ("text", "Readable symbols without padding, a tab, the label"),
    ("tsv", "Source and target below a header, ListOps as nested pairs: the interchange format"),
];
