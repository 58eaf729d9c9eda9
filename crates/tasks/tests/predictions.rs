//! The best predictions of tasks that draw their answers, against sums over everything that can have happened, and the distributions
//! of their generators.

mod common;

use std::collections::HashMap;

use common::{all_sequences, assert_fits, task};
use semfocus_core::Key;
use semfocus_tasks::{Evaluator, Random, Target, Token};

fn rows(name: &str, tokens: &[Token]) -> Vec<Vec<f64>> {
    let task = task(name);
    let answers = task.answers(tokens).unwrap();
    let rows = answers.distributions.chunks(task.classes.len());
    rows.map(|row| row.iter().map(|&share| f64::from(share)).collect()).collect()
}

fn assert_close(found: &[f64], expected: &[f64], tolerance: f64, context: &str) {
    let is_close = found.len() == expected.len() && found.iter().zip(expected).all(|(a, b)| (a - b).abs() < tolerance);
    assert!(is_close, "{context}: {found:?}, expected {expected:?}");
}

/// The probability of a sequence: the sum over all paths of hidden states of the definition of Mess3.
fn mess3_probability(x: f64, a: f64, tokens: &[usize]) -> f64 {
    let (b, y) = ((1.0 - a) / 2.0, 1.0 - 2.0 * x);
    // Rows of the matrix of token 0 as published; the other two follow by symmetry.
    let zero = [[a * y, b * x, b * x], [a * x, b * y, b * x], [a * x, b * x, b * y]];
    let transition = |token: usize, from: usize, to: usize| zero[(from + 3 - token) % 3][(to + 3 - token) % 3];
    let paths = all_sequences(3, tokens.len() + 1);
    paths
        .map(|path| {
            let steps = path.windows(2).zip(tokens);
            steps.map(|(pair, &token)| transition(token, pair[0].into(), pair[1].into())).product::<f64>() / 3.0
        })
        .sum()
}

#[test]
fn predictions_of_mess3_are_sums_over_hidden_paths() {
    let mut random = Random::new(Key::new(1));
    for (name, x, a) in [("mess3", 0.05, 0.85), ("mess3:x=0.15,a=0.6", 0.15, 0.6), ("mess3:x=0.4,a=0.1", 0.4, 0.1)] {
        for _ in 0..20 {
            let tokens: Vec<Token> = (0..4).map(|_| random.below(3) as Token).collect();
            for (end, row) in rows(name, &tokens).iter().enumerate() {
                let mut seen: Vec<usize> = tokens[..=end].iter().map(|&token| token.into()).collect();
                let before = mess3_probability(x, a, &seen);
                let expected: Vec<f64> = (0..3)
                    .map(|next| {
                        seen.push(next);
                        let share = mess3_probability(x, a, &seen) / before;
                        seen.pop();
                        share
                    })
                    .collect();
                assert_close(row, &expected, 1e-6, name);
            }
        }
    }
}

#[test]
fn copies_are_predicted_independently() {
    let tokens: Vec<Token> = vec![5, 0, 7, 3, 8, 1];
    let copy = |of: fn(Token) -> Token| rows("mess3", &tokens.iter().map(|&token| of(token)).collect::<Vec<_>>());
    let (last, first) = (copy(|token| token % 3), copy(|token| token / 3));
    for (at, row) in rows("mess3:factors=2", &tokens).iter().enumerate() {
        let expected: Vec<f64> = (0..9).map(|token| last[at][token % 3] * first[at][token / 3]).collect();
        assert_close(row, &expected, 1e-6, "two copies");
    }
}

/// All series of this many bits with their probabilities, from the three places in a group of three at which they can begin.
fn rrxor_series(length: usize) -> HashMap<Vec<Token>, f64> {
    let mut series = HashMap::new();
    let groups = length.div_ceil(3) + 1;
    for bits in all_sequences(2, 2 * groups) {
        let all: Vec<Token> = bits.chunks(2).flat_map(|pair| [pair[0], pair[1], pair[0] ^ pair[1]]).collect();
        for begin in 0..3 {
            *series.entry(all[begin..begin + length].to_vec()).or_insert(0.0) += 0.25f64.powi(groups as i32) / 3.0;
        }
    }
    series
}

