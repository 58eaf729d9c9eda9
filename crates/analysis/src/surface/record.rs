//! Surfaces and sharpness in a run store.
//!
//! ```text
//! trials/<id>/surfaces/<name>/surface.json   what was evaluated: weights, directions, grid, examples
//! trials/<id>/surfaces/<name>/cells.csv      one line a cell, as they are finished
//! trials/<id>/sharpness.jsonl                one line for each model that was looked at
//! ```
//!
//! The name of a surface follows from everything that determines its numbers, so the same question finds its cells again and
//! another question has a folder of its own.

use std::path::{Path, PathBuf};

use semfocus_lab::store::files::{append_line, write_whole};
use semfocus_lab::store::{Lock, StoreError, TrialFolder};
use semfocus_lab::training::Evaluation;
use semfocus_nn::Key;
use serde::{Deserialize, Serialize};

use super::landscape::{Cell, Grid};
use super::sharpness::Sharpness;

const HEADER: &str = "cell,x,y,loss,accuracy";

/// Everything that determines the numbers of a surface, besides the trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SurfaceSettings {
    /// Epochs that the model was trained for.
    pub epoch: usize,
    /// A number that stands for its weights.
    pub weights: String,
    /// How the directions were chosen, in words: `tensor`, `filter`, `path`, or what they lead to.
    pub directions: String,
    /// Seed of the directions and which draw of it.
    pub seed: u64,
    /// See `seed`.
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
    fn name(&self) -> String {
        let text = serde_json::to_string(self).expect("plain fields can be written");
        format!("{:016x}", Key::new(0).named(&text).bits())
    }
}

/// A number that stands for some weights.
pub fn fingerprint(weights: &[f64]) -> String {
    let mut key = Key::new(weights.len() as u64);
    for weight in weights {
        key = key.child(weight.to_bits());
    }
    format!("{:016x}", key.bits())
}

/// A surface as it stands in a store.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredSurface {
    /// What was evaluated.
    pub settings: SurfaceSettings,
    /// The value of every cell, row by row.
    pub values: Vec<Evaluation>,
}

/// The folder of a surface that is being evaluated.
#[derive(Debug)]
pub struct SurfaceFolder {
    path: PathBuf,
    grid: Grid,
    /// Cells that are there, whether from an earlier stay or this one.
    cells: Vec<Cell>,
    _lock: Lock,
}

/// Why a surface cannot be begun.
#[derive(Debug, thiserror::Error)]
pub enum SurfaceError {
    /// Something is wrong with the files.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another process evaluates it.
    #[error("another process evaluates {}", .0.display())]
    Held(PathBuf),
}

impl SurfaceFolder {
    /// Opens the folder of a surface of a trial, new or begun before.
    pub fn open(trial: &TrialFolder, settings: &SurfaceSettings) -> Result<Self, SurfaceError> {
        let path = trial.path().join("surfaces").join(settings.name());
        let Ok(lock) = TrialFolder::new(path.clone()).lock()? else { return Err(SurfaceError::Held(path)) };
        let text = serde_json::to_string_pretty(settings).expect("plain fields can be written") + "\n";
        write_whole(&path.join("surface.json"), text.as_bytes())?;
        let cells = read_cells(&path, &settings.grid)?;
        let folder = SurfaceFolder { path, grid: settings.grid, cells, _lock: lock };
        // Without the half line that a kill may have left.
        folder.write()?;
        Ok(folder)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The cells that are not there yet, in their order.
    pub fn missing(&self) -> Vec<usize> {
        let mut is_there = vec![false; self.grid.cells()];
        self.cells.iter().for_each(|cell| is_there[cell.number] = true);
        (0..self.grid.cells()).filter(|&cell| !is_there[cell]).collect()
    }

    /// Adds cells; they are on the disk when this returns.
    pub fn add(&mut self, cells: &[Cell]) -> Result<(), StoreError> {
        if cells.is_empty() {
            return Ok(());
        }
        let lines: Vec<String> = cells.iter().map(|cell| line(&self.grid, cell)).collect();
        append_line(&self.path.join("cells.csv"), &lines.join("\n"))?;
        self.cells.extend_from_slice(cells);
        Ok(())
    }

    /// Puts the cells in their order: the same bytes, however they were computed.
    pub fn finish(mut self) -> Result<(), StoreError> {
        self.cells.sort_by_key(|cell| cell.number);
        self.write()
    }

    fn write(&self) -> Result<(), StoreError> {
        let lines = self.cells.iter().map(|cell| line(&self.grid, cell) + "\n");
        let text = std::iter::once(format!("{HEADER}\n")).chain(lines).collect::<String>();
        write_whole(&self.path.join("cells.csv"), text.as_bytes())
    }
}

fn line(grid: &Grid, cell: &Cell) -> String {
    let (x, y) = grid.place(cell.number);
    format!("{},{x},{y},{},{}", cell.number, cell.value.loss, cell.value.accuracy)
}

/// The complete lines of `cells.csv`; none if there is no file.
fn read_cells(folder: &Path, grid: &Grid) -> Result<Vec<Cell>, StoreError> {
    let path = folder.join("cells.csv");
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(StoreError::Io { action: "read", path, error }),
    };
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    let parse = |line: &str| -> Option<Cell> {
        let [number, _, _, loss, accuracy] = <[&str; 5]>::try_from(line.split(',').collect::<Vec<_>>()).ok()?;
        let number = number.parse().ok().filter(|number| *number < grid.cells())?;
        Some(Cell { number, value: Evaluation { loss: loss.parse().ok()?, accuracy: accuracy.parse().ok()? } })
    };
    let broken = |line: usize| StoreError::Broken {
        path: path.clone(),
        reason: format!("line {}: expected {HEADER}; remove the file to evaluate its cells again", line + 1),
    };
    let mut cells = Vec::new();
    for (index, line) in complete.lines().enumerate() {
        match (index, line) {
            (0, HEADER) => {}
            (0, _) => return Err(broken(0)),
            (_, line) => cells.push(parse(line).ok_or_else(|| broken(index))?),
        }
    }
    Ok(cells)
}

