//! The run store: plain files, which anything can read.
//!
//! ```text
//! DIR/experiment.toml                    the experiment, as a file that gives the same trials again
//! DIR/trials.csv                         one line a trial: its folder, mechanism, seed, values on the grid
//! DIR/trials/<id>/trial.toml             all settings of the trial
//! DIR/trials/<id>/epochs.csv             one line an epoch
//! DIR/trials/<id>/status.json            how far it is
//! DIR/trials/<id>/env.json               version, commit, processor, command
//! DIR/trials/<id>/last.safetensors       checkpoint after the last epoch, or where it was interrupted
//! DIR/trials/<id>/previous.safetensors   the one before, should the last one be damaged
//! DIR/trials/<id>/best.safetensors       checkpoint after the best epoch
//! DIR/trials/<id>/probes.jsonl           one line a probe, if `probe_every` asks for any
//! DIR/trials/<id>/snapshots/epoch-N.safetensors   the weights that a probe looked at
//! DIR/trials/<id>/lock                   held by the process that works on the trial
//! ```
//!
//! Everything but the settings is written by the process that holds the lock of the trial. What was once finished is never
//! computed or written again.

mod environment;
pub mod files;
mod index;
mod lock;
pub mod made_up;
mod records;
mod status;
mod stored;
mod trial;

use std::io;
use std::path::{Path, PathBuf};

pub use environment::{Environment, Session, utc_now};
pub use index::{IndexEntry, Point};
pub use lock::{Holder, Lock};
pub use records::EpochRecord;
pub use status::{Best, State, Status};
pub use stored::StoredTrial;
pub use trial::{CheckpointName, TrialFolder};

use crate::experiment::{Experiment, ExperimentError, Plan, TrialId};

/// What went wrong with the files of a run.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system refused something.
    #[error("cannot {action} {}: {error}", .path.display())]
    Io {
        /// What was to be done.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// A file does not hold what it should.
    #[error("{} is damaged: {reason}", .path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A folder that is no run store.
    #[error("{} is not a run: {reason}", .path.display())]
    NoStore {
        /// The folder.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The folder holds another experiment.
    #[error(
        "{} holds another experiment: {}\nhelp: an experiment can grow in its folder (more seeds, mechanisms, values, epochs) \
         but not change; choose another folder with -o",
        .path.display(), .differences.join("; ")
    )]
    OtherExperiment {
        /// The folder.
        path: PathBuf,
        /// How the new one differs from it, in words.
        differences: Vec<String>,
    },
    /// The stored experiment cannot be read.
    #[error("{}: {error}", .path.display())]
    Experiment {
        /// Its file.
        path: PathBuf,
        /// What is wrong.
        error: ExperimentError,
    },
}

impl StoreError {
    pub(crate) fn io(action: &'static str, path: &Path, error: io::Error) -> Self {
        StoreError::Io { action, path: path.to_owned(), error }
    }

    pub(crate) fn broken(path: &Path, reason: impl Into<String>) -> Self {
        StoreError::Broken { path: path.to_owned(), reason: reason.into() }
    }
}

/// A run store.
#[derive(Clone, Debug)]
pub struct Store {
    dir: PathBuf,
}

/// What was in the folder of an experiment before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// The same experiment.
    TheSame,
    /// A part of it, to which this many trials are added.
    Part(usize),
}

