//! `semfocus compare`: what a run shows.

use std::io::Write;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use semfocus_analysis::evidence::claim::CLAIM_RULE;
use semfocus_analysis::evidence::verdict::{GENERALISATION_RULE, LEARNING_RULE};
use semfocus_analysis::evidence::{Evidence, GOAL};
use semfocus_core::Goal;
use semfocus_store::Store;

use super::explain;
use crate::damage::left_out;
use crate::output::emit;
use crate::text::paragraph;
use crate::{Error, Exit, evidence};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Folder of the run
    dir: PathBuf,
    #[command(flatten)]
    goal: GoalArgs,
    /// Compare with this mechanism of the run instead of full attention
    #[arg(long, value_name = "MECHANISM")]
    baseline: Option<String>,
    /// Compare every mechanism with every other one
    #[arg(long, conflicts_with = "baseline")]
    all_pairs: bool,
    /// Print JSON: one entry for each mechanism and point of the grid
    #[arg(long)]
    json: bool,
}

/// What counts as having learned.
#[derive(Debug, ClapArgs)]
pub(crate) struct GoalArgs {
    /// What counts as having learned, e.g. "heldout_accuracy >= 0.9" [default: train_accuracy >= 0.95]
    ///
    /// A metric of epochs.csv and the value to reach: at least (>=) for accuracies, at most (<=) for losses.
    #[arg(long, value_name = "GOAL")]
    goal: Option<Goal>,
}

impl GoalArgs {
    pub(crate) fn get(&self) -> Goal {
        self.goal.unwrap_or(GOAL)
    }
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<Exit, Error> {
    let found = Evidence::read_against(&Store::open(&args.dir)?, args.goal.get(), args.baseline.as_deref())?;
    let rows = if args.all_pairs { evidence::rows_of_pairs(&found) } else { evidence::rows(&found) };
    emit(out, args.json, &rows, |out| print(&found, args.all_pairs, out))?;
    Ok(left_out(&args.dir, &found.damage))
}

fn print(found: &Evidence, all_pairs: bool, out: &mut dyn Write) -> Result<(), Error> {
    writeln!(out, "experiment {}", found.experiment.name)?;
    if !found.experiment.reduced.is_empty() {
        paragraph(out, "reduced    ", &found.experiment.reduced.join("; "))?;
    }
    if !found.experiment.changed.is_empty() {
        paragraph(out, "changed    ", &found.experiment.changed.join("; "))?;
    }
    let missing = found.missing().count();
    if missing > 0 {
        writeln!(out, "missing    {missing} of {} trials are not finished", found.trials().count())?;
    }
    if all_pairs {
        evidence::print_answer(found, out)?;
        writeln!(out)?;
        evidence::print_pairs(found, out)?;
    } else {
        evidence::print(found, out)?;
        writeln!(out)?;
        evidence::print_details(found, out)?;
        writeln!(out)?;
        paragraph(out, "", CLAIM_RULE)?;
    }
    paragraph(out, "", LEARNING_RULE)?;
    paragraph(out, "", GENERALISATION_RULE)?;
    Ok(explain::print_summary(found, out)?)
}