#[test]
fn predictions_of_rrxor_are_shares_of_all_series() {
    let (all, longer) = (rrxor_series(7), rrxor_series(8));
    for tokens in all_sequences(2, 7) {
        let expected = all.get(&tokens).copied();
        let answers = task("rrxor").answers(&tokens);
        assert_eq!(answers.is_ok(), expected.is_some(), "{tokens:?}");
        let Some(probability) = expected else { continue };
        let next = [0, 1].map(|bit| {
            let series: Vec<Token> = tokens.iter().copied().chain([bit]).collect();
            longer.get(&series).copied().unwrap_or(0.0) / probability
        });
        assert_close(rows("rrxor", &tokens).last().unwrap(), &next, 1e-6, &format!("{tokens:?}"));
    }
}

/// Two states and rows of uniform probabilities: the integral over both rows, by a sum over a fine grid.
fn integrated(edges: &[(Token, Token)], row: Token) -> [f64; 2] {
    const CELLS: usize = 400;
    let place = |cell: usize| (cell as f64 + 0.5) / CELLS as f64;
    let (mut ones, mut all) = (0.0, 0.0);
    for (first, second) in (0..CELLS).flat_map(|first| (0..CELLS).map(move |second| (place(first), place(second)))) {
        let of = |from: Token| if from == 0 { first } else { second };
        let likelihood: f64 = edges.iter().map(|&(from, to)| if to == 1 { of(from) } else { 1.0 - of(from) }).product();
        ones += likelihood * of(row);
        all += likelihood;
    }
    [1.0 - ones / all, ones / all]
}

#[test]
fn predictions_of_markov_chains_are_integrals_over_all_probabilities() {
    let mut random = Random::new(Key::new(2));
    for _ in 0..12 {
        let tokens: Vec<Token> = (0..7).map(|_| random.below(2) as Token).collect();
        let edge = |from: usize, to: usize| (tokens[from], tokens[to]);
        // The last token is drawn by itself; the one before it is the last that follows from its parent.
        let chain: Vec<_> = (1..6).map(|node| edge(node - 1, node)).collect();
        let found = rows("markov-chain:2,alpha=1,roots=uniform", &tokens);
        assert_close(&found[0], &integrated(&chain, tokens[6]), 1e-4, "chain");
        let pairs: Vec<_> = [1, 3, 5].iter().map(|&node| edge(node - 1, node)).collect();
        let found = rows("markov-chain:2,alpha=1,roots=uniform,graph=icl", &tokens);
        assert_close(&found[0], &integrated(&pairs, tokens[6]), 1e-4, "pairs");
        // Asked everywhere: what has come so far counts, and the next token may have no parent.
        let found = rows("markov-chain:2,alpha=1,roots=uniform,graph=icl,ask=all", &tokens);
        for (at, row) in found.iter().enumerate() {
            let seen: Vec<_> = (1..=at).step_by(2).map(|node| edge(node - 1, node)).collect();
            let expected = if at % 2 == 1 { [0.5, 0.5] } else { integrated(&seen, tokens[at]) };
            assert_close(row, &expected, 1e-4, "pairs, asked everywhere");
        }
    }
    assert_eq!(task("markov-chain:roots=uniform").task.evaluator(), Evaluator::BestPrediction);
    assert_eq!(task("markov-chain:graph=multi-parent").task.evaluator(), Evaluator::BestPrediction);
    assert_eq!(task("markov-chain").task.evaluator(), Evaluator::Estimate);
}

