//! Reading files that grow: complete lines after the place where the last reading ended.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{StoreError, disk, files};

/// What is wrong with a file of lines that ends in the middle of one.
pub(crate) const CUT_OFF: &str =
    "its last line has no end: a process died while it wrote it, or the end of the file is lost";

/// Bytes of the largest record that is read. An epoch takes a hundred.
const MAX_RECORD: u64 = 512 << 20;

/// How far a reader has read a file of lines. The default is the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    bytes: u64,
    lines: usize,
}

/// Lines that were read together, the first of which has a number.
#[derive(Debug)]
pub(crate) struct Lines {
    text: String,
    first: usize,
    start: u64,
}

impl Cursor {
    /// An error about a file of lines that ends in the middle of one. What cannot be read, its reader reports.
    pub(crate) fn half_line(path: &Path) -> Option<StoreError> {
        let (last, _) = disk::last_byte(path).ok()??;
        (last != b'\n').then(|| StoreError::damaged(path, CUT_OFF))
    }

    /// Cuts off half a line at the end of a file.
    pub(crate) fn cut_half_line(path: &Path) -> Result<(), StoreError> {
        let mut cursor = Cursor::default();
        cursor.read(path)?;
        files::shorten(path, cursor.bytes)
    }

    /// Bytes before the cursor.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Lines before the cursor.
    pub(crate) fn lines(&self) -> usize {
        self.lines
    }

    /// The complete lines after the cursor, which moves behind them. A last line without its end is still being written,
    /// or was when the process died, and does not count. A file that has become shorter than the cursor is read from the
    /// beginning.
    pub(crate) fn read(&mut self, path: &Path) -> Result<Lines, StoreError> {
        let failed = |error| StoreError::io("read", path, error);
        let read = disk::read_from(path, self.bytes, MAX_RECORD).map_err(failed)?;
        let (mut bytes, start) = read.unwrap_or_default();
        if start < self.bytes {
            *self = Cursor::default();
        }
        let first = self.lines;
        let end = files::complete(&bytes);
        bytes.truncate(end);
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
        let text = String::from_utf8(bytes).map_err(|_| StoreError::damaged(path, "it is not text (UTF-8)"))?;
        *self = Cursor { bytes: start + end as u64, lines: first + lines };
        Ok(Lines { text, first, start })
    }
}

impl Lines {
    /// The lines: number in the file from 1, first byte in the file, text without the newline.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, u64, &str)> {
        let mut start = self.start;
        self.text.lines().enumerate().map(move |(index, line)| {
            let here = start;
            start += line.len() as u64 + 1;
            (self.first + index + 1, here, line)
        })
    }
}
