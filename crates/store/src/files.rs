//! Writing so that nothing is lost: whole files are written aside, synced and renamed, and the folder is synced; lines are
//! appended and synced.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::StoreError;

/// Writes a file as a whole: readers see the old contents or the new ones, never a part; a failure leaves the old ones.
/// When this returns, the file survives a power failure.
pub fn write_whole(path: &Path, contents: &[u8]) -> Result<(), StoreError> {
    let failed = |error| StoreError::io("write", path, error);
    let aside = Aside::new(path).map_err(failed)?;
    let mut file = File::create(aside.path()).map_err(failed)?;
    file.write_all(contents).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    aside.rename_to(path).map_err(failed)
}

/// Reads a file as a whole; none if there is no such file.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::io("read", path, error)),
    }
}

/// Reads a text file as a whole; none if there is no such file.
pub(crate) fn read_text(path: &Path) -> Result<Option<String>, StoreError> {
    let text = |bytes| String::from_utf8(bytes).map_err(|_| StoreError::damaged(path, "it is not text (UTF-8)"));
    read(path)?.map(text).transpose()
}

/// Reads a JSON file; none if there is no such file.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, StoreError> {
    let parse =
        |bytes: Vec<u8>| serde_json::from_slice(&bytes).map_err(|error| StoreError::damaged(path, error.to_string()));
    read(path)?.map(parse).transpose()
}

/// Writes a JSON file as a whole.
pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), StoreError> {
    let text = serde_json::to_string_pretty(value).expect("plain fields can be written") + "\n";
    write_whole(path, text.as_bytes())
}

/// Makes a folder and those above it.
pub(crate) fn create_folder(path: &Path) -> Result<(), StoreError> {
    fs::create_dir_all(path).map_err(|error| StoreError::io("create the folder", path, error))
}

/// Appends text that ends in a newline, in one piece, and waits until it is on the disk. Half a line that a process left
/// when it died goes first.
pub(crate) fn append(path: &Path, text: &str) -> Result<(), StoreError> {
    let failed = |error| StoreError::io("append to", path, error);
    let is_new = !path.exists();
    let mut file = File::options().read(true).append(true).create(true).open(path).map_err(failed)?;
    drop_half_line(&mut file).map_err(failed)?;
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.sync_data().map_err(failed)?;
    if is_new { sync_folder(path).map_err(failed) } else { Ok(()) }
}

fn drop_half_line(file: &mut File) -> io::Result<()> {
    let length = file.metadata()?.len();
    let mut last = [b'\n'];
    if length > 0 {
        file.seek(SeekFrom::Start(length - 1))?;
        file.read_exact(&mut last)?;
    }
    if last != [b'\n'] {
        let mut bytes = Vec::new();
        file.rewind()?;
        file.read_to_end(&mut bytes)?;
        let complete = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
        file.set_len(complete as u64)?;
    }
    Ok(())
}

/// Cuts a file to its first `length` bytes.
pub(crate) fn truncate(path: &Path, length: u64) -> Result<(), StoreError> {
    let failed = |error| StoreError::io("shorten", path, error);
    let file = File::options().write(true).open(path).map_err(failed)?;
    file.set_len(length).and_then(|()| file.sync_data()).map_err(failed)
}

/// Moves a file out of the way without losing it, and gives its new name: `NAME.refused`, `NAME.refused-2`, …
pub(crate) fn set_aside(path: &Path) -> Result<PathBuf, StoreError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let numbered = |number: usize| match number {
        1 => path.with_file_name(format!("{name}.refused")),
        number => path.with_file_name(format!("{name}.refused-{number}")),
    };
    let free = (1..).map(numbered).find(|path| !path.exists()).expect("some number is free");
    let failed = |error| StoreError::io("rename", path, error);
    fs::rename(path, &free).map_err(failed)?;
    sync_folder(path).map_err(failed)?;
    Ok(free)
}

/// Moves a file within its folder, in place of another.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<(), StoreError> {
    fs::rename(from, to).map_err(|error| StoreError::io("rename", from, error))
}

/// Waits until the folder of a file has its new name on the disk. Systems that cannot sync folders do not need it.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// The name under which a file is written before it is renamed; what is left there is removed in the end.
pub struct Aside(PathBuf);

impl Aside {
    /// A name in the same folder that no other process uses.
    pub fn new(path: &Path) -> io::Result<Self> {
        let no_name = || io::Error::new(io::ErrorKind::InvalidInput, "this is not the name of a file");
        let name = path.file_name().ok_or_else(no_name)?.to_string_lossy();
        Ok(Aside(path.with_file_name(format!(".{name}.{}.part", std::process::id()))))
    }

    /// Where to write.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Puts the file in its place.
    pub fn rename_to(self, path: &Path) -> io::Result<()> {
        fs::rename(&self.0, path)?;
        sync_folder(path)
    }

    /// Whether a file name is one of those.
    pub(crate) fn is_name(name: &std::ffi::OsStr) -> bool {
        let name = name.to_string_lossy();
        name.starts_with('.') && name.ends_with(".part")
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0); // after the renaming there is none
    }
}
