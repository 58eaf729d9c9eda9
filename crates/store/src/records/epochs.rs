//! `epochs.csv`: one line per epoch.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use semfocus_core::EpochRecord;

use crate::cursor::{Cursor, Lines};
use crate::{StoreError, files};

/// The columns of every version of the format, from version 1 on; the version is the last column of every line. New files
/// have the last version. A file that was begun in an earlier one is continued in it.
const HEADERS: [&str; 2] = [
    "epoch,lr,train_loss,train_accuracy,heldout_loss,heldout_accuracy,grad_norm,seconds,format",
    "epoch,lr,train_loss,train_accuracy,heldout_loss,heldout_accuracy,grad_norm,seconds,steps,format",
];

/// The last version of the format.
const FORMAT: u32 = HEADERS.len() as u32;

/// The file `epochs.csv` of a trial.
#[derive(Debug)]
pub(crate) struct Epochs {
    path: PathBuf,
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
        let begun = self.begun_format()?;
        // Records of a file that was set aside may lack the steps.
        let format = begun.unwrap_or(if records.iter().all(|record| record.steps.is_some()) { FORMAT } else { 1 });
        let header = begun.is_none().then(|| format!("{}\n", HEADERS[format as usize - 1]));
        let lines = records.iter().map(|record| line(record, format) + "\n");
        files::append(&self.path, &header.into_iter().chain(lines).collect::<String>())
    }

    /// The version of the format that the file was begun in; none if it has no line yet.
    fn begun_format(&self) -> Result<Option<u32>, StoreError> {
        let failed = |error| StoreError::io("read", &self.path, error);
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let mut first = String::new();
        BufReader::new(file).read_line(&mut first).map_err(failed)?;
        // Half a line, left by a process that died, does not count.
        let Some(first) = first.strip_suffix('\n') else { return Ok(None) };
        let format = (1..).zip(HEADERS).find(|(_, header)| *header == first).map(|(format, _)| format);
        format.map(Some).ok_or_else(|| self.damaged(1, &unknown_header()))
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
        let split = |line: &str| csv::StringRecord::from(line.split(',').collect::<Vec<_>>());
        let mut records = Vec::new();
        // From the first line, where it is read.
        let (mut is_header_unknown, mut columns) = (false, None);
        for (number, _, line) in lines.iter() {
            if number == 1 {
                is_header_unknown = !HEADERS.contains(&line);
                columns = (!is_header_unknown).then(|| line.split(',').count());
                continue;
            }
            let row = split(line);
            if columns.is_some_and(|columns| columns != row.len()) {
                return Err(self.damaged(number, "expected a number for every column"));
            }
            let format = row.iter().next_back().and_then(|format| format.parse::<u32>().ok());
            if let Some(format) = format.filter(|format| *format > FORMAT) {
                return Err(StoreError::Newer { path: self.path.clone(), format, known: FORMAT });
            }
            if is_header_unknown {
                break;
            }
            let header =
                format.and_then(|format| HEADERS.get((format as usize).checked_sub(1)?)).map(|text| split(text));
            let record: EpochRecord = header
                .filter(|header| header.len() == row.len())
                .and_then(|header| row.deserialize(Some(&header)).ok())
                .ok_or_else(|| self.damaged(number, "expected a number for every column"))?;
            if record.epoch != number - 1 {
                return Err(self.damaged(number, &format!("expected epoch {}", number - 1)));
            }
            records.push(record);
        }
        if is_header_unknown { Err(self.damaged(1, &unknown_header())) } else { Ok(records) }
    }

    fn damaged(&self, line: usize, reason: &str) -> StoreError {
        StoreError::damaged(&self.path, format!("line {line}: {reason}"))
    }
}

fn unknown_header() -> String {
    format!("expected the header {}", HEADERS[FORMAT as usize - 1])
}

/// The line of a record. The time alone differs between two runs of the same trial.
fn line(record: &EpochRecord, format: u32) -> String {
    let EpochRecord {
        epoch,
        lr,
        train_loss,
        train_accuracy,
        heldout_loss,
        heldout_accuracy,
        grad_norm,
        seconds,
        steps,
    } = record;
    let steps = match (format, steps) {
        (1, _) => String::new(),
        (_, steps) => format!("{},", steps.map_or(String::new(), |steps| steps.to_string())),
    };
    format!(
        "{epoch},{lr},{train_loss},{train_accuracy},{heldout_loss},{heldout_accuracy},{grad_norm},{seconds:.3},{steps}{format}"
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
            steps: Some(16 * epoch as u64),
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
        assert_eq!(text.lines().next(), Some(HEADERS[1]));
        assert!(text.lines().nth(2).unwrap().ends_with(",1.250,32,2"), "{text}");
    }

    #[test]
    fn a_file_is_continued_in_the_format_it_was_begun_in() {
        let scratch = Scratch::new("epochs-formats");
        let epochs = Epochs::new(scratch.path().join("epochs.csv"));
        std::fs::write(epochs.path(), format!("{}\n1,0.1,1,1,1,1,1,1.250,1\n", HEADERS[0])).unwrap();
        epochs.append(&record(2)).unwrap();
        let text = std::fs::read_to_string(epochs.path()).unwrap();
        assert!(text.ends_with(",1.250,1\n") && text.lines().count() == 3, "{text}");
        let read = epochs.read().unwrap();
        assert_eq!(read[1], EpochRecord { steps: None, ..record(2) });
        // A copy of records without steps is in their format, too.
        let copy = Epochs::new(scratch.path().join("copy.csv"));
        copy.append_all(&read).unwrap();
        assert_eq!(std::fs::read_to_string(copy.path()).unwrap(), text);
        // A reader that has passed the header knows the columns of a line from its format.
        let mut cursor = Cursor::default();
        assert_eq!(copy.read_from(&mut cursor).unwrap(), read);
        copy.append(&record(3)).unwrap();
        assert_eq!(copy.read_from(&mut cursor).unwrap(), [EpochRecord { steps: None, ..record(3) }]);
    }

    #[test]
    fn damage_and_newer_formats_are_told_apart() {
        let scratch = Scratch::new("epochs-damage");
        let epochs = Epochs::new(scratch.path().join("epochs.csv"));
        let read = |lines: &str| {
            std::fs::write(epochs.path(), format!("{}\n{lines}\n", HEADERS[1])).unwrap();
            epochs.read()
        };
        assert!(matches!(read("1,0.1,1,1,1,1,1,1,16,3"), Err(StoreError::Newer { format: 3, .. })));
        for damaged in
            ["1,0.1,1,1,1,1,1,1,16", "1,0.1,x,1,1,1,1,1,16,2", "2,0.1,1,1,1,1,1,1,16,2", "1,0.1,1,1,1,1,1,1,2"]
        {
            assert!(matches!(read(damaged), Err(StoreError::Damaged { .. })), "{damaged}");
        }
        // A later version may have other columns.
        std::fs::write(epochs.path(), "epoch,loss,format\n1,2,3\n").unwrap();
        assert!(matches!(epochs.read(), Err(StoreError::Newer { format: 3, .. })));
        std::fs::write(epochs.path(), "epoch,loss\n1,2\n").unwrap();
        assert!(matches!(epochs.read(), Err(StoreError::Damaged { .. })));
    }
}
