//! From an experiment to its trials.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use semfocus_core::{BASELINE, Experiment, ExperimentError, Point, TrialId, TrialSettings};
use semfocus_store::{Checkpoint, IndexEntry};
use semfocus_tasks::Source;

use crate::model::new_model;
use crate::relevance::refusal;
use crate::training::{Schedule, TrainingError, with_stored_weights};
use crate::{Device, Lab};

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
            // Data files are called by their names, wherever they are.
            task: match self.source.as_ref() {
                Source::Task(_) => task.clone(),
                Source::Own(own) => own.name.clone(),
            },
            mechanism: mechanism.clone(),
            seed: *seed,
            point: self.point.clone(),
        }
    }

    /// Training steps of all its epochs; data files with fewer examples than its settings ask for give fewer.
    pub fn steps(&self) -> usize {
        self.settings.training.epochs * Schedule::planned(&self.settings).steps_per_epoch
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

    /// Steps of an epoch, if they are the same in all trials and an epoch is something else than a pass over a fixed set of
    /// training examples.
    pub fn steps_per_epoch(&self) -> Option<usize> {
        let settings = self.trials.iter().map(|trial| &trial.settings);
        let is_usual = settings.clone().all(TrialSettings::is_epoch_a_pass);
        let mut steps = settings.map(|settings| Schedule::planned(settings).steps_per_epoch);
        let first = steps.next().filter(|_| !is_usual)?;
        steps.all(|other| other == first).then_some(first)
    }

    /// What a user should know about how data files were read.
    pub fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = Vec::new();
        for note in self.trials.iter().flat_map(|trial| trial.source.notes()) {
            if !notes.contains(note) {
                notes.push(note.clone());
            }
        }
        notes
    }

    /// The index of the run.
    pub fn index(&self) -> Vec<IndexEntry> {
        self.trials.iter().map(Trial::entry).collect()
    }
}

impl Lab {
    /// What has to be known before the trials are compared: mechanisms that act as full attention at the length of the data.
    pub fn notes(&self, plan: &Plan) -> Vec<String> {
        let mut notes: Vec<String> = Vec::new();
        for trial in &plan.trials {
            let length = trial.source.length(&trial.settings.data);
            let Ok(attention) = self.trial_attention(&trial.settings) else { continue };
            let mut note = |note: String| {
                if !notes.contains(&note) {
                    notes.push(note);
                }
            };
            for one in attention.all().flat_map(|attention| attention.attentions()) {
                let name = one.spec.to_string();
                if name != BASELINE && one.acts_as_full(length, trial.settings.model.visibility) {
                    note(format!(
                        "{name} keeps all keys of sequences of {length} tokens: it acts as full attention there"
                    ));
                }
            }
            let epochs = trial.settings.training.epochs;
            for (after, stage) in attention.stages().iter().filter(|(after, _)| *after >= epochs) {
                let mechanism = &trial.settings.mechanism;
                note(format!(
                    "{mechanism} never reaches {stage}: the trial has {epochs} epochs and the switch is after epoch {after}"
                ));
            }
        }
        notes
    }

