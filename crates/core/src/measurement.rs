//! Measurements of trained models. One value serves `[after]` in experiment files, `measure.toml`, the commands and the workers.
//!
//! A new measurement is a variant of [`Measurement`] with a struct of its options, which all have defaults.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::de::{self, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use toml::{Table, Value};

use crate::mechanism::split_list;
use crate::names::nearest;
use crate::settings::{self, Setting, TrialSettings};

/// What to measure on trained models, with all options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Measurement {
    /// What the attention does with its scores.
    Probe(Probe),
    /// The loss around the models.
    #[serde(rename = "landscape")]
    Surface(Surface),
    /// Eigenvalues and trace of the Hessian.
    Sharpness(Sharpness),
    /// Loss and accuracy on other data.
    Evaluate(Evaluate),
}

/// Which models of a run are measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelChoice {
    /// The first seeds of each mechanism.
    pub seeds: Count<1, 65_535>,
    /// Mechanisms; all of them if none is named.
    #[serde(deserialize_with = "mechanisms")]
    pub mechanisms: Vec<String>,
    /// The model after its best epoch instead of the last.
    pub best: bool,
}

impl ModelChoice {
    /// All mechanisms with their first seeds.
    const fn seeds(seeds: u32) -> Self {
        ModelChoice { seeds: Count(seeds), mechanisms: Vec::new(), best: false }
    }
}

/// Options of a probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// The models.
    #[serde(flatten)]
    pub models: ModelChoice,
    /// Training examples: the first ones.
    pub samples: Count<1>,
}

impl Default for Probe {
    fn default() -> Self {
        Probe { models: ModelChoice::seeds(65_535), samples: Count(200) }
    }
}

/// Options of a loss surface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Surface {
    /// The models.
    #[serde(flatten)]
    pub models: ModelChoice,
    /// Cells along each side of the grid.
    pub grid: Count<3, 501>,
    /// How far the grid extends, in units of the norm of the weights.
    pub range: Positive,
    /// Training examples: the first ones.
    pub samples: Count<1>,
    /// Whether dropout of the attention weights stays on, drawn afresh for every cell.
    pub attention_dropout: bool,
    /// Pairs of random directions.
    pub draws: Count<1, 1000>,
    /// How directions are chosen, unless they lead through given models.
    pub directions: Directions,
    /// Two checkpoint files of the trial, which lie at (1, 0) and (0, 1); or none.
    #[serde(deserialize_with = "paths")]
    pub through: Vec<PathBuf>,
    /// Seed of random directions.
    pub seed: u64,
}

impl Default for Surface {
    fn default() -> Self {
        Surface {
            models: ModelChoice::seeds(1),
            grid: Count(41),
            range: Positive(1.0),
            samples: Count(1000),
            attention_dropout: false,
            draws: Count(1),
            directions: Directions::Tensor,
            through: Vec::new(),
            seed: 1,
        }
    }
}

impl Surface {
    /// Whether the directions are random.
    pub fn is_random(&self) -> bool {
        self.through.is_empty() && self.directions != Directions::Path
    }
}

/// How the directions of a surface are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Directions {
    /// Random, with each parameter tensor scaled to the norm of its weights, as in the study.
    Tensor,
    /// Random, with the part of each unit scaled to the norm of that unit's weights.
    Filter,
    /// The two principal directions of the training path, from the models that probes saved.
    Path,
}

/// Options of the sharpness.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sharpness {
    /// The models.
    #[serde(flatten)]
    pub models: ModelChoice,
    /// Whether the models that probes saved during training are measured, too.
    pub along_training: bool,
    /// Training examples: the first ones.
    pub samples: Count<1>,
    /// How many of the largest eigenvalues are computed.
    pub eigenvalues: Count<1, 50>,
    /// Random vectors that the trace is estimated with.
    pub probes: Count<2, 10_000>,
    /// Single precision: faster, and accurate only to an order of magnitude.
    pub fast: bool,
}

