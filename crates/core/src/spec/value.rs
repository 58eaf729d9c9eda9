//! A value in a spec.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use super::{is_key, whole_number};

/// A number or a word.
#[derive(Clone, Debug)]
pub enum SpecValue {
    /// Whole or decimal, not negative, and finite.
    Number(f64),
    /// Lower-case letters, digits and hyphens, beginning with a letter.
    Word(String),
}

impl SpecValue {
    /// The number, if it is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            SpecValue::Number(number) => Some(*number),
            SpecValue::Word(_) => None,
        }
    }

    /// The number, if it is a whole one.
    pub fn whole(&self) -> Option<usize> {
        // Larger numbers stand for the largest, which is over every limit.
        self.number().filter(|number| number.fract() == 0.0).map(|number| number as usize)
    }
}

impl From<usize> for SpecValue {
    fn from(number: usize) -> Self {
        SpecValue::Number(number as f64)
    }
}

/// The shortest decimal number that reads as the same: whole ones without a point.
impl fmt::Display for SpecValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpecValue::Number(number) => write!(f, "{number}"),
            SpecValue::Word(word) => f.write_str(word),
        }
    }
}

impl FromStr for SpecValue {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if is_key(text) {
            return Ok(SpecValue::Word(text.to_owned()));
        }
        let (whole, rest) = text.split_once('.').unwrap_or((text, "0"));
        let is_number = whole_number(whole).is_some() && whole_number(rest).is_some();
        let number: f64 = text.parse().ok().filter(|_| is_number).ok_or(())?;
        Ok(SpecValue::Number(number.min(f64::MAX)))
    }
}

impl PartialEq for SpecValue {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (SpecValue::Number(one), SpecValue::Number(other)) => one == other,
            (SpecValue::Word(one), SpecValue::Word(other)) => one == other,
            _ => false,
        }
    }
}

/// Numbers are finite, so every value is equal to itself.
impl Eq for SpecValue {}

impl Hash for SpecValue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            // Zero and minus zero are equal.
            SpecValue::Number(number) => (number + 0.0).to_bits().hash(state),
            SpecValue::Word(word) => word.hash(state),
        }
    }
}
