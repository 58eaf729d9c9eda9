//! Which process something belongs to, and whether that process is still there.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::LazyLock;

use semfocus_core::fnv_1a;
use serde::{Deserialize, Serialize};

use crate::environment::host;

/// A process, named so that no other one on any machine has the same name, not even after a restart of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    /// Number of the process.
    pub(crate) pid: u32,
    /// Name of its machine.
    pub(crate) host: String,
    /// What Linux calls this start of the machine.
    #[serde(default)]
    pub(crate) boot: String,
    /// The set of process numbers that `pid` belongs to; containers have their own.
    #[serde(default)]
    pub(crate) namespace: String,
    /// When the process started, in ticks since the start of the machine.
    #[serde(default)]
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
                started: started(pid).unwrap_or(0),
            }
        });
        &HERE
    }

    /// Whether the process lives, if this one can tell: only from the same start of the same machine, and with the same process
    /// numbers.
    pub(crate) fn is_alive(&self) -> Option<bool> {
        let here = Process::here();
        if self.host != here.host || !cfg!(target_os = "linux") {
            return None;
        }
        // Earlier versions did not write where a process number comes from.
        if self.boot.is_empty() {
            return Some(started(self.pid).is_some());
        }
        // Another start may be that of another machine with the same name.
        let is_mine = (&self.boot, &self.namespace) == (&here.boot, &here.namespace);
        is_mine.then(|| started(self.pid) == Some(self.started))
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
        let mut parts = file.rsplit('.').skip(1);
        let (last, name) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let mut fields = name.splitn(3, '_');
        let mut field = || fields.next().unwrap_or_default();
        match (field(), field().parse(), field().parse()) {
            (machine, Ok(pid), Ok(start)) => machine == Process::here().machine() && started(pid) != Some(start),
            // Earlier versions wrote the number of the process alone.
            _ => cfg!(target_os = "linux") && last.parse().is_ok_and(|pid| started(pid).is_none()),
        }
    }
}

/// When a process of this machine started; none if there is no such process any more.
fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program, in parentheses, may contain anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    // A process that has ended and that its parent has not asked about yet does nothing any more.
    let state = fields.next()?;
    if state == "Z" || state == "X" { None } else { fields.nth(18)?.parse().ok() }
}

/// A number that no other process draws at the same time.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(all(test, target_os = "linux"))]
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
        let process = Process { pid: child.id(), started: started(child.id()).unwrap(), ..here };
        assert_eq!(process.is_alive(), Some(true));
        child.kill().unwrap();
        while process.is_alive() == Some(true) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(started(child.id()).is_none(), "nobody has asked about it yet");
        child.wait().unwrap();
        assert_eq!(process.is_alive(), Some(false));
    }

    #[test]
    fn random_numbers_differ() {
        let numbers: std::collections::HashSet<u64> = (0..100).map(|_| random()).collect();
        assert_eq!(numbers.len(), 100);
    }
}
