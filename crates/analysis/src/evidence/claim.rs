//! Whether the experiment's claim holds: every expectation checked at every point of the grid.

use semfocus_core::experiment::in_words;
use semfocus_core::{Expectation, Expected, Outcome};
use serde::Serialize;

use super::robustness::point_name;
use super::verdict::{Generalisation, Learning, MARGIN};
use super::{BASELINE, Comparison, Evidence, PointEvidence};

/// A mechanism is not faster if it is at most this many times as fast, with the confidence of the verdicts; not slower if it is
/// at most this many times as slow.
pub const SPEED_MARGIN: f64 = 1.25;

/// The rule for [`Answer`], as users read it.
pub const CLAIM_RULE: &str = "supported: the verdict says what is expected. not supported: it says the opposite, or the interval \
excludes an effect of the expected kind above the margin (a factor of 1.25 in speed, 1 point of accuracy). undecided: neither. Expected not to be faster (slower): supported if it is slower (faster), or if the interval of the speed-up excludes a factor of 1.25. \
Expected not to be worse (better): supported if the interval of the difference in accuracy excludes 1 point. In a grid, an expectation \
is supported if it is supported at every point.";

/// What the results say about an expectation or a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The results show what is expected.
    Supported,
    /// The results do not tell.
    Undecided,
    /// The results show the opposite, or that there is no such effect above the margin.
    NotSupported,
}

impl Answer {
    /// As it is written in sentences.
    pub fn name(self) -> &'static str {
        match self {
            Answer::Supported => "supported",
            Answer::Undecided => "undecided",
            Answer::NotSupported => "not supported",
        }
    }
}

/// An expectation and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Checked {
    /// As it is written: `topk:5 faster`.
    pub expectation: String,
    /// What the results say.
    pub answer: Answer,
    /// Why, in words.
    pub reason: String,
}

/// The claim of an experiment and what the results say about it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// As the experiment says it; empty if it says nothing.
    pub text: String,
    /// What the results say about all expectations together; none if there are none that could be checked.
    pub answer: Option<Answer>,
    /// Every expectation about a mechanism of this run.
    pub checked: Vec<Checked>,
    /// Why the text is not checked, if it is not.
    pub unchecked: Option<String>,
}

impl Claim {
    /// Checks the expectations of the experiment.
    pub fn new(evidence: &Evidence) -> Self {
        let experiment = &evidence.experiment;
        let is_run = |expectation: &&Expectation| experiment.mechanisms.contains(&expectation.mechanism);
        // Expectations are about the comparison with full attention.
        let is_usual = evidence.baseline == BASELINE;
        let mut run: Vec<&Expectation> = experiment.expectations().filter(is_run).filter(|_| is_usual).collect();
        run.sort_by_key(|expectation| experiment.mechanisms.iter().position(|name| *name == expectation.mechanism));
        let checked: Vec<Checked> = run.into_iter().map(|expectation| check(evidence, expectation)).collect();
        let left_out: Vec<&str> = experiment
            .expectations()
            .filter(|expectation| !is_run(expectation))
            .map(|expectation| expectation.mechanism.as_str())
            .collect();
        let unchecked = match () {
            () if !is_usual => Some(format!(
                "it is about the comparison with full attention, and this is one with {}",
                evidence.baseline
            )),
            () if !experiment.changes_to_claim().is_empty() => {
                Some(format!("the claim was written for other settings: {}", in_words(&experiment.changes_to_claim())))
            }
            () if experiment.expectations().next().is_none() => {
                Some("the experiment has no [expect] table that says what to check".to_owned())
            }
            () if checked.is_empty() => Some(format!("it is about {}, which this run leaves out", left_out.join(", "))),
            () => None,
        };
        let any = |wanted: Answer| checked.iter().any(|checked| checked.answer == wanted);
        let answer = match () {
            () if checked.is_empty() => None,
            () if any(Answer::NotSupported) => Some(Answer::NotSupported),
            () if any(Answer::Undecided) => Some(Answer::Undecided),
            () => Some(Answer::Supported),
        };
        Claim { text: experiment.claim.trim().to_owned(), answer, checked, unchecked }
    }

