//! What the recorded runs say about a claim.

use semfocus_analysis::evidence::claim::{Answer, check};
use semfocus_analysis::theory::pairs::pairs;

use crate::data::RecordedRun;
use crate::ledger::{ClaimEntry, Test};
use semfocus_report::{surface, theory};

/// What one run says about one part of a claim.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    /// What is expected, such as `topk:5 faster`.
    pub(crate) expected: String,
    pub(crate) answer: Answer,
    /// Why, in the words of `compare` and the report.
    pub(crate) words: String,
    /// Whether it counts for the verdict on the claim. One about the same models as another does not.
    pub(crate) counts: bool,
}

/// What all runs together say about a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Every finding that decides anything supports it.
    Supported,
    /// Some findings support it, others speak against it.
    Weakened,
    /// Every finding that decides anything speaks against it.
    NotSupported,
    /// No finding decides it.
    Undecided,
    /// There is no finding.
    NotTested,
}

/// The rule for [`Standing`], as users read it.
pub(crate) const STANDING_RULE: &str = "supported: every finding that decides anything supports the claim. not supported: every such \
finding speaks against it. weakened: there are both. undecided: no finding decides. not tested: there is no finding. Findings in brackets \
are about the same models as another one and do not count.";

impl Standing {
    pub(crate) fn new(findings: &[&Finding]) -> Self {
        let any = |wanted: Answer| findings.iter().any(|finding| finding.counts && finding.answer == wanted);
        match (any(Answer::Supported), any(Answer::NotSupported)) {
            _ if findings.is_empty() => Standing::NotTested,
            (true, false) => Standing::Supported,
            (true, true) => Standing::Weakened,
            (false, true) => Standing::NotSupported,
            (false, false) => Standing::Undecided,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Standing::Supported => "supported",
            Standing::Weakened => "weakened",
            Standing::NotSupported => "not supported",
            Standing::Undecided => "undecided",
            Standing::NotTested => "not tested",
        }
    }
}

/// What a run says about a claim; nothing if it has none of the mechanisms or measurements that the claim is about.
pub(crate) fn findings(claim: &ClaimEntry, run: &RecordedRun) -> Vec<Finding> {
    match claim.test {
        Some(Test::Conditions) => conditions(run),
        Some(Test::Lipschitz) => lipschitz(run),
        Some(Test::Causes) => causes(run),
        None => compared(claim, run),
    }
}

fn compared(claim: &ClaimEntry, run: &RecordedRun) -> Vec<Finding> {
    let mechanisms = &run.evidence.experiment.mechanisms;
    let expectations = claim.expectations().unwrap_or_default().into_iter();
    let of_run = expectations.filter(|expectation| mechanisms.contains(&expectation.mechanism));
    of_run
        .map(|expectation| {
            let checked = check(&run.evidence, &expectation);
            Finding { expected: checked.expectation, answer: checked.answer, words: checked.reason, counts: true }
        })
        .collect()
}

/// Whether both conditions hold at the last probe, at the quantile at which the study has one of them hold.
fn conditions(run: &RecordedRun) -> Vec<Finding> {
    let pairs = pairs(&run.evidence);
    let groups = theory::groups(&pairs);
    let with_rows = groups.into_iter().filter(|(_, pairs)| pairs.iter().any(|pair| pair.last_row().is_some()));
    with_rows
        .map(|(name, pairs)| {
            let rows = || pairs.iter().filter_map(|pair| pair.last_row());
            let holding = rows().filter(|row| row.conditions.w_holds && row.conditions.x_holds).count();
            let answer = match holding {
                0 => Answer::NotSupported,
                all if all == rows().count() => Answer::Supported,
                _ => Answer::Undecided,
            };
            let expected = format!("(W) and (X) hold for {name}");
            Finding { expected, answer, words: theory::finding(&pairs), counts: true }
        })
        .collect()
}

fn lipschitz(run: &RecordedRun) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (attention_dropout, words) in [(false, "without"), (true, "with")] {
        let found = surface::comparisons(&run.evidence, attention_dropout);
        findings.extend(found.into_iter().map(|(name, sentence, direction)| Finding {
            expected: format!("{name} flatter, {words} attention dropout"),
            answer: match direction {
                -1 => Answer::Supported,
                1 => Answer::NotSupported,
                _ => Answer::Undecided,
            },
            words: sentence,
            counts: !attention_dropout,
        }));
    }
    findings
}

/// What the controls say about the study's explanation, at every point of the grid.
fn causes(run: &RecordedRun) -> Vec<Finding> {
    let judged = run.evidence.causes().iter();
    judged
        .map(|causes| Finding {
            expected: format!("{} faster because of relevant keys", causes.reference),
            answer: causes.claim.answer,
            words: causes.claim.reason.clone(),
            counts: true,
        })
        .collect()
}
