//! What times to the target are counted in.

use semfocus_core::TrialSettings;
use semfocus_store::TrialData;

use super::Observed;

/// What people are told times in. Records and CSV files always count epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// An epoch is a pass over the training examples.
    Epochs,
    /// An epoch is this number of training steps, which are counted instead.
    Steps(u64),
}

impl Unit {
    /// Steps if an epoch is anything else than a pass over a fixed set of training examples and has the same number of steps in
    /// all trials.
    pub(super) fn new<'a>(trials: impl Iterator<Item = &'a Observed> + Clone) -> Self {
        let mut settings = trials.clone().filter_map(|observed| observed.trial.settings.as_ref());
        let of_epoch = |trial: &TrialData| Some(trial.steps? / trial.curve.last()?.epoch as u64);
        let mut steps = trials.filter_map(|observed| of_epoch(&observed.trial));
        match steps.next() {
            _ if settings.all(TrialSettings::is_epoch_a_pass) => Unit::Epochs,
            Some(first) if steps.all(|other| other == first) => Unit::Steps(first),
            _ => Unit::Epochs,
        }
    }

    /// `epochs` or `steps`.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Epochs => "epochs",
            Unit::Steps(_) => "steps",
        }
    }

    /// `epoch` or `step`.
    pub fn singular(self) -> &'static str {
        match self {
            Unit::Epochs => "epoch",
            Unit::Steps(_) => "step",
        }
    }

    /// A number of epochs in this unit.
    pub fn count(self, epochs: f64) -> f64 {
        match self {
            Unit::Epochs => epochs,
            Unit::Steps(steps) => epochs * steps as f64,
        }
    }
}
