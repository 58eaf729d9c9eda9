//! What is kept of a submission: `DIR/slurm/<time>/submission.json`, beside the job scripts and the logs.

use std::path::{Path, PathBuf};

use semfocus_store::{files, utc_now};
use serde::{Deserialize, Serialize};

use crate::Error;

/// Jobs that were submitted together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Submission {
    /// Folder with the scripts and the logs.
    #[serde(skip)]
    pub(crate) folder: PathBuf,
    /// Number of the array of workers.
    pub(crate) job: String,
    /// Number of the job that writes the report, if it was submitted.
    pub(crate) report_job: Option<String>,
    /// Name of the cluster, if Slurm has several.
    pub(crate) cluster: Option<String>,
    /// Tasks of the array.
    pub(crate) tasks: u32,
    /// Tasks that run at once.
    pub(crate) workers: u16,
    /// Cores of a task.
    pub(crate) cpus: u16,
    /// Time limit of a task.
    pub(crate) time_seconds: u64,
    /// When they were submitted.
    pub(crate) submitted: String,
    /// The command that did it.
    pub(crate) command: Vec<String>,
}

/// The folder for all submissions of a run.
fn all(dir: &Path) -> PathBuf {
    dir.join("slurm")
}

/// The folder for a submission at this time.
pub(crate) fn new_folder(dir: &Path) -> PathBuf {
    let time = utc_now().replace(':', "-");
    let named = |suffix: String| all(dir).join(format!("{time}{suffix}"));
    let others = (2..).map(|number| named(format!("-{number}")));
    std::iter::once(named(String::new())).chain(others).find(|path| !path.exists()).expect("there are enough numbers")
}

impl Submission {
    /// The numbers of its jobs.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = &str> {
        [Some(self.job.as_str()), self.report_job.as_deref()].into_iter().flatten()
    }

    /// Writes it into its folder.
    pub(crate) fn write(&self) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        Ok(files::write_whole(&self.folder.join("submission.json"), text.as_bytes())?)
    }

    /// The submissions of a run, the oldest first.
    pub(crate) fn read_all(dir: &Path) -> Result<Vec<Self>, Error> {
        let Ok(entries) = std::fs::read_dir(all(dir)) else { return Ok(Vec::new()) };
        let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        folders.sort();
        let mut submissions = Vec::new();
        for folder in folders {
            let path = folder.join("submission.json");
            // Without it nothing was submitted.
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            let read: Submission =
                serde_json::from_str(&text).map_err(|error| format!("{} is damaged: {error}", path.display()))?;
            submissions.push(Submission { folder, ..read });
        }
        Ok(submissions)
    }

    /// The number of a job and the name of its cluster, from what `sbatch --parsable` prints: `12` or `12;cluster`.
    pub(crate) fn parse_number(text: &str) -> Option<(String, Option<String>)> {
        let line = text.lines().rfind(|line| !line.trim().is_empty())?.trim();
        let (number, cluster) = line.split_once(';').map_or((line, None), |(number, name)| (number, Some(name)));
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| (number.to_owned(), cluster.filter(|name| !name.is_empty()).map(str::to_owned)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_jobs_are_read() {
        let parse = Submission::parse_number;
        assert_eq!(parse("12\n"), Some(("12".to_owned(), None)));
        assert_eq!(parse("a greeting of the site\n12;big\n"), Some(("12".to_owned(), Some("big".to_owned()))));
        assert_eq!(parse("Submitted batch job\n"), None);
        assert_eq!(parse(""), None);
    }
}
