//! `markov-chain`: random sequences with causal structure. Which token follows, if every sequence has transition probabilities of its
//! own, and every token follows from a parent that has the same place in all sequences?

use std::sync::Arc;

use semfocus_core::Key;
use semfocus_core::data::Length;
use semfocus_core::spec::{Literal, Parameter, SpecValue, Values};

use super::{joined, next_tokens, numbered, stationary};
use crate::random::Random;
use crate::task::{Answers, Evaluator, Illegal, Lengths, Slice, Symbol, Task, TaskInfo, Token, Unlikely};

pub(crate) const INFO: TaskInfo = TaskInfo {
    summary: "the token that follows the last one, as probabilities: every token is drawn given its parent, an earlier token at a place that \
        is the same in all sequences, from probabilities that every sequence draws anew",
    tests: "finding out which place each token depends on, and counting in context what followed tokens like the last one",
    source: "Nichani, Damian & Lee, How Transformers Learn Causal Structure with Gradient Descent, ICML 2024",
    parameters: &[
        Parameter::whole("states", "the number of tokens", 2, 32, 3).default(Literal::Number(10.0)),
        Parameter::word("graph", "the parents: the token before; in pairs; random; random or none; two of them", GRAPHS)
            .default(Literal::Word("chain")),
        Parameter::number("alpha", "the parameter of the Dirichlet distribution of each row", 0.01, 100.0, 1.0)
            .default(Literal::Number(0.1)),
        Parameter::word(
            "roots",
            "how tokens without parents are drawn; left out, as published: uniform with two parents, otherwise stationary",
            &["stationary", "uniform"],
        )
        .optional(),
        Parameter::word("ask", "at the last token, or at every token for the one after it", &["last", "all"])
            .default(Literal::Word("last")),
        Parameter::whole("draw", "which of the random graphs", 0, 1_000_000, 2).default(Literal::Number(1.0)),
    ],
    ..TaskInfo::new("markov-chain", build)
};

const GRAPHS: &[&str] = &["chain", "icl", "tree", "forest", "multi-parent"];

/// Which earlier tokens a token follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Graph {
    /// The token before.
    Chain,
    /// Tokens at odd positions follow from the one before; the others have no parent.
    Pairs,
    /// A random earlier token, or none with the same probability as each of them.
    Tree(Key),
    /// With probability one half none, otherwise a random earlier token.
    Forest(Key),
    /// Two of them: the token before, and the one half-way to the beginning.
    TwoParents,
}

impl Graph {
    fn parents(self, node: usize) -> Vec<usize> {
        match self {
            Graph::Chain if node > 0 => vec![node - 1],
            Graph::Pairs if node % 2 == 1 => vec![node - 1],
            Graph::Tree(key) => {
                let drawn = key.child(node as u64).below(0, node as u32 + 1) as usize;
                drawn.checked_sub(1).into_iter().collect()
            }
            Graph::Forest(key) if node > 0 && key.child(node as u64).below(0, 2) == 1 => {
                vec![key.child(node as u64).below(1, node as u32) as usize]
            }
            Graph::TwoParents if node > 1 => vec![(node - 1) / 2, node - 1],
            _ => Vec::new(),
        }
    }
}

fn build(values: &Values) -> Result<Arc<dyn Task>, String> {
    let key = || Key::new(values.whole("draw") as u64);
    let graph = match values.get("graph") {
        Some(SpecValue::Word(word)) if word == "icl" => Graph::Pairs,
        Some(SpecValue::Word(word)) if word == "tree" => Graph::Tree(key().named("tree")),
        Some(SpecValue::Word(word)) if word == "forest" => Graph::Forest(key().named("forest")),
        Some(SpecValue::Word(word)) if word == "multi-parent" => Graph::TwoParents,
        _ => Graph::Chain,
    };
    if graph == Graph::TwoParents && values.is("roots", "stationary") {
        return Err("with two parents there is no stationary distribution to draw from; leave `roots` out".to_owned());
    }
    Ok(Arc::new(MarkovChain {
        states: values.whole("states"),
        graph,
        alpha: values.number("alpha"),
        is_stationary: graph != Graph::TwoParents && !values.is("roots", "uniform"),
        asks_all: values.is("ask", "all"),
    }))
}

