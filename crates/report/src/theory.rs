//! The section about theory: what probes found, and whether the conditions hold.

use maud::{Markup, html};
use semfocus_analysis::evidence::robustness::point_name;
use semfocus_analysis::evidence::{Evidence, PointEvidence, Unit};
use semfocus_analysis::stats::median;
use semfocus_analysis::theory::lipschitz::{LayerProfile, Profile};
use semfocus_analysis::theory::pairs::{PREDICTION_RULE, Pair, PairAt, Row, pairs};
use semfocus_core::Metric;
use semfocus_core::study::seed_name;
use semfocus_figure::charts::{self, Curve, Measure, curve_panel};
use semfocus_figure::{Axis, Figure, Mark, Panel, Points, Reference, Rule, significant};
use semfocus_store::records::{LayerNorms, ProbeRecord, Summary};

use crate::page::finding_list;
use crate::palette;
use crate::pictures::{self, Picture};
use crate::probed::{Layer, curve_over_seeds, layers, probe_curve};
use crate::relevance;
use crate::section::Section;
use crate::table::{Table, decimals};

/// The quantile that figures show, in per cent. Separations are shown at the opposite quantile.
const SHOWN: f64 = 75.0;

/// None if nothing was probed.
pub fn section(evidence: &Evidence) -> Option<Section> {
    evidence.trials().find(|observed| !observed.trial.probes.is_empty())?;
    let pairs = pairs(evidence);
    let mut pictures = match &evidence.points[..] {
        [point] => scores_pictures(point, &pairs),
        points => conditions_pictures(points, &pairs),
    };
    pictures.extend(relevance::pictures(evidence));
    pictures.extend(prediction_picture(evidence, &pairs));
    let tables = [conditions_table(evidence, &pairs), relevance::table(evidence), steepness_table(evidence)];
    Some(Section {
        id: "theory",
        title: "Theory",
        findings: findings(&pairs),
        pictures,
        after_pictures: html! {},
        tables: tables.into_iter().flatten().collect(),
    })
}

/// What the conditions are, whether they hold for each mechanism, and what follows.
fn findings(pairs: &[Pair]) -> Markup {
    let groups = groups(pairs);
    let found: Vec<(&str, String)> = groups.iter().map(|(name, own)| (name.as_str(), finding(own))).collect();
    html! {
        (finding_list(&found))
        @if found.is_empty() {
            p { "No trial of another mechanism was probed at the same epoch as full attention with the same seed." }
        }
        p {
            "Attention that keeps few keys should train faster where it has the better guarantee: where the scores it keeps \
             are close together (dispersion δh) and well above those it drops (separation Δ), while the scores of full \
             attention are spread widely (dispersion δs). Condition (W) compares the guarantees in the attention parameters, \
             (X) those in the input of a block. A condition holds if its left-hand side is below 1."
        }
        p {
            "What this does not say: the conditions compare upper bounds on how sensitive the loss is. A better bound does not \
             make a model learn faster, and a model may learn faster without one. The conditions are stated for mechanisms \
             that keep the highest scores."
        }
    }
}

/// The pairs of each mechanism at each point of the grid.
pub fn groups(pairs: &[Pair]) -> Vec<(String, Vec<&Pair>)> {
    let mut groups: Vec<(String, Vec<&Pair>)> = Vec::new();
    for pair in pairs {
        let name = pictures::at_point(&pair.mechanism, &pair.point);
        match groups.iter_mut().find(|(other, _)| *other == name) {
            Some((_, group)) => group.push(pair),
            None => groups.push((name, vec![pair])),
        }
    }
    groups
}

/// Each mechanism once, in order of first occurrence.
fn mechanisms(pairs: &[Pair]) -> Vec<&str> {
    let mut mechanisms: Vec<&str> = Vec::new();
    for Pair { mechanism, .. } in pairs {
        if !mechanisms.contains(&mechanism.as_str()) {
            mechanisms.push(mechanism);
        }
    }
    mechanisms
}

