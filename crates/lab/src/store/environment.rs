//! `env.json`: with what, where and how a trial was run.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// One stay of a trial in a process.
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
}

/// The contents of `env.json`: the last stay, and those before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The last one.
    #[serde(flatten)]
    pub last: Session,
    /// Those before it, the first one first.
    #[serde(default)]
    pub earlier: Vec<Session>,
}

impl Session {
    /// This process.
    pub fn here(version: &str, commit: Option<&str>, threads: usize, jobs: usize) -> Self {
        Session {
            version: version.to_owned(),
            commit: commit.map(str::to_owned),
            cpu: cpu(),
            instruction_set: format!("{:?}", semfocus_kernels::InstructionSet::current()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            threads,
            jobs,
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            host: host(),
            pid: std::process::id(),
            command: std::env::args().collect(),
            started: utc_now(),
            from_epoch: 0,
        }
    }
}

fn cpu() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name.trim()));
    model.map_or_else(|| std::env::consts::ARCH.to_owned(), str::to_owned)
}

/// The name of this machine.
pub(super) fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = name.or_else(|| std::env::var("HOSTNAME").ok()).or_else(|| std::env::var("COMPUTERNAME").ok());
    name.map_or_else(|| "unknown".to_owned(), |name| name.trim().to_owned())
}

/// The time in UTC, such as 2026-11-15T22:14:18Z.
pub fn utc_now() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    utc(seconds)
}

fn utc(seconds: u64) -> String {
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March here, so that the leap day is the last one; eras of 400 years have 146,097 days.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = era * 400 + year + next_year;
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day_of_month:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right() {
        // From `date -u -d @N +%FT%TZ`.
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (1_735_689_600, "2025-01-01T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(seconds), text);
        }
    }
}
