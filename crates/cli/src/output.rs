//! Results: text or JSON on standard output, and files that are never replaced unasked.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use semfocus_store::files::Aside;
use serde::Serialize;

use crate::Error;
use crate::talk::say;

/// Prints a result as JSON, or as text by `print`.
pub(crate) fn emit<T: Serialize + ?Sized>(
    out: &mut dyn Write,
    json: bool,
    value: &T,
    print: impl FnOnce(&mut dyn Write) -> Result<(), Error>,
) -> Result<(), Error> {
    if !json {
        return print(out);
    }
    serde_json::to_writer_pretty(&mut *out, value)?;
    Ok(writeln!(out)?)
}

/// Writes a file as a whole: a reader never sees a part of it, and a failure leaves what was there. An existing file with
/// other contents is replaced only by `force`. A message on standard error says what happened.
pub(crate) fn write_file(
    path: &Path,
    force: bool,
    write: impl FnOnce(&mut dyn Write) -> Result<(), Error>,
) -> Result<(), Error> {
    let place = |error: io::Error| format!("cannot write {}: {error}", path.display());
    // A link is followed; a device or a pipe is written to and not replaced by a file.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let existed = path.exists();
    if existed && !path.is_file() {
        if path.is_dir() {
            return Err(format!("cannot write {}: it is a folder", path.display()).into());
        }
        let mut out = BufWriter::new(File::options().write(true).open(path).map_err(place)?);
        write(&mut out)?;
        return Ok(out.flush().map_err(place)?);
    }
    let aside = Aside::new(path).map_err(place)?;
    let mut out = BufWriter::new(File::create_new(aside.path()).map_err(place)?);
    write(&mut out)?;
    out.into_inner().map_err(|error| place(error.into_error()))?.sync_all().map_err(place)?;
    if existed && same_contents(aside.path(), path).map_err(place)? {
        say!("{} is there already, with the same contents", path.display());
        return Ok(());
    }
    if existed && !force {
        return Err(format!("{} exists with other contents; use --force to replace it", path.display()).into());
    }
    aside.rename_to(path).map_err(place)?;
    say!("{} {}", if existed { "replaced" } else { "wrote" }, path.display());
    Ok(())
}

fn same_contents(one: &Path, other: &Path) -> io::Result<bool> {
    Ok(fs::metadata(one)?.len() == fs::metadata(other)?.len() && fs::read(one)? == fs::read(other)?)
}
