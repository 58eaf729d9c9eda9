//! What a run shows, from its store alone: each mechanism by itself, and compared with a baseline seed by seed.
//!
//! | to find | look in |
//! |---|---|
//! | the measures of one trial | [`measures`] |
//! | speed-ups, where some trials never reach the target | [`speedup`] |
//! | a mechanism compared with a baseline: tests, intervals | [`comparison`], [`accuracy`] |
//! | the verdicts in words, and their rules; all in one sentence | [`verdict`]; [`Evidence::headline`] |
//! | whether the experiment's claim holds | [`claim`] |
//! | several runs compared with each other | [`across`] |
//! | what causes the speed-up of top-k attention, from controls | [`causes`] |
//! | pairs that ran on different processors | [`processors`] |
//! | whether times are counted in epochs or in steps | [`Unit`] |
//! | how a speed-up varies over a grid, and each mechanism at its best point | [`robustness`], [`tuned`] |

pub mod accuracy;
pub mod across;
pub mod causes;
pub mod claim;
pub mod comparison;
mod headline;
pub mod measures;
pub mod processors;
pub mod robustness;
pub mod speedup;
pub mod target;
pub mod tuned;
pub mod unit;
pub mod verdict;

use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;

use semfocus_core::{Experiment, Goal, Metric, Point, Quantity, Threshold, TrialId, UnknownFact};
use semfocus_store::{Damage, RunData, State, Store, TrialData};
use serde::{Serialize, Serializer};

use crate::stats::{KaplanMeier, RestrictedMean, median};
use causes::Causes;
use claim::Claim;
pub use comparison::Comparison;
pub use measures::Measures;
use robustness::Robustness;
use speedup::Speedup;
use tuned::BestOfGrid;
pub use unit::Unit;

pub use semfocus_core::BASELINE;

/// The default target: a training accuracy of 95 %, as in the study.
pub const GOAL: Goal = Goal { quantity: Quantity::Recorded(Metric::TrainAccuracy), value: 0.95 };

/// A trial and its measures.
#[derive(Clone, Debug)]
pub struct Observed {
    /// What is known of it.
    pub trial: TrialData,
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
    pub median_epochs_to_target: Option<f64>,
    /// Epochs of the longest trial: trials that have not reached the target need more.
    pub epochs: usize,
    /// Mean epochs to the target, where every trial counts only up to [`PointEvidence::horizon`].
    #[serde(serialize_with = "mean_only")]
    pub restricted_mean_epochs: Option<RestrictedMean>,
    /// Median over the seeds of a trial's best held-out accuracy.
    pub best_heldout_accuracy: Option<f64>,
    /// Median over the seeds of the held-out accuracy after the last epoch.
    pub last_heldout_accuracy: Option<f64>,
    /// Median over the seeds of the mean held-out accuracy over the epochs: the area under the learning curve.
    pub mean_heldout_accuracy: Option<f64>,
    /// Median over the seeds of training accuracy minus held-out accuracy after the last epoch.
    pub generalisation_gap: Option<f64>,
    /// Median over the seeds of the accuracy on the test split after the best epoch, if all trials that are over have one.
    pub best_test_accuracy: Option<f64>,
    /// Medians over the seeds of losses, accuracies and what follows from them and the data, after the last epoch; without those that
    /// are not known of all trials.
    pub last: BTreeMap<&'static str, f64>,
    /// Trials whose best held-out accuracy is clearly above that of always giving the most frequent class.
    pub above_majority: usize,
    /// Share of trials that have not reached the target, epoch by epoch.
    #[serde(skip)]
    pub survival: KaplanMeier,
}

/// All mechanisms at one point of the grid. Comparisons are made when they are first asked for, and once.
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
    baseline: String,
    comparisons: OnceLock<Vec<Option<Comparison>>>,
    pairs: OnceLock<Vec<(String, Comparison)>>,
}

