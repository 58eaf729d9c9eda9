//! Measures text in the embedded fonts and makes it fit.

use std::sync::LazyLock;

use ttf_parser::Face;

pub(crate) const REGULAR: &[u8] = include_bytes!("../fonts/Arimo-Regular.ttf");
pub(crate) const BOLD: &[u8] = include_bytes!("../fonts/Arimo-Bold.ttf");

/// The other families have the same widths and replace the first in a browser that lacks it.
pub(crate) const FAMILIES: &str = "Arimo, 'Liberation Sans', Arial, Helvetica, sans-serif";

static FACES: LazyLock<[Face<'static>; 2]> =
    LazyLock::new(|| [REGULAR, BOLD].map(|bytes| Face::parse(bytes, 0).expect("the embedded font is whole")));

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Font {
    pub(crate) size: f64,
    pub(crate) bold: bool,
}

/// Tick labels.
pub(crate) const TICK: Font = Font { size: 7.0, bold: false };
/// Axis labels and legend.
pub(crate) const LABEL: Font = Font { size: 7.5, bold: false };
/// Panel titles.
pub(crate) const TITLE: Font = Font { size: 8.0, bold: true };

impl Font {
    /// Width of a text in points. A character that the font lacks counts as one em, which is wider than most.
    pub(crate) fn width(self, text: &str) -> f64 {
        let face = &FACES[usize::from(self.bold)];
        let em = f64::from(face.units_per_em());
        let advance = |c| face.glyph_index(c).and_then(|glyph| face.glyph_hor_advance(glyph)).map_or(em, f64::from);
        text.chars().map(advance).sum::<f64>() * self.size / em
    }

    /// Distance between two baselines.
    pub(crate) fn line(self) -> f64 {
        1.2 * self.size
    }

    /// Height of capitals and digits above the baseline.
    pub(crate) fn capitals(self) -> f64 {
        0.72 * self.size
    }

    /// The text, with its end replaced by an ellipsis if it is wider than `max_width`.
    pub(crate) fn shorten(self, text: &str, max_width: f64) -> String {
        if self.width(text) <= max_width {
            return text.to_owned();
        }
        let mut kept = text.to_owned();
        while kept.pop().is_some() {
            let shortened = format!("{}…", kept.trim_end());
            if self.width(&shortened) <= max_width {
                return shortened;
            }
        }
        String::new()
    }

    /// The text in at most `max_lines` lines, broken at spaces; lines that do not fit are shortened.
    pub(crate) fn wrap(self, text: &str, max_width: f64, max_lines: usize) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for word in text.split_whitespace() {
            let full = lines.len() >= max_lines;
            match lines.last_mut() {
                Some(line) if full || self.width(&format!("{line} {word}")) <= max_width => {
                    line.push(' ');
                    line.push_str(word);
                }
                _ => lines.push(word.to_owned()),
            }
        }
        lines.into_iter().map(|line| self.shorten(&line, max_width)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_those_of_arial() {
        // Arial: a digit is 1139 of 2048 units wide, an `m` 1706, a full stop 569.
        let font = Font { size: 10.0, bold: false };
        assert!((font.width("2048") - 40.0 * 1139.0 / 2048.0).abs() < 1e-9);
        assert!((font.width("m.") - 10.0 * (1706.0 + 569.0) / 2048.0).abs() < 1e-9);
        assert!(Font { bold: true, ..font }.width("full") > font.width("full"));
    }

    #[test]
    fn both_weights_have_every_character_of_the_figures() {
        let needed = "AZaz09äöüßéñ–—×≥≤±…µμαβγδεθλξπστφωΔΣΩ·‰%→←−≈√∞⁰¹²³⁴⁵⁶⁷⁸⁹⁻₀₉";
        for face in FACES.iter() {
            let missing: String = needed.chars().filter(|&c| face.glyph_index(c).is_none()).collect();
            assert_eq!(missing, "");
        }
    }

    #[test]
    fn long_texts_are_shortened_or_broken() {
        assert_eq!(LABEL.shorten("epoch", 100.0), "epoch");
        let short = LABEL.shorten("a mechanism with a very long name", 60.0);
        assert!(short.ends_with('…') && LABEL.width(&short) <= 60.0 && LABEL.width(&short) > 50.0, "{short}");
        assert_eq!(LABEL.shorten("epoch", 1.0), "");
        assert_eq!(LABEL.wrap("held-out accuracy (%)", 65.0, 2), ["held-out accuracy", "(%)"]);
        assert_eq!(LABEL.wrap("held-out accuracy (%)", 300.0, 2), ["held-out accuracy (%)"]);
        let squeezed = LABEL.wrap("one two three four five six", 30.0, 2);
        assert!(squeezed.len() == 2 && squeezed[1].ends_with('…'), "{squeezed:?}");
        assert!(LABEL.wrap("", 30.0, 2).is_empty());
    }
}
