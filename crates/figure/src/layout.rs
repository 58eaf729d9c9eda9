//! Positions everything: margins are as wide as their text, and the panels share the rest.

use crate::axis::{Axis, Mapping, Scale};
use crate::extent::Extent;
use crate::legend::{self, Legend};
use crate::mark::{Colouring, Mark};
use crate::svg::Rect;
use crate::text::{LABEL, TICK, TITLE};
use crate::ticks::{Direction, Ticks};
use crate::{Figure, Panel, Sharing};

/// Margin around the figure.
const EDGE: f64 = 3.0;
/// Length of a tick.
pub(crate) const TICK_LENGTH: f64 = 2.5;
/// Space between a tick, its label and the axis label.
pub(crate) const SPACE: f64 = 2.5;
/// Height of the strip for infinite values.
pub(crate) const STRIP: f64 = 23.0;
/// Position of the marks in that strip.
const IN_STRIP: f64 = 9.0;
/// Width of the colour bar.
pub(crate) const BAR: f64 = 8.0;
/// Space between the plotting area and the colour bar.
pub(crate) const BAR_GAP: f64 = 7.0;
/// Smallest side of a plotting area.
const MIN_PLOT: f64 = 24.0;

/// A panel with its position.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) frame: Rect,
    pub(crate) x: Mapping,
    pub(crate) y: Mapping,
    pub(crate) x_ticks: Ticks,
    pub(crate) y_ticks: Ticks,
    /// Whether this panel shows the labels of an axis that it may share with others.
    pub(crate) x_shown: bool,
    pub(crate) y_shown: bool,
    /// Whether the labels of the x axis are rotated because they are too long to fit side by side.
    pub(crate) x_rotated: bool,
    pub(crate) title: Vec<String>,
    pub(crate) x_label: Vec<String>,
    pub(crate) y_label: Vec<String>,
    /// Label of the strip for infinite values, in lines.
    pub(crate) beyond: Vec<String>,
    /// Largest width of the y axis labels.
    pub(crate) y_width: f64,
    /// Largest height of the x axis labels.
    pub(crate) x_height: f64,
    pub(crate) bar: Option<Bar>,
    /// Whether the axes are drawn as lines.
    pub(crate) lined: bool,
    /// Whether this panel shows the colour bar that it may share with others.
    pub(crate) bar_shown: bool,
    /// Width of the notes right of the panel.
    pub(crate) notes: f64,
}

/// A colour bar.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    pub(crate) mapping: Mapping,
    pub(crate) ticks: Ticks,
    pub(crate) label: Vec<String>,
    pub(crate) tick_width: f64,
}

/// The layout of a whole figure.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) panels: Vec<Placed>,
    pub(crate) legend: Legend,
    pub(crate) legend_at: (f64, f64),
}

impl Layout {
    pub(crate) fn new(figure: &Figure) -> Self {
        let width = if figure.width.is_finite() { figure.width.clamp(100.0, 10_000.0) } else { crate::ONE_COLUMN };
        let columns = figure.columns.clamp(1, figure.panels.len().max(1));
        let rows = figure.panels.len().div_ceil(columns);
        let extents = extents(figure, columns).into_iter().enumerate();
        let mut panels: Vec<Placed> =
            extents.map(|(index, extents)| place_y(figure, index, extents, columns, width)).collect();
        let (lefts, rights, plot_width) = spread_columns(figure, &mut panels, columns, width);

        let mut top = EDGE;
        for row in 0..rows {
            let members = row * columns..((row + 1) * columns).min(panels.len());
            let line = &mut panels[members];
            let max = |size: &dyn Fn(&Placed) -> f64| line.iter().map(size).fold(0.0, f64::max);
            let above = max(&Placed::above);
            let below = max(&Placed::below);
            let height = max(&|placed| placed.frame.height);
            for (column, placed) in line.iter_mut().enumerate() {
                let left = EDGE + (0..column).map(|c| lefts[c] + plot_width + rights[c]).sum::<f64>() + lefts[column];
                placed.move_to(left, top + above);
            }
            top += above + height + below;
        }
        let entries = if figure.legend { legend::entries(&figure.panels) } else { Vec::new() };
        let legend = Legend::new(entries, width - 2.0 * EDGE);
        let legend_at = ((width - legend.width) / 2.0, top + 4.0);
        if legend.height > 0.0 {
            top += 4.0 + legend.height;
        }
        Layout { width, height: top + EDGE, panels, legend, legend_at }
    }
}

