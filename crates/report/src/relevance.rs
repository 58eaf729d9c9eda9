//! How much attention goes to the tokens that answers depend on, as probes found it.

use semfocus_analysis::evidence::robustness::point_name;
use semfocus_analysis::evidence::{Evidence, PointEvidence};
use semfocus_analysis::stats::median;
use semfocus_figure::Axis;
use semfocus_figure::charts::{Curve, Measure};
use semfocus_store::records::{ProbeRecord, Relevance};

use crate::pictures::{self, Picture};
use crate::probed::{Layer, layers, probe_curve};
use crate::table::{Table, percent};

/// Layers that get a panel each.
const SHOWN_LAYERS: usize = 4;

/// The attention on relevant keys during training. None unless something was probed twice whose relevant keys are known.
pub(crate) fn pictures(evidence: &Evidence) -> Vec<Picture> {
    let probes = || evidence.trials().flat_map(|observed| &observed.trial.probes);
    let layers = probes().map(|probe| probe.layers.len()).max().unwrap_or(0);
    let found = probes().flat_map(|probe| &probe.layers).filter_map(|layer| layer.relevance);
    let Some(random) = median(&found.map(|relevance| relevance.random_precision).collect::<Vec<_>>()) else {
        return Vec::new();
    };
    let curves = |point: &PointEvidence, value: &dyn Fn(&ProbeRecord) -> Option<f64>| -> Vec<Curve> {
        let of = point.mechanisms.iter().filter_map(|one| probe_curve(point, &one.mechanism, value));
        of.filter(|curve| curve.x.len() > 1).collect()
    };
    let name = "relevance-curves";
    let title = "Attention on relevant keys during training";
    let points = evidence.points.iter();
    let counts: Vec<usize> = points
        .flat_map(|point| point.mechanisms.iter().map(|one| pictures::comparable(point, &one.mechanism).len()))
        .collect();
    let spread = pictures::spread(counts.into_iter());
    let what = "Share of the attention weight that falls on keys that the answer depends on. At random: the weight that as many keys \
        drawn at random would get.";
    if let [point] = &evidence.points[..] {
        let all: Vec<(String, Vec<Curve>)> = if layers <= SHOWN_LAYERS {
            (0..layers).map(|layer| (format!("layer {layer}"), curves(point, &|probe| mass(probe, layer)))).collect()
        } else {
            vec![("layer with most".to_owned(), curves(point, &most))]
        };
        if all.iter().all(|(_, curves)| curves.is_empty()) {
            return Vec::new();
        }
        let measures = all.iter().map(|(label, curves)| Measure {
            axis: Axis::fraction(label),
            levels: vec![(random, "at random".to_owned())],
            height: 70.0,
            curves,
        });
        let measures: Vec<Measure<'_>> = measures.collect();
        return pictures::curve_pictures(name, title, &format!("{what} {spread}"), "epoch", &measures);
    }
    let of_points: Vec<Vec<Curve>> = evidence.points.iter().map(|point| curves(point, &most)).collect();
    if of_points.iter().all(Vec::is_empty) {
        return Vec::new();
    }
    let caption =
        format!("{what} In the layer in which it is largest, by epoch, one panel for each point of the grid. {spread}");
    let panels = evidence.points.iter().zip(&of_points).map(|(point, curves)| (point_name(&point.point), &curves[..]));
    vec![pictures::panels_of_curves(name, title, caption, "epoch", &Axis::fraction("on relevant keys"), panels)]
}

/// The attention weight of relevant keys in a layer.
fn mass(probe: &ProbeRecord, layer: usize) -> Option<f64> {
    Some(probe.layers.get(layer)?.relevance?.mass)
}

/// The same in the layer in which it is largest.
fn most(probe: &ProbeRecord) -> Option<f64> {
    (0..probe.layers.len()).filter_map(|layer| mass(probe, layer)).reduce(f64::max)
}

/// Whether the kept keys are the relevant ones, at the last probe.
pub(crate) fn table(evidence: &Evidence) -> Option<Table> {
    struct Line<'a> {
        of: Layer<'a>,
        relevance: Vec<Relevance>,
    }
    impl Line<'_> {
        fn median(&self, value: fn(&Relevance) -> f64) -> Option<f64> {
            median(&self.relevance.iter().map(value).collect::<Vec<_>>())
        }
    }
    let lines = layers(evidence).into_iter().filter_map(|of| {
        let found = of.last.iter().filter_map(|record| record.layers.get(of.layer)?.relevance);
        let relevance: Vec<Relevance> = found.collect();
        (!relevance.is_empty()).then_some(Line { of, relevance })
    });
    let lines: Vec<Line> = lines.collect();
    let caption = "A token is relevant if the label, or the answer to the question at the query, depends on it. Precision: share of the kept keys that are \
        relevant. Recall: share of the relevant keys that are kept. At random: the same for an equal number of keys \
        chosen at random. Mass: attention weight on relevant keys; equal weights on randomly chosen keys would give the first \
        of the two numbers at random. Overlap: keys kept at this probe and at the one before, as a share of those \
        kept at either. Medians over seeds of means over queries, at the last probe.";
    let is_better =
        |line: &&Line| line.median(|relevance| relevance.mass) > line.median(|relevance| relevance.random_precision);
    let conclusion = format!(
        "In {} of {} layers, relevant keys get more attention than randomly chosen keys would.",
        lines.iter().filter(is_better).count(),
        lines.len()
    );
    Table::from_rows("relevance", "Does it look where the answer is decided?", caption, &lines)
        .text("mechanism", "mechanism", |line| line.of.mechanism)
        .count("layer", "layer", |line| line.of.layer)
        .under("precision")
        .number("measured", "precision", |line| line.median(|relevance| relevance.precision), percent)
        .number("at random", "random_precision", |line| line.median(|relevance| relevance.random_precision), percent)
        .under("recall")
        .number("measured", "recall", |line| line.median(|relevance| relevance.recall), percent)
        .number("at random", "random_recall", |line| line.median(|relevance| relevance.random_recall), percent)
        .under("")
        .number("mass", "mass", |line| line.median(|relevance| relevance.mass), percent)
        .number(
            "overlap",
            "overlap",
            |line| line.of.median(|record| record.layers.get(line.of.layer)?.overlap),
            percent,
        )
        .at_points(evidence, |line| &line.of.point.point)
        .folded(conclusion)
        .filled()
}
