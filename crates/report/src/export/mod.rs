//! What can be written in which formats. A new format is a file here and a line in the list of what it is for.

mod csv;
mod figures;
mod jsonl;
mod latex;
mod markdown;

use std::io::{self, Write};
use std::path::Path;

use semfocus_figure::Figure;
use semfocus_store::StoreError;
use semfocus_store::files::write_whole;

pub use csv::Csv;
pub use figures::{Pdf, Png, Svg};
pub use jsonl::JsonLines;
pub use latex::Latex;
pub use markdown::Markdown;

use crate::frame::Frame;
use crate::table::Table;

/// What files of a format are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// By people.
    pub name: &'static str,
    /// At the end of their names.
    pub extension: &'static str,
    /// In links to files inside a page.
    pub media_type: &'static str,
}

/// A format that a `T` can be written in.
pub trait Export<T>: Sync {
    fn format(&self) -> Format;

    fn write(&self, of: &T, out: &mut dyn Write) -> io::Result<()>;

    /// The file as text.
    ///
    /// # Panics
    /// If the format is not text.
    fn text(&self, of: &T) -> String {
        let mut bytes = Vec::new();
        self.write(of, &mut bytes).expect("memory can be written to");
        String::from_utf8(bytes).expect("the format is text")
    }
}

/// For columns of values.
pub static FRAMES: [&dyn Export<Frame>; 2] = [&Csv, &JsonLines];

/// For tables.
pub static TABLES: [&dyn Export<Table>; 3] = [&Csv, &Markdown, &Latex];

/// For figures.
pub static FIGURES: [&dyn Export<Figure>; 3] = [&Svg, &Png, &Pdf];

/// Why a file of a report cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A file cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{file} cannot be made: {error}")]
    Export { file: String, error: io::Error },
}

/// Writes a file into a folder in each of these formats.
pub fn write_all<T>(of: &T, folder: &Path, name: &str, formats: &[&dyn Export<T>]) -> Result<(), ReportError> {
    for export in formats {
        let file = format!("{name}.{}", export.format().extension);
        let mut bytes = Vec::new();
        export.write(of, &mut bytes).map_err(|error| ReportError::Export { file: file.clone(), error })?;
        write_whole(&folder.join(file), &bytes)?;
    }
    Ok(())
}