/// Whether the conditions hold for the pairs of one mechanism.
pub fn finding(pairs: &[&Pair]) -> String {
    let rows: Vec<&Row> = pairs.iter().filter_map(|pair| pair.last_row()).collect();
    if rows.is_empty() {
        return "the conditions do not apply: they are about the softmax over the highest scores".to_owned();
    }
    let probes = pairs.iter().map(|pair| pair.epochs.len()).max().unwrap_or(0);
    let condition = |name: &str, lhs: fn(&Row) -> f64, holds: fn(&Row) -> bool| {
        let count = rows.iter().filter(|row| holds(row)).count();
        let values: Vec<f64> = rows.iter().map(|row| lhs(row)).collect();
        let end = match count {
            0 => "does not hold at the last probe".to_owned(),
            count if count == rows.len() => "holds at the last probe".to_owned(),
            count => format!("holds at the last probe in {count} of {} pairs of trials", rows.len()),
        };
        let when = match epochs_of(pairs, holds) {
            _ if probes <= 1 => String::new(),
            None => ", and in no probe before".to_owned(),
            Some((first, last, share)) if first == last => format!(", and in {share} of all probes, at epoch {first}"),
            Some((first, last, share)) => format!(", and in {share} of all probes, from epoch {first} to {last}"),
        };
        format!("({name}) {end} (left-hand side {}){when}", range(&values))
    };
    let w = condition("W", |row| row.conditions.w_lhs, |row| row.conditions.w_holds);
    let x = condition("X", |row| row.conditions.x_lhs, |row| row.conditions.x_holds);
    format!("{w}. {x}. Both at the {SHOWN} % quantile")
}

/// The first and the last epoch at which a condition holds for some seed, and the share of probed epochs at which it does.
fn epochs_of(pairs: &[&Pair], holds: fn(&Row) -> bool) -> Option<(usize, usize, String)> {
    let all = || pairs.iter().flat_map(|pair| &pair.epochs);
    let holding = || all().filter(|at: &&PairAt| at.rows.first().is_some_and(holds)).map(|at| at.epoch);
    let share = format!("{:.0} %", 100.0 * holding().count() as f64 / all().count().max(1) as f64);
    Some((holding().min()?, holding().max()?, share))
}

fn range(values: &[f64]) -> String {
    let min = values.iter().copied().fold(f64::INFINITY, f64::min);
    let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if values.len() < 2 { format!("{min:.2}") } else { format!("{min:.2} to {max:.2}") }
}

/// Quartiles over seeds of a value of a mechanism's pairs.
fn pair_curve(point: &PointEvidence, pairs: &[Pair], mechanism: &str, value: fn(&Row) -> f64) -> Option<Curve> {
    let is_own = |pair: &&Pair| pair.mechanism == mechanism && pair.point == point.point && pair.has_conditions();
    let own: Vec<&Pair> = pairs.iter().filter(is_own).collect();
    let epochs = own.first()?.epochs.iter().map(|at| at.epoch);
    let of_seed = |pair: &&Pair, epoch| Some(value(pair.epochs.iter().find(|at| at.epoch == epoch)?.rows.first()?));
    curve_over_seeds(mechanism, epochs, &own, of_seed)
}

