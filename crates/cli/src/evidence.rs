//! What a run shows, for a terminal and for scripts.

use std::io::{self, Write};

use semfocus_analysis::evidence::accuracy::Split;
use semfocus_analysis::evidence::across::MECHANISM_AXIS;
use semfocus_analysis::evidence::claim::{Answer, Checked};
use semfocus_analysis::evidence::comparison::Comparison;
use semfocus_analysis::evidence::robustness::{Robustness, point_name};
use semfocus_analysis::evidence::speedup::{Ratio, Speedup};
use semfocus_analysis::evidence::tuned::{BestOfGrid, Tuned};
use semfocus_analysis::evidence::verdict::{Generalisation, Learning, p_text};
use semfocus_analysis::evidence::{BASELINE, Evidence, MechanismEvidence, PointEvidence, Unit};
use semfocus_analysis::stats::Interval;
use semfocus_store::State;
use serde::Serialize;

use crate::table::Table;
use crate::talk::Colour;
use crate::text::{counted, definitions, paragraph, percent};

/// A mechanism at one grid point, for `--json`.
#[derive(Serialize)]
pub(crate) struct Row<'a> {
    #[serde(flatten)]
    of: &'a MechanismEvidence,
    /// What it is compared with.
    baseline: &'a str,
    point: &'a [(String, String)],
    horizon: f64,
    /// Epochs of the baseline / epochs of the mechanism, or a bound on it.
    speedup: Option<f64>,
    speedup_kind: Option<&'static str>,
    /// What the experiment expects of the mechanism, and what the results say about it.
    expected: Vec<&'a Checked>,
    /// In words.
    verdict: String,
    learning: Option<Learning>,
    generalisation: Option<Generalisation>,
    versus_baseline: Option<&'a Comparison>,
}

/// All rows of a run: one for each mechanism and grid point, or one for each pair of mechanisms.
pub(crate) fn rows(evidence: &Evidence, all_pairs: bool) -> Vec<Row<'_>> {
    let of_point = |at| {
        let row = |(of, comparison)| Row::new(of, comparison, at, evidence);
        let named = |name: &str| at.mechanisms.iter().find(|other| other.mechanism == name);
        match all_pairs {
            true => at
                .all_pairs()
                .iter()
                .filter_map(|(name, pair)| Some((named(name)?, Some(pair))))
                .map(row)
                .collect::<Vec<_>>(),
            false => at.compared().map(row).collect(),
        }
    };
    evidence.points.iter().flat_map(of_point).collect()
}

impl<'a> Row<'a> {
    fn new(
        of: &'a MechanismEvidence,
        versus_baseline: Option<&'a Comparison>,
        at: &'a PointEvidence,
        evidence: &'a Evidence,
    ) -> Self {
        let is_about = |checked: &&Checked| checked.expectation.split(' ').next() == Some(&of.mechanism);
        let ratio = versus_baseline.and_then(|comparison| comparison.epochs).map(|speedup| speedup.ratio);
        Row {
            of,
            baseline: versus_baseline.map_or(&evidence.baseline, |comparison| &comparison.baseline),
            point: &at.point,
            horizon: at.horizon,
            speedup: ratio.map(Ratio::value),
            speedup_kind: ratio.map(|ratio| match ratio {
                Ratio::Exactly(_) => "exactly",
                Ratio::MoreThan(_) => "more_than",
                Ratio::LessThan(_) => "less_than",
            }),
            expected: evidence.claim().checked.iter().filter(is_about).collect(),
            verdict: verdict(&of.mechanism, versus_baseline, evidence),
            learning: versus_baseline.map(|comparison| comparison.learning.finding),
            generalisation: versus_baseline.map(|comparison| comparison.generalisation.finding),
            versus_baseline,
        }
    }
}

