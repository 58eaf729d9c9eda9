//! The list of settings. Reading experiment files, overrides, grids, stored trials, messages and `semfocus list settings`
//! all go through it.

use std::sync::LazyLock;

use semfocus_nn::optimizer::Rule;
use semfocus_nn::{Activation, Engine};
use toml::Value;

use super::TrialSettings;

/// A setting of a trial.
pub struct Setting {
    /// Where it stands in an experiment file: `model.blocks` is the key `blocks` of the table `model`.
    pub path: &'static str,
    /// What it is.
    pub meaning: &'static str,
    /// What it decides.
    pub role: Role,
    kind: Kind,
}

/// What a setting decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The course of a trial.
    Course,
    /// How long a trial goes on: a longer one begins with the shorter one.
    Duration,
    /// What is recorded on the way.
    Record,
}

/// How a setting is stored, and with it which values it takes.
enum Kind {
    Count {
        min: usize,
        max: usize,
        field: fn(&mut TrialSettings) -> &mut usize,
    },
    /// `accepts` says in `rule` which numbers are allowed.
    Number {
        rule: &'static str,
        accepts: fn(f64) -> bool,
        field: fn(&mut TrialSettings) -> &mut f64,
    },
    Flag {
        field: fn(&mut TrialSettings) -> &mut bool,
    },
    /// Any of a few words.
    Choice {
        words: &'static [&'static str],
        get: fn(&TrialSettings) -> &'static str,
        set: fn(&mut TrialSettings, &str),
    },
    /// Text, or a number that stands for itself; or nothing.
    Text {
        expected: &'static str,
        get: fn(&TrialSettings) -> Option<Value>,
        set: fn(&mut TrialSettings, &str) -> Result<(), String>,
    },
}

impl Setting {
    /// Its value, if it has one.
    pub fn get(&self, settings: &TrialSettings) -> Option<Value> {
        let copy = || settings.clone();
        match &self.kind {
            Kind::Count { field, .. } => Some(whole(*field(&mut copy()) as u64)),
            Kind::Number { field, .. } => Some(Value::Float(*field(&mut copy()))),
            Kind::Flag { field } => Some(Value::Boolean(*field(&mut copy()))),
            Kind::Choice { get, .. } => Some(Value::String(get(settings).to_owned())),
            Kind::Text { get, .. } => get(settings),
        }
    }

    /// Sets it, or says why that makes no sense.
    pub fn set(&self, settings: &mut TrialSettings, value: &Value) -> Result<(), String> {
        let wrong = || format!("expected {}, got {}", self.expected(), shown(value));
        match &self.kind {
            Kind::Count { min, max, field } => {
                let count = value.as_integer().and_then(|count| usize::try_from(count).ok());
                *field(settings) = count.filter(|count| (min..=max).contains(&count)).ok_or_else(wrong)?;
            }
            Kind::Number { accepts, field, .. } => {
                let number = value.as_float().or_else(|| value.as_integer().map(|number| number as f64));
                *field(settings) = number.filter(|number| accepts(*number)).ok_or_else(wrong)?;
            }
            Kind::Flag { field } => *field(settings) = value.as_bool().ok_or_else(wrong)?,
            Kind::Choice { words, set, .. } => match value.as_str() {
                Some(word) if words.contains(&word) => set(settings, word),
                Some(word) => {
                    let hint = nearest(word, words.iter().copied());
                    return Err(wrong() + &hint.map_or(String::new(), |near| format!("; did you mean \"{near}\"?")));
                }
                None => return Err(wrong()),
            },
            Kind::Text { set, .. } => match value {
                Value::String(text) => set(settings, text)?,
                Value::Integer(number) => set(settings, &number.to_string()).map_err(|_| wrong())?,
                _ => return Err(wrong()),
            },
        }
        Ok(())
    }

