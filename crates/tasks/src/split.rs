//! The parts of a data set, and which of them a sequence belongs to.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use semfocus_core::data::Sizes;
use semfocus_core::question::{Answers, At, Question, Questions, Target};
use semfocus_core::{Key, Stream, fnv_1a};
use serde::{Deserialize, Serialize};

use crate::task::{Token, single_label};

/// The parts of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SplitName {
    /// Examples to train on.
    Train,
    /// Examples to measure generalisation with.
    HeldOut,
    /// Examples for a final measurement, untouched until all choices are made.
    Test,
}

impl SplitName {
    /// In the order in which data sets list their splits.
    pub const ALL: [SplitName; 3] = [SplitName::Train, SplitName::HeldOut, SplitName::Test];

    /// The split that a sequence belongs to. Padding at its end must have been removed.
    pub fn for_sequence(seed: u64, sequence: &[Token]) -> SplitName {
        match Key::of_stream(seed, Stream::Data).named("splits").child(hash(sequence)).bits() >> 61 {
            0..=4 => SplitName::Train,
            5 | 6 => SplitName::HeldOut,
            _ => SplitName::Test,
        }
    }

    /// How many examples the split has.
    pub fn size_in(self, sizes: &Sizes) -> usize {
        match self {
            SplitName::Train => sizes.train,
            SplitName::HeldOut => sizes.held_out,
            SplitName::Test => sizes.test,
        }
    }
}

impl fmt::Display for SplitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            SplitName::Train => "train",
            SplitName::HeldOut => "held-out",
            SplitName::Test => "test",
        })
    }
}

impl FromStr for SplitName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = SplitName::ALL.into_iter().find(|split| split.to_string() == text);
        found.ok_or_else(|| format!("expected `train`, `held-out` or `test`, not `{text}`"))
    }
}

/// FNV-1a of the tokens, as two bytes each in little-endian order.
pub(crate) fn hash(tokens: &[Token]) -> u64 {
    fnv_1a(tokens.iter().flat_map(|token| token.to_le_bytes()))
}

/// The examples of one split, padded to one length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Split {
    /// All sequences one after another, each padded to `length`: `[examples, length]`.
    pub tokens: Vec<Token>,
    /// What every sequence asks.
    pub questions: Questions,
    /// The number of tokens of every example before padding.
    pub lengths: Vec<usize>,
    /// The length to which every sequence is padded.
    pub length: usize,
    /// The mean loss that the best possible predictor has on these questions, in nats; none where it is not known, as for data files.
    /// It is 0 if classes follow from the tokens, and the mean entropy of the targets if they are the best predictions.
    pub floor: Option<f64>,
    /// Characters of text for each question, in the mean; none unless the examples are made of text.
    pub characters: Option<f64>,
}

impl Split {
    /// A split without examples yet.
    pub fn new(length: usize, classes: usize) -> Self {
        Split { length, questions: Questions::over(classes), ..Split::default() }
    }

    /// Adds an example.
    pub fn push(&mut self, tokens: &[Token], answers: &Answers, pad: Token) {
        self.tokens.extend_from_slice(tokens);
        self.tokens.resize((self.len() + 1) * self.length, pad);
        self.questions.push_answers(answers);
        self.lengths.push(tokens.len());
    }

    /// The number of examples.
    pub fn len(&self) -> usize {
        self.questions.sequences()
    }

    /// The number of different sequences.
    pub fn distinct(&self) -> usize {
        self.iter().map(|(tokens, _)| tokens).collect::<HashSet<_>>().len()
    }

    /// Whether there is no example.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The right answers to all questions, sequence after sequence: the classes of the examples in a classification task.
    pub fn labels(&self) -> Vec<u16> {
        self.questions.all().iter().map(|question| self.questions.correct_class(question.target)).collect()
    }

    /// The sequences with their padding, and their questions.
    pub fn iter(&self) -> impl Iterator<Item = (&[Token], &[Question])> {
        let sequences = self.tokens.chunks_exact(self.length.max(1));
        sequences.enumerate().map(|(index, tokens)| (tokens, self.questions.of_sequence(index)))
    }

    /// FNV-1a of all tokens and answers, as two bytes each in little-endian order. In a classification task an answer is a class.
    pub fn checksum(&self) -> u64 {
        let words = self.iter().flat_map(|(tokens, asked)| [tokens.to_vec(), self.answer_words(asked)]).flatten();
        fnv_1a(words.flat_map(u16::to_le_bytes))
    }

    /// The answers of a sequence in words of two bytes: the class, or everything about the questions.
    pub(crate) fn answer_words(&self, asked: &[Question]) -> Vec<u16> {
        match single_label(asked) {
            Some(class) => vec![class],
            None => asked.iter().flat_map(|question| self.words(question)).collect(),
        }
    }

    /// Everything about a question in words of two bytes.
    fn words(&self, question: &Question) -> Vec<u16> {
        let halves = |bits: u32| [bits as u16, (bits >> 16) as u16];
        let at = match question.at {
            At::Mean => vec![u16::MAX],
            At::Token(position) => halves(position).to_vec(),
        };
        let target = match question.target {
            Target::Class(class) => vec![class],
            Target::Soft(row) => {
                self.questions.distribution(row).iter().flat_map(|share| halves(share.to_bits())).collect()
            }
        };
        [&at[..], &target, &halves(question.weight.to_bits())].concat()
    }
}
