//! `[after]`: what is done with the trained models when all trials are over, and which figures or tables the run is made for.
//!
//! A step is a command of the program on the folder of the run, and its options: `[after.landscape]` with `grid = 21` is
//! `semfocus landscape RUN --grid 21`. The program checks the options before anything is trained.

use std::sync::Arc;

use toml::Value;
use toml::de::{DeTable, DeValue};

use super::body::{Given, texts, to_value};
use super::error::{ExperimentError, Place, SourceText};
use crate::names::nearest;

/// The commands that can be steps, in the order in which they are run.
pub(super) const COMMANDS: [&str; 4] = ["probe", "landscape", "sharpness", "regions"];

/// What `--smoke` makes of options.
const SMOKE: [(&str, &str, i64); 6] = [
    ("probe", "samples", 10),
    ("landscape", "grid", 5),
    ("landscape", "samples", 20),
    ("sharpness", "samples", 4),
    ("sharpness", "probes", 2),
    ("sharpness", "eigenvalues", 1),
];

/// A command that follows training, with its options.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// A command on the folder of a run: `probe`, `landscape`, `sharpness`; or `regions`, for the regions of the theory.
    pub command: String,
    /// Names of options, with `_` for `-`, and their values.
    pub options: Vec<(String, Value)>,
    pub(super) place: Place,
}

impl Step {
    /// The options as they are given on the command line.
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        for (name, value) in &self.options {
            let name = format!("--{}", name.replace('_', "-"));
            match value {
                Value::Boolean(true) => arguments.push(name),
                Value::Boolean(false) => {}
                Value::Array(values) => {
                    arguments.extend([name, values.iter().map(plain).collect::<Vec<_>>().join(",")]);
                }
                value => arguments.extend([name, plain(value)]),
            }
        }
        arguments
    }

    /// An error about this step, with the place where it was written.
    pub fn error(&self, message: String) -> ExperimentError {
        ExperimentError::new(message).at(&self.place)
    }

    /// The value of an option, in words.
    fn option(&self, name: &str) -> String {
        let found = self.options.iter().find(|(other, _)| other == name);
        found.map_or_else(|| "by default".to_owned(), |(_, value)| value.to_string())
    }

    fn set(&mut self, name: &str, value: Value) {
        match self.options.iter_mut().find(|(other, _)| other == name) {
            Some((_, old)) => *old = value,
            None => self.options.push((name.to_owned(), value)),
        }
    }
}

/// The steps of one command in a layer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Steps {
    /// Options that are added to those of earlier layers.
    Options(Step),
    /// Steps of a command in place of those of earlier layers.
    List(String, Vec<Step>),
}

/// What a layer says about `[after]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct AfterLayer {
    pub(super) steps: Vec<Steps>,
    pub(super) shows: Option<Vec<String>>,
}

impl AfterLayer {
    /// Reads the table of a file.
    pub(super) fn read(table: &DeTable<'_>, source: &Arc<SourceText>) -> Result<Self, ExperimentError> {
        let mut layer = AfterLayer::default();
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            let (name, place) = (key.get_ref().as_ref(), Place::File(source.clone(), key.span()));
            match value.get_ref() {
                value if name == "show" => {
                    let given = Given { value: to_value(value), place };
                    layer.shows = Some(given.map(texts)?.value);
                }
                DeValue::Table(options) => layer.steps.push(Steps::Options(step(name, options, &place)?)),
                DeValue::Array(steps) => {
                    check_command(name, &place)?;
                    let tables = steps.iter().map(|value| value.get_ref().as_table());
                    let tables: Option<Vec<&DeTable<'_>>> = tables.collect();
                    let tables = tables.ok_or_else(|| expected_table(name, &place))?;
                    let steps = tables.into_iter().map(|options| step(name, options, &place));
                    layer.steps.push(Steps::List(name.to_owned(), steps.collect::<Result<_, _>>()?));
                }
                _ => return Err(expected_table(name, &place)),
            }
        }
        Ok(layer)
    }

    /// Adds `after.COMMAND.OPTION = value` of the command line.
    pub(super) fn set(&mut self, path: &str, given: Given) -> Result<(), ExperimentError> {
        let Some((command, option)) = path.split_once('.') else {
            let error = ExperimentError::new("an option of a step is written after.COMMAND.OPTION=VALUE");
            return Err(error.at(&given.place).help("for instance -s after.landscape.grid=21"));
        };
        check_command(command, &given.place)?;
        let options = vec![(option.to_owned(), given.value)];
        self.steps.push(Steps::Options(Step { command: command.to_owned(), options, place: given.place }));
        Ok(())
    }
}

fn expected_table(name: &str, place: &Place) -> ExperimentError {
    let help = format!("write [after.{name}] and below it options of `semfocus {name}`, such as samples = 200");
    ExperimentError::new(format!("`after.{name}` is a table of options")).at(place).help(help)
}

fn check_command(name: &str, place: &Place) -> Result<(), ExperimentError> {
    if COMMANDS.contains(&name) {
        return Ok(());
    }
    let error = ExperimentError::new(format!("`{name}` cannot follow training")).at(place);
    Err(match nearest(name, COMMANDS.into_iter().chain(["show"])) {
        Some(near) => error.help(format!("did you mean `{near}`?")),
        None => error.help(format!("there are {}, and `show`", COMMANDS.join(", "))),
    })
}

fn step(name: &str, options: &DeTable<'_>, place: &Place) -> Result<Step, ExperimentError> {
    check_command(name, place)?;
    let mut entries: Vec<_> = options.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    let option = |(key, value): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
        let name: &std::borrow::Cow<'_, str> = key.get_ref();
        (name.to_string(), to_value(value.get_ref()))
    };
    Ok(Step { command: name.to_owned(), options: entries.into_iter().map(option).collect(), place: place.clone() })
}

