//! Loss and accuracy from answers.

use semfocus_core::{Evaluation, Question, Questions};
use semfocus_nn::Answer;

/// How many sequences are evaluated together: few enough that their activations stay in the caches. Results depend on it: `randomk`
/// draws by position in the batch, and sums are in the order of the batches.
pub const BATCH: usize = 50;

/// Sums losses by the weights of their questions and counts correct answers, in double precision and in the given order.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    loss: f64,
    weight: f64,
    correct: usize,
    answers: usize,
}

impl Tally {
    /// Adds the answers to some questions.
    ///
    /// # Panics
    /// If there is not one answer for each question.
    pub fn add(&mut self, answers: &[Answer], questions: &Questions) {
        assert_eq!(answers.len(), questions.all().len(), "one answer for each question");
        for (answer, question) in answers.iter().zip(questions.all()) {
            self.add_answer(answer, question, questions);
        }
        self.add_skipped(questions);
    }

    /// Adds one of `questions`, and its answer if it was asked.
    pub(super) fn add_question(&mut self, answer: Option<&Answer>, question: &Question, questions: &Questions) {
        if let Some(answer) = answer {
            self.add_answer(answer, question, questions);
        }
        self.weight += f64::from(question.weight);
        self.answers += 1;
    }

    fn add_answer(&mut self, answer: &Answer, question: &Question, questions: &Questions) {
        self.loss += f64::from(question.weight) * answer.loss;
        self.correct += usize::from(answer.class == usize::from(questions.correct_class(question.target)));
    }

    /// Counts questions that were not asked as wrong answers without loss.
    pub fn add_skipped(&mut self, questions: &Questions) {
        self.weight += questions.total_weight();
        self.answers += questions.all().len();
    }

    /// Whether any of its questions has a weight.
    pub(super) fn counts(&self) -> bool {
        self.weight > 0.0
    }

    /// Number of questions.
    pub(super) fn answers(&self) -> usize {
        self.answers
    }

    /// Mean loss by the weights of the questions, and share of correct answers.
    pub fn result(&self) -> Evaluation {
        Evaluation { loss: self.loss / self.weight, accuracy: self.correct as f64 / self.answers as f64 }
    }
}

#[cfg(test)]
mod tests {
    use semfocus_core::Question;

    use super::*;

    #[test]
    fn weights_count_for_the_loss_and_answers_for_the_accuracy() {
        let mut questions = Questions::classification([1]);
        questions.push([Question { weight: 3.0, ..Question::classify(0) }, Question::classify(2)]);
        questions.push([]);
        let answers = [(1.0, 1), (2.0, 0), (4.0, 0)].map(|(loss, class)| Answer { loss, class });
        let mut tally = Tally::default();
        tally.add(&answers, &questions);
        assert_eq!(tally.result(), Evaluation { loss: 11.0 / 5.0, accuracy: 2.0 / 3.0 });
        tally.add_skipped(&Questions::classification([0]));
        assert_eq!(tally.result(), Evaluation { loss: 11.0 / 6.0, accuracy: 0.5 });
    }
}
