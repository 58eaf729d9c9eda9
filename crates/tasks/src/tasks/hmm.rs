//! `mess3`, `rrxor` and `hmm`: what does a hidden Markov model emit next?
//!
//! A process emits a token with every transition of its hidden state. The best prediction needs the belief state, which is the
//! distribution of the hidden state after the tokens so far.

use std::sync::Arc;

use semfocus_core::data::Length;
use semfocus_core::spec::{Literal, Parameter, SpecValue, Values};

use super::{LAST_TWO_TOKENS, joined, next_tokens, numbered, stationary};
use crate::random::Random;
use crate::task::{Answers, Evaluator, Illegal, Lengths, Symbol, Task, TaskInfo, Token, TrivialRule, Unlikely};

const SHAI: &str = "Shai et al., Transformers Represent Belief State Geometry in their Residual Stream, NeurIPS 2024";

const FACTORS: Parameter =
    Parameter::whole("factors", "the number of independent copies whose tokens are read as one", 1, 5, 2)
        .default(Literal::Number(1.0))
        .keyed();

pub(crate) const MESS3: TaskInfo = TaskInfo {
    summary: "at every token the next one, drawn from the Mess3 process: three hidden states, of which no token tells more than a hint",
    tests: "keeping a belief about a hidden state, to which all earlier tokens contribute",
    source: SHAI,
    parameters: &[
        Parameter::number("x", "the probability of going to each of the two other states", 0.001, 0.5, 0.15)
            .default(Literal::Number(0.05))
            .keyed(),
        Parameter::number("a", "the probability of the token that goes with the new state", 0.0, 1.0, 0.6)
            .default(Literal::Number(0.85)),
        FACTORS,
    ],
    ..TaskInfo::new("mess3", |values| Hmm::build(mess3(values.number("x"), values.number("a")), 20, values))
};

pub(crate) const RRXOR: TaskInfo = TaskInfo {
    summary: "at every token the next one in an endless series of two random bits and their exclusive or",
    tests: "finding out where a series of three begins, and what decides the third",
    source: SHAI,
    parameters: &[FACTORS],
    ..TaskInfo::new("rrxor", |values| Hmm::build(rrxor(), 36, values))
};

pub(crate) const HMM: TaskInfo = TaskInfo {
    summary: "at every token the next bit of a hidden Markov process: golden-mean has no two ones in a row, even has ones in groups of even \
        size, z1r repeats 0, 1 and a random bit",
    tests: "keeping a belief about a hidden state",
    source: "processes of computational mechanics, as in Shai et al., Transformers Represent Belief State Geometry in their Residual \
        Stream, NeurIPS 2024",
    parameters: &[
        Parameter::word("process", "which process", &["golden-mean", "even", "z1r"])
            .default(Literal::Word("golden-mean")),
        Parameter::number("p", "the probability of a one where both bits are possible", 0.01, 0.99, 0.3)
            .default(Literal::Number(0.5)),
        FACTORS,
    ],
    ..TaskInfo::new("hmm", |values| {
        let p = values.number("p");
        let (arrows, length) = match values.get("process") {
            Some(SpecValue::Word(word)) if word == "even" => (EVEN, 36),
            Some(SpecValue::Word(word)) if word == "z1r" => (Z1R, 72),
            _ => (GOLDEN_MEAN, 36),
        };
        Hmm::build(Process::new(arrows(p)), length, values)
    })
};

/// A transition: from a state, emitting a token, to a state, with a probability.
type Arrow = (usize, usize, usize, f64);

/// With the probability that the hidden state is kept, and the token of the new state is emitted.
fn mess3(x: f64, a: f64) -> Process {
    let moves = |from: usize, to: usize| if from == to { 1.0 - 2.0 * x } else { x };
    let emits = |token: usize, to: usize| if token == to { a } else { (1.0 - a) / 2.0 };
    let all = (0..27).map(|number| (number / 9, number / 3 % 3, number % 3));
    Process::new(all.map(|(from, token, to)| (from, token, to, moves(from, to) * emits(token, to))).collect())
}

