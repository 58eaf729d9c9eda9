//! From numbers to words, by a rule that is stated.

use serde::Serialize;

use super::comparison::Comparison;
use super::speedup::Ratio;

/// Findings with a smaller corrected p-value count.
pub const LEVEL: f64 = 0.05;

/// Accuracies that differ by less than this are the same for any practical purpose: one percentage point.
pub const MARGIN: f64 = 0.01;

/// The rule for [`Learning`], in words.
pub const LEARNING_RULE: &str = "learns faster or slower: permutation log-rank test of the epochs to the goal, p < 0.05 after \
Holm's correction over the mechanisms of the experiment; trials that have not arrived are censored, not dropped. Where there are \
too few seeds for any p below 0.05, the verdict only says whether all seeds agree.";

/// The rule for [`Generalisation`], in words.
pub const GENERALISATION_RULE: &str = "generalises the same: the 95 % BCa bootstrap interval of the mean paired difference in best \
held-out accuracy lies within ±1 percentage point. Better or worse: otherwise, exact signed-rank test of the differences, p < 0.05 \
after Holm's correction. Where there are too few seeds for any p below 0.05, the verdict only says whether all seeds agree.";

/// Whether a mechanism learns faster than full attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Learning {
    /// In fewer epochs.
    Faster,
    /// In more epochs.
    Slower,
    /// Neither is shown.
    NoEvidence,
    /// In fewer epochs with every seed, but the seeds are too few for a test.
    FasterInAll,
    /// In more epochs with every seed, but the seeds are too few for a test.
    SlowerInAll,
}

/// Whether a mechanism generalises better than full attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Generalisation {
    /// To a higher held-out accuracy.
    Better,
    /// To a lower one.
    Worse,
    /// The same within [`MARGIN`].
    Same,
    /// None of these is shown.
    NoEvidence,
    /// Higher with every seed, but the seeds are too few for a test.
    BetterInAll,
    /// Lower with every seed, but the seeds are too few for a test.
    WorseInAll,
}

/// A finding and how it is said.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict<T> {
    /// The finding.
    pub finding: T,
    /// In words.
    pub words: String,
    /// Towards which side the data lean: positive is better.
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
    /// The verdict on a comparison that is one of `compared`.
    pub(super) fn of_learning(comparison: &Comparison, compared: usize) -> Self {
        let (lean, pairs) = (comparison.learning.lean, comparison.pairs);
        let p = comparison.log_rank_adjusted;
        let too_few = compared as f64 * least_log_rank_p(pairs) >= LEVEL;
        let bounds = comparison.epochs.map(|speedup| speedup.ratio);
        let finding = match () {
            () if p < LEVEL && lean > 0.0 => Learning::Faster,
            () if p < LEVEL => Learning::Slower,
            // With all seeds on one side the permutation p-value is the least there is.
            () if too_few && lean > 0.0 && comparison.log_rank.p_value <= least_log_rank_p(pairs) => {
                Learning::FasterInAll
            }
            () if too_few && lean < 0.0 && comparison.log_rank.p_value <= least_log_rank_p(pairs) => {
                Learning::SlowerInAll
            }
            () => Learning::NoEvidence,
        };
        let by = |finding: Learning| match (finding, bounds) {
            (Learning::Faster | Learning::FasterInAll, Some(ratio)) => format!(", {} fewer epochs", times(ratio)),
            _ => String::new(),
        };
        let (seeds, agreeing) = (seeds(pairs), all_seeds(pairs));
        let words = match finding {
            Learning::Faster => format!("learns faster{} (p = {})", by(finding), p_text(p)),
            Learning::Slower => format!("learns slower (p = {})", p_text(p)),
            Learning::FasterInAll => format!("sooner with {agreeing}{}; too few for a test", by(finding)),
            Learning::SlowerInAll => format!("later with {agreeing}; too few for a test"),
            Learning::NoEvidence if too_few => {
                format!("no evidence of a difference in speed; {seeds}, too few for a test")
            }
            Learning::NoEvidence => format!("no evidence of a difference in speed (p = {})", p_text(p)),
        };
        Verdict { finding, words, lean }
    }
}

impl Verdict<Generalisation> {
    /// The verdict on a comparison that is one of `compared`.
    pub(super) fn of_generalisation(comparison: &Comparison, compared: usize) -> Self {
        let Some(accuracy) = &comparison.accuracy else {
            let words = "generalisation: no pair of trials is over yet".to_owned();
            return Verdict { finding: Generalisation::NoEvidence, words, lean: 0.0 };
        };
        let pairs = accuracy.differences.pairs;
        let (mean, p) = (accuracy.differences.mean, accuracy.adjusted);
        let too_few = compared as f64 * least_signed_rank_p(pairs) >= LEVEL;
        let seeds = seeds(pairs);
        let points = |x: f64| format!("{:+.1}", 100.0 * x).replace('-', "−");
        let Some(interval) = accuracy.interval else {
            let words = format!("{seeds}: no interval for the held-out accuracy ({} points)", points(mean));
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
            Generalisation::Better => format!("generalises better ({size}, p = {})", p_text(p)),
            Generalisation::Worse => format!("generalises worse ({size}, p = {})", p_text(p)),
            Generalisation::BetterInAll => format!("better with {} ({size}); too few for a test", all_seeds(pairs)),
            Generalisation::WorseInAll => format!("worse with {} ({size}); too few for a test", all_seeds(pairs)),
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

/// A p-value as it is written: 0.024, < 0.001.
pub fn p_text(p: f64) -> String {
    if p < 0.001 { "< 0.001".to_owned() } else { format!("{p:.3}") }
}

/// The least p-value that the log-rank test over all divisions of n + n trials can give.
fn least_log_rank_p(pairs: usize) -> f64 {
    let divisions: f64 = (1..=pairs).map(|i| (pairs + i) as f64 / i as f64).product();
    2.0 / divisions + 1e-9
}

/// The least p-value that the signed-rank test of n differences can give.
fn least_signed_rank_p(pairs: usize) -> f64 {
    2.0 / 2f64.powi(i32::try_from(pairs).unwrap_or(i32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_p_values_are_those_of_small_samples() {
        // 20 divisions of 3 + 3, 252 of 5 + 5; 8 and 1,024 choices of signs.
        assert!((least_log_rank_p(3) - 0.1).abs() < 1e-8);
        assert!((least_log_rank_p(5) - 2.0 / 252.0).abs() < 1e-8);
        assert_eq!((least_signed_rank_p(3), least_signed_rank_p(10)), (0.25, 2.0 / 1024.0));
    }

    #[test]
    fn p_values_are_written_short() {
        assert_eq!([0.0001, 0.0238, 1.0].map(p_text), ["< 0.001", "0.024", "1.000"]);
    }
}
