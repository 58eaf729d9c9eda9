//! The section about the causes of the speed-up of top-k attention.

use maud::{Markup, html};
use semfocus_analysis::evidence::Evidence;
use semfocus_analysis::evidence::causes::{CAUSES_RULE, CauseFinding, Causes, Group, Judged, MeasuredControl};
use semfocus_analysis::evidence::robustness::point_name;
use semfocus_analysis::stats::{Bounded, Interval};
use semfocus_figure::charts::{self, ForestRow};
use semfocus_figure::{Axis, End, Reference, Rule, Series};

use crate::page::verdict::answer;
use crate::palette;
use crate::pictures::{Picture, picture, target_words};
use crate::section::Section;
use crate::table::{MISSING, Table, decimals, with_interval};

/// Shares that the figure shows; what lies outside is drawn as an arrow.
const SHOWN: (f64, f64) = (-0.75, 1.75);

/// A run with this number of controls was made to explain a speed-up.
const MEANT: usize = 3;

/// None if the run has no controls, or nothing that they could explain.
pub fn section(evidence: &Evidence) -> Option<Section> {
    // Without a speed-up there is nothing to explain, unless the run was made for it.
    let is_meant = |causes: &&Causes| causes.controls.iter().filter(|of| of.control.is_enough()).count() >= MEANT;
    let all = evidence.causes();
    all.iter().find(|causes| causes.no_shares.is_none() || is_meant(causes))?;
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
    let of_finding = |finding: CauseFinding| match finding {
        CauseFinding::Supported | CauseFinding::Part | CauseFinding::OneOfSeveral => "good",
        CauseFinding::Excluded => "bad",
        CauseFinding::Undecided => "",
    };
    html! {
        @if !causes.point.is_empty() { h3 { (point_name(&causes.point)) } }
        p class="claim" { "“" (claim.claim) "”" }
        p { b { "The controls say: " (answer(claim.answer)) }  ": " (claim.reason) "." }
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
    let mut groups: Vec<(Group, Vec<ForestRow>)> = Vec::new();
    for measured in &causes.controls {
        let Some(estimate) = estimate(measured) else { continue };
        match groups.last_mut().filter(|(group, _)| *group == measured.control.group) {
            Some((_, rows)) => rows.push(estimate),
            None => groups.push((measured.control.group, vec![estimate])),
        }
    }
    let groups: Vec<(&str, Vec<ForestRow>)> = groups.into_iter().map(|(group, rows)| (group.title(), rows)).collect();
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

fn estimate(measured: &MeasuredControl) -> Option<ForestRow> {
    let (share, interval) = (measured.share?, measured.share_interval?);
    let (min, max) = SHOWN;
    let value = share.value();
    let shown = value.clamp(min, max);
    let low = if interval.low < min { End::Open } else { End::At(interval.low.min(max)) };
    let high = if interval.high > max { End::Open } else { End::At(interval.high.max(min)) };
    Some(ForestRow {
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
            @for MeasuredControl { mechanism, control, .. } in &causes.controls {
                li { b { (mechanism) } " " span { (control.does) ". Isolates: " (control.isolates) "." } }
            }
        }
    }
}

fn table(evidence: &Evidence, all: &[Causes]) -> Table {
    struct Row<'a> {
        causes: &'a Causes,
        measured: &'a MeasuredControl,
    }
    let finite = |end: Option<f64>| end.filter(|end| end.is_finite());
    let low = |interval: Option<Interval>| finite(interval.map(|interval| interval.low));
    let high = |interval: Option<Interval>| finite(interval.map(|interval| interval.high));
    let rows: Vec<Row> =
        all.iter().flat_map(|causes| causes.controls.iter().map(move |measured| Row { causes, measured })).collect();
    let caption = "Geometric mean over seeds of the speed-up over full attention, and the share of the speed-up of top-k attention: \
        the ratio of the logarithms. In brackets: 95 % intervals, widened for the number of controls; trials that did not reach the \
        target do not determine an end that is written as dots. Keeps: whether the interval of the share lies above (most) or \
        below (less) one half.";
    Table::from_rows("causes", "Controls", caption, &rows)
        .text("control", "control", |row| row.measured.mechanism.clone())
        .count("seeds", "seeds", |row| row.measured.seeds)
        .count("reached", "reached", |row| row.measured.reached)
        .shown("speed-up", "speedup", |row| {
            let Some(speedup) = row.measured.speedup else { return (MISSING.to_owned(), None) };
            let shown = format!("{}{:.2}×", speedup.sign(), speedup.value());
            (with_interval(shown, row.measured.speedup_interval, decimals(2)), Some(speedup.value()))
        })
        .data("speedup_low", |row| low(row.measured.speedup_interval))
        .data("speedup_high", |row| high(row.measured.speedup_interval))
        .shown("share", "share", |row| {
            let Some(share) = row.measured.share else { return (MISSING.to_owned(), None) };
            let percent = |end: f64| format!("{:.0}", 100.0 * end);
            (with_interval(share_text(share), row.measured.share_interval, percent), Some(share.value()))
        })
        .data("share_low", |row| low(row.measured.share_interval))
        .data("share_high", |row| high(row.measured.share_interval))
        .text("keeps", "keeps", |row| row.measured.kept.name())
        .text("of", "of", |row| row.causes.reference.clone())
        .text("isolates", "isolates", |row| row.measured.control.isolates.clone())
        .programs_only()
        .at_points(evidence, |row| &row.causes.point)
}
