//! The figures of a run, from its evidence.

use semfocus_analysis::evidence::robustness::point_name;
use semfocus_analysis::evidence::speedup::Ratio;
use semfocus_analysis::evidence::{BASELINE, Evidence, MechanismEvidence, PointEvidence, Unit};
use semfocus_analysis::stats::{KaplanMeier, Step, TimeToTarget, quantile};
use semfocus_core::quantity::Derived;
use semfocus_core::{Goal, Metric, Quantity};
use semfocus_figure::charts::{self, Curve, ForestRow, Measure, Pairs, Survival, curve_panel};
use semfocus_figure::{Axis, End, Figure, Panel, Series, TWO_COLUMNS};
use semfocus_store::{CurvePoint, State, TrialData};

pub(crate) use semfocus_analysis::evidence::target::{target_value, target_words};

use crate::known::Known;
use crate::palette;

/// Mechanisms that can be told apart in one panel.
pub(crate) const OVERLAID: usize = 8;

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

/// From this many seeds on, bands show their quartiles; fewer are drawn one by one.
const MIN_FOR_BANDS: usize = 5;

/// What the lines and bands of curves over this many seeds are.
pub(crate) fn spread(counts: impl Iterator<Item = usize> + Clone) -> &'static str {
    match (counts.clone().min().unwrap_or(0), counts.max().unwrap_or(0)) {
        (_, 0..=2) => "Each line is one trial.",
        (_, max) if max < MIN_FOR_BANDS => "Lines are medians over seeds; pale lines are the single seeds.",
        (min, _) if min >= MIN_FOR_BANDS => {
            "Lines are medians over seeds; bands extend from the lower to the upper quartile."
        }
        _ => {
            "Lines are medians over seeds; bands extend from the lower to the upper quartile, and pale lines are the single \
             seeds where there are fewer than five."
        }
    }
}

/// Median and quartiles over seeds, each of which has a value for every `x`. A few seeds are also drawn one by one.
pub(crate) fn over_seeds(series: Series, x: Vec<f64>, seeds: Vec<Vec<f64>>) -> Curve {
    let at = |index: usize| {
        let values: Vec<f64> = seeds.iter().map(|seed| seed[index]).filter(|value| !value.is_nan()).collect();
        [0.25, 0.5, 0.75].map(|share| quantile(&values, share).unwrap_or(f64::NAN))
    };
    let quartiles = (0..x.len()).map(at).collect();
    let lines = if seeds.len() < MIN_FOR_BANDS { seeds } else { Vec::new() };
    Curve { series, x, quartiles, lines, ends: Vec::new() }
}

/// Curves of several quantities over the same x axis: one figure with a panel for each of them. With more mechanisms than one panel
/// can show, one figure for each quantity, with a panel for each mechanism.
pub(crate) fn curve_pictures(name: &str, title: &str, caption: &str, x: &str, measures: &[Measure]) -> Vec<Picture> {
    if measures.iter().all(|measure| measure.curves.len() <= OVERLAID) {
        let quantities: Vec<&str> = measures.iter().map(|measure| quantity(&measure.axis)).collect();
        let dashed = dashed_lines(measures);
        let caption = format!("From top to bottom: {}, by {x}.{dashed} {caption}", quantities.join(", "));
        return vec![picture(name, title, caption, charts::curves(x, measures))];
    }
    let of_measure = |(index, measure): (usize, &Measure)| {
        let quantity = quantity(&measure.axis);
        let file = format!("{name}-{}", slug(quantity));
        picture(
            if index == 0 { name } else { &file },
            &format!("{title}: {quantity}"),
            format!(
                "One panel for each mechanism: {quantity}, by {x}; full attention in grey.{} {caption}",
                dashed_lines(std::slice::from_ref(measure))
            ),
            charts::curves_against(x, &Measure { height: measure.height.min(70.0), ..measure.clone() }, BASELINE),
        )
    };
    measures.iter().enumerate().filter(|(_, measure)| !measure.curves.is_empty()).map(of_measure).collect()
}

