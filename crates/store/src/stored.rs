//! A trial with everything that is recorded of it.

use semfocus_core::{EpochRecord, TrialSettings};

use crate::{Environment, IndexEntry, ProbeRecord, State, Status, Store, StoreError, TrialFolder};

/// A trial with everything that is recorded of it but checkpoints and surfaces.
#[derive(Clone, Debug)]
pub struct StoredTrial {
    /// Its line in `trials.csv`.
    pub entry: IndexEntry,
    /// Its folder.
    pub folder: TrialFolder,
    /// Its settings; none if it has not begun.
    pub settings: Option<TrialSettings>,
    /// How it stands now.
    pub state: State,
    /// Its status as it was last written; none if it has not begun.
    pub status: Option<Status>,
    /// Its epochs, as many as are planned at most.
    pub records: Vec<EpochRecord>,
    /// What probes found, by ascending epoch.
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
                let (probes, status) = (folder.probes()?, folder.status()?);
                Ok(StoredTrial { entry, folder, settings, state, status, records, probes, environment })
            })
            .collect()
    }
}
