//! `induction`: what followed the special token when it occurred before?

use std::sync::Arc;

use semfocus_core::data::Length;
use semfocus_core::spec::{Literal, Parameter, Values};

use super::{asked, expected, numbered};
use crate::random::Random;
use crate::task::{Answers, Illegal, Label, Lengths, Slice, Symbol, Task, TaskInfo, Token, Unlikely};

pub(crate) const INFO: TaskInfo = TaskInfo {
    summary: "the token after the special token, which stands somewhere among random tokens and again at the end",
    tests: "finding an earlier occurrence of the last token, and copying what followed it (an induction head)",
    source: "Gu & Dao, Mamba: Linear-Time Sequence Modeling with Selective State Spaces, 2023",
    parameters: &[Parameter::whole(
        "vocabulary",
        "the number of tokens, of which the last is the special one",
        3,
        60_000,
        64,
    )
    .default(Literal::Number(16.0))],
    ..TaskInfo::new("induction", build)
};

fn build(values: &Values) -> Result<Arc<dyn Task>, String> {
    Ok(Arc::new(Induction { special: (values.whole("vocabulary") - 1) as Token }))
}

/// Tokens below the special one are ordinary.
#[derive(Debug)]
struct Induction {
    special: Token,
}

impl Induction {
    /// Where the special token stands first in a legal sequence.
    fn first(&self, tokens: &[Token]) -> Result<usize, Illegal> {
        let last = tokens.len() - 1;
        let places: Vec<usize> = (0..=last).filter(|&index| tokens[index] == self.special).collect();
        match places[..] {
            [first, second] if second == last && first + 1 < last => Ok(first),
            [_, _, third, ..] => {
                Illegal::at(third, "the special token stands here for a third time; it has two places")
            }
            [_, second] if second == last => {
                Illegal::at(last, "an ordinary token must stand between the two special ones")
            }
            _ => expected(
                tokens,
                if places.len() == 2 { last } else { tokens.len() },
                "the special token, for the second time",
            ),
        }
    }
}

impl Task for Induction {
    fn alphabet(&self) -> Vec<Symbol> {
        numbered(usize::from(self.special) + 1, |id| match id == usize::from(self.special) {
            true => "the special token".to_owned(),
            false => format!("ordinary token {id}"),
        })
    }

    fn classes(&self) -> Vec<Symbol> {
        numbered(usize::from(self.special), |id| format!("token {id} is next"))
    }

    fn generate(&self, lengths: &Lengths, random: &mut Random, out: &mut Vec<Token>) -> Result<Answers, Unlikely> {
        let (start, length) = (out.len(), random.within(lengths));
        let first = random.between(0, length - 3);
        out.extend((1..length).map(|_| random.below(u32::from(self.special)) as Token));
        out[start + first] = self.special;
        out.push(self.special);
        Ok(Answers::from_iter([asked(length - 1, out[start + first + 1])]))
    }

    fn answers(&self, tokens: &[Token]) -> Result<Answers, Illegal> {
        let next: Label = tokens[self.first(tokens)? + 1];
        Ok(Answers::from_iter([asked(tokens.len() - 1, next)]))
    }

    fn explain(&self, tokens: &[Token]) -> Vec<String> {
        let Ok(first) = self.first(tokens) else { return Vec::new() };
        vec![format!("The special token {} is token {}; {} follows it.", self.special, first + 1, tokens[first + 1])]
    }

    /// The special token and what follows it, and the special token at the end.
    fn relevant(&self, tokens: &[Token]) -> Option<Vec<usize>> {
        let first = self.first(tokens).ok()?;
        Some(vec![first, first + 1, tokens.len() - 1])
    }

    fn relevant_to_questions(&self, tokens: &[Token]) -> Option<Vec<Vec<usize>>> {
        Some(vec![vec![self.first(tokens).ok()? + 1]])
    }

    fn slices(&self) -> Vec<Slice> {
        vec![super::DISTANCE]
    }

    fn slice_values(&self, tokens: &[Token]) -> Vec<Vec<Option<u32>>> {
        let distance = |first: usize| (tokens.len() - 1 - first) as u32;
        vec![vec![self.first(tokens).ok().map(distance)]]
    }

    fn default_length(&self) -> Length {
        Length::Exactly(256)
    }

    fn min_length(&self) -> usize {
        3
    }
}
