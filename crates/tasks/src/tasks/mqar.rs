//! `mqar`: multi-query associative recall.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use semfocus_core::data::Length;
use semfocus_core::spec::{Literal, Parameter, SpecValue, Values};

use super::{asked, expected, joined, numbered};
use crate::random::Random;
use crate::task::{Answers, Illegal, Lengths, Slice, Symbol, Task, TaskInfo, Token, Unlikely};

pub(crate) const INFO: TaskInfo = TaskInfo {
    summary: "the value of a key, wherever a key stands again: pairs of a key and its value come first, then every key once more, with \
        fillers between them",
    tests: "looking up many keys, each with what followed it (multi-query associative recall)",
    source: "Arora et al., Zoology: Measuring and Improving Recall in Efficient Language Models, ICLR 2024",
    parameters: &[
        Parameter::whole("pairs", "the number of pairs", 1, 10_000, 8).default(Literal::Number(4.0)),
        Parameter::whole(
            "fewest",
            "if given, every sequence draws its number of pairs from here to `pairs`",
            1,
            10_000,
            4,
        )
        .optional(),
        Parameter::whole(
            "vocabulary",
            "the number of tokens: 0 is the filler, the upper half are values",
            4,
            60_000,
            64,
        )
        .default(Literal::Number(8192.0)),
        Parameter::number("power", "how late queries come: 1 is uniform, 0.01 puts most of them early", 0.0, 1.0, 0.1)
            .default(Literal::Number(0.01)),
        Parameter::word("fillers", "what fillers are: the token 0 or any token but the keys", &["zero", "random"])
            .default(Literal::Word("zero")),
        Parameter::word("mix", "a published mixture of lengths and numbers of pairs", &["zoology-test", "zoology"])
            .optional(),
    ],
    ..TaskInfo::new("mqar", build)
};

/// Sequences of a mixture: how many of them there are, compared with the others, and what they are like.
#[derive(Debug)]
struct Shape {
    share: f64,
    length: usize,
    pairs: usize,
}

const fn shape(share: f64, length: usize, pairs: usize) -> Shape {
    Shape { share, length, pairs }
}

/// What Zoology trains on, and what it tests with.
const ZOOLOGY: &[Shape] =
    &[shape(5.0, 64, 4), shape(1.0, 128, 8), shape(1.0, 256, 16), shape(1.0, 256, 32), shape(1.0, 256, 64)];
const ZOOLOGY_TEST: &[Shape] = &[
    shape(1.0, 64, 4),
    shape(1.0, 64, 8),
    shape(1.0, 64, 16),
    shape(1.0, 128, 32),
    shape(1.0, 256, 64),
    shape(1.0, 512, 128),
    shape(1.0, 1024, 256),
];

fn build(values: &Values) -> Result<Arc<dyn Task>, String> {
    let mix = match values.get("mix") {
        None => &[],
        Some(SpecValue::Word(word)) if word == "zoology" => ZOOLOGY,
        Some(_) => ZOOLOGY_TEST,
    };
    let most = values.whole("pairs");
    let fewest = values.get("fewest").and_then(SpecValue::whole);
    let (vocabulary, is_random) = (values.whole("vocabulary"), values.is("fillers", "random"));
    if fewest.is_some_and(|fewest| fewest > most) {
        return Err(format!("`fewest` must not exceed the number of pairs, {most}"));
    }
    if !mix.is_empty() && (fewest.is_some() || most != 4) {
        return Err("the mixture says how many pairs there are; leave `pairs` and `fewest` out".to_owned());
    }
    if is_random && (fewest.is_some() || !mix.is_empty()) {
        return Err("with random fillers nobody can tell how many pairs a sequence has; use a single number of pairs"
            .to_owned());
    }
    let needed = mix.iter().map(|shape| shape.pairs).max().unwrap_or(most);
    if vocabulary / 2 - 1 < needed {
        let enough = 2 * (needed + 1);
        return Err(format!(
            "{needed} pairs need as many different keys: a vocabulary of at least {enough}, not {vocabulary}"
        ));
    }
    Ok(Arc::new(Mqar {
        vocabulary,
        pairs: fewest.unwrap_or(most)..=most,
        power: values.number("power"),
        is_random,
        mix,
    }))
}

/// Token 0 is the filler; keys are 1 to V/2 - 1, values V/2 to V - 1.
#[derive(Debug)]
struct Mqar {
    vocabulary: usize,
    pairs: RangeInclusive<usize>,
    power: f64,
    is_random: bool,
    /// Empty unless a mixture decides lengths and numbers of pairs.
    mix: &'static [Shape],
}

