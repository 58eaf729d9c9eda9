//! Surfaces to turn, for a page: an HTML fragment with its own small script.

use std::fmt::Write;

use super::scale::clipped;
use super::{Surface, loss_colours, shown_range};
use crate::figure::Ramp;
use crate::page::escaped;

const SCRIPT: &str = include_str!("../page/surface.js");

/// Points along each side of a view at most: a phone still turns three of them without a jerk.
const MOST_POINTS: usize = 61;
/// Colours of the ramp that the script chooses from.
const COLOURS: usize = 48;
/// Steps of the height, from the least to the greatest loss shown.
const STEPS: f64 = 999.0;

/// Views of the surfaces side by side, which turn together with mouse, finger or arrow keys: the height is the logarithm
/// of the loss, and all have the same scale and colours. The fragment needs `page.css` and no network; a page may hold
/// several. Nothing where there is no surface.
pub fn view_html(surfaces: &[Surface]) -> String {
    if surfaces.is_empty() {
        return String::new();
    }
    let range = shown_range(surfaces);
    let mut html = "<div class=\"surfaces\">\n<div class=\"surface-views\">\n".to_owned();
    for surface in surfaces {
        let _ = writeln!(
            html,
            "<div class=\"surface-view\"><b>{}</b><canvas class=\"surface\" tabindex=\"0\" role=\"img\" \
             aria-label=\"{}\"></canvas></div>",
            escaped(&surface.mechanism),
            escaped(&spoken(surface))
        );
    }
    html += "</div>\n";
    html += &legend(range);
    html += "<p class=\"faint\">Drag a surface to turn all of them, or choose one and use the arrow keys. Height and \
             colour are the loss on a logarithmic scale; the ring is the trained model, faint where it is hidden; holes are losses that are not \
             finite.</p>\n<noscript><p class=\"faint\">The surfaces need scripts; the figures show the same.</p></noscript>\n";
    let _ = writeln!(html, "<script type=\"application/json\">{}</script>", data(surfaces, range));
    let _ = writeln!(html, "<script>\n{SCRIPT}</script>\n</div>");
    html
}

/// What there is to see, for those who hear it.
fn spoken(surface: &Surface) -> String {
    let values: Vec<f64> = surface.rows.iter().flatten().copied().collect();
    let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    let name = &surface.mechanism;
    let (Some(least), Some(greatest)) =
        (finite.iter().copied().reduce(f64::min), finite.iter().copied().reduce(f64::max))
    else {
        return format!("Loss surface of {name}: no finite loss.");
    };
    let holes = match 100 * (values.len() - finite.len()) / values.len() {
        _ if values.len() == finite.len() => String::new(),
        0 => "; fewer than 1 % of the losses are not finite".to_owned(),
        share => format!("; {share} % of the losses are not finite"),
    };
    format!("Loss surface of {name}: least loss {}, greatest {}{holes}.", brief(least), brief(greatest))
}

/// A number with three digits.
fn brief(value: f64) -> String {
    let rounded: f64 = format!("{value:.2e}").parse().unwrap_or(value);
    if rounded == 0.0 || (1e-4..1e6).contains(&rounded.abs()) { rounded.to_string() } else { format!("{rounded:e}") }
}

/// How far a loss is from the least to the greatest one shown, from 0 to 1.
fn height(value: f64, (low, high): (f64, f64)) -> f64 {
    (value / low).ln() / (high / low).ln()
}

/// Round losses with their heights.
fn ticks(range: (f64, f64)) -> Vec<(f64, String)> {
    let round = loss_colours(range).round_values(range.0, range.1);
    round.into_iter().map(|(value, label)| (height(value, range), label)).collect()
}

fn ramp() -> Vec<String> {
    (0..COLOURS).map(|index| Ramp::Sequential.at(index as f64 / (COLOURS - 1) as f64).to_string()).collect()
}

fn legend(range: (f64, f64)) -> String {
    let mut html = format!(
        "<div class=\"surface-legend\"><span>loss</span><div style=\"background:linear-gradient(to right,{})\">",
        ramp().join(",")
    );
    for (height, label) in ticks(range) {
        let _ = write!(html, "<span style=\"left:{:.1}%\">{}</span>", 100.0 * height, escaped(&label));
    }
    html + "</div></div>\n"
}

