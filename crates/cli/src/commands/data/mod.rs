//! `semfocus data`: the data of the tasks, for people and for other programs.

mod audit;
mod convert;
mod generate;
mod label;
mod show;

use std::io::Write;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use semfocus_tasks::{FileSet, Format, Length, ListOps, Settings, Source, SourceError, TaskInfo, Tasks};

use crate::Error;

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
    /// Compute the labels of sequences of token ids, one a line
    Label(label::Args),
    /// Explain a task with a few worked examples
    Show(show::Args),
    /// Look for what a data set gives away: balance, copies, leaks, trivial rules
    Audit(audit::Args),
    /// Write a data file of your own in another form
    Convert(convert::Args),
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Error> {
    match &args.what {
        What::Generate(args) => generate::run(args, out),
        What::Label(args) => label::run(args, out),
        What::Show(args) => show::run(args, out),
        What::Audit(args) => audit::run(args, out),
        What::Convert(args) => convert::run(args, out),
    }
}

/// A task of the standard list, or a data file.
fn find(name: &str) -> Result<Source, SourceError> {
    Source::find(name, &Tasks::standard(), &FileSet::default())
}

/// A task; for a data file, an error that says why it will not do.
fn task_only(name: &str, why: &str) -> Result<TaskInfo, Error> {
    match find(name)? {
        Source::Task(task) => Ok(*task),
        Source::Own(_) => Err(format!("{name} is a data file, {why}").into()),
    }
}

/// Lengths and parameters, the same for all commands that generate.
#[derive(Debug, ClapArgs)]
struct Shape {
    /// Tokens of a sequence: a number such as 40, or a range such as 20..40 [default: that of the task]
    ///
    /// In a range every example has a length of its own and is padded at the end. Both bounds may occur, except for
    /// listops, whose lengths lie strictly between them.
    #[arg(long, value_name = "L|MIN..MAX")]
    length: Option<Length>,
    /// listops: greatest depth of an expression
    #[arg(long, value_name = "D", default_value_t = ListOps::default().max_depth)]
    max_depth: usize,
    /// listops: greatest number of arguments of an operator
    #[arg(long, value_name = "K", default_value_t = ListOps::default().max_args)]
    max_args: usize,
    /// listops: probability that a node is an operator
    #[arg(long, value_name = "P", default_value_t = ListOps::default().operator_probability)]
    operator_probability: f64,
}

impl Shape {
    fn settings(&self) -> Settings {
        let Shape { length, max_depth, max_args, operator_probability } = *self;
        Settings { length, listops: ListOps { max_depth, max_args, operator_probability }, ..Settings::default() }
    }
}

/// A form of data files, as an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FormatArg {
    /// Token ids with padding, a tab, the label
    Tokens,
    /// Readable symbols without padding, a tab, the label
    Text,
    /// Source and target below a header, ListOps in nested pairs: the interchange form
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
