//! Loss surfaces in the folder of a trial.
//!
//! The name of a surface is a hash of everything that determines its numbers, so the same question finds its cells again
//! and another question has a folder of its own.

use std::path::{Path, PathBuf};

use semfocus_core::{Evaluation, Key};
use serde::{Deserialize, Serialize};

use crate::cursor::Cursor;
use crate::{StoreError, TrialFolder, files};

/// The version of the format that is written, also the last column of every cell; versions up to it can be read.
const FORMAT: u32 = 1;

const HEADER: &str = "cell,x,y,loss,accuracy,format";

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

/// Everything that determines the numbers of a surface, besides the trial.
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
    /// Where models of the training path lie: epoch, x, y.
    pub path: Vec<(usize, f64, f64)>,
}

impl SurfaceSettings {
    /// Name of the folder.
    pub fn name(&self) -> String {
        let text = serde_json::to_string(self).expect("plain fields can be written");
        format!("{:016x}", Key::new(0).named(&text).bits())
    }
}

#[derive(Serialize, Deserialize)]
struct Description {
    #[serde(default)]
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
    /// The folder of a surface of a trial, whether it is there or not.
    pub fn new(trial: &TrialFolder, settings: SurfaceSettings) -> Self {
        SurfaceFolder { path: trial.path().join("surfaces").join(settings.name()), settings }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is evaluated.
    pub fn settings(&self) -> &SurfaceSettings {
        &self.settings
    }

    /// Describes the surface, and drops a cell that was being written when a process died.
    pub fn begin(&self) -> Result<(), StoreError> {
        let path = self.path.join("surface.json");
        if !path.exists() {
            files::write_json(&path, &Description { format: FORMAT, settings: self.settings.clone() })?;
        }
        let mut cursor = Cursor::default();
        cursor.read(&self.cells_path())?;
        if self.cells_path().exists() { files::truncate(&self.cells_path(), cursor.bytes()) } else { Ok(()) }
    }

    /// The cells that are on the disk: always the first ones, in their order.
    pub fn cells(&self) -> Result<Vec<Evaluation>, StoreError> {
        let path = self.cells_path();
        let lines = Cursor::default().read(&path)?;
        let damaged = |line: usize| {
            let reason = format!("line {line}: expected {HEADER}; remove the file to evaluate its cells again");
            StoreError::damaged(&path, reason)
        };
        let mut cells = Vec::new();
        for (number, _, line) in lines.iter() {
            if number == 1 {
                if line != HEADER {
                    return Err(damaged(1));
                }
                continue;
            }
            let fields: Vec<&str> = line.split(',').collect();
            let &[cell, _, _, loss, accuracy, format] = &fields[..] else { return Err(damaged(number)) };
            match format.parse() {
                Ok(format) if format > FORMAT => return Err(StoreError::Newer { path, format, known: FORMAT }),
                Ok(FORMAT) => {}
                _ => return Err(damaged(number)),
            }
            let is_next = cell.parse() == Ok(cells.len()) && cells.len() < self.settings.grid.cells();
            match (is_next, loss.parse(), accuracy.parse()) {
                (true, Ok(loss), Ok(accuracy)) => cells.push(Evaluation { loss, accuracy }),
                _ => return Err(damaged(number)),
            }
        }
        Ok(cells)
    }

    /// Adds the cells that follow the first `done`; they are on the disk when this returns.
    pub fn append(&self, done: usize, cells: &[Evaluation]) -> Result<(), StoreError> {
        if cells.is_empty() {
            return Ok(());
        }
        let line = |(number, Evaluation { loss, accuracy }): (usize, &Evaluation)| {
            let (x, y) = self.settings.grid.place(number);
            format!("{number},{x},{y},{loss},{accuracy},{FORMAT}\n")
        };
        let lines: String = (done..).zip(cells).map(line).collect();
        let header = if done == 0 { format!("{HEADER}\n") } else { String::new() };
        files::append(&self.cells_path(), &(header + &lines))
    }

    fn cells_path(&self) -> PathBuf {
        self.path.join("cells.csv")
    }
}

impl TrialFolder {
    /// The complete surfaces of the trial, by epoch, directions and draw.
    pub fn surfaces(&self) -> Result<Vec<StoredSurface>, StoreError> {
        let entries = std::fs::read_dir(self.path().join("surfaces")).into_iter().flatten().flatten();
        let mut found = Vec::new();
        for entry in entries {
            found.extend(read(&entry.path())?);
        }
        found.sort_by_cached_key(|StoredSurface { settings, .. }| {
            let SurfaceSettings { epoch, directions, seed, draw, .. } = settings;
            (*epoch, directions.clone(), *seed, *draw, settings.name())
        });
        Ok(found)
    }

    /// A complete surface by its name.
    pub fn surface(&self, name: &str) -> Result<Option<StoredSurface>, StoreError> {
        read(&self.path().join("surfaces").join(name))
    }
}

/// The surface in a folder, if it is complete.
fn read(path: &Path) -> Result<Option<StoredSurface>, StoreError> {
    let file = path.join("surface.json");
    let Some(Description { format, settings }) = files::read_json::<Description>(&file)? else { return Ok(None) };
    if format > FORMAT {
        return Err(StoreError::Newer { path: file, format, known: FORMAT });
    }
    let folder = SurfaceFolder { path: path.to_owned(), settings };
    let values = folder.cells()?;
    let is_complete = values.len() == folder.settings.grid.cells();
    Ok(is_complete.then_some(StoredSurface { settings: folder.settings, values }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scratch;

    #[test]
    fn cells_are_appended_in_their_order_and_found_again_by_name() {
        let scratch = Scratch::new("surface");
        let trial = TrialFolder::new(scratch.path().to_owned());
        let settings = SurfaceSettings {
            epoch: 3,
            weights: "abc".to_owned(),
            directions: "path".to_owned(),
            seed: 0,
            draw: 0,
            grid: Grid { side: 3, range: 0.1 + 0.2 },
            samples: 10,
            // Numbers of 17 digits.
            path: (0..50).map(|epoch| (epoch, 1.0 / (3.0 + epoch as f64), -0.1 * epoch as f64)).collect(),
        };
        let folder = SurfaceFolder::new(&trial, settings.clone());
        crate::files::create_folder(folder.path()).unwrap();
        folder.begin().unwrap();
        let value = |cell: usize| Evaluation { loss: 1.0 / (cell as f64 + 0.3), accuracy: 0.25 };
        folder.append(0, &[value(0), value(1)]).unwrap();
        assert_eq!(trial.surface(&settings.name()).unwrap(), None, "it is not complete");
        // A process dies while it writes the third cell.
        let cells = folder.path().join("cells.csv");
        let text = std::fs::read_to_string(&cells).unwrap();
        std::fs::write(&cells, format!("{text}2,0.3,-0.3")).unwrap();
        folder.begin().unwrap();
        assert_eq!(folder.cells().unwrap(), [value(0), value(1)]);
        folder.append(2, &(2..9).map(value).collect::<Vec<_>>()).unwrap();
        let stored = trial.surface(&settings.name()).unwrap().unwrap();
        assert_eq!((&stored.settings, stored.values.len(), stored.values[8]), (&settings, 9, value(8)));
        assert_eq!(stored.settings.name(), settings.name());
        assert_eq!(trial.surfaces().unwrap(), [stored]);
    }
}