/// The verdict in words.
fn verdict(mechanism: &str, comparison: Option<&Comparison>, evidence: &Evidence) -> String {
    match comparison {
        // The note at the top has already said that nothing learned anything.
        Some(comparison) if evidence.has_learned_nothing() => comparison.learning.words.clone(),
        Some(Comparison { learning, generalisation, .. }) => format!("{}; {}", learning.words, generalisation.words),
        None if mechanism == evidence.baseline => "the baseline".to_owned(),
        None => "nothing to compare yet".to_owned(),
    }
}

/// The name of an answer in its colour.
fn coloured(answer: Answer) -> String {
    match answer {
        Answer::Supported => Colour::Green.on_stdout(answer.name()),
        Answer::NotSupported => Colour::Red.on_stdout(answer.name()),
        Answer::Undecided => Colour::Yellow.on_stdout(answer.name()),
    }
}

/// Whether verdicts are worth reading: something was learned, and no trial failed.
pub(crate) fn has_verdicts(evidence: &Evidence) -> bool {
    !evidence.has_learned_nothing() && failed(evidence).next().is_none()
}

/// Trials that an error ended.
fn failed(evidence: &Evidence) -> impl Iterator<Item = String> {
    let trials = evidence.trials().map(|observed| &observed.trial);
    trials.filter(|trial| trial.state == State::Failed).map(|trial| trial.entry.title())
}

/// What has to be known first: failures, or warnings and whether the claim holds.
pub(crate) fn print_answer(evidence: &Evidence, out: &mut dyn Write) -> io::Result<()> {
    let failed: Vec<String> = failed(evidence).collect();
    if !failed.is_empty() {
        let (count, all) = (failed.len(), counted(evidence.trials().count(), "trial"));
        let text = format!(
            "{count} of {all}: {}. There are no verdicts until they are trained; `semfocus status RUN` says what ended them.",
            failed.join(", ")
        );
        return paragraph(out, &Colour::Red.on_stdout("failed     "), &text);
    }
    for warning in evidence.warnings() {
        paragraph(out, "note       ", &warning)?;
    }
    let claim = evidence.claim();
    let text = if claim.text.is_empty() { String::new() } else { format!("\"{}\"", claim.text) };
    paragraph(out, "claim      ", &text)?;
    let unchecked = claim.unchecked.as_deref();
    let answer = match (claim.sentence(), claim.answer, unchecked) {
        (Some(sentence), Some(answer), None) => sentence.replacen(answer.name(), &coloured(answer), 1),
        (Some(sentence), Some(answer), Some(why)) => {
            format!("{}; {why}", sentence.replacen(answer.name(), &coloured(answer), 1))
        }
        (_, _, Some(why)) if !claim.text.is_empty() => format!("not checked: {why}"),
        _ => String::new(),
    };
    paragraph(out, "answer     ", &answer)?;
    // If nothing learned anything, that is the reason for all of them, and the note has said so.
    for Checked { expectation, answer, reason } in claim.checked.iter().filter(|_| !evidence.has_learned_nothing()) {
        paragraph(out, "           ", &format!("{expectation}: {}; {reason}", coloured(*answer)))?;
    }
    Ok(())
}

/// The answer, then table and verdicts of each grid point.
pub(crate) fn print(evidence: &Evidence, out: &mut dyn Write) -> io::Result<()> {
    print_answer(evidence, out)?;
    writeln!(out)?;
    print_points(evidence, out)?;
    if has_verdicts(evidence) {
        print_over_grid(evidence, out)?;
    }
    let steps = match evidence.unit() {
        Unit::Epochs => String::new(),
        Unit::Steps(steps) => format!("An epoch is {}. ", counted(steps as usize, "step")),
    };
    let (unit, baseline) = (evidence.unit().name(), name_of(&evidence.baseline));
    let text = format!(
        "{steps}Medians over seeds; a trial that has not reached the target counts as later than any other. speed-up: {unit} of \
         {baseline} / {unit} of the mechanism, median over seeds of the ratios."
    );
    paragraph(out, "", &text)
}

