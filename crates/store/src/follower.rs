//! What changed in a run since the last look, without reading everything again.
//!
//! A look costs a few operations for the run, and a few for each trial that has begun and is not over. A trial that has not
//! begun is read when its folder appears, and one that is over when the list of finished trials names it anew.

use std::collections::{BTreeMap, BTreeSet};

use semfocus_core::{EpochRecord, Experiment, TrialId, fnv_1a};
use serde::{Deserialize, Serialize};

use crate::cursor::Cursor;
use crate::finished::Finished;
use crate::{Holder, IndexEntry, LoggedEvent, State, Status, Store, StoreError, StoredTrial, TrialReader, files};

/// Something that changed in a run.
#[derive(Debug)]
pub enum Change {
    /// The run has other trials than before, or is seen for the first time. What is known about its trials follows.
    Run {
        /// What it is about.
        experiment: Box<Experiment>,
        /// All its trials, in their order.
        index: Vec<IndexEntry>,
        /// What is wrong with the files that describe it.
        damage: Vec<StoreError>,
    },
    /// A trial is seen for the first time, or anew: this replaces everything that was known about it.
    Trial {
        /// What is on record.
        data: Box<StoredTrial>,
        /// The process that works on it.
        holder: Option<Holder>,
        /// What is wrong with its files.
        damage: Vec<StoreError>,
    },
    /// A trial that is worked on has made progress, or was taken up or left.
    Progress {
        /// The trial.
        trial: TrialId,
        /// How it stands.
        state: State,
        /// Its status as it was last written.
        status: Option<Box<Status>>,
        /// The process that works on it.
        holder: Option<Holder>,
        /// The epochs that were added. They replace those with the same numbers and all after them.
        epochs: Vec<EpochRecord>,
    },
    /// What happened in a trial that is worked on.
    Events {
        /// The trial.
        trial: TrialId,
        /// In their order.
        events: Vec<LoggedEvent>,
    },
}

/// How far a follower has read a run. It can be kept, and another process can continue from there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunCursor {
    /// Hash of the files that describe the run.
    description: u64,
    finished: Cursor,
    trials: BTreeMap<TrialId, TrialCursor>,
}

/// How far the files of a trial have been read that has a folder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct TrialCursor {
    is_begun: bool,
    is_over: bool,
    epochs: Cursor,
    events: Cursor,
    /// Hash of its status, its state and who works on it.
    standing: u64,
}

impl TrialCursor {
    /// Epochs that were read, without the header and the untrained model.
    fn recorded(&self) -> usize {
        self.epochs.lines().saturating_sub(2)
    }
}

/// Follows a run.
#[derive(Debug)]
pub struct Follower {
    store: Store,
    cursor: RunCursor,
    run: Option<(Experiment, Vec<IndexEntry>)>,
}

impl Follower {
    /// Follows a run from the beginning.
    pub fn new(store: Store) -> Self {
        Follower::resume(store, RunCursor::default())
    }

    /// Goes on from a cursor.
    pub fn resume(store: Store, cursor: RunCursor) -> Self {
        Follower { store, cursor, run: None }
    }

    /// How far it has read.
    pub fn cursor(&self) -> &RunCursor {
        &self.cursor
    }

    /// What changed since the last look; everything at the first.
    pub fn changes(&mut self) -> Result<Vec<Change>, StoreError> {
        // Nothing is taken for seen before all that can fail is done.
        let present: BTreeSet<TrialId> = self.store.folders()?.iter().map(TrialReader::id).collect();
        let mut changes = Vec::new();
        self.look_at_run(&mut changes)?;
        let (experiment, index) = self.run.take().expect("it was just read");
        let is_new = !changes.is_empty();
        for Finished { trial, epoch, state, .. } in
            self.store.finished_from(&mut self.cursor.finished).unwrap_or_default()
        {
            // One that is known to be over may have been repaired or made longer.
            let trials = &mut self.cursor.trials;
            if trials.get(&trial).is_some_and(|known| !known.is_over || !state.is_over() || known.recorded() != epoch) {
                trials.remove(&trial);
            }
        }
        for entry in &index {
            let (is_present, is_known) = (present.contains(&entry.id), self.cursor.trials.contains_key(&entry.id));
            let is_followed = match (is_present, is_known) {
                (true, true) => self.follow(entry, &mut changes),
                (false, false) => !is_new,
                // It has begun, or its folder was removed.
                _ => false,
            };
            if !is_present {
                self.cursor.trials.remove(&entry.id);
            }
            match is_followed {
                true => {}
                false if is_present => self.look_at(entry, &experiment, &mut changes),
                false => {
                    let mut damage = Vec::new();
                    let data = Box::new(self.store.read_trial(entry.clone(), &experiment, &mut damage));
                    changes.push(Change::Trial { data, holder: None, damage });
                }
            }
        }
        self.run = Some((experiment, index));
        Ok(changes)
    }

