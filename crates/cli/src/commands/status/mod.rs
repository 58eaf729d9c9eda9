//! `semfocus status`: the progress of a run, or of all runs.

pub(crate) mod runs;
mod summary;
mod watch;

use std::collections::{BTreeSet, HashMap};
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use semfocus_core::Point;
use semfocus_core::study::seed_name;
use semfocus_store::{Contents, Cursor, Event, JobKind, LoggedEvent, State, Store, StoredTrial, TrialReader};
use serde::Serialize;

use crate::damage::left_out;
use crate::models::mechanism_width;
use crate::output::emit;
use crate::screen::text_width;
use crate::talk::Colour;
use crate::text::{clock, paragraph, rows_by_point};
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
    /// Refresh until the run ends
    #[arg(short, long)]
    watch: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "watch")]
    json: bool,
}

#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) experiment: String,
    pub(crate) trials: usize,
    /// Finished, or stopped at their target.
    pub(crate) done: usize,
    pub(crate) running: usize,
    pub(crate) diverged: usize,
    pub(crate) failed: usize,
    /// Not begun, or interrupted.
    pub(crate) left: usize,
    pub(crate) epochs_done: usize,
    pub(crate) epochs: usize,
    /// Estimated with as many trials at once as in the last session; none before the first epoch.
    pub(crate) seconds_left: Option<f64>,
    /// Trials whose files cannot be read.
    pub(crate) unreadable: usize,
    list: Vec<Entry>,
    /// What cannot be read or is damaged, in words.
    pub(crate) damage: Vec<String>,
}

#[derive(Serialize)]
struct Entry {
    trial: String,
    mechanism: String,
    seed: u64,
    /// What the seed is called: its place among those of the study.
    seed_number: u64,
    point: Point,
    state: State,
    epoch: usize,
    epochs: usize,
    train_accuracy: Option<f64>,
    heldout_accuracy: Option<f64>,
    /// Of a running trial: steps of all epochs that are done, as last reported.
    steps_done: Option<usize>,
    /// Of a running trial: steps of all epochs.
    steps: Option<usize>,
    /// Of a running trial: loss of its last step.
    step_loss: Option<f64>,
    held_by: Option<String>,
    /// The stored weights that it started with, if any: trial, epoch and checksum.
    origin: Option<String>,
    message: Option<String>,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<Exit, Error> {
    let dir = match &args.dir {
        Some(dir) if Store::is_store(dir) || !runs::has_runs(dir) => dir,
        several => {
            if args.watch {
                return Err("give the folder of the run to watch; `semfocus status` lists the runs".into());
            }
            return runs::run(several.as_deref().unwrap_or(Path::new(runs::FOLDER)), args.json, out);
        }
    };
    if args.watch {
        return watch::run(dir, args.all, out);
    }
    let report = Report::read(&Store::open(dir)?)?;
    emit(out, args.json, &report, |out| report.print(if args.all { usize::MAX } else { MAX_LISTED }, out))?;
    Ok(left_out(dir, &report.damage))
}

impl Report {
    pub(crate) fn read(store: &Store) -> Result<Self, Error> {
        let Contents { experiment, trials, damage } = store.read()?;
        let mut list = Vec::new();
        let mut times: HashMap<String, (f64, usize)> = HashMap::new();
        let mut at_once = 1;
        for StoredTrial { entry, folder, state, status, records, environment, settings, .. } in trials {
            // Events are news, not results: those that cannot be read are not missed.
            let is_running = state == State::Running;
            let steps = if is_running { last_steps(&folder).ok().flatten() } else { None };
            let time = times.entry(entry.mechanism.clone()).or_default();
            *time = records.iter().fold(*time, |(seconds, count), record| (seconds + record.seconds, count + 1));
            if let Some(environment) = environment {
                at_once = environment.last.jobs.min(environment.last.threads).max(1);
            }
            list.push(Entry {
                trial: entry.id.to_string(),
                mechanism: entry.mechanism,
                seed: entry.seed,
                seed_number: seed_name(entry.seed),
                point: entry.point,
                state,
                epoch: records.len(),
                epochs: entry.epochs,
                train_accuracy: records.last().map(|record| record.train_accuracy),
                heldout_accuracy: records.last().map(|record| record.heldout_accuracy),
                steps_done: steps.map(|steps| steps.0),
                steps: steps.map(|steps| steps.1),
                step_loss: steps.and_then(|steps| steps.2),
                held_by: is_running.then(|| folder.holder().flatten()).flatten().map(|holder| holder.place()),
                origin: settings.and_then(|settings| settings.training.from).map(|origin| origin.to_string()),
                message: status.and_then(|status| status.message),
            });
        }
        let count = |states: &[State]| list.iter().filter(|entry| states.contains(&entry.state)).count();
        Ok(Report {
            experiment: experiment.name,
            trials: list.len(),
            done: count(&[State::Finished, State::Stopped]),
            running: count(&[State::Running]),
            diverged: count(&[State::Diverged]),
            failed: count(&[State::Failed]),
            left: count(&[State::Waiting, State::Interrupted]),
            epochs_done: list.iter().map(|entry| entry.epoch).sum(),
            epochs: list.iter().map(|entry| entry.epochs).sum(),
            unreadable: count(&[State::Unreadable]),
            seconds_left: seconds_left(&list, &times, at_once),
            list,
            damage: damage.iter().map(ToString::to_string).collect(),
        })
    }

