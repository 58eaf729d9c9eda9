//! Checks a data set before any model is trained: balance, copies, leaks, and the accuracy of trivial rules.

use std::collections::{BTreeMap, HashMap, HashSet};

use semfocus_core::question::{At, Question, Target};
use serde::Serialize;

use crate::generate::Dataset;
use crate::lines::shown;
use crate::split::{Split, SplitName};
use crate::task::{Label, Token, TrivialRule, unpadded};

/// Properties of a data set that bear on what its results mean.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Audit {
    /// Name of the task.
    pub task: String,
    /// Number of classes.
    pub classes: usize,
    /// How each class is written.
    pub class_names: Vec<String>,
    /// Number of token ids, including the pad token.
    pub vocabulary: usize,
    /// The length to which every sequence is padded.
    pub length: usize,
    /// Balance and copies of every split that has examples.
    pub splits: Vec<SplitAudit>,
    /// Sequences that occur in two splits.
    pub overlaps: Vec<Overlap>,
    /// Different sequences that occur with different answers, in all splits together; 0 if the answers are drawn.
    pub contradictions: usize,
    /// Histogram of the lengths without padding, in all splits together.
    pub lengths: Vec<LengthBin>,
    /// Trivial rules, fitted on train and scored on held-out.
    pub baselines: Vec<Baseline>,
    /// Conclusions, one sentence or two each.
    pub findings: Vec<String>,
}

/// Balance and copies of a split.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SplitAudit {
    /// The split that the numbers are about.
    pub split: SplitName,
    /// Number of examples.
    pub examples: usize,
    /// Number of answers of each class; in a classification task every example has one answer.
    pub labels: Vec<usize>,
    /// Examples whose sequence occurred before in the same split.
    pub duplicates: usize,
}

/// Sequences that two splits share.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Overlap {
    /// The two splits.
    pub between: [SplitName; 2],
    /// How many different sequences they share.
    pub sequences: usize,
}

/// A bar of the histogram of lengths.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LengthBin {
    /// Minimum length.
    pub from: usize,
    /// Maximum length.
    pub to: usize,
    /// Number of sequences.
    pub examples: usize,
}

/// The accuracy of a trivial rule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Baseline {
    /// Name of the rule.
    pub name: &'static str,
    /// The part of a sequence that it looks at.
    pub looks_at: &'static str,
    /// Share of the held-out questions that it answers correctly; where the right answer is a distribution, the expected share.
    pub accuracy: f64,
    /// Whether the accuracy is more than four standard errors above that of the majority class. The unit is the sequence, because
    /// answers within a sequence depend on each other.
    pub above_majority: bool,
}

impl Audit {
    /// Examines a data set. Accuracies are those on the held-out split, of the usual trivial rules and those of the task.
    pub fn new(data: &Dataset, rules: &[TrivialRule]) -> Self {
        let used: Vec<(SplitName, &Split)> = data.splits().into_iter().filter(|(_, split)| !split.is_empty()).collect();
        let mut audit = Audit {
            task: data.name.clone(),
            classes: data.classes,
            class_names: data.class_names.clone(),
            vocabulary: data.vocabulary,
            length: data.length,
            splits: used.iter().map(|&(name, split)| split_audit(name, split, data)).collect(),
            overlaps: overlaps(&used, data.pad),
            contradictions: if data.answers_are_drawn { 0 } else { contradictions(&used, data.pad) },
            lengths: lengths(&used, data.pad),
            baselines: baselines(data, rules),
            findings: Vec::new(),
        };
        audit.findings = audit.conclusions(data.is_generated);
        audit
    }

    fn conclusions(&self, is_generated: bool) -> Vec<String> {
        let mut findings = Vec::new();
        for Overlap { between: [a, b], sequences } in self.overlaps.iter().filter(|overlap| overlap.sequences > 0) {
            findings.push(format!("Leak: {sequences} sequences occur in {a} and in {b}."));
        }
        if self.contradictions > 0 {
            findings.push(format!("Contradictions: {} sequences occur with several labels.", self.contradictions));
        }
        findings.extend(self.rare_classes(is_generated));
        for split in self.splits.iter().filter(|split| split.duplicates * 100 > split.examples) {
            findings.push(format!(
                "Copies: {} of the {} examples of {} repeat an earlier one.",
                split.duplicates, split.examples, split.split
            ));
        }
        for baseline in &self.baselines {
            findings.extend(baseline.conclusion());
        }
        if findings.is_empty() {
            findings.push("Nothing found: no leak, no copies, no trivial rule beats the majority class.".to_owned());
        }
        findings
    }
}

