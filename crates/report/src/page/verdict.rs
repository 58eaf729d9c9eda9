//! What the run shows, mechanism by mechanism, and what became of the experiment's claim.

use maud::{Markup, html};
use semfocus_analysis::evidence::accuracy::Split;
use semfocus_analysis::evidence::claim::{Answer, CLAIM_RULE, Checked, Claim};
use semfocus_analysis::evidence::robustness::{Robustness, point_name};
use semfocus_analysis::evidence::tuned::{BestOfGrid, Tuned};
use semfocus_analysis::evidence::verdict::{GENERALISATION_RULE, Generalisation, LEARNING_RULE, Learning};
use semfocus_analysis::evidence::{Comparison, Evidence, MechanismEvidence, PointEvidence, Unit};

use super::with_code;

pub(super) fn html(evidence: &Evidence) -> Markup {
    let claim = evidence.claim();
    html! {
        h2 id="verdict" { "Verdict" }
        (of_claim(claim))
        @match &evidence.points[..] {
            // The note above has already said that nothing learned anything.
            _ if evidence.has_learned_nothing() => {},
            [point] => { (of_point(evidence, point, &claim.checked)) },
            points => {
                ul class="verdicts" {
                    @for checked in &claim.checked { li { b { (checked.expectation) } " " span { (answer(checked.answer)) ": " (checked.reason) } } }
                }
                (over_the_grid(evidence))
                details {
                    summary { "Verdicts at each point" }
                    @for point in points { h3 { (point_name(&point.point)) } (of_point(evidence, point, &[])) }
                }
            }
        }
        @if let Unit::Steps(steps) = evidence.unit() {
            p { "An epoch is " (steps) " training steps in this run; times to the target are counted in steps." }
        }
        details {
            summary { "Rules for these verdicts" }
            p { (CLAIM_RULE) }
            p { (LEARNING_RULE) }
            p { (GENERALISATION_RULE) }
        }
    }
}

/// The colour of an answer.
pub(crate) fn class(answer: Answer) -> &'static str {
    match answer {
        Answer::Supported => "good",
        Answer::NotSupported => "bad",
        Answer::Undecided => "",
    }
}

pub(crate) fn answer(answer: Answer) -> Markup {
    html! { span class=(class(answer)) { (answer.name()) } }
}

fn of_claim(claim: &Claim) -> Markup {
    html! {
        @if !claim.text.is_empty() {
            p class="claim" {
                "“" (claim.text) "”"
                @if let (Some(found), None) = (claim.answer, &claim.unchecked) { " – " b id="answer" { (answer(found)) } }
            }
            @if let Some(why) = &claim.unchecked { p class="faint" { "This claim was not checked: " (with_code(why)) "." } }
        }
    }
}

/// One line for each mechanism: what was expected of it, and what the results say.
fn of_point(evidence: &Evidence, point: &PointEvidence, checked: &[Checked]) -> Markup {
    let others = point.compared().filter(|(mechanism, _)| mechanism.mechanism != evidence.baseline);
    let of = |mechanism: &str| -> Vec<&Checked> {
        let is_about = |one: &&Checked| one.expectation.split(' ').next() == Some(mechanism);
        checked.iter().filter(is_about).collect()
    };
    html! {
        ul class="verdicts" {
            @for (mechanism, comparison) in others {
                @let expected = of(&mechanism.mechanism);
                li {
                    b { (mechanism.mechanism) } " "
                    span {
                        (of_mechanism(evidence, &mechanism.mechanism, comparison, expected.is_empty()))
                        @for Checked { expectation, answer: found, .. } in expected {
                            br;
                            "Expected: " (expectation.split_once(' ').map_or("", |(_, outcome)| outcome)) " – " (answer(*found)) "."
                        }
                    }
                }
            }
        }
    }
}

/// The verdict in words; in colour unless an answer to an expectation has one.
fn of_mechanism(evidence: &Evidence, mechanism: &str, comparison: Option<&Comparison>, coloured: bool) -> Markup {
    let Some(Comparison { learning, generalisation, .. }) = comparison else {
        let text = if mechanism == evidence.baseline { "the baseline" } else { "nothing to compare yet" };
        return html! { (text) };
    };
    // Only what a test has shown stands out, not what too few seeds agree on.
    let of_learning = match learning.finding {
        Learning::Faster if coloured => "good",
        Learning::Slower if coloured => "bad",
        _ => "",
    };
    let of_generalisation = match generalisation.finding {
        Generalisation::Better if coloured => "good",
        Generalisation::Worse if coloured => "bad",
        _ => "",
    };
    html! {
        span class=(of_learning) { (learning.words) } "; " span class=(of_generalisation) { (generalisation.words) } "."
    }
}

/// Each mechanism over all points of a grid, and at its best point.
fn over_the_grid(evidence: &Evidence) -> Markup {
    let Some(BestOfGrid { mechanisms, split }) = evidence.best_of_grid() else { return html! {} };
    html! {
        h3 { "Over the whole grid" }
        ul class="verdicts" {
            @for Robustness { mechanism, points, faster, slower, .. } in evidence.robustness() {
                li { b { (mechanism) } " " span { "faster at " (faster) " and slower at " (slower) " of " (points) " points" } }
            }
        }
        h3 { "Each mechanism at its best point" }
        ul class="verdicts" {
            @for Tuned { point, evidence: MechanismEvidence { mechanism, .. }, versus_baseline } in mechanisms {
                li {
                    b { (mechanism) } " "
                    span { "at " (point_name(point)) ": " (of_mechanism(evidence, mechanism, versus_baseline.as_ref(), true)) }
                }
            }
        }
        p class="faint" {
            "Points are chosen by the median best held-out accuracy. "
            @match split {
                Split::Test => "The verdicts compare accuracies on test examples, which were not used to choose anything.",
                Split::HeldOut => {
                    "The verdicts use the same held-out examples, which favours mechanisms that vary more over the grid: this \
                     run has no test examples (data.test)."
                }
            }
        }
    }
}