impl Default for Sharpness {
    fn default() -> Self {
        Sharpness {
            models: ModelChoice::seeds(1),
            along_training: false,
            samples: Count(500),
            eigenvalues: Count(3),
            probes: Count(10),
            fast: false,
        }
    }
}

/// Options of an evaluation on other data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluate {
    /// The models.
    #[serde(flatten)]
    pub models: ModelChoice,
    /// Examples: the first ones of the held-out split.
    pub samples: Count<1>,
    /// Settings of the data in place of those of the trial: `length`, `seed` and others, without `data.` before their names.
    #[serde(deserialize_with = "data_settings")]
    pub data: Table,
}

impl Default for Evaluate {
    fn default() -> Self {
        Evaluate { models: ModelChoice::seeds(65_535), samples: Count(2000), data: Table::new() }
    }
}

impl Evaluate {
    /// Changes the data of a trial.
    pub fn apply(&self, settings: &mut TrialSettings) {
        for (path, value) in flat(&self.data) {
            let setting = data_setting(&path).expect("unknown settings were refused");
            setting.set(settings, value).expect("wrong values were refused");
        }
    }
}

/// What is wrong with an option of a measurement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}", help.as_ref().map_or_else(String::new, |help| format!("\nhelp: {help}")))]
pub struct WrongOption {
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl Measurement {
    /// The names of all measurements, in the order in which they are made.
    pub const NAMES: [&'static str; 4] = ["probe", "landscape", "sharpness", "evaluate"];

    /// The measurement with a name and the default options.
    pub fn new(name: &str) -> Option<Self> {
        match name {
            "probe" => Some(Measurement::Probe(Probe::default())),
            "landscape" => Some(Measurement::Surface(Surface::default())),
            "sharpness" => Some(Measurement::Sharpness(Sharpness::default())),
            "evaluate" => Some(Measurement::Evaluate(Evaluate::default())),
            _ => None,
        }
    }

    /// Its name, as in experiment files.
    pub fn name(&self) -> &'static str {
        match self {
            Measurement::Probe(_) => "probe",
            Measurement::Surface(_) => "landscape",
            Measurement::Sharpness(_) => "sharpness",
            Measurement::Evaluate(_) => "evaluate",
        }
    }

    /// Which models it is about.
    pub fn models(&self) -> &ModelChoice {
        match self {
            Measurement::Probe(Probe { models, .. })
            | Measurement::Surface(Surface { models, .. })
            | Measurement::Sharpness(Sharpness { models, .. })
            | Measurement::Evaluate(Evaluate { models, .. }) => models,
        }
    }

    /// Makes it as small as possible.
    pub fn shrink(&mut self) {
        match self {
            Measurement::Probe(probe) => probe.samples = Count(10),
            Measurement::Evaluate(evaluate) => evaluate.samples = Count(20),
            Measurement::Surface(surface) => (surface.grid, surface.samples) = (Count(5), Count(20)),
            Measurement::Sharpness(sharpness) => {
                (sharpness.samples, sharpness.probes, sharpness.eigenvalues) = (Count(4), Count(2), Count(1));
            }
        }
    }

    /// What is wrong with options that exclude each other.
    pub fn check(&self) -> Result<(), WrongOption> {
        let Measurement::Surface(surface) = self else { return Ok(()) };
        let message = match surface.through.len() {
            0 | 2 if surface.is_random() || surface.draws.get() == 1 => return Ok(()),
            0 | 2 => {
                "`draws` needs random directions: there is only one plane along the training path or through checkpoints"
            }
            _ => "`through` needs two checkpoint files",
        };
        Err(WrongOption { message: message.to_owned(), help: None })
    }

    /// The names and values of all its options.
    pub fn options(&self) -> Table {
        match Value::try_from(self) {
            Ok(Value::Table(mut named)) => match named.remove(self.name()) {
                Some(Value::Table(options)) => options,
                _ => unreachable!("the options of a measurement are a table"),
            },
            _ => unreachable!("a measurement is a table with its name as the key"),
        }
    }

    /// The options that differ from the defaults.
    pub fn changed_options(&self) -> Table {
        let usual = Measurement::new(self.name()).expect("it has a name of a measurement").options();
        self.options().into_iter().filter(|(name, value)| usual.get(name) != Some(value)).collect()
    }

    /// The options that differ from the defaults, those in tables of their own as `table.option`.
    pub fn changes(&self) -> Vec<(String, Value)> {
        let changed = self.changed_options();
        flat(&changed).into_iter().map(|(option, value)| (option, value.clone())).collect()
    }

    /// Gives an option a value. Options in a table of their own are written `table.option`.
    pub fn set(&mut self, option: &str, value: &Value) -> Result<(), WrongOption> {
        let mut options = self.options();
        let table = option.split_once('.').map(|(table, _)| table);
        let is_known =
            table.map_or(options.contains_key(option), |table| options.get(table).is_some_and(Value::is_table));
        if !is_known {
            let names = || options.keys().map(String::as_str);
            let help = match nearest(option, names()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("its options are {}", names().collect::<Vec<_>>().join(", ")),
            };
            let message = format!("`{}` has no option `{option}`", self.name());
            return Err(WrongOption { message, help: Some(help) });
        }
        settings::insert(&mut options, option, value.clone());
        let named = Value::Table(Table::from_iter([(self.name().to_owned(), Value::Table(options))]));
        *self = named.try_into().map_err(|error: toml::de::Error| {
            let reason = error.message().lines().next().unwrap_or_default();
            WrongOption { message: format!("`{option}`: {reason}"), help: None }
        })?;
        Ok(())
    }

    /// The measurement with a name and the options in a text: `samples=100 best`, or as on the command line, `--samples 100 --best`.
    pub fn read(name: &str, text: &str) -> Result<Self, WrongOption> {
        let wrong = |message| WrongOption { message, help: None };
        let mut measurement =
            Measurement::new(name).ok_or_else(|| wrong(format!("there is no measurement `{name}`")))?;
        let mut words = text.split_whitespace();
        while let Some(word) = words.next() {
            let word = word.trim_start_matches("--");
            let (option, value) = word.split_once('=').map_or((word, None), |(option, value)| (option, Some(value)));
            let option = option.replace('-', "_");
            let value = match (measurement.options().get(&option), value) {
                (Some(Value::Boolean(_)), None) => Value::Boolean(true),
                (Some(_), None) => plain_value(words.next().ok_or_else(|| wrong(format!("`{option}` has no value")))?),
                (_, value) => plain_value(value.unwrap_or_default()),
            };
            measurement.set(&option, &value)?;
        }
        measurement.check().map(|()| measurement)
    }

    /// These measurements, and of those `before` the ones whose names are not among them; in the order in which they are made.
    pub fn in_place_of(before: &[Self], now: &[Self]) -> Vec<Self> {
        let is_kept = |old: &&Self| !now.iter().any(|new| new.name() == old.name());
        let mut all: Vec<Self> = before.iter().filter(is_kept).chain(now).cloned().collect();
        Measurement::sort(&mut all);
        all
    }

    /// Puts measurements in the order in which they are made.
    pub(crate) fn sort(measurements: &mut [Self]) {
        measurements.sort_by_key(|measurement| Measurement::NAMES.iter().position(|name| *name == measurement.name()));
    }

    /// Measurements as a table of lists: one for each name, one entry for each measurement, with the options that differ from
    /// the defaults.
    pub fn to_table(measurements: &[Self]) -> Table {
        let mut table = Table::new();
        for measurement in measurements {
            let list = table.entry(measurement.name()).or_insert_with(|| Value::Array(Vec::new()));
            let list = list.as_array_mut().expect("only lists are inserted");
            list.push(Value::Table(measurement.changed_options()));
        }
        table
    }
}

/// A value as TOML. If it does not parse, it is text, so that shell users need no extra quotes.
pub(crate) fn plain_value(text: &str) -> Value {
    let table = format!("x = {text}").parse::<Table>().ok();
    table.and_then(|mut table| table.remove("x")).unwrap_or_else(|| Value::String(text.to_owned()))
}

/// A whole number from `MIN` to `MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Count<const MIN: u32, const MAX: u32 = { u32::MAX }>(u32);

impl<const MIN: u32, const MAX: u32> Count<MIN, MAX> {
    /// The number.
    pub fn get(self) -> usize {
        self.0 as usize
    }

