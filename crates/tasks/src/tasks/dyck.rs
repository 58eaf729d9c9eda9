//! `dyck`: which bracket follows, in words of several kinds of brackets of bounded depth?

use std::sync::Arc;

use semfocus_core::spec::{Literal, Parameter, Values};

use super::next_tokens;
use crate::random::Random;
use crate::task::{Answers, Evaluator, Illegal, Lengths, Slice, Symbol, Task, TaskInfo, Token, Unlikely};

pub(crate) const INFO: TaskInfo = TaskInfo {
    summary: "at every token the next bracket: one of several kinds is opened, or the one opened last is closed, and only so many are open \
        at once",
    tests: "remembering which brackets are open: last in, first out",
    source: "Dyck-(k, m) of Hewitt et al., RNNs Can Generate Bounded Hierarchical Languages with Optimal Memory, EMNLP 2020",
    parameters: &[
        Parameter::whole("k", "the number of kinds of brackets", 1, 10_000, 8).default(Literal::Number(2.0)),
        Parameter::whole("m", "the largest number of open brackets", 1, 10_000, 3).default(Literal::Number(5.0)),
        Parameter::number("p", "the probability of an opening bracket where both are possible", 0.01, 0.99, 0.6)
            .default(Literal::Number(0.5)),
    ],
    ..TaskInfo::new("dyck", build)
};

fn build(values: &Values) -> Result<Arc<dyn Task>, String> {
    Ok(Arc::new(Dyck { kinds: values.whole("k"), depth: values.whole("m"), opens: values.number("p") }))
}

/// Tokens: the opening brackets, then the closing ones.
#[derive(Debug)]
struct Dyck {
    kinds: usize,
    depth: usize,
    opens: f64,
}

impl Dyck {
    /// The positions of the brackets that are open after each token of a legal sequence.
    fn open(&self, tokens: &[Token]) -> Result<Vec<Vec<usize>>, Illegal> {
        let mut open: Vec<usize> = Vec::new();
        let mut after = Vec::with_capacity(tokens.len());
        for (index, &token) in tokens.iter().enumerate() {
            match usize::from(token).checked_sub(self.kinds) {
                None if open.len() == self.depth => {
                    return Illegal::at(index, format!("{} brackets are open, and no more are allowed", self.depth));
                }
                None => open.push(index),
                Some(kind) => match open.pop() {
                    None => return Illegal::at(index, "no bracket is open"),
                    Some(place) if usize::from(tokens[place]) != kind => {
                        return Illegal::at(index, format!("closes another bracket than token {} opens", place + 1));
                    }
                    Some(_) => {}
                },
            }
            after.push(open.clone());
        }
        Ok(after)
    }
}

impl Task for Dyck {
    fn alphabet(&self) -> Vec<Symbol> {
        let symbol = |id: usize| match id.checked_sub(self.kinds) {
            None => Symbol { text: format!("<{id}").into(), meaning: format!("opens a bracket of kind {id}").into() },
            Some(kind) => {
                Symbol { text: format!("{kind}>").into(), meaning: format!("closes a bracket of kind {kind}").into() }
            }
        };
        (0..2 * self.kinds).map(symbol).collect()
    }

    fn classes(&self) -> Vec<Symbol> {
        let meaning = |id: usize| match id.checked_sub(self.kinds) {
            None => format!("a bracket of kind {id} is opened"),
            Some(kind) => format!("a bracket of kind {kind} is closed"),
        };
        super::numbered(2 * self.kinds, meaning)
    }

    fn evaluator(&self) -> Evaluator {
        Evaluator::BestPrediction
    }

    /// One bracket more than the sequence has: the answer to the last question.
    fn generate(&self, lengths: &Lengths, random: &mut Random, out: &mut Vec<Token>) -> Result<Answers, Unlikely> {
        let length = random.within(lengths);
        let (mut brackets, mut open) = (Vec::with_capacity(length + 1), Vec::new());
        for _ in 0..=length {
            let must_open = open.is_empty();
            if must_open || (open.len() < self.depth && random.happens(self.opens)) {
                let kind = random.below(self.kinds as u32) as Token;
                open.push(kind);
                brackets.push(kind);
            } else if let Some(kind) = open.pop() {
                brackets.push(self.kinds as Token + kind);
            }
        }
        out.extend(&brackets[..length]);
        Ok(next_tokens(&brackets))
    }

    fn answers(&self, tokens: &[Token]) -> Result<Answers, Illegal> {
        let shares = |open: &Vec<usize>| {
            let opens = match open.len() {
                0 => 1.0,
                depth if depth == self.depth => 0.0,
                _ => self.opens,
            };
            let mut shares = vec![(opens / self.kinds as f64) as f32; self.kinds];
            shares.resize(2 * self.kinds, 0.0);
            if let Some(&last) = open.last() {
                shares[self.kinds + usize::from(tokens[last])] = (1.0 - opens) as f32;
            }
            shares
        };
        Ok(Answers::soft((0..).zip(self.open(tokens)?.iter().map(shares))))
    }

    fn explain(&self, tokens: &[Token]) -> Vec<String> {
        let line = |(index, open): (usize, &Vec<usize>)| {
            let kinds: Vec<String> = open.iter().map(|&place| format!("<{}", tokens[place])).collect();
            let written = if kinds.is_empty() { "nothing".to_owned() } else { kinds.join(" ") };
            format!("After token {}, open: {written}", index + 1)
        };
        self.open(tokens).unwrap_or_default().iter().enumerate().map(line).collect()
    }

    /// All: each bracket decides which ones are open after it.
    fn relevant(&self, tokens: &[Token]) -> Option<Vec<usize>> {
        Some((0..tokens.len()).collect())
    }

    /// The bracket that is to be closed.
    fn relevant_to_questions(&self, tokens: &[Token]) -> Option<Vec<Vec<usize>>> {
        Some(self.open(tokens).ok()?.iter().map(|open| open.last().copied().into_iter().collect()).collect())
    }

    fn slices(&self) -> Vec<Slice> {
        vec![
            Slice { name: "depth", words: "open brackets" },
            Slice { name: "distance", words: "distance to the bracket to close" },
        ]
    }

    fn slice_values(&self, tokens: &[Token]) -> Vec<Vec<Option<u32>>> {
        let values = |(at, open): (usize, &Vec<usize>)| {
            vec![Some(open.len() as u32), open.last().map(|&place| (at - place) as u32)]
        };
        self.open(tokens).unwrap_or_default().iter().enumerate().map(values).collect()
    }
}
