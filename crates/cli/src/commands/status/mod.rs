//! `semfocus status`: the progress of a run, or of all runs.

pub(crate) mod runs;
mod summary;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use semfocus_analysis::overview::{Overview, TrialOverview};
use semfocus_core::TrialId;
use semfocus_store::{Follower, State, Store};

use crate::damage::left_out;
use crate::models::mechanism_width;
use crate::output::emit;
use crate::screen::text_width;
use crate::table::Table;
use crate::talk::Colour;
use crate::text::{clock, paragraph, percent};
use crate::{Error, Exit};

/// More trials than these are shown by mechanism unless all are asked for.
const MAX_LISTED: usize = 20;

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Folder of a run, or a folder that contains runs [default: runs]
    dir: Option<PathBuf>,
    /// List every trial, however many there are
    #[arg(short, long)]
    all: bool,
    /// Refresh until the run ends; without the folder of a run, until none of the runs is running
    #[arg(short, long)]
    watch: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "watch")]
    json: bool,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<Exit, Error> {
    let dir = match &args.dir {
        Some(dir) if Store::is_store(dir) || !runs::has_runs(dir) => dir,
        several => {
            let folder = several.as_deref().unwrap_or(Path::new(runs::FOLDER));
            return if args.watch { watch::all(folder, out) } else { runs::run(folder, args.json, out) };
        }
    };
    if args.watch {
        return watch::run(dir, args.all, out);
    }
    let run = Overview::read(&mut Follower::new(Store::open(dir)?))?;
    emit(out, args.json, &run, |out| print(&run, if args.all { usize::MAX } else { MAX_LISTED }, out))?;
    Ok(left_out(dir, &run.damage))
}

/// The number of trials in each state, in words.
pub(crate) fn counts(run: &Overview) -> String {
    let Overview { trials, done, running, diverged, failed, left, .. } = run;
    let mut text =
        format!("{trials}: {done} done, {running} running, {diverged} diverged, {failed} failed, {left} left");
    if run.unreadable > 0 {
        text += &format!(", {} unreadable", run.unreadable);
    }
    text
}

/// The time left, in words; none if nothing is left to do.
fn time_left(run: &Overview) -> Option<String> {
    let is_open = run.left + run.running + run.failed > 0;
    is_open.then(|| run.seconds_left.map_or_else(|| "unknown before the first epoch".to_owned(), clock))
}

/// Prints it; of more than `max_listed` trials a summary, and those that are running.
fn print(run: &Overview, max_listed: usize, out: &mut dyn Write) -> Result<(), Error> {
    let Overview { experiment, epochs_done, epochs, list, .. } = run;
    writeln!(out, "experiment {experiment}")?;
    paragraph(out, "trials     ", &counts(run))?;
    writeln!(out, "epochs     {epochs_done} of {epochs}")?;
    if let Some(time) = time_left(run) {
        writeln!(out, "time left  {time}")?;
    }
    writeln!(out)?;
    let is_summed_up = list.len() > max_listed;
    if is_summed_up || list.len() > MAX_LISTED {
        summary::print(list, out)?;
        writeln!(out)?;
    }
    let is_listed = |entry: &&TrialOverview| !is_summed_up || entry.state == State::Running;
    print_list(&list.iter().filter(is_listed).collect::<Vec<_>>(), out)?;
    let holders: BTreeSet<&String> = list.iter().filter_map(|entry| entry.held_by.as_ref()).collect();
    for holder in holders {
        writeln!(out, "running in {holder}")?;
    }
    let origins: BTreeSet<&String> = list.iter().filter_map(|entry| entry.origin.as_ref()).collect();
    for origin in origins {
        writeln!(out, "started with the weights {origin}")?;
    }
    for entry in list.iter().filter(|entry| entry.state == State::Failed) {
        writeln!(out, "{} failed: {}", entry.trial, entry.message.as_deref().unwrap_or("for an unknown reason"))?;
    }
    if is_summed_up {
        writeln!(out, "--all lists every trial.")?;
    }
    Ok(())
}

/// One line per trial, then the steps of those that are running.
fn print_list(list: &[&TrialOverview], out: &mut dyn Write) -> Result<(), Error> {
    if list.is_empty() {
        return Ok(());
    }
    // The number that a person calls a seed by and the seed itself, or the number alone where there is no room.
    let width = mechanism_width(list.iter().map(|entry| &entry.mechanism));
    let is_wide = width + 67 <= text_width();
    let mut table = Table::new(["trial", "mechanism", ">seed", "state", ">epoch", ">train", ">held-out"]);
    for entry in list {
        let TrialOverview { point, mechanism, seed, seed_number, state, epoch, epochs, .. } = entry;
        let is_short = seed == seed_number || !is_wide;
        let seed = if is_short { seed_number.to_string() } else { format!("{seed_number}: {seed}") };
        let (train, held_out) = (percent(entry.train_accuracy), percent(entry.heldout_accuracy));
        let (epoch, state) = (format!("{epoch}/{epochs}"), coloured(*state));
        table.row_at(point, [short(entry.trial), mechanism.clone(), seed, state, epoch, train, held_out]);
    }
    table.print(out)?;
    let seeds: BTreeMap<u64, u64> = list.iter().map(|entry| (entry.seed_number, entry.seed)).collect();
    let renamed =
        seeds.iter().filter(|(number, seed)| number != seed).map(|(number, seed)| format!("{number} is {seed}"));
    let renamed: Vec<String> = renamed.collect();
    if !is_wide && !renamed.is_empty() {
        paragraph(out, "", &format!("Seeds as files have them: {}.", renamed.join(", ")))?;
    }
    for entry in list {
        if let (Some(done), Some(steps)) = (entry.steps_done, entry.steps) {
            let loss = entry.step_loss.map_or(String::new(), |loss| format!(", loss {loss:.3}"));
            writeln!(out, "{}  step {done} of {steps}{loss}", short(entry.trial))?;
        }
    }
    Ok(())
}

/// The name of a state, in a colour if it needs attention.
fn coloured(state: State) -> String {
    match state {
        State::Diverged | State::Failed | State::Unreadable => Colour::Red.on_stdout(state.name()),
        State::Running => Colour::Cyan.on_stdout(state.name()),
        State::Stopped => Colour::Green.on_stdout(state.name()),
        State::Finished | State::Waiting | State::Interrupted => state.name().to_owned(),
    }
}

/// The first digits of an id.
fn short(trial: TrialId) -> String {
    trial.to_string()[..8].to_owned()
}
