//! What a run will do, before it does anything: which trials in which folder, and what they cost.

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::path::{Path, PathBuf};

use semfocus_core::{BASELINE, Experiment, Point, Scale, TrialId};
use semfocus_lab::estimate::{Estimate, Estimator, Group};
use semfocus_lab::jobs::{Sharing, Train};
use semfocus_lab::{Lab, Trial, memory};
use semfocus_store::{Found, IndexEntry, Store};
use serde::Serialize;

use super::after::After;
use super::experiment::ExperimentArgs;
use super::from::Source;
use crate::Error;
use crate::costs::cost_file;
use crate::models::mechanism_width;
use crate::output::emit;
use crate::talk::say;
use crate::text::{counted, duration, paragraph, rows_by_point, size};

/// A run that has not begun.
pub(crate) struct Prepared {
    /// What was asked for.
    pub(crate) experiment: Experiment,
    /// What the folder will hold: what was asked for and what it holds already.
    pub(super) joined: Experiment,
    /// The list of all trials that the folder will hold.
    pub(super) index: Vec<IndexEntry>,
    pub(crate) dir: PathBuf,
    /// The trials that were asked for.
    pub(crate) jobs: Vec<Train>,
    pub(crate) sharing: Sharing,
    /// What follows training.
    pub(super) after: After,
    /// Where the experiment comes from: a scale of a preset, or a file.
    origin: String,
    steps_per_epoch: Option<usize>,
    /// What has to be known about its data files.
    data_notes: Vec<String>,
    /// The weights that its trials start with, if they were found outside its folder.
    pub(super) source: Option<Source>,
    /// `experiment.toml` as it was found.
    stored: Option<Vec<u8>>,
    found: Found,
}

impl Prepared {
    /// Trains `at_once` trials side by side, or as many as there are cores.
    pub(crate) fn new(args: &ExperimentArgs, at_once: Option<usize>, lab: &Lab) -> Result<Self, Error> {
        let mut request = args.request();
        let source = args.from.as_ref().map(Source::read).transpose()?;
        if let Some(source) = &source {
            source.apply(&mut request);
        }
        let mut experiment = Experiment::resolve(&request, lab)?;
        let plan = lab.plan(&experiment)?;
        experiment.notes = lab.notes(&plan);
        let source = source.or_else(|| Source::beside(&request.experiment, &plan.trials));
        if let Some(source) = &source {
            lab.check_origin(&plan.trials, &source.weights)?;
            experiment.notes.extend(source.note(&experiment.seeds));
        }
        let given = args.output.clone().or_else(|| args.run_folder());
        let dir = given.unwrap_or_else(|| default_folder(args, &experiment));
        let stored = std::fs::read(experiment_path(&dir)).ok();
        let (steps_per_epoch, data_notes) = (plan.steps_per_epoch(), plan.notes());
        let sharing = Sharing::trials(at_once, plan.trials.len());
        let (joined, trials, kept) = joined(&experiment, plan.trials.clone(), &dir, lab)?;
        let asked: HashSet<TrialId> = plan.trials.iter().map(|trial| trial.id).collect();
        let entry = |trial: &Trial| match kept.get(&trial.id) {
            // What was not asked for stays as long as it was planned.
            Some(entry) if !asked.contains(&trial.id) => entry.clone(),
            _ => trial.entry(),
        };
        let index: Vec<IndexEntry> = trials.iter().map(entry).collect();
        let store = Store::at(&dir);
        let train = |trial: Trial| {
            let folder = store.trial(trial.id);
            Train::new(trial, folder)
        };
        let jobs = trials.into_iter().filter(|trial| asked.contains(&trial.id)).map(train).collect();
        let after = After::new(&experiment, &dir, args.device.device.name())?;
        let origin = origin(args, &experiment);
        let found = Found::Nothing;
        Ok(Prepared {
            experiment,
            joined,
            index,
            dir,
            jobs,
            sharing,
            after,
            origin,
            steps_per_epoch,
            data_notes,
            source,
            stored,
            found,
        })
    }

