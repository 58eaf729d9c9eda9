//! Draws the marks of a laid-out figure.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::colour::Rgb;
use crate::contour::iso_lines;
use crate::layout::{Bar, Layout, Placed};
use crate::mark::{
    Band, Contours, End, Heatmap, Interpolation, Interval, Line, Mark, Points, Reference, Rule, Slopes, Spacing,
};
use crate::number::significant;
use crate::shape::{averaged, draw_marker, simplified};
use crate::style::{Filling, Paint, Style};
use crate::svg::{Anchor, Canvas, Fill, Path, Rect, Stroke, Text};
use crate::text::TICK;
use crate::{BAND_OPACITY, Background, Figure, LINE, frame, hover};
use crate::{contour_fill, contour_labels};

/// Width of a contour line.
const CONTOUR: f64 = 0.5;
/// Width of a contour line with a number.
const LABELLED_CONTOUR: f64 = 1.0;
/// Opacity of a line that stands for one observation.
const PALE: f64 = 0.4;
/// Opacity of cells without a finite value.
const EMPTY: f64 = 0.25;

impl Figure {
    /// The figure as SVG. The same figure gives the same bytes.
    pub fn svg(&self, background: Background) -> String {
        let layout = Layout::new(self);
        let mut canvas = Canvas::new(layout.width, layout.height, &self.title, &self.caption, background);
        for (panel, placed) in self.panels.iter().zip(&layout.panels) {
            if panel.colouring().is_none() {
                frame::draw_grid(&mut canvas, placed);
            }
            let mut marks: Vec<&Mark> = panel.marks.iter().collect();
            marks.sort_by_key(|mark| layer(mark));
            let names = names_of(&panel.marks);
            let mut drawing =
                Drawing { canvas: &mut canvas, placed, names: &names, marks: &panel.marks, labelled: Vec::new() };
            // Half the width of a line along the edge lies outside the plotting area.
            let margin = if panel.is_filled() { 0.0 } else { 1.0 };
            drawing.canvas.open_clip(placed.frame.grown(margin));
            marks.iter().for_each(|mark| drawing.clipped(mark));
            drawing.canvas.close_clip();
            frame::draw_axes(drawing.canvas, placed);
            marks.iter().for_each(|mark| drawing.unclipped(mark));
            drawing.point_labels();
            if self.hover {
                marks.iter().for_each(|mark| hover::add(drawing.canvas, placed, panel, mark));
            }
            if let (Some(bar), Some(colouring)) = (placed.bar.as_ref().filter(|_| placed.bar_shown), panel.colouring())
            {
                frame::draw_bar(&mut canvas, placed.frame, bar, colouring.colour_map);
            }
        }
        layout.legend.draw(&mut canvas, layout.legend_at);
        canvas.finish()
    }
}

/// Marks of higher layers are drawn over those of lower ones.
fn layer(mark: &Mark) -> usize {
    match mark {
        Mark::Heatmap(_) => 0,
        Mark::Band(_) | Mark::Contours(_) => 1,
        Mark::Rule(_) => 2,
        Mark::Line(line) if line.pale => 3,
        Mark::Line(_) | Mark::Slopes(_) | Mark::Interval(_) => 4,
        Mark::Points(_) => 5,
    }
}

/// The series whose markers could coincide.
fn names_of(marks: &[Mark]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for mark in marks {
        if let Mark::Line(Line { series, markers: true, .. }) = mark
            && !names.contains(&series.name.as_str())
        {
            names.push(&series.name);
        }
    }
    names
}

struct Drawing<'a> {
    canvas: &'a mut Canvas,
    placed: &'a Placed,
    /// The series of the panel that have lines with markers.
    names: &'a [&'a str],
    /// All marks of the panel.
    marks: &'a [Mark],
    /// Where horizontal lines have their texts: left and right end, baseline.
    labelled: Vec<(f64, f64, f64)>,
}

