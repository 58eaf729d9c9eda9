//! The legend: every named series once, in rows that fit the width.

use crate::mark::{Mark, Series};
use crate::shape::draw_marker;
use crate::style::{Paint, Style};
use crate::svg::{Anchor, Canvas, Fill, Rect, Stroke, Text};
use crate::text::LABEL;
use crate::{LINE, Panel};

/// Width of the symbol of a series with a line, and of one with markers only.
const SWATCH: f64 = 23.0;
const DOT: f64 = 8.0;
const GAP: f64 = 4.0;
const BETWEEN: f64 = 10.0;
const ROW: f64 = 10.5;

/// A series and the kinds of marks it has.
#[derive(Clone, Debug)]
pub(crate) struct LegendEntry {
    pub(crate) name: String,
    pub(crate) style: Style,
    line: bool,
    band: bool,
    marker: bool,
}

/// The entries with their positions relative to the upper left corner.
#[derive(Clone, Debug, Default)]
pub(crate) struct Legend {
    pub(crate) entries: Vec<LegendEntry>,
    places: Vec<(f64, f64)>,
    swatch: f64,
    labels: Vec<String>,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

/// Every named series, in order of first occurrence.
pub(crate) fn entries(panels: &[Panel]) -> Vec<LegendEntry> {
    let mut entries: Vec<LegendEntry> = Vec::new();
    for mark in panels.iter().flat_map(|panel| &panel.marks) {
        let Some(Series { name, style }) = mark.series().filter(|series| !series.name.is_empty()) else { continue };
        let index = entries.iter().position(|entry| entry.name == *name).unwrap_or_else(|| {
            entries.push(LegendEntry { name: name.clone(), style: *style, line: false, band: false, marker: false });
            entries.len() - 1
        });
        let entry = &mut entries[index];
        match mark {
            Mark::Line(line) => {
                entry.line |= !line.pale;
                entry.marker |= line.markers;
            }
            Mark::Band(_) => entry.band = true,
            // Points with a marker of their own, such as those of censoring, do not stand for the series.
            Mark::Points(points) => entry.marker |= points.marker.is_none(),
            Mark::Interval(_) | Mark::Slopes(_) => {
                entry.line = true;
                entry.marker = true;
            }
            Mark::Rule(_) | Mark::Heatmap(_) | Mark::Contours(_) => {}
        }
    }
    entries
}

impl Legend {
    /// Entries side by side if they fit into one row, otherwise in columns of equal width.
    pub(crate) fn new(entries: Vec<LegendEntry>, max_width: f64) -> Self {
        let swatch = if entries.iter().any(|entry| entry.line || entry.band) { SWATCH } else { DOT };
        let longest = max_width - swatch - GAP;
        let labels: Vec<String> = entries.iter().map(|entry| LABEL.shorten(&entry.name, longest)).collect();
        let widths: Vec<f64> = labels.iter().map(|label| swatch + GAP + LABEL.width(label)).collect();
        let widest = widths.iter().copied().fold(0.0, f64::max);
        let in_one_row = widths.iter().sum::<f64>() + BETWEEN * widths.len().saturating_sub(1) as f64;
        let (places, width): (Vec<(f64, f64)>, f64) = if in_one_row <= max_width {
            let start = |index: usize| widths[..index].iter().map(|width| width + BETWEEN).sum::<f64>();
            ((0..widths.len()).map(|index| (start(index), 0.0)).collect(), in_one_row)
        } else {
            let max_columns = (((max_width + BETWEEN) / (widest + BETWEEN)).floor() as usize).clamp(1, widths.len());
            // Balanced rows: six entries make two rows of three, not rows of five and one.
            let columns = widths.len().div_ceil(widths.len().div_ceil(max_columns));
            let place = |index: usize| ((index % columns) as f64 * (widest + BETWEEN), (index / columns) as f64 * ROW);
            ((0..widths.len()).map(place).collect(), columns as f64 * (widest + BETWEEN) - BETWEEN)
        };
        let height = places.last().map_or(0.0, |place| place.1 + ROW);
        Legend { entries, places, swatch, labels, width, height }
    }

    pub(crate) fn draw(&self, canvas: &mut Canvas, (left, top): (f64, f64)) {
        for ((entry, (x, y)), label) in self.entries.iter().zip(&self.places).zip(&self.labels) {
            let (x, middle) = (left + x, top + y + ROW / 2.0);
            let Style { paint, dash, marker, filling } = entry.style;
            if entry.band {
                let frame = Rect { x, y: middle - 3.5, width: self.swatch, height: 7.0 };
                canvas.rect(frame, Fill::Paint(paint, crate::BAND_OPACITY), None);
            }
            if entry.line {
                canvas.line((x, middle), (x + self.swatch, middle), &Stroke::new(paint, LINE).dashed(dash.pattern()));
            }
            if entry.marker {
                draw_marker(canvas, (x + self.swatch / 2.0, middle), marker, filling, paint);
            }
            let (x, y) = (x + self.swatch + GAP, middle + LABEL.capitals() / 2.0);
            canvas.text(&Text {
                content: label,
                x,
                y,
                font: LABEL,
                anchor: Anchor::Start,
                rotated: false,
                paint: Paint::Ink,
            });
        }
    }
}
