//! What can be drawn into a panel, as plain data.

use crate::axis::Axis;
use crate::colour::ColourMap;
use crate::extent::Extent;
use crate::style::{Marker, Style};

/// What a mark belongs to: one legend entry and one style.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Name in the legend; a series without a name has no entry.
    pub name: String,
    pub style: Style,
}

/// Something drawn into a panel. NaN and values that the axis cannot show are left out.
#[derive(Clone, Debug, PartialEq)]
pub enum Mark {
    Line(Line),
    Band(Band),
    Points(Points),
    Interval(Interval),
    Slopes(Slopes),
    Rule(Rule),
    Heatmap(Heatmap),
    Contours(Contours),
}

/// How neighbouring points are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interpolation {
    Linear,
    /// Constant up to the next point, as in survival curves.
    Steps,
}

/// A line through points.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    pub series: Series,
    /// Ordered by x. NaN interrupts the line. Where points are denser than the line is thick, their means are drawn.
    pub points: Vec<(f64, f64)>,
    pub interpolation: Interpolation,
    /// Whether a few markers help to tell the line from others. Those of different series do not coincide.
    pub markers: bool,
    /// Whether the line is pale, because it stands for one observation next to the summary of all.
    pub pale: bool,
}

/// The area between two lines.
#[derive(Clone, Debug, PartialEq)]
pub struct Band {
    pub series: Series,
    /// x, lower edge, upper edge.
    pub edges: Vec<(f64, f64, f64)>,
    pub interpolation: Interpolation,
}

/// Points without a line.
#[derive(Clone, Debug, PartialEq)]
pub struct Points {
    pub series: Series,
    pub points: Vec<(f64, f64)>,
    /// A marker other than that of the series.
    pub marker: Option<Marker>,
    /// Texts next to the points, where there is room; empty for none.
    pub labels: Vec<String>,
}

/// An end of an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum End {
    At(f64),
    /// No end: drawn as an arrow to the edge of the panel.
    Open,
}

/// A value with a horizontal interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Interval {
    pub series: Series,
    /// Position on the y axis, such as the row of a category.
    pub row: f64,
    pub value: f64,
    /// Left end; [`End::At`] the value itself where there is none.
    pub low: End,
    /// Right end; [`End::At`] the value itself where there is none.
    pub high: End,
    /// Whether the value itself is only a bound: drawn hollow.
    pub bound: bool,
    /// Text to the right of the panel, such as the value in digits.
    pub note: String,
}

/// Pairs of values, each joined by a line.
#[derive(Clone, Debug, PartialEq)]
pub struct Slopes {
    pub series: Series,
    /// Positions of the left and the right value on the x axis.
    pub between: (f64, f64),
    /// Left and right values. An infinite one is drawn hollow in the strip of [`Axis::beyond`].
    pub pairs: Vec<(f64, f64)>,
    /// How the left values look; the right ones look like the series.
    pub from: Style,
}

/// The position of a reference line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reference {
    /// Vertical.
    X(f64),
    /// Horizontal.
    Y(f64),
    /// Where y equals x.
    Diagonal,
}

/// A reference line.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    pub at: Reference,
    /// Text next to the line; may be empty.
    pub label: String,
}

/// A table of coloured cells. A cell whose value is not finite is grey.
#[derive(Clone, Debug, PartialEq)]
pub struct Heatmap {
    /// Rows from the lowest y on, each from the lowest x on.
    pub rows: Vec<Vec<f64>>,
    /// Centres of the first and the last column.
    pub x: (f64, f64),
    /// Centres of the first and the last row.
    pub y: (f64, f64),
    /// Scale, limits, label and format of the colour bar.
    pub colours: Axis,
    pub colour_map: ColourMap,
    /// Whether every cell shows its value in digits.
    pub numbers: bool,
}

/// Contour lines of a surface. The labelled ticks of the colour bar get lines, too; these are thicker and carry their
/// numbers where there is room. Between grid points the surface is interpolated linearly on the scale of the colours.
/// Cells next to a value that is not finite are grey.
#[derive(Clone, Debug, PartialEq)]
pub struct Contours {
    /// Values at the grid points: rows from the lowest y on, each from the lowest x on.
    pub rows: Vec<Vec<f64>>,
    /// Positions of the first and the last column.
    pub x: (f64, f64),
    /// Positions of the first and the last row.
    pub y: (f64, f64),
    /// Values that get a line.
    pub levels: Vec<f64>,
    /// Scale, limits, label and format of the colour bar.
    pub colours: Axis,
    pub colour_map: ColourMap,
}

