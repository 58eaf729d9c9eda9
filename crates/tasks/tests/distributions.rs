//! Generated sequences follow the distributions in the definitions. Seeds are fixed, so a test that passes keeps passing;
//! a correct generator exceeds the limits for one seed in ten thousand.

mod common;

use common::{Classify, assert_fits, chi_squared, task};
use semfocus_core::Key;
use semfocus_tasks::random::Random;
use semfocus_tasks::{DataSettings, Dataset, Examples, Length, SplitName, Token};

fn sequences(name: &str, length: usize, count: usize) -> Vec<Vec<Token>> {
    let task = task(name);
    let settings = DataSettings::with_length(Length::Exactly(length));
    let mut examples = Examples::new(&task, &settings, 11, None).unwrap();
    (0..count).map(|_| examples.draw().unwrap().tokens).collect()
}

fn labels(name: &str, length: usize, count: usize) -> Vec<usize> {
    let task = task(name);
    let mut counts = vec![0; task.classes.len()];
    for tokens in sequences(name, length, count) {
        counts[usize::from(task.label(&tokens).unwrap())] += 1;
    }
    counts
}

fn tally(bins: usize, values: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut counts = vec![0; bins];
    values.for_each(|value| counts[value] += 1);
    counts
}

#[test]
fn bits_are_uniform_at_every_position_and_in_pairs() {
    for name in ["parity", "even-pairs"] {
        let drawn = sequences(name, 40, 20_000);
        for position in 0..40 {
            let ones = tally(2, drawn.iter().map(|bits| usize::from(bits[position])));
            assert_fits(&format!("{name} at {position}"), &ones, &[1.0; 2]);
        }
        let triples = tally(
            8,
            drawn
                .iter()
                .flat_map(|bits| bits[..39].chunks_exact(3))
                .map(|bits| bits.iter().fold(0, |number, &bit| 2 * number + usize::from(bit))),
        );
        assert_fits(&format!("three bits of {name} in a row"), &triples, &[1.0; 8]);
        assert_fits(&format!("labels of {name}"), &labels(name, 40, 20_000), &[1.0; 2]);
    }
}

#[test]
fn hidden_position_is_uniform_and_the_word_too() {
    for (length, places) in [(40, 40), (41, 40), (7, 6)] {
        let drawn = sequences("missing-duplicate", length, 40_000);
        let hidden = tally(places, drawn.iter().map(|tokens| tokens.iter().position(|&t| t == 2).unwrap()));
        assert_fits("hidden position", &hidden, &vec![1.0; places]);
        assert!(drawn.iter().all(|tokens| tokens.len() == length && (tokens[length - 1] == 3) == (length % 2 == 1)));
    }
    assert_fits("hidden bit", &labels("missing-duplicate", 40, 20_000), &[1.0; 2]);
}

#[test]
fn four_of_five_pairs_are_ignored_and_bits_are_uniform() {
    for (length, pairs) in [(40, 20), (41, 20), (8, 4)] {
        let drawn = sequences("flip-flop", length, 20_000);
        assert!(drawn.iter().all(|tokens| tokens.len() == length && (tokens[length - 1] == 6) == (length % 2 == 1)));
        assert!(drawn.iter().all(|tokens| tokens[0] == 2 && tokens[2 * pairs - 2..2 * pairs] == [4, 5]));
        for pair in 1..pairs - 1 {
            let instructions = tally(3, drawn.iter().map(|tokens| usize::from(tokens[2 * pair]) - 2));
            assert_fits(&format!("instruction of pair {pair}"), &instructions, &[0.1, 0.8, 0.1]);
            let bits = |tokens: &&Vec<Token>| tokens[2 * pair] < 4;
            let bits = tally(2, drawn.iter().filter(bits).map(|tokens| usize::from(tokens[2 * pair + 1])));
            assert_fits(&format!("bit of pair {pair}"), &bits, &[1.0; 2]);
        }
        // The last write is the pair number `distance` from the end if none of the pairs after it is a write.
        let distance = |tokens: &Vec<Token>| pairs - 1 - tokens.iter().rposition(|&token| token == 2).unwrap() / 2;
        let mut shares: Vec<f64> = (0..pairs - 2).map(|others| 0.1 * 0.9f64.powi(others as i32)).collect();
        shares.push(0.9f64.powi(pairs as i32 - 2));
        assert_fits("last write", &tally(pairs - 1, drawn.iter().map(|tokens| distance(tokens) - 1)), &shares);
    }
    assert_fits("bit that is asked for", &labels("flip-flop", 40, 20_000), &[1.0; 2]);
}