/// The height of a panel and everything that follows from it: its y axis.
fn place_y(figure: &Figure, index: usize, extents: (Extent, Extent), columns: usize, width: f64) -> Placed {
    let panel = &figure.panels[index];
    let (row, column) = (index / columns, index % columns);
    let height = figure.panels[row * columns..].iter().take(columns).map(min_height).fold(MIN_PLOT, f64::max);
    let (low, high) = panel.y.resolve(&extents.1);
    let strip = if panel.y.beyond.is_some() { STRIP } else { 0.0 };
    // Categories run from top to bottom.
    let (start, end) = if is_named(&panel.y) { (strip, height) } else { (height, strip) };
    let beyond = panel.y.beyond.as_ref().map(|_| IN_STRIP);
    let y = Mapping { log: panel.y.is_log(), low, high, start, end, beyond };
    let (low, high) = panel.x.resolve(&extents.0);
    let x = Mapping { log: panel.x.is_log(), low, high, start: 0.0, end: 1.0, beyond: None };

    // The labels of a shared axis are drawn only once and may take more space.
    let sharers = if figure.share_y == Sharing::None { columns } else { 1 };
    let longest = 0.4 * width / sharers as f64;
    let mut y_ticks = Ticks::new(&panel.y, &y, Direction::Y);
    y_ticks.major.iter_mut().for_each(|tick| tick.label = TICK.shorten(&tick.label, longest));
    let widths = y_ticks.major.iter().map(|tick| TICK.width(&tick.label));
    let y_width = widths.fold(0.0, f64::max);
    // Two short lines instead of a long one, to keep the margin narrow.
    let beyond = TICK.wrap(panel.y.beyond.as_deref().unwrap_or(""), y_width.max(32.0), 2);
    let y_width = beyond.iter().map(|line| TICK.width(line)).fold(y_width, f64::max);
    let y_shown = figure.share_y == Sharing::None || column == 0;
    let notes = panel.marks.iter().filter_map(|mark| match mark {
        Mark::Interval(interval) => Some(TICK.width(&interval.note)),
        _ => None,
    });
    Placed {
        frame: Rect { height, ..Rect::default() },
        x,
        y,
        x_ticks: Ticks::default(),
        y_ticks,
        x_shown: figure.share_x == Sharing::None || index + columns >= figure.panels.len(),
        y_shown,
        x_rotated: false,
        title: Vec::new(),
        x_label: Vec::new(),
        y_label: if y_shown { LABEL.wrap(&panel.y.label, height + 10.0, 2) } else { Vec::new() },
        beyond,
        y_width,
        x_height: 0.0,
        bar: panel.colouring().map(|colouring| Bar::new(&colouring, &colour_extent(figure, panel), height)),
        lined: !panel.is_filled(),
        bar_shown: !figure.share_colours || index + 1 == columns,
        notes: notes.fold(0.0, f64::max).min(0.3 * width / columns as f64),
    }
}

/// Margins of the columns, the width left for their plotting areas, and the x axes of the panels.
fn spread_columns(figure: &Figure, panels: &mut [Placed], columns: usize, width: f64) -> (Vec<f64>, Vec<f64>, f64) {
    let mut lefts = vec![0.0f64; columns];
    let mut rights = vec![0.0f64; columns];
    for (index, placed) in panels.iter().enumerate() {
        let column = index % columns;
        lefts[column] = lefts[column].max(placed.left());
        rights[column] = rights[column].max(placed.right());
    }
    let mut plot_width = MIN_PLOT;
    // Labels at the ends of an axis may reach into the margins, which makes the plotting areas smaller, which may
    // change the labels: three rounds settle it.
    for _ in 0..3 {
        let margins = lefts.iter().chain(&rights).sum::<f64>();
        plot_width = ((width - 2.0 * EDGE - margins) / columns as f64).max(MIN_PLOT);
        for (index, placed) in panels.iter_mut().enumerate() {
            placed.place_x(&figure.panels[index], plot_width);
        }
        // In a row, the labels of all panels are rotated or of none.
        for line in panels.chunks_mut(columns) {
            let crowded = line.iter().any(Placed::crowded);
            line.iter_mut().filter(|placed| crowded && placed.x_shown).for_each(Placed::rotate_x);
        }
        for (index, placed) in panels.iter().enumerate() {
            let column = index % columns;
            let (before, after) = placed.overhang();
            // Labels at the ends of neighbouring axes need space between them.
            let apart = if column > 0 && before > 0.0 { before + 3.0 } else { before };
            lefts[column] = lefts[column].max(apart);
            rights[column] = rights[column].max(after);
        }
    }
    (lefts, rights, plot_width)
}

