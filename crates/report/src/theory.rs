//! The theory section: what probes found, and what the conditions say of it.

use std::fmt::Write;

use semfocus_analysis::evidence::{Evidence, PointEvidence};
use semfocus_analysis::stats::{median, quantile};
use semfocus_analysis::theory::lipschitz::Profile;
use semfocus_analysis::theory::pairs::{PREDICTION_RULE, Pair, PairAt, Row, pairs};
use semfocus_lab::probe::{ProbeRecord, Relevance, Summary};
use semfocus_lab::settings::Metric;
use semfocus_nn::Registry;

use crate::figure::charts::{Curve, curve_panel};
use crate::figure::{Axis, Figure, Mark, Panel, Points, Reference, Rule, Series, Sharing};
use crate::page::escaped;
use crate::pictures::{self, Picture};
use crate::section::Section;
use crate::tables::{Cell, Table, point_cells, with_point};

/// The quantile that figures show, in per cent, and its opposite for separations.
const SHOWN: f64 = 75.0;

/// The section; none where nothing was probed.
pub fn section(evidence: &Evidence) -> Option<Section> {
    evidence.trials().find(|observed| !observed.trial.probes.is_empty())?;
    let pairs = pairs(evidence);
    let mut pictures = Vec::new();
    if let [point] = &evidence.points[..] {
        pictures.extend(course(point, &pairs));
    }
    pictures.extend(prediction(evidence, &pairs));
    let mut tables = Vec::new();
    tables.extend(conditions_table(evidence, &pairs));
    tables.extend(relevance_table(evidence));
    tables.push(steepness_table(evidence));
    Some(Section {
        id: "theory",
        title: "Theory",
        words: words(&pairs),
        pictures,
        after_pictures: String::new(),
        tables,
    })
}

/// The verdict on both conditions, mechanism by mechanism, and what it means.
fn words(pairs: &[Pair]) -> String {
    let mut text = String::from(
        "<p>Attention that keeps few keys should train faster where its guarantee is the better one: where the scores it keeps lie \
         close together (dispersion δh), well above those it drops (separation Δ), and full attention's scores are spread widely \
         (dispersion δs). Condition (W) compares the guarantees in the attention parameters, (X) those in the input of a block. \
         A condition holds where its left-hand side is below 1.</p>\n",
    );
    let mut mechanisms: Vec<&str> = Vec::new();
    for Pair { mechanism, .. } in pairs {
        if !mechanisms.contains(&mechanism.as_str()) {
            mechanisms.push(mechanism);
        }
    }
    text += "<ul class=\"verdicts\">\n";
    for mechanism in &mechanisms {
        let of: Vec<&Pair> = pairs.iter().filter(|pair| pair.mechanism == *mechanism).collect();
        let _ = writeln!(text, "<li><b>{}</b> <span>{}</span></li>", escaped(mechanism), escaped(&finding(&of)));
    }
    text += "</ul>\n";
    if mechanisms.is_empty() {
        text +=
            "<p>No trial of another mechanism was probed at the same epoch as full attention with the same seed.</p>\n";
    }
    text + "<p>What this does not say: the conditions compare upper bounds on how sensitive the loss is. A better bound does not make a \
            model learn faster, and a model may learn faster without one. They are stated for mechanisms that keep the highest \
            scores.</p>\n"
}

/// What the pairs of a mechanism show, in words.
pub(crate) fn finding(pairs: &[&Pair]) -> String {
    let rows: Vec<&Row> = pairs.iter().filter_map(|pair| pair.last_row()).collect();
    if rows.is_empty() {
        return "the conditions do not apply: it does not keep the highest scores".to_owned();
    }
    let of = |name: &str, lhs: fn(&Row) -> f64, holds: fn(&Row) -> bool| {
        let count = rows.iter().filter(|row| holds(row)).count();
        let values: Vec<f64> = rows.iter().map(|row| lhs(row)).collect();
        let end = match count {
            0 => "does not hold at the end".to_owned(),
            count if count == rows.len() => "holds at the end".to_owned(),
            count => format!("holds at the end with {count} of {} seeds", rows.len()),
        };
        let when = match epochs_of(pairs, holds) {
            None => "at no probed epoch".to_owned(),
            Some((first, last, share)) => format!("at {share} of the probed epochs, from {first} to {last}"),
        };
        format!("({name}) {end} (left-hand side {}), and {when}", range(&values))
    };
    let w = of("W", |row| row.conditions.w_lhs, |row| row.conditions.w_holds);
    let x = of("X", |row| row.conditions.x_lhs, |row| row.conditions.x_holds);
    format!("{w}; {x}; at the {SHOWN} % quantile")
}

