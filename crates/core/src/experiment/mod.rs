//! Experiments: which claim is tested, with which trials.
//!
//! An experiment is read in layers, and later layers override earlier ones: the study's settings for the task, the base that
//! the file names, the file, its panel, the scale, the command line. Every value remembers where it was written, so
//! that a message can show the place.

mod after;
mod body;
mod command_line;
mod error;
mod expect;
mod growth;
mod paths;
mod presets;
mod profile;

use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use toml::Value;

use crate::mechanism::{BASELINE, Schedule};
use crate::settings::{self, Role, Setting, TrialSettings};
use crate::study;
pub use after::After;
use body::{Body, Given};
use command_line::command_line;
pub use error::ExperimentError;
use error::Place;
pub use expect::{Expectation, Expected, Outcome};
pub use presets::{Preset, presets};
pub use profile::{SlurmProfile, Written};

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
        found.ok_or_else(|| format!("there is no scale `{text}`; there are quick, medium and full"))
    }
}

/// Maximum number of trials in an experiment.
const MAX_TRIALS: u128 = 50_000;

/// The names that a laboratory knows. Experiments that are to be run are checked against it.
pub trait Known {
    /// The attention that a text names, in its usual spelling, or what is wrong with it.
    fn mechanism(&self, text: &str) -> Result<Schedule, String>;
    /// The usual spelling of a task, if this names one.
    fn task(&self, text: &str) -> Option<String>;
    /// The length of a task's sequences unless another is asked for, as it is written.
    fn default_length(&self, task: &str) -> Option<String>;
}

/// Accepts every mechanism that can be written: for reading experiments that were checked when they were run.
pub struct AnyName;

impl Known for AnyName {
    fn mechanism(&self, text: &str) -> Result<Schedule, String> {
        text.parse()
    }

    fn task(&self, _: &str) -> Option<String> {
        None
    }

