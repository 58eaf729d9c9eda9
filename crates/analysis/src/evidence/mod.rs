//! What a run shows, read from its store alone: every mechanism by itself and against full attention, seed by seed.
//!
//! | to find | look in |
//! |---|---|
//! | what is read off one trial | [`measures`] |
//! | how many times faster, where some trials never arrive | [`speedup`] |
//! | a mechanism against full attention: tests, intervals | [`comparison`] |
//! | from numbers to words, and by which rule | [`verdict`] |
//! | how a speed-up varies over a grid | [`robustness`] |

pub mod comparison;
pub mod measures;
pub mod robustness;
pub mod speedup;
pub mod verdict;

use semfocus_lab::settings::{Goal, Metric};
use semfocus_lab::store::{Point, State, StoredTrial};
use semfocus_lab::{Experiment, Store};
use serde::Serialize;

use crate::stats::{KaplanMeier, RestrictedMean, median};
pub use comparison::Comparison;
pub use measures::Measures;

/// The mechanism that all others are compared with.
pub const BASELINE: &str = "full";

/// The goal unless another is named: a training accuracy of 95 %, as in the study.
pub const GOAL: Goal = Goal { metric: Metric::TrainAccuracy, value: 0.95 };

/// A trial and what is read off it.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The trial.
    pub trial: StoredTrial,
    /// What is read off it; none before its first epoch.
    pub measures: Option<Measures>,
}

/// A mechanism at one point of the grid.
#[derive(Clone, Debug, Serialize)]
pub struct MechanismEvidence {
    /// The mechanism.
    pub mechanism: String,
    /// Trials with at least one epoch.
    pub seeds: usize,
    /// Trials that are planned.
    pub planned: usize,
    /// Trials that are not over.
    pub unfinished: usize,
    /// Trials that diverged.
    pub diverged: usize,
    /// Trials that reached the goal.
    pub reached: usize,
    /// Median over the seeds of the first epoch that reached the goal; a trial that has not counts as later than any that
    /// has. None if the median itself has not arrived.
    pub median_epochs_to_threshold: Option<f64>,
    /// Epochs of the longest trial: what has not arrived needs more than these.
    pub epochs: usize,
    /// Mean epochs to the goal, every trial counted up to [`PointEvidence::horizon`] only.
    pub restricted_mean_epochs: Option<RestrictedMean>,
    /// Median over the seeds of a trial's best held-out accuracy.
    pub best_heldout_accuracy: Option<f64>,
    /// Median over the seeds of the held-out accuracy after the last epoch.
    pub last_heldout_accuracy: Option<f64>,
    /// Median over the seeds of the mean held-out accuracy over the epochs: the area under the learning curve.
    pub mean_heldout_accuracy: Option<f64>,
    /// Median over the seeds of training less held-out accuracy after the last epoch.
    pub generalisation_gap: Option<f64>,
    /// Share of trials that have not arrived, epoch by epoch.
    #[serde(skip)]
    pub survival: KaplanMeier,
    /// Against full attention; none for full attention itself, or where there is no pair.
    pub versus_full: Option<Comparison>,
}

/// All mechanisms at one point of the grid.
#[derive(Clone, Debug)]
pub struct PointEvidence {
    /// Values on the axes of the grid.
    pub point: Point,
    /// Epochs up to which every trial was watched, but for those that arrived or diverged before.
    pub horizon: f64,
    /// One for each mechanism, in the order of the experiment.
    pub mechanisms: Vec<MechanismEvidence>,
    /// The trials, in the order of the plan.
    pub trials: Vec<Observed>,
}

/// What a run shows.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The experiment.
    pub experiment: Experiment,
    /// What counts as having learned.
    pub goal: Goal,
    /// One for each point of the grid; one without axes if there is none.
    pub points: Vec<PointEvidence>,
}

/// Why there is nothing to show.
#[derive(Debug, thiserror::Error)]
pub enum EvidenceError {
    /// Something is wrong with the files.
    #[error(transparent)]
    Store(#[from] semfocus_lab::store::StoreError),
}

impl Evidence {
    /// Reads a store, finished or not.
    pub fn read(store: &Store, goal: Goal) -> Result<Self, EvidenceError> {
        let experiment = store.experiment()?;
        let mut costs = measures::Costs::default();
        let mut points: Vec<(Point, Vec<Observed>)> = Vec::new();
        for trial in store.stored_trials()? {
            let measures = Measures::of(&trial, goal, &mut costs);
            let point = trial.entry.point.clone();
            let observed = Observed { trial, measures };
            match points.iter_mut().find(|(other, _)| *other == point) {
                Some((_, trials)) => trials.push(observed),
                None => points.push((point, vec![observed])),
            }
        }
        let mechanisms = &experiment.mechanisms;
        let points = points.into_iter().map(|(point, trials)| PointEvidence::new(point, mechanisms, trials)).collect();
        Ok(Evidence { experiment, goal, points })
    }

