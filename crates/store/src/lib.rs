//! The files of a run: plain files, which anything can read. Nothing is computed here.
//!
//! ```text
//! DIR/experiment.toml                    the experiment, as a file that gives the same trials again
//! DIR/trials.csv                         one line per trial: its folder, mechanism, seed, values on the grid
//! DIR/trials/experiment.toml             a copy of the first, should it be damaged
//! DIR/measure.toml                       what workers measure on the trained models
//! DIR/slurm/<time>/submission.json       what was submitted to a cluster, next to its scripts and logs
//! DIR/origins/<trial>-<epoch>-<checksum>.safetensors   weights of other runs that trials start with
//! DIR/tokenizers/<key>-<checksum>.json   what cuts the text of the task `text`, or .model
//! DIR/trials/finished.jsonl              trials that ended, in the order in which they did; only to save looking
//! DIR/trials/<id>/trial.toml             all settings of the trial
//! DIR/trials/<id>/epochs.csv             one line per epoch
//! DIR/trials/<id>/slices.csv             loss and accuracy by properties of the questions, if the task has any
//! DIR/trials/<id>/status.json            how far it is, what is known of its data, and its result on the test split
//! DIR/trials/<id>/env.json               version, commit, processor, device, command
//! DIR/trials/<id>/events.jsonl           what happened while it was worked on
//! DIR/trials/<id>/last.safetensors       checkpoint after the last epoch, or where it was interrupted
//! DIR/trials/<id>/previous.safetensors   the one before, should the last one be damaged
//! DIR/trials/<id>/best.safetensors       checkpoint after the best epoch
//! DIR/trials/<id>/probes.jsonl           one line per probe
//! DIR/trials/<id>/snapshots/epoch-N.safetensors   the weights that a probe looked at
//! DIR/trials/<id>/sharpness.jsonl        one line for each model whose sharpness was measured
//! DIR/trials/<id>/evaluations.jsonl      one line for each evaluation of a model on other data
//! DIR/trials/<id>/surfaces/<name>/surface.json   what was evaluated: weights, directions, grid, examples
//! DIR/trials/<id>/surfaces/<name>/cells.csv      one line per cell, in their order
//! DIR/trials/<id>/lock                   held by the process that works on the trial; surfaces have one too
//! DIR/trials/<id>/claims/000001          in place of the lock on file systems that several machines share
//! ```
//!
//! Everything below `trials/<id>` is written by the process that holds the lease of the folder. Records (`*.csv` in a trial,
//! `*.jsonl`) only grow; every line says the version of its format and has a checksum, and a reader can
//! follow them with a [`Cursor`]. All other files are replaced as a whole.
//!
//! An error of the system ([`StoreError::Io`]) is never taken for damage ([`StoreError::Damaged`]): only what is proven to
//! be damaged is set aside and made again.
//!
//! | to find | look in |
//! |---|---|
//! | every operation on files, and how tests watch them | [`disk`] |
//! | writing so that nothing is lost | [`files`] |
//! | reading a whole run, what is damaged left out | [`Store::read`], [`Store::read_all`] |
//! | a trial as analysis and report take it, without a folder | [`TrialData`] |
//! | what changed in a run since the last look | [`Follower`] |
//! | finding and repairing damage | [`Store::damage`] |
//! | the folder of a trial | [`TrialReader`], [`TrialWriter`] |
//! | what is recorded | [`records`] |
//! | checkpoints; the weights of other runs that trials start with | [`checkpoint`]; [`TrialReader::origin`] |
//! | tokenizers | [`StoredTokenizer`] |
//! | loss surfaces | [`surface`] |
//! | events | [`events`] |
//! | who works on a folder | [`Lease`] |
#![forbid(unsafe_code)]

mod check;
pub mod checkpoint;
mod cursor;
mod data;
mod description;
pub mod disk;
mod environment;
pub mod events;
mod fence;
pub mod files;
mod finished;
mod follower;
mod index;
mod lease;
mod measurements;
mod origin;
mod process;
pub mod records;
mod status;
mod stored;
mod submission;
pub mod surface;
#[cfg(test)]
mod test_tools;
mod tokenizers;
mod trial;
mod verify;

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use checkpoint::Checkpoint;
pub use cursor::Cursor;
pub use data::{CurvePoint, Damage, RunData, SharpnessData, SurfaceData, TrialData};
pub use environment::{Environment, OwnProgram, Program, Session, processor, utc_now};
pub use events::{End, Event, EventLog, JobId, JobKind, LoggedEvent};
pub use finished::Finished;
pub use follower::{Change, Follower, RunCursor};
pub use index::IndexEntry;
pub use lease::{Chosen, Lease, LockChoice, Locks, Taken};
pub use process::Holder;
pub use records::{EvaluationRecord, ProbeRecord, RecordHash, Sharpness, SharpnessRecord, SliceRecord};
pub use status::{Asked, Best, State, Status, TestResult};
pub use stored::{Contents, StoredTrial};
pub use submission::Submission;
pub use surface::{Grid, StoredSurface, SurfaceFolder, SurfaceSettings};
pub use tokenizers::StoredTokenizer;
pub use trial::{CheckpointName, TrialReader, TrialWriter};