impl Audit {
    /// Classes of files with a single example, or none in these splits, and classes that are tested but never trained on.
    fn rare_classes(&self, is_generated: bool) -> Vec<String> {
        // With fewer examples every class is rare.
        const ENOUGH: usize = 20;
        let members = |class: usize| self.splits.iter().map(|split| split.labels[class]).sum::<usize>();
        let of = |name: SplitName, class: usize| {
            self.splits.iter().find(|split| split.split == name).map_or(0, |split| split.labels[class])
        };
        let has_train = self.splits.iter().any(|split| split.split == SplitName::Train);
        let classes = || 0..self.class_names.len();
        let all: usize = self.splits.iter().map(|split| split.examples).sum();
        let may_be_wrong = !is_generated && all >= ENOUGH;
        let single: Vec<usize> = classes().filter(|&class| may_be_wrong && members(class) <= 1).collect();
        let unseen: Vec<usize> =
            classes().filter(|&class| has_train && members(class) > 1 && of(SplitName::Train, class) == 0).collect();
        let mut findings = Vec::new();
        if !single.is_empty() {
            let (noun, verb) = if single.len() == 1 { ("class", "has") } else { ("classes", "have") };
            findings.push(format!(
                "Rare: the {noun} {} {verb} at most one example here. A header line or a typing error looks like this.",
                self.names(&single)
            ));
        }
        if !unseen.is_empty() {
            let (noun, verb) = if unseen.len() == 1 { ("class", "has") } else { ("classes", "have") };
            findings.push(format!("Not in train: the {noun} {} {verb} no training example.", self.names(&unseen)));
        }
        findings
    }

    /// The names of some classes: the first five of them.
    fn names(&self, classes: &[usize]) -> String {
        let names: Vec<String> = classes.iter().take(5).map(|&class| shown(&self.class_names[class])).collect();
        let more = classes.len().saturating_sub(5);
        if more == 0 { names.join(", ") } else { format!("{} and {more} more", names.join(", ")) }
    }
}

impl Baseline {
    fn conclusion(&self) -> Option<String> {
        let Baseline { name, looks_at, accuracy, above_majority } = self;
        let percent = 100.0 * accuracy;
        if !above_majority {
            return None;
        }
        let verdict = match *name {
            "majority-class" => return None,
            "token-counts" if *accuracy > 0.95 => {
                "The order of the tokens does not matter: how often each one occurs determines the label."
            }
            "bag-of-tokens" if *accuracy > 0.95 => {
                "A shortcut: a model can reach such an accuracy without regard to the order of the tokens."
            }
            _ if *accuracy > 0.95 => {
                "A shortcut: a model can reach such an accuracy without reading the rest of the sequence."
            }
            _ => "A model may use this hint before it learns the rule.",
        };
        Some(format!("{looks_at} alone give{} {percent:.1} % on held-out. {verdict}", plural_verb(looks_at)))
    }
}

fn plural_verb(subject: &str) -> &'static str {
    if subject.contains(" and ") || subject.ends_with("counts") { "" } else { "s" }
}

/// The part of a sequence that a question may be answered by: the tokens up to the one it is asked at, or all of them.
fn before<'a>(tokens: &'a [Token], question: &Question, pad: Token) -> &'a [Token] {
    let tokens = unpadded(tokens, pad);
    match question.at {
        At::Mean => tokens,
        At::Token(position) => &tokens[..tokens.len().min(position as usize + 1)],
    }
}

/// What precedes every question of a split, and its answer.
fn asked(split: &Split, pad: Token) -> impl Iterator<Item = (&[Token], Label)> {
    split.iter().flat_map(move |(tokens, questions)| {
        let answer = |question: &Question| split.questions.correct_class(question.target);
        questions.iter().map(move |question| (before(tokens, question, pad), answer(question)))
    })
}

fn split_audit(name: SplitName, split: &Split, data: &Dataset) -> SplitAudit {
    SplitAudit {
        split: name,
        examples: split.len(),
        labels: counts(&split.labels(), data.classes),
        duplicates: split.len() - split.distinct(),
    }
}

