//! The section about single questions: loss and accuracy by their position and by what else the task says of them.

use std::sync::Arc;

use maud::html;
use semfocus_analysis::evidence::robustness::point_name;
use semfocus_analysis::evidence::{BASELINE, Evidence, PointEvidence};
use semfocus_analysis::stats::median;
use semfocus_core::{Metric, Quantity};
use semfocus_figure::Axis;
use semfocus_figure::charts::{self, Curve, Measure};
use semfocus_store::{SliceRecord, TrialData};

use crate::page::finding_list;
use crate::palette;
use crate::pictures::{self, OVERLAID, Picture};
use crate::section::Section;
use crate::table::{Table, decimals, percent};

/// Epochs of which the curves are shown side by side.
const SNAPSHOTS: usize = 4;

/// What questions are grouped by in every task that asks at tokens.
const POSITION: &str = "position";

/// None if no task names properties of its questions.
pub fn section(evidence: &Evidence) -> Option<Section> {
    let slices = slices(evidence);
    if slices.is_empty() {
        return None;
    }
    let view = View { evidence, metrics: metrics(evidence) };
    let findings: Vec<(String, String)> = view.findings(&slices);
    let pictures = slices.iter().flat_map(|slice| view.pictures(slice)).collect();
    let table = view.table(&slices);
    Some(Section {
        id: "questions",
        title: "By question",
        findings: html! {
            (finding_list(&findings))
            p {
                "Questions of the held-out split with the same value are one group. Values from 100 on are rounded down to two digits. \
                 Positions are counted from 0."
            }
        },
        pictures,
        after_pictures: html! {},
        tables: vec![table],
    })
}

/// The slices that some trial has, in their order.
fn slices(evidence: &Evidence) -> Vec<Arc<str>> {
    let mut slices: Vec<Arc<str>> = Vec::new();
    let mut begun = Vec::new();
    for trial in evidence.trials().map(|observed| &observed.trial) {
        // All epochs of a trial have the same slices.
        let first = trial.slices.first().map(|record| record.epoch);
        begun.extend(trial.slices.iter().take_while(|record| Some(record.epoch) == first).map(|record| &record.slice));
    }
    for slice in begun {
        if !slices.contains(slice) {
            slices.push(slice.clone());
        }
    }
    slices
}

/// What texts call a slice.
fn words(slice: &str) -> String {
    slice.replace('-', " ")
}

/// What an axis calls a slice.
fn axis_words(slice: &str) -> String {
    if slice == POSITION { "position of the question".to_owned() } else { words(slice) }
}

/// The axis of a metric. Where even the best accuracy is far below 100 %, it ends at the ten per cent above.
fn axis(metric: Metric, curves: &[Curve]) -> Axis {
    let axis = pictures::quantity_axis(Quantity::from(metric), curves);
    let Some((low, _)) = axis.limits else { return axis };
    let values = curves.iter().flat_map(|curve| curve.quartiles.iter().flatten().chain(curve.lines.iter().flatten()));
    let max = values.copied().filter(|value| value.is_finite()).fold(low, f64::max);
    axis.with_limits(low, (10.0 * (max + 0.01)).ceil().clamp(1.0, 10.0) / 10.0)
}

/// The quantity of the target first: loss or accuracy.
fn metrics(evidence: &Evidence) -> [Metric; 2] {
    match evidence.goal.quantity.base() {
        Metric::TrainLoss | Metric::HeldoutLoss => [Metric::HeldoutLoss, Metric::HeldoutAccuracy],
        _ => [Metric::HeldoutAccuracy, Metric::HeldoutLoss],
    }
}

fn value(record: &SliceRecord, metric: Metric) -> f64 {
    if metric == Metric::HeldoutLoss { record.loss } else { record.accuracy }
}

/// How a value is written.
fn shown(value: f64, metric: Metric) -> String {
    if metric == Metric::HeldoutLoss { format!("{value:.3}") } else { percent(value) }
}

