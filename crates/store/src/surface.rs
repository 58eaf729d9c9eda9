//! Loss surfaces in the folder of a trial.
//!
//! The name of a surface is a hash of the question: the epoch, the directions, the grid, the examples. It can be computed
//! without the model, so the same question finds its cells again and another question has a folder of its own. What the weights
//! were is part of the description and of the checksum of every cell.

use std::path::{Path, PathBuf};

use semfocus_core::{Evaluation, Key};
use serde::{Deserialize, Serialize};

use crate::cursor::Cursor;
use crate::records::Table;
use crate::{Lease, StoreError, TrialReader, disk, files, lease};

/// The version of the format that is read and written, also the last column of every cell. The column before it is a checksum
/// of the cell.
const FORMAT: u32 = 2;

const HEADER: &str = "cell,x,y,loss,accuracy,check,format";

/// Cells in a row of the largest grid.
pub const MAX_SIDE: usize = 501;

/// A square grid from -range to range in both directions, row by row from the smallest y on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Grid {
    /// Cells in a row.
    pub side: usize,
    /// How far it reaches.
    pub range: f64,
}

impl Grid {
    /// Number of its cells.
    pub fn cells(&self) -> usize {
        self.side * self.side
    }

    /// Distance of neighbouring cells.
    pub fn step(&self) -> f64 {
        2.0 * self.range / (self.side - 1) as f64
    }

    /// Coordinates of a cell.
    pub fn place(&self, cell: usize) -> (f64, f64) {
        (self.coordinate(cell % self.side), self.coordinate(cell / self.side))
    }

    /// The middle of an odd grid is 0 exactly.
    fn coordinate(&self, index: usize) -> f64 {
        let last = (self.side - 1) as f64;
        self.range * (2.0 * index as f64 - last) / last
    }
}

/// Everything that determines the numbers of a surface, except the trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SurfaceSettings {
    /// Epochs that the model was trained for.
    pub epoch: usize,
    /// Hash of the model's weights.
    pub weights: String,
    /// How the directions were chosen, in words: `tensor`, `filter`, `path`, or what they lead to.
    pub directions: String,
    /// Seed of random directions.
    pub seed: u64,
    /// Which draw of that seed.
    pub draw: usize,
    /// The grid.
    pub grid: Grid,
    /// Training examples: the first ones.
    pub samples: usize,
    /// Whether dropout of the attention weights is on, drawn afresh for every cell, as in the published code.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub attention_dropout: bool,
    /// Where models of the training path lie: epoch, x, y.
    pub path: Vec<(usize, f64, f64)>,
}

impl SurfaceSettings {
    /// Name of the folder: a hash of the question, whatever the weights are.
    pub fn name(&self) -> String {
        self.question().hash()
    }

    /// The settings without what is known only when the model is read.
    fn question(&self) -> Self {
        SurfaceSettings { weights: String::new(), path: Vec::new(), ..self.clone() }
    }

    /// Hash of everything. Version 0.2.0 named folders by it.
    fn hash(&self) -> String {
        let text = serde_json::to_string(self).expect("plain fields can be written");
        format!("{:016x}", Key::new(0).named(&text).bits())
    }
}

#[derive(Serialize, Deserialize)]
struct Description {
    format: u32,
    #[serde(flatten)]
    settings: SurfaceSettings,
}

/// A complete surface.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredSurface {
    /// What was evaluated.
    pub settings: SurfaceSettings,
    /// The value of every cell, row by row.
    pub values: Vec<Evaluation>,
}

/// The folder of a surface. The process that writes to it holds its lease.
#[derive(Clone, Debug)]
pub struct SurfaceFolder {
    path: PathBuf,
    settings: SurfaceSettings,
}

impl SurfaceFolder {
    /// The folder of a surface of a trial: the one that answers the same question, or a new one. The weights and the path need
    /// not be known yet.
    pub fn new(trial: &TrialReader, settings: SurfaceSettings) -> Self {
        let question = settings.question();
        let is_same =
            |path: &PathBuf| description(path).ok().flatten().is_some_and(|found| found.question() == question);
        let named = trial.path().join("surfaces").join(settings.name());
        let path = if named.exists() { None } else { folders(trial).into_iter().find(is_same) };
        SurfaceFolder { path: path.unwrap_or(named), settings }
    }

    /// The same folder, with the weights of the model and where the models of its training path lie.
    pub fn with_model(&self, weights: String, path: Vec<(usize, f64, f64)>) -> Self {
        SurfaceFolder { path: self.path.clone(), settings: SurfaceSettings { weights, path, ..self.settings.clone() } }
    }

