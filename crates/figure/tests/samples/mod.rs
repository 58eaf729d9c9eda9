//! One figure of each kind, from invented numbers that look like those of a study.

use semfocus_figure::charts::{
    Curve, ForestRow, Measure, Pairs, Survival, curve_panel, curves, curves_against, intervals, slopes,
    small_multiples, survival,
};
use semfocus_figure::surface::{LipschitzCurve, Surface, contours, heat_maps, lipschitz, sharpness};
use semfocus_figure::{
    Axis, Dash, End, Figure, Filling, Mark, Marker, Paint, Panel, Points, Reference, Rgb, Rule, Series, Style,
};

const LOOKS: [(&str, f64, Marker); 5] = [
    ("topk", 255.0, Marker::Up),
    ("banded", 55.0, Marker::Square),
    ("block", 172.0, Marker::Diamond),
    ("bottomk", 302.0, Marker::Down),
    ("randomk", 352.0, Marker::Cross),
];

/// A series with a style that follows from its name, `family:size+globals`.
pub(crate) fn series(name: &str) -> Series {
    let family = family(name);
    let size: usize = name.split([':', '+']).nth(1).and_then(|size| size.parse().ok()).unwrap_or(5);
    let globals = name.contains('+');
    let style = match LOOKS.iter().find(|look| look.0 == family) {
        Some(&(_, hue, marker)) => Style {
            paint: Paint::Colour(Rgb::from_oklch(0.58, 0.15, hue)),
            dash: Dash { length: if size == 5 { 0.0 } else { 1.3 * (size % 7) as f64 }, dots: usize::from(globals) },
            marker,
            filling: if globals { Filling::Hollow } else { Filling::Full },
        },
        None => Style { paint: Paint::Ink, dash: Dash::SOLID, marker: Marker::Circle, filling: Filling::Full },
    };
    Series { name: name.to_owned(), style }
}

fn family(name: &str) -> &str {
    name.split([':', '+']).next().unwrap_or(name)
}

fn measures<'a>(loss: &'a [Curve], accuracy: &'a [Curve]) -> [Measure<'a>; 2] {
    let losses = loss.iter().flat_map(|curve| &curve.quartiles).flatten().copied();
    [
        Measure { axis: Axis::auto("training loss", losses), levels: Vec::new(), height: 95.0, curves: loss },
        Measure {
            axis: Axis::fraction("held-out accuracy"),
            levels: vec![(0.95, "target 95 %".to_owned())],
            height: 80.0,
            curves: accuracy,
        },
    ]
}

/// Loss above, accuracy below.
pub(crate) fn compact_curves(loss: &[Curve], accuracy: &[Curve]) -> Figure {
    curves("epoch", &measures(loss, accuracy))
}

/// Pseudo-random numbers between 0 and 1 that are the same everywhere.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Roughly normal, of mean 0 and deviation 1.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.next()).sum::<f64>() - 6.0
    }
}

const MECHANISMS: [(&str, f64); 8] = [
    ("full", 520.0),
    ("topk:5", 95.0),
    ("topk:9", 160.0),
    ("banded:5", 390.0),
    ("banded:5+g1", 270.0),
    ("block:9+g3", 330.0),
    ("bottomk:5", 1400.0),
    ("randomk:5", 700.0),
];

const EPOCHS: usize = 1000;