/// The extents of each panel on its x and y axes, joined over panels that share an axis.
fn extents(figure: &Figure, columns: usize) -> Vec<(Extent, Extent)> {
    let joint = |panel: &Panel, of: fn(&Mark) -> Extent| panel.marks.iter().map(of).fold(Extent::EMPTY, Extent::join);
    let own = figure.panels.iter().map(|panel| (joint(panel, Mark::extent_x), joint(panel, Mark::extent_y)));
    let own: Vec<(Extent, Extent)> = own.collect();
    let shared = |sharing: Sharing, same: &dyn Fn(usize) -> bool, of: fn(&(Extent, Extent)) -> Extent, index: usize| {
        let sharers = (0..own.len()).filter(|&other| match sharing {
            Sharing::None => other == index,
            Sharing::Line => same(other),
            Sharing::All => true,
        });
        sharers.map(|other| of(&own[other])).fold(Extent::EMPTY, Extent::join)
    };
    let both = |index: usize| {
        let x = shared(figure.share_x, &|other| other % columns == index % columns, |extents| extents.0, index);
        let y = shared(figure.share_y, &|other| other / columns == index / columns, |extents| extents.1, index);
        (x, y)
    };
    (0..own.len()).map(both).collect()
}

fn is_named(axis: &Axis) -> bool {
    matches!(axis.scale, Scale::Categories(_))
}

/// The requested height, or more if the categories of the y axis need it.
fn min_height(panel: &Panel) -> f64 {
    let asked = if panel.height.is_finite() { panel.height.clamp(MIN_PLOT, 10_000.0) } else { 100.0 };
    match &panel.y.scale {
        Scale::Categories(names) => asked.max(names.len() as f64 * (TICK.line() + 1.0)),
        Scale::Linear | Scale::Log => asked,
    }
}

/// The extent of the coloured values of a panel, or of all panels if they share their colours.
fn colour_extent(figure: &Figure, panel: &Panel) -> Extent {
    let sharers = if figure.share_colours { &figure.panels[..] } else { std::slice::from_ref(panel) };
    let values = sharers.iter().filter_map(Panel::colouring).flat_map(|colouring| colouring.rows.iter().flatten());
    Extent::from_values(values.copied())
}

impl Panel {
    pub(crate) fn colouring(&self) -> Option<Colouring<'_>> {
        self.marks.iter().find_map(Mark::colouring)
    }

    /// Whether coloured cells fill the panel: it then needs neither a grid nor axis lines.
    pub(crate) fn is_filled(&self) -> bool {
        self.marks.iter().any(|mark| matches!(mark, Mark::Heatmap(_)))
    }
}

impl Bar {
    fn new(colouring: &Colouring<'_>, extent: &Extent, height: f64) -> Self {
        let scale = colouring.scale;
        let (low, high) = scale.resolve(extent);
        let mapping = Mapping { log: scale.is_log(), low, high, start: height, end: 0.0, beyond: None };
        let ticks = Ticks::new(scale, &mapping, Direction::Y);
        let tick_width = ticks.major.iter().map(|tick| TICK.width(&tick.label)).fold(0.0, f64::max);
        Bar { mapping, ticks, label: LABEL.wrap(&scale.label, height + 10.0, 2), tick_width }
    }

    /// The position of a value on the colour bar: from 0 to 1 within the limits.
    pub(crate) fn share(&self, value: f64) -> Option<f64> {
        let Mapping { start, end, .. } = self.mapping;
        Some((self.mapping.at(value)? - start) / (end - start))
    }

    /// Width including gap, ticks and labels.
    fn width(&self) -> f64 {
        let label = if self.label.is_empty() { 0.0 } else { SPACE + self.label.len() as f64 * LABEL.line() };
        BAR_GAP + BAR + TICK_LENGTH + SPACE + self.tick_width + label + 2.0
    }
}

