//! How a run stands: the number of trials in each state, the time that is left, and each trial with its progress. It is kept up to
//! date with the changes that a [`Follower`] finds.

use std::collections::{BTreeMap, HashMap};

use semfocus_core::study::seed_name;
use semfocus_core::time_left::{probable_end, time_side_by_side};
use semfocus_core::{DataFacts, EpochRecord, Metric, Metrics, Point, Quantity, TrialId};
use semfocus_store::{
    Change, Damage, Event, Follower, Holder, IndexEntry, JobKind, State, Status, StoreError, StoredTrial, TrialData,
};
use serde::Serialize;

/// How a run stands.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Overview {
    /// Name of the experiment.
    pub experiment: String,
    /// Trials in all.
    pub trials: usize,
    /// Trials that are finished, or were stopped at their target.
    pub done: usize,
    /// Trials that a process works on.
    pub running: usize,
    /// Trials that diverged.
    pub diverged: usize,
    /// Trials that an error ended.
    pub failed: usize,
    /// Trials that have not begun, or were interrupted.
    pub left: usize,
    /// Epochs that are complete.
    pub epochs_done: usize,
    /// Epochs that are planned.
    pub epochs: usize,
    /// Estimated with as many trials at once as in the last session; none before the first epoch.
    pub seconds_left: Option<f64>,
    /// Trials whose files cannot be read.
    pub unreadable: usize,
    /// The trials, in the order of the experiment.
    pub list: Vec<TrialOverview>,
    /// What cannot be read or is damaged.
    pub damage: Vec<Damage>,
    #[serde(skip)]
    run_damage: Vec<Damage>,
    #[serde(skip)]
    places: HashMap<TrialId, usize>,
}

/// How a trial stands.
#[derive(Clone, Debug, Serialize)]
pub struct TrialOverview {
    /// Its id.
    pub trial: TrialId,
    /// Its mechanism.
    pub mechanism: String,
    /// Its seed.
    pub seed: u64,
    /// What the seed is called: its place among those of the study.
    pub seed_number: u64,
    /// Its values on the axes of the grid.
    pub point: Point,
    /// Its state.
    pub state: State,
    /// Epochs that are complete.
    pub epoch: usize,
    /// Epochs that are planned.
    pub epochs: usize,
    /// Training accuracy after the last epoch.
    pub train_accuracy: Option<f64>,
    /// Held-out accuracy after the last epoch.
    pub heldout_accuracy: Option<f64>,
    /// Losses, accuracies and what follows from them and the data, after the last epoch.
    pub last: BTreeMap<&'static str, f64>,
    /// Of a running trial: steps of all epochs that are done, as last reported.
    pub steps_done: Option<usize>,
    /// Of a running trial: steps of all epochs.
    pub steps: Option<usize>,
    /// Of a running trial: loss of its last step.
    pub step_loss: Option<f64>,
    /// Of a running trial: process, machine and Slurm job that work on it.
    pub held_by: Option<String>,
    /// Of a running trial: the machine.
    pub host: Option<String>,
    /// When its status was last written.
    pub updated: Option<String>,
    /// The stored weights that it started with, if any: trial, epoch and checksum.
    pub origin: Option<String>,
    /// What ended it, if something did.
    pub message: Option<String>,
    /// What the last epoch recorded.
    #[serde(skip)]
    metrics: Option<Metrics>,
    /// Seconds of each epoch.
    #[serde(skip)]
    seconds: Vec<f64>,
    /// Trials that its last session trained at once.
    #[serde(skip)]
    at_once: Option<usize>,
    #[serde(skip)]
    damage: Vec<Damage>,
}

impl Overview {
    /// How a run stands now.
    pub fn read(follower: &mut Follower) -> Result<Self, StoreError> {
        let mut overview = Overview::default();
        overview.update(follower)?;
        Ok(overview)
    }

