//! `selective-copy`: which tokens stand among the blanks, in their order?

use std::sync::Arc;

use semfocus_core::data::Length;
use semfocus_core::spec::{Literal, Parameter, Values};

use super::{asked, expected, numbered};
use crate::random::Random;
use crate::task::{Answers, Illegal, Lengths, Slice, Symbol, Task, TaskInfo, Token, Unlikely};

pub(crate) const INFO: TaskInfo = TaskInfo {
    summary: "one after the other, at copy marks at the end, the tokens that are scattered among blanks",
    tests: "remembering what matters, forgetting what does not, and keeping the order",
    source: "Gu & Dao, Mamba: Linear-Time Sequence Modeling with Selective State Spaces, 2023",
    parameters: &[
        Parameter::whole("items", "the number of tokens to copy", 1, 10_000, 8).default(Literal::Number(16.0)),
        Parameter::whole("vocabulary", "the number of different tokens to copy", 2, 50_000, 64)
            .default(Literal::Number(16.0)),
    ],
    ..TaskInfo::new("selective-copy", build)
};

fn build(values: &Values) -> Result<Arc<dyn Task>, String> {
    Ok(Arc::new(SelectiveCopy { items: values.whole("items"), vocabulary: values.whole("vocabulary") }))
}

/// Tokens: those to copy, the blank, the copy mark.
#[derive(Debug)]
struct SelectiveCopy {
    items: usize,
    vocabulary: usize,
}

impl SelectiveCopy {
    fn blank(&self) -> Token {
        self.vocabulary as Token
    }

    fn mark(&self) -> Token {
        self.blank() + 1
    }

    /// Where the tokens to copy stand in a legal sequence.
    fn places(&self, tokens: &[Token]) -> Result<Vec<usize>, Illegal> {
        let marks = tokens.len().checked_sub(self.items).filter(|&marks| marks >= self.items);
        let Some(marks) = marks else {
            return expected(tokens, tokens.len(), &format!("{0} tokens to copy and {0} copy marks", self.items));
        };
        if let Some(index) = (marks..tokens.len()).find(|&index| tokens[index] != self.mark()) {
            return expected(tokens, index, "a copy mark");
        }
        if let Some(index) = (0..marks).find(|&index| tokens[index] == self.mark()) {
            return Illegal::at(index, format!("only the last {} tokens are copy marks", self.items));
        }
        let places: Vec<usize> = (0..marks).filter(|&index| tokens[index] != self.blank()).collect();
        match places.len() {
            count if count == self.items => Ok(places),
            count => {
                Illegal::at(marks, format!("expected {} tokens to copy before the copy marks, got {count}", self.items))
            }
        }
    }
}

impl Task for SelectiveCopy {
    fn alphabet(&self) -> Vec<Symbol> {
        let mut symbols = numbered(self.vocabulary + 2, |id| format!("token {id}"));
        symbols[self.vocabulary].meaning = "blank".into();
        symbols[self.vocabulary + 1].meaning = "copy mark: the next of the tokens is asked for".into();
        symbols
    }

    fn classes(&self) -> Vec<Symbol> {
        numbered(self.vocabulary, |id| format!("token {id}"))
    }

    fn generate(&self, lengths: &Lengths, random: &mut Random, out: &mut Vec<Token>) -> Result<Answers, Unlikely> {
        let (start, length) = (out.len(), random.within(lengths));
        let marks = length - self.items;
        out.resize(start + marks, self.blank());
        out.resize(start + length, self.mark());
        let mut places = random.distinct(self.items, marks as u32);
        places.sort_unstable();
        let mut questions = Vec::with_capacity(self.items);
        for (question, place) in (marks..).zip(places) {
            let token = random.below(self.vocabulary as u32) as Token;
            out[start + place as usize] = token;
            questions.push(asked(question, token));
        }
        Ok(Answers::from_iter(questions))
    }

    fn answers(&self, tokens: &[Token]) -> Result<Answers, Illegal> {
        let places = self.places(tokens)?;
        let marks = tokens.len() - places.len();
        Ok((marks..).zip(places).map(|(question, place)| asked(question, tokens[place])).collect())
    }

    fn explain(&self, tokens: &[Token]) -> Vec<String> {
        let places = self.places(tokens).unwrap_or_default();
        let line = |(nth, place): (usize, usize)| {
            format!("Number {nth} of the tokens to copy is {}, token {}.", tokens[place], place + 1)
        };
        (1..).zip(places).map(line).collect()
    }

    /// The tokens to copy.
    fn relevant(&self, tokens: &[Token]) -> Option<Vec<usize>> {
        self.places(tokens).ok()
    }

    fn relevant_to_questions(&self, tokens: &[Token]) -> Option<Vec<Vec<usize>>> {
        Some(self.places(tokens).ok()?.into_iter().map(|place| vec![place]).collect())
    }

    fn slices(&self) -> Vec<Slice> {
        vec![
            Slice { name: "item", words: "number of the token to copy, from 0" },
            Slice { name: "distance", words: "distance to the token to copy" },
        ]
    }

    fn slice_values(&self, tokens: &[Token]) -> Vec<Vec<Option<u32>>> {
        let marks = tokens.len().saturating_sub(self.items);
        let values = |(item, place): (usize, usize)| vec![Some(item as u32), Some((marks + item - place) as u32)];
        self.places(tokens).unwrap_or_default().into_iter().enumerate().map(values).collect()
    }

    fn default_length(&self) -> Length {
        Length::Exactly(256.max(self.min_length()))
    }

    fn lesson_length(&self) -> Length {
        Length::Between(self.min_length(), self.min_length() + 10)
    }

    fn min_length(&self) -> usize {
        2 * self.items
    }
}
