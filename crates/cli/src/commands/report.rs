//! `semfocus report`: figures, tables and a page that says what was found.

use std::io::Write;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use semfocus_analysis::evidence::Evidence;
use semfocus_report::Written;
use semfocus_store::Store;
use serde::Serialize;

use super::compare::GoalArgs;
use super::run::show;
use crate::damage::left_out;
use crate::output::emit;
use crate::talk::say;
use crate::text::counted;
use crate::{Error, Exit};

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

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<Exit, Error> {
    let store = Store::open(&args.dir)?;
    let evidence = Evidence::read_all(&store, args.goal.given())?;
    let Written { page, figures, tables, missing } = semfocus_report::write(&store, &evidence)?;
    let report = Report { page, figures, tables, missing };
    emit(out, args.json, &report, |out| {
        let Report { page, figures, tables, .. } = &report;
        writeln!(out, "{}", page.display())?;
        for name in figures {
            writeln!(out, "{}", args.dir.join("figures").join(name).display().to_string() + ".{svg,png,pdf}")?;
        }
        for name in tables {
            writeln!(out, "{}", args.dir.join("tables").join(name).display().to_string() + ".{csv,md,tex}")?;
        }
        Ok(())
    })?;
    if !args.json {
        out.flush()?;
        show(&evidence.experiment, &args.dir);
    }
    if missing > 0 {
        let are = if missing == 1 { "is" } else { "are" };
        say!("{} {are} not finished; the report says which", counted(missing, "trial"));
    }
    Ok(left_out(&args.dir, &evidence.damage))
}
