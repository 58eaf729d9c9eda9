//! `slices.csv`: loss and accuracy of the held-out split, by properties of its questions.

use std::path::PathBuf;
use std::sync::Arc;

use semfocus_core::two_digits;

use super::table::Table;
use crate::StoreError;
use crate::cursor::Cursor;

/// The version of the format that is read and written.
const FORMAT: u32 = 1;

const HEADER: &str = "epoch,slice,value,questions,loss,accuracy,check,format";

/// A line of `slices.csv`: the held-out questions that have one value of a slice, after an epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct SliceRecord {
    /// Epochs that the model was trained for; 0 for the untrained model.
    pub epoch: usize,
    /// Name of the slice, such as `position`.
    pub slice: Arc<str>,
    /// Its value, rounded down to two digits.
    pub value: u32,
    /// Questions with this value.
    pub questions: usize,
    /// Mean cross-entropy over them, by their weights.
    pub loss: f64,
    /// Share of correct answers.
    pub accuracy: f64,
}

impl SliceRecord {
    /// Whether slices are recorded after a number of epochs: after the first hundred, then after those that are
    /// [numbers of two digits](two_digits()), so that long trials have short files.
    pub fn is_due(epoch: usize) -> bool {
        two_digits(epoch) == epoch
    }

    /// The next epoch after which they are recorded.
    fn next_due(epoch: usize) -> usize {
        (epoch + 1..).find(|next| SliceRecord::is_due(*next)).expect("there are numbers of two digits without end")
    }

    /// What is the same after every epoch.
    fn group(&self) -> (&str, u32, usize) {
        (&self.slice, self.value, self.questions)
    }
}

/// The file `slices.csv` of a trial. Every epoch that is on record has the same groups in the same order, and no epoch between
/// the first and the last is missing: a lost, doubled or exchanged line is found.
#[derive(Debug)]
pub(crate) struct Slices(Table);

impl Slices {
    pub(crate) fn new(path: PathBuf, owner: String) -> Self {
        Slices(Table::new(path, owner, HEADER.to_owned(), FORMAT))
    }

    /// Adds the groups of an epoch.
    pub(crate) fn append(&self, records: &[SliceRecord]) -> Result<(), StoreError> {
        let row = |SliceRecord { epoch, slice, value, questions, loss, accuracy }: &SliceRecord| {
            format!("{epoch},{slice},{value},{questions},{loss},{accuracy}")
        };
        self.0.append(records.iter().map(row))
    }

    /// All complete epochs; none if there is no file.
    pub(crate) fn read(&self) -> Result<Vec<SliceRecord>, StoreError> {
        let (mut records, mut groups) = (Vec::<SliceRecord>::new(), 0);
        for (row, text) in self.0.read_from(&mut Cursor::default())? {
            let mut record = record(&text).map_err(|reason| self.0.damaged(row, &reason))?;
            let is_in_first = records.first().is_none_or(|first| first.epoch == record.epoch);
            groups += usize::from(is_in_first);
            let is_expected = match records.len().checked_sub(groups).map(|place| &records[place]) {
                Some(before) => record.epoch == SliceRecord::next_due(before.epoch) && record.group() == before.group(),
                None => SliceRecord::is_due(record.epoch) && continues(&records, &record),
            };
            if !is_expected {
                return Err(self.0.damaged(row, "it is not the group that comes next: lines are lost or exchanged"));
            }
            if let Some(known) = records.iter().rev().take(groups).find(|known| known.slice == record.slice) {
                record.slice = known.slice.clone();
            }
            records.push(record);
        }
        // A process may be writing the last epoch.
        records.truncate(records.len().checked_div(groups).unwrap_or_default() * groups);
        Ok(records)
    }

    /// Number of lines, without the header.
    pub(crate) fn count(&self) -> Result<usize, StoreError> {
        let mut cursor = Cursor::default();
        cursor.read(self.0.path())?;
        Ok(cursor.lines().saturating_sub(1))
    }

    /// Forgets a half-written last line, and the lines after the first ones.
    pub(crate) fn cut(&self, lines: usize) -> Result<(), StoreError> {
        self.0.cut(lines)
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        self.0.path()
    }
}

/// Whether a group can follow those of the first epoch on record: the values of a slice ascend, and no slice comes twice.
fn continues(first: &[SliceRecord], record: &SliceRecord) -> bool {
    match first.last() {
        Some(last) if last.slice == record.slice => last.value < record.value,
        _ => first.iter().all(|earlier| earlier.slice != record.slice),
    }
}

