//! `cycle-navigation`: where does a walk on a cycle of five positions end?

use std::sync::Arc;

use super::{CHOMSKY, joined};
use crate::random::Random;
use crate::task::{Answers, Illegal, Label, Lengths, Symbol, Task, TaskInfo, Token, Unlikely, label, symbol};

pub(crate) const INFO: TaskInfo = TaskInfo {
    summary: "the final position of a walk of uniform moves on a cycle of 5 positions, starting at 0",
    tests: "adding modulo 5: every move matters, their order does not",
    source: CHOMSKY,
    alphabet: ALPHABET,
    classes: CLASSES,
    ..TaskInfo::new("cycle-navigation", |_| Ok(Arc::new(CycleNavigation)))
};

const ALPHABET: &[Symbol] = &[symbol("-1", "one step back"), symbol("0", "stay"), symbol("+1", "one step forward")];

const CLASSES: &[Symbol] = &[
    symbol("0", "position 0"),
    symbol("1", "position 1"),
    symbol("2", "position 2"),
    symbol("3", "position 3"),
    symbol("4", "position 4"),
];

const POSITIONS: usize = 5;

#[derive(Debug)]
struct CycleNavigation;

impl Task for CycleNavigation {
    fn generate(&self, lengths: &Lengths, random: &mut Random, out: &mut Vec<Token>) -> Result<Answers, Unlikely> {
        let mut position = 0;
        for _ in 0..random.within(lengths) {
            let step = random.below(3) as Token;
            position = moved(position, step);
            out.push(step);
        }
        Ok(label(position as Label))
    }

    fn answers(&self, moves: &[Token]) -> Result<Answers, Illegal> {
        let forward = moves.iter().filter(|&&step| step == 2).count() as i64;
        let back = moves.iter().filter(|&&step| step == 0).count() as i64;
        Ok(label((forward - back).rem_euclid(POSITIONS as i64) as Label))
    }

    fn explain(&self, moves: &[Token]) -> Vec<String> {
        let walk = moves.iter().scan(0, |position, &step| {
            *position = moved(*position, step);
            Some(*position)
        });
        let positions: Vec<usize> = std::iter::once(0).chain(walk).collect();
        vec![format!("Positions: {}", joined(positions, " → "))]
    }
}

fn moved(position: usize, step: Token) -> usize {
    (position + usize::from(step) + POSITIONS - 1) % POSITIONS
}
