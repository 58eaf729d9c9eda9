//! `even-pairs`: is the number of unequal neighbours odd?

use std::sync::Arc;

use super::{BITS, CHOMSKY, count, digits};
use crate::random::Random;
use crate::task::{Answers, Illegal, Label, Lengths, Symbol, Task, TaskInfo, Token, Unlikely, label, symbol};

pub(crate) const INFO: TaskInfo = TaskInfo {
    summary: "whether uniform bits have an odd number of unequal neighbours",
    tests: "comparing neighbours, or noticing that comparing the first and the last bit is enough",
    source: CHOMSKY,
    alphabet: BITS,
    classes: CLASSES,
    ..TaskInfo::new("even-pairs", |_| Ok(Arc::new(EvenPairs)))
};

const CLASSES: &[Symbol] =
    &[symbol("0", "an even number of unequal neighbours"), symbol("1", "an odd number of unequal neighbours")];

#[derive(Debug)]
struct EvenPairs;

impl Task for EvenPairs {
    /// The label is known without looking at pairs: bits that change an odd number of times end with another value than they
    /// began with.
    fn generate(&self, lengths: &Lengths, random: &mut Random, out: &mut Vec<Token>) -> Result<Answers, Unlikely> {
        let first = random_bits(random.within(lengths), random, out);
        Ok(label(Label::from(first != out.last().copied())))
    }

    fn answers(&self, bits: &[Token]) -> Result<Answers, Illegal> {
        Ok(label((unequal_neighbours(bits).count() % 2) as Label))
    }

    fn explain(&self, bits: &[Token]) -> Vec<String> {
        let unequal = unequal_neighbours(bits).count();
        let mut marked = bits[..1].iter().map(Token::to_string).collect::<String>();
        for pair in bits.windows(2) {
            marked += &format!("{}{}", if pair[0] == pair[1] { " " } else { "|" }, pair[1]);
        }
        let parity = if unequal.is_multiple_of(2) { "even" } else { "odd" };
        let (first, last) = (digits(&bits[..1]), digits(&bits[bits.len() - 1..]));
        let same = if first == last { "equal" } else { "unequal" };
        vec![
            format!("Bars mark unequal neighbours: {marked}"),
            format!("{}, and {unequal} is {parity}.", count(unequal, "bar")),
            format!("Shortcut: the first bit, {first}, and the last, {last}, are {same}."),
        ]
    }
}

/// Appends uniform bits; returns the first one.
fn random_bits(count: usize, random: &mut Random, out: &mut Vec<Token>) -> Option<Token> {
    let start = out.len();
    out.extend((0..count).map(|_| random.below(2) as Token));
    out.get(start).copied()
}

/// Indices of bits that differ from the next one.
fn unequal_neighbours(bits: &[Token]) -> impl Iterator<Item = usize> {
    bits.windows(2).enumerate().filter(|(_, pair)| pair[0] != pair[1]).map(|(index, _)| index)
}
