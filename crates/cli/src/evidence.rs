//! What a run shows, for a terminal and for scripts.

use std::io::{self, Write};

use semfocus_analysis::evidence::accuracy::Split;
use semfocus_analysis::evidence::across::MECHANISM_AXIS;
use semfocus_analysis::evidence::claim::{Answer, Checked};
use semfocus_analysis::evidence::comparison::Comparison;
use semfocus_analysis::evidence::robustness::{Robustness, point_name};
use semfocus_analysis::evidence::speedup::{Ratio, Speedup};
use semfocus_analysis::evidence::tuned::{BestOfGrid, Tuned};
use semfocus_analysis::evidence::verdict::{Generalisation, Learning};
use semfocus_analysis::evidence::{BASELINE, Evidence, MechanismEvidence, PointEvidence, Unit};
use serde::Serialize;

use crate::talk::Colour;
use crate::text::{counted, paragraph};

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

/// All rows of a run.
pub(crate) fn rows(evidence: &Evidence) -> Vec<Row<'_>> {
    let all = evidence.points.iter().flat_map(|point| point.compared().map(move |compared| (point, compared)));
    all.map(|(point, (mechanism, comparison))| Row::new(mechanism, comparison, point, evidence)).collect()
}

/// One row for each pair of mechanisms.
pub(crate) fn rows_of_pairs(evidence: &Evidence) -> Vec<Row<'_>> {
    let all = evidence.points.iter().flat_map(|point| point.all_pairs().iter().map(move |pair| (point, pair)));
    all.filter_map(|(point, (name, comparison))| {
        let mechanism = point.mechanisms.iter().find(|other| other.mechanism == *name)?;
        Some(Row::new(mechanism, Some(comparison), point, evidence))
    })
    .collect()
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

/// What has to be known first: warnings, then whether the claim holds.
pub(crate) fn print_answer(evidence: &Evidence, out: &mut dyn Write) -> io::Result<()> {
    for warning in evidence.warnings() {
        paragraph(out, "note       ", &warning)?;
    }
    let claim = evidence.claim();
    if let (Some(sentence), Some(answer)) = (claim.sentence(), claim.answer) {
        paragraph(out, "answer     ", &sentence.replacen(answer.name(), &coloured(answer), 1))?;
    }
    // If nothing learned anything, that is the reason for all of them, and the note has said so.
    for Checked { expectation, answer, reason } in claim.checked.iter().filter(|_| !evidence.has_learned_nothing()) {
        paragraph(out, "           ", &format!("{expectation}: {}; {reason}", coloured(*answer)))?;
    }
    if !claim.text.is_empty() {
        let unchecked = claim.unchecked.as_ref().map_or(String::new(), |why| format!(" (not checked: {why})"));
        paragraph(out, "claim      ", &format!("\"{}\"{unchecked}", claim.text))?;
    }
    Ok(())
}

/// The answer, then table and verdicts of each grid point.
pub(crate) fn print(evidence: &Evidence, out: &mut dyn Write) -> io::Result<()> {
    print_answer(evidence, out)?;
    writeln!(out)?;
    let width = print_points(evidence, out)?;
    if !evidence.has_learned_nothing() {
        print_over_grid(evidence, width, out)?;
    }
    let unit = evidence.unit();
    let text = format!(
        "Medians over seeds; a trial that has not reached the target counts as later than any other. speed-up: {0} of {1} \
         / {0} of the mechanism, median over seeds of the ratios.",
        unit.name(),
        name_of(&evidence.baseline)
    );
    match unit {
        Unit::Epochs => paragraph(out, "", &text),
        Unit::Steps(steps) => paragraph(out, "", &format!("An epoch is {}. {text}", counted(steps as usize, "step"))),
    }
}

/// At how many points of a grid each mechanism is faster or slower, and each mechanism at its best point.
fn print_over_grid(evidence: &Evidence, width: usize, out: &mut dyn Write) -> io::Result<()> {
    for Robustness { mechanism, points, faster, slower, min, max } in evidence.robustness() {
        let range = match (min, max) {
            (Some((min, at)), Some((max, to))) if at != to => format!("; speed-up from {min} ({at}) to {max} ({to})"),
            (Some((only, at)), _) => format!("; speed-up {only}, only known for {at}"),
            _ => String::new(),
        };
        let text = format!("faster at {faster} and slower at {slower} of {points} points{range}");
        paragraph(out, &format!("{mechanism:width$}  "), &text)?;
    }
    print_best_of_grid(evidence, width, out)
}

