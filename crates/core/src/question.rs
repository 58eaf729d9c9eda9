//! What examples ask a model, and what the right answers are.
//!
//! A question names the row that answers it ([`At`]), the right answer ([`Target`]) and how much it counts. Classification is one
//! question at the mean of the tokens. Next-token prediction asks at every token but the last. Positions without an answer ask
//! nothing.
//!
//! The loss of several questions is `Σ weight · loss / Σ weight`; with equal weights that is the mean. Accuracy is the share of
//! questions answered correctly. The questions of one sequence are not independent of each other, so the unit of statistics
//! is the sequence.

use std::sync::Arc;

use serde::Serialize;

/// Which row of a sequence answers a question. In JSON the position, or null for the mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(untagged)]
pub enum At {
    /// The mean over all tokens that the model sees, padding and global tokens included.
    Mean,
    /// The token at this position.
    Token(u32),
}

/// The right answer to a question. In JSON the field `class` or `distribution`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    /// One class.
    Class(u16),
    /// A probability for every class: this row of the distributions of its [sequence](Answers) or of all [questions](Questions).
    #[serde(rename = "distribution")]
    Soft(u32),
}

/// One question of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Question {
    /// The row that answers it.
    pub at: At,
    /// The right answer.
    #[serde(flatten)]
    pub target: Target,
    /// How much it counts in the loss: 0 or more, usually 1.
    pub weight: f32,
}

/// What a sequence asks, with the right answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answers {
    /// The questions, in any order.
    pub questions: Vec<Question>,
    /// Rows with a probability for every class, one after another: soft targets name a row, from 0.
    pub distributions: Vec<f32>,
}

/// The questions of all sequences of a split or a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Questions {
    /// Sequence after sequence.
    all: Vec<Question>,
    /// Where the questions of each sequence start in `all`, and where the last ones end.
    starts: Vec<usize>,
    /// Rows of `classes` probabilities, for soft targets. Shared with selections.
    distributions: Arc<Vec<f32>>,
    classes: usize,
}

impl Default for Questions {
    /// Of no sequences, without distributions.
    fn default() -> Self {
        Questions { all: Vec::new(), starts: vec![0], distributions: Arc::default(), classes: 0 }
    }
}

/// Answers that are all classes.
impl FromIterator<Question> for Answers {
    fn from_iter<I: IntoIterator<Item = Question>>(questions: I) -> Self {
        Answers { questions: questions.into_iter().collect(), distributions: Vec::new() }
    }
}

impl AsRef<[Question]> for Answers {
    fn as_ref(&self) -> &[Question] {
        &self.questions
    }
}

impl Answers {
    /// A distribution over the classes at each of these tokens, with weight 1.
    pub fn soft(rows: impl IntoIterator<Item = (u32, Vec<f32>)>) -> Self {
        let mut answers = Answers::default();
        for (row, (position, shares)) in (0..).zip(rows) {
            answers.questions.push(Question { at: At::Token(position), target: Target::Soft(row), weight: 1.0 });
            answers.distributions.extend(shares);
        }
        answers
    }

    /// The distribution of a soft target over so many classes; none if the target is a class or the row is missing.
    pub fn distribution(&self, target: Target, classes: usize) -> Option<&[f32]> {
        match target {
            Target::Class(_) => None,
            Target::Soft(row) => self.distributions.chunks_exact(classes).nth(row as usize),
        }
    }

    /// The class that counts as the correct answer to one of the questions: see [`Questions::correct_class`].
    pub fn correct_class(&self, target: Target, classes: usize) -> Option<u16> {
        match target {
            Target::Class(class) => Some(class),
            Target::Soft(_) => self.distribution(target, classes).map(most_probable),
        }
    }
}

/// The most probable class, the first of equal ones.
fn most_probable(shares: &[f32]) -> u16 {
    let best = (1..shares.len()).fold(0, |best, class| if shares[class] > shares[best] { class } else { best });
    u16::try_from(best).expect("a class has two bytes")
}

