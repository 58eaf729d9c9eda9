//! Which trained models a command is about.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use semfocus_analysis::evidence::robustness::point_name;
use semfocus_core::measurement::{Count, ModelChoice};
use semfocus_core::study::seed_name;
use semfocus_core::{MechanismList, Point, TrialSettings};
use semfocus_lab::{ChosenModels, Lab, ModelRef};
use semfocus_store::{Damage, Locks, Store, StoreError, TrialReader};
use serde::Serialize;

use crate::damage::left_out;
use crate::execute::Execution;
use crate::locks::LockArg;
use crate::signals::stop_on_signals;
use crate::talk::say;
use crate::{DeviceArg, Error, Exit};

/// A mechanism and, in a grid, the point: `topk:3, activation = relu`.
pub(crate) fn labelled(mechanism: &str, point: &[(String, String)]) -> String {
    if point.is_empty() { mechanism.to_owned() } else { format!("{mechanism}, {}", point_name(point)) }
}

/// The width of a column of mechanisms.
pub(crate) fn mechanism_width<'a>(names: impl Iterator<Item = &'a String>) -> usize {
    names.map(|name| name.chars().count()).max().unwrap_or(0).max("mechanism".len())
}

/// Says which trials are left out, and gives the models of the others.
pub(crate) fn announced(ChosenModels { models, skipped, .. }: ChosenModels) -> Vec<ModelRef> {
    skipped.iter().for_each(|skipped| say!("{skipped}"));
    models
}

/// What was measured on a model, as JSON.
#[derive(Serialize)]
pub(crate) struct Entry<R> {
    pub(crate) trial: PathBuf,
    pub(crate) mechanism: String,
    /// Values on the axes of the grid.
    pub(crate) point: Point,
    pub(crate) seed: u64,
    #[serde(flatten)]
    pub(crate) record: R,
    #[serde(skip)]
    pub(crate) settings: TrialSettings,
}

impl<R> Entry<R> {
    /// What is on record for a model.
    pub(crate) fn new(model: &ModelRef, record: Result<Option<R>, StoreError>) -> Result<Self, Error> {
        let ModelRef { folder, settings, point, .. } = model.clone();
        let record = record?.ok_or_else(|| format!("{} has no such record", folder.path().display()))?;
        let (trial, mechanism, seed) = (folder.path().to_owned(), settings.mechanism.clone(), settings.seed);
        Ok(Entry { trial, mechanism, point, seed, record, settings })
    }

    /// The first cells of its row in a table: mechanism and seed.
    pub(crate) fn names(&self) -> (String, String) {
        (self.mechanism.clone(), seed_name(self.seed).to_string())
    }
}

/// Which models, on the command line.
#[derive(Debug, ClapArgs)]
pub(crate) struct ModelArgs {
    /// Folders of runs or trials
    #[arg(required = true)]
    runs: Vec<PathBuf>,
    /// Use only the first N seeds of each mechanism of a run [default: 1 for landscape and sharpness, all for probe and evaluate]
    #[arg(long, value_name = "N")]
    seeds: Option<Count<1, 65_535>>,
    /// Use only these mechanisms of a run
    #[arg(long, value_name = "A,B,…")]
    mechanisms: Vec<MechanismList>,
    /// Use the model after its best epoch instead of the last
    #[arg(long)]
    best: bool,
    #[command(flatten)]
    pub(crate) device: DeviceArg,
    #[command(flatten)]
    lock: LockArg,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl ModelArgs {
    /// Which models are chosen; a measurement has its usual number of seeds.
    pub(crate) fn choice(&self, usual: ModelChoice) -> ModelChoice {
        let mechanisms = self.mechanisms.iter().flat_map(|list| &list.0).cloned().collect();
        ModelChoice { seeds: self.seeds.unwrap_or(usual.seeds), mechanisms, best: self.best }
    }

    /// Takes out the settings of data that stand among the folders, such as `data.length=80`.
    pub(crate) fn take_settings(&mut self) -> Vec<String> {
        let text = |path: &PathBuf| {
            path.to_str().filter(|text| text.starts_with("data.") && text.contains('=')).map(str::to_owned)
        };
        let settings = self.runs.iter().filter_map(text).collect();
        self.runs.retain(|path| text(path).is_none());
        settings
    }

    /// The chosen models. Trials of a run that diverged or have no checkpoint are skipped with a message. The exit code says whether
    /// damaged ones were left out.
    pub(crate) fn models(&self, lab: &Lab, choice: &ModelChoice) -> Result<(Vec<ModelRef>, Exit), Error> {
        let (mut chosen, mut exit) = (ChosenModels::default(), Exit::Done);
        for path in &self.runs {
            if Store::is_store(path) {
                chosen.of_run(lab, &Store::open(path)?, choice)?;
                let damage: Vec<Damage> = chosen.damage.drain(..).map(|error| Damage::from(&error)).collect();
                if left_out(path, &damage) != Exit::Done {
                    exit = Exit::SomeFailed;
                }
            } else {
                chosen.of_trial(TrialReader::find(path)?, choice)?;
            }
        }
        let models = announced(chosen);
        if models.is_empty() {
            return Err("no trial of these runs has a trained model: none has a checkpoint yet, or all diverged".into());
        }
        Ok((models, exit))
    }

    /// Measures with the device and the locks that are asked for. The exit code is the given one if nothing else is wrong.
    pub(crate) fn execute(
        &self,
        lab: &Lab,
        left_out: Exit,
        measure: impl FnOnce(&Execution<'_>) -> Result<Exit, Error>,
    ) -> Result<Exit, Error> {
        let (stop, locks) = (stop_on_signals()?, self.locks()?);
        let execution = Execution { lab, device: &self.device.device, locks: &locks, stop: &stop, is_quiet: false };
        Ok(match measure(&execution)? {
            Exit::Done => left_out,
            exit => exit,
        })
    }

    /// How the folders of the models are taken.
    fn locks(&self) -> Result<Locks, Error> {
        self.lock.locks(self.runs.iter().map(PathBuf::as_path).filter(|path| path.is_dir()))
    }
}
