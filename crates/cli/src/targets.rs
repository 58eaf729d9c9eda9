//! Which trained models a command is about.

use std::path::PathBuf;

use semfocus_lab::Store;
use semfocus_lab::store::{CheckpointName, State, TrialFolder};
use semfocus_lab::trained::Trained;

use crate::Error;
use crate::commands::show::find_trial;

/// A trained model and the folder of its trial.
pub(crate) struct Target {
    pub(crate) folder: TrialFolder,
    pub(crate) trained: Trained,
}

/// Which of the trials of a run.
pub(crate) struct Choice<'a> {
    /// Only these mechanisms; all if none is named.
    pub(crate) mechanisms: &'a [String],
    /// So many seeds of each mechanism, the first ones.
    pub(crate) seeds: usize,
    pub(crate) checkpoint: CheckpointName,
}

impl Choice<'_> {
    /// The models of trials and runs; those of a run that diverged or have not begun are left out, and `say` hears of it.
    pub(crate) fn targets(&self, paths: &[PathBuf], say: &dyn Fn(String)) -> Result<Vec<Target>, Error> {
        let mut targets = Vec::new();
        for path in paths {
            if path.join("experiment.toml").is_file() {
                targets.extend(self.of_run(&Store::open(path)?, say)?);
            } else {
                let folder = find_trial(path)?;
                if folder.state()? == State::Diverged {
                    let path = path.display();
                    return Err(format!("{path} diverged: there is no trained model to look at").into());
                }
                let trained = Trained::read(&folder, self.checkpoint)?;
                targets.push(Target { folder, trained });
            }
        }
        if targets.is_empty() {
            return Err("no trial of these runs has a trained model: none has a checkpoint yet, or all diverged".into());
        }
        Ok(targets)
    }

    fn of_run(&self, store: &Store, say: &dyn Fn(String)) -> Result<Vec<Target>, Error> {
        let mut targets: Vec<Target> = Vec::new();
        let experiment = store.experiment()?;
        if let Some(unknown) = self.mechanisms.iter().find(|name| !experiment.mechanisms.contains(name)) {
            let known = experiment.mechanisms.join(", ");
            return Err(format!("{} has no mechanism `{unknown}`; it has {known}", store.dir().display()).into());
        }
        for (entry, folder) in store.trials()? {
            let seeds = experiment.seeds.iter().take(self.seeds);
            let is_chosen = self.mechanisms.is_empty() || self.mechanisms.contains(&entry.mechanism);
            if !is_chosen || !seeds.into_iter().any(|seed| *seed == entry.seed) {
                continue;
            }
            let name = format!("{} seed {}", entry.mechanism, entry.seed);
            if folder.state()? == State::Diverged {
                say(format!("{name} diverged: left out"));
            } else if !folder.checkpoint(self.checkpoint).is_file() {
                say(format!("{name} has no checkpoint yet: left out"));
            } else {
                let trained = Trained::read(&folder, self.checkpoint)?;
                targets.push(Target { folder, trained });
            }
        }
        Ok(targets)
    }
}
