//! A trial as analysis and report take it: values, and no folder. A store gives everything; what another source does not know, such
//! as the record of the study, which keeps less, is None or empty.

use semfocus_core::{Experiment, Metrics, TrialSettings};

use crate::{
    Asked, Contents, Environment, Grid, IndexEntry, ProbeRecord, SharpnessRecord, State, StoredSurface, StoredTrial,
};

/// A run: the experiment and what is known of its trials.
#[derive(Clone, Debug)]
pub struct RunData {
    /// The experiment.
    pub experiment: Experiment,
    /// All trials of the experiment, in their order, those that have not begun included.
    pub trials: Vec<TrialData>,
    /// What cannot be read or is damaged and was left out, in words.
    pub damage: Vec<String>,
}

/// What is known of a trial.
#[derive(Clone, Debug)]
pub struct TrialData {
    /// Which trial it is.
    pub entry: IndexEntry,
    /// Its settings; none if it has not begun.
    pub settings: Option<TrialSettings>,
    /// How it stands.
    pub state: State,
    /// The untrained model, as epoch 0.
    pub untrained: Option<CurvePoint>,
    /// Its epochs from the first on.
    pub curve: Vec<CurvePoint>,
    /// Training steps of these epochs.
    pub steps: Option<u64>,
    /// Floating-point operations of training in an epoch.
    pub epoch_flops: Option<f64>,
    /// Share of the held-out examples that belong to their most frequent class.
    pub majority: Option<f64>,
    /// How much the held-out split asks; unknown if not written down, as in version 0.2.0, where every example asked once.
    pub held_out: Option<Asked>,
    /// How much the test split asks.
    pub test_split: Option<Asked>,
    /// Accuracy on the test split after the best epoch.
    pub test_accuracy: Option<f64>,
    /// When its status was last written.
    pub updated: Option<String>,
    /// What probes found, by ascending epoch.
    pub probes: Vec<ProbeRecord>,
    /// Its loss surfaces, by epoch, directions and draw.
    pub surfaces: Vec<SurfaceData>,
    /// How sharp its loss is, in the order of the measurements.
    pub sharpness: Vec<SharpnessData>,
    /// With what, where and how it was run.
    pub environment: Option<Environment>,
}

/// A model after an epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePoint {
    /// From 1; 0 is the untrained model.
    pub epoch: usize,
    /// Losses and accuracies.
    pub metrics: Metrics,
    /// Wall-clock time of the epoch.
    pub seconds: Option<f64>,
}

/// A loss surface.
#[derive(Clone, Debug, PartialEq)]
pub struct SurfaceData {
    /// Epochs that the model in its middle was trained for.
    pub epoch: usize,
    /// The kind of directions, such as `filter`.
    pub directions: String,
    /// The seed that random directions are drawn with.
    pub seed: u64,
    /// Which draw of that seed it is.
    pub draw: usize,
    /// Its cells.
    pub grid: Grid,
    /// Training examples that the loss is a mean over.
    pub samples: usize,
    /// Whether attention weights were dropped.
    pub attention_dropout: bool,
    /// Where the epochs of the training path are in the plane, if it has one.
    pub path: Vec<(usize, f64, f64)>,
    /// One for each cell.
    pub losses: Vec<f64>,
}

/// How sharp the training loss is at a model.
#[derive(Clone, Debug, PartialEq)]
pub struct SharpnessData {
    /// Epochs that the model was trained for.
    pub epoch: usize,
    /// Training examples: the first ones.
    pub samples: usize,
    /// Whether the products are exact but for rounding.
    pub exact: bool,
    /// Random vectors that the trace was estimated from.
    pub probes: usize,
    /// Mean loss.
    pub loss: f64,
    /// Sum of all eigenvalues of the Hessian.
    pub trace: f64,
    /// Standard error of the trace.
    pub trace_error: f64,
    /// The largest eigenvalues of the Hessian, largest first.
    pub eigenvalues: Vec<f64>,
}

impl TrialData {
    /// The untrained model, if it was evaluated, and all epochs.
    pub fn curve_from_start(&self) -> impl Iterator<Item = &CurvePoint> {
        self.untrained.iter().chain(&self.curve)
    }
}

impl From<Contents> for RunData {
    fn from(Contents { experiment, trials, damage }: Contents) -> Self {
        let damage = damage.iter().map(ToString::to_string).collect();
        RunData { experiment, trials: trials.into_iter().map(TrialData::from).collect(), damage }
    }
}

impl From<StoredTrial> for TrialData {
    fn from(trial: StoredTrial) -> Self {
        let point = |record: &semfocus_core::EpochRecord| CurvePoint {
            epoch: record.epoch,
            metrics: record.metrics,
            seconds: Some(record.seconds),
        };
        let status = trial.status.as_ref();
        TrialData {
            untrained: trial.untrained.as_ref().map(point),
            curve: trial.records.iter().map(point).collect(),
            steps: trial.records.last().map(|record| record.steps),
            epoch_flops: status.and_then(|status| status.epoch_flops),
            majority: status.and_then(|status| status.majority),
            held_out: status.and_then(|status| status.held_out),
            test_split: status.and_then(|status| status.test_split),
            test_accuracy: status.and_then(|status| status.test).map(|test| test.best.accuracy),
            updated: status.map(|status| status.updated.clone()),
            surfaces: trial.surfaces.into_iter().map(SurfaceData::from).collect(),
            sharpness: trial.sharpness.into_iter().map(SharpnessData::from).collect(),
            entry: trial.entry,
            settings: trial.settings,
            state: trial.state,
            probes: trial.probes,
            environment: trial.environment,
        }
    }
}

impl From<StoredSurface> for SurfaceData {
    fn from(StoredSurface { settings, values }: StoredSurface) -> Self {
        SurfaceData {
            epoch: settings.epoch,
            directions: settings.directions,
            seed: settings.seed,
            draw: settings.draw,
            grid: settings.grid,
            samples: settings.samples,
            attention_dropout: settings.attention_dropout,
            path: settings.path,
            losses: values.iter().map(|value| value.loss).collect(),
        }
    }
}

impl From<SharpnessRecord> for SharpnessData {
    fn from(SharpnessRecord { epoch, samples, exact, probes, sharpness, .. }: SharpnessRecord) -> Self {
        SharpnessData {
            epoch,
            samples,
            exact,
            probes,
            loss: sharpness.loss,
            trace: sharpness.trace,
            trace_error: sharpness.trace_error,
            eigenvalues: sharpness.eigenvalues,
        }
    }
}
