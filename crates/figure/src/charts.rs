//! Ready-made figures, one function for each. The caller adds title and caption.

use crate::mark::{Band, End, Interpolation, Interval, Line, Mark, Points, Reference, Rule, Series, Slopes};
use crate::style::{Marker, Paint, Style};
use crate::{Axis, Figure, ONE_COLUMN, Panel, Rgb, Sharing, TWO_COLUMNS};

/// A median with a band from the lower to the upper quartile.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    pub series: Series,
    pub x: Vec<f64>,
    /// Lower quartile, median and upper quartile at each `x`.
    pub quartiles: Vec<[f64; 3]>,
    /// The single observations, each with one value for every `x`, NaN after its end. If there are any, they are drawn as pale
    /// lines instead of the band: quartiles of a few observations say little. One or two are drawn instead of the median, too.
    pub lines: Vec<Vec<f64>>,
    /// Where observations ended before the last `x`: each gets a marker.
    pub ends: Vec<(f64, f64)>,
}

/// A row of panels that all show the same quantity.
#[derive(Clone, Debug)]
pub struct Measure<'a> {
    pub axis: Axis,
    /// Lines across the panels at these values, with their labels.
    pub levels: Vec<(f64, String)>,
    /// Height of the row's panels in points.
    pub height: f64,
    pub curves: &'a [Curve],
}

/// A Kaplan–Meier estimate.
#[derive(Clone, Debug, PartialEq)]
pub struct Survival {
    pub series: Series,
    /// Time and the share that survives from then on.
    pub steps: Vec<(f64, f64)>,
    /// Time, lower and upper end of the interval from then on; empty for no band.
    pub interval: Vec<(f64, f64, f64)>,
    /// Times of censored observations.
    pub censored: Vec<f64>,
}

/// An estimate with its interval, drawn as one row that bears the name of the series.
#[derive(Clone, Debug, PartialEq)]
pub struct ForestRow {
    pub series: Series,
    pub value: f64,
    /// Lower and upper end; None where there are too few observations for an interval.
    pub interval: Option<(End, End)>,
    /// Whether the estimate is only a bound.
    pub bound: bool,
    /// The estimate in digits.
    pub note: String,
}

/// Paired observations of a baseline and of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Pairs {
    pub series: Series,
    /// Baseline value and own value; infinite where the event never happened.
    pub pairs: Vec<(f64, f64)>,
}

/// One panel for each measure, one above the other, over the same x axis.
pub fn curves(x_label: &str, measures: &[Measure<'_>]) -> Figure {
    let x = x_axis(x_label, measures);
    let panel = |measure: &Measure<'_>| measure.panel("", &x, measure.curves.iter());
    Figure { share_x: Sharing::All, panels: measures.iter().map(panel).collect(), ..Figure::default() }
}

/// One panel for each series but the baseline, which every panel shows in grey.
pub fn curves_against(x_label: &str, measure: &Measure<'_>, baseline: &str) -> Figure {
    let x = x_axis(x_label, std::slice::from_ref(measure));
    let (grey, own) = against(measure.curves, baseline, |curve| &mut curve.series, |curve: &Curve| &curve.series);
    let levels = measure.levels.iter().map(|(value, _)| (*value, String::new())).collect();
    let unlabelled = Measure { levels, ..measure.clone() };
    let panel = |(index, curve): (usize, &Curve)| {
        let measure = if index == 0 { measure } else { &unlabelled };
        measure.panel(&curve.series.name, &x, grey.iter().chain([curve]))
    };
    in_a_grid(own.into_iter().enumerate().map(panel).collect())
}

/// The series but the baseline, and the baseline in grey and without a name.
fn against<'a, T: Clone>(
    all: &'a [T],
    baseline: &str,
    series_mut: fn(&mut T) -> &mut Series,
    series: fn(&T) -> &Series,
) -> (Option<T>, Vec<&'a T>) {
    let (found, own): (Vec<&T>, Vec<&T>) = all.iter().partition(|one| series(one).name == baseline);
    let grey = found.first().map(|&found| {
        let mut grey = found.clone();
        let style = Style { paint: Paint::Colour(GREY), ..series(found).style };
        *series_mut(&mut grey) = Series { name: String::new(), style };
        grey
    });
    (grey, own)
}

/// Readable on white and on dark pages.
const GREY: Rgb = Rgb(0x8c, 0x92, 0x9b);

