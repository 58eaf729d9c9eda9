//! Lines of a file or of standard input.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

use semfocus_tasks::{Lines, ReadError};

/// The lines of a file; `-` is standard input.
pub(crate) fn lines(file: &str) -> Result<Lines<Box<dyn BufRead>>, ReadError> {
    if file == "-" {
        return Ok(Lines::new("standard input", Box::new(io::stdin().lock())));
    }
    let reader = File::open(file).map_err(|error| ReadError::Io { file: file.to_owned(), error })?;
    Ok(Lines::new(file, Box::new(BufReader::new(reader))))
}
