//! Which process something belongs to, and whether that process is still there.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::LazyLock;

use semfocus_core::{Allocation, fnv_1a};
use serde::{Deserialize, Serialize};

use crate::environment::{host, utc_now};

/// A process, named so that no other one on any machine has the same name, not even after a restart of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    /// Number of the process.
    pub(crate) pid: u32,
    /// Name of its machine.
    pub(crate) host: String,
    /// What Linux calls this start of the machine.
    pub(crate) boot: String,
    /// The set of process numbers that `pid` belongs to; containers have their own.
    pub(crate) namespace: String,
    /// When the process started, in ticks since the start of the machine.
    pub(crate) started: u64,
}

impl Process {
    /// This process.
    pub(crate) fn here() -> &'static Self {
        static HERE: LazyLock<Process> = LazyLock::new(|| {
            let pid = std::process::id();
            let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
            let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
            Process {
                pid,
                host: host(),
                boot: boot.trim().to_owned(),
                namespace: namespace.display().to_string(),
                started: match Life::of(pid) {
                    Life::Since(started) => started,
                    Life::Over | Life::Unknown => 0,
                },
            }
        });
        &HERE
    }

    /// Whether the process lives, if this one can tell: only from the same start of the same machine, with the same process
    /// numbers, and if the system does not hide the processes of other users.
    pub(crate) fn is_alive(&self) -> Option<bool> {
        let here = Process::here();
        if self.host != here.host || !cfg!(target_os = "linux") {
            return None;
        }
        // Another start may be that of another machine with the same name.
        if (&self.boot, &self.namespace) != (&here.boot, &here.namespace) {
            return None;
        }
        Life::of(self.pid).is_since(self.started)
    }

    /// The machine, its start and its set of process numbers, as a short name without dots.
    fn machine(&self) -> String {
        let hash = fnv_1a(format!("{} {}", self.boot, self.namespace).bytes()) as u32;
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        format!("{}-{hash:08x}", self.host.chars().map(plain).take(40).collect::<String>())
    }

    /// A short name for files, without dots.
    pub(crate) fn short_name(&self) -> String {
        format!("{}_{}_{}", self.machine(), self.pid, self.started)
    }

    /// Whether an unfinished file, by its name, belongs to a process that is known to have died.
    pub(crate) fn has_left(file: &str) -> bool {
        let mut fields = file.rsplit('.').nth(2).unwrap_or_default().splitn(3, '_');
        let mut field = || fields.next().unwrap_or_default();
        match (field(), field().parse(), field().parse()) {
            (machine, Ok(pid), Ok(start)) => {
                machine == Process::here().machine() && Life::of(pid).is_since(start) == Some(false)
            }
            _ => false,
        }
    }
}

/// The process that holds a folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    #[serde(flatten)]
    pub(crate) process: Process,
    /// When it took the folder.
    pub since: String,
    /// The Slurm job that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurm_job: Option<String>,
}

impl Holder {
    /// A process that takes a folder now.
    pub(crate) fn new(process: Process) -> Self {
        Holder { process, since: utc_now(), slurm_job: Allocation::here().job.clone() }
    }

    /// Number of the process.
    pub fn pid(&self) -> u32 {
        self.process.pid
    }

    /// The machine it runs on.
    pub fn host(&self) -> &str {
        &self.process.host
    }

    /// Process and machine, in words.
    pub fn place(&self) -> String {
        let job = self.slurm_job.as_ref().map_or(String::new(), |job| format!(" (Slurm job {job})"));
        format!("process {} on {}{job}", self.pid(), self.host())
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} since {}", self.place(), self.since)
    }
}

/// What is known about a process number of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// A process has it that started at this time.
    Since(u64),
    /// No process has it any more.
    Over,
    /// A process may have it that the system does not show.
    Unknown,
}

impl Life {
    fn of(pid: u32) -> Self {
        Life::told(pid, std::fs::read_to_string(format!("/proc/{pid}/stat")).ok().as_deref())
    }

    /// By what the system shows of it. On many clusters that is nothing for processes of other users (`hidepid`); whether there is
    /// a process at all can be asked anyway.
    fn told(pid: u32, stat: Option<&str>) -> Self {
        // The name of the program, in parentheses, may contain anything.
        let fields = stat.and_then(|stat| stat.rsplit_once(')')).map(|(_, fields)| fields.split_whitespace());
        let Some(mut fields) = fields else { return if exists(pid) { Life::Unknown } else { Life::Over } };
        // A process that has ended and that its parent has not asked about yet does nothing any more.
        match fields.next() {
            Some("Z" | "X") => Life::Over,
            _ => fields.nth(18).and_then(|ticks| ticks.parse().ok()).map_or(Life::Unknown, Life::Since),
        }
    }

    /// Whether it is that of a process that started at a time, if that can be told.
    fn is_since(self, start: u64) -> Option<bool> {
        match self {
            Life::Since(started) => Some(start == started),
            Life::Over => Some(false),
            Life::Unknown => None,
        }
    }
}

/// Whether there is a process with this number, or may be.
#[cfg(target_os = "linux")]
fn exists(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

#[cfg(not(target_os = "linux"))]
fn exists(_pid: u32) -> bool {
    true
}

/// A number that no other process draws at the same time.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn only_processes_of_this_start_of_this_machine_can_be_judged() {
        let here = Process::here().clone();
        assert_eq!(here.is_alive(), Some(true));
        assert_eq!(
            Process { started: here.started + 1, ..here.clone() }.is_alive(),
            Some(false),
            "its number is reused"
        );
        assert_eq!(Process { boot: "another".to_owned(), ..here.clone() }.is_alive(), None);
        assert_eq!(Process { host: "another".to_owned(), ..here.clone() }.is_alive(), None);
        assert_eq!(Process { namespace: "another".to_owned(), ..here.clone() }.is_alive(), None);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let Life::Since(started) = Life::of(child.id()) else { panic!("it lives") };
        let process = Process { pid: child.id(), started, ..here };
        assert_eq!(process.is_alive(), Some(true));
        child.kill().unwrap();
        while process.is_alive() == Some(true) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(Life::of(child.id()), Life::Over, "nobody has asked about it yet");
        child.wait().unwrap();
        assert_eq!(process.is_alive(), Some(false));
    }

    #[test]
    fn a_process_that_the_system_hides_is_not_taken_for_dead() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let life = |stat| Life::told(child.id(), stat);
        assert_eq!(life(None), Life::Unknown);
        assert_eq!(life(Some("nothing that is known")), Life::Unknown);
        assert_eq!(life(Some("7 (a) b) S 1 2 3")), Life::Unknown);
        assert_eq!(life(Some("7 (a) b) Z 1 2 3")), Life::Over);
        let pid = child.id();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(Life::told(pid, None), Life::Over);
        assert_eq!([0, u32::MAX].map(Life::of), [Life::Over; 2], "no process has such a number");
    }

    #[test]
    fn random_numbers_differ() {
        let numbers: std::collections::HashSet<u64> = (0..100).map(|_| random()).collect();
        assert_eq!(numbers.len(), 100);
    }
}