#[test]
fn moves_are_uniform() {
    let drawn = sequences("cycle-navigation", 40, 20_000);
    let moves = tally(3, drawn.iter().flatten().map(|&step| usize::from(step)));
    assert_fits("moves", &moves, &[1.0; 3]);
    // The number of forward moves of a walk is binomial; counts outside 4..=22 are too rare for the test.
    let forward = drawn.iter().map(|moves| moves.iter().filter(|&&step| step == 2).count());
    let counts = tally(19, forward.filter(|n| (4..=22).contains(n)).map(|n| n - 4));
    let choose = |n: u32, k: u32| (0..k).fold(1.0, |c, i| c * f64::from(n - i) / f64::from(i + 1));
    let shares: Vec<f64> = (4..=22).map(|k| choose(40, k) * 0.5f64.powi(k as i32)).collect();
    assert_fits("forward moves of a walk", &counts, &shares);
    // After 40 moves of three the place is nearly uniform.
    assert_fits("last place", &labels("cycle-navigation", 40, 20_000), &[1.0; 5]);
}

#[test]
fn stack_size_and_actions_are_uniform() {
    let drawn = sequences("stack-manipulation", 40, 40_000);
    let size = |tokens: &Vec<Token>| tokens.iter().position(|&token| token >= 2).unwrap();
    let sizes = tally(39, drawn.iter().map(|tokens| size(tokens) - 1));
    assert_fits("stack size", &sizes, &[1.0; 39]);
    let actions = tally(3, drawn.iter().flat_map(|t| t[size(t)..].iter()).map(|&action| usize::from(action) - 2));
    assert_fits("actions", &actions, &[1.0; 3]);
    let bits = tally(2, drawn.iter().flat_map(|t| t[..size(t)].iter()).map(|&bit| usize::from(bit)));
    assert_fits("bits of the stack", &bits, &[1.0; 2]);
}

/// The operator and the length of the left part of a bracketed expression of more than four tokens.
fn split_at_operator(tokens: &[Token], open: Token, close: Token) -> (Token, usize) {
    let mut depth = 0;
    for (index, &token) in tokens.iter().enumerate() {
        depth += i32::from(token == open) - i32::from(token == close);
        // A minus right after the bracket is a sign.
        if depth == 1 && index > 1 && (5..open).contains(&token) {
            return (token, index - 1);
        }
    }
    panic!("no operator in {tokens:?}");
}

#[test]
fn arithmetic_splits_and_operators_are_uniform() {
    let drawn = sequences("modular-arithmetic", 40, 40_000);
    let roots: Vec<(Token, usize)> = drawn.iter().map(|tokens| split_at_operator(tokens, 8, 9)).collect();
    assert_fits("operators", &tally(3, roots.iter().map(|root| usize::from(root.0) - 5)), &[1.0; 3]);
    assert_fits("left lengths", &tally(36, roots.iter().map(|root| root.1 - 1)), &[1.0; 36]);
    let digits = tally(5, drawn.iter().flatten().filter(|&&t| t < 5).map(|&t| usize::from(t)));
    assert_fits("digits", &digits, &[1.0; 5]);
    // Left and right of the root's operator have the same lengths on average, hence as many digits.
    let drawn = sequences("solve-equation", 40, 40_000);
    let roots: Vec<(Token, usize)> = drawn.iter().map(|tokens| split_at_operator(&tokens[..38], 7, 8)).collect();
    assert_fits("operators of equations", &tally(2, roots.iter().map(|root| usize::from(root.0) - 5)), &[1.0; 2]);
    assert_fits("left lengths of equations", &tally(34, roots.iter().map(|root| root.1 - 1)), &[1.0; 34]);
}

#[test]
fn the_unknown_is_found_by_walking_right_from_a_uniform_start_in_the_expression() {
    const LENGTH: usize = 38; // of the expression; `=` and its value follow
    let mut at_position = ([0; LENGTH], [0.0; LENGTH]);
    let mut by_gap = ([0; 4], [0.0; 4]);
    for tokens in sequences("solve-equation", LENGTH + 2, 40_000) {
        assert!(tokens[LENGTH] == 10 && tokens[LENGTH + 1] < 5, "x never stands after `=`: {tokens:?}");
        // Given the equation, a digit is hidden if the walk starts on it or on one of the tokens since the digit before.
        let digits: Vec<usize> = (0..LENGTH).filter(|&i| tokens[i] < 5 || tokens[i] == 9).collect();
        for (nth, &place) in digits.iter().enumerate() {
            let before = digits[(nth + digits.len() - 1) % digits.len()];
            let starts = (place + LENGTH - before - 1) % LENGTH + 1;
            let (gap, hidden) = (starts.min(8).div_ceil(2) - 1, usize::from(tokens[place] == 9));
            at_position.0[place] += hidden;
            at_position.1[place] += starts as f64 / LENGTH as f64;
            by_gap.0[gap] += hidden;
            by_gap.1[gap] += starts as f64 / LENGTH as f64;
        }
    }
    // An expression of this length begins and ends with a bracket; its last digit is followed by one as well.
    assert_eq!((at_position.1[0], at_position.1[LENGTH - 1]), (0.0, 0.0));
    assert_fits("position of x", &at_position.0[1..LENGTH - 1], &at_position.1[1..LENGTH - 1]);
    assert_fits("tokens since the digit before x", &by_gap.0, &by_gap.1);
    assert_fits("hidden digit", &labels("solve-equation", LENGTH + 2, 20_000), &[1.0; 5]);
}

