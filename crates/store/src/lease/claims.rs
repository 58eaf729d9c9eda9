//! Numbered claims on a folder, for file systems on which locks do not hold.
//!
//! ```text
//! claims/000007         a claim: the process that made it. The highest number owns the folder
//! claims/000007.work/   unfinished files of the owner, and its beat, which it rewrites every now and then
//! claims/000007.done/   the same folder, renamed when the owner gave up the claim
//! ```
//!
//! Nothing is needed but exclusive creation (`link`), `rename` and listing. A claim is a fencing token: whoever makes the next
//! claim removes the work folder of the one before. A file gets its name by a rename out of the work folder, and goes out of
//! the way by a rename into it, so an owner that was stopped between its last look at the claims and the rename fails there:
//! it changes nothing after the new owner has begun to read.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use semfocus_core::file::MAX_TEXT;
use serde::{Deserialize, Serialize};

use crate::disk;
use crate::files::Aside;
use crate::process::{Holder, Process, random};

/// What a claim says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claim {
    /// The process that made it, and when.
    #[serde(flatten)]
    pub(crate) holder: Holder,
    /// Distinguishes the claims of a process.
    pub(crate) random: String,
}

impl Claim {
    /// A new claim of a process.
    pub(crate) fn new(process: Process) -> Self {
        Claim { holder: Holder::new(process), random: format!("{:016x}", random()) }
    }
}

/// The claims on a folder.
#[derive(Debug)]
pub(crate) struct Claims {
    folder: PathBuf,
}

/// The numbers that were claimed, and what there is of each.
#[derive(Debug, Default)]
pub(crate) struct Listing(BTreeMap<u64, Found>);

#[derive(Clone, Copy, Debug, Default)]
struct Found {
    is_claim: bool,
    has_work: bool,
    is_done: bool,
}

impl Listing {
    /// The claim that owns the folder.
    pub(crate) fn highest(&self) -> Option<u64> {
        self.0.iter().rev().find(|(_, found)| found.is_claim).map(|(number, _)| *number)
    }

    /// Whether a claim was given up.
    pub(crate) fn is_done(&self, number: u64) -> bool {
        self.0.get(&number).is_some_and(|found| found.is_done)
    }
}

impl Claims {
    /// The claims on a folder.
    pub(crate) fn new(folder: &Path) -> Self {
        Claims { folder: folder.join("claims") }
    }

    /// Whether the folder is used with claims.
    pub(crate) fn exist(&self) -> bool {
        self.folder.symlink_metadata().is_ok()
    }

    /// Says that the folder is used with claims from now on, even if there is none yet.
    pub(crate) fn announce(&self) -> io::Result<()> {
        if self.exist() { disk::check_folder(&self.folder) } else { disk::create_folder(&self.folder) }
    }

    /// What is there now. Nothing else is asked of the file system for it: on NFS a listing is fresh where a lookup of a
    /// single name need not be.
    pub(crate) fn list(&self) -> io::Result<Listing> {
        let mut listing = Listing::default();
        for name in disk::list(&self.folder)? {
            let Some(name) = name.to_str() else { continue };
            let (number, rest) = name.split_once('.').unwrap_or((name, ""));
            let Ok(number) = number.parse::<u64>() else { continue };
            let found = listing.0.entry(number).or_default();
            match rest {
                "" => found.is_claim = true,
                "work" => found.has_work = true,
                "done" => found.is_done = true,
                _ => {}
            }
        }
        Ok(listing)
    }

