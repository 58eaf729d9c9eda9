//! From numbers to words, by stated rules. Words and intervals come from the same decision.

use serde::Serialize;

use super::accuracy::AccuracyDifference;
use super::comparison::Comparison;
use super::speedup::Ratio;
use super::unit::Unit;
use crate::stats::{Interval, SignFlips, student_quantile};

/// A finding is significant if its corrected p-value is smaller.
pub const LEVEL: f64 = 0.05;

/// Accuracies that differ by no more than this, one percentage point, count as the same.
pub const MARGIN: f64 = 0.01;

/// The rule for [`Learning`], as users read it.
pub const LEARNING_RULE: &str = "learns faster or slower: permutation log-rank test of the epochs needed to reach the target, \
p < 0.05 after Holm's correction over the comparisons. Trials that have not reached the target are censored, not dropped. The \
interval of the speed-up comes from the same test and excludes 1 exactly if the difference is significant. With too few seeds for \
any p below 0.05, the verdict says how many a test needs, and whether all seeds agree.";

/// The rule for [`Generalisation`], as users read it.
pub const GENERALISATION_RULE: &str = "generalises better, worse or the same: all three follow from one interval of the mean paired \
difference in accuracy at the best epoch. It combines a sign-flip test over the seeds with the sampling error of the held-out set (the \
test set, if there is one) and is widened for the number of comparisons. The same: it lies within ±1 percentage point, and every trial \
of both is clearly above the majority class; the verdict says which failure rates that rules out. Better or worse: it excludes 0. \
Accuracies are not compared unless at least one side is clearly above the majority class. With too few seeds for an interval, the \
verdict says how many a test needs, and whether all seeds agree.";

/// Whether a mechanism learns faster than the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Learning {
    /// It needs significantly fewer epochs.
    Faster,
    /// It needs significantly more epochs.
    Slower,
    /// No difference is shown.
    NoEvidence,
    /// It needs fewer epochs with every seed, but there are too few seeds for a test.
    FasterInAll,
    /// It needs more epochs with every seed, but there are too few seeds for a test.
    SlowerInAll,
}

/// Whether a mechanism generalises better than the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Generalisation {
    /// Its accuracy is significantly higher.
    Better,
    /// Its accuracy is significantly lower.
    Worse,
    /// The accuracies are the same within [`MARGIN`], and no trial failed to learn.
    Same,
    /// Neither a difference nor its absence is shown.
    NoEvidence,
    /// The accuracy is higher with every seed, but there are too few seeds for a test.
    BetterInAll,
    /// The accuracy is lower with every seed, but there are too few seeds for a test.
    WorseInAll,
    /// Neither side is clearly above the majority class, so there is nothing to compare.
    NotLearned,
}

/// A finding, and the words in which it is reported.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict<T> {
    /// As a value.
    pub finding: T,
    /// As users read it.
    pub words: String,
    /// Which side the data favour: positive is better.
    #[serde(skip)]
    pub(super) lean: f64,
}

impl<T> Verdict<T> {
    /// Before the correction for several comparisons.
    pub(super) fn undecided(finding: T, lean: f64) -> Self {
        Verdict { finding, words: String::new(), lean }
    }
}

impl Verdict<Learning> {
    /// The verdict on one of several comparisons.
    pub(super) fn on_learning(comparison: &Comparison, unit: Unit) -> Self {
        let (lean, pairs) = (comparison.learning.lean, comparison.pairs);
        let p = comparison.log_rank.p_value;
        let is_shown = p < comparison.log_rank_level;
        let needed = comparison.seeds_needed;
        let all_agree = pairs < needed && p <= min_log_rank_p(pairs) + 1e-9;
        let finding = match () {
            () if is_shown && lean > 0.0 => Learning::Faster,
            () if is_shown => Learning::Slower,
            // If all seeds agree, the permutation test cannot give a lower p-value.
            () if all_agree && lean > 0.0 => Learning::FasterInAll,
            () if all_agree && lean < 0.0 => Learning::SlowerInAll,
            () => Learning::NoEvidence,
        };
        let ratio = comparison.epochs.map(|speedup| speedup.ratio);
        let interval = comparison.epochs.and_then(|speedup| speedup.interval);
        let spread = |ends: fn(Interval) -> (f64, f64)| {
            interval.map(ends).map_or(String::new(), |(low, high)| format!("95 % interval {low:.1} to {high:.1}, "))
        };
        let p_value = p_equation(comparison.log_rank_adjusted);
        let (faster, slower) = (spread(|i| (i.low, i.high)), spread(|i| (1.0 / i.high, 1.0 / i.low)));
        let (fewer, more) = (fewer(ratio, unit), more(ratio, unit));
        let words = match finding {
            Learning::Faster => format!("learns in {fewer} ({faster}{p_value})"),
            Learning::Slower => format!("needs {more} ({slower}{p_value})"),
            Learning::FasterInAll => format!("needs {fewer} with {} ({})", all_seeds(pairs), too_few(pairs, needed)),
            Learning::SlowerInAll => format!("needs {more} with {} ({})", all_seeds(pairs), too_few(pairs, needed)),
            Learning::NoEvidence if comparison.reached == 0 => {
                "speed cannot be compared, because no trial of either reached the target".to_owned()
            }
            Learning::NoEvidence if pairs < needed => {
                format!("no evidence of a difference in speed ({})", too_few(pairs, needed))
            }
            Learning::NoEvidence => {
                // A factor below 1 is a slow-down; the interval has both sides, so all three are factors.
                let size = interval.zip(ratio).map_or(String::new(), |(interval, ratio)| {
                    let (low, high) = (interval.low, interval.high);
                    format!("speed-up {:.2}×, 95 % interval {low:.2} to {high:.2}, ", ratio.value())
                });
                format!("no evidence of a difference in speed ({size}{p_value})")
            }
        };
        Verdict { finding, words, lean }
    }
}

