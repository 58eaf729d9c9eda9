//! `[expect]`: what an experiment is expected to show, in a form that can be checked.

use std::fmt;
use std::str::FromStr;

use toml::Value;

use crate::names::{nearest, shortened};

/// What a mechanism is compared by, and with what result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Expected {
    /// Reaches the target in fewer epochs than the baseline.
    Faster,
    /// Reaches the target in more epochs than the baseline.
    Slower,
    /// Generalises better than the baseline.
    Better,
    /// Generalises worse than the baseline.
    Worse,
    /// Generalises as well as the baseline.
    Same,
}

impl Expected {
    const ALL: [(&'static str, Expected); 5] = [
        ("faster", Expected::Faster),
        ("slower", Expected::Slower),
        ("better", Expected::Better),
        ("worse", Expected::Worse),
        ("same", Expected::Same),
    ];
}

/// One line of `[expect]`, or one of several outcomes of a line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Expectation {
    /// The mechanism it is about, in its usual spelling.
    pub mechanism: String,
    /// What is expected of it.
    pub outcome: Outcome,
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.mechanism, self.outcome)
    }
}

/// An outcome, or that it does not occur. Written `faster`, `not faster`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Outcome {
    /// What is, or is not, expected.
    pub expected: Expected,
    /// Whether it is expected not to occur.
    pub is_negated: bool,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Expected::ALL.iter().find(|(_, known)| *known == self.expected).map_or("", |(name, _)| name);
        write!(f, "{}{name}", if self.is_negated { "not " } else { "" })
    }
}

impl FromStr for Outcome {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (is_negated, name) = match words[..] {
            ["not", name] => (true, name),
            [name] => (false, name),
            _ => (false, text.trim()),
        };
        let found = Expected::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, expected)| Outcome { expected: *expected, is_negated }).ok_or_else(|| {
            let near = nearest(name, Expected::ALL.iter().map(|(name, _)| *name));
            let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            format!(
                "`{}` is not an outcome: write faster, slower, better, worse or same, with `not` before it if it is \
                 expected not to occur{near}",
                shortened(text)
            )
        })
    }
}

/// The outcomes of one line: a text, or a list of texts.
pub(super) fn outcomes(value: Value) -> Result<Vec<Outcome>, String> {
    let expected =
        || "expected an outcome such as \"faster\", or a list such as [\"faster\", \"not worse\"]".to_owned();
    let texts = match value {
        Value::Array(values) if !values.is_empty() => values,
        Value::Array(_) => return Err(expected()),
        value => vec![value],
    };
    let outcomes: Vec<Outcome> =
        texts.iter().map(|text| text.as_str().ok_or_else(expected)?.parse()).collect::<Result<_, _>>()?;
    for (place, outcome) in outcomes.iter().enumerate() {
        let opposite = Outcome { is_negated: !outcome.is_negated, ..*outcome };
        if outcomes[..place].contains(outcome) || outcomes.contains(&opposite) {
            return Err(format!("`{outcome}` is in the list twice, or together with its opposite"));
        }
    }
    Ok(outcomes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_written_as_they_are_read() {
        for (name, expected) in Expected::ALL {
            for (text, is_negated) in [(name.to_owned(), false), (format!("not {name}"), true)] {
                let outcome: Outcome = text.parse().unwrap();
                assert_eq!((outcome.expected, outcome.is_negated, outcome.to_string()), (expected, is_negated, text));
            }
        }
        assert_eq!(" not   worse".parse::<Outcome>().unwrap().to_string(), "not worse");
        for wrong in ["", "not", "not not faster", "quick", "faster slower", "Faster"] {
            assert!(wrong.parse::<Outcome>().unwrap_err().contains("is not an outcome"), "{wrong}");
        }
        assert!("fater".parse::<Outcome>().unwrap_err().ends_with("did you mean `faster`?"));
    }

    #[test]
    fn contradictions_are_refused() {
        let read = |text: &str| outcomes(format!("x = {text}").parse::<toml::Table>().unwrap().remove("x").unwrap());
        assert_eq!(read("[\"faster\", \"not worse\"]").unwrap().len(), 2);
        for wrong in ["[]", "3", "[\"faster\", \"faster\"]", "[\"faster\", \"not faster\"]", "[\"faster\", 1]"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
