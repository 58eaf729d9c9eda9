//! Training of a trial: it resumes from the last good checkpoint, and every epoch is on the disk before the next begins.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use semfocus_core::settings::Probing;
use semfocus_core::{DataFacts, EpochRecord, Threshold, UnknownFact};
use semfocus_store::{
    Asked, Checkpoint, CheckpointName, End, Event, Finished, JobId, JobKind, Lease, RecordHash, Session, State, Status,
    StoreError, TestResult, TrialReader, utc_now,
};

use semfocus_tasks::Split;

use super::resume::Resume;
use super::{Context, Deadline, Job, JobError};
use crate::probing::Prober;
use crate::training::Trainer;
use crate::{ModelError, OtherCode, TrainedModel, Trial, memory};

/// Training of a trial in its folder.
pub struct Train {
    trial: Trial,
    folder: TrialReader,
    save_every: Duration,
    deadline: Option<Deadline>,
    /// The list of finished trials has it with all its epochs.
    is_listed: bool,
    accepts_other_code: bool,
}

/// A checkpoint is written this often within an epoch, so that a process that is killed loses no more.
const SAVE_EVERY: Duration = Duration::from_secs(60);

impl Train {
    /// The job that trains a trial in a folder.
    pub fn new(trial: Trial, folder: TrialReader) -> Self {
        Train { trial, folder, save_every: SAVE_EVERY, deadline: None, is_listed: false, accepts_other_code: false }
    }

    /// The same with another time between the checkpoints of an epoch.
    pub fn saving_every(self, save_every: Duration) -> Self {
        Train { save_every, ..self }
    }

    /// The same in a process that ends then: it begins no epoch that it could not finish.
    pub fn until(self, deadline: Option<Deadline>) -> Self {
        Train { deadline, ..self }
    }

    /// The same with what the list of finished trials says of it: one that is listed with all its epochs seems to be over without a
    /// look at its files.
    pub fn listed(self, finished: Option<&Finished>) -> Self {
        let planned = self.trial.settings.training.epochs;
        // The list does not say which code made the trial.
        let is_standard = self.trial.own_code.is_empty();
        let is_all = |listed: &Finished| is_standard && listed.state == State::Finished && listed.epoch >= planned;
        Train { is_listed: finished.is_some_and(is_all), ..self }
    }

    /// The same, which continues what other code of one's own mechanisms and tasks began, too.
    pub fn accepting_other_code(self, accepts_other_code: bool) -> Self {
        Train { accepts_other_code, ..self }
    }

    /// What is on record, if other code made it and that is not accepted.
    fn refused_code(&self) -> Result<Option<OtherCode>, StoreError> {
        let other = if self.accepts_other_code { None } else { self.trial.other_code(&self.folder)? };
        Ok(other.filter(OtherCode::is_recorded))
    }

    /// Whether other code made what is on record, and that is to be noted as accepted.
    fn is_to_be_accepted(&self) -> Result<bool, StoreError> {
        Ok(self.accepts_other_code && self.trial.other_code(&self.folder)?.is_some_and(|other| other.is_recorded()))
    }

    /// The trial.
    pub fn trial(&self) -> &Trial {
        &self.trial
    }

    /// Epochs on record, as many as are planned at most, and the seconds they took.
    pub fn recorded(&self) -> (usize, f64) {
        if !self.folder.exists() {
            return (0, 0.0);
        }
        // What cannot be read is trained again, or fails with the reason.
        let records = self.folder.records().unwrap_or_default();
        let records = &records[..records.len().min(self.trial.settings.training.epochs)];
        (records.len(), records.iter().map(|record| record.seconds).sum())
    }

    fn status(&self, trainer: &Trainer, state: State) -> Result<Status, StoreError> {
        let asked = |split: &Split| Some(Asked::new(&split.questions, split.distinct()));
        Ok(Status {
            state,
            epoch: trainer.progress().epoch,
            epochs: self.trial.settings.training.epochs,
            best: trainer.progress().best,
            diverged_in: (state == State::Diverged).then_some(trainer.progress().epoch + 1),
            message: None,
            probes: self.folder.probe_count()?,
            slices: self.folder.slice_count()?,
            epoch_flops: Some(trainer.epoch_flops()),
            majority: trainer.data().held_out.questions.majority(),
            held_out: asked(&trainer.data().held_out),
            test_split: asked(&trainer.data().test),
            facts: Some(*trainer.facts()),
            test: None,
            updated: utc_now(),
        })
    }