    /// Reads what the run is about, if that has changed.
    fn look_at_run(&mut self, changes: &mut Vec<Change>) -> Result<(), StoreError> {
        let mut bytes = Vec::new();
        for path in [self.store.experiment_path(), self.store.copy_path(), self.store.index_path()] {
            bytes.extend(files::read(&path)?.unwrap_or_default());
            bytes.push(0);
        }
        let description = fnv_1a(bytes);
        if description == self.cursor.description && self.run.is_some() {
            return Ok(());
        }
        let (experiment, index, damage) = self.store.describe()?;
        self.run = Some((experiment.clone(), index.clone()));
        if description != self.cursor.description {
            self.cursor.trials.clear();
            // If the list of trials is damaged, the folders tell which there are: they may be others the next time.
            self.cursor.description = if damage.is_empty() { description } else { 0 };
            changes.push(Change::Run { experiment: Box::new(experiment), index, damage });
        }
        Ok(())
    }

    /// Reads everything about a trial.
    fn look_at(&mut self, entry: &IndexEntry, experiment: &Experiment, changes: &mut Vec<Change>) {
        let (reader, mut damage) = (self.store.trial(entry.id), Vec::new());
        let mut cursor = TrialCursor { is_begun: reader.exists(), ..TrialCursor::default() };
        // The cursor comes first: epochs that are added meanwhile are then seen twice, and not missed.
        let _ = cursor.epochs.read(&reader.record_path());
        let data = Box::new(self.store.read_trial(entry.clone(), experiment, &mut damage));
        let state = data.state;
        let holder = if state.is_over() { None } else { reader.holder().flatten() };
        (cursor.is_over, cursor.standing) = (state.is_over(), standing(data.status.as_ref(), state, holder.as_ref()));
        changes.push(Change::Trial { data, holder, damage });
        if state == State::Running {
            changes.extend(new_events(&reader, &mut cursor));
        }
        self.cursor.trials.insert(entry.id, cursor);
    }

    /// Reads what was added to a trial. Says whether that is possible: otherwise everything has to be read.
    fn follow(&mut self, entry: &IndexEntry, changes: &mut Vec<Change>) -> bool {
        let reader = self.store.trial(entry.id);
        let Some(cursor) = self.cursor.trials.get_mut(&entry.id) else { return false };
        if cursor.is_over {
            return true;
        }
        let before = cursor.epochs;
        let (Ok(mut epochs), Ok(status)) = (reader.records_from(&mut cursor.epochs), reader.status()) else {
            return false;
        };
        let recorded = cursor.recorded();
        let is_cut =
            cursor.epochs.bytes() < before.bytes() || status.as_ref().is_some_and(|status| status.epoch > recorded);
        if is_cut || cursor.is_begun != reader.exists() {
            return false;
        }
        epochs.retain(|record| (1..=entry.epochs).contains(&record.epoch));
        let holder = reader.holder();
        let state = reader.state_with(status.as_ref(), recorded, entry.epochs, || holder.is_some());
        let holder = holder.flatten();
        let standing = standing(status.as_ref(), state, holder.as_ref());
        let has_changed = standing != cursor.standing || !epochs.is_empty();
        if has_changed {
            (cursor.standing, cursor.is_over) = (standing, state.is_over());
            changes.push(Change::Progress { trial: entry.id, state, status: status.map(Box::new), holder, epochs });
        }
        if has_changed || state == State::Running {
            changes.extend(new_events(&reader, cursor));
        }
        true
    }
}

