//! `trials.csv`: one line per trial.

use std::path::Path;

use semfocus_core::{Point, TrialId};

use crate::{StoreError, files};

/// A line of `trials.csv`.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// Mechanism, values on the grid, and seed, as a person would name the trial.
    pub fn title(&self) -> String {
        let values = self.point.iter().map(|(path, value)| {
            let name = path.rsplit('.').next().unwrap_or(path);
            format!(" {name}={value}")
        });
        format!("{}{} seed {}", self.mechanism, values.collect::<String>(), self.seed)
    }
}

const COLUMNS: [&str; 5] = ["trial", "epochs", "task", "mechanism", "seed"];

/// Writes the file for the trials of an experiment.
pub(crate) fn write(path: &Path, trials: &[IndexEntry]) -> Result<(), StoreError> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let axes = trials.first().map_or(&[][..], |trial| &trial.point).iter().map(|(path, _)| path.as_str());
    let mut put = |row: Vec<&str>| writer.write_record(row).expect("memory takes every row");
    put(COLUMNS.into_iter().chain(axes).collect());
    for IndexEntry { id, epochs, task, mechanism, seed, point } in trials {
        let [id, epochs, seed] = [id.to_string(), epochs.to_string(), seed.to_string()];
        let values = point.iter().map(|(_, value)| value.as_str());
        put([&id, &epochs, task, mechanism, &seed].into_iter().map(String::as_str).chain(values).collect());
    }
    files::write_whole(path, &writer.into_inner().expect("memory takes every row"))
}

/// Reads the file.
pub(crate) fn read(path: &Path) -> Result<Vec<IndexEntry>, StoreError> {
    let text = files::read_text(path)?.ok_or_else(|| StoreError::damaged(path, "it is missing"))?;
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let damaged = |line: u64, reason: &str| StoreError::damaged(path, format!("line {line}: {reason}"));
    let broken = |error: csv::Error| StoreError::damaged(path, error.to_string());
    let header = reader.headers().map_err(broken)?.clone();
    if header.len() < COLUMNS.len() || !header.iter().zip(COLUMNS).all(|(found, expected)| found == expected) {
        return Err(damaged(1, "expected the header trial,epochs,task,mechanism,seed"));
    }
    let entry = |row: Result<csv::StringRecord, csv::Error>| {
        let row = row.map_err(broken)?;
        let line = row.position().map_or(0, csv::Position::line);
        Ok(IndexEntry {
            id: row[0].parse().map_err(|_| damaged(line, "expected the id of a trial"))?,
            epochs: row[1].parse().map_err(|_| damaged(line, "expected a number of epochs"))?,
            task: row[2].to_owned(),
            mechanism: row[3].to_owned(),
            seed: row[4].parse().map_err(|_| damaged(line, "expected a seed"))?,
            point: header.iter().zip(&row).skip(COLUMNS.len()).map(|(a, b)| (a.to_owned(), b.to_owned())).collect(),
        })
    };
    reader.records().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scratch;

    #[test]
    fn names_with_commas_quotes_and_line_breaks_come_back() {
        let scratch = Scratch::new("index");
        let path = scratch.path().join("trials.csv");
        let entry = |task: &str, value: &str| IndexEntry {
            id: "a1".parse().unwrap(),
            epochs: 3,
            task: task.to_owned(),
            mechanism: "topk:5".to_owned(),
            seed: 7,
            point: vec![("data.length".to_owned(), value.to_owned())],
        };
        let entries = [entry("plain", "20..40"), entry("a,b \"c\"", ""), entry("two\nlines", "\r\n,")];
        write(&path, &entries).unwrap();
        assert_eq!(read(&path).unwrap(), entries);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(
            text.starts_with(
                "trial,epochs,task,mechanism,seed,data.length\n00000000000000a1,3,plain,topk:5,7,20..40\n"
            )
        );
    }
}
