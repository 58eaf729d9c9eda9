//! `parity`: is the number of ones odd?

use super::{BITS, CHOMSKY, count};
use crate::generate::Unlikely;
use crate::random::Random;
use crate::task::{Illegal, Label, Recipe, Symbol, TaskInfo, Token, symbol};

pub(crate) const INFO: TaskInfo = TaskInfo {
    summary: "whether the number of ones among uniform bits is odd",
    tests: "counting modulo 2: every bit matters, their order does not, and flipping any bit changes the label",
    source: CHOMSKY,
    explain,
    ..TaskInfo::new("parity", BITS, CLASSES, generate, evaluate)
};

const CLASSES: &[Symbol] = &[symbol("0", "an even number of ones"), symbol("1", "an odd number of ones")];

fn generate(recipe: &Recipe, random: &mut Random, out: &mut Vec<Token>) -> Result<Label, Unlikely> {
    let mut odd = 0;
    for _ in 0..recipe.draw_length(random) {
        let bit = random.below(2) as Token;
        odd ^= bit;
        out.push(bit);
    }
    Ok(odd)
}

fn evaluate(bits: &[Token]) -> Result<Label, Illegal> {
    Ok((ones(bits) % 2) as Label)
}

fn ones(bits: &[Token]) -> usize {
    bits.iter().filter(|&&bit| bit == 1).count()
}

fn explain(bits: &[Token]) -> Vec<String> {
    let ones = ones(bits);
    let parity = if ones.is_multiple_of(2) { "even" } else { "odd" };
    vec![format!("There {} {}, and {ones} is {parity}.", if ones == 1 { "is" } else { "are" }, count(ones, "one"))]
}