    /// How it ended by its record of epochs and its status alone.
    fn over_by_record(&self) -> Result<Option<State>, StoreError> {
        let Train { trial, folder, .. } = self;
        if !folder.exists() || self.refused_code()?.is_some() {
            return Ok(None);
        }
        let training = &trial.settings.training;
        // A damaged file is dealt with when the trial resumes.
        let intact = |result: Result<_, StoreError>| match result {
            Ok(value) => Ok(Some(value)),
            Err(StoreError::Damaged { .. }) => Ok(None),
            Err(error) => Err(error),
        };
        let Some(records) = intact(folder.records())? else { return Ok(None) };
        // A target that needs facts which are not on record is tried when the data are there.
        let facts = || folder.status().ok().flatten().and_then(|status| status.facts).unwrap_or_default();
        let is_stopped = || self.target(&facts()).is_ok_and(|target| is_reached(target, &records));
        match folder.state(records.len(), training.epochs) {
            // The target may be another one than when the trial was stopped.
            State::Stopped if !is_stopped() => Ok(None),
            over if over.is_over() => Ok(Some(over)),
            // A target that is set now may have been reached in a longer trial.
            _ => Ok(None),
        }
    }

    /// How it ended, if its record says so, or it diverged, and all its files are in order: a damaged file is made again.
    fn state_by_files(&self) -> Result<Option<State>, JobError> {
        let Some(state) = self.over_by_record()? else { return Ok(None) };
        // An error of the system comes first: it may hide what is damaged.
        let (damage, errors): (Vec<_>, Vec<_>) = self
            .folder
            .damage_of_training(state == State::Diverged)
            .into_iter()
            .partition(|error| matches!(error, StoreError::Damaged { .. }));
        match errors.into_iter().next() {
            Some(error) => Err(error.into()),
            None => Ok(damage.is_empty().then_some(state)),
        }
    }

    /// The target at which it ends early, if it has one.
    fn target(&self, facts: &DataFacts) -> Result<Option<Threshold>, UnknownFact> {
        self.trial.settings.training.stop_when.map(|goal| goal.threshold(facts)).transpose()
    }

    /// Puts the untrained model and its slices on record as epoch 0, if they are not there. One whose loss is not finite has diverged.
    fn evaluate_untrained(&self, trainer: &mut Trainer, context: &Context<'_>) -> Result<Option<End>, JobError> {
        let (is_recorded, writer) = (self.folder.curve()?.0.is_some(), self.folder.writer(context.lease));
        let has_slices = !trainer.has_slices(0) || self.folder.slice_count()? > 0;
        if is_recorded && has_slices {
            return Ok(None);
        }
        let mut untrained = None;
        context.threads.run(&mut || untrained = trainer.untrained(context.stop));
        context.lease.confirm()?;
        match untrained {
            Some(record) if record.metrics.are_finite() => {
                if !has_slices {
                    writer.append_slices(trainer.slices())?;
                }
                if !is_recorded {
                    writer.append_records(&[record])?;
                }
                Ok(None)
            }
            Some(_) => Ok(Some(End::Over(State::Diverged))),
            None => Ok(Some(End::Interrupted)),
        }
    }