/// At how many points of a grid each mechanism is faster or slower, and each mechanism at its best point.
fn print_over_grid(evidence: &Evidence, out: &mut dyn Write) -> io::Result<()> {
    let text = |Robustness { mechanism, points, faster, slower, min, max }: &Robustness| {
        let range = match (min, max) {
            (Some((min, at)), Some((max, to))) if at != to => format!("; speed-up from {min} ({at}) to {max} ({to})"),
            (Some((only, at)), _) => format!("; speed-up {only}, only known for {at}"),
            _ => String::new(),
        };
        (mechanism.clone(), format!("faster at {faster} and slower at {slower} of {points} points{range}"))
    };
    definitions(out, evidence.robustness().iter().map(text))?;
    let Some(BestOfGrid { mechanisms, split }) = evidence.best_of_grid() else { return Ok(()) };
    writeln!(out, "\neach mechanism at its best point")?;
    print_table(evidence, mechanisms.iter().map(|best| (&best.evidence, best.versus_baseline.as_ref())), out)?;
    writeln!(out)?;
    let text = |Tuned { point, evidence: MechanismEvidence { mechanism, .. }, versus_baseline }: &Tuned| {
        let verdict = verdict(mechanism, versus_baseline.as_ref(), evidence);
        (mechanism.clone(), format!("{}: {verdict}", point_name(point)))
    };
    definitions(out, mechanisms.iter().map(text))?;
    writeln!(out)?;
    let text = match split {
        Split::Test => {
            "Points are chosen by the median best held-out accuracy; the verdicts compare accuracies on test examples."
        }
        Split::HeldOut => {
            "Points are chosen and compared by the same held-out examples, which favours mechanisms that vary more over the \
             grid; with `-s data.test=2000` the verdicts would use test examples."
        }
    };
    paragraph(out, "", text)?;
    writeln!(out)
}

/// Table and verdicts of each grid point.
pub(crate) fn print_points(evidence: &Evidence, out: &mut dyn Write) -> io::Result<()> {
    for point in &evidence.points {
        print_point_name(point, out)?;
        print_table(evidence, point.compared(), out)?;
        print_notes(&point.mechanisms, out)?;
        writeln!(out)?;
        // That trials failed or nothing was learned has been said.
        let compared = point.compared().filter(|(_, comparison)| comparison.is_some() && has_verdicts(evidence));
        let compared = compared.map(|(row, found)| (row.mechanism.clone(), verdict(&row.mechanism, found, evidence)));
        if definitions(out, compared)? {
            writeln!(out)?;
        }
    }
    Ok(())
}

fn print_point_name(point: &PointEvidence, out: &mut dyn Write) -> io::Result<()> {
    if point.point.is_empty() { Ok(()) } else { writeln!(out, "{}", point_name(&point.point)) }
}

/// How sentences call a baseline.
fn name_of(baseline: &str) -> String {
    if baseline == BASELINE { "full attention".to_owned() } else { baseline.to_owned() }
}

/// What the rows of a table are.
fn row_name(evidence: &Evidence) -> &'static str {
    let axis = evidence.points.first().and_then(|point| point.point.first());
    if axis.is_some_and(|(axis, _)| axis == MECHANISM_AXIS) { "run" } else { "mechanism" }
}

