//! The section about the loss surface: what `landscape` and `sharpness` left in the store.

use std::fmt::Write;

use semfocus_analysis::evidence::{BASELINE, Evidence, Observed, PointEvidence};
use semfocus_analysis::stats::{median, quantile};
use semfocus_analysis::surface::record::{self, SharpnessRecord, StoredSurface, SurfaceSettings};
use semfocus_analysis::surface::steepness::{PERCENTILES, Steepness};
use semfocus_lab::store::StoreError;

use super::{LipschitzCurve, Surface, contours, heat_maps, lipschitz, sharpness, shown_range, view_html};
use crate::figure::charts::Curve;
use crate::figure::{Course, Figure, Line, Mark, Series};
use crate::page::escaped;
use crate::pictures::{Picture, picture};
use crate::section::Section;
use crate::tables::{Cell, Table, point_cells, with_point};

/// A trial's surfaces and sharpness.
struct Explored<'a> {
    point: &'a PointEvidence,
    trial: &'a Observed,
    surfaces: Vec<StoredSurface>,
    sharpness: Vec<SharpnessRecord>,
}

impl Explored<'_> {
    fn mechanism(&self) -> &str {
        &self.trial.trial.entry.mechanism
    }

    fn seed(&self) -> u64 {
        self.trial.trial.entry.seed
    }
}

/// The section; none where neither command was used.
pub fn section(evidence: &Evidence) -> Result<Option<Section>, StoreError> {
    let mut explored = Vec::new();
    for point in &evidence.points {
        for trial in &point.trials {
            let folder = &trial.trial.folder;
            let (surfaces, sharpness) = (record::surfaces(folder)?, record::sharpness(folder)?);
            if !(surfaces.is_empty() && sharpness.is_empty()) {
                explored.push(Explored { point, trial, surfaces, sharpness });
            }
        }
    }
    if explored.is_empty() {
        return Ok(None);
    }
    let shown = shown(&explored);
    let steepness = steepness(&explored, shown.first().map(|(_, stored)| &stored.settings));
    let mut pictures = surface_pictures(&shown);
    pictures.extend(lipschitz_picture(&steepness));
    pictures.extend(sharpness_picture(&explored));
    let surfaces: Vec<Surface> = shown.iter().map(|(explored, stored)| surface(explored, stored)).collect();
    let view = view_html(&surfaces);
    let tables = [lipschitz_table(evidence, &steepness), sharpness_table(evidence, &explored)];
    Ok(Some(Section {
        id: "surface",
        title: "Loss surface",
        words: words(&shown, &steepness, &explored),
        pictures,
        after_pictures: view,
        tables: tables.into_iter().flatten().collect(),
    }))
}

/// What two surfaces must share to stand side by side.
fn question(settings: &SurfaceSettings) -> (String, u64, usize, usize, u64, usize) {
    let SurfaceSettings { directions, seed, draw, grid, samples, .. } = settings;
    (directions.clone(), *seed, *draw, grid.side, grid.range.to_bits(), *samples)
}

/// One surface for each mechanism, all about the same question and of one seed: the question and seed with most mechanisms, of
/// several the first.
fn shown<'a, 'b>(explored: &'a [Explored<'b>]) -> Vec<(&'a Explored<'b>, &'a StoredSurface)> {
    let mut best = Vec::new();
    for one in explored {
        for surface in &one.surfaces {
            let is_like = |other: &&Explored| other.seed() == one.seed() && other.point.point == one.point.point;
            let of = |other: &'a Explored<'b>| {
                // The latest epoch that was asked about.
                let same = |stored: &&StoredSurface| question(&stored.settings) == question(&surface.settings);
                other.surfaces.iter().rfind(same).map(|stored| (other, stored))
            };
            let found: Vec<_> = explored.iter().filter(is_like).filter_map(of).collect();
            if found.len() > best.len() {
                best = found;
            }
        }
    }
    best
}

fn surface(explored: &Explored, stored: &StoredSurface) -> Surface {
    let grid = stored.settings.grid;
    let losses: Vec<f64> = stored.values.iter().map(|value| value.loss).collect();
    let rows = losses.chunks_exact(grid.side).map(<[f64]>::to_vec).collect();
    Surface { mechanism: explored.mechanism().to_owned(), range: grid.range, rows }
}