    /// Whether a process works on it.
    fn is_running(&self) -> bool {
        self.running > 0
    }

    /// The number of trials in each state, in words.
    pub(crate) fn counts(&self) -> String {
        let Report { trials, done, running, diverged, failed, left, .. } = self;
        let mut text =
            format!("{trials}: {done} done, {running} running, {diverged} diverged, {failed} failed, {left} left");
        if self.unreadable > 0 {
            text += &format!(", {} unreadable", self.unreadable);
        }
        text
    }

    /// The time left, in words; none if nothing is left to do.
    pub(crate) fn time_left(&self) -> Option<String> {
        let is_open = self.left + self.running + self.failed > 0;
        is_open.then(|| self.seconds_left.map_or_else(|| "unknown before the first epoch".to_owned(), clock))
    }

    /// Prints it; of more than `max_listed` trials a summary, and those that are running.
    fn print(&self, max_listed: usize, out: &mut dyn Write) -> Result<(), Error> {
        let Report { experiment, epochs_done, epochs, .. } = self;
        writeln!(out, "experiment {experiment}")?;
        paragraph(out, "trials     ", &self.counts())?;
        writeln!(out, "epochs     {epochs_done} of {epochs}")?;
        if let Some(time) = self.time_left() {
            writeln!(out, "time left  {time}")?;
        }
        writeln!(out)?;
        let is_summed_up = self.list.len() > max_listed;
        if is_summed_up || self.list.len() > MAX_LISTED {
            summary::print(&self.list, out)?;
            writeln!(out)?;
        }
        let is_listed = |entry: &&Entry| !is_summed_up || entry.state == State::Running;
        print_list(&self.list.iter().filter(is_listed).collect::<Vec<_>>(), out)?;
        let holders: BTreeSet<&String> = self.list.iter().filter_map(|entry| entry.held_by.as_ref()).collect();
        for holder in holders {
            writeln!(out, "running in {holder}")?;
        }
        let origins: BTreeSet<&String> = self.list.iter().filter_map(|entry| entry.origin.as_ref()).collect();
        for origin in origins {
            writeln!(out, "started with the weights {origin}")?;
        }
        for entry in self.list.iter().filter(|entry| entry.state == State::Failed) {
            writeln!(out, "{} failed: {}", entry.trial, entry.message.as_deref().unwrap_or("for an unknown reason"))?;
        }
        if is_summed_up {
            writeln!(out, "--all lists every trial.")?;
        }
        Ok(())
    }
}

/// One line per trial, then the steps of those that are running.
fn print_list(list: &[&Entry], out: &mut dyn Write) -> Result<(), Error> {
    if list.is_empty() {
        return Ok(());
    }
    let width = mechanism_width(list.iter().map(|entry| &entry.mechanism));
    // The number that a person calls a seed by and the seed itself, or the number alone where there is no room.
    let seed_width = if width + 67 <= text_width() { 15 } else { 4 };
    let head = ["trial", "mechanism", "seed", "state", "epoch", "train", "held-out"];
    let [trial, mechanism, seed, state, epoch, train, held_out] = head;
    writeln!(
        out,
        "{trial:8}  {mechanism:width$}  {seed:>seed_width$}  {state:11}  {epoch:>8}  {train:>7}  {held_out:>8}"
    )?;
    rows_by_point(
        out,
        list,
        |entry| &entry.point,
        |out, entry| {
            let Entry { trial, mechanism, seed, seed_number, state, epoch, epochs, .. } = entry;
            let (train, held_out) = (percent(entry.train_accuracy), percent(entry.heldout_accuracy));
            let (epoch, id) = (format!("{epoch}/{epochs}"), &trial[..8]);
            let is_short = seed == seed_number || seed_width < 15;
            let seed = if is_short { seed_number.to_string() } else { format!("{seed_number}: {seed}") };
            let state = coloured(*state, &format!("{:11}", state.name()));
            Ok(writeln!(
                out,
                "{id}  {mechanism:width$}  {seed:>seed_width$}  {state}  {epoch:>8}  {train:>7}  {held_out:>8}"
            )?)
        },
    )?;
    for entry in list {
        if let (Some(done), Some(steps)) = (entry.steps_done, entry.steps) {
            let loss = entry.step_loss.map_or(String::new(), |loss| format!(", loss {loss:.3}"));
            writeln!(out, "{}  step {done} of {steps}{loss}", &entry.trial[..8])?;
        }
    }
    Ok(())
}

/// The name of a state, in a colour if it needs attention.
fn coloured(state: State, name: &str) -> String {
    match state {
        State::Diverged | State::Failed | State::Unreadable => Colour::Red.on_stdout(name),
        State::Running => Colour::Cyan.on_stdout(name),
        State::Stopped => Colour::Green.on_stdout(name),
        State::Finished | State::Waiting | State::Interrupted => name.to_owned(),
    }
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), |share| format!("{:.1} %", 100.0 * share))
}

