//! `parity`: is the number of ones odd?

use std::sync::Arc;

use super::{BITS, CHOMSKY, count};
use crate::random::Random;
use crate::task::{Answers, Illegal, Label, Lengths, Symbol, Task, TaskInfo, Token, Unlikely, label, symbol};

pub(crate) const INFO: TaskInfo = TaskInfo {
    summary: "whether the number of ones among uniform bits is odd",
    tests: "counting modulo 2: every bit matters, their order does not, and flipping any bit changes the label",
    source: CHOMSKY,
    alphabet: BITS,
    classes: CLASSES,
    ..TaskInfo::new("parity", |_| Ok(Arc::new(Parity)))
};

const CLASSES: &[Symbol] = &[symbol("0", "an even number of ones"), symbol("1", "an odd number of ones")];

#[derive(Debug)]
struct Parity;

impl Task for Parity {
    fn generate(&self, lengths: &Lengths, random: &mut Random, out: &mut Vec<Token>) -> Result<Answers, Unlikely> {
        let mut odd = 0;
        for _ in 0..random.within(lengths) {
            let bit = random.below(2) as Token;
            odd ^= bit;
            out.push(bit);
        }
        Ok(label(odd))
    }

    fn answers(&self, bits: &[Token]) -> Result<Answers, Illegal> {
        Ok(label((ones(bits) % 2) as Label))
    }

    fn explain(&self, bits: &[Token]) -> Vec<String> {
        let ones = ones(bits);
        let parity = if ones.is_multiple_of(2) { "even" } else { "odd" };
        vec![format!("There {} {}, and {ones} is {parity}.", if ones == 1 { "is" } else { "are" }, count(ones, "one"))]
    }
}

fn ones(bits: &[Token]) -> usize {
    bits.iter().filter(|&&bit| bit == 1).count()
}
