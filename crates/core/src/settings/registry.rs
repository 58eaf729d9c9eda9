//! The list of settings. Reading experiment files, overrides, grids, stored trials, messages and `semfocus list settings`
//! all go through it.

use std::ops::RangeInclusive;
use std::sync::LazyLock;

use toml::Value;

use super::TrialSettings;
use crate::mechanism::Schedule;
use crate::model::{Activation, Engine, Visibility};
use crate::names::{nearest, shortened};
use crate::optimizer::Rule;

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
    /// How long a trial goes on: a longer one begins with the shorter one.
    Duration,
    /// What is recorded during training, which does not change the training.
    Record,
}

/// Where a value of type `T` lives in the settings of a trial.
struct Field<T> {
    get: fn(&TrialSettings) -> &T,
    get_mut: fn(&mut TrialSettings) -> &mut T,
}

macro_rules! field {
    ($($name:ident).+) => {
        Field { get: |settings| &settings.$($name).+, get_mut: |settings| &mut settings.$($name).+ }
    };
}

/// How a setting is stored, and with it which values it takes.
enum Kind {
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
    /// Text or a number, or nothing.
    Text {
        expected: &'static str,
        get: fn(&TrialSettings) -> Option<Value>,
        set: fn(&mut TrialSettings, &str) -> Result<(), String>,
    },
}

impl Setting {
    /// The value, if there is one.
    pub fn get(&self, settings: &TrialSettings) -> Option<Value> {
        match &self.kind {
            Kind::Count { field, .. } => Some(whole(*(field.get)(settings) as u64)),
            Kind::Number { field, .. } => Some(Value::Float(*(field.get)(settings))),
            Kind::Flag { field } => Some(Value::Boolean(*(field.get)(settings))),
            Kind::File { field } => (field.get)(settings).clone().map(Value::String),
            Kind::Choice { get, .. } => Some(Value::String(get(settings).to_owned())),
            Kind::Text { get, .. } => get(settings),
        }
    }

    /// Sets the value, or says why it is not allowed.
    pub fn set(&self, settings: &mut TrialSettings, value: &Value) -> Result<(), String> {
        let wrong = || format!("expected {}, got {}", self.expected(), shown(value));
        match &self.kind {
            Kind::Count { min, max, field } => {
                let count = value.as_integer().and_then(|count| usize::try_from(count).ok());
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
            Kind::Text { expected, .. } => (*expected).to_owned(),
        }
    }

    /// Leaves it out of stored settings where it has its default value.
    fn left_out_at_default(self) -> Self {
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

/// All settings, in the order in which they are listed.
pub fn all() -> &'static [Setting] {
    static ALL: LazyLock<Vec<Setting>> = LazyLock::new(settings);
    &ALL
}

/// The setting at a path.
pub fn find(path: &str) -> Option<&'static Setting> {
    // The name in earlier versions.
    let renamed = path.strip_prefix("oddities.").map(|name| format!("quirks.{name}"));
    let path = renamed.as_deref().unwrap_or(path);
    all().iter().find(|setting| setting.path == path)
}

/// The other way to say the same as a setting, if there is one: only one of them can be given.
pub(crate) fn alternative(path: &str) -> Option<&'static str> {
    match path {
        "training.epochs" => Some("training.steps"),
        "training.steps" => Some("training.epochs"),
        _ => None,
    }
}

/// A value as it would stand in a file.
fn shown(value: &Value) -> String {
    match value {
        Value::Table(_) => "a table".to_owned(),
        value => shortened(&value.to_string()),
    }
}