fn surface_pictures(shown: &[(&Explored, &StoredSurface)]) -> Vec<Picture> {
    let Some((first, stored)) = shown.first() else { return Vec::new() };
    let surfaces: Vec<Surface> = shown.iter().map(|(explored, stored)| surface(explored, stored)).collect();
    let SurfaceSettings { directions, samples, grid, epoch, .. } = &stored.settings;
    let plane = match directions.as_str() {
        "tensor" => "two random directions, each parameter's part as long as that parameter",
        "filter" => "two random directions, each unit's part as long as that unit's weights",
        "path" => "the two principal directions of each model's training path",
        through => through,
    };
    let about = format!(
        "Training loss over {samples} examples in a plane through the trained weights (seed {}, after epoch {epoch}): {plane}; {} × {} \
         cells, the same directions for all. The cross is the trained model.",
        first.seed(),
        grid.side,
        grid.side
    );
    let (least, greatest) = shown_range(&surfaces);
    let cut =
        format!("Colours and levels are logarithmic, from {least:.1e} to {greatest:.1e}; what lies beyond is cut.");
    let mut lines = contours(&surfaces);
    add_paths(&mut lines, shown);
    vec![
        picture("surface-contours", "Contours of the loss", format!("{about} {cut}"), lines),
        picture("surface-map", "Map of the loss", format!("{about} {cut}"), heat_maps(&surfaces)),
    ]
}

/// Draws the training paths into the panels, where the planes have them.
fn add_paths(figure: &mut Figure, shown: &[(&Explored, &StoredSurface)]) {
    for (panel, (explored, stored)) in figure.panels.iter_mut().zip(shown) {
        let points: Vec<(f64, f64)> = stored.settings.path.iter().map(|&(_, x, y)| (x, y)).collect();
        if !points.is_empty() {
            let series = Series { name: String::new(), ..Series::mechanism(explored.mechanism()) };
            panel.marks.push(Mark::Line(Line { series, points, course: Course::Straight, markers: true }));
        }
    }
}

/// The steepness of all surfaces about one question but for the draw, by mechanism.
struct MechanismSteepness<'a> {
    point: &'a PointEvidence,
    mechanism: String,
    all: Vec<Steepness>,
}

fn steepness<'a>(explored: &[Explored<'a>], like: Option<&SurfaceSettings>) -> Vec<MechanismSteepness<'a>> {
    let Some(like) = like else { return Vec::new() };
    let mut by_mechanism: Vec<MechanismSteepness> = Vec::new();
    for one in explored {
        let is_like = |stored: &&StoredSurface| {
            let settings = SurfaceSettings { draw: like.draw, ..stored.settings.clone() };
            question(&settings) == question(like)
        };
        let found = one.surfaces.iter().filter(is_like).map(|stored| {
            let losses: Vec<f64> = stored.values.iter().map(|value| value.loss).collect();
            Steepness::of(&stored.settings.grid, &losses)
        });
        let found: Vec<Steepness> = found.collect();
        let same = |of: &&mut MechanismSteepness| of.mechanism == one.mechanism() && of.point.point == one.point.point;
        match by_mechanism.iter_mut().find(same) {
            Some(of) => of.all.extend(found),
            None if found.is_empty() => {}
            None => by_mechanism.push(MechanismSteepness {
                point: one.point,
                mechanism: one.mechanism().to_owned(),
                all: found,
            }),
        }
    }
    by_mechanism
}

impl MechanismSteepness<'_> {
    /// Quartiles of a percentile over the surfaces, within a radius.
    fn quartiles(&self, radius: f64, percentile: usize) -> Option<[f64; 3]> {
        let values: Vec<f64> = self.all.iter().filter_map(|s| Some(s.within(radius)?[percentile])).collect();
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
            let (radii, quartiles): (Vec<f64>, Vec<[f64; 3]>) =
                of.radii().iter().filter_map(|&radius| Some((radius, of.quartiles(radius, number)?))).unzip();
            curves.push(LipschitzCurve { mechanism: of.mechanism.clone(), percentile, radii, quartiles });
        }
    }
    let surfaces = steepness.iter().map(|of| of.all.len()).max().unwrap_or(0);
    (!curves.is_empty()).then(|| {
        let band = match surfaces {
            1 => String::new(),
            count => format!(
                " Lines are medians over up to {count} surfaces of a mechanism (draws of directions and seeds), bands reach from the lower to \
                 the upper quartile."
            ),
        };
        picture(
            "surface-lipschitz",
            "Empirical Lipschitz constants",
            format!(
                "Differences of the loss between neighbouring cells over their distance, percentiles inside growing squares around the trained \
                 model.{band}"
            ),
            lipschitz(&curves),
        )
    })
}

