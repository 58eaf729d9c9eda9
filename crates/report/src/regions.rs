//! The regions in which the theory's conditions hold, as figures and as a table for programs.

use semfocus_analysis::theory::conditions::{FULL_DISPERSIONS, SINKS, least_separation_w, least_separation_x};

use crate::figure::charts::small_multiples;
use crate::figure::{
    Axis, Course, Dash, Figure, Filling, Line, Mark, Marker, Paint, Panel, Ramp, Series, Style, TWO_COLUMNS,
};
use crate::pictures::Picture;

/// Separations beyond these shares of the full dispersion are not drawn.
const SHOWN: (f64, f64) = (1e-4, 1.0);

/// One figure for each condition.
pub fn pictures() -> Vec<Picture> {
    let above = "The condition holds above the line of the full dispersion δs. Lines end where no separation suffices.";
    let w = panel("", least_separation_w);
    let x =
        SINKS.map(|sink| panel(&format!("sink β = {sink}"), move |full, share| least_separation_x(full, share, sink)));
    vec![
        Picture {
            name: "regions-w".to_owned(),
            figure: Figure {
                title: "Where condition (W) holds".to_owned(),
                caption: format!(
                    "Least separation for which (W) holds, by the dispersion of the kept scores; both as a share of δs. {above}"
                ),
                panels: vec![Panel { height: 130.0, ..w }],
                ..Figure::default()
            },
        },
        Picture {
            name: "regions-x".to_owned(),
            figure: Figure {
                title: "Where condition (X) holds".to_owned(),
                caption: format!("The same for (X), one panel for each sink. {above}"),
                width: TWO_COLUMNS,
                ..small_multiples(3, x.to_vec())
            },
        },
    ]
}

/// One line for each point of the figures; those at which no separation suffices are left out.
pub fn csv() -> String {
    let mut text = "condition,sink,full_dispersion,dispersion_share,least_separation_share\n".to_owned();
    for full in FULL_DISPERSIONS {
        for (share, least) in boundary(|share| least_separation_w(full, share)) {
            text += &format!("w,,{full},{share},{least}\n");
        }
    }
    for sink in SINKS {
        for full in FULL_DISPERSIONS {
            for (share, least) in boundary(|share| least_separation_x(full, share, sink)) {
                text += &format!("x,{sink},{full},{share},{least}\n");
            }
        }
    }
    text
}

/// Shares of the dispersion, in per cent steps, with the least separation of each.
fn boundary(least: impl Fn(f64) -> Option<f64>) -> Vec<(f64, f64)> {
    let shares = (1..100).map(|percent| f64::from(percent) / 100.0);
    shares.filter_map(|share| Some((share, least(share)?))).collect()
}

fn panel(title: &str, least: impl Fn(f64, f64) -> Option<f64>) -> Panel {
    let lines = FULL_DISPERSIONS.iter().enumerate().filter_map(|(index, &full)| {
        let inside = |point: &(f64, f64)| (SHOWN.0..=SHOWN.1).contains(&point.1);
        let points: Vec<(f64, f64)> = boundary(|share| least(full, share)).into_iter().filter(inside).collect();
        // The palest colours would be lost on paper.
        let place = 0.35 + 0.65 * index as f64 / (FULL_DISPERSIONS.len() - 1) as f64;
        let style = Style {
            paint: Paint::Colour(Ramp::Sequential.at(place)),
            dash: Dash::SOLID,
            marker: MARKERS[index % MARKERS.len()],
            filling: Filling::Full,
        };
        let series = Series { name: format!("δs = {full}"), style };
        (!points.is_empty()).then_some(Mark::Line(Line { series, points, course: Course::Straight, markers: true }))
    });
    Panel {
        title: title.to_owned(),
        x: Axis::linear("dispersion δh / δs").with_limits(0.0, 1.0),
        y: Axis::log("least separation Δ / δs").with_limits(SHOWN.0, SHOWN.1),
        height: 95.0,
        marks: lines.collect(),
    }
}

const MARKERS: [Marker; 6] = [Marker::Circle, Marker::Square, Marker::Diamond, Marker::Up, Marker::Down, Marker::Plus];