/// Loss and accuracy of a mechanism whose seeds need `needed` epochs in the median.
fn learning(mechanism: &str, needed: f64, floor: f64) -> (Curve, Curve) {
    let mut noise = Noise(mechanism.bytes().map(u64::from).sum::<u64>() * 7919);
    let seeds: Vec<f64> = (0..12).map(|_| needed * (0.35 * noise.normal()).exp()).collect();
    let (mut loss, mut accuracy) = (Vec::new(), Vec::new());
    for epoch in 1..=EPOCHS {
        let learned = |reached: &f64| 1.0 / (1.0 + (-(epoch as f64 - reached) / (0.12 * reached)).exp());
        let mut losses: Vec<f64> = seeds
            .iter()
            .map(|reached| (0.69 * (1.0 - learned(reached)) + floor) * (0.12 * noise.normal()).exp())
            .collect();
        let mut accuracies: Vec<f64> =
            seeds.iter().map(|reached| (0.5 + 0.49 * learned(reached) + 0.006 * noise.normal()).min(1.0)).collect();
        losses.sort_by(f64::total_cmp);
        accuracies.sort_by(f64::total_cmp);
        loss.push([losses[3], (losses[5] + losses[6]) / 2.0, losses[8]]);
        accuracy.push([accuracies[3], (accuracies[5] + accuracies[6]) / 2.0, accuracies[8]]);
    }
    let epochs: Vec<f64> = (1..=EPOCHS).map(|epoch| epoch as f64).collect();
    let curve = |quartiles| Curve {
        series: series(mechanism),
        x: epochs.clone(),
        quartiles,
        lines: Vec::new(),
        ends: Vec::new(),
    };
    (curve(loss), curve(accuracy))
}

fn described(title: &str, caption: &str, figure: Figure) -> Figure {
    Figure { title: title.to_owned(), caption: caption.to_owned(), ..figure }
}

pub(crate) fn compact() -> Figure {
    let (loss, accuracy): (Vec<_>, Vec<_>) =
        MECHANISMS.map(|(name, needed)| learning(name, needed, 0.002)).into_iter().unzip();
    let caption = "Training loss and held-out accuracy, median of 12 seeds; the bands reach from 25 % to 75 %.";
    described("Learning curves", caption, compact_curves(&loss, &accuracy))
}

pub(crate) fn extended() -> Figure {
    let controls = [
        "full",
        "topk:5",
        "oracle:5",
        "antioracle:5",
        "bottomk:5",
        "fixedk:5",
        "banded:5",
        "block:5",
        "randomk:5",
        "shuffledk:5",
        "hashk:5",
        "frozenk:5",
        "stk:5",
        "gradk:5",
        "maskedk:5",
        "temperature:entropy=5",
        "ssmax",
        "matchedgrad:5",
        "sparsemax",
        "entmax",
        "topp:0.9",
    ];
    let curves = controls.iter().enumerate().map(|(index, name)| learning(name, 95.0 + 40.0 * index as f64, 0.02).1);
    let accuracy: Vec<Curve> = curves.collect();
    described(
        "Held-out accuracy, one panel for each mechanism",
        "Median of 12 seeds with the 25–75 % band; full attention in grey.",
        curves_against("epoch", &measures(&[], &accuracy)[1], "full"),
    )
}

pub(crate) fn kaplan_meier() -> Figure {
    let curve = |(mechanism, needed): (&str, f64)| {
        let mut noise = Noise(needed as u64);
        let mut times: Vec<f64> = (0..20).map(|_| (needed * (0.5 * noise.normal()).exp()).round()).collect();
        times.sort_by(f64::total_cmp);
        let (mut share, mut variance) = (1.0, 0.0);
        let (mut steps, mut interval) = (vec![(0.0, 1.0)], vec![(0.0, 1.0, 1.0)]);
        for (index, &time) in times.iter().enumerate().filter(|(_, time)| **time <= 1000.0) {
            let at_risk = (20 - index) as f64;
            share *= 1.0 - 1.0 / at_risk;
            variance += 1.0 / (at_risk * (at_risk - 1.0).max(0.5));
            let error = 1.96 * share * f64::sqrt(variance);
            steps.push((time, share));
            interval.push((time, (share - error).max(0.0), (share + error).min(1.0)));
        }
        let last = interval[interval.len() - 1];
        steps.push((1000.0, share));
        interval.push((1000.0, last.1, last.2));
        let mut censored: Vec<f64> = times.iter().filter(|time| **time > 1000.0).map(|_| 1000.0).collect();
        if mechanism == "banded:5" {
            censored.extend([310.0, 620.0]);
        }
        Survival { series: series(mechanism), steps, interval, censored }
    };
    let curves = [("full", 520.0), ("topk:5", 130.0), ("banded:5", 390.0), ("randomk:5", 800.0)].map(curve);
    let caption = "Kaplan–Meier estimates, 20 seeds each, with 95 % bands; strokes mark trials that ended before they reached the target.";
    described("Trials below 95 % training accuracy", caption, survival("epoch", "trials below 95 % accuracy", &curves))
}

