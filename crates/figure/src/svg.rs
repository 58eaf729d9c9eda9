//! Writes SVG. The same drawing gives the same bytes.

use std::fmt::Write;

use crate::Background;
use crate::colour::Rgb;
use crate::style::Paint;
use crate::text::{FAMILIES, Font};

/// A rectangle on the canvas.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rect {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

impl Rect {
    pub(crate) fn right(&self) -> f64 {
        self.x + self.width
    }

    pub(crate) fn bottom(&self) -> f64 {
        self.y + self.height
    }

    pub(crate) fn overlaps(&self, other: &Rect) -> bool {
        self.x < other.right() && other.x < self.right() && self.y < other.bottom() && other.y < self.bottom()
    }

    /// The same rectangle with a margin around it.
    pub(crate) fn grown(&self, by: f64) -> Rect {
        Rect { x: self.x - by, y: self.y - by, width: self.width + 2.0 * by, height: self.height + 2.0 * by }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Stroke {
    pub(crate) paint: Paint,
    pub(crate) width: f64,
    pub(crate) opacity: f64,
    pub(crate) dashes: Vec<f64>,
    /// CSS class on a page; empty for none.
    pub(crate) class: &'static str,
}

impl Stroke {
    pub(crate) fn new(paint: Paint, width: f64) -> Self {
        Stroke { paint, width, opacity: 1.0, dashes: Vec::new(), class: "" }
    }

    pub(crate) fn faint(self, opacity: f64) -> Self {
        Stroke { opacity, ..self }
    }

    pub(crate) fn dashed(self, dashes: Vec<f64>) -> Self {
        Stroke { dashes, ..self }
    }

    pub(crate) fn class(self, class: &'static str) -> Self {
        Stroke { class, ..self }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fill {
    None,
    /// The colour of the background.
    Paper,
    Paint(Paint, f64),
}

/// The point of a text that its position refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A text with the position of its anchor on the baseline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text<'a> {
    pub(crate) content: &'a str,
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) font: Font,
    pub(crate) anchor: Anchor,
    /// Whether it reads from bottom to top.
    pub(crate) rotated: bool,
    pub(crate) paint: Paint,
}

/// Polygons and polylines in SVG syntax.
#[derive(Clone, Debug, Default)]
pub(crate) struct Path(String);

impl Path {
    pub(crate) fn through(points: &[(f64, f64)]) -> Self {
        let mut path = Path::default();
        path.add(points, false);
        path
    }

    pub(crate) fn around(points: &[(f64, f64)]) -> Self {
        let mut path = Path::default();
        path.add(points, true);
        path
    }

    /// Writes differences between points, which are shorter than the points.
    pub(crate) fn add(&mut self, points: &[(f64, f64)], closed: bool) {
        let mut last = (0.0, 0.0);
        for (index, &point) in points.iter().enumerate() {
            // The points are rounded, not the differences, so that errors do not add up.
            let rounded = (hundredths(point.0), hundredths(point.1));
            self.0.push_str(["M", "l", " "][index.min(2)]);
            let _ = write!(self.0, "{},{}", number(rounded.0 - last.0), number(rounded.1 - last.1));
            last = rounded;
        }
        if closed && !points.is_empty() {
            self.0.push('Z');
        }
    }

    pub(crate) fn add_rect(&mut self, frame: Rect) {
        let [x, y, w, h] = [frame.x, frame.y, frame.width, frame.height].map(number);
        let _ = write!(self.0, "M{x},{y}h{w}v{h}h{}z", number(-frame.width));
    }
}

pub(crate) struct Canvas {
    out: String,
    background: Background,
}

impl Canvas {
    pub(crate) fn new(width: f64, height: f64, title: &str, description: &str, background: Background) -> Self {
        let (w, h) = (number(width), number(height));
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}pt\" height=\"{h}pt\" viewBox=\"0 0 {w} {h}\" \
             role=\"img\" font-family=\"{FAMILIES}\""
        );
        if !title.is_empty() {
            let _ = write!(out, " aria-label=\"{}\"", escaped(title));
        }
        match background {
            Background::White => {
                let _ = writeln!(out, " fill=\"{}\">", Rgb::INK);
            }
            Background::Page => {
                out.push_str(" class=\"figure\" fill=\"currentColor\" style=\"max-width:100%;height:auto\">\n");
            }
        }
        for (tag, content) in
            [("title", title), ("desc", description)].iter().filter(|(_, content)| !content.is_empty())
        {
            let _ = writeln!(out, "<{tag}>{}</{tag}>", escaped(content));
        }
        if background == Background::White {
            let _ = writeln!(out, "<rect width=\"{w}\" height=\"{h}\" fill=\"white\"/>");
        }
        Canvas { out, background }
    }

