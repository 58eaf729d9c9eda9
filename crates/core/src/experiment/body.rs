//! An experiment file as written: its keys and where they stand, nothing filled in.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use toml::Value;
use toml::de::{DeTable, DeValue};

use super::Scale;
use super::after::AfterLayer;
use super::error::{ExperimentError, Place, SourceText};
use super::expect::{self, Outcome};
use crate::names::{nearest, shortened};
use crate::settings::{self, Role};

/// A value and where it was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Given<T = Value> {
    pub(crate) value: T,
    pub(crate) place: Place,
}

impl<T> Given<T> {
    /// Converts the value and keeps the place.
    pub(crate) fn map<U>(self, read: impl FnOnce(T) -> Result<U, String>) -> Result<Given<U>, ExperimentError> {
        match read(self.value) {
            Ok(value) => Ok(Given { value, place: self.place }),
            Err(message) => Err(ExperimentError::new(message).at(&self.place)),
        }
    }
}

/// Mechanisms and what is expected of them.
pub(crate) type ExpectLines = Vec<(Given<String>, Vec<Outcome>)>;

/// The keys of a file, of one of its panels, of one of its scales, or of the command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Body {
    pub(crate) name: Option<Given<String>>,
    pub(crate) base: Option<Given<String>>,
    pub(crate) claim: Option<Given<String>>,
    pub(crate) figure: Option<Given<String>>,
    pub(crate) reduced: Vec<String>,
    pub(crate) changed: Vec<String>,
    pub(crate) notes: Vec<String>,
    /// Mechanisms and what is expected of them; the places are those of the mechanisms.
    pub(crate) expect: Option<ExpectLines>,
    /// What follows training.
    pub(super) after: AfterLayer,
    pub(crate) mechanisms: Option<Given<Vec<String>>>,
    /// Mechanisms that differ by block, as they are written in `mechanisms`.
    pub(crate) layers: Option<Given<Vec<String>>>,
    pub(crate) seeds: Option<Given<Vec<u64>>>,
    /// By path, known to the registry.
    pub(crate) settings: Vec<(&'static str, Given)>,
    pub(crate) grid: Vec<(&'static str, Given<Vec<Given>>)>,
    pub(crate) panels: BTreeMap<String, Body>,
    pub(crate) scales: BTreeMap<Scale, Body>,
}

/// Keys of an experiment that are not settings of a trial.
const KEYS: [&str; 12] =
    ["after", "base", "claim", "expect", "figure", "grid", "layers", "mechanisms", "name", "panel", "scale", "seeds"];

impl Body {
    /// Reads a file.
    pub(crate) fn parse(name: &str, text: &str) -> Result<Self, ExperimentError> {
        parse_toml(name, text, Body::read)
    }

    fn read(table: &DeTable<'_>, source: &Arc<SourceText>) -> Result<Self, ExperimentError> {
        let mut body = Body::default();
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            let place = Place::File(source.clone(), value.span());
            let key_place = Place::File(source.clone(), key.span());
            let name = key.get_ref().as_ref();
            let given = || Given { value: to_value(value.get_ref()), place: place.clone() };
            match (name, value.get_ref()) {
                ("name", _) => body.name = Some(given().map(plain_name)?),
                ("base", _) => body.base = Some(given().map(text)?),
                // Text may be broken into lines anywhere.
                ("claim", _) => {
                    let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
                    body.claim = Some(given().map(|value| text(value).map(words))?);
                }
                ("figure", _) => body.figure = Some(given().map(text)?),
                ("reduced", _) => body.reduced = given().map(texts)?.value,
                ("changed", _) => body.changed = given().map(texts)?.value,
                ("notes", _) => body.notes = given().map(texts)?.value,
                ("expect", DeValue::Table(lines)) => body.expect = Some(read_expect(lines, source)?),
                ("after", DeValue::Table(steps)) => body.after = AfterLayer::read(steps, source)?,
                ("mechanisms", _) => body.mechanisms = Some(given().map(texts)?),
                ("layers", _) => body.layers = Some(given().map(layers)?),
                ("seeds", _) => body.seeds = Some(given().map(seeds)?),
                ("grid", DeValue::Table(axes)) => body.read_grid(axes, "", source)?,
                ("panel", DeValue::Table(panels)) => {
                    for (name, panel) in panels.iter() {
                        let panel = Body::read(table_of(panel, source)?, source)?;
                        body.panels.insert(name.get_ref().to_string(), panel);
                    }
                }
                ("scale", DeValue::Table(scales)) => {
                    for (name, scale) in scales.iter() {
                        let key = Place::File(source.clone(), name.span());
                        let name: Scale =
                            Given { value: name.get_ref().to_string(), place: key }.map(|name| name.parse())?.value;
                        body.scales.insert(name, Body::read(table_of(scale, source)?, source)?);
                    }
                }
                ("expect", _) => {
                    let message = "`expect` is a table of mechanisms and outcomes";
                    return Err(ExperimentError::new(message)
                        .at(&place)
                        .help("write [expect] and below it a line such as \"topk:5\" = \"faster\""));
                }
                ("after" | "grid" | "panel" | "scale", _) => {
                    return Err(ExperimentError::new(format!("`{name}` is a table")).at(&place));
                }
                _ => body.read_setting(name, key_place, value, source)?,
            }
        }
        Ok(body)
    }

    /// A setting, or a table of settings.
    fn read_setting(
        &mut self,
        path: &str,
        key_place: Place,
        value: &toml::Spanned<DeValue<'_>>,
        source: &Arc<SourceText>,
    ) -> Result<(), ExperimentError> {
        match value.get_ref() {
            DeValue::Table(table) if settings::find(path).is_none() => {
                let prefix = format!("{path}.");
                if !settings::all().iter().any(|setting| setting.path.starts_with(&prefix)) {
                    return Err(unknown(path, &key_place));
                }
                for (key, value) in table.iter() {
                    let place = Place::File(source.clone(), key.span());
                    self.read_setting(&format!("{path}.{}", key.get_ref()), place, value, source)?;
                }
                Ok(())
            }
            value_inside => {
                let place = Place::File(source.clone(), value.span());
                self.set(path, &key_place, Given { value: to_value(value_inside), place })
            }
        }
    }

    /// Adds a setting after checking its value; `key` is where its name stands.
    pub(crate) fn set(&mut self, path: &str, key: &Place, given: Given) -> Result<(), ExperimentError> {
        let path = checked(path, key, &given)?;
        let alternative = settings::alternative(path);
        if let Some((other, _)) = self.settings.iter().find(|(other, _)| Some(*other) == alternative) {
            let message = format!("`{path}` and `{other}` both say how long to train");
            return Err(ExperimentError::new(message).at(key).help("give one of them"));
        }
        self.settings.retain(|(other, _)| *other != path);
        self.settings.push((path, given));
        Ok(())
    }

    fn read_grid(&mut self, axes: &DeTable<'_>, prefix: &str, source: &Arc<SourceText>) -> Result<(), ExperimentError> {
        let mut entries: Vec<_> = axes.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            let path = format!("{prefix}{}", key.get_ref());
            let (place, key_place) =
                (Place::File(source.clone(), value.span()), Place::File(source.clone(), key.span()));
            match value.get_ref() {
                DeValue::Table(axes) => self.read_grid(axes, &format!("{path}."), source)?,
                DeValue::Array(values) => {
                    let place_of = |span| Place::File(source.clone(), span);
                    let values = values
                        .iter()
                        .map(|value| Given { value: to_value(value.get_ref()), place: place_of(value.span()) });
                    self.add_axis(&path, &key_place, Given { value: values.collect(), place })?;
                }
                _ => {
                    let message = format!("`{path}` in a grid is a list of values, e.g. [1, 2]");
                    return Err(ExperimentError::new(message).at(&place));
                }
            }
        }
        Ok(())
    }

    /// Adds an axis of the grid after checking its values; `key` is where its name stands.
    pub(crate) fn add_axis(
        &mut self,
        path: &str,
        key: &Place,
        values: Given<Vec<Given>>,
    ) -> Result<(), ExperimentError> {
        if values.value.is_empty() {
            return Err(ExperimentError::new(format!("the list of values for `{path}` is empty")).at(&values.place));
        }
        let (mut known, mut seen) = (None, HashSet::new());
        for given in &values.value {
            known = Some(checked(path, key, given)?);
            if !seen.insert(given.value.to_string()) {
                return Err(ExperimentError::new("this value is in the list twice").at(&given.place));
            }
        }
        let path = known.expect("the list is not empty");
        let (reason, help) = match settings::find(path).map_or(Role::Result, |setting| setting.role) {
            Role::Duration => (
                "a longer trial begins with the shorter one",
                "train for the largest number of epochs; shorter training is part of it",
            ),
            Role::Record => ("all trials would have the same results", "give one value for all trials"),
            Role::Result => {
                self.settings.retain(|(other, _)| *other != path);
                self.grid.retain(|(other, _)| *other != path);
                self.grid.push((path, values));
                return Ok(());
            }
        };
        Err(ExperimentError::new(format!("`{path}` cannot be in a grid: {reason}")).at(key).help(help))
    }
}

