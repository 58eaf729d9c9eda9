//! Who works on a folder.
//!
//! On the file systems of one machine the operating system keeps a lock (`flock`) and gives it up when the process dies,
//! however it dies. On file systems that several machines share, such locks may hold on one machine only, or not exist. There,
//! processes make numbered [claims](claims), the highest of which owns the folder. `docs/run-store.md` describes the rules.
//!
//! | to find | look in |
//! |---|---|
//! | which of the two is used, and why | `choice.rs` |
//! | claims, and why two owners cannot both write | `claims.rs` |
//! | what is checked before every file that is written | [`fence`](crate::fence) |
//! | whether a process is still there | [`process`](crate::process) |

mod choice;
mod claims;
#[cfg(test)]
mod interleavings;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use semfocus_core::file::{self, Links, MAX_TEXT};

pub use choice::{Chosen, LockChoice};

use crate::fence::{self, Fence, Lost};
use crate::process::{Holder, Process};
use crate::{StoreError, disk, files};
use claims::{Claim, Claims};

/// An owner whose beat has not changed for this time has died, or has lost its connection: longer than a client of NFS keeps the
/// attributes of a file (60 s) and two beats.
const LIMIT: Duration = Duration::from_secs(120);

/// Another limit, in seconds.
const LIMIT_VARIABLE: &str = "SEMFOCUS_LEASE_SECONDS";

/// Beats in the time after which an owner is given up.
const BEATS: u32 = 6;

/// How this process takes folders. One value for all folders of a command: it remembers what it has seen of other owners.
pub struct Locks {
    uses_claims: bool,
    /// How long the beat of an owner may stay the same.
    limit: Duration,
    /// How long the file system may show what is no longer true.
    cache_time: Duration,
    process: Process,
    /// A clock that only goes forward. Clocks of different machines are never compared.
    clock: Box<dyn Fn() -> Duration + Send + Sync>,
    /// Whether owners have a thread that beats.
    has_threads: bool,
    seen: Mutex<HashMap<PathBuf, Seen>>,
}

/// An owner that does not say whether it lives.
struct Seen {
    number: u64,
    beat: Option<Vec<u8>>,
    since: Duration,
}

/// The right to write into a folder; dropping it gives it up.
#[derive(Debug)]
pub struct Lease {
    fence: Arc<Fence>,
    /// The locked file; none for a claim.
    lock: Option<File>,
    /// Dropping it ends the thread that beats.
    #[allow(dead_code, reason = "it is dropped")]
    beats: Option<Sender<()>>,
}

/// What became of the wish for a lease.
#[derive(Debug)]
pub enum Taken {
    /// This process has it.
    Lease(Lease),
    /// Another one has it; it is not named if it has not written its name yet.
    Held(Option<Holder>),
}

impl Locks {
    /// Locks of the operating system, for file systems of one machine.
    pub fn flock() -> Self {
        Locks::new(false)
    }

    /// Claims, for file systems that several machines share.
    pub fn lease() -> Self {
        Locks::new(true)
    }

    fn new(uses_claims: bool) -> Self {
        let start = Instant::now();
        Locks {
            uses_claims,
            limit: limit(),
            cache_time: Duration::ZERO,
            process: Process::here().clone(),
            clock: Box::new(move || start.elapsed()),
            has_threads: true,
            seen: Mutex::default(),
        }
    }

    /// The same with another limit, which must be that of all processes.
    pub fn with_limit(self, limit: Duration) -> Self {
        Locks { limit, ..self }
    }

    /// Whether folders are held by claims. One that was ever held by a claim always is.
    pub fn uses_claims(&self) -> bool {
        self.uses_claims
    }

    /// How often a folder that another process holds should be looked at again.
    pub fn patience(&self) -> Duration {
        if self.uses_claims { (self.limit / 24).max(Duration::from_millis(300)) } else { Duration::from_millis(300) }
    }

    /// Creates the folder if need be and takes its lease, or says who has it.
    pub fn take(&self, folder: &Path) -> Result<Taken, StoreError> {
        self.take_for(folder, folder)
    }

    /// The same, to write anything below `root`.
    fn take_for(&self, folder: &Path, root: &Path) -> Result<Taken, StoreError> {
        files::create_folder(folder)?;
        if !self.uses_claims && !was_claimed(folder) {
            let locked = self.lock(folder, root).map_err(|error| StoreError::io("lock", &lock_path(folder), error))?;
            if let Some(taken) = locked {
                return Ok(taken);
            }
        }
        self.claim(folder, root).map_err(|error| StoreError::io("claim", folder, error))
    }