/// What a run shows. Reading it is cheap; what takes statistical tests is computed when it is first asked for, and once.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// As stored with the run.
    pub experiment: Experiment,
    /// The target.
    pub goal: Goal,
    /// What the mechanisms are compared with.
    pub baseline: String,
    /// One for each point of the grid; a single one without axes if there is no grid.
    pub points: Vec<PointEvidence>,
    /// What cannot be read or is damaged and was left out.
    pub damage: Vec<Damage>,
    concluded: Concluded,
}

/// What follows from the evidence and has been asked for.
#[derive(Clone, Debug, Default)]
struct Concluded {
    claim: OnceLock<Claim>,
    causes: OnceLock<Vec<Causes>>,
    robustness: OnceLock<Vec<Robustness>>,
    best_of_grid: OnceLock<Option<BestOfGrid>>,
}

/// Why a run cannot be evaluated.
#[derive(Debug, thiserror::Error)]
pub enum EvidenceError {
    /// The files of the run cannot be read.
    #[error(transparent)]
    Store(#[from] semfocus_store::StoreError),
    /// The run has no such mechanism.
    #[error("{baseline} is not among the mechanisms of this run, which has {known}")]
    NoBaseline {
        /// What was asked for.
        baseline: String,
        /// What there is.
        known: String,
    },
    /// The target means nothing for the data of a trial.
    #[error("{unknown}{}\nhelp: a target on a loss, an accuracy or a perplexity needs nothing", missing(trial, *is_written))]
    Target {
        /// Why not.
        unknown: UnknownFact,
        /// Which trial it is.
        trial: String,
        /// Whether anything is written down of its data.
        is_written: bool,
    },
}

/// Which trial is meant, and why it does not say what its data are.
fn missing(trial: &str, is_written: bool) -> String {
    let reason =
        if is_written { "its data do not have it" } else { "the version that trained it did not write it down" };
    format!(" ({trial}: {reason})")
}

/// What a target is for the data of a trial. None for trials without epochs, and for those that do not say what their data are because
/// their status is damaged.
fn target_of(trial: &TrialData, goal: Goal, damage: &[Damage]) -> Result<Option<Threshold>, EvidenceError> {
    match goal.threshold(&trial.data_facts()) {
        Ok(target) => Ok(Some(target)),
        Err(_) if trial.curve.is_empty() || trial.updated.is_none() && !damage.is_empty() => Ok(None),
        Err(unknown) => {
            let (trial, is_written) = (trial.entry.title(), trial.facts.is_some());
            Err(EvidenceError::Target { unknown, trial, is_written })
        }
    }
}

impl Evidence {
    /// Reads a store, finished or not, and compares with full attention.
    pub fn read(store: &Store, goal: impl Into<Option<Goal>>) -> Result<Self, EvidenceError> {
        Evidence::read_against(store, goal, None)
    }

    /// Reads a store, finished or not, and compares with one of its mechanisms; with full attention if none is given.
    pub fn read_against(
        store: &Store,
        goal: impl Into<Option<Goal>>,
        baseline: Option<&str>,
    ) -> Result<Self, EvidenceError> {
        Evidence::new(store.read()?.into(), goal, baseline)
    }

    /// Reads a store with its slices, loss surfaces and sharpness, for a report.
    pub fn read_all(store: &Store, goal: impl Into<Option<Goal>>) -> Result<Self, EvidenceError> {
        Evidence::new(store.read_all()?.into(), goal, None)
    }

