//! All runs below a folder: how they stand, and what they show.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use semfocus_analysis::evidence::Evidence;
use semfocus_analysis::evidence::speedup::Ratio;
use semfocus_core::Difference;
use semfocus_core::experiment::in_words;
use semfocus_store::{State, Store};
use serde::Serialize;

use crate::output::emit;
use crate::text::{counted, paragraph};
use crate::{Error, Exit};

/// Where runs are unless another folder is given.
pub(crate) const FOLDER: &str = "runs";

#[derive(Default, Serialize)]
struct Run {
    dir: PathBuf,
    experiment: String,
    /// `running`, `finished`, `interrupted`, `failed` or `unreadable`.
    state: &'static str,
    trials: usize,
    /// Finished, or stopped at their target.
    done: usize,
    diverged: usize,
    /// Since something was last written.
    age_seconds: u64,
    changed: Vec<Difference>,
    /// What it shows, in a few words.
    headline: String,
}

/// Whether a folder has runs in it.
pub(super) fn has_runs(dir: &Path) -> bool {
    !folders(dir).is_empty()
}

/// The runs in a folder.
pub(super) fn folders(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    entries.map(|entry| entry.path()).filter(|path| Store::is_store(path)).collect()
}

/// Lists the runs in a folder, the newest first.
pub(crate) fn run(dir: &Path, json: bool, out: &mut dyn Write) -> Result<Exit, Error> {
    let mut runs: Vec<Run> = folders(dir).iter().map(|path| Run::read(path)).collect();
    runs.sort_by_key(|run| (run.age_seconds, run.dir.clone()));
    emit(out, json, &runs, |out| {
        if runs.is_empty() {
            return Ok(writeln!(out, "There are no runs in {}. To start one: semfocus run even-pairs", dir.display())?);
        }
        print(&runs, out)
    })?;
    Ok(Exit::Done)
}

impl Run {
    fn read(dir: &Path) -> Self {
        let mut run = Run { dir: dir.to_owned(), state: "unreadable", age_seconds: age(dir), ..Run::default() };
        match Store::open(dir).map_err(Error::from).and_then(|store| Ok(Evidence::read(&store, None)?)) {
            Ok(evidence) => run.fill(evidence),
            Err(error) => run.headline = error.to_string().lines().next().unwrap_or_default().to_owned(),
        }
        run
    }

    fn fill(&mut self, evidence: Evidence) {
        let count = |states: &[State]| evidence.trials().filter(|one| states.contains(&one.trial.state)).count();
        self.trials = evidence.trials().count();
        self.done = count(&[State::Finished, State::Stopped]);
        self.diverged = count(&[State::Diverged]);
        self.state = match () {
            () if count(&[State::Running]) > 0 => "running",
            () if self.done + self.diverged == self.trials => "finished",
            () if count(&[State::Failed]) > 0 => "failed",
            () => "interrupted",
        };
        self.headline = headline(&evidence);
        (self.experiment, self.changed) = (evidence.experiment.name, evidence.experiment.changed);
    }
}

/// Seconds since a file of a run was written.
fn age(dir: &Path) -> u64 {
    let written = Store::at(dir).last_written();
    let age = written.and_then(|written| SystemTime::now().duration_since(written).ok());
    age.map_or(0, |age| age.as_secs())
}

/// How many seeds favour each mechanism, with its speed-up, or the best accuracy where no speed-up is known. Tests are left to
/// `compare`: there may be many runs.
fn headline(evidence: &Evidence) -> String {
    if evidence.has_learned_nothing() {
        return "nothing learned".to_owned();
    }
    let seeds = if evidence.points.len() > 1 { "pairs" } else { "seeds" };
    let of_mechanism = |mechanism: &String| {
        let in_favour = evidence.points.iter().filter_map(|point| point.seeds_in_favour(mechanism));
        let (faster, all) = in_favour.fold((0, 0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
        let ratios = evidence.points.iter().filter_map(|point| Some(point.speedup(mechanism)?.ratio));
        // A bound that nearly is 1 says nothing.
        let says_more = |ratio: &Ratio| matches!(ratio, Ratio::Exactly(_)) || (ratio.value() - 1.0).abs() >= 0.05;
        let mut ratios: Vec<Ratio> = ratios.filter(says_more).collect();
        ratios.sort_by(|one, other| one.value().total_cmp(&other.value()));
        let range = match &ratios[..] {
            [] => String::new(),
            [only] => format!(" ({only})"),
            [min, .., max] => format!(" ({min} to {max})"),
        };
        (all > 0).then(|| format!("{mechanism}: {faster} of {all} {seeds} faster{range}"))
    };
    let is_known = evidence.points.iter().flat_map(|point| &point.mechanisms).any(|mechanism| mechanism.reached > 0);
    let compared: Vec<String> = evidence.experiment.mechanisms.iter().filter_map(of_mechanism).collect();
    match is_known && !compared.is_empty() {
        true => format!("{}; not tested", compared.join("; ")),
        false => best_accuracy(evidence),
    }
}

fn best_accuracy(evidence: &Evidence) -> String {
    let mechanisms = evidence.points.iter().flat_map(|point| &point.mechanisms);
    let all = mechanisms.filter_map(|mechanism| Some((mechanism.best_heldout_accuracy?, &mechanism.mechanism)));
    let best = all.max_by(|one, other| one.0.total_cmp(&other.0));
    best.map_or_else(String::new, |(accuracy, mechanism)| {
        format!("best held-out accuracy {:.1} % ({mechanism})", 100.0 * accuracy)
    })
}

fn print(runs: &[Run], out: &mut dyn Write) -> Result<(), Error> {
    let width = runs.iter().map(|run| run.dir.display().to_string().chars().count()).max().unwrap_or(0).min(46);
    for run in runs {
        let Run { dir, state, trials, done, diverged, age_seconds, changed, headline, .. } = run;
        let dir = dir.display().to_string();
        let diverged = if *diverged > 0 { format!(", {diverged} diverged") } else { String::new() };
        writeln!(out, "{dir:width$}  {state}, {done} of {trials} done{diverged}, {}", ago(*age_seconds))?;
        paragraph(out, "    changed: ", &in_words(changed))?;
        paragraph(out, "    ", headline)?;
    }
    Ok(())
}

/// A time in the past, in words.
fn ago(seconds: u64) -> String {
    let (count, unit) = match seconds {
        0..60 => return "just now".to_owned(),
        60..3600 => (seconds / 60, "minute"),
        3600..172_800 => (seconds / 3600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    format!("{} ago", counted(count as usize, unit))
}
