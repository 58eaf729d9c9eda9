//! What is read off one trial.

use std::collections::HashMap;

use semfocus_lab::TrialSettings;
use semfocus_lab::settings::Goal;
use semfocus_lab::store::{State, StoredTrial};
use semfocus_nn::{ModelConfig, Registry, cost};
use semfocus_tasks::{Source, Tasks};
use serde::Serialize;

use crate::stats::{Arrival, area_under_curve};

/// What is read off one trial.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Measures {
    /// First epoch that reached the goal, or until when it was seen not to. A trial that diverged never arrives: it counts
    /// as watched for all the epochs it was planned for.
    pub arrival: Arrival,
    /// Floating-point operations of training up to the goal, or up to the end if it was not reached; none where the
    /// size of the data is not known any more.
    pub flops: Option<f64>,
    /// Seconds of training and evaluation up to the same epoch.
    pub seconds: f64,
    /// Best held-out accuracy.
    pub best_heldout_accuracy: f64,
    /// The first epoch that had it.
    pub best_epoch: usize,
    /// Held-out accuracy after the last epoch.
    pub last_heldout_accuracy: f64,
    /// Mean held-out accuracy over the epochs: the area under the curve, divided by its width.
    pub mean_heldout_accuracy: f64,
    /// Training less held-out accuracy after the last epoch.
    pub generalisation_gap: f64,
    /// Epochs that are complete.
    pub epochs: usize,
}

impl Measures {
    /// Reads a trial; nothing before its first epoch.
    pub fn of(trial: &StoredTrial, goal: Goal, costs: &mut Costs) -> Option<Self> {
        let (records, last) = (&trial.records, trial.records.last()?);
        let reached = records.iter().position(|record| goal.is_reached(record));
        let watched = if trial.state == State::Diverged { trial.entry.epochs } else { records.len() };
        let arrival = match reached {
            Some(index) => Arrival::at(records[index].epoch as f64),
            None => Arrival::not_by(watched as f64),
        };
        let up_to = reached.map_or(records.len(), |index| index + 1);
        let best = records.iter().max_by(|a, b| {
            a.heldout_accuracy.total_cmp(&b.heldout_accuracy).then(b.epoch.cmp(&a.epoch)) // of equal ones the first
        })?;
        let curve: Vec<(f64, f64)> = records.iter().map(|r| (r.epoch as f64, r.heldout_accuracy)).collect();
        let mean = match records.len() {
            1 => last.heldout_accuracy,
            count => area_under_curve(&curve) / (count - 1) as f64,
        };
        Some(Measures {
            arrival,
            flops: trial.settings.as_ref().and_then(|s| costs.epoch(s)).map(|epoch| epoch * up_to as f64),
            seconds: records[..up_to].iter().map(|record| record.seconds).sum(),
            best_heldout_accuracy: best.heldout_accuracy,
            best_epoch: best.epoch,
            last_heldout_accuracy: last.heldout_accuracy,
            mean_heldout_accuracy: mean,
            generalisation_gap: last.train_accuracy - last.heldout_accuracy,
            epochs: records.len(),
        })
    }
}

/// What an epoch of training costs; remembers what it has worked out.
#[derive(Debug, Default)]
pub struct Costs {
    known: HashMap<String, Option<f64>>,
}

impl Costs {
    /// Floating-point operations of training for one epoch, evaluation left out.
    fn epoch(&mut self, settings: &TrialSettings) -> Option<f64> {
        let key = TrialSettings { seed: 0, ..settings.clone() }.identity();
        *self.known.entry(key).or_insert_with(|| {
            let source = Source::find(&settings.task, &Tasks::standard(), &settings.data.files).ok()?;
            let attention = Registry::standard().parse(&settings.mechanism).ok()?;
            let length = source.width(&settings.data) + attention.spec.globals;
            let (vocabulary, classes) = (source.vocabulary(), source.classes());
            let config = ModelConfig { vocabulary, classes, ..settings.model.clone() };
            let flops = cost::flops(&config, attention.mechanism.as_ref(), length);
            Some(flops.training * settings.data.sizes.train as f64)
        })
    }
}
