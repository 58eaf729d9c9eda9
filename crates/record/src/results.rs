//! `results.csv`: one line for each run that was asked for, for programs. It is part of the program, so that `list experiments`
//! can show what was found.

use serde::{Deserialize, Serialize};

/// A line of `results.csv`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedResult {
    /// The experiment, as `semfocus run` names it.
    pub experiment: String,
    /// Its scale.
    pub scale: String,
    /// Name in the record.
    pub run: String,
    /// `as published`, `full scale` (of an experiment that the study does not have), `reduced` or `not run`, and how many trials are finished if not all are.
    pub status: String,
    /// What it says about the first of its claims: `supported`, `not supported`, `weakened` or `undecided`; empty if nothing, or if it
    /// was not run.
    pub answer: String,
    /// What it says about all its claims.
    pub finding: String,
    /// The speed-up of top-k attention in a few characters, with the target if it is not the usual one.
    pub result: String,
    /// What the study found.
    pub published: String,
    /// Wall-clock hours of its trials, or core-hours by estimate if it was not run.
    pub hours: f64,
}

impl RecordedResult {
    /// Whether there are data.
    pub fn is_run(&self) -> bool {
        self.status != "not run"
    }
}

/// The lines of the file.
pub fn parse(text: &str) -> Result<Vec<RecordedResult>, String> {
    csv::Reader::from_reader(text.as_bytes()).deserialize().collect::<Result<_, _>>().map_err(|error| error.to_string())
}

pub(crate) fn to_csv(results: &[RecordedResult]) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for result in results {
        writer.serialize(result).expect("plain fields can be written");
    }
    String::from_utf8(writer.into_inner().expect("memory can be written to")).expect("the cells are UTF-8")
}
