//! How the learning rate changes during training.

use super::Training;

/// What the learning rate does after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RateSchedule {
    /// It is multiplied with `training.decay` after every pass over the training examples.
    #[default]
    Decay,
    /// It falls along half a wave of the cosine.
    Cosine,
    /// It stays.
    Constant,
}

impl RateSchedule {
    /// The schedules and how they are written.
    pub const NAMES: &'static [(&'static str, RateSchedule)] =
        &[("decay", RateSchedule::Decay), ("cosine", RateSchedule::Cosine), ("constant", RateSchedule::Constant)];
}

/// Settings of the schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RateSettings {
    /// What it does after the warm-up.
    pub schedule: RateSchedule,
    /// Steps in which the learning rate rises in a line to its full value, from its first part on.
    pub warmup: usize,
    /// Cosine: learning rate at the end.
    pub min: f64,
    /// Cosine: the step from which on it has its minimum. A planned trial has all its steps here if none are asked for, because the
    /// learning rate of every step depends on it.
    pub steps: Option<usize>,
}

impl RateSettings {
    /// Whether the learning rate of every step depends on how long the trial is, so that it cannot be made longer.
    pub fn depends_on_length(&self) -> bool {
        self.schedule == RateSchedule::Cosine && self.steps.is_none()
    }

    /// Checks whether the settings go together.
    pub(crate) fn check(&self, learning_rate: f64) -> Result<(), (&'static str, String)> {
        let RateSettings { schedule, warmup, min, steps } = *self;
        for (path, is_given) in
            [("training.min_learning_rate", min != 0.0), ("training.schedule_steps", steps.is_some())]
        {
            if is_given && schedule != RateSchedule::Cosine {
                return Err((path, "this belongs to `training.schedule = \"cosine\"`".to_owned()));
            }
        }
        if min > learning_rate {
            let reason = format!("it is above `training.learning_rate`, which is {learning_rate}");
            return Err(("training.min_learning_rate", reason));
        }
        match steps {
            Some(steps) if steps <= warmup => {
                Err(("training.warmup", format!("it takes all {steps} steps of the schedule; warm up in fewer")))
            }
            _ => Ok(()),
        }
    }
}

impl Training {
    /// The learning rate of a step, the first of which is 0, in a pass over the training examples, the first of which is 1. Without
    /// passes, because new examples are drawn for every step, the pass is the epoch. `steps` are those of the trial.
    pub fn rate_at(&self, step: u64, pass: usize, steps: usize) -> f64 {
        let RateSettings { schedule, warmup, min, steps: of_schedule } = self.rate;
        let full = self.learning_rate;
        let rate = match schedule {
            RateSchedule::Decay => full * self.decay.powi(i32::try_from(pass - 1).unwrap_or(i32::MAX)),
            RateSchedule::Constant => full,
            RateSchedule::Cosine => {
                let falling = of_schedule.unwrap_or(steps).saturating_sub(warmup).max(1);
                let done = step.saturating_sub(warmup as u64) as f64 / falling as f64;
                min + (full - min) * 0.5 * (1.0 + libm::cos(std::f64::consts::PI * done.min(1.0)))
            }
        };
        match (step + 1) as f64 / warmup as f64 {
            share if share < 1.0 => rate * share,
            _ => rate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::TrialSettings;

    fn training(schedule: RateSchedule, warmup: usize, min: f64) -> Training {
        let rate = RateSettings { schedule, warmup, min, steps: Some(12).filter(|_| schedule == RateSchedule::Cosine) };
        Training { learning_rate: 1.0, decay: 0.5, rate, ..TrialSettings::default().training }
    }

    /// The rates of 16 steps in passes of 4.
    fn rates(training: &Training) -> Vec<f64> {
        (0..16).map(|step| training.rate_at(step, step as usize / 4 + 1, 16)).collect()
    }

    #[test]
    fn rates_follow_their_schedule() {
        let decay = rates(&training(RateSchedule::Decay, 0, 0.0));
        assert_eq!([decay[0], decay[3], decay[4], decay[15]], [1.0, 1.0, 0.5, 0.125]);
        assert_eq!(rates(&training(RateSchedule::Constant, 0, 0.0)), [1.0; 16]);
        let cosine = rates(&training(RateSchedule::Cosine, 0, 0.2));
        assert_eq!(cosine[0], 1.0);
        assert!((cosine[6] - 0.6).abs() < 1e-12 && cosine[..13].is_sorted_by(|one, next| one > next), "{cosine:?}");
        assert_eq!(cosine[12..], [0.2; 4], "the minimum stays");
        // Without steps of its own, those of the trial.
        let whole = Training {
            rate: RateSettings { steps: None, ..training(RateSchedule::Cosine, 0, 0.0).rate },
            ..training(RateSchedule::Cosine, 0, 0.0)
        };
        assert!((rates(&whole)[8] - 0.5).abs() < 1e-12);
    }

    #[test]
    fn rates_rise_in_a_line_to_their_full_value() {
        for schedule in [RateSchedule::Decay, RateSchedule::Cosine, RateSchedule::Constant] {
            let rates = rates(&training(schedule, 4, 0.0));
            assert_eq!(rates[..4], [0.25, 0.5, 0.75, 1.0], "{schedule:?}");
        }
        let cosine = rates(&training(RateSchedule::Cosine, 4, 0.0));
        assert_eq!(cosine[4], 1.0, "it falls from the end of the warm-up on");
        assert!((cosine[8] - 0.5).abs() < 1e-12 && cosine[12] == 0.0);
    }

    #[test]
    fn settings_that_do_not_go_together_are_refused() {
        let path = |rate: RateSettings| rate.check(1.0).unwrap_err().0;
        assert_eq!(path(RateSettings { min: 0.1, ..RateSettings::default() }), "training.min_learning_rate");
        assert_eq!(path(RateSettings { steps: Some(9), ..RateSettings::default() }), "training.schedule_steps");
        let cosine = training(RateSchedule::Cosine, 0, 0.0).rate;
        assert_eq!(path(RateSettings { min: 1.5, ..cosine }), "training.min_learning_rate");
        assert_eq!(path(RateSettings { warmup: 12, ..cosine }), "training.warmup");
        assert_eq!(RateSettings { warmup: 11, min: 1.0, ..cosine }.check(1.0), Ok(()));
        assert!(RateSettings { steps: None, ..cosine }.depends_on_length() && !cosine.depends_on_length());
    }
}