/// Whether these are probabilities: not negative, with sum 1 up to 1e-3.
pub fn is_distribution(shares: &[f32]) -> bool {
    let sum: f64 = shares.iter().map(|&share| f64::from(share)).sum();
    shares.iter().all(|&share| share >= 0.0) && (sum - 1.0).abs() < 1e-3
}

impl Question {
    /// Asks at the mean for a class, with weight 1.
    pub fn classify(class: u16) -> Self {
        Question { at: At::Mean, target: Target::Class(class), weight: 1.0 }
    }
}

impl Questions {
    /// Of no sequences yet, for answers with distributions over so many classes.
    pub fn over(classes: usize) -> Self {
        Questions { classes, ..Questions::default() }
    }

    /// Of no sequences yet, with `distributions` for soft targets: rows of `classes` probabilities.
    ///
    /// # Panics
    /// If a row is incomplete, or is not a distribution: its values are not negative and sum to 1 (up to 1e-3).
    pub fn with_distributions(distributions: Vec<f32>, classes: usize) -> Self {
        let mut questions = Questions::over(classes);
        questions.add_distributions(&distributions);
        questions
    }

    /// Appends rows and returns the number of the first one.
    fn add_distributions(&mut self, rows: &[f32]) -> u32 {
        let classes = self.classes;
        assert!(classes > 0 && rows.len().is_multiple_of(classes), "distributions have {classes} classes each");
        for (row, shares) in rows.chunks_exact(classes).enumerate() {
            assert!(is_distribution(shares), "row {row} is not a distribution: {shares:?}");
        }
        let first = self.distributions.len() / classes;
        Arc::make_mut(&mut self.distributions).extend_from_slice(rows);
        u32::try_from(first + rows.len() / classes).expect("fewer than 2^32 distributions");
        first as u32
    }

    /// One class for every sequence.
    pub fn classification(classes: impl IntoIterator<Item = u16>) -> Self {
        let mut questions = Questions::default();
        classes.into_iter().for_each(|class| questions.push([Question::classify(class)]));
        questions
    }

    /// At every token but the last of each sequence of `length` tokens: which token follows?
    pub fn next_token(tokens: &[u16], length: usize) -> Self {
        let mut questions = Questions::default();
        for tokens in tokens.chunks_exact(length.max(1)) {
            let next = (0..).zip(&tokens[1..]);
            questions.push(next.map(|(t, &next)| Question {
                at: At::Token(t),
                target: Target::Class(next),
                weight: 1.0,
            }));
        }
        questions
    }

    /// Appends a sequence with its answers.
    ///
    /// # Panics
    /// If a weight is not a number of at least 0, the distributions are not over the classes of these questions, or a soft target has
    /// no distribution.
    pub fn push_answers(&mut self, answers: &Answers) {
        if answers.distributions.is_empty() {
            return self.push(answers.questions.iter().copied());
        }
        let first = self.add_distributions(&answers.distributions);
        self.push(answers.questions.iter().map(|&question| match question.target {
            Target::Class(_) => question,
            Target::Soft(row) => Question { target: Target::Soft(first + row), ..question },
        }));
    }

    /// Appends a sequence with its questions, of which there may be none. Soft targets name rows that these questions have already.
    ///
    /// # Panics
    /// If a weight is not a number of at least 0, or a soft target has no distribution.
    pub fn push(&mut self, questions: impl IntoIterator<Item = Question>) {
        for question in questions {
            assert!(question.weight >= 0.0 && question.weight.is_finite(), "a weight of {}", question.weight);
            if let Target::Soft(row) = question.target {
                self.distribution(row);
            }
            self.all.push(question);
        }
        self.starts.push(self.all.len());
    }

    /// The number of sequences.
    pub fn sequences(&self) -> usize {
        self.starts.len() - 1
    }

