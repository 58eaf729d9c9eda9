//! Finding damage in every file of a run, and repairing what needs no training.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use semfocus_core::{EpochRecord, Experiment};

use crate::checkpoint::{FORMAT_VERSION, Refused};
use crate::cursor::CUT_OFF;
use crate::{
    Checkpoint, CheckpointName, Cursor, EvaluationRecord, IndexEntry, Lease, Locks, RecordHash, SharpnessRecord, State,
    Store, StoreError, Taken, TrialReader, files, surface,
};

/// How often the files of a trial are read that a process is writing at that moment, before they count as damaged.
const ATTEMPTS: usize = 4;

/// Files of a trial that training makes and that nothing else can make.
const NEEDED: [&str; 5] = ["epochs.csv", "slices.csv", "probes.jsonl", "last.safetensors", "best.safetensors"];

/// The time between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

impl Store {
    /// Everything that is wrong with the files of the run. The experiment must be readable.
    pub fn damage(&self) -> Result<Vec<StoreError>, StoreError> {
        let (experiment, index, mut damage) = self.describe()?;
        damage.extend(self.measurements().err());
        damage.extend(self.tokenizer_damage());
        damage.extend(index.iter().flat_map(|entry| self.damage_of(entry, &experiment)));
        // Trials that need the same file all name it.
        let mut named = HashSet::new();
        damage.retain(|error| named.insert(error.to_string()));
        Ok(damage)
    }

    /// Everything that is wrong with the files of a trial. What a process is writing is read again: it may have been between two
    /// files.
    fn damage_of(&self, entry: &IndexEntry, experiment: &Experiment) -> Vec<StoreError> {
        let folder = self.trial(entry.id);
        for _ in 1..ATTEMPTS {
            let was_held = folder.holder().is_some();
            let damage = self.damage_now(entry, experiment);
            if damage.is_empty() || !(was_held || folder.holder().is_some()) {
                return damage;
            }
            std::thread::sleep(PAUSE);
        }
        self.damage_now(entry, experiment)
    }

    fn damage_now(&self, entry: &IndexEntry, experiment: &Experiment) -> Vec<StoreError> {
        let mut damage = Vec::new();
        let trial = self.read_trial(entry.clone(), experiment, &mut damage);
        if !trial.folder.exists() {
            return damage;
        }
        let mut found = trial.folder.damage(trial.state == State::Diverged);
        let origin = trial.settings.as_ref().and_then(|settings| settings.training.from);
        found.extend(origin.and_then(|origin| trial.folder.origin(&origin).err()));
        let tokenizer = trial.settings.as_ref().and_then(|settings| settings.tokenizer_checksum.as_ref());
        found.extend(tokenizer.and_then(|checksum| self.check_tokenizer(checksum).err()));
        if trial.state.is_over() {
            // Its last event may be half written: a process can be killed after it has noted that the trial is over.
            found.extend(trial.folder.cut_off(&["probes.jsonl", "slices.csv", "epochs.csv"]));
        }
        // What was named before is not named again.
        for error in found {
            if !damage.iter().any(|known| known.to_string() == error.to_string()) {
                damage.push(error);
            }
        }
        damage
    }

    /// Moves damaged files out of the way, and says so in words. What they held can then be made again by `semfocus run`: a trial that
    /// has lost something that training makes is not over any more. Every file is read again under the lease of its folder, and
    /// trials that another process works on are left alone.
    pub fn set_damage_aside(&self, locks: &Locks) -> Result<Vec<String>, StoreError> {
        let (experiment, index, _) = self.describe()?;
        let mut done = Vec::new();
        let trials = self.dir.join("trials");
        if (self.measurements().is_err() || !self.tokenizer_damage().is_empty())
            && let Some(_lease) = locks.wait(&trials, &self.dir, &mut |_| true)?
        {
            for error in self.measurements().err().into_iter().chain(self.tokenizer_damage()) {
                done.extend(aside(Some(error))?);
            }
        }
        for entry in &index {
            let folder = self.trial(entry.id);
            if self.damage_of(entry, &experiment).is_empty() {
                continue;
            }
            for path in surface::folders(&folder) {
                if surface::damage(&path).is_some()
                    && let Taken::Lease(_lease) = locks.take(&path)?
                {
                    done.extend(aside(surface::damage(&path))?);
                }
            }
            if let Taken::Lease(lease) = folder.lease(locks)? {
                let damage = self.damage_now(entry, &experiment);
                done.extend(repair(&folder, damage, &lease)?);
            }
        }
        Ok(done)
    }
}

/// Repairs a trial whose lease this process holds.
fn repair(folder: &TrialReader, damage: Vec<StoreError>, lease: &Lease) -> Result<Vec<String>, StoreError> {
    let (mut done, mut is_lost) = (Vec::new(), false);
    for error in damage {
        let StoreError::Damaged { path, .. } = &error else { continue };
        let is_in = |name: &str| files::folder_of(path).ends_with(name);
        let is_of_trial = files::folder_of(path) == folder.path();
        is_lost |= is_in("snapshots") || is_of_trial && NEEDED.iter().any(|name| path.ends_with(name));
        // Which snapshot is lost, training has to see: it sets the file aside itself.
        if is_of_trial || is_in("origins") {
            done.extend(aside(Some(error))?);
        }
    }
    if is_lost && folder.writer(lease).reopen()? {
        done.push(format!(
            "{} is no longer complete: the next run computes what is lost again",
            folder.path().display()
        ));
    }
    Ok(done)
}

