//! Keeps a process from writing into a folder that it has lost.
//!
//! Every lease that this process holds is known here. Whatever is written below the folder of a lease, by whichever thread, is
//! checked first: [`files`](crate::files) asks [`fence`] for every file.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use super::Holder;
use super::claims::Claims;

/// What a lease says about the files below its folder.
#[derive(Debug)]
pub(crate) struct Fence {
    /// The folder that is leased.
    pub(crate) folder: PathBuf,
    /// What is written under this lease: the folder, or one above it.
    pub(crate) root: PathBuf,
    pub(crate) kind: Kind,
}

/// How a folder is held.
#[derive(Debug)]
pub(crate) enum Kind {
    /// By a lock of the operating system.
    Flock,
    /// By a claim with this number.
    Claim(u64),
}

static FENCES: RwLock<Vec<Arc<Fence>>> = RwLock::new(Vec::new());

/// The fence of the lease under which this process writes a file; none if it holds no lease for it.
pub(crate) fn fence(path: &Path) -> Option<Arc<Fence>> {
    let fences = FENCES.read().unwrap_or_else(PoisonError::into_inner);
    let around = fences.iter().filter(|fence| path.starts_with(&fence.root));
    around.max_by_key(|fence| fence.root.components().count()).cloned()
}

pub(crate) fn raise(fence: &Arc<Fence>) {
    FENCES.write().unwrap_or_else(PoisonError::into_inner).push(fence.clone());
}

pub(crate) fn lower(fence: &Arc<Fence>) {
    FENCES.write().unwrap_or_else(PoisonError::into_inner).retain(|other| !Arc::ptr_eq(fence, other));
}

impl Fence {
    /// Refuses to continue if another process has the folder now.
    pub(crate) fn check(&self) -> io::Result<()> {
        let claims = Claims::new(&self.folder);
        let highest = match self.kind {
            // Whoever makes the first claim takes the folder from those that only lock it.
            Kind::Flock if !claims.exist() => return Ok(()),
            Kind::Flock => claims.list()?.highest().unwrap_or(0),
            Kind::Claim(number) => match claims.list()?.highest() {
                Some(highest) if highest == number => return Ok(()),
                Some(highest) => highest,
                None => {
                    return Err(io::Error::other("its claims were removed while this process worked on the folder"));
                }
            },
        };
        let holder = claims.read(highest).ok().flatten().map(|claim| claim.holder());
        Err(io::Error::other(Lost { folder: self.folder.clone(), holder }))
    }

    /// Where files are written before they get their names; none if that is in the same folder.
    pub(crate) fn work_folder(&self) -> Option<PathBuf> {
        match self.kind {
            Kind::Flock => None,
            Kind::Claim(number) => Some(Claims::new(&self.folder).work(number)),
        }
    }
}

/// Another process has the folder now.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{} was taken over by {}", .folder.display(), name(.holder.as_ref()))]
pub(crate) struct Lost {
    pub(crate) folder: PathBuf,
    pub(crate) holder: Option<Holder>,
}

pub(crate) fn name(holder: Option<&Holder>) -> String {
    holder.map_or_else(|| "another process".to_owned(), Holder::to_string)
}
