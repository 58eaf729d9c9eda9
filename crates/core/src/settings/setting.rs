//! A setting of a trial: its name and meaning, which values it takes, and where the value lives.

use std::ops::RangeInclusive;

use toml::Value;

use super::TrialSettings;
use crate::names::{nearest, shortened};
use crate::spec::{Spec, SpecValue};

/// A setting of a trial.
pub struct Setting {
    /// Its path in an experiment file: `model.blocks` is the key `blocks` of the table `model`.
    pub path: &'static str,
    /// What it means, for `list settings`.
    pub meaning: &'static str,
    /// What it decides.
    pub role: Role,
    /// Whether stored settings leave it out where it has its default value: such a setting was added when there were
    /// stored trials, whose files must stay as they are.
    is_left_out_at_default: bool,
    kind: Kind,
}

/// What a setting decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The results of a trial: it is part of the trial's identity.
    Result,
    /// How long a trial is trained: a longer one begins with the shorter one.
    Duration,
    /// What is recorded during training, which does not change the training.
    Record,
}

/// Where a value of type `T` lives in the settings of a trial.
pub(super) struct Field<T> {
    pub(super) get: fn(&TrialSettings) -> &T,
    pub(super) get_mut: fn(&mut TrialSettings) -> &mut T,
}

/// The [`Field`] with these names.
macro_rules! field {
    ($($name:ident).+) => {
        $crate::settings::setting::Field { get: |settings| &settings.$($name).+, get_mut: |settings| &mut settings.$($name).+ }
    };
}

/// How a setting is stored, and with it which values it takes.
pub(super) enum Kind {
    Count {
        min: usize,
        max: usize,
        field: Field<usize>,
    },
    /// `accepts` says in `rule` which numbers are allowed.
    Number {
        rule: &'static str,
        accepts: fn(f64) -> bool,
        field: Field<f64>,
    },
    Flag {
        field: Field<bool>,
    },
    /// Path of a file, or nothing.
    File {
        field: Field<Option<String>>,
    },
    /// Any of a few words.
    Choice {
        words: fn() -> Vec<&'static str>,
        get: fn(&TrialSettings) -> &'static str,
        set: fn(&mut TrialSettings, &str),
    },
    /// A value of the task [`EARLIER_TASK`] that version 0.2.0 had as a setting of its own. It becomes part of the task; ids are
    /// made of it as before.
    TaskValue {
        key: &'static str,
        default: f64,
    },
    /// Text or a number, or nothing.
    Text {
        expected: &'static str,
        get: fn(&TrialSettings) -> Option<Value>,
        set: fn(&mut TrialSettings, &str) -> Result<(), String>,
    },
}

impl Setting {
    pub(super) fn new(path: &'static str, meaning: &'static str, kind: Kind) -> Self {
        Setting { path, meaning, role: Role::Result, is_left_out_at_default: false, kind }
    }

    /// The same with another role than [`Role::Result`].
    pub(super) fn with_role(self, role: Role) -> Self {
        Setting { role, ..self }
    }

    /// The value, if there is one.
    pub fn get(&self, settings: &TrialSettings) -> Option<Value> {
        match &self.kind {
            Kind::Count { field, .. } => Some(whole(*(field.get)(settings) as u64)),
            Kind::Number { field, .. } => Some(Value::Float(*(field.get)(settings))),
            Kind::Flag { field } => Some(Value::Boolean(*(field.get)(settings))),
            Kind::File { field } => (field.get)(settings).clone().map(Value::String),
            Kind::Choice { get, .. } => Some(Value::String(get(settings).to_owned())),
            Kind::TaskValue { .. } => None,
            Kind::Text { get, .. } => get(settings),
        }
    }