    fn new(number: i64) -> Option<Self> {
        u32::try_from(number).ok().filter(|number| (MIN..=MAX).contains(number)).map(Count)
    }

    fn expected() -> String {
        if MAX == u32::MAX { format!("a number from {MIN}") } else { format!("a number from {MIN} to {MAX}") }
    }
}

impl<const MIN: u32, const MAX: u32> fmt::Display for Count<MIN, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<const MIN: u32, const MAX: u32> FromStr for Count<MIN, MAX> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.parse().ok().and_then(Self::new);
        number.ok_or_else(|| format!("expected {}", Self::expected()))
    }
}

impl<'de, const MIN: u32, const MAX: u32> Deserialize<'de> for Count<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number<const MIN: u32, const MAX: u32>;
        impl<const MIN: u32, const MAX: u32> Visitor<'_> for Number<MIN, MAX> {
            type Value = Count<MIN, MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&Count::<MIN, MAX>::expected())
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
                Count::new(number).ok_or_else(|| E::invalid_value(Unexpected::Signed(number), &self))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
                self.visit_i64(i64::try_from(number).unwrap_or(i64::MAX))
            }
        }
        deserializer.deserialize_u32(Number)
    }
}

/// A finite number above 0.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Positive(f64);

impl Positive {
    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl fmt::Display for Positive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TryFrom<f64> for Positive {
    type Error = &'static str;

    fn try_from(number: f64) -> Result<Self, Self::Error> {
        if number > 0.0 && number.is_finite() { Ok(Positive(number)) } else { Err("expected a number above 0") }
    }
}

impl From<Positive> for f64 {
    fn from(number: Positive) -> Self {
        number.0
    }
}

impl FromStr for Positive {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().unwrap_or(f64::NAN).try_into()
    }
}