    /// Which values it takes, in words.
    pub fn expected(&self) -> String {
        match &self.kind {
            Kind::Count { min, max: usize::MAX, .. } => format!("a whole number of at least {min}"),
            Kind::Count { min, max, .. } => format!("a whole number from {min} to {max}"),
            Kind::Number { rule, .. } => format!("a number {rule}"),
            Kind::Flag { .. } => "true or false".to_owned(),
            Kind::Choice { words, .. } => {
                let words: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
                format!("one of {}", words.join(", "))
            }
            Kind::Text { expected, .. } => (*expected).to_owned(),
        }
    }

    /// Whether the identity of a trial names it even where it is as by default.
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
    all().iter().find(|setting| setting.path == path)
}

/// The name that somebody who wrote `name` may have meant, if one is near.
pub fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Names from elsewhere that no spelling distance would find.
    const SYNONYMS: [(&str, &str); 8] = [
        ("lr", "learning_rate"),
        ("batch_size", "batch"),
        ("layers", "blocks"),
        ("depth", "blocks"),
        ("optim", "optimizer"),
        ("lr_decay", "decay"),
        ("grad_clip", "clip"),
        ("temperature", "inverse_temperature"),
    ];
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    let wanted = last(name);
    let wanted = SYNONYMS.iter().find(|(other, _)| *other == wanted).map_or(wanted, |(_, ours)| (*ours).to_owned());
    let distance = |candidate: &str| {
        let whole = strsim::damerau_levenshtein(name, candidate);
        whole.min(strsim::damerau_levenshtein(&wanted, &last(candidate)))
    };
    let near = names.into_iter().map(|candidate| (distance(candidate), candidate)).min()?;
    (near.0 <= wanted.chars().count().max(3) / 3).then_some(near.1)
}

/// A value as it would stand in a file.
fn shown(value: &Value) -> String {
    match value {
        Value::Table(_) => "a table".to_owned(),
        value => value.to_string(),
    }
}

/// A whole number as a value; those beyond the range of TOML do not occur.
fn whole(number: u64) -> Value {
    Value::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

fn count(
    path: &'static str,
    meaning: &'static str,
    min: usize,
    field: fn(&mut TrialSettings) -> &mut usize,
) -> Setting {
    Setting { path, meaning, role: Role::Course, kind: Kind::Count { min, max: usize::MAX, field } }
}

fn number(
    path: &'static str,
    meaning: &'static str,
    rule: &'static str,
    accepts: fn(f64) -> bool,
    field: fn(&mut TrialSettings) -> &mut f64,
) -> Setting {
    Setting { path, meaning, role: Role::Course, kind: Kind::Number { rule, accepts, field } }
}

fn flag(path: &'static str, meaning: &'static str, field: fn(&mut TrialSettings) -> &mut bool) -> Setting {
    Setting { path, meaning, role: Role::Course, kind: Kind::Flag { field } }
}

fn text(
    path: &'static str,
    meaning: &'static str,
    expected: &'static str,
    get: fn(&TrialSettings) -> Option<Value>,
    set: fn(&mut TrialSettings, &str) -> Result<(), String>,
) -> Setting {
    Setting { path, meaning, role: Role::Course, kind: Kind::Text { expected, get, set } }
}

fn choice(
    path: &'static str,
    meaning: &'static str,
    words: &'static [&'static str],
    get: fn(&TrialSettings) -> &'static str,
    set: fn(&mut TrialSettings, &str),
) -> Setting {
    Setting { path, meaning, role: Role::Course, kind: Kind::Choice { words, get, set } }
}

/// One table for each concern; within it, the order of the explanation.
fn settings() -> Vec<Setting> {
    let mut all = vec![
        text(
            "task",
            "name of a task, or path of a data file",
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
                let parsed = semfocus_nn::Registry::standard().parse(text).map_err(|error| error.to_string())?;
                s.mechanism = parsed.spec.to_string();
                Ok(())
            },
        ),
        text(
            "seed",
            "seed of data, initial weights, order and dropout",
            "a whole number from 0 to 9223372036854775807",
            |s| Some(whole(s.seed)),
            |s, text| {
                // The upper half would not fit into TOML.
                s.seed = text.parse::<i64>().ok().and_then(|seed| u64::try_from(seed).ok()).ok_or("")?;
                Ok(())
            },
        ),
    ];
    all.extend(data());
    all.extend(model());
    all.extend(training());
    all.extend(probing());
    all.extend(oddities());
    all
}

