//! Writes all of it beside the run.

use std::path::{Path, PathBuf};

use semfocus_analysis::evidence::{Evidence, EvidenceError};
use semfocus_lab::Store;
use semfocus_lab::settings::Goal;
use semfocus_lab::store::{StoreError, files::write_whole};

use crate::figure::{Background, ExportError};
use crate::pictures::Picture;
use crate::section::Section;
use crate::{page, pictures, surface, tables, theory};

/// Pixels of a PNG to the inch: fit for print.
const DPI: f32 = 300.0;

/// What was written.
#[derive(Clone, Debug)]
pub struct Written {
    /// The page.
    pub page: PathBuf,
    /// Names of the figures, each as SVG, PNG and PDF.
    pub figures: Vec<String>,
    /// Names of the tables, each as CSV and Markdown.
    pub tables: Vec<String>,
    /// Trials that are not finished.
    pub missing: usize,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The run cannot be read.
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
    /// A file cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A figure cannot be drawn.
    #[error("figure `{name}`: {error}")]
    Figure {
        /// Which one.
        name: String,
        /// Why.
        error: ExportError,
    },
}

/// Writes `report.html`, `figures/` and `tables/` into the folder of a run, finished or not.
pub fn write(store: &Store, goal: Goal) -> Result<Written, ReportError> {
    let evidence = Evidence::read(store, goal)?;
    let (pictures, tables) = (pictures::pictures(&evidence), tables::tables(&evidence));
    let sections: Vec<Section> = theory::section(&evidence).into_iter().chain(surface::section(&evidence)?).collect();
    let all_pictures = || pictures.iter().chain(sections.iter().flat_map(|section| &section.pictures));
    let all_tables = || tables.iter().chain(sections.iter().flat_map(|section| &section.tables));
    let dir = store.dir();
    let (figure_dir, table_dir) = (dir.join("figures"), dir.join("tables"));
    for folder in [&figure_dir, &table_dir] {
        make_folder(folder)?;
    }
    for picture in all_pictures() {
        write_picture(&figure_dir, picture)?;
    }
    for table in all_tables() {
        write_whole(&table_dir.join(format!("{}.csv", table.name)), table.csv().as_bytes())?;
        write_whole(&table_dir.join(format!("{}.md", table.name)), table.markdown().as_bytes())?;
    }
    let page = dir.join("report.html");
    // Last: a page that is there has all its files.
    write_whole(&page, page::html(&evidence, &pictures, &tables, &sections).as_bytes())?;
    Ok(Written {
        page,
        figures: all_pictures().map(|picture| picture.name.clone()).collect(),
        tables: all_tables().map(|table| table.name.to_owned()).collect(),
        missing: evidence.missing().count(),
    })
}

/// Writes a figure into a folder as SVG, PNG and PDF.
pub fn write_picture(folder: &Path, picture: &Picture) -> Result<(), ReportError> {
    let failed = |error| ReportError::Figure { name: picture.name.clone(), error };
    let path = |kind: &str| folder.join(format!("{}.{kind}", picture.name));
    write_whole(&path("svg"), picture.figure.svg(Background::White).as_bytes())?;
    write_whole(&path("png"), &picture.figure.png(DPI).map_err(failed)?)?;
    Ok(write_whole(&path("pdf"), &picture.figure.pdf().map_err(failed)?)?)
}

fn make_folder(path: &Path) -> Result<(), StoreError> {
    std::fs::create_dir_all(path).map_err(|error| StoreError::Io {
        action: "make the folder",
        path: path.to_owned(),
        error,
    })
}
