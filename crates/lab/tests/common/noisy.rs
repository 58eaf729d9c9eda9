//! A task that draws answers and has a slice of its own.

use std::sync::Arc;

use semfocus_tasks::{
    Answers, At, Evaluator, Illegal, Lengths, Question, Random, Slice, Symbol, Target, Task, TaskInfo, Token, Unlikely,
    symbol,
};

/// Uniform bits. After each but the first a bit is asked that is equal to it with a probability of 3/4.
pub(crate) const NOISY: TaskInfo = TaskInfo {
    summary: "the last bit, most of the time",
    alphabet: BITS,
    classes: BITS,
    ..TaskInfo::new("noisy", |_| Ok(Arc::new(Noisy)))
};

const BITS: &[Symbol] = &[symbol("0", "zero"), symbol("1", "one")];

#[derive(Debug)]
struct Noisy;

impl Task for Noisy {
    fn generate(&self, lengths: &Lengths, random: &mut Random, out: &mut Vec<Token>) -> Result<Answers, Unlikely> {
        out.extend((0..random.within(lengths)).map(|_| random.below(2) as Token));
        let mut drawn = |bit: Token| if random.happens(0.75) { bit } else { 1 - bit };
        let asked =
            |(at, bit): (u32, &Token)| Question { at: At::Token(at), target: Target::Class(drawn(*bit)), weight: 1.0 };
        Ok((0..).zip(&*out).skip(1).map(asked).collect())
    }

    fn answers(&self, bits: &[Token]) -> Result<Answers, Illegal> {
        let shares = |bit: Token| if bit == 0 { vec![0.75, 0.25] } else { vec![0.25, 0.75] };
        Ok(Answers::soft((0..).zip(bits).skip(1).map(|(at, bit)| (at, shares(*bit)))))
    }

    fn evaluator(&self) -> Evaluator {
        Evaluator::BestPrediction
    }

    fn slices(&self) -> Vec<Slice> {
        vec![Slice { name: "ones", words: "ones up to there" }]
    }

    /// Questions after a zero have no value.
    fn slice_values(&self, bits: &[Token]) -> Vec<Vec<Option<u32>>> {
        let ones = |at: usize| bits[..=at].iter().map(|bit| u32::from(*bit)).sum();
        (1..bits.len()).map(|at| vec![(bits[at] == 1).then(|| ones(at))]).collect()
    }
}
