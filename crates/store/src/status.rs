//! `status.json`: how far a trial is. What the record of epochs says counts more: see [`TrialReader::state`].
//!
//! [`TrialReader::state`]: crate::TrialReader::state

use std::path::Path;

use semfocus_core::question::Questions;
use semfocus_core::{DataFacts, Evaluation};
use serde::{Deserialize, Serialize};

use crate::check::Checked;
use crate::{StoreError, files};

/// How a trial stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Not begun.
    #[default]
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
    /// Its files cannot be read, or are damaged: it has no results until `semfocus run` has repaired it. Never written.
    Unreadable,
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
            State::Unreadable => "unreadable",
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

/// How much a split asks. Answers within a sequence depend on each other, so the unit of statistics is the sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Sequences of the split.
    pub sequences: usize,
    /// Questions of all its sequences.
    pub answers: usize,
    /// Independent sequences that the answers are worth: the number of different sequences if all ask equally many questions.
    pub independent: usize,
    /// Different sequences, if they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distinct: Option<usize>,
}

impl Asked {
    /// How much a split asks that has this number of different sequences. A copy of a sequence says nothing new.
    pub fn new(questions: &Questions, distinct: usize) -> Self {
        let asked = Asked::from(questions);
        Asked { independent: asked.independent.min(distinct), distinct: Some(distinct), ..asked }
    }
}

impl From<&Questions> for Asked {
    fn from(questions: &Questions) -> Self {
        let (sequences, answers) = (questions.sequences(), questions.all().len());
        Asked { sequences, answers, independent: questions.independent_sequences(), distinct: None }
    }
}

/// The contents of `status.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// How the trial stands. A file that says `running` is from a process that may have died: see
    /// [`TrialReader::state`](super::TrialReader::state).
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
    /// Lines of `probes.jsonl` that were complete when this was written.
    pub probes: usize,
    /// Lines of `slices.csv` that were complete when this was written.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub slices: usize,
    /// Floating-point operations of training for one epoch, evaluation left out.
    pub epoch_flops: Option<f64>,
    /// Share of the held-out examples that belong to the most frequent class: what a model reaches that always gives the same
    /// answer. None if the trial failed before its data were there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub majority: Option<f64>,
    /// How much the held-out split asks. None if the trial failed before its data were there, and in version 0.2.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_out: Option<Asked>,
    /// How much the test split asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_split: Option<Asked>,
    /// What is known of its data, by which losses are read. None if the trial failed before its data were there, and in version 0.2.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<DataFacts>,
    /// Loss and accuracy on the test split, once the trial is over and has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<TestResult>,
    /// When this was written.
    pub updated: String,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Status {
    /// How a trial stands whose record has a number of the planned epochs. The status alone is not believed: it
    /// may be from before the record was damaged, or from before the trial was made longer.
    pub(crate) fn state_with(status: Option<&Self>, recorded: usize, planned: usize) -> State {
        match status {
            Some(status) if status.state == State::Diverged && status.epoch == recorded => State::Diverged,
            Some(status) if status.state.is_over() && status.state != State::Diverged && recorded >= planned => {
                State::Finished
            }
            Some(status) if status.state == State::Stopped && status.epoch == recorded => State::Stopped,
            Some(status) if status.state == State::Failed => State::Failed,
            None if recorded == 0 => State::Waiting,
            _ => State::Interrupted,
        }
    }

    pub(crate) fn write(&self, path: &Path, owner: &str) -> Result<(), StoreError> {
        files::write_json(path, &Checked::new(owner, self))
    }

    pub(crate) fn read(path: &Path, owner: &str) -> Result<Option<Self>, StoreError> {
        let Some(read) = files::read_json::<Checked<Status>>(path)? else { return Ok(None) };
        let status = read.verified(owner).ok_or_else(|| StoreError::damaged(path, "its checksum is wrong"))?;
        let accuracies = status.test.iter().flat_map(|test| [test.last.accuracy, test.best.accuracy]);
        if accuracies.chain(status.best.map(|best| best.heldout_accuracy)).any(|x| !(0.0..=1.0).contains(&x)) {
            return Err(StoreError::damaged(path, "expected accuracies from 0 to 1"));
        }
        Ok(Some(status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_tools::Scratch;

    fn status(state: State, epoch: usize) -> Status {
        let evaluation = Evaluation { loss: 1.0 / 3.0, accuracy: 2.0 / 3.0 };
        Status {
            state,
            epoch,
            epochs: 7,
            best: Some(Best { epoch: 2, heldout_accuracy: 1.0 / 3.0 }),
            diverged_in: None,
            message: Some("why".to_owned()),
            probes: 0,
            slices: 12,
            epoch_flops: Some(1e9 / 3.0),
            majority: Some(2.0 / 7.0),
            held_out: Some(Asked { sequences: 20, answers: 60, independent: 17, distinct: Some(18) }),
            test_split: None,
            facts: Some(DataFacts::default()),
            test: Some(TestResult { last: evaluation, best: evaluation }),
            updated: "now".to_owned(),
        }
    }

    #[test]
    fn a_changed_status_is_found() {
        let scratch = Scratch::new("status");
        let path = scratch.path().join("status.json");
        let written = status(State::Finished, 7);
        written.write(&path, "a trial").unwrap();
        assert_eq!(Status::read(&path, "a trial").unwrap(), Some(written));
        assert!(Status::read(&path, "another trial").is_err());
        let text = std::fs::read_to_string(&path).unwrap();
        for (from, to) in [
            ("finished", "stopped"),
            ("\"epoch\": 7", "\"epoch\": 8"),
            ("0.6666", "0.7666"),
            ("\"check\"", "\"chebk\""),
        ] {
            std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
            assert!(Status::read(&path, "a trial").unwrap_err().to_string().contains("check"), "{from}");
        }
    }

    #[test]
    fn the_record_counts_more_than_the_status() {
        let state = |written, epoch, recorded| Status::state_with(Some(&status(written, epoch)), recorded, 7);
        assert_eq!(state(State::Finished, 7, 7), State::Finished);
        assert_eq!(state(State::Finished, 7, 2), State::Interrupted, "the record has lost epochs");
        assert_eq!(state(State::Finished, 5, 5), State::Interrupted, "it has been made longer");
        assert_eq!(state(State::Stopped, 5, 5), State::Stopped);
        assert_eq!(state(State::Stopped, 5, 4), State::Interrupted);
        assert_eq!(state(State::Stopped, 7, 7), State::Finished);
        assert_eq!(state(State::Diverged, 3, 3), State::Diverged);
        assert_eq!(state(State::Diverged, 3, 2), State::Interrupted);
        assert_eq!(state(State::Running, 7, 7), State::Interrupted, "it died before it said that it was over");
        assert_eq!(state(State::Failed, 0, 0), State::Failed);
        assert_eq!(Status::state_with(None, 0, 7), State::Waiting);
        assert_eq!(Status::state_with(None, 7, 7), State::Interrupted, "its result on the test split is missing");
    }
}