/// Small panels with the same axes, which need no legend because their titles say what they show.
fn in_a_grid(panels: Vec<Panel>) -> Figure {
    Figure { legend: false, ..small_multiples(panels.len().clamp(1, 4), panels) }
}

impl Measure<'_> {
    /// A panel of some of the curves.
    pub fn panel<'a>(&self, title: &str, x: &Axis, curves: impl IntoIterator<Item = &'a Curve>) -> Panel {
        let mut panel = curve_panel(title, x.clone(), self.axis.clone(), self.height, curves);
        let rule = |(value, label): &(f64, String)| Rule { at: Reference::Y(*value), label: label.clone() };
        panel.marks.extend(self.levels.iter().map(|level| Mark::Rule(rule(level))));
        panel
    }
}

fn x_axis(label: &str, measures: &[Measure<'_>]) -> Axis {
    whole_numbers(label, measures.iter().flat_map(|measure| measure.curves).flat_map(|curve| &curve.x).copied())
}

/// An axis of whole numbers, such as epochs or steps, from the first to the last that occurs.
pub fn whole_numbers(label: &str, values: impl Iterator<Item = f64>) -> Axis {
    let finite = values.filter(|value| value.is_finite());
    let (first, last) =
        finite.fold((f64::INFINITY, 0.0), |(min, max), value| (f64::min(min, value), f64::max(max, value)));
    let axis = Axis::linear(label).whole();
    if first < last { axis.with_limits(first, last) } else { axis }
}

/// A panel of curves: medians drawn over bands from the lower to the upper quartile or over single observations.
pub fn curve_panel<'a>(
    title: &str,
    x: Axis,
    y: Axis,
    height: f64,
    curves: impl IntoIterator<Item = &'a Curve>,
) -> Panel {
    let (mut marks, mut medians) = (Vec::new(), Vec::new());
    let interpolation = Interpolation::Linear;
    for Curve { series, x, quartiles, lines, ends } in curves {
        let line = |values: &mut dyn Iterator<Item = f64>, pale: bool| {
            let points = x.iter().copied().zip(values).collect();
            Mark::Line(Line { series: series.clone(), points, interpolation, markers: !pale, pale })
        };
        if lines.is_empty() {
            let edges = x.iter().zip(quartiles).map(|(&x, &[low, _, high])| (x, low, high)).collect();
            marks.push(Mark::Band(Band { series: series.clone(), edges, interpolation }));
        }
        // The median of two would be a third line that belongs to neither.
        let (singles, is_summarised) = (lines.iter(), !(1..=2).contains(&lines.len()));
        let drawn = singles.map(|values| line(&mut values.iter().copied(), is_summarised));
        if is_summarised {
            marks.extend(drawn)
        } else {
            medians.extend(drawn)
        }
        if is_summarised {
            medians.push(line(&mut quartiles.iter().map(|quartiles| quartiles[1]), false));
        }
        if !ends.is_empty() {
            let (points, labels) = (ends.clone(), Vec::new());
            medians.push(Mark::Points(Points { series: series.clone(), points, marker: Some(Marker::Circle), labels }));
        }
    }
    marks.append(&mut medians);
    Panel { title: title.to_owned(), x, y, height, marks }
}

/// Survival curves (Kaplan–Meier). Short strokes mark censored observations.
pub fn survival(x_label: &str, y_label: &str, curves: &[Survival]) -> Figure {
    Figure { panels: vec![survival_panel("", x_label, y_label, curves, curves)], ..Figure::default() }
}

/// The same with one panel for each series but the baseline, which every panel shows in grey.
pub fn survival_against(x_label: &str, y_label: &str, curves: &[Survival], baseline: &str) -> Figure {
    let (grey, own) = against(curves, baseline, |curve| &mut curve.series, |curve: &Survival| &curve.series);
    let grey = grey.map(|grey| Survival { interval: Vec::new(), ..grey });
    let panel = |curve: &Survival| {
        let shown: Vec<Survival> = grey.iter().chain([curve]).cloned().collect();
        Panel { height: 80.0, ..survival_panel(&curve.series.name, x_label, y_label, &shown, curves) }
    };
    in_a_grid(own.into_iter().map(panel).collect())
}

