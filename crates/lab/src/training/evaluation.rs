//! Loss and accuracy from logits.

use semfocus_core::Evaluation;
use semfocus_tasks::Label;

/// How many sequences are evaluated together: few enough that their activations stay in the caches. Results depend on it: `randomk`
/// draws by position in the batch, and sums are in the order of the batches.
pub const BATCH: usize = 50;

/// Sums loss and correct answers, in double precision and in the given order.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    loss: f64,
    correct: usize,
    examples: usize,
}

impl Tally {
    /// Adds some examples, given one row of logits for each.
    pub fn add(&mut self, logits: &[f32], labels: &[Label]) {
        for (logits, &label) in logits.chunks_exact(logits.len() / labels.len()).zip(labels) {
            self.loss += cross_entropy(logits, usize::from(label));
            self.correct += usize::from(highest(logits) == usize::from(label));
        }
        self.examples += labels.len();
    }

    /// Counts examples that were not evaluated as wrong answers without loss.
    pub fn add_skipped(&mut self, examples: usize) {
        self.examples += examples;
    }

    /// Mean loss and share of correct answers.
    pub fn result(&self) -> Evaluation {
        let count = self.examples as f64;
        Evaluation { loss: self.loss / count, accuracy: self.correct as f64 / count }
    }
}

/// Cross-entropy of logits and a label, in double precision.
fn cross_entropy(logits: &[f32], label: usize) -> f64 {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|&logit| f64::from(logit - max).exp()).sum();
    sum.ln() - f64::from(logits[label] - max)
}

/// The class with the highest logit; the first of equal ones.
fn highest(logits: &[f32]) -> usize {
    let mut best = 0;
    for (class, logit) in logits.iter().enumerate() {
        if *logit > logits[best] {
            best = class;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_and_answer_of_a_few_logits() {
        // ln(1 + e^-2), ln(1 + e^2), from the definition.
        assert!((cross_entropy(&[2.0, 0.0], 0) - 0.126_928_011_042_972_5).abs() < 1e-12);
        assert!((cross_entropy(&[2.0, 0.0], 1) - 2.126_928_011_042_972_5).abs() < 1e-12);
        assert!((cross_entropy(&[1e4, -1e4, 0.0], 1) - 2e4).abs() < 1e-9);
        assert!(cross_entropy(&[f32::NAN, 0.0], 1).is_nan());
        assert_eq!((highest(&[0.0, 1.0, 1.0]), highest(&[0.0, 0.0])), (1, 0));
    }
}
