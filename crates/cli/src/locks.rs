//! How processes that share a folder are kept apart.

use std::path::Path;

use clap::{Args, ValueEnum};
use semfocus_store::{Chosen, LockChoice, Locks};

use crate::Error;
use crate::talk::say;

/// How folders are taken, on the command line.
#[derive(Debug, Args)]
pub(crate) struct LockArg {
    /// How processes that share the folder are kept apart
    ///
    /// A run that was used with leases once is always used with them.
    #[arg(long, value_enum, default_value_t = Lock::Auto)]
    lock: Lock,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Lock {
    /// Leases on file systems that several machines share and inside Slurm jobs, flock elsewhere
    Auto,
    /// Locks of the operating system: quick, but safe only if all processes run on one machine
    Flock,
    /// Numbered claims with a heartbeat, safe on every file system that has hard links
    Lease,
}

impl LockArg {
    /// The same choice as arguments of another command.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let name = match self.lock {
            Lock::Auto => return Vec::new(),
            Lock::Flock => "flock",
            Lock::Lease => "lease",
        };
        vec!["--lock".to_owned(), name.to_owned()]
    }

    /// The locks for commands that work on these folders. Says which kind is used if it is not the usual one.
    pub(crate) fn locks<'a>(&self, folders: impl IntoIterator<Item = &'a Path>) -> Result<Locks, Error> {
        let choice = match self.lock {
            Lock::Auto => LockChoice::Auto,
            Lock::Flock => LockChoice::Flock,
            Lock::Lease => LockChoice::Lease,
        };
        let Chosen { locks, note } = Locks::choose(&folders.into_iter().collect::<Vec<_>>(), choice)?;
        if let Some(note) = note {
            say!("note: {note}");
        }
        Ok(locks)
    }
}