impl Verdict<Generalisation> {
    /// The verdict on one of `compared` comparisons.
    pub(super) fn on_generalisation(comparison: &Comparison, compared: usize) -> Self {
        let Some(accuracy) = &comparison.accuracy else {
            let words = "generalisation: no pair of trials has finished yet".to_owned();
            return Verdict { finding: Generalisation::NoEvidence, words, lean: 0.0 };
        };
        let mean = accuracy.differences.mean;
        let (finding, words) = generalisation(accuracy, compared);
        Verdict { finding, words, lean: mean }
    }
}

fn generalisation(accuracy: &AccuracyDifference, compared: usize) -> (Generalisation, String) {
    let (mean, pairs) = (accuracy.differences.mean, accuracy.differences.pairs);
    let points = |x: f64| format!("{:+.1}", 100.0 * x).replace('-', "−");
    if !accuracy.learned {
        let words = "generalisation cannot be compared, because neither is clearly above the majority class".to_owned();
        return (Generalisation::NotLearned, words);
    }
    let split = accuracy.split.name();
    let Some(interval) = accuracy.interval else {
        let needed = seeds_needed(compared, SignFlips::min_p);
        let (low, high) = (points(accuracy.range.low), points(accuracy.range.high));
        let size = match () {
            () if low == high && points(mean.abs()) == points(0.0) => format!("same {split} accuracy"),
            () if low == high => format!("{split} accuracy {low} points"),
            () => format!("{split} accuracy {} points, from {low} to {high} over the seeds", points(mean)),
        };
        let too_few = too_few(pairs, needed);
        let is_shown = accuracy.is_one_sided() && mean.abs() >= MARGIN;
        return match () {
            () if is_shown && mean > 0.0 => {
                (Generalisation::BetterInAll, format!("more accurate with {}: {size} ({too_few})", all_seeds(pairs)))
            }
            () if is_shown => {
                (Generalisation::WorseInAll, format!("less accurate with {}: {size} ({too_few})", all_seeds(pairs)))
            }
            () => (Generalisation::NoEvidence, format!("{size} ({too_few})")),
        };
    };
    let size = format!(
        "{split} accuracy {} points, 95 % interval {} to {}",
        points(mean),
        points(interval.low),
        points(interval.high)
    );
    match () {
        () if interval.low >= -MARGIN && interval.high <= MARGIN && accuracy.failed == 0 => {
            let rate = 100.0 * unseen_failures(pairs, compared);
            let failures = format!("no trial failed to learn, which rules out failure rates above {rate:.0} %");
            (Generalisation::Same, format!("generalises the same within ±1 point ({size}; {failures})"))
        }
        () if interval.low > 0.0 => (Generalisation::Better, format!("generalises better ({size})")),
        () if interval.high < 0.0 => (Generalisation::Worse, format!("generalises worse ({size})")),
        () => {
            let mut why = String::new();
            if is_too_small(accuracy) {
                why += &format!("; {} {split} examples are too few to show a difference of 1 point", accuracy.examples);
            }
            if accuracy.failed > 0 {
                why += &format!("; {} of {} trials failed to learn", accuracy.failed, 2 * pairs);
            }
            (Generalisation::NoEvidence, format!("no evidence of a difference in generalisation ({size}{why})"))
        }
    }
}

/// The highest rate of failures that is compatible with no failure in this number of trials, at a level that is divided among the
/// comparisons.
pub fn unseen_failures(trials: usize, compared: usize) -> f64 {
    1.0 - (LEVEL / compared.max(1) as f64).powf(1.0 / trials as f64)
}

/// Whether the sampling error alone makes the interval wider than the margin on both sides, even near 100 %.
fn is_too_small(accuracy: &AccuracyDifference) -> bool {
    let (examples, pairs) = (accuracy.examples as f64, accuracy.differences.pairs);
    let share = (examples + 2.0) / (examples + 4.0);
    let error = (2.0 * share * (1.0 - share) / examples / pairs as f64).sqrt();
    student_quantile(accuracy.level, pairs - 1) * error > MARGIN
}

