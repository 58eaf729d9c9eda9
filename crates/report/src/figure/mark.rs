//! What is drawn into a panel, as plain data.

use super::axis::Axis;
use super::colour::Ramp;
use super::palette::{Marker, Style};

/// What a mark belongs to: one entry of the legend and one look.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Name in the legend; an empty one is left out of it.
    pub name: String,
    /// How it is drawn.
    pub style: Style,
}

impl Series {
    /// The series of a mechanism, in the mechanism's look.
    pub fn mechanism(name: &str) -> Self {
        Series { name: name.to_owned(), style: Style::of(name) }
    }
}

/// Something drawn into a panel. Values that are not numbers are left out, and so are those that the axis cannot show.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Mark {
    /// A line through points.
    Line(Line),
    /// The area between two lines.
    Band(Band),
    /// Points without a line.
    Points(Points),
    /// A value with its interval.
    Interval(Interval),
    /// Pairs of values, each joined by a line.
    Slopes(Slopes),
    /// A reference line.
    Rule(Rule),
    /// A table of colours.
    Heatmap(Heatmap),
    /// Lines along which a surface has the same value.
    Contours(Contours),
}

/// How a line gets from one point to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// Straight.
    Straight,
    /// On the level of the earlier point until the later one, as survival curves do.
    Steps,
}

/// A line through points.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// What it belongs to.
    pub series: Series,
    /// Its points, in the order of x. A value that is not a number interrupts it. Where they are denser than the line is
    /// thick, their means are drawn.
    pub points: Vec<(f64, f64)>,
    /// How it gets from one point to the next.
    pub course: Course,
    /// Whether some markers help to tell it from others. They sit at other places than those of other series.
    pub markers: bool,
}

/// The area between two lines.
#[derive(Clone, Debug, PartialEq)]
pub struct Band {
    /// What it belongs to.
    pub series: Series,
    /// Position, lower edge, upper edge.
    pub edges: Vec<(f64, f64, f64)>,
    /// How the edges get from one point to the next.
    pub course: Course,
}

/// Points without a line.
#[derive(Clone, Debug, PartialEq)]
pub struct Points {
    /// What they belong to.
    pub series: Series,
    /// Where they are.
    pub points: Vec<(f64, f64)>,
    /// Their shape, where it is not that of the series.
    pub marker: Option<Marker>,
}

/// An end of an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum End {
    /// It ends here.
    At(f64),
    /// It has no end: an arrow to the edge of the panel.
    Open,
}

/// A value with its interval, from left to right.
#[derive(Clone, Debug, PartialEq)]
pub struct Interval {
    /// What it belongs to.
    pub series: Series,
    /// Position on the y axis, such as the row of a category.
    pub row: f64,
    /// The value.
    pub value: f64,
    /// Left end; [`End::At`] the value itself where there is none.
    pub low: End,
    /// Right end; [`End::At`] the value itself where there is none.
    pub high: End,
    /// Whether the value itself is only a bound: drawn hollow.
    pub bound: bool,
    /// Words to the right of the panel, such as the value in digits.
    pub note: String,
}

/// Pairs of values, each joined by a line: what a seed does here and there.
#[derive(Clone, Debug, PartialEq)]
pub struct Slopes {
    /// What they belong to.
    pub series: Series,
    /// Positions of the left and the right value on the x axis.
    pub between: (f64, f64),
    /// Left and right values. An infinite one has not been reached: it is drawn hollow in the strip that
    /// [`Axis::beyond`] keeps free.
    pub pairs: Vec<(f64, f64)>,
}

/// Where a reference line runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reference {
    /// Upright.
    X(f64),
    /// Level.
    Y(f64),
    /// Where y equals x.
    Diagonal,
}

/// A reference line.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Where it runs.
    pub at: Reference,
    /// Words beside it; may be empty.
    pub label: String,
}

/// A table of colours. A value that is not a number leaves its cell empty but for a stroke, or grey where the cells are
/// too small for one.
#[derive(Clone, Debug, PartialEq)]
pub struct Heatmap {
    /// Rows from the lowest y on, each from the lowest x on.
    pub rows: Vec<Vec<f64>>,
    /// Where the first and the last column are centred; None for 0, 1, 2, …, as the categories of an axis are.
    pub x: Option<(f64, f64)>,
    /// Where the first and the last row are centred; None for 0, 1, 2, ….
    pub y: Option<(f64, f64)>,
    /// Scale, limits, label and format of the colours.
    pub colours: Axis,
    /// From numbers to colours.
    pub ramp: Ramp,
    /// Whether the values are written into the cells where they fit.
    pub values: bool,
}

/// Lines along which a surface has the same value. Those at the labelled ticks of the colours are drawn too: they are
/// thicker, and bear their numbers where there is room. Between its points the surface is straight on the scale of the
/// colours; cells next to a value that is not a number are grey.
#[derive(Clone, Debug, PartialEq)]
pub struct Contours {
    /// Values at the points of the surface: rows from the lowest y on, each from the lowest x on.
    pub rows: Vec<Vec<f64>>,
    /// Where the first and the last column are.
    pub x: (f64, f64),
    /// Where the first and the last row are.
    pub y: (f64, f64),
    /// The values that get a line.
    pub levels: Vec<f64>,
    /// Scale, limits, label and format of the colours.
    pub colours: Axis,
    /// From numbers to colours.
    pub ramp: Ramp,
}

