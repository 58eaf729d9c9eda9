//! Reads the written form of a mechanism against a registry: the name must be known and take the values that are given.

use semfocus_core::mechanism::{MechanismSpec, Parts, Schedule, SpecValue, global_tokens};

use crate::registry::{Family, MechanismInfo, Registry};
use crate::values::{MAX_SIZE, Otherwise, Parameter, Values};

/// The largest number of global tokens.
const MAX_GLOBALS: usize = 1_000;

/// Why the written form of a mechanism is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum SpecError {
    #[error("no attention mechanism given; known are {known}")]
    Empty { known: String },
    #[error("unknown attention mechanism `{name}`; did you mean `{suggestion}`?")]
    Misspelt { name: String, suggestion: String },
    #[error("unknown attention mechanism `{name}`; known are {known}")]
    Unknown { name: String, known: String },
    #[error("`{name}` needs `{key}` ({meaning}), e.g. `{example}`")]
    MissingValue { name: String, key: String, meaning: String, example: String },
    #[error("`{name}` takes no values; write `{name}`")]
    NoValues { name: String },
    #[error("`{value}` in `{text}` has no key; {known}, e.g. `{example}`")]
    NoKey { text: String, value: String, known: String, example: String },
    #[error("`{name}` has no value `{key}`; it takes {known}, e.g. `{example}`")]
    UnknownKey { name: String, key: String, known: String, example: String },
    #[error("`{text}` gives `{key}` twice; write for instance `{example}`")]
    Twice { text: String, key: String, example: String },
    #[error("`{value}` in `{text}` is not {expected}; write for instance `{example}`")]
    WrongKind { text: String, value: String, expected: String, example: String },
    #[error("`{key}` in `{text}` must be {allowed}, e.g. `{example}`")]
    OutOfRange { text: String, key: String, allowed: String, example: String },
    #[error("`{text}`: {reason}")]
    Refused { text: String, reason: String },
    #[error("`{name}` takes no global tokens: it already attends to all tokens; write `{name}`")]
    GlobalsAddNothing { name: String },
    #[error("`{name}` takes no global tokens; only {allowed} do, e.g. `{example}`")]
    GlobalsNotAllowed { name: String, allowed: String, example: String },
    #[error("`+{suffix}` in `{text}` is not a number of global tokens; write for instance `{example}`")]
    GlobalsNotANumber { text: String, suffix: String, example: String },
    #[error("the number of global tokens in `{text}` must be between 1 and {MAX_GLOBALS}; for none write `{without}`")]
    GlobalsOutOfRange { text: String, without: String },
    #[error("`{text}` changes between blocks or during training, which is not possible here; write one mechanism")]
    Several { text: String },
    #[error("{0}")]
    Form(String),
}

impl From<String> for SpecError {
    fn from(message: String) -> Self {
        SpecError::Form(message)
    }
}

/// Reads a schedule, and writes each of its mechanisms in its usual spelling.
pub(crate) fn parse_schedule(text: &str, registry: &Registry) -> Result<Schedule, SpecError> {
    if !is_composite(text) {
        return Ok(parse(text, registry)?.0.into());
    }
    text.parse::<Schedule>()?.try_map(|spec| Ok(parse(&spec.to_string(), registry)?.0))
}

fn is_composite(text: &str) -> bool {
    text.contains(['/', '@'])
}

/// Reads `name`, `name:value,key=value` or either with `+gN`, ignoring blanks around it: the usual spelling and the values.
pub(crate) fn parse(text: &str, registry: &Registry) -> Result<(MechanismSpec, Values), SpecError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(SpecError::Empty { known: known(registry) });
    }
    if is_composite(text) {
        return Err(SpecError::Several { text: text.to_owned() });
    }
    let parts = Parts::new(text);
    let info = registry.get(parts.name).ok_or_else(|| unknown_name(&parts, registry))?;
    let mut values = parse_values(text, parts.values.as_deref(), info)?;
    let mut spec = written(info, &values);
    if let Some(suffix) = parts.suffix {
        spec.globals = parse_globals(text, suffix, info, &spec, registry)?;
        values.globals = spec.globals;
    }
    Ok((spec, values))
}

/// The usual spelling: values in the order of the registry, without those that are the default.
pub(crate) fn written(info: &MechanismInfo, values: &Values) -> MechanismSpec {
    let mut spec = MechanismSpec::new(info.name);
    for (number, parameter) in info.parameters.iter().enumerate() {
        let Some(value) = values.get(parameter.name) else { continue };
        if matches!(parameter.otherwise, Otherwise::Value(default) if SpecValue::from(default) == *value) {
            continue;
        }
        match number == 0 && !parameter.keyed {
            true => spec.first = Some(value.clone()),
            false => spec.named.push((parameter.name.to_owned(), value.clone())),
        }
    }
    spec
}