    /// How many independent sequences the answers are worth: `(Σ m)² / Σ m²` for sequences with `m` questions each, rounded down.
    /// The share of correct answers varies as much as it does for that many single answers if each sequence is answered
    /// all right or all wrong, and less otherwise. In classification it is the number of sequences.
    pub fn independent_sequences(&self) -> usize {
        let squares: usize = self.starts.windows(2).map(|bounds| (bounds[1] - bounds[0]).pow(2)).sum();
        self.all.len().pow(2) / squares.max(1)
    }

    /// The same, but those about the mean of a sequence ask at the token that `place` gives for the sequence.
    pub fn at_tokens(&self, place: impl Fn(usize) -> u32) -> Self {
        let mut moved = self.clone();
        for (sequence, bounds) in self.starts.windows(2).enumerate() {
            for question in moved.all[bounds[0]..bounds[1]].iter_mut().filter(|question| question.at == At::Mean) {
                question.at = At::Token(place(sequence));
            }
        }
        moved
    }

    /// Questions of a sequence in the mean; 1 if there is no sequence.
    pub fn per_sequence(&self) -> f64 {
        if self.sequences() == 0 { 1.0 } else { self.all.len() as f64 / self.sequences() as f64 }
    }

    /// All questions, sequence after sequence.
    pub fn all(&self) -> &[Question] {
        &self.all
    }

    /// The questions of a sequence.
    pub fn of_sequence(&self, sequence: usize) -> &[Question] {
        &self.all[self.starts[sequence]..self.starts[sequence + 1]]
    }

    /// A row of the distributions for soft targets.
    pub fn distribution(&self, row: u32) -> &[f32] {
        &self.distributions[row as usize * self.classes..][..self.classes]
    }

    /// Those of some sequences, in the given order: the questions of a batch.
    pub fn select(&self, sequences: impl IntoIterator<Item = usize>) -> Self {
        let none = Questions { distributions: self.distributions.clone(), classes: self.classes, ..Self::default() };
        sequences.into_iter().fold(none, |mut selected, sequence| {
            selected.all.extend_from_slice(self.of_sequence(sequence));
            selected.starts.push(selected.all.len());
            selected
        })
    }

    /// The sum of all weights, in double precision: what the sum of the weighted losses is divided by.
    pub fn total_weight(&self) -> f64 {
        self.all.iter().map(|question| f64::from(question.weight)).sum()
    }

    /// The class that counts as the correct answer: of a distribution the most probable one, the first of equal ones.
    pub fn correct_class(&self, target: Target) -> u16 {
        match target {
            Target::Class(class) => class,
            Target::Soft(row) => most_probable(self.distribution(row)),
        }
    }

