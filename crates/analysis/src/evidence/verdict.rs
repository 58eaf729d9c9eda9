//! From numbers to words, by stated rules.

use serde::Serialize;

use super::comparison::Comparison;
use super::speedup::Ratio;
use crate::stats::MIN_VALUES;

/// A finding is significant if its corrected p-value is smaller.
pub const LEVEL: f64 = 0.05;

/// Accuracies that differ by no more than this, one percentage point, count as the same.
pub const MARGIN: f64 = 0.01;

/// The rule for [`Learning`], as users read it.
pub const LEARNING_RULE: &str = "learns faster or slower: permutation log-rank test of the epochs needed to reach the target, \
p < 0.05 after Holm's correction over the mechanisms of the experiment. Trials that have not reached the target are censored, not \
dropped. With too few seeds for a significance test (no p below 0.05 is possible), the verdict only says whether all seeds agree.";

/// The rule for [`Generalisation`], as users read it.
pub const GENERALISATION_RULE: &str = "generalises the same: the 95 % BCa bootstrap interval of the mean paired difference in best \
held-out accuracy lies within ±1 percentage point. Generalises better or worse: it does not, and the exact signed-rank test of the \
differences gives p < 0.05 after Holm's correction. With too few seeds for a significance test, the verdict only says whether all \
seeds agree.";

/// Said where not even complete agreement of the seeds could be significant.
const TOO_FEW: &str = "too few seeds for a significance test";

/// Whether a mechanism learns faster than full attention.
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

/// Whether a mechanism generalises better than full attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Generalisation {
    /// Its held-out accuracy is significantly higher.
    Better,
    /// Its held-out accuracy is significantly lower.
    Worse,
    /// The accuracies are the same within [`MARGIN`].
    Same,
    /// Neither a difference nor its absence is shown.
    NoEvidence,
    /// The accuracy is higher with every seed, but there are too few seeds for a test.
    BetterInAll,
    /// The accuracy is lower with every seed, but there are too few seeds for a test.
    WorseInAll,
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
    /// Before the correction for several mechanisms.
    pub(super) fn undecided(finding: T, lean: f64) -> Self {
        Verdict { finding, words: String::new(), lean }
    }
}

