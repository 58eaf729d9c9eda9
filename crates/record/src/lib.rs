//! The record of the study: small data of the runs that were made, and pages whose figures and tables are generated from them.
//!
//! ```text
//! DIR/record.toml      the claims, and every run that was asked for
//! DIR/data/NAME/       what the record keeps of a run, see `data.rs`
//! DIR/*.md             pages; parts between two comments are generated, see `pages.rs`
//! DIR/figures/         generated
//! DIR/results.csv      generated: one line for each run of record.toml
//! ```
//!
//! | to find | look in |
//! |---|---|
//! | what is kept of a run, and how it is read again | [`data`] |
//! | the claims and the list of runs | [`ledger`] |
//! | what runs say about a claim | `findings.rs` |
//! | the generated parts of pages | `parts.rs` |

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "a name that says everything needs no comment")]

pub mod data;
mod findings;
pub mod ledger;
mod pages;
mod parts;
pub mod provenance;
pub mod results;
mod rows;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use semfocus_analysis::evidence::EvidenceError;
use semfocus_core::{ExperimentError, Goal, Names};
use semfocus_store::files::{create_folder, write_whole};
use semfocus_store::{Store, StoreError};

pub use data::RecordedRun;
use ledger::Ledger;
use parts::PageParts;

/// Why the record cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("{}: {message}", .path.display())]
    File { path: PathBuf, message: String },
    #[error("{} is damaged, so it is not recorded: {damage}", .run.display())]
    Damaged { run: PathBuf, damage: String },
    #[error("{} has no finished epoch yet, so there is nothing to record", .run.display())]
    Empty { run: PathBuf },
    #[error("{} is in data, but record.toml has no [[run]] with this name; add one that says what it is for", .0)]
    NotListed(String),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
}

impl RecordError {
    fn io(path: &Path, error: &io::Error) -> Self {
        RecordError::File { path: path.to_owned(), message: error.to_string() }
    }

    fn wrong(path: &Path, message: impl Into<String>) -> Self {
        RecordError::File { path: path.to_owned(), message: message.into() }
    }
}

/// Adds a run to the record, or brings what it has of it up to date. Epochs are counted to `goal`,
/// by default to the target that the record has for the run, or else the usual one.
pub fn add(
    store: &Store,
    record: &Path,
    name: &str,
    goal: Option<Goal>,
    known: &dyn Names,
) -> Result<RecordedRun, RecordError> {
    let data = record.join("data");
    create_folder(&data)?;
    data::write(store, &data.join(name), goal, known)
}

/// A record with all its runs.
#[derive(Debug)]
pub struct Record {
    dir: PathBuf,
    ledger: Ledger,
    /// Those that were made, by name.
    runs: BTreeMap<String, RecordedRun>,
}

impl Record {
    /// Reads a record.
    pub fn read(dir: &Path, known: &dyn Names) -> Result<Self, RecordError> {
        let ledger = Ledger::read(&dir.join("record.toml"))?;
        let mut runs = BTreeMap::new();
        for folder in entries(&dir.join("data"))? {
            let run = RecordedRun::read(&folder, known)?;
            if !ledger.runs.iter().any(|entry| entry.name == run.name) {
                return Err(RecordError::NotListed(run.name));
            }
            runs.insert(run.name.clone(), run);
        }
        Ok(Record { dir: dir.to_owned(), ledger, runs })
    }

    /// The claims and the list of runs.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Every generated file and page as it should be.
    fn files(&self) -> Result<BTreeMap<PathBuf, Vec<u8>>, RecordError> {
        let mut files: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
        let outside = self.ledger.pages.iter().map(|page| (self.dir.join(&page.file), page.prefix.as_str()));
        let inside = entries(&self.dir)?.into_iter().filter(|path| path.extension().is_some_and(|end| end == "md"));
        let mut parts = PageParts::new(&self.ledger, &self.runs);
        for (path, prefix) in inside.map(|path| (path, "")).chain(outside) {
            let text = std::fs::read_to_string(&path).map_err(|error| RecordError::io(&path, &error))?;
            let page = pages::regenerate(&path, &text, |words| parts.part(words, prefix))?;
            files.insert(path, page.into_bytes());
        }
        let csv = results::to_csv(&parts.results());
        for (name, svg) in parts.into_figures() {
            files.insert(self.dir.join("figures").join(name), svg.into_bytes());
        }
        files.insert(self.dir.join("results.csv"), csv.into_bytes());
        Ok(files)
    }

    /// The files that differ from what they should be: those that `draw` would write or remove.
    pub fn outdated(&self) -> Result<Vec<PathBuf>, RecordError> {
        self.outdated_of(&self.files()?)
    }

    fn outdated_of(&self, files: &BTreeMap<PathBuf, Vec<u8>>) -> Result<Vec<PathBuf>, RecordError> {
        let differs = |(path, contents): (&PathBuf, &Vec<u8>)| {
            (std::fs::read(path).ok().as_ref() != Some(contents)).then(|| path.clone())
        };
        let mut outdated: Vec<PathBuf> = files.iter().filter_map(differs).collect();
        outdated.extend(entries(&self.dir.join("figures"))?.into_iter().filter(|path| !files.contains_key(path)));
        Ok(outdated)
    }

    /// Makes all figures and generated parts anew. Gives the files that changed.
    pub fn draw(&self) -> Result<Vec<PathBuf>, RecordError> {
        let files = self.files()?;
        let outdated = self.outdated_of(&files)?;
        create_folder(&self.dir.join("figures"))?;
        for path in &outdated {
            match files.get(path) {
                Some(contents) => write_whole(path, contents)?,
                None => std::fs::remove_file(path).map_err(|error| RecordError::io(path, &error))?,
            }
        }
        Ok(outdated)
    }
}

/// The entries of a folder, sorted; none if there is no such folder.
fn entries(dir: &Path) -> Result<Vec<PathBuf>, RecordError> {
    if !dir.exists() {
        return Ok(Vec::new());
    }
    let failed = |error| RecordError::io(dir, &error);
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        paths.push(entry.map_err(failed)?.path());
    }
    paths.sort();
    Ok(paths)
}