/// Reads the table of a TOML file.
pub(super) fn parse_toml<T>(
    name: &str,
    text: &str,
    read: impl FnOnce(&DeTable<'_>, &Arc<SourceText>) -> Result<T, ExperimentError>,
) -> Result<T, ExperimentError> {
    let source = Arc::new(SourceText { name: name.to_owned(), text: text.to_owned() });
    let table = DeTable::parse(text).map_err(|error| {
        let place = Place::File(source.clone(), error.span().unwrap_or(0..0));
        ExperimentError::new(format!("this is not TOML: {}", error.message())).at(&place)
    })?;
    read(table.get_ref(), &source)
}

/// The lines of `[expect]`, in the order in which they are written.
fn read_expect(lines: &DeTable<'_>, source: &Arc<SourceText>) -> Result<ExpectLines, ExperimentError> {
    let mut entries: Vec<_> = lines.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    let read = |(key, value): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
        let key_place = Place::File(source.clone(), key.span());
        let mechanism = AsRef::<str>::as_ref(key.get_ref() as &std::borrow::Cow<'_, str>).to_owned();
        let given = Given { value: to_value(value.get_ref()), place: Place::File(source.clone(), value.span()) };
        let outcomes = given.map(expect::outcomes)?.value;
        Ok((Given { value: mechanism, place: key_place }, outcomes))
    };
    entries.into_iter().map(read).collect()
}

/// The path of a known setting, if the value is one it takes.
fn checked(path: &str, key: &Place, given: &Given) -> Result<&'static str, ExperimentError> {
    match path {
        "mechanism" => {
            return Err(ExperimentError::new("mechanisms are given together, as a list")
                .at(key)
                .help("write `mechanisms = [\"full\", \"topk:5\"]`, or --mechanisms full,topk:5"));
        }
        "seed" => {
            return Err(ExperimentError::new("seeds are given together")
                .at(key)
                .help("write `seeds = 3`, `seeds = [1, 2, 3]`, or --seeds 3"));
        }
        _ => {}
    }
    let setting = settings::find(path).ok_or_else(|| unknown(path, key))?;
    setting
        .set(&mut setting.scratch(), &given.value)
        .map_err(|wrong| ExperimentError::new(format!("`{path}`: {wrong}")).at(&given.place))?;
    Ok(setting.path)
}

