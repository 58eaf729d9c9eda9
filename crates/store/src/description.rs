//! `experiment.toml`: what the run is about. Without it nothing can be read, so there is a copy of it.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use semfocus_core::Experiment;

use crate::check::{verify_checksum, with_checksum};
use crate::{Store, StoreError, files};

impl Store {
    /// The experiment it holds; if its file is damaged, as the copy has it.
    pub fn experiment(&self) -> Result<Experiment, StoreError> {
        match self.read_description(&self.experiment_path()) {
            Err(error @ StoreError::Damaged { .. }) => self.read_description(&self.copy_path()).map_err(|_| error),
            result => result,
        }
    }

    /// The text of `experiment.toml` as it is, by which a change is noticed; none if it is not there.
    pub fn description(&self) -> Result<Option<Vec<u8>>, StoreError> {
        files::read(&self.experiment_path())
    }

    /// When the experiment was described or the status of a trial written, whichever was last.
    pub fn last_written(&self) -> Option<SystemTime> {
        let statuses = self.folders().into_iter().flatten().map(|trial| trial.file("status.json"));
        let times = statuses.chain([self.experiment_path()]).map(|path| path.symlink_metadata()?.modified());
        times.filter_map(Result::ok).max()
    }

    /// Describes the experiment.
    pub(crate) fn write_experiment(&self, experiment: &Experiment) -> Result<(), StoreError> {
        let text = described(experiment);
        files::write_whole(&self.experiment_path(), text.as_bytes())?;
        files::write_whole(&self.copy_path(), text.as_bytes())
    }

    /// Whether the experiment is described in these very words.
    pub(crate) fn is_described_as(&self, experiment: &Experiment) -> Result<bool, StoreError> {
        let text = described(experiment);
        for path in [self.experiment_path(), self.copy_path()] {
            if files::read(&path)?.is_none_or(|present| present != text.as_bytes()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What is wrong with the descriptions of the experiment, with their paths. A process may have died before it wrote the copy.
    pub(crate) fn experiment_damage(&self) -> Result<Vec<(PathBuf, StoreError)>, StoreError> {
        let copy = Some(self.copy_path()).filter(|path| path.symlink_metadata().is_ok());
        let mut damage = Vec::new();
        for path in std::iter::once(self.experiment_path()).chain(copy) {
            match self.read_description(&path) {
                Ok(_) => {}
                Err(error @ StoreError::Io { .. }) => return Err(error),
                Err(error) => damage.push((path, error)),
            }
        }
        Ok(damage)
    }

    fn read_description(&self, path: &Path) -> Result<Experiment, StoreError> {
        let text = files::read_text(path)?.ok_or_else(|| StoreError::damaged(path, "it is missing"))?;
        let is_checked = verify_checksum(path, &text)?;
        if !is_checked && self.copy_path().symlink_metadata().is_err() {
            return Err(StoreError::Older { path: path.to_owned(), reason: "has no checksum, and no copy".to_owned() });
        }
        if !is_checked {
            return Err(StoreError::damaged(path, "its checksum is missing: it was changed after it was written"));
        }
        let name = path.display().to_string();
        Experiment::from_toml(&name, &text).map_err(|error| StoreError::damaged(path, error.in_short()))
    }

    pub(crate) fn experiment_path(&self) -> PathBuf {
        self.dir.join("experiment.toml")
    }

    pub(crate) fn copy_path(&self) -> PathBuf {
        self.dir.join("trials").join("experiment.toml")
    }
}

/// The experiment as it is stored.
fn described(experiment: &Experiment) -> String {
    with_checksum(&format!(
        "# The experiment of this folder; `semfocus run` on this file gives the same trials.\n\n{}",
        experiment.to_toml()
    ))
}
