//! Training of a trial: it resumes from the last good checkpoint, and every epoch is on the disk before the next begins.

use std::path::Path;

use burn::module::Module;
use semfocus_core::EpochRecord;
use semfocus_core::settings::Probing;
use semfocus_store::checkpoint::Refused;
use semfocus_store::{
    Checkpoint, CheckpointName, End, Event, JobId, JobKind, Session, State, Status, StoreError, TestResult,
    TrialFolder, utc_now,
};

use super::{Context, Job, JobError};
use crate::probing::Prober;
use crate::training::Trainer;
use crate::{TrainedModel, Trial};

/// Training of a trial in its folder.
pub struct Train {
    trial: Trial,
    folder: TrialFolder,
}

impl Train {
    /// The job that trains a trial in a folder.
    pub fn new(trial: Trial, folder: TrialFolder) -> Self {
        Train { trial, folder }
    }

    /// The trial.
    pub fn trial(&self) -> &Trial {
        &self.trial
    }

    fn status(&self, trainer: &Trainer, state: State) -> Status {
        Status {
            state,
            epoch: trainer.progress().epoch,
            epochs: self.trial.settings.training.epochs,
            best: trainer.progress().best,
            diverged_in: (state == State::Diverged).then_some(trainer.progress().epoch + 1),
            message: None,
            epoch_flops: Some(trainer.epoch_flops()),
            test: None,
            updated: utc_now(),
        }
    }

    fn is_target_reached(&self, record: &EpochRecord) -> bool {
        self.trial.settings.training.stop_when.is_some_and(|target| target.is_reached(record))
    }

    /// Puts the trainer where the trial stopped: at the last checkpoint that is good and agrees with the record of epochs.
    fn resume(&self, trainer: &mut Trainer, context: &Context<'_>) -> Result<(), JobError> {
        let Train { trial, folder } = self;
        let records = match folder.records() {
            Ok(records) => records.len(),
            Err(error @ StoreError::Damaged { .. }) => {
                let kept = folder.set_records_aside()?;
                context.warn(format!("{error}; it is kept as {}, and the trial starts again", kept.display()));
                0
            }
            Err(error) => return Err(error.into()),
        };
        let mut was_refused = false;
        for name in CheckpointName::ALL {
            let path = folder.checkpoint(name);
            if !path.exists() {
                continue;
            }
            let result =
                Checkpoint::read(&path, Some(trial.id)).and_then(|checkpoint| match checkpoint.progress.epoch {
                    epoch if epoch > records => {
                        Err(Refused::Contents(format!("it is from epoch {epoch}, but epochs.csv has only {records}")))
                    }
                    _ => trainer.restore(checkpoint),
                });
            match result {
                Ok(()) => break,
                Err(reason) => {
                    let kept = folder.refuse_checkpoint(name)?;
                    let kept = kept.file_name().unwrap_or_default().display();
                    context.warn(format!("{} is refused: {reason}. It is kept as {kept}", path.display()));
                    was_refused = true;
                }
            }
        }
        let epoch = trainer.progress().epoch;
        if was_refused {
            let from = if epoch == 0 { "starts again".to_owned() } else { format!("resumes after epoch {epoch}") };
            context.warn(format!("{} {from}", trial.title()));
        }
        // Epochs after the checkpoint are computed again, to the same bits.
        folder.cut_records(epoch, was_refused)?;
        // The untrained model is probed before the first step.
        let first_probe = if trainer.progress().total_steps == 0 { 0 } else { epoch + 1 };
        if let Some(kept) = folder.cut_probes(first_probe)? {
            context.warn(format!("probes.jsonl is damaged; it is kept as {}", kept.display()));
        }
        Ok(())
    }

    /// The result on the test split, if there is one.
    fn test(&self, trainer: &Trainer, context: &Context<'_>) -> Result<Option<TestResult>, JobError> {
        if trainer.data().test.is_empty() {
            return Ok(None);
        }
        let best = TrainedModel::read(context.lab, context.device, &self.folder, CheckpointName::Best)?.model;
        let mut result = None;
        context.threads.run(&mut || {
            let last = trainer.test(&trainer.model().valid());
            result = Some(TestResult { last, best: trainer.test(&best) });
        });
        Ok(result)
    }
}

impl Job for Train {
    fn id(&self) -> JobId {
        JobId { kind: JobKind::Train, trial: self.trial.id, part: String::new() }
    }