/// The groups of a slice after an epoch; after the last recorded one without an epoch.
fn groups<'a>(trial: &'a TrialData, slice: &str, epoch: Option<usize>) -> impl Iterator<Item = &'a SliceRecord> {
    let epoch = epoch.or(trial.slices.last().map(|record| record.epoch));
    trial.slices.iter().filter(move |record| Some(record.epoch) == epoch && *record.slice == *slice)
}

/// The trials of a mechanism that have slices.
fn trials<'a>(point: &'a PointEvidence, mechanism: &'a str) -> Vec<&'a TrialData> {
    let mut trials = pictures::comparable(point, mechanism);
    trials.retain(|trial| !trial.slices.is_empty());
    trials
}

/// A metric by the value of a slice, over the seeds of a mechanism. None without a group.
fn curve(point: &PointEvidence, mechanism: &str, slice: &str, epoch: Option<usize>, metric: Metric) -> Option<Curve> {
    let trials = trials(point, mechanism);
    let mut x: Vec<u32> =
        trials.iter().flat_map(|trial| groups(trial, slice, epoch)).map(|record| record.value).collect();
    x.sort_unstable();
    x.dedup();
    let of_trial = |trial: &&TrialData| {
        let found: Vec<&SliceRecord> = groups(trial, slice, epoch).collect();
        let at = |x: &u32| found.binary_search_by_key(x, |record| record.value).ok();
        x.iter().map(|x| at(x).map_or(f64::NAN, |place| value(found[place], metric))).collect()
    };
    let seeds: Vec<Vec<f64>> = trials.iter().map(of_trial).collect();
    let x: Vec<f64> = x.into_iter().map(f64::from).collect();
    (!x.is_empty()).then(|| pictures::over_seeds(palette::series(mechanism), x, seeds))
}

/// Some epochs after which all trials of a point have slices, from the first trained one to the last.
fn snapshots(point: &PointEvidence) -> Vec<usize> {
    let trials = || point.trials.iter().map(|observed| &observed.trial).filter(|trial| !trial.slices.is_empty());
    let last = trials().filter_map(|trial| trial.slices.last()).map(|record| record.epoch).min().unwrap_or(0);
    let recorded = trials().next().into_iter().flat_map(|trial| &trial.slices).map(|record| record.epoch);
    let mut epochs: Vec<usize> = recorded.filter(|epoch| (1..=last).contains(epoch)).collect();
    epochs.dedup();
    let count = epochs.len().min(SNAPSHOTS);
    (0..count).map(|place| epochs[place * (epochs.len() - 1) / (count - 1).max(1)]).collect()
}

/// What is shown of a run.
struct View<'a> {
    evidence: &'a Evidence,
    /// The quantity of the target first.
    metrics: [Metric; 2],
}