/// What follows the training of an experiment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct After {
    /// In the order in which they are run.
    pub steps: Vec<Step>,
    /// Names of the figures and tables that the run is made for.
    pub shows: Vec<String>,
}

impl After {
    /// Whether the run is about more than trained models.
    pub(super) fn has_regions(&self) -> bool {
        self.steps.iter().any(|step| step.command == "regions")
    }

    pub(super) fn apply(&mut self, layer: &AfterLayer) {
        if let Some(shows) = &layer.shows {
            self.shows.clone_from(shows);
        }
        for steps in &layer.steps {
            match steps {
                Steps::List(command, steps) => {
                    self.steps.retain(|step| step.command != *command);
                    self.steps.extend(steps.iter().cloned());
                }
                // The same options for all steps of the command.
                Steps::Options(given) => {
                    let mut is_there = false;
                    for step in self.steps.iter_mut().filter(|step| step.command == given.command) {
                        is_there = true;
                        given.options.iter().for_each(|(name, value)| step.set(name, value.clone()));
                    }
                    if !is_there {
                        self.steps.push(given.clone());
                    }
                }
            }
        }
        let place = |step: &Step| COMMANDS.iter().position(|command| *command == step.command);
        self.steps.sort_by_key(place);
    }

    pub(super) fn shrink(&mut self) {
        for step in &mut self.steps {
            for (command, name, value) in SMOKE {
                if command == step.command {
                    step.set(name, Value::Integer(value));
                }
            }
        }
    }

    pub(super) fn to_table(&self) -> Option<toml::Table> {
        let mut table = toml::Table::new();
        if !self.shows.is_empty() {
            table.insert("show".to_owned(), Value::Array(self.shows.iter().cloned().map(Value::String).collect()));
        }
        for command in COMMANDS {
            let options = |step: &Step| Value::Table(step.options.iter().cloned().collect());
            let steps = self.steps.iter().filter(|step| step.command == command);
            let steps: Vec<Value> = steps.map(options).collect();
            if !steps.is_empty() {
                table.insert(command.to_owned(), Value::Array(steps));
            }
        }
        (!table.is_empty()).then_some(table)
    }

    /// How the steps differ from those of another experiment, in words.
    pub(super) fn differences(&self, other: &After) -> Vec<String> {
        let mut words = Vec::new();
        for command in COMMANDS {
            let of = |after: &'_ After| -> Vec<Step> {
                after.steps.iter().filter(|step| step.command == command).cloned().collect()
            };
            let (here, there) = (of(self), of(other));
            for (mine, theirs) in here.iter().zip(&there) {
                let all = mine.options.iter().chain(&theirs.options).map(|(name, _)| name);
                for name in all {
                    let (now, before) = (mine.option(name), theirs.option(name));
                    let text = format!("{command} {} {now} instead of {before}", name.replace('_', " "));
                    if now != before && !words.contains(&text) {
                        words.push(text);
                    }
                }
            }
            if here.len() != there.len() {
                words.push(format!("{command} {} times instead of {}", here.len(), there.len()));
            }
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::super::{AnyName, Experiment, Request};
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

    fn commands(experiment: &Experiment) -> Vec<String> {
        let steps = experiment.after.steps.iter();
        steps.map(|step| format!("{} {}", step.command, step.arguments().join(" "))).collect()
    }

    #[test]
    fn steps_become_commands_in_a_fixed_order() {
        let experiment = resolve(FILE, &[], false).unwrap();
        let expected = [
            "probe --samples 100",
            "landscape --grid 21",
            "landscape --grid 21 --attention-dropout --mechanisms full,topk:5",
        ];
        assert_eq!(commands(&experiment), expected);
        assert_eq!(experiment.after.shows, ["surface-lipschitz"]);
        let again = Experiment::from_toml("again", &experiment.to_toml()).unwrap();
        // The stored file has the options in alphabetical order.
        assert_eq!(commands(&again)[..2], expected[..2]);
        assert_eq!(commands(&again)[2], "landscape --attention-dropout --grid 21 --mechanisms full,topk:5");
        let changed = resolve(FILE, &["after.landscape.grid=9", "after.sharpness.samples=50"], false).unwrap();
        assert_eq!(commands(&changed)[1], "landscape --grid 9");
        assert_eq!(commands(&changed)[3], "sharpness --samples 50");
        assert!(changed.changed.contains(&"landscape grid 9 instead of 21".to_owned()), "{:?}", changed.changed);
        assert_eq!(commands(&resolve(FILE, &[], true).unwrap())[1], "landscape --grid 5 --samples 20");
        let wider = resolve(FILE, &["after.landscape.range=2.5"], false).unwrap();
        assert!(wider.changed.contains(&"landscape range 2.5 instead of by default".to_owned()), "{:?}", wider.changed);
        let base = resolve(FILE, &[], false).unwrap().after;
        let mut without = base.clone();
        without.apply(&AfterLayer { steps: vec![Steps::List("landscape".to_owned(), Vec::new())], shows: None });
        assert_eq!((base.steps.len(), without.steps.len()), (3, 1), "an empty list removes the steps of a command");
    }

    #[test]
    fn wrong_steps_are_refused_with_their_place() {
        for (from, to, message) in [
            ("[after.probe]", "[after.prob]", "did you mean `probe`?"),
            ("[after.probe]", "[after.report]", "`report` cannot follow training"),
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
