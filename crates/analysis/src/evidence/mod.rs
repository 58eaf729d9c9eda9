//! What a run shows, from its store alone: each mechanism by itself, and compared with full attention seed by seed.
//!
//! | to find | look in |
//! |---|---|
//! | the measures of one trial | [`measures`] |
//! | speed-ups, where some trials never reach the target | [`speedup`] |
//! | a mechanism compared with full attention: tests, intervals | [`comparison`] |
//! | the verdicts in words, and their rules | [`verdict`] |
//! | how a speed-up varies over a grid | [`robustness`] |

pub mod comparison;
pub mod measures;
pub mod robustness;
pub mod speedup;
pub mod verdict;

use semfocus_core::{Experiment, Goal, Metric, Point, TrialSettings};
use semfocus_store::{Contents, State, Store, StoredTrial};
use serde::Serialize;

use crate::stats::{KaplanMeier, RestrictedMean, median};
pub use comparison::Comparison;
pub use measures::Measures;

pub use semfocus_core::BASELINE;

/// The default target: a training accuracy of 95 %, as in the study.
pub const GOAL: Goal = Goal { metric: Metric::TrainAccuracy, value: 0.95 };

/// A trial and its measures.
#[derive(Clone, Debug)]
pub struct Observed {
    /// As stored.
    pub trial: StoredTrial,
    /// None before the first epoch is complete.
    pub measures: Option<Measures>,
}

/// A mechanism at one point of the grid.
#[derive(Clone, Debug, Serialize)]
pub struct MechanismEvidence {
    /// As the experiment names it.
    pub mechanism: String,
    /// Trials with at least one epoch.
    pub seeds: usize,
    /// Planned trials.
    pub planned: usize,
    /// Trials that have neither finished nor diverged.
    pub unfinished: usize,
    /// Trials that diverged.
    pub diverged: usize,
    /// Trials that reached the target.
    pub reached: usize,
    /// Median over the seeds of the first epoch that reached the target; a trial that has not reached it counts as later than
    /// any that has. None if the median trial has not.
    pub median_epochs_to_threshold: Option<f64>,
    /// Epochs of the longest trial: trials that have not reached the target need more.
    pub epochs: usize,
    /// Mean epochs to the target, where every trial counts only up to [`PointEvidence::horizon`].
    pub restricted_mean_epochs: Option<RestrictedMean>,
    /// Median over the seeds of a trial's best held-out accuracy.
    pub best_heldout_accuracy: Option<f64>,
    /// Median over the seeds of the held-out accuracy after the last epoch.
    pub last_heldout_accuracy: Option<f64>,
    /// Median over the seeds of the mean held-out accuracy over the epochs: the area under the learning curve.
    pub mean_heldout_accuracy: Option<f64>,
    /// Median over the seeds of training accuracy minus held-out accuracy after the last epoch.
    pub generalisation_gap: Option<f64>,
    /// Share of trials that have not reached the target, epoch by epoch.
    #[serde(skip)]
    pub survival: KaplanMeier,
    /// None for full attention itself, or without a common seed.
    pub versus_full: Option<Comparison>,
}

/// All mechanisms at one point of the grid.
#[derive(Clone, Debug)]
pub struct PointEvidence {
    /// Values on the axes of the grid.
    pub point: Point,
    /// Epochs for which every trial was observed, except those that reached the target or diverged before.
    pub horizon: f64,
    /// In the order of the experiment.
    pub mechanisms: Vec<MechanismEvidence>,
    /// In the order of the plan.
    pub trials: Vec<Observed>,
}

/// What a run shows.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// As stored with the run.
    pub experiment: Experiment,
    /// The target.
    pub goal: Goal,
    /// One for each point of the grid; a single one without axes if there is no grid.
    pub points: Vec<PointEvidence>,
    /// What cannot be read or is damaged and was left out, in words.
    pub damage: Vec<String>,
}

/// Why a run cannot be evaluated.
#[derive(Debug, thiserror::Error)]
pub enum EvidenceError {
    /// The files of the run cannot be read.
    #[error(transparent)]
    Store(#[from] semfocus_store::StoreError),
}

impl Evidence {
    /// Reads a store, finished or not.
    pub fn read(store: &Store, goal: Goal) -> Result<Self, EvidenceError> {
        let Contents { experiment, trials, damage } = store.read()?;
        let mut points: Vec<(Point, Vec<Observed>)> = Vec::new();
        for trial in trials {
            let measures = Measures::new(&trial, goal);
            let point = trial.entry.point.clone();
            let observed = Observed { trial, measures };
            match points.iter_mut().find(|(other, _)| *other == point) {
                Some((_, trials)) => trials.push(observed),
                None => points.push((point, vec![observed])),
            }
        }
        let mechanisms = &experiment.mechanisms;
        let points = points.into_iter().map(|(point, trials)| PointEvidence::new(point, mechanisms, trials)).collect();
        Ok(Evidence { experiment, goal, points, damage: damage.iter().map(ToString::to_string).collect() })
    }

    /// Trials that have neither finished nor diverged: waiting, running, interrupted or failed.
    pub fn missing(&self) -> impl Iterator<Item = &StoredTrial> {
        self.trials().map(|observed| &observed.trial).filter(|trial| !trial.state.is_over())
    }

    /// Steps of an epoch, if they are the same in all trials and an epoch is something else than a pass over a fixed set of
    /// training examples.
    pub fn steps_per_epoch(&self) -> Option<u64> {
        let mut settings = self.trials().filter_map(|observed| observed.trial.settings.as_ref());
        let is_usual = settings.all(TrialSettings::is_epoch_a_pass);
        let last = self.trials().filter_map(|observed| observed.trial.records.last());
        let mut steps = last.filter_map(|record| Some(record.steps? / record.epoch as u64));
        let first = steps.next().filter(|_| !is_usual)?;
        steps.all(|other| other == first).then_some(first)
    }

    /// The trials of all points.
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

/// How many epochs every trial was observed for, unless it reached the target earlier. If all trials reached it, the epoch in
/// which the last one did.
fn horizon(trials: &[Observed]) -> f64 {
    let measures = trials.iter().filter_map(|observed| observed.measures.as_ref());
    let times = measures.map(|measures| measures.time_to_target);
    let censored = times.clone().filter(|time| !time.reached).map(|time| time.time).fold(f64::INFINITY, f64::min);
    if censored.is_finite() { censored } else { times.map(|time| time.time).fold(0.0, f64::max) }
}

impl MechanismEvidence {
    fn new(mechanism: &str, trials: &[Observed], horizon: f64) -> Self {
        let all: Vec<&Observed> =
            trials.iter().filter(|observed| observed.trial.entry.mechanism == mechanism).collect();
        let measures: Vec<&Measures> = all.iter().filter_map(|observed| observed.measures.as_ref()).collect();
        let count = |wanted: fn(State) -> bool| all.iter().filter(|observed| wanted(observed.trial.state)).count();
        let epochs: Vec<f64> = measures
            .iter()
            .map(|measures| measures.time_to_target)
            .map(|time| if time.reached { time.time } else { f64::INFINITY })
            .collect();
        let middle = |value: fn(&Measures) -> f64| median(&measures.iter().map(|m| value(m)).collect::<Vec<_>>());
        let survival = KaplanMeier::new(&measures.iter().map(|measures| measures.time_to_target).collect::<Vec<_>>());
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