/// Dispersion, separation and the left-hand sides below the learning curves; none unless something was probed twice.
fn scores_pictures(point: &PointEvidence, pairs: &[Pair]) -> Vec<Picture> {
    let mechanisms: Vec<&str> = point.mechanisms.iter().map(|mechanism| mechanism.mechanism.as_str()).collect();
    let probed = |value: fn(&ProbeRecord) -> Option<f64>| -> Vec<Curve> {
        mechanisms.iter().filter_map(|mechanism| probe_curve(point, mechanism, value)).collect()
    };
    let dispersion = probed(|record| Summary::at(&record.pooled.dispersion, SHOWN));
    if dispersion.iter().all(|curve| curve.x.len() < 2) {
        return Vec::new();
    }
    let separation =
        probed(|record| Summary::at(&record.pooled.separation, 100.0 - SHOWN).filter(|value| *value > 0.0));
    let accuracy: Vec<Curve> = mechanisms
        .iter()
        .filter_map(|mechanism| pictures::curve(point, mechanism, Metric::HeldoutAccuracy.into(), Unit::Epochs))
        .collect();
    let conditions = |value: fn(&Row) -> f64| -> Vec<Curve> {
        mechanisms.iter().filter_map(|mechanism| pair_curve(point, pairs, mechanism, value)).collect()
    };
    let (w, x) = (conditions(|row| row.conditions.w_lhs), conditions(|row| row.conditions.x_lhs));
    let plain = |axis: Axis, curves, height| Measure { axis, levels: Vec::new(), height, curves };
    let condition = |name: &str, curves| {
        let levels = vec![(1.0, "holds below 1".to_owned())];
        Measure { axis: condition_axis(name, curves), levels, height: 50.0, curves }
    };
    let measures = [
        plain(pictures::quantity_axis(Metric::HeldoutAccuracy.into(), &accuracy), &accuracy, 65.0),
        plain(Axis::auto("dispersion", values(&dispersion)), &dispersion, 65.0),
        plain(Axis::auto("separation", values(&separation)), &separation, 55.0),
        condition("(W)", &w),
        condition("(X)", &x),
    ];
    let shown: Vec<Measure> = measures.into_iter().filter(|measure| !measure.curves.is_empty()).collect();
    let counts = mechanisms.iter().map(|mechanism| pictures::comparable(point, mechanism).len());
    let caption = format!(
        "Dispersion of the kept scores: {SHOWN} % quantile over queries, layers and examples (for full attention, of all scores). \
         Separation of kept from dropped scores: {} % quantile, where it is positive. (W), (X): left-hand sides of the conditions, \
         which hold below 1. {}",
        100.0 - SHOWN,
        pictures::spread(counts)
    );
    pictures::curve_pictures("theory-curves", "Scores during training", &caption, "epoch", &shown)
}

fn values(curves: &[Curve]) -> Vec<f64> {
    let of_curve = |curve: &Curve| -> Vec<f64> {
        curve.quartiles.iter().flatten().chain(curve.lines.iter().flatten()).copied().collect()
    };
    curves.iter().flat_map(of_curve).filter(|value| value.is_finite()).collect()
}

fn condition_axis(name: &str, curves: &[Curve]) -> Axis {
    let max = values(curves).into_iter().fold(1.0, f64::max);
    Axis::linear(name).with_limits(0.0, 1.1 * max)
}

fn condition_rule() -> Mark {
    Mark::Rule(Rule { at: Reference::Y(1.0), label: "holds below 1".to_owned() })
}

/// The left-hand sides of the conditions during training over a grid: one figure for each condition, one panel for each point.
/// None unless something was probed twice.
fn conditions_pictures(points: &[PointEvidence], pairs: &[Pair]) -> Vec<Picture> {
    type LeftHandSide = fn(&Row) -> f64;
    let conditions: [(&str, &str, LeftHandSide); 2] =
        [("W", "theory-curves-w", |row| row.conditions.w_lhs), ("X", "theory-curves-x", |row| row.conditions.x_lhs)];
    let mut pictures = Vec::new();
    for (name, file, value) in conditions {
        let of_point = |point: &PointEvidence| -> Vec<Curve> {
            point.mechanisms.iter().filter_map(|m| pair_curve(point, pairs, &m.mechanism, value)).collect()
        };
        let of_points: Vec<Vec<Curve>> = points.iter().map(of_point).collect();
        let all: Vec<Curve> = of_points.iter().flatten().cloned().collect();
        if all.iter().all(|curve| curve.x.len() < 2) {
            continue;
        }
        let epochs = charts::whole_numbers("epoch", all.iter().flat_map(|curve| &curve.x).copied());
        let axis = condition_axis(&format!("({name}), left-hand side"), &all);
        let panel = |(point, curves): (&PointEvidence, &Vec<Curve>)| {
            let mut panel = curve_panel(&point_name(&point.point), epochs.clone(), axis.clone(), 90.0, curves);
            panel.marks.push(condition_rule());
            panel
        };
        let panels: Vec<Panel> = points.iter().zip(&of_points).map(panel).collect();
        let counts = points.iter().flat_map(|point| point.mechanisms.iter().map(|mechanism| mechanism.seeds));
        pictures.push(pictures::picture(
            file,
            &format!("Condition ({name}) during training"),
            format!(
                "Left-hand side of condition ({name}) by epoch, at the {SHOWN} % quantile, one panel for each point of the \
                 grid. The condition holds below 1. {}",
                pictures::spread(counts)
            ),
            charts::small_multiples(panels.len().clamp(1, 4), panels),
        ));
    }
    pictures
}

