//! What a run found, read from its store alone: per mechanism, how soon it learned and how well it generalises.

use serde::Serialize;
use toml::Value;

use crate::settings::{self, TrialSettings};
use crate::store::{EpochRecord, State, Store, StoreError};

/// Training accuracy from which on a trial counts as having learned.
pub const THRESHOLD: f64 = 0.95;

/// A trial as it stands in its store.
#[derive(Clone, Debug)]
pub struct StoredTrial {
    /// Its settings.
    pub settings: TrialSettings,
    /// How it stands.
    pub state: State,
    /// Its epochs.
    pub records: Vec<EpochRecord>,
}

impl StoredTrial {
    /// First epoch with a training accuracy of at least [`THRESHOLD`].
    pub fn epochs_to_threshold(&self) -> Option<usize> {
        self.records.iter().find(|record| record.train_accuracy >= THRESHOLD).map(|record| record.epoch)
    }
}

/// The row of a mechanism.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The mechanism.
    pub mechanism: String,
    /// Trials with at least one epoch.
    pub seeds: usize,
    /// Trials that are planned.
    pub planned: usize,
    /// How many of them passed the threshold.
    pub reached: usize,
    /// Median over the seeds of the first epoch at or above the threshold; a trial that has not arrived counts as later
    /// than any that has. None if the median itself has not arrived.
    pub median_epochs_to_threshold: Option<f64>,
    /// Epochs of the longest trial: what has not arrived needs more than these.
    pub epochs: usize,
    /// How many times fewer epochs than full attention it needs, by the medians.
    pub ratio_to_full: Option<Ratio>,
    /// Best held-out accuracy of a trial, median over the seeds.
    pub best_heldout_accuracy: Option<f64>,
    /// Held-out accuracy of the last epoch, median over the seeds.
    pub last_heldout_accuracy: Option<f64>,
    /// Trials that diverged.
    pub diverged: usize,
}

/// A ratio of epochs, or a bound for it where one side has not arrived.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "value")]
pub enum Ratio {
    /// Both arrived.
    Exactly(f64),
    /// Full attention has not arrived.
    MoreThan(f64),
    /// The mechanism has not arrived.
    LessThan(f64),
}

impl std::fmt::Display for Ratio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let number = |value: f64| if value < 0.95 { format!("{value:.2}") } else { format!("{value:.1}") };
        f.pad(&match *self {
            Ratio::Exactly(value) => format!("{}×", number(value)),
            Ratio::MoreThan(value) => format!(">{}×", number(value)),
            Ratio::LessThan(value) => format!("<{}×", number(value)),
        })
    }
}

/// Paths and values on the axes of the grid.
pub type Point = Vec<(String, String)>;

/// The rows of one point of the grid.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// Values on the axes of the grid.
    pub point: Point,
    /// One for each mechanism, in the order of the experiment.
    pub rows: Vec<Row>,
}

/// All tables of a store.
pub fn summarize(store: &Store) -> Result<Vec<Table>, StoreError> {
    let experiment = store.experiment()?;
    let mut groups: Vec<(Point, Vec<StoredTrial>)> = Vec::new();
    let axes = experiment.axes();
    for (entry, folder) in store.trials()? {
        if !folder.exists() {
            continue;
        }
        let settings = folder.settings()?;
        let text = |value: Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let value =
            |path: &str| settings::find(path).and_then(|setting| setting.get(&settings)).map_or(String::new(), text);
        let point: Point = axes.iter().map(|(path, _)| ((*path).to_owned(), value(path))).collect();
        // An epoch after the last one that is asked for does not count.
        let mut records = folder.records()?;
        records.truncate(entry.epochs);
        let trial = StoredTrial { state: folder.state()?, settings, records };
        match groups.iter_mut().find(|(other, _)| *other == point) {
            Some((_, trials)) => trials.push(trial),
            None => groups.push((point, vec![trial])),
        }
    }
    let tables = groups
        .into_iter()
        .map(|(point, trials)| Table { point, rows: rows(&experiment.mechanisms, experiment.seeds.len(), &trials) });
    Ok(tables.collect())
}

