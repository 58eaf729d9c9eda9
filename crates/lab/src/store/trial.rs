//! The folder of one trial.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::lock::{self, Holder, Lock};
use super::records::{self, EpochRecord};
use super::{Environment, Session, State, Status, StoreError, files};
use crate::probe::ProbeRecord;
use crate::settings::TrialSettings;

/// The checkpoints of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointName {
    /// After the last epoch, or where it was interrupted.
    Last,
    /// The one before.
    Previous,
    /// After the best epoch.
    Best,
}

impl CheckpointName {
    /// All of them, in the order in which a trial that goes on tries them.
    pub const ALL: [CheckpointName; 3] = [CheckpointName::Last, CheckpointName::Previous, CheckpointName::Best];

    /// Name of its file.
    pub fn file_name(self) -> &'static str {
        match self {
            CheckpointName::Last => "last.safetensors",
            CheckpointName::Previous => "previous.safetensors",
            CheckpointName::Best => "best.safetensors",
        }
    }
}

/// The folder of one trial.
#[derive(Clone, Debug)]
pub struct TrialFolder {
    path: PathBuf,
}

impl TrialFolder {
    /// The folder at a path, whether it is there or not.
    pub fn new(path: PathBuf) -> Self {
        TrialFolder { path }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether anything has been written.
    pub fn exists(&self) -> bool {
        self.file("trial.toml").is_file()
    }

    /// Makes the folder and takes its lock, or says who has it.
    pub fn lock(&self) -> Result<Result<Lock, Option<Holder>>, StoreError> {
        std::fs::create_dir_all(&self.path).map_err(|error| StoreError::io("make the folder", &self.path, error))?;
        let taken = lock::take(&self.file("lock"))?;
        if taken.is_ok() {
            self.remove_parts();
        }
        Ok(taken)
    }

    /// Removes what a process that was killed left half written. Nothing depends on it.
    fn remove_parts(&self) {
        let entries = std::fs::read_dir(&self.path).into_iter().flatten().flatten();
        for entry in entries {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with('.') && name.ends_with(".part") {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }

    /// Who works on it, if anybody does.
    pub fn holder(&self) -> Option<Option<Holder>> {
        lock::holder(&self.file("lock"))
    }

    /// The settings it was begun with.
    pub fn settings(&self) -> Result<TrialSettings, StoreError> {
        let path = self.file("trial.toml");
        let text = std::fs::read_to_string(&path).map_err(|error| StoreError::io("read", &path, error))?;
        let table: toml::Table =
            text.parse().map_err(|error: toml::de::Error| StoreError::broken(&path, error.message()))?;
        TrialSettings::from_table(&table).map_err(|reason| StoreError::broken(&path, reason))
    }

    /// Writes the settings, if they are not there already.
    pub fn write_settings(&self, settings: &TrialSettings) -> Result<(), StoreError> {
        let path = self.file("trial.toml");
        let text = toml::to_string(&settings.to_table()).expect("settings are plain values");
        if std::fs::read_to_string(&path).is_ok_and(|present| present == text) {
            return Ok(());
        }
        files::write_whole(&path, text.as_bytes())
    }

    /// The epochs it has on record.
    pub fn records(&self) -> Result<Vec<EpochRecord>, StoreError> {
        records::read(&self.file("epochs.csv"))
    }

    /// Adds an epoch.
    pub fn append_record(&self, record: &EpochRecord) -> Result<(), StoreError> {
        records::append(&self.file("epochs.csv"), record)
    }

    /// Forgets the epochs after the first `epochs`, which will be computed again; what was there is kept aside if asked
    /// for.
    pub fn cut_records(&self, epochs: usize, keep_aside: bool) -> Result<(), StoreError> {
        let path = self.file("epochs.csv");
        let records = self.records()?;
        if !path.exists() {
            return Ok(());
        }
        if keep_aside && records.len() > epochs {
            files::set_aside(&path)?;
        }
        records::replace(&path, &records[..epochs.min(records.len())])
    }

    /// Moves the record of epochs out of the way, because it cannot be read or belongs to a checkpoint that is lost.
    pub fn set_records_aside(&self) -> Result<PathBuf, StoreError> {
        files::set_aside(&self.file("epochs.csv"))
    }

    /// The last status that was written, if any was.
    pub fn status(&self) -> Result<Option<Status>, StoreError> {
        self.read_json("status.json")
    }

    /// Writes the status.
    pub fn write_status(&self, status: &Status) -> Result<(), StoreError> {
        self.write_json("status.json", status)
    }

    /// How the trial stands now.
    pub fn state(&self) -> Result<State, StoreError> {
        let written = self.status()?.map_or(State::Waiting, |status| status.state);
        Ok(match written {
            over if over.is_over() => over,
            _ if self.holder().is_some() => State::Running,
            State::Running => State::Interrupted,
            other => other,
        })
    }

    /// With what, where and how it was run, if it was.
    pub fn environment(&self) -> Result<Option<Environment>, StoreError> {
        self.read_json("env.json")
    }

    /// Adds a stay in a process.
    pub fn add_session(&self, session: Session) -> Result<(), StoreError> {
        // A damaged file about the past must not keep the trial from going on.
        let earlier = match self.environment() {
            Ok(Some(environment)) => environment.earlier.into_iter().chain([environment.last]).collect(),
            _ => Vec::new(),
        };
        self.write_json("env.json", &Environment { last: session, earlier })
    }

    /// Path of a checkpoint.
    pub fn checkpoint(&self, name: CheckpointName) -> PathBuf {
        self.file(name.file_name())
    }

    /// Writes the last checkpoint, after keeping the one that was there as the previous one.
    pub fn write_last(&self, contents: &[u8]) -> Result<(), StoreError> {
        let last = self.checkpoint(CheckpointName::Last);
        if last.exists() {
            let previous = self.checkpoint(CheckpointName::Previous);
            std::fs::rename(&last, &previous).map_err(|error| StoreError::io("rename", &last, error))?;
        }
        files::write_whole(&last, contents)
    }

    /// Writes the best checkpoint.
    pub fn write_best(&self, contents: &[u8]) -> Result<(), StoreError> {
        files::write_whole(&self.checkpoint(CheckpointName::Best), contents)
    }

    /// Path of the weights after an epoch at which the trial was probed.
    pub fn snapshot(&self, epoch: usize) -> PathBuf {
        self.path.join("snapshots").join(format!("epoch-{epoch}.safetensors"))
    }

    /// The epochs of which there are weights, ascending.
    pub fn snapshots(&self) -> Vec<usize> {
        let entries = std::fs::read_dir(self.path.join("snapshots")).into_iter().flatten().flatten();
        let epoch = |entry: std::fs::DirEntry| {
            let name = entry.file_name();
            name.to_str()?.strip_prefix("epoch-")?.strip_suffix(".safetensors")?.parse().ok()
        };
        let mut epochs: Vec<usize> = entries.filter_map(epoch).collect();
        epochs.sort_unstable();
        epochs
    }

    /// Writes the weights after an epoch.
    pub fn write_snapshot(&self, epoch: usize, contents: &[u8]) -> Result<(), StoreError> {
        let folder = self.path.join("snapshots");
        std::fs::create_dir_all(&folder).map_err(|error| StoreError::io("make the folder", &folder, error))?;
        files::write_whole(&self.snapshot(epoch), contents)
    }

    /// The probes it has on record, by ascending epoch. A last line that was being written when the process died does not count.
    pub fn probes(&self) -> Result<Vec<ProbeRecord>, StoreError> {
        let path = self.file("probes.jsonl");
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(StoreError::io("read", &path, error)),
        };
        let complete = text.rfind('\n').map_or("", |end| &text[..end]);
        let parse = |(index, line): (usize, &str)| {
            serde_json::from_str(line)
                .map_err(|error| StoreError::broken(&path, format!("line {}: {error}", index + 1)))
        };
        complete.lines().enumerate().map(parse).collect()
    }

    /// Adds a probe, in the place of an earlier one of the same epoch; the caller holds the lock.
    pub fn record_probe(&self, _lock: &Lock, record: &ProbeRecord) -> Result<(), StoreError> {
        let mut probes = self.probes()?;
        probes.retain(|probe| probe.epoch != record.epoch);
        probes.push(record.clone());
        probes.sort_by_key(|probe| probe.epoch);
        self.write_probes(probes.iter())
    }

    fn write_probes<'a>(&self, probes: impl Iterator<Item = &'a ProbeRecord>) -> Result<(), StoreError> {
        let line = |probe| serde_json::to_string(probe).expect("plain fields can be written") + "\n";
        files::write_whole(&self.file("probes.jsonl"), probes.map(line).collect::<String>().as_bytes())
    }

    /// Forgets the probes after an epoch, which will be made again. A damaged file is kept aside, and its new name given.
    pub fn cut_probes(&self, epoch: usize) -> Result<Option<PathBuf>, StoreError> {
        let path = self.file("probes.jsonl");
        let probes = match self.probes() {
            Ok(probes) => probes,
            Err(StoreError::Broken { .. }) => return files::set_aside(&path).map(Some),
            Err(error) => return Err(error),
        };
        if path.exists() {
            self.write_probes(probes.iter().filter(|probe| probe.epoch <= epoch))?;
        }
        Ok(None)
    }

    /// Moves a checkpoint out of the way because it was refused, and gives its new name.
    pub fn refuse_checkpoint(&self, name: CheckpointName) -> Result<PathBuf, StoreError> {
        files::set_aside(&self.checkpoint(name))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    fn read_json<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, StoreError> {
        let path = self.file(name);
        match std::fs::read(&path) {
            Ok(bytes) => {
                serde_json::from_slice(&bytes).map(Some).map_err(|error| StoreError::broken(&path, error.to_string()))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::io("read", &path, error)),
        }
    }

    fn write_json<T: Serialize>(&self, name: &str, value: &T) -> Result<(), StoreError> {
        let mut text = serde_json::to_string_pretty(value).expect("plain fields can be written");
        text.push('\n');
        files::write_whole(&self.file(name), text.as_bytes())
    }
}