/// Every pair of mechanisms.
pub(crate) fn print_pairs(evidence: &Evidence, out: &mut dyn Write) -> io::Result<()> {
    for point in &evidence.points {
        print_point_name(point, out)?;
        let text = |(mechanism, comparison): &(String, Comparison)| {
            let title = format!("{mechanism} against {}", comparison.baseline);
            (title, verdict(mechanism, Some(comparison), evidence))
        };
        if !definitions(out, point.all_pairs().iter().map(text))? {
            writeln!(out, "fewer than two mechanisms have results")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// `95 % training accuracy`, or the goal as it is written.
fn goal_name(evidence: &Evidence) -> String {
    if evidence.goal == semfocus_analysis::evidence::GOAL {
        return format!("{:.0} % training accuracy", 100.0 * evidence.goal.value);
    }
    evidence.goal.to_string()
}

fn print_table<'a>(
    evidence: &Evidence,
    rows: impl Iterator<Item = (&'a MechanismEvidence, Option<&'a Comparison>)>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let unit = evidence.unit();
    let mut table = Table::new([row_name(evidence), ">median", ">reached", ">speed-up", ">best", ">last"]);
    table.span(1, 3, &format!("{} to {}", unit.name(), goal_name(evidence)));
    table.span(4, 5, "held-out accuracy");
    for (row, comparison) in rows {
        let median = match row.median_epochs_to_target.map(|epochs| unit.count(epochs)) {
            _ if row.seeds == 0 => "–".to_owned(),
            Some(time) if time.fract() == 0.0 => format!("{time:.0}"),
            Some(time) => format!("{time:.1}"),
            None => format!("> {}", unit.count(row.epochs as f64)),
        };
        // A trial that diverged in its first epoch has not reached the target either.
        let trials = row.seeds.max(row.planned - row.unfinished);
        let reached = format!("{} of {trials}", row.reached);
        let [best, last] = [row.best_heldout_accuracy, row.last_heldout_accuracy].map(percent);
        let speedup = ratio(comparison.and_then(|comparison| comparison.epochs));
        table.row([row.mechanism.clone(), median, reached, speedup, best, last]);
    }
    table.print(out)
}

fn ratio(speedup: Option<Speedup>) -> String {
    speedup.map_or_else(|| "–".to_owned(), |speedup| speedup.ratio.to_string())
}

/// Trials that the numbers do not cover.
fn print_notes(rows: &[MechanismEvidence], out: &mut dyn Write) -> io::Result<()> {
    let list = |count: fn(&MechanismEvidence) -> usize| -> String {
        let some = rows.iter().filter(|row| count(row) > 0).map(|row| format!("{} of {}", count(row), row.mechanism));
        some.collect::<Vec<_>>().join(", ")
    };
    paragraph(out, "not finished: ", &list(|row| row.unfinished))?;
    paragraph(out, "diverged: ", &list(|row| row.diverged))
}

/// The numbers behind the verdicts.
pub(crate) fn print_details(evidence: &Evidence, out: &mut dyn Write) -> io::Result<()> {
    let unit = evidence.unit();
    let against = format!("against {}", evidence.baseline);
    for point in &evidence.points {
        print_point_name(point, out)?;
        let mut table = Table::new([&against, unit.name(), ">FLOPs", ">time", ">saved", ">p", ">Holm"]);
        for (mechanism, comparison) in point.compared() {
            let Some(comparison) = comparison else { continue };
            let epochs = match comparison.epochs {
                Some(Speedup { ratio, interval: Some(interval) }) => {
                    let Interval { low, high } = if ratio.is_slow_down() { interval.inverse() } else { interval };
                    format!("{ratio} [{low:.1}, {high:.1}]")
                }
                other => ratio(other),
            };
            let saved = comparison.epochs_saved.map_or_else(
                || "–".to_owned(),
                |saved| match unit {
                    Unit::Epochs => format!("{saved:.1}"),
                    Unit::Steps(_) => format!("{:.0}", unit.count(saved)),
                },
            );
            let [flops, time] = [comparison.flops, comparison.seconds].map(ratio);
            let p_values = [comparison.log_rank.p_value, comparison.log_rank_adjusted];
            let [p, holm] = p_values.map(|p| if comparison.has_speed_test() { p_text(p) } else { "–".to_owned() });
            table.row([mechanism.mechanism.clone(), epochs, flops, time, saved, p, holm]);
        }
        table.print(out)?;
        writeln!(out)?;
    }
    let text = format!(
        "{0}, FLOPs, time: speed-up to the target, median over seeds, with its 95 % interval where all trials reached the \
         target.{3} saved: restricted mean {0} of {1} minus those of the {2}. p: permutation log-rank test, – where seeds are too \
         few for one. Holm: p after Holm's correction.",
        unit.name(),
        name_of(&evidence.baseline),
        row_name(evidence),
        if row_name(evidence) == "run" {
            " The time also depends on what else the machines did during each run."
        } else {
            ""
        },
    );
    paragraph(out, "", &text)
}
