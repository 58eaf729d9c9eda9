//! One legend for all panels: every series once, in rows that fit the width.

use super::mark::{Mark, Series};
use super::palette::{Paint, Style};
use super::shape::draw_marker;
use super::svg::{Anchor, Canvas, Fill, Frame, Stroke, Text};
use super::text::LABEL;
use super::{LINE, Panel};

/// Width of the sign of a series with a line, and of one that has markers alone.
const SWATCH: f64 = 23.0;
const DOT: f64 = 8.0;
const GAP: f64 = 4.0;
const BETWEEN: f64 = 10.0;
const ROW: f64 = 10.5;

/// An entry and what its marks look like.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) style: Style,
    line: bool,
    band: bool,
    marker: bool,
}

/// The entries and where they stand, relative to the upper left corner.
#[derive(Clone, Debug, Default)]
pub(super) struct Legend {
    pub(super) entries: Vec<Entry>,
    places: Vec<(f64, f64)>,
    swatch: f64,
    words: Vec<String>,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// Every named series in the order in which it first occurs.
pub(super) fn entries(panels: &[Panel]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for mark in panels.iter().flat_map(|panel| &panel.marks) {
        let Some(Series { name, style }) = mark.series().filter(|series| !series.name.is_empty()) else { continue };
        let index = entries.iter().position(|entry| entry.name == *name).unwrap_or_else(|| {
            entries.push(Entry { name: name.clone(), style: *style, line: false, band: false, marker: false });
            entries.len() - 1
        });
        let entry = &mut entries[index];
        match mark {
            Mark::Line(line) => {
                entry.line = true;
                entry.marker |= line.markers;
            }
            Mark::Band(_) => entry.band = true,
            // Marks of another shape, such as those of censoring, are not the sign of the series.
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
    /// Entries side by side where one row holds them all, else in columns of equal width.
    pub(super) fn new(entries: Vec<Entry>, room: f64) -> Self {
        let swatch = if entries.iter().any(|entry| entry.line || entry.band) { SWATCH } else { DOT };
        let longest = room - swatch - GAP;
        let words: Vec<String> = entries.iter().map(|entry| LABEL.shorten(&entry.name, longest)).collect();
        let widths: Vec<f64> = words.iter().map(|words| swatch + GAP + LABEL.width(words)).collect();
        let widest = widths.iter().copied().fold(0.0, f64::max);
        let in_one_row = widths.iter().sum::<f64>() + BETWEEN * widths.len().saturating_sub(1) as f64;
        let (places, width): (Vec<(f64, f64)>, f64) = if in_one_row <= room {
            let start = |index: usize| widths[..index].iter().map(|width| width + BETWEEN).sum::<f64>();
            ((0..widths.len()).map(|index| (start(index), 0.0)).collect(), in_one_row)
        } else {
            let most = (((room + BETWEEN) / (widest + BETWEEN)).floor() as usize).clamp(1, widths.len());
            // As many columns as the rows need: six entries are two rows of three, not one of five and one of one.
            let columns = widths.len().div_ceil(widths.len().div_ceil(most));
            let place = |index: usize| ((index % columns) as f64 * (widest + BETWEEN), (index / columns) as f64 * ROW);
            ((0..widths.len()).map(place).collect(), columns as f64 * (widest + BETWEEN) - BETWEEN)
        };
        let height = places.last().map_or(0.0, |place| place.1 + ROW);
        Legend { entries, places, swatch, words, width, height }
    }

    pub(super) fn draw(&self, canvas: &mut Canvas, (left, top): (f64, f64)) {
        for ((entry, (x, y)), words) in self.entries.iter().zip(&self.places).zip(&self.words) {
            let (x, middle) = (left + x, top + y + ROW / 2.0);
            let Style { paint, dash, marker, filling } = entry.style;
            if entry.band {
                let frame = Frame { x, y: middle - 3.5, width: self.swatch, height: 7.0 };
                canvas.rect(frame, Fill::Paint(paint, super::BAND_OPACITY), None);
            }
            if entry.line {
                canvas.line((x, middle), (x + self.swatch, middle), &Stroke::new(paint, LINE).dashed(dash.pattern()));
            }
            if entry.marker {
                draw_marker(canvas, (x + self.swatch / 2.0, middle), marker, filling, paint);
            }
            let (x, y) = (x + self.swatch + GAP, middle + LABEL.capitals() / 2.0);
            canvas.text(&Text { words, x, y, font: LABEL, anchor: Anchor::Start, upright: false, paint: Paint::Ink });
        }
    }
}