pub(crate) fn speed_ups() -> Figure {
    let estimate = |mechanism: &str, value: f64, interval: Option<(End, End)>, bound: bool, note: &str| ForestRow {
        series: series(mechanism),
        value,
        interval,
        bound,
        note: note.to_owned(),
    };
    let between = |low, high| Some((End::At(low), End::At(high)));
    let estimates = [
        estimate("topk:5", 5.7, between(3.9, 8.4), false, "5.7× [3.9, 8.4]"),
        estimate("topk:9", 3.2, between(2.2, 4.6), false, "3.2× [2.2, 4.6]"),
        estimate("topk:17", 5.7, Some((End::At(4.1), End::Open)), true, ">5.7× [4.1, ∞)"),
        estimate("banded:5", 1.3, between(0.9, 1.8), false, "1.3× [0.9, 1.8]"),
        estimate("banded:5+g1", 1.9, between(1.4, 2.7), false, "1.9× [1.4, 2.7]"),
        estimate("block:9+g3", 1.6, None, false, "1.6× (2 seeds)"),
        estimate("bottomk:5", 0.37, Some((End::Open, End::At(0.6))), true, "<0.37× (0, 0.6]"),
        estimate("randomk:5", 0.74, between(0.5, 1.1), false, "0.74× [0.50, 1.1]"),
    ];
    let axis = Axis::times("speed-up over full attention in epochs");
    described("Speed-up", "Ratio of epochs to 95 % with 95 % intervals, 12 seeds.", intervals(axis, 1.0, &estimates))
}

pub(crate) fn seeds() -> Figure {
    let pairs = |(mechanism, factor): (&str, f64)| {
        let mut noise = Noise(factor.to_bits());
        let reached = |epoch: f64| if epoch > 1000.0 { f64::INFINITY } else { epoch.round() };
        let pairs = (0..12).map(|seed| {
            let full = 480.0 * (0.5 * Noise(seed * 77 + 5).normal()).exp();
            (reached(full), reached(full / factor * (0.3 * noise.normal()).exp()))
        });
        Pairs { series: series(mechanism), pairs: pairs.collect() }
    };
    let pairs = [("topk:5", 5.7), ("banded:5", 1.3), ("randomk:5", 0.74)].map(pairs);
    let caption = "Epochs to 95 % of every seed under full attention and under a mechanism.";
    described("Seed by seed", caption, slopes("epochs to 95 % accuracy", &series("full"), &pairs))
}

pub(crate) fn grid() -> Figure {
    let activations = ["relu", "gelu", "silu", "tanh", "leaky-relu", "identity"];
    let panels = activations.iter().enumerate().map(|(index, activation)| {
        let stretch = 1.0 + 0.25 * index as f64;
        let curves: Vec<Curve> = [("full", 420.0), ("topk:5", 95.0), ("banded:5", 300.0)]
            .iter()
            .map(|(name, needed)| learning(name, needed * stretch, 0.02).1)
            .collect();
        let x = Axis::linear("epoch").whole().with_limits(0.0, 1000.0);
        curve_panel(activation, x, Axis::fraction("held-out accuracy"), 70.0, &curves)
    });
    described("By activation", "Median of 12 seeds with the 25–75 % band.", small_multiples(3, panels.collect()))
}

