//! Which trained models a command is about.

use std::path::PathBuf;

use clap::Args as ClapArgs;
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

/// Which models, on the command line.
#[derive(Debug, ClapArgs)]
pub(crate) struct ModelArgs {
    /// Folders of runs or of trials
    #[arg(required = true)]
    runs: Vec<PathBuf>,
    /// Of a run: seeds of each mechanism, the first ones
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    seeds: u16,
    /// Of a run: only these mechanisms
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    mechanisms: Vec<String>,
    /// The model after its best epoch instead of the last
    #[arg(long)]
    best: bool,
}

impl ModelArgs {
    /// The models; those of a run that diverged or have no checkpoint are left out, which is said.
    pub(crate) fn targets(&self) -> Result<Vec<Target>, Error> {
        let mut targets = Vec::new();
        for path in &self.runs {
            if path.join("experiment.toml").is_file() {
                targets.extend(self.of_run(&Store::open(path)?)?);
            } else {
                let folder = find_trial(path)?;
                if folder.state()? == State::Diverged {
                    let path = path.display();
                    return Err(format!("{path} diverged: there is no trained model to look at").into());
                }
                let trained = Trained::read(&folder, self.checkpoint())?;
                targets.push(Target { folder, trained });
            }
        }
        if targets.is_empty() {
            return Err("no trial of these runs has a trained model: none has a checkpoint yet, or all diverged".into());
        }
        Ok(targets)
    }

    fn checkpoint(&self) -> CheckpointName {
        if self.best { CheckpointName::Best } else { CheckpointName::Last }
    }

    fn of_run(&self, store: &Store) -> Result<Vec<Target>, Error> {
        let experiment = store.experiment()?;
        if let Some(unknown) = self.mechanisms.iter().find(|name| !experiment.mechanisms.contains(name)) {
            let known = experiment.mechanisms.join(", ");
            return Err(format!("{} has no mechanism `{unknown}`; it has {known}", store.dir().display()).into());
        }
        let seeds: Vec<u64> = experiment.seeds.iter().copied().take(usize::from(self.seeds)).collect();
        let mut targets = Vec::new();
        for (entry, folder) in store.trials()? {
            let is_chosen = self.mechanisms.is_empty() || self.mechanisms.contains(&entry.mechanism);
            if !is_chosen || !seeds.contains(&entry.seed) {
                continue;
            }
            let name = format!("{} seed {}", entry.mechanism, entry.seed);
            if folder.state()? == State::Diverged {
                eprintln!("{name} diverged: left out");
            } else if !folder.checkpoint(self.checkpoint()).is_file() {
                eprintln!("{name} has no checkpoint yet: left out");
            } else {
                let trained = Trained::read(&folder, self.checkpoint())?;
                targets.push(Target { folder, trained });
            }
        }
        Ok(targets)
    }
}