/// First and last epoch at which a condition holds for some seed, and for how many of all.
fn epochs_of(pairs: &[&Pair], holds: fn(&Row) -> bool) -> Option<(usize, usize, String)> {
    let all = || pairs.iter().flat_map(|pair| &pair.epochs);
    let holding = || all().filter(|at| at.rows.first().is_some_and(holds)).map(|at: &PairAt| at.epoch);
    let share = format!("{:.0} %", 100.0 * holding().count() as f64 / all().count().max(1) as f64);
    Some((holding().min()?, holding().max()?, share))
}

fn range(values: &[f64]) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if values.len() < 2 { format!("{least:.2}") } else { format!("{least:.2} to {greatest:.2}") }
}

/// Quartiles over seeds of a number of a mechanism's probes, at the epochs that all of its probed trials have.
fn probe_curve(point: &PointEvidence, mechanism: &str, value: impl Fn(&ProbeRecord) -> Option<f64>) -> Option<Curve> {
    let of_mechanism = pictures::comparable(point, mechanism).into_iter().map(|trial| &trial.probes[..]);
    let trials: Vec<&[ProbeRecord]> = of_mechanism.filter(|probes| !probes.is_empty()).collect();
    let epochs = trials.first()?.iter().map(|probe| probe.epoch);
    let of_seed = |probes: &&[ProbeRecord], epoch| value(probes.iter().find(|probe| probe.epoch == epoch)?);
    curve_over_seeds(mechanism, epochs, &trials, of_seed)
}

/// Quartiles over seeds of a number of a mechanism's pairs.
fn pair_curve(pairs: &[Pair], mechanism: &str, value: fn(&Row) -> f64) -> Option<Curve> {
    let of: Vec<&Pair> = pairs.iter().filter(|pair| pair.mechanism == mechanism && pair.has_conditions()).collect();
    let epochs = of.first()?.epochs.iter().map(|at| at.epoch);
    let of_seed = |pair: &&Pair, epoch| Some(value(pair.epochs.iter().find(|at| at.epoch == epoch)?.rows.first()?));
    curve_over_seeds(mechanism, epochs, &of, of_seed)
}

/// Quartiles over seeds at the epochs that all of them have a value for; none if there is no such epoch.
fn curve_over_seeds<T>(
    mechanism: &str,
    epochs: impl Iterator<Item = usize>,
    seeds: &[T],
    value: impl Fn(&T, usize) -> Option<f64>,
) -> Option<Curve> {
    let at = |epoch: usize| {
        let values: Vec<f64> = seeds.iter().map(|seed| value(seed, epoch)).collect::<Option<_>>()?;
        Some((epoch as f64, [0.25, 0.5, 0.75].map(|q| quantile(&values, q).unwrap_or(f64::NAN))))
    };
    let (epochs, quartiles): (Vec<f64>, Vec<[f64; 3]>) = epochs.filter_map(at).unzip();
    (!epochs.is_empty()).then(|| Curve { mechanism: mechanism.to_owned(), epochs, quartiles })
}