    /// Takes the lock of a folder; none if the folder is used with claims.
    fn lock(&self, folder: &Path, root: &Path) -> io::Result<Option<Taken>> {
        let mut file = disk::open_lock(&lock_path(folder))?;
        match file.try_lock() {
            Ok(()) => {
                let holder = Holder::new(self.process.clone());
                let text = serde_json::to_string(&holder).expect("plain fields can be written");
                file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(text.as_bytes()))?;
                let lease = Lease::new(folder, root, None, Some(file), None);
                // A process that uses claims says so before it looks for this one's name. The listing shows it.
                look_around(folder)?;
                if was_claimed(folder) {
                    return Ok(None);
                }
                Ok(Some(Taken::Lease(lease)))
            }
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                file.read_to_string(&mut text)?;
                Ok(Some(Taken::Held(serde_json::from_str(&text).ok())))
            }
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Claims a folder.
    fn claim(&self, folder: &Path, root: &Path) -> io::Result<Taken> {
        let claims = Claims::new(folder);
        claims.announce()?;
        let listing = claims.list()?;
        let locked_by = locked_by(folder)?;
        let (mut number, mut is_from_another) = (1, locked_by.is_some());
        if let Some(highest) = listing.highest() {
            let owner = claims.holder(highest)?;
            if !listing.is_done(highest) {
                let beat = claims.beat(highest)?;
                if !self.is_gone(folder, owner.as_ref().map(|owner| &owner.process), highest, beat.as_ref()) {
                    return Ok(Taken::Held(owner));
                }
            }
            is_from_another |= owner.is_none_or(|owner| owner.process != self.process);
            number = highest + 1;
        } else if let Some((holder, text)) = &locked_by
            // Whoever made the first claim has seen to this, and may have died before it emptied the lock.
            && !self.is_gone(folder, holder.as_ref().map(|holder| &holder.process), 0, Some(text))
        {
            return Ok(Taken::Held(holder.clone()));
        }
        if !claims.make(number, &Claim::new(self.process.clone()))? {
            let owner = claims.list()?.highest().map(|highest| claims.holder(highest)).transpose()?.flatten();
            return Ok(Taken::Held(owner));
        }
        self.seen().remove(folder);
        let beats = self.has_threads.then(|| beat_now_and_then(folder.to_owned(), number, self.limit / BEATS));
        let lease = Lease::new(folder, root, Some(number), None, beats);
        if is_from_another {
            std::thread::sleep(self.cache_time);
        }
        if locked_by.is_some() {
            disk::open_lock(&lock_path(folder))?.set_len(0)?;
        }
        look_around(folder)?;
        files::remove_parts(&folder.join("claims"));
        Ok(Taken::Lease(lease))
    }

    /// Whether an owner has died: its process is known to, or its beat has been the same for too long since this process first
    /// saw it.
    fn is_gone(&self, folder: &Path, owner: Option<&Process>, number: u64, beat: Option<&Vec<u8>>) -> bool {
        if owner.and_then(Process::is_alive) == Some(false) {
            return true;
        }
        let now = (self.clock)();
        let mut seen = self.seen();
        match seen.get(folder) {
            Some(known) if known.number == number && known.beat.as_ref() == beat => now - known.since >= self.limit,
            _ => {
                seen.insert(folder.to_owned(), Seen { number, beat: beat.cloned(), since: now });
                false
            }
        }
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, HashMap<PathBuf, Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the lease of a folder, to write anything below `root`. `is_patient` is told who has it every now and then, and
    /// says whether to keep waiting; without patience there is no lease.
    pub(crate) fn wait(
        &self,
        folder: &Path,
        root: &Path,
        is_patient: &mut dyn FnMut(Option<&Holder>) -> bool,
    ) -> Result<Option<Lease>, StoreError> {
        loop {
            match self.take_for(folder, root)? {
                Taken::Lease(lease) => return Ok(Some(lease)),
                Taken::Held(holder) if !is_patient(holder.as_ref()) => return Ok(None),
                // The description of a run is held for a moment only.
                Taken::Held(_) => std::thread::sleep(Duration::from_millis(if self.uses_claims { 500 } else { 50 })),
            }
        }
    }
}

/// How long the beat of an owner may stay the same.
fn limit() -> Duration {
    let seconds = std::env::var(LIMIT_VARIABLE).ok().and_then(|value| value.parse::<f64>().ok());
    let seconds = seconds.filter(|seconds| (0.1..1e6).contains(seconds));
    seconds.map_or(LIMIT, Duration::from_secs_f64)
}

/// Whether a folder is used with claims from now on: it was claimed before, or one that it is in, up to the `trials` of its run.
/// That is the folder that every process takes first, so all processes use all trials of a run, and all surfaces of a trial, in
/// the same way.
fn was_claimed(folder: &Path) -> bool {
    // In the folder itself, its path may be `.`.
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    // A surface is `trials/ID/surfaces/NAME`.
    let above = folder.ancestors().take(4).position(|above| above.ends_with("trials")).unwrap_or(0);
    folder.ancestors().take(above + 1).any(|folder| Claims::new(folder).exist())
}

fn lock_path(folder: &Path) -> PathBuf {
    folder.join("lock")
}

/// What a process does first with a folder that it has taken: it lists it, and removes what dead processes left half written.
///
/// The listing is needed on NFS. A name that was looked up in vain, such as `epochs.csv` before the trial began, stays invisible
/// to this machine for up to 30 s after another one made it, unless the folder is listed.
fn look_around(folder: &Path) -> io::Result<()> {
    disk::list(folder)?;
    for folder in [folder, &folder.join("snapshots")] {
        files::remove_parts(folder);
    }
    Ok(())
}

/// The process that holds the lock of a folder or died with it, and its text. A lock that was given up has no text.
fn locked_by(folder: &Path) -> io::Result<Option<(Option<Holder>, Vec<u8>)>> {
    let text = disk::read(&lock_path(folder), MAX_TEXT)?.filter(|text| !text.is_empty());
    Ok(text.map(|text| (serde_json::from_slice(&text).ok(), text)))
}

/// Refuses to go on if another process has the folder of a fence now.
fn check(fence: &Fence) -> io::Result<()> {
    let claims = Claims::new(&fence.folder);
    // Whoever makes the first claim takes the folder from those that only lock it.
    if fence.claim.is_none() && !claims.exist() {
        return Ok(());
    }
    let highest = claims.list()?.highest();
    if highest == fence.claim && highest.is_some() {
        return Ok(());
    }
    if fence.claim.is_some() && highest.is_none() {
        return Err(io::Error::other("its claims were removed while this process worked on the folder"));
    }
    let holder = claims.holder(highest.unwrap_or(0)).ok().flatten();
    Err(io::Error::other(Lost { folder: fence.folder.clone(), holder }))
}

/// A thread that renews the beat of a claim until the sender is dropped.
fn beat_now_and_then(folder: PathBuf, number: u64, interval: Duration) -> Sender<()> {
    let (sender, ended) = channel();
    let beat = move || {
        let (claims, mut count, mut pause) = (Claims::new(&folder), 0, interval);
        while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            count += 1;
            pause = match claims.write_beat(number, count) {
                Ok(()) => interval,
                // Given up, or lost: this process finds out before it writes anything.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return,
                // Passing errors are usual on network file systems.
                Err(_) => interval / 4,
            };
        }
    };
    // Without a thread the claim is lost after a while, and nothing worse happens.
    let _ = std::thread::Builder::new().name("beat".to_owned()).spawn(beat);
    sender
}

