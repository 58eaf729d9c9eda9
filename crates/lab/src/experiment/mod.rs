//! Experiments: which claim is tested, with which trials.
//!
//! An experiment is read in layers, of which a later one overrides an earlier: the study's settings for the task, the base
//! that the file names, the file, its panel, the scale, the command line. Every value remembers where it was written, so
//! that a message can show the place.

mod body;
mod error;
mod plan;
mod presets;

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use toml::Value;

use crate::settings::{self, Role, Setting, TrialSettings};
use body::{Body, Given};
pub use error::ExperimentError;
use error::Place;
pub use plan::{Plan, Trial, TrialId};
pub use presets::{Preset, presets};

/// How much of a published experiment is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Minutes: fewer seeds and epochs, or smaller data.
    Quick,
    /// In between.
    Medium,
    /// As published; a file of one's own as it is written.
    Full,
}

impl Scale {
    /// All of them.
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

/// What is asked for: an experiment and the changes of the command line.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Name of a preset, or path of a file.
    pub experiment: String,
    /// The scale; without one, `quick` for a preset and the file as it is written for any other.
    pub scale: Option<Scale>,
    /// Mechanisms in place of those of the experiment.
    pub mechanisms: Option<Vec<String>>,
    /// Number of seeds.
    pub seeds: Option<usize>,
    /// Number of epochs.
    pub epochs: Option<usize>,
    /// Further overrides, `key.sub=value`.
    pub overrides: Vec<String>,
    /// Everything once, tiny.
    pub smoke: bool,
}