    /// The answer in one sentence; none if nothing was checked.
    pub fn sentence(&self) -> Option<String> {
        let answer = self.answer?;
        let of = |wanted: Answer| {
            let names = self.checked.iter().filter(|checked| checked.answer == wanted);
            names.map(|checked| checked.expectation.as_str()).collect::<Vec<_>>().join(", ")
        };
        let count = |wanted: Answer| self.checked.iter().filter(|checked| checked.answer == wanted).count();
        let all = self.checked.len();
        Some(match answer {
            Answer::Supported if all == 1 => format!("supported: {}", of(Answer::Supported)),
            Answer::Supported => format!("supported: all {all} expectations ({})", of(Answer::Supported)),
            other => format!("{}: {} ({} of {all} supported)", other.name(), of(other), count(Answer::Supported)),
        })
    }
}

/// What a run says about an expectation, whether its experiment has it or not.
pub fn check(evidence: &Evidence, expectation: &Expectation) -> Checked {
    let at = |point: &PointEvidence| {
        let (_, comparison) = point.compared().find(|(other, _)| other.mechanism == expectation.mechanism)?;
        Some(comparison.map(|comparison| answer(expectation.outcome, comparison)))
    };
    let found: Vec<(&PointEvidence, Option<(Answer, String)>)> =
        evidence.points.iter().filter_map(|point| Some((point, at(point)?))).collect();
    let nothing = || (Answer::Undecided, "there is nothing to compare with yet".to_owned());
    let answers: Vec<(&PointEvidence, (Answer, String))> =
        found.into_iter().map(|(point, found)| (point, found.unwrap_or_else(nothing))).collect();
    let worst = answers.iter().map(|(_, (answer, _))| *answer).max().unwrap_or(Answer::Undecided);
    let reason = match &answers[..] {
        [] => nothing().1,
        [(_, (_, reason))] => reason.clone(),
        several => {
            let places: Vec<String> = several
                .iter()
                .filter(|(_, (answer, _))| *answer == worst)
                .map(|(point, _)| point_name(&point.point))
                .collect();
            match worst {
                Answer::Supported => format!("at all {} points", several.len()),
                answer => {
                    format!("{} at {} of {} points: {}", answer.name(), places.len(), several.len(), places.join("; "))
                }
            }
        }
    };
    Checked { expectation: expectation.to_string(), answer: worst, reason }
}

/// What a comparison says about an outcome, and in which words.
fn answer(outcome: Outcome, comparison: &Comparison) -> (Answer, String) {
    use {Answer::*, Generalisation as G, Learning as L};
    let (learning, generalisation) = (&comparison.learning, &comparison.generalisation);
    let interval = comparison.accuracy.as_ref().filter(|a| a.learned).and_then(|accuracy| accuracy.interval);
    let speedups = comparison.speedups;
    let words = match outcome.expected {
        Expected::Faster | Expected::Slower => &learning.words,
        _ => &generalisation.words,
    };
    let decide = |is_so: bool, is_not_so: bool| match (is_so, is_not_so) {
        (true, _) => Supported,
        (_, true) => NotSupported,
        _ => Undecided,
    };
    // Whether the outcome is shown, and whether it is shown not to be.
    let (is_so, is_not_so) = match outcome.expected {
        Expected::Faster => {
            (learning.finding == L::Faster, learning.finding == L::Slower || speedups.high < SPEED_MARGIN)
        }
        Expected::Slower => {
            (learning.finding == L::Slower, learning.finding == L::Faster || speedups.low > 1.0 / SPEED_MARGIN)
        }
        Expected::Better => {
            (generalisation.finding == G::Better, interval.is_some_and(|interval| interval.high <= MARGIN))
        }
        Expected::Worse => {
            (generalisation.finding == G::Worse, interval.is_some_and(|interval| interval.low >= -MARGIN))
        }
        Expected::Same => (generalisation.finding == G::Same, matches!(generalisation.finding, G::Better | G::Worse)),
    };
    let answer = if outcome.is_negated { decide(is_not_so && !is_so, is_so) } else { decide(is_so, is_not_so) };
    // Where the margin decides, the words have to mention it: by themselves they find nothing.
    let is_by_margin = is_not_so && !is_so && !matches!(learning.finding, L::Faster | L::Slower);
    let margin = match outcome.expected {
        Expected::Faster if is_by_margin => format!("; a speed-up of {SPEED_MARGIN} or more is excluded"),
        Expected::Slower if is_by_margin => format!("; a slow-down of {SPEED_MARGIN} or more is excluded"),
        _ => String::new(),
    };
    (answer, format!("{words}{margin}"))
}