fn data() -> Vec<Setting> {
    vec![
        text(
            "data.length",
            "tokens of a sequence: a number, or a range such as \"20..40\"; the task's own if left out",
            "a length such as 40, or a range such as \"20..40\"",
            |s| s.data.length.map(|length| Value::String(length.to_string())),
            |s, text| {
                s.data.length = Some(text.parse()?);
                Ok(())
            },
        ),
        count("data.train", "examples to train on", 1, |s| &mut s.data.sizes.train),
        count("data.held_out", "examples to measure generalisation with", 1, |s| &mut s.data.sizes.held_out),
        count("data.listops.max_depth", "listops: greatest depth of an expression", 1, |s| {
            &mut s.data.listops.max_depth
        }),
        count("data.listops.max_args", "listops: greatest number of arguments of an operator", 2, |s| {
            &mut s.data.listops.max_args
        }),
        number(
            "data.listops.operator_probability",
            "listops: probability that a node is an operator",
            "from 0 to 1",
            |x| (0.0..=1.0).contains(&x),
            |s| &mut s.data.listops.operator_probability,
        ),
        text(
            "data.checksum",
            "checksum of a data file, filled in; a file with another one is refused",
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
        count("model.blocks", "blocks, of an attention and an MLP sublayer each", 0, |s| &mut s.model.blocks),
        count("model.d_model", "width of the model", 1, |s| &mut s.model.d_model),
        count("model.d_mlp", "width of the hidden layer of the MLP", 1, |s| &mut s.model.d_mlp),
        count("model.heads", "heads of an attention sublayer", 1, |s| &mut s.model.heads),
        text(
            "model.d_head",
            "width of a head; that of the model if left out, whatever the number of heads",
            "a whole number of at least 1",
            |s| s.model.d_head.map(|width| whole(width as u64)),
            |s, text| {
                s.model.d_head =
                    Some(text.parse().ok().filter(|width| *width > 0).ok_or("expected a whole number of at least 1")?);
                Ok(())
            },
        ),
        choice(
            "model.activation",
            "activation of the MLP",
            &["relu", "gelu", "mish"],
            |s| match s.model.activation {
                Activation::Relu => "relu",
                Activation::Gelu => "gelu",
                Activation::Mish => "mish",
            },
            |s, word| {
                s.model.activation = match word {
                    "gelu" => Activation::Gelu,
                    "mish" => Activation::Mish,
                    _ => Activation::Relu,
                }
            },
        ),
        number(
            "model.dropout",
            "probability with which a value is dropped",
            "of at least 0 and below 1",
            |x| (0.0..1.0).contains(&x),
            |s| &mut s.model.dropout,
        ),
        number("model.inverse_temperature", "factor of the scores", "above 0", positive, |s| {
            &mut s.model.inverse_temperature
        }),
        choice(
            "model.engine",
            "which form of the sublayers computes: fast operators, or the plain definition",
            &["fused", "reference"],
            |s| match s.model.engine {
                Engine::Fused => "fused",
                Engine::Reference => "reference",
            },
            |s, word| s.model.engine = if word == "reference" { Engine::Reference } else { Engine::Fused },
        ),
    ]
}

fn training() -> Vec<Setting> {
    let mut epochs = count("training.epochs", "passes over the training examples", 1, |s| &mut s.training.epochs);
    epochs.role = Role::Duration;
    let mut stop_when = text(
        "training.stop_when",
        "goal at which a trial ends early, e.g. \"train_accuracy >= 0.99\", or \"never\"",
        "a goal such as \"train_accuracy >= 0.99\", or \"never\"",
        |s| s.training.stop_when.map(|goal| Value::String(goal.to_string())),
        |s, text| {
            s.training.stop_when = if text == "never" { None } else { Some(text.parse()?) };
            Ok(())
        },
    );
    stop_when.role = Role::Duration;
    vec![
        epochs,
        stop_when,
        count("training.batch", "examples of a step", 1, |s| &mut s.training.batch),
        number("training.learning_rate", "learning rate of the first epoch", "above 0", positive, |s| {
            &mut s.training.learning_rate
        }),
        number("training.decay", "factor of the learning rate after every epoch", "above 0", positive, |s| {
            &mut s.training.decay
        }),
        number(
            "training.clip",
            "greatest joint norm of the gradients; inf for none",
            "above 0",
            |x| x > 0.0,
            |s| &mut s.training.clip,
        ),
        choice(
            "training.optimizer",
            "the optimiser",
            &["sgd", "adam", "adamw"],
            |s| match s.training.optimizer.rule {
                Rule::Sgd => "sgd",
                Rule::Adam => "adam",
                Rule::AdamW => "adamw",
            },
            |s, word| {
                s.training.optimizer.rule = match word {
                    "adam" => Rule::Adam,
                    "adamw" => Rule::AdamW,
                    _ => Rule::Sgd,
                }
            },
        ),
        number("training.momentum", "sgd: share of the last update that the next one keeps", SHARE, share, |s| {
            &mut s.training.optimizer.momentum
        }),
        number("training.beta1", "adam, adamw: decay of the mean of gradients", SHARE, share, |s| {
            &mut s.training.optimizer.beta1
        }),
        number("training.beta2", "adam, adamw: decay of the mean of squared gradients", SHARE, share, |s| {
            &mut s.training.optimizer.beta2
        }),
        number("training.epsilon", "adam, adamw: keeps the division from 0", "above 0", positive, |s| {
            &mut s.training.optimizer.epsilon
        }),
        number(
            "training.weight_decay",
            "weight decay; adamw applies it to the weights, the others to the gradient",
            "of at least 0",
            |x| x >= 0.0 && x.is_finite(),
            |s| &mut s.training.optimizer.weight_decay,
        ),
    ]
}

/// What is recorded besides the epochs.
fn probing() -> Vec<Setting> {
    let mut every = count("probe_every", "epochs from one probe of the attention to the next; 0 for none", 0, |s| {
        &mut s.probing.every
    });
    let mut samples = count("probe_samples", "training examples that a probe looks at", 1, |s| &mut s.probing.samples);
    (every.role, samples.role) = (Role::Record, Role::Record);
    vec![every, samples]
}

/// Oddities of the published code: all off unless asked for.
fn oddities() -> Vec<Setting> {
    vec![
        flag("oddities.dropout_in_evaluation", "dropout on attention weights stays on in evaluation", |s| {
            &mut s.model.oddities.dropout_in_evaluation
        }),
        flag("oddities.first_norm_without_eps", "the first attention norm divides by the deviation alone", |s| {
            &mut s.model.oddities.first_norm_without_eps
        }),
        flag("oddities.pad_to_mask_multiple", "sequences are padded to a multiple of the mechanism's size", |s| {
            &mut s.model.oddities.pad_to_mask_multiple
        }),
        flag("oddities.skip_last_example", "the last training example is never used", |s| &mut s.skip_last_example),
    ]
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
        assert_eq!(message("model.heads", "0"), "expected a whole number of at least 1, got 0");
        assert_eq!(message("model.heads", "2.5"), "expected a whole number of at least 1, got 2.5");
        assert_eq!(message("model.heads", "-1"), "expected a whole number of at least 1, got -1");
        assert_eq!(message("model.d_head", "0"), "expected a whole number of at least 1, got 0");
        assert_eq!(message("model.dropout", "1"), "expected a number of at least 0 and below 1, got 1");
        assert_eq!(message("training.learning_rate", "nan"), "expected a number above 0, got nan");
        assert_eq!(message("oddities.skip_last_example", "\"yes\""), "expected true or false, got \"yes\"");
        assert_eq!(
            message("model.activation", "\"gelo\""),
            "expected one of \"relu\", \"gelu\", \"mish\", got \"gelo\"; did you mean \"gelu\"?"
        );
        assert!(message("mechanism", "\"tpok:5\"").contains("did you mean `topk:5`?"));
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
