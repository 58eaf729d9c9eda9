//! The figures of a study, from its numbers: one function for each. Title and caption are the caller's to write.

use super::mark::{Band, Course, End, Interval, Line, Mark, Points, Reference, Rule, Series, Slopes};
use super::palette::{Marker, family_of};
use super::{Axis, Figure, ONE_COLUMN, Panel, Place, Sharing, TWO_COLUMNS};

/// A metric of a mechanism, epoch by epoch, over the seeds.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The mechanism.
    pub mechanism: String,
    /// The epochs.
    pub epochs: Vec<f64>,
    /// Lower quartile, median and upper quartile at each of them.
    pub quartiles: Vec<[f64; 3]>,
}

/// How many trials of a mechanism are still under way, epoch by epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct Survival {
    /// The mechanism.
    pub mechanism: String,
    /// Epoch from which on the share holds, and the share.
    pub steps: Vec<(f64, f64)>,
    /// Epoch from which on the interval holds, its lower and its upper end; empty for none.
    pub interval: Vec<(f64, f64, f64)>,
    /// Epochs at which trials were given up before they arrived.
    pub censored: Vec<f64>,
}

/// An estimate for a mechanism with its interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// The mechanism.
    pub mechanism: String,
    /// The estimate.
    pub value: f64,
    /// Lower and upper end; None where there are too few seeds for an interval.
    pub interval: Option<(End, End)>,
    /// Whether the estimate itself is only a bound.
    pub bound: bool,
    /// The same in digits.
    pub note: String,
}

/// The values of the seeds under full attention and under a mechanism.
#[derive(Clone, Debug, PartialEq)]
pub struct Pairs {
    /// The mechanism.
    pub mechanism: String,
    /// Value under the baseline and under the mechanism, seed by seed; infinite where the seed never arrived.
    pub pairs: Vec<(f64, f64)>,
}

/// Learning curves at a glance: training loss above, held-out accuracy below, all mechanisms together.
pub fn compact_curves(loss: &[Curve], accuracy: &[Curve]) -> Figure {
    let epochs = epochs(loss.iter().chain(accuracy));
    let panels = vec![
        curve_panel("", epochs.clone(), loss_axis(loss), 95.0, &loss.iter().collect::<Vec<_>>()),
        curve_panel("", epochs, accuracy_axis(), 80.0, &accuracy.iter().collect::<Vec<_>>()),
    ];
    Figure { share_x: Sharing::All, panels, ..Figure::default() }
}

/// Learning curves in full: one column for each family of mechanisms, with full attention in all of them.
pub fn extended_curves(loss: &[Curve], accuracy: &[Curve]) -> Figure {
    let mut families: Vec<&str> = Vec::new();
    for curve in loss.iter().chain(accuracy).filter(|curve| curve.mechanism != "full") {
        let family = family_of(&curve.mechanism);
        if !families.contains(&family) {
            families.push(family);
        }
    }
    if families.is_empty() {
        families.push("full");
    }
    let member = |curve: &&Curve, family: &str| curve.mechanism == "full" || family_of(&curve.mechanism) == family;
    let epochs = epochs(loss.iter().chain(accuracy));
    let rows = [(loss, loss_axis(loss), 105.0), (accuracy, accuracy_axis(), 85.0)];
    let panels = rows.iter().enumerate().flat_map(|(row, (curves, axis, height))| {
        let epochs = &epochs;
        families.iter().map(move |family| {
            let members: Vec<&Curve> = curves.iter().filter(|curve| member(curve, family)).collect();
            let title = if row == 0 { *family } else { "" };
            curve_panel(title, epochs.clone(), axis.clone(), *height, &members)
        })
    });
    Figure {
        width: if families.len() == 1 { ONE_COLUMN } else { TWO_COLUMNS },
        columns: families.len(),
        share_x: Sharing::All,
        share_y: Sharing::Line,
        panels: panels.collect(),
        ..Figure::default()
    }
}

fn epochs<'a>(curves: impl Iterator<Item = &'a Curve>) -> Axis {
    let last = curves.flat_map(|curve| &curve.epochs).copied().filter(|epoch| epoch.is_finite()).fold(0.0, f64::max);
    Axis::linear("epoch").with_limits(0.0, if last > 0.0 { last } else { 1.0 })
}

fn loss_axis(curves: &[Curve]) -> Axis {
    Axis::auto("training loss", curves.iter().flat_map(|curve| &curve.quartiles).flatten().copied())
}

fn accuracy_axis() -> Axis {
    Axis::fraction("held-out accuracy")
}