use semfocus_core::experiment::in_words;
use semfocus_core::file::TooLarge;
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
    /// A file that an earlier version of the program wrote.
    #[error(
        "{} {reason}: a version before 0.2.0 wrote it\nhelp: run the experiment again in a new folder, which gives the same \
         results, or read it with version 0.2.0",
        .path.display()
    )]
    Older {
        /// The file.
        path: PathBuf,
        /// What it is recognised by.
        reason: String,
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
    /// A run where a trial is needed.
    #[error("{} is a run; name one of its trials{}", .path.display(), trials_to_name(.path))]
    RunForTrial {
        /// Its folder.
        path: PathBuf,
    },
    /// A trial that has not kept the weights that are asked for.
    #[error(
        "{}: {reason}; {}\nhelp: the last, the previous and the best checkpoint are always kept, and with `probe_every = N` \
         the weights of every Nth epoch",
        .path.display(), kept_epochs(.kept)
    )]
    NoWeights {
        /// The folder of the trial.
        path: PathBuf,
        /// What is missing.
        reason: String,
        /// The epochs whose weights are there.
        kept: Vec<usize>,
    },
    /// A folder that is not a run store.
    #[error("{} is not a run: {reason}", .path.display())]
    NoStore {
        /// The folder.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The folder holds another experiment.
    #[error(
        "{} holds another experiment: {}\nhelp: an experiment can grow in its folder (more seeds, mechanisms, values, epochs), \
         but its settings cannot change; choose another folder with -o",
        .path.display(), .differences
    )]
    OtherExperiment {
        /// The folder.
        path: PathBuf,
        /// How the new one differs from it, in words.
        differences: String,
    },
    /// Another process has taken the folder over: this one writes nothing into it any more.
    #[error("{} was taken over by {}", .folder.display(), fence::name(.holder.as_deref()))]
    LostLease {
        /// The folder.
        folder: PathBuf,
        /// Who has it now, if that is known.
        holder: Option<Box<Holder>>,
    },
    /// A folder in which several processes cannot be kept apart.
    #[error("several processes cannot share {}: {reason}\nhelp: {help}", .path.display())]
    NoLocks {
        /// The folder.
        path: PathBuf,
        /// Why.
        reason: String,
        /// What to do.
        help: &'static str,
    },
    /// Numbers to be written are not finite.
    #[error("some of its numbers are not finite, and {} cannot hold them", .path.display())]
    NotFinite {
        /// The file.
        path: PathBuf,
    },
    /// The stored experiment cannot be read; the message names the file.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
}

/// The first trials of a run, as a person can name them.
fn trials_to_name(run: &Path) -> String {
    const SHOWN: usize = 8;
    let trials = Store::at(run).index().unwrap_or_default();
    let line = |entry: &IndexEntry| format!("\n  {}/{:.8}  {}", run.display(), entry.id.to_string(), entry.title());
    let shown: String = trials.iter().take(SHOWN).map(line).collect();
    match trials.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown}\n  and {more} more: semfocus status --all {}", run.display()),
    }
}

fn kept_epochs(kept: &[usize]) -> String {
    match kept {
        [] => "it has kept no weights".to_owned(),
        [one] => format!("it has those from after epoch {one}"),
        several => {
            let epochs: Vec<String> = several.iter().map(usize::to_string).collect();
            format!("it has those from after epochs {}", epochs.join(", "))
        }
    }
}

impl StoreError {
    pub(crate) fn io(action: &'static str, path: &Path, error: io::Error) -> Self {
        if let Some(lost) = error.get_ref().and_then(|error| error.downcast_ref::<fence::Lost>()) {
            return StoreError::LostLease { folder: lost.folder.clone(), holder: lost.holder.clone().map(Box::new) };
        }
        // No program of this kind has written it.
        if error.get_ref().is_some_and(|error| error.is::<TooLarge>()) {
            return StoreError::damaged(path, error.to_string());
        }
        StoreError::Io { action, path: path.to_owned(), error }
    }

