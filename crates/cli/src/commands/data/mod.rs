//! `semfocus data`: the data of the tasks, for people and for other programs.

mod audit;
mod convert;
mod generate;
mod label;
mod show;

use std::io::Write;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use semfocus_lab::Lab;
use semfocus_tasks::{DataSettings, FileSet, Format, Length, ListOps, Source, SourceError, TaskInfo};

use crate::Error;
use crate::talk::say;

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
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

pub(crate) fn run(args: &Args, lab: &Lab, out: &mut dyn Write) -> Result<(), Error> {
    match &args.what {
        What::Generate(args) => generate::run(args, lab, out),
        What::Label(args) => label::run(args, lab, out),
        What::Show(args) => show::run(args, lab, out),
        What::Audit(args) => audit::run(args, lab, out),
        What::Convert(args) => convert::run(args, out),
    }
}

/// A task, or a data file; what is to be known about how the file was read goes to standard error.
fn find(lab: &Lab, name: &str) -> Result<Source, SourceError> {
    let source = Source::find(name, &lab.tasks, &FileSet::default())?;
    source.notes().iter().for_each(|note| say!("note: {note}"));
    Ok(source)
}

/// A task. For a data file, an error that says why it cannot be used.
fn task_only(lab: &Lab, name: &str, why: &str) -> Result<TaskInfo, Error> {
    match find(lab, name)? {
        Source::Task(task) => Ok(*task),
        Source::Own(_) => Err(format!("{name} is a data file, {why}").into()),
    }
}

/// Lengths and parameters, the same for all commands that generate.
#[derive(Debug, ClapArgs)]
struct Shape {
    /// Length of the sequences: a number such as 40, or a range such as 20..40 [default: the task's]
    ///
    /// With a range, the length of every example is drawn, and shorter ones are padded at the end. Both bounds may occur,
    /// except for listops, whose lengths lie strictly between them.
    #[arg(long, value_name = "L|MIN..MAX")]
    length: Option<Length>,
    /// listops: largest depth of an expression
    #[arg(long, value_name = "D", default_value_t = ListOps::default().max_depth)]
    max_depth: usize,
    /// listops: largest number of arguments of an operator
    #[arg(long, value_name = "K", default_value_t = ListOps::default().max_args)]
    max_args: usize,
    /// listops: probability that a node is an operator
    #[arg(long, value_name = "P", default_value_t = ListOps::default().operator_probability)]
    operator_probability: f64,
}

impl Shape {
    fn settings(&self) -> DataSettings {
        let Shape { length, max_depth, max_args, operator_probability } = *self;
        DataSettings {
            length,
            listops: ListOps { max_depth, max_args, operator_probability },
            ..DataSettings::default()
        }
    }
}

/// How examples are written, as an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FormatArg {
    /// Token ids with padding, a tab, the label
    Tokens,
    /// Readable symbols without padding, a tab, the label
    Text,
    /// Source and target below a header, ListOps as nested pairs: the interchange format
    Tsv,
}

impl From<FormatArg> for Format {
    fn from(format: FormatArg) -> Self {
        match format {
            FormatArg::Tokens => Format::Tokens,
            FormatArg::Text => Format::Text,
            FormatArg::Tsv => Format::Tsv,
        }
    }
}
