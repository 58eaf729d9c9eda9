//! A trial as analysis and report take it: values, and no folder. A store gives everything; what another source does not know, such
//! as the record of the study, which keeps less, is None or empty.

use semfocus_core::{DataFacts, EpochRecord, Experiment, Metrics, TrialSettings};
use serde::Serialize;

use crate::{
    Asked, Environment, IndexEntry, ProbeRecord, SharpnessRecord, SliceRecord, State, Status, StoreError,
    StoredSurface, SurfaceSettings,
};

/// Something that is damaged or cannot be read, and was left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub struct Damage {
    /// What, in words.
    pub text: String,
    /// Whether it can be repaired.
    pub is_repairable: bool,
}

impl From<&StoreError> for Damage {
    fn from(error: &StoreError) -> Self {
        Damage { text: error.to_string(), is_repairable: error.is_repairable() }
    }
}

impl From<Damage> for String {
    fn from(damage: Damage) -> String {
        damage.text
    }
}

/// A run: the experiment and what is known of its trials.
#[derive(Clone, Debug)]
pub struct RunData {
    /// The experiment.
    pub experiment: Experiment,
    /// All trials of the experiment, in their order, those that have not begun included.
    pub trials: Vec<TrialData>,
    /// What cannot be read or is damaged and was left out.
    pub damage: Vec<Damage>,
}

/// What is known of a trial.
#[derive(Clone, Debug, Default)]
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
    /// Independent sequences that the answers of the held-out split are worth; unknown if not written down, as in version 0.2.0, where
    /// every example asked once and copies were not counted.
    pub held_out: Option<usize>,
    /// The same of the test split.
    pub test_split: Option<usize>,
    /// What is known of its data, by which losses are read; none if that was not written down, as in version 0.2.0.
    pub facts: Option<DataFacts>,
    /// Accuracy on the test split after the best epoch.
    pub test_accuracy: Option<f64>,
    /// When its status was last written.
    pub updated: Option<String>,
    /// What probes found, by ascending epoch.
    pub probes: Vec<ProbeRecord>,
    /// Loss and accuracy by properties of the questions: epoch after epoch, slice after slice, by ascending value.
    pub slices: Vec<SliceRecord>,
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
    /// What was evaluated. The record of the study does not know the weights.
    pub settings: SurfaceSettings,
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
    /// A trial that has not begun.
    pub fn new(entry: IndexEntry) -> Self {
        TrialData { entry, ..TrialData::default() }
    }

    /// Takes over how far training is.
    pub(crate) fn set_progress(
        &mut self,
        untrained: Option<&EpochRecord>,
        records: &[EpochRecord],
        status: Option<&Status>,
    ) {
        self.untrained = untrained.map(CurvePoint::from);
        self.curve = records.iter().map(CurvePoint::from).collect();
        self.steps = records.last().map(|record| record.steps);
        let Some(status) = status else { return };
        (self.epoch_flops, self.majority) = (status.epoch_flops, status.majority);
        let independent = |asked: Asked| asked.independent;
        (self.held_out, self.test_split) = (status.held_out.map(independent), status.test_split.map(independent));
        self.facts = status.facts;
        self.test_accuracy = status.test.map(|test| test.best.accuracy);
        self.updated = Some(status.updated.clone());
    }

    /// What is known of its data; nothing if that was not written down.
    pub fn data_facts(&self) -> DataFacts {
        self.facts.unwrap_or_default()
    }

    /// The untrained model, if it was evaluated, and all epochs.
    pub fn curve_from_start(&self) -> impl Iterator<Item = &CurvePoint> {
        self.untrained.iter().chain(&self.curve)
    }
}

impl From<&EpochRecord> for CurvePoint {
    fn from(record: &EpochRecord) -> Self {
        CurvePoint { epoch: record.epoch, metrics: record.metrics, seconds: Some(record.seconds) }
    }
}

impl From<StoredSurface> for SurfaceData {
    fn from(StoredSurface { settings, values }: StoredSurface) -> Self {
        SurfaceData { settings, losses: values.iter().map(|value| value.loss).collect() }
    }
}

impl std::ops::Deref for SurfaceData {
    type Target = SurfaceSettings;

    fn deref(&self) -> &SurfaceSettings {
        &self.settings
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
