//! Writing so that nothing is lost: whole files are written aside, synced and renamed, and the folder is synced; lines are
//! appended and synced.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{StoreError, disk};

/// Writes a file as a whole: readers see the old contents or the new ones, never a part; a failure leaves the old ones.
/// When this returns, the file survives a power failure.
pub fn write_whole(path: &Path, contents: &[u8]) -> Result<(), StoreError> {
    let failed = |error| StoreError::io("write", path, error);
    let aside = Aside::new(path).map_err(failed)?;
    aside.write(contents).and_then(|()| aside.rename_to(path)).map_err(failed)
}

/// Reads a file as a whole; none if there is no such file.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    match disk::read(path) {
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

/// Makes a folder and those above it. A link in its place is refused; those above may be links.
pub fn create_folder(path: &Path) -> Result<(), StoreError> {
    let failed = |error| StoreError::io("create the folder", path, error);
    if path.symlink_metadata().is_ok() {
        return disk::check_folder(path).map_err(failed);
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty() && !parent.is_dir()) {
        create_folder(parent)?;
    }
    disk::create_folder(path).and_then(|()| disk::sync_folder(folder_of(path))).map_err(failed)
}

/// Appends text that ends in a newline, in one piece, and waits until it is on the disk. Half a line that a process left
/// when it died goes first.
pub(crate) fn append(path: &Path, text: &str) -> Result<(), StoreError> {
    let failed = |error| StoreError::io("append to", path, error);
    let is_new = !path.exists();
    if disk::last_byte(path).map_err(failed)?.is_some_and(|(last, _)| last != b'\n') {
        let bytes = disk::read(path).map_err(failed)?;
        disk::shorten(path, complete(&bytes) as u64).map_err(failed)?;
    }
    disk::append(path, text.as_bytes()).and_then(|()| disk::sync(path)).map_err(failed)?;
    if is_new { disk::sync_folder(folder_of(path)).map_err(failed) } else { Ok(()) }
}

/// Bytes of the complete lines. What follows is still being written, or was when the process died.
pub(crate) fn complete(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1)
}

/// Cuts a file to its first `length` bytes, if it is longer.
pub(crate) fn shorten(path: &Path, length: u64) -> Result<(), StoreError> {
    let failed = |error| StoreError::io("shorten", path, error);
    match disk::last_byte(path).map_err(failed)? {
        Some((_, present)) if present > length => {
            disk::shorten(path, length).and_then(|()| disk::sync(path)).map_err(failed)
        }
        _ => Ok(()),
    }
}

/// Moves a file out of the way without losing it, and gives its new name: `NAME.refused`, `NAME.refused-2`, …
pub(crate) fn set_aside(path: &Path) -> Result<PathBuf, StoreError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let numbered = |number: usize| match number {
        1 => path.with_file_name(format!("{name}.refused")),
        number => path.with_file_name(format!("{name}.refused-{number}")),
    };
    let is_free = |path: &PathBuf| path.symlink_metadata().is_err();
    let free = (1..).map(numbered).find(is_free).expect("some number is free");
    let moved = disk::rename(path, &free).and_then(|()| disk::sync_folder(folder_of(path)));
    moved.map_err(|error| StoreError::io("rename", path, error))?;
    Ok(free)
}

/// Gives a file one more name, in place of what had it; where a file cannot have two names, a copy has it. There is no
/// moment at which either name is missing.
pub(crate) fn keep_as(path: &Path, other: &Path) -> Result<(), StoreError> {
    let failed = |error| StoreError::io("link", path, error);
    let aside = Aside::new(other).map_err(failed)?;
    let linked = match disk::link(path, aside.path()) {
        // Left by a process that was killed, and had the same number.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            disk::remove(aside.path()).and_then(|()| disk::link(path, aside.path()))
        }
        result => result,
    };
    match linked {
        Ok(()) => disk::rename(aside.path(), other).map_err(failed),
        Err(error) if can_only_copy(&error) => write_whole(other, &disk::read(path).map_err(failed)?),
        Err(error) => Err(failed(error)),
    }
}

/// Whether the error says that files cannot have two names here.
fn can_only_copy(error: &io::Error) -> bool {
    use io::ErrorKind::{CrossesDevices, PermissionDenied, TooManyLinks, Unsupported};
    matches!(error.kind(), CrossesDevices | PermissionDenied | TooManyLinks | Unsupported)
}

/// The folder that a file is in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
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

    /// Writes the contents and waits until they are on the disk.
    pub(crate) fn write(&self, contents: &[u8]) -> io::Result<()> {
        disk::write(&self.0, contents)?;
        disk::sync(&self.0)
    }

    /// Puts the file in its place.
    pub fn rename_to(self, path: &Path) -> io::Result<()> {
        disk::rename(&self.0, path)?;
        disk::sync_folder(folder_of(path))
    }

    fn is_name(name: &std::ffi::OsStr) -> bool {
        let name = name.to_string_lossy();
        name.starts_with('.') && name.ends_with(".part")
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // After the renaming there is none.
        if self.0.exists() {
            let _ = disk::remove(&self.0);
        }
    }
}

/// Whether a name is that of a file that is being written.
pub(crate) fn is_part(name: &std::ffi::OsStr) -> bool {
    Aside::is_name(name)
}

/// Removes what processes that were killed left half written in a folder, if it is at least that old: a file that another
/// process is writing at this moment must stay. Nothing depends on these files.
pub fn remove_parts(folder: &Path, age: Duration) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_old = || entry.metadata().and_then(|found| found.modified()).ok()?.elapsed().ok().map(|old| old >= age);
        if is_part(&entry.file_name()) && is_old().unwrap_or(age.is_zero()) {
            let _ = disk::remove(&entry.path());
        }
    }
}