/// One panel with a title for each list of curves, all with the same axes.
pub(crate) fn panels_of_curves<'a>(
    name: &str,
    title: &str,
    caption: String,
    x: &str,
    y: &Axis,
    panels: impl Iterator<Item = (String, &'a [Curve])> + Clone,
) -> Picture {
    let values = panels.clone().flat_map(|(_, curves)| curves).flat_map(|curve| &curve.x).copied();
    let x = charts::whole_numbers(x, values);
    let panel = |(title, curves): (String, &'a [Curve])| curve_panel(&title, x.clone(), y.clone(), 85.0, curves);
    let panels: Vec<Panel> = panels.map(panel).collect();
    picture(name, title, caption, charts::small_multiples(panels.len().clamp(1, 4), panels))
}

/// Words as the beginning of a sentence.
pub(crate) fn capitalised(words: &str) -> String {
    words[..1].to_uppercase() + &words[1..]
}

/// What the dashed lines of panels are.
fn dashed_lines(measures: &[Measure]) -> String {
    let mut labels: Vec<&str> =
        measures.iter().flat_map(|measure| &measure.levels).map(|(_, label)| label.as_str()).collect();
    labels.dedup();
    if labels.is_empty() { String::new() } else { format!(" Dashed: {}.", labels.join(", ")) }
}

/// A quantity in the name of a file.
fn slug(quantity: &str) -> String {
    quantity.replace(['(', ')'], "").replace("held-out", "heldout").replace(' ', "-").to_lowercase()
}

/// What an axis shows, without its unit.
fn quantity(axis: &Axis) -> &str {
    axis.label.trim_end_matches(" (%)")
}

/// What curves show, the quantity of the target first.
fn shown_quantities(goal: Goal) -> Vec<Quantity> {
    let others = [Metric::TrainAccuracy, Metric::TrainLoss, Metric::HeldoutAccuracy].map(Quantity::from);
    std::iter::once(goal.quantity).chain(others.into_iter().filter(|other| *other != goal.quantity)).collect()
}

/// A row of panels that show a quantity. That of the target gets a line.
fn measure(quantity: Quantity, goal: Goal, height: f64, curves: &[Curve]) -> Measure<'_> {
    let is_target = quantity == goal.quantity;
    let levels = is_target.then(|| (goal.value, format!("target {}", target_value(goal)))).into_iter().collect();
    Measure { axis: quantity_axis(quantity, curves), levels, height, curves }
}

pub(crate) fn quantity_axis(quantity: Quantity, curves: &[Curve]) -> Axis {
    let values =
        || curves.iter().flat_map(|curve| curve.quartiles.iter().flatten().chain(curve.lines.iter().flatten()));
    let words = quantity.words();
    if matches!(quantity, Quantity::Derived(Derived::TrainExcess | Derived::HeldoutExcess)) {
        return Axis::log(words); // it falls towards 0: nothing else shows how far
    }
    if !quantity.is_share() {
        return Axis::auto(words, values().copied());
    }
    // Nothing happens far below chance; the axis begins at the ten per cent below the smallest value.
    let min = values().copied().filter(|value| value.is_finite()).fold(1.0, f64::min);
    Axis::fraction(words).with_limits((10.0 * (min - 0.01)).floor().clamp(0.0, 9.0) / 10.0, 1.0)
}

/// Whether some trial reached the target.
fn is_any_reached(evidence: &Evidence) -> bool {
    evidence.points.iter().flat_map(|point| &point.mechanisms).any(|mechanism| mechanism.reached > 0)
}

/// Which figures would show nothing, and why.
pub fn left_out(evidence: &Evidence) -> Option<String> {
    let has_epochs = evidence.trials().any(|observed| observed.measures.is_some());
    (has_epochs && !is_any_reached(evidence)).then(|| {
        format!(
            "No trial reached {}, so there are no figures of the {} to the target and of the speed-up.",
            target_words(evidence.goal),
            evidence.unit().name()
        )
    })
}

