//! Reading files that grow: complete lines after the place where the last reading ended.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::StoreError;

/// How far a reader has read a file of lines. The default is the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// Bytes before the cursor.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The complete lines after the cursor, which moves behind them. A last line without its end is still being written,
    /// or was when the process died, and does not count. A file that has become shorter than the cursor is read from the
    /// beginning.
    pub(crate) fn read(&mut self, path: &Path) -> Result<Lines, StoreError> {
        let failed = |error| StoreError::io("read", path, error);
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                *self = Cursor::default();
                return Ok(Lines { text: String::new(), first: 0, start: 0 });
            }
            Err(error) => return Err(failed(error)),
        };
        if file.metadata().map_err(failed)?.len() < self.bytes {
            *self = Cursor::default();
        }
        let Cursor { bytes: start, lines: first } = *self;
        file.seek(SeekFrom::Start(start)).map_err(failed)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
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
