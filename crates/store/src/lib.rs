//! The files of a run: plain files, which anything can read. Nothing is computed here.
//!
//! ```text
//! DIR/experiment.toml                    the experiment, as a file that gives the same trials again
//! DIR/trials.csv                         one line per trial: its folder, mechanism, seed, values on the grid
//! DIR/trials/<id>/trial.toml             all settings of the trial
//! DIR/trials/<id>/epochs.csv             one line per epoch
//! DIR/trials/<id>/status.json            how far it is, and its result on the test split
//! DIR/trials/<id>/env.json               version, commit, processor, device, command
//! DIR/trials/<id>/events.jsonl           what happened while it was worked on
//! DIR/trials/<id>/last.safetensors       checkpoint after the last epoch, or where it was interrupted
//! DIR/trials/<id>/previous.safetensors   the one before, should the last one be damaged
//! DIR/trials/<id>/best.safetensors       checkpoint after the best epoch
//! DIR/trials/<id>/probes.jsonl           one line per probe
//! DIR/trials/<id>/snapshots/epoch-N.safetensors   the weights that a probe looked at
//! DIR/trials/<id>/sharpness.jsonl        one line for each model whose sharpness was measured
//! DIR/trials/<id>/surfaces/<name>/surface.json   what was evaluated: weights, directions, grid, examples
//! DIR/trials/<id>/surfaces/<name>/cells.csv      one line per cell, in their order
//! DIR/trials/<id>/lock                   held by the process that works on the trial; surfaces have one too
//! ```
//!
//! Everything but the first two is written by the process that holds the lease of the folder. Records (`*.csv` in a trial,
//! `*.jsonl`) are appended, never rewritten; every line says the version of its format, and a reader can follow them with a
//! [`Cursor`]. All other files are replaced as a whole.
//!
//! | to find | look in |
//! |---|---|
//! | writing so that nothing is lost | [`files`] |
//! | the folder of a trial | [`TrialFolder`] |
//! | what is recorded | [`records`] |
//! | checkpoints | [`checkpoint`] |
//! | loss surfaces | [`surface`] |
//! | events | [`events`] |
//! | who works on a folder | [`Lease`] |
#![forbid(unsafe_code)]

pub mod checkpoint;
mod cursor;
mod environment;
pub mod events;
pub mod files;
mod index;
mod lease;
pub mod records;
mod status;
mod stored;
pub mod surface;
#[cfg(test)]
mod testing;
mod trial;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

pub use checkpoint::Checkpoint;
pub use cursor::Cursor;
pub use environment::{Environment, Program, Session, utc_now};
pub use events::{End, Event, EventLog, JobId, JobKind, LoggedEvent};
pub use index::IndexEntry;
pub use lease::{Holder, Lease, Taken};
pub use records::{ProbeRecord, Sharpness, SharpnessRecord};
pub use status::{Best, State, Status, TestResult};
pub use stored::StoredTrial;
pub use surface::{Grid, StoredSurface, SurfaceFolder, SurfaceSettings};
pub use trial::{CheckpointName, TrialFolder};

use files::Aside;
use semfocus_core::{AnyName, Experiment, ExperimentError, TrialId};

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
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A file that a later version of the program wrote.
    #[error("{} has format {format}, and this program reads formats up to {known}; use the newer version", .path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        format: u32,
        /// The last version this program knows.
        known: u32,
    },
    /// A path that names no trial.
    #[error(
        "{} is not a trial: {reason}\nhelp: give the folder of a trial, such as RUN/trials/ID or the first digits of ID; \
         `semfocus status RUN` lists them",
        .path.display()
    )]
    NoTrial {
        /// The path.
        path: PathBuf,
        /// Why.
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
    /// The stored experiment cannot be read; the message names the file.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
}

impl StoreError {
    pub(crate) fn io(action: &'static str, path: &Path, error: io::Error) -> Self {
        StoreError::Io { action, path: path.to_owned(), error }
    }

    pub(crate) fn damaged(path: &Path, reason: impl Into<String>) -> Self {
        StoreError::Damaged { path: path.to_owned(), reason: reason.into() }
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
    /// Whether a folder is a run store.
    pub fn is_store(dir: &Path) -> bool {
        dir.join("experiment.toml").is_file()
    }

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
    pub fn create(dir: &Path, experiment: &Experiment, trials: &[IndexEntry]) -> Result<(Self, Found), StoreError> {
        let store = Store { dir: dir.to_owned() };
        let exists = store.experiment_path().is_file();
        if !exists && dir.exists() {
            store.refuse_foreign_files()?;
        }
        let folder = store.dir.join("trials");
        files::create_folder(&folder)?;
        // Two processes that begin at once describe the experiment one after the other.
        let _lease = Lease::wait(&folder)?;
        let found = if store.experiment_path().is_file() { store.compare(experiment, trials)? } else { Found::Nothing };
        if found != Found::TheSame {
            index::write(&store.dir.join("trials.csv"), trials)?;
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
        let text = files::read_text(&path)?.ok_or_else(|| StoreError::damaged(&path, "it is missing"))?;
        let name = path.display().to_string();
        Ok(Experiment::from_toml(&name, &text)?)
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
            if name != "trials" && name != "trials.csv" && !Aside::is_name(&name) {
                let reason = format!("it has other files, such as {}; choose another folder with -o", name.display());
                return Err(StoreError::NoStore { path: self.dir.clone(), reason });
            }
        }
        Ok(())
    }

    /// Whether the experiment that is here is the given one or a part of it.
    fn compare(&self, experiment: &Experiment, trials: &[IndexEntry]) -> Result<Found, StoreError> {
        let planned: HashMap<TrialId, usize> = trials.iter().map(|trial| (trial.id, trial.epochs)).collect();
        let present = self.index()?;
        let is_kept = |entry: &IndexEntry| planned.get(&entry.id).is_some_and(|epochs| *epochs >= entry.epochs);
        if !present.iter().all(is_kept) {
            let differences = experiment.differences(&self.experiment()?, &AnyName)?;
            return Err(StoreError::OtherExperiment { path: self.dir.clone(), differences });
        }
        let is_longer = present.iter().any(|entry| planned[&entry.id] != entry.epochs);
        let added = trials.len() - present.len();
        let same_text = std::fs::read_to_string(self.experiment_path()).is_ok_and(|text| text == described(experiment));
        Ok(if added == 0 && !is_longer && same_text { Found::TheSame } else { Found::Part(added) })
    }
}

/// The experiment as it is stored.
fn described(experiment: &Experiment) -> String {
    format!(
        "# The experiment of this folder; `semfocus run` on this file gives the same trials.\n\n{}",
        experiment.to_toml()
    )
}
