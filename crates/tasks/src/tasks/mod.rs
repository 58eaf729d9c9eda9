//! The tasks of this crate, one file each. To add one, write its file and list its `INFO` in `all`.

mod cycle_navigation;
mod even_pairs;
mod expression;
mod flip_flop;
pub(crate) mod listops;
mod missing_duplicate;
mod modular_arithmetic;
mod parity;
mod solve_equation;
mod stack_manipulation;

use crate::task::{Symbol, TaskInfo, Token, symbol};

/// In the order in which they are listed.
pub(crate) fn all() -> Vec<TaskInfo> {
    vec![
        listops::INFO,
        parity::INFO,
        even_pairs::INFO,
        missing_duplicate::INFO,
        cycle_navigation::INFO,
        stack_manipulation::INFO,
        modular_arithmetic::INFO,
        solve_equation::INFO,
        flip_flop::INFO,
    ]
}

/// The source of all tasks except ListOps and flip-flop.
const CHOMSKY: &str = "Delétang et al., Neural Networks and the Chomsky Hierarchy, ICLR 2023";

const BITS: &[Symbol] = &[symbol("0", "bit 0"), symbol("1", "bit 1")];

const BIT_CLASSES: &[Symbol] = &[symbol("0", "the bit is 0"), symbol("1", "the bit is 1")];

const RESIDUES: &[Symbol] = &[
    symbol("0", "the number 0"),
    symbol("1", "the number 1"),
    symbol("2", "the number 2"),
    symbol("3", "the number 3"),
    symbol("4", "the number 4"),
];

/// How a token of an alphabet is written.
fn text(alphabet: &'static [Symbol], token: Token) -> &'static str {
    &alphabet[usize::from(token)].text
}

/// `a b c` from items.
fn joined<T: ToString>(items: impl IntoIterator<Item = T>, separator: &str) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(separator)
}

/// `1 token`, `2 tokens`.
fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Tokens as digits, for explanations.
fn digits(tokens: &[Token]) -> String {
    joined(tokens, " ")
}
