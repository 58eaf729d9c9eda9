//! `[after]`: what is measured on the trained models when all trials are over, and which figures or tables the run is made for.
//! `measure.toml` has the same form.

use toml::Value;

use super::difference::{Difference, Subject};
use super::error::ExperimentError;
use super::layer::texts;
use super::source::{Entry, Located, Node, Place, for_each, parse_toml};
use crate::measurement::{Measurement, WrongOption};
use crate::names::nearest;

/// Draws the regions in which the conditions of the theory hold, which needs no trained models.
pub(super) const REGIONS: &str = "regions";

/// The names of everything that can follow training.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    Measurement::NAMES.into_iter().chain([REGIONS])
}

/// Options of a measurement, as they are given.
type Options = Vec<(String, Located)>;

/// The measurements of one kind in a layer.
#[derive(Clone, Debug, PartialEq)]
enum Steps {
    /// Options for all measurements of the kind that earlier layers ask for, or for a new one.
    Change(Measurement, Options),
    /// Measurements in place of those of earlier layers.
    Replace(String, Vec<Measurement>),
}

/// What a layer says about `[after]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct AfterLayer {
    steps: Vec<Steps>,
    regions: Option<bool>,
    shows: Option<Vec<String>>,
}

impl AfterLayer {
    /// Reads the table of a file.
    pub(super) fn read(entries: Vec<Entry<'_>>) -> Result<Self, ExperimentError> {
        let mut layer = AfterLayer::default();
        for_each(entries, |entry| layer.read_entry(entry))?;
        Ok(layer)
    }

    fn read_entry(&mut self, Entry { name, key, node }: Entry<'_>) -> Result<(), ExperimentError> {
        if name == "show" {
            self.shows = Some(node.read(texts)?);
            return Ok(());
        }
        if name == REGIONS {
            let is_empty = |node: &Node<'_>| node.table().is_some_and(|options| options.is_empty());
            self.regions = Some(match node.list() {
                Some(list) if list.iter().all(is_empty) => !list.is_empty(),
                None if is_empty(&node) => true,
                _ => return Err(ExperimentError::new("`after.regions` has no options").at(&key)),
            });
            return Ok(());
        }
        let usual = measurement(name, &key)?;
        let expected_table = || {
            let help = format!("write [after.{name}] and below it options of `semfocus {name}`, such as samples = 200");
            ExperimentError::new(format!("`after.{name}` is a table of options")).at(&key).help(help)
        };
        self.steps.push(match (node.table(), node.list(), node.located().value) {
            (Some(options), ..) => Steps::Change(usual, read_options(name, options)?),
            (_, Some(list), _) => {
                let one = |node: &Node<'_>| {
                    let options = node.table().ok_or_else(expected_table)?;
                    changed(usual.clone(), &read_options(name, options)?)
                };
                Steps::Replace(name.to_owned(), list.iter().map(one).collect::<Result<_, _>>()?)
            }
            // As version 0.2.0 wrote it into `measure.toml`.
            (.., Value::String(words)) => {
                let read = Measurement::read(name, &words);
                Steps::Replace(name.to_owned(), vec![read.map_err(|wrong| error(wrong, &key))?])
            }
            _ => return Err(expected_table()),
        });
        Ok(())
    }

    /// Adds `after.NAME.OPTION = value` of the command line.
    pub(super) fn set(&mut self, path: &str, given: Located) -> Result<(), ExperimentError> {
        let Some((name, option)) = path.split_once('.').filter(|(name, _)| *name != REGIONS) else {
            let error = ExperimentError::new("an option of a measurement is written after.NAME.OPTION=VALUE");
            return Err(error.at(&given.place).help("for instance -s after.landscape.grid=21"));
        };
        let usual = measurement(name, &given.place)?;
        checked(name, option, &given, &given.place)?;
        self.steps.push(Steps::Change(usual, vec![(option.to_owned(), given)]));
        Ok(())
    }
}

fn error(WrongOption { message, help }: WrongOption, place: &Place) -> ExperimentError {
    let error = ExperimentError::new(message).at(place);
    if let Some(help) = help { error.help(help) } else { error }
}

/// The measurement with a name, with its default options.
fn measurement(name: &str, place: &Place) -> Result<Measurement, ExperimentError> {
    Measurement::new(name).ok_or_else(|| {
        let error = ExperimentError::new(format!("`{name}` is not a step that can run after training")).at(place);
        match nearest(name, names().chain(["show"])) {
            Some(near) => error.help(format!("did you mean `{near}`?")),
            None => error.help(format!("there are {}, and `show`", names().collect::<Vec<_>>().join(", "))),
        }
    })
}

/// Refuses an option that the measurement does not have, at the place of its name, or a wrong value, at its own place.
fn checked(name: &str, option: &str, given: &Located, key: &Place) -> Result<(), ExperimentError> {
    let mut scratch = measurement(name, key)?;
    scratch.set(option, &given.value).map_err(|wrong| {
        let place = if wrong.help.is_some() { key } else { &given.place };
        error(wrong, place)
    })
}