/// Steps that a running trial has done, of how many, and the loss of the last one, from its events.
fn last_steps(folder: &TrialReader) -> Result<Option<(usize, usize, Option<f64>)>, Error> {
    let events = folder.events().read_from(&mut Cursor::default())?;
    let training = events.into_iter().rev().filter(|logged| logged.job.kind == JobKind::Train);
    Ok(training.map(|LoggedEvent { event, .. }| event).find_map(|event| match event {
        Event::Progress { done, total, loss } => Some((done, total, loss)),
        Event::JobStarted { done, total, .. } => Some((done, total, None)),
        _ => None,
    }))
}

/// Estimated from the mean time of finished epochs: those of the same mechanism if there are any.
fn seconds_left(list: &[Entry], times: &HashMap<String, (f64, usize)>, at_once: usize) -> Option<f64> {
    let (seconds, epochs) = times.values().fold((0.0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    if epochs == 0 {
        return None;
    }
    let open = list.iter().filter(|entry| !entry.state.is_over());
    let left = open.map(|entry| {
        let mean = match times.get(&entry.mechanism) {
            Some((seconds, epochs)) if *epochs > 0 => seconds / *epochs as f64,
            _ => seconds / epochs as f64,
        };
        entry.epochs.saturating_sub(entry.epoch) as f64 * mean
    });
    Some(left.sum::<f64>() / at_once as f64)
}