impl Drawing<'_> {
    /// The part of a mark that is clipped to the plotting area.
    fn clipped(&mut self, mark: &Mark) {
        match mark {
            Mark::Line(line) => self.line(line),
            Mark::Band(band) => self.band(band),
            Mark::Slopes(slopes) => self.slopes(slopes),
            Mark::Rule(rule) => self.rule(rule),
            Mark::Heatmap(map) => self.heatmap(map),
            Mark::Contours(contours) => self.contours(contours),
            Mark::Points(_) | Mark::Interval(_) => {}
        }
    }

    /// The part of a mark that may overlap the edge: markers are drawn whole or not at all.
    fn unclipped(&mut self, mark: &Mark) {
        match mark {
            Mark::Line(line) if line.markers => self.line_markers(line),
            Mark::Points(points) => self.points(points),
            Mark::Interval(interval) => self.interval(interval),
            Mark::Slopes(slopes) => self.slope_markers(slopes),
            Mark::Rule(rule) => self.rule_label(rule),
            Mark::Heatmap(map) if map.numbers => self.cell_numbers(map),
            Mark::Line(_) | Mark::Band(_) | Mark::Heatmap(_) | Mark::Contours(_) => {}
        }
    }

    fn place(&self, (x, y): (f64, f64)) -> Option<(f64, f64)> {
        Some((self.placed.x.at(x)?, self.placed.y.at(y)?))
    }

    fn shows(&self, (x, y): (f64, f64)) -> bool {
        self.placed.x.shows(x) && self.placed.y.shows(y)
    }

    fn marker(&mut self, at: (f64, f64), series: &crate::Series, filling: Filling) {
        if let Some(place) = self.place(at).filter(|_| self.shows(at)) {
            draw_marker(self.canvas, place, series.style.marker, filling, series.style.paint);
        }
    }

    fn line(&mut self, line: &Line) {
        let mut path = Path::default();
        // A value that the axis cannot show interrupts the line.
        for piece in line.points.split(|&point| self.place(point).is_none()) {
            let places: Vec<(f64, f64)> = piece.iter().filter_map(|&point| self.place(point)).collect();
            path.add(&interpolated(&places, line.interpolation), false);
        }
        let Style { paint, dash, .. } = line.series.style;
        let stroke = if line.pale {
            Stroke::new(paint, 1.0).faint(PALE)
        } else {
            Stroke::new(paint, LINE).dashed(dash.pattern())
        };
        self.canvas.path(&path, Fill::None, Some(&stroke));
    }

    /// A few markers, evenly spread along the drawn line and offset from those of the other series.
    fn line_markers(&mut self, line: &Line) {
        let shown = line.points.iter().filter(|&&point| self.shows(point));
        let mut places: Vec<(f64, f64)> = shown.filter_map(|&point| self.place(point)).collect();
        if line.interpolation == Interpolation::Linear {
            places = averaged(&places);
        }
        let slot = self.names.iter().position(|name| *name == line.series.name).unwrap_or(0) as f64 + 0.5;
        let slots = self.names.len().max(1) as f64;
        let frame = self.placed.frame;
        let count = if frame.width < 130.0 { 3 } else { 5 };
        let mut chosen: Vec<usize> = Vec::new();
        for index in 0..count {
            let x = frame.x + frame.width * (f64::from(index) + slot / slots) / f64::from(count);
            let away = |index: usize| (places[index].0 - x).abs();
            let nearest = (0..places.len()).min_by(|&a, &b| away(a).total_cmp(&away(b)));
            chosen.extend(nearest.filter(|&nearest| away(nearest) < frame.width / f64::from(2 * count)));
        }
        // A line too short to get a marker is usually a single point and would be invisible without one.
        if chosen.is_empty() && !places.is_empty() {
            chosen.push(0);
        }
        chosen.dedup();
        let Style { paint, marker, filling, .. } = line.series.style;
        chosen.into_iter().for_each(|index| draw_marker(self.canvas, places[index], marker, filling, paint));
    }

    fn band(&mut self, band: &Band) {
        let edges = |&(x, low, high): &(f64, f64, f64)| {
            let (x, low, high) = (self.placed.x.at(x)?, self.placed.y.edge(low)?, self.placed.y.edge(high)?);
            Some(((x, low), (x, high)))
        };
        let mut path = Path::default();
        for piece in band.edges.split(|edge| edges(edge).is_none()) {
            let (lower, upper): (Vec<_>, Vec<_>) = piece.iter().filter_map(edges).unzip();
            let mut outline = interpolated(&upper, band.interpolation);
            outline.extend(interpolated(&lower, band.interpolation).into_iter().rev());
            path.add(&outline, true);
        }
        self.canvas.path(&path, Fill::Paint(band.series.style.paint, BAND_OPACITY), None);
    }

    fn points(&mut self, points: &Points) {
        let mut series = points.series.clone();
        series.style.marker = points.marker.unwrap_or(series.style.marker);
        points.points.iter().for_each(|&point| self.marker(point, &series, series.style.filling));
    }

    /// Writes the labels of all points of the panel, right or left of them; one without room there is left out.
    fn point_labels(&mut self) {
        let frame = self.placed.frame;
        let mut taken = self.marker_areas();
        let marks =
            self.marks.iter().filter_map(|mark| if let Mark::Points(points) = mark { Some(points) } else { None });
        let labels = marks.flat_map(|points| points.points.iter().zip(&points.labels)).collect::<Vec<_>>();
        for (&point, label) in labels {
            let Some((x, y)) = self.place(point).filter(|_| self.shows(point)) else { continue };
            let (width, height) = (TICK.width(label), TICK.capitals());
            let area = |left: f64| Rect { x: left, y: y - height / 2.0, width, height }.grown(0.8);
            let is_free = |area: &Rect| {
                let is_inside = area.x >= frame.x && area.right() <= frame.right();
                is_inside && !taken.iter().any(|other| area.overlaps(other))
            };
            let sides = [x + 5.0, x - 5.0 - width];
            let Some(left) = sides.into_iter().find(|&left| is_free(&area(left))) else { continue };
            taken.push(area(left));
            self.write(label, (left, y + height / 2.0), Anchor::Start, Paint::Ink);
        }
    }

    fn slopes(&mut self, slopes: &Slopes) {
        for &(left, right) in &slopes.pairs {
            let ends = (self.place((slopes.between.0, left)), self.place((slopes.between.1, right)));
            if let (Some(from), Some(to)) = ends {
                // An infinite value was not measured, so no solid line leads to it.
                let reached = left.is_finite() && right.is_finite();
                let dashes = if reached { Vec::new() } else { vec![2.5, 2.0] };
                self.canvas.line(from, to, &Stroke::new(slopes.series.style.paint, 1.0).faint(0.6).dashed(dashes));
            }
        }
    }

    fn slope_markers(&mut self, slopes: &Slopes) {
        let Slopes { series, between: (left, right), pairs, from } = slopes;
        let baseline = crate::Series { style: *from, ..series.clone() };
        for &(one, other) in pairs {
            for (end, series) in [((*left, one), &baseline), ((*right, other), series)] {
                let filling = if end.1.is_finite() { Filling::Full } else { Filling::Hollow };
                self.marker(end, series, filling);
            }
        }
    }

    fn interval(&mut self, interval: &Interval) {
        let frame = self.placed.frame;
        let Some(y) = self.placed.y.at(interval.row).filter(|_| self.placed.y.shows(interval.row)) else { return };
        let note = TICK.shorten(&interval.note, self.placed.notes);
        let at = (frame.right() + 7.0, y + TICK.capitals() / 2.0);
        self.write(&note, at, Anchor::Start, Paint::Ink);
        let Some(value) = self.placed.x.at(interval.value) else { return };
        let stroke = Stroke::new(interval.series.style.paint, LINE);
        for (end, edge, direction) in [(interval.low, frame.x, -1.0), (interval.high, frame.right(), 1.0)] {
            let place = match end {
                End::At(end) => self.placed.x.at(end).filter(|&place| place >= frame.x && place <= frame.right()),
                End::Open => None,
            };
            let from = (value.clamp(frame.x, frame.right()), y);
            match (place, end) {
                (Some(place), _) => {
                    self.canvas.line(from, (place, y), &stroke);
                    if (place - value).abs() > 0.5 {
                        self.canvas.line((place, y - 2.2), (place, y + 2.2), &stroke);
                    }
                }
                // Without a number there is no end to draw.
                (None, End::At(end)) if end.is_nan() => {}
                (None, _) => {
                    self.canvas.line(from, (edge - 2.0 * direction, y), &stroke);
                    let tail = edge - 4.5 * direction;
                    let head = [(tail, y - 2.6), (edge, y), (tail, y + 2.6)];
                    self.canvas.path(&Path::around(&head), Fill::Paint(interval.series.style.paint, 1.0), None);
                }
            }
        }
        let filling = if interval.bound { Filling::Hollow } else { Filling::Full };
        self.marker((interval.value, interval.row), &interval.series, filling);
    }

    /// The end points of a reference line on the canvas.
    fn rule_ends(&self, at: Reference) -> Option<[(f64, f64); 2]> {
        let (frame, x, y) = (self.placed.frame, &self.placed.x, &self.placed.y);
        match at {
            Reference::X(value) => {
                let place = x.at(value).filter(|_| x.shows(value))?;
                Some([(place, frame.y), (place, frame.bottom())])
            }
            Reference::Y(value) => {
                let place = y.at(value).filter(|_| y.shows(value))?;
                Some([(frame.x, place), (frame.right(), place)])
            }
            Reference::Diagonal => {
                let (low, high) = (x.low.max(y.low), x.high.min(y.high));
                (low < high).then_some([(x.at(low)?, y.at(low)?), (x.at(high)?, y.at(high)?)])
            }
        }
    }

    fn rule(&mut self, rule: &Rule) {
        if let Some([from, to]) = self.rule_ends(rule.at) {
            self.canvas.line(from, to, &Stroke::new(Paint::Ink, 1.0).faint(0.65).dashed(vec![3.0, 2.0]));
        }
    }

    fn rule_label(&mut self, rule: &Rule) {
        let Some([from, to]) = self.rule_ends(rule.at) else { return };
        let frame = self.placed.frame;
        let (text, above) = (TICK.shorten(&rule.label, frame.width - 6.0), TICK.capitals() + 1.0);
        let width = TICK.width(&text);
        let (at, anchor) = match rule.at {
            Reference::X(_) if from.0 + 3.0 + width <= frame.right() => {
                ((from.0 + 3.0, frame.y + above), Anchor::Start)
            }
            Reference::X(_) => ((from.0 - 3.0, frame.y + above), Anchor::End),
            Reference::Y(_) => self.beside_rule(to.1, width, above),
            // Left of the point where the line crosses the baseline of the text.
            Reference::Diagonal => {
                let share = ((above + 3.0) / (from.1 - to.1).max(1.0)).min(1.0);
                ((to.0 - share * (to.0 - from.0) - 3.0, to.1 + above), Anchor::End)
            }
        };
        self.write(&text, at, anchor, Paint::Ink);
    }

    /// Where the text of a horizontal line at `y` stands: at its right end unless curves run through it there and through fewer points
    /// elsewhere. Near the top it stands below the line, because curves that have passed the line run above it.
    /// It lies on no text of another line, and on no other line if that can be.
    fn beside_rule(&mut self, y: f64, width: f64, above: f64) -> ((f64, f64), Anchor) {
        let frame = self.placed.frame;
        let (over, under) = (y - 2.5, y + above + 2.0);
        let is_near_top = y - frame.y < (above + 2.0).max(0.25 * frame.height);
        let near = if is_near_top { [under, over] } else { [over, under] };
        // Only if the texts of other lines leave no room next to this one.
        let far = [over - above - 1.5, under + above + 1.5];
        let ends = [(frame.right(), frame.right() - width, Anchor::End), (frame.x + 3.0, frame.x + 3.0, Anchor::Start)];
        let lines = || self.marks.iter().filter_map(|mark| if let Mark::Line(line) = mark { Some(line) } else { None });
        let points: Vec<(f64, f64)> =
            lines().flat_map(|line| &line.points).filter_map(|point| self.place(*point)).collect();
        let height = |mark: &Mark| match mark {
            Mark::Rule(Rule { at: at @ Reference::Y(_), .. }) => Some(self.rule_ends(*at)?[0].1),
            _ => None,
        };
        let rules: Vec<f64> = self.marks.iter().filter_map(height).collect();
        let covered = |left: f64, baseline: f64| {
            let is_inside = |&&(x, y): &&(f64, f64)| {
                (left..=left + width).contains(&x) && (baseline - above..=baseline + 1.0).contains(&y)
            };
            let is_crossed = |other: f64| other != y && (baseline - above..=baseline + 1.0).contains(&other);
            let is_on_text = |&&(start, end, other): &&(f64, f64, f64)| {
                left < end && start < left + width && (baseline - other).abs() < above + 1.0
            };
            let texts = self.labelled.iter().filter(is_on_text).count();
            (
                texts,
                far.contains(&baseline),
                rules.iter().filter(|&&other| is_crossed(other)).count(),
                points.iter().filter(is_inside).count(),
            )
        };
        let fits = |baseline: &f64| baseline - above >= frame.y && *baseline <= frame.bottom();
        let places = near.into_iter().chain(far).filter(fits).flat_map(|baseline| ends.map(|end| (baseline, end)));
        let best = places.min_by_key(|(baseline, (_, left, _))| covered(*left, *baseline));
        let (baseline, (x, left, anchor)) = best.unwrap_or((near[0], ends[0]));
        self.labelled.push((left, left + width, baseline));
        ((x, baseline), anchor)
    }

    /// Merges neighbouring cells of one colour, and all areas of one colour into one path, to keep files small.
    fn heatmap(&mut self, map: &Heatmap) {
        let Some(bar) = &self.placed.bar else { return };
        let mut empty = Path::default();
        let mut paths: BTreeMap<usize, Path> = BTreeMap::new();
        for (row, values) in map.rows.iter().enumerate() {
            let mut first = 0;
            for run in values.chunk_by(|&a, &b| colour_index(bar, a) == colour_index(bar, b)) {
                let columns = first..first + run.len();
                first = columns.end;
                let Some(area) = self.cells(map, row, columns) else { continue };
                match colour_index(bar, run[0]) {
                    Some(index) => paths.entry(index).or_default().add_rect(overlapping(area, run.len())),
                    None => empty.add_rect(area),
                }
            }
        }
        self.canvas.path(&empty, Fill::Paint(Paint::Ink, EMPTY), None);
        for (index, path) in &paths {
            self.canvas.path(path, Fill::Paint(Paint::Colour(map.colour_map.at(share_of(*index))), 1.0), None);
        }
    }

    /// The value of each cell in its middle, where there is room for it.
    fn cell_numbers(&mut self, map: &Heatmap) {
        for (row, values) in map.rows.iter().enumerate() {
            for (column, &value) in values.iter().enumerate() {
                let Some(area) = self.cells(map, row, column..column + 1) else { continue };
                let share = self.placed.bar.as_ref().and_then(|bar| colour_index(bar, value)).map(share_of);
                let Some(colour) = share.map(|share| map.colour_map.at(share)) else { continue };
                let text = if value.fract() == 0.0 { value.to_string() } else { significant(value, 3) };
                let is_dark = colour.contrast(Rgb::WHITE) > colour.contrast(Rgb::INK);
                if TICK.width(&text) + 2.0 <= area.width && TICK.capitals() + 2.0 <= area.height {
                    let middle = (area.x + area.width / 2.0, area.y + area.height / 2.0 + TICK.capitals() / 2.0);
                    let ink = if is_dark { Rgb::WHITE } else { Rgb::INK };
                    self.write(&text, middle, Anchor::Middle, Paint::Colour(ink));
                }
            }
        }
    }

    /// The area of neighbouring cells.
    fn cells(&self, map: &Heatmap, row: usize, columns: Range<usize>) -> Option<Rect> {
        let before = |index: usize| index as f64 - 0.5;
        let x = [columns.start, columns.end].map(|column| self.placed.x.edge(map.columns().at(before(column))));
        let y = [row, row + 1].map(|row| self.placed.y.edge(map.lines().at(before(row))));
        let ([Some(left), Some(right)], [Some(low), Some(high)]) = (x, y) else { return None };
        Some(between((left, low), (right, high)))
    }

    /// The bands between the levels, in the colours of the bar, with a line at each level. A level that is also a labelled
    /// tick of the bar carries its number.
    fn contours(&mut self, contours: &Contours) {
        let Some(bar) = &self.placed.bar else { return };
        let scaled = |value: f64| if bar.mapping.log { value.log10() } else { value };
        let rows: Vec<Vec<f64>> =
            contours.rows.iter().map(|row| row.iter().map(|&value| scaled(value)).collect()).collect();
        let columns = contours.rows.iter().map(Vec::len).max().unwrap_or(0);
        let grid = (Spacing::new(contours.x, columns), Spacing::new(contours.y, rows.len()));
        let shares: Vec<(f64, f64)> =
            contours.levels.iter().filter_map(|&level| Some((level, bar.share(level)?))).collect();
        // Each band covers everything above its level; the next one is painted over it.
        let mut lower = 0.0;
        let floor = (f64::NEG_INFINITY, 0.0);
        for (index, &(level, share)) in std::iter::once(&floor).chain(&shares).enumerate() {
            let upper = shares.get(index).map_or(1.0, |next| next.1);
            lower = if index == 0 { lower } else { share };
            let mut path = Path::default();
            for polygon in contour_fill::above(&rows, if index == 0 { level } else { scaled(level) }) {
                let corners: Vec<(f64, f64)> = polygon
                    .iter()
                    .filter_map(|&(column, row)| self.place((grid.0.at(column), grid.1.at(row))))
                    .collect();
                path.add(&corners, true);
            }
            let colour = contours.colour_map.at((lower + upper) / 2.0);
            self.canvas.path(&path, Fill::Paint(Paint::Colour(colour), 1.0), None);
        }
        self.unknown_cells(&rows, grid);
        let is_labelled = |level: f64| bar.ticks.major.iter().find(|tick| (tick.value / level - 1.0).abs() < 1e-6);
        let lines = |level: f64| self.iso_lines(&rows, scaled(level), grid);
        let drawn: Vec<_> = shares.iter().map(|&(level, share)| (share, is_labelled(level), lines(level))).collect();
        for (share, label, lines) in &drawn {
            let mut path = Path::default();
            lines.iter().for_each(|line| path.add(&simplified(line), line.first() == line.last()));
            let width = if label.is_some() { LABELLED_CONTOUR } else { CONTOUR };
            // Dark lines on pale colours, white ones on dark colours.
            let (paint, opacity) = if *share < 0.6 { (Rgb::INK, 0.7) } else { (Rgb::WHITE, 0.8) };
            self.canvas.path(&path, Fill::None, Some(&Stroke::new(Paint::Colour(paint), width).faint(opacity)));
        }
        let mut taken = self.marker_areas();
        for (_, label, lines) in &drawn {
            let Some(tick) = label else { continue };
            let size = (TICK.width(&tick.label) + 3.0, TICK.capitals() + 3.0);
            let Some(area) = contour_labels::place(lines, size, self.placed.frame, &taken) else { continue };
            self.canvas.rect(area, Fill::Paper, None);
            let middle = (area.x + area.width / 2.0, area.bottom() - 1.5);
            self.write(&tick.label, middle, Anchor::Middle, Paint::Ink);
            taken.push(area.grown(1.5));
        }
    }

    /// Grey cells next to values that are not finite; they have no contour lines.
    fn unknown_cells(&mut self, rows: &[Vec<f64>], (columns, lines): (Spacing, Spacing)) {
        let mut path = Path::default();
        for (row, pair) in rows.windows(2).enumerate() {
            let unknown = |column: usize| {
                let corners = pair.iter().flat_map(|row| [row.get(column), row.get(column + 1)]);
                corners.flatten().any(|value| !value.is_finite())
            };
            let cells: Vec<usize> = (0..pair[0].len().saturating_sub(1)).filter(|&column| unknown(column)).collect();
            for run in cells.chunk_by(|a, b| a + 1 == *b) {
                let corner = |column: usize, row: usize| self.place((columns.at(column as f64), lines.at(row as f64)));
                let ends = (corner(run[0], row), corner(run[run.len() - 1] + 1, row + 1));
                if let (Some(from), Some(to)) = ends {
                    path.add_rect(between(from, to));
                }
            }
        }
        self.canvas.path(&path, Fill::Paint(Paint::Ink, EMPTY), None);
    }

    /// The contour lines of a level on the canvas.
    fn iso_lines(&self, rows: &[Vec<f64>], level: f64, (columns, lines): (Spacing, Spacing)) -> Vec<Vec<(f64, f64)>> {
        let on_canvas = |&(column, row): &(f64, f64)| self.place((columns.at(column), lines.at(row)));
        iso_lines(rows, level).iter().map(|line| line.iter().filter_map(on_canvas).collect()).collect()
    }

    /// The areas of the panel's markers, which contour labels must not cover.
    fn marker_areas(&self) -> Vec<Rect> {
        let points = self.marks.iter().filter_map(|mark| match mark {
            Mark::Points(points) => Some(&points.points),
            _ => None,
        });
        let places = points.flatten().filter_map(|&point| self.place(point));
        places.map(|(x, y)| Rect { x, y, width: 0.0, height: 0.0 }.grown(3.2)).collect()
    }

    fn write(&mut self, text: &str, (x, y): (f64, f64), anchor: Anchor, paint: Paint) {
        self.canvas.text(&Text { content: text, x, y, font: TICK, anchor, rotated: false, paint });
    }
}

