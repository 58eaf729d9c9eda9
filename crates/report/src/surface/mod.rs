//! The section about the loss surface, from what `landscape` and `sharpness` left in the store.

use maud::{Markup, html};
use semfocus_analysis::evidence::robustness::point_name;
use semfocus_analysis::evidence::{Evidence, PointEvidence};
use semfocus_analysis::stats::quantile;
use semfocus_analysis::steepness::{PERCENTILES, Steepness};
use semfocus_core::study::seed_name;
use semfocus_figure::charts::Curve;
use semfocus_figure::surface::{LipschitzCurve, Surface, contours, heat_maps, lipschitz, sharpness, shown_range};
use semfocus_figure::{Figure, Interpolation, Line, Mark, Series, significant};
use semfocus_store::{SharpnessData, SurfaceData, SurfaceSettings, TrialData};

use crate::palette;
use crate::pictures::{Picture, at_point, over_seeds, picture, spread};
use crate::section::Section;
use crate::table::Table;

mod findings;
mod view;

pub use view::view_html;

/// A trial with surfaces or sharpness.
struct Explored<'a> {
    point: &'a PointEvidence,
    trial: &'a TrialData,
    surfaces: Vec<&'a SurfaceData>,
    sharpness: &'a [SharpnessData],
}

impl Explored<'_> {
    fn mechanism(&self) -> &str {
        &self.trial.entry.mechanism
    }

    /// The mechanism and where it is on the grid.
    fn name(&self) -> String {
        at_point(self.mechanism(), &self.point.point)
    }

    fn seed(&self) -> u64 {
        self.trial.entry.seed
    }
}

/// None if neither command was used.
pub fn section(evidence: &Evidence) -> Option<Section> {
    let explored = explored(evidence);
    if explored.is_empty() {
        return None;
    }
    let parts = [false, true].map(|dropout| SurfaceFindings::new(evidence, &explored, dropout));
    Some(Section {
        id: "surface",
        title: "Loss surface",
        findings: html! { @for part in &parts { (part.findings) } },
        pictures: parts.iter().flat_map(|part| part.pictures.clone()).chain(sharpness_picture(&explored)).collect(),
        after_pictures: html! { @for part in &parts { (part.view) } },
        tables: parts.iter().flat_map(|part| part.table.clone()).chain(sharpness_table(evidence, &explored)).collect(),
    })
}

/// What surfaces and sharpness say about each mechanism compared with full attention: its name, the sentence, and whether
/// its loss is shown to be steeper (1), flatter (-1) or neither (0). Of surfaces with or without dropout of the attention weights.
pub fn comparisons(evidence: &Evidence, attention_dropout: bool) -> Vec<(String, String, i8)> {
    let explored = with_dropout(&explored(evidence), attention_dropout);
    let shown = shown(&explored);
    let steepness = steepness(&explored, shown.first().map(|(_, surface)| *surface));
    findings::sentences(&steepness, &explored)
}

fn explored(evidence: &Evidence) -> Vec<Explored<'_>> {
    let all =
        evidence.points.iter().flat_map(|point| point.trials.iter().map(move |observed| (point, &observed.trial)));
    let measured = all.filter(|(_, trial)| !(trial.surfaces.is_empty() && trial.sharpness.is_empty()));
    let explored = measured.map(|(point, trial)| {
        let (surfaces, sharpness) = (trial.surfaces.iter().collect(), &trial.sharpness[..]);
        Explored { point, trial, surfaces, sharpness }
    });
    explored.collect()
}

/// Only the surfaces with, or those without, dropout of the attention weights. The sharpness belongs to those without.
fn with_dropout<'a>(explored: &[Explored<'a>], attention_dropout: bool) -> Vec<Explored<'a>> {
    let chosen = |one: &Explored<'a>| {
        let is_so = |surface: &&SurfaceData| surface.attention_dropout == attention_dropout;
        let surfaces: Vec<&SurfaceData> = one.surfaces.iter().copied().filter(is_so).collect();
        let sharpness = if attention_dropout { &[] } else { one.sharpness };
        Explored { surfaces, sharpness, ..*one }
    };
    let chosen = explored.iter().map(chosen);
    chosen.filter(|one| !(one.surfaces.is_empty() && one.sharpness.is_empty())).collect()
}

