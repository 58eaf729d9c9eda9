//! Every operation on the files of a run, one function each. Symbolic links are not followed and nothing but regular files is
//! opened, because a run folder may come from a stranger. Tests see every operation before it is done, and can refuse it or
//! cut it short: see [`watch`].

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use semfocus_core::file::{self, Links};

/// An operation on files that is about to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are paths and contents")]
pub enum Operation<'a> {
    /// Reads a file as a whole.
    Read { path: &'a Path },
    /// Makes a folder, if it is not there.
    CreateFolder { path: &'a Path },
    /// Makes a file with these contents, in place of what was there.
    Write { path: &'a Path, contents: &'a [u8] },
    /// Adds to the end of a file, which is made if it is not there.
    Append { path: &'a Path, contents: &'a [u8] },
    /// Cuts a file to its first bytes.
    Shorten { path: &'a Path, length: u64 },
    /// Waits until the contents of a file are on the disk.
    Sync { path: &'a Path },
    /// Waits until the names in a folder are on the disk.
    SyncFolder { path: &'a Path },
    /// Gives a file another name, in place of what had it.
    Rename { from: &'a Path, to: &'a Path },
    /// Gives a file one more name, which must be free.
    Link { from: &'a Path, to: &'a Path },
    /// Removes a file.
    Remove { path: &'a Path },
    /// Removes an empty folder.
    RemoveFolder { path: &'a Path },
    /// Lists the names in a folder.
    List { path: &'a Path },
    /// Opens the lock of a folder, which is made if it is not there.
    OpenLock { path: &'a Path },
}

impl<'a> Operation<'a> {
    /// The file or folder that it is about; where it has two names, the first.
    pub fn path(&self) -> &'a Path {
        match *self {
            Operation::Read { path }
            | Operation::CreateFolder { path }
            | Operation::Write { path, .. }
            | Operation::Append { path, .. }
            | Operation::Shorten { path, .. }
            | Operation::Sync { path }
            | Operation::SyncFolder { path }
            | Operation::Rename { from: path, .. }
            | Operation::Link { from: path, .. }
            | Operation::Remove { path }
            | Operation::RemoveFolder { path }
            | Operation::List { path }
            | Operation::OpenLock { path } => path,
        }
    }
}

/// What becomes of an operation.
#[derive(Debug)]
pub enum Answer {
    /// It is done.
    Go,
    /// It fails, and nothing happens.
    Fail(io::Error),
    /// It fails half way: half of the bytes are written; what has no half is done.
    Half(io::Error),
}

/// Is asked before every operation below a folder.
pub trait Watcher: Send + Sync {
    /// What should become of it.
    fn before(&self, operation: &Operation<'_>) -> Answer;
}

/// A folder that is watched, until this is dropped.
#[must_use]
pub struct Watch(usize);

struct Entry {
    number: usize,
    folder: PathBuf,
    watcher: Arc<dyn Watcher>,
}

static WATCHED: RwLock<Vec<Entry>> = RwLock::new(Vec::new());
/// So that nobody waits for a lock where nothing is watched, which is always so outside of tests.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Asks the watcher before every operation on a file below a folder, in whatever thread it happens. This is for tests: of
/// crashes, of faults, of the order of operations.
pub fn watch(folder: &Path, watcher: Arc<dyn Watcher>) -> Watch {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut watched = WATCHED.write().unwrap_or_else(PoisonError::into_inner);
    watched.push(Entry { number, folder: folder.to_owned(), watcher });
    COUNT.store(watched.len(), Ordering::Release);
    Watch(number)
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut watched = WATCHED.write().unwrap_or_else(PoisonError::into_inner);
        watched.retain(|entry| entry.number != self.0);
        COUNT.store(watched.len(), Ordering::Release);
    }
}

fn ask(operation: &Operation<'_>) -> Answer {
    if COUNT.load(Ordering::Acquire) == 0 {
        return Answer::Go;
    }
    let watcher = {
        let watched = WATCHED.read().unwrap_or_else(PoisonError::into_inner);
        let entry = watched.iter().find(|entry| operation.path().starts_with(&entry.folder));
        entry.map(|entry| entry.watcher.clone())
    };
    watcher.map_or(Answer::Go, |watcher| watcher.before(operation))
}

/// Does an operation, unless a watcher has other plans.
fn perform<T>(operation: Operation<'_>, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    match ask(&operation) {
        Answer::Go => work(),
        Answer::Fail(error) => Err(error),
        Answer::Half(error) => work().and(Err(error)),
    }
}

/// The same for operations that write bytes.
fn put(operation: Operation<'_>, contents: &[u8], write: impl FnOnce(&[u8]) -> io::Result<()>) -> io::Result<()> {
    match ask(&operation) {
        Answer::Go => write(contents),
        Answer::Fail(error) => Err(error),
        Answer::Half(error) => write(&contents[..contents.len() / 2]).and(Err(error)),
    }
}

/// Opens a regular file, never through a link.
fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    file::open(path, options, Links::Refused)
}

/// Opens a file to read; none if it is not there.
fn open_to_read(path: &Path) -> io::Result<Option<File>> {
    found(open(path, File::options().read(true)))
}

/// What there is; none if there is no such file or folder.
pub(crate) fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

/// How often a file is opened that is replaced while it is read.
const ATTEMPTS: usize = 5;

/// Reads, and opens the file again if it was replaced meanwhile: on NFS, what a name stood for is gone as soon as another machine
/// gives the name to another file.
fn fresh<T>(read: impl Fn() -> io::Result<T>) -> io::Result<T> {
    let is_stale = |result: &io::Result<T>| {
        result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::StaleNetworkFileHandle)
    };
    (1..ATTEMPTS).map(|_| read()).find(|result| !is_stale(result)).unwrap_or_else(read)
}

/// Whether there may be a file or folder with a name: the system says that there is one, or does not say that there is none.
pub(crate) fn may_exist(path: &Path) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    !path.symlink_metadata().is_err_and(|error| matches!(error.kind(), NotFound | NotADirectory))
}

/// What a function reads of a file; none if it is not there.
pub(crate) fn read_with<T>(path: &Path, read: impl Fn(&mut File) -> io::Result<T>) -> io::Result<Option<T>> {
    let open_and_read = || open_to_read(path)?.map(|mut file| read(&mut file)).transpose();
    fresh(|| perform(Operation::Read { path }, open_and_read))
}

/// The contents of a file from a byte on, and that byte: the first one if the file is shorter. None if it is not there. Files that are
/// larger than the limit are not read.
pub(crate) fn read_from(path: &Path, start: u64, limit: u64) -> io::Result<Option<(Vec<u8>, u64)>> {
    read_with(path, |file| {
        let start = if file.metadata()?.len() < start { 0 } else { start };
        Ok((file::read_from(file, start, limit)?, start))
    })
}

/// The contents of a file that is not larger than the limit; none if it is not there.
pub(crate) fn read(path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    Ok(read_from(path, 0, limit)?.map(|(contents, _)| contents))
}

/// Gives a file the contents of another one, which is there.
pub(crate) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let contents = read(from, u64::MAX)?.ok_or(io::ErrorKind::NotFound)?;
    write(to, &contents).and_then(|()| sync(to))
}

/// The last byte of a file, and its length; none if the file is empty or not there.
pub(crate) fn last_byte(path: &Path) -> io::Result<Option<(u8, u64)>> {
    let Some(mut file) = open_to_read(path)? else { return Ok(None) };
    let length = file.metadata()?.len();
    let Some(last) = length.checked_sub(1) else { return Ok(None) };
    Ok(file::read_from(&mut file, last, u64::MAX)?.first().map(|byte| (*byte, length)))
}

/// Makes a folder whose parent is there. A link in its place is refused.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    perform(Operation::CreateFolder { path }, || match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => check_folder(path),
    })
}

