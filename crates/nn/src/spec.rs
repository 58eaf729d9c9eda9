//! Reads the written form of a mechanism against a registry: the name must be known and take the size that is given.

use semfocus_core::mechanism::{MechanismSpec, split, whole_number};

use crate::registry::{Family, MechanismInfo, Parameter, Registry};

/// The largest size a mechanism may have. It is larger than any sequence we train on, and a size of at least the sequence length
/// acts as full attention, so the limit only catches mistyped numbers.
pub(crate) const MAX_SIZE: usize = 1_000_000;

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
    #[error("`{name}` needs a size ({meaning}), e.g. `{example}`")]
    MissingSize { name: String, meaning: String, example: String },
    #[error("`{name}` takes no size; write `{name}`")]
    UnexpectedSize { name: String },
    #[error("`{text}` has more than one size; write for instance `{example}`")]
    TooManySizes { text: String, example: String },
    #[error("the size `{size}` in `{text}` is not a whole number; write for instance `{example}`")]
    SizeNotANumber { text: String, size: String, example: String },
    #[error("the size in `{text}` must be at least {min} ({meaning}), e.g. `{example}`")]
    SizeTooSmall { text: String, min: usize, meaning: String, example: String },
    #[error("the size in `{text}` must be at most {max}; a size of at least the sequence length acts as `full`")]
    SizeTooLarge { text: String, max: usize },
    #[error("`{name}` takes no global tokens: it already attends to all tokens; write `{name}`")]
    GlobalsAddNothing { name: String },
    #[error("`{name}` takes no global tokens; only {allowed} do, e.g. `{example}`")]
    GlobalsNotAllowed { name: String, allowed: String, example: String },
    #[error("`+{suffix}` in `{text}` is not a number of global tokens; write for instance `{example}`")]
    GlobalsNotANumber { text: String, suffix: String, example: String },
    #[error("the number of global tokens in `{text}` must be between 1 and {MAX_GLOBALS}; for none write `{without}`")]
    GlobalsOutOfRange { text: String, without: String },
}

/// Reads `name`, `name:size` or `name:size+gN`, ignoring blanks around it.
pub(crate) fn parse(text: &str, registry: &Registry) -> Result<MechanismSpec, SpecError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(SpecError::Empty { known: known(registry) });
    }
    let (body, suffix) = split(text, '+');
    let (name, size) = split(body, ':');
    let info = registry.get(name).ok_or_else(|| unknown_name(name, size, suffix, registry))?;
    let size = parse_size(text, size, info)?;
    let mut spec = MechanismSpec { name: name.to_owned(), size, globals: 0 };
    if let Some(suffix) = suffix {
        spec.globals = parse_globals(text, suffix, info, &spec, registry)?;
    }
    Ok(spec)
}

fn parse_size(text: &str, size: Option<&str>, info: &MechanismInfo) -> Result<Option<usize>, SpecError> {
    let example = info.example().to_string();
    let name = || info.name.to_owned();
    match (&info.size, size) {
        (None, None) => Ok(None),
        (None, Some(_)) => Err(SpecError::UnexpectedSize { name: name() }),
        (Some(parameter), None) => {
            Err(SpecError::MissingSize { name: name(), meaning: parameter.meaning.to_owned(), example })
        }
        (Some(_), Some(size)) if size.contains(':') => Err(SpecError::TooManySizes { text: text.to_owned(), example }),
        (Some(parameter), Some(size)) => {
            let Some(number) = whole_number(size) else {
                return Err(SpecError::SizeNotANumber { text: text.to_owned(), size: size.to_owned(), example });
            };
            check_size(text, number, parameter, example).map(Some)
        }
    }
}

fn check_size(text: &str, size: usize, parameter: &Parameter, example: String) -> Result<usize, SpecError> {
    let Parameter { min, max, .. } = *parameter;
    let text = text.to_owned();
    if size < min {
        let meaning = parameter.meaning.to_owned();
        return Err(SpecError::SizeTooSmall { text, min, meaning, example });
    }
    if size > max {
        return Err(SpecError::SizeTooLarge { text, max });
    }
    Ok(size)
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
    match suffix.strip_prefix('g').and_then(whole_number) {
        Some(globals) if (1..=MAX_GLOBALS).contains(&globals) => Ok(globals),
        Some(_) => Err(SpecError::GlobalsOutOfRange { text: text.to_owned(), without: without.to_string() }),
        None => {
            let example = format!("{without}+g1");
            Err(SpecError::GlobalsNotANumber { text: text.to_owned(), suffix: suffix.to_owned(), example })
        }
    }
}

/// The error for a name that is not in the registry, with the whole spec corrected when a name is close.
fn unknown_name(name: &str, size: Option<&str>, suffix: Option<&str>, registry: &Registry) -> SpecError {
    let lower = name.to_lowercase();
    let nearest = registry
        .iter()
        .map(|info| (strsim::damerau_levenshtein(&lower, info.name), info))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, info)| *distance <= 2 && *distance < info.name.len() / 2 + 1);
    let name = name.to_owned();
    let Some((_, info)) = nearest else {
        return SpecError::Unknown { name, known: known(registry) };
    };
    let mut spec = info.example();
    // Keep the numbers that were written if they are valid.
    if let (Some(parameter), Some(number)) = (&info.size, size.and_then(whole_number))
        && (parameter.min..=parameter.max).contains(&number)
    {
        spec.size = Some(number);
    }
    if info.allows_globals
        && let Some(globals) = suffix.and_then(|suffix| suffix.strip_prefix('g')).and_then(whole_number)
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