/// Predicted against measured speed-up, one point for each pair.
fn prediction_picture(evidence: &Evidence, pairs: &[Pair]) -> Option<Picture> {
    let both = |pair: &Pair| Some((pair.last_row()?.predicted_ratio(), pair.measured_speedup?));
    let rule = |at| Mark::Rule(Rule { at, label: String::new() });
    let mut marks = vec![rule(Reference::Diagonal), rule(Reference::X(1.0)), rule(Reference::Y(1.0))];
    let mut mechanisms = mechanisms(pairs);
    mechanisms.sort_unstable();
    let mut count = 0;
    for mechanism in mechanisms {
        let own = pairs.iter().filter(|pair| pair.mechanism == mechanism);
        let label =
            |pair: &Pair| format!("{}, seed {}", pictures::at_point(mechanism, &pair.point), seed_name(pair.seed));
        let found = own.filter_map(|pair| Some((both(pair)?, label(pair))));
        let (points, labels): (Vec<(f64, f64)>, Vec<String>) = found.unzip();
        count += points.len();
        if !points.is_empty() {
            marks.push(Mark::Points(Points { series: palette::series(mechanism), points, marker: None, labels }));
        }
    }
    let with_conditions = pairs.iter().filter(|pair| pair.has_conditions()).count();
    (count > 0).then(|| {
        let panel = Panel {
            title: String::new(),
            x: Axis::times("predicted ratio of guarantees"),
            y: Axis::times("measured speed-up"),
            height: 130.0,
            marks,
        };
        let left_out = match with_conditions - count {
            0 => String::new(),
            1 => " One more pair is left out because not both of its trials reached the target.".to_owned(),
            out => format!(" {out} more pairs are left out because not both of their trials reached the target."),
        };
        pictures::picture(
            "prediction",
            "Predicted and measured speed-up",
            format!(
                "One point for each pair of trials with the same seed, {count} in all; speed-up to {}. \
                 {PREDICTION_RULE}{left_out} The theory predicts an advantage to the right of the vertical line; points above \
                 the horizontal line show a measured one. On the diagonal, both agree.",
                pictures::target_words(evidence.goal)
            ),
            Figure { panels: vec![panel], ..Figure::default() },
        )
    })
}

/// The study's Table 6, at the last epoch at which both models of a pair were probed.
fn conditions_table(evidence: &Evidence, pairs: &[Pair]) -> Option<Table> {
    struct Line<'a> {
        pair: &'a Pair,
        epoch: usize,
        row: &'a Row,
    }
    let last = pairs.iter().filter_map(|pair| Some((pair, pair.epochs.last()?)));
    let lines: Vec<Line> =
        last.flat_map(|(pair, at)| at.rows.iter().map(move |row| Line { pair, epoch: at.epoch, row })).collect();
    let caption = "Quantiles over layers, queries and examples of each model, as in Table 6 of the study: dispersion δs of full \
        attention, dispersion δh of the kept scores, separation Δ at the opposite quantile (at least 1e-9), number b \
        of queries that keep a key. A condition holds if its left-hand side is below 1.";
    let holding = |holds: fn(&Row) -> bool| lines.iter().filter(|line| holds(line.row)).count();
    let conclusion = format!(
        "At the last probe, (W) holds in {} and (X) in {} of {} rows: one for each trial and quantile.",
        holding(|row| row.conditions.w_holds),
        holding(|row| row.conditions.x_holds),
        lines.len()
    );
    Table::from_rows("conditions", "Both conditions", caption, &lines)
        .text("mechanism", "mechanism", |line| line.pair.mechanism.clone())
        .seed(|line| line.pair.seed)
        .count("epoch", "epoch", |line| line.epoch)
        .number("quantile", "quantile", |line| line.row.quantile, |x| format!("{x} %"))
        .under("dispersion")
        .number("δs", "full_dispersion", |line| line.row.full_dispersion, decimals(2))
        .number("δh", "dispersion", |line| line.row.dispersion, decimals(2))
        .under("")
        .number("separation Δ", "separation", |line| line.row.separation, |x| significant(x, 3))
        .number("sink b", "sink", |line| line.row.sink, decimals(0))
        .under("left-hand side")
        .number("(W)", "w_lhs", |line| line.row.conditions.w_lhs, decimals(3))
        .number("(X)", "x_lhs", |line| line.row.conditions.x_lhs, decimals(3))
        .at_points(evidence, |line| &line.pair.point)
        .folded(conclusion)
        .filled()
}

