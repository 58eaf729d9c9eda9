//! A file of lines with columns, to which lines are appended.

use std::path::{Path, PathBuf};

use crate::check::check;
use crate::cursor::Cursor;
use crate::{StoreError, files};

/// A CSV file: the header, then one line for each row. The last two columns of a line are a checksum of the others and the version of the
/// format.
#[derive(Debug)]
pub(crate) struct Table {
    path: PathBuf,
    /// What the rows belong to, for the checksums.
    owner: String,
    /// All columns, without a line break.
    header: String,
    /// The version of the format that is read and written.
    format: u32,
}

impl Table {
    pub(crate) fn new(path: PathBuf, owner: String, header: String, format: u32) -> Self {
        Table { path, owner, header, format }
    }

    /// Adds rows, given without their last two columns; they are on the disk when this returns.
    pub(crate) fn append(&self, rows: impl IntoIterator<Item = String>) -> Result<(), StoreError> {
        let line = |row: String| format!("{row},{},{}\n", check(&self.owner, &row), self.format);
        let lines: String = rows.into_iter().map(line).collect();
        if lines.is_empty() { Ok(()) } else { files::append(&self.path, &format!("{}\n", self.header), &lines) }
    }

    /// The rows that were added after the cursor: their numbers from 0 on, and their text without the last two columns.
    pub(crate) fn read_from(&self, cursor: &mut Cursor) -> Result<Vec<(usize, String)>, StoreError> {
        let (mut rows, mut is_header_unknown) = (Vec::new(), false);
        let lines = cursor.read(&self.path)?;
        for (number, _, line) in lines.iter() {
            if number == 1 {
                is_header_unknown = line != self.header;
                continue;
            }
            let row = number - 2;
            if !is_header_unknown && line.split(',').count() != self.header.split(',').count() {
                return Err(self.damaged(row, "expected a number for every column"));
            }
            let mut parts = line.rsplitn(3, ',');
            let format = parts.next().and_then(|format| format.parse().ok());
            match format {
                Some(format) if format == self.format && !is_header_unknown => {}
                Some(format) if format > 0 && format != self.format => {
                    return Err(StoreError::format(&self.path, format, self.format));
                }
                _ if is_header_unknown => break,
                _ => return Err(self.damaged(row, "expected a number for every column")),
            }
            let (stored, text) = (parts.next(), parts.next().unwrap_or_default());
            if stored != Some(&check(&self.owner, text)) {
                return Err(self.damaged(row, "its checksum is wrong"));
            }
            rows.push((row, text.to_owned()));
        }
        if is_header_unknown {
            return Err(StoreError::damaged(&self.path, format!("line 1: expected the header {}", self.header)));
        }
        Ok(rows)
    }

    /// Forgets a half-written last line, and the rows after the first ones.
    pub(crate) fn cut(&self, rows: usize) -> Result<(), StoreError> {
        let mut cursor = Cursor::default();
        let lines = cursor.read(&self.path)?;
        let end = lines.iter().nth(rows.saturating_add(1)).map_or(cursor.bytes(), |(_, start, _)| start);
        files::shorten(&self.path, end)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// An error about a row.
    pub(crate) fn damaged(&self, row: usize, reason: &str) -> StoreError {
        StoreError::damaged(&self.path, format!("line {}: {reason}", row + 2))
    }
}
