//! Where a trial continues: found out first, from files that are only read, and then applied to its folder.

use std::path::PathBuf;

use semfocus_core::EpochRecord;
use semfocus_store::checkpoint::Refused;
use semfocus_store::{Checkpoint, CheckpointName, RecordHash, StoreError, TrialReader, TrialWriter};

use super::{Context, JobError};
use crate::Trial;
use crate::model_ref::best_epoch;
use crate::training::Trainer;

/// Where a trial continues, and what is wrong in its folder.
pub(super) struct Resume {
    /// Epochs and steps of the next one that the checkpoint to continue from has; zeros to begin.
    from: (usize, usize),
    /// The first epoch whose checkpoint or probe has to be made again.
    lost: Option<usize>,
    /// Files that are proven to be damaged, and how.
    set_aside: Vec<(PathBuf, String)>,
    /// The record of epochs.
    records: Vec<EpochRecord>,
    /// Epochs and steps of the next one that the last checkpoint has, damaged or not.
    last: (usize, usize),
}

impl Resume {
    /// Puts the trainer where the trial stopped: at the last checkpoint that is good, agrees with the record of epochs, and is from
    /// before whatever was lost. Only what is proven to be damaged counts as such; an error of the system ends the attempt. Nothing
    /// on the disk is changed.
    pub(super) fn find(trial: &Trial, folder: &TrialReader, trainer: &mut Trainer) -> Result<Self, JobError> {
        let (from, last) = ((0, 0), (0, 0));
        let mut resume = Resume { from, lost: None, set_aside: Vec::new(), records: Vec::new(), last };
        folder.damage_of_notes().into_iter().try_for_each(|damage| resume.note(damage))?;
        match folder.records() {
            Ok(records) => resume.records = records,
            Err(damage) => resume.note(damage)?,
        }
        let (good, has_best) = resume.checkpoints(trial, folder)?;
        resume.find_lost(trial, folder, &good, has_best)?;
        resume.find_lost_slices(folder, trainer.has_slices(0))?;
        for (path, checkpoint) in good {
            if resume.lost.is_some_and(|lost| checkpoint.progress.epoch >= lost) {
                continue;
            }
            match trainer.restore(checkpoint) {
                Ok(()) => break,
                Err(reason) => resume.set_aside.push((path, reason.to_string())),
            }
        }
        resume.from = (trainer.progress().epoch, trainer.progress().step);
        Ok(resume)
    }

    /// Notes damage; any other error is returned.
    fn note(&mut self, error: StoreError) -> Result<(), StoreError> {
        match error {
            StoreError::Damaged { path, reason } => self.set_aside.push((path, reason.to_string())),
            error => return Err(error),
        }
        Ok(())
    }

    /// The checkpoints that agree with the record, the last one first, and whether the best one is readable.
    fn checkpoints(
        &mut self,
        trial: &Trial,
        folder: &TrialReader,
    ) -> Result<(Vec<(PathBuf, Checkpoint)>, bool), StoreError> {
        let (mut good, mut has_best) = (Vec::new(), false);
        for name in CheckpointName::ALL {
            let path = folder.checkpoint(name);
            let read = Checkpoint::read(&path, Some(trial.id));
            if read.as_ref().is_err_and(Refused::is_missing) {
                continue;
            }
            if let Ok(Checkpoint { progress, .. }) = &read {
                has_best |= name == CheckpointName::Best;
                if name == CheckpointName::Last {
                    self.last = (progress.epoch, progress.step);
                }
            }
            let checked = read.and_then(|checkpoint| {
                // The epoch of one that is ahead is computed again, to the same weights.
                let is_ahead = checkpoint.is_ahead_of(&self.records);
                if !is_ahead {
                    checkpoint.check_record(&self.records)?;
                }
                Ok((!is_ahead).then_some(checkpoint))
            });
            match checked {
                Ok(checkpoint) => good.extend(checkpoint.map(|checkpoint| (path, checkpoint))),
                Err(reason) => self.note(reason.into_error(&path))?,
            }
        }
        Ok((good, has_best))
    }

