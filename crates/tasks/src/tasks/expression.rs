//! Bracketed expressions modulo 5, shared by `modular-arithmetic` and `solve-equation`.
//!
//! An expression is a digit `d`, `-d`, `(d)`, `(-d)`, or two expressions with an operator between them, in brackets.
//! Every such expression can be generated, and nothing else is legal.

use crate::random::Random;
use crate::task::Illegal;

pub(super) const MODULUS: u16 = 5;

/// A token of an expression; the two tasks use different ids for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Digit(u16),
    Operator(Operator),
    Open,
    Close,
    /// Not allowed in an expression.
    Invalid,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Plus,
    Minus,
    Times,
}

impl Operator {
    pub(super) const ALL: [Operator; 3] = [Operator::Plus, Operator::Minus, Operator::Times];

    pub(super) fn symbol(self) -> &'static str {
        match self {
            Operator::Plus => "+",
            Operator::Minus => "-",
            Operator::Times => "*",
        }
    }

    fn apply(self, left: u16, right: u16) -> i32 {
        let (left, right) = (i32::from(left), i32::from(right));
        match self {
            Operator::Plus => left + right,
            Operator::Minus => left - right,
            Operator::Times => left * right,
        }
    }
}

fn modulo(value: i32) -> u16 {
    value.rem_euclid(i32::from(MODULUS)) as u16
}

/// Passes the pieces of a random expression of exactly `length` tokens to `write`; returns its value.
///
/// Expressions are split at a uniform position, so the depth grows like the logarithm of the length and recursion is safe.
pub(super) fn generate(
    length: usize,
    operators: &[Operator],
    random: &mut Random,
    write: &mut impl FnMut(Piece),
) -> u16 {
    if length > 4 {
        let left_length = random.between(1, length - 4);
        write(Piece::Open);
        // Drawn in the order in which the tokens are written.
        let left = generate(left_length, operators, random, write);
        let operator = operators[random.below(operators.len() as u32) as usize];
        write(Piece::Operator(operator));
        let right = generate(length - left_length - 3, operators, random, write);
        write(Piece::Close);
        return modulo(operator.apply(left, right));
    }
    let digit = random.below(u32::from(MODULUS)) as u16;
    let (brackets, negative) = (length >= 3, length.is_multiple_of(2));
    if brackets {
        write(Piece::Open);
    }
    if negative {
        write(Piece::Operator(Operator::Minus));
    }
    write(Piece::Digit(digit));
    if brackets {
        write(Piece::Close);
    }
    if negative { modulo(-i32::from(digit)) } else { digit }
}

/// A pair of brackets that has been evaluated.
pub(super) struct Step {
    pub(super) left: u16,
    pub(super) operator: Operator,
    pub(super) right: u16,
    /// The result before reduction modulo 5.
    pub(super) plain: i32,
    pub(super) value: u16,
}

/// An open bracket and what has been read inside it.
struct Bracket {
    left: Option<(u16, Operator)>,
}

/// The value of an expression. `on_step` is called for every operation, inner ones first.
///
/// Uses a stack of its own instead of recursion, so that no input can overflow the call stack.
pub(super) fn evaluate(pieces: impl IntoIterator<Item = Piece>, mut on_step: impl FnMut(Step)) -> Result<u16, Illegal> {
    let mut pieces = pieces.into_iter().enumerate();
    let mut end = 0;
    let mut open: Vec<Bracket> = Vec::new();
    let mut next = |expected: &str| match pieces.next() {
        Some((index, piece)) => {
            end = index + 1;
            Ok((index, piece))
        }
        None => Illegal::at(end, format!("ends too early: {expected} must follow")),
    };
    'operand: loop {
        const OPERAND: &str = "a digit, `-` and a digit, or `(`";
        let (index, piece) = next(OPERAND)?;
        let mut value = match piece {
            Piece::Open => {
                open.push(Bracket { left: None });
                continue 'operand;
            }
            Piece::Digit(digit) => digit,
            Piece::Operator(Operator::Minus) => match next("a digit")? {
                (_, Piece::Digit(digit)) => modulo(-i32::from(digit)),
                (index, _) => return Illegal::at(index, "a digit must follow the sign `-`"),
            },
            _ => return Illegal::at(index, format!("expected {OPERAND}")),
        };
        // A value is complete; it may end one or more brackets.
        let mut bare = true;
        loop {
            let Some(bracket) = open.last_mut() else {
                return match next("") {
                    Ok((index, _)) => Illegal::at(index, "the expression was complete before this token"),
                    Err(_) => Ok(value),
                };
            };
            match bracket.left {
                Some((left, operator)) => {
                    let (index, piece) = next("`)`")?;
                    if piece != Piece::Close {
                        return Illegal::at(index, "expected `)`");
                    }
                    let plain = operator.apply(left, value);
                    on_step(Step { left, operator, right: value, plain, value: modulo(plain) });
                    value = modulo(plain);
                }
                None => match next("an operator or `)`")? {
                    (_, Piece::Operator(operator)) => {
                        bracket.left = Some((value, operator));
                        continue 'operand;
                    }
                    (_, Piece::Close) if bare => {}
                    (index, Piece::Close) => {
                        return Illegal::at(index, "brackets around brackets: expected an operator");
                    }
                    (index, _) => return Illegal::at(index, "expected an operator or `)`"),
                },
            }
            open.pop();
            bare = false;
        }
    }
}