const FILLER: Token = 0;

/// A place where a key stands again, and where it stands in its pair.
struct Query {
    at: usize,
    key_at: usize,
}

impl Mqar {
    /// The first value.
    fn half(&self) -> Token {
        (self.vocabulary / 2) as Token
    }

    /// Length and number of pairs of a sequence.
    fn draw_shape(&self, lengths: &Lengths, random: &mut Random) -> (usize, usize) {
        if self.mix.is_empty() {
            let length = random.within(lengths);
            return (length, random.within(&(*self.pairs.start()..=*self.pairs.end().min(&(length / 4)))));
        }
        let shares: Vec<f64> = self.mix.iter().map(|shape| shape.share).collect();
        let Shape { length, pairs, .. } = self.mix[random.choose(&shares)];
        (length, pairs)
    }

    /// The number of pairs at the beginning. With random fillers it is known; otherwise a filler follows the first query.
    fn count_pairs(&self, tokens: &[Token]) -> usize {
        if self.is_random {
            return *self.pairs.end();
        }
        let is_pair = |pair: &&[Token]| (1..self.half()).contains(&pair[0]) && pair[1] >= self.half();
        tokens.chunks_exact(2).take_while(is_pair).count()
    }

    /// Reads a sequence: its number of pairs, and where which keys are asked for.
    fn read(&self, tokens: &[Token]) -> Result<(usize, Vec<Query>), Illegal> {
        let pairs = self.count_pairs(tokens);
        let end = 2 * pairs;
        let allowed = |pairs: &usize| self.pairs.contains(pairs) || self.mix.iter().any(|shape| shape.pairs == *pairs);
        if !allowed(&pairs) {
            let wanted = match self.mix {
                [] if self.pairs.start() == self.pairs.end() => self.pairs.end().to_string(),
                [] => format!("{} to {}", self.pairs.start(), self.pairs.end()),
                mix => joined(mix.iter().map(|shape| shape.pairs), ", "),
            };
            return Illegal::at(end, format!("expected {wanted} pairs of a key and a value, got {pairs}"));
        }
        let mut places = HashMap::new();
        let mut values = HashMap::new();
        for index in 0..end {
            let token = tokens.get(index).copied();
            let is_key = index % 2 == 0;
            match token {
                Some(key) if is_key && (1..self.half()).contains(&key) => {}
                Some(value) if !is_key && value >= self.half() => {}
                _ => return expected(tokens, index.min(tokens.len()), if is_key { "a key" } else { "a value" }),
            }
            if let Some(earlier) = if is_key { &mut places } else { &mut values }.insert(tokens[index], index) {
                return Illegal::at(
                    index,
                    format!("pairs share no key and no value, and this is token {} again", earlier + 1),
                );
            }
        }
        let mut queries = Vec::new();
        for (at, &token) in tokens.iter().enumerate().skip(end) {
            match places.get(&token) {
                Some(_) if at % 2 == 1 => {
                    return Illegal::at(at, "a key is asked for at a distance of an odd number of tokens");
                }
                Some(&key_at) => {
                    if queries.iter().any(|query: &Query| query.key_at == key_at) {
                        return Illegal::at(at, format!("the key {token} is asked for a second time"));
                    }
                    queries.push(Query { at, key_at });
                }
                None if self.is_random || token == FILLER => {}
                None => return expected(tokens, at, "a filler (0) or a key of the pairs"),
            }
        }
        match (0..end).step_by(2).find(|&key_at| queries.iter().all(|query| query.key_at != key_at)) {
            Some(key_at) => Illegal::at(tokens.len(), format!("the key {} is never asked for", tokens[key_at])),
            None => Ok((pairs, queries)),
        }
    }

    /// The queries of a legal sequence.
    fn queries(&self, tokens: &[Token]) -> Option<Vec<Query>> {
        self.read(tokens).ok().map(|(_, queries)| queries)
    }
}

impl Task for Mqar {
    fn alphabet(&self) -> Vec<Symbol> {
        let half = usize::from(self.half());
        numbered(self.vocabulary, |id| match id {
            0 => "filler".to_owned(),
            _ if id < half => format!("key {id}"),
            _ => format!("value {id}"),
        })
    }

    /// Class i is token i, so that a model can use its embeddings for its classes.
    fn classes(&self) -> Vec<Symbol> {
        numbered(self.vocabulary, |id| format!("token {id}"))
    }