fn unknown(path: &str, place: &Place) -> ExperimentError {
    // In a file these keys are read before.
    if KEYS.contains(&path) {
        let help = match path {
            "mechanisms" => "use --mechanisms full,topk:5",
            _ => "write it in an experiment file",
        };
        return ExperimentError::new(format!("`{path}` is not a setting of a trial")).at(place).help(help);
    }
    let error = ExperimentError::new(format!("unknown setting `{}`", shortened(path))).at(place);
    let names = settings::all().iter().map(|setting| setting.path).filter(|path| !["mechanism", "seed"].contains(path));
    let near = nearest(path, names.clone().chain(KEYS));
    // The settings of the innermost table that there is.
    let mut below: Vec<&str> = Vec::new();
    let mut inner = path;
    while let Some((table, _)) = inner.rsplit_once('.').filter(|_| below.is_empty()) {
        let is_in_it = |name: &str| name.strip_prefix(table).is_some_and(|rest| rest.starts_with('.'));
        below = names.clone().filter(|name| is_in_it(name)).collect();
        inner = table;
    }
    match near {
        Some(near) => error.help(format!("did you mean `{near}`?")),
        None if !below.is_empty() => error.help(format!("the settings here are {}", below.join(", "))),
        None => error.help("`semfocus list settings` shows all of them"),
    }
}

