//! `missing-duplicate`: which bit is hidden in a word that is written twice?

use std::sync::Arc;

use super::{BIT_CLASSES, CHOMSKY, text};
use crate::random::Random;
use crate::task::{Answers, Illegal, Lengths, Symbol, Task, TaskInfo, Token, Unlikely, label, symbol};
use semfocus_core::data::Length;

pub(crate) const INFO: TaskInfo = TaskInfo {
    summary: "the hidden bit in a word of uniform bits that is written twice; an odd length ends with a pad token",
    tests: "finding the counterpart of one position, half a sequence away",
    source: CHOMSKY,
    alphabet: ALPHABET,
    classes: BIT_CLASSES,
    ..TaskInfo::new("missing-duplicate", |_| Ok(Arc::new(MissingDuplicate)))
};

const ALPHABET: &[Symbol] = &[symbol("0", "bit 0"), symbol("1", "bit 1"), symbol("?", "the hidden bit")];

const HIDDEN: Token = 2;
const PAD: Token = 3;

#[derive(Debug)]
struct MissingDuplicate;

impl Task for MissingDuplicate {
    fn min_length(&self) -> usize {
        2
    }

    fn lesson_length(&self) -> Length {
        Length::Between(6, 12)
    }

    fn generate(&self, lengths: &Lengths, random: &mut Random, out: &mut Vec<Token>) -> Result<Answers, Unlikely> {
        let length = random.within(lengths);
        let (start, word) = (out.len(), length / 2);
        out.extend((0..word).map(|_| random.below(2) as Token));
        out.extend_from_within(start..);
        let place = start + random.between(0, 2 * word - 1);
        let bit = std::mem::replace(&mut out[place], HIDDEN);
        if length % 2 == 1 {
            out.push(PAD);
        }
        Ok(label(bit))
    }

    fn answers(&self, tokens: &[Token]) -> Result<Answers, Illegal> {
        let mut hidden = tokens.iter().enumerate().filter(|(_, token)| **token == HIDDEN).map(|(index, _)| index);
        let Some(place) = hidden.next() else {
            return Illegal::at(tokens.len(), "no bit is hidden; one token must be 2");
        };
        if let Some(second) = hidden.next() {
            return Illegal::at(second, "a second bit is hidden; only one token may be 2");
        }
        if tokens.len() % 2 == 1 {
            let length = tokens.len();
            return Illegal::at(
                length,
                format!("a word written twice has an even number of tokens, this has {length}"),
            );
        }
        let word = tokens.len() / 2;
        let (first, second) = tokens.split_at(word);
        let differs = |index: &usize| first[*index] != second[*index] && index % word != place % word;
        if let Some(index) = (0..word).find(differs) {
            return Illegal::at(
                word + index,
                format!("differs from token {}, its counterpart in the first half", index + 1),
            );
        }
        Ok(label(tokens[(place + word) % tokens.len()]))
    }

    fn explain(&self, tokens: &[Token]) -> Vec<String> {
        let word = tokens.len() / 2;
        let written = |half: &[Token]| half.iter().map(|&t| text(ALPHABET, t)).collect::<Vec<_>>().join(" ");
        let place = tokens.iter().position(|&token| token == HIDDEN).unwrap_or(0);
        let counterpart = (place + word) % tokens.len();
        vec![
            format!("First copy:  {}", written(&tokens[..word])),
            format!("Second copy: {}", written(&tokens[word..])),
            format!(
                "Token {} is hidden; its counterpart, token {}, is {}.",
                place + 1,
                counterpart + 1,
                tokens[counterpart]
            ),
        ]
    }
}
