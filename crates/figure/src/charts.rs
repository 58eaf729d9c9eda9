//! Ready-made figures, one function for each. The caller adds title and caption.

use crate::mark::{Band, End, Interpolation, Interval, Line, Mark, Points, Reference, Rule, Series, Slopes};
use crate::style::Marker;
use crate::{Axis, Figure, ONE_COLUMN, Panel, Sharing, TWO_COLUMNS};

/// A median with a band from the lower to the upper quartile.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    pub series: Series,
    pub x: Vec<f64>,
    /// Lower quartile, median and upper quartile at each `x`.
    pub quartiles: Vec<[f64; 3]>,
    /// The single observations, each with one value for every `x`. If there are any, they are drawn as pale lines instead of
    /// the band: quartiles of a few observations say little.
    pub lines: Vec<Vec<f64>>,
}

/// A row of panels that all show the same quantity.
#[derive(Clone, Debug)]
pub struct Measure<'a> {
    pub axis: Axis,
    /// A line across the panels at this value, with its label.
    pub target: Option<(f64, String)>,
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

/// One row for each measure and one column for each group of series. A series without a group is drawn in all columns.
pub fn curves_by_group<'a>(
    x_label: &str,
    measures: &[Measure<'a>],
    group: impl Fn(&'a str) -> Option<&'a str>,
) -> Figure {
    let group_of = |curve: &'a Curve| group(&curve.series.name);
    let mut groups: Vec<Option<&str>> = Vec::new();
    for found in measures.iter().flat_map(|measure| measure.curves).map(group_of).filter(Option::is_some) {
        if !groups.contains(&found) {
            groups.push(found);
        }
    }
    if groups.is_empty() {
        groups.push(None);
    }
    let x = x_axis(x_label, measures);
    let mut panels = Vec::new();
    for (row, measure) in measures.iter().enumerate() {
        for &column in &groups {
            let members = measure.curves.iter().filter(|curve| group_of(curve).is_none_or(|own| Some(own) == column));
            let title = column.filter(|_| row == 0).unwrap_or("");
            panels.push(measure.panel(title, &x, members));
        }
    }
    Figure {
        width: if groups.len() == 1 { ONE_COLUMN } else { TWO_COLUMNS },
        columns: groups.len(),
        share_x: Sharing::All,
        share_y: Sharing::Line,
        panels,
        ..Figure::default()
    }
}

impl Measure<'_> {
    /// A panel of some of the curves.
    pub fn panel<'a>(&self, title: &str, x: &Axis, curves: impl IntoIterator<Item = &'a Curve>) -> Panel {
        let mut panel = curve_panel(title, x.clone(), self.axis.clone(), self.height, curves);
        let target = self.target.iter();
        panel
            .marks
            .extend(target.map(|(value, label)| Mark::Rule(Rule { at: Reference::Y(*value), label: label.clone() })));
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
    for Curve { series, x, quartiles, lines } in curves {
        let line = |values: &mut dyn Iterator<Item = f64>, pale: bool| {
            let points = x.iter().copied().zip(values).collect();
            Mark::Line(Line { series: series.clone(), points, interpolation, markers: !pale, pale })
        };
        if lines.is_empty() {
            let edges = x.iter().zip(quartiles).map(|(&x, &[low, _, high])| (x, low, high)).collect();
            marks.push(Mark::Band(Band { series: series.clone(), edges, interpolation }));
        }
        // A single observation is its own median.
        let single = lines.iter().filter(|_| lines.len() > 1);
        marks.extend(single.map(|values| line(&mut values.iter().copied(), true)));
        medians.push(line(&mut quartiles.iter().map(|quartiles| quartiles[1]), false));
    }
    marks.append(&mut medians);
    Panel { title: title.to_owned(), x, y, height, marks }
}

/// Survival curves (Kaplan–Meier). Short strokes mark censored observations.
pub fn survival(x_label: &str, y_label: &str, curves: &[Survival]) -> Figure {
    let mut marks = Vec::new();
    let interpolation = Interpolation::Steps;
    for Survival { series, steps, interval, censored } in curves {
        marks.push(Mark::Band(Band { series: series.clone(), edges: interval.clone(), interpolation }));
        let points = steps.clone();
        marks.push(Mark::Line(Line { series: series.clone(), points, interpolation, markers: true, pale: false }));
        let level = |time: f64| steps.iter().rev().find(|step| step.0 <= time).map_or(1.0, |step| step.1);
        let points = censored.iter().map(|&time| (time, level(time))).collect();
        marks.push(Mark::Points(Points {
            series: series.clone(),
            points,
            marker: Some(Marker::Stroke),
            labels: Vec::new(),
        }));
    }
    let times = curves.iter().flat_map(|curve| curve.steps.iter().map(|step| step.0).chain(curve.censored.clone()));
    let x = whole_numbers(x_label, times.chain([0.0]));
    let panel = Panel { title: String::new(), x, y: Axis::fraction(y_label), height: 120.0, marks };
    Figure { panels: vec![panel], ..Figure::default() }
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
pub fn slopes(label: &str, baseline: &str, series: &[Pairs]) -> Figure {
    let values = || series.iter().flat_map(|pairs| pairs.pairs.iter().flat_map(|pair| [pair.0, pair.1]));
    let mut y = Axis::auto(label, values()).whole();
    if values().any(|value| value == f64::INFINITY) {
        y = y.with_beyond("not reached");
    }
    let panels = series.iter().map(|pairs| {
        let slopes = Slopes { series: pairs.series.clone(), between: (0.0, 1.0), pairs: pairs.pairs.clone() };
        Panel {
            title: String::new(),
            x: Axis::categories("", [baseline, pairs.series.name.as_str()]).with_limits(-0.35, 1.35),
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
