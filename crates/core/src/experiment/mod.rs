//! Experiments: which claim is tested, with which trials.
//!
//! An experiment is read in layers, and later layers override earlier ones: the study's settings for the task, the base that
//! the file names, the file, its panel, the scale, the command line. Every value remembers where it was written, so
//! that a message can show the place.

mod after;
mod command_line;
mod difference;
mod error;
mod expect;
mod growth;
mod layer;
mod paths;
mod presets;
mod profile;
mod source;

use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use toml::Value;

use crate::data::TEXT_TASK;
use crate::goal::Goal;
use crate::mechanism::{BASELINE, Schedule};
use crate::settings::{self, Role, Setting, TrialSettings};
use crate::spec::Parts;
use crate::study;
pub use after::After;
use command_line::command_line;
pub use difference::{Difference, Subject, in_words};
pub use error::ExperimentError;
pub use expect::{Expectation, Expected, Outcome};
use layer::Layer;
pub use presets::{Preset, presets};
pub use profile::SlurmProfile;
pub use source::Located;
use source::Place;

/// How much of a published experiment is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Minutes: fewer seeds and epochs, or smaller data.
    Quick,
    /// Between quick and full.
    Medium,
    /// As published; for the user's own file, exactly what it says.
    Full,
}

impl Scale {
    /// All scales, the smallest first.
    pub const ALL: [Scale; 3] = [Scale::Quick, Scale::Medium, Scale::Full];
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Scale::Quick => "quick",
            Scale::Medium => "medium",
            Scale::Full => "full",
        })
    }
}

impl FromStr for Scale {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Scale::ALL.into_iter().find(|scale| scale.to_string() == text);
        found.ok_or_else(|| format!("there is no scale `{text}`; choose quick, medium or full"))
    }
}

/// Maximum number of trials in an experiment.
const MAX_TRIALS: u128 = 50_000;

/// The names that a laboratory has. Experiments that are to be run are checked against it.
pub trait Names {
    /// The attention that a text names, in its usual spelling, or what is wrong with it.
    fn mechanism(&self, text: &str) -> Result<Schedule, String>;
    /// The usual spelling of a task, if this names one.
    fn task(&self, text: &str) -> Option<String>;
    /// The length of a task's sequences unless another is asked for, as it is written.
    fn default_length(&self, task: &str) -> Option<String>;
    /// The length of the longest sequence of a data file, if data files are read here, or why it cannot be used.
    fn longest_sequence(&self, file: &str) -> Result<Option<usize>, String>;
}

/// Accepts every mechanism that can be written: for reading experiments that were checked when they were run.
pub struct AnyName;

impl Names for AnyName {
    fn mechanism(&self, text: &str) -> Result<Schedule, String> {
        text.parse()
    }

    fn task(&self, _: &str) -> Option<String> {
        None
    }

    fn default_length(&self, _: &str) -> Option<String> {
        None
    }

    fn longest_sequence(&self, _: &str) -> Result<Option<usize>, String> {
        Ok(None)
    }
}

/// A request: an experiment and the changes from the command line.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Name of a preset, or path of a file.
    pub experiment: String,
    /// The scale; by default `quick` for a preset, and for a file exactly what it says.
    pub scale: Option<Scale>,
    /// Mechanisms in place of those of the experiment.
    pub mechanisms: Option<Vec<String>>,
    /// Number of seeds.
    pub seeds: Option<usize>,
    /// Number of epochs.
    pub epochs: Option<usize>,
    /// Further overrides, `key.sub=value`.
    pub overrides: Vec<String>,
    /// Run everything once, as small as possible, except for what the command line says.
    pub smoke: bool,
}

