//! How steps make up passes over the training examples, and epochs.

use semfocus_core::TrialSettings;

/// How many steps make a pass over the training examples, and how many an epoch. Both repeat without end, each in its own rhythm:
/// when a model is evaluated does not change how it is trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Steps of a pass: every pass has its own order of the examples and its own learning rate. New examples for every step
    /// make no passes; then it is an epoch that has its own learning rate.
    pub steps_per_pass: usize,
    /// Steps of an epoch, after which the model is evaluated and a record and a checkpoint are written.
    pub steps_per_epoch: usize,
}

impl Schedule {
    /// The schedule of a trial with this number of training examples.
    pub fn new(settings: &TrialSettings, examples: usize) -> Self {
        let pass = used(examples, settings).div_ceil(settings.training.batch);
        let steps_per_epoch = match settings.training.evaluate_every {
            0 => pass,
            steps => steps,
        };
        Schedule { steps_per_pass: if settings.data.online { steps_per_epoch } else { pass }, steps_per_epoch }
    }

    /// The number of the pass to which a step belongs, from 1, and the steps of that pass before it. The first step is 0.
    pub fn pass(&self, step: u64) -> (usize, usize) {
        let (step, pass) = (step as usize, self.steps_per_pass);
        (step / pass + 1, step % pass)
    }
}

/// How many of `all` examples a pass uses: all but the last with a quirk of the published code.
pub(crate) fn used(all: usize, settings: &TrialSettings) -> usize {
    if settings.skip_last_example { all.saturating_sub(1).max(1).min(all) } else { all }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(train: usize, batch: usize, evaluate_every: usize, online: bool) -> Schedule {
        let mut settings = TrialSettings::default();
        (settings.data.sizes.train, settings.data.online) = (train, online);
        (settings.training.batch, settings.training.evaluate_every) = (batch, evaluate_every);
        Schedule::new(&settings, train)
    }

    #[test]
    fn passes_and_epochs_have_their_steps() {
        let steps = |schedule: Schedule| (schedule.steps_per_pass, schedule.steps_per_epoch);
        assert_eq!(steps(schedule(100, 25, 0, false)), (4, 4));
        assert_eq!(steps(schedule(101, 25, 0, false)), (5, 5));
        assert_eq!(steps(schedule(101, 25, 7, false)), (5, 7));
        // New examples for every step: as many of them as the set would have, or as long as is asked for.
        assert_eq!(steps(schedule(101, 25, 0, true)), (5, 5));
        assert_eq!(steps(schedule(101, 25, 7, true)), (7, 7));
        let passes = [0, 4, 5, 9, 10].map(|step| schedule(101, 25, 7, false).pass(step));
        assert_eq!(passes, [(1, 0), (1, 4), (2, 0), (2, 4), (3, 0)]);
    }
}
