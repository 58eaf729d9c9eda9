//! The cells of a loss surface.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use semfocus_core::Evaluation;
use semfocus_store::{End, Event, JobId, JobKind, State, StoreError, SurfaceFolder};

use super::{Context, Job, JobError};
use crate::TrainedModel;
use crate::surface::directions::Plane;
use crate::surface::evaluator::{Evaluator, evaluate};

/// Finished cells are written this often.
const SAVE_EVERY: Duration = Duration::from_millis(200);

/// Loss and accuracy over a grid of a plane through the weights of a stored model. Finished cells are not evaluated again.
pub struct Surface {
    trained: TrainedModel,
    plane: Plane,
    folder: SurfaceFolder,
}

impl Surface {
    /// Evaluates the surface that `folder` describes, which lies in `plane`.
    pub fn new(trained: TrainedModel, plane: Plane, folder: SurfaceFolder) -> Self {
        Surface { trained, plane, folder }
    }
}

impl Job for Surface {
    fn id(&self) -> JobId {
        JobId { kind: JobKind::Surface, trial: self.trained.trial.id, part: self.folder.settings().name() }
    }

    fn title(&self) -> String {
        let settings = self.folder.settings();
        format!("{} {} {}", self.trained.trial.title(), settings.directions, settings.draw)
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn units(&self) -> usize {
        self.folder.settings().grid.cells()
    }

    fn state_if_over(&self) -> Result<Option<State>, JobError> {
        // Damaged cells are evaluated again.
        match self.folder.cells() {
            Ok(cells) => Ok((cells.len() == self.units() && self.folder.is_described()?).then_some(State::Finished)),
            Err(StoreError::Damaged { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn run(&self, context: &Context<'_>) -> Result<End, JobError> {
        for kept in self.folder.begin()? {
            context.warn(format!("a damaged file of the surface is kept as {}", kept.display()));
        }
        let (mut saved, total) = (self.folder.cells()?.len(), self.units());
        context.emit(Event::JobStarted { done: saved, total, epoch: self.trained.epoch });
        let TrainedModel { trial, model, .. } = &self.trained;
        let split = trial.source.dataset(&trial.settings.data, trial.settings.seed)?.train;
        let settings = self.folder.settings();
        let evaluator = Evaluator::new(model, &split, settings.samples, settings.attention_dropout, context.device);
        // Cells are finished in any order and written in theirs.
        let (mut finished, mut done): (BTreeMap<usize, Evaluation>, usize) = (BTreeMap::new(), saved);
        let mut save = |finished: &mut BTreeMap<usize, Evaluation>| {
            let mut ready = Vec::new();
            while let Some(cell) = finished.remove(&(saved + ready.len())) {
                ready.push(cell);
            }
            self.folder.append(saved, &ready)?;
            saved += ready.len();
            Ok::<usize, JobError>(saved)
        };
        let (mut saved_at, mut pause) = (Instant::now(), SAVE_EVERY);
        let cells = done..total;
        evaluate(
            &evaluator,
            &self.plane,
            &settings.grid,
            cells,
            context.threads.count(),
            context.stop,
            |cell, value| {
                finished.insert(cell, value);
                done += 1;
                context.emit(Event::Progress { done, total, loss: None });
                if saved_at.elapsed() >= pause {
                    let began = Instant::now();
                    save(&mut finished)?;
                    saved_at = Instant::now();
                    // Under a claim the file is written as a whole: a large one is written less often.
                    pause = SAVE_EVERY.max(50 * began.elapsed());
                }
                Ok::<(), JobError>(())
            },
        )?;
        let saved = save(&mut finished)?;
        Ok(if saved == total { End::Over(State::Finished) } else { End::Interrupted })
    }
}
