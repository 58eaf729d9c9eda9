//! The figures of a run, from its evidence.

use semfocus_analysis::evidence::robustness::point_name;
use semfocus_analysis::evidence::speedup::Ratio;
use semfocus_analysis::evidence::{BASELINE, Evidence, MechanismEvidence, PointEvidence};
use semfocus_analysis::stats::{KaplanMeier, Step, TimeToTarget, quantile};
use semfocus_core::Metric;
use semfocus_figure::charts::{self, Curve, Estimate, Measure, Pairs, Survival};
use semfocus_figure::{Axis, End, Figure, Panel, Series, TWO_COLUMNS};
use semfocus_store::{State, StoredTrial};

use crate::palette;

/// Runs with more mechanisms also get learning curves with one column for each family.
const CROWDED: usize = 5;

#[derive(Clone, Debug)]
pub struct Picture {
    /// Base name of its files.
    pub name: String,
    /// Includes title and caption.
    pub figure: Figure,
}

/// All figures that the evidence supports; none before the first epoch.
pub fn pictures(evidence: &Evidence) -> Vec<Picture> {
    let has_epochs = evidence.trials().any(|observed| observed.measures.is_some());
    match &evidence.points[..] {
        _ if !has_epochs => Vec::new(),
        [point] => of_point(evidence, point),
        _ => of_grid(evidence),
    }
}

pub(crate) fn picture(name: &str, title: &str, caption: String, figure: Figure) -> Picture {
    let title = title.to_owned();
    Picture { name: name.to_owned(), figure: Figure { title, caption, ..figure } }
}

pub(crate) const BANDS: &str = "Lines are medians over seeds; bands extend from the lower to the upper quartile.";

/// The panels of learning curves, with their heights.
fn measures<'a>(loss: &'a [Curve], loss_height: f64, accuracy: &'a [Curve], accuracy_height: f64) -> [Measure<'a>; 2] {
    [
        Measure { axis: loss_axis(loss), height: loss_height, curves: loss },
        Measure { axis: accuracy_axis(), height: accuracy_height, curves: accuracy },
    ]
}

fn loss_axis(curves: &[Curve]) -> Axis {
    Axis::auto("training loss", curves.iter().flat_map(|curve| &curve.quartiles).flatten().copied())
}

pub(crate) fn accuracy_axis() -> Axis {
    Axis::fraction("held-out accuracy")
}

/// The figures of an experiment without a grid.
fn of_point(evidence: &Evidence, point: &PointEvidence) -> Vec<Picture> {
    let curves = |metric: Metric| -> Vec<Curve> {
        point.mechanisms.iter().filter_map(|mechanism| curve(point, &mechanism.mechanism, metric)).collect()
    };
    let (loss, accuracy) = (curves(Metric::TrainLoss), curves(Metric::HeldoutAccuracy));
    let n = seeds_text(point.mechanisms.iter().map(|mechanism| mechanism.seeds));
    let in_curves = seeds_text(point.mechanisms.iter().map(|mechanism| comparable(point, &mechanism.mechanism).len()));
    let held = if is_any_stopped(point) { " A trial that stopped at its goal keeps its last value." } else { "" };
    let left_out = if has_diverged(point) { " Trials that diverged are left out." } else { "" };
    let goal = evidence.goal;
    let task = task_of(evidence);
    let mut pictures = vec![picture(
        "curves",
        "Learning curves",
        format!("Training loss (above) and held-out accuracy (below) on {task}, {in_curves}. {BANDS}{held}{left_out}"),
        charts::curves("epoch", &measures(&loss, 95.0, &accuracy, 80.0)),
    )];
    if point.mechanisms.len() > CROWDED {
        pictures.push(picture(
            "curves-by-family",
            "Learning curves by family",
            format!(
                "The same with one column for each family of mechanisms and full attention in all of them; {task}, \
                 {in_curves}. {BANDS}{held}{left_out}"
            ),
            charts::curves_by_group("epoch", &measures(&loss, 105.0, &accuracy, 85.0), |name| {
                (name != BASELINE).then(|| palette::family(name))
            }),
        ));
    }
    let survivals: Vec<Survival> = point.mechanisms.iter().filter(|m| m.seeds > 0).map(survival).collect();
    pictures.push(picture(
        "survival",
        "Trials that have not reached the goal",
        format!(
            "Share of trials that have not reached {goal}, by epoch (Kaplan–Meier), on {task}, {n}. Bands are pointwise 95 % \
             intervals; strokes mark trials that ended without reaching it."
        ),
        charts::survival("epoch", "goal not yet reached", &survivals),
    ));
    let estimates: Vec<Estimate> = point.mechanisms.iter().filter_map(|m| estimate(m, m.mechanism.clone())).collect();
    if !estimates.is_empty() {
        pictures.push(picture(
            "speedup",
            "Speed-up over full attention",
            format!(
                "Speed-up over full attention in epochs to {goal}: median over seeds ({n}), with its 95 % interval if all \
                 trials reached the goal. Hollow points with arrows are bounds: one of the two has not reached the goal."
            ),
            charts::intervals(Axis::times("speed-up in epochs"), 1.0, &estimates),
        ));
    }
    let slopes: Vec<Pairs> = point.mechanisms.iter().filter_map(|m| pairs(point, &m.mechanism)).collect();
    if !slopes.is_empty() {
        pictures.push(picture(
            "seeds",
            "Seed by seed",
            format!("Epochs to {goal} with full attention and with each mechanism; one line for each seed, {n}."),
            charts::slopes("epochs to the goal", BASELINE, &slopes),
        ));
    }
    pictures
}

