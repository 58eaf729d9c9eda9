//! The section about losses, read by what is known of the data: the best possible loss, the unigram loss, the length of a text.

use maud::html;
use semfocus_analysis::evidence::robustness::point_name;
use semfocus_analysis::evidence::{Evidence, MechanismEvidence, PointEvidence};
use semfocus_core::Quantity;
use semfocus_figure::charts::{Curve, Measure};

use crate::known::{BITS, EXCESS, Known, LEARNED, LOSS, PERPLEXITY};
use crate::pictures::{self, Picture};
use crate::section::Section;
use crate::table::{Table, decimals, percent};

/// None unless questions are asked at tokens, answers are drawn, or the data are text: elsewhere the accuracy says it all.
pub fn section(evidence: &Evidence) -> Option<Section> {
    let known = Known::new(evidence.trials().map(|observed| &observed.trial))?;
    let pictures = match &evidence.points[..] {
        [point] => of_point(evidence, point, &known),
        points => over_grid(evidence, points, &known),
    };
    Some(Section {
        id: "loss",
        title: "Loss",
        findings: known.words(),
        pictures,
        after_pictures: html! {},
        tables: table(evidence, &known).filled().into_iter().collect(),
    })
}

/// The loss with its lines, and what follows from it.
fn of_point(evidence: &Evidence, point: &PointEvidence, known: &Known) -> Vec<Picture> {
    let unit = evidence.unit();
    let shown = std::iter::once(LOSS).chain(known.derived());
    let all: Vec<(Quantity, Vec<Curve>)> = shown
        .filter(|quantity| *quantity == LOSS || *quantity != evidence.goal.quantity)
        .map(|quantity| {
            let of = |one: &MechanismEvidence| pictures::curve(point, &one.mechanism, quantity, unit);
            (quantity, point.mechanisms.iter().filter_map(of).collect())
        })
        .collect();
    if all[0].1.is_empty() {
        return Vec::new();
    }
    let measures = all.iter().map(|(quantity, curves)| Measure {
        axis: pictures::quantity_axis(*quantity, curves),
        levels: known.levels(*quantity),
        height: 80.0,
        curves,
    });
    let measures: Vec<Measure<'_>> = measures.collect();
    let counts = point.mechanisms.iter().map(|one| pictures::comparable(point, &one.mechanism).len());
    let log =
        if known.has_floor() { " The excess loss is the loss minus the floor, on a logarithmic axis." } else { "" };
    let caption = format!("Losses in nats.{log} {}", pictures::spread(counts));
    pictures::curve_pictures("losses", "Held-out loss during training", &caption, unit.singular(), &measures)
}

/// The first quantity that follows from the loss, or the loss, one panel for each point.
fn over_grid(evidence: &Evidence, points: &[PointEvidence], known: &Known) -> Vec<Picture> {
    let unit = evidence.unit();
    let quantity = known.derived().first().copied().unwrap_or(LOSS);
    let of_point = |point: &PointEvidence| -> Vec<Curve> {
        point.mechanisms.iter().filter_map(|one| pictures::curve(point, &one.mechanism, quantity, unit)).collect()
    };
    let of_points: Vec<Vec<Curve>> = points.iter().map(of_point).collect();
    let all: Vec<Curve> = of_points.iter().flatten().cloned().collect();
    if all.is_empty() || quantity == evidence.goal.quantity {
        return Vec::new();
    }
    let counts = points.iter().flat_map(|point| point.mechanisms.iter().map(|one| one.seeds));
    let caption = format!(
        "{} by {}, one panel for each point of the grid. {}",
        pictures::capitalised(quantity.words()),
        unit.singular(),
        pictures::spread(counts)
    );
    let panels = points.iter().zip(&of_points).map(|(point, curves)| (point_name(&point.point), &curves[..]));
    let title = format!("{} over the grid", pictures::capitalised(quantity.words()));
    vec![pictures::panels_of_curves(
        "grid-losses",
        &title,
        caption,
        unit.singular(),
        &pictures::quantity_axis(quantity, &all),
        panels,
    )]
}

/// The same numbers after the last epoch.
fn table(evidence: &Evidence, known: &Known) -> Table {
    struct Line<'a> {
        point: &'a PointEvidence,
        one: &'a MechanismEvidence,
    }
    let lines = evidence.points.iter().flat_map(|point| point.mechanisms.iter().map(move |one| Line { point, one }));
    let lines: Vec<Line<'_>> = lines.filter(|line| line.one.last.contains_key(LOSS.name())).collect();
    let value = |quantity: Quantity| move |line: &Line<'_>| line.one.last.get(quantity.name()).copied();
    let excess = if known.has_floor() { " Excess loss: loss minus the floor." } else { "" };
    let learned = if known.has_both() { " Learned: share of the way from the unigram loss to the floor." } else { "" };
    let caption =
        format!("Medians over seeds. Losses in nats.{excess}{learned} The perplexity is the exponential of the loss.");
    let mut table = Table::from_rows("losses", "Held-out loss after the last epoch", caption, &lines)
        .text("mechanism", "mechanism", |line| line.one.mechanism.clone())
        .number("loss", LOSS.name(), value(LOSS), decimals(4));
    if known.has_floor() {
        table = table.number("excess loss", EXCESS.name(), value(EXCESS), decimals(4));
    }
    if known.has_both() {
        table = table.number("learned", LEARNED.name(), value(LEARNED), percent);
    }
    table = table.number("perplexity", PERPLEXITY.name(), value(PERPLEXITY), decimals(2));
    if known.is_text() {
        table = table.number("bits per character", BITS.name(), value(BITS), decimals(3));
    }
    table.at_points(evidence, |line| &line.point.point)
}
