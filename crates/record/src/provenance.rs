//! Where the numbers of a recorded run come from.

use std::path::Path;

use semfocus_analysis::evidence::{Evidence, GOAL};
use semfocus_core::Goal;
use semfocus_store::{Session, TrialData};
use serde::{Deserialize, Serialize};

use crate::RecordError;

/// Options of `semfocus run` that do not change results, and whether they have a value.
const INDIFFERENT: [(&str, bool); 11] = [
    ("-o", true),
    ("--output", true),
    ("-j", true),
    ("--jobs", true),
    ("-y", false),
    ("--yes", false),
    ("-q", false),
    ("--quiet", false),
    ("--json", false),
    ("--resume", false),
    ("--device", true),
];

/// How a recorded run came about: `provenance.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// The command that makes the run again, without the folder; none if it was made by another one, such as `semfocus study`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The target that epochs are counted to, such as `train_accuracy >= 0.4`, if it is not the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Versions of semfocus, with the commits they were built from.
    pub versions: Vec<String>,
    /// Models of the processors.
    pub processors: Vec<String>,
    /// Day of the first session.
    pub began: String,
    /// Day of the last session.
    pub last: String,
    /// Trials that the run plans, and those that are over.
    pub planned: usize,
    /// Trials that finished, stopped at their target or diverged.
    pub finished: usize,
    /// Sum over trials of the wall-clock time of their epochs and probes, in hours. It is the time of cores only if nothing else ran.
    pub trial_hours: f64,
    /// Of the other files of the run, so that a changed digit is noticed even where no figure shows it.
    pub checksum: String,
}

impl Provenance {
    pub(crate) fn new(evidence: &Evidence) -> Self {
        let trials: Vec<&TrialData> = evidence.trials().map(|observed| &observed.trial).collect();
        let environments = trials.iter().filter_map(|trial| trial.environment.as_ref());
        let sessions: Vec<&Session> =
            environments.flat_map(|found| found.earlier.iter().chain([&found.last])).collect();
        let day = |session: &&Session| session.started.chars().take(10).collect::<String>();
        let seconds = |trial: &&TrialData| {
            let epochs: f64 = trial.curve_from_start().filter_map(|point| point.seconds).sum();
            epochs + trial.probes.iter().filter_map(|probe| probe.seconds).sum::<f64>()
        };
        let version = |session: &&Session| match &session.commit {
            Some(commit) => {
                // Such as `278b66272dd6+changes`.
                let (hash, changes) =
                    commit.split_once('+').map_or((commit.as_str(), ""), |(hash, _)| (hash, "+changes"));
                format!("{} ({}{changes})", session.version, hash.chars().take(9).collect::<String>())
            }
            None => session.version.clone(),
        };
        Provenance {
            command: command(&sessions),
            target: (evidence.goal != GOAL).then(|| evidence.goal.to_string()),
            versions: distinct(sessions.iter().map(version)),
            processors: distinct(sessions.iter().map(|session| session.cpu.clone())),
            began: sessions.iter().map(day).min().unwrap_or_default(),
            last: sessions.iter().map(day).max().unwrap_or_default(),
            planned: trials.len(),
            finished: trials.iter().filter(|trial| trial.state.is_over()).count(),
            checksum: String::new(),
            trial_hours: (trials.iter().map(seconds).sum::<f64>() / 36.0).round() / 100.0,
        }
    }

    /// The target that epochs are counted to.
    pub(crate) fn goal(&self) -> Result<Goal, String> {
        self.target.as_deref().map_or(Ok(GOAL), str::parse)
    }

    pub(crate) fn read(path: &Path) -> Result<Self, RecordError> {
        let text = std::fs::read_to_string(path).map_err(|error| RecordError::io(path, &error))?;
        toml::from_str(&text).map_err(|error| RecordError::wrong(path, error.to_string()))
    }

    pub(crate) fn to_toml(&self) -> String {
        toml::to_string(self).expect("plain fields can be written")
    }
}

fn distinct(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut found: Vec<String> = texts.collect();
    found.sort();
    found.dedup();
    found
}

/// The latest command that names an experiment rather than a folder, without options that do not change results.
fn command(sessions: &[&Session]) -> Option<String> {
    let commands = sessions.iter().filter_map(|session| {
        let mut arguments = session.command.iter().skip_while(|argument| *argument != "run").skip(1);
        let mut kept: Vec<&str> = Vec::new();
        while let Some(argument) = arguments.next() {
            match INDIFFERENT.iter().find(|(name, _)| argument == name) {
                Some((_, true)) => drop(arguments.next()),
                Some(_) => {}
                None if INDIFFERENT.iter().any(|(name, _)| argument.starts_with(&format!("{name}="))) => {}
                None => kept.push(argument),
            }
        }
        // Paths are of the machine that the run was made on.
        (!kept.is_empty() && !kept.iter().any(|word| word.contains('/'))).then_some((&session.started, kept))
    });
    let (_, words) = commands.max_by_key(|(started, _)| *started)?;
    Some(format!("semfocus run {}", shlex::try_join(words).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_lose_folders_and_keep_what_changes_results() {
        let session = |words: &str| {
            let mut session = Session::here(
                semfocus_store::Program {
                    version: "1".to_owned(),
                    commit: None,
                    instruction_set: String::new(),
                    device: "cpu".to_owned(),
                    own: None,
                },
                1,
                1,
            );
            session.command = words.split(' ').map(str::to_owned).collect();
            session
        };
        let sessions = [
            session("/bin/semfocus run /scratch/runs/even-pairs-quick"),
            session("/bin/semfocus run even-pairs -o /scratch/x --scale full -q --seeds 3 -j 2 --yes"),
        ];
        let found = command(&sessions.iter().collect::<Vec<_>>());
        assert_eq!(found.as_deref(), Some("semfocus run even-pairs --scale full --seeds 3"));
        assert_eq!(command(&[&sessions[0]]), None);
    }
}