    fn title(&self) -> String {
        self.trial.title()
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn units(&self) -> usize {
        self.trial.steps()
    }

    /// It is over if it diverged, or has all the epochs that are asked for now, or has reached the target that is set now.
    fn state_if_over(&self) -> Result<Option<State>, JobError> {
        // A status that cannot be read is no reason to stop: the checkpoints say how far it is.
        let written = self.folder.status().ok().flatten().map(|status| (status.state, status.epoch));
        let training = &self.trial.settings.training;
        Ok(match written {
            Some((State::Diverged, _)) => Some(State::Diverged),
            Some((State::Finished | State::Stopped, epoch)) if epoch >= training.epochs => Some(State::Finished),
            Some((State::Finished | State::Stopped, epoch)) => match (training.stop_when, self.folder.records()) {
                (Some(target), Ok(records)) => {
                    records.iter().take(epoch).any(|record| target.is_reached(record)).then_some(State::Stopped)
                }
                // A damaged record is dealt with when the trial resumes.
                (None, _) | (_, Err(StoreError::Damaged { .. })) => None,
                (_, Err(error)) => return Err(error.into()),
            },
            _ => None,
        })
    }

    fn run(&self, context: &Context<'_>) -> Result<End, JobError> {
        let Train { trial, folder } = self;
        let mut trainer = Trainer::new(trial, context.lab, context.device)?;
        folder.write_settings(&trial.settings)?;
        self.resume(&mut trainer, context)?;
        folder.add_session(Session { from_epoch: trainer.progress().epoch, ..context.session.clone() })?;
        folder.write_status(&self.status(&trainer, State::Running))?;
        let (epochs, steps) = (trial.settings.training.epochs, trainer.steps_per_epoch());
        let total = epochs * steps;
        let done = |trainer: &Trainer| trainer.progress().epoch * steps + trainer.progress().step;
        context.emit(Event::JobStarted { done: done(&trainer), total, epoch: trainer.progress().epoch });
        let probes = Probes::new(self, &trainer);
        if trainer.progress().epoch == 0 && trainer.progress().step == 0 {
            probes.look(&trainer, context)?;
        }
        // A process may have died after the epoch that reached the target and before it could say so.
        let mut is_reached = folder.records()?.iter().any(|record| self.is_target_reached(record));
        while !is_reached && trainer.progress().epoch < epochs {
            let before = trainer.progress().epoch * steps;
            let mut end = Err(End::Interrupted);
            context.threads.run(&mut || {
                end = trainer.epoch(context.stop, |step, loss| {
                    context.emit(Event::Progress { done: before + step, total, loss: Some(loss) });
                });
            });
            match end {
                Ok(record) => {
                    // The last checkpoint comes last: what was not written before it is written again with its epoch.
                    folder.append_record(&record)?;
                    probes.look(&trainer, context)?;
                    let bytes = trainer.checkpoint().to_bytes();
                    if trainer.progress().best.is_some_and(|best| best.epoch == record.epoch) {
                        folder.write_best(&bytes)?;
                    }
                    folder.write_last(&bytes)?;
                    context.emit(Event::Epoch(record));
                    is_reached = self.is_target_reached(&record);
                    folder.write_status(&self.status(&trainer, State::Running))?;
                }
                Err(End::Interrupted) => {
                    folder.write_last(&trainer.checkpoint().to_bytes())?;
                    folder.write_status(&self.status(&trainer, State::Interrupted))?;
                    return Ok(End::Interrupted);
                }
                Err(end) => {
                    if let End::Over(state) = end {
                        folder.write_status(&self.status(&trainer, state))?;
                    }
                    return Ok(end);
                }
            }
        }
        let state = if trainer.progress().epoch >= epochs { State::Finished } else { State::Stopped };
        let test = self.test(&trainer, context)?;
        folder.write_status(&Status { test, ..self.status(&trainer, state) })?;
        Ok(End::Over(state))
    }

    fn note_failure(&self, message: &str) {
        let before = self.folder.status().ok().flatten();
        // If that cannot be written either, the failure is at least reported.
        let _ = self.folder.write_status(&Status {
            state: State::Failed,
            epoch: before.as_ref().map_or(0, |status| status.epoch),
            epochs: self.trial.settings.training.epochs,
            best: before.as_ref().and_then(|status| status.best),
            diverged_in: None,
            message: Some(message.to_owned()),
            epoch_flops: before.as_ref().and_then(|status| status.epoch_flops),
            test: None,
            updated: utc_now(),
        });
    }
}

/// The probes of a trial during its training.
struct Probes<'a> {
    job: &'a Train,
    /// None if there are no probes.
    prober: Option<Prober>,
}

impl<'a> Probes<'a> {
    fn new(job: &'a Train, trainer: &Trainer) -> Self {
        let Probing { every, samples } = job.trial.settings.probing;
        let prober = (every > 0).then(|| Prober::new(&job.trial, &trainer.data().train, samples));
        Probes { job, prober }
    }

    /// Looks at the model if a probe is due, and keeps its weights. The model before comes from its snapshot, so that an
    /// interruption changes nothing.
    fn look(&self, trainer: &Trainer, context: &Context<'_>) -> Result<(), JobError> {
        let Train { trial, folder } = self.job;
        let (epoch, probing) = (trainer.progress().epoch, trial.settings.probing);
        let Some(prober) = self.prober.as_ref().filter(|_| probing.is_due(epoch)) else { return Ok(()) };
        folder.write_snapshot(epoch, &trainer.checkpoint().weights_only().to_bytes())?;
        let earlier = epoch.checked_sub(probing.every).map(|earlier| folder.snapshot(earlier));
        // One that is missing or damaged leaves out the comparison, nothing else.
        let read = |path: &Path| TrainedModel::read_file(context.lab, context.device, trial, path).ok();
        let earlier = earlier.and_then(|path| read(&path));
        let mut record = None;
        context.threads.run(&mut || {
            record =
                Some(prober.measure(&trainer.model().valid(), epoch, earlier.as_ref().map(|trained| &trained.model)));
        });
        let record = record.expect("the work was done");
        folder.append_probe(&record)?;
        context.emit(Event::Probe { epoch, seconds: record.seconds });
        Ok(())
    }
}
