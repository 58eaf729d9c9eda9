//! `sparse-average`: what is the average of the digits at the positions that are named?

use std::sync::Arc;

use semfocus_core::data::Length;
use semfocus_core::spec::{Literal, Parameter, Values};

use super::{asked, expected, joined, numbered};
use crate::random::Random;
use crate::task::{Answers, Illegal, Label, Lengths, Slice, Symbol, Task, TaskInfo, Token, Unlikely};

pub(crate) const INFO: TaskInfo = TaskInfo {
    summary: "the rounded average of some digits, whose positions are named before each mark `=`; the digits come first",
    tests: "attending to several positions at once, and to others in every question (q-sparse averaging)",
    source: "after Sanford, Hsu & Telgarsky, Representational Strengths and Limitations of Transformers, NeurIPS 2023",
    parameters: &[
        Parameter::whole("q", "the number of digits that are averaged", 1, 1000, 4).default(Literal::Number(3.0)),
        Parameter::whole("questions", "the number of questions", 1, 1000, 8).default(Literal::Number(4.0)),
        Parameter::whole(
            "positions",
            "the largest number of digits, each of whose positions has a name",
            1,
            10_000,
            64,
        )
        .default(Literal::Number(32.0)),
        Parameter::whole("digits", "the number of different digits", 2, 1000, 5).default(Literal::Number(10.0)),
    ],
    ..TaskInfo::new("sparse-average", build)
};

fn build(values: &Values) -> Result<Arc<dyn Task>, String> {
    let [q, questions, positions, digits] = ["q", "questions", "positions", "digits"].map(|name| values.whole(name));
    if q > positions {
        return Err(format!(
            "{q} different digits cannot be named among {positions}; write for instance positions={q}"
        ));
    }
    Ok(Arc::new(SparseAverage { q, questions, positions, digits }))
}

/// Tokens: the digits, the names of the positions, the mark at which an average is asked for.
#[derive(Debug)]
struct SparseAverage {
    q: usize,
    questions: usize,
    positions: usize,
    digits: usize,
}

impl SparseAverage {
    fn mark(&self) -> Token {
        (self.digits + self.positions) as Token
    }

    /// The tokens of all questions: the names and a mark for each.
    fn tail(&self) -> usize {
        self.questions * (self.q + 1)
    }

    /// The average, rounded to the nearest digit, half up.
    fn rounded(&self, sum: usize) -> Label {
        ((2 * sum + self.q) / (2 * self.q)) as Label
    }

    /// For each question of a legal sequence the positions that it names, in its order.
    fn named(&self, tokens: &[Token]) -> Result<Vec<Vec<usize>>, Illegal> {
        let Some(digits) = tokens.len().checked_sub(self.tail()).filter(|&digits| digits >= self.q) else {
            return expected(
                tokens,
                tokens.len(),
                &format!("{} digits or more, and {} tokens of questions", self.q, self.tail()),
            );
        };
        if digits > self.positions {
            return Illegal::at(self.positions, format!("only {} digits have positions with names", self.positions));
        }
        if let Some(index) = (0..digits).find(|&index| usize::from(tokens[index]) >= self.digits) {
            return expected(tokens, index, "a digit");
        }
        let mut all = Vec::with_capacity(self.questions);
        for start in (digits..tokens.len()).step_by(self.q + 1) {
            let mut named: Vec<usize> = Vec::with_capacity(self.q);
            for index in start..start + self.q {
                match usize::from(tokens[index]).checked_sub(self.digits).filter(|&position| position < digits) {
                    Some(position) if named.contains(&position) => {
                        return Illegal::at(index, "this position is named already");
                    }
                    Some(position) => named.push(position),
                    None => return expected(tokens, index, "the name of the position of a digit"),
                }
            }
            if tokens[start + self.q] != self.mark() {
                return expected(tokens, start + self.q, "the mark `=`");
            }
            all.push(named);
        }
        Ok(all)
    }

    /// The position of a question.
    fn at(&self, tokens: &[Token], question: usize) -> usize {
        tokens.len() - self.tail() + (question + 1) * (self.q + 1) - 1
    }
}

impl Task for SparseAverage {
    fn alphabet(&self) -> Vec<Symbol> {
        let mut symbols = numbered(self.digits + self.positions + 1, |id| match id.checked_sub(self.digits) {
            None => format!("digit {id}"),
            Some(position) => format!("names token {}", position + 1),
        });
        symbols[usize::from(self.mark())] =
            Symbol { text: "=".into(), meaning: "the average of the digits named before is asked for".into() };
        symbols
    }

