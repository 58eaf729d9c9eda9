//! Rows of CSV files as values, with messages that name file and line.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::RecordError;

/// One row of a file: its values, and where it is.
#[derive(Debug)]
pub(crate) struct Row<T> {
    pub(crate) values: T,
    path: Rc<PathBuf>,
    line: u64,
    columns: Rc<csv::StringRecord>,
    cells: csv::StringRecord,
}

/// The rows of a file. Columns that the values do not name are allowed.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<Vec<Row<T>>, RecordError> {
    let mut reader = csv::Reader::from_path(path).map_err(|error| RecordError::wrong(path, error.to_string()))?;
    let broken = |error: csv::Error| RecordError::wrong(path, error.to_string());
    let (columns, path_of_rows) = (Rc::new(reader.headers().map_err(broken)?.clone()), Rc::new(path.to_owned()));
    let mut rows = Vec::new();
    for cells in reader.records() {
        let cells = cells.map_err(broken)?;
        let line = cells.position().map_or(0, csv::Position::line);
        let values = cells.deserialize(Some(&columns)).map_err(|error| {
            let (field, reason) = match error.kind() {
                csv::ErrorKind::Deserialize { err, .. } => (err.field(), err.kind().to_string()),
                _ => (None, error.to_string()),
            };
            let column = field.and_then(|field| columns.get(field as usize));
            let column = column.map_or(String::new(), |name| format!("`{name}`: "));
            RecordError::wrong(path, format!("line {line}: {column}{reason}"))
        })?;
        rows.push(Row { values, path: path_of_rows.clone(), line, columns: columns.clone(), cells });
    }
    Ok(rows)
}

/// No rows if there is no such file.
pub(crate) fn read_if_there<T: DeserializeOwned>(path: &Path) -> Result<Vec<Row<T>>, RecordError> {
    if path.exists() { read(path) } else { Ok(Vec::new()) }
}

impl<T> Row<T> {
    /// The text in a column.
    pub(crate) fn text(&self, column: &str) -> Result<&str, RecordError> {
        let place = self.columns.iter().position(|name| name == column);
        let cell = place.and_then(|place| self.cells.get(place));
        cell.ok_or_else(|| self.error(&format!("there is no column `{column}`")))
    }

    /// The number in a column.
    pub(crate) fn number(&self, column: &str) -> Result<f64, RecordError> {
        let number = self.text(column)?.parse();
        number.map_err(|error| self.error(&format!("`{column}`: {error}")))
    }

    /// An error about this row.
    pub(crate) fn error(&self, message: &str) -> RecordError {
        RecordError::wrong(&self.path, format!("line {}: {message}", self.line))
    }
}

/// A file with a header and these rows.
pub(crate) fn to_csv<T: Serialize>(rows: &[T]) -> String {
    text(|writer| rows.iter().try_for_each(|row| writer.serialize(row)))
}

/// The same with more columns after the first `place` ones: their names, and their cells in each row.
pub(crate) fn to_csv_with<T: Serialize>(rows: &[T], place: usize, names: &[&str], cells: &[Vec<String>]) -> String {
    let plain = to_csv(rows);
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(plain.as_bytes());
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let added = std::iter::once(&names).chain(cells);
    text(|writer| {
        reader.records().zip(added).try_for_each(|(row, added)| {
            let (row, added) = (row?, added.iter().map(String::as_str));
            writer.write_record(row.iter().take(place).chain(added).chain(row.iter().skip(place)))
        })
    })
}

fn text(write: impl FnOnce(&mut csv::Writer<Vec<u8>>) -> csv::Result<()>) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    write(&mut writer).expect("plain fields can be written");
    String::from_utf8(writer.into_inner().expect("memory can be written to")).expect("the cells are UTF-8")
}

/// A number with all its digits, as short as it can be written.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub(crate) struct Exact(pub(crate) f64);

impl Serialize for Exact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// A number that is written with this number of significant digits.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub(crate) struct Rounded<const DIGITS: usize>(pub(crate) f64);

impl<const DIGITS: usize> Serialize for Rounded<DIGITS> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&rounded(self.0, DIGITS))
    }
}

/// Numbers with spaces between them, with this number of significant digits each.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct List<const DIGITS: usize>(pub(crate) Vec<f64>);

impl<const DIGITS: usize> Serialize for List<DIGITS> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let numbers: Vec<String> = self.0.iter().map(|value| rounded(*value, DIGITS)).collect();
        serializer.serialize_str(&numbers.join(" "))
    }
}

impl<'de, const DIGITS: usize> Deserialize<'de> for List<DIGITS> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let numbers: Result<Vec<f64>, _> = text.split_whitespace().map(str::parse).collect();
        numbers.map(List).map_err(|_| D::Error::custom("expected numbers with spaces between them"))
    }
}

/// A number with this many significant digits, as short as it can be written.
pub(crate) fn rounded(value: f64, digits: usize) -> String {
    let rounded: f64 = format!("{value:.*e}", digits.saturating_sub(1)).parse().unwrap_or(value);
    let plain = rounded.to_string();
    if plain.len() > digits + 6 { format!("{rounded:e}") } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_can_be_read_again() {
        let written = [0.593_147_18, 12_345.678, 0.0, 1.0, 1.234_56e-9, f64::INFINITY, f64::NAN].map(|x| rounded(x, 4));
        assert_eq!(written, ["0.5931", "12350", "0", "1", "1.235e-9", "inf", "NaN"]);
        assert!(written.iter().all(|text| text.parse::<f64>().is_ok()));
    }

    #[test]
    fn rows_are_written_with_columns_among_the_others() {
        let rows = [(1, Exact(1.0), List::<3>(vec![0.1, 2.0])), (2, Exact(0.125), List(vec![1.0 / 3.0]))];
        let text = to_csv_with(&rows, 1, &["axis"], &[vec!["a".to_owned()], vec!["b,c".to_owned()]]);
        assert_eq!(text, "1,axis,1,0.1 2\n2,a,0.125,0.333\n", "the first row is the header");
    }
}
