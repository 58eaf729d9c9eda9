//! The answer to the experiment's claim, and the verdicts behind it.

use maud::{Markup, html};
use semfocus_analysis::evidence::accuracy::Split;
use semfocus_analysis::evidence::claim::{Answer, CLAIM_RULE, Checked, Claim};
use semfocus_analysis::evidence::robustness::point_name;
use semfocus_analysis::evidence::tuned::{BestOfGrid, Tuned};
use semfocus_analysis::evidence::verdict::{GENERALISATION_RULE, Generalisation, LEARNING_RULE, Learning};
use semfocus_analysis::evidence::{Comparison, Evidence, MechanismEvidence, PointEvidence, Unit};
use semfocus_core::experiment::in_words;

pub(super) fn html(evidence: &Evidence) -> Markup {
    html! {
        h2 id="verdict" { "Verdict" }
        @for warning in evidence.warnings() { p class="missing" { (warning) } }
        (answer(evidence.claim()))
        // The note above has already said that nothing learned anything.
        @if !evidence.has_learned_nothing() {
            @for point in &evidence.points { (of_point(evidence, point)) }
            (over_the_grid(evidence))
        }
        @if let Unit::Steps(steps) = evidence.unit() {
            p { "An epoch is " (steps) " training steps in this run; times to the target are counted in steps." }
        }
        @if !evidence.experiment.reduced.is_empty() {
            p { b { "Reduced compared with the published experiment:" } " " (in_words(&evidence.experiment.reduced)) "." }
        }
        @if !evidence.experiment.changed.is_empty() {
            p { b { "Changed compared with the experiment as written:" } " " (in_words(&evidence.experiment.changed)) "." }
        }
        details {
            summary { "Rules for these verdicts" }
            p { (CLAIM_RULE) }
            p { (LEARNING_RULE) }
            p { (GENERALISATION_RULE) }
        }
    }
}

fn answer(claim: &Claim) -> Markup {
    let class = |answer: Answer| match answer {
        Answer::Supported => "good",
        Answer::NotSupported => "bad",
        Answer::Undecided => "",
    };
    let subject = if claim.unchecked.is_none() { "The claim is " } else { "What is expected of these mechanisms is " };
    html! {
        @if let (Some(sentence), Some(answer)) = (claim.sentence(), claim.answer) {
            p id="answer" { b { (subject) span class=(class(answer)) { (sentence) } "." } }
            ul class="verdicts" {
                @for Checked { expectation, answer, reason } in &claim.checked {
                    li { b { (expectation) } " " span { span class=(class(*answer)) { (answer.name()) } ": " (reason) } }
                }
            }
        }
        @if !claim.text.is_empty() {
            p class="claim" { "“" (claim.text) "”" }
            @if let Some(why) = &claim.unchecked { p class="faint" { "The claim in words was not checked: " (why) "." } }
        }
    }
}

fn of_point(evidence: &Evidence, point: &PointEvidence) -> Markup {
    let others = || point.compared().filter(|(mechanism, _)| mechanism.mechanism != evidence.baseline);
    html! {
        @if !point.point.is_empty() { h3 { (point_name(&point.point)) } }
        ul class="verdicts" {
            @for (mechanism, comparison) in others() {
                li { b { (mechanism.mechanism) } " " span { (of_mechanism(evidence, &mechanism.mechanism, comparison)) } }
            }
        }
    }
}

fn of_mechanism(evidence: &Evidence, mechanism: &str, comparison: Option<&Comparison>) -> Markup {
    let Some(comparison) = comparison else {
        let text = if mechanism == evidence.baseline { "the baseline" } else { "nothing to compare yet" };
        return html! { (text) };
    };
    // Only what a test has shown stands out, not what too few seeds agree on.
    let learning = match comparison.learning.finding {
        Learning::Faster => "good",
        Learning::Slower => "bad",
        Learning::NoEvidence | Learning::FasterInAll | Learning::SlowerInAll => "",
    };
    let generalisation = match comparison.generalisation.finding {
        Generalisation::Better => "good",
        Generalisation::Worse => "bad",
        _ => "",
    };
    html! {
        span class=(learning) { (comparison.learning.words) }
        "; " span class=(generalisation) { (comparison.generalisation.words) }
    }
}

/// Each mechanism over all points of a grid, and at its best point.
fn over_the_grid(evidence: &Evidence) -> Markup {
    let Some(BestOfGrid { mechanisms, split }) = evidence.best_of_grid() else { return html! {} };
    html! {
        h3 { "Over the whole grid" }
        ul class="verdicts" {
            @for of in evidence.robustness() {
                li {
                    b { (of.mechanism) } " "
                    span { "faster at " (of.faster) " and slower at " (of.slower) " of " (of.points) " points" }
                }
            }
        }
        h3 { "Each mechanism at its best point" }
        ul class="verdicts" {
            @for Tuned { point, evidence: MechanismEvidence { mechanism, .. }, versus_baseline } in mechanisms {
                li {
                    b { (mechanism) } " "
                    span { "at " (point_name(point)) ": " (of_mechanism(evidence, mechanism, versus_baseline.as_ref())) }
                }
            }
        }
        p class="faint" {
            "Points are chosen by the median best held-out accuracy. "
            @match split {
                Split::Test => "The verdicts compare accuracies on test examples, which nothing was chosen by.",
                Split::HeldOut => {
                    "The verdicts use the same held-out examples, which favours mechanisms that vary more over the grid: this \
                     run has no test examples (data.test)."
                }
            }
        }
    }
}