/// Moves a damaged file out of the way, or cuts off half a line at its end.
fn aside(error: Option<StoreError>) -> Result<Option<String>, StoreError> {
    let Some(StoreError::Damaged { path, reason }) = error.filter(StoreError::is_about_a_file) else { return Ok(None) };
    if reason == CUT_OFF {
        Cursor::cut_half_line(&path)?;
        return Ok(Some(format!("half a line at the end of {} is cut off", path.display())));
    }
    let kept = files::set_aside(&path)?;
    Ok(Some(format!("{} is kept as {}", path.display(), kept.display())))
}

impl StoreError {
    /// Whether it names a damaged file that is there.
    fn is_about_a_file(&self) -> bool {
        matches!(self, StoreError::Damaged { path, .. } if path.symlink_metadata().is_ok_and(|found| found.is_file()))
    }
}

impl TrialReader {
    /// Everything that is wrong with the files of a trial that has begun.
    pub fn damage(&self, is_diverged: bool) -> Vec<StoreError> {
        let mut damage = self.damage_of_training(is_diverged);
        damage.extend(self.measured::<SharpnessRecord>().err());
        damage.extend(self.measured::<EvaluationRecord>().err());
        damage.extend(self.cut_off(&["sharpness.jsonl", "evaluations.jsonl"]));
        damage.extend(surface::folders(self).iter().filter_map(|path| surface::damage(path)));
        damage
    }

    /// The records among these that do not end with a whole line.
    fn cut_off(&self, names: &[&str]) -> Vec<StoreError> {
        names.iter().filter_map(|name| Cursor::half_line(&self.file(name))).collect()
    }

    /// What is wrong with the files that training writes and needs: without any of them, the trial is not over.
    pub fn damage_of_training(&self, is_diverged: bool) -> Vec<StoreError> {
        let mut damage: Vec<StoreError> = self.settings().err().into_iter().collect();
        // A process may be training. The record that is read after a checkpoint has the epochs that the checkpoint speaks of.
        let read = |name| {
            let path = self.checkpoint(name);
            let found = Checkpoint::read(&path, Some(self.id()));
            (name, path, found.map(|found| Checkpoint { tensors: BTreeMap::new(), ..found }))
        };
        let checkpoints = CheckpointName::ALL.map(read);
        let records = self.records().map_err(|error| damage.push(error)).unwrap_or_default();
        damage.extend(self.damage_of_notes());
        damage.extend(self.probes().err());
        damage.extend(self.slices().err());
        let snapshots = self.snapshots().map_err(|error| damage.push(error)).unwrap_or_default();
        let refused = |path: PathBuf| Some(Checkpoint::read(&path, Some(self.id())).err()?.into_error(&path));
        damage.extend(snapshots.into_iter().filter_map(|epoch| refused(self.snapshot(epoch))));
        // A process that died in the first epoch had not saved it yet.
        let epochs = self.status().ok().flatten().map_or(0, |status| status.epoch);
        let was_saved = epochs > 0 || records.len() > 1;
        for (name, path, found) in checkpoints {
            let is_needed = name != CheckpointName::Previous && was_saved && !is_diverged;
            match found {
                Err(refused) if refused.is_missing() => {
                    damage.extend(is_needed.then(|| StoreError::damaged(&path, "it is missing")));
                }
                // After an interruption the others may be from an epoch that is computed again.
                Ok(found) if found.is_ahead_of(&records) && name != CheckpointName::Last => {}
                found => {
                    let refused = found.and_then(|checkpoint| checkpoint.check_record(&records)).err();
                    damage.extend(refused.map(|refused| refused.into_error(&path)));
                }
            }
        }
        damage
    }

    /// What is wrong with the files that say how training goes, and that it does not need.
    pub fn damage_of_notes(&self) -> Vec<StoreError> {
        let events = self.events().read_from(&mut Cursor::default());
        [self.status().err(), self.environment().err(), events.err()].into_iter().flatten().collect()
    }
}

impl Checkpoint {
    /// Whether it is from an epoch that is not on record: it was saved before the epochs from there on were forgotten, to be
    /// computed again.
    pub fn is_ahead_of(&self, records: &[EpochRecord]) -> bool {
        self.progress.epoch > records.len()
    }

    /// Refuses a checkpoint that does not belong to the record of epochs of its trial.
    pub fn check_record(&self, records: &[EpochRecord]) -> Result<(), Refused> {
        let epoch = self.progress.epoch;
        let Some(before) = records.get(..epoch) else {
            let reason = format!("it is from epoch {epoch}, but epochs.csv has only {}", records.len());
            return Err(Refused::Contents(reason));
        };
        let hash = RecordHash::of(self.trial, before).to_string();
        if self.record.as_ref() != Some(&hash) {
            return Err(Refused::Contents("it was saved with another epochs.csv".to_owned()));
        }
        Ok(())
    }
}

impl Refused {
    /// The same as an error about a file: a passing one if the system refused to read it.
    pub fn into_error(self, path: &Path) -> StoreError {
        match self {
            Refused::Unreadable(error) => StoreError::io("read", path, error),
            Refused::Version(format) => StoreError::format(path, format, FORMAT_VERSION),
            damage => StoreError::damaged(path, damage.to_string()),
        }
    }
}