    /// The surface, if it is complete.
    pub fn complete(&self) -> Result<Option<StoredSurface>, StoreError> {
        read(&self.path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is evaluated.
    pub fn settings(&self) -> &SurfaceSettings {
        &self.settings
    }

    /// Describes the surface, and drops a cell that was being written when a process died. Damaged files are kept aside,
    /// and their new names given: their cells are evaluated again.
    pub fn begin(&self, _lease: &Lease) -> Result<Vec<PathBuf>, StoreError> {
        let mut kept = Vec::new();
        let (description, cells) = (self.path.join("surface.json"), self.cells_path());
        for (path, found) in [(&description, self.describe()), (&cells, self.cells().map(|_| ()))] {
            match found {
                Err(StoreError::Damaged { .. }) => kept.push(files::set_aside(path)?),
                other => other?,
            }
        }
        if !description.exists() {
            files::write_json(&description, &Description { format: FORMAT, settings: self.settings.clone() })?;
        }
        Cursor::cut_half_line(&cells)?;
        Ok(kept)
    }

    /// Checks the description against what is evaluated.
    fn describe(&self) -> Result<(), StoreError> {
        let path = self.path.join("surface.json");
        match description(&self.path)? {
            Some(found) if found != self.settings => Err(StoreError::damaged(&path, "it describes another surface")),
            _ => Ok(()),
        }
    }

    /// The cells that are on the disk: always the first ones, in their order.
    pub fn cells(&self) -> Result<Vec<Evaluation>, StoreError> {
        let table = self.table();
        let read = |(number, line): (usize, String)| {
            if number >= self.settings.grid.cells() {
                return Err(table.damaged(number, "expected no more cells"));
            }
            self.cell(number, &line).ok_or_else(|| table.damaged(number, "it is not the next cell"))
        };
        table.read_from(&mut Cursor::default())?.into_iter().map(read).collect()
    }

    /// What a line says, if it is that of this cell and as it was written.
    fn cell(&self, number: usize, line: &str) -> Option<Evaluation> {
        let mut fields = line.split(',').skip(3);
        let value = Evaluation { loss: fields.next()?.parse().ok()?, accuracy: fields.next()?.parse().ok()? };
        (self.line(number, value) == line && (0.0..=1.0).contains(&value.accuracy)).then_some(value)
    }

    fn line(&self, number: usize, Evaluation { loss, accuracy }: Evaluation) -> String {
        let (x, y) = self.settings.grid.place(number);
        format!("{number},{x},{y},{loss},{accuracy}")
    }

    /// Adds the cells that follow the first `done`; they are on the disk when this returns.
    pub fn append(&self, _lease: &Lease, done: usize, cells: &[Evaluation]) -> Result<(), StoreError> {
        self.table().append((done..).zip(cells).map(|(cell, value)| self.line(cell, *value)))
    }

    fn table(&self) -> Table {
        Table::new(self.cells_path(), self.settings.hash(), HEADER.to_owned(), FORMAT)
    }

    fn cells_path(&self) -> PathBuf {
        self.path.join("cells.csv")
    }
}

impl TrialReader {
    /// The complete surfaces of the trial, by epoch, directions and draw, and what is wrong with those that cannot be read.
    pub fn surfaces(&self) -> (Vec<StoredSurface>, Vec<StoreError>) {
        let (mut found, mut wrong) = (Vec::new(), Vec::new());
        let all = self.path().join("surfaces");
        wrong.extend(disk::list(&all).err().map(|error| StoreError::io("read the folder", &all, error)));
        for path in folders(self) {
            match read(&path) {
                Ok(surface) => found.extend(surface),
                Err(error) => wrong.push(error),
            }
        }
        found.sort_by_cached_key(|StoredSurface { settings, .. }| {
            let SurfaceSettings { epoch, directions, seed, draw, .. } = settings;
            (*epoch, directions.clone(), *seed, *draw, settings.hash())
        });
        (found, wrong)
    }
}

/// What is wrong with the surface in a folder.
pub(crate) fn damage(path: &Path) -> Option<StoreError> {
    let cut_off = || Cursor::half_line(&path.join("cells.csv")).filter(|_| lease::holder(path).is_none());
    read(path).err().or_else(cut_off)
}

/// The folders of all surfaces of a trial.
pub(crate) fn folders(trial: &TrialReader) -> Vec<PathBuf> {
    let all = trial.path().join("surfaces");
    disk::list(&all).unwrap_or_default().into_iter().map(|name| all.join(name)).collect()
}

/// The surface in a folder, if it is complete.
fn read(path: &Path) -> Result<Option<StoredSurface>, StoreError> {
    let Some(settings) = description(path)? else { return Ok(None) };
    let folder = SurfaceFolder { path: path.to_owned(), settings };
    let values = folder.cells()?;
    let is_complete = values.len() == folder.settings.grid.cells();
    Ok(is_complete.then_some(StoredSurface { settings: folder.settings, values }))
}

/// What the surface in a folder is; the name of the folder is a hash of it.
fn description(folder: &Path) -> Result<Option<SurfaceSettings>, StoreError> {
    let path = folder.join("surface.json");
    let Some(Description { format, settings }) = files::read_json::<Description>(&path)? else { return Ok(None) };
    if format != FORMAT {
        return Err(StoreError::format(&path, format, FORMAT));
    }
    let Grid { side, range } = settings.grid;
    if !(2..=MAX_SIDE).contains(&side) || !range.is_finite() {
        return Err(StoreError::damaged(&path, format!("expected a grid of 2 to {MAX_SIDE} cells in a row")));
    }
    if folder
        .file_name()
        .is_some_and(|name| ![settings.name(), settings.hash()].iter().any(|known| name == known.as_str()))
    {
        return Err(StoreError::damaged(&path, "it does not belong to this folder"));
    }
    Ok(Some(settings))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_tools::{Scratch, lease};

    #[test]
    fn cells_are_appended_in_their_order_and_found_again_by_name() {
        let scratch = Scratch::new("surface");
        let trial = TrialReader::new(scratch.path().join("00000000000000a1"), "a1".parse().unwrap());
        let settings = SurfaceSettings {
            epoch: 3,
            weights: "abc".to_owned(),
            directions: "path".to_owned(),
            seed: 0,
            draw: 0,
            grid: Grid { side: 3, range: 0.1 + 0.2 },
            samples: 10,
            attention_dropout: false,
            // Numbers of 17 digits.
            path: (0..50).map(|epoch| (epoch, 1.0 / (3.0 + epoch as f64), -0.1 * epoch as f64)).collect(),
        };
        let folder = SurfaceFolder::new(&trial, settings.clone());
        let lease = &lease(folder.path());
        folder.begin(lease).unwrap();
        let value = |cell: usize| Evaluation { loss: 1.0 / (cell as f64 + 0.3), accuracy: 0.25 };
        folder.append(lease, 0, &[value(0), value(1)]).unwrap();
        assert_eq!(folder.complete().unwrap(), None, "it is not complete");
        // A process dies while it writes the third cell.
        let cells = folder.path().join("cells.csv");
        let text = std::fs::read_to_string(&cells).unwrap();
        std::fs::write(&cells, format!("{text}2,0.3,-0.3")).unwrap();
        folder.begin(lease).unwrap();
        assert_eq!(folder.cells().unwrap(), [value(0), value(1)]);
        folder.append(lease, 2, &(2..9).map(value).collect::<Vec<_>>()).unwrap();
        let stored = folder.complete().unwrap().unwrap();
        assert_eq!((&stored.settings, stored.values.len(), stored.values[8]), (&settings, 9, value(8)));
        // The question finds its answer before the weights are known, also in a folder of version 0.2.0.
        let asked = || SurfaceFolder::new(&trial, settings.question());
        assert_eq!((asked().path(), asked().complete().unwrap().as_ref()), (folder.path(), Some(&stored)));
        let old = folder.path().with_file_name(settings.hash());
        std::fs::rename(folder.path(), &old).unwrap();
        assert_eq!((asked().path(), asked().complete().unwrap().as_ref()), (old.as_path(), Some(&stored)));
        let folder = asked().with_model(settings.weights.clone(), settings.path.clone());
        assert_eq!(folder.cells().unwrap(), stored.values);
        // With other weights it is another surface.
        assert!(asked().with_model("other".to_owned(), Vec::new()).cells().is_err());
        let cells = folder.path().join("cells.csv");
        assert_eq!(trial.surfaces().0, std::slice::from_ref(&stored));
        // A changed value is found, and its cells are evaluated again.
        let text = std::fs::read_to_string(&cells).unwrap();
        std::fs::write(&cells, text.replacen(",0.25,", ",0.26,", 1)).unwrap();
        let (found, wrong) = trial.surfaces();
        assert!(found.is_empty() && wrong[0].to_string().contains("line 2: its checksum is wrong"), "{wrong:?}");
        assert_eq!(folder.begin(lease).unwrap(), [folder.path().join("cells.csv.refused")]);
        assert_eq!(folder.cells().unwrap(), []);
        // So is a description that is not that of the folder, or of a grid that nobody could have asked for.
        let json = folder.path().join("surface.json");
        let text = std::fs::read_to_string(&json).unwrap();
        for (from, to) in [("\"side\": 3", "\"side\": 1000000000"), ("\"samples\": 10", "\"samples\": 11")] {
            std::fs::write(&json, text.replacen(from, to, 1)).unwrap();
            assert!(folder.complete().is_err(), "{from}");
            assert_eq!(folder.begin(lease).unwrap().len(), 1);
        }
    }
}
