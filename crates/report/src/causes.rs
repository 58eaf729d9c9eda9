//! The section about the causes of the speed-up of top-k attention.

use maud::{Markup, html};
use semfocus_analysis::evidence::Evidence;
use semfocus_analysis::evidence::causes::{CAUSES_RULE, Causes, Finding, Group, Judged, Measured};
use semfocus_analysis::evidence::claim::Answer;
use semfocus_analysis::evidence::robustness::point_name;
use semfocus_analysis::stats::{Bounded, Interval};
use semfocus_figure::charts::{self, Estimate};
use semfocus_figure::{Axis, End, Reference, Rule, Series};

use crate::palette;
use crate::pictures::{Picture, picture, target_words};
use crate::section::Section;
use crate::tables::{Cell, Table, number, text, under};

/// Shares that the figure shows; what lies outside is drawn as an arrow.
const SHOWN: (f64, f64) = (-0.75, 1.75);

/// None if the run has no controls.
pub fn section(evidence: &Evidence) -> Option<Section> {
    let all = evidence.causes();
    let first = all.first()?;
    let is_grid = evidence.points.len() > 1;
    let pictures = all.iter().enumerate().filter_map(|(index, causes)| {
        let name = if is_grid { format!("causes-{}", index + 1) } else { "causes".to_owned() };
        figure(evidence, causes, &name)
    });
    Some(Section {
        id: "causes",
        title: "Causes",
        findings: html! {
            @for causes in all { (findings(causes)) }
            details { summary { "Rules for these statements" } p { (CAUSES_RULE) } }
        },
        pictures: pictures.collect(),
        after_pictures: meanings(first),
        tables: vec![table(evidence, all)],
    })
}

fn findings(causes: &Causes) -> Markup {
    let claim = &causes.claim;
    let class = match claim.answer {
        Answer::Supported => "good",
        Answer::NotSupported => "bad",
        Answer::Undecided => "",
    };
    let of_finding = |finding: Finding| match finding {
        Finding::Supported | Finding::Part | Finding::OneOfSeveral => "good",
        Finding::Excluded => "bad",
        Finding::Undecided => "",
    };
    html! {
        @if !causes.point.is_empty() { h3 { (point_name(&causes.point)) } }
        p class="claim" { "“" (claim.claim) "”" }
        p { b { "The controls say: " span class=(class) { (claim.answer.name()) } "." } " " (claim.reason) "." }
        @if causes.no_shares.is_none() {
            ul class="verdicts" {
                @for Judged { explanation, because, finding, words, .. } in &causes.explanations {
                    li {
                        b { (explanation) } " "
                        span { span class=(of_finding(*finding)) { (finding.name()) } ": " (words) ". " i { (because) } }
                    }
                }
            }
        }
    }
}

/// One row for each control, in groups.
fn figure(evidence: &Evidence, causes: &Causes, name: &str) -> Option<Picture> {
    let mut groups: Vec<(Group, Vec<Estimate>)> = Vec::new();
    for measured in &causes.controls {
        let Some(estimate) = estimate(measured) else { continue };
        match groups.last_mut().filter(|(group, _)| *group == measured.control.group) {
            Some((_, rows)) => rows.push(estimate),
            None => groups.push((measured.control.group, vec![estimate])),
        }
    }
    let groups: Vec<(&str, Vec<Estimate>)> = groups.into_iter().map(|(group, rows)| (group.title(), rows)).collect();
    if groups.is_empty() {
        return None;
    }
    let axis = Axis::fraction(&format!("share of the speed-up of {}", causes.reference)).with_limits(SHOWN.0, SHOWN.1);
    let rules = [0.0, 0.5, 1.0].map(|at| Rule { at: Reference::X(at), label: String::new() });
    let place = if causes.point.is_empty() { String::new() } else { format!(" at {}", point_name(&causes.point)) };
    let caption = format!(
        "Share that each control has of the speed-up of {} over full attention{place}, in {} to {}: 0 is as fast as full \
         attention, 100 % as fast as {}. Bars are 95 % intervals, widened for the number of controls, over {} seeds. A control \
         keeps most of the speed-up if its bar lies to the right of the middle line, and less if it lies to the left. Hollow \
         points are bounds: trials did not reach the target, or the value lies outside the figure.",
        causes.reference,
        evidence.unit().name(),
        target_words(evidence.goal),
        causes.reference,
        causes.seeds,
    );
    let figure = charts::grouped_intervals(&axis, &rules, &groups);
    Some(picture(name, "What causes the speed-up", caption, figure))
}