pub(crate) fn scatter() -> Figure {
    let mut noise = Noise(11);
    let mut cloud = |mechanism: &str, factor: f64| {
        let points = (0..25).map(|_| {
            let full = 300.0 * (0.7 * noise.normal()).exp();
            (full, full / factor * (0.25 * noise.normal()).exp())
        });
        Mark::Points(Points { series: series(mechanism), points: points.collect(), marker: None, labels: Vec::new() })
    };
    let diagonal = Mark::Rule(Rule { at: Reference::Diagonal, label: "as fast".to_owned() });
    let marks = vec![diagonal, cloud("topk:5", 5.0), cloud("banded:5+g1", 1.7), cloud("block:9+g3", 1.3)];
    let panel = Panel {
        title: String::new(),
        x: Axis::log("epochs under full attention"),
        y: Axis::log("epochs under the mechanism"),
        height: 150.0,
        marks,
    };
    described("Epochs against epochs", "One point for each seed.", Figure { panels: vec![panel], ..Figure::default() })
}

/// A valley with ridges around a trained model, on `side` × `side` points.
pub(crate) fn valley(mechanism: &str, steepness: f64, side: usize) -> Surface {
    let place = |index: usize| 2.0 * index as f64 / (side - 1) as f64 - 1.0;
    let loss = |x: f64, y: f64| {
        let (along, across) = (0.8 * x + 0.6 * y, 0.8 * y - 0.6 * x);
        let bowl = steepness * (along * along + 3.0 * across * across + 0.3 * along.powi(3));
        let ridges = 0.35 * (5.0 * across).sin().powi(2) * (4.0 * along).cos().powi(2);
        0.001 + bowl * (1.0 + ridges * steepness.sqrt()) + 0.4 * steepness * (x - 0.7).max(0.0) * (y + 1.0)
    };
    let row = |j: usize| (0..side).map(|i| loss(place(i), place(j))).collect();
    Surface { name: mechanism.to_owned(), range: 1.0, rows: (0..side).map(row).collect() }
}

/// The same, exploded in one corner and without values in another.
pub(crate) fn diverged(mechanism: &str, side: usize) -> Surface {
    let mut surface = valley(mechanism, 4.0, side);
    for (j, row) in surface.rows.iter_mut().enumerate() {
        for (i, value) in row.iter_mut().enumerate() {
            let (x, y) = (i as f64 / side as f64, j as f64 / side as f64);
            let edge = 1.5 + 0.06 * (20.0 * (x - y)).sin();
            *value = match x + y {
                sum if sum > edge + 0.2 => f64::INFINITY,
                sum if sum > edge => 1e30,
                sum if sum < 0.3 => f64::NAN,
                _ => *value,
            };
        }
    }
    surface
}

pub(crate) fn contour_lines() -> Figure {
    let surfaces = [valley("full", 1.0, 41), valley("topk:5", 6.0, 41)];
    described("Loss surfaces", "Lines of equal loss; the cross is the trained model.", contours(&surfaces))
}

/// A wide valley, a narrow one, and one with holes.
pub(crate) fn surfaces() -> Vec<Surface> {
    vec![valley("full", 1.0, 41), valley("topk:5", 6.0, 41), diverged("bottomk:5", 41)]
}

pub(crate) fn diverged_contours() -> Figure {
    described("Diverged loss surfaces", "Lines of equal loss of three mechanisms.", contours(&surfaces()))
}

pub(crate) fn surface_heat() -> Figure {
    described("Loss surfaces as colours", "The cross is the trained model; grey is not finite.", heat_maps(&surfaces()))
}

