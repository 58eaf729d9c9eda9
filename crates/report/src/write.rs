//! Writes the report into the folder of a run.

use std::io;
use std::path::PathBuf;

use semfocus_analysis::evidence::Evidence;
use semfocus_store::files::{create_folder, remove_parts, write_whole};
use semfocus_store::{Store, StoreError};

use crate::export::{FIGURES, TABLES, write_all};
use crate::section::Section;
use crate::{causes, page, pictures, regions, surface, tables, theory};

/// The files of a report.
#[derive(Clone, Debug)]
pub struct Written {
    pub page: PathBuf,
    /// Names of the figures, each in every format of [`FIGURES`].
    pub figures: Vec<String>,
    /// Names of the tables, each in every format of [`TABLES`].
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
    #[error("{file} cannot be made: {error}")]
    Export { file: String, error: io::Error },
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
        write_all(&picture.figure, &figure_dir, &picture.name, &FIGURES)?;
    }
    for table in all_tables() {
        write_all(table, &table_dir, table.name, &TABLES)?;
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