fn estimate(measured: &Measured) -> Option<Estimate> {
    let (share, interval) = (measured.share?, measured.share_interval?);
    let (min, max) = SHOWN;
    let value = share.value();
    let shown = value.clamp(min, max);
    let low = if interval.low < min { End::Open } else { End::At(interval.low.min(max)) };
    let high = if interval.high > max { End::Open } else { End::At(interval.high.max(min)) };
    Some(Estimate {
        series: Series { name: measured.mechanism.clone(), style: palette::style(&measured.mechanism) },
        value: shown,
        interval: Some((low, high)),
        bound: !matches!(share, Bounded::Exactly(_)) || shown != value,
        note: share_text(share),
    })
}

/// `43 %`, `<−12 %`.
fn share_text(share: Bounded) -> String {
    format!("{}{:.0} %", share.sign(), 100.0 * share.value()).replace('-', "−")
}

/// What each control does, in words.
fn meanings(causes: &Causes) -> Markup {
    html! {
        h3 id="controls" { "What the controls are" }
        ul class="verdicts" {
            @for Measured { mechanism, control, .. } in &causes.controls {
                li { b { (mechanism) } " " span { (control.does) ". Isolates: " (control.isolates) "." } }
            }
        }
    }
}

fn table(evidence: &Evidence, all: &[Causes]) -> Table {
    struct Row<'a> {
        causes: &'a Causes,
        measured: &'a Measured,
    }
    const SPEEDUP: &str = "speed-up over full attention";
    const SHARE: &str = "share";
    fn finite(interval: Option<Interval>, end: fn(Interval) -> f64) -> Option<f64> {
        interval.map(end).filter(|end| end.is_finite())
    }
    fn share(value: Option<f64>) -> Cell {
        Cell::number(value, |x| format!("{:.0} %", 100.0 * x).replace('-', "−"))
    }
    let columns = [
        text("control", "control", |row: &Row| Cell::text(&row.measured.mechanism)),
        number("seeds", "seeds", |row| Cell::text(row.measured.seeds)),
        number("reached", "reached", |row| Cell::text(row.measured.reached)),
        under(
            SPEEDUP,
            number("mean", "speedup", |row| {
                let sign = row.measured.speedup.map_or("", Bounded::sign);
                Cell::number(row.measured.speedup.map(Bounded::value), |x| format!("{sign}{x:.2}×"))
            }),
        ),
        under(
            SPEEDUP,
            number("low", "speedup_low", |row| Cell::decimals(finite(row.measured.speedup_interval, |i| i.low), 2)),
        ),
        under(
            SPEEDUP,
            number("high", "speedup_high", |row| Cell::decimals(finite(row.measured.speedup_interval, |i| i.high), 2)),
        ),
        under(
            SHARE,
            number("estimate", "share", |row| {
                let shown = row.measured.share.map_or_else(|| "–".to_owned(), share_text);
                Cell { shown, exact: row.measured.share.map_or_else(String::new, |share| share.value().to_string()) }
            }),
        ),
        under(SHARE, number("low", "share_low", |row| share(finite(row.measured.share_interval, |i| i.low)))),
        under(SHARE, number("high", "share_high", |row| share(finite(row.measured.share_interval, |i| i.high)))),
        text("keeps", "keeps", |row| Cell::text(row.measured.kept.name())),
        text("of", "of", |row| Cell::text(&row.causes.reference)),
        text("isolates", "isolates", |row| Cell::text(row.measured.control.isolates)),
    ];
    let rows: Vec<Row> =
        all.iter().flat_map(|causes| causes.controls.iter().map(move |measured| Row { causes, measured })).collect();
    let caption = "Geometric mean over seeds of the speed-up over full attention, and the share of the speed-up of top-k attention: \
        the ratio of the logarithms. Low and high: 95 % intervals, widened for the number of controls; a missing end is not \
        determined by trials that did not reach the target. Keeps: whether the interval of the share lies above (most) or below \
        (less) one half.";
    Table::new("causes", "Controls", caption, &columns, &rows)
        .with_points(evidence, rows.iter().map(|row| &row.causes.point[..]))
}
