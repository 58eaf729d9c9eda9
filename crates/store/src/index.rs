//! `trials.csv`: one line per trial.

use std::collections::HashSet;
use std::path::Path;

use semfocus_core::study::seed_name;
use semfocus_core::{Point, TrialId, settings};

use crate::StoreError;
use crate::check::check;

/// A line of `trials.csv`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexEntry {
    /// Name of the trial's folder.
    pub id: TrialId,
    /// Epochs that are planned.
    pub epochs: usize,
    /// Task, or path of the data file.
    pub task: String,
    /// Mechanism, as it is written.
    pub mechanism: String,
    /// Seed of the repetition.
    pub seed: u64,
    /// Values on the axes of the grid.
    pub point: Point,
}

impl IndexEntry {
    /// Mechanism, values on the grid, and number of the seed, as a person would name the trial.
    pub fn title(&self) -> String {
        let values = self.point.iter().map(|(path, value)| {
            let name = path.rsplit('.').next().unwrap_or(path);
            format!(" {name}={value}")
        });
        format!("{}{} seed {}", self.mechanism, values.collect::<String>(), seed_name(self.seed))
    }
}

const COLUMNS: [&str; 5] = ["trial", "epochs", "task", "mechanism", "seed"];

/// The last column: a checksum of the line.
const CHECK: &str = "check";

/// The contents of the file for the trials of an experiment.
pub(crate) fn text(trials: &[IndexEntry]) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let axes: Vec<&str> =
        trials.first().map_or(&[][..], |trial| &trial.point).iter().map(|(path, _)| path.as_str()).collect();
    let mut put = |row: Vec<&str>| writer.write_record(row).expect("memory takes every row");
    put(COLUMNS.into_iter().chain(axes.iter().copied()).chain([CHECK]).collect());
    for (number, IndexEntry { id, epochs, task, mechanism, seed, point }) in trials.iter().enumerate() {
        let [id, epochs, seed] = [id.to_string(), epochs.to_string(), seed.to_string()];
        let values = point.iter().map(|(_, value)| value.as_str());
        let row: Vec<&str> =
            [&id, &epochs, task, mechanism, &seed].into_iter().map(String::as_str).chain(values).collect();
        let check = check_of(&row, &axes, (number, trials.len()));
        put(row.into_iter().chain([check.as_str()]).collect());
    }
    String::from_utf8(writer.into_inner().expect("memory takes every row")).expect("all values are text")
}

/// The checksum of the values of a line under the names of the axes. It depends on the number of the line and of all lines, so
/// that lines that are lost or exchanged are noticed.
fn check_of(row: &[&str], axes: &[&str], (number, count): (usize, usize)) -> String {
    check(&format!("{} {number} {count}", axes.join("\n")), &row.join("\n"))
}

/// What the file says.
pub(crate) fn parse(path: &Path, text: &str) -> Result<Vec<IndexEntry>, StoreError> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let damaged = |line: u64, reason: &str| StoreError::damaged(path, format!("line {line}: {reason}"));
    let broken = |error: csv::Error| StoreError::damaged(path, error.to_string());
    let header = reader.headers().map_err(broken)?.clone();
    if header.len() < COLUMNS.len() || !header.iter().zip(COLUMNS).all(|(found, expected)| found == expected) {
        return Err(damaged(1, "expected the header trial,epochs,task,mechanism,seed"));
    }
    let mut axes: Vec<&str> = header.iter().skip(COLUMNS.len()).collect();
    if axes.iter().all(|axis| settings::find(axis).is_some()) {
        return Err(StoreError::Older { path: path.to_owned(), reason: format!("has no column `{CHECK}`") });
    }
    axes.pop_if(|last| *last == CHECK);
    if let Some(unknown) = axes.iter().find(|axis| settings::find(axis).is_none()) {
        return Err(damaged(1, &format!("`{unknown}` is not a setting")));
    }
    let mut ids = HashSet::new();
    let rows: Vec<csv::StringRecord> = reader.records().collect::<Result<_, _>>().map_err(broken)?;
    if rows.is_empty() {
        return Err(damaged(2, "expected a trial"));
    }
    let mut entry = |(number, row): (usize, &csv::StringRecord)| {
        let line = row.position().map_or(0, csv::Position::line);
        let values: Vec<&str> = row.iter().take(COLUMNS.len() + axes.len()).collect();
        if row.iter().next_back() != Some(&check_of(&values, &axes, (number, rows.len()))) {
            return Err(damaged(line, "its checksum is wrong"));
        }
        let id = row[0].parse().map_err(|_| damaged(line, "expected the id of a trial"))?;
        if !ids.insert(id) {
            return Err(damaged(line, "this trial has a line already"));
        }
        let point = axes.iter().zip(&values[COLUMNS.len()..]);
        Ok(IndexEntry {
            id,
            epochs: row[1].parse().map_err(|_| damaged(line, "expected a number of epochs"))?,
            task: row[2].to_owned(),
            mechanism: row[3].to_owned(),
            seed: row[4].parse().map_err(|_| damaged(line, "expected a seed"))?,
            point: point.map(|(path, value)| ((*path).to_owned(), (*value).to_owned())).collect(),
        })
    };
    rows.iter().enumerate().map(&mut entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_tools::Scratch;

    fn read(path: &Path) -> Result<Vec<IndexEntry>, StoreError> {
        parse(path, &std::fs::read_to_string(path).unwrap())
    }

    #[test]
    fn names_with_commas_quotes_and_line_breaks_come_back() {
        let scratch = Scratch::new("index");
        let path = scratch.path().join("trials.csv");
        let entry = |id: &str, task: &str, value: &str| IndexEntry {
            id: id.parse().unwrap(),
            epochs: 3,
            task: task.to_owned(),
            mechanism: "topk:5".to_owned(),
            seed: 7,
            point: vec![("data.length".to_owned(), value.to_owned())],
        };
        let entries =
            [entry("a1", "plain", "20..40"), entry("a2", "a,b \"c\"", ""), entry("a3", "two\nlines", "\r\n,")];
        std::fs::write(&path, text(&entries)).unwrap();
        assert_eq!(read(&path).unwrap(), entries);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with(
            "trial,epochs,task,mechanism,seed,data.length,check\n00000000000000a1,3,plain,topk:5,7,20..40,"
        ));
        for (from, to) in [(",3,plain", ",4,plain"), ("topk:5,7,20", "full,7,20"), ("20..40", "20..41"), ("a1,", "a2,")]
        {
            std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
            assert!(read(&path).unwrap_err().to_string().contains("line 2: its checksum is wrong"), "{from}");
        }
        std::fs::write(&path, text.replacen("check", "c`eck", 1)).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("line 1: `c`eck` is not a setting"));
        let lines: Vec<&str> = text.lines().collect();
        for wrong in [&[lines[0], lines[1]][..], &[lines[0], lines[2], lines[1]]] {
            std::fs::write(&path, wrong.join("\n")).unwrap();
            assert!(read(&path).unwrap_err().to_string().contains("line 2: its checksum is wrong"));
        }
        // As versions before 0.2.0 wrote it.
        std::fs::write(&path, "trial,epochs,task,mechanism,seed\n00000000000000a1,3,plain,topk:5,7\n").unwrap();
        assert!(matches!(read(&path), Err(StoreError::Older { .. })));
        std::fs::write(&path, super::text(&[entries[0].clone(), entries[0].clone()])).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("line 3: this trial has a line already"));
    }
}