    /// Sets the value, or says why it is not allowed.
    pub fn set(&self, settings: &mut TrialSettings, value: &Value) -> Result<(), String> {
        let wrong = || format!("expected {}, got {}", self.expected(), shown(value));
        match &self.kind {
            Kind::Count { min, max, field } => {
                // `1e3` is a float in TOML.
                let integer = value.as_float().filter(|count| count.fract() == 0.0).map(|count| count as i64);
                let count = value.as_integer().or(integer).and_then(|count| usize::try_from(count).ok());
                *(field.get_mut)(settings) = count.filter(|count| (min..=max).contains(&count)).ok_or_else(wrong)?;
            }
            Kind::Number { accepts, field, .. } => {
                let number = value.as_float().or_else(|| value.as_integer().map(|number| number as f64));
                *(field.get_mut)(settings) = number.filter(|number| accepts(*number)).ok_or_else(wrong)?;
            }
            Kind::Flag { field } => *(field.get_mut)(settings) = value.as_bool().ok_or_else(wrong)?,
            Kind::File { field } => {
                let path = value.as_str().filter(|path| !path.is_empty());
                *(field.get_mut)(settings) = Some(path.ok_or_else(wrong)?.to_owned());
            }
            Kind::Choice { words, set, .. } => match value.as_str() {
                Some(word) if words().contains(&word) => set(settings, word),
                Some(word) => {
                    let hint = nearest(word, words());
                    return Err(wrong() + &hint.map_or(String::new(), |near| format!("; did you mean \"{near}\"?")));
                }
                None => return Err(wrong()),
            },
            Kind::TaskValue { key, default } => {
                let number = value.as_float().or_else(|| value.as_integer().map(|number| number as f64));
                settings.task = with_value(&settings.task, key, number.ok_or_else(wrong)?, *default)?;
            }
            Kind::Text { set, .. } => match value {
                Value::String(text) => set(settings, text)?,
                Value::Integer(number) => set(settings, &number.to_string())?,
                _ => return Err(wrong()),
            },
        }
        Ok(())
    }

    /// Whether it names a file.
    pub fn is_file(&self) -> bool {
        matches!(self.kind, Kind::File { .. })
    }

    /// The allowed values, in words.
    pub fn expected(&self) -> String {
        match &self.kind {
            Kind::Count { min, max, .. } => format!("a whole number from {min} to {max}"),
            Kind::Number { rule, .. } => format!("a number {rule}"),
            Kind::Flag { .. } => "true or false".to_owned(),
            Kind::File { .. } => "the path of a file".to_owned(),
            Kind::Choice { words, .. } => {
                let words: Vec<String> = words().iter().map(|word| format!("\"{word}\"")).collect();
                format!("one of {}", words.join(", "))
            }
            Kind::TaskValue { .. } => "a number".to_owned(),
            Kind::Text { expected, .. } => (*expected).to_owned(),
        }
    }

    /// The value as ids are made of it: that of [`get`](Self::get), but values of a task apart from its name if they were
    /// settings in version 0.2.0.
    pub(super) fn get_for_id(&self, settings: &TrialSettings) -> Option<Value> {
        let Some(spec) = earlier_spec(&settings.task) else { return self.get(settings) };
        match &self.kind {
            Kind::TaskValue { key, .. } => {
                let (_, value) = spec.named.iter().find(|(other, _)| other == key)?;
                Some(
                    value
                        .whole()
                        .filter(|_| *key != "operators")
                        .map_or_else(|| Value::Float(value.number().unwrap_or(f64::NAN)), |count| whole(count as u64)),
                )
            }
            _ if self.path == "task" => Some(Value::String(spec.name)),
            _ => self.get(settings),
        }
    }

    /// The settings with which its values can be tried: those of the task that it belongs to.
    pub(crate) fn scratch(&self) -> TrialSettings {
        match self.kind {
            Kind::TaskValue { .. } => TrialSettings { task: EARLIER_TASK.to_owned(), ..TrialSettings::default() },
            _ => TrialSettings::default(),
        }
    }

    /// Leaves it out of stored settings where it has its default value.
    pub(super) fn left_out_at_default(self) -> Self {
        Setting { is_left_out_at_default: true, ..self }
    }

    /// Whether stored settings have it: some are left out where they have their default value.
    pub fn is_stored(&self, settings: &TrialSettings, default: &TrialSettings) -> bool {
        !self.is_left_out_at_default || self.get(settings) != self.get(default)
    }

    /// Whether it is part of the identity of a trial even with its default value.
    pub(super) fn is_always_written(&self) -> bool {
        ["task", "mechanism", "seed"].contains(&self.path)
    }
}

