//! `env.json`: with what, where and how a trial was run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A program with mechanisms or tasks of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnProgram {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Commit it was built from, if its build says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

impl std::fmt::Display for OwnProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.name, self.version)?;
        self.commit.as_ref().map_or(Ok(()), |commit| write!(f, " ({commit})"))
    }
}

/// One session: a process that worked on a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Version of semfocus.
    pub version: String,
    /// Commit it was built from, with `+changes` if the sources had changed since; none if it was not built in a
    /// repository.
    pub commit: Option<String>,
    /// Model of the processor.
    pub cpu: String,
    /// Vector instructions in use.
    pub instruction_set: String,
    /// Cores of the machine.
    pub cores: usize,
    /// Threads that the run was given.
    pub threads: usize,
    /// Trials that the run trained side by side.
    pub jobs: usize,
    /// Device that the arithmetic ran on.
    pub device: String,
    /// Operating system and architecture.
    pub system: String,
    /// Name of the machine.
    pub host: String,
    /// Number of the process.
    pub pid: u32,
    /// The command line.
    pub command: Vec<String>,
    /// When it began.
    pub started: String,
    /// Epochs that were complete then.
    pub from_epoch: usize,
    /// The program, if it is not semfocus itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<OwnProgram>,
    /// The mechanisms and tasks of the trial that do not come with semfocus, each with what its code is known by: a version, or a
    /// hash of the program.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub own_code: BTreeMap<String, String>,
}

/// The contents of `env.json`: the last session, and those before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The last one.
    #[serde(flatten)]
    pub last: Session,
    /// Those before it, the first one first.
    pub earlier: Vec<Session>,
    /// Other code of the mechanisms and tasks of one's own that a person has accepted as giving the same results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepted_code: Vec<BTreeMap<String, String>>,
}

/// What only the program knows of a session; the rest is asked of the system.
#[derive(Clone, Debug)]
pub struct Program {
    /// Version of semfocus.
    pub version: String,
    /// Commit it was built from.
    pub commit: Option<String>,
    /// Vector instructions in use.
    pub instruction_set: String,
    /// Device that the arithmetic runs on.
    pub device: String,
    /// The program, if it is not semfocus itself.
    pub own: Option<OwnProgram>,
}

impl Session {
    /// This process.
    pub fn here(program: Program, threads: usize, jobs: usize) -> Self {
        let Program { version, commit, instruction_set, device, own } = program;
        Session {
            version,
            commit,
            cpu: processor(),
            instruction_set,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            threads,
            jobs,
            device,
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            host: host(),
            pid: std::process::id(),
            command: std::env::args().collect(),
            started: utc_now(),
            from_epoch: 0,
            program: own,
            own_code: BTreeMap::new(),
        }
    }
}

/// The model of the processor, as the system names it.
pub fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name.trim()));
    model.map_or_else(|| std::env::consts::ARCH.to_owned(), str::to_owned)
}

/// The name of this machine.
pub(crate) fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = name.or_else(|| std::env::var("HOSTNAME").ok()).or_else(|| std::env::var("COMPUTERNAME").ok());
    name.map_or_else(|| "unknown".to_owned(), |name| name.trim().to_owned())
}

/// The time in UTC to the second, such as 2026-11-15T22:14:18Z.
pub fn utc_now() -> String {
    format!("{:.0}", jiff::Timestamp::now())
}

#[cfg(test)]
mod tests {
    #[test]
    fn times_have_whole_seconds() {
        let text = super::utc_now();
        assert_eq!((text.len(), &text[10..11], &text[19..]), (20, "T", "Z"), "{text}");
        assert!(text.parse::<jiff::Timestamp>().is_ok());
    }
}