/// A mark's colour scale and the values it colours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Colouring<'a> {
    pub(crate) scale: &'a Axis,
    pub(crate) colour_map: ColourMap,
    pub(crate) rows: &'a [Vec<f64>],
}

impl Mark {
    pub(crate) fn series(&self) -> Option<&Series> {
        match self {
            Mark::Line(line) => Some(&line.series),
            Mark::Band(band) => Some(&band.series),
            Mark::Points(points) => Some(&points.series),
            Mark::Interval(interval) => Some(&interval.series),
            Mark::Slopes(slopes) => Some(&slopes.series),
            Mark::Rule(_) | Mark::Heatmap(_) | Mark::Contours(_) => None,
        }
    }

    /// Gives the mark another style.
    pub fn set_style(&mut self, of: impl Fn(&Series) -> Style) {
        let series = match self {
            Mark::Line(line) => &mut line.series,
            Mark::Band(band) => &mut band.series,
            Mark::Points(points) => &mut points.series,
            Mark::Interval(interval) => &mut interval.series,
            Mark::Slopes(slopes) => &mut slopes.series,
            Mark::Rule(_) | Mark::Heatmap(_) | Mark::Contours(_) => return,
        };
        series.style = of(series);
    }

    pub(crate) fn colouring(&self) -> Option<Colouring<'_>> {
        match self {
            Mark::Heatmap(Heatmap { rows, colours, colour_map, .. })
            | Mark::Contours(Contours { rows, colours, colour_map, .. }) => {
                Some(Colouring { scale: colours, colour_map: *colour_map, rows })
            }
            _ => None,
        }
    }

    pub(crate) fn extent_x(&self) -> Extent {
        match self {
            Mark::Line(Line { points, .. }) | Mark::Points(Points { points, .. }) => {
                Extent::from_values(points.iter().map(|point| point.0))
            }
            Mark::Band(band) => Extent::from_values(band.edges.iter().map(|edge| edge.0)),
            Mark::Interval(interval) => interval.extent(),
            Mark::Slopes(slopes) => Extent::from_values([slopes.between.0, slopes.between.1]),
            Mark::Rule(Rule { at: Reference::X(x), .. }) => Extent::from_values([*x]),
            Mark::Rule(_) => Extent::EMPTY,
            Mark::Heatmap(map) => map.columns().extent(),
            Mark::Contours(contours) => Extent::from_values([contours.x.0, contours.x.1]),
        }
    }

    pub(crate) fn extent_y(&self) -> Extent {
        match self {
            Mark::Line(Line { points, .. }) | Mark::Points(Points { points, .. }) => {
                Extent::from_values(points.iter().map(|point| point.1))
            }
            Mark::Band(band) => Extent::from_values(band.edges.iter().flat_map(|edge| [edge.1, edge.2])),
            Mark::Interval(interval) => Extent::from_values([interval.row]),
            Mark::Slopes(slopes) => Extent::from_values(slopes.pairs.iter().flat_map(|pair| [pair.0, pair.1])),
            Mark::Rule(Rule { at: Reference::Y(y), .. }) => Extent::from_values([*y]),
            Mark::Rule(_) => Extent::EMPTY,
            Mark::Heatmap(map) => map.lines().extent(),
            Mark::Contours(contours) => Extent::from_values([contours.y.0, contours.y.1]),
        }
    }
}

/// Cells or points at equal distances along an axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spacing {
    first: f64,
    step: f64,
    count: usize,
}

impl Spacing {
    pub(crate) fn new((first, last): (f64, f64), count: usize) -> Self {
        Spacing { first, step: (last - first) / count.saturating_sub(1).max(1) as f64, count }
    }

    /// Where a cell or a point is centred; also between them.
    pub(crate) fn at(self, index: f64) -> f64 {
        self.first + index * self.step
    }

    /// From outer edge to outer edge of the cells.
    fn extent(self) -> Extent {
        Extent::from_values([self.at(-0.5), self.at(self.count as f64 - 0.5)])
    }
}

impl Heatmap {
    pub(crate) fn columns(&self) -> Spacing {
        let count = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        Spacing::new(self.x, count)
    }

    pub(crate) fn lines(&self) -> Spacing {
        Spacing::new(self.y, self.rows.len())
    }
}

impl Interval {
    fn extent(&self) -> Extent {
        let ends = [self.low, self.high].into_iter().filter_map(|end| match end {
            End::At(value) => Some(value),
            End::Open => None,
        });
        let values = Extent::from_values(ends.chain([self.value]));
        Extent { open_low: self.low == End::Open, open_high: self.high == End::Open, ..values }
    }
}