    /// All trials of an experiment: mechanisms × points of the grid × seeds.
    pub fn plan(&self, experiment: &Experiment) -> Result<Plan, ExperimentError> {
        let mut sources: HashMap<String, Arc<Source>> = HashMap::new();
        let (mut trials, mut ids) = (Vec::new(), HashSet::new());
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
                    fill_in(self, experiment, &mut settings, &source)?;
                    if let Ok(attention) = self.trial_attention(&settings)
                        && let Some(reason) = refusal(&source, &attention)
                    {
                        return Err(experiment.error("task", reason));
                    }
                    let written = |value: &toml::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    let point = point.iter().map(|(path, value)| ((*path).to_owned(), written(value))).collect();
                    let trial = Trial { id: TrialId::new(&settings), settings, point, source };
                    if !ids.insert(trial.id) {
                        let message = format!("two points of the grid are the same trial: {}", trial.title());
                        return Err(ExperimentError::new(message));
                    }
                    trials.push(trial);
                }
            }
        }
        Ok(Plan { trials })
    }

    /// Whether stored weights fit the trials that start with them, before any of them begins.
    pub fn check_origin(&self, trials: &[Trial], stored: &Checkpoint) -> Result<(), TrainingError> {
        let mut seen = HashSet::new();
        for TrialSettings { mechanism, model, seed, training, .. } in trials.iter().map(|trial| &trial.settings) {
            let Some(origin) = training.from.filter(|_| seen.insert(format!("{mechanism} {model:?}"))) else {
                continue;
            };
            let settings =
                TrialSettings { mechanism: mechanism.clone(), model: model.clone(), ..TrialSettings::default() };
            let attention = self.trial_attention(&settings)?.stage(0).clone();
            let model = new_model(model, attention, *seed, None, &Device::cpu().plain())?;
            with_stored_weights(model.as_ref(), origin, stored.clone(), self)?;
        }
        Ok(())
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
    if let Source::Task(task) = source {
        settings.task = task.spec.to_string();
    }
    settings.model.vocabulary = source.vocabulary();
    settings.model.classes = source.classes();
    settings.model.pad_token = Some(usize::from(source.pad()));
}

/// The checksum of data files as it is written; none for a task.
fn checksum(source: &Source) -> Option<String> {
    source.checksum().map(|checksum| format!("{checksum:016x}"))
}

/// Fills in what follows from the task, and checks the settings against it.
fn fill_in(
    lab: &Lab,
    experiment: &Experiment,
    settings: &mut TrialSettings,
    source: &Source,
) -> Result<(), ExperimentError> {
    fit_to(settings, source);
    let attention = lab.trial_attention(settings).map_err(|wrong| {
        let path = if settings.training.evaluate_as.is_some() { "training.evaluate_as" } else { "mechanism" };
        experiment.error(path, wrong.to_string())
    })?;
    if let Some(text) = &mut settings.training.evaluate_as {
        // The usual spelling, so that two spellings are one trial.
        *text = attention.evaluation(0).to_string();
    }
    let examples = match source {
        Source::Task(task) => {
            task.check(&settings.data).map_err(|wrong| experiment.error("data.length", wrong.to_string()))?;
            settings.data.sizes.train
        }
        Source::Own(own) => {
            if settings.data.online {
                let message = format!(
                    "{} comes from a file, which has a fixed set of examples; new ones for every step can only be \
                     drawn from a task",
                    settings.task
                );
                return Err(experiment.error("data.online", message));
            }
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
            data.train.len()
        }
    };
    if let Some(steps) = settings.training.steps {
        let per_epoch = Schedule::new(settings, examples).steps_per_epoch;
        settings.training.epochs =
            whole_epochs(steps, per_epoch).map_err(|wrong| experiment.error("training.steps", wrong))?;
    }
    settings.model.validate().map_err(|wrong| ExperimentError::new(format!("the model: {wrong}")))
}

/// How many epochs some steps are. There is no record, and no checkpoint to grow from, in the middle of an epoch.
fn whole_epochs(steps: usize, per_epoch: usize) -> Result<usize, String> {
    let (epochs, rest) = (steps / per_epoch, steps % per_epoch);
    if rest == 0 {
        return Ok(epochs);
    }
    let (below, above) = (epochs * per_epoch, (epochs + 1) * per_epoch);
    let fitting = if below == 0 { above.to_string() } else { format!("{below} or {above}") };
    Err(format!(
        "{steps} steps are no whole number of epochs, which have {per_epoch} steps here; write {fitting}, or change \
         `training.evaluate_every`"
    ))
}

#[cfg(test)]
mod tests {
    use semfocus_core::experiment::presets;
    use semfocus_core::{Experiment, Request, Scale, study};

    use crate::Lab;

