//! Paired differences of an accuracy: one interval, and every statement follows from it.

use serde::Serialize;

use super::measures::Measures;
use super::verdict::LEVEL;
use crate::stats::{Differences, Interval, SignFlips, mean, student_quantile, student_two_sided};

/// Which examples an accuracy was measured with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// Held-out examples, by which the best epoch was chosen: the accuracies are a little too high on both sides.
    HeldOut,
    /// Test examples, which nothing was chosen by.
    Test,
}

impl Split {
    /// As it is written in sentences.
    pub fn name(self) -> &'static str {
        match self {
            Split::HeldOut => "held-out",
            Split::Test => "test",
        }
    }
}

/// Paired differences of the accuracy at the best epoch: mechanism minus baseline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AccuracyDifference {
    /// How large they are.
    pub differences: Differences,
    /// The lowest and the highest of them.
    pub range: Interval,
    /// Where the accuracies come from.
    pub split: Split,
    /// Examples of the split, in the trial that has the fewest.
    pub examples: usize,
    /// Whether at least one side is clearly above the majority class in most of its trials.
    pub learned: bool,
    /// Trials of both sides that are not clearly above the majority class.
    pub failed: usize,
    /// Standard error of the mean, with the sampling error of the split.
    pub standard_error: Option<f64>,
    /// The larger of two p-values: that of the sign-flip test over seeds, and that of a t-test with the sampling error of
    /// the split.
    pub p_value: f64,
    /// The p-value after Holm's correction over the comparisons.
    pub adjusted: f64,
    /// The level at which Holm's procedure decides this comparison.
    pub level: f64,
    /// The interval of the mean at that level, which excludes 0 exactly if the p-value is below it. None if there are too few
    /// seeds.
    pub interval: Option<Interval>,
    #[serde(skip)]
    flips: SignFlips,
}

impl AccuracyDifference {
    /// From the two sides of each pair, baseline first, before the correction for several comparisons. None without pairs.
    pub(super) fn new(pairs: &[(&Measures, &Measures)], trials: usize, seed: u64) -> Option<Self> {
        let is_tested = pairs.iter().all(|(one, other)| one.test_accuracy.and(other.test_accuracy).is_some());
        let split = if is_tested { Split::Test } else { Split::HeldOut };
        let sides: Vec<[Side; 2]> = pairs
            .iter()
            .map(|(baseline, mechanism)| [Side::new(baseline, split), Side::new(mechanism, split)])
            .collect();
        // Rounded, so that equal differences tie.
        let difference =
            |[baseline, mechanism]: &[Side; 2]| ((mechanism.accuracy - baseline.accuracy) * 1e9).round() / 1e9;
        let differences: Vec<f64> = sides.iter().map(difference).collect();
        let flips = SignFlips::new(&differences, seed)?;
        let standard_error = standard_error(&differences, &sides);
        let average = mean(&differences)?;
        let t_test = standard_error.map_or(1.0, |error| student_two_sided(average / error, differences.len() - 1));
        let learned = [pairs.iter().map(|pair| pair.0).collect::<Vec<_>>(), pairs.iter().map(|pair| pair.1).collect()]
            .map(|side| side.iter().filter(|measures| is_learned(measures.luck, trials)).count());
        let p_value = flips.p_value().max(t_test);
        let bound = |better: fn(f64, f64) -> f64| differences.iter().copied().reduce(better).unwrap_or(0.0);
        Some(AccuracyDifference {
            range: Interval { low: bound(f64::min), high: bound(f64::max) },
            differences: Differences::new(&differences)?,
            split,
            examples: sides.iter().flatten().map(|side| side.examples).min()?,
            learned: learned.iter().any(|count| 2 * count >= pairs.len()),
            failed: 2 * pairs.len() - learned.iter().sum::<usize>(),
            standard_error,
            p_value,
            adjusted: p_value,
            level: LEVEL,
            interval: None,
            flips,
        })
    }

    /// Sets what follows from the correction for several comparisons.
    pub(super) fn correct(&mut self, adjusted: f64, level: f64) {
        (self.adjusted, self.level) = (adjusted, level);
        self.interval = self.flips.interval(level).zip(self.standard_error).map(|(flips, error)| {
            let width = student_quantile(level, self.differences.pairs - 1) * error;
            let mean = self.differences.mean;
            Interval { low: flips.low.min(mean - width), high: flips.high.max(mean + width) }
        });
    }

    /// Whether the mechanism is better with all seeds, or worse with all.
    pub fn is_one_sided(&self) -> bool {
        self.range.low > 0.0 || self.range.high < 0.0
    }
}

/// Whether a trial is so far above the majority class that luck would not explain it in any of this number of trials.
pub(super) fn is_learned(luck: f64, trials: usize) -> bool {
    luck * (trials as f64) < LEVEL
}

/// One trial of a pair.
struct Side {
    accuracy: f64,
    examples: usize,
    /// Whether trials with other seeds are measured with the same examples.
    is_shared: bool,
}

impl Side {
    fn new(measures: &Measures, split: Split) -> Self {
        let (accuracy, examples) = match split {
            Split::Test => (measures.test_accuracy.unwrap_or(f64::NAN), measures.test),
            Split::HeldOut => (measures.best_heldout_accuracy, measures.held_out),
        };
        Side { accuracy, examples: examples.max(1), is_shared: measures.is_data_shared }
    }

    /// The variance that comes from the choice of the examples, as if there were four more, two of them right (Agresti and
    /// Coull 1998): it is not 0 where all answers are right.
    fn sampling_variance(&self) -> f64 {
        let examples = self.examples as f64;
        let share = (self.accuracy * examples + 2.0) / (examples + 4.0);
        share * (1.0 - share) / examples
    }
}

/// Standard error of the mean difference. If every seed has its own examples, their sampling error is part of the spread over
/// seeds, which therefore counts as no smaller than it; if all seeds share their examples, it is added to the spread. Both
/// models of a pair see the same examples, which can only make the error smaller than it is taken to be here.
fn standard_error(differences: &[f64], sides: &[[Side; 2]]) -> Option<f64> {
    let count = differences.len() as f64;
    let average = mean(differences)?;
    if differences.len() < 2 {
        return None;
    }
    let spread = differences.iter().map(|d| (d - average).powi(2)).sum::<f64>() / (count - 1.0) / count;
    let sampling = sides.iter().flatten().map(Side::sampling_variance).sum::<f64>() / count;
    let is_shared = sides.iter().flatten().any(|side| side.is_shared);
    let variance = if is_shared { spread + sampling } else { spread.max(sampling / count) };
    Some(variance.sqrt())
}
