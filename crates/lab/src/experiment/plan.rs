//! From an experiment to its trials.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use semfocus_kernels::{Key, fnv_1a};
use semfocus_tasks::{Source, Tasks};
use toml::Value;

use super::Experiment;
use super::error::ExperimentError;
use crate::settings::{self, TrialSettings};
use crate::study;

/// The name of a trial: a hash of its settings, written as 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TrialId(u64);

impl TrialId {
    /// The id of a trial with these settings.
    pub fn of(settings: &TrialSettings) -> Self {
        // FNV leaves similar texts with similar high bits; the key mixes them, so that a few digits tell trials apart.
        TrialId(Key::new(fnv_1a(settings.identity().bytes())).bits())
    }
}

impl fmt::Display for TrialId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for TrialId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u64::from_str_radix(text, 16).map(TrialId)
    }
}

/// One model to train.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Its name.
    pub id: TrialId,
    /// Its settings.
    pub settings: TrialSettings,
    /// Its values on the axes of the grid, in their order.
    pub point: Vec<(&'static str, Value)>,
    /// Where its examples come from.
    pub source: Arc<Source>,
}

impl Trial {
    /// The trial with these settings, such as those of a stored one; what follows from its task is filled in.
    pub fn of(mut settings: TrialSettings) -> Result<Self, String> {
        let source = Source::find(&settings.task, &Tasks::standard(), &settings.data.files)
            .map_err(|error| error.to_string())?;
        fit_to(&mut settings, &source);
        if settings.data_checksum != checksum(&source) {
            return Err(format!("{} has changed since the trial was trained", settings.task));
        }
        Ok(Trial { id: TrialId::of(&settings), settings, point: Vec::new(), source: Arc::new(source) })
    }

    /// Mechanism and seed, as a person would name it.
    pub fn title(&self) -> String {
        let mut title = self.settings.mechanism.clone();
        for (path, value) in &self.point {
            let name = path.rsplit('.').next().unwrap_or(path);
            title += &format!(" {name}={}", value.to_string().replace('"', ""));
        }
        title + &format!(" seed {}", self.settings.seed)
    }
}

/// Fills in what follows from where the examples come from.
fn fit_to(settings: &mut TrialSettings, source: &Source) {
    settings.model.vocabulary = source.vocabulary();
    settings.model.classes = source.classes();
    settings.model.pad_token = Some(usize::from(source.pad()));
}

/// The checksum of a data file as it is written; none for a task.
fn checksum(source: &Source) -> Option<String> {
    source.checksum().map(|checksum| format!("{checksum:016x}"))
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
}

impl Experiment {
    /// All trials: mechanisms × points of the grid × seeds.
    pub fn plan(&self) -> Result<Plan, ExperimentError> {
        let mut sources: HashMap<String, Arc<Source>> = HashMap::new();
        let mut trials: Vec<Trial> = Vec::new();
        for &seed in &self.seeds {
            for point in self.points() {
                for mechanism in &self.mechanisms {
                    let mut settings = self.settings_at(&point, mechanism, seed)?;
                    let source = match sources.get(&settings.task) {
                        Some(source) => source.clone(),
                        None => {
                            let source = Arc::new(self.source(&settings)?);
                            sources.insert(settings.task.clone(), source.clone());
                            source
                        }
                    };
                    self.fill_in(&mut settings, &source)?;
                    let point = point.iter().map(|(path, given)| (*path, given.clone())).collect();
                    trials.push(Trial { id: TrialId::of(&settings), settings, point, source });
                }
            }
        }
        Ok(Plan { trials })
    }

    /// The points of the grid; one without axes if there is no grid.
    fn points(&self) -> Vec<Vec<(&'static str, Value)>> {
        let mut points = vec![Vec::new()];
        for (path, values) in self.axes() {
            points = points
                .iter()
                .flat_map(|point| values.iter().map(move |value| [&point[..], &[(path, value.clone())]].concat()))
                .collect();
        }
        points
    }

    /// The settings of a trial: the study's for its task, then those of the experiment, then those of the point.
    pub(super) fn settings_at(
        &self,
        point: &[(&'static str, Value)],
        mechanism: &str,
        seed: u64,
    ) -> Result<TrialSettings, ExperimentError> {
        let given = self.settings.iter().map(|(path, given)| (*path, &given.value));
        let axes = self.axes();
        // Where no point is given, the first value of an axis stands for it.
        let first: Vec<(&'static str, &Value)> = axes
            .iter()
            .filter(|_| point.is_empty())
            .filter_map(|(path, values)| Some((*path, values.first()?)))
            .collect();
        let here = point.iter().map(|(path, value)| (*path, value));
        let all: Vec<(&'static str, &Value)> = given.chain(first.iter().copied()).chain(here).collect();
        let task = all.iter().rev().find(|(path, _)| *path == "task").and_then(|(_, value)| value.as_str());
        let task = task.ok_or_else(|| {
            ExperimentError::new(format!("`{}` names no task", self.name))
                .help("add a line such as `task = \"even-pairs\"`; `semfocus list tasks` shows the tasks")
        })?;
        let mut settings = study::settings_of(task);
        for (path, value) in all {
            let setting = settings::find(path).expect("paths were checked when they were read");
            setting.set(&mut settings, value).map_err(|wrong| self.error(path, format!("`{path}`: {wrong}")))?;
        }
        settings.mechanism = mechanism.to_owned();
        settings.seed = seed;
        settings.check().map_err(|(path, wrong)| self.error(path, wrong))?;
        Ok(settings)
    }

    fn source(&self, settings: &TrialSettings) -> Result<Source, ExperimentError> {
        Source::find(&settings.task, &Tasks::standard(), &settings.data.files)
            .map_err(|wrong| self.error("task", wrong.to_string()))
    }

    /// Fills in what follows from the task, and checks the settings against it.
    fn fill_in(&self, settings: &mut TrialSettings, source: &Source) -> Result<(), ExperimentError> {
        fit_to(settings, source);
        match source {
            Source::Task(task) => {
                settings.data.check(task).map_err(|wrong| self.error("data.length", wrong.to_string()))?;
            }
            Source::Own(own) => {
                let found = checksum(source);
                if settings.data_checksum.is_some() && settings.data_checksum != found {
                    let found = found.unwrap_or_default();
                    let message = format!("{} has the checksum {found}: it is another file", settings.task);
                    return Err(self.error("data.checksum", message));
                }
                settings.data_checksum = found;
                let data = own.dataset(&settings.data, settings.seed);
                if data.train.is_empty() || data.held_out.is_empty() {
                    let message = format!("{} has too few different sequences for two splits", settings.task);
                    return Err(self.error("task", message));
                }
            }
        }
        settings.model.validate().map_err(|wrong| ExperimentError::new(format!("the model: {wrong}")))
    }

    fn error(&self, path: &str, message: String) -> ExperimentError {
        let error = ExperimentError::new(message);
        match self.place_of(path) {
            Some(place) => error.at(place),
            None => error,
        }
    }
}
