//! Which kind of lease a command uses, and why.

use std::io;
use std::path::Path;
use std::time::Duration;

use semfocus_core::Allocation;

use super::Locks;
use crate::files::{self, Aside};
use crate::{StoreError, disk};

/// What a person asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LockChoice {
    /// Locks of the operating system on file systems of one machine, claims on others and inside of Slurm jobs.
    #[default]
    Auto,
    /// Locks of the operating system.
    Flock,
    /// Claims.
    Lease,
}

/// The kind of lease that is used.
pub struct Chosen {
    /// It.
    pub locks: Locks,
    /// Why, in one line, if a person should know: claims are used, or something is wrong.
    pub note: Option<String>,
}

impl Locks {
    /// Chooses for some folders, which are made if they are not there, and tries in them whether the choice works.
    pub fn choose(folders: &[&Path], choice: LockChoice) -> Result<Chosen, StoreError> {
        let mut chosen = Chosen { locks: Locks::flock(), note: None };
        for folder in folders {
            files::create_folder(folder)?;
            chosen = chosen.and(choose(folder, choice, Allocation::here().job.clone(), &trial(folder)?)?);
        }
        Ok(chosen)
    }
}

impl Chosen {
    /// The kind for the folders of both.
    fn and(self, other: Chosen) -> Self {
        let cache_time = self.locks.cache_time.max(other.locks.cache_time);
        let uses_claims = self.locks.uses_claims || other.locks.uses_claims;
        let note = if other.locks.uses_claims { other.note.or(self.note) } else { self.note.or(other.note) };
        Chosen { locks: Locks { cache_time, ..Locks::new(uses_claims) }, note }
    }
}

/// What was found out about a folder.
struct Trial {
    /// The file system, if several machines may share it.
    shared: Option<Shared>,
    /// Why `flock` does not work.
    flock: Option<io::Error>,
    /// Why claims do not work.
    claims: Option<io::Error>,
}

#[derive(Clone, Copy)]
struct Shared {
    name: &'static str,
    cache_time: Duration,
}

fn choose(folder: &Path, choice: LockChoice, slurm: Option<String>, trial: &Trial) -> Result<Chosen, StoreError> {
    let place = folder.display();
    let Trial { shared, flock, claims } = trial;
    let cache_time = shared.map_or(Duration::ZERO, |shared| shared.cache_time);
    // A run that was ever claimed is used with claims, whatever is chosen here.
    let chosen = |locks: Locks, note: Option<String>| Ok(Chosen { locks: Locks { cache_time, ..locks }, note });
    let wanted = match (choice, shared, slurm, flock) {
        (LockChoice::Lease, ..) => Some("--lock lease".to_owned()),
        (LockChoice::Flock, ..) => None,
        (_, Some(shared), ..) => Some(format!("the folder is on {}", shared.name)),
        (_, _, Some(job), _) => Some(format!("this is Slurm job {job}")),
        (_, _, _, Some(error)) => Some(format!("flock does not work there: {error}")),
        _ => None,
    };
    match (wanted, flock, claims) {
        (Some(reason), _, None) => chosen(Locks::lease(), Some(format!("{place} is shared by leases ({reason})"))),
        (None, None, _) => chosen(Locks::flock(), None),
        (Some(_), None, Some(error)) if choice == LockChoice::Auto => {
            let note = format!("{place} cannot be shared by leases ({error}); use it from one machine at a time");
            chosen(Locks::flock(), Some(note))
        }
        (Some(_), _, Some(error)) => Err(StoreError::NoLocks {
            path: folder.to_owned(),
            reason: format!("links or listings do not work there: {error}"),
            help: "choose a folder on another file system",
        }),
        (None, Some(error), _) => Err(StoreError::NoLocks {
            path: folder.to_owned(),
            reason: format!("flock does not work there: {error}"),
            help: "use --lock lease, which does not need it",
        }),
    }
}

/// Tries in a folder what locks and claims need: create, link, list, flock.
fn trial(folder: &Path) -> Result<Trial, StoreError> {
    let failed = |error| StoreError::io("write into", folder, error);
    let (one, other) = (Aside::beside(&folder.join("test")), Aside::beside(&folder.join("test")));
    let (one, other) = (one.map_err(failed)?, other.map_err(failed)?);
    disk::write(one.path(), b"").map_err(failed)?;
    let flock = match disk::open_lock(one.path()).map_err(failed)?.try_lock() {
        Err(std::fs::TryLockError::Error(error)) => Some(error),
        _ => None,
    };
    Ok(Trial { shared: file_system(folder), flock, claims: try_claims(folder, &one, &other).err() })
}

fn try_claims(folder: &Path, one: &Aside, other: &Aside) -> io::Result<()> {
    disk::link(one.path(), other.path())?;
    let names = disk::list(folder)?;
    if ![one, other].iter().all(|aside| names.iter().any(|name| Some(name.as_os_str()) == aside.path().file_name())) {
        return Err(io::Error::other("a file that was just made is not listed"));
    }
    match disk::link(one.path(), other.path()) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
        Ok(()) => Err(io::Error::other("a link replaced a file")),
    }
}

