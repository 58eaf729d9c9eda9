//! Keeps a process from writing into a folder that it has lost.
//!
//! Every lease that this process holds is known here. Whatever is written below the folder of a lease, by whichever thread, is
//! checked first: [`files`](crate::files) asks for every file. How a lease is checked, the lease knows.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use crate::process::Holder;

/// What a lease says about the files below its folder.
#[derive(Debug)]
pub(crate) struct Fence {
    /// The folder that is leased.
    pub(crate) folder: PathBuf,
    /// What is written under this lease: the folder, or one above it.
    pub(crate) root: PathBuf,
    /// Number of the claim on the folder; none if it is locked by the operating system.
    pub(crate) claim: Option<u64>,
    /// Where files are written before they get their names; none if that is the folder of each.
    pub(crate) work_folder: Option<PathBuf>,
    /// Refuses to continue if another process has the folder now.
    pub(crate) check: fn(&Fence) -> io::Result<()>,
}

static FENCES: RwLock<Vec<Arc<Fence>>> = RwLock::new(Vec::new());

/// The fence of the lease under which this process writes a file; none if it holds no lease for it.
fn fence(path: &Path) -> Option<Arc<Fence>> {
    let fences = FENCES.read().unwrap_or_else(PoisonError::into_inner);
    let around = fences.iter().filter(|fence| path.starts_with(&fence.root));
    around.max_by_key(|fence| fence.root.components().count()).cloned()
}

/// Refuses to write a file below a folder that this process has lost.
pub(crate) fn check_lease(path: &Path) -> io::Result<()> {
    fence(path).map_or(Ok(()), |fence| (fence.check)(&fence))
}

/// The folder for unfinished files, if this process writes the file under a claim.
pub(crate) fn work_folder(path: &Path) -> Option<PathBuf> {
    fence(path)?.work_folder.clone()
}

pub(crate) fn raise(fence: &Arc<Fence>) {
    FENCES.write().unwrap_or_else(PoisonError::into_inner).push(fence.clone());
}

pub(crate) fn lower(fence: &Arc<Fence>) {
    FENCES.write().unwrap_or_else(PoisonError::into_inner).retain(|other| !Arc::ptr_eq(fence, other));
}

/// Another process has the folder now.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{} was taken over by {}", .folder.display(), name(.holder.as_ref()))]
pub(crate) struct Lost {
    pub(crate) folder: PathBuf,
    pub(crate) holder: Option<Holder>,
}

/// A holder in words.
pub(crate) fn name(holder: Option<&Holder>) -> String {
    holder.map_or_else(|| "another process".to_owned(), Holder::to_string)
}
