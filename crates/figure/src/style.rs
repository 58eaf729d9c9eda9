//! How a series looks: its colour, the pattern of its lines, the shape and the filling of its markers.

use crate::colour::Rgb;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// The colour of text: dark on paper; on a page, the colour of the surrounding text.
    Ink,
    Colour(Rgb),
    /// A colour for white paper and light pages, and a lighter one for dark pages.
    ByPage {
        light: Rgb,
        dark: Rgb,
    },
}

impl Paint {
    pub fn on_paper(self) -> Rgb {
        match self {
            Paint::Ink => Rgb::INK,
            Paint::Colour(colour) | Paint::ByPage { light: colour, .. } => colour,
        }
    }
}

/// A line pattern of dashes and dots.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dash {
    /// Length of a dash in points; 0 for an unbroken line.
    pub length: f64,
    /// Dots after each dash.
    pub dots: usize,
}

impl Dash {
    pub const SOLID: Dash = Dash { length: 0.0, dots: 0 };

    /// Lengths of strokes and gaps in turn; empty for an unbroken line.
    pub fn pattern(self) -> Vec<f64> {
        if self == Self::SOLID {
            return Vec::new();
        }
        let length = if self.length > 0.0 { self.length } else { 13.0 };
        let gap = if length < 2.0 { 1.6 } else { 2.2 };
        let dots = std::iter::repeat_n([1.3, gap], self.dots).flatten();
        [length, gap].into_iter().chain(dots).collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Marker {
    Circle,
    Square,
    /// A square on its corner.
    Diamond,
    /// Up, down, left and right are triangles that point there.
    Up,
    Down,
    Left,
    Right,
    /// A fat plus sign.
    Plus,
    /// A fat cross.
    Cross,
    Star,
    /// A short vertical stroke, the usual sign of a censored observation.
    Stroke,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Filling {
    Full,
    /// Outline only.
    Hollow,
    /// Outline with a dot in the middle.
    Dotted,
    /// The lower half is filled.
    Half,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Style {
    pub paint: Paint,
    pub dash: Dash,
    pub marker: Marker,
    pub filling: Filling,
}