/// What surfaces with, or without, dropout of the attention weights show.
struct SurfaceFindings {
    findings: Markup,
    pictures: Vec<Picture>,
    view: Markup,
    table: Option<Table>,
}

impl SurfaceFindings {
    fn new(evidence: &Evidence, explored: &[Explored], attention_dropout: bool) -> Self {
        let explored = with_dropout(explored, attention_dropout);
        let shown = shown(&explored);
        let steepness = steepness(&explored, shown.first().map(|(_, surface)| *surface));
        let mut pictures = surface_pictures(&shown);
        pictures.extend(lipschitz_picture(&steepness));
        let surfaces: Vec<Surface> = shown.iter().map(|(explored, data)| surface(explored, data)).collect();
        let mut table = lipschitz_table(evidence, &steepness);
        let mut findings = findings::html(&shown, &steepness, &explored);
        if attention_dropout {
            for Picture { name, figure } in &mut pictures {
                name.push_str("-dropout");
                figure.title += ", with dropout of attention weights";
                figure.caption += " Dropout of the attention weights is on, drawn afresh for every cell.";
            }
            if let Some(table) = &mut table {
                table.name = "surface-lipschitz-dropout";
                table.title = "Empirical Lipschitz constants, with dropout of attention weights";
                table.caption += " Dropout of the attention weights is on, drawn afresh for every cell.";
            }
            findings = html! {
                @if !shown.is_empty() { h3 { "With dropout of attention weights" } (findings) }
            };
        }
        SurfaceFindings { findings, pictures, view: view_html(&surfaces), table }
    }
}

/// Panels of surfaces that can still be compared at a glance.
const MAX_SHOWN: usize = 6;

/// What two surfaces must have in common to be compared, apart from the draw.
fn question(surface: &SurfaceData) -> (&str, u64, usize, u64, usize) {
    let SurfaceSettings { directions, seed, grid, samples, .. } = &surface.settings;
    (directions, *seed, grid.side, grid.range.to_bits(), *samples)
}

/// One surface for each mechanism and point of the grid, all about the same question and of one seed: the question and seed with
/// the most of them or, among equals, the first. If they are too many, those of the first point only.
fn shown<'a, 'b>(explored: &'a [Explored<'b>]) -> Vec<(&'a Explored<'b>, &'b SurfaceData)> {
    let mut best = Vec::new();
    for one in explored {
        for surface in &one.surfaces {
            let is_like = |other: &&Explored| other.seed() == one.seed();
            let of = |other: &'a Explored<'b>| {
                // The latest epoch.
                let same = |data: &&&SurfaceData| question(data) == question(surface) && data.draw == surface.draw;
                other.surfaces.iter().rfind(same).map(|data| (other, *data))
            };
            let mut found: Vec<_> = explored.iter().filter(is_like).filter_map(of).collect();
            if found.len() > MAX_SHOWN {
                found.retain(|(other, _)| other.point.point == one.point.point);
            }
            if found.len() > best.len() {
                best = found;
            }
        }
    }
    best
}

fn surface(explored: &Explored, surface: &SurfaceData) -> Surface {
    let grid = surface.grid;
    let rows = surface.losses.chunks_exact(grid.side).map(<[f64]>::to_vec).collect();
    Surface { name: explored.name(), range: grid.range, rows }
}