    /// The result on the test split, if there is one.
    fn test(&self, trainer: &Trainer, context: &Context<'_>) -> Result<Option<TestResult>, JobError> {
        if trainer.data().test.is_empty() {
            return Ok(None);
        }
        let best = TrainedModel::read(context.lab, context.device, &self.folder, CheckpointName::Best)?.model;
        let mut result = None;
        context.threads.run(&mut || {
            let last = trainer.test(trainer.evaluated_model().as_ref());
            result = Some(TestResult { last, best: trainer.test(best.as_ref()) });
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

    fn unit(&self) -> &'static str {
        "steps"
    }

    fn epochs(&self) -> usize {
        self.trial.settings.training.epochs
    }

    fn memory(&self, threads: usize) -> u64 {
        memory::needed(&self.trial, threads)
    }

    fn units_recorded(&self) -> (usize, f64) {
        let (epochs, seconds) = self.recorded();
        (epochs * self.units() / self.epochs().max(1), seconds)
    }

    fn seems_over(&self) -> Option<State> {
        if self.is_listed && self.folder.exists() {
            Some(State::Finished)
        } else {
            self.over_by_record().ok().flatten().filter(|_| !self.is_to_be_accepted().unwrap_or(false))
        }
    }

    fn state_if_over(&self) -> Result<Option<State>, JobError> {
        if self.is_to_be_accepted()? { Ok(None) } else { self.state_by_files() }
    }

    fn run(&self, context: &Context<'_>) -> Result<End, JobError> {
        if let Some(other) = self.refused_code()? {
            return Err(JobError::OtherCode(other));
        }
        let Train { trial, folder, save_every, deadline, .. } = self;
        let folder = &folder.writer(context.lease);
        if self.is_to_be_accepted()? {
            folder.accept_code(&trial.own_code)?;
            if let Some(state) = self.state_by_files()? {
                return Ok(End::Over(state));
            }
        }
        let mut trainer = Trainer::new(trial, context.device)?;
        if let Some(kept) = folder.write_settings(&trial.settings)? {
            context.warn(format!("trial.toml was damaged and is written again; it is kept as {}", kept.display()));
        }
        let resume = Resume::find(trial, folder, &mut trainer)?;
        let mut hash = resume.apply(trial, folder, |hash| checkpoint(&trainer, hash), context)?;
        if let Some(origin) = trial.settings.training.from.filter(|_| trainer.progress().total_steps == 0) {
            trainer.start_with(origin, folder.origin(&origin)?, context.lab)?;
        }
        let (from_epoch, own_code) = (trainer.progress().epoch, trial.own_code.clone());
        folder.add_session(Session { from_epoch, own_code, ..context.session.clone() })?;
        folder.write_status(&self.status(&trainer, State::Running)?)?;
        let target = self.target(trainer.facts())?;
        let (epochs, steps) = (trial.settings.training.epochs, trainer.steps_per_epoch());
        let total = epochs * steps;
        let done = |trainer: &Trainer| trainer.progress().epoch * steps + trainer.progress().step;
        context.emit(Event::JobStarted { done: done(&trainer), total, epoch: trainer.progress().epoch });
        let probes = Probes::new(self, &trainer)?;
        if trainer.progress().total_steps == 0 {
            if let Some(end) = self.evaluate_untrained(&mut trainer, context)? {
                let state = if end == End::Interrupted { State::Interrupted } else { State::Diverged };
                folder.write_status(&self.status(&trainer, state)?)?;
                return Ok(end);
            }
            probes.look(&trainer, context)?;
        }
        // A process may have died after the epoch that reached the target and before it could say so.
        let records = folder.records()?;
        let mut is_over = is_reached(target, &records);
        // Of an epoch in an earlier session, which may have had more or fewer threads; this one soon knows its own.
        let mut epoch_seconds = records.last().map(|record| record.seconds);
        while !is_over && trainer.progress().epoch < epochs {
            // An epoch that was begun before is in a checkpoint as far as it is.
            let is_new = trainer.progress().step == 0;
            let needed = epoch_seconds.filter(|_| is_new).map(Duration::from_secs_f64);
            if let (Some(deadline), Some(needed)) = (deadline, needed)
                && !deadline.allows(needed)
            {
                folder.write_status(&self.status(&trainer, State::Interrupted)?)?;
                return Ok(End::Interrupted);
            }
            let before = trainer.progress().epoch * steps;
            let (saved, mut end) = (Instant::now(), Err(End::Interrupted));
            context.threads.run(&mut || {
                end = trainer.epoch(context.stop, |step, loss| {
                    context.emit(Event::Progress { done: before + step, total, loss: Some(loss) });
                    saved.elapsed() < *save_every
                });
            });
            context.lease.confirm()?;
            match end {
                Ok(record) => {
                    // The last checkpoint comes last: what was not written before it is written again with its epoch.
                    folder.append_slices(trainer.slices())?;
                    folder.append_records(&[record])?;
                    epoch_seconds = Some(record.seconds);
                    hash.add(&record);
                    probes.look(&trainer, context)?;
                    let bytes = checkpoint(&trainer, hash);
                    if trainer.progress().best.is_some_and(|best| best.epoch == record.epoch) {
                        folder.write_best(&bytes)?;
                    }
                    folder.write_last(&bytes)?;
                    context.emit(Event::Epoch(record));
                    is_over = is_reached(target, &[record]);
                    folder.write_status(&self.status(&trainer, State::Running)?)?;
                }
                Err(End::Interrupted) => {
                    folder.write_last(&checkpoint(&trainer, hash))?;
                    if context.is_stopping() {
                        folder.write_status(&self.status(&trainer, State::Interrupted)?)?;
                        return Ok(End::Interrupted);
                    }
                }
                Err(end) => {
                    if let End::Over(state) = end {
                        folder.write_status(&self.status(&trainer, state)?)?;
                    }
                    return Ok(end);
                }
            }
        }
        let state = if trainer.progress().epoch >= epochs { State::Finished } else { State::Stopped };
        let test = self.test(&trainer, context)?;
        folder.write_status(&Status { test, ..self.status(&trainer, state)? })?;
        Ok(End::Over(state))
    }

    fn note_failure(&self, lease: &Lease, message: &str) {
        let before = self.folder.status().ok().flatten().unwrap_or_default();
        // A trial that is over stays so, whatever keeps it from being repaired now.
        if before.state.is_over() {
            return;
        }
        // If that cannot be written either, the failure is at least reported.
        let _ = self.folder.writer(lease).write_status(&Status {
            state: State::Failed,
            epochs: self.trial.settings.training.epochs,
            diverged_in: None,
            message: Some(message.to_owned()),
            test: None,
            updated: utc_now(),
            ..before
        });
    }
}

/// Whether one of these epochs reached the target.
fn is_reached(target: Option<Threshold>, records: &[EpochRecord]) -> bool {
    target.is_some_and(|target| records.iter().any(|record| target.is_reached(&record.metrics)))
}

/// The bytes of a checkpoint that vouches for the record up to there.
fn checkpoint(trainer: &Trainer, hash: RecordHash) -> Vec<u8> {
    Checkpoint { record: Some(hash.to_string()), ..trainer.checkpoint() }.to_bytes()
}

/// The probes of a trial during its training.
struct Probes<'a> {
    job: &'a Train,
    /// None if there are no probes.
    prober: Option<Prober>,
}

impl<'a> Probes<'a> {
    fn new(job: &'a Train, trainer: &Trainer) -> Result<Self, JobError> {
        let Probing { every, samples } = job.trial.settings.probing;
        let prober = (every > 0).then(|| Prober::new(&job.trial, &trainer.data().train, samples)).transpose()?;
        Ok(Probes { job, prober })
    }

