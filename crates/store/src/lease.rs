//! Who works on a folder. The operating system keeps the lock and gives it up when the process dies, however it dies.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::environment::{host, utc_now};
use crate::files::{self, Aside};

/// The process that holds a folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Number of the process.
    pub pid: u32,
    /// The machine it runs on.
    pub host: String,
    /// When it took the folder.
    pub since: String,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {} on {} since {}", self.pid, self.host, self.since)
    }
}

/// The right to write into a folder; dropping it gives it up.
#[derive(Debug)]
pub struct Lease {
    file: File,
    folder: PathBuf,
}

/// What became of the wish for a lease.
#[derive(Debug)]
pub enum Taken {
    /// This process has it.
    Lease(Lease),
    /// Another one has it; it is not named if it has not written its name yet.
    Held(Option<Holder>),
}

impl Lease {
    /// Creates the folder if need be and takes its lease, or says who has it.
    pub fn take(folder: &Path) -> Result<Taken, StoreError> {
        files::create_folder(folder)?;
        let path = folder.join("lock");
        let failed = |error| StoreError::io("lock", &path, error);
        let mut file = open(&path)?;
        match file.try_lock() {
            Ok(()) => {
                let holder = Holder { pid: std::process::id(), host: host(), since: utc_now() };
                let text = serde_json::to_string(&holder).expect("plain fields can be written");
                file.set_len(0)
                    .and_then(|()| file.rewind())
                    .and_then(|()| file.write_all(text.as_bytes()))
                    .map_err(failed)?;
                remove_parts(folder);
                Ok(Taken::Lease(Lease { file, folder: folder.to_owned() }))
            }
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                file.read_to_string(&mut text).map_err(failed)?;
                Ok(Taken::Held(serde_json::from_str(&text).ok()))
            }
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    /// Waits for the lease of a folder that exists.
    pub(crate) fn wait(folder: &Path) -> Result<Self, StoreError> {
        let path = folder.join("lock");
        let file = open(&path)?;
        file.lock().map_err(|error| StoreError::io("lock", &path, error))?;
        Ok(Lease { file, folder: folder.to_owned() })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

fn open(path: &Path) -> Result<File, StoreError> {
    let options = || File::options().read(true).write(true).create(true).truncate(false).open(path);
    options().map_err(|error| StoreError::io("lock", path, error))
}

/// Removes what a process that was killed left half written. Nothing depends on it.
fn remove_parts(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if Aside::is_name(&entry.file_name()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Who holds the lease of a folder, if anybody does. A process that wants to take it at this very moment tries again.
pub(crate) fn holder(folder: &Path) -> Option<Option<Holder>> {
    let mut file = File::open(folder.join("lock")).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            file.read_to_string(&mut text).ok()?;
            Some(serde_json::from_str(&text).ok())
        }
        _ => None,
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Closing the file would do; saying so does not hurt.
        let _ = self.file.unlock();
    }
}