/// Node 8 follows from nodes 7 and 3; the pair (1, 0) has come before at nodes 6 and 2 (child 0: no), and so on by hand.
#[test]
fn two_parents_are_counted_together() {
    let tokens = [0, 1, 1, 0, 1, 1, 0, 0];
    // Parents of 2..=7: (0, 1), (1, 2), (1, 3), (2, 4), (2, 5), (3, 6); of 8: (3, 7), which are 0 and 0.
    // Their tokens: 01 -> 1, 11 -> 0, 10 -> 1, 11 -> 1, 11 -> 0, 00 -> 0.
    let name = "markov-chain:2,alpha=0.5,graph=multi-parent";
    assert_close(&rows(name, &tokens)[0], &[1.5 / 2.0, 0.5 / 2.0], 1e-6, "00 -> 0 once");
    assert_eq!(task(name).task.relevant_to_questions(&tokens).unwrap(), [vec![7]]);
    assert_eq!(task(name).relevant_positions(&tokens), [3, 6, 7]);
    assert_eq!(task(name).task.slice_values(&tokens), [[Some(1)]]);
    let all = rows("markov-chain:2,alpha=0.5,graph=multi-parent,ask=all", &tokens);
    assert_close(&all[0], &[0.5, 0.5], 1e-6, "node 1 has no parents");
    assert_close(&all[5], &[0.5, 0.5], 1e-6, "node 6: 11 was followed by 0 and by 1");
    assert_close(&all[6], &[0.5, 0.5], 1e-6, "node 7: 00 never came");
    let chain = task("markov-chain:2,ask=all,roots=uniform");
    let found = chain.task.relevant_to_questions(&tokens).unwrap();
    assert_eq!(found[3..6], [vec![1], vec![2, 3], vec![2, 3, 5]], "0 was followed at 1; 1 at 2 and 3; and at 5");
}

/// With probabilities drawn anew for every sequence, the next token is drawn as from an urn to which every token drawn is added.
#[test]
fn markov_chains_are_drawn_from_urns() {
    for (alpha, name) in
        [(0.1, "markov-chain:3,ask=all,roots=uniform"), (2.0, "markov-chain:3,alpha=2,ask=all,roots=uniform")]
    {
        let task = task(name);
        let mut random = Random::new(Key::new(3));
        let mut counts = vec![0; 81];
        for _ in 0..60_000 {
            let mut tokens = Vec::new();
            let answers = task.task.generate(&(3..=3), &mut random, &mut tokens).unwrap();
            let Target::Class(last) = answers.questions[2].target else { panic!("drawn") };
            counts[tokens.iter().chain([&last]).fold(0, |number, &token| 3 * number + usize::from(token))] += 1;
        }
        let probability = |tokens: &[Token]| {
            let mut probability = 1.0 / 3.0;
            for node in 1..tokens.len() {
                let earlier = |to: Option<Token>| {
                    let is_same = |&before: &usize| {
                        tokens[before - 1] == tokens[node - 1] && to.is_none_or(|to| tokens[before] == to)
                    };
                    (1..node).filter(is_same).count() as f64
                };
                probability *= (earlier(Some(tokens[node])) + alpha) / (earlier(None) + 3.0 * alpha);
            }
            probability
        };
        // all_sequences counts its first digit fastest.
        let shares: Vec<f64> = all_sequences(3, 4)
            .map(|mut tokens| {
                tokens.reverse();
                probability(&tokens)
            })
            .collect();
        assert_fits(name, &counts, &shares);
    }
}

#[test]
fn stationary_roots_have_the_distribution_of_what_follows() {
    // In a chain from the stationary distribution, all pairs of neighbours are alike.
    let task = task("markov-chain:3,ask=all,alpha=0.5");
    let mut random = Random::new(Key::new(4));
    let (mut equal, mut roots) = ([0.0; 2], [0; 3]);
    const DRAWN: usize = 40_000;
    for _ in 0..DRAWN {
        let mut tokens = Vec::new();
        task.task.generate(&(8..=8), &mut random, &mut tokens).unwrap();
        roots[usize::from(tokens[0])] += 1;
        equal[0] += f64::from(u8::from(tokens[0] == tokens[1]));
        equal[1] += f64::from(u8::from(tokens[6] == tokens[7]));
    }
    assert_fits("roots", &roots, &[1.0; 3]);
    let spread = 4.0 * (DRAWN as f64 * 0.5).sqrt();
    assert!((equal[0] - equal[1]).abs() < spread, "{equal:?}");
    assert!(equal[0] > DRAWN as f64 * 0.35, "rows differ between sequences: {equal:?}");
}

