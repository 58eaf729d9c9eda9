//! The weights of other runs that trials start with. A run has its own copy of them, so that it does not need the other run.

use std::path::{Path, PathBuf};

use semfocus_core::Origin;

use crate::checkpoint::Refused;
use crate::{Checkpoint, CheckpointName, Store, StoreError, TrialReader, files};

impl Store {
    /// Keeps the weights of another run for the trials that use them. A copy that is there and good stays as it is.
    pub fn keep_origin(&self, origin: &Origin, weights: &Checkpoint) -> Result<(), StoreError> {
        let path = origin_path(&self.dir, origin);
        if read(&path, origin).is_ok() {
            return Ok(());
        }
        files::create_folder(files::folder_of(&path))?;
        files::write_whole(&path, &weights.clone().weights_only().to_bytes())
    }
}

impl TrialReader {
    /// The weights of another run that the trial uses, out of the copy that its run has.
    pub fn origin(&self, origin: &Origin) -> Result<Checkpoint, StoreError> {
        let path = origin_path(self.run(), origin);
        if path.symlink_metadata().is_err() {
            let reason = "it is missing; `semfocus run` with `--from` copies it again";
            return Err(StoreError::damaged(&path, reason));
        }
        read(&path, origin).map_err(|refused| refused.into_error(&path))
    }

    /// The weights of the trial after an epoch, out of any of its files that has them: checkpoints and snapshots.
    pub fn weights_after(&self, epoch: usize) -> Result<Checkpoint, StoreError> {
        let files = CheckpointName::ALL.map(|name| self.checkpoint(name)).into_iter().chain([self.snapshot(epoch)]);
        let mut wrong = None;
        for path in files.filter(|path| path.symlink_metadata().is_ok()) {
            match Checkpoint::read(&path, Some(self.id())) {
                Ok(found) if found.progress.epoch == epoch && found.progress.step == 0 => return Ok(found),
                Ok(_) => {}
                Err(refused) => wrong = Some(refused.into_error(&path)),
            }
        }
        // A damaged file may have had them.
        Err(wrong.unwrap_or_else(|| self.no_weights(format!("it has no weights from after epoch {epoch}"))))
    }

    /// The weights in a checkpoint, and after how many epochs they are.
    pub fn weights_in(&self, name: CheckpointName) -> Result<Checkpoint, StoreError> {
        let path = self.checkpoint(name);
        if path.symlink_metadata().is_err() {
            return Err(self.no_weights(format!("it has no {}", name.file_name())));
        }
        let found = Checkpoint::read(&path, Some(self.id())).map_err(|refused| refused.into_error(&path))?;
        if found.progress.step > 0 {
            let reason = format!("{} is from within epoch {}", name.file_name(), found.progress.epoch + 1);
            return Err(self.no_weights(reason));
        }
        Ok(found)
    }

    fn no_weights(&self, reason: String) -> StoreError {
        let read = |path: PathBuf| Checkpoint::read(&path, Some(self.id())).ok();
        let named = CheckpointName::ALL.iter().filter_map(|name| read(self.checkpoint(*name)));
        let named = named.filter(|found| found.progress.step == 0).map(|found| found.progress.epoch);
        let mut kept: Vec<usize> = named.chain(self.snapshots().unwrap_or_default()).collect();
        kept.sort_unstable();
        kept.dedup();
        StoreError::NoWeights { path: self.path().to_owned(), reason, kept }
    }
}

fn read(path: &Path, origin: &Origin) -> Result<Checkpoint, Refused> {
    let found = Checkpoint::read(path, Some(origin.trial))?;
    if (found.progress.epoch, found.weights_checksum()) != (origin.epoch, origin.weights) {
        return Err(Refused::Contents(format!("it does not hold the weights {origin}")));
    }
    Ok(found)
}

fn origin_path(run: &Path, origin: &Origin) -> PathBuf {
    let Origin { trial, epoch, weights } = origin;
    run.join("origins").join(format!("{trial}-{epoch}-{weights:016x}.safetensors"))
}
