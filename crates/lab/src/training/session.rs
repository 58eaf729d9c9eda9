//! A trial in its folder: it goes on from the last good checkpoint, and every epoch is on the disk before the next begins.

use std::sync::atomic::AtomicBool;

use burn::module::Module;

use super::trainer::{EpochEnd, Trainer, TrainingError};
use crate::checkpoint::Checkpoint;
use crate::experiment::Trial;
use crate::probe::Prober;
use crate::settings::Probing;
use crate::store::{CheckpointName, EpochRecord, Lock, Session, State, Status, StoreError, TrialFolder, utc_now};
use crate::trained::Trained;

/// How the work on a trial ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It is over: finished, stopped at its goal, or diverged.
    Over(State),
    /// It was asked to stop and has saved where it is.
    Interrupted,
}

/// Whoever wants to see a trial at work.
pub trait Watch: Sync {
    /// It begins, or goes on after this many epochs.
    fn begins(&self, _trial: &Trial, _epochs_done: usize, _steps_per_epoch: usize) {}
    /// So many steps of an epoch are done.
    fn step(&self, _trial: &Trial, _step: usize) {}
    /// An epoch is complete and on the disk.
    fn epoch(&self, _trial: &Trial, _record: &EpochRecord) {}
    /// Something happened that a person should know.
    fn warning(&self, _trial: &Trial, _text: &str) {}
}

/// Where the arithmetic runs. Asked anew for every epoch, so that a trial that is left alone gets the cores of those that
/// are over; the results do not depend on it.
pub trait Threads {
    /// Runs the work.
    fn run(&self, work: &mut (dyn FnMut() + Send));
}

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// With the files.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// With the trial.
    #[error(transparent)]
    Training(#[from] TrainingError),
}

/// Trains a trial whose folder this process has locked, up to its end or until `stop` is set.
pub fn run(
    trial: &Trial,
    folder: &TrialFolder,
    lock: &Lock,
    session: &Session,
    threads: &dyn Threads,
    stop: &AtomicBool,
    watch: &dyn Watch,
) -> Result<Outcome, SessionError> {
    let warn = |text: String| watch.warning(trial, &text);
    if let Some(state) = state_if_over(trial, folder)? {
        return Ok(Outcome::Over(state));
    }
    let mut trainer = Trainer::new(trial)?;
    folder.write_settings(&trial.settings)?;
    resume(&mut trainer, trial, folder, &warn)?;
    folder.add_session(Session { from_epoch: trainer.progress().epoch, ..session.clone() })?;
    let status = |trainer: &Trainer, state: State| Status {
        state,
        epoch: trainer.progress().epoch,
        epochs: trial.settings.training.epochs,
        best: trainer.progress().best,
        diverged_in: (state == State::Diverged).then_some(trainer.progress().epoch + 1),
        message: None,
        updated: utc_now(),
    };
    folder.write_status(&status(&trainer, State::Running))?;
    watch.begins(trial, trainer.progress().epoch, trainer.steps_per_epoch());
    let probes = Probes::new(trial, &trainer, folder, lock);
    if trainer.progress().epoch == 0 && trainer.progress().step == 0 {
        probes.look(&trainer, threads)?;
    }
    let is_goal = |record: &EpochRecord| trial.settings.training.stop_when.is_some_and(|goal| goal.is_reached(record));
    // A process may have died after the epoch that reached the goal and before it could say so.
    let mut is_reached = folder.records()?.iter().any(is_goal);
    while !is_reached && trainer.progress().epoch < trial.settings.training.epochs {
        let mut end = EpochEnd::Interrupted;
        threads.run(&mut || end = trainer.epoch(stop, |step| watch.step(trial, step)));
        match end {
            EpochEnd::Complete(record) => {
                // The last checkpoint comes last: what was not written before it is written again when its epoch is.
                folder.append_record(&record)?;
                probes.look(&trainer, threads)?;
                let bytes = trainer.checkpoint().to_bytes();
                if trainer.progress().best.is_some_and(|best| best.epoch == record.epoch) {
                    folder.write_best(&bytes)?;
                }
                folder.write_last(&bytes)?;
                watch.epoch(trial, &record);
                is_reached = is_goal(&record);
                folder.write_status(&status(&trainer, State::Running))?;
            }
            EpochEnd::Interrupted => {
                folder.write_last(&trainer.checkpoint().to_bytes())?;
                folder.write_status(&status(&trainer, State::Interrupted))?;
                return Ok(Outcome::Interrupted);
            }
            EpochEnd::Diverged => {
                folder.write_status(&status(&trainer, State::Diverged))?;
                return Ok(Outcome::Over(State::Diverged));
            }
        }
    }
    let done = trainer.progress().epoch >= trial.settings.training.epochs;
    let state = if done { State::Finished } else { State::Stopped };
    folder.write_status(&status(&trainer, state))?;
    Ok(Outcome::Over(state))
}

