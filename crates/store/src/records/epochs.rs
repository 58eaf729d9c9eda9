//! `epochs.csv`: one line for the untrained model, epoch 0, and one per epoch.

use std::path::PathBuf;

use semfocus_core::{EpochRecord, TrialId, fnv_1a};

use crate::check::check;
use crate::cursor::{Cursor, Lines};
use crate::{StoreError, files};

/// The columns of every version of the format, from version 1 on; the version is the last column of every line. From
/// version 3 on, the column before it is a checksum of the line. From version 4 on, the first line is that of epoch 0. New files
/// have the last version that fits. A file that was begun in an earlier one is continued in it.
const HEADERS: [&str; 4] = [
    "epoch,lr,train_loss,train_accuracy,heldout_loss,heldout_accuracy,grad_norm,seconds,format",
    "epoch,lr,train_loss,train_accuracy,heldout_loss,heldout_accuracy,grad_norm,seconds,steps,format",
    "epoch,lr,train_loss,train_accuracy,heldout_loss,heldout_accuracy,grad_norm,seconds,steps,check,format",
    "epoch,lr,train_loss,train_accuracy,heldout_loss,heldout_accuracy,grad_norm,seconds,steps,check,format",
];

/// The last version of the format.
const FORMAT: u32 = HEADERS.len() as u32;

/// The first version whose files begin with epoch 0.
const WITH_UNTRAINED: u32 = 4;

/// What `epochs.csv` says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Recorded {
    /// The untrained model, if it was evaluated.
    pub(crate) untrained: Option<EpochRecord>,
    /// The epochs from the first on.
    pub(crate) epochs: Vec<EpochRecord>,
}

/// The file `epochs.csv` of a trial.
#[derive(Debug)]
pub(crate) struct Epochs {
    path: PathBuf,
    /// The trial, for the checksums.
    owner: String,
}

impl Epochs {
    pub(crate) fn new(path: PathBuf, owner: String) -> Self {
        Epochs { path, owner }
    }

    /// Adds an epoch.
    pub(crate) fn append(&self, record: &EpochRecord) -> Result<(), StoreError> {
        self.append_all(std::slice::from_ref(record))
    }

    /// Adds epochs; the first ones after the header.
    pub(crate) fn append_all(&self, records: &[EpochRecord]) -> Result<(), StoreError> {
        if records.is_empty() {
            return Ok(());
        }
        let begun = self.begun_format()?;
        let format = begun.unwrap_or_else(|| first_format(records));
        let header = begun.is_none().then(|| format!("{}\n", HEADERS[format as usize - 1]));
        let lines = records.iter().map(|record| self.line(record, format) + "\n");
        files::append(&self.path, &header.into_iter().chain(lines).collect::<String>())
    }

    /// The version of the format that the file was begun in, from its first line; none if it has no line yet.
    fn begun_format(&self) -> Result<Option<u32>, StoreError> {
        let lines = Cursor::default().read(&self.path)?;
        let mut lines = lines.iter().map(|(_, _, line)| line);
        let Some(header) = lines.next() else { return Ok(None) };
        if !HEADERS.contains(&header) {
            return Err(self.damaged(1, &unknown_header()));
        }
        let first = lines.next().ok_or_else(|| self.damaged(2, "expected an epoch"))?;
        format_of(first).map(Some).ok_or_else(|| self.damaged(2, "expected a number for every column"))
    }

    /// All complete lines; none if there is no file.
    pub(crate) fn read(&self) -> Result<Recorded, StoreError> {
        self.records(&Cursor::default().read(&self.path)?)
    }

    /// The epochs that were added after the cursor.
    pub(crate) fn read_from(&self, cursor: &mut Cursor) -> Result<Vec<EpochRecord>, StoreError> {
        Ok(self.records(&cursor.read(&self.path)?)?.epochs)
    }

    /// Forgets a half-written last line, and the epochs after the first `epochs`, which will be computed again. Of a file without
    /// any line nothing is left.
    pub(crate) fn cut(&self, epochs: usize) -> Result<(), StoreError> {
        let mut cursor = Cursor::default();
        let lines = cursor.read(&self.path)?;
        let first = lines.iter().nth(1).and_then(|(_, _, line)| format_of(line));
        let before = 1 + usize::from(first >= Some(WITH_UNTRAINED));
        let end = lines.iter().nth(before + epochs).map_or(cursor.bytes(), |(_, start, _)| start);
        let is_empty = lines.iter().nth(1).is_none_or(|(_, start, _)| start == end);
        files::shorten(&self.path, if is_empty { 0 } else { end })
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        &self.path
    }