/// A panel of some of the curves, with an axis for all of them.
fn survival_panel(title: &str, x_label: &str, y_label: &str, shown: &[Survival], all: &[Survival]) -> Panel {
    let mut marks = Vec::new();
    let interpolation = Interpolation::Steps;
    for Survival { series, steps, interval, censored } in shown {
        marks.push(Mark::Band(Band { series: series.clone(), edges: interval.clone(), interpolation }));
        let points = steps.clone();
        marks.push(Mark::Line(Line { series: series.clone(), points, interpolation, markers: true, pale: false }));
        let level = |time: f64| steps.iter().rev().find(|step| step.0 <= time).map_or(1.0, |step| step.1);
        let points = censored.iter().map(|&time| (time, level(time))).collect();
        let (series, labels) = (series.clone(), Vec::new());
        marks.push(Mark::Points(Points { series, points, marker: Some(Marker::Stroke), labels }));
    }
    let times = all.iter().flat_map(|curve| curve.steps.iter().map(|step| step.0).chain(curve.censored.clone()));
    let (x, y) = (whole_numbers(x_label, times.chain([0.0])), Axis::fraction(y_label));
    Panel { title: title.to_owned(), x, y, height: 120.0, marks }
}

/// A forest plot: one row for each estimate, and a line where there is no effect.
pub fn intervals(axis: Axis, no_effect: f64, estimates: &[ForestRow]) -> Figure {
    let rule = Rule { at: Reference::X(no_effect), label: String::new() };
    // The rows bear the names already.
    Figure { legend: false, panels: vec![interval_panel("", axis, vec![rule], estimates)], ..Figure::default() }
}

/// A forest plot in groups, each with a title, over the same x axis. Reference lines without a text are drawn in all groups, those
/// with one get it in the first.
pub fn grouped_intervals(axis: &Axis, rules: &[Rule], groups: &[(&str, Vec<ForestRow>)]) -> Figure {
    let panel = |(index, (title, estimates)): (usize, &(&str, Vec<ForestRow>))| {
        let rules = rules.iter().map(|rule| match index {
            0 => rule.clone(),
            _ => Rule { label: String::new(), ..rule.clone() },
        });
        interval_panel(title, axis.clone(), rules.collect(), estimates)
    };
    let panels = groups.iter().enumerate().map(panel).collect();
    Figure { legend: false, share_x: Sharing::All, panels, ..Figure::default() }
}

fn interval_panel(title: &str, x: Axis, rules: Vec<Rule>, estimates: &[ForestRow]) -> Panel {
    let mut marks: Vec<Mark> = rules.into_iter().map(Mark::Rule).collect();
    for (row, estimate) in estimates.iter().enumerate() {
        let (low, high) = estimate.interval.unwrap_or((End::At(estimate.value), End::At(estimate.value)));
        marks.push(Mark::Interval(Interval {
            series: estimate.series.clone(),
            row: row as f64,
            value: estimate.value,
            low,
            high,
            bound: estimate.bound,
            note: estimate.note.clone(),
        }));
    }
    let y = Axis::categories("", estimates.iter().map(|estimate| estimate.series.name.clone()));
    Panel { title: title.to_owned(), x, y, height: 12.0 * estimates.len() as f64 + 6.0, marks }
}

/// A slope chart: one panel for each series, one line for each pair. Infinite values are drawn in a strip at the top.
pub fn slopes(label: &str, baseline: &Series, series: &[Pairs]) -> Figure {
    let values = || series.iter().flat_map(|pairs| pairs.pairs.iter().flat_map(|pair| [pair.0, pair.1]));
    let mut y = Axis::auto(label, values()).whole();
    if values().any(|value| value == f64::INFINITY) {
        y = y.with_beyond("not reached");
    }
    let panels = series.iter().map(|pairs| {
        let (series, from) = (pairs.series.clone(), baseline.style);
        let slopes = Slopes { series, between: (0.0, 1.0), pairs: pairs.pairs.clone(), from };
        Panel {
            title: String::new(),
            x: Axis::categories("", [baseline.name.as_str(), pairs.series.name.as_str()]).with_limits(-0.35, 1.35),
            y: y.clone(),
            height: 120.0,
            marks: vec![Mark::Slopes(slopes)],
        }
    });
    Figure {
        width: if series.len() > 3 { TWO_COLUMNS } else { ONE_COLUMN },
        columns: series.len().min(6),
        share_y: Sharing::All,
        legend: false,
        panels: panels.collect(),
        ..Figure::default()
    }
}

/// Panels of the same kind in a grid, all with the same axes.
pub fn small_multiples(columns: usize, panels: Vec<Panel>) -> Figure {
    Figure { width: TWO_COLUMNS, columns, share_x: Sharing::All, share_y: Sharing::All, panels, ..Figure::default() }
}
