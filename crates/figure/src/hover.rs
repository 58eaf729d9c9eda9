//! Values that appear when the pointer rests on a mark.

use crate::Panel;
use crate::layout::Placed;
use crate::mark::{Line, Mark};
use crate::svg::Canvas;

/// Places along a line: enough to find the value of every epoch of a short curve, few enough for a small page.
const ALONG_LINE: usize = 40;

pub(crate) fn add(canvas: &mut Canvas, placed: &Placed, panel: &Panel, mark: &Mark) {
    let mut show = |(x, y): (f64, f64), text: String| {
        if placed.x.shows(x)
            && placed.y.shows(y)
            && let (Some(x), Some(y)) = (placed.x.at(x), placed.y.at(y))
        {
            canvas.hover((x, y), &text);
        }
    };
    let both = |name: &str, (x, y): (f64, f64)| {
        let of_axis = |label: &str, value: String| format!("{} {value}", label.trim_end_matches(" (%)"));
        let text =
            format!("{}, {}", of_axis(&panel.x.label, panel.x.spoken(x)), of_axis(&panel.y.label, panel.y.spoken(y)));
        if name.is_empty() { text } else { format!("{name}: {text}") }
    };
    match mark {
        Mark::Line(Line { series, points, pale: false, .. }) => {
            let step = points.len().div_ceil(ALONG_LINE).max(1);
            // The last point is the result.
            let last = points.last().filter(|_| points.len() % step != 1 && step > 1);
            for &point in points.iter().step_by(step).chain(last) {
                show(point, both(&series.name, point));
            }
        }
        Mark::Points(points) => {
            for (index, &point) in points.points.iter().enumerate() {
                let name = points.labels.get(index).unwrap_or(&points.series.name);
                show(point, both(name, point));
            }
        }
        Mark::Interval(interval) => {
            show((interval.value, interval.row), format!("{}: {}", interval.series.name, interval.note));
        }
        Mark::Slopes(slopes) => {
            for &(left, right) in &slopes.pairs {
                show((slopes.between.0, left), panel.y.spoken(left));
                show((slopes.between.1, right), panel.y.spoken(right));
            }
        }
        Mark::Line(_) | Mark::Band(_) | Mark::Rule(_) | Mark::Heatmap(_) | Mark::Contours(_) => {}
    }
}