fn counts(labels: &[Label], classes: usize) -> Vec<usize> {
    let mut counts = vec![0; classes];
    labels.iter().for_each(|&label| counts[usize::from(label)] += 1);
    counts
}

fn overlaps(splits: &[(SplitName, &Split)], pad: Token) -> Vec<Overlap> {
    let mut found = Vec::new();
    for (index, (first_name, first)) in splits.iter().enumerate() {
        let first: HashSet<&[Token]> = first.iter().map(|(tokens, _)| unpadded(tokens, pad)).collect();
        for (second_name, second) in &splits[index + 1..] {
            let second: HashSet<&[Token]> = second.iter().map(|(tokens, _)| unpadded(tokens, pad)).collect();
            let sequences = first.intersection(&second).count();
            found.push(Overlap { between: [*first_name, *second_name], sequences });
        }
    }
    found
}

fn contradictions(splits: &[(SplitName, &Split)], pad: Token) -> usize {
    let mut answers: HashMap<&[Token], Vec<u16>> = HashMap::new();
    let mut contradicted = HashSet::new();
    for (_, split) in splits {
        for (tokens, asked) in split.iter() {
            let (sequence, words) = (unpadded(tokens, pad), split.answer_words(asked));
            match answers.get(sequence) {
                Some(first) if *first != words => drop(contradicted.insert(sequence)),
                Some(_) => {}
                None => drop(answers.insert(sequence, words)),
            }
        }
    }
    contradicted.len()
}

/// Maximum number of bars.
const BINS: usize = 12;

fn lengths(splits: &[(SplitName, &Split)], pad: Token) -> Vec<LengthBin> {
    let mut exact: BTreeMap<usize, usize> = BTreeMap::new();
    for (tokens, _) in splits.iter().flat_map(|(_, split)| split.iter()) {
        *exact.entry(unpadded(tokens, pad).len()).or_default() += 1;
    }
    let (Some((&min, _)), Some((&max, _))) = (exact.first_key_value(), exact.last_key_value()) else {
        return Vec::new();
    };
    let width = (max - min + 1).div_ceil(BINS);
    let bins = (min..=max).step_by(width);
    bins.map(|from| {
        let to = (from + width - 1).min(max);
        LengthBin { from, to, examples: exact.range(from..=to).map(|(_, examples)| examples).sum() }
    })
    .collect()
}

/// Trivial rules for every task.
const RULES: [TrivialRule; 4] = [
    TrivialRule { name: "majority-class", looks_at: "The most frequent class", part: |_| Vec::new() },
    TrivialRule {
        name: "last-token",
        looks_at: "The last token",
        part: |tokens| tokens.last().copied().into_iter().collect(),
    },
    TrivialRule {
        name: "first-and-last-token",
        looks_at: "The first and the last token",
        part: |tokens| tokens.first().into_iter().chain(tokens.last()).copied().collect(),
    },
    TrivialRule { name: "token-counts", looks_at: "The token counts", part: sorted },
];

fn baselines(data: &Dataset, rules: &[TrivialRule]) -> Vec<Baseline> {
    let (train, held_out) = (&data.train, &data.held_out);
    if train.questions.all().is_empty() || held_out.questions.all().is_empty() {
        return Vec::new();
    }
    let mut found: Vec<(&'static str, &'static str, f64)> = Vec::new();
    for TrivialRule { name, looks_at, part } in RULES.iter().chain(rules) {
        let table = Table::fit(train, data, *part);
        found.push((name, looks_at, accuracy(held_out, data.pad, |tokens| table.predict(&part(tokens)))));
    }
    if data.classes * data.vocabulary <= MAX_WEIGHTS {
        let bag = Bag::fit(train, data);
        let accuracy = accuracy(held_out, data.pad, |tokens| bag.predict(tokens));
        found.insert(RULES.len() - 1, ("bag-of-tokens", "A weight for each token (naive Bayes)", accuracy));
    }
    let majority = found[0].2;
    let error = (majority * (1.0 - majority) / held_out.len() as f64).sqrt();
    let baseline = |(name, looks_at, accuracy)| Baseline {
        name,
        looks_at,
        accuracy,
        above_majority: accuracy > majority + 4.0 * error,
    };
    found.into_iter().map(baseline).collect()
}

