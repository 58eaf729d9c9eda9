//! Rotatable surfaces for a page: an HTML fragment with its own small script.

use maud::{Markup, PreEscaped, html};
use semfocus_figure::ColourMap;
use semfocus_figure::surface::{Surface, loss_axis, shown_range};
use serde_json::json;

const SCRIPT: &str = include_str!("../page/surface.js");

/// Maximum points along each side of a view: a phone can still rotate three of them smoothly.
const MAX_POINTS: usize = 61;
/// Colours that the script chooses from.
const COLOURS: usize = 48;
/// Height of the largest loss shown, in the script's integer units.
const STEPS: f64 = 999.0;

/// Views of the surfaces side by side, which rotate together with mouse, finger or arrow keys. The height is the logarithm
/// of the loss; all views share scale and colours. The fragment needs `page.css` and no network, and a page may contain
/// several. Empty if there is no surface.
pub fn view_html(surfaces: &[Surface]) -> Markup {
    if surfaces.is_empty() {
        return html! {};
    }
    let range = shown_range(surfaces);
    html! {
        div class="surfaces" {
            div class="surface-views" {
                @for surface in surfaces {
                    div class="surface-view" {
                        b { (surface.name) }
                        canvas class="surface" tabindex="0" role="img" aria-label=(description(surface)) {}
                    }
                }
            }
            (legend(range))
            p class="faint" {
                "Drag a surface to rotate all of them, or select one and use the arrow keys. Height and colour show the loss on \
                 a logarithmic scale. The ring marks the trained model; it is faint where a surface hides it. Holes are losses \
                 that are not finite."
            }
            noscript { p class="faint" { "The surfaces need JavaScript; the figures show the same data." } }
            script type="application/json" { (PreEscaped(data(surfaces, range))) }
            script { (PreEscaped(SCRIPT)) }
        }
    }
}

/// A description for screen readers.
fn description(surface: &Surface) -> String {
    let values: Vec<f64> = surface.rows.iter().flatten().copied().collect();
    let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    let name = &surface.name;
    let (Some(min), Some(max)) = (finite.iter().copied().reduce(f64::min), finite.iter().copied().reduce(f64::max))
    else {
        return format!("Loss surface of {name}: no finite loss.");
    };
    let holes = match 100 * (values.len() - finite.len()) / values.len() {
        _ if values.len() == finite.len() => String::new(),
        0 => "; fewer than 1 % of the losses are not finite".to_owned(),
        share => format!("; {share} % of the losses are not finite"),
    };
    format!("Loss surface of {name}: minimum loss {}, maximum {}{holes}.", brief(min), brief(max))
}

/// A number with three digits.
fn brief(value: f64) -> String {
    let rounded: f64 = format!("{value:.2e}").parse().unwrap_or(value);
    if rounded == 0.0 || (1e-4..1e6).contains(&rounded.abs()) { rounded.to_string() } else { format!("{rounded:e}") }
}

/// The position of a loss between the smallest and the largest one shown, from 0 to 1.
fn height(value: f64, (low, high): (f64, f64)) -> f64 {
    (value / low).ln() / (high / low).ln()
}

/// Round losses with their heights.
fn ticks(range: (f64, f64)) -> Vec<(f64, String)> {
    let round = loss_axis(range).round_values(range.0, range.1);
    round.into_iter().map(|(value, label)| (height(value, range), label)).collect()
}

fn colours() -> Vec<String> {
    (0..COLOURS).map(|index| ColourMap::Sequential.at(index as f64 / (COLOURS - 1) as f64).to_string()).collect()
}

fn legend(range: (f64, f64)) -> Markup {
    html! {
        div class="surface-legend" {
            span { "loss" }
            div style={ "background:linear-gradient(to right," (colours().join(",")) ")" } {
                @for (height, label) in ticks(range) {
                    span style=(format!("left:{:.1}%", 100.0 * height)) { (label) }
                }
            }
        }
    }
}

/// What the script draws, as JSON.
fn data(surfaces: &[Surface], range: (f64, f64)) -> String {
    let views: Vec<_> = surfaces.iter().map(|surface| heights(surface, range)).collect();
    json!({ "steps": STEPS, "colours": colours(), "ticks": ticks(range), "views": views }).to_string()
}

/// Heights in steps; None where the loss is not finite.
fn heights(surface: &Surface, (low, high): (f64, f64)) -> Vec<Vec<Option<u16>>> {
    let step =
        |value: f64| value.is_finite().then(|| (STEPS * height(value.clamp(low, high), (low, high))).round() as u16);
    thinned(&surface.rows).into_iter().map(|row| row.into_iter().map(step).collect()).collect()
}

/// A square grid of at most [`MAX_POINTS`] equidistant points per side that includes the outermost ones. Missing values are
/// NaN.
fn thinned(rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let side = rows.len();
    let kept = side.min(MAX_POINTS);
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
        Surface { name: "a<b>\"c\"".to_owned(), range: 1.0, rows: (0..side).map(row).collect() }
    }

    #[test]
    fn large_grids_are_thinned_and_keep_centre_and_corners() {
        let surface = bowl(201);
        let rows = thinned(&surface.rows);
        assert_eq!((rows.len(), rows[60].len()), (61, 61));
        assert_eq!((rows[0][60], rows[30][30]), (surface.rows[0][200], surface.rows[100][100]));
        assert_eq!(thinned(&bowl(41).rows), bowl(41).rows);
        assert!(thinned(&[]).is_empty() && thinned(&[vec![], vec![1.0]])[1][1].is_nan());
        let html = view_html(&vec![surface; 3]).into_string();
        assert!(html.len() < 70_000, "{} bytes", html.len());
    }

    #[test]
    fn heights_are_logarithms_and_holes_are_null() {
        let rows = vec![vec![0.1, 1.0, 10.0], vec![f64::NAN, f64::INFINITY, 0.0], vec![1e9, -1.0, 1.0]];
        let surface = Surface { name: String::new(), range: 1.0, rows };
        let expected = json!([[0, 500, 999], [null, null, 0], [999, 0, 500]]);
        assert_eq!(json!(heights(&surface, (0.1, 10.0))), expected);
    }

    #[test]
    fn the_fragment_says_what_is_seen_and_cannot_break_the_page() {
        let mut surface = bowl(5);
        surface.rows[0][0] = f64::NAN;
        let html = view_html(&[surface.clone(), surface]).into_string();
        assert_eq!(html.matches("<canvas ").count(), 2);
        assert!(html.contains("<b>a&lt;b&gt;&quot;c&quot;</b>"));
        assert!(html.contains("minimum loss 0.01, maximum 2.01; 4 % of the losses are not finite."), "{html}");
        assert_eq!((html.matches("<script").count(), html.matches("</script>").count()), (2, 2));
        assert!(!html.contains(" onclick=") && !html.contains("http"));
        assert_eq!(view_html(&[]).into_string(), "");
    }

    #[test]
    fn strange_surfaces_do_no_harm() {
        for rows in [vec![], vec![vec![]], vec![vec![f64::NAN]], vec![vec![1.0]], vec![vec![f64::INFINITY; 3]; 3]] {
            let html = view_html(&[Surface { name: String::new(), range: f64::NAN, rows }]).into_string();
            assert!(!html.contains("NaN") && !html.contains("inf,"), "{html}");
        }
        assert_eq!([0.001, 12.345, 1e30, 0.0, -1234.0].map(brief), ["0.001", "12.3", "1e30", "0", "-1230"]);
    }
}