    /// Refuses a folder that holds another experiment, and notes what it holds.
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        let store = Store::at(&self.dir);
        if Store::is_store(&self.dir) {
            self.found = store.compare(&self.joined, &self.index)?;
        }
        Ok(store.refuse_foreign_files()?)
    }

    /// Whether another process has changed the experiment since it was read.
    pub(crate) fn is_outdated(&self) -> bool {
        std::fs::read(experiment_path(&self.dir)).ok() != self.stored
    }

    /// What is left to do; none on devices whose speed is unknown.
    pub(crate) fn estimate(&self, args: &ExperimentArgs, lab: &Lab) -> Option<Estimate> {
        if args.device.device.name() != "cpu" {
            return None;
        }
        let mut estimator = Estimator::new(lab, cost_file());
        let mut estimate = estimator.left(&self.jobs, self.sharing);
        // The report is written last.
        let is_over = estimate.done == estimate.trials && self.dir.join("report.html").is_file();
        if !is_over {
            let trials: Vec<&Trial> = self.jobs.iter().map(Train::trial).collect();
            estimate.after_seconds = self.after.seconds(&mut estimator, &trials, self.sharing.threads);
            estimate.seconds += estimate.after_seconds;
        }
        Some(estimate)
    }

    /// Says on standard error what is about to happen.
    pub(crate) fn introduce(&self, estimate: Option<&Estimate>) {
        let mut text = Vec::new();
        self.describe(estimate, &mut text).expect("memory takes every text");
        say!("{}", String::from_utf8_lossy(&text));
    }

    fn describe(&self, estimate: Option<&Estimate>, out: &mut dyn Write) -> Result<(), Error> {
        let Experiment { name, mechanisms, seeds, claim, reduced, changed, notes, .. } = &self.experiment;
        writeln!(out, "experiment {name}{}", self.origin)?;
        paragraph(out, "claim      ", claim)?;
        let mut factors = vec![counted(mechanisms.len(), "mechanism")];
        for (path, values) in self.experiment.axes() {
            factors.push(format!("{} of {path}", counted(values.len(), "value")));
        }
        factors.push(counted(seeds.len(), "seed"));
        if mechanisms.is_empty() {
            writeln!(out, "trials     none: nothing is trained")?;
        } else {
            let text = format!("{} = {}, {}", self.jobs.len(), factors.join(" × "), self.epochs());
            paragraph(out, "trials     ", &text)?;
        }
        if !reduced.is_empty() {
            let text = format!("compared with the published experiment: {}", reduced.join("; "));
            paragraph(out, "reduced    ", &text)?;
        }
        if !changed.is_empty() {
            paragraph(out, "changed    ", &changed.join("; "))?;
        }
        for note in notes.iter().chain(&self.data_notes) {
            paragraph(out, "note       ", note)?;
        }
        if !mechanisms.is_empty() && !mechanisms.iter().any(|mechanism| mechanism == BASELINE) {
            let text =
                format!("without `{BASELINE}` nothing is compared at the end; `semfocus compare` takes a --baseline");
            paragraph(out, "note       ", &text)?;
        }
        for words in self.after.words() {
            paragraph(out, "then       ", &format!("semfocus {words}"))?;
        }
        if let Some(estimate) = estimate {
            let Estimate { seconds, memory_bytes, disk_bytes, .. } = estimate;
            if estimate.done < estimate.trials || estimate.after_seconds > 0.0 {
                let limit = if estimate.can_stop_early { "at most " } else { "" };
                let at_once = counted(self.sharing.jobs, "trial");
                let surfaces = match estimate.after_seconds {
                    seconds if seconds < 1.0 => String::new(),
                    seconds => format!(", {} of it for surfaces", duration(seconds)),
                };
                let text = format!("{limit}about {} with {at_once} at once{surfaces}", duration(*seconds));
                paragraph(out, "time       ", &text)?;
                let more =
                    memory::available().filter(|available| memory_bytes > available).map_or(String::new(), |all| {
                        format!(", more than this machine has ({}): trials that do not fit will fail", size(all))
                    });
                paragraph(out, "memory     ", &format!("about {}{more}", size(*memory_bytes)))?;
            }
            writeln!(out, "disk       about {}", size(*disk_bytes))?;
        }
        writeln!(out, "results    {}", self.dir.display())?;
        if let Some(present) = self.present(estimate) {
            writeln!(out, "done       {present}")?;
        }
        let others = self.index.len() - self.jobs.len();
        if others > 0 {
            let text = format!(
                "{} that were not asked for now are in the folder too; tables and report show all of them",
                counted(others, "trial")
            );
            paragraph(out, "           ", &text)?;
        }
        Ok(())
    }

    /// How long each trial is, and all together.
    fn epochs(&self) -> String {
        let epochs: Vec<usize> = self.jobs.iter().map(|job| job.trial().settings.training.epochs).collect();
        let (all, first) = (epochs.iter().sum::<usize>(), epochs.first().copied().unwrap_or(0));
        let steps = self.steps_per_epoch.map_or(String::new(), |steps| format!(" of {}", counted(steps, "step")));
        match epochs.len() {
            1 => format!("{}{steps}", counted(first, "epoch")),
            _ if epochs.iter().all(|epochs| *epochs == first) => {
                format!("{}{steps} each ({all} in all)", counted(first, "epoch"))
            }
            _ => format!("{all} epochs{steps} in all"),
        }
    }

    /// What is in the folder already, in words; none if it is new.
    fn present(&self, estimate: Option<&Estimate>) -> Option<String> {
        let how = match self.found {
            Found::Nothing => return None,
            Found::TheSame => "resumed".to_owned(),
            Found::Part(0) => "more epochs".to_owned(),
            Found::Part(added) => format!("{added} added"),
        };
        let done = estimate.map_or_else(|| "some".to_owned(), |estimate| estimate.done.to_string());
        Some(format!("{done} of {} ({how})", counted(self.jobs.len(), "trial")))
    }

    /// Prints what would be done.
    pub(crate) fn dry_run(&self, json: bool, estimate: Option<&Estimate>, out: &mut dyn Write) -> Result<(), Error> {
        let default = Estimate::default();
        let estimated = estimate.unwrap_or(&default);
        let groups: HashMap<(&str, &Point), &Group> =
            estimated.groups.iter().map(|group| ((group.mechanism.as_str(), &group.point), group)).collect();
        let trials = self.jobs.iter().map(|job| {
            let trial = job.trial();
            let group = groups.get(&(trial.settings.mechanism.as_str(), &trial.point));
            DryTrial {
                trial: trial.id.to_string(),
                title: trial.title(),
                mechanism: trial.settings.mechanism.clone(),
                seed: trial.settings.seed,
                epochs: trial.settings.training.epochs,
                epochs_done: job.recorded().0,
                steps: trial.steps(),
                epoch_seconds: group.map_or(0.0, |group| group.epoch_seconds),
            }
        });
        let list: Vec<DryTrial> = trials.collect();
        let Experiment { name, scale, claim, reduced, changed, .. } = &self.experiment;
        let report = DryRun {
            experiment: name,
            scale: *scale,
            claim,
            reduced,
            changed,
            dir: &self.dir,
            trials: list.len(),
            list,
            done: estimated.done,
            jobs: self.sharing.jobs,
            core_seconds: estimated.core_seconds,
            seconds: estimated.seconds,
            memory_bytes: estimated.memory_bytes,
            disk_bytes: estimated.disk_bytes,
        };
        emit(out, json, &report, |out| {
            self.describe(estimate, out)?;
            print_groups(&estimated.groups, out)
        })
    }
}