#[derive(Debug)]
struct MarkovChain {
    states: usize,
    graph: Graph,
    alpha: f64,
    /// Whether tokens without parents are drawn from the stationary distribution of the sequence. Otherwise they are uniform.
    is_stationary: bool,
    asks_all: bool,
}

/// A question, and what in the sequence tells about its answer.
struct Evidence {
    at: usize,
    /// The tokens that the asked token follows from; none if it has no parent.
    parents: Vec<usize>,
    /// Earlier tokens that followed from the same tokens at their own parents.
    children: Vec<usize>,
}

impl MarkovChain {
    /// Whether the last token is drawn by itself, to be asked about, as in all published graphs with one parent.
    fn has_query(&self) -> bool {
        !self.asks_all && self.graph != Graph::TwoParents
    }

    /// The parents of a token of a sequence of this length, or of the token after its end.
    fn parents(&self, node: usize, length: usize) -> Vec<usize> {
        match self.has_query() {
            true if node == length => vec![length - 1],
            true if node + 1 == length => Vec::new(),
            _ => self.graph.parents(node),
        }
    }

    /// The number of the row of probabilities that holds after these parents.
    fn row(&self, tokens: &[Token], parents: &[usize]) -> usize {
        parents.iter().fold(0, |row, &parent| row * self.states + usize::from(tokens[parent]))
    }

    /// The questions of a sequence. A child counts if it comes no later than the question and has parents itself.
    fn evidence(&self, tokens: &[Token]) -> Vec<Evidence> {
        let length = tokens.len();
        let rows: Vec<Option<usize>> = (0..length)
            .map(|node| Some(self.parents(node, length)).filter(|parents| !parents.is_empty()))
            .map(|parents| parents.map(|parents| self.row(tokens, &parents)))
            .collect();
        let evidence = |at: usize| {
            let parents = self.parents(at + 1, length);
            let row = Some(self.row(tokens, &parents)).filter(|_| !parents.is_empty());
            let children = (0..=at).filter(|&node| row.is_some() && rows[node] == row).collect();
            Evidence { at, parents, children }
        };
        let first = if self.asks_all { 0 } else { length - 1 };
        (first..length).map(evidence).collect()
    }

    /// How often each token is among those at some positions, with `alpha` more of each, as shares.
    fn smoothed(&self, tokens: impl Iterator<Item = Token>) -> Vec<f32> {
        let mut counts = vec![self.alpha; self.states];
        tokens.for_each(|token| counts[usize::from(token)] += 1.0);
        let sum: f64 = counts.iter().sum();
        counts.into_iter().map(|count| (count / sum) as f32).collect()
    }
}

impl Task for MarkovChain {
    fn alphabet(&self) -> Vec<Symbol> {
        numbered(self.states, |id| format!("state {id}"))
    }

    fn classes(&self) -> Vec<Symbol> {
        numbered(self.states, |id| format!("state {id} is next"))
    }

    /// The prediction from counts is the best one if tokens without parents say nothing about the probabilities.
    fn evaluator(&self) -> Evaluator {
        if self.is_stationary { Evaluator::Estimate } else { Evaluator::BestPrediction }
    }

