//! What happens while jobs run. One type for the terminal, for `events.jsonl` in the folder that a job writes to, and for
//! whatever else follows a run.

use std::path::Path;

use semfocus_core::{EpochRecord, TrialId};
use serde::{Deserialize, Serialize};

use crate::cursor::Cursor;
use crate::environment::utc_now;
use crate::records::Log;
use crate::{State, StoreError};

/// The kinds of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobKind {
    /// Training of a trial.
    Train,
    /// A look at the attention of a model.
    Probe,
    /// Evaluation of a loss surface.
    Surface,
    /// Hessian eigenvalues of a model.
    Sharpness,
    /// Evaluating a model on other data.
    Evaluate,
}

/// What a job is known by.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JobId {
    /// Its kind.
    pub kind: JobKind,
    /// The trial it is about.
    pub trial: TrialId,
    /// What distinguishes it from others of the same kind and trial: an epoch, the name of a surface.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub part: String,
}

/// How a job ended in this process. What became of the trial is its [`State`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Nothing is left to do.
    Over(State),
    /// It was asked to stop and has saved its progress.
    Interrupted,
    /// An error ended it.
    Failed(String),
}

impl End {
    /// Why it failed, if it did.
    pub fn failure(&self) -> Option<&str> {
        match self {
            End::Failed(message) => Some(message),
            _ => None,
        }
    }
}

/// Something that happened in a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Work begins, or resumes after `done` of `total` units: steps of training, cells, products.
    JobStarted {
        /// Units that were done before.
        done: usize,
        /// Units that are planned.
        total: usize,
        /// Epochs that the model was trained for.
        epoch: usize,
    },
    /// So many units are done.
    Progress {
        /// Units that are done.
        done: usize,
        /// Units that are planned, which may turn out to be fewer than at the start.
        total: usize,
        /// Mean loss of the last steps, in training.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        loss: Option<f64>,
    },
    /// An epoch is complete and on the disk.
    Epoch(EpochRecord),
    /// A probe is on the disk.
    Probe {
        /// Epochs that the model was trained for.
        epoch: usize,
        /// Seconds that the probe took.
        seconds: f64,
    },
    /// Something that a person should know.
    Warning {
        /// In words.
        text: String,
    },
    /// The job ended in this process.
    JobEnded {
        /// How.
        end: End,
    },
}

/// A line of `events.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoggedEvent {
    /// When it happened, in UTC.
    pub time: String,
    /// In which job.
    pub job: JobId,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// The file `events.jsonl` of a folder.
#[derive(Debug)]
pub struct EventLog(Log<LoggedEvent>);

impl EventLog {
    /// The log in a folder, whether it is there or not.
    pub fn new(folder: &Path) -> Self {
        let owner = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        EventLog(Log::new(folder.join("events.jsonl"), owner))
    }

    /// Adds an event that happens now.
    pub fn append(&self, job: &JobId, event: &Event) -> Result<(), StoreError> {
        self.0.append(&LoggedEvent { time: utc_now(), job: job.clone(), event: event.clone() })
    }

    /// The events after the cursor.
    pub fn read_from(&self, cursor: &mut Cursor) -> Result<Vec<LoggedEvent>, StoreError> {
        self.0.read_from(cursor)
    }
}