/// A hash of how a trial stands, by which a change is noticed.
fn standing(status: Option<&Status>, state: State, holder: Option<&Holder>) -> u64 {
    let text = serde_json::to_string(&(status, state, holder)).expect("plain fields can be written");
    fnv_1a(text.bytes())
}

/// The events after the cursor. They are news, not results: those that cannot be read are not missed.
fn new_events(reader: &TrialReader, cursor: &mut TrialCursor) -> Option<Change> {
    let log = reader.events();
    let events = log.read_from(&mut cursor.events).or_else(|_| {
        // The file may be another one than before.
        cursor.events = Cursor::default();
        log.read_from(&mut cursor.events)
    });
    let events = events.ok().filter(|events| !events.is_empty())?;
    Some(Change::Events { trial: reader.id(), events })
}

#[cfg(test)]
mod tests {
    use semfocus_core::{AnyName, Metrics, Request, TrialSettings};

    use super::*;
    use crate::test_tools::{Scratch, lease, status};
    use crate::{Event, JobId, JobKind, Locks};

    fn record(epoch: usize) -> EpochRecord {
        EpochRecord { epoch, metrics: Metrics::new(|_| 0.5), seconds: 1.0, steps: 16 * epoch as u64 }
    }

    /// A run of two trials of three epochs that have not begun.
    fn run(scratch: &Scratch) -> (Store, Vec<(IndexEntry, TrialSettings)>) {
        let request = Request { experiment: "even-pairs".to_owned(), ..Request::default() };
        let experiment = Experiment::resolve(&request, &AnyName).unwrap();
        let trials = ["full", "topk:5"].map(|mechanism| {
            let mut settings = experiment.settings_at(&Vec::new(), mechanism, 1).unwrap();
            settings.training.epochs = 3;
            let (id, mechanism) = (TrialId::new(&settings), mechanism.to_owned());
            let task = settings.task.clone();
            (IndexEntry { id, epochs: 3, task, mechanism, seed: 1, point: Vec::new() }, settings)
        });
        let index: Vec<IndexEntry> = trials.iter().map(|(entry, _)| entry.clone()).collect();
        let created = Store::create(scratch.path(), &experiment, &index, &Locks::flock(), &mut |_| true).unwrap();
        (created.unwrap().store, trials.to_vec())
    }

    /// Changes in short: the trial by its place, and what is new.
    fn short(changes: &[Change], trials: &[(IndexEntry, TrialSettings)]) -> Vec<String> {
        let place = |id: TrialId| trials.iter().position(|(entry, _)| entry.id == id).unwrap();
        let text = |change: &Change| match change {
            Change::Run { index, .. } => format!("run {}", index.len()),
            Change::Trial { data, damage, .. } => {
                let damage = if damage.is_empty() { "" } else { " damaged" };
                format!("trial {} {} {}{damage}", place(data.entry.id), data.state.name(), data.records.len())
            }
            Change::Progress { trial, state, epochs, .. } => {
                let epochs: Vec<usize> = epochs.iter().map(|record| record.epoch).collect();
                format!("progress {} {} {epochs:?}", place(*trial), state.name())
            }
            Change::Events { trial, events } => format!("events {} {}", place(*trial), events.len()),
        };
        changes.iter().map(text).collect()
    }