/// Dispersion, separation and the left-hand sides under the learning curves; none unless something was probed twice.
fn course(point: &PointEvidence, pairs: &[Pair]) -> Option<Picture> {
    let mechanisms: Vec<&str> = point.mechanisms.iter().map(|mechanism| mechanism.mechanism.as_str()).collect();
    let of = |value: fn(&ProbeRecord) -> Option<f64>| -> Vec<Curve> {
        mechanisms.iter().filter_map(|mechanism| probe_curve(point, mechanism, value)).collect()
    };
    let dispersion = of(|record| Summary::at(&record.pooled.dispersion, SHOWN));
    if dispersion.iter().all(|curve| curve.epochs.len() < 2) {
        return None;
    }
    let separation = of(|record| Summary::at(&record.pooled.separation, 100.0 - SHOWN).filter(|least| *least > 0.0));
    let accuracy: Vec<Curve> =
        mechanisms.iter().filter_map(|mechanism| pictures::curve(point, mechanism, Metric::HeldoutAccuracy)).collect();
    let conditions = |value: fn(&Row) -> f64| -> Vec<Curve> {
        mechanisms.iter().filter_map(|mechanism| pair_curve(pairs, mechanism, value)).collect()
    };
    let (w, x) = (conditions(|row| row.conditions.w_lhs), conditions(|row| row.conditions.x_lhs));
    let last = accuracy.iter().chain(&dispersion).flat_map(|curve| curve.epochs.last()).copied().fold(1.0, f64::max);
    let epochs = || Axis::linear("epoch").with_limits(0.0, last);
    let values = |curves: &[Curve]| curves.iter().flat_map(|c| &c.quartiles).flatten().copied().collect::<Vec<_>>();
    let panel = |axis: Axis, curves: &[Curve], height: f64| {
        curve_panel("", epochs(), axis, height, &curves.iter().collect::<Vec<_>>())
    };
    let mut panels = vec![
        panel(Axis::fraction("held-out accuracy"), &accuracy, 65.0),
        panel(Axis::auto("dispersion", values(&dispersion)), &dispersion, 65.0),
    ];
    if !separation.is_empty() {
        panels.push(panel(Axis::auto("separation", values(&separation)), &separation, 55.0));
    }
    for (name, curves) in [("(W)", &w), ("(X)", &x)].into_iter().filter(|(_, curves)| !curves.is_empty()) {
        let greatest = values(curves).into_iter().filter(|value| value.is_finite()).fold(1.0, f64::max);
        let mut panel = panel(Axis::linear(name).with_limits(0.0, 1.1 * greatest), curves, 50.0);
        panel.marks.push(Mark::Rule(Rule { at: Reference::Y(1.0), label: "holds below 1".to_owned() }));
        panels.push(panel);
    }
    let figure = Figure { share_x: Sharing::All, panels, ..Figure::default() };
    Some(pictures::picture(
        "theory-course",
        "Scores along training",
        format!(
            "From above: held-out accuracy; dispersion of the kept scores ({SHOWN} % quantile over queries, layers and examples; for \
             full attention that of all scores); separation of kept from dropped scores ({} % quantile, where it is positive); \
             left-hand sides of the conditions, which hold below 1. Lines are medians over seeds, bands reach from the lower to the \
             upper quartile.",
            100.0 - SHOWN
        ),
        figure,
    ))
}

/// Predicted against measured speed-up, a point for each pair.
fn prediction(evidence: &Evidence, pairs: &[Pair]) -> Option<Picture> {
    let known = |pair: &Pair| Some((pair.last_row()?.predicted_ratio(), pair.measured_speedup?));
    let mut marks = vec![
        Mark::Rule(Rule { at: Reference::Diagonal, label: String::new() }),
        Mark::Rule(Rule { at: Reference::X(1.0), label: String::new() }),
        Mark::Rule(Rule { at: Reference::Y(1.0), label: String::new() }),
    ];
    let mut mechanisms: Vec<&str> = pairs.iter().map(|pair| pair.mechanism.as_str()).collect();
    mechanisms.sort_unstable();
    mechanisms.dedup();
    let mut count = 0;
    for mechanism in mechanisms {
        let points: Vec<(f64, f64)> =
            pairs.iter().filter(|pair| pair.mechanism == mechanism).filter_map(known).collect();
        count += points.len();
        if !points.is_empty() {
            marks.push(Mark::Points(Points { series: Series::mechanism(mechanism), points, marker: None }));
        }
    }
    let with_conditions = pairs.iter().filter(|pair| pair.has_conditions()).count();
    (count > 0).then(|| {
        let panel = Panel {
            title: String::new(),
            x: Axis::times("predicted ratio of guarantees"),
            y: Axis::times("measured speed-up in epochs"),
            height: 130.0,
            marks,
        };
        let left_out = match with_conditions - count {
            0 => String::new(),
            out => format!(" {out} more did not both arrive and are left out."),
        };
        pictures::picture(
            "prediction",
            "Predicted and measured speed-up",
            format!(
                "Pairs of trials with the same seed, {count} in all; epochs to {}. {PREDICTION_RULE}{left_out} Left of the \
                 upright line the theory predicts no advantage, below the level one none was measured; on the diagonal both agree.",
                evidence.goal
            ),
            Figure { panels: vec![panel], ..Figure::default() },
        )
    })
}