impl View<'_> {
    /// A curve for every mechanism of a point.
    fn curves(&self, point: &PointEvidence, slice: &str, epoch: Option<usize>, metric: Metric) -> Vec<Curve> {
        point.mechanisms.iter().filter_map(|one| curve(point, &one.mechanism, slice, epoch, metric)).collect()
    }

    /// What the lines are, and how many seeds there are.
    fn spread(&self) -> &'static str {
        let points = self.evidence.points.iter();
        let counts = points.flat_map(|point| point.mechanisms.iter().map(|one| trials(point, &one.mechanism).len()));
        pictures::spread(counts.filter(|count| *count > 0).collect::<Vec<_>>().into_iter())
    }

    fn pictures(&self, slice: &str) -> Vec<Picture> {
        match &self.evidence.points[..] {
            [point] => {
                let mut pictures = self.last(point, slice);
                if slice == POSITION && !pictures.is_empty() {
                    pictures.extend(self.along_training(point, slice));
                }
                pictures
            }
            points => self.over_grid(points, slice),
        }
    }

    /// Both metrics after the last epoch. None if all questions have the same value.
    fn last(&self, point: &PointEvidence, slice: &str) -> Vec<Picture> {
        let all = self.metrics.map(|metric| (metric, self.curves(point, slice, None, metric)));
        if all[0].1.iter().all(|curve| curve.x.len() < 2) {
            return Vec::new();
        }
        let measures = all.iter().enumerate().map(|(index, (metric, curves))| Measure {
            axis: axis(*metric, curves),
            levels: Vec::new(),
            height: [95.0, 75.0][index],
            curves,
        });
        let measures: Vec<Measure<'_>> = measures.collect();
        let caption = format!("After the last recorded epoch. {}", self.spread());
        pictures::curve_pictures(&format!("by-{slice}"), &title(slice), &caption, &axis_words(slice), &measures)
    }

    /// The first metric after some epochs. With more mechanisms than one panel can show, one figure for each epoch.
    fn along_training(&self, point: &PointEvidence, slice: &str) -> Vec<Picture> {
        let epochs = snapshots(point);
        let [metric, _] = self.metrics;
        let of_epochs: Vec<Vec<Curve>> =
            epochs.iter().map(|epoch| self.curves(point, slice, Some(*epoch), metric)).collect();
        if epochs.len() < 2 {
            return Vec::new();
        }
        let all: Vec<Curve> = of_epochs.iter().flatten().cloned().collect();
        let axis = axis(metric, &all);
        let (name, title) = (format!("by-{slice}-training"), format!("{} during training", title(slice)));
        let by = pictures::capitalised(&format!("{} by {}", metric.info().words, words(slice)));
        if of_epochs.iter().all(|curves| curves.len() <= OVERLAID) {
            let caption = format!("{by}, one panel for each of some epochs. {}", self.spread());
            let panels = epochs.iter().zip(&of_epochs).map(|(epoch, curves)| (format!("epoch {epoch}"), &curves[..]));
            return vec![pictures::panels_of_curves(&name, &title, caption, &axis_words(slice), &axis, panels)];
        }
        let of_epoch = |(epoch, curves): (&usize, &Vec<Curve>)| {
            let measure = Measure { axis: axis.clone(), levels: Vec::new(), height: 70.0, curves };
            let caption = format!("{by} after epoch {epoch}, with full attention in grey. {}", self.spread());
            let figure = charts::curves_against(&axis_words(slice), &measure, BASELINE);
            pictures::picture(&format!("{name}-{epoch}"), &format!("{title}: epoch {epoch}"), caption, figure)
        };
        // The last one is the figure of the last epoch.
        epochs.iter().zip(&of_epochs).take(epochs.len() - 1).map(of_epoch).collect()
    }

    /// The first metric after the last epoch, one panel for each point of the grid.
    fn over_grid(&self, points: &[PointEvidence], slice: &str) -> Vec<Picture> {
        let [metric, _] = self.metrics;
        let of_points: Vec<Vec<Curve>> = points.iter().map(|point| self.curves(point, slice, None, metric)).collect();
        let all: Vec<Curve> = of_points.iter().flatten().cloned().collect();
        if all.iter().all(|curve| curve.x.len() < 2) {
            return Vec::new();
        }
        let axis = axis(metric, &all);
        let caption = format!(
            "{} by {}, after the last recorded epoch, one panel for each point of the grid. {}",
            pictures::capitalised(metric.info().words),
            words(slice),
            self.spread()
        );
        let panels = points.iter().zip(&of_points).map(|(point, curves)| (point_name(&point.point), &curves[..]));
        let (name, title) = (format!("by-{slice}"), title(slice));
        vec![pictures::panels_of_curves(&name, &title, caption, &axis_words(slice), &axis, panels)]
    }

    /// For each mechanism the first metric at both ends of every slice.
    fn findings(&self, slices: &[Arc<str>]) -> Vec<(String, String)> {
        let [metric, _] = self.metrics;
        let quantity = if metric == Metric::HeldoutLoss { "loss" } else { "accuracy" };
        let mut findings = Vec::new();
        for point in &self.evidence.points {
            for one in &point.mechanisms {
                let ends = |slice: &Arc<str>| {
                    let curve = curve(point, &one.mechanism, slice, None, metric)?;
                    let [first, .., last] = &curve.quartiles[..] else { return None };
                    let (from, to) = (curve.x[0], curve.x[curve.x.len() - 1]);
                    let (first, last) = (shown(first[1], metric), shown(last[1], metric));
                    Some(format!("by {} from {first} at {from} to {last} at {to}", words(slice)))
                };
                let found: Vec<String> = slices.iter().filter_map(ends).collect();
                if !found.is_empty() {
                    findings.push((
                        pictures::at_point(&one.mechanism, &point.point),
                        format!("{quantity} {}", found.join(", ")),
                    ));
                }
            }
        }
        findings
    }

    /// Every group after the last epoch.
    fn table(&self, slices: &[Arc<str>]) -> Table {
        struct Line<'a> {
            point: &'a PointEvidence,
            slice: &'a str,
            value: u32,
            mechanism: &'a str,
            groups: Vec<&'a SliceRecord>,
        }
        impl Line<'_> {
            fn median(&self, value: impl Fn(&SliceRecord) -> f64) -> Option<f64> {
                median(&self.groups.iter().map(|record| value(record)).collect::<Vec<_>>())
            }
        }
        let mut lines: Vec<Line<'_>> = Vec::new();
        for (point, slice) in
            self.evidence.points.iter().flat_map(|point| slices.iter().map(move |slice| (point, slice)))
        {
            let first = lines.len();
            for one in &point.mechanisms {
                for record in trials(point, &one.mechanism).iter().flat_map(|trial| groups(trial, slice, None)) {
                    let is_own = |line: &&mut Line<'_>| line.value == record.value && line.mechanism == one.mechanism;
                    match lines[first..].iter_mut().find(is_own) {
                        Some(line) => line.groups.push(record),
                        None => lines.push(Line {
                            point,
                            slice,
                            value: record.value,
                            mechanism: &one.mechanism,
                            groups: vec![record],
                        }),
                    }
                }
            }
            lines[first..].sort_by_key(|line| line.value);
        }
        let [metric, _] = self.metrics;
        let of = |line: &Line<'_>| line.median(|record| value(record, metric));
        let gap = |line: &Line<'_>| {
            let is_baseline = |other: &&Line<'_>| {
                other.mechanism == BASELINE
                    && (other.slice, other.value) == (line.slice, line.value)
                    && std::ptr::eq(other.point, line.point)
            };
            let baseline = of(lines.iter().find(is_baseline)?)?;
            Some((of(line)? - baseline, of(line)?, baseline))
        };
        let others = lines.iter().filter(|line| line.mechanism != BASELINE);
        let gaps = others.filter_map(|line| Some((line, gap(line)?)));
        let largest = gaps.max_by(|(_, a), (_, b)| a.0.abs().total_cmp(&b.0.abs()));
        let conclusion = match largest {
            Some((line, (_, own, baseline))) => format!(
                "The largest difference to full attention is at {} {}: {} with {}, {} with full attention.",
                words(line.slice),
                line.value,
                shown(own, metric),
                pictures::at_point(line.mechanism, &line.point.point),
                shown(baseline, metric)
            ),
            None => "No mechanism can be compared with full attention.".to_owned(),
        };
        let caption = "Held-out questions in groups, after the last recorded epoch of each trial. Medians over seeds. Loss in nats. \
            The folder of each trial has the groups after every recorded epoch in slices.csv.";
        Table::from_rows("questions", "Groups of questions", caption, &lines)
            .text("by", "slice", |line| words(line.slice))
            .count("value", "value", |line| line.value as usize)
            .text("mechanism", "mechanism", |line| line.mechanism)
            .number("questions", "questions", |line| line.median(|record| record.questions as f64), decimals(0))
            .number("accuracy", "heldout_accuracy", |line| line.median(|record| record.accuracy), percent)
            .number("loss", "heldout_loss", |line| line.median(|record| record.loss), decimals(3))
            .at_points(self.evidence, |line| &line.point.point)
            .folded(conclusion)
    }
}

fn title(slice: &str) -> String {
    format!("Questions by {}", words(slice))
}