pub(crate) fn roughness() -> Figure {
    let mut curves = Vec::new();
    for (mechanism, scale) in [("full", 3.0), ("topk:5", 1.0), ("banded:5", 1.8)] {
        for percentile in [50.0, 75.0, 95.0, 99.0] {
            let radii: Vec<f64> = (1..=10).map(|step| 0.1 * f64::from(step)).collect();
            let middle = |radius: &f64| scale * (percentile / 50.0f64).powi(4) * (2.0 * radius).exp();
            let quartiles = radii.iter().map(|radius| [0.7, 1.0, 1.5].map(|factor| factor * middle(radius))).collect();
            curves.push(LipschitzCurve {
                percentile,
                curve: Curve { series: series(mechanism), x: radii, quartiles, lines: Vec::new(), ends: Vec::new() },
            });
        }
    }
    described("Roughness", "Empirical Lipschitz constants, 20 draws.", lipschitz(&curves))
}

pub(crate) fn sharpening() -> Figure {
    let curve = |(mechanism, top): (&str, f64)| {
        let epochs: Vec<f64> = (0..=50).map(|step| 20.0 * f64::from(step)).collect();
        let middle = |epoch: &f64| top * (0.02 + epoch / (epoch + 200.0));
        let quartiles = epochs.iter().map(|epoch| [0.8, 1.0, 1.3].map(|factor| factor * middle(epoch))).collect();
        Curve { series: series(mechanism), x: epochs, quartiles, lines: Vec::new(), ends: Vec::new() }
    };
    let curves = [("full", 180.0), ("topk:5", 25.0), ("banded:5", 70.0)].map(curve);
    described("Sharpness", "Median of 12 seeds with the 25–75 % band.", sharpness(&curves))
}

/// Three seeds of two mechanisms: too few for bands.
pub(crate) fn few_seeds() -> Figure {
    let curve = |(mechanism, start): (&str, f64)| {
        let seed = |slower: f64| (1..=6).map(|epoch| 1.0 - start * (-f64::from(epoch) / slower).exp()).collect();
        let lines: Vec<Vec<f64>> = [1.0, 1.5, 2.5].map(seed).to_vec();
        let quartiles = (0..6).map(|at| [lines[2][at], lines[1][at], lines[0][at]]).collect();
        let ends = vec![(6.0, lines[0][5])];
        Curve { series: series(mechanism), x: (1..=6).map(f64::from).collect(), quartiles, lines, ends }
    };
    let curves_of = [("full", 0.9), ("topk:5", 0.6)].map(curve);
    let axis = Axis::fraction("training accuracy");
    let levels = vec![(0.95, "target 95 %".to_owned())];
    described(
        "Three seeds",
        "One pale line for each.",
        curves("epoch", &[Measure { axis, levels, height: 90.0, curves: &curves_of }]),
    )
}

/// Points with names, some of them close together.
pub(crate) fn labelled() -> Figure {
    let points = vec![(1.0, 1.0), (1.0, 1.03), (2.0, 3.0), (3.9, 2.0)];
    let labels = ["relu, seed 1", "relu, seed 2", "gelu, seed 1", "gelu, seed 2"].map(str::to_owned).to_vec();
    let marks = vec![Mark::Points(Points { series: series("topk:5"), points, marker: None, labels })];
    let (x, y) = (Axis::times("predicted"), Axis::times("measured"));
    let panel = Panel { title: String::new(), x, y, height: 120.0, marks };
    described("Predictions", "One point for each pair.", Figure { panels: vec![panel], ..Figure::default() })
}

pub(crate) fn all() -> Vec<(&'static str, Figure)> {
    vec![
        ("compact", compact()),
        ("extended", extended()),
        ("survival", kaplan_meier()),
        ("speed-ups", speed_ups()),
        ("seeds", seeds()),
        ("grid", grid()),
        ("scatter", scatter()),
        ("contours", contour_lines()),
        ("diverged-contours", diverged_contours()),
        ("surface-heat", surface_heat()),
        ("lipschitz", roughness()),
        ("sharpness", sharpening()),
        ("few-seeds", few_seeds()),
        ("labelled", labelled()),
    ]
}
