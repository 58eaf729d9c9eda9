//! The lists of what specs can name, and how a spec is read against one: the name must be known and take the values that are given.

use super::{
    Otherwise, Parameter, Parts, Spec, SpecValue, Values, global_tokens, is_key, is_name, parameter::MAX_SIZE,
};

/// The largest number of global tokens.
const MAX_GLOBALS: usize = 1_000;

/// Something that a spec can name.
pub trait Named {
    /// What such things are called in messages.
    const KIND: &'static str;
    /// The name by which specs call it: lower-case letters, digits and hyphens.
    fn name(&self) -> &'static str;
    /// The values that it takes, in the order in which they are written.
    fn parameters(&self) -> &'static [Parameter];
    /// Whether `+gN` may follow.
    fn globals(&self) -> Globals {
        Globals::Refused
    }

    /// How it is written: `topk:k[,ties=random]`, `moba:block=8,k=2`, `banded:w[+gN]`. What may be left out is in brackets;
    /// numbers with a key are examples.
    fn form(&self) -> String {
        let is_required = |parameter: &Parameter| parameter.otherwise == Otherwise::Required;
        let written = |number: usize, parameter: &Parameter| {
            let Parameter { name, words, .. } = parameter;
            match number == 0 && !parameter.keyed {
                true => [&[*name], *words].concat().join("|"),
                // Of words, the first is the usual one.
                false if parameter.min > parameter.max => format!("{name}={}", words[words.len() - 1]),
                false => format!("{name}={}", SpecValue::from(parameter.example)),
            }
        };
        let part = |required: bool| {
            let parameters = self.parameters().iter().enumerate().filter(|(_, p)| is_required(p) == required);
            parameters.map(|(number, parameter)| written(number, parameter)).collect::<Vec<_>>().join(",")
        };
        let (required, optional) = (part(true), part(false));
        let mut form = self.name().to_owned();
        if !required.is_empty() {
            form += &format!(":{required}");
        }
        if !optional.is_empty() {
            form += &format!("[{}{optional}]", if required.is_empty() { ':' } else { ',' });
        }
        form + if self.globals() == Globals::Allowed { "[+gN]" } else { "" }
    }

    /// A valid spec: the one that documentation shows.
    fn example(&self) -> Spec {
        let required = self.parameters().iter().filter(|parameter| parameter.otherwise == Otherwise::Required);
        let values = required.map(|parameter| (parameter.name, parameter.example.into())).collect();
        self.written(&Values { values, globals: 0 })
    }