/// The figures of a grid: one small panel for each point.
fn of_grid(evidence: &Evidence) -> Vec<Picture> {
    let task = task_of(evidence);
    let n = seeds_text(evidence.points.iter().flat_map(|point| point.mechanisms.iter().map(|m| m.seeds)));
    let multiples = |metric: Metric, axis: fn(&[Curve]) -> Axis| {
        let all: Vec<(String, Vec<Curve>)> = evidence
            .points
            .iter()
            .map(|point| {
                let of = |m: &MechanismEvidence| curve(point, &m.mechanism, metric);
                (point_name(&point.point), point.mechanisms.iter().filter_map(of).collect())
            })
            .collect();
        let curves: Vec<Curve> = all.iter().flat_map(|(_, curves)| curves.clone()).collect();
        let (x, y) = (charts::from_zero("epoch", curves.iter().flat_map(|curve| &curve.x).copied()), axis(&curves));
        let panel =
            |(name, curves): &(String, Vec<Curve>)| charts::curve_panel(name, x.clone(), y.clone(), 80.0, curves);
        let panels: Vec<Panel> = all.iter().map(panel).collect();
        charts::small_multiples(panels.len().clamp(1, 4), panels)
    };
    let mut pictures = vec![
        picture(
            "grid-training-loss",
            "Training loss over the grid",
            format!("Training loss on {task}, one panel for each point of the grid, {n} at each. {BANDS}"),
            multiples(Metric::TrainLoss, loss_axis),
        ),
        picture(
            "grid-heldout-accuracy",
            "Held-out accuracy over the grid",
            format!("Held-out accuracy on {task}, one panel for each point of the grid, {n} at each. {BANDS}"),
            multiples(Metric::HeldoutAccuracy, |_| accuracy_axis()),
        ),
    ];
    pictures.extend(crate::grid::map(evidence));
    let estimates: Vec<Estimate> = evidence
        .points
        .iter()
        .flat_map(|point| point.mechanisms.iter().map(move |mechanism| (point, mechanism)))
        .filter_map(|(point, mechanism)| {
            estimate(mechanism, format!("{}, {}", mechanism.mechanism, point_name(&point.point)))
        })
        .collect();
    if !estimates.is_empty() {
        let goal = evidence.goal;
        let figure = charts::intervals(Axis::times("speed-up in epochs"), 1.0, &estimates);
        pictures.push(picture(
            "grid-speedup",
            "Speed-up over the grid",
            format!(
                "Speed-up over full attention in epochs to {goal} at each point of the grid: median over seeds ({n}), with its \
                 95 % interval if all trials reached the goal. Hollow points with arrows are bounds."
            ),
            Figure { width: TWO_COLUMNS, ..figure },
        ));
    }
    pictures
}

fn task_of(evidence: &Evidence) -> String {
    evidence.trials().next().map_or_else(String::new, |observed| observed.trial.entry.task.clone())
}

fn has_diverged(point: &PointEvidence) -> bool {
    point.mechanisms.iter().any(|mechanism| mechanism.diverged > 0)
}

fn is_any_stopped(point: &PointEvidence) -> bool {
    point.trials.iter().any(|observed| observed.trial.state == State::Stopped)
}

/// `n = 5 seeds`, or the range if mechanisms have different numbers of seeds.
fn seeds_text(counts: impl Iterator<Item = usize> + Clone) -> String {
    match (counts.clone().min().unwrap_or(0), counts.max().unwrap_or(0)) {
        (min, max) if min == max => format!("n = {max} seed{}", if max == 1 { "" } else { "s" }),
        (min, max) => format!("n = {min} to {max} seeds"),
    }
}

