//! Mechanisms over the points of a grid: a map of the time to the target.

use semfocus_analysis::evidence::Evidence;
use semfocus_analysis::evidence::robustness::point_name;
use semfocus_figure::{Axis, ColourMap, Figure, Heatmap, Mark, Panel, TWO_COLUMNS};

use crate::pictures::{Picture, picture, target_words};
use crate::table::setting_name;

/// The time to the target as colour, one row for each mechanism and one column for each point. None without a grid, or if nothing
/// reached the target.
pub(crate) fn map(evidence: &Evidence) -> Option<Picture> {
    let (mechanisms, unit) = (&evidence.experiment.mechanisms, evidence.unit());
    let epochs = |mechanism: &String| -> Vec<f64> {
        let at = |point: &semfocus_analysis::evidence::PointEvidence| {
            let found = point.mechanisms.iter().find(|other| other.mechanism == *mechanism)?;
            found.median_epochs_to_target.map(|epochs| unit.count(epochs))
        };
        evidence.points.iter().map(|point| at(point).unwrap_or(f64::NAN)).collect()
    };
    // Categories run from top to bottom.
    let rows: Vec<Vec<f64>> = mechanisms.iter().map(epochs).collect();
    let found = || rows.iter().flatten().copied().filter(|value| value.is_finite());
    if evidence.points.len() < 2 || rows.len() < 2 || found().next().is_none() {
        return None;
    }
    let (min, max) = (found().fold(f64::INFINITY, f64::min), found().fold(0.0, f64::max));
    let lowest = min.max(0.5);
    let last = |count: usize| count.saturating_sub(1) as f64;
    let (columns, lines) = (last(evidence.points.len()), last(rows.len()));
    let panel = Panel {
        title: String::new(),
        x: Axis::categories(&axes_name(evidence), evidence.points.iter().map(|point| short_name(&point.point))),
        y: Axis::categories("", mechanisms.iter().cloned()),
        height: 22.0 * rows.len() as f64 + 10.0,
        marks: vec![Mark::Heatmap(Heatmap {
            rows,
            x: (0.0, columns),
            y: (0.0, lines),
            colours: Axis::log(&format!("{} to target", unit.name())).with_limits(lowest, max.max(1.5 * lowest)),
            colour_map: ColourMap::Sequential,
            numbers: true,
        })],
    };
    let points: Vec<String> = evidence.points.iter().map(|point| point_name(&point.point)).collect();
    Some(picture(
        "grid-map",
        "Time to the target over the grid",
        format!(
            "Median over seeds of the {} to {}; grey where the median trial has not reached it. Columns from left to right: \
             {}.",
            unit.name(),
            target_words(evidence.goal),
            points.join("; ")
        ),
        Figure { width: TWO_COLUMNS, panels: vec![panel], legend: false, ..Figure::default() },
    ))
}

/// The settings that vary over the grid.
fn axes_name(evidence: &Evidence) -> String {
    let name = |(path, _): &(String, String)| setting_name(path);
    let first = evidence.points.first().map_or(&[][..], |point| &point.point);
    first.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// The values of a point, without the names of the settings.
fn short_name(point: &[(String, String)]) -> String {
    point.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(", ")
}
