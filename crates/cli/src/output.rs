//! Results: text or JSON on standard output, and files that are never replaced unasked.

use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use semfocus_store::files::Aside;
use serde::Serialize;

use crate::screen::text_width;
use crate::talk::{ByLine, say};
use crate::{Error, Exit};

/// Version of the JSON that commands print; `docs/json.md` describes it. Fields may be added without a new version.
const SCHEMA: u32 = 1;

/// Prints a result as a JSON object that begins with the version of its schema, or as text by `print`. A list is the field
/// `list` of that object.
pub(crate) fn emit<T: Serialize + ?Sized>(
    out: &mut dyn Write,
    json: bool,
    value: &T,
    print: impl FnOnce(&mut dyn Write) -> Result<(), Error>,
) -> Result<Exit, Error> {
    if !json {
        return print(out).map(|()| Exit::Done);
    }
    let mut text = serde_json::to_string_pretty(value)?;
    if text.starts_with('[') {
        text = format!("{{\n  \"list\": {}\n}}", text.replace('\n', "\n  "));
    }
    let fields = text.strip_prefix("{\n").ok_or("a result is an object or a list")?;
    writeln!(out, "{{\n  \"schema\": {SCHEMA},\n{fields}")?;
    Ok(Exit::Done)
}

/// The text with lines of at most `room` characters, and whether that cut any.
fn cut(text: &str, room: usize) -> (String, bool) {
    let mut is_cut = false;
    let mut short = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        match line.trim_end_matches('\n').char_indices().nth(room) {
            Some((end, _)) => {
                is_cut = true;
                short += &line[..end];
                short += "…\n";
            }
            None => short += line,
        }
    }
    (short, is_cut)
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
    ) -> Result<Exit, Error> {
        match &self.output {
            Some(path) => write_file(path, self.force, write)?,
            None if !io::stdout().is_terminal() => write(out)?,
            None => {
                let (room, mut is_cut) = (3 * text_width() - 1, false);
                let mut lines = ByLine::new(&mut *out, |text: &str| {
                    let (short, was_cut) = cut(text, room);
                    is_cut |= was_cut;
                    short
                });
                write(&mut lines)?;
                lines.flush()?;
                if is_cut {
                    say!("note: long lines are cut off; `-o FILE` or a pipe gets them whole");
                }
            }
        }
        Ok(Exit::Done)
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
        assert_eq!(cut("abcd\nabcdefgh\nééééé\n", 4), ("abcd\nabcd…\néééé…\n".to_owned(), true));
        assert_eq!(cut("abcd\n\nab", 4), ("abcd\n\nab".to_owned(), false));
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