    fn records(&self, lines: &Lines) -> Result<Recorded, StoreError> {
        let mut recorded = Recorded::default();
        // From the first line, where it is read.
        let (mut is_header_unknown, mut columns) = (false, None);
        for (number, _, line) in lines.iter() {
            if number == 1 {
                is_header_unknown = !HEADERS.contains(&line);
                columns = (!is_header_unknown).then(|| line.split(',').count());
                continue;
            }
            if columns.is_some_and(|columns| columns != line.split(',').count()) {
                return Err(self.damaged(number, "expected a number for every column"));
            }
            let format = format_of(line);
            if let Some(format) = format.filter(|format| *format > FORMAT) {
                return Err(StoreError::Newer { path: self.path.clone(), format, known: FORMAT });
            }
            if is_header_unknown {
                break;
            }
            let record = self.record(line, format).map_err(|reason| self.damaged(number, reason))?;
            let expected = number - 1 - usize::from(format >= Some(WITH_UNTRAINED));
            if record.epoch != expected {
                return Err(self.damaged(number, &format!("expected epoch {expected}")));
            }
            match record.epoch {
                0 => recorded.untrained = Some(record),
                _ => recorded.epochs.push(record),
            }
        }
        if is_header_unknown { Err(self.damaged(1, &unknown_header())) } else { Ok(recorded) }
    }

    /// What a line says, in the format that it says it has.
    fn record(&self, line: &str, format: Option<u32>) -> Result<EpochRecord, &'static str> {
        let split = |line: &str| csv::StringRecord::from(line.split(',').collect::<Vec<_>>());
        let header = format.and_then(|format| HEADERS.get((format as usize).checked_sub(1)?)).map(|text| split(text));
        if format >= Some(3) {
            let mut parts = line.rsplitn(3, ',');
            let (_, stored, text) = (parts.next(), parts.next(), parts.next());
            if stored != Some(&check(&self.owner, text.unwrap_or_default())) {
                return Err("its checksum is wrong");
            }
        }
        let row = split(line);
        let record =
            header.filter(|header| header.len() == row.len()).and_then(|header| row.deserialize(Some(&header)).ok());
        let record: EpochRecord = record.ok_or("expected a number for every column")?;
        let EpochRecord { lr, train_loss, train_accuracy, heldout_loss, heldout_accuracy, grad_norm, seconds, .. } =
            record;
        if ![lr, train_loss, heldout_loss, grad_norm, seconds].iter().all(|number| number.is_finite()) {
            return Err("expected finite numbers");
        }
        if ![train_accuracy, heldout_accuracy].iter().all(|accuracy| (0.0..=1.0).contains(accuracy)) {
            return Err("expected accuracies from 0 to 1");
        }
        if lr < 0.0 || grad_norm < 0.0 || seconds < 0.0 {
            return Err("expected no negative learning rate, gradient norm or time");
        }
        Ok(record)
    }

    /// The line of a record.
    fn line(&self, record: &EpochRecord, format: u32) -> String {
        let mut line = format!("{},{:.3}", numbers(record), record.seconds);
        if format >= 2 {
            line += &format!(",{}", record.steps.map_or(String::new(), |steps| steps.to_string()));
        }
        if format >= 3 {
            line += &format!(",{}", check(&self.owner, &line));
        }
        format!("{line},{format}")
    }

    fn damaged(&self, line: usize, reason: &str) -> StoreError {
        StoreError::damaged(&self.path, format!("line {line}: {reason}"))
    }
}

/// The version of the format in which a file with these records is begun.
fn first_format(records: &[EpochRecord]) -> u32 {
    match records {
        // Records of a file that was set aside may lack the steps.
        _ if records.iter().any(|record| record.steps.is_none()) => 1,
        [EpochRecord { epoch: 0, .. }, ..] => FORMAT,
        _ => WITH_UNTRAINED - 1,
    }
}

/// The version of its format, which every line says.
fn format_of(line: &str) -> Option<u32> {
    line.rsplit(',').next()?.parse().ok()
}