    /// Looks at the model if a probe is due, and keeps its weights. The model before comes from its snapshot, so that an
    /// interruption changes nothing.
    fn look(&self, trainer: &Trainer, context: &Context<'_>) -> Result<(), JobError> {
        let (trial, folder) = (&self.job.trial, self.job.folder.writer(context.lease));
        let (epoch, probing) = (trainer.progress().epoch, trial.settings.probing);
        let Some(prober) = self.prober.as_ref().filter(|_| probing.is_due(epoch)) else { return Ok(()) };
        folder.write_snapshot(epoch, &trainer.checkpoint().weights_only().to_bytes())?;
        let earlier = epoch.checked_sub(probing.every).map(|earlier| folder.snapshot(earlier));
        let read = |path: PathBuf| TrainedModel::read_file(context.device, trial, &path);
        let earlier = match earlier.map(read).transpose() {
            // One that was removed leaves out the comparison, nothing else.
            Err(ModelError::NotYet(_)) => None,
            earlier => earlier?,
        };
        let mut record = None;
        context.threads.run(&mut || {
            record = Some(prober.measure(
                trainer.evaluated_model().as_ref(),
                epoch,
                earlier.as_ref().map(|trained| trained.model.as_ref()),
            ));
        });
        let record = record.expect("the work was done");
        match folder.add(&record) {
            Ok(()) => context.emit(Event::Probe { epoch, seconds: record.seconds.unwrap_or_default() }),
            // Such as the norms of a model that is about to diverge: training continues.
            Err(error @ StoreError::NotFinite { .. }) => context.warn(format!("no probe after epoch {epoch}: {error}")),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}