/// The study's Table 6 at the last epoch that both models of a pair were probed.
fn conditions_table(evidence: &Evidence, pairs: &[Pair]) -> Option<Table> {
    let mut rows = Vec::new();
    for pair in pairs {
        let Some(last) = pair.epochs.last() else { continue };
        for row in &last.rows {
            let short = |value: f64| Cell::number(Some(value), |x| format!("{x:.3}"));
            let mut cells = point_cells(&pair.point);
            cells.extend([Cell::text(&pair.mechanism), Cell::text(&pair.seed.to_string()), Cell::count(last.epoch)]);
            cells.push(Cell::number(Some(row.quantile), |x| format!("{x} %")));
            cells.extend([row.full_dispersion, row.dispersion].map(|x| Cell::number(Some(x), |x| format!("{x:.2}"))));
            cells.push(Cell::number(Some(row.separation), |x| format!("{x:.2e}")));
            cells.push(Cell::number(Some(row.sink), |x| format!("{x:.0}")));
            cells.extend([short(row.conditions.w_lhs), short(row.conditions.x_lhs)]);
            rows.push(cells);
        }
    }
    let columns = [
        ("mechanism", "mechanism", false),
        ("seed", "seed", false),
        ("epoch", "epoch", true),
        ("quantile", "quantile", true),
        ("δs", "full_dispersion", true),
        ("δh", "dispersion", true),
        ("Δ", "separation", true),
        ("b", "sink", true),
        ("(W)", "w_lhs", true),
        ("(X)", "x_lhs", true),
    ];
    (!rows.is_empty()).then(|| Table {
        name: "conditions",
        title: "Both conditions",
        caption: "Quantiles over layers, queries and examples of each model, as in Table 6 of the study: dispersion δs of full attention, \
                  dispersion δh of the kept scores, separation Δ at the opposite quantile (at least 1e-9), queries b that keep a key. A \
                  condition holds where its left-hand side is below 1."
            .to_owned(),
        columns: with_point(evidence, &columns),
        rows,
    })
}

/// Medians over seeds of a number of the last probe, for every point, mechanism and layer.
fn by_layer<T>(
    evidence: &Evidence,
    mut row: impl FnMut(&PointEvidence, &str, usize, &[&ProbeRecord]) -> Option<T>,
) -> Vec<T> {
    let mut rows = Vec::new();
    for point in &evidence.points {
        for mechanism in &point.mechanisms {
            let of = point.of_mechanism(&mechanism.mechanism);
            let last: Vec<&ProbeRecord> = of.filter_map(|(trial, _)| trial.probes.last()).collect();
            for layer in 0..last.iter().map(|record| record.layers.len()).max().unwrap_or(0) {
                rows.extend(row(point, &mechanism.mechanism, layer, &last));
            }
        }
    }
    rows
}

fn first_cells(point: &PointEvidence, mechanism: &str, layer: usize) -> Vec<Cell> {
    let mut cells = point_cells(&point.point);
    cells.extend([Cell::text(mechanism), Cell::count(layer)]);
    cells
}