/// States: 0 before the first bit, 1 and 2 after it, 3 and 4 before a third bit that is 0 or 1.
fn rrxor() -> Process {
    let bit = |from: usize, token: usize, to: usize| (from, token, to, 0.5);
    let random = [bit(0, 0, 1), bit(0, 1, 2), bit(1, 0, 3), bit(1, 1, 4), bit(2, 0, 4), bit(2, 1, 3)];
    Process::new([&random[..], &[(3, 0, 0, 1.0), (4, 1, 0, 1.0)]].concat())
}

const GOLDEN_MEAN: fn(f64) -> Vec<Arrow> = |p| vec![(0, 1, 1, p), (0, 0, 0, 1.0 - p), (1, 0, 0, 1.0)];
const EVEN: fn(f64) -> Vec<Arrow> = |p| vec![(0, 1, 1, p), (0, 0, 0, 1.0 - p), (1, 1, 0, 1.0)];
const Z1R: fn(f64) -> Vec<Arrow> = |p| vec![(0, 0, 1, 1.0), (1, 1, 2, 1.0), (2, 1, 0, p), (2, 0, 0, 1.0 - p)];

/// A hidden Markov model that emits a token with every transition.
#[derive(Debug)]
struct Process {
    tokens: usize,
    arrows: Vec<Arrow>,
    /// The distribution of the hidden state before the first token.
    start: Vec<f64>,
}

impl Process {
    /// Starts in the stationary distribution.
    fn new(arrows: Vec<Arrow>) -> Self {
        let states = arrows.iter().map(|arrow| arrow.0 + 1).max().unwrap_or(0);
        let tokens = arrows.iter().map(|arrow| arrow.1 + 1).max().unwrap_or(0);
        let mut matrix = vec![vec![0.0; states]; states];
        arrows.iter().for_each(|&(from, _, to, probability)| matrix[from][to] += probability);
        Process { tokens, arrows, start: stationary(matrix) }
    }

    /// The next hidden state and the token emitted on the way.
    fn step(&self, state: usize, random: &mut Random) -> (usize, usize) {
        let weights: Vec<f64> = self
            .arrows
            .iter()
            .map(|&(from, _, _, probability)| if from == state { probability } else { 0.0 })
            .collect();
        let (_, token, to, _) = self.arrows[random.choose(&weights)];
        (to, token)
    }

    /// The probability of every token as the next one.
    fn shares(&self, belief: &[f64]) -> Vec<f64> {
        let mut shares = vec![0.0; self.tokens];
        self.arrows.iter().for_each(|&(from, token, _, probability)| shares[token] += belief[from] * probability);
        shares
    }

    /// The belief after another token; none if the token is impossible.
    fn update(&self, belief: &[f64], token: usize) -> Option<Vec<f64>> {
        let mut next = vec![0.0; belief.len()];
        for &(from, _, to, probability) in self.arrows.iter().filter(|arrow| arrow.1 == token) {
            next[to] += belief[from] * probability;
        }
        let sum: f64 = next.iter().sum();
        (sum > 0.0).then(|| next.iter().map(|share| share / sum).collect())
    }
}

/// Independent copies of a process. The first copy has the last digit of the token.
#[derive(Debug)]
struct Hmm {
    process: Process,
    factors: usize,
    length: usize,
}

impl Hmm {
    fn build(process: Process, length: usize, values: &Values) -> Result<Arc<dyn Task>, String> {
        Ok(Arc::new(Hmm { process, factors: values.whole("factors"), length }))
    }

    /// The number of tokens of all copies together.
    fn tokens(&self) -> usize {
        self.process.tokens.pow(self.factors as u32)
    }

    /// The token of each copy.
    fn parts(&self, token: usize) -> Vec<usize> {
        (0..self.factors as u32).map(|copy| token / self.process.tokens.pow(copy) % self.process.tokens).collect()
    }