fn surface_pictures(shown: &[(&Explored, &SurfaceData)]) -> Vec<Picture> {
    let Some((first, data)) = shown.first() else { return Vec::new() };
    let surfaces: Vec<Surface> = shown.iter().map(|(explored, data)| surface(explored, data)).collect();
    let SurfaceSettings { directions, samples, grid, epoch, .. } = &data.settings;
    let plane = match directions.as_str() {
        "tensor" => "two random directions, scaled to the norm of each parameter tensor",
        "filter" => "two random directions, scaled to the norm of each unit's weights",
        "path" => "the two principal directions of each model's training path",
        through => through,
    };
    let about = format!(
        "Training loss over {samples} examples in a plane through the trained weights (seed {}, after epoch {epoch}): \
         {plane}; {} × {} cells, the same directions for all. The cross marks the trained model.",
        seed_name(first.seed()),
        grid.side,
        grid.side
    );
    let (min, max) = shown_range(&surfaces);
    let cut = format!(
        "Colours and levels are logarithmic, from {} to {}; losses outside are clipped.",
        significant(min, 2),
        significant(max, 2)
    );
    let mut lines = contours(&surfaces);
    add_paths(&mut lines, shown);
    vec![
        picture("surface-contours", "Contours of the loss", format!("{about} {cut}"), lines),
        picture("surface-map", "Map of the loss", format!("{about} {cut}"), heat_maps(&surfaces)),
    ]
}

/// Adds the training paths to the panels, if the planes have them.
fn add_paths(figure: &mut Figure, shown: &[(&Explored, &SurfaceData)]) {
    for (panel, (explored, data)) in figure.panels.iter_mut().zip(shown) {
        let points: Vec<(f64, f64)> = data.path.iter().map(|&(_, x, y)| (x, y)).collect();
        if !points.is_empty() {
            let series = Series { name: String::new(), ..palette::series(explored.mechanism()) };
            panel.marks.push(Mark::Line(Line {
                series,
                points,
                interpolation: Interpolation::Linear,
                markers: true,
                pale: false,
            }));
        }
    }
}

/// The steepness of all surfaces of a mechanism that differ only in the draw of directions.
struct MechanismSteepness<'a> {
    point: &'a PointEvidence,
    mechanism: String,
    all: Vec<Steepness>,
    /// The seed of each surface.
    seeds: Vec<u64>,
}

fn steepness<'a>(explored: &[Explored<'a>], like: Option<&SurfaceData>) -> Vec<MechanismSteepness<'a>> {
    let Some(like) = like else { return Vec::new() };
    let mut by_mechanism: Vec<MechanismSteepness> = Vec::new();
    for one in explored {
        let alike = one.surfaces.iter().filter(|data| question(data) == question(like));
        let found: Vec<Steepness> = alike.map(|data| Steepness::new(&data.grid, &data.losses)).collect();
        let same = |of: &&mut MechanismSteepness| of.mechanism == one.mechanism() && of.point.point == one.point.point;
        match by_mechanism.iter_mut().find(same) {
            Some(of) => {
                of.seeds.extend(found.iter().map(|_| one.seed()));
                of.all.extend(found);
            }
            None if found.is_empty() => {}
            None => by_mechanism.push(MechanismSteepness {
                point: one.point,
                mechanism: one.mechanism().to_owned(),
                seeds: vec![one.seed(); found.len()],
                all: found,
            }),
        }
    }
    by_mechanism
}

impl MechanismSteepness<'_> {
    /// A percentile within a radius, for every surface.
    fn values(&self, radius: f64, percentile: usize) -> Vec<f64> {
        let of = |steepness: &Steepness| steepness.within(radius).map_or(f64::NAN, |within| within[percentile]);
        self.all.iter().map(of).collect()
    }

    /// Quartiles over the surfaces of a percentile within a radius.
    fn quartiles(&self, radius: f64, percentile: usize) -> Option<[f64; 3]> {
        let mut values = self.values(radius, percentile);
        values.retain(|value| !value.is_nan());
        let at = |share| quantile(&values, share);
        Some([at(0.25)?, at(0.5)?, at(0.75)?])
    }

    fn radii(&self) -> &[f64] {
        self.all.first().map_or(&[], |steepness| &steepness.radii)
    }
}