    /// Takes over what a follower finds to have changed. It must be the same one every time.
    pub fn update(&mut self, follower: &mut Follower) -> Result<(), StoreError> {
        for change in follower.changes()? {
            self.apply(change);
        }
        self.sum_up();
        Ok(())
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Run { experiment, index, damage } => {
                self.experiment = experiment.name;
                self.places = index.iter().enumerate().map(|(place, entry)| (entry.id, place)).collect();
                self.list = index.into_iter().map(TrialOverview::new).collect();
                self.run_damage = damage.iter().map(Damage::from).collect();
            }
            Change::Trial { data, holder, damage } => {
                if let Some(trial) = self.trial(data.entry.id) {
                    trial.replace(*data, holder);
                    trial.damage = damage.iter().map(Damage::from).collect();
                }
            }
            Change::Progress { trial, state, status, holder, epochs } => {
                if let Some(trial) = self.trial(trial) {
                    trial.add_epochs(&epochs);
                    trial.set_state(state, status.as_deref(), holder);
                }
            }
            Change::Events { trial, events } => {
                let last = events.iter().rev().filter(|logged| logged.job.kind == JobKind::Train).find_map(|logged| {
                    match logged.event {
                        Event::Progress { done, total, loss } => Some((done, total, loss)),
                        Event::JobStarted { done, total, .. } => Some((done, total, None)),
                        _ => None,
                    }
                });
                let running = self.trial(trial).filter(|trial| trial.state == State::Running);
                if let (Some(trial), Some((done, total, loss))) = (running, last) {
                    (trial.steps_done, trial.steps, trial.step_loss) = (Some(done), Some(total), loss);
                }
            }
        }
    }

    fn trial(&mut self, id: TrialId) -> Option<&mut TrialOverview> {
        self.list.get_mut(*self.places.get(&id)?)
    }

    fn sum_up(&mut self) {
        let count = |states: &[State]| self.list.iter().filter(|trial| states.contains(&trial.state)).count();
        self.trials = self.list.len();
        self.done = count(&[State::Finished, State::Stopped]);
        self.running = count(&[State::Running]);
        self.diverged = count(&[State::Diverged]);
        self.failed = count(&[State::Failed]);
        self.left = count(&[State::Waiting, State::Interrupted]);
        self.unreadable = count(&[State::Unreadable]);
        self.epochs_done = self.list.iter().map(|trial| trial.epoch).sum();
        self.epochs = self.list.iter().map(|trial| trial.epochs).sum();
        self.seconds_left = self.estimate();
        self.damage = self.run_damage.iter().chain(self.list.iter().flat_map(|trial| &trial.damage)).cloned().collect();
    }

    /// Estimated from the trials of the same mechanism and settings: the mean time of their epochs, and where those that are over
    /// ended.
    fn estimate(&self) -> Option<f64> {
        /// Seconds and number of epochs; number of trials that are over, and of their epochs.
        type Seen = ((f64, usize), (usize, usize));
        let (mut groups, mut all) = (HashMap::<_, Seen>::new(), (0.0, 0));
        for trial in &self.list {
            let (seconds, epochs) = (trial.seconds.iter().sum::<f64>(), trial.seconds.len());
            let (times, over) = groups.entry((&trial.mechanism, &trial.point)).or_default();
            (*times, all) = ((times.0 + seconds, times.1 + epochs), (all.0 + seconds, all.1 + epochs));
            if trial.state.is_over() {
                *over = (over.0 + 1, over.1 + trial.epoch);
            }
        }
        let open = self.list.iter().filter(|trial| !trial.state.is_over());
        let left = open.map(|trial| {
            let (times, over) = groups[&(&trial.mechanism, &trial.point)];
            let (seconds, epochs) = if times.1 > 0 { times } else { all };
            probable_end(over, trial.epoch, trial.epochs).saturating_sub(trial.epoch) as f64 * seconds / epochs as f64
        });
        let at_once = self.list.iter().rev().find_map(|trial| trial.at_once).unwrap_or(1);
        (all.1 > 0).then(|| time_side_by_side(left, at_once))
    }

    /// Whether a process works on it.
    pub fn is_running(&self) -> bool {
        self.running > 0
    }

    /// Whether nothing is left to train.
    pub fn is_trained(&self) -> bool {
        self.done + self.diverged == self.trials
    }
}