    /// The beliefs of all copies after each token.
    fn beliefs(&self, tokens: &[Token]) -> Result<Vec<Vec<Vec<f64>>>, Illegal> {
        let mut now = vec![self.process.start.clone(); self.factors];
        let mut beliefs = Vec::with_capacity(tokens.len());
        for (index, &token) in tokens.iter().enumerate() {
            for (belief, part) in now.iter_mut().zip(self.parts(usize::from(token))) {
                match self.process.update(belief, part) {
                    Some(next) => *belief = next,
                    None => return Illegal::at(index, format!("{token} cannot follow the tokens before it")),
                }
            }
            beliefs.push(now.clone());
        }
        Ok(beliefs)
    }

    /// The probability of every token, from the beliefs of all copies.
    fn prediction(&self, beliefs: &[Vec<f64>]) -> Vec<f32> {
        let shares: Vec<Vec<f64>> = beliefs.iter().map(|belief| self.process.shares(belief)).collect();
        let share =
            |token| self.parts(token).into_iter().zip(&shares).map(|(part, shares)| shares[part]).product::<f64>();
        (0..self.tokens()).map(|token| share(token) as f32).collect()
    }
}

impl Task for Hmm {
    fn alphabet(&self) -> Vec<Symbol> {
        let copies = |id| joined(self.parts(id), ", ");
        numbered(self.tokens(), |id| match self.factors {
            1 => format!("token {id}"),
            _ => format!("the copies emit {}", copies(id)),
        })
    }

    fn classes(&self) -> Vec<Symbol> {
        numbered(self.tokens(), |id| format!("{id} is next"))
    }

    fn evaluator(&self) -> Evaluator {
        Evaluator::BestPrediction
    }

    /// One token more than the sequence has: the answer to the last question.
    fn generate(&self, lengths: &Lengths, random: &mut Random, out: &mut Vec<Token>) -> Result<Answers, Unlikely> {
        let length = random.within(lengths);
        let mut states: Vec<usize> = (0..self.factors).map(|_| random.choose(&self.process.start)).collect();
        let mut emitted = Vec::with_capacity(length + 1);
        for _ in 0..=length {
            let (mut token, mut unit) = (0, 1);
            for state in &mut states {
                let (to, part) = self.process.step(*state, random);
                *state = to;
                token += unit * part;
                unit *= self.process.tokens;
            }
            emitted.push(token as Token);
        }
        out.extend(&emitted[..length]);
        Ok(next_tokens(&emitted))
    }

    fn answers(&self, tokens: &[Token]) -> Result<Answers, Illegal> {
        let beliefs = self.beliefs(tokens)?;
        Ok(Answers::soft((0..).zip(&beliefs).map(|(position, beliefs)| (position, self.prediction(beliefs)))))
    }

    fn explain(&self, tokens: &[Token]) -> Vec<String> {
        let rounded = |shares: &[f64]| joined(shares.iter().map(|share| format!("{share:.3}")), " ");
        let line = |(index, beliefs): (usize, &Vec<Vec<f64>>)| {
            let states = joined(beliefs.iter().map(|belief| rounded(belief)), " and ");
            let next = joined(beliefs.iter().map(|belief| rounded(&self.process.shares(belief))), " and ");
            format!("After token {} ({}): belief {states}, next {next}", index + 1, tokens[index])
        };
        self.beliefs(tokens).unwrap_or_default().iter().enumerate().map(line).collect()
    }

    fn trivial_rules(&self) -> Vec<TrivialRule> {
        vec![LAST_TWO_TOKENS]
    }