/// The complete surfaces of a trial, by epoch, directions and draw.
pub fn surfaces(trial: &Path) -> Result<Vec<StoredSurface>, StoreError> {
    let entries = std::fs::read_dir(trial.join("surfaces")).into_iter().flatten().flatten();
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.path().join("surface.json");
        let Ok(text) = std::fs::read(&path) else { continue };
        let settings: SurfaceSettings =
            serde_json::from_slice(&text).map_err(|error| StoreError::Broken { path, reason: error.to_string() })?;
        let mut values = vec![None; settings.grid.cells()];
        for cell in read_cells(&entry.path(), &settings.grid)? {
            values[cell.number] = Some(cell.value);
        }
        if let Some(values) = values.into_iter().collect::<Option<Vec<_>>>() {
            found.push(StoredSurface { settings, values });
        }
    }
    found.sort_by(|a, b| {
        let key = |surface: &StoredSurface| {
            let SurfaceSettings { epoch, directions, seed, draw, .. } = &surface.settings;
            (*epoch, directions.clone(), *seed, *draw, surface.settings.name())
        };
        key(a).cmp(&key(b))
    });
    Ok(found)
}

/// A line of `sharpness.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SharpnessRecord {
    /// Epochs that the model was trained for.
    pub epoch: usize,
    /// Training examples: the first ones.
    pub samples: usize,
    /// Whether the products are exact but for rounding; see [`Differences`](super::sharpness::Differences).
    pub exact: bool,
    /// Random vectors that the trace was estimated from.
    pub probes: usize,
    /// What was found.
    #[serde(flatten)]
    pub sharpness: Sharpness,
    /// Seconds that it took.
    pub seconds: f64,
}

/// What is on record about the sharpness of a trial's models, by ascending epoch.
pub fn sharpness(trial: &Path) -> Result<Vec<SharpnessRecord>, StoreError> {
    let path = trial.join("sharpness.jsonl");
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(StoreError::Io { action: "read", path, error }),
    };
    let parse = |(index, line): (usize, &str)| {
        serde_json::from_str(line)
            .map_err(|error| StoreError::Broken { path: path.clone(), reason: format!("line {}: {error}", index + 1) })
    };
    let mut records: Vec<SharpnessRecord> = text.lines().enumerate().map(parse).collect::<Result<_, _>>()?;
    records.sort_by_key(|record| record.epoch);
    Ok(records)
}

/// Adds a record in the place of an earlier one about the same model, examples and way.
pub fn record_sharpness(trial: &TrialFolder, _lock: &Lock, record: &SharpnessRecord) -> Result<(), StoreError> {
    let mut records = sharpness(trial.path())?;
    let same =
        |a: &SharpnessRecord, b: &SharpnessRecord| (a.epoch, a.samples, a.exact) == (b.epoch, b.samples, b.exact);
    records.retain(|other| !same(other, record));
    records.push(record.clone());
    records.sort_by_key(|record| record.epoch);
    let line = |record| serde_json::to_string(record).expect("plain fields can be written") + "\n";
    write_whole(&trial.path().join("sharpness.jsonl"), records.iter().map(line).collect::<String>().as_bytes())
}
