//! `semfocus compare`: what a run shows, or how several runs differ.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use semfocus_analysis::evidence::claim::{CLAIM_RULE, Claim};
use semfocus_analysis::evidence::verdict::{GENERALISATION_RULE, LEARNING_RULE};
use semfocus_analysis::evidence::{Evidence, PointEvidence};
use semfocus_core::experiment::in_words;
use semfocus_core::{ExperimentError, Goal, settings};
use semfocus_store::{Store, TrialData};
use serde::Serialize;

use super::explain;
use crate::damage::left_out;
use crate::models::labelled;
use crate::output::emit;
use crate::text::paragraph;
use crate::{Error, Exit, evidence};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Folder of the run. With several runs, each mechanism is compared with itself in the first one
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    #[command(flatten)]
    goal: GoalArgs,
    /// Compare with this mechanism of the run instead of full attention
    #[arg(long, value_name = "MECHANISM")]
    baseline: Option<String>,
    /// Compare every mechanism with every other one
    #[arg(long, conflicts_with = "baseline")]
    all_pairs: bool,
    /// Also print the rules behind the verdicts
    #[arg(long)]
    rules: bool,
    /// Print JSON, with an entry for each mechanism and point of the grid
    #[arg(long)]
    json: bool,
}

/// What counts as having learned.
#[derive(Debug, ClapArgs)]
pub(crate) struct GoalArgs {
    /// What counts as having learned, e.g. "heldout_accuracy >= 0.9" [default: that of the experiment, or else train_accuracy >= 0.95]
    ///
    /// A quantity and the value to reach, at least (>=) for accuracies and shares, at most (<=) for the others: train_loss,
    /// train_accuracy, heldout_loss, heldout_accuracy; or what follows from a loss: train_ or heldout_ and perplexity, excess (above
    /// the best possible loss) or bits_per_character; or heldout_learned, the share of the way from the loss of the class frequencies to
    /// the best possible one.
    #[arg(long, alias = "goal", value_name = "TARGET")]
    target: Option<Goal>,
}

impl GoalArgs {
    /// The target that was asked for.
    pub(crate) fn given(&self) -> Option<Goal> {
        self.target
    }
}

/// What is compared, and how.
#[derive(Serialize)]
struct Compared<'a> {
    runs: &'a [PathBuf],
    experiment: &'a str,
    target: String,
    /// Whether the claim holds, and why; none if several runs are compared.
    answer: Option<&'a Claim>,
    /// What has to be known first, in words.
    notes: Vec<String>,
    /// Trials that are not finished.
    missing: usize,
    list: Vec<evidence::Row<'a>>,
}

