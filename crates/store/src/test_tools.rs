//! What the tests of this crate share.

use std::path::{Path, PathBuf};

use crate::{Lease, Locks, State, Status, Taken};

/// The lease of a folder that nobody else uses.
pub(crate) fn lease(folder: &Path) -> Lease {
    match Locks::flock().take(folder).unwrap() {
        Taken::Lease(lease) => lease,
        Taken::Held(holder) => panic!("{} is held by {holder:?}", folder.display()),
    }
}

/// The status of a trial of three epochs.
pub(crate) fn status(state: State, epoch: usize) -> Status {
    Status { state, epoch, epochs: 3, updated: "now".to_owned(), ..Status::default() }
}

/// A folder of its own for a test, removed in the end.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("semfocus-store-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