/// Refuses a link, or a file, in place of a folder.
pub(crate) fn check_folder(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path)? {
        found if found.is_dir() => Ok(()),
        found if found.is_symlink() => Err(file::link_error()),
        _ => Err(io::Error::new(io::ErrorKind::NotADirectory, "it is not a folder")),
    }
}

pub(crate) fn write(path: &Path, contents: &[u8]) -> io::Result<()> {
    put(Operation::Write { path, contents }, contents, |contents| {
        open(path, File::options().write(true).create(true).truncate(true))?.write_all(contents)
    })
}

pub(crate) fn append(path: &Path, contents: &[u8]) -> io::Result<()> {
    put(Operation::Append { path, contents }, contents, |contents| {
        open(path, File::options().append(true).create(true))?.write_all(contents)
    })
}

pub(crate) fn shorten(path: &Path, length: u64) -> io::Result<()> {
    perform(Operation::Shorten { path, length }, || open(path, File::options().write(true))?.set_len(length))
}

pub(crate) fn sync(path: &Path) -> io::Result<()> {
    // Any descriptor of the file will do, so this needs no open file from the operation before.
    perform(Operation::Sync { path }, || open(path, File::options().write(true))?.sync_all())
}

/// Systems that cannot sync folders do not need it.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    perform(Operation::SyncFolder { path }, || if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) })
}

pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    perform(Operation::Rename { from, to }, || fs::rename(from, to))
}

pub(crate) fn link(from: &Path, to: &Path) -> io::Result<()> {
    perform(Operation::Link { from, to }, || fs::hard_link(from, to))
}

pub(crate) fn remove(path: &Path) -> io::Result<()> {
    perform(Operation::Remove { path }, || fs::remove_file(path))
}

/// Removes a folder that has nothing in it.
pub(crate) fn remove_folder(path: &Path) -> io::Result<()> {
    perform(Operation::RemoveFolder { path }, || fs::remove_dir(path))
}

/// The names in a folder in their order, as the file system has them now; none if there is no such folder.
pub(crate) fn list(path: &Path) -> io::Result<Vec<OsString>> {
    let list = || fs::read_dir(path)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>();
    let mut names = found(perform(Operation::List { path }, list))?.unwrap_or_default();
    names.sort();
    Ok(names)
}

/// The lock of a folder, to read and write.
pub(crate) fn open_lock(path: &Path) -> io::Result<File> {
    let options = || open(path, File::options().read(true).write(true).create(true).truncate(false));
    perform(Operation::OpenLock { path }, options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_tools::Scratch;

    #[cfg(unix)]
    #[test]
    fn links_and_pipes_are_refused() {
        let scratch = Scratch::new("links");
        let (outside, link) = (scratch.path().join("outside"), scratch.path().join("link"));
        fs::write(&outside, "mine").unwrap();
        std::os::unix::fs::symlink(&outside, &link).unwrap();
        for result in [
            read(&link, 9).map(|_| ()),
            write(&link, b"other"),
            append(&link, b"other"),
            shorten(&link, 0),
            open_lock(&link).map(|_| ()),
            create_folder(&link),
        ] {
            assert!(result.unwrap_err().to_string().contains("symbolic link"));
        }
        assert_eq!(fs::read(&outside).unwrap(), b"mine");
        let pipe = scratch.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(read(&pipe, 9).unwrap_err().to_string().contains("not a regular file"));
    }

    #[test]
    fn a_file_that_is_replaced_while_it_is_read_is_opened_again() {
        struct Stale(AtomicUsize);
        impl Watcher for Stale {
            fn before(&self, _operation: &Operation<'_>) -> Answer {
                let left = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
                left.map_or(Answer::Go, |_| Answer::Fail(io::ErrorKind::StaleNetworkFileHandle.into()))
            }
        }
        let scratch = Scratch::new("stale");
        let file = scratch.path().join("file");
        fs::write(&file, "contents").unwrap();
        let stale = Arc::new(Stale(AtomicUsize::new(0)));
        let guard = watch(scratch.path(), stale.clone());
        stale.0.store(ATTEMPTS - 1, Ordering::Relaxed);
        assert_eq!(read(&file, 9).unwrap().unwrap(), b"contents");
        stale.0.store(ATTEMPTS - 1, Ordering::Relaxed);
        assert_eq!(read_from(&file, 3, 99).unwrap().unwrap(), (b"tents".to_vec(), 3));
        stale.0.store(ATTEMPTS, Ordering::Relaxed);
        assert_eq!(read(&file, 9).unwrap_err().kind(), io::ErrorKind::StaleNetworkFileHandle);
        drop(guard);
    }

    #[test]
    fn operations_can_be_refused_and_cut_short_below_a_folder() {
        struct Half;
        impl Watcher for Half {
            fn before(&self, operation: &Operation<'_>) -> Answer {
                match operation {
                    Operation::Write { .. } => Answer::Half(io::Error::other("half")),
                    Operation::Rename { .. } => Answer::Fail(io::Error::other("none")),
                    _ => Answer::Go,
                }
            }
        }
        let (watched, other) = (Scratch::new("watched"), Scratch::new("not-watched"));
        let guard = watch(watched.path(), Arc::new(Half));
        let (file, moved) = (watched.path().join("a"), watched.path().join("b"));
        assert_eq!(write(&file, b"1234").unwrap_err().to_string(), "half");
        assert_eq!(read(&file, 9).unwrap().unwrap(), b"12");
        assert_eq!(rename(&file, &moved).unwrap_err().to_string(), "none");
        assert!(file.exists());
        write(&other.path().join("a"), b"1234").unwrap();
        drop(guard);
        rename(&file, &moved).unwrap();
    }
}
