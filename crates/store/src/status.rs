//! `status.json`: how far a trial is.

use semfocus_core::Evaluation;
use serde::{Deserialize, Serialize};

/// How a trial stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Not begun.
    Waiting,
    /// A process works on it.
    Running,
    /// Begun and left; resumes when the same command is given again.
    Interrupted,
    /// All epochs done.
    Finished,
    /// Ended before its last epoch because its target was reached.
    Stopped,
    /// The loss became infinite or undefined: a result, not a failure of the program.
    Diverged,
    /// An error ended it; it is tried again when the same command is given again.
    Failed,
}

impl State {
    /// Whether nothing is left to do.
    pub fn is_over(self) -> bool {
        matches!(self, State::Finished | State::Stopped | State::Diverged)
    }

    /// How it is written.
    pub fn name(self) -> &'static str {
        match self {
            State::Waiting => "waiting",
            State::Running => "running",
            State::Interrupted => "interrupted",
            State::Finished => "finished",
            State::Stopped => "stopped",
            State::Diverged => "diverged",
            State::Failed => "failed",
        }
    }
}

/// The best epoch so far, by held-out accuracy; of equal ones the first.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Its number.
    pub epoch: usize,
    /// Its held-out accuracy.
    pub heldout_accuracy: f64,
}

/// What the models of a trial that is over show on the test split, which nothing is chosen by.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestResult {
    /// After the last epoch.
    pub last: Evaluation,
    /// After the best epoch by held-out accuracy.
    pub best: Evaluation,
}

/// The contents of `status.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// How the trial stands. A file that says `running` is from a process that may have died: see
    /// [`TrialFolder::state`](super::TrialFolder::state).
    pub state: State,
    /// Epochs that are complete.
    pub epoch: usize,
    /// Epochs that are planned.
    pub epochs: usize,
    /// The best epoch so far.
    pub best: Option<Best>,
    /// The epoch in which it diverged.
    pub diverged_in: Option<usize>,
    /// What ended it, if something did.
    pub message: Option<String>,
    /// Floating-point operations of training for one epoch, evaluation left out.
    #[serde(default)]
    pub epoch_flops: Option<f64>,
    /// Loss and accuracy on the test split, once the trial is over and has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<TestResult>,
    /// When this was written.
    pub updated: String,
}