    /// What a run shows, compared with one of its mechanisms; with full attention if none is given. The target is `goal`, or else that of
    /// the experiment, or else [`GOAL`].
    pub fn new(run: RunData, goal: impl Into<Option<Goal>>, baseline: Option<&str>) -> Result<Self, EvidenceError> {
        let RunData { experiment, trials, damage } = run;
        let goal = goal.into().or(experiment.target).unwrap_or(GOAL);
        let mut points: Vec<(Point, Vec<Observed>)> = Vec::new();
        for trial in trials {
            let target = target_of(&trial, goal, &damage)?;
            let measures = target.and_then(|target| Measures::new(&trial, target));
            let point = trial.entry.point.clone();
            let observed = Observed { trial, measures };
            match points.iter_mut().find(|(other, _)| *other == point) {
                Some((_, trials)) => trials.push(observed),
                None => points.push((point, vec![observed])),
            }
        }
        let mechanisms = &experiment.mechanisms;
        if let Some(baseline) = baseline.filter(|wanted| !mechanisms.iter().any(|name| name == wanted)) {
            return Err(EvidenceError::NoBaseline { baseline: baseline.to_owned(), known: mechanisms.join(", ") });
        }
        let baseline = baseline.unwrap_or(BASELINE).to_owned();
        let points = points
            .into_iter()
            .map(|(point, trials)| PointEvidence::new(point, mechanisms, &baseline, trials))
            .collect();
        Ok(Evidence { experiment, goal, baseline, points, damage, concluded: Concluded::default() })
    }

    /// Takes probes, slices, loss surfaces and sharpness from a later reading of the same run. What was concluded stays: it follows from the
    /// curves alone.
    pub fn update_measurements(&mut self, run: RunData) {
        self.damage = run.damage;
        let mut read: HashMap<TrialId, TrialData> =
            run.trials.into_iter().map(|trial| (trial.entry.id, trial)).collect();
        for observed in self.points.iter_mut().flat_map(|point| &mut point.trials) {
            let Some(TrialData { probes, slices, surfaces, sharpness, .. }) = read.remove(&observed.trial.entry.id)
            else {
                continue;
            };
            let trial = &mut observed.trial;
            (trial.probes, trial.slices, trial.surfaces, trial.sharpness) = (probes, slices, surfaces, sharpness);
        }
    }

    /// Whether the experiment's claim holds.
    pub fn claim(&self) -> &Claim {
        self.concluded.claim.get_or_init(|| Claim::new(self))
    }

    /// What causes the speed-up of top-k attention, at every point that has controls.
    pub fn causes(&self) -> &[Causes] {
        let find = || self.points.iter().filter_map(|point| Causes::new(point, None)).collect();
        self.concluded.causes.get_or_init(find)
    }

    /// How the speed-up of each mechanism but the baseline varies over the grid; empty without a grid.
    pub fn robustness(&self) -> &[Robustness] {
        self.concluded.robustness.get_or_init(|| robustness::robustness(self))
    }

    /// Each mechanism at its own best point. None without a grid or results.
    pub fn best_of_grid(&self) -> Option<&BestOfGrid> {
        self.concluded.best_of_grid.get_or_init(|| BestOfGrid::new(self)).as_ref()
    }

    /// Trials that have neither finished nor diverged: waiting, running, interrupted or failed.
    pub fn missing(&self) -> impl Iterator<Item = &TrialData> {
        self.trials().map(|observed| &observed.trial).filter(|trial| !trial.state.is_over())
    }

    /// Whether there are results.
    fn has_begun(&self) -> bool {
        self.trials().any(|observed| observed.measures.is_some())
    }

    /// Whether there are results, and none of them shows that anything was learned.
    pub fn has_learned_nothing(&self) -> bool {
        let mut begun = self.points.iter().filter(|point| point.trials.iter().any(|trial| trial.measures.is_some()));
        begun.next().is_some_and(PointEvidence::has_learned_nothing) && begun.all(PointEvidence::has_learned_nothing)
    }

    /// What everybody who reads the results has to know first.
    pub fn warnings(&self) -> Vec<String> {
        self.notes().into_iter().chain(self.nothing_learned()).chain(self.not_reached()).collect()
    }