/// What a line says.
fn record(line: &str) -> Result<SliceRecord, String> {
    let numbers = || {
        let mut cells = line.split(',');
        let epoch = cells.next()?.parse().ok()?;
        let slice = Arc::from(cells.next()?);
        let (value, questions) = (cells.next()?.parse().ok()?, cells.next()?.parse().ok()?);
        let (loss, accuracy) = (cells.next()?.parse().ok()?, cells.next()?.parse().ok()?);
        cells.next().is_none().then_some(SliceRecord { epoch, slice, value, questions, loss, accuracy })
    };
    let record = numbers().ok_or("expected a name and a number for every other column")?;
    if !record.loss.is_finite() || !(0.0..=1.0).contains(&record.accuracy) {
        return Err(format!("{} and {} cannot be a loss and an accuracy", record.loss, record.accuracy));
    }
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_tools::{Scratch, lease};
    use crate::{Status, TrialReader};

    fn group(epoch: usize, slice: &str, value: u32) -> SliceRecord {
        let loss = (epoch + 1) as f64 / (value + 3) as f64;
        SliceRecord { epoch, slice: Arc::from(slice), value, questions: 7, loss, accuracy: 1.0 / 3.0 }
    }

    fn epoch(epoch: usize) -> Vec<SliceRecord> {
        [("position", 0), ("position", 3), ("distance", 1)].map(|(slice, value)| group(epoch, slice, value)).to_vec()
    }

    fn slices(scratch: &Scratch) -> Slices {
        Slices::new(scratch.path().join("slices.csv"), "a trial".to_owned())
    }

    #[test]
    fn long_trials_have_short_files() {
        let due = |epochs: usize| (0..=epochs).filter(|epoch| SliceRecord::is_due(*epoch)).count();
        assert_eq!((due(99), due(1000), due(100_000)), (100, 191, 371));
        assert_eq!((SliceRecord::next_due(99), SliceRecord::next_due(100)), (100, 110));
    }

    #[test]
    fn epochs_come_back_whole_and_in_order() {
        let scratch = Scratch::new("slices");
        let slices = slices(&scratch);
        assert_eq!((slices.read().unwrap(), slices.count().unwrap()), (Vec::new(), 0));
        let all: Vec<SliceRecord> = (0..=120).filter(|number| SliceRecord::is_due(*number)).flat_map(epoch).collect();
        all.chunks(3).for_each(|epoch| slices.append(epoch).unwrap());
        assert_eq!((slices.read().unwrap(), slices.count().unwrap()), (all.clone(), all.len()));
        // What is written at this moment does not count.
        slices.append(&epoch(130)[..2]).unwrap();
        assert_eq!(slices.read().unwrap(), all);
        slices.cut(6).unwrap();
        assert_eq!(slices.read().unwrap(), all[..6]);
        slices.append(&epoch(2)).unwrap();
        assert_eq!(slices.read().unwrap(), all[..9]);
        let text = std::fs::read_to_string(slices.path()).unwrap();
        assert!(text.starts_with(HEADER) && text.contains("\n0,position,3,7,0.16666666666666666,0.3333333333333333,"));
    }

    #[test]
    fn a_trial_says_how_many_lines_there_must_be_and_goes_back() {
        let scratch = Scratch::new("slices-trial");
        let trial = TrialReader::new(scratch.path().join("00000000000000a1"), "a1".parse().unwrap());
        let held = lease(trial.path());
        let writer = trial.writer(&held);
        (0..3).for_each(|number| writer.append_slices(&epoch(number)).unwrap());
        writer.write_status(&Status { slices: trial.slice_count().unwrap(), ..Status::default() }).unwrap();
        assert_eq!(trial.slices().unwrap().len(), 9);
        assert_eq!(writer.cut_slices(2, false).unwrap(), None);
        let error = trial.slices().unwrap_err().to_string();
        assert!(error.contains("it has 6 of the 9 lines that were complete"), "{error}");
        let named = trial.damage_of_training(false);
        assert!(named.iter().any(|damage| damage.to_string() == error), "{named:?}");
        // Going further back than training does keeps what was there.
        let kept = writer.cut_slices(1, true).unwrap().unwrap();
        assert!(kept.ends_with("slices.csv.refused"));
        assert_eq!(slices_at(&trial).read().unwrap(), epoch(0));
        std::fs::write(trial.path().join("slices.csv"), "nonsense\n").unwrap();
        assert!(writer.cut_slices(9, false).unwrap().unwrap().ends_with("slices.csv.refused-2"));
        assert_eq!(slices_at(&trial).read().unwrap(), []);
    }

    fn slices_at(trial: &TrialReader) -> Slices {
        Slices::new(trial.path().join("slices.csv"), trial.id().to_string())
    }

    #[test]
    fn every_lost_changed_doubled_or_exchanged_line_is_found() {
        let scratch = Scratch::new("slices-damage");
        let slices = slices(&scratch);
        (0..3).for_each(|number| slices.append(&epoch(number)).unwrap());
        let text = std::fs::read_to_string(slices.path()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let is_damaged = |lines: &[&str]| {
            std::fs::write(slices.path(), lines.join("\n") + "\n").unwrap();
            matches!(slices.read(), Err(StoreError::Damaged { .. }))
        };
        for line in 0..lines.len() {
            let (mut lost, mut doubled) = (lines.clone(), lines.clone());
            lost.remove(line);
            doubled.insert(line, lines[line]);
            // A process may not have written the end yet: the status says how many lines there must be.
            assert!(is_damaged(&lost) || line == lines.len() - 1, "lost {line}");
            assert!(is_damaged(&doubled), "doubled {line}");
            for other in line + 1..lines.len() {
                let mut exchanged = lines.clone();
                exchanged.swap(line, other);
                assert!(is_damaged(&exchanged), "exchanged {line} and {other}");
            }
        }
        for (from, to) in [("0.1666", "0.1667"), ("distance", "distaoce"), (",7,", ",8,"), ("\n2,", "\n3,")] {
            std::fs::write(slices.path(), text.replacen(from, to, 1)).unwrap();
            assert!(slices.read().unwrap_err().to_string().contains("its checksum is wrong"), "{from}");
        }
        std::fs::write(slices.path(), text.replace(",1\n", ",2\n")).unwrap();
        assert!(matches!(slices.read(), Err(StoreError::Newer { format: 2, .. })));
    }
}
