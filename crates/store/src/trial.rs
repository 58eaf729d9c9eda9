//! The folder of one trial: what can be read, and what is written under its lease.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use semfocus_core::{EpochRecord, TrialId, TrialSettings};

use crate::check::{verify_checksum, with_checksum};
use crate::cursor::Cursor;
use crate::files::Aside;
use crate::lease::{self, Lease, Locks, Taken};
use crate::records::{Epochs, Log, Measured, ProbeRecord, Recorded, SliceRecord, Slices, latest};
use crate::{Environment, EventLog, Holder, Session, State, Status, Store, StoreError, disk, files, finished, utc_now};

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
    /// All of them, in the order in which a trial that resumes tries them.
    pub const ALL: [CheckpointName; 3] = [CheckpointName::Last, CheckpointName::Previous, CheckpointName::Best];

    /// Name of the file.
    pub fn file_name(self) -> &'static str {
        match self {
            CheckpointName::Last => "last.safetensors",
            CheckpointName::Previous => "previous.safetensors",
            CheckpointName::Best => "best.safetensors",
        }
    }
}

/// The folder of one trial, to read from. Whoever holds its lease can [write](TrialReader::writer) to it.
#[derive(Clone, Debug)]
pub struct TrialReader {
    path: PathBuf,
    id: TrialId,
}

impl TrialReader {
    /// The folder of a trial at a path, whether it is there or not.
    pub fn new(path: PathBuf, id: TrialId) -> Self {
        TrialReader { path, id }
    }

    /// The folder at a path whose name is the id of a trial.
    fn named(path: PathBuf) -> Option<Self> {
        // In the folder itself, its path may be `.`.
        let full = if path.file_name().is_some() { path.clone() } else { path.canonicalize().ok()? };
        let id = full.file_name()?.to_str().filter(|name| name.len() == 16)?.parse().ok()?;
        Some(TrialReader { path, id })
    }

