//! The tasks of this crate, one file each. To add one, write its file and list its `INFO` in `all`.

mod cycle_navigation;
mod dyck;
mod even_pairs;
mod expression;
mod flip_flop;
mod hmm;
mod induction;
pub(crate) mod listops;
mod markov_chain;
mod missing_duplicate;
mod modular_arithmetic;
mod mqar;
mod parity;
mod recall;
mod selective_copy;
mod solve_equation;
mod sparse_average;
mod stack_manipulation;

use semfocus_core::question::{At, Question, Target};

use crate::task::{Answers, Illegal, Label, Slice, Symbol, TaskInfo, Token, TrivialRule, symbol};

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
        recall::INFO,
        mqar::INFO,
        induction::INFO,
        selective_copy::INFO,
        sparse_average::INFO,
        markov_chain::INFO,
        hmm::MESS3,
        hmm::RRXOR,
        hmm::HMM,
        dyck::INFO,
    ]
}

/// The source of the tasks of the study except ListOps.
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

/// How far the question is from the key that it asks about.
const DISTANCE: Slice = Slice { name: "distance", words: "distance to the key" };

/// What nearly gives the next token away in some processes.
const LAST_TWO_TOKENS: TrivialRule = TrivialRule {
    name: "last-two-tokens",
    looks_at: "The last token and the one before",
    part: |tokens| tokens[tokens.len().saturating_sub(2)..].to_vec(),
};

/// The distribution of a process that is where it will always be: the vector that a matrix of transition probabilities keeps, by the
/// method of Grassmann, Taksar and Heyman, which subtracts nothing and so loses no digits. Every state can be reached from every other.
fn stationary(mut matrix: Vec<Vec<f64>>) -> Vec<f64> {
    let states = matrix.len();
    for last in (1..states).rev() {
        let leaving: f64 = matrix[last][..last].iter().sum();
        for from in 0..last {
            matrix[from][last] /= leaving;
            for to in 0..last {
                matrix[from][to] += matrix[from][last] * matrix[last][to];
            }
        }
    }
    let mut shares = vec![1.0];
    while shares.len() < states {
        let state = shares.len();
        shares.push(shares.iter().zip(&matrix).map(|(share, row)| share * row[state]).sum());
    }
    let sum: f64 = shares.iter().sum();
    shares.iter().map(|share| share / sum).collect()
}

/// Asks for the next token at every token; the one after the last is in `tokens` but not in the sequence.
fn next_tokens(tokens: &[Token]) -> Answers {
    tokens.iter().skip(1).enumerate().map(|(position, &next)| asked(position, next)).collect()
}

/// Asks for a class at a token.
fn asked(position: usize, class: Label) -> Question {
    Question { at: At::Token(position as u32), target: Target::Class(class), weight: 1.0 }
}

/// Symbols that are written as their ids.
fn numbered(count: usize, meaning: impl Fn(usize) -> String) -> Vec<Symbol> {
    (0..count).map(|id| Symbol { text: id.to_string().into(), meaning: meaning(id).into() }).collect()
}

/// The error for the token that has to be another one.
fn expected<T>(tokens: &[Token], index: usize, what: &str) -> Result<T, Illegal> {
    let got = tokens.get(index).map_or_else(|| "the end".to_owned(), |token| format!("token {token}"));
    Illegal::at(index, format!("expected {what}, got {got}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stationary_shares_stay_as_they_are() {
        let matrix = vec![vec![0.5, 0.25, 0.25], vec![0.0, 0.0, 1.0], vec![1.0, 0.0, 0.0]];
        let is_close = |(share, seventh): (f64, f64)| (share - seventh / 7.0).abs() < 1e-15;
        assert!(stationary(matrix).into_iter().zip([4.0, 1.0, 2.0]).all(is_close));
        // Almost two separate parts: nothing is lost.
        let rare = 1e-200;
        let shares = stationary(vec![vec![1.0 - rare, rare], vec![3.0 * rare, 1.0 - 3.0 * rare]]);
        assert!((shares[0] - 0.75).abs() < 1e-15 && (shares[1] - 0.25).abs() < 1e-15, "{shares:?}");
    }
}