    /// A file of another version of the program than this one, which knows one format.
    pub(crate) fn format(path: &Path, format: u32, known: u32) -> Self {
        let path = path.to_owned();
        if format > known {
            return StoreError::Newer { path, format, known };
        }
        StoreError::Older { path, reason: format!("has format {format}") }
    }

    /// Whether it names a file that is proven to be damaged, so that it can be set aside and made again. What the system refuses, what
    /// another version wrote and folders that are in the way stay as they are.
    pub fn is_repairable(&self) -> bool {
        matches!(self, StoreError::Damaged { path, .. } if !path.is_dir())
    }

    pub(crate) fn damaged(path: &Path, reason: impl Into<String>) -> Self {
        StoreError::Damaged { path: path.to_owned(), reason: reason.into() }
    }
}

/// Why trials of another length are other trials, after how the experiments differ.
fn length_note(experiment: &Experiment, differences: &str) -> Result<&'static str, ExperimentError> {
    let is_longer = ["training.epochs ", "training.steps "].iter().any(|length| differences.contains(length));
    Ok(if !is_longer || experiment.can_be_longer()? {
        ""
    } else {
        " (with `training.schedule = \"cosine\"` the learning rate of every step depends on the number of epochs, unless \
         `training.schedule_steps` says where it ends)"
    })
}

/// A run store.
#[derive(Clone, Debug)]
pub struct Store {
    dir: PathBuf,
}

/// A store that is ready to be written to.
#[derive(Debug)]
pub struct Created {
    /// The store.
    pub store: Store,
    /// What was there before.
    pub found: Found,
    /// What was damaged and has been written again, in words.
    pub repaired: Vec<String>,
}

/// What was in the folder of an experiment before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// All its trials.
    TheSame,
    /// A part of it: this many trials are added, and others may become longer.
    Part(usize),
}

impl Store {
    /// Whether a folder is a run store.
    pub fn is_store(dir: &Path) -> bool {
        let store = Store { dir: dir.to_owned() };
        store.experiment_path().is_file() || store.copy_path().is_file()
    }

    /// The store in a folder, whether it is there or not.
    pub fn at(dir: &Path) -> Self {
        Store { dir: dir.to_owned() }
    }

    /// The store in a folder, to read from.
    pub fn open(dir: &Path) -> Result<Self, StoreError> {
        let no_store = |reason: &str| StoreError::NoStore { path: dir.to_owned(), reason: reason.to_owned() };
        if !dir.is_dir() {
            return Err(no_store("there is no such folder"));
        }
        let store = Store { dir: dir.to_owned() };
        if !Store::is_store(dir) {
            return Err(no_store("it has no experiment.toml; give the folder that `semfocus run` names at its end"));
        }
        Ok(store)
    }