/// The probes of a trial on its way.
struct Probes<'a> {
    trial: &'a Trial,
    folder: &'a TrialFolder,
    lock: &'a Lock,
    /// None if there are no probes.
    prober: Option<Prober>,
}

impl<'a> Probes<'a> {
    fn new(trial: &'a Trial, trainer: &Trainer, folder: &'a TrialFolder, lock: &'a Lock) -> Self {
        let Probing { every, samples } = trial.settings.probing;
        let prober = (every > 0).then(|| Prober::new(trial, &trainer.data().train, samples));
        Probes { trial, folder, lock, prober }
    }

    /// Looks at the model if a probe is due, and keeps its weights. The model before comes from its snapshot, so that an
    /// interruption changes nothing.
    fn look(&self, trainer: &Trainer, threads: &dyn Threads) -> Result<(), SessionError> {
        let (epoch, probing) = (trainer.progress().epoch, self.trial.settings.probing);
        let Some(prober) = self.prober.as_ref().filter(|_| probing.is_due(epoch)) else { return Ok(()) };
        self.folder.write_snapshot(epoch, &trainer.checkpoint().weights_only().to_bytes())?;
        let earlier = epoch.checked_sub(probing.every).map(|earlier| self.folder.snapshot(earlier));
        // One that is missing or damaged leaves out the comparison, nothing else.
        let earlier = earlier.and_then(|path| Trained::of(self.trial, &path).ok());
        let mut record = None;
        threads.run(&mut || {
            record = Some(prober.look(&trainer.model().valid(), epoch, earlier.as_ref().map(|trained| &trained.model)));
        });
        Ok(self.folder.record_probe(self.lock, &record.expect("the work was done"))?)
    }
}

/// How the trial ended, if nothing is left to do: it diverged, or has all the epochs that are asked for now, or has
/// reached the goal that is set now.
pub fn state_if_over(trial: &Trial, folder: &TrialFolder) -> Result<Option<State>, StoreError> {
    // A status that cannot be read is no reason to stop: the checkpoints say how far it is.
    let written = folder.status().ok().flatten().map(|status| (status.state, status.epoch));
    let training = &trial.settings.training;
    Ok(match written {
        Some((State::Diverged, _)) => Some(State::Diverged),
        Some((State::Finished | State::Stopped, epoch)) if epoch >= training.epochs => Some(State::Finished),
        Some((State::Finished | State::Stopped, epoch)) => match (training.stop_when, folder.records()) {
            (Some(goal), Ok(records)) => {
                records.iter().take(epoch).any(|record| goal.is_reached(record)).then_some(State::Stopped)
            }
            // A record that is damaged is dealt with when the trial goes on.
            (None, _) | (_, Err(StoreError::Broken { .. })) => None,
            (_, Err(error)) => return Err(error),
        },
        _ => None,
    })
}

/// Puts the trainer where the trial stopped: at the last checkpoint that is good and agrees with the record of epochs.
fn resume(
    trainer: &mut Trainer,
    trial: &Trial,
    folder: &TrialFolder,
    warn: &dyn Fn(String),
) -> Result<(), SessionError> {
    let records = match folder.records() {
        Ok(records) => records.len(),
        Err(error @ StoreError::Broken { .. }) => {
            let kept = folder.set_records_aside()?;
            warn(format!("{error}; it is kept as {}, and the trial begins again", kept.display()));
            0
        }
        Err(error) => return Err(error.into()),
    };
    let mut refused = false;
    for name in CheckpointName::ALL {
        let path = folder.checkpoint(name);
        if !path.exists() {
            continue;
        }
        let result = Checkpoint::read(&path, Some(trial.id)).and_then(|checkpoint| match checkpoint.progress.epoch {
            epoch if epoch > records => Err(crate::checkpoint::Refused::Contents(format!(
                "it is from epoch {epoch}, but epochs.csv has only {records}"
            ))),
            _ => trainer.restore(checkpoint),
        });
        match result {
            Ok(()) => break,
            Err(reason) => {
                let kept = folder.refuse_checkpoint(name)?;
                let kept = kept.file_name().unwrap_or_default().display();
                warn(format!("{} is refused: {reason}. It is kept as {kept}", path.display()));
                refused = true;
            }
        }
    }
    let epoch = trainer.progress().epoch;
    if refused {
        let from = if epoch == 0 { "from the beginning".to_owned() } else { format!("after epoch {epoch}") };
        warn(format!("{} goes on {from}", trial.title()));
    }
    // Epochs after the checkpoint are computed again, to the same bits.
    folder.cut_records(epoch, refused)?;
    if let Some(kept) = folder.cut_probes(epoch)? {
        warn(format!("probes.jsonl is damaged; it is kept as {}", kept.display()));
    }
    Ok(())
}
