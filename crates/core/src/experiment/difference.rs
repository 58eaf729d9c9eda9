//! Differences between experiments, as values. They are put into words where they are shown, and files have them in these words.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use super::after;
use crate::settings;

/// What one experiment has different from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What is different.
    pub subject: Subject,
    /// What this experiment has.
    pub here: String,
    /// What the other one has.
    pub there: String,
}

/// What can be different.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The number of seeds.
    SeedCount,
    /// The seeds.
    Seeds,
    /// The number of mechanisms, all of which the other experiment has, too.
    MechanismCount,
    /// The mechanisms.
    Mechanisms,
    /// A setting of the trials, by its path.
    Setting(&'static str),
    /// An option of a measurement, by both names.
    Option(&'static str, String),
    /// How often a measurement is made, by its name.
    Times(&'static str),
    /// Whether the regions of the theory are drawn.
    Regions,
    /// What the other experiment expects and this one does not.
    Expectations(usize),
    /// Words of another version.
    Other,
}

impl Difference {
    pub(super) fn new(subject: Subject, here: impl ToString, there: impl ToString) -> Self {
        Difference { subject, here: here.to_string(), there: there.to_string() }
    }

    /// Whether both are about the same thing, whatever it is.
    pub(super) fn is_about_the_same(&self, other: &Difference) -> bool {
        let group = |subject: &Subject| match subject {
            Subject::SeedCount => Subject::Seeds,
            Subject::MechanismCount => Subject::Mechanisms,
            subject => subject.clone(),
        };
        group(&self.subject) == group(&other.subject)
    }

    /// Whether the claim of the other experiment may not be about this one. More epochs, seeds and mechanisms only make it easier to
    /// answer, and measurements follow training.
    pub fn concerns_claim(&self) -> bool {
        match self.subject {
            Subject::SeedCount | Subject::Seeds | Subject::Option(..) | Subject::Times(_) | Subject::Regions => false,
            Subject::Setting(path) => !["training.epochs", "training.steps"].contains(&path),
            Subject::Mechanisms => {
                let here: Vec<&str> = self.here.split(' ').collect();
                !self.there.split(' ').all(|mechanism| here.contains(&mechanism))
            }
            Subject::MechanismCount | Subject::Expectations(_) | Subject::Other => true,
        }
    }
}

/// Before the expectations that are not checked.
const WITHOUT: &str = "without checking ";

/// Differences in one sentence without its full stop.
pub fn in_words(differences: &[Difference]) -> String {
    differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { subject, here, there } = self;
        let plural = if here == "1" { "" } else { "s" };
        match subject {
            Subject::SeedCount => write!(f, "{here} seed{plural} instead of {there}"),
            Subject::MechanismCount => write!(f, "{here} mechanism{plural} instead of {there}"),
            Subject::Seeds => write!(f, "seeds {here} instead of {there}"),
            Subject::Mechanisms => write!(f, "mechanisms {here} instead of {there}"),
            Subject::Setting(path) => write!(f, "{path} {here} instead of {there}"),
            Subject::Option(name, option) => {
                write!(f, "{name} {} {here} instead of {there}", option.replace('_', " "))
            }
            Subject::Times(name) => write!(f, "{name} {here} times instead of {there}"),
            Subject::Regions => write!(f, "{} {}", after::REGIONS, if here == "true" { "added" } else { "left out" }),
            Subject::Expectations(_) => write!(f, "{WITHOUT}{there}"),
            Subject::Other => f.write_str(here),
        }
    }
}

/// Files have differences in words.
impl FromStr for Difference {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let other = || Difference::new(Subject::Other, text, "");
        // The endings are those of version 0.2.0.
        let endings = || [" is not asked", " are not asked"].into_iter().find_map(|ending| text.strip_suffix(ending));
        let expected = text.strip_prefix(WITHOUT).or_else(endings);
        if let Some(expected) = expected {
            return Ok(Difference::new(Subject::Expectations(expected.matches("`, `").count() + 1), "", expected));
        }
        let regions = |words: &str| text == format!("{} {words}", after::REGIONS);
        if regions("added") || regions("left out") {
            return Ok(Difference::new(Subject::Regions, regions("added"), !regions("added")));
        }
        let Some((here, there)) = text.split_once(" instead of ") else { return Ok(other()) };
        let (first, rest) = here.split_once(' ').unwrap_or((here, ""));
        let (subject, here) = match (first, rest) {
            (count, "seed" | "seeds") => (Subject::SeedCount, count),
            (count, "mechanism" | "mechanisms") => (Subject::MechanismCount, count),
            ("seeds", seeds) => (Subject::Seeds, seeds),
            ("mechanisms", mechanisms) => (Subject::Mechanisms, mechanisms),
            (first, rest) => match (settings::find(first), after::names().find(|name| *name == first)) {
                (Some(setting), _) => (Subject::Setting(setting.path), rest),
                (None, Some(name)) => match rest.rsplit_once(' ') {
                    Some((count, "times")) => (Subject::Times(name), count),
                    Some((option, value)) => (Subject::Option(name, option.replace(' ', "_")), value),
                    None => return Ok(other()),
                },
                (None, None) => return Ok(other()),
            },
        };
        Ok(Difference::new(subject, here, there))
    }
}

impl Serialize for Difference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_files_are_read_as_values() {
        let read = |text: &str| -> Difference { text.parse().unwrap() };
        for (text, subject, concerns_claim) in [
            ("6 seeds instead of 5", Subject::SeedCount, false),
            ("1 seed instead of 5", Subject::SeedCount, false),
            ("seeds [1, 2] instead of [3, 4]", Subject::Seeds, false),
            ("2 mechanisms instead of 4", Subject::MechanismCount, true),
            ("mechanisms full topk:5 instead of full topk:3", Subject::Mechanisms, true),
            ("mechanisms full topk:5 topk:3 instead of full topk:3", Subject::Mechanisms, false),
            ("training.epochs 20 instead of 10", Subject::Setting("training.epochs"), false),
            ("data.length 8 instead of 10", Subject::Setting("data.length"), true),
            ("training.optimizer adam instead of sgd", Subject::Setting("training.optimizer"), true),
            ("landscape grid 9 instead of 21", Subject::Option("landscape", "grid".to_owned()), false),
            (
                "landscape attention dropout true instead of false",
                Subject::Option("landscape", "attention_dropout".to_owned()),
                false,
            ),
            ("sharpness 1 times instead of 2", Subject::Times("sharpness"), false),
            ("regions added", Subject::Regions, false),
            ("regions left out", Subject::Regions, false),
            ("without checking `topk:5 faster`", Subject::Expectations(1), true),
            ("without checking `topk:5 faster`, `topk:5 not worse`", Subject::Expectations(2), true),
            ("what a later version says", Subject::Other, true),
        ] {
            let difference = read(text);
            assert_eq!((&difference.subject, difference.to_string().as_str()), (&subject, text));
            assert_eq!(difference.concerns_claim(), concerns_claim, "{text}");
        }
        assert_eq!(read("`topk:5 faster` is not asked"), read("without checking `topk:5 faster`"));
        let difference = read("training.stop_when train_accuracy >= 0.9 instead of none");
        assert_eq!((difference.here.as_str(), difference.there.as_str()), ("train_accuracy >= 0.9", "none"));
    }
}
