//! The loss of the best possible predictor, and that of a predictor that knows only how frequent the classes are.

use semfocus_core::question::{Answers, Questions, Target};

use crate::split::Split;

/// The mean loss of a predictor over the questions of several sequences, by their weights.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Mean {
    loss: f64,
    weight: f64,
}

impl Mean {
    /// Adds the answers of a sequence, where a predictor gives these distributions, or classes with certainty, at the same questions.
    pub(crate) fn add(&mut self, answers: &Answers, predicted: &Answers, classes: usize) {
        for (question, prediction) in answers.questions.iter().zip(&predicted.questions) {
            let target = answers.distribution(question.target, classes);
            let predicted = predicted.distribution(prediction.target, classes);
            let loss = cross_entropy(question.target, target, |class| match (prediction.target, predicted) {
                (_, Some(shares)) => f64::from(shares[class]),
                (certain, None) => f64::from(u8::from(certain == Target::Class(class as u16))),
            });
            self.loss += f64::from(question.weight) * loss;
            self.weight += f64::from(question.weight);
        }
    }

    /// The mean; none if nothing counts.
    pub(crate) fn value(self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.loss / self.weight)
    }
}

/// `-Σ target · ln predicted` over the classes, in nats. `shares` is the distribution of a soft target.
fn cross_entropy(target: Target, shares: Option<&[f32]>, predicted: impl Fn(usize) -> f64) -> f64 {
    match (target, shares) {
        (Target::Class(class), _) => -libm::log(predicted(usize::from(class))),
        (Target::Soft(_), shares) => {
            let shares = shares.unwrap_or(&[]).iter().enumerate().filter(|(_, share)| **share > 0.0);
            shares.map(|(class, &share)| -f64::from(share) * libm::log(predicted(class))).sum()
        }
    }
}

impl Split {
    /// The mean loss on these questions of the unigram predictor: it always gives the frequencies that the classes have among the targets of
    /// `train`, each class counted once more, so that none is impossible. None without questions that count.
    pub fn unigram_loss(&self, train: &Split, classes: usize) -> Option<f64> {
        let (counts, all) = (frequencies(&train.questions, classes), train.questions.total_weight());
        let share = |class: usize| (counts[class] + 1.0) / (all + classes as f64);
        let of_class: Vec<f64> = (0..classes).map(|class| -libm::log(share(class))).collect();
        let weight = self.questions.total_weight();
        let loss: f64 =
            frequencies(&self.questions, classes).iter().zip(of_class).map(|(count, loss)| count * loss).sum();
        (weight > 0.0).then(|| loss / weight)
    }
}

/// How often each class is a target, by the weights of the questions and the shares of distributions.
fn frequencies(questions: &Questions, classes: usize) -> Vec<f64> {
    let mut counts = vec![0.0; classes];
    for question in questions.all() {
        let weight = f64::from(question.weight);
        match question.target {
            Target::Class(class) => counts[usize::from(class)] += weight,
            Target::Soft(row) => {
                let shares = questions.distribution(row).iter();
                counts.iter_mut().zip(shares).for_each(|(count, share)| *count += weight * f64::from(*share));
            }
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use semfocus_core::question::{At, Question};

    use super::*;

    fn asked(target: Target, weight: f32) -> Question {
        Question { at: At::Mean, target, weight }
    }

    fn answers(questions: &[Question], distributions: &[f32]) -> Answers {
        Answers { questions: questions.to_vec(), distributions: distributions.to_vec() }
    }

    fn mean(answers: &Answers, predicted: &Answers) -> f64 {
        let mut mean = Mean::default();
        mean.add(answers, predicted, 2);
        mean.value().unwrap()
    }

    #[test]
    fn floors_are_cross_entropies_under_the_prediction() {
        let certain = answers(&[asked(Target::Class(1), 1.0)], &[]);
        assert_eq!(mean(&certain, &certain), 0.0);
        let soft = answers(&[asked(Target::Soft(0), 1.0), asked(Target::Soft(1), 3.0)], &[0.25, 0.75, 0.0, 1.0]);
        let entropy = -0.25 * 0.25f64.ln() - 0.75 * 0.75f64.ln();
        assert!((mean(&soft, &soft) - entropy / 4.0).abs() < 1e-12, "by weight; a certain answer has no entropy");
        let drawn = answers(&[asked(Target::Class(0), 1.0), asked(Target::Class(1), 3.0)], &[]);
        assert!((mean(&drawn, &soft) + 0.25f64.ln() / 4.0).abs() < 1e-12);
        let row = answers(&[asked(Target::Soft(0), 1.0), asked(Target::Class(1), 3.0)], &[0.5, 0.5]);
        let expected = -0.5 * (0.25f64.ln() + 0.75f64.ln());
        assert!((mean(&row, &soft) - expected / 4.0).abs() < 1e-12);
        assert_eq!(mean(&answers(&[asked(Target::Class(0), 1.0)], &[]), &certain), f64::INFINITY);
        assert_eq!(Mean::default().value(), None);
    }

    #[test]
    fn the_unigram_predictor_counts_training_targets_and_nothing_is_impossible() {
        let split = |answers: &Answers| {
            let mut split = Split::new(1, 3);
            split.push(&[0], answers, 9);
            split
        };
        // Counts 2.5 and 1.5 of three classes, each once more: 3.5 / 7, 2.5 / 7, 1 / 7.
        let train = split(&answers(&[asked(Target::Class(0), 2.0), asked(Target::Soft(0), 2.0)], &[0.25, 0.75, 0.0]));
        let held_out = split(&answers(&[asked(Target::Class(2), 1.0), asked(Target::Soft(0), 3.0)], &[0.5, 0.5, 0.0]));
        let expected = -((1.0f64 / 7.0).ln() + 1.5 * 0.5f64.ln() + 1.5 * (2.5f64 / 7.0).ln()) / 4.0;
        assert!((held_out.unigram_loss(&train, 3).unwrap() - expected).abs() < 1e-12);
        assert_eq!(Split::new(1, 3).unigram_loss(&train, 3), None);
        // Without training examples every class is as likely as any other.
        assert!((held_out.unigram_loss(&Split::new(1, 3), 3).unwrap() - 3f64.ln()).abs() < 1e-12);
    }
}
