//! From an experiment to its trials.

use std::collections::HashMap;
use std::sync::Arc;

use semfocus_core::{Experiment, ExperimentError, Point, TrialId, TrialSettings};
use semfocus_store::IndexEntry;
use semfocus_tasks::Source;

use crate::Lab;

/// One model to train.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Id: a hash of the settings.
    pub id: TrialId,
    /// All settings.
    pub settings: TrialSettings,
    /// Values on the axes of the grid.
    pub point: Point,
    /// Where its examples come from.
    pub source: Arc<Source>,
}

impl Trial {
    /// Its line in the index of a run.
    pub fn entry(&self) -> IndexEntry {
        let TrialSettings { task, mechanism, seed, training, .. } = &self.settings;
        IndexEntry {
            id: self.id,
            epochs: training.epochs,
            task: task.clone(),
            mechanism: mechanism.clone(),
            seed: *seed,
            point: self.point.clone(),
        }
    }

    /// Mechanism, values on the grid, and seed, as a person would name the trial.
    pub fn title(&self) -> String {
        self.entry().title()
    }
}

/// The trials of an experiment, in the order in which they are run: all mechanisms with the first seed, then all with the
/// second, so that whatever is finished can be compared.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The trials.
    pub trials: Vec<Trial>,
}

impl Plan {
    /// Epochs of all trials together.
    pub fn epochs(&self) -> usize {
        self.trials.iter().map(|trial| trial.settings.training.epochs).sum()
    }

    /// The index of the run.
    pub fn index(&self) -> Vec<IndexEntry> {
        self.trials.iter().map(Trial::entry).collect()
    }
}

impl Lab {
    /// All trials of an experiment: mechanisms × points of the grid × seeds.
    pub fn plan(&self, experiment: &Experiment) -> Result<Plan, ExperimentError> {
        let mut sources: HashMap<String, Arc<Source>> = HashMap::new();
        let mut trials = Vec::new();
        for &seed in &experiment.seeds {
            for point in experiment.points() {
                for mechanism in &experiment.mechanisms {
                    let mut settings = experiment.settings_at(&point, mechanism, seed)?;
                    let key = format!("{} {:?}", settings.task, settings.data.files);
                    let source = match sources.get(&key) {
                        Some(source) => source.clone(),
                        None => {
                            let source = self.source(&settings);
                            let source = source.map_err(|wrong| experiment.error("task", wrong.to_string()))?;
                            sources.entry(key).or_insert(Arc::new(source)).clone()
                        }
                    };
                    fill_in(experiment, &mut settings, &source)?;
                    let written = |value: &toml::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    let point = point.iter().map(|(path, value)| ((*path).to_owned(), written(value))).collect();
                    trials.push(Trial { id: TrialId::new(&settings), settings, point, source });
                }
            }
        }
        Ok(Plan { trials })
    }

    /// The trial with these settings, such as those of a stored one; what follows from its task is filled in.
    pub fn trial(&self, mut settings: TrialSettings) -> Result<Trial, String> {
        let source = self.source(&settings).map_err(|error| error.to_string())?;
        fit_to(&mut settings, &source);
        if settings.data_checksum != checksum(&source) {
            return Err(format!("{} has changed since the trial was trained", settings.task));
        }
        Ok(Trial { id: TrialId::new(&settings), settings, point: Vec::new(), source: Arc::new(source) })
    }
}

/// Fills in what follows from where the examples come from.
fn fit_to(settings: &mut TrialSettings, source: &Source) {
    settings.model.vocabulary = source.vocabulary();
    settings.model.classes = source.classes();
    settings.model.pad_token = Some(usize::from(source.pad()));
}

/// The checksum of data files as it is written; none for a task.
fn checksum(source: &Source) -> Option<String> {
    source.checksum().map(|checksum| format!("{checksum:016x}"))
}

/// Fills in what follows from the task, and checks the settings against it.
fn fill_in(experiment: &Experiment, settings: &mut TrialSettings, source: &Source) -> Result<(), ExperimentError> {
    fit_to(settings, source);
    match source {
        Source::Task(task) => {
            task.check(&settings.data).map_err(|wrong| experiment.error("data.length", wrong.to_string()))?;
        }
        Source::Own(own) => {
            let found = checksum(source);
            if settings.data_checksum.is_some() && settings.data_checksum != found {
                let found = found.unwrap_or_default();
                let message = format!("{} has the checksum {found}: it is another file", settings.task);
                return Err(experiment.error("data.checksum", message));
            }
            settings.data_checksum = found;
            // A file for each split gives the sizes that nobody asked for.
            let (sizes, all) = (&mut settings.data.sizes, source.default_sizes());
            for (path, size, all) in [
                ("data.train", &mut sizes.train, all.train),
                ("data.held_out", &mut sizes.held_out, all.held_out),
                ("data.test", &mut sizes.test, all.test),
            ] {
                if !experiment.is_given(path) {
                    *size = all;
                }
            }
            let data = own.dataset(&settings.data, settings.seed);
            if data.train.is_empty() || data.held_out.is_empty() {
                let message = format!("{} has too few different sequences for two splits", settings.task);
                return Err(experiment.error("task", message));
            }
        }
    }
    settings.model.validate().map_err(|wrong| ExperimentError::new(format!("the model: {wrong}")))
}

#[cfg(test)]
mod tests {
    use semfocus_core::experiment::presets;
    use semfocus_core::{Experiment, Request, Scale, study};

    use crate::Lab;

    #[test]
    fn every_preset_makes_a_plan_at_every_scale() {
        let names: Vec<String> = presets().iter().map(|preset| preset.name.clone()).collect();
        assert_eq!(names.len(), 8 + 3 + 6 + 5 + 4 + 4 + 10 * 4, "{names:?}");
        let lab = Lab::standard();
        for name in &names {
            let mut trials = Vec::new();
            for scale in Scale::ALL {
                let request = Request { experiment: name.clone(), scale: Some(scale), ..Request::default() };
                let experiment = Experiment::resolve(&request, &lab).unwrap_or_else(|error| panic!("{name}: {error}"));
                let plan = lab.plan(&experiment).unwrap_or_else(|error| panic!("{name}: {error}"));
                assert!(!experiment.claim.is_empty(), "{name} says what it tests");
                assert_eq!(experiment.reduced.is_empty(), scale == Scale::Full, "{name} at {scale}");
                assert_eq!(experiment.mechanisms[0], "full", "{name} compares with full attention");
                trials.push(plan.trials.len() * plan.epochs());
                if scale == Scale::Full {
                    assert_eq!(experiment.seeds, study::SEEDS);
                    assert!(plan.trials.iter().all(|trial| trial.settings.training.stop_when.is_none()));
                }
                if name.starts_with("figure") {
                    assert!(experiment.figure.is_some());
                    assert!(plan.trials.iter().all(|trial| trial.settings.training.stop_when.is_none()));
                }
            }
            assert!(trials[0] < trials[1] && trials[1] < trials[2], "{name}: {trials:?}");
        }
    }

    #[test]
    fn every_task_has_settings_of_the_study() {
        for task in Lab::standard().tasks.iter() {
            assert!(study::TASKS.iter().any(|(name, ..)| *name == task.name), "{}", task.name);
        }
    }
}