impl Lease {
    fn new(folder: &Path, root: &Path, claim: Option<u64>, lock: Option<File>, beats: Option<Sender<()>>) -> Self {
        let work_folder = claim.map(|number| Claims::new(folder).work(number));
        let fence = Arc::new(Fence { folder: folder.to_owned(), root: root.to_owned(), claim, work_folder, check });
        fence::raise(&fence);
        Lease { fence, lock, beats }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.fence.folder
    }

    /// Whether it is a claim, under which every file is written as a whole.
    pub fn is_claim(&self) -> bool {
        self.fence.claim.is_some()
    }

    /// Makes sure that this is still the lease of the folder. If somebody removed the folder, another process may have made
    /// it anew and hold a lease of its own.
    pub fn confirm(&self) -> Result<(), StoreError> {
        let path = lock_path(self.folder());
        #[cfg(unix)]
        if let Some(file) = &self.lock {
            use std::os::unix::fs::MetadataExt;
            let identity = |found: std::fs::Metadata| (found.dev(), found.ino());
            let mine = file.metadata().map(identity).ok();
            if mine.is_none() || std::fs::symlink_metadata(&path).map(identity).ok() != mine {
                let gone = "it was removed while this process worked on its folder, so another one may have it now";
                return Err(StoreError::io("keep", &path, io::Error::other(gone)));
            }
        }
        check(&self.fence).map_err(|error| StoreError::io("keep", &path, error))
    }
}

/// Who holds the lease of a folder, if anybody does. A process that wants to take it at this very moment tries again.
pub(crate) fn holder(folder: &Path) -> Option<Option<Holder>> {
    lock_holder(folder).or_else(|| claim_holder(folder))
}

fn lock_holder(folder: &Path) -> Option<Option<Holder>> {
    let mut file = file::open(&lock_path(folder), File::options().read(true), Links::Refused).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            file.read_to_string(&mut text).ok()?;
            Some(serde_json::from_str(&text).ok())
        }
        _ => None,
    }
}

/// The owner by claim. A reader that looks once cannot wait for the next beat: it compares the time of the last one with its own
/// clock, generously. Nothing but what is shown depends on it.
fn claim_holder(folder: &Path) -> Option<Option<Holder>> {
    let claims = Claims::new(folder);
    let listing = claims.list().ok()?;
    let highest = listing.highest().filter(|highest| !listing.is_done(*highest))?;
    let owner = claims.holder(highest).ok().flatten();
    let is_alive = owner.as_ref().and_then(|owner| owner.process.is_alive());
    let is_held = is_alive.unwrap_or_else(|| claims.age(highest).is_some_and(|age| age < 2 * limit()));
    is_held.then_some(owner)
}

impl Drop for Lease {
    fn drop(&mut self) {
        fence::lower(&self.fence);
        // A lock that was given up names nobody. Closing the file would unlock it; saying so does not hurt.
        let _ = self.lock.as_ref().map(|file| file.set_len(0).and_then(|()| file.unlock()));
        let _ = self.fence.claim.map(|number| Claims::new(self.folder()).release(number));
    }
}
