//! Who works on a trial. The operating system keeps the lock and gives it up when the process dies, however it dies.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::StoreError;
use super::environment::{host, utc_now};

/// The process that holds a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its number.
    pub pid: u32,
    /// The machine it runs on.
    pub host: String,
    /// Since when.
    pub since: String,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {} on {} since {}", self.pid, self.host, self.since)
    }
}

/// A lock that this process holds; dropping it gives it up.
#[derive(Debug)]
pub struct Lock(File);

/// Takes the lock, or says who has it; nobody is named if the holder has not written its name yet.
pub(super) fn take(path: &Path) -> Result<Result<Lock, Option<Holder>>, StoreError> {
    let failed = |error| StoreError::io("lock", path, error);
    let mut file = File::options().read(true).write(true).create(true).truncate(false).open(path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {
            let holder = Holder { pid: std::process::id(), host: host(), since: utc_now() };
            let text = serde_json::to_string(&holder).expect("plain fields can be written");
            file.set_len(0)
                .and_then(|()| file.rewind())
                .and_then(|()| file.write_all(text.as_bytes()))
                .map_err(failed)?;
            Ok(Ok(Lock(file)))
        }
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            file.read_to_string(&mut text).map_err(failed)?;
            Ok(Err(serde_json::from_str(&text).ok()))
        }
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// Waits for the lock.
pub(super) fn wait(path: &Path) -> Result<Lock, StoreError> {
    let failed = |error| StoreError::io("lock", path, error);
    let file = File::options().read(true).write(true).create(true).truncate(false).open(path).map_err(failed)?;
    file.lock().map_err(failed)?;
    Ok(Lock(file))
}

/// Who holds the lock, if anybody does. Does not disturb: whoever wants to take it at this very moment tries again.
pub(super) fn holder(path: &Path) -> Option<Option<Holder>> {
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

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file would do; saying so does not hurt.
        let _ = self.0.unlock();
    }
}
