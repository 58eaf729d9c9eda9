//! The drawing as PNG and PDF, with the embedded font alone: the same bytes on every machine.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

use super::{Background, Figure, text};

/// Why a figure could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The SVG could not be read back.
    #[error("the drawing is not understood: {0}")]
    Svg(#[from] resvg::usvg::Error),
    /// The picture has no pixels, or more than memory holds.
    #[error("a picture of {width} × {height} pixels cannot be made")]
    Size {
        /// Pixels from left to right.
        width: u32,
        /// Pixels from top to bottom.
        height: u32,
    },
    /// The pixels could not be packed.
    #[error("the PNG cannot be made: {0}")]
    Png(String),
    /// The PDF could not be made.
    #[error("the PDF cannot be made: {0}")]
    Pdf(String),
    /// A file could not be written.
    #[error("{path} cannot be written: {source}")]
    Write {
        /// Which one.
        path: String,
        /// Why.
        source: std::io::Error,
    },
}

/// Pixels of an SVG to the inch.
const SVG_DPI: f32 = 96.0;
/// Greatest number of pixels of a side: 1.6 GB at the most.
const MOST_PIXELS: f32 = 20_000.0;

static FONTS: LazyLock<Arc<fontdb::Database>> = LazyLock::new(|| {
    let mut fonts = fontdb::Database::new();
    fonts.load_font_data(text::REGULAR.to_vec());
    fonts.load_font_data(text::BOLD.to_vec());
    fonts.set_sans_serif_family("Arimo");
    Arc::new(fonts)
});

fn parse(svg: &str) -> Result<Tree, ExportError> {
    let options = Options { fontdb: Arc::clone(&FONTS), font_family: "Arimo".to_owned(), ..Options::default() };
    Ok(Tree::from_str(svg, &options)?)
}

fn regular_comes_first(pdf: &[u8]) -> bool {
    let fonts = pdf.split(|&byte| byte == b'\n').filter(|line| line.trim_ascii_start().starts_with(b"/BaseFont "));
    let mut bold = fonts.map(|line| line.ends_with(b"-Bold"));
    bold.next() != Some(true) || bold.all(|bold| bold)
}

/// Sorts the lists of resources, which the converter writes in random order. They stay as long as they were, so that
/// everything else keeps its place.
fn sort_resources(pdf: &mut [u8]) {
    let copy = pdf.to_vec();
    let mut start = 0;
    for run in copy
        .split_inclusive(|&byte| byte == b'\n')
        .collect::<Vec<_>>()
        .chunk_by(|a, b| is_resource(a) && is_resource(b))
    {
        let mut lines = run.to_vec();
        if lines.len() > 1 {
            lines.sort_by_key(|line| (line.len(), *line));
        }
        let sorted = lines.concat();
        pdf[start..start + sorted.len()].copy_from_slice(&sorted);
        start += sorted.len();
    }
}

/// Whether a line is like `/gs12 34 0 R`.
fn is_resource(line: &[u8]) -> bool {
    let Some(rest) = line.trim_ascii().strip_prefix(b"/") else { return false };
    let Some(rest) = rest.strip_suffix(b" 0 R") else { return false };
    let letters = rest.iter().take_while(|byte| byte.is_ascii_lowercase()).count();
    let digits = rest[letters..].split(|&byte| byte == b' ').collect::<Vec<_>>();
    let all_digits = |part: &&[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    letters > 0 && digits.len() == 2 && digits.iter().all(all_digits)
}

impl Figure {
    /// The figure as PNG with so many pixels to the inch, on white.
    pub fn png(&self, dpi: f32) -> Result<Vec<u8>, ExportError> {
        let tree = parse(&self.svg(Background::White))?;
        let scale = if dpi.is_finite() { dpi.max(1.0) / SVG_DPI } else { 1.0 };
        let pixels = |length: f32| (length * scale).ceil().clamp(1.0, MOST_PIXELS) as u32;
        let (width, height) = (pixels(tree.size().width()), pixels(tree.size().height()));
        let mut pixmap = Pixmap::new(width, height).ok_or(ExportError::Size { width, height })?;
        // The last row and column may be covered in part only.
        pixmap.fill(resvg::tiny_skia::Color::WHITE);
        resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixmap.as_mut());
        pixmap.encode_png().map_err(|error| ExportError::Png(error.to_string()))
    }

    /// The figure as PDF of one page, its texts as text.
    pub fn pdf(&self) -> Result<Vec<u8>, ExportError> {
        let tree = parse(&self.svg(Background::White))?;
        // The converter keeps both fonts in a table with a random seed and writes them in its order: again, until the
        // regular one comes first. Half the attempts succeed.
        let mut pdf = Vec::new();
        for _ in 0..64 {
            let page = svg2pdf::PageOptions { dpi: SVG_DPI };
            pdf = svg2pdf::to_pdf(&tree, svg2pdf::ConversionOptions::default(), page)
                .map_err(|error| ExportError::Pdf(error.to_string()))?;
            if regular_comes_first(&pdf) {
                break;
            }
        }
        sort_resources(&mut pdf);
        Ok(pdf)
    }

    /// Writes `name.svg`, `name.png` (300 pixels to the inch) and `name.pdf` into a folder.
    pub fn save(&self, folder: &Path, name: &str) -> Result<(), ExportError> {
        let write = |ending: &str, bytes: &[u8]| {
            let path = folder.join(format!("{name}.{ending}"));
            std::fs::write(&path, bytes)
                .map_err(|source| ExportError::Write { path: path.display().to_string(), source })
        };
        write("svg", self.svg(Background::White).as_bytes())?;
        write("png", &self.png(300.0)?)?;
        write("pdf", &self.pdf()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_sorted_in_place() {
        let mut pdf = b"<<\n  /gs10 3 0 R\n  /gs2 4 0 R\n>>\n/Pages 3 0 R\n/Kids 2 0 R\n  /f1 9 0 R\n".to_vec();
        sort_resources(&mut pdf);
        let sorted = b"<<\n  /gs2 4 0 R\n  /gs10 3 0 R\n>>\n/Pages 3 0 R\n/Kids 2 0 R\n  /f1 9 0 R\n";
        assert_eq!(String::from_utf8_lossy(&pdf), String::from_utf8_lossy(sorted));
    }

    #[test]
    fn fonts_are_told_apart() {
        assert!(regular_comes_first(b"  /BaseFont /ABCDEF+Arimo\n  /BaseFont /ABCDEF+Arimo-Bold\n"));
        assert!(!regular_comes_first(b"  /BaseFont /ABCDEF+Arimo-Bold\n  /BaseFont /ABCDEF+Arimo\n"));
        assert!(regular_comes_first(b"  /BaseFont /ABCDEF+Arimo-Bold\n") && regular_comes_first(b""));
    }
}