/// The file system of a folder, if several machines may share it.
#[cfg(target_os = "linux")]
fn file_system(folder: &Path) -> Option<Shared> {
    let found = rustix::fs::statfs(folder).ok()?;
    shared(found.f_type as u32)
}

#[cfg(not(target_os = "linux"))]
fn file_system(_folder: &Path) -> Option<Shared> {
    None
}

/// File systems that several machines may share, by the numbers that Linux gives them.
#[cfg(target_os = "linux")]
fn shared(number: u32) -> Option<Shared> {
    let name = match number {
        0x6969 => "NFS",
        0x0bd0_0bd0 => "Lustre",
        0x4750_4653 => "GPFS",
        0x1983_0326 => "BeeGFS",
        0x6573_5546 => "a FUSE file system",
        0xff53_4d42 | 0xfe53_4d42 | 0x517b => "a Windows share (SMB)",
        0x0102_1997 => "a 9p file system",
        0x00c3_6400 => "CephFS",
        0x5346_414f | 0x6b41_4653 => "AFS",
        0x0116_1970 => "GFS2",
        0x7461_636f => "OCFS2",
        0xaad7_aaea => "PanFS",
        _ => return None,
    };
    // By default, FUSE believes for a second what it knows of the size of a file. NFS asks whenever a file is opened.
    let cache_time = Duration::from_millis(if number == 0x6573_5546 { 1100 } else { 0 });
    Some(Shared { name, cache_time })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_tools::Scratch;

    fn found(shared: Option<&'static str>, flock: Option<i32>, claims: Option<i32>) -> Trial {
        let error = io::Error::from_raw_os_error;
        let shared = shared.map(|name| Shared { name, cache_time: Duration::ZERO });
        Trial { shared, flock: flock.map(error), claims: claims.map(error) }
    }

    fn decide(choice: LockChoice, slurm: bool, trial: &Trial) -> Result<(bool, String), String> {
        let slurm = slurm.then(|| "7_1".to_owned());
        let chosen = choose(Path::new("run"), choice, slurm, trial).map_err(|error| error.to_string())?;
        Ok((chosen.locks.uses_claims, chosen.note.unwrap_or_default()))
    }

    #[test]
    fn the_file_system_and_slurm_decide_unless_a_person_does() {
        use LockChoice::{Auto, Flock, Lease};
        let (local, nfs) = (found(None, None, None), found(Some("NFS"), None, None));
        let none = found(None, Some(libc::ENOSYS), None);
        let no_links = found(Some("FUSE"), None, Some(libc::EPERM));
        assert_eq!(decide(Auto, false, &local), Ok((false, String::new())), "nothing is said in the usual case");
        assert_eq!(decide(Auto, false, &nfs), Ok((true, "run is shared by leases (the folder is on NFS)".to_owned())));
        assert!(decide(Auto, true, &local).unwrap().1.contains("Slurm job 7_1"));
        assert_eq!(decide(Flock, true, &nfs), Ok((false, String::new())));
        assert!(decide(Lease, false, &local).unwrap().0);
        let (uses_claims, note) = decide(Auto, false, &none).unwrap();
        assert!(uses_claims && note.contains("flock does not work there"), "{note}");
        assert!(decide(Flock, false, &none).unwrap_err().contains("--lock lease"));
        let (uses_claims, note) = decide(Auto, false, &no_links).unwrap();
        assert!(!uses_claims && note.contains("one machine at a time"), "{note}");
        assert!(decide(Lease, false, &no_links).unwrap_err().contains("another file system"));
    }

    #[test]
    fn what_the_file_system_remembers_is_known_whatever_is_chosen() {
        let cache_time = Duration::from_millis(1100);
        let fuse = |claims: Option<i32>| Trial {
            shared: Some(Shared { name: "FUSE", cache_time }),
            ..found(None, None, claims)
        };
        let decided = |choice, trial: Trial| choose(Path::new("run"), choice, None, &trial).unwrap();
        let choices = [(LockChoice::Flock, None), (LockChoice::Lease, None), (LockChoice::Auto, Some(libc::EPERM))];
        for (choice, claims) in choices {
            assert_eq!(decided(choice, fuse(claims)).locks.cache_time, cache_time, "{choice:?}");
        }
        // Of several folders the longest time counts.
        let (nfs, fuse) = (found(Some("NFS"), None, None), fuse(Some(libc::EPERM)));
        let both = decided(LockChoice::Auto, nfs).and(decided(LockChoice::Auto, fuse));
        assert_eq!((both.locks.uses_claims, both.locks.cache_time), (true, cache_time));
        assert!(both.note.unwrap().contains("NFS"));
    }

    #[test]
    fn a_local_folder_passes_the_tests_and_nothing_is_left() {
        let scratch = Scratch::new("choice");
        let trial = trial(scratch.path()).unwrap();
        assert!(trial.flock.is_none() && trial.claims.is_none());
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
    }
}