/// Table and verdicts of each grid point. Returns the width of the first column.
pub(crate) fn print_points(evidence: &Evidence, out: &mut dyn Write) -> io::Result<usize> {
    let all = || evidence.points.iter().flat_map(|point| &point.mechanisms);
    let width = all().map(|mechanism| mechanism.mechanism.chars().count()).max().unwrap_or(0).max("mechanism".len());
    for point in &evidence.points {
        print_point(evidence, point, width, out)?;
    }
    Ok(width)
}

/// How sentences call a baseline.
fn name_of(baseline: &str) -> String {
    if baseline == BASELINE { "full attention".to_owned() } else { baseline.to_owned() }
}

fn print_point(evidence: &Evidence, point: &PointEvidence, width: usize, out: &mut dyn Write) -> io::Result<()> {
    if !point.point.is_empty() {
        writeln!(out, "{}", point_name(&point.point))?;
    }
    let goal = to_goal(evidence);
    writeln!(out, "{:width$}  {goal:<37}held-out accuracy", "")?;
    print_heading(evidence, width, out)?;
    for (mechanism, comparison) in point.compared() {
        print_row(mechanism, comparison, evidence.unit(), width, out)?;
    }
    print_notes(&point.mechanisms, out)?;
    writeln!(out)?;
    // That nothing learned anything has been said.
    let mut compared = point.compared().filter(|(_, comparison)| comparison.is_some()).peekable();
    if compared.peek().is_none() || evidence.has_learned_nothing() {
        return Ok(());
    }
    for (MechanismEvidence { mechanism, .. }, comparison) in compared {
        paragraph(out, &format!("{mechanism:width$}  "), &verdict(mechanism, comparison, evidence))?;
    }
    writeln!(out)
}

/// What the rows of a table are.
fn row_name(evidence: &Evidence) -> &'static str {
    let axis = evidence.points.first().and_then(|point| point.point.first());
    if axis.is_some_and(|(axis, _)| axis == MECHANISM_AXIS) { "run" } else { "mechanism" }
}

fn print_heading(evidence: &Evidence, width: usize, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{:width$}  {:>8}  {:>9}  {:>14}  {:>8}  {:>8}",
        row_name(evidence),
        "median",
        "reached",
        "speed-up",
        "best",
        "last"
    )
}