/// An experiment with all layers taken together.
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
    /// Whether it was asked for by more than its name and scale.
    pub is_changed: bool,
    /// What is different from the full scale of the same preset, in words.
    pub reduced: Vec<String>,
    /// The mechanisms that are compared.
    pub mechanisms: Vec<String>,
    /// The repetitions.
    pub seeds: Vec<u64>,
    mechanisms_place: Option<Place>,
    settings: Vec<(&'static str, Given)>,
    grid: Vec<(&'static str, Given<Vec<Given>>)>,
}

impl Experiment {
    /// Reads what is asked for.
    pub fn resolve(request: &Request) -> Result<Self, ExperimentError> {
        let (file_name, layers) = layers_of(&request.experiment)?;
        let is_preset = presets::find(&request.experiment).is_some();
        let scale = request.scale.unwrap_or(if is_preset { Scale::Quick } else { Scale::Full });
        let full = Experiment::merge(file_name.clone(), &layers, Scale::Full)?;
        let mut experiment = Experiment::merge(file_name, &layers, scale)?;
        let options = command_line(request)?;
        experiment.is_changed = !options.settings.is_empty() || options.mechanisms.is_some() || options.seeds.is_some();
        experiment.apply(&options)?;
        if request.smoke {
            experiment.shrink();
        }
        if is_preset {
            experiment.reduced = experiment.differences(&full)?;
        }
        Ok(experiment)
    }

    fn merge(name: String, layers: &[Body], scale: Scale) -> Result<Self, ExperimentError> {
        let mut experiment = Experiment {
            name,
            claim: String::new(),
            figure: None,
            scale,
            is_changed: false,
            reduced: Vec::new(),
            mechanisms: vec!["full".to_owned(), "topk:5".to_owned()],
            seeds: crate::study::SEEDS.to_vec(),
            mechanisms_place: None,
            settings: Vec::new(),
            grid: Vec::new(),
        };
        for body in layers {
            experiment.apply(body)?;
        }
        let scales: Vec<&Body> = layers.iter().filter_map(|body| body.scales.get(&scale)).collect();
        if scales.is_empty() && scale != Scale::Full {
            let help =
                format!("add a table [scale.{scale}] to it, or leave --scale away: a file runs as it is written");
            return Err(ExperimentError::new(format!("`{}` has no scale `{scale}`", experiment.name)).help(help));
        }
        for body in scales {
            experiment.apply(body)?;
        }
        Ok(experiment)
    }

    /// Lets a layer override what is there. A single value takes the place of a list of values in the grid, and the other
    /// way round.
    fn apply(&mut self, body: &Body) -> Result<(), ExperimentError> {
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
        if !body.reduced.is_empty() {
            self.reduced.clone_from(&body.reduced);
        }
        if let Some(seeds) = &body.seeds {
            self.seeds.clone_from(&seeds.value);
        }
        if let Some(mechanisms) = &body.mechanisms {
            self.mechanisms = checked_mechanisms(mechanisms)?;
            self.mechanisms_place = Some(mechanisms.place.clone());
        }
        for (path, given) in &body.settings {
            self.grid.retain(|(axis, _)| axis != path);
            self.settings.retain(|(other, _)| other != path);
            self.settings.push((path, given.clone()));
        }
        for (path, values) in &body.grid {
            self.settings.retain(|(other, _)| other != path);
            self.grid.retain(|(axis, _)| axis != path);
            self.grid.push((path, values.clone()));
        }
        Ok(())
    }

    /// Makes everything as small as it can be and still be everything: every mechanism and point of the grid once.
    fn shrink(&mut self) {
        let place = Place::Option("--smoke".to_owned());
        self.seeds.truncate(1);
        for (path, value) in [("training.epochs", 1), ("data.train", 50), ("data.held_out", 25)] {
            self.grid.retain(|(axis, _)| *axis != path);
            self.settings.retain(|(other, _)| *other != path);
            self.settings.push((path, Given { value: Value::Integer(value), place: place.clone() }));
        }
        self.is_changed = true;
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
        if !self.reduced.is_empty() {
            put("reduced", strings(&self.reduced));
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

    /// The file that [`to_toml`](Self::to_toml) wrote.
    pub fn from_toml(name: &str, text: &str) -> Result<Self, ExperimentError> {
        Experiment::merge(name.to_owned(), &[Body::parse(name, text)?], Scale::Full)
    }

    /// In words, how this one differs from another.
    pub(crate) fn differences(&self, other: &Experiment) -> Result<Vec<String>, ExperimentError> {
        let mut words = Vec::new();
        let (here, there) = (self.seeds.len(), other.seeds.len());
        if here != there {
            words.push(format!("{here} seed{} instead of {there}", if here == 1 { "" } else { "s" }));
        } else if self.seeds != other.seeds {
            words.push(format!("seeds {:?} instead of {:?}", self.seeds, other.seeds));
        }
        if self.mechanisms.len() < other.mechanisms.len()
            && self.mechanisms.iter().all(|m| other.mechanisms.contains(m))
        {
            let (here, there) = (self.mechanisms.len(), other.mechanisms.len());
            words.push(format!("{here} mechanism{} instead of {there}", if here == 1 { "" } else { "s" }));
        } else if self.mechanisms != other.mechanisms {
            words.push(format!("mechanisms {} instead of {}", self.mechanisms.join(" "), other.mechanisms.join(" ")));
        }
        let (mine, theirs) = (self.settings_at(&[], "full", 0)?, other.settings_at(&[], "full", 0)?);
        // What is recorded makes no other experiment.
        for setting in settings::all().iter().filter(|setting| setting.role != Role::Record) {
            let (here, there) = (self.shown(setting, &mine), other.shown(setting, &theirs));
            if here != there {
                words.push(format!("{} {here} instead of {there}", setting.path));
            }
        }
        Ok(words)
    }

    /// A setting of the experiment in words: one value, or those of its axis.
    fn shown(&self, setting: &Setting, first: &TrialSettings) -> String {
        let axis = self.axes().into_iter().find(|(path, _)| *path == setting.path);
        match axis.map(|(_, values)| Value::Array(values)).or_else(|| setting.get(first)) {
            Some(value) => value.to_string().replace('"', ""),
            // The length of a task is not written down where it is the task's own.
            None if setting.path == "data.length" => own_length(&first.task),
            None => "none".to_owned(),
        }
    }

    fn place_of(&self, path: &str) -> Option<&Place> {
        self.settings.iter().find(|(other, _)| *other == path).map(|(_, given)| &given.place)
    }
}

/// The layers that a name or a path stands for: bases first.
fn layers_of(experiment: &str) -> Result<(String, Vec<Body>), ExperimentError> {
    let path = Path::new(experiment);
    let is_path = experiment.contains(['/', '\\']) || path.extension().is_some_and(|extension| extension == "toml");
    if !is_path {
        return Ok((experiment.to_owned(), presets::layers(experiment)?));
    }
    let text = std::fs::read_to_string(path).map_err(|error| {
        let error = ExperimentError::new(format!("cannot read {experiment}: {error}"));
        error.help("give the path of an experiment file, or the name of a preset: `semfocus list experiments`")
    })?;
    let body = Body::parse(experiment, &text)?;
    if let Some(panel) = body.panels.keys().next() {
        let message = format!("{experiment} has panels, such as `{panel}`, which only presets may have");
        return Err(ExperimentError::new(message).help("write one file for each of them"));
    }
    let stem = path.file_stem().map_or_else(|| experiment.to_owned(), |stem| stem.to_string_lossy().into_owned());
    Ok((stem, presets::with_bases(body)?))
}

/// The layer of the command line.
fn command_line(request: &Request) -> Result<Body, ExperimentError> {
    let mut body = Body::default();
    for text in &request.overrides {
        let place = Place::Option(format!("-s {text}"));
        let Some((path, value)) = text.split_once('=') else {
            return Err(ExperimentError::new("an override is written key=value").at(&place));
        };
        let (path, value) = (path.trim(), value.trim());
        // What is no TOML value is text: nobody writes the quotes twice for the shell.
        let value = format!("x = {value}").parse::<toml::Table>().ok().and_then(|mut table| table.remove("x"));
        let value =
            value.unwrap_or_else(|| Value::String(text.split_once('=').unwrap_or_default().1.trim().to_owned()));
        let given = Given { value, place: place.clone() };
        match path {
            "seeds" => body.seeds = Some(given.map(body::seeds)?),
            _ => body.set(path, &place, given)?,
        }
    }
    if let Some(mechanisms) = &request.mechanisms {
        let place = Place::Option(format!("--mechanisms {}", mechanisms.join(",")));
        body.mechanisms = Some(Given { value: mechanisms.clone(), place });
    }
    if let Some(seeds) = request.seeds {
        let place = Place::Option(format!("--seeds {seeds}"));
        body.seeds = Some(Given { value: Value::Integer(seeds as i64), place }.map(body::seeds)?);
    }
    if let Some(epochs) = request.epochs {
        let place = Place::Option(format!("--epochs {epochs}"));
        body.set("training.epochs", &place, Given { value: Value::Integer(epochs as i64), place: place.clone() })?;
    }
    Ok(body)
}

/// The mechanisms as they are usually written, each once.
fn checked_mechanisms(given: &Given<Vec<String>>) -> Result<Vec<String>, ExperimentError> {
    let registry = semfocus_nn::Registry::standard();
    let mut checked: Vec<String> = Vec::new();
    for text in &given.value {
        let error = |message: String| ExperimentError::new(message).at(&given.place);
        let mechanism = registry.parse(text).map_err(|wrong| error(wrong.to_string()))?.spec.to_string();
        if checked.contains(&mechanism) {
            return Err(error(format!("`{mechanism}` is in the list twice")));
        }
        checked.push(mechanism);
    }
    if checked.is_empty() {
        return Err(ExperimentError::new("no mechanism is given").at(&given.place));
    }
    Ok(checked)
}

fn own_length(task: &str) -> String {
    let registry = semfocus_tasks::Tasks::standard();
    registry.get(task).map_or_else(|| "the file's".to_owned(), |task| task.default_length.to_string())
}