    /// Trials that are not over, and why: waiting, running, interrupted or failed.
    pub fn missing(&self) -> impl Iterator<Item = &StoredTrial> {
        self.trials().map(|observed| &observed.trial).filter(|trial| !trial.state.is_over())
    }

    /// All trials.
    pub fn trials(&self) -> impl Iterator<Item = &Observed> {
        self.points.iter().flat_map(|point| &point.trials)
    }
}

impl PointEvidence {
    fn new(point: Point, mechanisms: &[String], trials: Vec<Observed>) -> Self {
        let horizon = horizon(&trials);
        let mut of_mechanisms: Vec<MechanismEvidence> =
            mechanisms.iter().map(|mechanism| MechanismEvidence::new(mechanism, &trials, horizon)).collect();
        let compared = comparison::with_baseline(mechanisms, &trials, horizon);
        for (mechanism, comparison) in of_mechanisms.iter_mut().zip(compared) {
            mechanism.versus_full = comparison;
        }
        PointEvidence { point, horizon, mechanisms: of_mechanisms, trials }
    }

    /// The trials of a mechanism that have measures.
    pub fn of_mechanism<'a>(&'a self, mechanism: &'a str) -> impl Iterator<Item = (&'a StoredTrial, &'a Measures)> {
        measured(&self.trials, mechanism)
    }
}

fn measured<'a>(trials: &'a [Observed], mechanism: &'a str) -> impl Iterator<Item = (&'a StoredTrial, &'a Measures)> {
    let of_mechanism = trials.iter().filter(move |observed| observed.trial.entry.mechanism == mechanism);
    of_mechanism.filter_map(|observed| Some((&observed.trial, observed.measures.as_ref()?)))
}

/// The least number of epochs over the trials that were ended by nothing but their budget.
fn horizon(trials: &[Observed]) -> f64 {
    let measures = trials.iter().filter_map(|observed| observed.measures.as_ref());
    let censored = measures.clone().filter(|measures| !measures.arrival.arrived).map(|measures| measures.arrival.time);
    let least = censored.fold(f64::INFINITY, f64::min);
    if least.is_finite() { least } else { measures.map(|measures| measures.arrival.time).fold(0.0, f64::max) }
}

impl MechanismEvidence {
    fn new(mechanism: &str, trials: &[Observed], horizon: f64) -> Self {
        let all: Vec<&Observed> =
            trials.iter().filter(|observed| observed.trial.entry.mechanism == mechanism).collect();
        let measures: Vec<&Measures> = all.iter().filter_map(|observed| observed.measures.as_ref()).collect();
        let count = |wanted: fn(State) -> bool| all.iter().filter(|observed| wanted(observed.trial.state)).count();
        let epochs: Vec<f64> = measures
            .iter()
            .map(|measures| if measures.arrival.arrived { measures.arrival.time } else { f64::INFINITY })
            .collect();
        let middle = |value: fn(&Measures) -> f64| median(&measures.iter().map(|m| value(m)).collect::<Vec<_>>());
        let survival = KaplanMeier::new(&measures.iter().map(|measures| measures.arrival).collect::<Vec<_>>());
        MechanismEvidence {
            mechanism: mechanism.to_owned(),
            seeds: measures.len(),
            planned: all.len(),
            unfinished: count(|state| !state.is_over()),
            diverged: count(|state| state == State::Diverged),
            reached: epochs.iter().filter(|epoch| epoch.is_finite()).count(),
            median_epochs_to_threshold: median(&epochs).filter(|epoch| epoch.is_finite()),
            epochs: measures.iter().map(|measures| measures.epochs).max().unwrap_or(0),
            restricted_mean_epochs: survival.restricted_mean(horizon),
            best_heldout_accuracy: middle(|measures| measures.best_heldout_accuracy),
            last_heldout_accuracy: middle(|measures| measures.last_heldout_accuracy),
            mean_heldout_accuracy: middle(|measures| measures.mean_heldout_accuracy),
            generalisation_gap: middle(|measures| measures.generalisation_gap),
            survival,
            versus_full: None,
        }
    }
}