    /// The same without whether anything was learned at all.
    pub fn notes(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let is_there = self.experiment.mechanisms.contains(&self.baseline);
        if !is_there && self.experiment.mechanisms.len() > 1 {
            warnings.push(format!(
                "this run has no {} attention, so nothing is compared; compare with another mechanism: `semfocus compare \
                 RUN --baseline {}`",
                self.baseline, self.experiment.mechanisms[0]
            ));
        } else if !is_there {
            warnings.push(format!(
                "this run has no {} attention and no other mechanism, so there is nothing to compare {} with",
                self.baseline,
                self.experiment.mechanisms.join(", ")
            ));
        }
        warnings.extend(self.experiment.notes.iter().cloned());
        warnings.extend(processors::warning(self));
        warnings.extend(processors::code_warning(self));
        warnings
    }

    /// Says so if nothing was learned.
    pub(crate) fn nothing_learned(&self) -> Option<String> {
        self.has_learned_nothing().then(|| {
            format!(
                "nothing learned: no trial reached {}, and none is clearly above the majority class on held-out \
                 examples ({}). Train longer or with more data before you compare.",
                target::target_words(self.goal),
                self.majority_text()
            )
        })
    }

    /// Says so if something was learned, but no trial has reached the target.
    fn not_reached(&self) -> Option<String> {
        let mut mechanisms = self.points.iter().flat_map(|point| &point.mechanisms);
        let is_asked = self.has_begun() && !self.has_learned_nothing();
        (is_asked && mechanisms.all(|mechanism| mechanism.reached == 0)).then(|| {
            let place = if self.points.len() > 1 { " at any point of the grid" } else { "" };
            let target = target::target_words(self.goal);
            format!("no trial has reached {target}{place}, so speeds cannot be compared")
        })
    }

    fn majority_text(&self) -> String {
        let shares: Vec<f64> = self.trials().filter_map(|trial| trial.measures.as_ref()?.majority).collect();
        let (min, max) = (shares.iter().copied().fold(1.0, f64::min), shares.iter().copied().fold(0.0, f64::max));
        match (format!("{:.1}", 100.0 * min), format!("{:.1}", 100.0 * max)) {
            (min, max) if min == max => format!("{min} %"),
            (min, max) => format!("{min} to {max} %"),
        }
    }

    /// What times are counted in.
    pub fn unit(&self) -> Unit {
        Unit::new(self.trials())
    }

    /// The trials of all points.
    pub fn trials(&self) -> impl Iterator<Item = &Observed> + Clone {
        self.points.iter().flat_map(|point| &point.trials)
    }
}

impl PointEvidence {
    /// What trials at one point show.
    pub fn new(point: Point, mechanisms: &[String], baseline: &str, trials: Vec<Observed>) -> Self {
        let horizon = horizon(&trials);
        let of_mechanisms =
            mechanisms.iter().map(|mechanism| MechanismEvidence::new(mechanism, &trials, horizon)).collect();
        PointEvidence {
            point,
            horizon,
            mechanisms: of_mechanisms,
            trials,
            baseline: baseline.to_owned(),
            comparisons: OnceLock::new(),
            pairs: OnceLock::new(),
        }
    }

    fn names(&self) -> Vec<&str> {
        self.mechanisms.iter().map(|mechanism| mechanism.mechanism.as_str()).collect()
    }

    /// Each mechanism and how it compares with the baseline: not at all if it is the baseline itself, or without a common seed.
    pub fn compared(&self) -> impl Iterator<Item = (&MechanismEvidence, Option<&Comparison>)> {
        let comparisons = self.comparisons.get_or_init(|| {
            let wanted: Vec<(&str, &str)> = self.names().into_iter().map(|name| (name, &*self.baseline)).collect();
            comparison::compare_all(&wanted, &self.trials, self.horizon)
        });
        self.mechanisms.iter().zip(comparisons.iter().map(Option::as_ref))
    }