    /// The trial that a person names: a folder, or `RUN/ID` or `RUN/trials/ID`, where the first digits of the id are
    /// enough.
    pub fn find(path: &Path) -> Result<Self, StoreError> {
        if let Some(here) = TrialReader::named(path.to_owned()).filter(Self::exists) {
            return Ok(here);
        }
        if Store::is_store(path) {
            return Err(StoreError::RunForTrial { path: path.to_owned() });
        }
        let prefix = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let parent = match path.parent() {
            Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
            Some(parent) => parent,
            None => path,
        };
        let mut found = Vec::new();
        for dir in [parent.to_owned(), parent.join("trials")] {
            let names = disk::list(&dir).unwrap_or_default();
            let fitting = names.iter().filter(|name| name.to_string_lossy().starts_with(&prefix));
            found.extend(fitting.filter_map(|name| TrialReader::named(dir.join(name))).filter(Self::exists));
        }
        let wrong = |reason: String| StoreError::NoTrial { path: path.to_owned(), reason };
        match &found[..] {
            [one] => Ok(one.clone()),
            [] => Err(wrong("there is no such folder".to_owned())),
            several => {
                let names: Vec<String> = several.iter().map(|trial| trial.path.display().to_string()).collect();
                Err(wrong(format!("it could be any of {}", names.join(", "))))
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of its run: the trial is RUN/trials/ID.
    pub fn run(&self) -> &Path {
        self.path.parent().and_then(Path::parent).unwrap_or(Path::new(".."))
    }

    /// The trial.
    pub fn id(&self) -> TrialId {
        self.id
    }

    /// Whether the trial has begun. One whose files the system does not show has.
    pub fn exists(&self) -> bool {
        ["trial.toml", "epochs.csv", "last.safetensors"].iter().any(|name| disk::may_exist(&self.file(name)))
    }

    /// Takes the lease of the folder, or says who has it.
    pub fn lease(&self, locks: &Locks) -> Result<Taken, StoreError> {
        locks.take(&self.path)
    }

    /// Writes to the folder, whose lease this process holds.
    ///
    /// # Panics
    /// If the lease is that of another folder.
    pub fn writer<'a>(&'a self, lease: &'a Lease) -> TrialWriter<'a> {
        assert_eq!(lease.folder(), self.path, "a trial is written under its own lease");
        TrialWriter { trial: self, lease: PhantomData }
    }

    /// Who works on it, if anybody does.
    pub fn holder(&self) -> Option<Option<Holder>> {
        lease::holder(&self.path)
    }

    /// The settings it was begun with.
    pub fn settings(&self) -> Result<TrialSettings, StoreError> {
        let path = self.file("trial.toml");
        let text = files::read_text(&path)?.ok_or_else(|| StoreError::damaged(&path, "it is missing"))?;
        verify_checksum(&path, &text)?;
        let table: toml::Table =
            text.parse().map_err(|error: toml::de::Error| StoreError::damaged(&path, error.message()))?;
        let settings = TrialSettings::from_table(&table).map_err(|reason| StoreError::damaged(&path, reason))?;
        let id = TrialId::new(&settings);
        if id != self.id {
            return Err(StoreError::damaged(&path, format!("it has the settings of trial {id}")));
        }
        Ok(settings)
    }

    /// The epochs it has on record, from the first on.
    pub fn records(&self) -> Result<Vec<EpochRecord>, StoreError> {
        Ok(self.epochs().read()?.epochs)
    }

    /// The lines that were added to its record of epochs after the cursor, that of epoch 0 included.
    pub(crate) fn records_from(&self, cursor: &mut Cursor) -> Result<Vec<EpochRecord>, StoreError> {
        self.epochs().read_from(cursor)
    }

    /// The untrained model, as epoch 0, and the epochs.
    pub fn curve(&self) -> Result<(Option<EpochRecord>, Vec<EpochRecord>), StoreError> {
        let Recorded { untrained, epochs } = self.epochs().read()?;
        Ok((untrained, epochs))
    }

    /// Path of the record of epochs.
    pub fn record_path(&self) -> PathBuf {
        self.file("epochs.csv")
    }

    /// The last status that was written, if any was.
    pub fn status(&self) -> Result<Option<Status>, StoreError> {
        Status::read(&self.file("status.json"), &self.owner())
    }

    /// How the trial stands now, by its record of epochs and, where that does not say enough, by its status. A status that
    /// cannot be read is as good as none.
    pub fn state(&self, recorded: usize, planned: usize) -> State {
        self.state_with(self.status().ok().flatten().as_ref(), recorded, planned, || self.holder().is_some())
    }

    /// The same with a status that was read before.
    pub(crate) fn state_with(
        &self,
        status: Option<&Status>,
        recorded: usize,
        planned: usize,
        is_held: impl FnOnce() -> bool,
    ) -> State {
        match Status::state_with(status, recorded, planned) {
            over if over.is_over() => over,
            _ if is_held() => State::Running,
            State::Waiting if self.exists() => State::Interrupted,
            other => other,
        }
    }

    /// With what, where and how it was run, if it was.
    pub fn environment(&self) -> Result<Option<Environment>, StoreError> {
        files::read_json(&self.file("env.json"))
    }

    /// Path of a checkpoint.
    pub fn checkpoint(&self, name: CheckpointName) -> PathBuf {
        self.file(name.file_name())
    }

    /// Whether it has a checkpoint, or one that the system does not show.
    pub fn has_checkpoint(&self) -> bool {
        CheckpointName::ALL.iter().any(|name| disk::may_exist(&self.checkpoint(*name)))
    }

    /// Bytes of a checkpoint; none if there is no such file.
    pub fn checkpoint_size(&self, name: CheckpointName) -> Option<u64> {
        let found = self.checkpoint(name).symlink_metadata().ok()?;
        found.is_file().then_some(found.len())
    }

    /// Path of the weights after an epoch at which the trial was probed.
    pub fn snapshot(&self, epoch: usize) -> PathBuf {
        self.path.join("snapshots").join(format!("epoch-{epoch}.safetensors"))
    }

    /// The epochs whose weights were kept, ascending.
    pub fn snapshots(&self) -> Result<Vec<usize>, StoreError> {
        let folder = self.path.join("snapshots");
        let names = disk::list(&folder).map_err(|error| StoreError::io("read the folder", &folder, error))?;
        let epoch = |name: &OsString| name.to_str()?.strip_prefix("epoch-")?.strip_suffix(".safetensors")?.parse().ok();
        let mut epochs: Vec<usize> = names.iter().filter_map(epoch).collect();
        epochs.sort_unstable();
        Ok(epochs)
    }

    /// The probes on record, by ascending epoch: of several at one epoch the one with the most examples, and of those the
    /// last.
    pub fn probes(&self) -> Result<Vec<ProbeRecord>, StoreError> {
        // A status that cannot be read is another matter. It is read first, because a process may be adding probes.
        let expected = self.status().ok().flatten().map_or(0, |status| status.probes);
        let probes = self.log::<ProbeRecord>().read()?;
        if probes.len() < expected {
            let reason = format!("it has {} of the {expected} probes that were complete", probes.len());
            return Err(StoreError::damaged(self.log::<ProbeRecord>().path(), reason));
        }
        Ok(latest(probes))
    }

    /// Number of probes on record, all of them.
    pub fn probe_count(&self) -> Result<usize, StoreError> {
        self.log::<ProbeRecord>().count()
    }

    /// Loss and accuracy by properties of the questions: epoch after epoch, slice after slice, by ascending value.
    pub fn slices(&self) -> Result<Vec<SliceRecord>, StoreError> {
        let expected = self.status().ok().flatten().map_or(0, |status| status.slices);
        let slices = self.slice_table().read()?;
        if slices.len() < expected {
            let reason = format!("it has {} of the {expected} lines that were complete", slices.len());
            return Err(StoreError::damaged(self.slice_table().path(), reason));
        }
        Ok(slices)
    }

    /// Number of lines of `slices.csv` without its header.
    pub fn slice_count(&self) -> Result<usize, StoreError> {
        self.slice_table().count()
    }

    /// What was measured on the trial's models, by ascending epoch: of several records about the same the last.
    pub fn measured<T: Measured>(&self) -> Result<Vec<T>, StoreError> {
        Ok(latest(self.log::<T>().read()?))
    }

    /// What happened while the trial was worked on.
    pub fn events(&self) -> EventLog {
        EventLog::new(&self.path)
    }

    fn epochs(&self) -> Epochs {
        Epochs::new(self.record_path(), self.owner())
    }

    fn slice_table(&self) -> Slices {
        Slices::new(self.file("slices.csv"), self.owner())
    }

    fn log<T: Measured>(&self) -> Log<T> {
        Log::new(self.file(T::FILE), self.owner())
    }

    /// What the checksums of its lines are made with.
    fn owner(&self) -> String {
        self.id.to_string()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

/// The folder of one trial, to write to: it borrows the lease of the folder.
#[derive(Debug)]
pub struct TrialWriter<'a> {
    trial: &'a TrialReader,
    lease: PhantomData<&'a Lease>,
}

impl std::ops::Deref for TrialWriter<'_> {
    type Target = TrialReader;

    fn deref(&self) -> &TrialReader {
        self.trial
    }
}

impl TrialWriter<'_> {
    /// Writes the settings, if they are not there already. A damaged file is kept aside, and its new name given.
    pub fn write_settings(&self, settings: &TrialSettings) -> Result<Option<PathBuf>, StoreError> {
        let path = self.file("trial.toml");
        let text = with_checksum(&toml::to_string(&settings.to_table()).expect("settings are plain values"));
        let kept = match self.settings() {
            // What does not belong to the identity, such as the number of epochs, may have changed.
            Ok(_) if files::read(&path)?.is_some_and(|present| present == text.as_bytes()) => return Ok(None),
            Err(StoreError::Damaged { .. }) if path.exists() => Some(files::set_aside(&path)?),
            Ok(_) | Err(StoreError::Damaged { .. }) => None,
            Err(error) => return Err(error),
        };
        files::write_whole(&path, text.as_bytes())?;
        Ok(kept)
    }

    /// Adds epochs; the first one is epoch 0, the untrained model.
    pub fn append_records(&self, records: &[EpochRecord]) -> Result<(), StoreError> {
        self.epochs().append(records)
    }

    /// Forgets the epochs after the first `epochs`, which will be computed again; what was there is kept aside if asked
    /// for.
    pub fn cut_records(&self, epochs: usize, keep_aside: bool) -> Result<(), StoreError> {
        let log = self.epochs();
        if keep_aside {
            let recorded = log.read()?;
            if recorded.epochs.len() > epochs {
                files::set_aside(log.path())?;
                let kept = recorded.untrained.into_iter().chain(recorded.epochs.into_iter().take(epochs));
                return log.append(&kept.collect::<Vec<_>>());
            }
        }
        log.cut(epochs)
    }

    /// Moves a file of the trial out of the way because it is damaged, and gives its new name.
    pub fn set_aside(&self, path: &Path) -> Result<PathBuf, StoreError> {
        files::set_aside(path)
    }

    /// Writes the status. A trial that is over is added to the list of those that ended.
    pub fn write_status(&self, status: &Status) -> Result<(), StoreError> {
        status.write(&self.file("status.json"), &self.owner())?;
        if status.state.is_over() {
            finished::append(self.path(), self.id(), status);
        }
        Ok(())
    }

    /// Says that a trial that was over is not, because files of it are lost: the next run makes them again. Says whether it was over.
    pub fn reopen(&self) -> Result<bool, StoreError> {
        let Some(before) = self.status().ok().flatten().filter(|status| status.state.is_over()) else {
            return Ok(false);
        };
        let status = Status { state: State::Interrupted, diverged_in: None, updated: utc_now(), ..before };
        self.write_status(&status)?;
        finished::append(self.path(), self.id(), &status);
        Ok(true)
    }

    /// Adds a session.
    pub fn add_session(&self, session: Session) -> Result<(), StoreError> {
        // A damaged file about the past must not keep the trial from going on.
        let (earlier, accepted_code) = match self.environment() {
            Ok(Some(Environment { last, mut earlier, accepted_code })) => {
                earlier.push(last);
                (earlier, accepted_code)
            }
            _ => Default::default(),
        };
        files::write_json(&self.file("env.json"), &Environment { last: session, earlier, accepted_code })
    }

    /// Notes that other code of one's own mechanisms and tasks counts as that which made the trial. Without sessions there is nothing
    /// to note.
    pub fn accept_code(&self, code: &BTreeMap<String, String>) -> Result<(), StoreError> {
        let Some(mut environment) = self.environment()? else { return Ok(()) };
        environment.accepted_code.push(code.clone());
        files::write_json(&self.file("env.json"), &environment)
    }

    /// Writes the last checkpoint, after keeping the one that was there as the previous one. There is a last one at every
    /// moment.
    pub fn write_last(&self, contents: &[u8]) -> Result<(), StoreError> {
        let last = self.checkpoint(CheckpointName::Last);
        let failed = |error| StoreError::io("write", &last, error);
        let aside = Aside::new(&last).map_err(failed)?;
        aside.write(contents).map_err(failed)?;
        if last.exists() {
            files::keep_as(&last, &self.checkpoint(CheckpointName::Previous))?;
        }
        aside.rename_to(&last).map_err(failed)
    }

    /// Writes the best checkpoint.
    pub fn write_best(&self, contents: &[u8]) -> Result<(), StoreError> {
        files::write_whole(&self.checkpoint(CheckpointName::Best), contents)
    }

    /// Writes the weights after an epoch.
    pub fn write_snapshot(&self, epoch: usize, contents: &[u8]) -> Result<(), StoreError> {
        files::create_folder(&self.path.join("snapshots"))?;
        files::write_whole(&self.snapshot(epoch), contents)
    }

    /// Adds a record of a measurement. Numbers that are not finite are refused: they could not be read again.
    pub fn add<T: Measured>(&self, record: &T) -> Result<(), StoreError> {
        self.log().append_finite(record)
    }

    /// Adds the slices of an epoch.
    pub fn append_slices(&self, slices: &[SliceRecord]) -> Result<(), StoreError> {
        self.slice_table().append(slices)
    }

    /// Forgets the slices from an epoch on, which will be recorded again. What was there is kept as [probes](Self::cut_probes) are.
    pub fn cut_slices(&self, first: usize, keep_aside: bool) -> Result<Option<PathBuf>, StoreError> {
        let table = self.slice_table();
        let records = match table.read() {
            Ok(records) => records,
            Err(StoreError::Damaged { .. }) => return files::set_aside(table.path()).map(Some),
            Err(error) => return Err(error),
        };
        let earlier = records.partition_point(|record| record.epoch < first);
        if !keep_aside || earlier == records.len() {
            return table.cut(earlier).map(|()| None);
        }
        let kept = files::set_aside(table.path())?;
        table.append(&records[..earlier])?;
        Ok(Some(kept))
    }

    /// Forgets the probes from an epoch on, which will be made again. If `keep_aside`, because the trial goes further back
    /// than training itself ever does, or if the file is damaged, what was there is kept, and its new name given.
    pub fn cut_probes(&self, first: usize, keep_aside: bool) -> Result<Option<PathBuf>, StoreError> {
        let log = self.log::<ProbeRecord>();
        let records = match log.read() {
            Ok(records) => records,
            Err(StoreError::Damaged { .. }) => return files::set_aside(log.path()).map(Some),
            Err(error) => return Err(error),
        };
        if !keep_aside || records.iter().all(|probe| probe.epoch < first) {
            return log.cut(|probe| probe.epoch >= first).map(|()| None);
        }
        let kept = files::set_aside(log.path())?;
        let earlier = records.iter().take_while(|probe| probe.epoch < first);
        earlier.into_iter().try_for_each(|probe| log.append(probe))?;
        Ok(Some(kept))
    }
}
