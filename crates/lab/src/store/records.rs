//! `epochs.csv`: one line an epoch.

use std::path::Path;

use serde::Serialize;

use super::{StoreError, files};

/// What an epoch showed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct EpochRecord {
    /// Number of the epoch, from 1.
    pub epoch: usize,
    /// Its learning rate.
    pub lr: f64,
    /// Mean loss over the whole training set after it, in evaluation mode.
    pub train_loss: f64,
    /// Share of the training set that is classified correctly.
    pub train_accuracy: f64,
    /// Mean loss over the whole held-out set.
    pub heldout_loss: f64,
    /// Share of the held-out set that is classified correctly.
    pub heldout_accuracy: f64,
    /// Joint norm of the gradients before clipping, mean over the steps of the epoch.
    pub grad_norm: f64,
    /// Wall-clock time of the epoch: training and evaluation.
    pub seconds: f64,
}

const HEADER: &str = "epoch,lr,train_loss,train_accuracy,heldout_loss,heldout_accuracy,grad_norm,seconds";

impl EpochRecord {
    /// The line without the time, which alone differs between two runs of the same trial.
    pub fn reproducible_part(&self) -> String {
        let EpochRecord { epoch, lr, train_loss, train_accuracy, heldout_loss, heldout_accuracy, grad_norm, .. } = self;
        format!("{epoch},{lr},{train_loss},{train_accuracy},{heldout_loss},{heldout_accuracy},{grad_norm}")
    }

    fn line(&self) -> String {
        format!("{},{:.3}", self.reproducible_part(), self.seconds)
    }

    fn parse(line: &str) -> Option<Self> {
        let (epoch, numbers) = line.split_once(',')?;
        let numbers: Vec<f64> = numbers.split(',').map(str::parse).collect::<Result<_, _>>().ok()?;
        let [lr, train_loss, train_accuracy, heldout_loss, heldout_accuracy, grad_norm, seconds] =
            <[f64; 7]>::try_from(numbers).ok()?;
        let epoch = epoch.parse().ok()?;
        Some(EpochRecord { epoch, lr, train_loss, train_accuracy, heldout_loss, heldout_accuracy, grad_norm, seconds })
    }
}

/// All complete lines of a file; none if there is no file. A last line without its end was being written when the process
/// died and does not count.
pub(super) fn read(path: &Path) -> Result<Vec<EpochRecord>, StoreError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(StoreError::io("read", path, error)),
    };
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    let broken = |line: usize, reason: &str| StoreError::broken(path, format!("line {line}: {reason}"));
    let mut lines = complete.lines();
    match lines.next() {
        None => return Ok(Vec::new()),
        Some(HEADER) => {}
        Some(_) => return Err(broken(1, &format!("expected the header {HEADER}"))),
    }
    let mut records = Vec::new();
    for (index, line) in lines.enumerate() {
        let record = EpochRecord::parse(line).ok_or_else(|| broken(index + 2, "expected a number for every column"))?;
        if record.epoch != index + 1 {
            return Err(broken(index + 2, &format!("expected epoch {}", index + 1)));
        }
        records.push(record);
    }
    Ok(records)
}

/// Appends a record; the first one after the header.
pub(super) fn append(path: &Path, record: &EpochRecord) -> Result<(), StoreError> {
    let line = record.line();
    if path.exists() { files::append_line(path, &line) } else { files::append_line(path, &format!("{HEADER}\n{line}")) }
}

/// Leaves exactly these records in the file.
pub(super) fn replace(path: &Path, records: &[EpochRecord]) -> Result<(), StoreError> {
    let lines = records.iter().map(|record| record.line() + "\n");
    let text = std::iter::once(format!("{HEADER}\n")).chain(lines).collect::<String>();
    if std::fs::read(path).is_ok_and(|present| present == text.as_bytes()) {
        return Ok(());
    }
    files::write_whole(path, text.as_bytes())
}
