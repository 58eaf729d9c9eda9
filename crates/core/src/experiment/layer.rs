//! A layer of an experiment as written: its keys and where they stand, nothing filled in.

use std::collections::{BTreeMap, HashSet};

use toml::Value;

use super::Scale;
use super::after::AfterLayer;
use super::difference::Difference;
use super::error::ExperimentError;
use super::expect::{self, Outcome};
use super::source::{Entry, Located, Node, Place, for_each, parse_toml};
use crate::goal::Goal;
use crate::names::{nearest, shortened};
use crate::settings::{self, Role};
use crate::spec::{is_key, is_name};

/// Mechanisms and what is expected of them.
pub(crate) type ExpectLines = Vec<(Located<String>, Vec<Outcome>)>;

/// The keys of a file, of one of its panels, of one of its scales, or of the command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layer {
    pub(crate) name: Option<Located<String>>,
    pub(crate) base: Option<Located<String>>,
    pub(crate) claim: Option<Located<String>>,
    pub(crate) figure: Option<Located<String>>,
    pub(crate) target: Option<Located<Goal>>,
    pub(crate) reduced: Vec<Difference>,
    pub(crate) changed: Vec<Difference>,
    pub(crate) notes: Vec<String>,
    /// Mechanisms and what is expected of them; the places are those of the mechanisms.
    pub(crate) expect: Option<ExpectLines>,
    /// What follows training.
    pub(super) after: AfterLayer,
    pub(crate) mechanisms: Option<Located<Vec<String>>>,
    /// Mechanisms that differ by block, as they are written in `mechanisms`.
    pub(crate) layers: Option<Located<Vec<String>>>,
    pub(crate) seeds: Option<Located<Vec<u64>>>,
    /// By path, known to the registry.
    pub(crate) settings: Vec<(&'static str, Located)>,
    pub(crate) grid: Vec<(&'static str, Located<Vec<Located>>)>,
    pub(crate) panels: BTreeMap<String, Layer>,
    pub(crate) scales: BTreeMap<Scale, Layer>,
}

/// Keys of an experiment that are not settings of a trial.
const KEYS: [&str; 13] = [
    "after",
    "base",
    "claim",
    "expect",
    "figure",
    "grid",
    "layers",
    "mechanisms",
    "name",
    "panel",
    "scale",
    "seeds",
    "target",
];

impl Layer {
    /// Reads a file.
    pub(crate) fn parse(name: &str, text: &str) -> Result<Self, ExperimentError> {
        parse_toml(name, text, Layer::read)
    }

    fn read(entries: Vec<Entry<'_>>) -> Result<Self, ExperimentError> {
        let mut layer = Layer::default();
        for_each(entries, |entry| layer.read_entry(entry))?;
        Ok(layer)
    }

    fn read_entry(&mut self, Entry { name, key, node }: Entry<'_>) -> Result<(), ExperimentError> {
        let located = || node.located();
        match (name, node.table()) {
            ("name", _) => self.name = Some(located().map(plain_name)?),
            ("base", _) => self.base = Some(located().map(text)?),
            // Text may be broken into lines anywhere.
            ("claim", _) => {
                let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
                self.claim = Some(located().map(|value| text(value).map(words))?);
            }
            ("figure", _) => self.figure = Some(located().map(text)?),
            ("target", _) => self.target = Some(located().map(|value| text(value)?.parse())?),
            ("reduced", _) => self.reduced = node.read(differences)?,
            ("changed", _) => self.changed = node.read(differences)?,
            ("notes", _) => self.notes = node.read(texts)?,
            ("expect", Some(lines)) => self.expect = Some(read_expect(lines)?),
            ("after", Some(steps)) => self.after = AfterLayer::read(steps)?,
            ("mechanisms", _) => self.mechanisms = Some(located().map(texts)?),
            ("layers", _) => self.layers = Some(located().map(layers)?),
            ("seeds", _) => self.seeds = Some(located().map(seeds)?),
            ("grid", Some(axes)) => self.read_grid(axes, "")?,
            ("panel", Some(panels)) => {
                for Entry { name, node, .. } in panels {
                    self.panels.insert(name.to_owned(), Layer::read(table_of(node)?)?);
                }
            }
            ("scale", Some(scales)) => {
                for Entry { name, key, node } in scales {
                    let scale = Located { value: name, place: key }.map(str::parse::<Scale>)?.value;
                    self.scales.insert(scale, Layer::read(table_of(node)?)?);
                }
            }
            ("expect", None) => {
                let help = "write [expect] and below it a line such as \"topk:5\" = \"faster\"";
                return Err(node.error("`expect` is a table of mechanisms and outcomes").help(help));
            }
            ("after" | "grid" | "panel" | "scale", None) => {
                return Err(node.error(format!("`{name}` is a table")));
            }
            _ => self.read_setting(name, key, node)?,
        }
        Ok(())
    }

    /// A setting, or a table of settings.
    fn read_setting(&mut self, path: &str, key: Place, node: Node<'_>) -> Result<(), ExperimentError> {
        match node.table() {
            Some(entries) if settings::find(path).is_none() => {
                let prefix = format!("{path}.");
                if !settings::all().iter().any(|setting| setting.path.starts_with(&prefix)) {
                    return Err(unknown_table(path, &key));
                }
                for_each(entries, |Entry { name, key, node }| self.read_setting(&format!("{path}.{name}"), key, node))
            }
            _ => self.set(path, &key, node.located()),
        }
    }

    /// Adds a setting after checking its value; `key` is where its name stands.
    pub(crate) fn set(&mut self, path: &str, key: &Place, given: Located) -> Result<(), ExperimentError> {
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

    fn read_grid(&mut self, axes: Vec<Entry<'_>>, prefix: &str) -> Result<(), ExperimentError> {
        for_each(axes, |Entry { name, key, node }| {
            let path = format!("{prefix}{name}");
            match (node.table(), node.list()) {
                (Some(axes), _) => self.read_grid(axes, &format!("{path}.")),
                (_, Some(values)) => {
                    let value = values.iter().map(Node::located).collect();
                    self.add_axis(&path, &key, Located { value, place: node.place() })
                }
                _ => Err(node.error(format!("`{path}` in a grid is a list of values, e.g. [1, 2]"))),
            }
        })
    }

    /// Adds an axis of the grid after checking its values; `key` is where its name stands.
    pub(crate) fn add_axis(
        &mut self,
        path: &str,
        key: &Place,
        values: Located<Vec<Located>>,
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

/// The lines of `[expect]`, in the order in which they are written.
fn read_expect(lines: Vec<Entry<'_>>) -> Result<ExpectLines, ExperimentError> {
    let read = |Entry { name, key, node }: Entry<'_>| {
        Ok((Located { value: name.to_owned(), place: key }, node.read(expect::outcomes)?))
    };
    lines.into_iter().map(read).collect()
}

/// The path of a known setting, if the value is one it takes.
fn checked(path: &str, key: &Place, given: &Located) -> Result<&'static str, ExperimentError> {
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
        None if path.split_once('.').is_some_and(|(mechanism, key)| is_name(mechanism) && is_key(key)) => {
            let help = "values of a mechanism belong to its name: mechanisms = [\"full\", \"topk:1\", \"topk:2\"]";
            error.help(help)
        }
        None => error.help("`semfocus list settings` shows all of them"),
    }
}

/// The error for a table that is not one of settings.
fn unknown_table(path: &str, place: &Place) -> ExperimentError {
    let tables = settings::all().iter().filter_map(|setting| setting.path.rsplit_once('.'));
    // `[train]` is meant to be `[training]`, whatever is nearest by the letters alone.
    let mut near = tables.map(|(table, _)| table).filter(|table| table.starts_with(path));
    match near.next() {
        Some(near) => ExperimentError::new(format!("unknown table `{}`", shortened(path)))
            .at(place)
            .help(format!("did you mean `[{near}]`?")),
        None => unknown(path, place),
    }
}

/// The table that a panel or a scale is.
fn table_of(node: Node<'_>) -> Result<Vec<Entry<'_>>, ExperimentError> {
    node.table().ok_or_else(|| node.error("expected a table"))
}

/// Differences from another experiment, which files have in words.
fn differences(value: Value) -> Result<Vec<Difference>, String> {
    let words = texts(value)?;
    Ok(words
        .iter()
        .map(|words| words.parse().unwrap_or_else(|never: std::convert::Infallible| match never {}))
        .collect())
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