    /// The store for an experiment, to write to: a new folder, or one that holds the same experiment or a part of it. Damaged
    /// descriptions of the experiment are kept aside and written again. While another process describes it, `is_patient` is
    /// told who does, and says whether to keep waiting; without patience there is no store.
    pub fn create(
        dir: &Path,
        experiment: &Experiment,
        trials: &[IndexEntry],
        locks: &Locks,
        is_patient: &mut dyn FnMut(Option<&Holder>) -> bool,
    ) -> Result<Option<Created>, StoreError> {
        let store = Store { dir: dir.to_owned() };
        store.refuse_foreign_files()?;
        let folder = store.dir.join("trials");
        files::create_folder(&folder)?;
        // Two processes that begin at once describe the experiment one after the other.
        let Some(_lease) = locks.wait(&folder, &store.dir, is_patient)? else { return Ok(None) };
        files::remove_parts(&store.dir);
        let found = store.compare(experiment, trials)?;
        let mut repaired = Vec::new();
        // A process may have died after it had written the list and before it described the experiment.
        let is_new = files::read(&store.index_path())?.is_some_and(|list| list == index::text(trials).as_bytes());
        let damaged = store.index().err().filter(|_| !is_new).map(|error| (store.index_path(), error));
        let damaged = damaged.into_iter().chain(store.experiment_damage()?);
        for (path, error) in damaged.filter(|_| found != Found::Nothing) {
            if matches!(error, StoreError::Io { .. }) {
                return Err(error);
            }
            let kept = if path.exists() {
                format!("it is kept as {}, and ", files::set_aside(&path)?.display())
            } else {
                String::new()
            };
            repaired.push(format!("{error}; {kept}it has been written again"));
        }
        if found != Found::TheSame || !repaired.is_empty() || !store.is_described_as(experiment, trials)? {
            store.write_experiment(experiment, trials)?;
        }
        Ok(Some(Created { store, found, repaired }))
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The trials that `trials.csv` lists, in their order.
    pub fn index(&self) -> Result<Vec<IndexEntry>, StoreError> {
        match self.read_index() {
            // An experiment without mechanisms has no trials.
            Err(StoreError::Damaged { .. }) if self.experiment().is_ok_and(|found| found.mechanisms.is_empty()) => {
                Ok(Vec::new())
            }
            result => result,
        }
    }

    fn read_index(&self) -> Result<Vec<IndexEntry>, StoreError> {
        let path = self.index_path();
        let read = || {
            let text = files::read_text(&path)?.ok_or_else(|| StoreError::damaged(&path, "it is missing"))?;
            Ok::<_, StoreError>((index::parse(&path, &text)?, self.check_list(&text)))
        };
        let (mut index, mut is_right) = read()?;
        // A process that adds trials writes the list and then the experiment.
        for _ in 0..2 {
            if is_right.is_err() {
                std::thread::sleep(Duration::from_millis(50));
                (index, is_right) = read()?;
            }
        }
        is_right.map(|()| index)
    }

    /// The folder of a trial, whether it is there or not.
    pub fn trial(&self, id: TrialId) -> TrialReader {
        TrialReader::new(self.dir.join("trials").join(id.to_string()), id)
    }

    pub(crate) fn index_path(&self) -> PathBuf {
        self.dir.join("trials.csv")
    }

    /// A folder with files of other kinds is not ours to write into.
    pub fn refuse_foreign_files(&self) -> Result<(), StoreError> {
        if self.experiment_path().exists() || !self.dir.exists() {
            return Ok(());
        }
        // Another process may be describing the same experiment at this moment.
        let is_ours = |name: &OsString| name == "trials" || name == "trials.csv" || files::is_part(name);
        match self.names(&self.dir)?.into_iter().find(|name| !is_ours(name)) {
            Some(name) => {
                let reason = format!("it has other files, such as {}; choose another folder with -o", name.display());
                Err(StoreError::NoStore { path: self.dir.clone(), reason })
            }
            None => Ok(()),
        }
    }

    /// Whether the experiment that is here is the given one or a part of it. Of a damaged list of trials, the folders tell
    /// which trials there are.
    pub fn compare(&self, experiment: &Experiment, trials: &[IndexEntry]) -> Result<Found, StoreError> {
        let folders = self.folders()?;
        if !self.experiment_path().exists() && !self.index_path().exists() && folders.is_empty() {
            return Ok(Found::Nothing);
        }
        let planned: HashMap<TrialId, usize> = trials.iter().map(|trial| (trial.id, trial.epochs)).collect();
        let present: Vec<(TrialId, usize)> = match self.index() {
            Ok(index) => index.into_iter().map(|entry| (entry.id, entry.epochs)).collect(),
            Err(StoreError::Damaged { .. }) => folders.into_iter().map(|folder| (folder.id(), 0)).collect(),
            Err(error) => return Err(error),
        };
        if !present.iter().all(|(id, epochs)| planned.get(id).is_some_and(|planned| planned >= epochs)) {
            let differences = match self.experiment() {
                Ok(present) => {
                    let differences = in_words(&experiment.setting_differences(&present, &AnyName)?);
                    let note = length_note(experiment, &differences)?;
                    differences + note
                }
                Err(_) => String::new(),
            };
            let differences = if differences.is_empty() {
                "its data files have other contents now, or it has other trials".to_owned()
            } else {
                differences
            };
            return Err(StoreError::OtherExperiment { path: self.dir.clone(), differences });
        }
        let is_longer = present.iter().any(|(id, epochs)| planned[id] != *epochs);
        let added = trials.len() - present.len();
        Ok(if added == 0 && !is_longer { Found::TheSame } else { Found::Part(added) })
    }

    /// The folders of trials that are there, whether a list says so or not.
    pub(crate) fn folders(&self) -> Result<Vec<TrialReader>, StoreError> {
        let id = |name: &OsString| name.to_str().filter(|name| name.len() == 16)?.parse().ok();
        let names = self.names(&self.dir.join("trials"))?;
        Ok(names.iter().filter_map(id).map(|id| self.trial(id)).collect())
    }

    fn names(&self, folder: &Path) -> Result<Vec<OsString>, StoreError> {
        disk::list(folder).map_err(|error| StoreError::io("read the folder", folder, error))
    }
}