/// The figures of an experiment without a grid.
fn of_point(evidence: &Evidence, point: &PointEvidence) -> Vec<Picture> {
    let (goal, unit) = (evidence.goal, evidence.unit());
    let all: Vec<(Quantity, Vec<Curve>)> = shown_quantities(goal)
        .into_iter()
        .map(|quantity| {
            let of = |mechanism: &MechanismEvidence| curve(point, &mechanism.mechanism, quantity, unit);
            (quantity, point.mechanisms.iter().filter_map(of).collect())
        })
        .collect();
    let heights = [105.0, 75.0, 75.0, 75.0];
    let known = Known::new(point.trials.iter().map(|observed| &observed.trial));
    let panels = all.iter().zip(heights).map(|((quantity, curves), height)| {
        let mut measure = measure(*quantity, goal, height, curves);
        measure.levels.extend(known.iter().flat_map(|known| known.levels(*quantity)));
        measure
    });
    let measures: Vec<Measure> = panels.collect();
    let n = seeds_text(point.mechanisms.iter().map(|mechanism| mechanism.seeds));
    let counts = point.mechanisms.iter().map(|mechanism| comparable(point, &mechanism.mechanism).len());
    let (in_curves, spread) = (seeds_text(counts.clone()), spread(counts));
    let stopped = if is_any_stopped(point) {
        " Where trials stopped at the target, the lines of the single seeds end in a dot, and the median ends with the first of them."
    } else {
        ""
    };
    let left_out = if has_diverged(point) { " Trials that diverged are left out." } else { "" };
    let (task, target) = (task_of(evidence), target_words(goal));
    let caption = format!("On {task}, {in_curves}. {spread}{stopped}{left_out}");
    let mut pictures = curve_pictures("curves", "Learning curves", &caption, unit.singular(), &measures);
    if !is_any_reached(evidence) {
        return pictures;
    }
    let survivals: Vec<Survival> = point.mechanisms.iter().filter(|m| m.seeds > 0).map(|m| survival(m, unit)).collect();
    let (x, y) = (unit.singular(), "target not reached");
    let (survival_chart, grey) = match survivals.len() {
        0..=OVERLAID => (charts::survival(x, y, &survivals), ""),
        _ => (charts::survival_against(x, y, &survivals, BASELINE), " Full attention in grey."),
    };
    pictures.push(picture(
        "survival",
        "Trials that have not reached the target",
        format!(
            "Share of trials that have not reached {target}, by {} (Kaplan–Meier), on {task}, {n}. Bands are pointwise 95 % \
             intervals; strokes mark trials that ended without reaching it.{grey}",
            unit.singular()
        ),
        survival_chart,
    ));
    let estimates: Vec<ForestRow> =
        point.mechanisms.iter().filter_map(|m| estimate(point, &m.mechanism, m.mechanism.clone())).collect();
    if !estimates.is_empty() {
        pictures.push(picture(
            "speedup",
            "Speed-up over full attention",
            format!(
                "Speed-up over full attention in {} to {target}: median over seeds ({n}), with its 95 % interval if all \
                 trials reached the target. Hollow points with arrows are bounds: one of the two has not reached it.",
                unit.name()
            ),
            charts::intervals(speedup_axis(unit), 1.0, &estimates),
        ));
    }
    let is_reached = |pairs: &Pairs| pairs.pairs.iter().any(|pair| pair.0.is_finite() || pair.1.is_finite());
    let slopes = point.mechanisms.iter().filter_map(|m| pairs(point, &m.mechanism, unit));
    let (slopes, never): (Vec<Pairs>, Vec<Pairs>) = slopes.partition(is_reached);
    let never: Vec<&str> = never.iter().map(|pairs| pairs.series.name.as_str()).collect();
    let never = if never.is_empty() {
        String::new()
    } else {
        format!(" Not shown, because no trial of the pair reached it: {}.", never.join(", "))
    };
    if !slopes.is_empty() {
        pictures.push(picture(
            "seeds",
            "Seed by seed",
            format!(
                "The {} to {target} with full attention and with each mechanism; one line for each seed, {n}.{never}",
                unit.name()
            ),
            charts::slopes(&format!("{} to the target", unit.name()), &palette::series(BASELINE), &slopes),
        ));
    }
    pictures
}