/// The task whose values were settings of their own in version 0.2.0, and the order in which they are written now.
const EARLIER_TASK: &str = "listops";
const EARLIER_KEYS: [&str; 3] = ["depth", "args", "operators"];

/// What a task is, if its values were settings of their own in version 0.2.0.
fn earlier_spec(task: &str) -> Option<Spec> {
    task.parse::<Spec>().ok().filter(|spec| spec.name == EARLIER_TASK)
}

/// The task with one more value. Files of version 0.2.0 give the default values for every task.
fn with_value(task: &str, key: &str, number: f64, default: f64) -> Result<String, String> {
    let Some(mut spec) = earlier_spec(task) else {
        let other = format!("this belongs to the task `{EARLIER_TASK}`, and the task is `{task}`");
        return if number == default { Ok(task.to_owned()) } else { Err(other) };
    };
    match spec.named.iter().find(|(other, _)| other == key) {
        Some((_, given)) if given.number() == Some(number) => {}
        Some(_) => return Err(format!("`task = \"{task}\"` says otherwise; give one of them")),
        None if number == default => {}
        None => spec.named.push((key.to_owned(), SpecValue::Number(number))),
    }
    spec.named.sort_by_key(|(key, _)| EARLIER_KEYS.iter().position(|other| other == key));
    Ok(spec.to_string())
}

/// A value as it would stand in a file.
fn shown(value: &Value) -> String {
    match value {
        Value::Table(_) => "a table".to_owned(),
        value => shortened(&value.to_string()),
    }
}

/// A whole number as a value; those beyond the range of TOML do not occur.
pub(super) fn whole(number: u64) -> Value {
    Value::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

pub(super) fn count(
    path: &'static str,
    meaning: &'static str,
    allowed: RangeInclusive<usize>,
    field: Field<usize>,
) -> Setting {
    let (min, max) = allowed.into_inner();
    Setting::new(path, meaning, Kind::Count { min, max, field })
}

pub(super) fn number(
    path: &'static str,
    meaning: &'static str,
    rule: &'static str,
    accepts: fn(f64) -> bool,
    field: Field<f64>,
) -> Setting {
    Setting::new(path, meaning, Kind::Number { rule, accepts, field })
}

pub(super) fn flag(path: &'static str, meaning: &'static str, field: Field<bool>) -> Setting {
    Setting::new(path, meaning, Kind::Flag { field })
}

pub(super) fn task_value(path: &'static str, meaning: &'static str, key: &'static str, default: f64) -> Setting {
    Setting::new(path, meaning, Kind::TaskValue { key, default })
}

pub(super) fn text(
    path: &'static str,
    meaning: &'static str,
    expected: &'static str,
    get: fn(&TrialSettings) -> Option<Value>,
    set: fn(&mut TrialSettings, &str) -> Result<(), String>,
) -> Setting {
    Setting::new(path, meaning, Kind::Text { expected, get, set })
}

pub(super) fn file(path: &'static str, meaning: &'static str, field: Field<Option<String>>) -> Setting {
    Setting::new(path, meaning, Kind::File { field })
}

/// A setting whose values are the words in the list `NAMES` of a type.
macro_rules! choice {
    ($path:literal, $meaning:literal, $kind:ident, $($name:ident).+) => {
        $crate::settings::setting::Setting::new($path, $meaning, $crate::settings::setting::Kind::Choice {
            words: || $kind::NAMES.iter().map(|(word, _)| *word).collect(),
            get: |settings| $crate::settings::setting::word_for($kind::NAMES, settings.$($name).+),
            set: |settings, word| settings.$($name).+ = $crate::settings::setting::value_for($kind::NAMES, word),
        })
    };
}

/// How a value is written.
pub(super) fn word_for<T: Copy + PartialEq>(names: &[(&'static str, T)], value: T) -> &'static str {
    names.iter().find(|(_, other)| *other == value).map_or("", |(word, _)| *word)
}

/// What a word that was checked stands for.
pub(super) fn value_for<T: Copy>(names: &[(&'static str, T)], word: &str) -> T {
    names.iter().find(|(other, _)| *other == word).unwrap_or(&names[0]).1
}

pub(super) use {choice, field};
