//! The cells of a loss surface.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use semfocus_core::Evaluation;
use semfocus_core::measurement::{self, Directions};
use semfocus_store::{
    End, Event, Grid, JobId, JobKind, State, StoreError, StoredSurface, SurfaceFolder, SurfaceSettings,
};

use super::{Context, Job, JobError};
use crate::surface::directions::{Plane, Scaling};
use crate::surface::evaluator::{Evaluator, evaluate};
use crate::surface::{check_comparable, fingerprint};
use crate::{ModelRef, TrainedModel};

/// Finished cells are written this often.
const SAVE_EVERY: Duration = Duration::from_millis(200);

/// Loss and accuracy over a grid of a plane through the weights of a stored model. Finished cells are not evaluated again.
pub struct Surface {
    model: ModelRef,
    options: measurement::Surface,
    folder: SurfaceFolder,
}

impl Surface {
    /// The surfaces of these models, which are to be compared.
    pub fn all(options: &measurement::Surface, models: &[ModelRef]) -> Result<Vec<Self>, JobError> {
        check_comparable(models)?;
        let draws = |model| (0..options.draws.get()).map(move |draw| Surface::new(options, model, draw));
        Ok(models.iter().flat_map(draws).collect())
    }

    fn new(options: &measurement::Surface, model: &ModelRef, draw: usize) -> Self {
        let directions = match (&options.through[..], options.directions) {
            ([one, other], _) => format!("through {} {}", one.display(), other.display()),
            (_, Directions::Tensor) => "tensor".to_owned(),
            (_, Directions::Filter) => "filter".to_owned(),
            (_, Directions::Path) => "path".to_owned(),
        };
        let settings = SurfaceSettings {
            epoch: model.epoch(),
            weights: String::new(),
            directions,
            seed: if options.is_random() { options.seed } else { 0 },
            draw,
            grid: Grid { side: options.grid.get(), range: options.range.get() },
            samples: model.settings.data.sizes.train.min(options.samples.get()),
            attention_dropout: options.attention_dropout,
            path: Vec::new(),
        };
        let folder = SurfaceFolder::new(&model.folder, settings);
        Surface { model: model.clone(), options: options.clone(), folder }
    }

    /// The model.
    pub fn model(&self) -> &ModelRef {
        &self.model
    }

    /// The surface, if it is complete.
    pub fn record(&self) -> Result<Option<StoredSurface>, StoreError> {
        self.folder.complete()
    }

    /// The plane through a model.
    fn plane(&self, trained: &TrainedModel, context: &Context<'_>) -> Result<Plane, JobError> {
        let (model, options, draw) = (trained.model.as_ref(), &self.options, self.folder.settings().draw);
        Ok(match (&options.through[..], options.directions) {
            ([one, other], _) => {
                let read = |file: &Path| TrainedModel::read_file(context.device, &trained.trial, file);
                Plane::through(model, read(one)?.model.as_ref(), read(other)?.model.as_ref())?
            }
            (_, Directions::Tensor) => Plane::random(model, Scaling::Tensor, options.seed, draw),
            (_, Directions::Filter) => Plane::random(model, Scaling::Filter, options.seed, draw),
            (_, Directions::Path) => {
                let along = self.model.along_training()?;
                let path = along.iter().map(|model| context.load(model)).collect::<Result<Vec<_>, _>>()?;
                Plane::along_path(model, &path)?
            }
        })
    }
}

impl Job for Surface {
    fn id(&self) -> JobId {
        JobId { kind: JobKind::Surface, trial: self.model.folder.id(), part: self.folder.settings().name() }
    }

    fn title(&self) -> String {
        let settings = self.folder.settings();
        format!("{} {} {}", self.model.title, settings.directions, settings.draw)
    }

    fn unit(&self) -> &'static str {
        "cells"
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn units(&self) -> usize {
        self.folder.settings().grid.cells()
    }

    fn units_recorded(&self) -> (usize, f64) {
        (self.folder.cells().map_or(0, |cells| cells.len()), 0.0)
    }

    fn state_if_over(&self) -> Result<Option<State>, JobError> {
        match self.record() {
            // What is in the files that a plane leads through is known only when they are read.
            Ok(surface) => Ok(surface.filter(|_| self.options.through.is_empty()).map(|_| State::Finished)),
            // Damaged cells are evaluated again.
            Err(StoreError::Damaged { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn run(&self, context: &Context<'_>) -> Result<End, JobError> {
        let trained = &context.load(&self.model)?;
        if trained.epoch != self.folder.settings().epoch {
            return Err(JobError::OtherEpoch { title: self.title(), epoch: trained.epoch });
        }
        let plane = self.plane(trained, context)?;
        let folder = self.folder.with_model(fingerprint(&plane.centre), plane.path.clone());
        for kept in folder.begin(context.lease)? {
            context.warn(format!("a damaged file of the surface is kept as {}", kept.display()));
        }
        let (mut saved, total) = (folder.cells()?.len(), self.units());
        let TrainedModel { trial, model, epoch } = trained;
        context.emit(Event::JobStarted { done: saved, total, epoch: *epoch });
        let split = trial.source.dataset(&trial.settings.data, trial.settings.seed)?.train;
        let settings = folder.settings();
        let evaluator =
            Evaluator::new(model.as_ref(), &split, settings.samples, settings.attention_dropout, context.device);
        // Cells are finished in any order and written in theirs.
        let (mut finished, mut done): (BTreeMap<usize, Evaluation>, usize) = (BTreeMap::new(), saved);
        let mut save = |finished: &mut BTreeMap<usize, Evaluation>| {
            let mut ready = Vec::new();
            while let Some(cell) = finished.remove(&(saved + ready.len())) {
                ready.push(cell);
            }
            folder.append(context.lease, saved, &ready)?;
            saved += ready.len();
            Ok::<usize, JobError>(saved)
        };
        let (mut saved_at, mut pause) = (Instant::now(), SAVE_EVERY);
        let cells = done..total;
        evaluate(&evaluator, &plane, &settings.grid, cells, context.threads.count(), context.stop, |cell, value| {
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
        })?;
        let saved = save(&mut finished)?;
        Ok(if saved == total { End::Over(State::Finished) } else { End::Interrupted })
    }
}
