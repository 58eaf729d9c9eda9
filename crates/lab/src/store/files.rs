//! Writing so that nothing is lost: whole files are written aside and renamed, lines are appended and flushed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::StoreError;

/// Writes a file as a whole: whoever reads it sees the old contents or the new ones, never a part; a failure leaves what
/// was there.
pub fn write_whole(path: &Path, contents: &[u8]) -> Result<(), StoreError> {
    let failed = |error| StoreError::io("write", path, error);
    let aside = Aside::of(path).map_err(failed)?;
    let mut file = File::create(aside.path()).map_err(failed)?;
    file.write_all(contents).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    aside.rename_to(path).map_err(failed)
}

/// Appends a line and waits until it is on the disk.
pub fn append_line(path: &Path, line: &str) -> Result<(), StoreError> {
    let failed = |error| StoreError::io("append to", path, error);
    let mut file = File::options().append(true).create(true).open(path).map_err(failed)?;
    file.write_all(format!("{line}\n").as_bytes()).map_err(failed)?;
    file.sync_data().map_err(failed)
}

/// Moves a file out of the way without losing it, and gives its new name: `NAME.refused`, `NAME.refused-2`, …
pub(super) fn set_aside(path: &Path) -> Result<PathBuf, StoreError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let numbered = |number: usize| match number {
        1 => path.with_file_name(format!("{name}.refused")),
        number => path.with_file_name(format!("{name}.refused-{number}")),
    };
    let free = (1..).map(numbered).find(|path| !path.exists()).expect("some number is free");
    fs::rename(path, &free).map_err(|error| StoreError::io("rename", path, error))?;
    Ok(free)
}

/// The name under which a file is written before it is renamed; what is left there is removed on the way out.
pub struct Aside(PathBuf);

impl Aside {
    /// A name in the same folder, which no other process uses.
    pub fn of(path: &Path) -> io::Result<Self> {
        let no_name = || io::Error::new(io::ErrorKind::InvalidInput, "this is not the name of a file");
        let name = path.file_name().ok_or_else(no_name)?.to_string_lossy();
        Ok(Aside(path.with_file_name(format!(".{name}.{}.part", std::process::id()))))
    }

    /// The name.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Puts the file in its place.
    pub fn rename_to(self, path: &Path) -> io::Result<()> {
        fs::rename(&self.0, path)
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0); // after the renaming there is none
    }
}
