//! Lists of mechanisms on the command line.

use std::str::FromStr;

use super::schedule::split_epoch;
use crate::spec::is_key;

/// Splits a list such as `full,moba:block=8,k=2,full@0,topk:5@10` into its mechanisms, without blanks and empty ones. A piece
/// `key=value` belongs to the mechanism before it, and so does one that begins at a later epoch than the first.
pub fn split_list(text: &str) -> Vec<String> {
    let mut attentions: Vec<String> = Vec::new();
    for piece in text.split(',').map(str::trim).filter(|piece| !piece.is_empty()) {
        let is_value = piece.split_once('=').is_some_and(|(key, _)| is_key(key));
        join_or_push(&mut attentions, piece, is_value);
    }
    let mut mechanisms: Vec<String> = Vec::new();
    for attention in &attentions {
        join_or_push(&mut mechanisms, attention, split_epoch(attention).1.is_some_and(|epoch| epoch > 0));
    }
    mechanisms
}

fn join_or_push(to: &mut Vec<String>, piece: &str, joins: bool) {
    match to.last_mut() {
        Some(last) if joins => *last = format!("{last},{piece}"),
        _ => to.push(piece.to_owned()),
    }
}

/// The mechanisms of a list, not yet checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MechanismList(pub Vec<String>);

impl FromStr for MechanismList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match split_list(text) {
            mechanisms if mechanisms.is_empty() => {
                Err("the list names no mechanism; write for instance full,topk:5".to_owned())
            }
            mechanisms => Ok(MechanismList(mechanisms)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_later_stages_stay_with_their_mechanism() {
        assert_eq!(split_list("full,topk:5"), ["full", "topk:5"]);
        assert_eq!(split_list(" full , topk:5 ,"), ["full", "topk:5"]);
        assert_eq!(
            split_list("full,moba:block=8,k=2,full@0,topk:5@10"),
            ["full", "moba:block=8,k=2", "full@0,topk:5@10"]
        );
        assert_eq!(
            split_list("full@0,moba:block=8,k=2@10,topk:5,ties=random,topk:5/full@0,full@3,banded:5+g1"),
            ["full@0,moba:block=8,k=2@10", "topk:5,ties=random", "topk:5/full@0,full@3", "banded:5+g1"]
        );
        assert_eq!(split_list("temperature:entropy=5,full@0"), ["temperature:entropy=5", "full@0"]);
        assert!(",, ".parse::<MechanismList>().is_err());
    }
}