fn relevance_table(evidence: &Evidence) -> Option<Table> {
    let rows = by_layer(evidence, |point, mechanism, layer, records| {
        let found = records.iter().filter_map(|record| record.layers.get(layer)?.relevance);
        let found: Vec<Relevance> = found.collect();
        let middle = |value: fn(&Relevance) -> f64| median(&found.iter().map(value).collect::<Vec<_>>());
        let overlaps: Vec<f64> = records.iter().filter_map(|record| record.layers.get(layer)?.overlap).collect();
        let mut cells = first_cells(point, mechanism, layer);
        cells.extend([
            Cell::percent(middle(|r| r.precision)),
            Cell::percent(middle(|r| r.random_precision)),
            Cell::percent(middle(|r| r.recall)),
            Cell::percent(middle(|r| r.random_recall)),
            Cell::percent(middle(|r| r.mass)),
            Cell::percent(median(&overlaps)),
        ]);
        (!found.is_empty()).then_some(cells)
    });
    let columns = [
        ("mechanism", "mechanism", false),
        ("layer", "layer", true),
        ("precision", "precision", true),
        ("at random", "random_precision", true),
        ("recall", "recall", true),
        ("at random", "random_recall", true),
        ("mass", "mass", true),
        ("overlap", "overlap", true),
    ];
    (!rows.is_empty()).then(|| Table {
        name: "relevance",
        title: "Does it look where the label is decided?",
        caption: "A token is relevant if another one in its place alone would change the label. Precision: share of the kept keys that are \
                  relevant; recall: share of the relevant keys that are kept; mass: attention weight on relevant keys, of which as many \
                  keys at random, weighted equally, would have the first number at random. Overlap: kept keys in common with the probe \
                  before, of those that either keeps. Medians over seeds of means over queries, at the last probe."
            .to_owned(),
        columns: with_point(evidence, &columns),
        rows,
    })
}

fn steepness_table(evidence: &Evidence) -> Table {
    let rows = by_layer(evidence, |point, mechanism, layer, records| {
        let attention = Registry::standard().parse(mechanism).ok()?;
        let profiles: Vec<Profile> = records.iter().map(|record| Profile::of_record(record, &attention)).collect();
        let norm = |value: &dyn Fn(&ProbeRecord) -> f64| {
            Cell::number(median(&records.iter().map(|record| value(record)).collect::<Vec<_>>()), |x| format!("{x:.2}"))
        };
        let bound = |value: &dyn Fn(&Profile) -> f64| {
            Cell::number(median(&profiles.iter().map(value).collect::<Vec<_>>()), |x| format!("{x:.1}"))
        };
        let mut cells = first_cells(point, mechanism, layer);
        cells.extend([
            norm(&|record| record.norms.layers[layer].score.iter().copied().fold(0.0, f64::max)),
            norm(&|record| record.norms.layers[layer].value.weight),
            norm(&|record| record.norms.layers[layer].mlp_hidden.weight),
            norm(&|record| record.norms.layers[layer].mlp_output.weight),
            bound(&|profile| profile.layers[layer].w),
            bound(&|profile| profile.layers[layer].v),
            bound(&|profile| profile.layers[layer].mlp),
            bound(&|profile| profile.layers[layer].x),
            bound(&|profile| profile.all),
        ]);
        Some(cells)
    });
    let columns = [
        ("mechanism", "mechanism", false),
        ("layer", "layer", true),
        ("Γ", "score_norm", true),
        ("Υ", "value_norm", true),
        ("B₁", "mlp_hidden_norm", true),
        ("B₂", "mlp_output_norm", true),
        ("lg λ_W", "log10_lipschitz_w", true),
        ("lg λ_V", "log10_lipschitz_v", true),
        ("lg λ_MLP", "log10_lipschitz_mlp", true),
        ("lg λ_X", "log10_lipschitz_x", true),
        ("lg λ of all", "log10_lipschitz_all", true),
    ];
    Table {
        name: "steepness",
        title: "How steep the loss can be",
        caption: "Spectral norms of each layer (scores Γ, the greatest head's; values Υ; both MLP matrices), and decimal logarithms of proven \
             bounds on the norm of the loss's gradient in queries and keys, in values and output, in the MLP, in the block's input, and in \
             all parameters of the model together. Medians over seeds, at the last probe. Worst cases: the loss need not be that \
                  steep anywhere."
            .to_owned(),
        columns: with_point(evidence, &columns),
        rows,
    }
}
