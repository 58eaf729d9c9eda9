//! Figures of a loss surface: contours, heat maps, roughness and sharpness. The caller adds title and caption.

use crate::charts::{Curve, curve_panel, whole_numbers};
use crate::{
    Axis, ColourMap, Contours, Dash, Figure, Filling, Heatmap, Mark, Marker, ONE_COLUMN, Paint, Panel, Points, Series,
    Sharing, Style, TWO_COLUMNS,
};

mod scale;

pub use scale::shown_range;

/// Losses on a square grid in a plane of the parameter space.
#[derive(Clone, Debug, PartialEq)]
pub struct Surface {
    /// Title of the panel.
    pub name: String,
    /// Both directions run from −`range` to `range`, with the trained model at 0.
    pub range: f64,
    /// As many rows as columns: `rows[j][i]` is the loss at x_i and y_j. Not finite where the loss diverged.
    pub rows: Vec<Vec<f64>>,
}

/// A percentile of the slopes around a trained model, by the radius around it.
#[derive(Clone, Debug, PartialEq)]
pub struct LipschitzCurve {
    /// From 0 to 100.
    pub percentile: f64,
    /// Quartiles over draws at each radius.
    pub curve: Curve,
}

/// Contour lines over bands of colour, one panel for each surface, all with the same levels and the colours of
/// [`heat_maps`]. The cross marks the trained model.
/// There are no lines outside the [`shown_range`], and cells next to a loss that is not finite are grey.
pub fn contours(surfaces: &[Surface]) -> Figure {
    let range = shown_range(surfaces);
    let levels = loss_axis(range).levels(LEVELS, range.0, range.1);
    // Clipping exactly at the last level would make its line ragged.
    let drawn = (range.0, 10.0 * range.1);
    panels(
        surfaces,
        |surface| surface.range,
        |surface| {
            let plane = (-surface.range, surface.range);
            Mark::Contours(Contours {
                rows: scale::clipped(&surface.rows, drawn),
                x: plane,
                y: plane,
                levels: levels.clone(),
                colours: loss_axis(range),
                colour_map: ColourMap::Sequential,
            })
        },
    )
}

/// The loss as colour, one panel for each surface, all with the same colours. The cross marks the trained model. Losses
/// outside the [`shown_range`] have the colour of its nearer end; those that are not finite are grey.
pub fn heat_maps(surfaces: &[Surface]) -> Figure {
    let range = shown_range(surfaces);
    // The outermost cells are centred on the edge of the plane and as wide as the others.
    let with_half_a_cell =
        |surface: &Surface| surface.range * (1.0 + 1.0 / surface.rows.len().saturating_sub(1).max(1) as f64);
    panels(surfaces, with_half_a_cell, |surface| {
        let plane = (-surface.range, surface.range);
        Mark::Heatmap(Heatmap {
            rows: scale::clipped(&surface.rows, range),
            x: plane,
            y: plane,
            colours: loss_axis(range),
            colour_map: ColourMap::Sequential,
            numbers: false,
        })
    })
}

/// Empirical Lipschitz constants by radius: one panel for each percentile.
pub fn lipschitz(curves: &[LipschitzCurve]) -> Figure {
    let mut percentiles: Vec<f64> = curves.iter().map(|curve| curve.percentile).collect();
    percentiles.sort_by(f64::total_cmp);
    percentiles.dedup();
    let x = Axis::auto("radius", curves.iter().flat_map(|curve| &curve.curve.x).copied());
    let panels = percentiles.iter().map(|&percentile| {
        let members = curves.iter().filter(|curve| curve.percentile == percentile).map(|curve| &curve.curve);
        let y = Axis::log("empirical Lipschitz constant");
        curve_panel(&format!("{percentile}th percentile"), x.clone(), y, 110.0, members)
    });
    Figure {
        width: if percentiles.len() > 1 { TWO_COLUMNS } else { ONE_COLUMN },
        columns: percentiles.len().min(4),
        share_x: Sharing::All,
        share_y: Sharing::All,
        panels: panels.collect(),
        ..Figure::default()
    }
}

/// The largest eigenvalue of the Hessian of the loss, by epoch.
pub fn sharpness(curves: &[Curve]) -> Figure {
    let x = whole_numbers("epoch", curves.iter().flat_map(|curve| &curve.x).copied());
    let values = curves.iter().flat_map(|curve| &curve.quartiles).flatten().copied();
    let y = Axis::auto("top Hessian eigenvalue", values);
    Figure { panels: vec![curve_panel("", x, y, 120.0, curves)], ..Figure::default() }
}

/// The logarithmic scale of the losses shown.
pub fn loss_axis((low, high): (f64, f64)) -> Axis {
    Axis::log("loss").with_limits(low, high)
}

/// Most contour lines of a panel: more cannot be told apart.
const LEVELS: usize = 12;

/// Heights that make the plotting areas of one, two and three panels in a row square.
pub(crate) const SQUARE: [f64; 3] = [158.0, 196.0, 124.0];

fn columns(surfaces: &[Surface]) -> usize {
    if surfaces.len() == 4 { 2 } else { surfaces.len().clamp(1, 3) }
}

/// One panel for each surface, and one colour bar.
fn panels(surfaces: &[Surface], limit: impl Fn(&Surface) -> f64, mark: impl Fn(&Surface) -> Mark) -> Figure {
    let columns = columns(surfaces);
    let direction = |label: &str, surface: &Surface| Axis::linear(label).with_limits(-limit(surface), limit(surface));
    let height = SQUARE[columns - 1];
    let panel = |surface: &Surface| Panel {
        title: surface.name.clone(),
        x: direction("direction 1", surface),
        y: direction("direction 2", surface),
        height,
        marks: vec![mark(surface), trained_model()],
    };
    let same_plane = surfaces.windows(2).all(|pair| pair[0].range == pair[1].range);
    let sharing = if same_plane { Sharing::All } else { Sharing::None };
    Figure {
        width: if columns > 1 { TWO_COLUMNS } else { ONE_COLUMN },
        columns,
        share_x: sharing,
        share_y: sharing,
        share_colours: true,
        legend: false,
        panels: surfaces.iter().map(panel).collect(),
        ..Figure::default()
    }
}

/// A hollow cross, which can be seen on every colour.
fn trained_model() -> Mark {
    let style = Style { paint: Paint::Ink, dash: Dash::SOLID, marker: Marker::Cross, filling: Filling::Hollow };
    Mark::Points(Points {
        series: Series { name: String::new(), style },
        points: vec![(0.0, 0.0)],
        marker: None,
        labels: Vec::new(),
    })
}