#[test]
fn listops_nodes_follow_the_procedure() {
    // All lengths allowed, so that no choice depends on the length; depth 3 keeps expressions small.
    let task = task("listops:depth=3");
    let mut random = Random::new(Key::new(5));
    let (mut roots, mut operators, mut arguments, mut digits) = ([0; 2], [0; 4], [0; 9], [0; 10]);
    for _ in 0..40_000 {
        let mut tokens = Vec::new();
        task.task.generate(&(1..=100_000), &mut random, &mut tokens).unwrap();
        roots[usize::from(tokens.len() == 1)] += 1;
        let mut open = Vec::new();
        for &token in &tokens {
            let value = match token {
                0..10 => {
                    digits[usize::from(token)] += 1;
                    true
                }
                14 => {
                    let count: usize = open.pop().unwrap();
                    arguments[count - 2] += 1;
                    true
                }
                _ => {
                    operators[usize::from(token) - 10] += 1;
                    open.push(0);
                    assert!(open.len() <= 2, "at depth 3 there are digits only");
                    false
                }
            };
            if let (true, Some(count)) = (value, open.last_mut()) {
                *count += 1;
            }
        }
    }
    assert_fits("roots that are operators", &roots, &[0.25, 0.75]);
    assert_fits("operators", &operators, &[1.0; 4]);
    assert_fits("arguments", &arguments, &[1.0; 9]);
    assert_fits("digits", &digits, &[1.0; 10]);
}

#[test]
fn listops_label_shares_are_those_of_another_implementation() {
    let data = Dataset::generate(&task("listops"), &DataSettings::default(), 1).unwrap();
    let mut ours = [0usize; 10];
    data.train.labels().iter().chain(&data.held_out.labels()).for_each(|&label| ours[usize::from(label)] += 1);
    let total: usize = ours.iter().sum();
    assert_eq!(total, 7000);
    for label in [0, 9] {
        let share = ours[label] as f64 / total as f64;
        assert!((0.15..0.19).contains(&share), "label {label} has a share of {share:.3}, about 0.17 expected");
    }
    // Against the counts of the independent script: chi-squared of two samples, 9 degrees of freedom.
    let line = include_str!("independent/fixture.tsv").lines().find_map(|line| line.strip_prefix("listops-shares\t"));
    let theirs: Vec<usize> = line.unwrap().split('\t').next().unwrap().split(' ').map(|n| n.parse().unwrap()).collect();
    let both: Vec<f64> = ours.iter().zip(&theirs).map(|(a, b)| (a + b) as f64).collect();
    let chi2 = chi_squared(&ours, &both) + chi_squared(&theirs, &both);
    assert!(chi2 < 33.7, "chi-squared {chi2:.1}: ours {ours:?}, theirs {theirs:?}");
}

#[test]
fn lengths_of_a_range_are_uniform_and_sequences_are_padded() {
    let task = task("parity");
    let settings = DataSettings::with_length(Length::Between(20, 40));
    let data = Dataset::generate(&task, &settings, 3).unwrap();
    assert_eq!(data.length, 40);
    let counts = tally(21, data.train.lengths.iter().map(|length| length - 20));
    assert_fits("lengths", &counts, &[1.0; 21]);
    for ((tokens, _), &length) in data.train.iter().zip(&data.train.lengths) {
        assert!(tokens[..length].iter().all(|&t| t < 2) && tokens[length..].iter().all(|&t| t == 2));
    }
}

#[test]
fn sequences_belong_to_splits_in_the_stated_shares() {
    let mut counts = [0; 3];
    for tokens in sequences("parity", 40, 40_000) {
        counts[SplitName::for_sequence(1, &tokens) as usize] += 1;
    }
    assert_fits("splits", &counts, &[5.0, 2.0, 1.0]);
}
