//! `cycle-navigation`: where does a walk on a cycle of five places end?

use super::{CHOMSKY, joined};
use crate::generate::Unlikely;
use crate::random::Random;
use crate::task::{Illegal, Label, Recipe, Symbol, TaskInfo, Token, symbol};

pub(crate) const INFO: TaskInfo = TaskInfo {
    summary: "the end of a walk of uniform moves on a cycle of 5 places that begins at place 0",
    tests: "adding modulo 5: every move matters, their order does not",
    source: CHOMSKY,
    explain,
    ..TaskInfo::new("cycle-navigation", ALPHABET, CLASSES, generate, evaluate)
};

const ALPHABET: &[Symbol] = &[symbol("-1", "one place back"), symbol("0", "stay"), symbol("+1", "one place forward")];

const CLASSES: &[Symbol] = &[
    symbol("0", "place 0"),
    symbol("1", "place 1"),
    symbol("2", "place 2"),
    symbol("3", "place 3"),
    symbol("4", "place 4"),
];

const PLACES: usize = 5;

fn generate(recipe: &Recipe, random: &mut Random, out: &mut Vec<Token>) -> Result<Label, Unlikely> {
    let mut place = 0;
    for _ in 0..recipe.draw_length(random) {
        let step = random.below(3) as Token;
        place = moved(place, step);
        out.push(step);
    }
    Ok(place as Label)
}

fn moved(place: usize, step: Token) -> usize {
    (place + usize::from(step) + PLACES - 1) % PLACES
}

fn evaluate(moves: &[Token]) -> Result<Label, Illegal> {
    let forward = moves.iter().filter(|&&step| step == 2).count() as i64;
    let back = moves.iter().filter(|&&step| step == 0).count() as i64;
    Ok((forward - back).rem_euclid(PLACES as i64) as Label)
}

fn explain(moves: &[Token]) -> Vec<String> {
    let walk = moves.iter().scan(0, |place, &step| {
        *place = moved(*place, step);
        Some(*place)
    });
    let places: Vec<usize> = std::iter::once(0).chain(walk).collect();
    vec![format!("Places on the way: {}", joined(places, " → "))]
}