/// Sharpness over epochs: of trials that were looked at more than once, over the same number of examples and in the same way,
/// those of which there are most.
fn sharpness_picture(explored: &[Explored]) -> Option<Picture> {
    let way = |record: &SharpnessRecord| (record.samples, record.exact);
    let all = || explored.iter().flat_map(|one| &one.sharpness);
    let usual = all().map(way).max_by_key(|wanted| all().filter(|record| way(record) == *wanted).count())?;
    let along: Vec<(&str, Vec<&SharpnessRecord>)> = explored
        .iter()
        .map(|one| (one.mechanism(), one.sharpness.iter().filter(|record| way(record) == usual).collect::<Vec<_>>()))
        .filter(|(_, records)| records.len() > 1)
        .collect();
    let mut mechanisms: Vec<&str> = Vec::new();
    for (mechanism, _) in &along {
        if !mechanisms.contains(mechanism) {
            mechanisms.push(mechanism);
        }
    }
    let curve = |mechanism: &str| {
        let of = || along.iter().filter(|(name, _)| *name == mechanism).map(|(_, records)| records);
        let mut epochs: Vec<usize> = of().flatten().map(|record| record.epoch).collect();
        epochs.sort_unstable();
        epochs.dedup();
        let at = |epoch: usize| {
            let records = of().flatten().filter(|record| record.epoch == epoch);
            let largest: Vec<f64> =
                records.filter_map(|record| record.sharpness.eigenvalues.first().copied()).collect();
            [0.25, 0.5, 0.75].map(|share| quantile(&largest, share).unwrap_or(f64::NAN))
        };
        let quartiles = epochs.iter().map(|&epoch| at(epoch)).collect();
        Curve { mechanism: mechanism.to_owned(), epochs: epochs.iter().map(|&epoch| epoch as f64).collect(), quartiles }
    };
    let curves: Vec<Curve> = mechanisms.into_iter().map(curve).collect();
    (!curves.is_empty()).then(|| {
        picture(
            "sharpness",
            "Sharpness along training",
            format!(
                "The largest eigenvalue of the Hessian of the training loss over {} examples, epoch by epoch. Lines are medians over seeds, \
                 bands reach from the lower to the upper quartile; values that are not positive are left out.",
                usual.0
            ),
            sharpness(&curves),
        )
    })
}

fn lipschitz_table(evidence: &Evidence, steepness: &[MechanismSteepness]) -> Option<Table> {
    let mut rows = Vec::new();
    for of in steepness {
        let Some(range) = of.radii().last().copied() else { continue };
        for radius in [range / 10.0, range / 4.0, range / 2.0, range] {
            let Some(radius) = of.radii().iter().rfind(|found| **found <= radius * (1.0 + 1e-9)).copied() else {
                continue;
            };
            let mut cells = point_cells(&of.point.point);
            cells.extend([Cell::text(&of.mechanism), Cell::count(of.all.len())]);
            cells.push(Cell::number(Some(radius), |x| format!("±{x:.2}")));
            for number in 0..PERCENTILES.len() {
                cells.push(Cell::number(of.quartiles(radius, number).map(|q| q[1]), digits));
            }
            rows.push(cells);
        }
    }
    let columns = [
        ("mechanism", "mechanism", false),
        ("surfaces", "surfaces", true),
        ("within", "radius", true),
        ("50th percentile", "p50", true),
        ("75th", "p75", true),
        ("95th", "p95", true),
        ("99th", "p99", true),
    ];
    (!rows.is_empty()).then(|| Table {
        name: "surface-lipschitz",
        title: "Empirical Lipschitz constants",
        caption: "Percentiles of the differences of the loss between neighbouring cells over their distance, inside squares around the \
                  trained model; medians over surfaces."
            .to_owned(),
        columns: with_point(evidence, &columns),
        rows,
    })
}

fn sharpness_table(evidence: &Evidence, explored: &[Explored]) -> Option<Table> {
    let mut rows = Vec::new();
    for one in explored {
        for record in &one.sharpness {
            let found = &record.sharpness;
            let mut cells = point_cells(&one.point.point);
            cells.extend([Cell::text(one.mechanism()), Cell::text(&one.seed().to_string()), Cell::count(record.epoch)]);
            cells.push(Cell::number(Some(found.loss), digits));
            for place in 0..3 {
                cells.push(Cell::number(found.eigenvalues.get(place).copied(), digits));
            }
            cells.push(Cell::number(Some(found.trace), digits));
            cells.push(Cell::number(Some(found.trace_error), digits));
            cells.push(Cell::number(Some(found.eigenvalues.first().map_or(f64::NAN, |l| l / found.loss)), digits));
            cells.push(Cell::text(if record.exact { "exact" } else { "fast" }));
            rows.push(cells);
        }
    }
    let columns = [
        ("mechanism", "mechanism", false),
        ("seed", "seed", false),
        ("epoch", "epoch", true),
        ("loss", "loss", true),
        ("λ₁", "eigenvalue_1", true),
        ("λ₂", "eigenvalue_2", true),
        ("λ₃", "eigenvalue_3", true),
        ("trace", "trace", true),
        ("± s.e.", "trace_standard_error", true),
        ("λ₁ / loss", "eigenvalue_over_loss", true),
        ("products", "products", false),
    ];
    (!rows.is_empty()).then(|| Table {
        name: "sharpness",
        title: "Sharpness",
        caption: "Largest eigenvalues of the Hessian of the mean training loss (Lanczos) and its trace (Hutchinson, with the standard \
                  error). Products of Hessian and vector are differences of gradients: exact in double precision, on one side of kinks; \
                  fast in single precision and good for orders of magnitude only. A lower loss by itself makes a surface flatter: compare \
                  the last but one column, too."
            .to_owned(),
        columns: with_point(evidence, &columns),
        rows,
    })
}