impl Verdict<Learning> {
    /// The verdict on one of `compared` comparisons.
    pub(super) fn on_learning(comparison: &Comparison, compared: usize) -> Self {
        let (lean, pairs) = (comparison.learning.lean, comparison.pairs);
        let p = comparison.log_rank_adjusted;
        let too_few = compared as f64 * min_log_rank_p(pairs) >= LEVEL;
        let ratio = comparison.epochs.map(|speedup| speedup.ratio);
        let finding = match () {
            () if p < LEVEL && lean > 0.0 => Learning::Faster,
            () if p < LEVEL => Learning::Slower,
            // If all seeds agree, the permutation test cannot give a lower p-value.
            () if too_few && lean > 0.0 && comparison.log_rank.p_value <= min_log_rank_p(pairs) => {
                Learning::FasterInAll
            }
            () if too_few && lean < 0.0 && comparison.log_rank.p_value <= min_log_rank_p(pairs) => {
                Learning::SlowerInAll
            }
            () => Learning::NoEvidence,
        };
        let speedup = ratio.map_or(String::new(), |ratio| format!(", {} fewer epochs", times(ratio)));
        let p_value = p_equation(p);
        let words = match finding {
            Learning::Faster => format!("learns faster{speedup} ({p_value})"),
            Learning::Slower => format!("learns slower ({p_value})"),
            Learning::FasterInAll => format!("faster with {}{speedup}; {TOO_FEW}", all_seeds(pairs)),
            Learning::SlowerInAll => format!("slower with {}; {TOO_FEW}", all_seeds(pairs)),
            Learning::NoEvidence if too_few => {
                format!("no evidence of a difference in speed ({}: {TOO_FEW})", seeds(pairs))
            }
            Learning::NoEvidence => format!("no evidence of a difference in speed ({p_value})"),
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
        let pairs = accuracy.differences.pairs;
        let (mean, p) = (accuracy.differences.mean, accuracy.adjusted);
        let too_few = compared as f64 * min_signed_rank_p(pairs) >= LEVEL;
        let points = |x: f64| format!("{:+.1}", 100.0 * x).replace('-', "−");
        let Some(interval) = accuracy.interval else {
            let why = if pairs < MIN_VALUES { "too few seeds for an interval" } else { "no interval" };
            let words = format!("held-out accuracy {} points ({}: {why})", points(mean), seeds(pairs));
            return Verdict { finding: Generalisation::NoEvidence, words, lean: mean };
        };
        let beyond = interval.high < -MARGIN || interval.low > MARGIN;
        let size =
            format!("{} points, 95 % interval {} to {}", points(mean), points(interval.low), points(interval.high));
        let finding = match () {
            () if interval.low >= -MARGIN && interval.high <= MARGIN => Generalisation::Same,
            () if p < LEVEL && mean > 0.0 => Generalisation::Better,
            () if p < LEVEL && mean < 0.0 => Generalisation::Worse,
            () if too_few && accuracy.one_sided && beyond && mean > 0.0 => Generalisation::BetterInAll,
            () if too_few && accuracy.one_sided && beyond => Generalisation::WorseInAll,
            () => Generalisation::NoEvidence,
        };
        let words = match finding {
            Generalisation::Same => "generalises the same within ±1 point".to_owned(),
            Generalisation::Better => format!("generalises better ({size}, {})", p_equation(p)),
            Generalisation::Worse => format!("generalises worse ({size}, {})", p_equation(p)),
            Generalisation::BetterInAll => format!("better with {} ({size}); {TOO_FEW}", all_seeds(pairs)),
            Generalisation::WorseInAll => format!("worse with {} ({size}); {TOO_FEW}", all_seeds(pairs)),
            Generalisation::NoEvidence => format!("no evidence of a difference in generalisation ({size})"),
        };
        Verdict { finding, words, lean: mean }
    }
}

fn times(ratio: Ratio) -> String {
    match ratio {
        Ratio::Exactly(value) => format!("{value:.1} times"),
        Ratio::MoreThan(value) => format!("more than {value:.1} times"),
        Ratio::LessThan(value) => format!("less than {value:.1} times"),
    }
}

fn seeds(count: usize) -> String {
    format!("{count} seed{}", if count == 1 { "" } else { "s" })
}

fn all_seeds(count: usize) -> String {
    match count {
        1 => "the only seed".to_owned(),
        2 => "both seeds".to_owned(),
        _ => format!("all {count} seeds"),
    }
}

/// A p-value in a table: `0.024`, `< 0.001`.
pub fn p_text(p: f64) -> String {
    if p < 0.001 { "< 0.001".to_owned() } else { format!("{p:.3}") }
}

/// A p-value in a sentence: `p = 0.024`, `p < 0.001`.
fn p_equation(p: f64) -> String {
    if p < 0.001 { "p < 0.001".to_owned() } else { format!("p = {p:.3}") }
}

/// The lowest p-value that the permutation log-rank test can give with this many trials per group.
fn min_log_rank_p(pairs: usize) -> f64 {
    let divisions: f64 = (1..=pairs).map(|i| (pairs + i) as f64 / i as f64).product();
    2.0 / divisions + 1e-9
}

/// The lowest p-value that the signed-rank test can give with this many pairs.
fn min_signed_rank_p(pairs: usize) -> f64 {
    2.0 / 2f64.powi(i32::try_from(pairs).unwrap_or(i32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smallest_possible_p_values() {
        // 20 divisions of 3 + 3, 252 of 5 + 5; 8 and 1,024 choices of signs.
        assert!((min_log_rank_p(3) - 0.1).abs() < 1e-8);
        assert!((min_log_rank_p(5) - 2.0 / 252.0).abs() < 1e-8);
        assert_eq!((min_signed_rank_p(3), min_signed_rank_p(10)), (0.25, 2.0 / 1024.0));
    }

    #[test]
    fn p_values_are_written_short() {
        assert_eq!([0.0001, 0.0238, 1.0].map(p_text), ["< 0.001", "0.024", "1.000"]);
        assert_eq!([0.0001, 0.0238].map(p_equation), ["p < 0.001", "p = 0.024"]);
    }
}
