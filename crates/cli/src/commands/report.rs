//! `semfocus report`: figures, tables and a page that says what was found.

use std::io::Write;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use semfocus_analysis::evidence::Evidence;
use semfocus_lab::Store;
use semfocus_report::Written;
use serde::Serialize;

use super::compare::GoalArgs;
use crate::Error;

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Folder of the run
    dir: PathBuf,
    #[command(flatten)]
    goal: GoalArgs,
    /// Print the names of the files as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    page: PathBuf,
    figures: Vec<String>,
    tables: Vec<String>,
    missing: usize,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Error> {
    let store = Store::open(&args.dir)?;
    let evidence = Evidence::read(&store, args.goal.get())?;
    let Written { page, figures, tables, missing } = semfocus_report::write(&store, &evidence)?;
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &Report { page, figures, tables, missing })?;
        return Ok(writeln!(out)?);
    }
    writeln!(out, "{}", page.display())?;
    for name in figures {
        writeln!(out, "{}", args.dir.join("figures").join(name).display().to_string() + ".{svg,png,pdf}")?;
    }
    for name in tables {
        writeln!(out, "{}", args.dir.join("tables").join(name).display().to_string() + ".{csv,md}")?;
    }
    if missing > 0 {
        eprintln!("{missing} trials are not finished; the page says which");
    }
    Ok(())
}