/// The table that a panel or a scale is.
fn table_of<'a, 'i>(
    value: &'a toml::Spanned<DeValue<'i>>,
    source: &Arc<SourceText>,
) -> Result<&'a DeTable<'i>, ExperimentError> {
    let place = Place::File(source.clone(), value.span());
    value.get_ref().as_table().ok_or_else(|| ExperimentError::new("expected a table").at(&place))
}

pub(crate) fn text(value: Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text),
        other => Err(format!("expected text in quotes, got {}", shortened(&other.to_string()))),
    }
}

/// A name that can be that of a folder, and of no other folder than one in `runs`.
pub(crate) fn plain_name(value: Value) -> Result<String, String> {
    let name = text(value)?;
    let is_plain = |letter: char| !letter.is_control() && !['/', '\\'].contains(&letter);
    if (1..=100).contains(&name.len()) && !name.starts_with('.') && name.chars().all(is_plain) {
        return Ok(name);
    }
    Err(format!("`{}` cannot be the name of a folder: use up to 100 letters, digits, `-` and `_`", shortened(&name)))
}

pub(crate) fn texts(value: Value) -> Result<Vec<String>, String> {
    let expected = "expected a list such as [\"full\", \"topk:5\"]";
    match value {
        Value::Array(values) => values.into_iter().map(|value| text(value).map_err(|_| expected.to_owned())).collect(),
        _ => Err(expected.to_owned()),
    }
}

/// One mechanism for each block as a list, or several such lists: `["topk:5", "full"]` means `topk:5/full`.
fn layers(value: Value) -> Result<Vec<String>, String> {
    let expected = "expected one mechanism for each block, such as [\"topk:5\", \"full\"], or a list of such lists";
    let one = |value: Value| {
        let blocks = texts(value).map_err(|_| expected.to_owned())?;
        match blocks.iter().find(|text| text.contains(['/', '@'])) {
            Some(text) => Err(format!("`{text}` is not the mechanism of one block")),
            None if blocks.is_empty() => Err(expected.to_owned()),
            None => Ok(blocks.join("/")),
        }
    };
    match value {
        Value::Array(lists) if lists.first().is_some_and(Value::is_array) => lists.into_iter().map(one).collect(),
        blocks => Ok(vec![one(blocks)?]),
    }
}

/// A number of seeds, or the seeds themselves.
pub(crate) fn seeds(value: Value) -> Result<Vec<u64>, String> {
    let expected = || "expected a number of seeds such as 3, or a list such as [1, 2, 3]".to_owned();
    match value {
        Value::Integer(count @ 1..=100_000) => Ok(crate::study::seeds(count as usize)),
        Value::Array(seeds) if !seeds.is_empty() => {
            let seed = |value: &Value| value.as_integer().and_then(|seed| u64::try_from(seed).ok());
            let seeds: Option<Vec<u64>> = seeds.iter().map(seed).collect();
            let seeds = seeds.ok_or_else(expected)?;
            let mut seen = HashSet::new();
            match seeds.iter().find(|seed| !seen.insert(**seed)) {
                Some(seed) => Err(format!("the seed {seed} is in the list twice")),
                None => Ok(seeds),
            }
        }
        _ => Err(expected()),
    }
}

/// A value without its places.
pub(super) fn to_value(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.to_string()),
        // No setting takes a number beyond the range of TOML; keep the text for the message.
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| Value::String(number.to_string()), Value::Integer),
        DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(flag) => Value::Boolean(*flag),
        DeValue::Datetime(time) => Value::Datetime(*time),
        DeValue::Array(values) => Value::Array(values.iter().map(|value| to_value(value.get_ref())).collect()),
        DeValue::Table(table) => {
            let entry = |(key, value): (&toml::Spanned<_>, &toml::Spanned<_>)| -> (String, Value) {
                (
                    AsRef::<str>::as_ref(key.get_ref() as &std::borrow::Cow<'_, str>).to_owned(),
                    to_value(value.get_ref()),
                )
            };
            Value::Table(table.iter().map(entry).collect())
        }
    }
}
