//! The regions in which the conditions of the theory hold, as figures and as CSV.

use semfocus_analysis::theory::conditions::{FULL_DISPERSIONS, SINKS, min_separation_w, min_separation_x};
use semfocus_figure::charts::small_multiples;
use semfocus_figure::{
    Axis, ColourMap, Dash, Figure, Filling, Interpolation, Line, Mark, Marker, Paint, Panel, Series, Style, TWO_COLUMNS,
};

use crate::frame::{Frame, Values};
use crate::pictures::{Picture, picture};

/// Limits of the separations drawn, as fractions of the full dispersion.
const SHOWN: (f64, f64) = (1e-4, 1.0);

/// One figure for each condition.
pub fn pictures() -> Vec<Picture> {
    let above =
        "For each full dispersion δs, the condition holds above the line. A line ends where no separation is enough.";
    let w = panel("", min_separation_w);
    let x =
        SINKS.map(|sink| panel(&format!("sink β = {sink}"), move |full, share| min_separation_x(full, share, sink)));
    vec![
        picture(
            "regions-w",
            "Where condition (W) holds",
            format!(
                "The minimum separation for which (W) holds, by the dispersion of the kept scores; both as fractions of δs. \
                 {above}"
            ),
            Figure { panels: vec![Panel { height: 130.0, ..w }], ..Figure::default() },
        ),
        picture(
            "regions-x",
            "Where condition (X) holds",
            format!("The same for (X), one panel for each sink. {above}"),
            Figure { width: TWO_COLUMNS, ..small_multiples(3, x.to_vec()) },
        ),
    ]
}

/// One row for each point of the figures, without those where no separation is enough.
pub fn frame() -> Frame {
    type Row = (&'static str, Option<f64>, f64, (f64, f64));
    let mut rows: Vec<Row> = Vec::new();
    let mut add = |condition, sink, min_separation: &dyn Fn(f64, f64) -> Option<f64>| {
        for full in FULL_DISPERSIONS {
            let points = boundary(|share| min_separation(full, share));
            rows.extend(points.into_iter().map(|point| (condition, sink, full, point)));
        }
    };
    add("w", None, &min_separation_w);
    SINKS.iter().for_each(|&sink| add("x", Some(sink), &|full, share| min_separation_x(full, share, sink)));
    let number = |value: fn(&Row) -> Option<f64>| Values::Number(rows.iter().map(value).collect());
    [
        ("condition", Values::Text(rows.iter().map(|row| Some(row.0.to_owned())).collect())),
        ("sink", number(|row| row.1)),
        ("full_dispersion", number(|row| Some(row.2))),
        ("dispersion_share", number(|row| Some(row.3.0))),
        ("min_separation_share", number(|row| Some(row.3.1))),
    ]
    .into_iter()
    .collect()
}

/// Dispersions in steps of 1 % of δs, each with the minimum separation.
fn boundary(min_separation: impl Fn(f64) -> Option<f64>) -> Vec<(f64, f64)> {
    let shares = (1..100).map(|percent| f64::from(percent) / 100.0);
    shares.filter_map(|share| Some((share, min_separation(share)?))).collect()
}

fn panel(title: &str, min_separation: impl Fn(f64, f64) -> Option<f64>) -> Panel {
    let lines = FULL_DISPERSIONS.iter().enumerate().filter_map(|(index, &full)| {
        let inside = |point: &(f64, f64)| (SHOWN.0..=SHOWN.1).contains(&point.1);
        let points: Vec<(f64, f64)> =
            boundary(|share| min_separation(full, share)).into_iter().filter(inside).collect();
        // The palest colours would be invisible on paper.
        let place = 0.35 + 0.65 * index as f64 / (FULL_DISPERSIONS.len() - 1) as f64;
        let style = Style {
            paint: Paint::Colour(ColourMap::Sequential.at(place)),
            dash: Dash::SOLID,
            marker: MARKERS[index % MARKERS.len()],
            filling: Filling::Full,
        };
        let series = Series { name: format!("δs = {full}"), style };
        (!points.is_empty()).then_some(Mark::Line(Line {
            series,
            points,
            interpolation: Interpolation::Linear,
            markers: true,
            pale: false,
        }))
    });
    Panel {
        title: title.to_owned(),
        x: Axis::linear("dispersion δh / δs").with_limits(0.0, 1.0),
        y: Axis::log("minimum separation Δ / δs").with_limits(SHOWN.0, SHOWN.1),
        height: 95.0,
        marks: lines.collect(),
    }
}

const MARKERS: [Marker; 6] = [Marker::Circle, Marker::Square, Marker::Diamond, Marker::Up, Marker::Down, Marker::Plus];