/// The rectangle between two opposite corners.
fn between(a: (f64, f64), b: (f64, f64)) -> Rect {
    Rect { x: a.0.min(b.0), y: a.1.min(b.1), width: (a.0 - b.0).abs(), height: (a.1 - b.1).abs() }
}

/// Shades of a heat map: as many as the colour bar has.
const SHADES: usize = 64;

/// The shade of a value; None if it cannot be shown.
fn colour_index(bar: &Bar, value: f64) -> Option<usize> {
    Some((bar.share(value)?.clamp(0.0, 1.0) * (SHADES - 1) as f64).round() as usize)
}

fn share_of(index: usize) -> f64 {
    index as f64 / (SHADES - 1) as f64
}

/// Cells with a little overlap, so that the background does not show through between them.
fn overlapping(area: Rect, cells: usize) -> Rect {
    let within = |side: f64| (0.4 * side).min(0.3);
    Rect { width: area.width + within(area.width / cells as f64), height: area.height + within(area.height), ..area }
}

/// The vertices of a drawn line: no more than can be seen, including the corners of steps.
fn interpolated(points: &[(f64, f64)], interpolation: Interpolation) -> Vec<(f64, f64)> {
    match interpolation {
        Interpolation::Linear => simplified(&averaged(points)),
        Interpolation::Steps => {
            let corners = points.windows(2).flat_map(|pair| [(pair[1].0, pair[0].1), pair[1]]);
            let corners: Vec<(f64, f64)> = points.first().copied().into_iter().chain(corners).collect();
            simplified(&corners)
        }
    }
}