    fn classes(&self) -> Vec<Symbol> {
        numbered(self.digits, |id| format!("the average is {id}"))
    }

    fn generate(&self, lengths: &Lengths, random: &mut Random, out: &mut Vec<Token>) -> Result<Answers, Unlikely> {
        let start = out.len();
        let digits = random.within(lengths) - self.tail();
        out.extend((0..digits).map(|_| random.below(self.digits as u32) as Token));
        let mut questions = Vec::with_capacity(self.questions);
        for _ in 0..self.questions {
            let named = random.distinct(self.q, digits as u32);
            let sum = named.iter().map(|&position| usize::from(out[start + position as usize])).sum();
            out.extend(named.iter().map(|&position| self.digits as Token + position as Token));
            questions.push(asked(out.len() - start, self.rounded(sum)));
            out.push(self.mark());
        }
        Ok(Answers::from_iter(questions))
    }

    /// The average is the digit nearest to it, the greater one of two.
    fn answers(&self, tokens: &[Token]) -> Result<Answers, Illegal> {
        let average = |named: &Vec<usize>| {
            let sum: usize = named.iter().map(|&position| usize::from(tokens[position])).sum();
            (0..self.digits).min_by_key(|&digit| (sum.abs_diff(digit * self.q), self.digits - digit)).unwrap_or(0)
        };
        let named = self.named(tokens)?;
        Ok(named
            .iter()
            .enumerate()
            .map(|(question, named)| asked(self.at(tokens, question), average(named) as Label))
            .collect())
    }

    fn explain(&self, tokens: &[Token]) -> Vec<String> {
        let line = |named: &Vec<usize>| {
            let digits: Vec<Token> = named.iter().map(|&position| tokens[position]).collect();
            let sum: usize = digits.iter().map(|&digit| usize::from(digit)).sum();
            let places = joined(named.iter().map(|position| position + 1), ", ");
            format!("Tokens {places} are {}: {sum} / {} is about {}.", joined(digits, ", "), self.q, self.rounded(sum))
        };
        self.named(tokens).unwrap_or_default().iter().map(line).collect()
    }

    /// The digits that are named, and their names.
    fn relevant(&self, tokens: &[Token]) -> Option<Vec<usize>> {
        let named = self.named(tokens).ok()?;
        let names = (tokens.len() - self.tail()..tokens.len()).filter(|&index| tokens[index] != self.mark());
        let mut positions: Vec<usize> = named.into_iter().flatten().chain(names).collect();
        positions.sort_unstable();
        positions.dedup();
        Some(positions)
    }

    /// The digits that are named.
    fn relevant_to_questions(&self, tokens: &[Token]) -> Option<Vec<Vec<usize>>> {
        let mut named = self.named(tokens).ok()?;
        named.iter_mut().for_each(|named| named.sort_unstable());
        Some(named)
    }

    fn slices(&self) -> Vec<Slice> {
        vec![Slice { name: "distance", words: "distance to the farthest digit" }]
    }

    fn slice_values(&self, tokens: &[Token]) -> Vec<Vec<Option<u32>>> {
        let named = self.named(tokens).unwrap_or_default();
        let farthest = |(question, named): (usize, &Vec<usize>)| {
            vec![named.iter().map(|&position| (self.at(tokens, question) - position) as u32).max()]
        };
        named.iter().enumerate().map(farthest).collect()
    }

    fn default_length(&self) -> Length {
        Length::Exactly(self.positions + self.tail())
    }

    fn lesson_length(&self) -> Length {
        Length::Between(self.min_length(), self.positions.min(self.q + 5) + self.tail())
    }

    fn min_length(&self) -> usize {
        self.q + self.tail()
    }

    fn lengths(&self, length: Length) -> Result<Lengths, String> {
        let longest = self.positions + self.tail();
        match length {
            _ if length.max() > longest => Err(format!(
                "with {} positions and {} tokens of questions a sequence has up to {longest} tokens, not {length}; write for \
                 instance positions={}",
                self.positions,
                self.tail(),
                length.max() - self.tail(),
            )),
            Length::Exactly(length) => Ok(length..=length),
            Length::Between(min, max) => Ok(min..=max),
        }
    }
}