    fn default_length(&self, _: &str) -> Option<String> {
        None
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
    /// Its scale.
    pub scale: Scale,
    /// What the scale makes different from the published experiment, in words.
    pub reduced: Vec<String>,
    /// What the command line, and what the folder had before, make different from the preset or file, in words.
    pub changed: Vec<String>,
    /// What has to be known about the trials before they are compared, in words; filled in when the experiment is run.
    pub notes: Vec<String>,
    /// The mechanisms that are compared.
    pub mechanisms: Vec<String>,
    /// The repetitions.
    pub seeds: Vec<u64>,
    /// What follows training.
    pub after: After,
    expect: Vec<Given<Expectation>>,
    settings: Vec<(&'static str, Given)>,
    grid: Vec<(&'static str, Given<Vec<Given>>)>,
    /// The experiment without the command line.
    written: Option<Box<Experiment>>,
    /// The settings that the command line changes, as parts of the name of a folder.
    name_parts: Vec<String>,
}

impl Experiment {
    /// Resolves a request: reads and merges all layers.
    pub fn resolve(request: &Request, known: &dyn Known) -> Result<Self, ExperimentError> {
        let (file_name, layers) = layers_of(&request.experiment, known)?;
        let is_preset = presets::find(&request.experiment).is_some();
        let scale = request.scale.unwrap_or(if is_preset { Scale::Quick } else { Scale::Full });
        let full = Experiment::merge(file_name.clone(), &layers, Scale::Full, known)?;
        full.check_expectations()?;
        let mut written = Experiment::merge(file_name, &layers, scale, known)?;
        if is_preset {
            written.reduced = written.differences(&full, known)?;
        }
        let mut experiment = written.clone();
        if request.smoke {
            experiment.shrink();
        }
        let before = experiment.clone();
        experiment.apply(&command_line(request, known)?, known)?;
        experiment.check_size()?;
        experiment.name_parts = experiment.name_parts(&before, known)?;
        experiment.written = Some(Box::new(written));
        experiment.note_changes(known)?;
        Ok(experiment)
    }

    fn merge(name: String, layers: &[Body], scale: Scale, known: &dyn Known) -> Result<Self, ExperimentError> {
        let mut experiment = Experiment {
            name,
            claim: String::new(),
            figure: None,
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
        for body in layers {
            experiment.apply(body, known)?;
        }
        let scales: Vec<&Body> = layers.iter().filter_map(|body| body.scales.get(&scale)).collect();
        if scales.is_empty() && scale != Scale::Full {
            let help =
                format!("add a table [scale.{scale}] to it, or leave out --scale: a file runs exactly as written");
            return Err(ExperimentError::new(format!("`{}` has no scale `{scale}`", experiment.name)).help(help));
        }
        for body in scales {
            experiment.apply(body, known)?;
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
        for Given { value: Expectation { mechanism, .. }, place } in &self.expect {
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
    fn apply(&mut self, body: &Body, known: &dyn Known) -> Result<(), ExperimentError> {
        let take = |mine: &mut String, given: &Option<Given<String>>| {
            if let Some(given) = given {
                mine.clone_from(&given.value);
            }
        };
        take(&mut self.name, &body.name);
        take(&mut self.claim, &body.claim);
        if let Some(figure) = &body.figure {
            self.figure = Some(figure.value.clone());
        }
        for (mine, given) in
            [(&mut self.reduced, &body.reduced), (&mut self.changed, &body.changed), (&mut self.notes, &body.notes)]
        {
            if !given.is_empty() {
                mine.clone_from(given);
            }
        }
        if let Some(seeds) = &body.seeds {
            self.seeds.clone_from(&seeds.value);
        }
        self.after.apply(&body.after)?;
        if let Some(mechanisms) = &body.mechanisms {
            self.mechanisms = checked_mechanisms(mechanisms, self.after.regions, known)?;
        }
        if let Some(Given { value: layers, place }) = &body.layers {
            // Next to the mechanisms of the same file, or compared with full attention alone.
            let others = if body.mechanisms.is_some() { self.mechanisms.clone() } else { vec![BASELINE.to_owned()] };
            let all = Given { value: [&others[..], layers].concat(), place: place.clone() };
            self.mechanisms = checked_mechanisms(&all, false, known)?;
        }
        if let Some(lines) = &body.expect {
            self.expect = checked_expectations(lines, known)?;
        }
        for (path, given) in &body.settings {
            self.set(path, given.clone());
        }
        for (path, values) in &body.grid {
            self.settings.retain(|(other, _)| other != path);
            self.grid.retain(|(axis, _)| axis != path);
            self.grid.push((path, values.clone()));
        }
        Ok(())
    }

    /// Gives a setting a value in place of what said the same before.
    fn set(&mut self, path: &'static str, given: Given) {
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
            self.set(path, Given { value: Value::Integer(value), place: place.clone() });
        }
    }

    /// The axes of the grid: paths and values, in order.
    pub fn axes(&self) -> Vec<(&'static str, Vec<Value>)> {
        let values = |given: &Given<Vec<Given>>| given.value.iter().map(|given| given.value.clone()).collect();
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
        for (key, texts) in [("reduced", &self.reduced), ("changed", &self.changed), ("notes", &self.notes)] {
            if !texts.is_empty() {
                put(key, strings(texts));
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
        Experiment::merge(name.to_owned(), &[Body::parse(name, text)?], Scale::Full, &AnyName)
    }

    /// How this experiment differs from another, in words.
    pub fn differences(&self, other: &Experiment, known: &dyn Known) -> Result<Vec<String>, ExperimentError> {
        let mut words = self.design_differences(other, known)?;
        let is_left_out = |expectation: &&Expectation| {
            self.mechanisms.contains(&expectation.mechanism) && !self.expectations().any(|own| own == *expectation)
        };
        let left_out: Vec<String> = other.expectations().filter(is_left_out).map(|e| format!("`{e}`")).collect();
        if !left_out.is_empty() {
            let verb = if left_out.len() == 1 { "is" } else { "are" };
            words.push(format!("{} {verb} not asked", left_out.join(", ")));
        }
        Ok(words)
    }

    /// How what is run differs from another experiment, whatever is expected of it, in words.
    pub fn design_differences(&self, other: &Experiment, known: &dyn Known) -> Result<Vec<String>, ExperimentError> {
        let mut words = Vec::new();
        let (here, there) = (self.seeds.len(), other.seeds.len());
        if here != there {
            words.push(format!("{here} seed{} instead of {there}", if here == 1 { "" } else { "s" }));
        } else if self.seeds != other.seeds {
            words.push(format!("seeds {:?} instead of {:?}", self.seeds, other.seeds));
        }
        words.extend(self.differences_in_trials(other, known)?);
        words.extend(self.after.differences(&other.after));
        Ok(words)
    }

    /// What was changed that the claim may depend on. More epochs or seeds only make it easier to answer.
    pub fn changes_to_claim(&self) -> Vec<&str> {
        // Such as `training.epochs 20 instead of 10`, or `6 seeds instead of 5`.
        let amounts = ["training.epochs", "training.steps", "seed", "seeds"];
        let is_amount = |words: &str| words.split(' ').take(2).any(|word| amounts.contains(&word));
        let is_step = |words: &str| after::names().any(|name| words.starts_with(&format!("{name} ")));
        self.changed.iter().map(String::as_str).filter(|words| !is_amount(words) && !is_step(words)).collect()
    }

    /// Differences in mechanisms and settings, in words.
    fn differences_in_trials(&self, other: &Experiment, known: &dyn Known) -> Result<Vec<String>, ExperimentError> {
        let mut words = Vec::new();
        if self.mechanisms.len() < other.mechanisms.len()
            && self.mechanisms.iter().all(|m| other.mechanisms.contains(m))
        {
            let (here, there) = (self.mechanisms.len(), other.mechanisms.len());
            words.push(format!("{here} mechanism{} instead of {there}", if here == 1 { "" } else { "s" }));
        } else if self.mechanisms != other.mechanisms {
            words.push(format!("mechanisms {} instead of {}", self.mechanisms.join(" "), other.mechanisms.join(" ")));
        }
        words.extend(self.setting_differences(other, known)?);
        Ok(words)
    }

    /// How the settings of this experiment differ from those of another, in words.
    pub fn setting_differences(&self, other: &Experiment, known: &dyn Known) -> Result<Vec<String>, ExperimentError> {
        let mut words = Vec::new();
        let (mine, theirs) = (self.settings_at(&[], "full", 0)?, other.settings_at(&[], "full", 0)?);
        // Settings that only add records do not make a different experiment.
        for setting in settings::all().iter().filter(|setting| setting.role != Role::Record) {
            let (here, there) = (self.shown(setting, &mine, known), other.shown(setting, &theirs, known));
            if here != there {
                words.push(format!("{} {here} instead of {there}", setting.path));
            }
        }
        Ok(words)
    }

    /// A setting of the experiment in words: one value, or those of its axis.
    fn shown(&self, setting: &Setting, first: &TrialSettings, known: &dyn Known) -> String {
        let axis = self.axes().into_iter().find(|(path, _)| *path == setting.path);
        match axis.map(|(_, values)| Value::Array(values)).or_else(|| setting.get(first)) {
            Some(value) => value.to_string().replace('"', ""),
            // If no length is given, the task's default applies.
            None if setting.path == "data.length" => {
                known.default_length(&first.task).unwrap_or_else(|| "as usual".to_owned())
            }
            None => "none".to_owned(),
        }
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
fn layers_of(experiment: &str, known: &dyn Known) -> Result<(String, Vec<Body>), ExperimentError> {
    let path = Path::new(experiment);
    let is_path = experiment.contains(['/', '\\']) || path.extension().is_some_and(|extension| extension == "toml");
    if !is_path {
        return Ok((experiment.to_owned(), presets::layers(experiment)?));
    }
    let text = crate::file::read_text(path).map_err(|error| {
        let error = ExperimentError::new(format!("cannot read {experiment}: {error}"));
        error.help("give the path of an experiment file, or the name of a preset: `semfocus list experiments`")
    })?;
    let mut body = Body::parse(experiment, &text)?;
    paths::make_absolute(&mut body, path.parent().unwrap_or(Path::new("")), known);
    if let Some(panel) = body.panels.keys().next() {
        let message = format!("{experiment} has panels, such as `{panel}`, which only presets may have");
        return Err(ExperimentError::new(message).help("write one file for each of them"));
    }
    let stem = path.file_stem().map_or_else(|| experiment.to_owned(), |stem| stem.to_string_lossy().into_owned());
    Ok((stem, presets::with_bases(body)?))
}

/// The lines of `[expect]`, one expectation for each outcome.
fn checked_expectations(
    lines: &[(Given<String>, Vec<Outcome>)],
    known: &dyn Known,
) -> Result<Vec<Given<Expectation>>, ExperimentError> {
    let mut checked: Vec<Given<Expectation>> = Vec::new();
    for (Given { value: text, place }, outcomes) in lines {
        let error = |message: String| ExperimentError::new(message).at(place);
        let mechanism = known.mechanism(text).map_err(&error)?.to_string();
        if checked.iter().any(|given| given.value.mechanism == mechanism) {
            return Err(error(format!("`{mechanism}` is in the table twice")).help("give one list of outcomes"));
        }
        let expectation = |outcome: &Outcome| Expectation { mechanism: mechanism.clone(), outcome: *outcome };
        checked.extend(outcomes.iter().map(expectation).map(|value| Given { value, place: place.clone() }));
    }
    Ok(checked)
}

/// The mechanisms in their usual spelling, without duplicates. There may be none only if something else is computed.
fn checked_mechanisms(
    given: &Given<Vec<String>>,
    may_be_empty: bool,
    known: &dyn Known,
) -> Result<Vec<String>, ExperimentError> {
    let (mut checked, mut seen) = (Vec::new(), HashSet::new());
    for text in &given.value {
        let error = |message: String| ExperimentError::new(message).at(&given.place);
        let mechanism = known.mechanism(text).map_err(&error)?.to_string();
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