#[derive(Serialize)]
struct DryRun<'a> {
    experiment: &'a str,
    scale: Scale,
    claim: &'a str,
    reduced: &'a [String],
    changed: &'a [String],
    dir: &'a Path,
    trials: usize,
    list: Vec<DryTrial>,
    /// Trials that are over.
    done: usize,
    jobs: usize,
    /// Seconds on one core that are left.
    core_seconds: f64,
    seconds: f64,
    memory_bytes: u64,
    disk_bytes: u64,
}

#[derive(Serialize)]
struct DryTrial {
    trial: String,
    title: String,
    mechanism: String,
    seed: u64,
    epochs: usize,
    epochs_done: usize,
    steps: usize,
    epoch_seconds: f64,
}

/// One line for each mechanism at each point of the grid.
fn print_groups(groups: &[Group], out: &mut dyn Write) -> Result<(), Error> {
    let width = mechanism_width(groups.iter().map(|group| &group.mechanism));
    writeln!(out)?;
    writeln!(out, "{:width$}  trials  done  epochs    steps  s/epoch  time left", "mechanism")?;
    rows_by_point(
        out,
        groups,
        |group| &group.point,
        |out, group| {
            let Group { mechanism, trials, done, epochs, steps, epoch_seconds, seconds, .. } = group;
            let digits = if *epoch_seconds < 1000.0 { 2 } else { 0 };
            let (time, epoch) = (duration(*seconds), format!("{epoch_seconds:.digits$}"));
            Ok(writeln!(out, "{mechanism:width$}  {trials:6}  {done:4}  {epochs:6}  {steps:7}  {epoch:>7}  {time:>9}")?)
        },
    )?;
    Ok(writeln!(out, "\ns/epoch, time left: on one core, one trial after the other")?)
}

