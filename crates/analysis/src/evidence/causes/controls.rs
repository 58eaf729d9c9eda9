//! What each control isolates, in plain words. The table is keyed by the name of the mechanism, so that a store can be explained
//! by a program that does not know its mechanisms.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

/// Controls that vary the same thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// The relevant keys are given, or taken away.
    Told,
    /// A pattern or chance chooses, without looking at the input.
    Blind,
    /// Something other than the trained scores of this input chooses.
    OtherChoice,
    /// One part of what top-k attention does is left out.
    Parts,
    /// All keys are kept.
    Dense,
    /// The weighting itself decides how many keys are kept.
    Adaptive,
}

impl Group {
    /// As a heading.
    pub fn title(self) -> &'static str {
        match self {
            Group::Told => "told which keys matter",
            Group::Blind => "chosen without the input",
            Group::OtherChoice => "chosen by something else",
            Group::Parts => "top-k with one part left out",
            Group::Dense => "all keys kept",
            Group::Adaptive => "as many keys as needed",
        }
    }
}

/// A mechanism that has a part of what top-k attention has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Control {
    /// The mechanism's name, without its parameters.
    #[serde(skip_serializing)]
    pub name: String,
    /// What is written before the number of keys in its first parameter.
    #[serde(default, skip_serializing)]
    key: String,
    /// Whether it has no number of keys of its own.
    #[serde(default, skip_serializing)]
    any: bool,
    /// What it varies.
    pub group: Group,
    /// What it does.
    pub does: String,
    /// What can be learned from it.
    pub isolates: String,
}

impl Control {
    /// Whether a run with no other control can explain something: it belongs to this top-k attention. Bands and blocks do not, because
    /// they lose the speed-up for more than one reason.
    pub fn is_enough(&self) -> bool {
        !self.any && !matches!(self.name.as_str(), "banded" | "block")
    }

    /// The control that a mechanism is for top-k attention with this number of keys, if it is one.
    pub fn find(mechanism: &str, k: &str) -> Option<&'static Control> {
        let (name, parameters) = mechanism.split_once(':').unwrap_or((mechanism, ""));
        let is_plain = !mechanism.contains(['+', '/', '@']);
        let fits = |control: &&Control| {
            let first = parameters.split(',').next().unwrap_or_default();
            control.name == name && (control.any || first.strip_prefix(&*control.key) == Some(k))
        };
        CONTROLS.iter().find(fits).filter(|_| is_plain)
    }
}

/// Whether a control keeps more or less than half of the speed-up, as the interval of its share says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShareFinding {
    /// The interval lies above one half.
    Most,
    /// The interval lies below one half.
    Less,
    /// The interval contains one half.
    Undecided,
}

impl ShareFinding {
    /// As it is written in tables.
    pub fn name(self) -> &'static str {
        match self {
            ShareFinding::Most => "most",
            ShareFinding::Less => "less",
            ShareFinding::Undecided => "undecided",
        }
    }
}

/// How a control is related to an explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It has what the explanation names, and not the rest of what top-k attention does.
    Alone,
    /// It does what top-k attention does, but for what the explanation names.
    Without,
}

/// A control that speaks about an explanation. In the file, what stands after a colon is its handicap.
#[derive(Debug, Deserialize)]
#[serde(from = "String")]
pub struct Test {
    /// Its name in [`CONTROLS`].
    pub control: String,
    /// Why it may lose the speed-up for another reason. Then it counts only if it keeps most of it.
    pub handicap: Option<String>,
}

impl From<String> for Test {
    fn from(text: String) -> Self {
        match text.split_once(": ") {
            Some((control, handicap)) => Test { control: control.to_owned(), handicap: Some(handicap.to_owned()) },
            None => Test { control: text, handicap: None },
        }
    }
}

/// Something that could be the cause of the speed-up.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Explanation {
    /// What is named as the cause.
    pub name: String,
    /// The explanation as a sentence.
    pub because: String,
    #[serde(default)]
    alone: Vec<Test>,
    #[serde(default)]
    without: Vec<Test>,
}

impl Explanation {
    /// The controls that speak about it, and how they are related to it.
    pub fn tests(&self) -> impl Iterator<Item = (Role, &Test)> {
        let alone = self.alone.iter().map(|test| (Role::Alone, test));
        alone.chain(self.without.iter().map(|test| (Role::Without, test)))
    }
}

/// A part of what has to be so for [`CLAIM`](super::rules::CLAIM) to hold.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Required {
    /// The name of an explanation.
    pub explanation: String,
    /// A side of it.
    pub role: Role,
    /// What the controls on this side have to keep.
    pub keeps: ShareFinding,
    /// What it means if they do the opposite.
    pub otherwise: String,
}

/// The contents of `causes.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    control: Vec<Control>,
    /// In the order in which they are judged.
    pub explanation: Vec<Explanation>,
    /// What [`CLAIM`](super::rules::CLAIM) is judged by.
    pub required: Vec<Required>,
}

/// The rules of this program.
pub static RULES: LazyLock<Rules> =
    LazyLock::new(|| toml::from_str(include_str!("causes.toml")).expect("a test reads these rules"));

/// All controls, in the order in which they are shown.
pub static CONTROLS: LazyLock<&[Control]> = LazyLock::new(|| RULES.control.as_slice());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_belong_to_top_k_of_the_same_size() {
        let found = |mechanism| Control::find(mechanism, "5").map(|control| control.name.as_str());
        for (mechanism, name) in [
            ("oracle:5", "oracle"),
            ("oracle:5,fill=random", "oracle"),
            ("temperature:entropy=5", "temperature"),
            ("sparsemax", "sparsemax"),
            ("entmax:1.5", "entmax"),
            ("ssmax", "ssmax"),
        ] {
            assert_eq!(found(mechanism), Some(name));
        }
        for other in
            ["oracle:9", "temperature:5", "banded:5+g1", "fixedk:5/full", "full@0,fixedk:5@3", "topk:5", "full", ""]
        {
            assert_eq!(found(other), None, "{other}");
        }
    }

    #[test]
    fn groups_are_together() {
        assert!(CONTROLS.is_sorted_by_key(|control| control.group));
    }
}