fn lipschitz_picture(steepness: &[MechanismSteepness]) -> Option<Picture> {
    let mut curves = Vec::new();
    for of in steepness.iter().filter(|of| of.point.point == steepness[0].point.point) {
        for (number, percentile) in PERCENTILES.into_iter().enumerate() {
            let known = of.radii().iter().copied().filter(|&radius| of.quartiles(radius, number).is_some());
            let x: Vec<f64> = known.collect();
            let at_radii: Vec<Vec<f64>> = x.iter().map(|&radius| of.values(radius, number)).collect();
            let of_surface = |index: usize| at_radii.iter().map(|values| values[index]).collect();
            let surfaces = (0..of.all.len()).map(of_surface).collect();
            curves.push(LipschitzCurve { percentile, curve: over_seeds(palette::series(&of.mechanism), x, surfaces) });
        }
    }
    let surfaces = steepness.iter().map(|of| of.all.len()).max().unwrap_or(0);
    (!curves.is_empty()).then(|| {
        let band = match surfaces {
            1 => String::new(),
            2 => " Each line is one surface.".to_owned(),
            3..5 => format!(" Lines are medians over up to {surfaces} surfaces of a mechanism; pale lines are the single surfaces."),
            _ => format!(
                " Lines are medians over up to {surfaces} surfaces of a mechanism (draws of directions and seeds); bands extend \
                 from the lower to the upper quartile."
            ),
        };
        let at = match &steepness[0].point.point[..] {
            [] => String::new(),
            point => format!(" Only at {}.", point_name(point)),
        };
        picture(
            "surface-lipschitz",
            "Empirical Lipschitz constants",
            format!(
                "Difference of the loss between neighbouring cells, divided by their distance: percentiles inside growing squares \
                 around the trained model.{band}{at}"
            ),
            lipschitz(&curves),
        )
    })
}

/// Sharpness over epochs, for trials that were measured more than once. Only measurements with the most common number of
/// examples and precision are used.
fn sharpness_picture(explored: &[Explored]) -> Option<Picture> {
    let kind = |record: &SharpnessData| (record.samples, record.exact);
    let all = || explored.iter().flat_map(|one| one.sharpness);
    let usual = all().map(kind).max_by_key(|wanted| all().filter(|record| kind(record) == *wanted).count())?;
    let along: Vec<(&Explored, Vec<&SharpnessData>)> = explored
        .iter()
        .map(|one| (one, one.sharpness.iter().filter(|record| kind(record) == usual).collect::<Vec<_>>()))
        .filter(|(_, records)| records.len() > 1)
        .collect();
    let mut names: Vec<String> = Vec::new();
    for (one, _) in &along {
        if !names.contains(&one.name()) {
            names.push(one.name());
        }
    }
    let curve = |name: &String| {
        let of: Vec<_> = along.iter().filter(|(one, _)| one.name() == *name).collect();
        let mut epochs: Vec<usize> = of.iter().flat_map(|(_, records)| records).map(|record| record.epoch).collect();
        epochs.sort_unstable();
        epochs.dedup();
        let of_seed = |(_, records): &&(&Explored, Vec<&SharpnessData>)| {
            let at = |epoch: &usize| {
                let record = records.iter().find(|record| record.epoch == *epoch)?;
                record.eigenvalues.first().copied()
            };
            epochs.iter().map(|epoch| at(epoch).unwrap_or(f64::NAN)).collect()
        };
        let style = palette::style(of[0].0.mechanism());
        let seeds = of.iter().map(of_seed).collect();
        over_seeds(Series { name: name.clone(), style }, epochs.iter().map(|&epoch| epoch as f64).collect(), seeds)
    };
    let curves: Vec<Curve> = names.iter().map(curve).collect();
    let counts = names.iter().map(|name| along.iter().filter(|(one, _)| one.name() == *name).count());
    (!curves.is_empty()).then(|| {
        picture(
            "sharpness",
            "Sharpness during training",
            format!(
                "The largest eigenvalue of the Hessian of the training loss over {} examples, by epoch. {} Values that are \
                 not positive are left out.",
                usual.0,
                spread(counts)
            ),
            sharpness(&curves),
        )
    })
}