/// The colours of a mark, and the values they stand for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Colouring<'a> {
    pub(super) scale: &'a Axis,
    pub(super) ramp: Ramp,
    pub(super) rows: &'a [Vec<f64>],
}

/// Values further out than these take no part: differences of them would overflow.
pub(super) const HUGE: f64 = 1e200;
pub(super) const TINY: f64 = 1e-200;

/// From where to where marks reach on an axis, and whether they point beyond it. Empty if the least value is greater
/// than the greatest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) least: f64,
    pub(super) least_positive: f64,
    pub(super) greatest: f64,
    pub(super) open_low: bool,
    pub(super) open_high: bool,
}

impl Extent {
    pub(super) const NOTHING: Extent =
        Extent { least: HUGE, least_positive: HUGE, greatest: -HUGE, open_low: false, open_high: false };

    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut extent = Extent::NOTHING;
        // NaN is not less than anything.
        for value in values.into_iter().filter(|value| value.abs() < HUGE) {
            extent.least = extent.least.min(value);
            extent.greatest = extent.greatest.max(value);
            if value > TINY {
                extent.least_positive = extent.least_positive.min(value);
            }
        }
        extent
    }

    pub(super) fn join(self, other: Extent) -> Extent {
        Extent {
            least: self.least.min(other.least),
            least_positive: self.least_positive.min(other.least_positive),
            greatest: self.greatest.max(other.greatest),
            open_low: self.open_low || other.open_low,
            open_high: self.open_high || other.open_high,
        }
    }
}

impl Mark {
    pub(super) fn series(&self) -> Option<&Series> {
        match self {
            Mark::Line(line) => Some(&line.series),
            Mark::Band(band) => Some(&band.series),
            Mark::Points(points) => Some(&points.series),
            Mark::Interval(interval) => Some(&interval.series),
            Mark::Slopes(slopes) => Some(&slopes.series),
            Mark::Rule(_) | Mark::Heatmap(_) | Mark::Contours(_) => None,
        }
    }

    pub(super) fn colouring(&self) -> Option<Colouring<'_>> {
        match self {
            Mark::Heatmap(Heatmap { rows, colours, ramp, .. })
            | Mark::Contours(Contours { rows, colours, ramp, .. }) => {
                Some(Colouring { scale: colours, ramp: *ramp, rows })
            }
            _ => None,
        }
    }

    pub(super) fn extent_x(&self) -> Extent {
        match self {
            Mark::Line(Line { points, .. }) | Mark::Points(Points { points, .. }) => {
                Extent::of(points.iter().map(|point| point.0))
            }
            Mark::Band(band) => Extent::of(band.edges.iter().map(|edge| edge.0)),
            Mark::Interval(interval) => interval.extent(),
            Mark::Slopes(slopes) => Extent::of([slopes.between.0, slopes.between.1]),
            Mark::Rule(Rule { at: Reference::X(x), .. }) => Extent::of([*x]),
            Mark::Rule(_) => Extent::NOTHING,
            Mark::Heatmap(map) => map.columns().extent(),
            Mark::Contours(contours) => Extent::of([contours.x.0, contours.x.1]),
        }
    }

    pub(super) fn extent_y(&self) -> Extent {
        match self {
            Mark::Line(Line { points, .. }) | Mark::Points(Points { points, .. }) => {
                Extent::of(points.iter().map(|point| point.1))
            }
            Mark::Band(band) => Extent::of(band.edges.iter().flat_map(|edge| [edge.1, edge.2])),
            Mark::Interval(interval) => Extent::of([interval.row]),
            Mark::Slopes(slopes) => Extent::of(slopes.pairs.iter().flat_map(|pair| [pair.0, pair.1])),
            Mark::Rule(Rule { at: Reference::Y(y), .. }) => Extent::of([*y]),
            Mark::Rule(_) => Extent::NOTHING,
            Mark::Heatmap(map) => map.lines().extent(),
            Mark::Contours(contours) => Extent::of([contours.y.0, contours.y.1]),
        }
    }
}

/// Cells or points at equal distances along an axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spacing {
    first: f64,
    step: f64,
    count: usize,
}

impl Spacing {
    pub(super) fn new((first, last): (f64, f64), count: usize) -> Self {
        Spacing { first, step: (last - first) / count.saturating_sub(1).max(1) as f64, count }
    }

    /// Where a cell or a point is centred; also between them.
    pub(super) fn at(self, index: f64) -> f64 {
        self.first + index * self.step
    }

    /// From outer edge to outer edge of the cells.
    fn extent(self) -> Extent {
        Extent::of([self.at(-0.5), self.at(self.count as f64 - 0.5)])
    }
}

impl Heatmap {
    pub(super) fn columns(&self) -> Spacing {
        let count = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        Spacing::new(self.x.unwrap_or((0.0, count.saturating_sub(1).max(1) as f64)), count)
    }

    pub(super) fn lines(&self) -> Spacing {
        let count = self.rows.len();
        Spacing::new(self.y.unwrap_or((0.0, count.saturating_sub(1).max(1) as f64)), count)
    }
}

impl Interval {
    fn extent(&self) -> Extent {
        let ends = [self.low, self.high].into_iter().filter_map(|end| match end {
            End::At(value) => Some(value),
            End::Open => None,
        });
        let values = Extent::of(ends.chain([self.value]));
        Extent { open_low: self.low == End::Open, open_high: self.high == End::Open, ..values }
    }
}