    /// What a claim says; none if it is not there or cannot be understood.
    pub(crate) fn read(&self, number: u64) -> io::Result<Option<Claim>> {
        let bytes = disk::read(&self.path(number), MAX_TEXT)?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    /// The process that made a claim.
    pub(crate) fn holder(&self, number: u64) -> io::Result<Option<Holder>> {
        Ok(self.read(number)?.map(|claim| claim.holder))
    }

    /// The beat of a claim as it was last written; none if there is none yet.
    pub(crate) fn beat(&self, number: u64) -> io::Result<Option<Vec<u8>>> {
        disk::read(&self.beat_path(number), MAX_TEXT)
    }

    /// How long ago the beat of a claim, or else the claim, was written, by the clocks of both machines.
    pub(crate) fn age(&self, number: u64) -> Option<std::time::Duration> {
        let modified = |path: PathBuf| path.symlink_metadata().and_then(|found| found.modified()).ok();
        let last = modified(self.beat_path(number)).or_else(|| modified(self.path(number)))?;
        Some(last.elapsed().unwrap_or_default())
    }

    /// Renews the beat of an owner. It need not survive a power failure.
    pub(crate) fn write_beat(&self, number: u64, count: u64) -> io::Result<()> {
        disk::write(&self.beat_path(number), format!("{count}\n").as_bytes())
    }

    /// Makes the claim with a number, and says whether this process owns the folder now.
    pub(crate) fn make(&self, number: u64, claim: &Claim) -> io::Result<bool> {
        let text = serde_json::to_vec(claim).expect("plain fields can be written");
        // A claim is whole when it has its name, and nobody else's can be in its place.
        let aside = Aside::beside(&self.path(number))?;
        disk::write(aside.path(), &text)?;
        if let Err(error) = disk::link(aside.path(), &self.path(number)) {
            // The answer of a server may have been lost, and the claim made.
            match disk::read(&self.path(number), MAX_TEXT) {
                Ok(Some(present)) if present == text => {}
                Ok(Some(_)) => return Ok(false),
                Err(_) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
                _ => return Err(error),
            }
        }
        drop(aside);
        let owns = self.enter(number);
        if owns.is_err() {
            // Nobody should have to wait for a claim that was made in vain.
            let _ = self.release(number).or_else(|_| disk::create_folder(&self.done(number)));
        }
        owns
    }

    /// Makes the work folder of a claim, and says whether it is the highest.
    fn enter(&self, number: u64) -> io::Result<bool> {
        disk::create_folder(&self.work(number))?;
        // The work folder was made before this look: a higher claim that it does not show is made later and removes the folder.
        let listing = self.list()?;
        if listing.highest() != Some(number) {
            return Ok(false);
        }
        self.remove_earlier(number, &listing)?;
        Ok(true)
    }

    /// Takes away from earlier owners what they would need to change anything, and what they left.
    fn remove_earlier(&self, number: u64, listing: &Listing) -> io::Result<()> {
        for (earlier, found) in listing.0.range(..number) {
            if found.has_work {
                empty_and_remove(&self.work(*earlier))?;
            }
            if found.is_done {
                let _ = empty_and_remove(&self.done(*earlier));
            }
            if found.is_claim {
                let _ = disk::remove(&self.path(*earlier));
            }
        }
        Ok(())
    }

    /// Gives up a claim.
    pub(crate) fn release(&self, number: u64) -> io::Result<()> {
        let _ = disk::remove(&self.beat_path(number));
        disk::rename(&self.work(number), &self.done(number))
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number:06}"))
    }

    /// The folder for unfinished files of an owner.
    pub(crate) fn work(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number:06}.work"))
    }

    fn done(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number:06}.done"))
    }

    fn beat_path(&self, number: u64) -> PathBuf {
        self.work(number).join("beat")
    }
}

/// Removes a folder of files that an owner may still be writing: once it is gone, nothing can be made in it.
fn empty_and_remove(folder: &Path) -> io::Result<()> {
    let is_gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    for _ in 0..100 {
        for name in disk::list(folder)? {
            match disk::remove(&folder.join(name)) {
                Err(error) if !is_gone(&error) => return Err(error),
                _ => {}
            }
        }
        match disk::remove_folder(folder) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            Err(error) if is_gone(&error) => return Ok(()),
            result => return result,
        }
    }
    Err(io::Error::other("an earlier owner is still writing into it"))
}
