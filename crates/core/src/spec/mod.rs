//! How mechanisms, tasks and measurements are written: `name`, `name:value`, `name:key=value,key=value`, and `+gN` after a
//! mechanism that has global tokens.
//!
//! | to find | look in |
//! |---|---|
//! | the form alone | [`Spec`], [`SpecValue`] |
//! | which values something takes, and those that were given | [`Parameter`], [`Values`] |
//! | a list of what can be named; reading a spec against it; messages about wrong ones | [`Table`], [`Named`], [`SpecError`] |
//!
//! Whoever reads results needs no table, so a store can be read by a program that does not know all of its mechanisms and tasks.

mod parameter;
mod table;
mod value;

use std::fmt;
use std::str::FromStr;

pub use parameter::{Literal, MAX_SIZE, Otherwise, Parameter, Values};
pub use table::{Globals, Named, SpecError, Table};
pub use value::SpecValue;

/// A mechanism, task or measurement as it is written. Printing it and reading it again gives the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Spec {
    /// Name in a [`Table`].
    pub name: String,
    /// The value that is written without a key, the 5 of `topk:5`. What it means is up to what is named.
    pub first: Option<SpecValue>,
    /// The values with keys, in the order in which they are written.
    pub named: Vec<(String, SpecValue)>,
    /// Number of learned tokens appended to every sequence, which only mechanisms can have.
    pub globals: usize,
}

impl Spec {
    /// A name without values.
    pub fn new(name: &str) -> Self {
        Spec { name: name.to_owned(), first: None, named: Vec::new(), globals: 0 }
    }

    /// The value without a key, if it is a whole number: the number of kept keys, the width of a band, the size of a block.
    pub fn size(&self) -> Option<usize> {
        self.first.as_ref().and_then(SpecValue::whole)
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        let mut sign = ':';
        if let Some(first) = &self.first {
            write!(f, ":{first}")?;
            sign = ',';
        }
        for (key, value) in &self.named {
            write!(f, "{sign}{key}={value}")?;
            sign = ',';
        }
        if self.globals > 0 {
            write!(f, "+g{}", self.globals)?;
        }
        Ok(())
    }
}

impl FromStr for Spec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || format!("`{text}` is not a name with values; write for instance `topk:5` or `moba:block=8,k=2`");
        let parts = Parts::new(text);
        if !is_name(parts.name) {
            return Err(wrong());
        }
        let mut spec = Spec::new(parts.name);
        for (number, (key, value)) in parts.values.into_iter().flatten().enumerate() {
            let value = value.parse().map_err(|()| wrong())?;
            match key {
                None if number == 0 => spec.first = Some(value),
                Some(key) if is_key(key) && spec.named.iter().all(|(other, _)| other != key) => {
                    spec.named.push((key.to_owned(), value));
                }
                _ => return Err(wrong()),
            }
        }
        if let Some(suffix) = parts.suffix {
            spec.globals = global_tokens(suffix).filter(|&count| count > 0).ok_or_else(wrong)?;
        }
        Ok(spec)
    }
}

/// The parts of a spec, before anything is known about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts<'a> {
    /// What is before the colon.
    pub name: &'a str,
    /// The values after the colon, with their keys.
    pub values: Option<Vec<(Option<&'a str>, &'a str)>>,
    /// What follows the plus sign.
    pub suffix: Option<&'a str>,
}

impl<'a> Parts<'a> {
    /// Takes a text apart, without the blanks around it.
    pub fn new(text: &'a str) -> Self {
        let (body, suffix) = split(text.trim(), '+');
        let (name, values) = split(body, ':');
        let pair = |value: &'a str| value.split_once('=').map_or((None, value), |(key, value)| (Some(key), value));
        Parts { name, values: values.map(|values| values.split(',').map(pair).collect()), suffix }
    }
}

/// The number of global tokens that a suffix such as `g1` asks for.
pub(crate) fn global_tokens(suffix: &str) -> Option<usize> {
    suffix.strip_prefix('g').and_then(whole_number)
}

/// Lower-case letters, digits and hyphens: what names and words are made of.
pub fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

/// A key is a name that begins with a letter.
pub fn is_key(text: &str) -> bool {
    is_name(text) && text.starts_with(|c: char| c.is_ascii_lowercase())
}

/// The parts before and after the first separator.
fn split(text: &str, separator: char) -> (&str, Option<&str>) {
    text.split_once(separator).map_or((text, None), |(head, tail)| (head, Some(tail)))
}

/// Decimal digits as a number. One too large for the machine stands for the largest, which is over every limit.
pub(crate) fn whole_number(text: &str) -> Option<usize> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specs_are_written_as_they_are_read() {
        for text in [
            "full",
            "topk:5",
            "banded:5+g1",
            "my-own:12",
            "x2+g3",
            "moba:block=8,k=2",
            "topk:5,ties=random",
            "entmax:1.5",
            "entmax:learned",
            "topp:0.9+g2",
        ] {
            assert_eq!(text.parse::<Spec>().unwrap().to_string(), text);
        }
        assert_eq!(" topk:5 ".parse::<Spec>().unwrap().size(), Some(5));
        assert_eq!("topk:5.0".parse::<Spec>().unwrap().to_string(), "topk:5");
        assert_eq!("topp:0.90".parse::<Spec>().unwrap().to_string(), "topp:0.9");
        assert_eq!("topp:0.9".parse::<Spec>().unwrap().size(), None);
        let wrong = ["", ":5", "topk:", "topk:5+1", "topk:5+g0", "Top:5", "a b", "topk:5:6", "a:b=", "a:=5", "a:5,6"];
        for text in wrong.into_iter().chain(["a:5,k", "a:k=1,k=2", "a:k=1,5", "a:1=2", "a:1e3", "a:-1", "a:.5", "a:5."])
        {
            assert!(text.parse::<Spec>().is_err(), "{text}");
        }
    }
}
