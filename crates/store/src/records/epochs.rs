//! `epochs.csv`: one line per epoch.

use std::path::PathBuf;

use semfocus_core::EpochRecord;
use serde::Deserialize;

use crate::cursor::{Cursor, Lines};
use crate::{StoreError, files};

/// The version of the format that is written, the last column of every line; versions up to it can be read.
const FORMAT: u32 = 1;

const HEADER: &str = "epoch,lr,train_loss,train_accuracy,heldout_loss,heldout_accuracy,grad_norm,seconds,format";

/// The file `epochs.csv` of a trial.
#[derive(Debug)]
pub(crate) struct Epochs {
    path: PathBuf,
}

#[derive(Deserialize)]
struct Version {
    format: Option<u32>,
}

impl Epochs {
    pub(crate) fn new(path: PathBuf) -> Self {
        Epochs { path }
    }

    /// Adds an epoch.
    pub(crate) fn append(&self, record: &EpochRecord) -> Result<(), StoreError> {
        self.append_all(std::slice::from_ref(record))
    }

    /// Adds epochs; the first ones after the header.
    pub(crate) fn append_all(&self, records: &[EpochRecord]) -> Result<(), StoreError> {
        let is_new = std::fs::metadata(&self.path).map_or(true, |metadata| metadata.len() == 0);
        let header = is_new.then(|| format!("{HEADER}\n"));
        let lines = records.iter().map(|record| line(record) + "\n");
        files::append(&self.path, &header.into_iter().chain(lines).collect::<String>())
    }

    /// All complete lines; none if there is no file.
    pub(crate) fn read(&self) -> Result<Vec<EpochRecord>, StoreError> {
        self.records(&Cursor::default().read(&self.path)?)
    }

    /// The epochs that were added after the cursor.
    pub(crate) fn read_from(&self, cursor: &mut Cursor) -> Result<Vec<EpochRecord>, StoreError> {
        self.records(&cursor.read(&self.path)?)
    }

    /// Forgets a half-written last line, and the epochs after the first `epochs`, which will be computed again.
    pub(crate) fn cut(&self, epochs: usize) -> Result<(), StoreError> {
        if !self.path.exists() {
            return Ok(());
        }
        let mut cursor = Cursor::default();
        let lines = cursor.read(&self.path)?;
        let end = lines.iter().nth(1 + epochs).map_or(cursor.bytes(), |(_, start, _)| start);
        files::truncate(&self.path, end)
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        &self.path
    }

    fn records(&self, lines: &Lines) -> Result<Vec<EpochRecord>, StoreError> {
        let damaged = |line: usize, reason: &str| StoreError::damaged(&self.path, format!("line {line}: {reason}"));
        let header = csv::StringRecord::from(HEADER.split(',').collect::<Vec<_>>());
        let mut records = Vec::new();
        for (number, _, line) in lines.iter() {
            if number == 1 {
                if line != HEADER {
                    return Err(damaged(1, &format!("expected the header {HEADER}")));
                }
                continue;
            }
            let row = csv::StringRecord::from(line.split(',').collect::<Vec<_>>());
            if let Ok(Version { format: Some(format) }) = row.deserialize(Some(&header))
                && format > FORMAT
            {
                return Err(StoreError::Newer { path: self.path.clone(), format, known: FORMAT });
            }
            let record: EpochRecord = (row.len() == header.len())
                .then(|| row.deserialize(Some(&header)).ok())
                .flatten()
                .ok_or_else(|| damaged(number, "expected a number for every column"))?;
            if record.epoch != number - 1 {
                return Err(damaged(number, &format!("expected epoch {}", number - 1)));
            }
            records.push(record);
        }
        Ok(records)
    }
}

/// The line without the time, which alone differs between two runs of the same trial, and the format.
fn line(record: &EpochRecord) -> String {
    let EpochRecord { epoch, lr, train_loss, train_accuracy, heldout_loss, heldout_accuracy, grad_norm, seconds } =
        record;
    format!(
        "{epoch},{lr},{train_loss},{train_accuracy},{heldout_loss},{heldout_accuracy},{grad_norm},{seconds:.3},{FORMAT}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scratch;

    fn record(epoch: usize) -> EpochRecord {
        let third = epoch as f64 / 3.0;
        EpochRecord {
            epoch,
            lr: 0.1,
            train_loss: third,
            train_accuracy: 1.0 / third,
            heldout_loss: third * third,
            heldout_accuracy: 0.5,
            grad_norm: third.sqrt(),
            seconds: 1.25,
        }
    }

    #[test]
    fn a_reader_follows_the_epochs_and_numbers_keep_their_bits() {
        let scratch = Scratch::new("epochs");
        let epochs = Epochs::new(scratch.path().join("epochs.csv"));
        let mut cursor = Cursor::default();
        assert_eq!(epochs.read_from(&mut cursor).unwrap(), []);
        epochs.append_all(&[record(1), record(2)]).unwrap();
        assert_eq!(epochs.read_from(&mut cursor).unwrap(), [record(1), record(2)]);
        epochs.append(&record(3)).unwrap();
        assert_eq!(epochs.read_from(&mut cursor).unwrap(), [record(3)]);
        epochs.cut(1).unwrap();
        assert_eq!(epochs.read().unwrap(), [record(1)]);
        epochs.append(&record(2)).unwrap();
        let text = std::fs::read_to_string(epochs.path()).unwrap();
        assert_eq!(text.lines().next(), Some(HEADER));
        assert!(text.lines().skip(1).all(|line| line.ends_with(",1.250,1")), "{text}");
    }

    #[test]
    fn damage_and_newer_formats_are_told_apart() {
        let scratch = Scratch::new("epochs-damage");
        let epochs = Epochs::new(scratch.path().join("epochs.csv"));
        let read = |lines: &str| {
            std::fs::write(epochs.path(), format!("{HEADER}\n{lines}\n")).unwrap();
            epochs.read()
        };
        assert!(matches!(read("1,0.1,1,1,1,1,1,1,2"), Err(StoreError::Newer { format: 2, .. })));
        for damaged in ["1,0.1,1,1,1,1,1,1", "1,0.1,x,1,1,1,1,1,1", "2,0.1,1,1,1,1,1,1,1"] {
            assert!(matches!(read(damaged), Err(StoreError::Damaged { .. })), "{damaged}");
        }
        std::fs::write(epochs.path(), "epoch,loss\n1,2\n").unwrap();
        assert!(matches!(epochs.read(), Err(StoreError::Damaged { .. })));
    }
}