fn unknown_header() -> String {
    format!("expected the header {}", HEADERS[FORMAT as usize - 1])
}

/// What is the same in every run of the same trial, which the time is not.
fn numbers(record: &EpochRecord) -> String {
    let EpochRecord { epoch, lr, train_loss, train_accuracy, heldout_loss, heldout_accuracy, grad_norm, .. } = record;
    format!("{epoch},{lr},{train_loss},{train_accuracy},{heldout_loss},{heldout_accuracy},{grad_norm}")
}

/// A hash over the epochs of a trial in their order, without their times: every run of the trial has the same. A checkpoint
/// holds it, so that it vouches for the record of the epochs before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHash(u64);

impl RecordHash {
    /// Before the first epoch of a trial.
    pub fn new(trial: TrialId) -> Self {
        RecordHash(fnv_1a(trial.to_string().bytes()))
    }

    /// After these epochs of a trial.
    pub fn of(trial: TrialId, records: &[EpochRecord]) -> Self {
        let mut hash = RecordHash::new(trial);
        records.iter().for_each(|record| hash.add(record));
        hash
    }

    /// Adds the next epoch.
    pub fn add(&mut self, record: &EpochRecord) {
        self.0 = fnv_1a(self.0.to_le_bytes().into_iter().chain(numbers(record).bytes()));
    }
}