    #[test]
    fn every_preset_makes_a_plan_at_every_scale() {
        let names: Vec<String> = presets().iter().map(|preset| preset.name.clone()).collect();
        assert_eq!(names.len(), 9 + 3 + 3 + 6 + 5 + 3 + 4 + 4 + 10 * 4 + 2 + 5 * 4 + 4, "{names:?}");
        let lab = Lab::standard();
        for name in &names {
            let mut epochs = Vec::new();
            for scale in Scale::ALL {
                let request = Request { experiment: name.clone(), scale: Some(scale), ..Request::default() };
                let experiment = Experiment::resolve(&request, &lab).unwrap_or_else(|error| panic!("{name}: {error}"));
                let plan = lab.plan(&experiment).unwrap_or_else(|error| panic!("{name}: {error}"));
                assert!(!experiment.claim.is_empty(), "{name} says what it tests");
                let follows = experiment.after.regions || !experiment.after.measurements.is_empty();
                if experiment.mechanisms.is_empty() {
                    assert!(follows && plan.trials.is_empty(), "{name} follows from the theory");
                    continue;
                }
                assert_eq!(experiment.reduced.is_empty(), scale == Scale::Full, "{name} at {scale}");
                assert_eq!(experiment.mechanisms[0], "full", "{name} compares with full attention");
                if follows {
                    assert!(!experiment.after.shows.is_empty(), "{name} ends in a figure or table");
                } else {
                    epochs.push(plan.epochs());
                }
                if scale == Scale::Full {
                    let one_model = [140_439_608];
                    assert_eq!(experiment.seeds, if follows { &one_model[..] } else { &study::SEEDS[..] }, "{name}");
                    assert!(plan.trials.iter().all(|trial| trial.settings.training.stop_when.is_none()));
                }
                if name.starts_with("figure") {
                    assert!(experiment.figure.is_some());
                    assert!(plan.trials.iter().all(|trial| trial.settings.training.stop_when.is_none()));
                }
            }
            assert!(epochs.is_sorted_by(|one, next| one < next), "{name}: {epochs:?}");
        }
    }

    #[test]
    fn steps_become_epochs() {
        assert_eq!(super::whole_epochs(1200, 300), Ok(4));
        let wrong = |steps| super::whole_epochs(steps, 300).unwrap_err();
        assert!(wrong(1000).contains("which have 300 steps here; write 900 or 1200, or"), "{}", wrong(1000));
        assert!(wrong(299).contains("write 300, or"), "{}", wrong(299));
        let plan = |overrides: &[&str]| {
            let overrides = overrides.iter().map(|&text| text.to_owned()).collect();
            let request = Request { experiment: "parity".to_owned(), overrides, ..Request::default() };
            let lab = Lab::standard();
            lab.plan(&Experiment::resolve(&request, &lab).unwrap()).map_err(|error| error.to_string())
        };
        let size = |overrides: &[&str]| {
            let plan = plan(overrides).unwrap();
            (plan.trials[0].settings.training.epochs, plan.steps_per_epoch())
        };
        assert_eq!(size(&["data.train=1000", "training.steps=400"]), (10, None));
        assert_eq!(size(&["data.train=1000", "training.steps=400", "data.online=true"]), (10, Some(40)));
        assert_eq!(size(&["training.evaluate_every=50", "training.steps=400"]), (8, Some(50)));
        let wrong = plan(&["training.evaluate_every=50", "training.steps=420"]).unwrap_err();
        assert!(wrong.contains("`-s training.steps=420`: 420 steps are no whole number of epochs"), "{wrong}");
    }

    #[test]
    fn every_task_of_the_study_is_there_and_flip_flop_is_none_of_them() {
        let lab = Lab::standard();
        let is_of_the_study = |name: &&str| study::TASKS.iter().any(|(task, ..)| task == name);
        let (of_the_study, others): (Vec<&str>, Vec<&str>) =
            lab.tasks.iter().map(|task| task.name).partition(is_of_the_study);
        assert_eq!((of_the_study.len(), &others[..]), (study::TASKS.len(), &["flip-flop"][..]));
    }
}