/// What the script draws, as JSON: heights in steps, null where there is none.
fn data(surfaces: &[Surface], range: (f64, f64)) -> String {
    let quoted = |words: &str| format!("\"{words}\"");
    let colours: Vec<String> = ramp().iter().map(|colour| quoted(colour)).collect();
    // Labels of ticks are digits and signs: nothing to escape.
    let ticks: Vec<String> =
        ticks(range).iter().map(|(height, label)| format!("[{height:.3},{}]", quoted(label))).collect();
    let views: Vec<String> = surfaces.iter().map(|surface| heights(surface, range)).collect();
    format!(
        "{{\"steps\":{STEPS},\"colours\":[{}],\"ticks\":[{}],\"views\":[{}]}}",
        colours.join(","),
        ticks.join(","),
        views.join(",")
    )
}

fn heights(surface: &Surface, range: (f64, f64)) -> String {
    let step = |value: f64| {
        if value.is_nan() { "null".to_owned() } else { (STEPS * height(value, range)).round().to_string() }
    };
    let rows: Vec<String> = thinned(&clipped(&surface.rows, range))
        .into_iter()
        .map(|row| format!("[{}]", row.into_iter().map(step).collect::<Vec<_>>().join(",")))
        .collect();
    format!("[{}]", rows.join(","))
}

/// The square of points with fewer of them, at equal distances, the outermost among them. What a row lacks is no number.
fn thinned(rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let side = rows.len();
    let kept = side.min(MOST_POINTS);
    let source = |index: usize| (index as f64 * (side - 1) as f64 / (kept - 1).max(1) as f64).round() as usize;
    let value = |j: usize, i: usize| rows[source(j)].get(source(i)).copied().unwrap_or(f64::NAN);
    (0..kept).map(|j| (0..kept).map(|i| value(j, i)).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bowl(side: usize) -> Surface {
        let place = |index: usize| 2.0 * index as f64 / (side - 1) as f64 - 1.0;
        let row = |j: usize| (0..side).map(|i| 0.01 + place(i).powi(2) + place(j).powi(2)).collect();
        Surface { mechanism: "a<b>\"c\"".to_owned(), range: 1.0, rows: (0..side).map(row).collect() }
    }

    #[test]
    fn large_grids_are_thinned_and_keep_centre_and_corners() {
        let surface = bowl(201);
        let rows = thinned(&surface.rows);
        assert_eq!((rows.len(), rows[60].len()), (61, 61));
        assert_eq!((rows[0][60], rows[30][30]), (surface.rows[0][200], surface.rows[100][100]));
        assert_eq!(thinned(&bowl(41).rows), bowl(41).rows);
        assert!(thinned(&[]).is_empty() && thinned(&[vec![], vec![1.0]])[1][1].is_nan());
        let html = view_html(&vec![surface; 3]);
        assert!(html.len() < 70_000, "{} bytes", html.len());
    }

    #[test]
    fn heights_are_logarithms_and_holes_are_null() {
        let rows = vec![vec![0.1, 1.0, 10.0], vec![f64::NAN, f64::INFINITY, 0.0], vec![1e9, -1.0, 1.0]];
        let surface = Surface { mechanism: String::new(), range: 1.0, rows };
        assert_eq!(heights(&surface, (0.1, 10.0)), "[[0,500,999],[null,null,0],[999,0,500]]");
    }

    #[test]
    fn the_fragment_says_what_is_seen_and_cannot_break_the_page() {
        let mut surface = bowl(5);
        surface.rows[0][0] = f64::NAN;
        let html = view_html(&[surface.clone(), surface]);
        assert_eq!(html.matches("<canvas ").count(), 2);
        assert!(html.contains("<b>a&lt;b&gt;&quot;c&quot;</b>"));
        assert!(html.contains("least loss 0.01, greatest 2.01; 4 % of the losses are not finite."), "{html}");
        assert_eq!((html.matches("<script").count(), html.matches("</script>").count()), (2, 2));
        assert!(!html.contains(" onclick=") && !html.contains("http"));
        assert_eq!(view_html(&[]), "");
    }

    #[test]
    fn strange_surfaces_do_no_harm() {
        for rows in [vec![], vec![vec![]], vec![vec![f64::NAN]], vec![vec![1.0]], vec![vec![f64::INFINITY; 3]; 3]] {
            let html = view_html(&[Surface { mechanism: String::new(), range: f64::NAN, rows }]);
            assert!(!html.contains("NaN") && !html.contains("inf,"), "{html}");
        }
        assert_eq!([0.001, 12.345, 1e30, 0.0, -1234.0].map(brief), ["0.001", "12.3", "1e30", "0", "-1230"]);
    }
}
