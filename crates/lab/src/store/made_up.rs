//! Stores with made-up trials, for tests and benchmarks of what reads stores.

use std::path::Path;

use super::{EpochRecord, State, Status, Store, StoreError, records, utc_now};
use crate::experiment::{Experiment, Trial};

/// What a made-up trial shows.
#[derive(Clone, Debug)]
pub struct MadeUp {
    /// Its epochs.
    pub records: Vec<EpochRecord>,
    /// How it stands.
    pub state: State,
}

/// Writes a store in which every trial shows what `course` says; one without a course has not begun.
///
/// # Panics
/// If the experiment has no plan, or a trial is held by another process.
pub fn made_up(
    dir: &Path,
    experiment: &Experiment,
    course: impl Fn(&Trial) -> Option<MadeUp>,
) -> Result<Store, StoreError> {
    let plan = experiment.plan().expect("a made-up experiment has a plan");
    let (store, _) = Store::create(dir, experiment, &plan)?;
    for trial in &plan.trials {
        let Some(MadeUp { records, state }) = course(trial) else { continue };
        let folder = store.trial(trial.id);
        let _lock = folder.lock()?.expect("nobody else works on a made-up store");
        folder.write_settings(&trial.settings)?;
        records::replace(&folder.path().join("epochs.csv"), &records)?;
        folder.write_status(&Status {
            state,
            epoch: records.len(),
            epochs: trial.settings.training.epochs,
            best: None,
            diverged_in: (state == State::Diverged).then_some(records.len() + 1),
            message: None,
            updated: utc_now(),
        })?;
    }
    Ok(store)
}

/// An epoch of a trial that jumps from chance to its final held-out accuracy in a given epoch.
pub fn jump(epoch: usize, at: Option<usize>, accuracy: f64) -> EpochRecord {
    let learned = at.is_some_and(|at| epoch >= at);
    EpochRecord {
        epoch,
        lr: 0.1,
        train_loss: if learned { 0.01 } else { 0.69 },
        train_accuracy: if learned { 1.0 } else { 0.5 },
        heldout_loss: if learned { 0.05 } else { 0.7 },
        heldout_accuracy: if learned { accuracy } else { 0.5 },
        grad_norm: 1.0,
        seconds: 2.0,
    }
}