    #[test]
    fn a_run_is_followed_from_its_start_to_its_end_and_from_a_kept_cursor() {
        let scratch = Scratch::new("follower");
        let (store, trials) = run(&scratch);
        let mut follower = Follower::new(store.clone());
        let mut look = |is_resumed: bool| {
            if is_resumed {
                let kept = serde_json::to_string(follower.cursor()).unwrap();
                follower = Follower::resume(store.clone(), serde_json::from_str(&kept).unwrap());
            }
            short(&follower.changes().unwrap(), &trials)
        };
        assert_eq!(look(false), ["run 2", "trial 0 waiting 0", "trial 1 waiting 0"]);
        assert_eq!((look(false), look(true)), (vec![], vec![]));
        let (entry, settings) = &trials[0];
        let reader = store.trial(entry.id);
        let held = lease(reader.path());
        let writer = reader.writer(&held);
        assert_eq!(look(false), ["trial 0 running 0"]);
        writer.write_settings(settings).unwrap();
        writer.write_status(&status(State::Running, 0)).unwrap();
        assert_eq!(look(true), ["trial 0 running 0"]);
        writer.append_records(&[record(0), record(1)]).unwrap();
        writer.write_status(&status(State::Running, 1)).unwrap();
        assert_eq!(look(false), ["progress 0 running [1]"]);
        let job = JobId { kind: JobKind::Train, trial: entry.id, part: String::new() };
        reader.events().append(&job, &Event::Progress { done: 5, total: 48, loss: None }).unwrap();
        // Half a line does not count, and the whole one does.
        let whole = std::fs::read_to_string(reader.record_path()).unwrap();
        writer.append_records(&[record(2)]).unwrap();
        let longer = std::fs::read_to_string(reader.record_path()).unwrap();
        std::fs::write(reader.record_path(), &longer[..whole.len() + 9]).unwrap();
        assert_eq!(look(true), ["events 0 1"]);
        std::fs::write(reader.record_path(), &longer).unwrap();
        assert_eq!(look(false), ["progress 0 running [2]"]);
        // It goes back by an epoch: everything is read again.
        writer.cut_records(1, false).unwrap();
        writer.write_status(&status(State::Running, 1)).unwrap();
        assert_eq!(look(true), ["trial 0 running 1", "events 0 1"]);
        writer.append_records(&[record(2), record(3)]).unwrap();
        writer.write_status(&status(State::Finished, 3)).unwrap();
        assert_eq!(look(false), ["trial 0 finished 3"]);
        drop(held);
        assert_eq!((look(false), look(true)), (vec![], vec![]));
        // Without the list of finished trials nothing is lost, and a damaged one is as good as none.
        std::fs::write(store.dir().join("trials/finished.jsonl"), "nonsense\n").unwrap();
        assert_eq!((look(false), look(true)), (vec![], vec![]));
        let whole = short(&Follower::new(store.clone()).changes().unwrap(), &trials);
        assert_eq!(whole, ["run 2", "trial 0 finished 3", "trial 1 waiting 0"]);
        std::fs::remove_dir_all(reader.path()).unwrap();
        assert_eq!(look(false), ["trial 0 waiting 0"]);
        assert_eq!(look(false), Vec::<String>::new());
    }

    #[test]
    fn damage_is_named_and_passes() {
        let scratch = Scratch::new("follower-damage");
        let (store, trials) = run(&scratch);
        let (entry, settings) = &trials[1];
        let reader = store.trial(entry.id);
        let held = lease(reader.path());
        let writer = reader.writer(&held);
        writer.write_settings(settings).unwrap();
        writer.append_records(&[record(0), record(1)]).unwrap();
        writer.write_status(&status(State::Running, 1)).unwrap();
        let mut follower = Follower::new(store.clone());
        let mut look = || short(&follower.changes().unwrap(), &trials);
        assert_eq!(look(), ["run 2", "trial 0 waiting 0", "trial 1 running 1"]);
        let text = std::fs::read_to_string(reader.record_path()).unwrap();
        std::fs::write(reader.record_path(), format!("{text}nonsense\n")).unwrap();
        assert_eq!(look(), ["trial 1 unreadable 0 damaged"]);
        std::fs::write(reader.record_path(), &text).unwrap();
        assert_eq!(look(), ["trial 1 running 1"]);
        // Of a damaged list of trials, the folders tell which there are.
        let index = std::fs::read_to_string(store.dir().join("trials.csv")).unwrap();
        std::fs::write(store.dir().join("trials.csv"), index.replacen("full", "fill", 1)).unwrap();
        assert_eq!(look(), ["run 1", "trial 1 running 1"]);
        std::fs::write(store.dir().join("trials.csv"), index).unwrap();
        assert_eq!(look(), ["run 2", "trial 0 waiting 0", "trial 1 running 1"]);
    }
}
