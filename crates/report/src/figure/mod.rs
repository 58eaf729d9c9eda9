//! Figures: panels of marks drawn as SVG, and the same drawing as PNG and PDF.
//!
//! | to find | look in |
//! |---|---|
//! | the figures of a study, ready-made: learning curves, survival, speed-ups, slopes | [`charts`] |
//! | what can be drawn into a panel | [`mark`] |
//! | scales, limits and formats | [`axis`] |
//! | how a mechanism looks, everywhere the same | [`palette`] |
//! | colours, their contrast, ramps | [`colour`] |
//!
//! Lengths are in points, 72 to the inch. At its own width nothing is set smaller than 7 points.

pub mod axis;
pub mod charts;
pub mod colour;
mod contour;
mod contour_labels;
mod draw;
mod export;
mod frame;
mod layout;
mod legend;
pub mod mark;
pub mod palette;
mod shape;
mod svg;
mod text;
mod ticks;

pub use axis::{Axis, Format, Scale};
pub use colour::{Ramp, Rgb};
pub use export::ExportError;
pub use mark::{Band, Contours, Course, End, Heatmap, Interval, Line, Mark, Points, Reference, Rule, Series, Slopes};
pub use palette::{Dash, Filling, Marker, Paint, Style, family_of};

/// Width of a column of a paper with two of them: 85 mm.
pub const ONE_COLUMN: f64 = 241.0;
/// Width of both columns of a paper.
pub const TWO_COLUMNS: f64 = 500.0;

/// Width of the lines of data.
const LINE: f64 = 1.25;
/// Opacity of a band: two that overlap can still be told apart.
const BAND_OPACITY: f64 = 0.16;

/// A figure: panels from left to right and from top to bottom, and one legend.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Name, for those who hear it instead of seeing it. Not drawn: page and paper write it themselves.
    pub title: String,
    /// What is shown, how many observations, what the bands mean. Not drawn, but part of the file.
    pub caption: String,
    /// Width in points. The height follows from the panels.
    pub width: f64,
    /// Panels in a row.
    pub columns: usize,
    /// Which panels have the same x axis. Those below others of the same axis alone show its labels.
    pub share_x: Sharing,
    /// Which panels have the same y axis. Those at the left alone show its labels.
    pub share_y: Sharing,
    /// Whether all panels have the same colours. One bar explains them, at the right of the first row.
    pub share_colours: bool,
    /// Where the legend stands.
    pub legend: Place,
    /// What is drawn.
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
            legend: Place::Below,
            panels: Vec::new(),
        }
    }
}

/// A part of a figure with its own axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// Words above it; may be empty.
    pub title: String,
    /// The axis from left to right.
    pub x: Axis,
    /// The axis from bottom to top; names go from top to bottom.
    pub y: Axis,
    /// Height of the plotting area in points. The panels of a row get the greatest of theirs.
    pub height: f64,
    /// What is drawn into it.
    pub marks: Vec<Mark>,
}

/// Which panels have the same axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Each has its own.
    None,
    /// Those of a column share the x axis, those of a row the y axis.
    Line,
    /// All.
    All,
}

/// Where the legend stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Above the panels.
    Above,
    /// Below the panels.
    Below,
    /// Nowhere.
    Hidden,
}

/// What is behind a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Background {
    /// Its own white paper: for files.
    White,
    /// The page it is put into, light or dark. Text and axes take the colour of the page's text (`currentColor`) and the
    /// classes `figure-text`, `figure-axis` and `figure-grid`; hollow markers the page's `--figure-background`.
    Page,
}
