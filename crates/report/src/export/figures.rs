//! Figures: drawn as SVG, and turned into images and pages for papers.

use std::io::{self, Write};

use semfocus_figure::{Background, Figure};

use super::{Export, Format};

/// Resolution of a PNG: good enough for print.
const DPI: f32 = 300.0;

pub struct Svg;
pub struct Png;
pub struct Pdf;

impl Export<Figure> for Svg {
    fn format(&self) -> Format {
        Format { name: "SVG", extension: "svg", media_type: "image/svg+xml" }
    }

    fn write(&self, figure: &Figure, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(figure.svg(Background::White).as_bytes())
    }
}

impl Export<Figure> for Png {
    fn format(&self) -> Format {
        Format { name: "PNG", extension: "png", media_type: "image/png" }
    }

    fn write(&self, figure: &Figure, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&figure.png(DPI).map_err(io::Error::other)?)
    }
}

impl Export<Figure> for Pdf {
    fn format(&self) -> Format {
        Format { name: "PDF", extension: "pdf", media_type: "application/pdf" }
    }

    fn write(&self, figure: &Figure, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&figure.pdf().map_err(io::Error::other)?)
    }
}