    fn generate(&self, lengths: &Lengths, random: &mut Random, out: &mut Vec<Token>) -> Result<Answers, Unlikely> {
        let (start, (length, pairs), half) = (out.len(), self.draw_shape(lengths, random), self.half());
        let keys: Vec<Token> =
            random.distinct(pairs, u32::from(half) - 1).iter().map(|&key| key as Token + 1).collect();
        let upper = self.vocabulary as u32 - u32::from(half);
        let values: Vec<Token> = random.distinct(pairs, upper).iter().map(|&value| value as Token + half).collect();
        out.extend(keys.iter().zip(&values).flat_map(|(&key, &value)| [key, value]));
        // Places of two tokens, by a power law; each is taken at most once.
        let places = (length - 2 * pairs) / 2;
        let mut weights: Vec<f64> = (1..=places).map(|place| libm::pow(place as f64, self.power - 1.0)).collect();
        let mut asked_for = vec![None; length];
        for pair in 0..pairs {
            let place = random.choose(&weights);
            weights[place] = 0.0;
            asked_for[2 * (pairs + place)] = Some(pair);
        }
        let mut filler = || loop {
            let token = if self.is_random { random.below(self.vocabulary as u32) as Token } else { FILLER };
            if !keys.contains(&token) {
                return token;
            }
        };
        let rest = asked_for[2 * pairs..].iter().map(|pair| pair.map_or_else(&mut filler, |pair| keys[pair]));
        out.extend(rest);
        debug_assert_eq!(out.len() - start, length);
        let questions = asked_for.iter().enumerate().filter_map(|(at, pair)| pair.map(|pair| asked(at, values[pair])));
        Ok(questions.collect())
    }

    fn answers(&self, tokens: &[Token]) -> Result<Answers, Illegal> {
        let (_, queries) = self.read(tokens)?;
        Ok(queries.iter().map(|query| asked(query.at, tokens[query.key_at + 1])).collect())
    }

    fn explain(&self, tokens: &[Token]) -> Vec<String> {
        let Some(queries) = self.queries(tokens) else { return Vec::new() };
        let line = |&Query { at, key_at }: &Query| {
            let (key, value) = (tokens[key_at], tokens[key_at + 1]);
            format!(
                "Token {} is the key {key}, which is also token {}; the value {value} follows it.",
                at + 1,
                key_at + 1
            )
        };
        queries.iter().map(line).collect()
    }

    /// The pairs and the queries: everything but the fillers.
    fn relevant(&self, tokens: &[Token]) -> Option<Vec<usize>> {
        let queries = self.queries(tokens)?;
        Some((0..2 * queries.len()).chain(queries.iter().map(|query| query.at)).collect())
    }

    fn relevant_to_questions(&self, tokens: &[Token]) -> Option<Vec<Vec<usize>>> {
        Some(self.queries(tokens)?.iter().map(|query| vec![query.key_at + 1]).collect())
    }

    fn slices(&self) -> Vec<Slice> {
        vec![Slice { name: "pairs", words: "pairs in the sequence" }, super::DISTANCE]
    }

    fn slice_values(&self, tokens: &[Token]) -> Vec<Vec<Option<u32>>> {
        let queries = self.queries(tokens).unwrap_or_default();
        let pairs = queries.len() as u32;
        queries.iter().map(|query| vec![Some(pairs), Some((query.at - query.key_at) as u32)]).collect()
    }

    fn default_length(&self) -> Length {
        let lengths = || self.mix.iter().map(|shape| shape.length);
        match (lengths().min(), lengths().max()) {
            (Some(min), Some(max)) => Length::Between(min, max),
            _ => Length::Exactly(64.max(4 * self.pairs.end())),
        }
    }

    fn lesson_length(&self) -> Length {
        let shortest = self.min_length();
        if self.mix.is_empty() { Length::Between(shortest, shortest + 4) } else { self.default_length() }
    }

    /// A place of two tokens for every query.
    fn min_length(&self) -> usize {
        self.mix.iter().map(|shape| shape.length).min().unwrap_or(4 * self.pairs.start())
    }

    fn lengths(&self, length: Length) -> Result<Lengths, String> {
        let own = self.default_length();
        if !self.mix.is_empty() && length != own {
            return Err(format!(
                "the mixture of this `mqar` has lengths of its own, {own}; leave the length out instead of {length}"
            ));
        }
        Ok(match length {
            Length::Exactly(length) => length..=length,
            Length::Between(min, max) => min..=max,
        })
    }
}
