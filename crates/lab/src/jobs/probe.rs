//! A probe of a stored model.

use std::path::Path;

use semfocus_store::{End, Event, JobId, JobKind, ProbeRecord, State, TrialFolder};

use super::{Context, Job, JobError};
use crate::TrainedModel;
use crate::probing::Prober;

/// A look at the attention of a stored model, recorded in its trial. It is made again whenever it is asked for: it takes
/// seconds, and may be over other examples than before.
pub struct Probe {
    trained: TrainedModel,
    folder: TrialFolder,
    samples: usize,
    is_once: bool,
}

impl Probe {
    /// Looks at a model of the trial in `folder` over the first `samples` training examples.
    pub fn new(trained: TrainedModel, folder: TrialFolder, samples: usize) -> Self {
        Probe { trained, folder, samples, is_once: false }
    }

    /// The same, unless this model has been probed over as many examples or more before: for several processes that share the
    /// work. Of several probes of a model only the one with the most examples is read.
    pub fn once(self) -> Self {
        Probe { is_once: true, ..self }
    }
}

impl Job for Probe {
    fn id(&self) -> JobId {
        JobId { kind: JobKind::Probe, trial: self.trained.trial.id, part: format!("epoch {}", self.trained.epoch) }
    }

    fn title(&self) -> String {
        format!("{} after epoch {}", self.trained.trial.title(), self.trained.epoch)
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn units(&self) -> usize {
        1
    }

    fn state_if_over(&self) -> Result<Option<State>, JobError> {
        if !self.is_once {
            return Ok(None);
        }
        let samples = self.trained.trial.settings.data.sizes.train.min(self.samples);
        let is_this = |record: &ProbeRecord| record.epoch == self.trained.epoch && record.samples >= samples;
        Ok(self.folder.probes()?.iter().any(is_this).then_some(State::Finished))
    }

    fn run(&self, context: &Context<'_>) -> Result<End, JobError> {
        context.emit(Event::JobStarted { done: 0, total: 1, epoch: self.trained.epoch });
        let TrainedModel { trial, model, epoch } = &self.trained;
        let data = trial.source.dataset(&trial.settings.data, trial.settings.seed)?;
        let before = self.folder.snapshots().into_iter().rfind(|kept| kept < epoch);
        let snapshot = |kept| self.folder.snapshot(kept);
        let read = |kept| TrainedModel::read_file(context.lab, context.device, trial, &snapshot(kept));
        // One that is damaged leaves out the comparison with it, nothing else.
        let before = before.map(read).transpose().unwrap_or_else(|error| {
            context.warn(format!("no comparison with an earlier epoch: {error}"));
            None
        });
        if context.is_stopping() {
            return Ok(End::Interrupted);
        }
        let prober = Prober::new(trial, &data.train, self.samples);
        let mut record = None;
        context.threads.run(&mut || {
            record = Some(prober.measure(model, *epoch, before.as_ref().map(|trained| &trained.model)));
        });
        let record = record.expect("the work was done");
        self.folder.append_probe(&record)?;
        context.emit(Event::Probe { epoch: *epoch, seconds: record.seconds.unwrap_or_default() });
        Ok(End::Over(State::Finished))
    }
}