impl TrialOverview {
    fn new(entry: IndexEntry) -> Self {
        TrialOverview {
            trial: entry.id,
            seed_number: seed_name(entry.seed),
            mechanism: entry.mechanism,
            seed: entry.seed,
            point: entry.point,
            state: State::Waiting,
            epoch: 0,
            epochs: entry.epochs,
            train_accuracy: None,
            heldout_accuracy: None,
            last: BTreeMap::new(),
            steps_done: None,
            steps: None,
            step_loss: None,
            held_by: None,
            host: None,
            updated: None,
            origin: None,
            message: None,
            metrics: None,
            seconds: Vec::new(),
            at_once: None,
            damage: Vec::new(),
        }
    }

    fn replace(&mut self, data: StoredTrial, holder: Option<Holder>) {
        let StoredTrial { status, records, data, .. } = data;
        let TrialData { entry, settings, state, environment, .. } = data;
        *self = TrialOverview::new(entry);
        self.origin = settings.and_then(|settings| settings.training.from).map(|origin| origin.to_string());
        self.at_once = environment.map(|found| found.last.jobs.min(found.last.threads).max(1));
        self.add_epochs(&records);
        self.set_state(state, status.as_ref(), holder);
    }

    /// Adds epochs in place of those with the same numbers and all after them.
    fn add_epochs(&mut self, records: &[EpochRecord]) {
        let (Some(first), Some(last)) = (records.first(), records.last()) else { return };
        self.seconds.truncate(first.epoch - 1);
        self.seconds.extend(records.iter().map(|record| record.seconds));
        self.epoch = last.epoch;
        let accuracy = |metric| Some(last.metrics[metric]);
        (self.train_accuracy, self.heldout_accuracy) =
            (accuracy(Metric::TrainAccuracy), accuracy(Metric::HeldoutAccuracy));
        self.metrics = Some(last.metrics);
    }

    fn set_state(&mut self, state: State, status: Option<&Status>, holder: Option<Holder>) {
        let holder = holder.filter(|_| state == State::Running);
        self.state = state;
        self.held_by = holder.as_ref().map(Holder::place);
        self.host = holder.map(|holder| holder.host().to_owned());
        self.updated = status.map(|status| status.updated.clone());
        self.message = status.and_then(|status| status.message.clone());
        let facts: DataFacts = status.and_then(|status| status.facts).unwrap_or_default();
        self.last = self.metrics.map(|metrics| Quantity::all_values(&metrics, &facts)).unwrap_or_default();
        if state != State::Running {
            (self.steps_done, self.steps, self.step_loss) = (None, None, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(mechanism: &str, seed: u64, state: State, epochs: usize) -> TrialOverview {
        let (task, mechanism) = ("parity".to_owned(), mechanism.to_owned());
        let id = format!("{seed:x}").parse().unwrap();
        let entry = IndexEntry { id, epochs: 10, task, mechanism, seed, point: Point::new() };
        TrialOverview {
            state,
            epoch: epochs,
            seconds: vec![2.0; epochs],
            at_once: Some(2),
            ..TrialOverview::new(entry)
        }
    }

    #[test]
    fn the_time_left_is_that_of_trials_that_are_not_over() {
        let left = |list: Vec<TrialOverview>| Overview { list, ..Overview::default() }.estimate();
        let (stopped, begun) = (|seed, epochs| trial("full", seed, State::Stopped, epochs), State::Interrupted);
        // As the others, it probably ends at epoch 4; a single trial is not divided.
        assert_eq!(left(vec![stopped(1, 3), stopped(2, 5), trial("full", 3, begun, 1)]), Some(6.0));
        assert_eq!(left(vec![stopped(1, 3), stopped(2, 5), trial("full", 3, begun, 6)]), Some(8.0));
        // Nothing is known of the other mechanism: three epochs here and ten there, on two cores.
        let others = |seed| trial("topk:5", seed, State::Waiting, 0);
        assert_eq!(left(vec![stopped(1, 4), trial("full", 3, begun, 1), others(4), others(5)]), Some(23.0));
        assert_eq!(left(vec![others(4)]), None);
    }
}