/// A whole number as a value; those beyond the range of TOML do not occur.
fn whole(number: u64) -> Value {
    Value::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

fn count(path: &'static str, meaning: &'static str, allowed: RangeInclusive<usize>, field: Field<usize>) -> Setting {
    let (min, max) = allowed.into_inner();
    Setting { path, meaning, role: Role::Result, is_left_out_at_default: false, kind: Kind::Count { min, max, field } }
}

fn number(
    path: &'static str,
    meaning: &'static str,
    rule: &'static str,
    accepts: fn(f64) -> bool,
    field: Field<f64>,
) -> Setting {
    Setting {
        path,
        meaning,
        role: Role::Result,
        is_left_out_at_default: false,
        kind: Kind::Number { rule, accepts, field },
    }
}

fn flag(path: &'static str, meaning: &'static str, field: Field<bool>) -> Setting {
    Setting { path, meaning, role: Role::Result, is_left_out_at_default: false, kind: Kind::Flag { field } }
}

fn text(
    path: &'static str,
    meaning: &'static str,
    expected: &'static str,
    get: fn(&TrialSettings) -> Option<Value>,
    set: fn(&mut TrialSettings, &str) -> Result<(), String>,
) -> Setting {
    Setting {
        path,
        meaning,
        role: Role::Result,
        is_left_out_at_default: false,
        kind: Kind::Text { expected, get, set },
    }
}

fn file(path: &'static str, meaning: &'static str, field: Field<Option<String>>) -> Setting {
    Setting { path, meaning, role: Role::Result, is_left_out_at_default: false, kind: Kind::File { field } }
}

macro_rules! choice {
    ($path:literal, $meaning:literal, $kind:ident, $($name:ident).+) => {
        Setting {
            path: $path,
            meaning: $meaning,
            role: Role::Result,
            is_left_out_at_default: false,
            kind: Kind::Choice {
                words: || $kind::NAMES.iter().map(|(word, _)| *word).collect(),
                get: |settings| word_for($kind::NAMES, settings.$($name).+),
                set: |settings, word| settings.$($name).+ = value_for($kind::NAMES, word),
            },
        }
    };
}

/// How a value is written.
fn word_for<T: Copy + PartialEq>(names: &[(&'static str, T)], value: T) -> &'static str {
    names.iter().find(|(_, other)| *other == value).map_or("", |(word, _)| *word)
}

/// What a word that was checked stands for.
fn value_for<T: Copy>(names: &[(&'static str, T)], word: &str) -> T {
    names.iter().find(|(other, _)| *other == word).unwrap_or(&names[0]).1
}

/// Grouped by table, in the order in which they are explained.
fn settings() -> Vec<Setting> {
    let mut all = vec![
        text(
            "task",
            "what is learned",
            "the name of a task or the path of a data file",
            |s| Some(Value::String(s.task.clone())),
            |s, text| {
                s.task = text.to_owned();
                Ok(())
            },
        ),
        text(
            "mechanism",
            "attention mechanism",
            "a mechanism such as \"topk:5\"",
            |s| Some(Value::String(s.mechanism.clone())),
            |s, text| {
                s.mechanism = text.parse::<Schedule>()?.to_string();
                Ok(())
            },
        ),
        text(
            "seed",
            "seed of data, initial weights, order and dropout",
            SEED,
            |s| Some(whole(s.seed)),
            |s, text| {
                s.seed = seed(text)?;
                Ok(())
            },
        ),
    ];
    all.extend(data());
    all.extend(model());
    all.extend(training());
    all.extend(learning_rate_factors());
    all.extend(probing());
    all.extend(quirks());
    all
}

fn data() -> Vec<Setting> {
    vec![
        text(
            "data.length",
            "tokens of a sequence; the task's default if left out",
            "a length such as 40, or a range such as \"20..40\"",
            |s| s.data.length.map(|length| Value::String(length.to_string())),
            |s, text| {
                s.data.length = Some(text.parse()?);
                Ok(())
            },
        ),
        count(
            "data.train",
            "examples to train on; with `data.online` only to measure training with",
            1..=EXAMPLES,
            field!(data.sizes.train),
        ),
        count("data.held_out", "examples to measure generalisation with", 1..=EXAMPLES, field!(data.sizes.held_out)),
        count(
            "data.test",
            "examples evaluated once, at the end of a trial; never used to choose anything",
            0..=EXAMPLES,
            field!(data.sizes.test),
        ),
        flag(
            "data.online",
            "draw new training examples for every step; training loss and accuracy are then measured on \
             `data.train` others",
            field!(data.online),
        )
        .left_out_at_default(),
        text(
            "data.seed",
            "seed of the data alone, so that all repetitions share one data set; the trial's seed if left out",
            SEED,
            |s| s.data.seed.map(whole),
            |s, text| {
                s.data.seed = Some(seed(text)?);
                Ok(())
            },
        ),
        file(
            "data.train_file",
            "own data in separate files: the training examples, as tab-separated text, .csv or .jsonl",
            field!(data.files.train),
        ),
        file("data.held_out_file", "own data in separate files: the held-out examples", field!(data.files.held_out)),
        file("data.test_file", "own data in separate files: the test examples", field!(data.files.test)),
        count(
            "data.listops.max_depth",
            "listops: largest depth of an expression",
            1..=1000,
            field!(data.listops.max_depth),
        ),
        count(
            "data.listops.max_args",
            "listops: largest number of arguments of an operator",
            2..=1000,
            field!(data.listops.max_args),
        ),
        number(
            "data.listops.operator_probability",
            "listops: probability that a node is an operator",
            "from 0 to 1",
            |x| (0.0..=1.0).contains(&x),
            field!(data.listops.operator_probability),
        ),
        text(
            "data.checksum",
            "checksum of the data files, filled in by the program; other contents are refused",
            "a checksum of 16 digits",
            |s| s.data_checksum.clone().map(Value::String),
            |s, text| {
                s.data_checksum = Some(text.to_owned());
                Ok(())
            },
        ),
    ]
}

fn model() -> Vec<Setting> {
    vec![
        count(
            "model.blocks",
            "number of blocks; each has an attention and an MLP sublayer",
            0..=1000,
            field!(model.blocks),
        ),
        count("model.d_model", "width of the model", 1..=WIDTH, field!(model.d_model)),
        count("model.d_mlp", "width of the hidden layer of the MLP", 1..=WIDTH, field!(model.d_mlp)),
        count("model.heads", "number of attention heads", 1..=1000, field!(model.heads)),
        text(
            "model.d_head",
            "width of a head; the width of the model if left out, for any number of heads",
            "a whole number of at least 1",
            |s| s.model.d_head.map(|width| whole(width as u64)),
            |s, text| {
                s.model.d_head = Some(count_up_to(WIDTH, text)?);
                Ok(())
            },
        ),
        choice!("model.activation", "activation of the MLP", Activation, model.activation),
        number(
            "model.dropout",
            "dropout probability",
            "of at least 0 and below 1",
            |x| (0.0..1.0).contains(&x),
            field!(model.dropout),
        ),
        number(
            "model.inverse_temperature",
            "factor that multiplies the scores",
            "above 0",
            positive,
            field!(model.inverse_temperature),
        ),
        choice!(
            "model.visibility",
            "the keys that a query sees: all, or itself and those before it",
            Visibility,
            model.visibility
        )
        .left_out_at_default(),
        choice!(
            "model.engine",
            "how the sublayers are computed: fused operators or their plain definition",
            Engine,
            model.engine
        ),
    ]
}

fn training() -> Vec<Setting> {
    let mut epochs = count(
        "training.epochs",
        "how long to train, in passes over the training examples, or in units of `training.evaluate_every` steps",
        1..=1_000_000,
        field!(training.epochs),
    );
    let mut steps = text(
        "training.steps",
        "how long to train, in steps, instead of `training.epochs`",
        "a whole number of at least 1",
        |s| s.training.steps.map(|steps| whole(steps as u64)),
        |s, text| {
            s.training.steps = Some(count_up_to(STEPS, text)?);
            Ok(())
        },
    );
    (epochs.role, steps.role) = (Role::Duration, Role::Duration);
    let mut stop_when = text(
        "training.stop_when",
        "target at which a trial ends early",
        "a target such as \"train_accuracy >= 0.99\", or \"never\"",
        |s| s.training.stop_when.map(|goal| Value::String(goal.to_string())),
        |s, text| {
            s.training.stop_when = if text == "never" { None } else { Some(text.parse()?) };
            Ok(())
        },
    );
    stop_when.role = Role::Duration;
    vec![
        epochs,
        steps,
        count(
            "training.evaluate_every",
            "steps between evaluations; an epoch is then that many steps. 0 for a pass over the training examples",
            0..=STEPS,
            field!(training.evaluate_every),
        )
        .left_out_at_default(),
        stop_when,
        count("training.batch", "examples per step", 1..=1_000_000, field!(training.batch)),
        number(
            "training.learning_rate",
            "learning rate at the start",
            "above 0",
            positive,
            field!(training.learning_rate),
        ),
        number(
            "training.decay",
            "factor of the learning rate after every pass over the training examples, or with `data.online` \
             after every epoch",
            "above 0",
            positive,
            field!(training.decay),
        ),
        number(
            "training.clip",
            "largest joint norm of the gradients; inf for no limit",
            "above 0",
            |x| x > 0.0,
            field!(training.clip),
        ),
        choice!("training.optimizer", "the optimiser", Rule, training.optimizer.rule),
        number("training.momentum", "sgd: momentum", SHARE, share, field!(training.optimizer.momentum)),
        number(
            "training.beta1",
            "adam, adamw: decay of the mean of gradients",
            SHARE,
            share,
            field!(training.optimizer.beta1),
        ),
        number(
            "training.beta2",
            "adam, adamw: decay of the mean of squared gradients",
            SHARE,
            share,
            field!(training.optimizer.beta2),
        ),
        number(
            "training.epsilon",
            "adam, adamw: added to the denominator",
            "above 0",
            positive,
            field!(training.optimizer.epsilon),
        ),
        number(
            "training.weight_decay",
            "weight decay; adamw applies it to the weights, the others to the gradient",
            "of at least 0",
            |x| x >= 0.0 && x.is_finite(),
            field!(training.optimizer.weight_decay),
        ),
    ]
}

/// Factors of the learning rate, by kind of parameter.
fn learning_rate_factors() -> Vec<Setting> {
    macro_rules! factor {
        ($name:ident, $parameters:literal) => {
            number(
                concat!("training.lr_factor.", stringify!($name)),
                concat!("factor of the learning rate for ", $parameters, "; 0 keeps the initial values"),
                "of at least 0",
                |x| x >= 0.0 && x.is_finite(),
                field!(training.optimizer.lr_factors.$name),
            )
            .left_out_at_default()
        };
    }
    vec![
        factor!(embedding, "the embedding"),
        factor!(query, "the attention's maps to queries"),
        factor!(key, "the attention's maps to keys"),
        factor!(value, "the attention's maps to values"),
        factor!(output, "the attention's maps from its heads back to the model"),
        factor!(hidden, "the MLP's maps to its hidden layer"),
        factor!(mlp_output, "the MLP's maps from its hidden layer back to the model"),
        factor!(classifier, "the classifier"),
        factor!(mechanism, "parameters that belong to the attention mechanism, if it has any"),
    ]
}

/// What is recorded besides the epochs.
fn probing() -> Vec<Setting> {
    let mut every = count(
        "probe_every",
        "epochs between probes of the attention; 0 for no probes",
        0..=1_000_000,
        field!(probing.every),
    );
    let mut samples =
        count("probe_samples", "training examples that a probe uses", 1..=EXAMPLES, field!(probing.samples));
    (every.role, samples.role) = (Role::Record, Role::Record);
    vec![every, samples]
}

/// Quirks of the published code: all off unless asked for.
fn quirks() -> Vec<Setting> {
    vec![
        flag(
            "quirks.dropout_in_evaluation",
            "dropout on attention weights stays on in evaluation",
            field!(model.quirks.dropout_in_evaluation),
        ),
        flag(
            "quirks.first_norm_without_eps",
            "the first attention norm divides by the deviation alone",
            field!(model.quirks.first_norm_without_eps),
        ),
        flag(
            "quirks.pad_to_mask_multiple",
            "sequences are padded to a multiple of the mechanism's size",
            field!(model.quirks.pad_to_mask_multiple),
        ),
        flag(
            "quirks.skip_last_example",
            "the last example of each shuffled epoch is not trained on; evaluation skips the last row but counts it",
            field!(skip_last_example),
        ),
    ]
}

/// Limits far beyond what a machine can do, which keep mistyped numbers from overflowing anything. What a trial of this
/// size needs in memory is estimated before it begins.
const EXAMPLES: usize = 100_000_000;
const WIDTH: usize = 65_536;
const STEPS: usize = 1_000_000_000;

/// A whole number from 1 to a limit.
fn count_up_to(max: usize, text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=max).contains(count));
    count.ok_or_else(|| format!("expected a whole number from 1 to {max}, got {}", shortened(text)))
}

const SEED: &str = "a whole number from 0 to 9223372036854775807";

/// A seed; the upper half of the numbers would not fit into TOML.
fn seed(text: &str) -> Result<u64, String> {
    let seed = text.parse::<i64>().ok().and_then(|seed| u64::try_from(seed).ok());
    seed.ok_or_else(|| format!("expected {SEED}, got {}", shortened(text)))
}

const SHARE: &str = "of at least 0 and below 1";

fn share(x: f64) -> bool {
    (0.0..1.0).contains(&x)
}

fn positive(x: f64) -> bool {
    x > 0.0 && x.is_finite()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_distinct_and_values_go_in_and_out() {
        let settings = TrialSettings::default();
        for (index, setting) in all().iter().enumerate() {
            assert!(all()[..index].iter().all(|other| other.path != setting.path));
            if let Some(value) = setting.get(&settings) {
                let mut copy = settings.clone();
                setting.set(&mut copy, &value).unwrap();
                assert_eq!(copy, settings, "{}", setting.path);
            }
        }
    }

    #[test]
    fn wrong_values_are_explained() {
        let message = |path: &str, value: &str| {
            let value: toml::Table = format!("x = {value}").parse().unwrap();
            find(path).unwrap().set(&mut TrialSettings::default(), &value["x"]).unwrap_err()
        };
        assert_eq!(message("model.heads", "0"), "expected a whole number from 1 to 1000, got 0");
        assert_eq!(message("model.heads", "2.5"), "expected a whole number from 1 to 1000, got 2.5");
        assert_eq!(message("model.heads", "-1"), "expected a whole number from 1 to 1000, got -1");
        assert_eq!(message("model.d_head", "0"), "expected a whole number from 1 to 65536, got 0");
        assert_eq!(message("model.dropout", "1"), "expected a number of at least 0 and below 1, got 1");
        assert_eq!(message("training.learning_rate", "nan"), "expected a number above 0, got nan");
        assert_eq!(message("quirks.skip_last_example", "\"yes\""), "expected true or false, got \"yes\"");
        assert_eq!(
            message("model.activation", "\"gelo\""),
            "expected one of \"relu\", \"gelu\", \"mish\", got \"gelo\"; did you mean \"gelu\"?"
        );
        assert!(message("mechanism", "\"topk:\"").contains("is not a mechanism"));
        assert_eq!(message("model.d_model", "100000"), "expected a whole number from 1 to 65536, got 100000");
        assert_eq!(message("data.length", "1000000000"), "lengths go up to 100000, not `1000000000`");
        assert!(message("model.blocks", &format!("\"{}\"", "9".repeat(1_000_000))).len() < 200);
        assert!(message("data.length", "\"40..20\"").contains("write `20..40`?"));
    }

    #[test]
    fn misspelt_and_foreign_names_are_recognised() {
        let near = |name: &str| nearest(name, all().iter().map(|setting| setting.path));
        assert_eq!(near("model.block"), Some("model.blocks"));
        assert_eq!(near("blocks"), Some("model.blocks"));
        assert_eq!(near("lr"), Some("training.learning_rate"));
        assert_eq!(near("training.optimiser"), Some("training.optimizer"));
        assert_eq!(near("train.epochs"), Some("training.epochs"));
        assert_eq!(near("nonsense"), None);
    }
}