/// Each mechanism at its own best point, if there is a grid.
fn print_best_of_grid(evidence: &Evidence, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let Some(BestOfGrid { mechanisms, split }) = evidence.best_of_grid() else { return Ok(()) };
    writeln!(out)?;
    let goal = to_goal(evidence);
    writeln!(out, "each mechanism at its best point")?;
    writeln!(out, "{:width$}  {goal:<37}held-out accuracy", "")?;
    print_heading(evidence, width, out)?;
    for Tuned { evidence: mechanism, versus_baseline, .. } in mechanisms {
        print_row(mechanism, versus_baseline.as_ref(), evidence.unit(), width, out)?;
    }
    writeln!(out)?;
    for Tuned { point, evidence: MechanismEvidence { mechanism, .. }, versus_baseline } in mechanisms {
        let text = format!("{}: {}", point_name(point), verdict(mechanism, versus_baseline.as_ref(), evidence));
        paragraph(out, &format!("{mechanism:width$}  "), &text)?;
    }
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

/// Every pair of mechanisms.
pub(crate) fn print_pairs(evidence: &Evidence, out: &mut dyn Write) -> io::Result<()> {
    for point in &evidence.points {
        if !point.point.is_empty() {
            writeln!(out, "{}", point_name(&point.point))?;
        }
        let pairs = point.all_pairs();
        let title = |mechanism: &str, comparison: &Comparison| format!("{mechanism} against {}", comparison.baseline);
        let width = pairs.iter().map(|(name, pair)| title(name, pair).chars().count()).max().unwrap_or(0);
        for (mechanism, comparison) in pairs {
            let generalisation = match evidence.has_learned_nothing() {
                true => String::new(),
                false => format!("; {}", comparison.generalisation.words),
            };
            let text = format!("{}{generalisation}", comparison.learning.words);
            paragraph(out, &format!("{:width$}  ", title(mechanism, comparison)), &text)?;
        }
        if pairs.is_empty() {
            writeln!(out, "there are no two mechanisms with results")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// What the medians of a table count.
fn to_goal(evidence: &Evidence) -> String {
    format!("{} to {}", evidence.unit().name(), goal_name(evidence))
}

/// `95 % training accuracy`, or the goal as it is written.
fn goal_name(evidence: &Evidence) -> String {
    if evidence.goal == semfocus_analysis::evidence::GOAL {
        return format!("{:.0} % training accuracy", 100.0 * evidence.goal.value);
    }
    evidence.goal.to_string()
}

fn print_row(
    row: &MechanismEvidence,
    comparison: Option<&Comparison>,
    unit: Unit,
    width: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let median = match row.median_epochs_to_target.map(|epochs| unit.count(epochs)) {
        _ if row.seeds == 0 => "–".to_owned(),
        Some(time) if time.fract() == 0.0 => format!("{time:.0}"),
        Some(time) => format!("{time:.1}"),
        None => format!("> {}", unit.count(row.epochs as f64)),
    };
    // A trial that diverged in its first epoch has not reached the target either.
    let trials = row.seeds.max(row.planned - row.unfinished);
    let reached = format!("{} of {trials}", row.reached);
    let ratio = comparison.and_then(|comparison| comparison.epochs);
    let ratio = ratio.map_or_else(|| "–".to_owned(), |speedup| speedup.ratio.to_string());
    let percent = |accuracy: Option<f64>| accuracy.map_or_else(|| "–".to_owned(), |x| format!("{:.1} %", 100.0 * x));
    let (best, last) = (percent(row.best_heldout_accuracy), percent(row.last_heldout_accuracy));
    writeln!(out, "{:width$}  {median:>8}  {reached:>9}  {ratio:>14}  {best:>8}  {last:>8}", row.mechanism)
}

/// Trials that the numbers do not cover.
fn print_notes(rows: &[MechanismEvidence], out: &mut dyn Write) -> io::Result<()> {
    let list = |count: fn(&MechanismEvidence) -> usize| -> String {
        let some = rows.iter().filter(|row| count(row) > 0).map(|row| format!("{} of {}", count(row), row.mechanism));
        some.collect::<Vec<_>>().join(", ")
    };
    for (head, list) in [("not finished: ", list(|row| row.unfinished)), ("diverged: ", list(|row| row.diverged))] {
        if !list.is_empty() {
            paragraph(out, head, &list)?;
        }
    }
    Ok(())
}

/// The numbers behind the verdicts.
pub(crate) fn print_details(evidence: &Evidence, out: &mut dyn Write) -> io::Result<()> {
    let unit = evidence.unit();
    for point in &evidence.points {
        if !point.point.is_empty() {
            writeln!(out, "\n{}", point_name(&point.point))?;
        }
        writeln!(
            out,
            "{:15}{:>19}{:>12}{:>12}{:>7}{:>7}{:>7}",
            format!("against {}", evidence.baseline),
            unit.name(),
            "FLOPs",
            "time",
            "saved",
            "p",
            "Holm"
        )?;
        for (mechanism, comparison) in point.compared() {
            let Some(comparison) = comparison else { continue };
            let ratio = |speedup: Option<Speedup>| speedup.map_or_else(|| "–".to_owned(), |s| s.ratio.to_string());
            let epochs = match comparison.epochs {
                Some(Speedup { ratio, interval: Some(interval) }) => {
                    format!("{ratio} [{:.1}, {:.1}]", interval.low, interval.high)
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
            writeln!(
                out,
                "{:15}{epochs:>19}{:>12}{:>12}{saved:>7}{:>7.3}{:>7.3}",
                mechanism.mechanism,
                ratio(comparison.flops),
                ratio(comparison.seconds),
                comparison.log_rank.p_value,
                comparison.log_rank_adjusted,
            )?;
        }
    }
    writeln!(out)?;
    let text = format!(
        "{0}, FLOPs, time: speed-up to the target, median over seeds, with its 95 % interval where all trials reached the \
         target; saved: restricted mean {0} of {1} minus those of the {2}; p: permutation log-rank test; Holm: p after Holm's \
         correction.",
        unit.name(),
        name_of(&evidence.baseline),
        row_name(evidence),
    );
    paragraph(out, "", &text)
}
