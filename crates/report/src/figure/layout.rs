//! Where everything stands: margins are as wide as what is written into them, the panels share the rest.

use super::axis::{Axis, Mapping, Scale};
use super::legend::{self, Legend};
use super::mark::{Colouring, Extent, Mark};
use super::svg::Frame;
use super::text::{LABEL, TICK, TITLE};
use super::ticks::{Direction, Ticks};
use super::{Figure, Panel, Place, Sharing};

/// Free space around the whole.
const EDGE: f64 = 3.0;
/// Length of a tick.
pub(super) const TICK_LENGTH: f64 = 2.5;
/// Space between a tick, its label and the name of the axis.
pub(super) const SPACE: f64 = 2.5;
/// Height of the strip for what has not been reached.
pub(super) const STRIP: f64 = 23.0;
/// Where in it the marks stand.
const IN_STRIP: f64 = 9.0;
/// Width of the bar that explains the colours.
pub(super) const BAR: f64 = 8.0;
/// Space between plotting area and bar.
pub(super) const BAR_GAP: f64 = 7.0;
/// No plotting area is smaller.
const LEAST: f64 = 24.0;

/// A panel and its place.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) frame: Frame,
    pub(super) x: Mapping,
    pub(super) y: Mapping,
    pub(super) x_ticks: Ticks,
    pub(super) y_ticks: Ticks,
    /// Whether the labels of the axis are written here, and not at another panel that shares it.
    pub(super) x_shown: bool,
    pub(super) y_shown: bool,
    /// Whether the labels of the x axis are turned, because they are too long to stand side by side.
    pub(super) x_upright: bool,
    pub(super) title: Vec<String>,
    pub(super) x_label: Vec<String>,
    pub(super) y_label: Vec<String>,
    /// The words of the strip beyond the y axis.
    pub(super) beyond: Vec<String>,
    /// Greatest width of the labels of the y axis.
    pub(super) y_width: f64,
    /// Greatest extent of the labels of the x axis downwards.
    pub(super) x_height: f64,
    pub(super) bar: Option<Bar>,
    /// Whether lines run along both axes.
    pub(super) lined: bool,
    /// Whether the bar is drawn here, and not at another panel of the same colours.
    pub(super) bar_shown: bool,
    /// Room for words at the right of the panel.
    pub(super) notes: f64,
}

/// The bar that explains the colours.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    pub(super) mapping: Mapping,
    pub(super) ticks: Ticks,
    pub(super) label: Vec<String>,
    pub(super) tick_width: f64,
}

/// The places of a whole figure.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) panels: Vec<Placed>,
    pub(super) legend: Legend,
    pub(super) legend_at: (f64, f64),
}

impl Layout {
    pub(super) fn new(figure: &Figure) -> Self {
        let width = if figure.width.is_finite() { figure.width.clamp(100.0, 10_000.0) } else { super::ONE_COLUMN };
        let columns = figure.columns.clamp(1, figure.panels.len().max(1));
        let rows = figure.panels.len().div_ceil(columns);
        let extents = extents(figure, columns).into_iter().enumerate();
        let mut panels: Vec<Placed> =
            extents.map(|(index, extents)| place_y(figure, index, extents, columns, width)).collect();
        let (lefts, rights, plot_width) = spread_columns(figure, &mut panels, columns, width);

        let legend = match figure.legend {
            Place::Hidden => Legend::default(),
            Place::Above | Place::Below => Legend::new(legend::entries(&figure.panels), width - 2.0 * EDGE),
        };
        let mut top = EDGE;
        let centred = EDGE + (width - 2.0 * EDGE - legend.width) / 2.0;
        let mut legend_at = (centred, top);
        if figure.legend == Place::Above && legend.height > 0.0 {
            top += legend.height + 4.0;
        }
        for row in 0..rows {
            let members = row * columns..((row + 1) * columns).min(panels.len());
            let line = &mut panels[members];
            let greatest = |of: &dyn Fn(&Placed) -> f64| line.iter().map(of).fold(0.0, f64::max);
            let above = greatest(&Placed::above);
            let below = greatest(&Placed::below);
            let height = greatest(&|placed| placed.frame.height);
            for (column, placed) in line.iter_mut().enumerate() {
                let left = EDGE + (0..column).map(|c| lefts[c] + plot_width + rights[c]).sum::<f64>() + lefts[column];
                placed.move_to(left, top + above);
            }
            top += above + height + below;
        }
        if figure.legend == Place::Below && legend.height > 0.0 {
            legend_at.1 = top + 4.0;
            top += 4.0 + legend.height;
        }
        Layout { width, height: top + EDGE, panels, legend, legend_at }
    }
}

