//! Which trained models a command is about, and jobs on them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args as ClapArgs;
use semfocus_analysis::evidence::robustness::point_name;
use semfocus_core::{Known, MechanismList, Point};
use semfocus_lab::jobs::{Executor, Job, Sharing};
use semfocus_lab::{Device, Lab, TrainedModel, Trial};
use semfocus_nn::InstructionSet;
use semfocus_store::{CheckpointName, Contents, End, Locks, Program, Session, State, Store, StoredTrial, TrialFolder};

use crate::locks::LockArg;
use crate::progress::Progress;
use crate::signals::stop_on_signals;
use crate::talk::say;
use crate::text::resume_command;
use crate::{DeviceArg, Error, Exit};

/// A trained model and the folder of its trial.
pub(crate) struct Target {
    pub(crate) folder: TrialFolder,
    pub(crate) trained: TrainedModel,
    /// Values on the axes of the grid of its run; none if the trial itself was named.
    pub(crate) point: Point,
}

/// A mechanism and, in a grid, the point: `topk:3, activation = relu`.
pub(crate) fn labelled(mechanism: &str, point: &[(String, String)]) -> String {
    if point.is_empty() { mechanism.to_owned() } else { format!("{mechanism}, {}", point_name(point)) }
}

/// The width of a column of mechanisms.
pub(crate) fn mechanism_width<'a>(names: impl Iterator<Item = &'a String>) -> usize {
    names.map(|name| name.chars().count()).max().unwrap_or(0).max("mechanism".len())
}

/// Which models, on the command line.
#[derive(Debug, ClapArgs)]
pub(crate) struct ModelArgs {
    /// Folders of runs or trials
    #[arg(required = true)]
    runs: Vec<PathBuf>,
    /// Use only the first N seeds of each mechanism of a run [default: 1, or all for `probe`]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    seeds: Option<u16>,
    /// Use only these mechanisms of a run
    #[arg(long, value_name = "A,B,…")]
    mechanisms: Vec<MechanismList>,
    /// Use the model after its best epoch instead of the last
    #[arg(long)]
    best: bool,
    #[command(flatten)]
    pub(crate) device: DeviceArg,
    #[command(flatten)]
    lock: LockArg,
}

impl ModelArgs {
    /// The chosen models. Trials of a run that diverged or have no checkpoint are skipped with a message. `seeds` is the
    /// default of `--seeds`.
    pub(crate) fn targets(&self, lab: &Lab, seeds: usize) -> Result<Vec<Target>, Error> {
        let mut targets = Vec::new();
        for path in &self.runs {
            if Store::is_store(path) {
                targets.extend(self.targets_in_run(lab, &Store::open(path)?, seeds)?);
            } else {
                let folder = TrialFolder::find(path)?;
                let recorded = folder.records()?.len();
                if folder.state(recorded, usize::MAX) == State::Diverged {
                    return Err(format!("{} diverged: it has no trained model", path.display()).into());
                }
                targets.push(self.target(lab, folder, Point::new())?);
            }
        }
        if targets.is_empty() {
            return Err("no trial of these runs has a trained model: none has a checkpoint yet, or all diverged".into());
        }
        Ok(targets)
    }

    /// A last checkpoint that is damaged is no reason to do without the one before it.
    fn target(&self, lab: &Lab, folder: TrialFolder, point: Point) -> Result<Target, Error> {
        let read = |name| TrainedModel::read(lab, &self.device.device, &folder, name);
        let trained = match (self.checkpoint(), read(self.checkpoint())) {
            (CheckpointName::Last, Err(error)) => {
                let previous = read(CheckpointName::Previous).map_err(|_| error.to_string())?;
                say!("{error}; the previous checkpoint, after epoch {}, is used", previous.epoch);
                previous
            }
            (_, result) => result?,
        };
        Ok(Target { folder, trained, point })
    }

