//! `semfocus record`: the record of the study.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};
use semfocus_lab::Lab;
use semfocus_record::{Record, RecordedRun};
use semfocus_store::Store;

use crate::commands::compare::GoalArgs;
use crate::text::counted;
use crate::{Error, Exit, evidence};

#[derive(Debug, Subcommand)]
pub(crate) enum Args {
    /// Add a run to the record, or bring what the record has of it up to date
    ///
    /// Writes small files into data/NAME: the experiment, where the numbers come from, and per trial and epoch what the
    /// record's figures, tables and verdicts are computed from. No weights. A run that is added again keeps its target unless
    /// another is given. `record draw` then brings the pages up to date.
    Add(AddArgs),
    /// Write the figures, tables and verdicts of the record again from its data
    Draw(DrawArgs),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct AddArgs {
    /// Folder of the run
    run: PathBuf,
    /// Name in the record [default: that of the folder]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    goal: GoalArgs,
    /// Folder of the record
    #[arg(short, long, value_name = "DIR", default_value = "docs/record")]
    output: PathBuf,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct DrawArgs {
    /// Folder of the record
    #[arg(value_name = "DIR", default_value = "docs/record")]
    record: PathBuf,
    /// Change nothing; fail if anything does not agree with the data
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args, lab: &Lab, out: &mut dyn Write) -> Result<Exit, Error> {
    match args {
        Args::Add(args) => add(args, lab, out),
        Args::Draw(args) => draw(args, lab, out),
    }
}

fn add(args: &AddArgs, lab: &Lab, out: &mut dyn Write) -> Result<Exit, Error> {
    let store = Store::open(&args.run)?;
    let name = match &args.name {
        Some(name) => name.clone(),
        None => {
            let path = std::fs::canonicalize(&args.run)?;
            path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
        }
    };
    if name.is_empty() || name.starts_with('.') || name.contains(['/', '\\', ' ']) {
        return Err(format!("`{name}` cannot be the name of a run of the record; choose one with --name").into());
    }
    let RecordedRun { evidence, provenance, .. } =
        semfocus_record::add(&store, &args.output, &name, args.goal.given(), lab)?;
    writeln!(out, "{}", args.output.join("data").join(&name).display())?;
    let (finished, planned) = (provenance.finished, provenance.planned);
    writeln!(out, "{finished} of {} over, {:.2} trial-hours\n", counted(planned, "trial"), provenance.trial_hours)?;
    evidence::print(&evidence, out)?;
    Ok(Exit::Done)
}

fn draw(args: &DrawArgs, lab: &Lab, out: &mut dyn Write) -> Result<Exit, Error> {
    let record = Record::read(&args.record, lab)?;
    if args.check {
        let outdated = record.outdated()?;
        for path in &outdated {
            writeln!(out, "{}", path.display())?;
        }
        return match outdated.len() {
            0 => Ok(Exit::Done),
            count => Err(format!(
                "{} not agree with the data; `semfocus record draw {}` writes them again",
                if count == 1 { "this file does".to_owned() } else { format!("these {count} files do") },
                args.record.display()
            )
            .into()),
        };
    }
    for path in record.draw()? {
        writeln!(out, "{}", path.display())?;
    }
    Ok(Exit::Done)
}