impl std::fmt::Display for RecordHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
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
            train_accuracy: 1.0 / (1.0 + third),
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
        let epochs = Epochs::new(scratch.path().join("epochs.csv"), "a trial".to_owned());
        let mut cursor = Cursor::default();
        assert_eq!(epochs.read_from(&mut cursor).unwrap(), []);
        epochs.append_all(&[record(1), record(2)]).unwrap();
        assert_eq!(epochs.read_from(&mut cursor).unwrap(), [record(1), record(2)]);
        epochs.append(&record(3)).unwrap();
        assert_eq!(epochs.read_from(&mut cursor).unwrap(), [record(3)]);
        epochs.cut(1).unwrap();
        assert_eq!(epochs.read().unwrap().epochs, [record(1)]);
        epochs.append(&record(2)).unwrap();
        let text = std::fs::read_to_string(epochs.path()).unwrap();
        assert_eq!(text.lines().next(), Some(HEADERS[2]));
        let last = text.lines().nth(2).unwrap();
        assert!(last.contains(",1.250,32,") && last.ends_with(",3"), "{text}");
    }

    #[test]
    fn the_untrained_model_comes_before_the_first_epoch() {
        let scratch = Scratch::new("epochs-untrained");
        let epochs = Epochs::new(scratch.path().join("epochs.csv"), "a trial".to_owned());
        let mut cursor = Cursor::default();
        epochs.append(&record(0)).unwrap();
        assert_eq!(epochs.read().unwrap(), Recorded { untrained: Some(record(0)), epochs: Vec::new() });
        assert_eq!(epochs.read_from(&mut cursor).unwrap(), []);
        epochs.append_all(&[record(1), record(2)]).unwrap();
        assert_eq!(epochs.read_from(&mut cursor).unwrap(), [record(1), record(2)]);
        let whole = std::fs::read_to_string(epochs.path()).unwrap();
        assert!(whole.lines().skip(1).all(|line| line.ends_with(",4")), "{whole}");
        for left in [1, 0] {
            epochs.cut(left).unwrap();
            let expected = [record(1)][..left].to_vec();
            assert_eq!(epochs.read().unwrap(), Recorded { untrained: Some(record(0)), epochs: expected });
        }
        // Without its first line it is damaged.
        let lines: Vec<&str> = whole.lines().collect();
        std::fs::write(epochs.path(), format!("{}\n{}\n", lines[0], lines[2])).unwrap();
        assert!(epochs.read().unwrap_err().to_string().contains("line 2: expected epoch 0"));
        // A process that died while it wrote the first line leaves nothing, and the next one begins again.
        std::fs::write(epochs.path(), format!("{}\n0,0.1", lines[0])).unwrap();
        epochs.cut(0).unwrap();
        epochs.append(&record(0)).unwrap();
        assert_eq!(epochs.read().unwrap().untrained, Some(record(0)));
    }

    #[test]
    fn a_file_is_continued_in_the_format_it_was_begun_in() {
        let scratch = Scratch::new("epochs-formats");
        let epochs = Epochs::new(scratch.path().join("epochs.csv"), "a trial".to_owned());
        std::fs::write(epochs.path(), format!("{}\n1,0.1,1,1,1,1,1,1.250,1\n", HEADERS[0])).unwrap();
        epochs.append(&record(2)).unwrap();
        let text = std::fs::read_to_string(epochs.path()).unwrap();
        assert!(text.ends_with(",1.250,1\n") && text.lines().count() == 3, "{text}");
        let read = epochs.read().unwrap().epochs;
        assert_eq!(read[1], EpochRecord { steps: None, ..record(2) });
        // A copy of records without steps is in their format, too.
        let copy = Epochs::new(scratch.path().join("copy.csv"), "a trial".to_owned());
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
        let epochs = Epochs::new(scratch.path().join("epochs.csv"), "a trial".to_owned());
        let read = |lines: &str| {
            std::fs::write(epochs.path(), format!("{}\n{lines}\n", HEADERS[1])).unwrap();
            epochs.read()
        };
        assert!(matches!(read("1,0.1,1,1,1,1,1,1,16,5"), Err(StoreError::Newer { format: 5, .. })));
        for damaged in [
            "1,0.1,1,1,1,1,1,1,16",
            "1,0.1,x,1,1,1,1,1,16,2",
            "2,0.1,1,1,1,1,1,1,16,2",
            "1,0.1,1,1,1,1,1,1,2",
            "1,0.1,1,7.5,1,1,1,1,16,2",
            "1,0.1,1,-3,1,1,1,1,16,2",
            "1,0.1,1,NaN,1,1,1,1,16,2",
            "1,0.1,inf,1,1,1,1,1,16,2",
            "1,0.1,1,1,1,1,1,-1,16,2",
            "1,0.1,1,1,1,1,1e999,1,16,2",
        ] {
            assert!(matches!(read(damaged), Err(StoreError::Damaged { .. })), "{damaged}");
        }
        // A later version may have other columns.
        std::fs::write(epochs.path(), "epoch,loss,format\n1,2,5\n").unwrap();
        assert!(matches!(epochs.read(), Err(StoreError::Newer { format: 5, .. })));
        std::fs::write(epochs.path(), "epoch,loss\n1,2\n").unwrap();
        assert!(matches!(epochs.read(), Err(StoreError::Damaged { .. })));
    }

    #[test]
    fn every_changed_digit_and_every_foreign_line_is_found() {
        let scratch = Scratch::new("epochs-checks");
        let epochs = Epochs::new(scratch.path().join("epochs.csv"), "a trial".to_owned());
        epochs.append_all(&[record(0), record(1), record(2)]).unwrap();
        let without_last = Recorded { untrained: Some(record(0)), epochs: vec![record(1)] };
        let bytes = std::fs::read(epochs.path()).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(epochs.path(), &changed).unwrap();
            // The end of the last line is that of a process that died while it wrote it.
            let is_last_newline = bit / 8 == bytes.len() - 1;
            match epochs.read() {
                Ok(read) => assert!(is_last_newline && read == without_last, "bit {bit}"),
                Err(error) => {
                    assert!(
                        matches!(error, StoreError::Damaged { .. } | StoreError::Newer { .. }),
                        "bit {bit}: {error}"
                    )
                }
            }
        }
        std::fs::write(epochs.path(), &bytes).unwrap();
        let other = Epochs::new(epochs.path().to_owned(), "another trial".to_owned());
        assert!(other.read().unwrap_err().to_string().contains("line 2: its checksum is wrong"));
    }

    #[test]
    fn the_hash_of_a_record_depends_on_everything_but_the_times() {
        let trial = |text: &str| text.parse::<TrialId>().unwrap();
        let records = [record(1), record(2)];
        let hash = RecordHash::of(trial("a1"), &records);
        let slower = records.map(|record| EpochRecord { seconds: 9.0, ..record });
        assert_eq!(RecordHash::of(trial("a1"), &slower), hash);
        let worse = [records[0], EpochRecord { heldout_loss: 0.1, ..records[1] }];
        for other in [
            RecordHash::of(trial("a1"), &worse),
            RecordHash::of(trial("a1"), &records[..1]),
            RecordHash::of(trial("a2"), &records),
            RecordHash::of(trial("a1"), &[records[1], records[0]]),
        ] {
            assert_ne!(other, hash);
        }
    }
}