/// A list, or the same as one text with commas.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a list such as [\"full\", \"topk:5\"]")]
enum List {
    Text(String),
    Entries(Vec<String>),
}

fn mechanisms<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(match List::deserialize(deserializer)? {
        List::Text(text) => split_list(&text),
        List::Entries(entries) => entries,
    })
}

/// The paths and values of a table of tables.
fn flat(table: &Table) -> Vec<(String, &Value)> {
    let mut entries = Vec::new();
    settings::flatten(table, "", &mut entries);
    entries
}

/// A setting of the data that a model can be evaluated with.
fn data_setting(name: &str) -> Option<&'static Setting> {
    let path = format!("data.{name}");
    let is_size = ["train", "held_out", "test", "online", "checksum"].contains(&name);
    settings::find(&path).filter(|setting| !is_size && !setting.is_file())
}

/// Settings of the data in their usual spelling.
fn data_settings<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Table, D::Error> {
    let (mut usual, mut scratch) = (Table::new(), TrialSettings::default());
    let given = Table::deserialize(deserializer)?;
    for (name, value) in flat(&given) {
        let setting = data_setting(&name).ok_or_else(|| {
            let names = settings::all().iter().filter_map(|setting| setting.path.strip_prefix("data."));
            let names: Vec<&str> = names.filter(|name| data_setting(name).is_some()).collect();
            de::Error::custom(format!(
                "a model cannot be evaluated with another `data.{name}`, only {}",
                names.join(", ")
            ))
        })?;
        setting.set(&mut scratch, value).map_err(de::Error::custom)?;
        settings::insert(&mut usual, &name, setting.get(&scratch).unwrap_or_else(|| value.clone()));
    }
    Ok(usual)
}