    /// Finds the first epoch whose best checkpoint, probe or snapshot is gone.
    fn find_lost(
        &mut self,
        trial: &Trial,
        folder: &TrialReader,
        good: &[(PathBuf, Checkpoint)],
        has_best: bool,
    ) -> Result<(), StoreError> {
        let probing = trial.settings.probing;
        let saved = good.iter().map(|(_, checkpoint)| checkpoint.progress.epoch).max().unwrap_or(0);
        self.lost = best_epoch(&self.records[..saved]).filter(|_| !has_best);
        if let Err(StoreError::Damaged { path, reason }) = folder.probes() {
            if path.exists() {
                self.set_aside.push((path, reason.to_string()));
            }
            self.lost = if probing.every > 0 { Some(0) } else { self.lost };
        }
        for epoch in folder.snapshots()? {
            let path = folder.snapshot(epoch);
            if let Err(reason) = Checkpoint::read(&path, Some(trial.id)) {
                self.note(reason.into_error(&path))?;
                self.lost = self.lost.into_iter().chain(probing.is_due(epoch).then_some(epoch)).min();
            }
        }
        Ok(())
    }

    /// Notes damaged slices: those of all epochs are recorded again.
    fn find_lost_slices(&mut self, folder: &TrialReader, has_slices: bool) -> Result<(), StoreError> {
        match folder.slices() {
            Err(StoreError::Damaged { path, reason }) => {
                if path.exists() {
                    self.set_aside.push((path, reason));
                }
                self.lost = if has_slices { Some(0) } else { self.lost };
                Ok(())
            }
            other => other.map(|_| ()),
        }
    }

    /// Sets damaged files aside and forgets what is computed again, to the same bits. Returns the hash of the record up to where the
    /// trial continues. `checkpoint` makes the bytes of a checkpoint there.
    pub(super) fn apply(
        self,
        trial: &Trial,
        folder: &TrialWriter<'_>,
        checkpoint: impl FnOnce(RecordHash) -> Vec<u8>,
        context: &Context<'_>,
    ) -> Result<RecordHash, JobError> {
        for (path, reason) in &self.set_aside {
            let kept = folder.set_aside(path)?;
            let kept = kept.file_name().unwrap_or_default().display();
            context.warn(format!("{} is refused: {reason}. It is kept as {kept}", path.display()));
        }
        let ((epoch, step), (recorded, complete)) = (self.from, (self.records.len(), self.last.0));
        if complete > recorded {
            context.warn(format!("epochs.csv has only {recorded} of the {complete} epochs that were complete"));
        }
        let goes_back = !self.set_aside.is_empty() || self.lost.is_some() || complete > recorded;
        if goes_back {
            let from = if epoch == 0 { "starts again".to_owned() } else { format!("resumes after epoch {epoch}") };
            context.warn(format!("{} {from}", trial.title()));
        }
        folder.cut_records(epoch, goes_back)?;
        // The untrained model is probed before the first step.
        let first_probe = if self.from == (0, 0) { 0 } else { epoch + 1 };
        if let Some(kept) = folder.cut_probes(first_probe, goes_back)? {
            context.warn(format!("the probes after epoch {epoch} are made again; the old ones are {}", kept.display()));
        }
        // Those of the untrained model are written before its record.
        let first_slices = if folder.curve()?.0.is_some() { epoch + 1 } else { 0 };
        if let Some(kept) = folder.cut_slices(first_slices, goes_back)? {
            context.warn(format!(
                "the slices after epoch {epoch} are recorded again; the old ones are {}",
                kept.display()
            ));
        }
        let hash = RecordHash::of(trial.id, &self.records[..epoch]);
        if self.last != (epoch, step) {
            folder.write_last(&checkpoint(hash))?;
        }
        Ok(hash)
    }
}
