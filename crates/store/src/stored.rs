//! Everything that a run has on record. What cannot be read is left out and named; one bad file costs one trial at most.

use std::collections::HashSet;

use semfocus_core::settings::find;
use semfocus_core::{EpochRecord, Experiment, Point, TrialId, TrialSettings};

use crate::{
    Damage, IndexEntry, RunData, SharpnessData, SharpnessRecord, State, Status, Store, StoreError, SurfaceData,
    TrialData, TrialReader, disk,
};

/// A run: what is to be done, and what was.
#[derive(Debug)]
pub struct Contents {
    /// The experiment.
    pub experiment: Experiment,
    /// All trials of the experiment, in their order, those that have not begun included.
    pub trials: Vec<StoredTrial>,
    /// What cannot be read or is damaged, and was left out.
    pub damage: Vec<StoreError>,
}

/// A trial with everything that is recorded of it but checkpoints.
#[derive(Clone, Debug)]
pub struct StoredTrial {
    /// Its folder.
    pub folder: TrialReader,
    /// Its status as it was last written; none if it has not begun.
    pub status: Option<Status>,
    /// Its epochs from the first on, as many as are planned at most.
    pub records: Vec<EpochRecord>,
    /// What analysis takes. [`Store::read`] leaves surfaces, sharpness and slices out.
    pub data: TrialData,
}

impl std::ops::Deref for StoredTrial {
    type Target = TrialData;

    fn deref(&self) -> &TrialData {
        &self.data
    }
}

impl From<Contents> for RunData {
    fn from(Contents { experiment, trials, damage }: Contents) -> Self {
        let damage = damage.iter().map(Damage::from).collect();
        RunData { experiment, trials: trials.into_iter().map(|trial| trial.data).collect(), damage }
    }
}

impl Store {
    /// Reads everything but loss surfaces, sharpness and slices. Trials whose settings or epochs cannot be read are [`State::Unreadable`] and have no epochs.
    pub fn read(&self) -> Result<Contents, StoreError> {
        let (experiment, index, mut damage) = self.describe()?;
        let trials = index.into_iter().map(|entry| self.read_trial(entry, &experiment, &mut damage)).collect();
        Ok(Contents { experiment, trials, damage })
    }

    /// The experiment, its trials, and what is wrong with the files that describe them.
    pub(crate) fn describe(&self) -> Result<(Experiment, Vec<IndexEntry>, Vec<StoreError>), StoreError> {
        let mut damage: Vec<StoreError> = self.experiment_damage()?.into_iter().map(|(_, error)| error).collect();
        let experiment = self.experiment()?;
        // A process may be adding trials: their folders are made after they were listed.
        let folders = noted(self.folders(), &mut damage).unwrap_or_default();
        let index = match self.index() {
            Ok(index) => {
                let listed: HashSet<TrialId> = index.iter().map(|entry| entry.id).collect();
                let others = folders.iter().filter(|folder| !listed.contains(&folder.id()) && folder.exists());
                let reason = "trials.csv does not list this trial: the list is older, or the folder is of another run";
                damage.extend(others.map(|folder| StoreError::damaged(folder.path(), reason)));
                index
            }
            Err(error) => {
                damage.push(error);
                self.index_from_folders(folders, &experiment, &mut damage)
            }
        };
        // The columns of trials.csv are in the order of the file that was run, the axes in that of experiment.toml.
        let axes: Vec<&str> = experiment.axes().into_iter().map(|(path, _)| path).collect();
        let in_order = |mut entry: IndexEntry| {
            entry.point.sort_by_key(|(path, _)| axes.iter().position(|axis| axis == path));
            entry
        };
        let index = index.into_iter().map(in_order).collect();
        Ok((experiment, index, damage))
    }

    /// Reads everything, as [`read`](Self::read) does, and loss surfaces, sharpness and slices, too.
    pub fn read_all(&self) -> Result<Contents, StoreError> {
        let mut contents = self.read()?;
        for trial in &mut contents.trials {
            let (surfaces, wrong) = trial.folder.surfaces();
            trial.data.surfaces = surfaces.into_iter().map(SurfaceData::from).collect();
            contents.damage.extend(wrong);
            let sharpness = noted(trial.folder.measured::<SharpnessRecord>(), &mut contents.damage).unwrap_or_default();
            trial.data.sharpness = sharpness.into_iter().map(SharpnessData::from).collect();
            trial.data.slices = noted(trial.folder.slices(), &mut contents.damage).unwrap_or_default();
        }
        Ok(contents)
    }

    pub(crate) fn read_trial(
        &self,
        entry: IndexEntry,
        experiment: &Experiment,
        damage: &mut Vec<StoreError>,
    ) -> StoredTrial {
        let (folder, data) = (self.trial(entry.id), TrialData::new(entry));
        let mut trial = StoredTrial { folder, status: None, records: Vec::new(), data };
        if trial.folder.path().symlink_metadata().is_ok()
            && let Err(error) = trial.read(experiment, damage)
        {
            trial.data.state = State::Unreadable;
            damage.push(error);
        }
        trial
    }