impl<'a> Compared<'a> {
    fn new(args: &'a Args, found: &'a Evidence, notes: Vec<String>) -> Self {
        Compared {
            runs: &args.dirs,
            experiment: &found.experiment.name,
            target: found.goal.to_string(),
            answer: (args.dirs.len() == 1).then(|| found.claim()),
            notes,
            missing: found.missing().count(),
            list: evidence::rows(found, args.all_pairs),
        }
    }
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<Exit, Error> {
    let [dir] = &args.dirs[..] else { return across(args, out) };
    let found = Evidence::read_against(&Store::open(dir)?, args.goal.given(), args.baseline.as_deref())?;
    emit(out, args.json, &Compared::new(args, &found, found.warnings()), |out| print(&found, args, out))?;
    Ok(left_out(dir, &found.damage))
}

/// Longer names of runs are replaced by their numbers in tables.
const NAME_WIDTH: usize = 14;

/// Compares several runs: each mechanism with itself in the first run, or every run with every other one.
fn across(args: &Args, out: &mut dyn Write) -> Result<Exit, Error> {
    if args.baseline.is_some() {
        let message = "`--baseline` is for a single run; several runs are compared with the one that is written first";
        return Err(ExperimentError::new(message).into());
    }
    let names: Vec<String> = args.dirs.iter().map(|dir| name_of(dir, &args.dirs)).collect();
    let fits = args.json || names.iter().all(|name| name.chars().count() <= NAME_WIDTH);
    let label = |place: usize| if fits { names[place].clone() } else { format!("run {}", place + 1) };
    // The target of the first run is that of all.
    let mut goal = args.goal.given();
    let mut read = |(place, dir): (usize, &PathBuf)| {
        let run = Evidence::read(&Store::open(dir)?, goal)?;
        goal = Some(run.goal);
        Ok((label(place), run))
    };
    let runs = args.dirs.iter().enumerate().map(&mut read).collect::<Result<Vec<(String, Evidence)>, Error>>()?;
    let Some(mut found) = Evidence::across(&runs) else {
        let mechanisms = |(name, run): &(String, Evidence)| {
            let axes: Vec<&str> = run.experiment.axes().iter().map(|(path, _)| *path).collect();
            let grid = if axes.is_empty() { String::new() } else { format!(" with a grid over {}", axes.join(", ")) };
            format!("{name}: {}{grid}", run.experiment.mechanisms.join(", "))
        };
        let found = runs.iter().map(mechanisms).collect::<Vec<_>>().join("; ");
        return Err(format!("these runs have no mechanism and grid point in common ({found})").into());
    };
    let notes = found.warnings();
    // What is the same in all runs is said once.
    let (same, others) = std::mem::take(&mut found.points).into_iter().partition(|point| !args.json && is_same(point));
    found.points = others;
    let compared = Compared::new(args, &found, notes);
    emit(out, args.json, &compared, |out| print_across(&names, &runs, &compared.notes, &found, &same, args, out))?;
    let exits = args.dirs.iter().zip(&runs).map(|(dir, (_, run))| left_out(dir, &run.damage));
    Ok(exits.fold(Exit::Done, |exit, next| if next == Exit::Done { exit } else { next }))
}

/// Whether all runs have the same bits after all epochs, with every seed that they share.
fn is_same(point: &PointEvidence) -> bool {
    let curve = |trial: &TrialData| trial.curve.iter().map(|at| (at.epoch, at.metrics)).collect::<Vec<_>>();
    let trials = || point.trials.iter().map(|observed| &observed.trial);
    let of_seed = |seed: u64| trials().filter(move |trial| trial.entry.seed == seed);
    let is_shared = |seed: u64| of_seed(seed).count() == point.mechanisms.len();
    let mut shared = trials().filter(|trial| is_shared(trial.entry.seed)).peekable();
    shared.peek().is_some()
        && shared.all(|one| !one.curve.is_empty() && of_seed(one.entry.seed).all(|other| curve(other) == curve(one)))
}

/// The name of a run's folder, or its path if another folder has the same name.
fn name_of(dir: &Path, all: &[PathBuf]) -> String {
    let name = |dir: &Path| dir.canonicalize().ok().and_then(|dir| Some(dir.file_name()?.display().to_string()));
    let is_unique = all.iter().filter(|other| name(other) == name(dir)).count() == 1;
    name(dir).filter(|_| is_unique).unwrap_or_else(|| dir.display().to_string())
}

fn print_across(
    names: &[String],
    runs: &[(String, Evidence)],
    notes: &[String],
    found: &Evidence,
    same: &[PointEvidence],
    show: &Args,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let first = settings_of(&runs[0].1);
    for (place, (name, (_, run))) in names.iter().zip(runs).enumerate() {
        writeln!(out, "run {}      {name}", place + 1)?;
        let differences: Vec<String> = settings_of(run)
            .into_iter()
            .filter(|setting| place > 0 && !first.contains(setting))
            .map(|(path, value)| format!("{path} = {value}"))
            .collect();
        if place > 0 {
            let text = if differences.is_empty() { "nothing".to_owned() } else { differences.join("; ") };
            paragraph(out, "  differs  ", &text)?;
        }
        let missing = run.missing().count();
        if missing > 0 {
            writeln!(out, "  missing  {missing} of {} trials are not finished", run.trials().count())?;
        }
    }
    for note in notes {
        paragraph(out, "note       ", note)?;
    }
    let is_in_all = |mechanism: &&str| {
        let is_of = |point: &PointEvidence| point.point.first().is_some_and(|(_, value)| value == mechanism);
        found.points.iter().chain(same).any(is_of)
    };
    let mechanisms = runs.iter().flat_map(|(_, run)| &run.experiment.mechanisms).map(String::as_str);
    let only_some: BTreeSet<&str> = mechanisms.filter(|mechanism| !is_in_all(mechanism)).collect();
    if !only_some.is_empty() {
        let names = only_some.into_iter().collect::<Vec<_>>().join(", ");
        paragraph(out, "left out   ", &format!("{names}: not in all of the runs"))?;
    }
    if !same.is_empty() {
        let name = |point: &PointEvidence| point.point.split_first().map(|((_, name), rest)| labelled(name, rest));
        let points = same.iter().filter_map(name).collect::<Vec<_>>().join("; ");
        paragraph(out, "identical  ", &format!("to the last bit, in all epochs: {points}"))?;
    }
    if found.points.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    if show.all_pairs {
        evidence::print_pairs(found, out)?;
    } else {
        evidence::print_points(found, out)?;
        evidence::print_details(found, out)?;
    }
    print_rules(show.rules, out)
}

/// The settings of a run's first trial that has begun, without what differs between the trials of a run.
fn settings_of(run: &Evidence) -> Vec<(&'static str, String)> {
    let Some(of_trial) = run.trials().find_map(|observed| observed.trial.settings.as_ref()) else { return Vec::new() };
    let varies =
        |path: &str| path == "mechanism" || path == "seed" || run.experiment.axes().iter().any(|a| a.0 == path);
    let settings = settings::all().iter().filter(|setting| !varies(setting.path));
    settings.map(|setting| (setting.path, setting.get(of_trial).map_or("none".to_owned(), |v| v.to_string()))).collect()
}

fn print(found: &Evidence, show: &Args, out: &mut dyn Write) -> Result<(), Error> {
    writeln!(out, "experiment {}", found.experiment.name)?;
    paragraph(out, "reduced    ", &in_words(&found.experiment.reduced))?;
    paragraph(out, "changed    ", &in_words(&found.experiment.changed))?;
    let missing = found.missing().count();
    if missing > 0 {
        writeln!(out, "missing    {missing} of {} trials are not finished", found.trials().count())?;
    }
    if show.all_pairs {
        evidence::print_answer(found, out)?;
        writeln!(out)?;
        evidence::print_pairs(found, out)?;
    } else {
        evidence::print(found, out)?;
        writeln!(out)?;
        evidence::print_details(found, out)?;
    }
    explain::print_summary(found, out)?;
    print_rules(show.rules, out)
}

/// The rules of the verdicts, or where they are.
fn print_rules(all: bool, out: &mut dyn Write) -> Result<(), Error> {
    writeln!(out)?;
    if !all {
        return Ok(writeln!(out, "How the verdicts are found: `compare --rules`, or docs/evidence.md.")?);
    }
    for rule in [CLAIM_RULE, LEARNING_RULE, GENERALISATION_RULE] {
        paragraph(out, "", rule)?;
    }
    Ok(())
}
