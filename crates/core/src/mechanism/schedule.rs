//! Attention that differs between the blocks of a model or changes during training.

use std::fmt;
use std::str::FromStr;

use crate::spec::{Spec, whole_number};

/// The attention of the blocks of a model: one for all of them, or one for each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layers(Vec<Spec>);

impl Layers {
    /// One attention for all blocks, or one for each.
    ///
    /// # Errors
    /// If there is none, or several that are all the same: that is written once.
    pub fn new(attentions: Vec<Spec>) -> Result<Self, String> {
        let [first, rest @ ..] = attentions.as_slice() else { return Err("no mechanism is given".to_owned()) };
        if !rest.is_empty() && rest.iter().all(|other| other == first) {
            let first = first.to_string();
            return Err(format!("the blocks of `{}` all have the same attention; write `{first}`", Layers(attentions)));
        }
        Ok(Layers(attentions))
    }

    /// What is written: one for all blocks, or one for each.
    pub fn attentions(&self) -> &[Spec] {
        &self.0
    }

    /// The attention of all blocks, if it is the same.
    pub fn single(&self) -> Option<&Spec> {
        if let [single] = self.0.as_slice() { Some(single) } else { None }
    }

    /// The attention of a block.
    pub fn of_block(&self, block: usize) -> Option<&Spec> {
        self.single().or_else(|| self.0.get(block))
    }
}

impl From<Spec> for Layers {
    fn from(spec: Spec) -> Self {
        Layers(vec![spec])
    }
}

impl fmt::Display for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, attention) in self.0.iter().enumerate() {
            write!(f, "{}{attention}", if number == 0 { "" } else { "/" })?;
        }
        Ok(())
    }
}

impl FromStr for Layers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = |text: &str| {
            let wrong =
                || format!("`{text}` is not a mechanism; write for instance `full`, `topk:5` or `moba:block=8,k=2`");
            text.parse().map_err(|_: String| wrong())
        };
        Layers::new(text.split('/').map(read).collect::<Result<_, _>>()?)
    }
}

/// The attention from an epoch on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Stage {
    /// Epochs that are trained before the stage begins: 0 for the first.
    pub after: usize,
    /// The attention of the blocks.
    pub layers: Layers,
}

/// The attention of a model during training: one or more stages, of which the first begins at once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Schedule(Vec<Stage>);

impl Schedule {
    /// The stages in order.
    ///
    /// # Errors
    /// If there is none, the first does not begin with epoch 0, or a stage does not begin later than the one before it or does
    /// not change anything.
    pub fn new(stages: Vec<Stage>) -> Result<Self, String> {
        let schedule = Schedule(stages);
        match schedule.0.first() {
            None => return Err("no mechanism is given".to_owned()),
            Some(Stage { after: 0, .. }) => {}
            Some(Stage { after, layers }) => {
                return Err(format!("`{schedule}` begins with epoch {after}; write the first stage as `{layers}@0`"));
            }
        }
        for pair in schedule.0.windows(2) {
            if pair[1].after <= pair[0].after {
                let (one, other) = (pair[0].after, pair[1].after);
                return Err(format!(
                    "the stages of `{schedule}` begin with epochs {one} and {other}; they must ascend"
                ));
            }
            if pair[1].layers == pair[0].layers {
                let (layers, after) = (&pair[1].layers, pair[1].after);
                return Err(format!("`{schedule}` changes nothing at epoch {after}; leave out `{layers}@{after}`"));
            }
        }
        Ok(schedule)
    }

    /// The stages, in order.
    pub fn stages(&self) -> &[Stage] {
        &self.0
    }

    /// The attention, if it is one for all blocks and the whole training.
    pub fn single(&self) -> Option<&Spec> {
        if let [stage] = self.0.as_slice() { stage.layers.single() } else { None }
    }

    /// All attentions that occur.
    pub fn attentions(&self) -> impl Iterator<Item = &Spec> {
        self.0.iter().flat_map(|stage| stage.layers.attentions())
    }

    /// The same schedule with every attention replaced by what `new` returns for its text.
    pub fn try_map<E>(&self, mut new: impl FnMut(&Spec) -> Result<Spec, E>) -> Result<Self, E>
    where
        E: From<String>,
    {
        let stages = self.0.iter().map(|Stage { after, layers }| {
            let attentions = layers.attentions().iter().map(&mut new).collect::<Result<Vec<_>, E>>()?;
            Ok(Stage { after: *after, layers: Layers::new(attentions)? })
        });
        Ok(Schedule::new(stages.collect::<Result<Vec<_>, E>>()?)?)
    }
}