/// `2.6× fewer epochs`; without a number where the bound on it is no more than 1.
pub(super) fn fewer(ratio: Option<Ratio>, unit: Unit) -> String {
    match ratio.filter(|ratio| ratio.value() >= 1.05) {
        Some(Ratio::Exactly(value)) => format!("{value:.1}× fewer {}", unit.name()),
        Some(Ratio::MoreThan(value)) => format!("at least {value:.1}× fewer {}", unit.name()),
        Some(Ratio::LessThan(value)) => format!("at most {value:.1}× fewer {}", unit.name()),
        None => format!("fewer {}", unit.name()),
    }
}

/// `1.8× as many epochs`; without a number where the bound on it is no more than 1.
pub(super) fn more(ratio: Option<Ratio>, unit: Unit) -> String {
    match ratio.map(inverse).filter(|ratio| ratio.value() >= 1.05) {
        Some(Ratio::Exactly(value)) => format!("{value:.1}× as many {}", unit.name()),
        Some(Ratio::MoreThan(value)) => format!("at least {value:.1}× as many {}", unit.name()),
        Some(Ratio::LessThan(value)) => format!("at most {value:.1}× as many {}", unit.name()),
        None => format!("more {}", unit.name()),
    }
}

/// The slow-down that a speed-up is.
fn inverse(ratio: Ratio) -> Ratio {
    match ratio {
        Ratio::Exactly(value) => Ratio::Exactly(1.0 / value),
        Ratio::MoreThan(value) => Ratio::LessThan(1.0 / value),
        Ratio::LessThan(value) => Ratio::MoreThan(1.0 / value),
    }
}

fn all_seeds(count: usize) -> String {
    match count {
        1 => "the only seed".to_owned(),
        2 => "both seeds".to_owned(),
        _ => format!("all {count} seeds"),
    }
}

/// For comparisons in which not even complete agreement of the seeds could be significant.
fn too_few(seeds: usize, needed: usize) -> String {
    match seeds {
        1 => format!("1 seed is too few for a test, which needs {needed}"),
        _ => format!("{seeds} seeds are too few for a test, which needs {needed}"),
    }
}

/// A p-value in a table: `0.024`, `< 0.001`.
pub fn p_text(p: f64) -> String {
    if p < 0.001 { "< 0.001".to_owned() } else { format!("{p:.3}") }
}

/// A p-value in a sentence: `p = 0.024`, `p < 0.001`.
pub(super) fn p_equation(p: f64) -> String {
    if p < 0.001 { "p < 0.001".to_owned() } else { format!("p = {p:.3}") }
}

/// How many seeds a test needs to be able to show something in each of a number of comparisons.
pub(super) fn seeds_needed(compared: usize, min_p: fn(usize) -> f64) -> usize {
    (1..64).find(|&seeds| min_p(seeds) < LEVEL / compared.max(1) as f64).unwrap_or(64)
}

/// The lowest p-value that the permutation log-rank test can give with this many trials per group.
pub(super) fn min_log_rank_p(pairs: usize) -> f64 {
    let divisions: f64 = (1..=pairs).map(|i| (pairs + i) as f64 / i as f64).product();
    2.0 / divisions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_told_as_people_do() {
        let (two, bound, one) = (Ratio::Exactly(2.04), Ratio::MoreThan(1.04), Ratio::LessThan(0.56));
        let told = [fewer(Some(two), Unit::Epochs), fewer(Some(bound), Unit::Steps(5)), more(Some(one), Unit::Epochs)];
        assert_eq!(told, ["2.0× fewer epochs", "fewer steps", "at least 1.8× as many epochs"]);
        assert_eq!(too_few(1, 5), "1 seed is too few for a test, which needs 5");
    }

    #[test]
    fn smallest_possible_p_values() {
        // 20 divisions of 3 + 3, 252 of 5 + 5; 8 and 1,024 choices of signs.
        assert!((min_log_rank_p(3) - 0.1).abs() < 1e-8);
        assert!((min_log_rank_p(5) - 2.0 / 252.0).abs() < 1e-8);
        assert_eq!((SignFlips::min_p(3), SignFlips::min_p(10)), (0.25, 2.0 / 1024.0));
    }

    #[test]
    fn seeds_that_a_test_takes() {
        assert_eq!([1, 3, 14].map(|compared| seeds_needed(compared, min_log_rank_p)), [4, 5, 6]);
        assert_eq!([1, 3, 14].map(|compared| seeds_needed(compared, SignFlips::min_p)), [6, 7, 10]);
    }

    #[test]
    fn failures_that_go_unseen() {
        // 0.95^59 is the first power below 0.05.
        assert!(unseen_failures(58, 1) > 0.05 && unseen_failures(59, 1) < 0.05);
        assert!((unseen_failures(7, 1) - 0.3482).abs() < 1e-4 && unseen_failures(7, 3) > unseen_failures(7, 1));
    }

    #[test]
    fn p_values_are_written_short() {
        assert_eq!([0.0001, 0.0238, 1.0].map(p_text), ["< 0.001", "0.024", "1.000"]);
        assert_eq!([0.0001, 0.0238].map(p_equation), ["p < 0.001", "p = 0.024"]);
    }
}
