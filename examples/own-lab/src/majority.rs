//! A task of your own: a generator, and an evaluator that is written apart from it. `docs/adding-a-task.md` walks through
//! this file.

use semfocus::tasks::{Illegal, Label, Length, Random, Recipe, Symbol, TaskInfo, Token, Unlikely, symbol};

// [definition]
const BITS: &[Symbol] = &[symbol("0", "a zero"), symbol("1", "a one")];
const CLASSES: &[Symbol] = &[symbol("0", "zeros have the majority"), symbol("1", "ones have the majority")];

/// What `list tasks` says about it, and how its examples are made.
pub(crate) const MAJORITY: TaskInfo = TaskInfo {
    summary: "the more frequent of the bits, whose number is odd",
    tests: "comparing two counts",
    default_length: Length::Exactly(21),
    lesson_length: Length::Exactly(7), // for `data show`
    explain: |bits| vec![format!("{} of {} bits are ones.", ones(bits), bits.len())],
    ..TaskInfo::new("majority", BITS, CLASSES, generate, evaluate)
};

fn ones(bits: &[Token]) -> usize {
    bits.iter().filter(|&&bit| bit == 1).count()
}

/// Keeps a balance while drawing; the evaluator counts afterwards.
fn generate(recipe: &Recipe, random: &mut Random, out: &mut Vec<Token>) -> Result<Label, Unlikely> {
    let mut balance = 0;
    for _ in 0..recipe.draw_length(random) {
        let bit = random.below(2) as Token;
        balance += 2 * i32::from(bit) - 1;
        out.push(bit);
    }
    Ok(Label::from(balance > 0))
}

fn evaluate(bits: &[Token]) -> Result<Label, Illegal> {
    if bits.len().is_multiple_of(2) {
        return Illegal::at(bits.len(), "the number of bits must be odd");
    }
    Ok(Label::from(2 * ones(bits) > bits.len()))
}
// [end of definition]
