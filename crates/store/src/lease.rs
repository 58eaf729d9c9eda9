//! Who works on a folder. The operating system keeps the lock and gives it up when the process dies, however it dies.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::environment::{host, utc_now};
use crate::{StoreError, disk, files};

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
        let mut file = disk::open_lock(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {
                let holder = Holder { pid: std::process::id(), host: host(), since: utc_now() };
                let text = serde_json::to_string(&holder).expect("plain fields can be written");
                file.set_len(0)
                    .and_then(|()| file.rewind())
                    .and_then(|()| file.write_all(text.as_bytes()))
                    .map_err(failed)?;
                // Nobody else writes here now.
                for folder in [folder, &folder.join("snapshots")] {
                    files::remove_parts(folder, Duration::ZERO);
                }
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

    /// Waits for the lease of a folder. `is_patient` is told who has it every now and then, and says whether to go on
    /// waiting; without patience there is no lease.
    pub(crate) fn wait(
        folder: &Path,
        is_patient: &mut dyn FnMut(Option<&Holder>) -> bool,
    ) -> Result<Option<Self>, StoreError> {
        loop {
            match Lease::take(folder)? {
                Taken::Lease(lease) => return Ok(Some(lease)),
                Taken::Held(holder) if !is_patient(holder.as_ref()) => return Ok(None),
                Taken::Held(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes sure that this is still the lease of the folder. If somebody removed the folder, another process may have made
    /// it anew and hold a lease of its own.
    pub fn confirm(&self) -> Result<(), StoreError> {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let path = self.folder.join("lock");
            let identity = |found: std::fs::Metadata| (found.dev(), found.ino());
            let mine = self.file.metadata().map(identity).ok();
            if mine.is_none() || std::fs::symlink_metadata(&path).map(identity).ok() != mine {
                let gone = "it was removed while this process worked on its folder, so another one may have it now";
                return Err(StoreError::io("keep", &path, std::io::Error::other(gone)));
            }
        }
        Ok(())
    }
}

/// Who holds the lease of a folder, if anybody does. A process that wants to take it at this very moment tries again.
pub(crate) fn holder(folder: &Path) -> Option<Option<Holder>> {
    let path = folder.join("lock");
    if !path.symlink_metadata().is_ok_and(|found| found.is_file()) {
        return None;
    }
    let mut file = File::open(path).ok()?;
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