/// The height of a panel and all that follows from it: its y axis.
fn place_y(figure: &Figure, index: usize, extents: (Extent, Extent), columns: usize, width: f64) -> Placed {
    let panel = &figure.panels[index];
    let (row, column) = (index / columns, index % columns);
    let height = figure.panels[row * columns..].iter().take(columns).map(least_height).fold(LEAST, f64::max);
    let (low, high) = panel.y.resolve(&extents.1);
    let strip = if panel.y.beyond.is_some() { STRIP } else { 0.0 };
    // Names are read from top to bottom.
    let (start, end) = if is_named(&panel.y) { (strip, height) } else { (height, strip) };
    let beyond = panel.y.beyond.as_ref().map(|_| IN_STRIP);
    let y = Mapping { log: panel.y.is_log(), low, high, start, end, beyond };
    let (low, high) = panel.x.resolve(&extents.0);
    let x = Mapping { log: panel.x.is_log(), low, high, start: 0.0, end: 1.0, beyond: None };

    // The labels of a shared axis stand once and may take more room.
    let sharers = if figure.share_y == Sharing::None { columns } else { 1 };
    let longest = 0.4 * width / sharers as f64;
    let mut y_ticks = Ticks::new(&panel.y, &y, Direction::Y);
    y_ticks.major.iter_mut().for_each(|tick| tick.label = TICK.shorten(&tick.label, longest));
    let widths = y_ticks.major.iter().map(|tick| TICK.width(&tick.label));
    let y_width = widths.fold(0.0, f64::max);
    // Two short lines rather than a long one: the margin is for numbers.
    let beyond = TICK.wrap(panel.y.beyond.as_deref().unwrap_or(""), y_width.max(32.0), 2);
    let y_width = beyond.iter().map(|line| TICK.width(line)).fold(y_width, f64::max);
    let y_shown = figure.share_y == Sharing::None || column == 0;
    let notes = panel.marks.iter().filter_map(|mark| match mark {
        Mark::Interval(interval) => Some(TICK.width(&interval.note)),
        _ => None,
    });
    Placed {
        frame: Frame { height, ..Frame::default() },
        x,
        y,
        x_ticks: Ticks::default(),
        y_ticks,
        x_shown: figure.share_x == Sharing::None || index + columns >= figure.panels.len(),
        y_shown,
        x_upright: false,
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

/// Gives the columns their margins and what is left to their plotting areas, and the panels their x axes.
fn spread_columns(figure: &Figure, panels: &mut [Placed], columns: usize, width: f64) -> (Vec<f64>, Vec<f64>, f64) {
    let mut lefts = vec![0.0f64; columns];
    let mut rights = vec![0.0f64; columns];
    for (index, placed) in panels.iter().enumerate() {
        let column = index % columns;
        lefts[column] = lefts[column].max(placed.left());
        rights[column] = rights[column].max(placed.right());
    }
    let mut plot_width = LEAST;
    // Labels at the ends of an axis may reach into the margins, which makes the plotting areas smaller, which may
    // change the labels: three rounds settle it.
    for _ in 0..3 {
        let margins = lefts.iter().chain(&rights).sum::<f64>();
        plot_width = ((width - 2.0 * EDGE - margins) / columns as f64).max(LEAST);
        for (index, placed) in panels.iter_mut().enumerate() {
            placed.place_x(&figure.panels[index], plot_width);
        }
        // Side by side, all are turned or none.
        for line in panels.chunks_mut(columns) {
            let crowded = line.iter().any(Placed::crowded);
            line.iter_mut().filter(|placed| crowded && placed.x_shown).for_each(Placed::turn_x);
        }
        for (index, placed) in panels.iter().enumerate() {
            let column = index % columns;
            let (before, after) = placed.overhang();
            // Labels at the ends of neighbouring axes need some space between them.
            let apart = if column > 0 && before > 0.0 { before + 3.0 } else { before };
            lefts[column] = lefts[column].max(apart);
            rights[column] = rights[column].max(after);
        }
    }
    (lefts, rights, plot_width)
}

/// From where to where the marks of each panel reach on its x and its y axis, those that share an axis taken together.
fn extents(figure: &Figure, columns: usize) -> Vec<(Extent, Extent)> {
    let joint = |panel: &Panel, of: fn(&Mark) -> Extent| panel.marks.iter().map(of).fold(Extent::NOTHING, Extent::join);
    let own = figure.panels.iter().map(|panel| (joint(panel, Mark::extent_x), joint(panel, Mark::extent_y)));
    let own: Vec<(Extent, Extent)> = own.collect();
    let shared = |sharing: Sharing, same: &dyn Fn(usize) -> bool, of: fn(&(Extent, Extent)) -> Extent, index: usize| {
        let sharers = (0..own.len()).filter(|&other| match sharing {
            Sharing::None => other == index,
            Sharing::Line => same(other),
            Sharing::All => true,
        });
        sharers.map(|other| of(&own[other])).fold(Extent::NOTHING, Extent::join)
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

/// The height asked for, or more where the names of the y axis would not fit.
fn least_height(panel: &Panel) -> f64 {
    let asked = if panel.height.is_finite() { panel.height.clamp(LEAST, 10_000.0) } else { 100.0 };
    match &panel.y.scale {
        Scale::Categories(names) => asked.max(names.len() as f64 * (TICK.line() + 1.0)),
        Scale::Linear | Scale::Log => asked,
    }
}

/// From where to where the values of a panel reach that have colours, and those of all panels of the same colours.
fn colour_extent(figure: &Figure, panel: &Panel) -> Extent {
    let sharers = if figure.share_colours { &figure.panels[..] } else { std::slice::from_ref(panel) };
    let values = sharers.iter().filter_map(Panel::colouring).flat_map(|colouring| colouring.rows.iter().flatten());
    Extent::of(values.copied())
}

impl Panel {
    pub(super) fn colouring(&self) -> Option<Colouring<'_>> {
        self.marks.iter().find_map(Mark::colouring)
    }

    /// Whether cells of colour fill it: they need neither a grid behind them nor lines along their edges.
    pub(super) fn is_filled(&self) -> bool {
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

    /// How far a value is from the one end of the colours to the other: from 0 to 1 within the limits.
    pub(super) fn share(&self, value: f64) -> Option<f64> {
        let Mapping { start, end, .. } = self.mapping;
        Some((self.mapping.at(value)? - start) / (end - start))
    }

    /// Width from the plotting area to the outer edge.
    fn width(&self) -> f64 {
        let words = if self.label.is_empty() { 0.0 } else { SPACE + self.label.len() as f64 * LABEL.line() };
        BAR_GAP + BAR + TICK_LENGTH + SPACE + self.tick_width + words + 2.0
    }
}

impl Placed {
    /// Width of what stands at the left of the plotting area.
    fn left(&self) -> f64 {
        if !self.y_shown {
            return 8.0;
        }
        let words = if self.y_label.is_empty() { 0.0 } else { 3.0 + self.y_label.len() as f64 * LABEL.line() };
        TICK_LENGTH + SPACE + self.y_width + words
    }

    /// Width of what stands at the right of the plotting area.
    fn right(&self) -> f64 {
        let bar = self.bar.as_ref().filter(|_| self.bar_shown).map_or(0.0, Bar::width);
        let notes = if self.notes > 0.0 { self.notes + 7.0 } else { 0.0 };
        4.0 + bar.max(notes)
    }

    /// Height of what stands above the plotting area.
    fn above(&self) -> f64 {
        let title = self.title.len() as f64 * TITLE.line();
        // The topmost label of the y axis is centred on the edge.
        if title > 0.0 { title + 4.0 } else { 5.0 }
    }

    /// Height of what stands below the plotting area.
    fn below(&self) -> f64 {
        if !self.x_shown {
            return 6.0;
        }
        let words = if self.x_label.is_empty() { 0.0 } else { 1.0 + self.x_label.len() as f64 * LABEL.line() };
        TICK_LENGTH + SPACE + self.x_height + words + 2.0
    }

    fn place_x(&mut self, panel: &Panel, width: f64) {
        self.frame.width = width;
        self.x.end = width;
        self.x_ticks = Ticks::new(&panel.x, &self.x, Direction::X);
        self.x_upright = false;
        self.x_height = if self.x_ticks.major.is_empty() { 0.0 } else { TICK.line() };
        self.title = TITLE.wrap(&panel.title, width + 4.0, 2);
        self.x_label = if self.x_shown { LABEL.wrap(&panel.x.label, width + 8.0, 2) } else { Vec::new() };
    }

    /// Whether labels of the x axis touch. Numbers never do, names may.
    fn crowded(&self) -> bool {
        let labels: Vec<(f64, f64)> =
            self.x_ticks.major.iter().filter_map(|t| Some((self.x.at(t.value)?, TICK.width(&t.label)))).collect();
        self.x_shown && labels.windows(2).any(|pair| pair[1].0 - pair[0].0 < (pair[0].1 + pair[1].1) / 2.0 + 4.0)
    }

    /// Turns the labels of the x axis, and leaves out some where there are too many even so: every second one, or more.
    fn turn_x(&mut self) {
        self.x_upright = true;
        let places: Vec<f64> = self.x_ticks.major.iter().filter_map(|tick| self.x.at(tick.value)).collect();
        let room = places.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::INFINITY, f64::min).max(0.1);
        let every = (TICK.line() / room).ceil().max(1.0) as usize;
        let major = std::mem::take(&mut self.x_ticks.major);
        self.x_ticks.major = major.into_iter().step_by(every).collect();
        self.x_ticks.major.iter_mut().for_each(|tick| tick.label = TICK.shorten(&tick.label, 80.0));
        self.x_height = self.x_ticks.major.iter().map(|tick| TICK.width(&tick.label)).fold(0.0, f64::max);
    }

    /// How far labels of the x axis reach past the plotting area, to the left and to the right, with a little space.
    fn overhang(&self) -> (f64, f64) {
        if !self.x_shown || self.x_upright {
            return (0.0, 0.0);
        }
        let ends = self.x_ticks.major.iter().filter_map(|tick| {
            let middle = self.x.at(tick.value)?;
            let half = TICK.width(&tick.label) / 2.0 + 2.0;
            Some((half - middle, middle + half - self.frame.width))
        });
        ends.fold((0.0, 0.0), |most, end| (f64::max(most.0, end.0), f64::max(most.1, end.1)))
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
