//! `parity`: is the number of ones odd?

use super::{BITS, CHOMSKY, USUAL_LENGTH, count};
use crate::generate::Unlikely;
use crate::random::Random;
use crate::registry::{Illegal, Label, Recipe, TaskInfo, Token, symbol};
use crate::settings::Length;

pub(crate) const INFO: TaskInfo = TaskInfo {
    name: "parity",
    summary: "whether the number of ones among uniform bits is odd",
    tests: "counting modulo 2: every bit matters, their order does not, and a single flip turns the label",
    source: CHOMSKY,
    alphabet: BITS,
    classes: &[symbol("0", "an even number of ones"), symbol("1", "an odd number of ones")],
    default_length: USUAL_LENGTH,
    min_length: 1,
    excludes_bounds: false,
    distinct: false,
    lesson_length: Length::Between(6, 10),
    generate,
    evaluate,
    explain,
};

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