/// Reads options, each of which is checked. Those in tables of their own are called `table.option`.
fn read_options(name: &str, entries: Vec<Entry<'_>>) -> Result<Options, ExperimentError> {
    fn collect(name: &str, prefix: &str, entries: Vec<Entry<'_>>, to: &mut Options) -> Result<(), ExperimentError> {
        for_each(entries, |entry| {
            let option = format!("{prefix}{}", entry.name);
            if let Some(inner) = entry.node.table() {
                return collect(name, &format!("{option}."), inner, to);
            }
            let given = entry.node.located();
            checked(name, &option, &given, &entry.key)?;
            to.push((option, given));
            Ok(())
        })
    }
    let mut options = Vec::new();
    collect(name, "", entries, &mut options)?;
    Ok(options)
}

/// A measurement with some options changed.
fn changed(mut measurement: Measurement, options: &Options) -> Result<Measurement, ExperimentError> {
    for (option, given) in options {
        measurement.set(option, &given.value).map_err(|wrong| error(wrong, &given.place))?;
    }
    match (measurement.check(), options.last()) {
        (Err(wrong), Some((_, given))) => Err(error(wrong, &given.place)),
        _ => Ok(measurement),
    }
}

/// What follows the training of an experiment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct After {
    /// In the order in which they are made.
    pub measurements: Vec<Measurement>,
    /// Whether the regions are drawn in which the conditions of the theory hold.
    pub regions: bool,
    /// Names of the figures and tables that the run is made for.
    pub shows: Vec<String>,
}

impl After {
    /// Reads the measurements of a file such as `measure.toml`.
    pub fn read_measurements(name: &str, text: &str) -> Result<Vec<Measurement>, ExperimentError> {
        let mut after = After::default();
        parse_toml(name, text, |entries| after.apply(&AfterLayer::read(entries)?))?;
        Ok(after.measurements)
    }

    pub(super) fn apply(&mut self, layer: &AfterLayer) -> Result<(), ExperimentError> {
        if let Some(shows) = &layer.shows {
            self.shows.clone_from(shows);
        }
        self.regions = layer.regions.unwrap_or(self.regions);
        for steps in &layer.steps {
            match steps {
                Steps::Replace(name, measurements) => {
                    self.measurements.retain(|measurement| measurement.name() != name);
                    self.measurements.extend(measurements.iter().cloned());
                }
                Steps::Change(usual, options) => {
                    let is_kind = |measurement: &&mut Measurement| measurement.name() == usual.name();
                    if !self.measurements.iter_mut().any(|measurement| is_kind(&measurement)) {
                        self.measurements.push(usual.clone());
                    }
                    for measurement in self.measurements.iter_mut().filter(is_kind) {
                        *measurement = changed(measurement.clone(), options)?;
                    }
                }
            }
        }
        Measurement::sort(&mut self.measurements);
        Ok(())
    }

    pub(super) fn shrink(&mut self) {
        self.measurements.iter_mut().for_each(Measurement::shrink);
    }

    pub(super) fn to_table(&self) -> Option<toml::Table> {
        let mut table = Measurement::to_table(&self.measurements);
        if !self.shows.is_empty() {
            table.insert("show".to_owned(), Value::Array(self.shows.iter().cloned().map(Value::String).collect()));
        }
        if self.regions {
            table.insert(REGIONS.to_owned(), Value::Table(toml::Table::new()));
        }
        (!table.is_empty()).then_some(table)
    }

    /// The measurements of a kind: the options of each.
    fn options(&self, name: &str) -> Vec<toml::Table> {
        let of_kind = self.measurements.iter().filter(|measurement| measurement.name() == name);
        of_kind.map(Measurement::options).collect()
    }

    /// How the measurements differ from those of another experiment.
    pub(super) fn differences(&self, other: &After) -> Vec<Difference> {
        let mut differences = Vec::new();
        for name in Measurement::NAMES {
            let (here, there) = (self.options(name), other.options(name));
            for (mine, theirs) in here.iter().zip(&there) {
                for (option, now) in mine.iter().filter(|(option, now)| theirs[*option] != **now) {
                    let subject = Subject::Option(name, option.clone());
                    let difference = Difference::new(subject, now, &theirs[option]);
                    if !differences.contains(&difference) {
                        differences.push(difference);
                    }
                }
            }
            if here.len() != there.len() {
                differences.push(Difference::new(Subject::Times(name), here.len(), there.len()));
            }
        }
        if self.regions != other.regions {
            differences.push(Difference::new(Subject::Regions, self.regions, other.regions));
        }
        differences
    }
}

#[cfg(test)]
mod tests {
    use super::super::{AnyName, Experiment, Request, in_words};
    use super::*;

