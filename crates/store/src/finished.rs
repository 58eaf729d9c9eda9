//! `trials/finished.jsonl`: which trials ended, in the order in which they did.
//!
//! The list saves looking into every folder. It is not the truth: the files of a trial are. Processes on several machines
//! append to it without a lease of their own, so a line may be lost, cut or doubled. Readers skip lines that make no sense, and
//! everything works without the list.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use semfocus_core::TrialId;
use serde::{Deserialize, Serialize};

use crate::check::Checked;
use crate::cursor::Cursor;
use crate::{State, Status, Store, StoreError, disk};

/// A trial that ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finished {
    /// The trial.
    pub trial: TrialId,
    /// How it ended.
    pub state: State,
    /// Epochs that were complete then.
    pub epoch: usize,
    /// When it ended.
    pub time: String,
}

/// Path of the list in a folder of trials.
fn path(trials: &Path) -> PathBuf {
    trials.join("finished.jsonl")
}

/// Adds a trial that ended to the list of its run. If that fails, the trial is found by its own files.
pub(crate) fn append(folder: &Path, trial: TrialId, status: &Status) {
    let finished = Finished { trial, state: status.state, epoch: status.epoch, time: status.updated.clone() };
    let text = serde_json::to_string(&Checked::new("", finished)).expect("plain fields can be written") + "\n";
    let path = path(folder.parent().unwrap_or(Path::new("..")));
    // Half a line of a process that died would spoil this one, too.
    let is_whole = matches!(disk::last_byte(&path), Ok(None | Some((b'\n', _))));
    let _ = disk::append(&path, format!("{}{text}", if is_whole { "" } else { "\n" }).as_bytes());
}

impl Store {
    /// What the list says of each trial, or nothing if it cannot be read.
    pub fn finished(&self) -> HashMap<TrialId, Finished> {
        let all = self.finished_from(&mut Cursor::default()).unwrap_or_default();
        all.into_iter().map(|finished| (finished.trial, finished)).collect()
    }

    /// The trials that were added to the list after the cursor. Lines that make no sense are left out.
    pub fn finished_from(&self, cursor: &mut Cursor) -> Result<Vec<Finished>, StoreError> {
        let lines = match cursor.read(&path(&self.dir.join("trials"))) {
            Err(StoreError::Damaged { .. }) => return Ok(Vec::new()),
            lines => lines?,
        };
        let finished = |line: &str| serde_json::from_str::<Checked<Finished>>(line).ok()?.verified("");
        Ok(lines.iter().filter_map(|(_, _, line)| finished(line)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_tools::{Scratch, status};

    #[test]
    fn lines_that_make_no_sense_are_left_out_and_spoil_no_other() {
        let scratch = Scratch::new("finished");
        let store = Store::at(scratch.path());
        let trials = scratch.path().join("trials");
        std::fs::create_dir(&trials).unwrap();
        let mut cursor = Cursor::default();
        assert_eq!(store.finished_from(&mut cursor).unwrap(), []);
        let end = |id: &str, epoch: usize| {
            append(&trials.join(id), id.parse().unwrap(), &status(State::Finished, epoch));
        };
        let found = |cursor: &mut Cursor| {
            let finished = store.finished_from(cursor).unwrap();
            finished.into_iter().map(|finished| (finished.trial.to_string(), finished.epoch)).collect::<Vec<_>>()
        };
        let ids = ["00000000000000a1", "00000000000000a2", "00000000000000a3"];
        end(ids[0], 3);
        assert_eq!(found(&mut cursor), [(ids[0].to_owned(), 3)]);
        // A process dies while it writes its line.
        let text = std::fs::read_to_string(path(&trials)).unwrap();
        std::fs::write(path(&trials), format!("{text}{}", &text[..20])).unwrap();
        end(ids[1], 4);
        assert_eq!(found(&mut cursor), [(ids[1].to_owned(), 4)]);
        let text = std::fs::read_to_string(path(&trials)).unwrap();
        std::fs::write(path(&trials), text.replacen("\"epoch\":3", "\"epoch\":9", 1)).unwrap();
        assert_eq!(found(&mut Cursor::default()), [(ids[1].to_owned(), 4)]);
        // One that begins anew, is not text, or is gone is read as far as it makes sense.
        std::fs::remove_file(path(&trials)).unwrap();
        assert_eq!(found(&mut cursor), []);
        end(ids[2], 1);
        assert_eq!(found(&mut cursor), [(ids[2].to_owned(), 1)]);
        std::fs::write(path(&trials), [0xff, b'\n']).unwrap();
        assert_eq!(found(&mut Cursor::default()), []);
    }
}