    /// Share of the most frequent correct answer: what always giving the same answer gets right. None without questions.
    pub fn majority(&self) -> Option<f64> {
        let mut classes: Vec<u16> = self.all.iter().map(|question| self.correct_class(question.target)).collect();
        classes.sort_unstable();
        let most = classes.chunk_by(|one, other| one == other).map(<[u16]>::len).max()?;
        Some(most as f64 / classes.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classification_asks_once_at_the_mean() {
        let questions = Questions::classification([1, 0, 1]);
        assert_eq!((questions.sequences(), questions.all().len()), (3, 3));
        assert_eq!(questions.of_sequence(1), [Question { at: At::Mean, target: Target::Class(0), weight: 1.0 }]);
        assert_eq!((questions.total_weight(), questions.majority()), (3.0, Some(2.0 / 3.0)));
        assert_eq!(questions.independent_sequences(), 3);
    }

    #[test]
    fn many_questions_of_a_sequence_are_not_many_sequences() {
        let mut questions = Questions::next_token(&[1; 50], 5);
        assert_eq!((questions.all().len(), questions.independent_sequences()), (40, 10));
        questions.push([Question::classify(0); 40]);
        // Half of the answers are those of one sequence: 80² / (10 · 4² + 40²).
        assert_eq!((questions.sequences(), questions.independent_sequences()), (11, 3));
        assert_eq!(Questions::default().independent_sequences(), 0);
    }

    #[test]
    fn next_token_prediction_asks_at_all_tokens_but_the_last() {
        let questions = Questions::next_token(&[5, 6, 7, 8, 9, 5], 3);
        assert_eq!((questions.sequences(), questions.all().len()), (2, 4));
        let asked: Vec<_> = questions.of_sequence(1).iter().map(|question| (question.at, question.target)).collect();
        assert_eq!(asked, [(At::Token(0), Target::Class(9)), (At::Token(1), Target::Class(5))]);
        assert_eq!(Questions::next_token(&[1, 2], 1).all(), []);
    }

    #[test]
    fn selections_keep_order_repetitions_and_distributions() {
        let mut questions = Questions::with_distributions(vec![0.5, 0.5, 0.2, 0.8], 2);
        let soft = Question { at: At::Token(3), target: Target::Soft(1), weight: 0.25 };
        questions.push([]);
        questions.push([soft, Question::classify(0)]);
        questions.push([Question::classify(1)]);
        let selected = questions.select([2, 1, 0, 1]);
        assert_eq!((selected.sequences(), selected.all().len()), (4, 5));
        assert_eq!(selected.of_sequence(1), [soft, Question::classify(0)]);
        assert_eq!(selected.of_sequence(2), []);
        assert_eq!(selected.distribution(1), [0.2, 0.8]);
        assert_eq!((selected.total_weight(), questions.total_weight()), (3.5, 2.25));
        assert_eq!((selected.per_sequence(), Questions::default().per_sequence()), (1.25, 1.0));
    }

    #[test]
    fn the_first_of_the_most_probable_classes_is_correct() {
        let mut questions = Questions::with_distributions(vec![0.1, 0.45, 0.45, 1.0, 0.0, 0.0], 3);
        questions.push([0, 1, 0].map(|row| Question { at: At::Mean, target: Target::Soft(row), weight: 0.0 }));
        assert_eq!([0, 1].map(|row| questions.correct_class(Target::Soft(row))), [1, 0]);
        assert_eq!((questions.majority(), questions.total_weight()), (Some(2.0 / 3.0), 0.0));
        assert_eq!(Questions::default().majority(), None);
    }

    #[test]
    #[should_panic(expected = "a weight of NaN")]
    fn weights_are_numbers() {
        Questions::default().push([Question { weight: f32::NAN, ..Question::classify(0) }]);
    }

    #[test]
    fn sequences_bring_their_own_distributions() {
        let first = Answers::soft([(0, vec![0.5, 0.5]), (3, vec![0.2, 0.8])]);
        let second = Answers::from_iter([Question::classify(1)]);
        let mut questions = Questions::over(2);
        [&first, &second, &first].into_iter().for_each(|answers| questions.push_answers(answers));
        let selected = questions.select([2, 1]);
        let targets: Vec<Target> = selected.all().iter().map(|question| question.target).collect();
        assert_eq!(targets, [Target::Soft(2), Target::Soft(3), Target::Class(1)]);
        assert_eq!((selected.distribution(2), selected.distribution(3)), (&[0.5, 0.5][..], &[0.2, 0.8][..]));
        assert_eq!(first.distribution(Target::Soft(1), 2), Some(&[0.2, 0.8][..]));
        assert_eq!(first.distribution(Target::Soft(2), 2), None);
        let correct = [Target::Soft(0), Target::Soft(1), Target::Class(1)].map(|target| first.correct_class(target, 2));
        assert_eq!(correct, [Some(0), Some(1), Some(1)]);
        // A selection keeps its rows when more are added.
        questions.push_answers(&first);
        assert_eq!((selected.distribution(3), questions.sequences()), (&[0.2, 0.8][..], 4));
    }

    #[test]
    #[should_panic(expected = "row 1 is not a distribution: [0.5, 0.0]")]
    fn distributions_sum_to_one() {
        Questions::with_distributions(vec![0.5, 0.5, 0.5, 0.0], 2);
    }
}
