//! `modular-arithmetic`: the value of a bracketed expression modulo 5.

use std::sync::Arc;

use super::expression::{self, MODULUS, Operator, Piece, Step};
use super::{CHOMSKY, RESIDUES};
use crate::random::Random;
use crate::task::{Answers, Illegal, Lengths, Symbol, Task, TaskInfo, Token, Unlikely, label, symbol};
use semfocus_core::data::Length;

pub(crate) const INFO: TaskInfo = TaskInfo {
    summary: "the value of a bracketed expression of digits, +, - and *, modulo 5",
    tests: "evaluating nested brackets from the inside out, with another hierarchy in every example",
    source: CHOMSKY,
    alphabet: ALPHABET,
    classes: RESIDUES,
    ..TaskInfo::new("modular-arithmetic", |_| Ok(Arc::new(ModularArithmetic)))
};

const ALPHABET: &[Symbol] = &[
    symbol("0", "digit 0"),
    symbol("1", "digit 1"),
    symbol("2", "digit 2"),
    symbol("3", "digit 3"),
    symbol("4", "digit 4"),
    symbol("+", "plus"),
    symbol("-", "minus, between two numbers or before a digit"),
    symbol("*", "times"),
    symbol("(", "open bracket"),
    symbol(")", "close bracket"),
];

#[derive(Debug)]
struct ModularArithmetic;

impl Task for ModularArithmetic {
    fn lesson_length(&self) -> Length {
        Length::Between(9, 17)
    }

    fn generate(&self, lengths: &Lengths, random: &mut Random, out: &mut Vec<Token>) -> Result<Answers, Unlikely> {
        let length = random.within(lengths);
        Ok(label(expression::generate(length, &Operator::ALL, random, &mut |piece| out.push(token(piece)))))
    }

    fn answers(&self, tokens: &[Token]) -> Result<Answers, Illegal> {
        expression::evaluate(tokens.iter().map(|&token| piece(token)), |_| {}).map(label)
    }

    fn explain(&self, tokens: &[Token]) -> Vec<String> {
        let mut lines = vec!["Signs first, then brackets from the inside out, modulo 5:".to_owned()];
        let note = |Step { left, operator, right, plain, value }| {
            let reduced =
                if plain == i32::from(value) { String::new() } else { format!(", which is {value} modulo 5") };
            lines.push(format!("({left} {} {right}) = {plain}{reduced}", operator.symbol()));
        };
        let _ = expression::evaluate(tokens.iter().map(|&token| piece(token)), note);
        if lines.len() == 1 {
            lines[0] = "A single digit; at most its sign matters.".to_owned();
        }
        lines
    }
}

fn token(piece: Piece) -> Token {
    match piece {
        Piece::Digit(digit) => digit,
        Piece::Operator(operator) => MODULUS + operator as Token,
        Piece::Open => 8,
        Piece::Close => 9,
        Piece::Invalid => unreachable!("generators write no invalid tokens"),
    }
}

fn piece(token: Token) -> Piece {
    match token {
        0..MODULUS => Piece::Digit(token),
        5..=7 => Piece::Operator(Operator::ALL[usize::from(token - MODULUS)]),
        8 => Piece::Open,
        9 => Piece::Close,
        _ => Piece::Invalid,
    }
}