fn parse_values(text: &str, given: Option<&[(Option<&str>, &str)]>, info: &MechanismInfo) -> Result<Values, SpecError> {
    let example = || info.example().to_string();
    let (name, text) = (info.name.to_owned(), text.to_owned());
    if given.is_some() && info.parameters.is_empty() {
        return Err(SpecError::NoValues { name });
    }
    let known = || list(info.parameters.iter().map(|parameter| parameter.name));
    let mut found: Vec<(&'static str, SpecValue)> = Vec::new();
    for (number, &(key, value)) in given.unwrap_or(&[]).iter().enumerate() {
        let parameter = match key {
            None => info.parameters.first().filter(|first| number == 0 && !first.keyed).ok_or_else(|| {
                let (text, value, known) = (text.clone(), value.to_owned(), format!("`{name}` takes {}", known()));
                SpecError::NoKey { text, value, known, example: example() }
            })?,
            Some(key) => info.parameters.iter().find(|parameter| parameter.name == key).ok_or_else(|| {
                let (name, key) = (name.clone(), key.to_owned());
                SpecError::UnknownKey { name, key, known: known(), example: example() }
            })?,
        };
        if found.iter().any(|(key, _)| *key == parameter.name) {
            let key = parameter.name.to_owned();
            return Err(SpecError::Twice { text, key, example: example() });
        }
        found.push((parameter.name, checked(&text, value, parameter, example())?));
    }
    for parameter in info.parameters {
        match parameter.otherwise {
            _ if found.iter().any(|(key, _)| *key == parameter.name) => {}
            Otherwise::Absent => {}
            Otherwise::Value(default) => found.push((parameter.name, default.into())),
            Otherwise::Required => {
                let (key, meaning) = (parameter.name.to_owned(), parameter.meaning.to_owned());
                return Err(SpecError::MissingValue { name, key, meaning, example: example() });
            }
        }
    }
    Ok(Values { values: found, globals: 0 })
}

fn checked(text: &str, value: &str, parameter: &Parameter, example: String) -> Result<SpecValue, SpecError> {
    let (text, key, meaning) = (text.to_owned(), parameter.name.to_owned(), parameter.meaning.to_owned());
    let Some(value) = value.parse().ok().filter(|value| parameter.takes(value)) else {
        let (value, expected) = (value.to_owned(), format!("{} ({meaning})", parameter.expected()));
        return Err(SpecError::WrongKind { text, value, expected, example });
    };
    match value.number() {
        Some(number) if number < parameter.min => {
            let allowed = format!("at least {} ({meaning})", parameter.min);
            Err(SpecError::OutOfRange { text, key, allowed, example })
        }
        Some(number) if number > parameter.max => {
            let meaning = match parameter.max == MAX_SIZE as f64 {
                true => format!("{meaning}; more than a sequence is long makes no difference"),
                false => meaning,
            };
            let allowed = format!("at most {} ({meaning})", parameter.max);
            Err(SpecError::OutOfRange { text, key, allowed, example })
        }
        _ => Ok(value),
    }
}

fn parse_globals(
    text: &str,
    suffix: &str,
    info: &MechanismInfo,
    without: &MechanismSpec,
    registry: &Registry,
) -> Result<usize, SpecError> {
    let name = info.name.to_owned();
    if info.family == Family::Baseline {
        return Err(SpecError::GlobalsAddNothing { name });
    }
    if !info.allows_globals {
        let allowed: Vec<&MechanismInfo> = registry.iter().filter(|info| info.allows_globals).collect();
        let example = allowed.first().map_or_else(String::new, |info| format!("{}+g1", info.example()));
        return Err(SpecError::GlobalsNotAllowed {
            name,
            allowed: list(allowed.iter().map(|info| info.name)),
            example,
        });
    }
    match global_tokens(suffix) {
        Some(globals) if (1..=MAX_GLOBALS).contains(&globals) => Ok(globals),
        Some(_) => Err(SpecError::GlobalsOutOfRange { text: text.to_owned(), without: without.to_string() }),
        None => {
            let example = format!("{without}+g1");
            Err(SpecError::GlobalsNotANumber { text: text.to_owned(), suffix: suffix.to_owned(), example })
        }
    }
}

/// The error for a name that is not in the registry, with the whole spec corrected when a name is close.
fn unknown_name(parts: &Parts, registry: &Registry) -> SpecError {
    let lower = parts.name.to_lowercase();
    let nearest = registry
        .iter()
        .map(|info| (strsim::damerau_levenshtein(&lower, info.name), info))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, info)| *distance <= 2 && *distance < info.name.len() / 2 + 1);
    let name = parts.name.to_owned();
    let Some((_, info)) = nearest else {
        return SpecError::Unknown { name, known: known(registry) };
    };
    // Keep what was written as far as it is valid.
    let values = parts.values.as_deref();
    let mut spec = parse_values("", values, info).map_or_else(|_| info.example(), |values| written(info, &values));
    if info.allows_globals
        && let Some(globals) = parts.suffix.and_then(global_tokens)
    {
        spec.globals = globals.min(MAX_GLOBALS);
    }
    SpecError::Misspelt { name, suggestion: spec.to_string() }
}

fn known(registry: &Registry) -> String {
    list(registry.iter().map(|info| info.name))
}

/// `a, b and c`.
fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.concat(),
    }
}