fn experiment_path(dir: &Path) -> PathBuf {
    dir.join("experiment.toml")
}

/// A folder named after what is asked for, so that the same command finds it again, and a larger one too.
fn default_folder(args: &ExperimentArgs, experiment: &Experiment) -> PathBuf {
    let mut name = experiment.name.clone();
    if is_preset(args) || args.scale.is_some() {
        name += &format!("-{}", experiment.scale);
    }
    if args.smoke {
        name += "-smoke";
    }
    Path::new("runs").join(name + &experiment.folder_suffix())
}

fn is_preset(args: &ExperimentArgs) -> bool {
    !args.experiment.contains(['/', '\\', '.'])
}

/// Where the experiment comes from, as it is said after its name.
fn origin(args: &ExperimentArgs, experiment: &Experiment) -> String {
    match args.run_folder() {
        Some(_) => String::new(),
        None if is_preset(args) || args.scale.is_some() => format!(", scale {}", experiment.scale),
        None => format!(" as written in {}", args.experiment),
    }
}

/// How the trials that are in a folder are listed.
type Listed = HashMap<TrialId, IndexEntry>;

/// What was asked for together with what the folder holds: the experiment, its trials that are asked for or there, and how
/// those that are there are listed.
fn joined(
    experiment: &Experiment,
    asked: Vec<Trial>,
    dir: &Path,
    lab: &Lab,
) -> Result<(Experiment, Vec<Trial>, Listed), Error> {
    let alone = |asked| Ok((experiment.clone(), asked, HashMap::new()));
    if !Store::is_store(dir) {
        return alone(asked);
    }
    let store = Store::at(dir);
    // What is damaged is repaired when the run begins, and other experiments are refused there.
    let Ok(stored) = store.experiment() else { return alone(asked) };
    let Ok(joined) = experiment.joined(&stored, lab) else { return alone(asked) };
    let Ok(plan) = lab.plan(&joined) else { return alone(asked) };
    let listed = store.index().ok();
    let kept: Listed = listed.iter().flatten().map(|entry| (entry.id, entry.clone())).collect();
    let asked: HashSet<TrialId> = asked.iter().map(|trial| trial.id).collect();
    let is_there = |id: TrialId| match &listed {
        Some(_) => kept.contains_key(&id),
        None => store.trial(id).exists(),
    };
    let trials = plan.trials.into_iter().filter(|trial| asked.contains(&trial.id) || is_there(trial.id));
    Ok((joined, trials.collect(), kept))
}
