//! `recall`: which value followed the key that stands at the end?

use std::sync::Arc;

use semfocus_core::data::Length;
use semfocus_core::spec::{Literal, Parameter, Values};

use super::{asked, expected, numbered};
use crate::random::Random;
use crate::task::{Answers, Illegal, Lengths, Slice, Symbol, Task, TaskInfo, Token, Unlikely};

pub(crate) const INFO: TaskInfo = TaskInfo {
    summary: "the value of the key that stands at the end, after pairs of a key and its value and then fillers",
    tests: "finding one key among several, and what follows it",
    source: "associative recall as in Arora et al., Zoology, ICLR 2024; here with one query, at the end",
    parameters: &[
        Parameter::whole("pairs", "the number of pairs", 1, 10_000, 16).default(Literal::Number(8.0)),
        Parameter::whole("keys", "the number of different keys", 1, 20_000, 64).default(Literal::Number(32.0)),
        Parameter::whole("values", "the number of different values", 2, 20_000, 64).default(Literal::Number(32.0)),
    ],
    ..TaskInfo::new("recall", build)
};

fn build(values: &Values) -> Result<Arc<dyn Task>, String> {
    let [pairs, keys, values] = ["pairs", "keys", "values"].map(|name| values.whole(name));
    if pairs > keys {
        return Err(format!(
            "{pairs} pairs need as many different keys, and there are {keys}; write for instance keys={pairs}"
        ));
    }
    Ok(Arc::new(Recall { pairs, keys, values }))
}

/// Tokens: first the values, then the keys, then the filler. So the class of a value is its token.
#[derive(Debug)]
struct Recall {
    pairs: usize,
    keys: usize,
    values: usize,
}

impl Recall {
    fn filler(&self) -> Token {
        (self.values + self.keys) as Token
    }

    fn is_value(&self, token: Token) -> bool {
        usize::from(token) < self.values
    }

    fn is_key(&self, token: Token) -> bool {
        !self.is_value(token) && token != self.filler()
    }

    /// Where the key of the last token stands among the pairs of a legal sequence.
    fn key_place(&self, tokens: &[Token]) -> Result<usize, Illegal> {
        let (last, end) = (tokens.len() - 1, 2 * self.pairs);
        for (index, &token) in tokens[..last].iter().enumerate() {
            let place = match index {
                _ if index >= end => (token == self.filler(), "a filler"),
                _ if index % 2 == 0 => (self.is_key(token), "a key"),
                _ => (self.is_value(token), "a value"),
            };
            if !place.0 {
                return expected(tokens, index, place.1);
            }
            if index < end && index % 2 == 0 && tokens[..index].iter().step_by(2).any(|&other| other == token) {
                return Illegal::at(index, format!("the key {token} has a value already"));
            }
        }
        if last < end {
            return expected(tokens, tokens.len(), &format!("{} pairs and a key at the end", self.pairs));
        }
        let key = tokens[last];
        match tokens[..end].iter().step_by(2).position(|&other| other == key) {
            Some(pair) => Ok(2 * pair),
            None => expected(tokens, last, "one of the keys of the pairs"),
        }
    }
}

impl Task for Recall {
    fn alphabet(&self) -> Vec<Symbol> {
        let meaning = |id: usize| match id.checked_sub(self.values) {
            None => format!("value {id}"),
            Some(key) if key < self.keys => format!("key {key}"),
            Some(_) => "filler between the pairs and the key that is asked for".to_owned(),
        };
        numbered(self.values + self.keys + 1, meaning)
    }

    fn classes(&self) -> Vec<Symbol> {
        numbered(self.values, |id| format!("value {id}"))
    }

    fn generate(&self, lengths: &Lengths, random: &mut Random, out: &mut Vec<Token>) -> Result<Answers, Unlikely> {
        let (start, length) = (out.len(), random.within(lengths));
        let keys = random.distinct(self.pairs, self.keys as u32);
        let values: Vec<Token> = keys.iter().map(|_| random.below(self.values as u32) as Token).collect();
        let key = |key: u32| self.values as Token + key as Token;
        out.extend(keys.iter().zip(&values).flat_map(|(&of, &value)| [key(of), value]));
        let pair = random.below(self.pairs as u32) as usize;
        out.resize(start + length - 1, self.filler());
        out.push(key(keys[pair]));
        Ok(Answers::from_iter([asked(length - 1, values[pair])]))
    }

    fn answers(&self, tokens: &[Token]) -> Result<Answers, Illegal> {
        let place = self.key_place(tokens)?;
        Ok(Answers::from_iter([asked(tokens.len() - 1, tokens[place + 1])]))
    }

    fn explain(&self, tokens: &[Token]) -> Vec<String> {
        let Ok(place) = self.key_place(tokens) else { return Vec::new() };
        let (key, value) = (tokens[place], tokens[place + 1]);
        vec![format!(
            "The last token is the key {key}, which is also token {}; the value {value} follows it.",
            place + 1
        )]
    }

    /// The key and its value, and the key at the end.
    fn relevant(&self, tokens: &[Token]) -> Option<Vec<usize>> {
        let place = self.key_place(tokens).ok()?;
        Some(vec![place, place + 1, tokens.len() - 1])
    }

    fn relevant_to_questions(&self, tokens: &[Token]) -> Option<Vec<Vec<usize>>> {
        Some(vec![vec![self.key_place(tokens).ok()? + 1]])
    }

    fn slices(&self) -> Vec<Slice> {
        vec![super::DISTANCE]
    }

    fn slice_values(&self, tokens: &[Token]) -> Vec<Vec<Option<u32>>> {
        let distance = |place: usize| (tokens.len() - 1 - place) as u32;
        vec![vec![self.key_place(tokens).ok().map(distance)]]
    }

    fn default_length(&self) -> Length {
        Length::Exactly(self.min_length())
    }

    fn lesson_length(&self) -> Length {
        Length::Between(self.min_length(), self.min_length() + 3)
    }

    fn min_length(&self) -> usize {
        2 * self.pairs + 1
    }
}
