//! `epochs.csv`: one line for the untrained model, epoch 0, and one per epoch.

use std::path::PathBuf;

use semfocus_core::{EpochRecord, METRICS, Metrics, TrialId, fnv_1a};

use super::table::Table;
use crate::StoreError;
use crate::cursor::Cursor;

/// The version of the format that is read and written.
const FORMAT: u32 = 4;

/// The columns. The last but one is a checksum of the line, the last one the version of the format.
fn header() -> String {
    let metrics = METRICS.map(|info| info.name).join(",");
    format!("epoch,{metrics},seconds,steps,check,format")
}

/// What `epochs.csv` says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Recorded {
    /// The untrained model; none before it was evaluated.
    pub(crate) untrained: Option<EpochRecord>,
    /// The epochs from the first on.
    pub(crate) epochs: Vec<EpochRecord>,
}

/// The file `epochs.csv` of a trial.
#[derive(Debug)]
pub(crate) struct Epochs(Table);

impl Epochs {
    pub(crate) fn new(path: PathBuf, owner: String) -> Self {
        Epochs(Table::new(path, owner, header(), FORMAT))
    }

    /// Adds epochs, the first of which is epoch 0.
    pub(crate) fn append(&self, records: &[EpochRecord]) -> Result<(), StoreError> {
        let row =
            |record: &EpochRecord| format!("{},{:.3},{}", reproducible_columns(record), record.seconds, record.steps);
        self.0.append(records.iter().map(row))
    }

    /// All complete lines; none if there is no file.
    pub(crate) fn read(&self) -> Result<Recorded, StoreError> {
        let mut epochs = self.read_from(&mut Cursor::default())?;
        let untrained = if epochs.is_empty() { None } else { Some(epochs.remove(0)) };
        Ok(Recorded { untrained, epochs })
    }

    /// The lines that were added after the cursor, that of epoch 0 included.
    pub(crate) fn read_from(&self, cursor: &mut Cursor) -> Result<Vec<EpochRecord>, StoreError> {
        let rows = self.0.read_from(cursor)?;
        let read = |(row, text): (usize, String)| {
            let record = record(&text).map_err(|reason| self.0.damaged(row, &reason))?;
            if record.epoch == row { Ok(record) } else { Err(self.0.damaged(row, &format!("expected epoch {row}"))) }
        };
        rows.into_iter().map(read).collect()
    }

    /// Forgets a half-written last line, and the epochs after the first `epochs`, which will be computed again.
    pub(crate) fn cut(&self, epochs: usize) -> Result<(), StoreError> {
        self.0.cut(epochs + 1)
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        self.0.path()
    }
}

/// What a line says.
fn record(line: &str) -> Result<EpochRecord, String> {
    let record = numbers(line).ok_or("expected a number for every column")?;
    let outside = record.metrics.iter().find(|(info, value)| !info.range.contains(value));
    if let Some((info, value)) = outside {
        return Err(format!("{value} cannot be a {}", info.words));
    }
    if !(0.0..=f64::MAX).contains(&record.seconds) {
        return Err(format!("{} cannot be a time", record.seconds));
    }
    Ok(record)
}

/// The numbers of a line, without its checksum and format; none if one is missing or cannot be read.
fn numbers(line: &str) -> Option<EpochRecord> {
    let mut cells = line.split(',');
    let epoch = cells.next()?.parse().ok()?;
    let metrics: Vec<f64> = cells.by_ref().take(METRICS.len()).map_while(|cell| cell.parse().ok()).collect();
    let metrics = (metrics.len() == METRICS.len()).then(|| Metrics::new(|metric| metrics[metric as usize]))?;
    let (seconds, steps) = (cells.next()?.parse().ok()?, cells.next()?.parse().ok()?);
    cells.next().is_none().then_some(EpochRecord { epoch, metrics, seconds, steps })
}

/// The columns that are the same in every run of the same trial: the time is not.
fn reproducible_columns(record: &EpochRecord) -> String {
    let metrics = record.metrics.iter().map(|(_, value)| format!(",{value}"));
    record.epoch.to_string() + &metrics.collect::<String>()
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
        self.0 = fnv_1a(self.0.to_le_bytes().into_iter().chain(reproducible_columns(record).bytes()));
    }
}

