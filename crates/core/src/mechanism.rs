//! How a mechanism is written: `name`, `name:size` or `name:size+gN`, for instance `full`, `topk:5`, `banded:5+g1`.
//!
//! This is the form alone. Which names there are and which sizes they take is up to a registry of mechanisms; whoever reads
//! results needs none, so a store can be read by a program that does not know all of its mechanisms.

use std::fmt;
use std::str::FromStr;

/// The mechanism that all others are compared with.
pub const BASELINE: &str = "full";

/// A mechanism as it is written. Printing it and reading it again gives the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MechanismSpec {
    /// Name in a registry.
    pub name: String,
    /// Number of kept keys, width of the band, size of a block: what it means is up to the mechanism.
    pub size: Option<usize>,
    /// Number of learned tokens appended to every sequence.
    pub globals: usize,
}

impl fmt::Display for MechanismSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(size) = self.size {
            write!(f, ":{size}")?;
        }
        if self.globals > 0 {
            write!(f, "+g{}", self.globals)?;
        }
        Ok(())
    }
}

impl FromStr for MechanismSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || format!("`{text}` is not a mechanism; write name, name:size or name:size+gN, e.g. `topk:5`");
        let (body, globals) = split(text.trim(), '+');
        let (name, size) = split(body, ':');
        let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || !name.chars().all(is_letter) {
            return Err(wrong());
        }
        let size = size.map(|size| whole_number(size).ok_or_else(wrong)).transpose()?;
        let globals = match globals {
            None => 0,
            Some(text) => text.strip_prefix('g').and_then(whole_number).filter(|&count| count > 0).ok_or_else(wrong)?,
        };
        Ok(MechanismSpec { name: name.to_owned(), size, globals })
    }
}

/// The parts before and after the first separator.
pub fn split(text: &str, separator: char) -> (&str, Option<&str>) {
    text.split_once(separator).map_or((text, None), |(head, tail)| (head, Some(tail)))
}

/// Decimal digits as a number. One too large for the machine stands for the largest, which is over every limit.
pub fn whole_number(text: &str) -> Option<usize> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_are_written_as_they_are_read() {
        for text in ["full", "topk:5", "banded:5+g1", "my-own:12", "x2+g3"] {
            assert_eq!(text.parse::<MechanismSpec>().unwrap().to_string(), text);
        }
        assert_eq!(" topk:5 ".parse::<MechanismSpec>().unwrap().size, Some(5));
        for text in ["", ":5", "topk:", "topk:x", "topk:5+1", "topk:5+g0", "Top:5", "a b", "topk:5:6"] {
            assert!(text.parse::<MechanismSpec>().is_err(), "{text}");
        }
    }
}