    /// The question about the last token gets the probabilities themselves; questions at all tokens get the token that was drawn.
    fn generate(&self, lengths: &Lengths, random: &mut Random, out: &mut Vec<Token>) -> Result<Answers, Unlikely> {
        let length = random.within(lengths);
        let rows = self.states.pow(if self.graph == Graph::TwoParents { 2 } else { 1 });
        let rows: Vec<Vec<f64>> = (0..rows).map(|_| random.dirichlet(self.alpha, self.states)).collect();
        let uniform = vec![1.0; self.states];
        let roots = if self.is_stationary { &stationary(rows.clone()) } else { &uniform };
        let mut tokens: Vec<Token> = Vec::with_capacity(length + 1);
        for node in 0..length + usize::from(self.asks_all) {
            let parents = self.parents(node, length);
            let shares = match parents.is_empty() {
                false => &rows[self.row(&tokens, &parents)],
                true if self.has_query() && node + 1 == length => &uniform,
                true => roots,
            };
            tokens.push(random.choose(shares) as Token);
        }
        out.extend(&tokens[..length]);
        if self.asks_all {
            return Ok(next_tokens(&tokens));
        }
        let row = &rows[self.row(&tokens, &self.parents(length, length))];
        Ok(Answers::soft([(length as u32 - 1, row.iter().map(|&share| share as f32).collect())]))
    }

    fn answers(&self, tokens: &[Token]) -> Result<Answers, Illegal> {
        if tokens.len() < self.min_length() {
            return Illegal::at(
                tokens.len(),
                format!("ends too early: at least {} tokens are needed", self.min_length()),
            );
        }
        let prediction = |Evidence { at, parents, children }: &Evidence| {
            let shares = match (parents.is_empty(), self.is_stationary) {
                (false, _) => self.smoothed(children.iter().map(|&child| tokens[child])),
                (true, true) => self.smoothed(tokens[..=*at].iter().copied()),
                (true, false) => self.smoothed(std::iter::empty()),
            };
            (*at as u32, shares)
        };
        Ok(Answers::soft(self.evidence(tokens).iter().map(prediction)))
    }

    fn explain(&self, tokens: &[Token]) -> Vec<String> {
        let line = |Evidence { at, parents, children }: &Evidence| {
            let at = at + 1;
            if parents.is_empty() {
                return format!("At token {at}: the token after it has no parent.");
            }
            let written = |places: &[usize]| joined(places.iter().map(|&place| tokens[place]), " and ");
            let earlier = match &children[..] {
                [] => "never before".to_owned(),
                _ => format!("before followed by {}", joined(children.iter().map(|&child| tokens[child]), ", ")),
            };
            let places = joined(parents.iter().map(|parent| parent + 1), " and ");
            format!("At token {at}: what follows {} (token {places})? It was {earlier}.", written(parents))
        };
        self.evidence(tokens).iter().map(line).collect()
    }

    /// What was counted, the parents by which it was found, and the parents of what is asked for.
    fn relevant(&self, tokens: &[Token]) -> Option<Vec<usize>> {
        let mut positions = Vec::new();
        for Evidence { parents, children, .. } in self.evidence(tokens) {
            positions.extend(children.iter().flat_map(|&child| self.parents(child, tokens.len())));
            positions.extend(children);
            positions.extend(parents);
        }
        positions.sort_unstable();
        positions.dedup();
        Some(positions)
    }

    /// What was counted.
    fn relevant_to_questions(&self, tokens: &[Token]) -> Option<Vec<Vec<usize>>> {
        Some(self.evidence(tokens).into_iter().map(|evidence| evidence.children).collect())
    }

    fn slices(&self) -> Vec<Slice> {
        vec![Slice { name: "occurrences", words: "earlier tokens with the same parents" }]
    }

    fn slice_values(&self, tokens: &[Token]) -> Vec<Vec<Option<u32>>> {
        let value =
            |Evidence { parents, children, .. }: Evidence| vec![(!parents.is_empty()).then_some(children.len() as u32)];
        self.evidence(tokens).into_iter().map(value).collect()
    }

    fn default_length(&self) -> Length {
        Length::Exactly(if self.graph == Graph::TwoParents { 32 } else { 20 })
    }

    fn lesson_length(&self) -> Length {
        Length::Between(14, 20)
    }

    fn min_length(&self) -> usize {
        2
    }
}
