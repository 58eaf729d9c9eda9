//! Results: text or JSON on standard output, and files that are never replaced unasked.

use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use semfocus_store::files::Aside;
use serde::Serialize;

use crate::Error;
use crate::screen::text_width;
use crate::talk::say;

/// Version of the JSON that commands print; `docs/json.md` describes it. Fields may be added without a new version.
const SCHEMA: u32 = 1;

/// Prints a result as a JSON object that begins with the version of its schema, or as text by `print`. A list is the field
/// `list` of that object.
pub(crate) fn emit<T: Serialize + ?Sized>(
    out: &mut dyn Write,
    json: bool,
    value: &T,
    print: impl FnOnce(&mut dyn Write) -> Result<(), Error>,
) -> Result<(), Error> {
    if !json {
        return print(out);
    }
    let mut text = serde_json::to_string_pretty(value)?;
    if text.starts_with('[') {
        text = format!("{{\n  \"list\": {}\n}}", text.replace('\n', "\n  "));
    }
    let fields = text.strip_prefix("{\n").ok_or("a result is an object or a list")?;
    Ok(writeln!(out, "{{\n  \"schema\": {SCHEMA},\n{fields}")?)
}

/// Cuts lines that would fill a terminal. Files and pipes get them whole.
struct ForTerminal<'a> {
    out: &'a mut dyn Write,
    /// Characters of a line; none if there is no terminal.
    room: Option<usize>,
    column: usize,
    is_cut: bool,
}

impl<'a> ForTerminal<'a> {
    fn new(out: &'a mut dyn Write) -> Self {
        let room = io::stdout().is_terminal().then(|| 3 * text_width() - 1);
        ForTerminal { out, room, column: 0, is_cut: false }
    }

    /// Says, below the lines, whether something was left out.
    fn finish(self) -> io::Result<()> {
        self.out.flush()?;
        if self.is_cut {
            say!("note: long lines are cut off; `-o FILE` or a pipe gets them whole");
        }
        Ok(())
    }
}

impl Write for ForTerminal<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(room) = self.room else { return self.out.write(bytes) };
        let mut kept = Vec::with_capacity(bytes.len());
        for &byte in bytes {
            let is_continuation = byte & 0xc0 == 0x80;
            match byte {
                b'\n' => self.column = 0,
                _ if is_continuation && self.column <= room => {}
                _ => self.column += 1,
            }
            if self.column == room + 1 && !is_continuation {
                kept.extend("…".bytes());
                self.is_cut = true;
                self.column += 1;
            }
            if self.column <= room {
                kept.push(byte);
            }
        }
        self.out.write_all(&kept)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes a file as a whole: a reader never sees a part of it, and a failure leaves what was there. An existing file with
/// other contents is replaced only by `force`. A message on standard error says what happened.
fn write_file(path: &Path, force: bool, write: impl FnOnce(&mut dyn Write) -> Result<(), Error>) -> Result<(), Error> {
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

/// Where a command writes its data.
#[derive(Debug, ClapArgs)]
pub(crate) struct OutputArgs {
    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "output")]
    force: bool,
}

impl OutputArgs {
    /// Writes to the file, or to standard output, where a terminal gets long lines cut.
    pub(crate) fn write(
        &self,
        out: &mut dyn Write,
        write: impl FnOnce(&mut dyn Write) -> Result<(), Error>,
    ) -> Result<(), Error> {
        match &self.output {
            Some(path) => write_file(path, self.force, write),
            None => {
                let mut out = ForTerminal::new(out);
                write(&mut out)?;
                Ok(out.finish()?)
            }
        }
    }
}

fn same_contents(one: &Path, other: &Path) -> io::Result<bool> {
    Ok(fs::metadata(one)?.len() == fs::metadata(other)?.len() && fs::read(one)? == fs::read(other)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_lines_are_cut() {
        let mut kept = Vec::new();
        let mut out = ForTerminal { out: &mut kept, room: Some(4), column: 0, is_cut: false };
        for piece in ["abcd\nabc", "de", "fgh\né", "éééé\n"] {
            out.write_all(piece.as_bytes()).unwrap();
        }
        assert!(out.is_cut);
        assert_eq!(String::from_utf8(kept).unwrap(), "abcd\nabcd…\néééé…\n");
    }

    #[test]
    fn every_result_says_its_schema() {
        let print = |value: serde_json::Value| {
            let mut out = Vec::new();
            emit(&mut out, true, &value, |_| Ok(())).unwrap();
            serde_json::from_slice::<serde_json::Value>(&out).unwrap()
        };
        assert_eq!(print(serde_json::json!({"a": 1.5})), serde_json::json!({"schema": 1, "a": 1.5}));
        assert_eq!(
            print(serde_json::json!([{"a": "x\ny"}])),
            serde_json::json!({"schema": 1, "list": [{"a": "x\ny"}]})
        );
        assert_eq!(print(serde_json::json!([])), serde_json::json!({"schema": 1, "list": []}));
    }
}
