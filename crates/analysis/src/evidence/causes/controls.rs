//! What each control isolates, in plain words. The table is keyed by the name of the mechanism, so that a store can be explained
//! by a program that does not know its mechanisms.

use serde::Serialize;

/// Controls that vary the same thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Control {
    /// The mechanism's name, without its parameters.
    #[serde(skip)]
    pub name: &'static str,
    /// What its parameters have to be for top-k attention with `k` keys: the text before and after `k`. None if any will do.
    #[serde(skip)]
    matched: Option<&'static str>,
    /// What it varies.
    pub group: Group,
    /// What it does.
    pub does: &'static str,
    /// What can be learned from it.
    pub isolates: &'static str,
}

impl Control {
    const fn new(group: Group, name: &'static str, does: &'static str, isolates: &'static str) -> Self {
        Control { name, matched: Some(""), group, does, isolates }
    }

    /// Without a number of keys of its own.
    const fn any(self) -> Self {
        Control { matched: None, ..self }
    }

    /// With a parameter that is written with its key.
    const fn with(self, key: &'static str) -> Self {
        Control { matched: Some(key), ..self }
    }

    /// Whether a run with no other control can explain something. Bands and blocks lose the speed-up for more than one reason.
    pub fn is_enough(&self) -> bool {
        !matches!(self.name, "banded" | "block")
    }

    /// The control that a mechanism is for top-k attention with this number of keys, if it is one.
    pub fn find(mechanism: &str, k: &str) -> Option<&'static Control> {
        let (name, parameters) = mechanism.split_once(':').unwrap_or((mechanism, ""));
        let is_plain = !mechanism.contains(['+', '/', '@']);
        let fits = |control: &&Control| {
            let first = parameters.split(',').next().unwrap_or_default();
            control.name == name && control.matched.is_none_or(|key| first.strip_prefix(key) == Some(k))
        };
        CONTROLS.iter().find(fits).filter(|_| is_plain)
    }
}

/// All controls, in the order in which they are shown.
pub static CONTROLS: [Control; 19] = [
    Control::new(
        Group::Told,
        "oracle",
        "keeps the keys that determine the answer, filled up to k with those that score highest",
        "knowing where to look",
    ),
    Control::new(
        Group::Told,
        "antioracle",
        "keeps the k highest scores among the keys that do not determine the answer",
        "focus on keys that do not matter; no explanation is judged by it",
    ),
    Control::new(
        Group::Told,
        "bottomk",
        "keeps the k keys with the lowest scores",
        "a choice by score, but the opposite one",
    ),
    Control::new(
        Group::Blind,
        "fixedk",
        "keeps k keys that are drawn once for each layer, head and query, the same for all inputs",
        "sparsity that reaches all distances and does not depend on the input",
    ),
    Control::new(
        Group::Blind,
        "banded",
        "keeps the k keys around the query",
        "sparsity without reach: the pattern of the study",
    ),
    Control::new(
        Group::Blind,
        "block",
        "keeps the keys of the query's own block of k",
        "sparsity without reach: the pattern of the study",
    ),
    Control::new(Group::Blind, "randomk", "keeps k keys that are drawn anew in every step", "sparsity with noise"),
    Control::new(
        Group::OtherChoice,
        "shuffledk",
        "keeps the keys with the k highest scores in another example of the batch, weighted by its own scores",
        "a choice like that of top-k, but made for another input",
    ),
    Control::new(
        Group::OtherChoice,
        "hashk",
        "keeps k keys that a hash of the two tokens and their positions chooses",
        "a choice that depends on the input but means nothing",
    ),
    Control::new(
        Group::OtherChoice,
        "frozenk",
        "keeps the k highest scores of the maps before training, weighted by the trained scores",
        "a choice by content that is not learned",
    ),
    Control::new(
        Group::Parts,
        "stk",
        "computes the output like top-k and the gradient like full attention",
        "the sparse forward pass without the sparse gradient",
    ),
    Control::new(
        Group::Parts,
        "gradk",
        "computes the output like full attention and passes gradients to the k highest scores only",
        "the sparse gradient without the sparse forward pass",
    ),
    Control::new(
        Group::Parts,
        "maskedk",
        "drops all but the k largest weights of full attention without making the rest sum to 1",
        "top-k without renormalisation",
    ),
    Control::new(
        Group::Dense,
        "temperature",
        "is full attention at the temperature at which the initial entropy is ln k",
        "sharp attention without sparsity",
    )
    .with("entropy="),
    Control::new(
        Group::Dense,
        "ssmax",
        "is full attention with scores multiplied by s ln n, with s learned",
        "sharp attention without sparsity, as sharp as training makes it",
    )
    .any(),
    Control::new(
        Group::Dense,
        "matchedgrad",
        "is full attention whose query and key maps have a learning rate L/k times as high",
        "the larger gradients of scores that come with fewer keys",
    ),
    Control::new(
        Group::Adaptive,
        "sparsemax",
        "projects the scores on the simplex, so that low ones get weight 0",
        "sparsity with weights that change continuously with the scores",
    )
    .any(),
    Control::new(
        Group::Adaptive,
        "entmax",
        "lies between softmax and sparsemax",
        "sparsity with weights that change continuously; it begins with most keys",
    )
    .any(),
    Control::new(
        Group::Adaptive,
        "topp",
        "keeps the highest weights up to a total of p",
        "a choice by score of as many keys as needed; it begins with most keys",
    )
    .any(),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_belong_to_top_k_of_the_same_size() {
        let found = |mechanism| Control::find(mechanism, "5").map(|control| control.name);
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
