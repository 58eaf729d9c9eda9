//! What a run will do, before it does anything: which trials in which folder, and what they cost.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use semfocus_core::{Experiment, ExperimentError, Measurement, TrialId};
use semfocus_lab::estimate::{Estimate, Estimator};
use semfocus_lab::jobs::{Sharing, Train};
use semfocus_lab::{Lab, OtherCode, Planner, Tokenizers, Trial};
use semfocus_store::{Found, IndexEntry, Store, StoredTokenizer};

use super::experiment::ExperimentArgs;
use super::from::Source;
use crate::Error;
use crate::costs::cost_file;
use crate::measure;
use crate::text::counted;

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
    /// What is measured after training.
    pub(super) measurements: Vec<Measurement>,
    /// Where the experiment comes from: a scale of a preset, or a file.
    pub(super) origin: String,
    pub(super) steps_per_epoch: Option<usize>,
    /// What has to be known about its data files.
    pub(super) data_notes: Vec<String>,
    /// The weights that its trials start with, if they were found outside its folder.
    pub(super) source: Option<Source>,
    /// What cuts the text of its trials.
    pub(super) tokenizers: Vec<StoredTokenizer>,
    /// `experiment.toml` as it was found.
    stored: Option<Vec<u8>>,
    pub(super) found: Found,
    /// Why trials of the folder cannot be used with the code of this program.
    refused_code: Option<String>,
}

impl Prepared {
    /// Trains `at_once` trials side by side, or as many as there are cores.
    pub(crate) fn new(args: &ExperimentArgs, at_once: Option<usize>, lab: &Lab) -> Result<Self, Error> {
        if let Some(dir) = args.run_folder() {
            // A run folder may come from a stranger: no links and no pipes there.
            Store::at(&dir).description()?;
        }
        let mut request = args.request();
        let source = args.from.as_ref().map(Source::read).transpose()?;
        if let Some(source) = &source {
            source.apply(&mut request);
        }
        let mut experiment = Experiment::resolve(&request, lab)?;
        let given = args.output.clone().or_else(|| args.run_folder());
        let dir = given.unwrap_or_else(|| default_folder(args, &experiment));
        let mut planner = Planner::new(lab).with_tokenizers(Tokenizers::Prepared(Store::at(&dir)));
        let plan = planner.plan(&experiment)?;
        experiment.notes = lab.notes(&plan);
        let source = source.or_else(|| Source::beside(&request.experiment, &plan.trials));
        if let Some(source) = &source {
            lab.check_origin(&plan.trials, &source.weights)?;
            experiment.notes.extend(source.note(&experiment.seeds));
        }
        let stored = Store::at(&dir).description()?;
        let (steps_per_epoch, data_notes, tokenizers) = (plan.steps_per_epoch(), plan.notes(), plan.tokenizers());
        let sharing = Sharing::trials(at_once, plan.trials.len());
        let (mut joined, trials, kept) = joined(&experiment, plan.trials.clone(), &dir, lab, &mut planner)?;
        let (refused_code, code_notes) = other_code(&trials, &dir, args.accept_code)?;
        experiment.notes.extend(code_notes);
        joined.notes.clone_from(&experiment.notes);
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
            Train::new(trial, folder).accepting_other_code(args.accept_code)
        };
        let jobs = trials.into_iter().filter(|trial| asked.contains(&trial.id)).map(train).collect();
        let measurements = measure::all(&store, &experiment, &[])?;
        let origin = origin(args, &experiment);
        let found = Found::Nothing;
        Ok(Prepared {
            experiment,
            joined,
            index,
            dir,
            jobs,
            sharing,
            measurements,
            origin,
            steps_per_epoch,
            data_notes,
            source,
            tokenizers,
            stored,
            found,
            refused_code,
        })
    }

    /// Refuses a folder that holds another experiment, and notes what it holds.
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        if let Some(reason) = &self.refused_code {
            return Err(ExperimentError::new(reason).into());
        }
        let store = Store::at(&self.dir);
        if Store::is_store(&self.dir) {
            self.found = store.compare(&self.joined, &self.index)?;
        }
        Ok(store.refuse_foreign_files()?)
    }

    /// Whether another process has changed the experiment since it was read.
    pub(crate) fn is_outdated(&self) -> bool {
        Store::at(&self.dir).description().ok().flatten() != self.stored
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
            let seconds = estimator.measurements(&self.measurements, &trials);
            estimate.after_seconds = seconds / self.sharing.threads as f64;
            estimate.seconds += estimate.after_seconds;
        }
        Some(estimate)
    }
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

/// Where the experiment comes from, in the words after its name.
fn origin(args: &ExperimentArgs, experiment: &Experiment) -> String {
    match args.run_folder() {
        Some(_) => String::new(),
        None if is_preset(args) || args.scale.is_some() => format!(", scale {}", experiment.scale),
        None => format!(" as written in {}", args.experiment),
    }
}

/// Why trials of a folder that other code made are refused, or what is to be noted about them.
fn other_code(trials: &[Trial], dir: &Path, is_accepted: bool) -> Result<(Option<String>, Vec<String>), Error> {
    let (store, mut others) = (Store::at(dir), Vec::new());
    for trial in trials {
        others.extend(trial.other_code(&store.trial(trial.id))?);
    }
    let (recorded, unknown): (Vec<OtherCode>, Vec<OtherCode>) = others.into_iter().partition(OtherCode::is_recorded);
    let mut notes = Vec::new();
    if let Some(first) = unknown.first() {
        notes.push(format!(
            "it is not on record which code made {} ({}): version 0.2.0 did not write it down. If the code of your mechanism or task \
             has changed since, choose a fresh folder with -o",
            counted(unknown.len(), "trial"),
            first.title
        ));
    }
    let Some(first) = recorded.first() else { return Ok((None, notes)) };
    let made = format!(
        "other code made {} in {} ({}): {}",
        counted(recorded.len(), "trial"),
        dir.display(),
        first.title,
        first.in_words()
    );
    if is_accepted {
        notes.push(format!("{made}. This was accepted with --accept-code"));
        return Ok((None, notes));
    }
    let help = "results of different code are not mixed. Choose a fresh folder with -o DIR, or add --accept-code to keep \
                these trials as they are. If the results are the same, give your mechanism or task a version with \
                `Lab::with_version`";
    Ok((Some(format!("{made}\nhelp: {help}")), notes))
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
    planner: &mut Planner<'_>,
) -> Result<(Experiment, Vec<Trial>, Listed), Error> {
    let alone = |asked| Ok((experiment.clone(), asked, HashMap::new()));
    if !Store::is_store(dir) {
        return alone(asked);
    }
    let store = Store::at(dir);
    // What is damaged is repaired when the run begins, and other experiments are refused there.
    let Ok(stored) = store.experiment() else { return alone(asked) };
    let Ok(joined) = experiment.joined(&stored, lab) else { return alone(asked) };
    let Ok(plan) = planner.plan(&joined) else { return alone(asked) };
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