/// The figures of a grid: one small panel for each point.
fn of_grid(evidence: &Evidence) -> Vec<Picture> {
    let (task, goal, target) = (task_of(evidence), evidence.goal, target_words(evidence.goal));
    let unit = evidence.unit();
    let counts = evidence.points.iter().flat_map(|point| point.mechanisms.iter().map(|m| m.seeds));
    let (n, spread) = (seeds_text(counts.clone()), spread(counts));
    let mut pictures: Vec<Picture> = Vec::new();
    for quantity in shown_quantities(goal) {
        let of_point = |point: &PointEvidence| -> Vec<Curve> {
            point.mechanisms.iter().filter_map(|m| curve(point, &m.mechanism, quantity, unit)).collect()
        };
        let of_points: Vec<Vec<Curve>> = evidence.points.iter().map(of_point).collect();
        let all: Vec<Curve> = of_points.iter().flatten().cloned().collect();
        let x = charts::whole_numbers(unit.singular(), all.iter().flat_map(|curve| &curve.x).copied());
        let measure = measure(quantity, goal, 80.0, &all);
        let panels = evidence.points.iter().zip(&of_points);
        let panels: Vec<Panel> =
            panels.map(|(point, curves)| measure.panel(&point_name(&point.point), &x, curves)).collect();
        let words = quantity.words();
        let capitalised = capitalised(words);
        let line = if quantity == goal.quantity { " The dashed line is the target." } else { "" };
        pictures.push(picture(
            &format!("grid-{}", slug(words)),
            &format!("{capitalised} over the grid"),
            format!("{capitalised} on {task}, one panel for each point of the grid, {n} at each.{line} {spread}"),
            charts::small_multiples(panels.len().clamp(1, 4), panels),
        ));
    }
    pictures.extend(crate::grid::map(evidence));
    let estimates: Vec<ForestRow> = evidence
        .points
        .iter()
        .flat_map(|point| point.mechanisms.iter().map(move |mechanism| (point, mechanism)))
        .filter_map(|(point, mechanism)| {
            estimate(point, &mechanism.mechanism, at_point(&mechanism.mechanism, &point.point))
        })
        .collect();
    if !estimates.is_empty() {
        let figure = charts::intervals(speedup_axis(unit), 1.0, &estimates);
        pictures.push(picture(
            "grid-speedup",
            "Speed-up over the grid",
            format!(
                "Speed-up over full attention in {} to {target} at each point of the grid: median over seeds ({n}), with \
                 its 95 % interval if all trials reached the target. Hollow points with arrows are bounds.",
                unit.name()
            ),
            Figure { width: TWO_COLUMNS, ..figure },
        ));
    }
    pictures
}

fn speedup_axis(unit: Unit) -> Axis {
    Axis::times(&format!("speed-up in {}", unit.name()))
}