    /// A mechanism compared with the baseline. None for the baseline itself, or without a common seed.
    pub fn versus_baseline(&self, mechanism: &str) -> Option<&Comparison> {
        self.compared().find(|(of, _)| of.mechanism == mechanism)?.1
    }

    /// How many times fewer epochs a mechanism needs than the baseline, without any test.
    pub fn speedup(&self, mechanism: &str) -> Option<Speedup> {
        comparison::speedup_in_epochs(mechanism, &self.baseline, &self.trials)
    }

    /// With how many seeds a mechanism needs fewer epochs than the baseline, and of how many, without any test.
    pub fn seeds_in_favour(&self, mechanism: &str) -> Option<(usize, usize)> {
        comparison::seeds_in_favour(mechanism, &self.baseline, &self.trials)
    }

    /// Every mechanism compared with every earlier one, corrected for the number of pairs.
    pub fn all_pairs(&self) -> &[(String, Comparison)] {
        self.pairs.get_or_init(|| {
            let names = self.names();
            let earlier = |place: usize| names[..place].iter().map(move |baseline| (place, *baseline));
            let wanted: Vec<(&str, &str)> =
                (0..names.len()).flat_map(earlier).map(|(place, baseline)| (names[place], baseline)).collect();
            let compared = comparison::compare_all(&wanted, &self.trials, self.horizon);
            wanted.iter().zip(compared).filter_map(|((name, _), found)| Some(((*name).to_owned(), found?))).collect()
        })
    }

    /// Whether no trial reached the target or is clearly above the majority class.
    pub fn has_learned_nothing(&self) -> bool {
        self.mechanisms.iter().all(|mechanism| mechanism.reached == 0 && mechanism.above_majority == 0)
    }

    /// The trials of a mechanism that have measures.
    pub fn of_mechanism<'a>(&'a self, mechanism: &'a str) -> impl Iterator<Item = (&'a TrialData, &'a Measures)> {
        measured(&self.trials, mechanism)
    }
}

fn mean_only<S: Serializer>(value: &Option<RestrictedMean>, serializer: S) -> Result<S::Ok, S::Error> {
    value.map(|restricted| restricted.mean).serialize(serializer)
}

fn measured<'a>(trials: &'a [Observed], mechanism: &'a str) -> impl Iterator<Item = (&'a TrialData, &'a Measures)> {
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

/// The median over trials of every quantity that all of them know after their last epoch.
fn last_values<'a>(trials: impl Iterator<Item = &'a TrialData>) -> BTreeMap<&'static str, f64> {
    let ends: Vec<_> = trials.filter_map(|trial| Some((trial.curve.last()?.metrics, trial.data_facts()))).collect();
    let of = |quantity: Quantity| {
        let values: Option<Vec<f64>> = ends.iter().map(|(metrics, facts)| quantity.value(metrics, facts)).collect();
        Some((quantity.name(), median(&values?)?))
    };
    Quantity::of_quality().filter_map(of).collect()
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
            median_epochs_to_target: median(&epochs).filter(|epoch| epoch.is_finite()),
            epochs: measures.iter().map(|measures| measures.epochs).max().unwrap_or(0),
            restricted_mean_epochs: survival.restricted_mean(horizon),
            best_heldout_accuracy: middle(|measures| measures.best_heldout_accuracy),
            last_heldout_accuracy: middle(|measures| measures.last_heldout_accuracy),
            mean_heldout_accuracy: middle(|measures| measures.mean_heldout_accuracy),
            generalisation_gap: middle(|measures| measures.generalisation_gap),
            best_test_accuracy: measures
                .iter()
                .map(|measures| measures.test_accuracy)
                .collect::<Option<Vec<f64>>>()
                .and_then(|accuracies| median(&accuracies)),
            last: last_values(all.iter().map(|observed| &observed.trial)),
            above_majority: measures.iter().filter(|m| accuracy::is_learned(m.luck, trials.len())).count(),
            survival,
        }
    }
}