impl Store {
    /// The store in a folder, to read from.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        let no_store = |reason: &str| StoreError::NoStore { path: dir.to_owned(), reason: reason.to_owned() };
        if !dir.is_dir() {
            return Err(no_store("there is no such folder"));
        }
        let store = Store { dir: dir.to_owned() };
        if !store.experiment_path().is_file() {
            return Err(no_store("it has no experiment.toml; give the folder that `semfocus run` names at its end"));
        }
        Ok(store)
    }

    /// The store for an experiment, to write to: a new folder, or one that holds the same experiment or a part of it.
    pub fn create(dir: &Path, experiment: &Experiment, plan: &Plan) -> Result<(Self, Found), StoreError> {
        let store = Store { dir: dir.to_owned() };
        let exists = store.experiment_path().is_file();
        if !exists && dir.exists() {
            store.refuse_foreign_files()?;
        }
        let trials = store.dir.join("trials");
        std::fs::create_dir_all(&trials).map_err(|error| StoreError::io("make the folder", &trials, error))?;
        // Two processes that begin at once describe the experiment one after the other.
        let _lock = lock::wait(&store.dir.join("trials").join("lock"))?;
        let found = if store.experiment_path().is_file() { store.compare(experiment, plan)? } else { Found::Nothing };
        if found != Found::TheSame {
            files::write_whole(&store.dir.join("trials.csv"), index::write(plan).as_bytes())?;
            // Last: a folder with this file is complete.
            files::write_whole(&store.experiment_path(), described(experiment).as_bytes())?;
        }
        Ok((store, found))
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The experiment it holds.
    pub fn experiment(&self) -> Result<Experiment, StoreError> {
        let path = self.experiment_path();
        let text = std::fs::read_to_string(&path).map_err(|error| StoreError::io("read", &path, error))?;
        let name = path.display().to_string();
        Experiment::from_toml(&name, &text).map_err(|error| StoreError::Experiment { path, error })
    }

    /// The trials that `trials.csv` lists, in their order.
    pub fn index(&self) -> Result<Vec<IndexEntry>, StoreError> {
        index::read(&self.dir.join("trials.csv"))
    }

    /// The folder of a trial, whether it is there or not.
    pub fn trial(&self, id: TrialId) -> TrialFolder {
        TrialFolder::new(self.dir.join("trials").join(id.to_string()))
    }

    /// The folders of all trials of the experiment, in their order.
    pub fn trials(&self) -> Result<Vec<(IndexEntry, TrialFolder)>, StoreError> {
        Ok(self.index()?.into_iter().map(|entry| (entry.clone(), self.trial(entry.id))).collect())
    }

    fn experiment_path(&self) -> PathBuf {
        self.dir.join("experiment.toml")
    }

    /// A folder with files of other kinds is not ours to write into.
    fn refuse_foreign_files(&self) -> Result<(), StoreError> {
        let failed = |error| StoreError::io("read the folder", &self.dir, error);
        for entry in std::fs::read_dir(&self.dir).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            // Another process may be describing the same experiment at this moment.
            let is_part = name.to_string_lossy().starts_with('.') && name.to_string_lossy().ends_with(".part");
            if name != "trials" && name != "trials.csv" && !is_part {
                let reason = format!("it has other files, such as {}; choose another folder with -o", name.display());
                return Err(StoreError::NoStore { path: self.dir.clone(), reason });
            }
        }
        Ok(())
    }

    /// Whether the experiment that is here is the given one or a part of it.
    fn compare(&self, experiment: &Experiment, plan: &Plan) -> Result<Found, StoreError> {
        let present = self.index()?;
        let kept = present.iter().all(|entry| {
            plan.trials.iter().any(|trial| trial.id == entry.id && trial.settings.training.epochs >= entry.epochs)
        });
        if !kept {
            let differences = experiment
                .differences(&self.experiment()?)
                .map_err(|error| StoreError::Experiment { path: self.experiment_path(), error })?;
            let path = self.dir.clone();
            return Err(StoreError::OtherExperiment { path, differences });
        }
        let longer = plan.trials.iter().any(|trial| {
            present.iter().any(|entry| entry.id == trial.id && entry.epochs != trial.settings.training.epochs)
        });
        let added = plan.trials.len() - present.len();
        let same_text = std::fs::read_to_string(self.experiment_path()).is_ok_and(|text| text == described(experiment));
        Ok(if added == 0 && !longer && same_text { Found::TheSame } else { Found::Part(added) })
    }
}

/// The experiment as it is stored.
fn described(experiment: &Experiment) -> String {
    format!(
        "# The experiment of this folder; `semfocus run` on this file gives the same trials.\n\n{}",
        experiment.to_toml()
    )
}