/// Three digits, however great or small.
fn digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        0.01..1000.0 => format!(
            "{:.*}",
            if value.abs() < 1.0 {
                3
            } else if value.abs() < 100.0 {
                2
            } else {
                0
            },
            value
        ),
        _ => format!("{value:.2e}"),
    }
    .replace('-', "−")
}

/// What the numbers say, mechanism by mechanism against full attention.
fn words(shown: &[(&Explored, &StoredSurface)], steepness: &[MechanismSteepness], explored: &[Explored]) -> String {
    let mut text = String::new();
    let mut lines = Vec::new();
    let of_full =
        |point: &PointEvidence| steepness.iter().find(|of| of.mechanism == BASELINE && of.point.point == point.point);
    for of in steepness.iter().filter(|of| of.mechanism != BASELINE) {
        let Some(full) = of_full(of.point) else { continue };
        let Some(range) = of.radii().last().copied() else { continue };
        let ratio = |radius: f64| Some(full.quartiles(radius, 2)?[1] / of.quartiles(radius, 2)?[1]);
        let near = ratio(range / 10.0).map(|near| format!("{} within ±{:.2}", flatter(near), range / 10.0));
        let far = ratio(range).map(|far| format!("{} within ±{range:.2}", flatter(far)));
        let both: Vec<String> = near.into_iter().chain(far).collect();
        lines.push((
            of.mechanism.clone(),
            format!("its loss is {} (95th percentile of differences)", both.join(", and ")),
        ));
    }
    for one in explored.iter().filter(|one| one.mechanism() != BASELINE) {
        let partner = explored.iter().find(|other| {
            other.mechanism() == BASELINE && other.seed() == one.seed() && other.point.point == one.point.point
        });
        let (Some(full), Some(here)) = (partner.and_then(|partner| partner.sharpness.last()), one.sharpness.last())
        else {
            continue;
        };
        let largest = |record: &SharpnessRecord| record.sharpness.eigenvalues.first().copied().unwrap_or(f64::NAN);
        lines.push((
            one.mechanism().to_owned(),
            format!(
                "seed {}: largest eigenvalue {} at a loss of {}, full attention's {} at {}",
                one.seed(),
                digits(largest(here)),
                digits(here.sharpness.loss),
                digits(largest(full)),
                digits(full.sharpness.loss)
            ),
        ));
    }
    if !lines.is_empty() {
        text += "<ul class=\"verdicts\">\n";
        for (mechanism, line) in lines {
            let _ = writeln!(text, "<li><b>{}</b> <span>{}</span></li>", escaped(&mechanism), escaped(&line));
        }
        text += "</ul>\n";
    }
    if !shown.is_empty() {
        text += "<p>A plane is a thin slice of a space of many dimensions, and a surface says how the loss looks around a model, not how \
                 the model got there. Flatness around a trained model also follows from how low its loss is.</p>\n";
    }
    let surfaces: Vec<f64> = steepness.iter().map(|of| of.all.len() as f64).collect();
    if median(&surfaces).is_some_and(|count| count < 3.0) {
        text += "<p>Few surfaces were evaluated: <code>semfocus landscape RUN --draws 5 --seeds 3</code> would give error bars.</p>\n";
    }
    text
}

fn flatter(ratio: f64) -> String {
    match ratio {
        _ if !ratio.is_finite() => "not comparable".to_owned(),
        _ if (0.91..1.1).contains(&ratio) => "as steep as full attention's".to_owned(),
        _ if ratio > 1.0 => format!("{} times flatter than full attention's", digits(ratio)),
        _ => format!("{} times steeper than full attention's", digits(1.0 / ratio)),
    }
}
