//! What is kept of a submission to Slurm: `DIR/slurm/<time>/submission.json`, next to the job scripts and the logs.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{Store, StoreError, files, utc_now};

/// Jobs that were submitted together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submission {
    /// Folder with the scripts and the logs.
    #[serde(skip)]
    pub folder: PathBuf,
    /// Number of the array of workers.
    pub job: String,
    /// Number of the job that writes the report, if it was submitted.
    pub report_job: Option<String>,
    /// Name of the cluster, if Slurm has several.
    pub cluster: Option<String>,
    /// Tasks of the array.
    pub tasks: u32,
    /// Tasks that run at once.
    pub workers: u16,
    /// Cores of a task.
    pub cpus: u16,
    /// Time limit of a task.
    pub time_seconds: u64,
    /// When they were submitted.
    pub submitted: String,
    /// The command that did it.
    pub command: Vec<String>,
}

impl Submission {
    /// The numbers of its jobs.
    pub fn jobs(&self) -> impl Iterator<Item = &str> {
        [Some(self.job.as_str()), self.report_job.as_deref()].into_iter().flatten()
    }

    /// Writes it into its folder.
    pub fn write(&self) -> Result<(), StoreError> {
        files::write_json(&self.folder.join("submission.json"), self)
    }
}

impl Store {
    /// The folder for a submission at this time, which is not there yet.
    pub fn new_submission_folder(&self) -> PathBuf {
        let time = utc_now().replace(':', "-");
        let named = |suffix: String| self.dir.join("slurm").join(format!("{time}{suffix}"));
        let others = (2..).map(|number| named(format!("-{number}")));
        std::iter::once(named(String::new())).chain(others).find(|path| !path.exists()).expect("some number is free")
    }

    /// The submissions of the run, the oldest first.
    pub fn submissions(&self) -> Result<Vec<Submission>, StoreError> {
        let all = self.dir.join("slurm");
        let mut submissions = Vec::new();
        for folder in self.names(&all)?.into_iter().map(|name| all.join(name)) {
            // Without the file nothing was submitted.
            let read: Option<Submission> = files::read_json(&folder.join("submission.json"))?;
            submissions.extend(read.map(|read| Submission { folder, ..read }));
        }
        Ok(submissions)
    }
}