/// A mechanism at a point of the grid: `topk:3, activation = relu`.
pub(crate) fn at_point(mechanism: &str, point: &[(String, String)]) -> String {
    if point.is_empty() { mechanism.to_owned() } else { format!("{mechanism}, {}", point_name(point)) }
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
pub(crate) fn comparable<'a>(point: &'a PointEvidence, mechanism: &'a str) -> Vec<&'a TrialData> {
    let all = || point.of_mechanism(mechanism).map(|(trial, _)| trial).filter(|trial| trial.state != State::Diverged);
    let over: Vec<&TrialData> = all().filter(|trial| trial.state.is_over()).collect();
    if over.is_empty() { all().collect() } else { over }
}

/// A quantity over the seeds of a mechanism, from the first recorded epoch (0, the untrained model, or 1) to the last that all of
/// its trials have. Where trials stopped at their target, every trial is drawn to its own end, and the median as far as all go.
pub(crate) fn curve(point: &PointEvidence, mechanism: &str, quantity: Quantity, unit: Unit) -> Option<Curve> {
    let trials = comparable(point, mechanism);
    let last_of = |trial: &TrialData| trial.curve.last().map_or(0, |point| point.epoch);
    let is_stopped = |trial: &&&TrialData| trial.state == State::Stopped;
    let common = trials.iter().map(|trial| last_of(trial)).min()?;
    let last = match trials.iter().filter(is_stopped).count() {
        0 => common,
        _ => trials.iter().map(|trial| last_of(trial)).max()?,
    };
    let first = trials.iter().filter_map(|trial| Some(trial.curve_from_start().next()?.epoch)).max()?;
    let epochs = first..=last;
    let value =
        |trial: &TrialData, point: &CurvePoint| quantity.value(&point.metrics, &trial.data_facts()).unwrap_or(f64::NAN);
    let of_trial = |trial: &&TrialData| -> Vec<f64> {
        let shown = trial.curve_from_start().skip_while(|point| point.epoch < first);
        let values: Vec<f64> = shown.map(|point| value(trial, point)).collect();
        epochs.clone().map(|epoch| values.get(epoch - first).copied().unwrap_or(f64::NAN)).collect()
    };
    let seeds: Vec<Vec<f64>> = trials.iter().map(of_trial).collect();
    let x: Vec<f64> = epochs.clone().map(|epoch| unit.count(epoch as f64)).collect();
    let mut curve = over_seeds(palette::series(mechanism), x, seeds.clone());
    if last > common || trials.iter().any(|trial| trial.state == State::Stopped) {
        curve.quartiles.iter_mut().skip(common + 1 - first).for_each(|quartiles| *quartiles = [f64::NAN; 3]);
        let ends = trials.iter().filter(is_stopped).filter_map(|trial| {
            let end = trial.curve.last()?;
            Some((unit.count(end.epoch as f64), value(trial, end)))
        });
        (curve.ends, curve.lines) = (ends.collect(), seeds);
    }
    Some(curve)
}

fn survival(mechanism: &MechanismEvidence, unit: Unit) -> Survival {
    let KaplanMeier { steps } = &mechanism.survival;
    let steps: Vec<Step> = steps.iter().map(|step| Step { time: unit.count(step.time), ..*step }).collect();
    let mut shares = vec![(0.0, 1.0)];
    shares.extend(steps.iter().map(|step| (step.time, step.survival)));
    Survival {
        series: palette::series(&mechanism.mechanism),
        steps: shares,
        interval: bands(&steps),
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
fn estimate(point: &PointEvidence, mechanism: &str, name: String) -> Option<ForestRow> {
    let speedup = point.versus_baseline(mechanism)?.epochs?;
    let interval = match (speedup.ratio, speedup.interval) {
        (Ratio::Exactly(_), Some(interval)) => Some((End::At(interval.low), End::At(interval.high))),
        (Ratio::Exactly(_), None) => None,
        (Ratio::MoreThan(value), _) => Some((End::At(value), End::Open)),
        (Ratio::LessThan(value), _) => Some((End::Open, End::At(value))),
    };
    Some(ForestRow {
        series: Series { name, style: palette::style(mechanism) },
        value: speedup.ratio.value(),
        interval,
        bound: !matches!(speedup.ratio, Ratio::Exactly(_)),
        note: speedup.ratio.to_string(),
    })
}

fn pairs(point: &PointEvidence, mechanism: &str, unit: Unit) -> Option<Pairs> {
    if mechanism == BASELINE {
        return None;
    }
    let pairs = point.of_mechanism(BASELINE).filter_map(|(full, baseline)| {
        let (_, other) = point.of_mechanism(mechanism).find(|(trial, _)| trial.entry.seed == full.entry.seed)?;
        let epochs = |trial: TimeToTarget| if trial.reached { unit.count(trial.time) } else { f64::INFINITY };
        Some((epochs(baseline.time_to_target), epochs(other.time_to_target)))
    });
    let pairs: Vec<(f64, f64)> = pairs.collect();
    (!pairs.is_empty()).then(|| Pairs { series: palette::series(mechanism), pairs })
}