/// The trials of a mechanism whose curves can be combined: those that are over or, if there are none, all. Diverged trials
/// have no complete curve and are left out.
pub(crate) fn comparable<'a>(point: &'a PointEvidence, mechanism: &'a str) -> Vec<&'a StoredTrial> {
    let all = || point.of_mechanism(mechanism).map(|(trial, _)| trial).filter(|trial| trial.state != State::Diverged);
    let over: Vec<&StoredTrial> = all().filter(|trial| trial.state.is_over()).collect();
    if over.is_empty() { all().collect() } else { over }
}

/// Quartiles of a metric over the seeds of a mechanism, up to the last epoch that all of its trials have. A trial that
/// stopped at its goal keeps its last value.
pub(crate) fn curve(point: &PointEvidence, mechanism: &str, metric: Metric) -> Option<Curve> {
    let trials = comparable(point, mechanism);
    let is_stopped = |trial: &StoredTrial| trial.state == State::Stopped;
    let longest = point.trials.iter().map(|observed| observed.trial.records.len()).max()?;
    let shortest = trials.iter().filter(|trial| !is_stopped(trial)).map(|trial| trial.records.len()).min();
    let last = if trials.is_empty() { return None } else { shortest.unwrap_or(longest) };
    let quartiles = (1..=last).map(|epoch| {
        let value = |trial: &&StoredTrial| trial.records.get(epoch - 1).or(trial.records.last()).map(|r| metric.of(r));
        let values: Vec<f64> = trials.iter().filter_map(value).collect();
        [0.25, 0.5, 0.75].map(|q| quantile(&values, q).unwrap_or(f64::NAN))
    });
    let quartiles: Vec<[f64; 3]> = quartiles.collect();
    let epochs = (1..=last).map(|epoch| epoch as f64).collect();
    Some(Curve { series: palette::series(mechanism), x: epochs, quartiles })
}

fn survival(mechanism: &MechanismEvidence) -> Survival {
    let KaplanMeier { steps } = &mechanism.survival;
    let mut shares = vec![(0.0, 1.0)];
    shares.extend(steps.iter().map(|step| (step.time, step.survival)));
    Survival {
        series: palette::series(&mechanism.mechanism),
        steps: shares,
        interval: bands(steps),
        censored: steps.iter().filter(|step| step.censored > 0).map(|step| step.time).collect(),
    }
}

/// The interval of every step, drawn up to the next step.
fn bands(steps: &[Step]) -> Vec<(f64, f64, f64)> {
    let ends = steps.iter().skip(1).map(|next| next.time).chain(steps.last().map(|last| last.time));
    let band = |(step, end): (&Step, f64)| {
        let interval = step.interval?;
        Some([(step.time, interval.low, interval.high), (end, interval.low, interval.high)])
    };
    steps.iter().zip(ends).filter_map(band).flatten().collect()
}

/// The speed-up of a mechanism as a row with this name.
fn estimate(mechanism: &MechanismEvidence, name: String) -> Option<Estimate> {
    let speedup = mechanism.versus_full.as_ref()?.epochs?;
    let interval = match (speedup.ratio, speedup.interval) {
        (Ratio::Exactly(_), Some(interval)) => Some((End::At(interval.low), End::At(interval.high))),
        (Ratio::Exactly(_), None) => None,
        (Ratio::MoreThan(value), _) => Some((End::At(value), End::Open)),
        (Ratio::LessThan(value), _) => Some((End::Open, End::At(value))),
    };
    Some(Estimate {
        series: Series { name, style: palette::style(&mechanism.mechanism) },
        value: speedup.ratio.value(),
        interval,
        bound: !matches!(speedup.ratio, Ratio::Exactly(_)),
        note: speedup.ratio.to_string(),
    })
}

fn pairs(point: &PointEvidence, mechanism: &str) -> Option<Pairs> {
    if mechanism == BASELINE {
        return None;
    }
    let pairs = point.of_mechanism(BASELINE).filter_map(|(full, baseline)| {
        let (_, other) = point.of_mechanism(mechanism).find(|(trial, _)| trial.entry.seed == full.entry.seed)?;
        let epochs = |trial: TimeToTarget| if trial.reached { trial.time } else { f64::INFINITY };
        Some((epochs(baseline.time_to_target), epochs(other.time_to_target)))
    });
    let pairs: Vec<(f64, f64)> = pairs.collect();
    (!pairs.is_empty()).then(|| Pairs { series: palette::series(mechanism), pairs })
}