fn lipschitz_table(evidence: &Evidence, steepness: &[MechanismSteepness]) -> Option<Table> {
    struct Row<'a> {
        of: &'a MechanismSteepness<'a>,
        radius: f64,
    }
    impl Row<'_> {
        fn median(&self, percentile: usize) -> Option<f64> {
            Some(self.of.quartiles(self.radius, percentile)?[1])
        }
    }
    let mut rows = Vec::new();
    for of in steepness {
        let Some(range) = of.radii().last().copied() else { continue };
        for wanted in [range / 10.0, range / 4.0, range / 2.0, range] {
            let found = of.radii().iter().rfind(|radius| **radius <= wanted * (1.0 + 1e-9));
            rows.extend(found.map(|&radius| Row { of, radius }));
        }
    }
    let caption = "Percentiles of the difference of the loss between neighbouring cells divided by their distance, inside squares \
        around the trained model; medians over surfaces.";
    Table::from_rows("surface-lipschitz", "Empirical Lipschitz constants", caption, &rows)
        .text("mechanism", "mechanism", |row| row.of.mechanism.clone())
        .count("surfaces", "surfaces", |row| row.of.all.len())
        .number("within", "radius", |row| row.radius, |x| format!("±{x:.2}"))
        .under("percentile")
        .number("50th", "p50", |row| row.median(0), digits)
        .number("75th", "p75", |row| row.median(1), digits)
        .number("95th", "p95", |row| row.median(2), digits)
        .number("99th", "p99", |row| row.median(3), digits)
        .at_points(evidence, |row| &row.of.point.point)
        .filled()
}

fn sharpness_table(evidence: &Evidence, explored: &[Explored]) -> Option<Table> {
    struct Row<'a> {
        of: &'a Explored<'a>,
        record: &'a SharpnessData,
    }
    impl Row<'_> {
        fn eigenvalue(&self, index: usize) -> Option<f64> {
            self.record.eigenvalues.get(index).copied()
        }
    }
    let rows: Vec<Row> =
        explored.iter().flat_map(|of| of.sharpness.iter().map(move |record| Row { of, record })).collect();
    let caption = "Largest eigenvalues of the Hessian of the mean training loss (Lanczos) and its trace (Hutchinson, with the \
        standard error). Hessian-vector products are differences of gradients: exact means double precision, on one \
        side of kinks; fast means single precision, good only for orders of magnitude. A lower loss alone makes a \
        surface flatter, so compare λ₁ / loss, too.";
    Table::from_rows("sharpness", "Sharpness", caption, &rows)
        .text("mechanism", "mechanism", |row| row.of.mechanism().to_owned())
        .seed(|row| row.of.seed())
        .count("epoch", "epoch", |row| row.record.epoch)
        .number("loss", "loss", |row| row.record.loss, digits)
        .under("largest eigenvalues")
        .number("λ₁", "eigenvalue_1", |row| row.eigenvalue(0), digits)
        .number("λ₂", "eigenvalue_2", |row| row.eigenvalue(1), digits)
        .number("λ₃", "eigenvalue_3", |row| row.eigenvalue(2), digits)
        .under("trace")
        .number("estimate", "trace", |row| row.record.trace, digits)
        .number("± s.e.", "trace_standard_error", |row| row.record.trace_error, digits)
        .under("")
        .number("λ₁ / loss", "eigenvalue_over_loss", |row| Some(row.eigenvalue(0)? / row.record.loss), digits)
        .text("products", "products", |row| if row.record.exact { "exact" } else { "fast" })
        .at_points(evidence, |row| &row.of.point.point)
        .filled()
}

/// A number of any magnitude with three digits.
fn digits(value: f64) -> String {
    significant(value, 3)
}
