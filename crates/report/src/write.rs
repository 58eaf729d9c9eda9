//! Writes the report into the folder of a run.

use std::path::PathBuf;

use semfocus_analysis::evidence::Evidence;
use semfocus_store::Store;
use semfocus_store::files::{create_folder, remove_parts, write_whole};

use crate::export::{FIGURES, ReportError, TABLES, write_all};
use crate::{Contents, page};

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

/// Writes `report.html`, `figures/` and `tables/` into the folder of a run, finished or not.
pub fn write(store: &Store, evidence: &Evidence) -> Result<Written, ReportError> {
    let contents = Contents::new(evidence);
    let dir = store.dir();
    let (figure_dir, table_dir) = (dir.join("figures"), dir.join("tables"));
    for folder in [&figure_dir, &table_dir] {
        create_folder(folder)?;
        remove_parts(folder);
    }
    for picture in contents.all_pictures() {
        write_all(&picture.figure, &figure_dir, &picture.name, &FIGURES)?;
    }
    for table in contents.all_tables() {
        write_all(table, &table_dir, table.name, &TABLES)?;
    }
    let page = dir.join("report.html");
    // Last, so that the files of an existing page exist, too.
    write_whole(&page, page::html(evidence, &contents.pictures, &contents.tables, &contents.sections).as_bytes())?;
    Ok(Written {
        page,
        figures: contents.all_pictures().map(|picture| picture.name.clone()).collect(),
        tables: contents.all_tables().map(|table| table.name.to_owned()).collect(),
        missing: evidence.missing().count(),
    })
}