/// Naive Bayes is left out if it would have more weights than this, as for a file with tens of thousands of words and
/// hundreds of classes.
const MAX_WEIGHTS: usize = 10_000_000;

/// The share of right answers; where the answer is a distribution, the share that is expected.
fn accuracy(split: &Split, pad: Token, predict: impl Fn(&[Token]) -> Label) -> f64 {
    let questions = split.iter().flat_map(|(tokens, asked)| asked.iter().map(move |question| (tokens, question)));
    let right = questions.map(|(tokens, question)| {
        let predicted = predict(before(tokens, question, pad));
        match question.target {
            Target::Class(class) => f64::from(u8::from(class == predicted)),
            Target::Soft(row) => f64::from(split.questions.distribution(row)[usize::from(predicted)]),
        }
    });
    right.sum::<f64>() / split.questions.all().len() as f64
}

/// The tokens in ascending order, which keeps their counts and nothing else.
fn sorted(tokens: &[Token]) -> Vec<Token> {
    let mut tokens = tokens.to_vec();
    tokens.sort_unstable();
    tokens
}

/// The most frequent class for every key seen in training, and the most frequent class overall for other keys. The lower
/// class wins ties.
struct Table {
    fallback: Label,
    answers: HashMap<Vec<Token>, Label>,
}

impl Table {
    fn fit(train: &Split, data: &Dataset, part: fn(&[Token]) -> Vec<Token>) -> Self {
        let mut seen: HashMap<Vec<Token>, HashMap<Label, usize>> = HashMap::new();
        for (tokens, answer) in asked(train, data.pad) {
            *seen.entry(part(tokens)).or_default().entry(answer).or_default() += 1;
        }
        let most = |counts: HashMap<Label, usize>| counts.into_iter().map(|(class, count)| (usize::from(class), count));
        let answers = seen.into_iter().map(|(key, counts)| (key, most_frequent(most(counts)))).collect();
        let all = counts(&train.labels(), data.classes);
        Table { fallback: most_frequent(all.into_iter().enumerate()), answers }
    }

    fn predict(&self, key: &[Token]) -> Label {
        self.answers.get(key).copied().unwrap_or(self.fallback)
    }
}

fn most_frequent(counts: impl Iterator<Item = (usize, usize)>) -> Label {
    let best = counts.max_by_key(|&(class, count)| (count, std::cmp::Reverse(class)));
    best.map_or(0, |(class, _)| class as Label)
}

/// Naive Bayes on token counts with add-one smoothing: a linear rule on a bag of tokens.
struct Bag {
    /// Logarithm of the share of each class.
    priors: Vec<f64>,
    /// Logarithm of the share of each token within each class: `[classes, vocabulary]`.
    weights: Vec<f64>,
    vocabulary: usize,
}

impl Bag {
    fn fit(train: &Split, data: &Dataset) -> Self {
        let (classes, vocabulary) = (data.classes, data.vocabulary);
        let mut occurrences = vec![1.0; classes * vocabulary];
        for (tokens, answer) in asked(train, data.pad) {
            let row = usize::from(answer) * vocabulary;
            tokens.iter().for_each(|&token| occurrences[row + usize::from(token)] += 1.0);
        }
        let weights = occurrences.chunks_exact(vocabulary).flat_map(|row| {
            let total: f64 = row.iter().sum();
            row.iter().map(move |count| (count / total).ln())
        });
        let answers = train.questions.all().len() as f64;
        let priors = counts(&train.labels(), classes).into_iter().map(|count| (count as f64 / answers).ln());
        Bag { priors: priors.collect(), weights: weights.collect(), vocabulary }
    }

    fn predict(&self, tokens: &[Token]) -> Label {
        let score = |(prior, row): (&f64, &[f64])| prior + tokens.iter().map(|&t| row[usize::from(t)]).sum::<f64>();
        let scores = self.priors.iter().zip(self.weights.chunks_exact(self.vocabulary)).map(score);
        let best = scores.enumerate().fold(
            (0, f64::NEG_INFINITY),
            |best, (class, score)| {
                if score > best.1 { (class, score) } else { best }
            },
        );
        best.0 as Label
    }
}
