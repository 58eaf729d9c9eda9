//! `experiment.toml`: what the run is about. Without it nothing can be read, so there is a copy of it.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use semfocus_core::Experiment;

use crate::check::{check, verify_checksum, with_checksum};
use crate::{IndexEntry, Store, StoreError, files, index};

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

    /// Describes the experiment and lists its trials.
    pub(crate) fn write_experiment(&self, experiment: &Experiment, trials: &[IndexEntry]) -> Result<(), StoreError> {
        let list = index::text(trials);
        files::write_whole(&self.index_path(), list.as_bytes())?;
        let text = described(experiment, &list);
        files::write_whole(&self.experiment_path(), text.as_bytes())?;
        files::write_whole(&self.copy_path(), text.as_bytes())
    }

    /// Whether the experiment is described in these very words.
    pub(crate) fn is_described_as(&self, experiment: &Experiment, trials: &[IndexEntry]) -> Result<bool, StoreError> {
        let text = described(experiment, &index::text(trials));
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

    /// Refuses a list of trials that is not the one of the experiment. Version 0.2.0 did not write down which one is.
    pub(crate) fn check_list(&self, list: &str) -> Result<(), StoreError> {
        let text = |path: PathBuf| files::read_text(&path).ok()?.filter(|text| verify_checksum(&path, text).is_ok());
        let text = text(self.experiment_path()).or_else(|| text(self.copy_path())).unwrap_or_default();
        let expected = text.lines().rev().find_map(|line| line.strip_prefix(LIST_LINE));
        if expected.is_none_or(|expected| expected == check("", list)) {
            return Ok(());
        }
        let reason =
            "it is not the list of the trials in experiment.toml: one of the two files is older, or of another run";
        Err(StoreError::damaged(&self.index_path(), reason))
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

/// What stands before the checksum of the list of trials.
const LIST_LINE: &str = "# checksum of trials.csv: ";

/// The experiment as it is stored next to a list of trials.
fn described(experiment: &Experiment, list: &str) -> String {
    with_checksum(&format!(
        "# The experiment of this folder; `semfocus run` on this file gives the same trials.\n\n{}\n{LIST_LINE}{}",
        experiment.to_toml(),
        check("", list)
    ))
}
