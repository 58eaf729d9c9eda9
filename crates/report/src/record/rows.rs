//! Rows of CSV files, by the names of their columns, with messages that name file and line.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use super::RecordError;

/// All rows of a file.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) rows: Vec<Row>,
}

/// One row.
#[derive(Debug)]
pub(super) struct Row {
    path: Arc<PathBuf>,
    line: u64,
    columns: Arc<Vec<String>>,
    cells: Vec<String>,
}

impl Rows {
    pub(super) fn read(path: &Path) -> Result<Self, RecordError> {
        let text = std::fs::read_to_string(path).map_err(|error| RecordError::io(path, &error))?;
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let broken = |error: csv::Error| RecordError::wrong(path, error.to_string());
        let columns: Arc<Vec<String>> = Arc::new(reader.headers().map_err(broken)?.iter().map(str::to_owned).collect());
        let path_of_rows = Arc::new(path.to_owned());
        let mut rows = Vec::new();
        for record in reader.records() {
            let record = record.map_err(broken)?;
            let line = record.position().map_or(0, csv::Position::line);
            let cells = record.iter().map(str::to_owned).collect();
            rows.push(Row { path: path_of_rows.clone(), line, columns: columns.clone(), cells });
        }
        Ok(Rows { rows })
    }

    /// No rows if there is no such file.
    pub(super) fn read_if_there(path: &Path) -> Result<Self, RecordError> {
        if path.exists() { Rows::read(path) } else { Ok(Rows { rows: Vec::new() }) }
    }
}

impl Row {
    /// The text in a column.
    pub(super) fn text(&self, column: &str) -> Result<&str, RecordError> {
        let place = self.columns.iter().position(|name| name == column);
        let place = place.ok_or_else(|| self.error(&format!("there is no column `{column}`")))?;
        Ok(&self.cells[place])
    }

    /// The value in a column.
    pub(super) fn get<T: FromStr>(&self, column: &str) -> Result<T, RecordError> {
        let text = self.text(column)?;
        text.parse().map_err(|_| self.error(&format!("`{text}` is not a value of `{column}`")))
    }

    /// The value in a column, none if it is empty.
    pub(super) fn find<T: FromStr>(&self, column: &str) -> Result<Option<T>, RecordError> {
        if self.text(column)?.is_empty() { Ok(None) } else { self.get(column).map(Some) }
    }

    /// The numbers in a column, with spaces between them.
    pub(super) fn numbers(&self, column: &str) -> Result<Vec<f64>, RecordError> {
        let text = self.text(column)?;
        let numbers: Result<Vec<f64>, _> = text.split_whitespace().map(str::parse).collect();
        numbers.map_err(|_| self.error(&format!("`{column}` is not a list of numbers")))
    }

    /// An error about this row.
    pub(super) fn error(&self, message: &str) -> RecordError {
        RecordError::wrong(&self.path, format!("line {}: {message}", self.line))
    }
}

/// A number with so many significant digits, as short as it can be written.
pub(super) fn rounded(value: f64, digits: usize) -> String {
    let rounded: f64 = format!("{value:.*e}", digits.saturating_sub(1)).parse().unwrap_or(value);
    let plain = rounded.to_string();
    if plain.len() > digits + 6 { format!("{rounded:e}") } else { plain }
}

/// Numbers with spaces between them.
pub(super) fn list(values: impl Iterator<Item = f64>, digits: usize) -> String {
    values.map(|value| rounded(value, digits)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_can_be_read_again() {
        let written = [0.593_147_18, 12_345.678, 0.0, 1.0, 1.234_56e-9, f64::INFINITY, f64::NAN].map(|x| rounded(x, 4));
        assert_eq!(written, ["0.5931", "12350", "0", "1", "1.235e-9", "inf", "NaN"]);
        assert!(written.iter().all(|text| text.parse::<f64>().is_ok()));
        assert_eq!(list([0.1, 2.0].into_iter(), 3), "0.1 2");
    }
}
