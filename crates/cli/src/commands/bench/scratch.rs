//! A folder for measurements.

use std::path::{Path, PathBuf};

use crate::Error;

/// A folder that is gone at the end.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new() -> Result<Self, Error> {
        let path = std::env::temp_dir().join(format!("semfocus-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| format!("cannot make {}: {error}", path.display()))?;
        Ok(Scratch(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0); // what is left in the temporary folder does no harm
    }
}