    fn resolve(text: &str, overrides: &[&str], smoke: bool) -> Result<Experiment, String> {
        let name = format!("semfocus-after-{}-{:?}.toml", std::process::id(), std::thread::current().id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        let overrides = overrides.iter().map(|&text| text.to_owned()).collect();
        let request = Request { experiment: path.display().to_string(), overrides, smoke, ..Request::default() };
        Experiment::resolve(&request, &AnyName).map_err(|error| error.to_string())
    }

    const FILE: &str = r#"
        task = "parity"
        [after]
        show = ["surface-lipschitz"]
        [[after.landscape]]
        grid = 21
        [[after.landscape]]
        grid = 21
        attention_dropout = true
        mechanisms = ["full", "topk:5"]
        [after.probe]
        samples = 100
    "#;

    fn read(name: &str, options: &str) -> Measurement {
        Measurement::read(name, options).unwrap()
    }

    #[test]
    fn measurements_are_merged_and_kept_in_a_fixed_order() {
        let experiment = resolve(FILE, &[], false).unwrap();
        let expected = [
            read("probe", "samples=100"),
            read("landscape", "grid=21"),
            read("landscape", "grid=21 attention_dropout mechanisms=full,topk:5"),
        ];
        assert_eq!(experiment.after.measurements, expected);
        assert_eq!(experiment.after.shows, ["surface-lipschitz"]);
        let again = Experiment::from_toml("again", &experiment.to_toml()).unwrap();
        assert_eq!(again.after, experiment.after);
        let overrides =
            ["after.landscape.grid=9", "after.sharpness.samples=50", "after.landscape.mechanisms=full,topk:3"];
        let changed = resolve(FILE, &overrides, false).unwrap();
        let kept = &changed.after.measurements;
        assert_eq!(
            (&kept[1], &kept[3]),
            (&read("landscape", "grid=9 mechanisms=full,topk:3"), &read("sharpness", "samples=50"))
        );
        assert!(in_words(&changed.changed).contains("landscape grid 9 instead of 21"), "{:?}", changed.changed);
        let smoke = resolve(FILE, &[], true).unwrap().after.measurements;
        assert_eq!(smoke[1], read("landscape", "grid=5 samples=20"));
        let wider = resolve(FILE, &["after.landscape.range=2.5"], false).unwrap();
        assert!(in_words(&wider.changed).contains("landscape range 2.5 instead of 1.0"), "{:?}", wider.changed);
        let without = resolve(&format!("{FILE}\n[scale.quick]\nafter.landscape = []"), &[], false);
        assert_eq!(without.unwrap().after.measurements.len(), 3);
        let mut after = experiment.after;
        let layer =
            AfterLayer { steps: vec![Steps::Replace("landscape".to_owned(), Vec::new())], ..AfterLayer::default() };
        after.apply(&layer).unwrap();
        assert_eq!(after.measurements, expected[..1], "an empty list removes the measurements of a kind");
    }

    #[test]
    fn files_of_version_0_2_0_are_read() {
        let measurements =
            After::read_measurements("measure.toml", "probe = \"--samples 5\"\nlandscape = \"\"\n").unwrap();
        assert_eq!(measurements, [read("probe", "samples=5"), read("landscape", "")]);
        let error = After::read_measurements("measure.toml", "\nprobe = \"--no-such\"\n").unwrap_err().to_string();
        assert!(error.starts_with("measure.toml:2:1: `probe` has no option `no_such`"), "{error}");
        let stored = "mechanisms = []\n[after]\nshow = [\"regions-w\"]\n[[after.regions]]\n";
        assert!(Experiment::from_toml("experiment", stored).unwrap().after.regions);
    }

    #[test]
    fn wrong_steps_are_refused_with_their_place() {
        for (from, to, message) in [
            ("[after.probe]", "[after.prob]", "did you mean `probe`?"),
            ("[after.probe]", "[after.report]", "`report` is not a step that can run after training"),
            ("samples = 100", "smaples = 100", "toml:12:9: `probe` has no option `smaples`"),
            ("samples = 100", "smaples = 100", "did you mean `samples`?"),
            (
                "samples = 100",
                "samples = 0",
                "toml:12:19: `samples`: invalid value: integer `0`, expected a number from 1",
            ),
            ("samples = 100", "samples.x = 1", "`probe` has no option `samples.x`"),
            ("[after.probe]", "[after.regions]", "`after.regions` has no options"),
            ("[after.probe]", "[scale.quick]\nafter.prob = []\n[after.probe]", "did you mean `probe`?"),
            ("samples = 100", "samples = 100\n[scale.quick]\nafter = 3", "`after` is a table"),
            ("show = [", "show = [3,", "expected a list"),
        ] {
            let error = resolve(&FILE.replace(from, to), &[], false).unwrap_err();
            assert!(error.contains(message) && error.contains(".toml:"), "{error}");
        }
        let error = resolve("task = \"parity\"\nmechanisms = []", &[], false).unwrap_err();
        assert!(error.contains("no mechanism is given"), "{error}");
        assert!(resolve("task = \"parity\"\nmechanisms = []\n[after.regions]", &[], false).is_ok());
    }
}