fn paths<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PathBuf>, D::Error> {
    Ok(match List::deserialize(deserializer)? {
        List::Text(text) => text.split(',').map(PathBuf::from).collect(),
        List::Entries(entries) => entries.into_iter().map(PathBuf::from).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_from_text_and_written_if_they_differ() {
        for text in ["samples=20 best mechanisms=full,topk:5", "--samples 20 --best --mechanisms=full,topk:5"] {
            let Measurement::Probe(probe) = Measurement::read("probe", text).unwrap() else { panic!("{text}") };
            assert_eq!((probe.samples.get(), probe.models.best), (20, true));
            assert_eq!(probe.models.mechanisms, ["full", "topk:5"]);
            let written = Measurement::Probe(probe).changed_options().to_string();
            assert_eq!(written, "best = true\nmechanisms = [\"full\", \"topk:5\"]\nsamples = 20\n");
        }
        let landscape = Measurement::read("landscape", "--attention-dropout --range 2 directions=filter").unwrap();
        let Measurement::Surface(surface) = &landscape else { panic!("{landscape:?}") };
        assert_eq!((surface.range.get(), surface.directions), (2.0, Directions::Filter));
        assert!(surface.attention_dropout);
        let Measurement::Evaluate(evaluate) = Measurement::read("evaluate", "data.length=80 data.seed=7").unwrap()
        else {
            panic!("it is an evaluation");
        };
        let mut settings = TrialSettings::default();
        evaluate.apply(&mut settings);
        assert_eq!((settings.data.length.unwrap().to_string(), settings.data.seed), ("80".to_owned(), Some(7)));
        for name in Measurement::NAMES {
            let usual = Measurement::new(name).unwrap();
            assert_eq!((usual.name(), usual.changed_options().len()), (name, 0));
            let mut small = usual.clone();
            small.shrink();
            assert_ne!(small, usual);
        }
    }

    #[test]
    fn wrong_options_are_refused_with_a_reason() {
        for (name, text, message) in [
            ("probe", "--smaples 20", "did you mean `samples`?"),
            ("probe", "samples=x", "invalid type: string \"x\", expected a number from 1"),
            ("probe", "samples=0", "invalid value: integer `0`, expected a number from 1"),
            ("probe", "--samples", "`samples` has no value"),
            ("probe", "device=cpu", "its options are best, mechanisms, samples, seeds"),
            ("landscape", "grid=502", "expected a number from 3 to 501"),
            ("landscape", "range=-1", "expected a number above 0"),
            ("landscape", "directions=north", "expected one of `tensor`, `filter`, `path`"),
            ("landscape", "directions=path draws=2", "`draws` needs random directions"),
            ("landscape", "through=a", "`through` needs two checkpoint files"),
            ("sharpness", "fast=3", "expected a boolean"),
            ("evaluate", "data.lenght=80", "a model cannot be evaluated with another `data.lenght`, only length, seed"),
            ("evaluate", "data.train=80", "another `data.train`"),
            ("evaluate", "data.length=1000000", "lengths go up to"),
            ("evaluate", "length=80", "`evaluate` has no option `length`"),
            ("regions", "", "there is no measurement `regions`"),
        ] {
            let error = Measurement::read(name, text).unwrap_err().to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_asked_for_replaces_what_has_the_same_name() {
        let read = |name, text| Measurement::read(name, text).unwrap();
        let before = [read("probe", "samples=5"), read("sharpness", ""), read("sharpness", "fast")];
        let now = [read("sharpness", "samples=7"), read("landscape", "")];
        let all = Measurement::in_place_of(&before, &now);
        assert_eq!(all, [before[0].clone(), now[1].clone(), now[0].clone()]);
    }
}