impl Placed {
    /// Width of everything left of the plotting area.
    fn left(&self) -> f64 {
        if !self.y_shown {
            return 8.0;
        }
        let label = if self.y_label.is_empty() { 0.0 } else { 3.0 + self.y_label.len() as f64 * LABEL.line() };
        TICK_LENGTH + SPACE + self.y_width + label
    }

    /// Width of everything right of the plotting area.
    fn right(&self) -> f64 {
        let bar = self.bar.as_ref().filter(|_| self.bar_shown).map_or(0.0, Bar::width);
        let notes = if self.notes > 0.0 { self.notes + 7.0 } else { 0.0 };
        4.0 + bar.max(notes)
    }

    /// Height of everything above the plotting area.
    fn above(&self) -> f64 {
        let title = self.title.len() as f64 * TITLE.line();
        // The topmost y label is centred on the edge.
        if title > 0.0 { title + 4.0 } else { 5.0 }
    }

    /// Height of everything below the plotting area.
    fn below(&self) -> f64 {
        if !self.x_shown {
            return 6.0;
        }
        let label = if self.x_label.is_empty() { 0.0 } else { 1.0 + self.x_label.len() as f64 * LABEL.line() };
        TICK_LENGTH + SPACE + self.x_height + label + 2.0
    }

    fn place_x(&mut self, panel: &Panel, width: f64) {
        self.frame.width = width;
        self.x.end = width;
        self.x_ticks = Ticks::new(&panel.x, &self.x, Direction::X);
        self.x_rotated = false;
        self.x_height = if self.x_ticks.major.is_empty() { 0.0 } else { TICK.line() };
        self.title = TITLE.wrap(&panel.title, width + 4.0, 2);
        self.x_label = if self.x_shown { LABEL.wrap(&panel.x.label, width + 8.0, 2) } else { Vec::new() };
    }

    /// Whether labels of the x axis overlap. Numbers never do, categories may.
    fn crowded(&self) -> bool {
        let labels: Vec<(f64, f64)> =
            self.x_ticks.major.iter().filter_map(|t| Some((self.x.at(t.value)?, TICK.width(&t.label)))).collect();
        self.x_shown && labels.windows(2).any(|pair| pair[1].0 - pair[0].0 < (pair[0].1 + pair[1].1) / 2.0 + 4.0)
    }

    /// Rotates the labels of the x axis, and drops some if there are still too many.
    fn rotate_x(&mut self) {
        self.x_rotated = true;
        let places: Vec<f64> = self.x_ticks.major.iter().filter_map(|tick| self.x.at(tick.value)).collect();
        let spacing = places.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::INFINITY, f64::min).max(0.1);
        let every = (TICK.line() / spacing).ceil().max(1.0) as usize;
        let major = std::mem::take(&mut self.x_ticks.major);
        self.x_ticks.major = major.into_iter().step_by(every).collect();
        self.x_ticks.major.iter_mut().for_each(|tick| tick.label = TICK.shorten(&tick.label, 80.0));
        self.x_height = self.x_ticks.major.iter().map(|tick| TICK.width(&tick.label)).fold(0.0, f64::max);
    }

    /// How far labels of the x axis extend past the plotting area on the left and on the right, plus a small gap.
    fn overhang(&self) -> (f64, f64) {
        if !self.x_shown || self.x_rotated {
            return (0.0, 0.0);
        }
        let ends = self.x_ticks.major.iter().filter_map(|tick| {
            let middle = self.x.at(tick.value)?;
            let half = TICK.width(&tick.label) / 2.0 + 2.0;
            Some((half - middle, middle + half - self.frame.width))
        });
        ends.fold((0.0, 0.0), |max, end| (f64::max(max.0, end.0), f64::max(max.1, end.1)))
    }

    fn move_to(&mut self, x: f64, y: f64) {
        self.frame.x = x;
        self.frame.y = y;
        let bar = self.bar.as_mut().map(|bar| &mut bar.mapping);
        for mapping in [&mut self.y].into_iter().chain(bar) {
            mapping.start += y;
            mapping.end += y;
            mapping.beyond = mapping.beyond.map(|place| place + y);
        }
        self.x.start += x;
        self.x.end += x;
    }
}
