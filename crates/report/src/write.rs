//! Writes the report into the folder of a run.

use std::path::{Path, PathBuf};

use semfocus_analysis::evidence::Evidence;
use semfocus_figure::{Background, ExportError};
use semfocus_store::files::{create_folder, remove_parts, write_whole};
use semfocus_store::{Store, StoreError};

use crate::pictures::Picture;
use crate::section::Section;
use crate::{causes, page, pictures, regions, surface, tables, theory};

/// Resolution of a PNG: good enough for print.
const DPI: f32 = 300.0;

/// The files of a report.
#[derive(Clone, Debug)]
pub struct Written {
    pub page: PathBuf,
    /// Names of the figures, each as SVG, PNG and PDF.
    pub figures: Vec<String>,
    /// Names of the tables, each as CSV, Markdown and LaTeX.
    pub tables: Vec<String>,
    /// Number of trials that are not finished.
    pub missing: usize,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A file cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("figure `{name}`: {error}")]
    Figure { name: String, error: ExportError },
}

/// Writes `report.html`, `figures/` and `tables/` into the folder of a run, finished or not.
pub fn write(store: &Store, evidence: &Evidence) -> Result<Written, ReportError> {
    let (pictures, tables) = (pictures::pictures(evidence), tables::tables(evidence));
    let of_causes = causes::section(evidence).into_iter();
    let sections = of_causes.chain(theory::section(evidence)).chain(surface::section(evidence));
    let sections: Vec<Section> = sections.collect();
    let regions = if evidence.experiment.after.regions { regions::pictures() } else { Vec::new() };
    let all_pictures = || pictures.iter().chain(sections.iter().flat_map(|section| &section.pictures)).chain(&regions);
    let all_tables = || tables.iter().chain(sections.iter().flat_map(|section| &section.tables));
    let dir = store.dir();
    let (figure_dir, table_dir) = (dir.join("figures"), dir.join("tables"));
    for folder in [&figure_dir, &table_dir] {
        create_folder(folder)?;
        remove_parts(folder);
    }
    for picture in all_pictures() {
        write_picture(&figure_dir, picture)?;
    }
    for table in all_tables() {
        write_whole(&table_dir.join(format!("{}.csv", table.name)), table.csv().as_bytes())?;
        write_whole(&table_dir.join(format!("{}.md", table.name)), table.markdown().as_bytes())?;
        write_whole(&table_dir.join(format!("{}.tex", table.name)), table.latex().as_bytes())?;
    }
    let page = dir.join("report.html");
    // Last, so that the files of an existing page exist, too.
    write_whole(&page, page::html(evidence, &pictures, &tables, &sections).as_bytes())?;
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