    pub(crate) fn finish(mut self) -> String {
        self.out.push_str("</svg>\n");
        self.out
    }

    /// Clips everything up to [`Canvas::close_clip`] to a rectangle. A nested `<svg>` needs no id, which could occur twice
    /// on a page.
    pub(crate) fn open_clip(&mut self, frame: Rect) {
        let [x, y, w, h] = [frame.x, frame.y, frame.width, frame.height].map(number);
        let _ = writeln!(
            self.out,
            "<svg x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" viewBox=\"{x} {y} {w} {h}\" overflow=\"hidden\">"
        );
    }

    pub(crate) fn close_clip(&mut self) {
        self.out.push_str("</svg>\n");
    }

    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: &Stroke) {
        self.path(&Path::through(&[from, to]), Fill::None, Some(stroke));
    }

    pub(crate) fn path(&mut self, path: &Path, fill: Fill, stroke: Option<&Stroke>) {
        if path.0.is_empty() {
            return;
        }
        let _ = write!(self.out, "<path d=\"{}\"", path.0);
        self.paint(fill, stroke);
    }

    pub(crate) fn rect(&mut self, frame: Rect, fill: Fill, stroke: Option<&Stroke>) {
        let [x, y, w, h] = [frame.x, frame.y, frame.width.max(0.0), frame.height.max(0.0)].map(number);
        let _ = write!(self.out, "<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\"");
        self.paint(fill, stroke);
    }

    pub(crate) fn circle(&mut self, (x, y): (f64, f64), radius: f64, fill: Fill, stroke: Option<&Stroke>) {
        let [x, y, r] = [x, y, radius].map(number);
        let _ = write!(self.out, "<circle cx=\"{x}\" cy=\"{y}\" r=\"{r}\"");
        self.paint(fill, stroke);
    }

    /// Writes the paint attributes of a shape and closes its element.
    fn paint(&mut self, fill: Fill, stroke: Option<&Stroke>) {
        let mut styles = String::new();
        match fill {
            Fill::None => self.out.push_str(" fill=\"none\""),
            // A page may set its background; otherwise the browser takes it from the colour scheme.
            Fill::Paper if self.background == Background::Page => {
                styles.push_str("fill:var(--figure-background,Canvas);");
            }
            Fill::Paper => self.out.push_str(" fill=\"white\""),
            Fill::Paint(paint, opacity) => {
                let _ = write!(self.out, " fill=\"{}\"", self.colour(paint));
                self.add_style(&mut styles, "fill", paint);
                if opacity < 1.0 {
                    let _ = write!(self.out, " fill-opacity=\"{}\"", number(opacity));
                }
            }
        }
        if let Some(stroke) = stroke {
            let colour = self.colour(stroke.paint);
            self.add_style(&mut styles, "stroke", stroke.paint);
            let _ = write!(self.out, " stroke=\"{colour}\" stroke-width=\"{}\"", number(stroke.width));
            if stroke.opacity < 1.0 {
                let _ = write!(self.out, " stroke-opacity=\"{}\"", number(stroke.opacity));
            }
            if stroke.dashes.is_empty() {
                self.out.push_str(" stroke-linejoin=\"round\"");
            } else {
                let dashes: Vec<String> = stroke.dashes.iter().map(|&length| number(length)).collect();
                let _ = write!(self.out, " stroke-dasharray=\"{}\"", dashes.join(" "));
            }
            if !stroke.class.is_empty() && self.background == Background::Page {
                let _ = write!(self.out, " class=\"{}\"", stroke.class);
            }
        }
        if !styles.is_empty() {
            let _ = write!(self.out, " style=\"{}\"", styles.trim_end_matches(';'));
        }
        self.out.push_str("/>\n");
    }

    /// On a page, a paint with a colour for dark pages. A browser that does not know `light-dark` keeps the attribute.
    fn add_style(&self, styles: &mut String, property: &str, paint: Paint) {
        if let (Paint::ByPage { light, dark }, Background::Page) = (paint, self.background) {
            let _ = write!(styles, "{property}:light-dark({light},{dark});");
        }
    }

    /// A text that appears when the pointer rests near a place. Only on a page.
    pub(crate) fn hover(&mut self, (x, y): (f64, f64), text: &str) {
        if self.background == Background::Page {
            let [x, y] = [x, y].map(number);
            let _ = writeln!(
                self.out,
                "<circle cx=\"{x}\" cy=\"{y}\" r=\"4\" fill=\"none\" pointer-events=\"all\"><title>{}</title></circle>",
                escaped(text)
            );
        }
    }

    pub(crate) fn text(&mut self, text: &Text<'_>) {
        if text.content.trim().is_empty() {
            return;
        }
        let [x, y, size] = [text.x, text.y, text.font.size].map(number);
        let _ = write!(self.out, "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\"");
        if text.font.bold {
            self.out.push_str(" font-weight=\"bold\"");
        }
        match text.anchor {
            Anchor::Start => {}
            Anchor::Middle => self.out.push_str(" text-anchor=\"middle\""),
            Anchor::End => self.out.push_str(" text-anchor=\"end\""),
        }
        if text.rotated {
            let _ = write!(self.out, " transform=\"rotate(-90 {x} {y})\"");
        }
        // Ink is the default fill of the whole drawing.
        if text.paint != Paint::Ink {
            let _ = write!(self.out, " fill=\"{}\"", self.colour(text.paint));
        }
        if self.background == Background::Page {
            self.out.push_str(" class=\"figure-text\"");
        }
        let _ = writeln!(self.out, ">{}</text>", escaped(text.content));
    }

    fn colour(&self, paint: Paint) -> String {
        match (paint, self.background) {
            (Paint::Ink, Background::Page) => "currentColor".to_owned(),
            (paint, _) => paint.on_paper().to_string(),
        }
    }
}

/// A number with at most two decimals, which is finer than any printer. NaN and infinity become 0.
fn number(value: f64) -> String {
    // Adding zero turns a negative zero into a positive one.
    (hundredths(value) + 0.0).to_string()
}

fn hundredths(value: f64) -> f64 {
    let rounded = (100.0 * value).round() / 100.0;
    if rounded.is_finite() { rounded } else { 0.0 }
}

/// Escapes XML characters and drops those that XML does not allow.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(' '),
            '\u{fffe}' | '\u{ffff}' => {}
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_never_strange() {
        let values = [1.0, 0.125, -0.001, -2.346, 1e9, f64::NAN, f64::INFINITY];
        assert_eq!(values.map(number), ["1", "0.13", "0", "-2.35", "1000000000", "0", "0"]);
    }

    #[test]
    fn paths_go_from_point_to_point() {
        let path = Path::around(&[(1.0, 2.0), (3.333, 2.0), (3.336, f64::NAN)]);
        assert_eq!(path.0, "M1,2l2.33,0 0.01,-2Z");
    }

    #[test]
    fn texts_cannot_break_the_file() {
        assert_eq!(escaped("a<b & \"c\"\u{0}\n>"), "a&lt;b &amp; &quot;c&quot; &gt;");
    }
}
