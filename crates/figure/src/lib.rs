//! Figures from plain numbers: panels of marks drawn as SVG, and the same drawing as PNG and PDF.
//!
//! | to find | look in |
//! |---|---|
//! | ready-made figures: curves with bands, survival, intervals, slopes | [`charts`] |
//! | figures of a loss surface: contours, heat maps, roughness, sharpness | [`surface`] |
//! | what can be drawn into a panel | [`mark`] |
//! | scales, limits and number formats | [`axis`] |
//! | line patterns and markers | [`style`] |
//! | colours, their contrast, colour maps | [`colour`] |
//!
//! Lengths are in points, 72 to the inch. At its own width a figure has no text smaller than 7 points.
//!
//! ```
//! use semfocus_figure::charts::{Curve, Measure, curves};
//! use semfocus_figure::{Axis, Background, Dash, Figure, Filling, Marker, Paint, Series, Style};
//!
//! let style = Style { paint: Paint::Ink, dash: Dash::SOLID, marker: Marker::Circle, filling: Filling::Full };
//! let loss = Curve {
//!     series: Series { name: "full".to_owned(), style },
//!     x: vec![1.0, 2.0],
//!     quartiles: vec![[0.6, 0.7, 0.8], [0.4, 0.5, 0.6]],
//!     lines: Vec::new(),
//!     ends: Vec::new(),
//! };
//! let measure = Measure { axis: Axis::linear("training loss"), levels: Vec::new(), height: 95.0, curves: &[loss] };
//! let figure = Figure { title: "Learning curves".to_owned(), ..curves("epoch", &[measure]) };
//! assert!(figure.svg(Background::White).starts_with("<svg "));
//! ```
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "a name that says everything needs no comment")]

pub mod axis;
pub mod charts;
pub mod colour;
mod contour;
mod contour_fill;
mod contour_labels;
mod draw;
mod export;
mod extent;
mod frame;
mod hover;
mod layout;
mod legend;
pub mod mark;
mod number;
mod shape;
pub mod style;
pub mod surface;
mod svg;
mod text;
mod ticks;

pub use axis::{Axis, Format, Scale};
pub use colour::{ColourMap, Rgb};
pub use export::ExportError;
pub use mark::{
    Band, Contours, End, Heatmap, Interpolation, Interval, Line, Mark, Points, Reference, Rule, Series, Slopes,
};
pub use number::significant;
pub use style::{Dash, Filling, Marker, Paint, Style};

/// Width of one column of a two-column paper: 85 mm.
pub const ONE_COLUMN: f64 = 241.0;
/// Width across both columns of a paper.
pub const TWO_COLUMNS: f64 = 500.0;

/// Width of data lines.
const LINE: f64 = 1.25;
/// Opacity of a band: two that overlap can still be told apart.
const BAND_OPACITY: f64 = 0.16;

/// Panels from left to right and from top to bottom, with one legend for all of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Read out by screen readers. Not drawn: the page or paper prints its own title.
    pub title: String,
    /// What is shown, how many observations, what the bands mean. Stored in the file, not drawn.
    pub caption: String,
    /// Width in points. The height follows from the panels.
    pub width: f64,
    /// Panels per row.
    pub columns: usize,
    /// Which panels share an x axis. Only the lowest panel of a shared axis shows its labels.
    pub share_x: Sharing,
    /// Which panels share a y axis. Only the leftmost panel of a shared axis shows its labels.
    pub share_y: Sharing,
    /// Whether all panels use the same colour scale. If so, one colour bar is drawn, right of the first row.
    pub share_colours: bool,
    /// Whether a legend is drawn below the panels.
    pub legend: bool,
    /// Whether values are shown when the pointer rests on them. Only on a page.
    pub hover: bool,
    /// The panels, row by row.
    pub panels: Vec<Panel>,
}

impl Default for Figure {
    fn default() -> Self {
        Figure {
            title: String::new(),
            caption: String::new(),
            width: ONE_COLUMN,
            columns: 1,
            share_x: Sharing::None,
            share_y: Sharing::None,
            share_colours: false,
            legend: true,
            hover: true,
            panels: Vec::new(),
        }
    }
}

impl Figure {
    /// The same figure for a wide page: as wide as both columns of a paper, unless its panels have to stay square.
    pub fn wide(&self) -> Figure {
        let is_square = self.panels.iter().any(|panel| panel.colouring().is_some());
        Figure { width: if is_square { self.width } else { TWO_COLUMNS.max(self.width) }, ..self.clone() }
    }

    /// The same figure for a phone: panels below each other in one column, without values for a pointer.
    pub fn narrow(&self) -> Figure {
        // Panels with two names below them need little width.
        let is_named = |panel: &Panel| matches!(&panel.x.scale, Scale::Categories(names) if names.len() < 3);
        let is_many = self.panels.len() > 6 && self.columns > 2 && !self.share_colours;
        let columns = if is_many || self.panels.iter().all(is_named) { self.columns.min(2) } else { 1 };
        let mut narrow = Figure { width: ONE_COLUMN, columns, hover: false, ..self.clone() };
        for (index, panel) in narrow.panels.iter_mut().enumerate().filter(|_| columns < self.columns) {
            if panel.colouring().is_some() {
                panel.height = surface::SQUARE[0];
            }
            // What stood at the top of its column.
            if panel.title.is_empty() {
                panel.title = self.panels[index % self.columns].title.clone();
            }
        }
        narrow
    }
}

/// A part of a figure with its own axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// Drawn above the plotting area; may be empty.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis: numbers increase upwards, categories run from top to bottom.
    pub y: Axis,
    /// Height of the plotting area in points. All panels of a row get the largest height among them.
    pub height: f64,
    /// The data, in any order: each kind of mark has its own drawing layer.
    pub marks: Vec<Mark>,
}

/// Which panels have the same axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Each panel has its own axis.
    None,
    /// The panels of a column share their x axis, those of a row their y axis.
    Line,
    /// All panels share one axis.
    All,
}

/// What is behind a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Background {
    /// White paper that belongs to the figure: for files.
    White,
    /// The page that the figure is embedded in, light or dark. Text and axes take the colour of the page's text
    /// (`currentColor`) and the classes `figure-text`, `figure-axis` and `figure-grid`; hollow markers are filled with
    /// the page's `--figure-background`.
    Page,
}
