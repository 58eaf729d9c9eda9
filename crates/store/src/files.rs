//! Writing so that nothing is lost: whole files are written aside, synced and renamed, and the folder is synced; lines are
//! appended and synced. In a folder that is held by a claim, where another machine may take over, lines are added by writing the
//! whole file, too.
//!
//! Before anything below a folder that this process has leased is changed, it is made sure that it still has the lease.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use semfocus_core::file::MAX_TEXT;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::fence::{check_lease, work_folder};
use crate::process::{Process, random};
use crate::{StoreError, disk};

/// Writes a file as a whole: readers see the old contents or the new ones, never a part; a failure leaves the old ones.
/// When this returns, the file survives a power failure.
pub fn write_whole(path: &Path, contents: &[u8]) -> Result<(), StoreError> {
    let failed = |error| StoreError::io("write", path, error);
    let aside = Aside::new(path).map_err(failed)?;
    aside.write(contents).and_then(|()| aside.rename_to(path)).map_err(failed)
}

/// Reads a text file as a whole; none if there is no such file.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    disk::read(path, MAX_TEXT).map_err(|error| StoreError::io("read", path, error))
}

/// The text of a file; none if there is no such file.
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

/// Bytes that may still be written below a folder, which need not be there yet. None if the system does not say.
pub fn free_space(folder: &Path) -> Option<u64> {
    let found = folder.ancestors().find_map(|folder| {
        rustix::fs::statvfs(if folder.as_os_str().is_empty() { Path::new(".") } else { folder }).ok()
    })?;
    // Some file systems say nothing about themselves.
    (found.f_blocks > 0).then(|| found.f_bavail.saturating_mul(found.f_frsize))
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
/// when it died goes first. A file without any line begins with the header.
pub(crate) fn append(path: &Path, header: &str, text: &str) -> Result<(), StoreError> {
    let failed = |error| StoreError::io("append to", path, error);
    let last = disk::last_byte(path).map_err(failed)?;
    let is_half = last.is_some_and(|(last, _)| last != b'\n');
    let is_claimed = work_folder(path).is_some();
    let mut before = Vec::new();
    if is_half || is_claimed {
        before = disk::read(path, u64::MAX).map_err(failed)?.unwrap_or_default();
        before.truncate(complete(&before));
    }
    let is_empty = if is_half || is_claimed { before.is_empty() } else { last.is_none() };
    let text = format!("{}{text}", if is_empty { header } else { "" });
    if is_claimed {
        before.extend(text.as_bytes());
        return write_whole(path, &before);
    }
    check_lease(path).map_err(failed)?;
    let is_new = last.is_none() && !path.exists();
    if is_half {
        disk::shorten(path, before.len() as u64).map_err(failed)?;
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
    if disk::last_byte(path).map_err(failed)?.is_none_or(|(_, present)| present <= length) {
        return Ok(());
    }
    if work_folder(path).is_some() {
        let mut bytes = disk::read(path, u64::MAX).map_err(failed)?.unwrap_or_default();
        bytes.truncate(length as usize);
        return write_whole(path, &bytes);
    }
    check_lease(path).and_then(|()| disk::shorten(path, length)).and_then(|()| disk::sync(path)).map_err(failed)
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
    let moved = || {
        check_lease(path)?;
        if work_folder(path).is_none() {
            disk::rename(path, &free)?;
        } else {
            // The file has its new name before it loses the old one, and loses that by a rename that fails in a process that
            // has lost the folder.
            link_or_copy(path, &free)?;
            let aside = Aside::new(path)?;
            check_lease(path)?;
            disk::rename(path, aside.path()).map_err(|error| lost_or(path, error))?;
        }
        disk::sync_folder(folder_of(path))
    };
    moved().map_err(|error| StoreError::io("rename", path, error))?;
    Ok(free)
}

/// An error, or what is behind it: whoever takes a folder over removes the work folder of the owner before.
fn lost_or(path: &Path, error: io::Error) -> io::Error {
    check_lease(path).err().filter(|_| error.kind() == io::ErrorKind::NotFound).unwrap_or(error)
}

/// Gives a file one more name, in place of what had it; where a file cannot have two names, a copy has it. There is no
/// moment at which either name is missing.
pub(crate) fn keep_as(path: &Path, other: &Path) -> Result<(), StoreError> {
    let renamed = Aside::new(other).and_then(|aside| {
        link_or_copy(path, aside.path())?;
        check_lease(other)?;
        disk::rename(aside.path(), other)
    });
    renamed.map_err(|error| StoreError::io("link", path, lost_or(other, error)))
}

/// Gives a file one more name, or a copy the name where a file cannot have two.
fn link_or_copy(path: &Path, other: &Path) -> io::Result<()> {
    match disk::link(path, other) {
        Err(error) if can_only_copy(&error) => disk::copy(path, other),
        result => result,
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
    /// A name that no other process uses, on any machine: in the same folder, or under a claim in its work folder.
    pub fn new(path: &Path) -> io::Result<Self> {
        work_folder(path).map_or_else(|| Aside::beside(path), |folder| Aside::in_folder(&folder, path))
    }

    /// A name in the same folder.
    pub(crate) fn beside(path: &Path) -> io::Result<Self> {
        remove_parts_once(folder_of(path));
        Aside::in_folder(folder_of(path), path)
    }

    fn in_folder(folder: &Path, path: &Path) -> io::Result<Self> {
        let no_name = || io::Error::new(io::ErrorKind::InvalidInput, "this is not the name of a file");
        let name = path.file_name().ok_or_else(no_name)?.to_string_lossy();
        let process = Process::here().short_name();
        Ok(Aside(folder.join(format!(".{name}.{process}.{:08x}.part", random() as u32))))
    }

    /// Where to write.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes the contents and waits until they are on the disk.
    pub(crate) fn write(&self, contents: &[u8]) -> io::Result<()> {
        disk::write(&self.0, contents).and_then(|()| disk::sync(&self.0)).map_err(|error| lost_or(&self.0, error))
    }

    /// Puts the file in its place.
    pub fn rename_to(self, path: &Path) -> io::Result<()> {
        check_lease(path)?;
        disk::rename(&self.0, path).map_err(|error| lost_or(path, error))?;
        disk::sync_folder(folder_of(path))
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
    let name = name.to_string_lossy();
    name.starts_with('.') && name.ends_with(".part")
}

/// Unfinished files of processes that cannot be judged are removed when they are so old.
const OLD: Duration = Duration::from_secs(24 * 3600);

/// Whoever writes in a folder for the first time removes what dead processes left there.
fn remove_parts_once(folder: &Path) {
    static SEEN: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    if SEEN.lock().unwrap_or_else(PoisonError::into_inner).insert(folder.to_owned()) {
        remove_parts(folder);
    }
}

/// Removes what dead processes of this machine left half written in a folder, and what is older than a day. A file that another
/// process may be writing at this moment, here or on another machine, stays. Nothing depends on these files.
pub fn remove_parts(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let age = || entry.metadata().and_then(|found| found.modified()).ok()?.elapsed().ok();
        let name = entry.file_name();
        if is_part(&name) && (Process::has_left(&name.to_string_lossy()) || age().is_some_and(|age| age >= OLD)) {
            let _ = disk::remove(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_tools::Scratch;

    #[cfg(target_os = "linux")]
    #[test]
    fn unfinished_files_of_living_processes_and_other_machines_stay() {
        let scratch = Scratch::new("parts");
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let (dead, here) = (child.id(), Process::here());
        child.wait().unwrap();
        let name = |process: &Process| format!(".epochs.csv.{}.0badcafe.part", process.short_name());
        let is_kept = |name: &str| {
            let path = scratch.path().join(name);
            std::fs::write(&path, "half").unwrap();
            remove_parts(scratch.path());
            path.exists()
        };
        let another = |host: &str, pid: u32| Process { host: host.to_owned(), pid, ..here.clone() };
        assert!(is_kept(&name(here)), "this process may be writing it");
        assert!(!is_kept(&name(&another(&here.host, dead))));
        assert!(is_kept(&name(&another("another.machine", dead))), "the number means nothing here");
        assert!(is_kept("epochs.csv"));
        let old = scratch.path().join(name(&another("another.machine", dead)));
        let file = std::fs::File::options().write(true).open(&old).unwrap();
        file.set_modified(std::time::SystemTime::now() - 2 * OLD).unwrap();
        remove_parts(scratch.path());
        assert!(!old.exists());
    }
}