fn rows(mechanisms: &[String], planned: usize, trials: &[StoredTrial]) -> Vec<Row> {
    let mut rows: Vec<Row> = mechanisms
        .iter()
        .map(|mechanism| {
            let trials: Vec<&StoredTrial> =
                trials.iter().filter(|t| t.settings.mechanism == *mechanism && !t.records.is_empty()).collect();
            let arrivals: Vec<f64> = trials
                .iter()
                .map(|trial| trial.epochs_to_threshold().map_or(f64::INFINITY, |epoch| epoch as f64))
                .collect();
            let best = |trial: &&StoredTrial| trial.records.iter().map(|r| r.heldout_accuracy).fold(0.0, f64::max);
            let last = |trial: &&StoredTrial| trial.records.last().map_or(0.0, |record| record.heldout_accuracy);
            Row {
                mechanism: mechanism.clone(),
                seeds: trials.len(),
                planned,
                reached: arrivals.iter().filter(|epoch| epoch.is_finite()).count(),
                median_epochs_to_threshold: median(arrivals).filter(|epochs| epochs.is_finite()),
                epochs: trials.iter().map(|trial| trial.records.len()).max().unwrap_or(0),
                ratio_to_full: None,
                best_heldout_accuracy: median(trials.iter().map(best).collect()),
                last_heldout_accuracy: median(trials.iter().map(last).collect()),
                diverged: trials.iter().filter(|trial| trial.state == State::Diverged).count(),
            }
        })
        .collect();
    let full = rows.iter().find(|row| row.mechanism == "full" && row.seeds > 0).cloned();
    for row in &mut rows {
        row.ratio_to_full = full.as_ref().filter(|_| row.seeds > 0).and_then(|full| ratio(full, row));
    }
    rows
}

fn ratio(full: &Row, row: &Row) -> Option<Ratio> {
    match (full.median_epochs_to_threshold, row.median_epochs_to_threshold) {
        (Some(full), Some(mine)) => Some(Ratio::Exactly(full / mine)),
        (None, Some(mine)) => Some(Ratio::MoreThan(full.epochs as f64 / mine)),
        (Some(full), None) => Some(Ratio::LessThan(full / row.epochs as f64)),
        (None, None) => None,
    }
}

/// The middle value; of two middle ones their mean.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        count if count % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(mechanism: &str, accuracies: &[f64]) -> StoredTrial {
        let record = |(index, &accuracy): (usize, &f64)| EpochRecord {
            epoch: index + 1,
            lr: 0.1,
            train_loss: 1.0,
            train_accuracy: accuracy,
            heldout_loss: 1.0,
            heldout_accuracy: accuracy - 0.01,
            grad_norm: 1.0,
            seconds: 1.0,
        };
        StoredTrial {
            settings: TrialSettings { mechanism: mechanism.to_owned(), ..TrialSettings::default() },
            state: State::Finished,
            records: accuracies.iter().enumerate().map(record).collect(),
        }
    }

    #[test]
    fn late_trials_count_as_later_than_any_other() {
        let trials = [
            trial("full", &[0.5, 0.5, 0.5, 0.96]),
            trial("full", &[0.5, 0.5, 0.5, 0.5]),
            trial("full", &[0.5, 0.97, 0.5, 0.5]),
            trial("topk:5", &[0.95, 0.9, 0.9, 0.9]),
            trial("topk:5", &[0.5, 0.95, 0.9, 0.9]),
            trial("block:5", &[0.5, 0.6, 0.7, 0.8]),
            trial("block:5", &[0.96, 0.6, 0.7, 0.8]),
        ];
        let mechanisms = ["full", "topk:5", "block:5", "banded:5"].map(str::to_owned);
        let rows = rows(&mechanisms, 3, &trials);
        let [full, topk, block, banded] = &rows[..] else { panic!("four rows") };
        assert_eq!((full.median_epochs_to_threshold, full.reached, full.seeds, full.planned), (Some(4.0), 2, 3, 3));
        assert_eq!(full.ratio_to_full, Some(Ratio::Exactly(1.0)));
        assert_eq!((topk.median_epochs_to_threshold, topk.reached), (Some(1.5), 2));
        assert_eq!(topk.ratio_to_full, Some(Ratio::Exactly(4.0 / 1.5)));
        assert_eq!((block.median_epochs_to_threshold, block.reached), (None, 1), "half of them arrived: no median");
        assert_eq!(block.ratio_to_full, Some(Ratio::LessThan(1.0)));
        assert!((block.best_heldout_accuracy.unwrap() - (0.79 + 0.95) / 2.0).abs() < 1e-12);
        assert!((block.last_heldout_accuracy.unwrap() - 0.79).abs() < 1e-12);
        assert_eq!((banded.seeds, banded.best_heldout_accuracy, banded.ratio_to_full), (0, None, None));
    }

    #[test]
    fn ratios_are_written_with_their_bounds() {
        assert_eq!(Ratio::Exactly(5.714).to_string(), "5.7×");
        assert_eq!(Ratio::MoreThan(10.0).to_string(), ">10.0×");
        assert_eq!(Ratio::LessThan(0.333).to_string(), "<0.33×");
        assert_eq!(format!("{:>8}", Ratio::Exactly(1.0)), "    1.0×");
    }
}