/// An experiment with all layers merged.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// Its name: that of the preset or of the file.
    pub name: String,
    /// What it is to show or refute.
    pub claim: String,
    /// The figure of the study it belongs to, if any.
    pub figure: Option<String>,
    /// What has to be reached, if not the usual training accuracy.
    pub target: Option<Goal>,
    /// Its scale.
    pub scale: Scale,
    /// What the scale makes different from the published experiment.
    pub reduced: Vec<Difference>,
    /// What the command line, and what the folder had before, make different from the preset or file.
    pub changed: Vec<Difference>,
    /// What has to be known about the trials before they are compared, in words; filled in when the experiment is run.
    pub notes: Vec<String>,
    /// The mechanisms that are compared.
    pub mechanisms: Vec<String>,
    /// The repetitions.
    pub seeds: Vec<u64>,
    /// What follows training.
    pub after: After,
    expect: Vec<Located<Expectation>>,
    settings: Vec<(&'static str, Located)>,
    grid: Vec<(&'static str, Located<Vec<Located>>)>,
    /// The experiment without the command line.
    written: Option<Box<Experiment>>,
    /// The settings that the command line changes, as parts of the name of a folder.
    name_parts: Vec<String>,
}

impl Experiment {
    /// Resolves a request: reads and merges all layers.
    pub fn resolve(request: &Request, names: &dyn Names) -> Result<Self, ExperimentError> {
        let (file_name, layers) = layers_of(&request.experiment, names)?;
        let is_preset = presets::find(&request.experiment).is_some();
        let scale = request.scale.unwrap_or(if is_preset { Scale::Quick } else { Scale::Full });
        let full = Experiment::merge(file_name.clone(), &layers, Scale::Full, names)?;
        // In a run that left mechanisms out, what was expected of them is still written.
        if full.changed.is_empty() && full.reduced.is_empty() {
            full.check_expectations()?;
        }
        let mut written = Experiment::merge(file_name, &layers, scale, names)?;
        written.update_differences(names)?;
        if is_preset {
            written.reduced = written.differences(&full, names)?;
        }
        let mut experiment = written.clone();
        if request.smoke {
            experiment.shrink();
        }
        let before = experiment.clone();
        experiment.apply(&command_line(request, names)?, names)?;
        experiment.check_size()?;
        experiment.name_parts = experiment.name_parts(&before, names)?;
        if experiment.task() != written.task() {
            experiment.forget_claim();
        }
        experiment.written = Some(Box::new(written));
        experiment.note_changes(names)?;
        Ok(experiment)
    }

    fn merge(name: String, layers: &[Layer], scale: Scale, names: &dyn Names) -> Result<Self, ExperimentError> {
        let mut experiment = Experiment {
            name,
            claim: String::new(),
            figure: None,
            target: None,
            scale,
            reduced: Vec::new(),
            changed: Vec::new(),
            notes: Vec::new(),
            expect: Vec::new(),
            mechanisms: vec!["full".to_owned(), "topk:5".to_owned()],
            seeds: study::SEEDS.to_vec(),
            after: After::default(),
            settings: Vec::new(),
            grid: Vec::new(),
            written: None,
            name_parts: Vec::new(),
        };
        for layer in layers {
            experiment.apply(layer, names)?;
        }
        let scales: Vec<&Layer> = layers.iter().filter_map(|layer| layer.scales.get(&scale)).collect();
        if scales.is_empty() && scale != Scale::Full {
            let help =
                format!("add a table [scale.{scale}] to it, or leave out --scale: a file runs exactly as written");
            return Err(ExperimentError::new(format!("`{}` has no scale `{scale}`", experiment.name)).help(help));
        }
        for layer in scales {
            experiment.apply(layer, names)?;
        }
        experiment.check_size()?;
        Ok(experiment)
    }

    /// What it is expected to show, line by line.
    pub fn expectations(&self) -> impl Iterator<Item = &Expectation> {
        self.expect.iter().map(|given| &given.value)
    }

    /// Refuses expectations about mechanisms that are not compared.
    fn check_expectations(&self) -> Result<(), ExperimentError> {
        for Located { value: Expectation { mechanism, .. }, place } in &self.expect {
            let error = |message: String| ExperimentError::new(message).at(place);
            if mechanism == BASELINE {
                let message = format!("`{BASELINE}` is what the others are compared with; nothing is expected of it");
                return Err(error(message));
            }
            if !self.mechanisms.contains(mechanism) {
                let message = format!("`{mechanism}` is not among the mechanisms of the experiment");
                let help = format!("add it to `mechanisms`, or expect something of {}", self.mechanisms.join(", "));
                return Err(error(message).help(help));
            }
        }
        Ok(())
    }

    /// Refuses more trials than anybody can have meant, before anything is done for each of them.
    fn check_size(&self) -> Result<(), ExperimentError> {
        let axes = self.grid.iter().map(|(_, given)| given.value.len());
        let sizes = axes.chain([self.mechanisms.len(), self.seeds.len()]);
        let trials = sizes.fold(1u128, |product, size| product.saturating_mul(size as u128));
        if trials <= MAX_TRIALS {
            return Ok(());
        }
        let message = format!("`{}` has {trials} trials, and a run has at most {MAX_TRIALS}", self.name);
        Err(ExperimentError::new(message).help("use fewer seeds, mechanisms or values in the grid, or several runs"))
    }

    /// Applies a layer. A single value replaces the list of values of a grid axis, and vice versa.
    fn apply(&mut self, layer: &Layer, names: &dyn Names) -> Result<(), ExperimentError> {
        let take = |mine: &mut String, given: &Option<Located<String>>| {
            if let Some(given) = given {
                mine.clone_from(&given.value);
            }
        };
        take(&mut self.name, &layer.name);
        take(&mut self.claim, &layer.claim);
        if let Some(figure) = &layer.figure {
            self.figure = Some(figure.value.clone());
        }
        if let Some(target) = &layer.target {
            self.target = Some(target.value);
        }
        fn take_all<T: Clone>(mine: &mut Vec<T>, given: &Vec<T>) {
            if !given.is_empty() {
                mine.clone_from(given);
            }
        }
        take_all(&mut self.reduced, &layer.reduced);
        take_all(&mut self.changed, &layer.changed);
        take_all(&mut self.notes, &layer.notes);
        if let Some(seeds) = &layer.seeds {
            self.seeds.clone_from(&seeds.value);
        }
        self.after.apply(&layer.after)?;
        if let Some(mechanisms) = &layer.mechanisms {
            self.mechanisms = checked_mechanisms(mechanisms, self.after.regions, names)?;
        }
        if let Some(Located { value: layers, place }) = &layer.layers {
            // Next to the mechanisms of the same file, or compared with full attention alone.
            let others = if layer.mechanisms.is_some() { self.mechanisms.clone() } else { vec![BASELINE.to_owned()] };
            let all = Located { value: [&others[..], layers].concat(), place: place.clone() };
            self.mechanisms = checked_mechanisms(&all, false, names)?;
        }
        if let Some(lines) = &layer.expect {
            self.expect = checked_expectations(lines, names)?;
        }
        for (path, given) in &layer.settings {
            self.set(path, given.clone());
        }
        for (path, values) in &layer.grid {
            self.settings.retain(|(other, _)| other != path);
            self.grid.retain(|(axis, _)| axis != path);
            self.grid.push((path, values.clone()));
        }
        Ok(())
    }

    /// Gives a setting a value in place of what said the same before.
    fn set(&mut self, path: &'static str, given: Located) {
        let alternative = settings::alternative(path);
        self.grid.retain(|(axis, _)| *axis != path);
        self.settings.retain(|(other, _)| *other != path && Some(*other) != alternative);
        self.settings.push((path, given));
    }

    /// Makes everything as small as possible but leaves nothing out: every mechanism and every point of the grid once.
    fn shrink(&mut self) {
        let place = Place::Option("--smoke".to_owned());
        self.seeds.truncate(1);
        self.after.shrink();
        let steps = self.is_given("training.evaluate_every").then_some(("training.evaluate_every", 2));
        for (path, value) in
            [("training.epochs", 1), ("data.train", 50), ("data.held_out", 25)].into_iter().chain(steps)
        {
            self.set(path, Located { value: Value::Integer(value), place: place.clone() });
        }
    }

    /// The axes of the grid: paths and values, in order.
    pub fn axes(&self) -> Vec<(&'static str, Vec<Value>)> {
        let values = |given: &Located<Vec<Located>>| given.value.iter().map(|given| given.value.clone()).collect();
        self.grid.iter().map(|(path, given)| (*path, values(given))).collect()
    }

    /// The experiment as a file that gives the same trials on any machine.
    pub fn to_toml(&self) -> String {
        let mut table = toml::Table::new();
        let mut put = |path: &str, value: Value| settings::insert(&mut table, path, value);
        let strings = |texts: &[String]| Value::Array(texts.iter().cloned().map(Value::String).collect());
        put("name", Value::String(self.name.clone()));
        put("claim", Value::String(self.claim.clone()));
        if let Some(figure) = &self.figure {
            put("figure", Value::String(figure.clone()));
        }
        if let Some(target) = &self.target {
            put("target", Value::String(target.to_string()));
        }
        let words = |differences: &[Difference]| differences.iter().map(ToString::to_string).collect();
        for (key, texts) in
            [("reduced", words(&self.reduced)), ("changed", words(&self.changed)), ("notes", self.notes.clone())]
        {
            if !texts.is_empty() {
                put(key, strings(&texts));
            }
        }
        if !self.expect.is_empty() {
            put("expect", Value::Table(self.expect_table()));
        }
        if let Some(after) = self.after.to_table() {
            put("after", Value::Table(after));
        }
        put("mechanisms", strings(&self.mechanisms));
        let seeds = self.seeds.iter().map(|seed| Value::Integer(i64::try_from(*seed).unwrap_or(i64::MAX)));
        put("seeds", Value::Array(seeds.collect()));
        for (path, given) in &self.settings {
            put(path, given.value.clone());
        }
        for (path, values) in self.axes() {
            put(&format!("grid.{path}"), Value::Array(values));
        }
        toml::to_string(&table).expect("a table of plain values can be written")
    }

    fn expect_table(&self) -> toml::Table {
        let mut table = toml::Table::new();
        for Expectation { mechanism, outcome } in self.expectations() {
            let outcome = Value::String(outcome.to_string());
            match table.entry(mechanism.clone()).or_insert_with(|| Value::Array(Vec::new())) {
                Value::Array(outcomes) => outcomes.push(outcome),
                _ => unreachable!("only lists are inserted"),
            }
        }
        table
    }

    /// Reads a file that [`to_toml`](Self::to_toml) wrote.
    pub fn from_toml(name: &str, text: &str) -> Result<Self, ExperimentError> {
        Experiment::merge(name.to_owned(), &[Layer::parse(name, text)?], Scale::Full, &AnyName)
    }

    /// How this experiment differs from another.
    pub fn differences(&self, other: &Experiment, names: &dyn Names) -> Result<Vec<Difference>, ExperimentError> {
        let mut differences = self.design_differences(other, names)?;
        let is_left_out = |expectation: &&Expectation| {
            self.mechanisms.contains(&expectation.mechanism) && !self.expectations().any(|own| own == *expectation)
        };
        let left_out: Vec<String> = other.expectations().filter(is_left_out).map(|e| format!("`{e}`")).collect();
        if !left_out.is_empty() {
            differences.push(Difference::new(Subject::Expectations(left_out.len()), "", left_out.join(", ")));
        }
        Ok(differences)
    }

    /// How what is run differs from another experiment, whatever is expected of it.
    pub fn design_differences(
        &self,
        other: &Experiment,
        names: &dyn Names,
    ) -> Result<Vec<Difference>, ExperimentError> {
        let mut differences = Vec::new();
        if self.seeds.len() != other.seeds.len() {
            differences.push(Difference::new(Subject::SeedCount, self.seeds.len(), other.seeds.len()));
        } else if self.seeds != other.seeds {
            let [here, there] = [&self.seeds, &other.seeds].map(|seeds| format!("{seeds:?}"));
            differences.push(Difference::new(Subject::Seeds, here, there));
        }
        let (here, there) = (&self.mechanisms, &other.mechanisms);
        if here.len() < there.len() && here.iter().all(|mechanism| there.contains(mechanism)) {
            differences.push(Difference::new(Subject::MechanismCount, here.len(), there.len()));
        } else if here != there {
            differences.push(Difference::new(Subject::Mechanisms, here.join(" "), there.join(" ")));
        }
        differences.extend(self.setting_differences(other, names)?);
        differences.extend(self.after.differences(&other.after));
        Ok(differences)
    }

    /// What was changed that the claim may depend on.
    pub fn changes_to_claim(&self) -> Vec<Difference> {
        self.changed.iter().filter(|difference| difference.concerns_claim()).cloned().collect()
    }

    /// How the settings of this experiment differ from those of another.
    pub fn setting_differences(
        &self,
        other: &Experiment,
        names: &dyn Names,
    ) -> Result<Vec<Difference>, ExperimentError> {
        let mut differences = Vec::new();
        let (mine, theirs) = (self.settings_at(&[], "full", 0)?, other.settings_at(&[], "full", 0)?);
        // Settings that only add records do not make a different experiment.
        for setting in settings::all().iter().filter(|setting| setting.role != Role::Record) {
            let (here, there) = (self.shown(setting, &mine, names), other.shown(setting, &theirs, names));
            if here != there {
                differences.push(Difference::new(Subject::Setting(setting.path), here, there));
            }
        }
        Ok(differences)
    }

    /// What a file says about the differences from another experiment may be older than what it says about the experiment. Gives
    /// the differences the present values, and drops those that are none any more.
    fn update_differences(&mut self, names: &dyn Names) -> Result<(), ExperimentError> {
        if self.reduced.is_empty() && self.changed.is_empty() {
            return Ok(());
        }
        let settings = self.settings_at(&[], "full", 0)?;
        let now = |Difference { subject, here, there }: Difference| {
            let here = match &subject {
                Subject::SeedCount => self.seeds.len().to_string(),
                Subject::Seeds => format!("{:?}", self.seeds),
                Subject::MechanismCount => self.mechanisms.len().to_string(),
                Subject::Mechanisms => self.mechanisms.join(" "),
                Subject::Setting(path) => {
                    settings::find(path).map_or(here, |setting| self.shown(setting, &settings, names))
                }
                _ => here,
            };
            (here != there).then_some(Difference { subject, here, there })
        };
        let changed: Vec<Difference> = self.changed.iter().cloned().filter_map(now).collect();
        // What was changed after it was reduced had the reduced value in between.
        let is_changed = |reduced: &Difference| self.changed.iter().any(|change| change.is_about_the_same(reduced));
        let reduced = self.reduced.iter().cloned();
        let reduced = reduced.filter_map(|old| if is_changed(&old) { Some(old) } else { now(old) }).collect();
        (self.reduced, self.changed) = (reduced, changed);
        Ok(())
    }

    /// The task, if one is given for all trials.
    fn task(&self) -> Option<&Value> {
        self.settings.iter().find(|(path, _)| *path == "task").map(|(_, given)| &given.value)
    }

    /// What was claimed, expected and published about another task says nothing about this one.
    fn forget_claim(&mut self) {
        self.claim.clear();
        self.expect.clear();
        self.reduced.clear();
        (self.figure, self.target) = (None, None);
    }

    /// A setting of the experiment in words: one value, or those of its axis.
    fn shown(&self, setting: &Setting, first: &TrialSettings, names: &dyn Names) -> String {
        let axis = self.axes().into_iter().find(|(path, _)| *path == setting.path);
        match axis.map(|(_, values)| Value::Array(values)).or_else(|| setting.get(first)) {
            // A text has its own number of examples.
            Some(_) if is_size(setting.path) && is_text(&first.task) && !self.is_given(setting.path) => {
                "all".to_owned()
            }
            Some(value) => value.to_string().replace('"', ""),
            // If no length is given, the task's default applies.
            None if setting.path == "data.length" => {
                names.default_length(&first.task).unwrap_or_else(|| "as usual".to_owned())
            }
            None => "none".to_owned(),
        }
    }

    /// Whether it learns from a text, and no setting says which.
    pub fn lacks_text(&self) -> bool {
        let is_about_text = |given: &Value| given.as_str().is_some_and(is_text);
        let in_grid = self.axes().into_iter().filter(|(path, _)| *path == "task").flat_map(|(_, tasks)| tasks);
        let mut tasks = self.task().cloned().into_iter().chain(in_grid);
        tasks.any(|task| is_about_text(&task)) && !self.is_given("data.train_file")
    }

    /// The points of the grid; one without axes if there is no grid.
    pub fn points(&self) -> Vec<Vec<(&'static str, Value)>> {
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
    pub fn settings_at(
        &self,
        point: &[(&'static str, Value)],
        mechanism: &str,
        seed: u64,
    ) -> Result<TrialSettings, ExperimentError> {
        let given = self.settings.iter().map(|(path, given)| (*path, &given.value));
        let axes = if point.is_empty() { self.axes() } else { Vec::new() };
        // Without a point, use the first value of each axis.
        let first: Vec<(&'static str, &Value)> =
            axes.iter().filter_map(|(path, values)| Some((*path, values.first()?))).collect();
        let here = point.iter().map(|(path, value)| (*path, value));
        let all: Vec<(&'static str, &Value)> = given.chain(first.iter().copied()).chain(here).collect();
        let task = all.iter().rev().find(|(path, _)| *path == "task").and_then(|(_, value)| value.as_str());
        // A data set in files of its own needs no other name than that of the experiment.
        let has_files = all.iter().any(|(path, _)| *path == "data.train_file");
        let task = task.or_else(|| has_files.then_some(self.name.as_str())).ok_or_else(|| {
            ExperimentError::new(format!("`{}` names no task", self.name)).help(
                "add a line such as `task = \"even-pairs\"` or `task = \"examples.csv\"`; `semfocus list tasks` shows the tasks",
            )
        })?;
        let mut settings = study::settings_of(task);
        for (path, value) in all.into_iter().filter(|(path, _)| *path != "task") {
            let setting = settings::find(path).expect("paths were checked when they were read");
            setting.set(&mut settings, value).map_err(|wrong| self.error(path, format!("`{path}`: {wrong}")))?;
        }
        settings.mechanism = mechanism.to_owned();
        settings.seed = seed;
        settings.check().map_err(|(path, wrong)| self.error(path, wrong))?;
        Ok(settings)
    }

    /// An error about a setting, with the place where the setting was given.
    pub fn error(&self, path: &str, message: String) -> ExperimentError {
        let error = ExperimentError::new(message);
        match self.place_of(path) {
            Some(place) => error.at(place),
            None => error,
        }
    }

    /// Whether the experiment gives a setting a value, or several in its grid.
    pub fn is_given(&self, path: &str) -> bool {
        self.place_of(path).is_some()
    }

    fn place_of(&self, path: &str) -> Option<&Place> {
        let setting = self.settings.iter().find(|(other, _)| *other == path).map(|(_, given)| &given.place);
        setting.or_else(|| self.grid.iter().find(|(axis, _)| *axis == path).map(|(_, given)| &given.place))
    }
}

/// The layers that a name or a path stands for: bases first.
fn layers_of(experiment: &str, names: &dyn Names) -> Result<(String, Vec<Layer>), ExperimentError> {
    let path = Path::new(experiment);
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
    let is_preset = presets::find(experiment).is_some();
    if !(experiment.contains(['/', '\\']) || extension.is_some() || (path.is_file() && !is_preset)) {
        return Ok((experiment.to_owned(), presets::layers(experiment)?));
    }
    let stem = path.file_stem().map_or_else(|| experiment.to_owned(), |stem| stem.to_string_lossy().into_owned());
    let is_data = extension.as_deref().is_some_and(|extension| DATA_FILES.contains(&extension));
    if is_data && path.exists() {
        return Ok((stem, vec![paths::data_file(path, names)?]));
    }
    let text = crate::file::read_text(path).map_err(|error| {
        let error = ExperimentError::new(format!("cannot read {experiment}: {error}"));
        error.help("give the path of an experiment file, or the name of a preset: `semfocus list experiments`")
    })?;
    let mut layer = Layer::parse(experiment, &text).map_err(|error| match extension.as_deref() {
        Some("toml") => error,
        _ => error.help(format!(
            "the name of an experiment file ends in .toml, that of a data file in .{}",
            DATA_FILES.join(", .")
        )),
    })?;
    paths::make_absolute(&mut layer, path.parent().unwrap_or(Path::new("")), names);
    if let Some(panel) = layer.panels.keys().next() {
        let message = format!("{experiment} has panels, such as `{panel}`, which only presets may have");
        return Err(ExperimentError::new(message).help("write one file for each of them"));
    }
    Ok((stem, presets::with_bases(layer)?))
}

/// Whether a task is that of learning from a text.
fn is_text(task: &str) -> bool {
    Parts::new(task).name == TEXT_TASK
}

/// Whether a setting says how many examples a split has.
fn is_size(path: &str) -> bool {
    ["data.train", "data.held_out", "data.test"].contains(&path)
}

/// How the names of data files end that are experiments on their own.
const DATA_FILES: [&str; 5] = ["csv", "tsv", "jsonl", "ndjson", "txt"];

/// The lines of `[expect]`, one expectation for each outcome.
fn checked_expectations(
    lines: &[(Located<String>, Vec<Outcome>)],
    names: &dyn Names,
) -> Result<Vec<Located<Expectation>>, ExperimentError> {
    let mut checked: Vec<Located<Expectation>> = Vec::new();
    for (Located { value: text, place }, outcomes) in lines {
        let error = |message: String| ExperimentError::new(message).at(place);
        let mechanism = names.mechanism(text).map_err(&error)?.to_string();
        if checked.iter().any(|given| given.value.mechanism == mechanism) {
            return Err(error(format!("`{mechanism}` is in the table twice")).help("give one list of outcomes"));
        }
        let expectation = |outcome: &Outcome| Expectation { mechanism: mechanism.clone(), outcome: *outcome };
        checked.extend(outcomes.iter().map(expectation).map(|value| Located { value, place: place.clone() }));
    }
    Ok(checked)
}

/// The mechanisms in their usual spelling, without duplicates. There may be none only if something else is computed.
fn checked_mechanisms(
    given: &Located<Vec<String>>,
    may_be_empty: bool,
    names: &dyn Names,
) -> Result<Vec<String>, ExperimentError> {
    let (mut checked, mut seen) = (Vec::new(), HashSet::new());
    for text in &given.value {
        let error = |message: String| ExperimentError::new(message).at(&given.place);
        let mechanism = names.mechanism(text).map_err(&error)?.to_string();
        if !seen.insert(mechanism.clone()) {
            return Err(error(format!("`{mechanism}` is in the list twice")));
        }
        checked.push(mechanism);
    }
    if checked.is_empty() && !may_be_empty {
        return Err(ExperimentError::new("no mechanism is given").at(&given.place));
    }
    Ok(checked)
}
