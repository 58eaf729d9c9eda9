//! The values that something takes that is named by a spec: what is allowed, and what was given.

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::SpecValue;

/// The largest [size](Parameter::size), such as a number of keys to keep. It is larger than any sequence we train on, so the limit
/// only catches mistyped numbers.
pub const MAX_SIZE: usize = 1_000_000;

/// A value that a mechanism, task or measurement takes: `k` of `topk:k`, `block` of `moba:block=8,k=2`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Parameter {
    /// Its key in the written form.
    pub name: &'static str,
    /// What it counts.
    pub meaning: &'static str,
    /// Whether a number has to be whole.
    pub whole: bool,
    /// Smallest allowed number.
    #[serde(serialize_with = "number")]
    pub min: f64,
    /// Largest allowed number. With `max` below `min` no number is allowed.
    #[serde(serialize_with = "number")]
    pub max: f64,
    /// Words that are allowed instead of a number.
    pub words: &'static [&'static str],
    /// What holds if it is not written.
    #[serde(flatten)]
    pub otherwise: Otherwise,
    /// A typical value, used in help texts.
    pub example: Literal,
    /// Whether it is always written with its key. The first parameter usually is not.
    pub keyed: bool,
}

/// A value that is known when the program is compiled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Literal {
    /// A number.
    Number(f64),
    /// A word.
    Word(&'static str),
}

impl From<Literal> for SpecValue {
    fn from(literal: Literal) -> Self {
        match literal {
            Literal::Number(number) => SpecValue::Number(number),
            Literal::Word(word) => SpecValue::Word(word.to_owned()),
        }
    }
}

impl Serialize for Literal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Literal::Number(value) => number(value, serializer),
            Literal::Word(word) => serializer.serialize_str(word),
        }
    }
}

/// Whole numbers without a point.
fn number<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    let whole = *number as i64;
    if whole as f64 == *number { serializer.serialize_i64(whole) } else { serializer.serialize_f64(*number) }
}

/// What holds if a parameter is not written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Otherwise {
    /// It has to be written.
    Required,
    /// It may be left out, and then has no value.
    Absent,
    /// It has this value.
    Value(Literal),
}

/// Two fields: `required` and `default`.
impl Serialize for Otherwise {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Otherwise", 2)?;
        fields.serialize_field("required", &(*self == Otherwise::Required))?;
        let default = if let Otherwise::Value(default) = self { Some(default) } else { None };
        fields.serialize_field("default", &default)?;
        fields.end()
    }
}

impl Parameter {
    /// A whole number.
    pub const fn whole(name: &'static str, meaning: &'static str, min: usize, max: usize, example: usize) -> Self {
        Parameter { whole: true, ..Self::number(name, meaning, min as f64, max as f64, example as f64) }
    }

    /// A whole number of at least one: of keys, tokens, blocks.
    pub const fn size(name: &'static str, meaning: &'static str, example: usize) -> Self {
        Self::whole(name, meaning, 1, MAX_SIZE, example)
    }

    /// A number, whole or decimal.
    pub const fn number(name: &'static str, meaning: &'static str, min: f64, max: f64, example: f64) -> Self {
        let (words, otherwise, example) = (&[] as &[_], Otherwise::Required, Literal::Number(example));
        Parameter { name, meaning, whole: false, min, max, words, otherwise, example, keyed: false }
    }

    /// One of some words.
    pub const fn word(name: &'static str, meaning: &'static str, words: &'static [&'static str]) -> Self {
        let (otherwise, example) = (Otherwise::Required, Literal::Word(words[0]));
        Parameter { name, meaning, whole: false, min: 1.0, max: 0.0, words, otherwise, example, keyed: true }
    }

    /// The same, and words are allowed too.
    pub const fn or_words(self, words: &'static [&'static str]) -> Self {
        Parameter { words, ..self }
    }

    /// The same with a value that holds if none is written.
    pub const fn default(self, value: Literal) -> Self {
        Parameter { otherwise: Otherwise::Value(value), ..self }
    }

    /// The same, which may be left out.
    pub const fn optional(self) -> Self {
        Parameter { otherwise: Otherwise::Absent, ..self }
    }

    /// The same, always written with its key.
    pub const fn keyed(self) -> Self {
        Parameter { keyed: true, ..self }
    }

    /// What may be written: `a whole number`, `` a number or `learned` ``.
    pub(super) fn expected(&self) -> String {
        let number = (self.min <= self.max).then(|| if self.whole { "a whole number" } else { "a number" }.to_owned());
        let words = self.words.iter().map(|word| format!("`{word}`"));
        number.into_iter().chain(words).collect::<Vec<_>>().join(" or ")
    }

    /// Whether a value is of the right kind, whatever its size.
    pub(super) fn takes(&self, value: &SpecValue) -> bool {
        match value {
            SpecValue::Number(number) => self.min <= self.max && (!self.whole || number.fract() == 0.0),
            SpecValue::Word(word) => self.words.contains(&word.as_str()),
        }
    }
}

/// The values of a spec: those that were written, and defaults for the others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Values {
    pub(super) values: Vec<(&'static str, SpecValue)>,
    pub(super) globals: usize,
}

impl Values {
    /// The value of a parameter; `None` if it is [absent](Otherwise::Absent).
    pub fn get(&self, name: &str) -> Option<&SpecValue> {
        self.values.iter().find(|(other, _)| *other == name).map(|(_, value)| value)
    }

    /// The number of a parameter.
    ///
    /// # Panics
    /// If it has none, although its [`Parameter`] says that it has.
    pub fn number(&self, name: &str) -> f64 {
        let number = self.get(name).and_then(SpecValue::number);
        number.unwrap_or_else(|| panic!("the parameter `{name}` is not a number: {self:?}"))
    }

    /// The whole number of a parameter.
    ///
    /// # Panics
    /// If it has none, although its [`Parameter`] says that it has.
    pub fn whole(&self, name: &str) -> usize {
        self.number(name) as usize
    }

    /// The number of global tokens.
    pub fn globals(&self) -> usize {
        self.globals
    }

    /// Whether a parameter is this word.
    pub fn is(&self, name: &str, word: &str) -> bool {
        matches!(self.get(name), Some(SpecValue::Word(given)) if given == word)
    }
}