impl From<Spec> for Schedule {
    fn from(spec: Spec) -> Self {
        Schedule(vec![Stage { after: 0, layers: spec.into() }])
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [Stage { after: 0, layers }] = self.0.as_slice() {
            return write!(f, "{layers}");
        }
        for (number, Stage { after, layers }) in self.0.iter().enumerate() {
            write!(f, "{}{layers}@{after}", if number == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let stages = stages(text)?;
        Schedule::new(
            stages
                .into_iter()
                .map(|(layers, after)| Ok(Stage { after, layers: layers.parse()? }))
                .collect::<Result<Vec<_>, String>>()?,
        )
    }
}

/// The texts of the stages of a schedule and the epochs with which they begin.
fn stages(text: &str) -> Result<Vec<(&str, usize)>, String> {
    let text = text.trim();
    if !text.contains('@') {
        return Ok(vec![(text, 0)]);
    }
    let mut stages = Vec::new();
    let (mut from, mut at) = (0, 0);
    for piece in text.split(',') {
        let end = at + piece.len();
        if let (_, Some(epoch)) = split_epoch(piece) {
            stages.push((split_epoch(&text[from..end]).0, epoch));
            from = end + 1;
        }
        at = end + 1;
    }
    if from <= text.len() {
        let rest = &text[from.min(text.len())..];
        let message = "every stage of a schedule ends with the epoch with which it begins, e.g. `full@0,topk:5@10`";
        return Err(format!("`{rest}` in `{text}` has no epoch: {message}"));
    }
    Ok(stages)
}

/// What is before the last `@`, and the epoch after it.
pub(super) fn split_epoch(text: &str) -> (&str, Option<usize>) {
    match text.rsplit_once('@').map(|(layers, epoch)| (layers, whole_number(epoch.trim_end()))) {
        Some((layers, Some(epoch))) => (layers, Some(epoch)),
        _ => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Schedule, String> {
        text.parse()
    }

    #[test]
    fn schedules_are_written_as_they_are_read() {
        for text in [
            "full",
            "topk:5/full/full",
            "full@0,topk:5@10",
            "full@0,moba:block=8,k=2@10,banded:5+g1@12",
            "topk:5,ties=random/full@0,full@3",
        ] {
            assert_eq!(read(text).unwrap().to_string(), text);
        }
        assert_eq!(read(" full@0 ").unwrap().to_string(), "full");
        assert_eq!(read("full@0,topk:05@010").unwrap().to_string(), "full@0,topk:5@10");
    }

    #[test]
    fn schedules_that_are_wrong() {
        let message = |text: &str| read(text).unwrap_err();
        assert_eq!(message("full@2"), "`full@2` begins with epoch 2; write the first stage as `full@0`");
        assert!(message("full@0,topk:5@0").contains("must ascend"));
        assert!(message("full@0,full@3").contains("leave out `full@3`"));
        assert_eq!(message("full/full"), "the blocks of `full/full` all have the same attention; write `full`");
        assert!(message("full@0,topk:5").contains("`topk:5` in `full@0,topk:5` has no epoch"));
        assert!(message("full@0,").contains("has no epoch"));
        assert!(message("full,topk:5").contains("is not a mechanism"));
        for text in ["", "@", "@0", "full@", "full@x", "/", "full/", "full@0@1", "full@0,@2", "full@0/topk:5@2"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn stages_and_blocks_are_found() {
        let schedule = read("full@0,topk:5/full@10").unwrap();
        let stages = schedule.stages().iter().map(|stage| (stage.after, stage.layers.to_string()));
        assert_eq!(stages.collect::<Vec<_>>(), [(0, "full".to_owned()), (10, "topk:5/full".to_owned())]);
        let layers = &schedule.stages()[1].layers;
        assert_eq!(layers.of_block(0).unwrap().to_string(), "topk:5");
        assert_eq!(layers.of_block(2), None);
        assert_eq!((schedule.single(), schedule.attentions().count()), (None, 3));
        assert_eq!(read("topk:5").unwrap().single().unwrap().to_string(), "topk:5");
    }
}