#[test]
fn first_tokens_of_processes_are_as_frequent_as_defined() {
    let first = |name: &str, length: usize| {
        let task = task(name);
        let mut random = Random::new(Key::new(5));
        let mut counts: HashMap<Vec<Token>, usize> = HashMap::new();
        for _ in 0..40_000 {
            let mut tokens = Vec::new();
            let answers = task.task.generate(&(length - 1..=length - 1), &mut random, &mut tokens).unwrap();
            let Target::Class(next) = answers.questions[length - 2].target else { panic!("drawn") };
            tokens.push(next);
            *counts.entry(tokens).or_default() += 1;
        }
        counts
    };
    let mess3 = first("mess3", 3);
    let sequences: Vec<Vec<Token>> = all_sequences(3, 3).collect();
    let counts: Vec<usize> = sequences.iter().map(|tokens| mess3.get(tokens).copied().unwrap_or(0)).collect();
    let shares = sequences.iter().map(|tokens| tokens.iter().map(|&token| token.into()).collect::<Vec<usize>>());
    assert_fits("mess3", &counts, &shares.map(|tokens| mess3_probability(0.05, 0.85, &tokens)).collect::<Vec<_>>());
    let (rrxor, series) = (first("rrxor", 6), rrxor_series(6));
    assert!(rrxor.keys().all(|tokens| series.contains_key(tokens)));
    let (counts, shares): (Vec<usize>, Vec<f64>) =
        series.iter().map(|(tokens, share)| (rrxor.get(tokens).copied().unwrap_or(0), *share)).unzip();
    assert_fits("rrxor", &counts, &shares);
    let pairs = first("mess3:factors=2", 2);
    let expected = |tokens: &[Token]| {
        let part = |of: fn(usize) -> usize| tokens.iter().map(|&token| of(token.into())).collect::<Vec<_>>();
        mess3_probability(0.05, 0.85, &part(|token| token % 3))
            * mess3_probability(0.05, 0.85, &part(|token| token / 3))
    };
    let sequences: Vec<Vec<Token>> = all_sequences(9, 2).collect();
    let counts: Vec<usize> = sequences.iter().map(|tokens| pairs.get(tokens).copied().unwrap_or(0)).collect();
    assert_fits("two copies", &counts, &sequences.iter().map(|tokens| expected(tokens)).collect::<Vec<_>>());
}

#[test]
fn brackets_open_and_places_are_drawn_as_defined() {
    let mut random = Random::new(Key::new(6));
    let dyck = task("dyck:3,m=2,p=0.3");
    let (mut kinds, mut opened) = ([0; 3], [0; 2]);
    let mut places = [0; 12];
    let copy = task("selective-copy:4,vocabulary=5");
    for _ in 0..4000 {
        let mut tokens = Vec::new();
        dyck.task.generate(&(9..=9), &mut random, &mut tokens).unwrap();
        let mut depth = 0;
        for &token in &tokens {
            if depth == 1 {
                opened[usize::from(token >= 3)] += 1;
            }
            if token < 3 {
                kinds[usize::from(token)] += 1;
            }
            depth += if token < 3 { 1 } else { -1 };
        }
        tokens.clear();
        copy.task.generate(&(16..=16), &mut random, &mut tokens).unwrap();
        (0..12).filter(|&place| tokens[place] < 5).for_each(|place| places[place] += 1);
    }
    assert_fits("kinds of brackets", &kinds, &[1.0; 3]);
    assert_fits("opened or closed", &opened, &[0.3, 0.7]);
    assert_fits("places of tokens to copy", &places, &[1.0; 12]);
}