    /// The trials that have begun, from their own files, in the order of the experiment.
    fn index_from_folders(
        &self,
        folders: Vec<TrialReader>,
        experiment: &Experiment,
        damage: &mut Vec<StoreError>,
    ) -> Vec<IndexEntry> {
        let begun = folders.into_iter().filter(TrialReader::exists);
        let mut entries: Vec<IndexEntry> = begun
            .filter_map(|folder| {
                let settings = noted(folder.settings(), damage)?;
                let TrialSettings { task, mechanism, seed, training, .. } = &settings;
                Some(IndexEntry {
                    id: folder.id(),
                    epochs: training.epochs,
                    task: task.clone(),
                    mechanism: mechanism.clone(),
                    seed: *seed,
                    point: point_of(&settings, experiment),
                })
            })
            .collect();
        let place = |entry: &IndexEntry| {
            let seed = experiment.seeds.iter().position(|seed| *seed == entry.seed);
            let mechanism = experiment.mechanisms.iter().position(|name| *name == entry.mechanism);
            let axes = experiment.axes();
            let values = entry
                .point
                .iter()
                .zip(&axes)
                .map(|((_, value), (_, all))| all.iter().position(|other| written(other) == *value));
            (seed, values.collect::<Vec<_>>(), mechanism)
        };
        entries.sort_by_cached_key(place);
        entries
    }
}

impl StoredTrial {
    /// Reads what is recorded. Without settings and epochs a trial is useless. Its own settings take precedence over `trials.csv`,
    /// because the id is their hash.
    fn read(&mut self, experiment: &Experiment, damage: &mut Vec<StoreError>) -> Result<(), StoreError> {
        let (folder, data) = (&self.folder, &mut self.data);
        disk::check_folder(folder.path()).map_err(|error| StoreError::io("open", folder.path(), error))?;
        // A process may be writing: what says how much there must be is read first.
        let status = folder.status();
        let mut untrained = None;
        if folder.exists() {
            let settings = folder.settings()?;
            (untrained, self.records) = folder.curve()?;
            let own = (&settings.mechanism, settings.seed, point_of(&settings, experiment));
            if own != (&data.entry.mechanism, data.entry.seed, data.entry.point.clone()) {
                let reason = format!("it lists trial {} as {}", data.entry.id, data.entry.title());
                damage.push(StoreError::damaged(std::path::Path::new("trials.csv"), reason));
                (data.entry.mechanism, data.entry.seed, data.entry.point) = (own.0.clone(), own.1, own.2);
            }
            data.settings = Some(settings);
        }
        if matches!(status, Ok(None)) && !self.records.is_empty() {
            damage.push(StoreError::damaged(&folder.file("status.json"), "it is missing"));
        }
        self.status = noted(status, damage).flatten();
        data.probes = noted(folder.probes(), damage).unwrap_or_default();
        data.environment = noted(folder.environment(), damage).flatten();
        let recorded = self.records.len();
        if let Some(status) = self.status.as_ref().filter(|status| status.epoch > recorded) {
            let reason = format!("it has {recorded} of the {} epochs that were complete", status.epoch);
            damage.push(StoreError::damaged(&folder.record_path(), reason));
        }
        let is_held = || folder.holder().is_some();
        data.state = folder.state_with(self.status.as_ref(), recorded, data.entry.epochs, is_held);
        self.records.truncate(data.entry.epochs);
        data.set_progress(untrained.as_ref(), &self.records, self.status.as_ref());
        Ok(())
    }
}

/// The values of a trial on the axes of a grid, as the experiment writes them.
fn point_of(settings: &TrialSettings, experiment: &Experiment) -> Point {
    let value = |(path, values): (&'static str, Vec<toml::Value>)| {
        let setting = find(path)?;
        let present = setting.get(settings);
        let is_present = |value: &&toml::Value| {
            let mut other = settings.clone();
            setting.set(&mut other, value).is_ok() && setting.get(&other) == present
        };
        // Most values are written as they are kept, and need not be tried one after the other.
        let same = values.iter().find(|value| Some(*value) == present.as_ref());
        let value = same.or_else(|| values.iter().find(is_present)).or(present.as_ref())?;
        Some((path.to_owned(), written(value)))
    };
    experiment.axes().into_iter().filter_map(value).collect()
}

/// A value on an axis as text.
fn written(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// What could be read; what is wrong is noted.
fn noted<T>(result: Result<T, StoreError>, damage: &mut Vec<StoreError>) -> Option<T> {
    result.map_err(|error| damage.push(error)).ok()
}
