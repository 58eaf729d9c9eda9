//! Colours by perceived lightness, chroma and hue, their contrast, and colour maps.

use std::fmt;

/// An sRGB colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rgb(pub u8, pub u8, pub u8);

impl fmt::Display for Rgb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }
}

impl Rgb {
    pub const WHITE: Rgb = Rgb(255, 255, 255);
    /// The colour of text and axes on paper.
    pub const INK: Rgb = Rgb(0x22, 0x22, 0x22);

    /// The colour with this Oklab lightness (0 black, 1 white), chroma (0 grey, 0.3 garish) and hue (degrees). If sRGB
    /// does not contain it, the chroma is lowered until it does; lightness and hue stay.
    pub fn from_oklch(lightness: f64, chroma: f64, hue: f64) -> Self {
        let (sin, cos) = hue.to_radians().sin_cos();
        let shown = |chroma: f64| linear_from_oklab([lightness, chroma * cos, chroma * sin]);
        let fits = |linear: [f64; 3]| linear.iter().all(|part| (-1e-6..=1.0 + 1e-6).contains(part));
        let (mut low, mut high) = (0.0, chroma);
        if fits(shown(chroma)) {
            low = chroma;
        }
        for _ in 0..24 {
            let middle = (low + high) / 2.0;
            if fits(shown(middle)) { low = middle } else { high = middle }
        }
        let [r, g, b] = shown(low).map(|part| (255.0 * encode(part.clamp(0.0, 1.0))).round() as u8);
        Rgb(r, g, b)
    }

    /// Linear red, green and blue, from 0 to 1.
    pub fn linear(self) -> [f64; 3] {
        [self.0, self.1, self.2].map(|part| decode(f64::from(part) / 255.0))
    }

    /// Relative luminance as defined by WCAG: 0 black, 1 white.
    fn luminance(self) -> f64 {
        let [r, g, b] = self.linear();
        0.2126 * r + 0.7152 * g + 0.0722 * b
    }

    /// Contrast ratio as defined by WCAG: from 1 for equal luminance to 21 for black on white.
    pub fn contrast(self, other: Rgb) -> f64 {
        let (a, b) = (self.luminance() + 0.05, other.luminance() + 0.05);
        if a > b { a / b } else { b / a }
    }
}

fn encode(linear: f64) -> f64 {
    if linear <= 0.003_130_8 { 12.92 * linear } else { 1.055 * linear.powf(1.0 / 2.4) - 0.055 }
}

fn decode(encoded: f64) -> f64 {
    if encoded <= 0.040_45 { encoded / 12.92 } else { ((encoded + 0.055) / 1.055).powf(2.4) }
}

/// Björn Ottosson's Oklab, backwards.
fn linear_from_oklab([lightness, a, b]: [f64; 3]) -> [f64; 3] {
    let l = (lightness + 0.396_337_777_4 * a + 0.215_803_757_3 * b).powi(3);
    let m = (lightness - 0.105_561_345_8 * a - 0.063_854_172_8 * b).powi(3);
    let s = (lightness - 0.089_484_177_5 * a - 1.291_485_548_0 * b).powi(3);
    [
        4.076_741_662_1 * l - 3.307_711_591_3 * m + 0.230_969_929_2 * s,
        -1.268_438_004_6 * l + 2.609_757_401_1 * m - 0.341_319_396_5 * s,
        -0.004_196_086_3 * l - 0.703_418_614_7 * m + 1.707_614_701_0 * s,
    ]
}

/// From numbers to colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColourMap {
    /// From pale yellow (low) to dark blue (high). Its lightness falls steadily, so it survives a greyscale print.
    Sequential,
}

impl ColourMap {
    /// The colour at a fraction from 0 to 1.
    pub fn at(self, share: f64) -> Rgb {
        let share = if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) };
        match self {
            ColourMap::Sequential => {
                let chroma = 0.05 + 0.4 * share * (1.0 - share);
                Rgb::from_oklch(0.97 - 0.62 * share, chroma, 105.0 + 165.0 * share)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_colours_come_out() {
        assert_eq!(Rgb::from_oklch(1.0, 0.0, 0.0), Rgb::WHITE);
        assert_eq!(Rgb::from_oklch(0.627_955, 0.257_683, 29.234), Rgb(255, 0, 0), "red in Oklab");
        assert_eq!(Rgb::from_oklch(0.0, 0.3, 100.0), Rgb(0, 0, 0), "black has no chroma");
        assert_eq!(Rgb(0, 114, 178).to_string(), "#0072b2");
    }

    #[test]
    fn contrast_is_that_of_wcag() {
        assert!((Rgb::WHITE.contrast(Rgb(0, 0, 0)) - 21.0).abs() < 1e-9);
        assert!((Rgb(0x76, 0x76, 0x76).contrast(Rgb::WHITE) - 4.54).abs() < 0.01, "the lightest grey that passes AA");
    }

    #[test]
    fn colour_maps_change_lightness_in_one_direction() {
        let lights: Vec<f64> =
            (0..=20).map(|step| ColourMap::Sequential.at(f64::from(step) / 20.0).luminance()).collect();
        assert!(lights.windows(2).all(|pair| pair[1] < pair[0]), "{lights:?}");
        assert!(lights[0] > 0.85 && lights[20] < 0.06, "{lights:?}");
        assert_eq!(ColourMap::Sequential.at(f64::NAN), ColourMap::Sequential.at(0.0));
    }
}
