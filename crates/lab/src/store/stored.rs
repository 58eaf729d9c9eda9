//! A trial as it stands in its store, for whoever looks at results.

use std::path::PathBuf;

use super::{Environment, EpochRecord, IndexEntry, State, Store, StoreError};
use crate::probe::ProbeRecord;
use crate::settings::TrialSettings;

/// A trial as it stands in its store.
#[derive(Clone, Debug)]
pub struct StoredTrial {
    /// Its line in `trials.csv`.
    pub entry: IndexEntry,
    /// Its folder.
    pub folder: PathBuf,
    /// Its settings; none if it has not begun.
    pub settings: Option<TrialSettings>,
    /// How it stands.
    pub state: State,
    /// Its epochs, as many as are planned at most.
    pub records: Vec<EpochRecord>,
    /// What probes found on its way, by ascending epoch.
    pub probes: Vec<ProbeRecord>,
    /// With what, where and how it was run; none if it has not begun.
    pub environment: Option<Environment>,
}

impl Store {
    /// All trials of the experiment, in their order, those that have not begun included.
    pub fn stored_trials(&self) -> Result<Vec<StoredTrial>, StoreError> {
        self.trials()?
            .into_iter()
            .map(|(entry, folder)| {
                let mut records = folder.records()?;
                records.truncate(entry.epochs);
                let state = match folder.state()? {
                    State::Finished if records.len() < entry.epochs => State::Interrupted, // it has been made longer
                    state => state,
                };
                let settings = folder.exists().then(|| folder.settings()).transpose()?;
                let environment = folder.environment()?;
                let (probes, path) = (folder.probes()?, folder.path().to_owned());
                Ok(StoredTrial { entry, folder: path, settings, state, records, probes, environment })
            })
            .collect()
    }
}