/// A panel of learning curves: bands from quartile to quartile, and the medians above all of them.
pub fn curve_panel(title: &str, x: Axis, y: Axis, height: f64, curves: &[&Curve]) -> Panel {
    let bands = curves.iter().map(|curve| {
        let edge = |(&epoch, &[low, _, high]): (&f64, &[f64; 3])| (epoch, low, high);
        let edges = curve.epochs.iter().zip(&curve.quartiles).map(edge).collect();
        Mark::Band(Band { series: Series::mechanism(&curve.mechanism), edges, course: Course::Straight })
    });
    let lines = curves.iter().map(|curve| {
        let points = curve.epochs.iter().zip(&curve.quartiles).map(|(&epoch, quartiles)| (epoch, quartiles[1]));
        let series = Series::mechanism(&curve.mechanism);
        Mark::Line(Line { series, points: points.collect(), course: Course::Straight, markers: true })
    });
    Panel { title: title.to_owned(), x, y, height, marks: bands.chain(lines).collect() }
}

/// Survival curves (Kaplan–Meier): the share of trials that have not yet arrived. Strokes are trials that were given up.
pub fn survival(label: &str, curves: &[Survival]) -> Figure {
    let mut marks = Vec::new();
    for curve in curves {
        let series = Series::mechanism(&curve.mechanism);
        marks.push(Mark::Band(Band { series: series.clone(), edges: curve.interval.clone(), course: Course::Steps }));
        let line = Line { series: series.clone(), points: curve.steps.clone(), course: Course::Steps, markers: true };
        marks.push(Mark::Line(line));
        let level = |epoch: f64| curve.steps.iter().rev().find(|step| step.0 <= epoch).map_or(1.0, |step| step.1);
        let points = curve.censored.iter().map(|&epoch| (epoch, level(epoch))).collect();
        marks.push(Mark::Points(Points { series, points, marker: Some(Marker::Stroke) }));
    }
    let ends = curves.iter().flat_map(|curve| curve.steps.iter().map(|step| step.0).chain(curve.censored.clone()));
    let last = ends.filter(|epoch| epoch.is_finite()).fold(0.0, f64::max);
    let x = Axis::linear("epoch").with_limits(0.0, if last > 0.0 { last } else { 1.0 });
    let panel = Panel { title: String::new(), x, y: Axis::fraction(label), height: 120.0, marks };
    Figure { panels: vec![panel], ..Figure::default() }
}

/// Estimates with their intervals, one row for each mechanism, and a line where there is no effect.
pub fn intervals(axis: Axis, no_effect: f64, estimates: &[Estimate]) -> Figure {
    let mut marks = vec![Mark::Rule(Rule { at: Reference::X(no_effect), label: String::new() })];
    for (row, estimate) in estimates.iter().enumerate() {
        let (low, high) = estimate.interval.unwrap_or((End::At(estimate.value), End::At(estimate.value)));
        marks.push(Mark::Interval(Interval {
            series: Series::mechanism(&estimate.mechanism),
            row: row as f64,
            value: estimate.value,
            low,
            high,
            bound: estimate.bound,
            note: estimate.note.clone(),
        }));
    }
    let y = Axis::categories("", estimates.iter().map(|estimate| estimate.mechanism.clone()));
    let panel = Panel { title: String::new(), x: axis, y, height: 12.0 * estimates.len() as f64 + 6.0, marks };
    // The rows bear the names already.
    Figure { legend: Place::Hidden, panels: vec![panel], ..Figure::default() }
}

/// Seed by seed from a baseline to each mechanism, side by side. What never arrived stands at the top.
pub fn slopes(label: &str, baseline: &str, mechanisms: &[Pairs]) -> Figure {
    let values = || mechanisms.iter().flat_map(|pairs| pairs.pairs.iter().flat_map(|pair| [pair.0, pair.1]));
    let mut y = Axis::auto(label, values());
    if values().any(|value| value == f64::INFINITY) {
        y = y.with_beyond("not reached");
    }
    let panels = mechanisms.iter().map(|pairs| {
        let series = Series::mechanism(&pairs.mechanism);
        let slopes = Slopes { series, between: (0.0, 1.0), pairs: pairs.pairs.clone() };
        Panel {
            title: String::new(),
            x: Axis::categories("", [baseline, pairs.mechanism.as_str()]).with_limits(-0.35, 1.35),
            y: y.clone(),
            height: 120.0,
            marks: vec![Mark::Slopes(slopes)],
        }
    });
    Figure {
        width: if mechanisms.len() > 3 { TWO_COLUMNS } else { ONE_COLUMN },
        columns: mechanisms.len().min(6),
        share_y: Sharing::All,
        legend: Place::Hidden,
        panels: panels.collect(),
        ..Figure::default()
    }
}

/// Panels of the same kind in a grid, all with the same axes.
pub fn small_multiples(columns: usize, panels: Vec<Panel>) -> Figure {
    Figure { width: TWO_COLUMNS, columns, share_x: Sharing::All, share_y: Sharing::All, panels, ..Figure::default() }
}