    /// Long enough for sequences to be rarely drawn twice.
    fn default_length(&self) -> Length {
        Length::Exactly(self.length)
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::LN_2;

    use super::*;

    /// The mean loss of the best prediction of each of the first tokens, over all sequences with their probabilities.
    fn bayes_losses(process: &Process, length: usize) -> Vec<f64> {
        let mut losses = vec![0.0; length];
        let mut sequences = vec![(1.0, process.start.clone())];
        for loss in &mut losses {
            let mut longer = Vec::new();
            for (probability, belief) in &sequences {
                for (token, share) in process.shares(belief).into_iter().enumerate().filter(|(_, share)| *share > 0.0) {
                    *loss -= probability * share * share.ln();
                    longer.push((probability * share, process.update(belief, token).unwrap()));
                }
            }
            sequences = longer;
        }
        losses
    }

    fn assert_losses(process: &Process, expected: &[f64]) {
        let losses = bayes_losses(process, expected.len());
        let differs = losses.iter().zip(expected).any(|(loss, expected)| (loss - expected).abs() > 1e-6);
        assert!(!differs, "{losses:?}, expected {expected:?}");
    }

    #[test]
    fn best_losses_are_those_of_an_enumeration_elsewhere() {
        let expected = [1.098612, 1.091068, 1.089391, 1.089004, 1.088915, 1.088894, 1.088890, 1.088889];
        assert_losses(&mess3(0.15, 0.6), &expected);
        let expected = [1.098612, 0.857719, 0.813356, 0.798118, 0.794740, 0.793783, 0.793543, 0.793480];
        assert_losses(&mess3(0.05, 0.85), &expected);
        let expected = [LN_2, LN_2, 0.636514, 0.628487, 0.598679, 0.577623, 0.561458, 0.539847, 0.526940, 0.515819];
        assert_losses(&rrxor(), &expected);
    }

    /// Worked out by hand: the entropy rate of each process is reached, or approached from above.
    #[test]
    fn simple_processes_have_the_losses_of_their_definitions() {
        // Two of three golden-mean states are free; what the state is shows in the last bit.
        let golden = bayes_losses(&Process::new(GOLDEN_MEAN(0.5)), 6);
        let first = -(2.0 / 3.0 * (2.0f64 / 3.0).ln() + 1.0 / 3.0 * (1.0f64 / 3.0).ln());
        assert!(
            (golden[0] - first).abs() < 1e-12 && golden[1..].iter().all(|loss| (loss - 2.0 / 3.0 * LN_2).abs() < 1e-12)
        );
        let even = bayes_losses(&Process::new(EVEN(0.5)), 14);
        assert!(even.is_sorted_by(|one, next| one >= next) && (even[13] - 2.0 / 3.0 * LN_2).abs() < 3e-3, "{even:?}");
        // It takes up to three bits to find out which of three is next, and one in three is random.
        let z1r = bayes_losses(&Process::new(Z1R(0.5)), 8);
        assert!((z1r[0] - LN_2).abs() < 1e-12 && z1r[1] > z1r[2] && z1r[2] > z1r[3], "{z1r:?}");
        assert!(z1r[3..].iter().all(|loss| (loss - LN_2 / 3.0).abs() < 1e-12), "{z1r:?}");
    }

    #[test]
    fn processes_start_where_they_stay() {
        let close = |one: &[f64], other: &[f64]| one.iter().zip(other).all(|(one, other)| (one - other).abs() < 1e-15);
        assert!(close(&mess3(0.05, 0.85).start, &[1.0 / 3.0; 3]));
        assert!(close(&rrxor().start, &[1.0 / 3.0, 1.0 / 6.0, 1.0 / 6.0, 1.0 / 6.0, 1.0 / 6.0]));
        assert!(close(&Process::new(GOLDEN_MEAN(0.5)).start, &[2.0 / 3.0, 1.0 / 3.0]));
        for process in [mess3(0.3, 0.2), rrxor(), Process::new(EVEN(0.3)), Process::new(Z1R(0.2))] {
            let mut next = vec![0.0; process.start.len()];
            process.arrows.iter().for_each(|&(from, _, to, share)| next[to] += process.start[from] * share);
            assert!(close(&next, &process.start), "{process:?}");
        }
    }
}