    /// The usual spelling: values in the order of the parameters, without those that are the default.
    fn written(&self, values: &Values) -> Spec {
        let mut spec = Spec { globals: values.globals, ..Spec::new(self.name()) };
        for (number, parameter) in self.parameters().iter().enumerate() {
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
}

/// Whether something takes global tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Globals {
    /// `+gN` may follow.
    Allowed,
    /// They would change nothing, because it attends to all tokens anyway.
    Pointless,
    /// They have no meaning here.
    Refused,
}

/// Why a spec is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum SpecError {
    #[error("no {kind} given; known are {known}")]
    Empty { kind: &'static str, known: String },
    #[error("unknown {kind} `{name}`; did you mean `{suggestion}`?")]
    Misspelt { kind: &'static str, name: String, suggestion: String },
    #[error("unknown {kind} `{name}`; known are {known}")]
    Unknown { kind: &'static str, name: String, known: String },
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
    #[error("{0}")]
    Form(String),
}

impl From<String> for SpecError {
    fn from(message: String) -> Self {
        SpecError::Form(message)
    }
}

/// A list of what can be named.
#[derive(Clone, Debug)]
pub struct Table<E> {
    entries: Vec<E>,
}

impl<E: Named> Table<E> {
    /// These entries, in the order in which they are listed.
    ///
    /// # Panics
    /// As [`with`](Self::with) does.
    pub fn new(entries: Vec<E>) -> Self {
        entries.into_iter().fold(Table { entries: Vec::new() }, Table::with)
    }

    /// The same with one more entry, for instance one that is defined in another crate.
    ///
    /// # Panics
    /// If the name is taken, or it or a key contains anything but lower-case letters, digits and hyphens.
    pub fn with(mut self, entry: E) -> Self {
        let (kind, name) = (E::KIND, entry.name());
        assert!(is_name(name), "`{name}` cannot be a name ({kind})");
        for parameter in entry.parameters() {
            assert!(is_key(parameter.name), "`{}` cannot be the key of a value of `{name}`", parameter.name);
        }
        assert!(self.get(name).is_none(), "`{name}` is the name of another {kind} already");
        self.entries.push(entry);
        self
    }

    /// The entries, in the order in which they are listed.
    pub fn iter(&self) -> impl Iterator<Item = &E> {
        self.entries.iter()
    }

    /// The entry of this name.
    pub fn get(&self, name: &str) -> Option<&E> {
        self.iter().find(|entry| entry.name() == name)
    }

    /// Reads a spec, ignoring blanks around it: what it names, its usual spelling, and its values.
    pub fn read(&self, text: &str) -> Result<(&E, Spec, Values), SpecError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(SpecError::Empty { kind: E::KIND, known: self.known() });
        }
        let parts = Parts::new(text);
        let entry = self.get(parts.name).ok_or_else(|| self.unknown_name(&parts))?;
        let mut values = parse_values(text, parts.values.as_deref(), entry)?;
        if let Some(suffix) = parts.suffix {
            values.globals = self.parse_globals(text, suffix, entry, &entry.written(&values))?;
        }
        Ok((entry, entry.written(&values), values))
    }

    fn parse_globals(&self, text: &str, suffix: &str, entry: &E, without: &Spec) -> Result<usize, SpecError> {
        let name = entry.name();
        let refusal = match entry.globals() {
            Globals::Pointless => {
                format!("`{name}` takes no global tokens: it already attends to all tokens; write `{name}`")
            }
            Globals::Refused => {
                let allowed = || self.iter().filter(|entry| entry.globals() == Globals::Allowed);
                let others = allowed().next().map_or_else(String::new, |first| {
                    let names = list(allowed().map(Named::name));
                    format!("; only {names} do, e.g. `{}+g1`", first.example())
                });
                format!("`{name}` takes no global tokens{others}")
            }
            Globals::Allowed => match global_tokens(suffix) {
                Some(globals) if (1..=MAX_GLOBALS).contains(&globals) => return Ok(globals),
                Some(_) => format!(
                    "the number of global tokens in `{text}` must be between 1 and {MAX_GLOBALS}; for none write `{without}`"
                ),
                None => format!(
                    "`+{suffix}` in `{text}` is not a number of global tokens; write for instance `{without}+g1`"
                ),
            },
        };
        Err(SpecError::Form(refusal))
    }

    /// The error for a name that is not in the list, with the whole spec corrected when a name is close.
    fn unknown_name(&self, parts: &Parts<'_>) -> SpecError {
        let plain = parts.name.to_lowercase().replace(['_', ' '], "-");
        let is_near = |distance: usize, name: &str| distance <= 2.max(name.len() / 3) && distance <= name.len() / 2;
        let nearest = self
            .iter()
            .map(|entry| (strsim::damerau_levenshtein(&plain, entry.name()), entry))
            .min_by_key(|(distance, _)| *distance)
            .filter(|(distance, entry)| is_near(*distance, entry.name()));
        let (kind, name) = (E::KIND, parts.name.to_owned());
        let Some((_, entry)) = nearest else {
            return SpecError::Unknown { kind, name, known: self.known() };
        };
        // Keep what was written as far as it is valid.
        let values = parse_values("", parts.values.as_deref(), entry);
        let mut spec = values.map_or_else(|_| entry.example(), |values| entry.written(&values));
        if entry.globals() == Globals::Allowed
            && let Some(globals) = parts.suffix.and_then(global_tokens)
        {
            spec.globals = globals.min(MAX_GLOBALS);
        }
        SpecError::Misspelt { kind, name, suggestion: spec.to_string() }
    }

    fn known(&self) -> String {
        list(self.iter().map(Named::name))
    }
}

fn parse_values(text: &str, given: Option<&[(Option<&str>, &str)]>, entry: &impl Named) -> Result<Values, SpecError> {
    let (parameters, example) = (entry.parameters(), || entry.example().to_string());
    let (name, text) = (entry.name().to_owned(), text.to_owned());
    if given.is_some() && parameters.is_empty() {
        return Err(SpecError::NoValues { name });
    }
    let known = || list(parameters.iter().map(|parameter| parameter.name));
    let mut values: Vec<(&'static str, SpecValue)> = Vec::new();
    for (number, &(key, value)) in given.unwrap_or(&[]).iter().enumerate() {
        let parameter = match key {
            None => parameters.first().filter(|first| number == 0 && !first.keyed).ok_or_else(|| {
                let (text, value, known) = (text.clone(), value.to_owned(), format!("`{name}` takes {}", known()));
                SpecError::NoKey { text, value, known, example: example() }
            })?,
            Some(key) => parameters.iter().find(|parameter| parameter.name == key).ok_or_else(|| {
                let (name, key) = (name.clone(), key.to_owned());
                SpecError::UnknownKey { name, key, known: known(), example: example() }
            })?,
        };
        if values.iter().any(|(key, _)| *key == parameter.name) {
            let key = parameter.name.to_owned();
            return Err(SpecError::Twice { text, key, example: example() });
        }
        values.push((parameter.name, checked(&text, value, parameter, example())?));
    }
    for parameter in parameters {
        match parameter.otherwise {
            _ if values.iter().any(|(key, _)| *key == parameter.name) => {}
            Otherwise::Absent => {}
            Otherwise::Value(default) => values.push((parameter.name, default.into())),
            Otherwise::Required => {
                let (key, meaning) = (parameter.name.to_owned(), parameter.meaning.to_owned());
                return Err(SpecError::MissingValue { name, key, meaning, example: example() });
            }
        }
    }
    Ok(Values { values, globals: 0 })
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
                true => format!("{meaning}; values above the length of the sequence make no difference"),
                false => meaning,
            };
            let allowed = format!("at most {} ({meaning})", parameter.max);
            Err(SpecError::OutOfRange { text, key, allowed, example })
        }
        _ => Ok(value),
    }
}

/// `a, b and c`.
fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.concat(),
    }
}