    /// Those of the trials of a run that is yet to be made whose models will be chosen. `seeds` is the default of `--seeds`.
    pub(crate) fn among<'a>(&self, trials: &[&'a Trial], seeds: usize) -> Vec<&'a Trial> {
        let mut first = Vec::new();
        for trial in trials {
            if !first.contains(&trial.settings.seed) {
                first.push(trial.settings.seed);
            }
        }
        first.truncate(self.seeds.map_or(seeds, usize::from));
        let mut chosen = self.mechanisms.iter().flat_map(|list| &list.0).peekable();
        let names: Option<Vec<&String>> = chosen.peek().is_some().then(|| chosen.collect());
        let is_chosen = |trial: &&Trial| {
            let settings = &trial.settings;
            first.contains(&settings.seed) && names.as_ref().is_none_or(|names| names.contains(&&settings.mechanism))
        };
        trials.iter().copied().filter(is_chosen).collect()
    }

    /// How the folders of the models are taken.
    fn locks(&self) -> Result<Locks, Error> {
        self.lock.locks(self.runs.iter().map(PathBuf::as_path).filter(|path| path.is_dir()))
    }

    fn checkpoint(&self) -> CheckpointName {
        if self.best { CheckpointName::Best } else { CheckpointName::Last }
    }

    fn targets_in_run(&self, lab: &Lab, store: &Store, seeds: usize) -> Result<Vec<Target>, Error> {
        let Contents { experiment, trials, .. } = store.read()?;
        // Spellings that are not the usual ones are accepted, and so are mechanisms that this program does not know.
        let usual = |name: &String| lab.mechanism(name).map_or_else(|_| name.clone(), |usual| usual.to_string());
        let chosen: Vec<String> = self.mechanisms.iter().flat_map(|list| &list.0).map(usual).collect();
        if let Some(unknown) = chosen.iter().find(|name| !experiment.mechanisms.contains(name)) {
            let known = experiment.mechanisms.join(", ");
            return Err(format!("{} has no mechanism `{unknown}`; it has {known}", store.dir().display()).into());
        }
        let seeds = self.seeds.map_or(seeds, usize::from);
        let seeds: Vec<u64> = experiment.seeds.iter().copied().take(seeds).collect();
        let mut targets = Vec::new();
        for StoredTrial { entry, folder, state, .. } in trials {
            let is_chosen = chosen.is_empty() || chosen.contains(&entry.mechanism);
            if !is_chosen || !seeds.contains(&entry.seed) {
                continue;
            }
            let has_checkpoint = CheckpointName::ALL.iter().any(|name| folder.checkpoint(*name).is_file());
            if state == State::Diverged {
                say!("{}: diverged, skipped", entry.title());
            } else if state == State::Unreadable {
                say!("{}: its files cannot be read, skipped", entry.title());
            } else if !has_checkpoint {
                say!("{}: no checkpoint yet, skipped", entry.title());
            } else {
                targets.push(self.target(lab, folder, entry.point)?);
            }
        }
        Ok(targets)
    }
}

/// This process, as `env.json` describes it.
pub(crate) fn session(device: &Device, sharing: Sharing) -> Session {
    let program = Program {
        version: crate::VERSION.to_owned(),
        commit: crate::COMMIT.map(str::to_owned),
        instruction_set: InstructionSet::current().name().to_owned(),
        device: device.name().to_owned(),
    };
    Session::here(program, sharing.threads, sharing.jobs)
}

/// Runs jobs on trained models, one after the other, each on `threads` threads. Returns the exit code of the program if
/// they were interrupted.
pub(crate) fn run_jobs(
    lab: &Lab,
    models: &ModelArgs,
    jobs: &[&dyn Job],
    unit: &'static str,
    threads: Option<usize>,
) -> Result<Option<Exit>, Error> {
    let stop: Arc<AtomicBool> = stop_on_signals()?;
    let sharing = Sharing::one_by_one(threads);
    let progress = Progress::new(jobs, unit, sharing, false, stop.clone());
    let (device, locks) = (&models.device.device, models.locks()?);
    let session = session(device, sharing);
    let memory = semfocus_lab::memory::available();
    let ends =
        Executor { lab, device, session, sharing, stop: &stop, memory, locks: &locks, observer: &progress }.run(jobs);
    progress.finish();
    if let Some(message) = ends.iter().flatten().find_map(|end| match end {
        End::Failed(message) => Some(message),
        _ => None,
    }) {
        return Err(message.clone().into());
    }
    if ends.iter().all(|end| matches!(end, Some(End::Over(_)))) {
        return Ok(None);
    }
    say!("Interrupted; progress is saved. To resume: {}", resume_command());
    Ok(Some(Exit::Interrupted))
}
