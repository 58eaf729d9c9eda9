//! `solve-equation`: which digit does x stand for?

use std::sync::Arc;

use super::expression::{self, MODULUS, Operator, Piece};
use super::{CHOMSKY, RESIDUES};
use crate::random::Random;
use crate::task::{Answers, Illegal, Lengths, Symbol, Task, TaskInfo, Token, Unlikely, label, symbol};
use semfocus_core::data::Length;

pub(crate) const INFO: TaskInfo = TaskInfo {
    summary: "the digit that x stands for in a bracketed sum whose value modulo 5 is given",
    tests: "evaluating brackets around an unknown, then inverting the operations applied to it",
    source: CHOMSKY,
    alphabet: ALPHABET,
    classes: RESIDUES,
    ..TaskInfo::new("solve-equation", |_| Ok(Arc::new(SolveEquation)))
};

const ALPHABET: &[Symbol] = &[
    symbol("0", "digit 0"),
    symbol("1", "digit 1"),
    symbol("2", "digit 2"),
    symbol("3", "digit 3"),
    symbol("4", "digit 4"),
    symbol("+", "plus"),
    symbol("-", "minus, between two numbers or before a digit"),
    symbol("(", "open bracket"),
    symbol(")", "close bracket"),
    symbol("x", "the unknown digit"),
    symbol("=", "equals"),
];

const OPEN: Token = 7;
const CLOSE: Token = 8;
const UNKNOWN: Token = 9;
const EQUALS: Token = 10;

#[derive(Debug)]
struct SolveEquation;

impl Task for SolveEquation {
    fn min_length(&self) -> usize {
        3
    }

    fn lesson_length(&self) -> Length {
        Length::Between(9, 15)
    }

    fn generate(&self, lengths: &Lengths, random: &mut Random, out: &mut Vec<Token>) -> Result<Answers, Unlikely> {
        let (start, length) = (out.len(), random.within(lengths) - 2); // `=` and the value follow
        let sums = &[Operator::Plus, Operator::Minus];
        let value = expression::generate(length, sums, random, &mut |piece| out.push(token(piece)));
        let mut place = random.between(0, length - 1);
        while out[start + place] >= MODULUS {
            place = (place + 1) % length;
        }
        let hidden = std::mem::replace(&mut out[start + place], UNKNOWN);
        out.extend([EQUALS, value]);
        Ok(label(hidden))
    }

    /// Tries all digits. A sum takes each value for exactly one value of any of its digits, so exactly one digit fits.
    fn answers(&self, tokens: &[Token]) -> Result<Answers, Illegal> {
        let mut unknowns = tokens.iter().enumerate().filter(|(_, token)| **token == UNKNOWN);
        if unknowns.next().is_none() {
            return Illegal::at(tokens.len(), "there is nothing to solve for; one digit must be x (9)");
        }
        if let Some((second, _)) = unknowns.next() {
            return Illegal::at(second, "a second x; only one digit may be unknown");
        }
        for x in 0..MODULUS {
            let (left, right) = sides(tokens, x)?;
            if left == right {
                return Ok(label(x));
            }
        }
        unreachable!("a sum takes every value as one of its digits varies")
    }

    fn explain(&self, tokens: &[Token]) -> Vec<String> {
        let mut lines = vec!["Try every digit and compare the two sides, modulo 5:".to_owned()];
        for x in 0..MODULUS {
            if let Ok((left, right)) = sides(tokens, x) {
                let verdict = if left == right { "true" } else { "false" };
                lines.push(format!("x = {x}: {left} = {right} is {verdict}"));
            }
        }
        lines
    }
}

fn token(piece: Piece) -> Token {
    match piece {
        Piece::Digit(digit) => digit,
        Piece::Operator(operator) => MODULUS + operator as Token,
        Piece::Open => OPEN,
        Piece::Close => CLOSE,
        Piece::Invalid => unreachable!("generators write no invalid tokens"),
    }
}

/// A token as part of an expression in which x has this value.
fn piece(token: Token, x: u16) -> Piece {
    match token {
        0..MODULUS => Piece::Digit(token),
        5 => Piece::Operator(Operator::Plus),
        6 => Piece::Operator(Operator::Minus),
        OPEN => Piece::Open,
        CLOSE => Piece::Close,
        UNKNOWN => Piece::Digit(x),
        _ => Piece::Invalid,
    }
}

/// The values of the two sides of the equation when x has this value.
fn sides(tokens: &[Token], x: u16) -> Result<(u16, u16), Illegal> {
    let Some(equals) = tokens.iter().position(|&token| token == EQUALS) else {
        return Illegal::at(tokens.len(), "an equation needs `=` (10) and a value");
    };
    let left = expression::evaluate(tokens[..equals].iter().map(|&token| piece(token, x)), |_| {})?;
    let right = match tokens.get(equals + 1) {
        None => return Illegal::at(equals + 1, "ends too early: a value must follow `=`"),
        Some(&digit) if digit < MODULUS => digit,
        Some(&UNKNOWN) => return Illegal::at(equals + 1, "x must stand in the expression, before `=`"),
        Some(_) => return Illegal::at(equals + 1, "a single digit must follow `=`"),
    };
    match tokens.len() {
        length if length > equals + 2 => Illegal::at(equals + 2, "the equation was complete before this token"),
        _ => Ok((left, right)),
    }
}