fn steepness_table(evidence: &Evidence) -> Option<Table> {
    struct Line<'a> {
        of: Layer<'a>,
        profiles: Vec<Profile>,
    }
    impl Line<'_> {
        fn norm(&self, value: impl Fn(&LayerNorms) -> f64) -> Option<f64> {
            self.of.median(|record| Some(value(record.norms.as_ref()?.layers.get(self.of.layer)?)))
        }

        fn bound(&self, value: impl Fn(&LayerProfile) -> f64) -> Option<f64> {
            median(&self.profiles.iter().map(|profile| value(&profile.layers[self.of.layer])).collect::<Vec<_>>())
        }

        fn bound_of_all(&self) -> Option<f64> {
            median(&self.profiles.iter().map(|profile| profile.all).collect::<Vec<_>>())
        }
    }
    let lines = layers(evidence).into_iter().map(|of| {
        let profiles = of.last.iter().filter_map(|record| Profile::from_record(record)).collect();
        Line { of, profiles }
    });
    let lines: Vec<Line> = lines.collect();
    let caption = "Spectral norms of each layer (scores Γ, of the head with the largest; values Υ; both MLP matrices B₁ and B₂), \
        and decimal logarithms of proven bounds on the norm of the gradient of the loss in queries and keys, in \
        values and output, in the MLP, in the input of the block, and in all parameters of the model. Medians over \
        seeds, at the last probe. These are worst cases: the loss need not be that steep anywhere. Nothing is proved for \
        weights other than the softmax of the model's own scores.";
    let all: Vec<f64> = lines.iter().flat_map(|line| &line.profiles).map(|profile| profile.all).collect();
    let extreme = |of: fn(f64, f64) -> f64| all.iter().copied().reduce(of).unwrap_or(f64::NAN);
    let conclusion = format!(
        "The proven upper bounds on the gradient in all parameters range from 10^{:.1} to 10^{:.1}. These are worst cases.",
        extreme(f64::min),
        extreme(f64::max)
    );
    let conclusion = if all.is_empty() { "No bound is proved for these mechanisms.".to_owned() } else { conclusion };
    let largest = |norms: &LayerNorms| norms.score.iter().copied().fold(0.0, f64::max);
    Table::from_rows("steepness", "How steep the loss can be", caption, &lines)
        .text("mechanism", "mechanism", |line| line.of.mechanism)
        .count("layer", "layer", |line| line.of.layer)
        .under("spectral norm")
        .number("Γ", "score_norm", |line| line.norm(largest), decimals(2))
        .number("Υ", "value_norm", |line| line.norm(|norms| norms.value.weight), decimals(2))
        .number("B₁", "mlp_hidden_norm", |line| line.norm(|norms| norms.mlp_hidden.weight), decimals(2))
        .number("B₂", "mlp_output_norm", |line| line.norm(|norms| norms.mlp_output.weight), decimals(2))
        .under("bound on the gradient, log₁₀")
        .number("λ_W", "log10_lipschitz_w", |line| line.bound(|layer| layer.w), decimals(1))
        .number("λ_V", "log10_lipschitz_v", |line| line.bound(|layer| layer.v), decimals(1))
        .number("λ_MLP", "log10_lipschitz_mlp", |line| line.bound(|layer| layer.mlp), decimals(1))
        .number("λ_X", "log10_lipschitz_x", |line| line.bound(|layer| layer.x), decimals(1))
        .number("all", "log10_lipschitz_all", |line| line.bound_of_all(), decimals(1))
        .at_points(evidence, |line| &line.of.point.point)
        .folded(conclusion)
        .filled()
}
