//! Helpers that several tests share.
#![allow(dead_code, reason = "no test uses all of them")]

use semfocus_core::Key;
use semfocus_tasks::random::Random;
use semfocus_tasks::{BuiltTask, DataSettings, Examples, Illegal, Label, Length, Lengths, Tasks, Token, single_label};

pub(crate) fn task(name: &str) -> BuiltTask {
    Tasks::standard().find(name).unwrap()
}

/// The tasks that give every sequence one label. The others ask at tokens.
pub(crate) fn classification_tasks() -> Vec<BuiltTask> {
    let has_label = |task: &BuiltTask| {
        let example = Examples::new(task, &DataSettings::default(), 1, None).unwrap().draw().unwrap();
        single_label(&example.answers).is_some()
    };
    Tasks::standard().examples().filter(has_label).collect()
}

/// The task's sequences of this length, or the shortest if they are longer.
pub(crate) fn at_least(task: &BuiltTask, length: usize) -> Length {
    Length::Exactly(length.max(task.task.min_length()))
}

/// The class of a sequence of a classification task.
pub(crate) trait Classify {
    fn label(&self, tokens: &[Token]) -> Result<Label, Illegal>;
}

impl Classify for BuiltTask {
    fn label(&self, tokens: &[Token]) -> Result<Label, Illegal> {
        self.answers(tokens).map(|answers| single_label(&answers).expect("one class"))
    }
}

/// One sequence and its label as the generator knows it.
pub(crate) fn draw(task: &BuiltTask, lengths: &Lengths, seed: u64) -> (Vec<Token>, Label) {
    let mut tokens = Vec::new();
    let answers = task.task.generate(lengths, &mut Random::new(Key::new(seed)), &mut tokens);
    (tokens, single_label(&answers.expect("these lengths occur")).expect("one class"))
}

/// All sequences of this length over tokens below `alphabet`.
pub(crate) fn all_sequences(alphabet: Token, length: usize) -> impl Iterator<Item = Vec<Token>> {
    let count = u64::from(alphabet).pow(length as u32);
    (0..count).map(move |mut number| {
        let digit = |_| {
            let digit = (number % u64::from(alphabet)) as Token;
            number /= u64::from(alphabet);
            digit
        };
        (0..length).map(digit).collect()
    })
}

/// Chi-squared of counts against expected shares.
pub(crate) fn chi_squared(counts: &[usize], shares: &[f64]) -> f64 {
    let total: usize = counts.iter().sum();
    let sum: f64 = shares.iter().sum();
    counts
        .iter()
        .zip(shares)
        .map(|(&n, share)| (n as f64 - share / sum * total as f64).powi(2) / (share / sum * total as f64))
        .sum()
}

/// Asserts that counts fit shares: chi-squared below its 99.99 % point (Wilson and Hilferty's approximation).
pub(crate) fn assert_fits(what: &str, counts: &[usize], shares: &[f64]) {
    let freedom = (counts.len() - 1) as f64;
    let spread = 2.0 / (9.0 * freedom);
    let limit = freedom * (1.0 - spread + 3.719 * spread.sqrt()).powi(3);
    let chi2 = chi_squared(counts, shares);
    assert!(chi2 < limit, "{what}: chi-squared {chi2:.1} exceeds {limit:.1}; counts {counts:?}");
}
