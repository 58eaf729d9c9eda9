//! The drawing as PNG and PDF. Only the embedded fonts are used, so the bytes are the same on every machine.

use std::sync::{Arc, LazyLock};

use krilla::geom::Size;
use krilla::metadata::Metadata;
use krilla::page::PageSettings;
use krilla_svg::{SurfaceExt, SvgSettings};
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

use crate::{Background, Figure, text};

/// Why a figure could not be converted.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error("the drawing cannot be read back: {0}")]
    Svg(#[from] resvg::usvg::Error),
    /// The image has no pixels, or more than memory holds.
    #[error("cannot make an image of {width} × {height} pixels")]
    Size { width: u32, height: u32 },
    #[error("cannot encode the PNG: {0}")]
    Png(String),
    #[error("cannot make the PDF: {0}")]
    Pdf(String),
}

/// Pixels of an SVG to the inch.
const SVG_DPI: f32 = 96.0;
/// Points of a PDF to the inch.
const PDF_DPI: f32 = 72.0;
/// Limit for each side of a PNG: 1.6 GB in all.
const MAX_PIXELS: f32 = 20_000.0;

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

impl Figure {
    /// The figure as PNG on white.
    pub fn png(&self, dpi: f32) -> Result<Vec<u8>, ExportError> {
        let tree = parse(&self.svg(Background::White))?;
        let scale = if dpi.is_finite() { dpi.max(1.0) / SVG_DPI } else { 1.0 };
        let pixels = |length: f32| (length * scale).ceil().clamp(1.0, MAX_PIXELS) as u32;
        let (width, height) = (pixels(tree.size().width()), pixels(tree.size().height()));
        let mut pixmap = Pixmap::new(width, height).ok_or(ExportError::Size { width, height })?;
        // The drawing may cover only part of the last row and column.
        pixmap.fill(resvg::tiny_skia::Color::WHITE);
        resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixmap.as_mut());
        pixmap.encode_png().map_err(|error| ExportError::Png(error.to_string()))
    }

    /// The figure as a PDF of one page with selectable text. It contains no date, and its id is a hash of its content.
    pub fn pdf(&self) -> Result<Vec<u8>, ExportError> {
        let tree = parse(&self.svg(Background::White))?;
        let points = |pixels: f32| pixels * PDF_DPI / SVG_DPI;
        let size = Size::from_wh(points(tree.size().width()), points(tree.size().height()));
        let size = size.ok_or_else(|| ExportError::Pdf("the page has no size".to_owned()))?;
        let mut document = krilla::Document::new();
        document.set_metadata(Metadata::new().title(self.title.clone()));
        let mut page = document.start_page_with(PageSettings::new(size));
        let mut surface = page.surface();
        let drawn = surface.draw_svg(&tree, size, SvgSettings::default());
        surface.finish();
        page.finish();
        drawn.ok_or_else(|| ExportError::Pdf("the drawing cannot be converted".to_owned()))?;
        document.finish().map_err(|error| ExportError::Pdf(format!("{error:?}")))
    }
}
