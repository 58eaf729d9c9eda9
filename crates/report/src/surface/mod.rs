//! Loss surfaces: figures from numbers (contours, heat maps, a view to turn, how rough and how sharp they are), and the
//! [`section`] of the page. Title and caption of a figure are the caller's to write.

use crate::figure::charts::{Curve, curve_panel};
use crate::figure::{
    Axis, Contours, Dash, Figure, Filling, Heatmap, Mark, Marker, ONE_COLUMN, Paint, Panel, Place, Points, Ramp,
    Series, Sharing, Style, TWO_COLUMNS,
};

mod scale;
mod section;
mod view;

pub use scale::shown_range;
pub use section::section;
pub use view::view_html;

/// Values over a square grid of a plane through the parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Surface {
    /// The mechanism.
    pub mechanism: String,
    /// The plane reaches from minus this to this in both directions; the trained model is at 0.
    pub range: f64,
    /// As many rows as columns: `rows[j][i]` is the value at x_i and y_j. Not finite where the loss diverged.
    pub rows: Vec<Vec<f64>>,
}

/// How much a loss changes at most around a trained model, by the radius around it.
#[derive(Clone, Debug, PartialEq)]
pub struct LipschitzCurve {
    /// The mechanism.
    pub mechanism: String,
    /// Which percentile of the ratios of change to distance, from 0 to 100.
    pub percentile: f64,
    /// The radii.
    pub radii: Vec<f64>,
    /// Low, middle and high value over the draws at each of them.
    pub quartiles: Vec<[f64; 3]>,
}

/// Lines of equal loss, one panel for each mechanism, all with the same levels and colours. The cross is the trained
/// model. There are no lines outside the [`shown_range`], and cells next to a loss that is not finite are grey.
pub fn contours(surfaces: &[Surface]) -> Figure {
    let range = shown_range(surfaces);
    let levels = scale::levels(range, if columns(surfaces) > 2 { FEW_LEVELS } else { MANY_LEVELS });
    // What is cut right at the last level would make it ragged.
    let drawn = (range.0, 10.0 * range.1);
    panels(surfaces, |surface| {
        let plane = (-surface.range, surface.range);
        Mark::Contours(Contours {
            rows: scale::clipped(&surface.rows, drawn),
            x: plane,
            y: plane,
            levels: levels.clone(),
            colours: loss_colours(range),
            ramp: Ramp::Lines,
        })
    })
}

/// The loss as colour, one panel for each mechanism, all with the same colours. The cross is the trained model. What lies
/// outside the [`shown_range`] has the colour of its edge; what is not finite is grey.
pub fn heat_maps(surfaces: &[Surface]) -> Figure {
    let range = shown_range(surfaces);
    panels(surfaces, |surface| {
        let plane = Some((-surface.range, surface.range));
        Mark::Heatmap(Heatmap {
            rows: scale::clipped(&surface.rows, range),
            x: plane,
            y: plane,
            colours: loss_colours(range),
            ramp: Ramp::Sequential,
            values: false,
        })
    })
}

/// Empirical Lipschitz constants by radius: one panel for each percentile, bands over the draws.
pub fn lipschitz(curves: &[LipschitzCurve]) -> Figure {
    let mut percentiles: Vec<f64> = curves.iter().map(|curve| curve.percentile).collect();
    percentiles.sort_by(f64::total_cmp);
    percentiles.dedup();
    let radii = curves.iter().flat_map(|curve| &curve.radii).copied();
    let x = Axis::auto("radius", radii);
    let panels = percentiles.iter().map(|&percentile| {
        let members = curves.iter().filter(|curve| curve.percentile == percentile);
        let members: Vec<Curve> = members.map(LipschitzCurve::as_curve).collect();
        let y = Axis::log("empirical Lipschitz constant");
        let title = format!("{percentile}th percentile");
        curve_panel(&title, x.clone(), y, 110.0, &members.iter().collect::<Vec<_>>())
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

/// The greatest eigenvalue of the Hessian of the loss, epoch by epoch, bands over the seeds.
pub fn sharpness(curves: &[Curve]) -> Figure {
    let epochs = curves.iter().flat_map(|curve| &curve.epochs).copied().filter(|epoch| epoch.is_finite());
    let x = Axis::linear("epoch").with_limits(0.0, epochs.fold(0.0, f64::max));
    let values = curves.iter().flat_map(|curve| &curve.quartiles).flatten().copied();
    let y = Axis::auto("top Hessian eigenvalue", values);
    let panel = curve_panel("", x, y, 120.0, &curves.iter().collect::<Vec<_>>());
    Figure { panels: vec![panel], ..Figure::default() }
}

impl LipschitzCurve {
    fn as_curve(&self) -> Curve {
        Curve { mechanism: self.mechanism.clone(), epochs: self.radii.clone(), quartiles: self.quartiles.clone() }
    }
}

/// Contour lines where panels are wide, as many as the study draws, and where three stand in a row.
const MANY_LEVELS: usize = 100;
const FEW_LEVELS: usize = 60;

fn columns(surfaces: &[Surface]) -> usize {
    if surfaces.len() == 4 { 2 } else { surfaces.len().clamp(1, 3) }
}

/// One panel for each surface, and one bar for their colours.
fn panels(surfaces: &[Surface], mark: impl Fn(&Surface) -> Mark) -> Figure {
    let columns = columns(surfaces);
    let direction = |label: &str, surface: &Surface| Axis::linear(label).with_limits(-surface.range, surface.range);
    // As high as the plotting areas are wide beside each other.
    let height = [158.0, 196.0, 124.0][columns - 1];
    let panel = |surface: &Surface| Panel {
        title: surface.mechanism.clone(),
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
        legend: Place::Hidden,
        panels: surfaces.iter().map(panel).collect(),
        ..Figure::default()
    }
}

/// A hollow cross, which is seen on every colour.
fn trained_model() -> Mark {
    let style = Style { paint: Paint::Ink, dash: Dash::SOLID, marker: Marker::Cross, filling: Filling::Hollow };
    Mark::Points(Points { series: Series { name: String::new(), style }, points: vec![(0.0, 0.0)], marker: None })
}

fn loss_colours((low, high): (f64, f64)) -> Axis {
    Axis::log("loss").with_limits(low, high)
}
