//! Finding damage in every file of a run, and setting it aside.

use std::path::{Path, PathBuf};

use semfocus_core::EpochRecord;

use crate::checkpoint::{FORMAT_VERSION, Refused};
use crate::{
    Checkpoint, CheckpointName, Cursor, EvaluationRecord, Locks, RecordHash, SharpnessRecord, State, Store, StoreError,
    Taken, TrialReader, files,
};

impl Store {
    /// Everything that is wrong with the files of the run. The experiment must be readable.
    pub fn damage(&self) -> Result<Vec<StoreError>, StoreError> {
        let contents = self.read()?;
        let mut damage = contents.damage;
        for trial in contents.trials.iter().filter(|trial| trial.folder.exists()) {
            let is_diverged = trial.state == State::Diverged;
            let training = trial.settings.as_ref().map(|settings| &settings.training);
            let origin = training.and_then(|training| training.from);
            let of_origin = origin.and_then(|origin| trial.folder.origin(&origin).err());
            // What was named before is not named again.
            for error in trial.folder.damage(is_diverged).into_iter().chain(of_origin) {
                if !damage.iter().any(|known| known.to_string() == error.to_string()) {
                    damage.push(error);
                }
            }
        }
        Ok(damage)
    }

    /// Moves damaged files out of the way, and gives their old and new names. What they held can then be made again by
    /// `semfocus run`. Files that another process works on are left alone.
    pub fn set_damage_aside(
        &self,
        damage: &[StoreError],
        locks: &Locks,
    ) -> Result<Vec<(PathBuf, PathBuf)>, StoreError> {
        let mut moved = Vec::new();
        for error in damage {
            let StoreError::Damaged { path, .. } = error else { continue };
            // The descriptions of the experiment are repaired from its plan.
            if path.parent() == Some(&self.dir) || !path.starts_with(&self.dir) || !path.exists() {
                continue;
            }
            let Taken::Lease(_lease) = locks.take(leased_folder(path))? else { continue };
            moved.push((path.clone(), files::set_aside(path)?));
        }
        Ok(moved)
    }
}

/// The folder whose lease a process holds that writes a file: the weights that a trial keeps are in a folder of their own.
fn leased_folder(path: &Path) -> &Path {
    let folder = files::folder_of(path);
    if folder.ends_with("snapshots") { files::folder_of(folder) } else { folder }
}

impl TrialReader {
    /// Everything that is wrong with the files of a trial that has begun.
    pub fn damage(&self, is_diverged: bool) -> Vec<StoreError> {
        let mut damage = self.damage_of_training(is_diverged);
        damage.extend(self.measured::<SharpnessRecord>().err());
        damage.extend(self.measured::<EvaluationRecord>().err());
        damage.extend(self.surfaces().1);
        damage
    }

    /// What is wrong with the files that training writes and needs: without any of them, the trial is not over.
    pub fn damage_of_training(&self, is_diverged: bool) -> Vec<StoreError> {
        let mut damage: Vec<StoreError> = self.settings().err().into_iter().collect();
        let records = self.records().map_err(|error| damage.push(error)).unwrap_or_default();
        damage.extend(self.damage_of_notes());
        damage.extend(self.probes().err());
        let snapshots = self.snapshots().into_iter().map(|epoch| self.snapshot(epoch));
        let refused = |path: PathBuf| Some(Checkpoint::read(&path, Some(self.id())).err()?.into_error(&path));
        damage.extend(snapshots.filter_map(refused));
        for name in CheckpointName::ALL {
            let path = self.checkpoint(name);
            let is_needed = name != CheckpointName::Previous && !records.is_empty() && !is_diverged;
            if path.symlink_metadata().is_err() {
                damage.extend(is_needed.then(|| StoreError::damaged(&path, "it is missing")));
                continue;
            }
            // After an interruption the others may be from an epoch that is computed again.
            let is_ahead = |found: &Checkpoint| found.is_ahead_of(&records) && name != CheckpointName::Last;
            match Checkpoint::read(&path, Some(self.id())) {
                Ok(checkpoint) if is_ahead(&checkpoint) => {}
                result => {
                    let refused = result.and_then(|checkpoint| checkpoint.check_record(&records)).err();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_tools::{Scratch, lease};

    #[test]
    fn the_files_of_a_trial_that_another_process_works_on_are_left_alone() {
        let scratch = Scratch::new("verify-held");
        let (store, locks) = (Store::at(scratch.path()), Locks::flock());
        let trial = store.trial("0123456789abcdef".parse().unwrap());
        trial.writer(&lease(trial.path())).write_snapshot(4, b"damaged").unwrap();
        let damage = [StoreError::damaged(&trial.snapshot(4), "it is damaged")];
        let held = trial.lease(&locks).unwrap();
        assert_eq!(store.set_damage_aside(&damage, &locks).unwrap(), [], "a trainer may be writing it");
        drop(held);
        assert_eq!(store.set_damage_aside(&damage, &locks).unwrap().len(), 1);
        assert!(!trial.snapshot(4).exists() && !trial.path().join("snapshots/lock").exists());
    }
}
