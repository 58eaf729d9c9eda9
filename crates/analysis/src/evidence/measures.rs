//! The measures of one trial.

use semfocus_core::{Metric, Threshold};
use semfocus_store::{CurvePoint, State, TrialData};
use serde::Serialize;

use crate::stats::{TimeToTarget, area_under_curve, binomial_tail};

/// Times are recorded in milliseconds: what took no time took less than one.
const RESOLUTION: f64 = 0.001;

/// The measures of one trial.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Measures {
    /// The first epoch that reached the target, or how many epochs did not. A trial that diverged never reaches it: it counts
    /// as observed for all the epochs it was planned for.
    pub time_to_target: TimeToTarget,
    /// Floating-point operations of training up to the target, or up to the end if it was not reached; none if the run did
    /// not record them.
    pub flops: Option<f64>,
    /// Seconds of training and evaluation up to the same epoch; none if the time of single epochs is not known.
    pub seconds: Option<f64>,
    /// The highest held-out accuracy of all epochs.
    pub best_heldout_accuracy: f64,
    /// The first epoch with that accuracy.
    pub best_epoch: usize,
    /// Held-out accuracy after the last epoch.
    pub last_heldout_accuracy: f64,
    /// Mean held-out accuracy over the epochs: the area under the curve, divided by its width.
    pub mean_heldout_accuracy: f64,
    /// Training accuracy minus held-out accuracy after the last epoch.
    pub generalisation_gap: f64,
    /// Completed epochs.
    pub epochs: usize,
    /// Accuracy on the test split after the best epoch, if the trial is over and has such a split.
    pub test_accuracy: Option<f64>,
    /// Held-out examples: sequences, or fewer if some ask more questions than others.
    pub held_out: usize,
    /// Test examples, counted in the same way.
    pub test: usize,
    /// Whether trials with other seeds have the same held-out examples, or examples from the same file.
    pub is_data_shared: bool,
    /// Share of the held-out examples that always giving the most frequent class gets right; none if the status that says it
    /// cannot be read.
    pub majority: Option<f64>,
    /// Probability that a model that knows nothing but the most frequent class gets as many held-out examples right in any of
    /// the epochs; 1 if that class is not known.
    pub luck: f64,
}

impl Measures {
    /// With the epochs to a target. None before the first epoch is complete.
    pub fn new(trial: &TrialData, target: Threshold) -> Option<Self> {
        let (curve, last) = (&trial.curve, &trial.curve.last()?.metrics);
        let reached = curve.iter().position(|point| target.is_reached(&point.metrics));
        let observed = if trial.state == State::Diverged { trial.entry.epochs } else { curve.len() };
        let time_to_target = match reached {
            Some(index) => TimeToTarget::reached_at(curve[index].epoch as f64),
            None => TimeToTarget::censored_at(observed as f64),
        };
        let up_to = reached.map_or(curve.len(), |index| index + 1);
        let accuracy = |point: &CurvePoint| point.metrics[Metric::HeldoutAccuracy];
        let best = curve.iter().max_by(|a, b| {
            accuracy(a).total_cmp(&accuracy(b)).then(b.epoch.cmp(&a.epoch)) // the first of equal ones
        })?;
        let (best_epoch, best) = (best.epoch, accuracy(best));
        let accuracies: Vec<(f64, f64)> = curve.iter().map(|point| (point.epoch as f64, accuracy(point))).collect();
        let mean = match curve.len() {
            1 => last[Metric::HeldoutAccuracy],
            count => area_under_curve(&accuracies) / (count - 1) as f64,
        };
        let data = trial.settings.as_ref().map(|settings| &settings.data);
        // The unit is the sequence, however many questions it asks.
        let sizes = data.map(|data| data.sizes);
        let held_out = trial.held_out.or(sizes.map(|sizes| sizes.held_out)).unwrap_or(1);
        let majority = trial.majority;
        let hits = (best * held_out as f64).round() as usize;
        let seconds: Option<f64> = curve[..up_to].iter().map(|point| point.seconds).sum();
        Some(Measures {
            time_to_target,
            flops: trial.epoch_flops.map(|epoch| epoch * up_to as f64),
            seconds: seconds.map(|seconds| seconds.max(RESOLUTION)),
            best_heldout_accuracy: best,
            best_epoch,
            last_heldout_accuracy: last[Metric::HeldoutAccuracy],
            mean_heldout_accuracy: mean,
            generalisation_gap: last[Metric::TrainAccuracy] - last[Metric::HeldoutAccuracy],
            epochs: curve.len(),
            test_accuracy: trial.test_accuracy,
            held_out,
            test: trial.test_split.or(sizes.map(|sizes| sizes.test)).unwrap_or(0),
            is_data_shared: data.is_some_and(|data| data.seed.is_some())
                || trial.settings.as_ref().is_some_and(|settings| settings.data_checksum.is_some()),
            majority,
            luck: majority.map_or(1.0, |share| (curve.len() as f64 * binomial_tail(hits, held_out, share)).min(1.0)),
        })
    }
}