impl std::fmt::Display for RecordHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use semfocus_core::Metric;

    use super::*;
    use crate::check::check;
    use crate::test_tools::Scratch;

    fn record(epoch: usize) -> EpochRecord {
        let third = epoch as f64 / 3.0;
        let metrics = Metrics::new(|metric| match metric {
            Metric::Lr => 0.1,
            Metric::TrainLoss => third,
            Metric::TrainAccuracy => 1.0 / (1.0 + third),
            Metric::HeldoutLoss => third * third,
            Metric::HeldoutAccuracy => 0.5,
            Metric::GradNorm => third.sqrt(),
        });
        EpochRecord { epoch, metrics, seconds: 1.25, steps: 16 * epoch as u64 }
    }

    #[test]
    fn in_json_every_metric_is_a_field() {
        let text = serde_json::to_string(&record(0)).unwrap();
        let losses = r#""train_loss":0.0,"train_accuracy":1.0,"heldout_loss":0.0,"heldout_accuracy":0.5"#;
        assert_eq!(text, format!(r#"{{"epoch":0,"lr":0.1,{losses},"grad_norm":0.0,"seconds":1.25,"steps":0}}"#));
        assert_eq!(serde_json::from_str::<EpochRecord>(&text).unwrap(), record(0));
        let error = serde_json::from_str::<EpochRecord>(&text.replace("grad_norm", "norm")).unwrap_err();
        assert!(error.to_string().contains("missing field `grad_norm`"), "{error}");
    }

    const HEADER: &str =
        "epoch,lr,train_loss,train_accuracy,heldout_loss,heldout_accuracy,grad_norm,seconds,steps,check,format";

    #[test]
    fn a_reader_follows_the_epochs_and_numbers_keep_their_bits() {
        let scratch = Scratch::new("epochs");
        let epochs = Epochs::new(scratch.path().join("epochs.csv"), "a trial".to_owned());
        let mut cursor = Cursor::default();
        assert_eq!(epochs.read_from(&mut cursor).unwrap(), []);
        epochs.append(&[record(0), record(1), record(2)]).unwrap();
        assert_eq!(epochs.read_from(&mut cursor).unwrap(), [record(0), record(1), record(2)]);
        epochs.append(&[record(3)]).unwrap();
        assert_eq!(epochs.read_from(&mut cursor).unwrap(), [record(3)]);
        epochs.cut(1).unwrap();
        assert_eq!(epochs.read().unwrap().epochs, [record(1)]);
        epochs.append(&[record(2)]).unwrap();
        let text = std::fs::read_to_string(epochs.path()).unwrap();
        assert_eq!(text.lines().next(), Some(HEADER));
        let last = text.lines().nth(3).unwrap();
        assert!(last.contains(",1.250,32,") && last.ends_with(",4"), "{text}");
    }

    #[test]
    fn the_untrained_model_comes_before_the_first_epoch() {
        let scratch = Scratch::new("epochs-untrained");
        let epochs = Epochs::new(scratch.path().join("epochs.csv"), "a trial".to_owned());
        let mut cursor = Cursor::default();
        epochs.append(&[record(0)]).unwrap();
        assert_eq!(epochs.read().unwrap(), Recorded { untrained: Some(record(0)), epochs: Vec::new() });
        assert_eq!(epochs.read_from(&mut cursor).unwrap(), [record(0)]);
        epochs.append(&[record(1), record(2)]).unwrap();
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
        epochs.append(&[record(0)]).unwrap();
        assert_eq!(epochs.read().unwrap().untrained, Some(record(0)));
    }

    #[test]
    fn damage_and_other_formats_are_told_apart() {
        let scratch = Scratch::new("epochs-damage");
        let epochs = Epochs::new(scratch.path().join("epochs.csv"), "a trial".to_owned());
        let read = |lines: &str| {
            std::fs::write(epochs.path(), format!("{HEADER}\n{lines}\n")).unwrap();
            epochs.read()
        };
        let checked = |text: &str| format!("{text},{},4", check("a trial", text));
        assert!(read(&checked("0,0.1,1,1,1,1,1,1,16")).is_ok());
        assert!(matches!(read("0,0.1,1,1,1,1,1,1,16,0,5"), Err(StoreError::Newer { format: 5, .. })));
        assert!(matches!(read("1,0.1,1,1,1,1,1,1,16,0,3"), Err(StoreError::Older { .. })));
        for damaged in [
            "0,0.1,x,1,1,1,1,1,16",
            "1,0.1,1,1,1,1,1,1,16",
            "0,0.1,1,1,1,1,1,1",
            "0,0.1,1,7.5,1,1,1,1,16",
            "0,0.1,1,-3,1,1,1,1,16",
            "0,0.1,1,NaN,1,1,1,1,16",
            "0,0.1,inf,1,1,1,1,1,16",
            "0,0.1,1,1,1,1,1,-1,16",
            "0,0.1,1,1,1,1,1e999,1,16",
        ] {
            assert!(matches!(read(&checked(damaged)), Err(StoreError::Damaged { .. })), "{damaged}");
        }
        assert!(matches!(read("0,0.1,1,1,1,1,1,1,16"), Err(StoreError::Damaged { .. })));
        // Other versions have other columns.
        for (text, is_expected) in [
            (
                "epoch,loss,format\n1,2,5\n",
                (|error| matches!(error, StoreError::Newer { .. })) as fn(StoreError) -> bool,
            ),
            ("epoch,loss,format\n1,2,1\n", |error| error.to_string().contains("read it with version 0.2.0")),
            ("epoch,loss\n1,0.25\n", |error| matches!(error, StoreError::Damaged { .. })),
        ] {
            std::fs::write(epochs.path(), text).unwrap();
            assert!(is_expected(epochs.read().unwrap_err()), "{text}");
        }
    }

    #[test]
    fn every_changed_digit_and_every_foreign_line_is_found() {
        let scratch = Scratch::new("epochs-checks");
        let epochs = Epochs::new(scratch.path().join("epochs.csv"), "a trial".to_owned());
        epochs.append(&[record(0), record(1), record(2)]).unwrap();
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
        let mut worse = records;
        worse[1].metrics[Metric::HeldoutLoss] = 0.1;
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
