//! What a run shows, for a terminal and for scripts.

use std::io::{self, Write};

use semfocus_analysis::evidence::comparison::Comparison;
use semfocus_analysis::evidence::robustness::{Robustness, point_name, robustness};
use semfocus_analysis::evidence::speedup::{Ratio, Speedup};
use semfocus_analysis::evidence::verdict::{Generalisation, Learning};
use semfocus_analysis::evidence::{Evidence, MechanismEvidence};
use serde::Serialize;

use crate::text::{counted, paragraph};

/// A mechanism at one grid point, for `--json`.
#[derive(Serialize)]
pub(crate) struct Row {
    mechanism: String,
    point: Vec<(String, String)>,
    seeds: usize,
    planned: usize,
    unfinished: usize,
    diverged: usize,
    reached: usize,
    median_epochs_to_threshold: Option<f64>,
    restricted_mean_epochs: Option<f64>,
    horizon: f64,
    /// Epochs of full attention / epochs of the mechanism, or a bound on it.
    speedup: Option<f64>,
    speedup_kind: Option<&'static str>,
    best_heldout_accuracy: Option<f64>,
    last_heldout_accuracy: Option<f64>,
    mean_heldout_accuracy: Option<f64>,
    generalisation_gap: Option<f64>,
    /// In words.
    verdict: String,
    learning: Option<Learning>,
    generalisation: Option<Generalisation>,
    versus_full: Option<Comparison>,
}

/// All rows of a run.
pub(crate) fn rows(evidence: &Evidence) -> Vec<Row> {
    let of_point = |point: &semfocus_analysis::evidence::PointEvidence| -> Vec<Row> {
        point.mechanisms.iter().map(|mechanism| row(mechanism, point.point.clone(), point.horizon)).collect()
    };
    evidence.points.iter().flat_map(of_point).collect()
}

fn row(mechanism: &MechanismEvidence, point: Vec<(String, String)>, horizon: f64) -> Row {
    let versus_full = mechanism.versus_full.clone();
    let ratio = versus_full.as_ref().and_then(|comparison| comparison.epochs).map(|speedup| speedup.ratio);
    Row {
        mechanism: mechanism.mechanism.clone(),
        point,
        seeds: mechanism.seeds,
        planned: mechanism.planned,
        unfinished: mechanism.unfinished,
        diverged: mechanism.diverged,
        reached: mechanism.reached,
        median_epochs_to_threshold: mechanism.median_epochs_to_threshold,
        restricted_mean_epochs: mechanism.restricted_mean_epochs.map(|mean| mean.mean),
        horizon,
        speedup: ratio.map(Ratio::value),
        speedup_kind: ratio.map(|ratio| match ratio {
            Ratio::Exactly(_) => "exactly",
            Ratio::MoreThan(_) => "more_than",
            Ratio::LessThan(_) => "less_than",
        }),
        best_heldout_accuracy: mechanism.best_heldout_accuracy,
        last_heldout_accuracy: mechanism.last_heldout_accuracy,
        mean_heldout_accuracy: mechanism.mean_heldout_accuracy,
        generalisation_gap: mechanism.generalisation_gap,
        verdict: verdict(mechanism),
        learning: versus_full.as_ref().map(|comparison| comparison.learning.finding),
        generalisation: versus_full.as_ref().map(|comparison| comparison.generalisation.finding),
        versus_full,
    }
}

/// The verdict in words.
fn verdict(mechanism: &MechanismEvidence) -> String {
    match &mechanism.versus_full {
        Some(Comparison { learning, generalisation, .. }) => format!("{}; {}", learning.words, generalisation.words),
        None if mechanism.mechanism == semfocus_analysis::evidence::BASELINE => "the baseline".to_owned(),
        None => "nothing to compare yet".to_owned(),
    }
}

/// The table and the verdicts of each grid point.
pub(crate) fn print(evidence: &Evidence, out: &mut dyn Write) -> io::Result<()> {
    let all = || evidence.points.iter().flat_map(|point| &point.mechanisms);
    let width = all().map(|mechanism| mechanism.mechanism.chars().count()).max().unwrap_or(0).max("mechanism".len());
    for point in &evidence.points {
        if !point.point.is_empty() {
            writeln!(out, "{}", point_name(&point.point))?;
        }
        let goal = goal_name(evidence);
        writeln!(out, "{:width$}  epochs to {goal:<27}held-out accuracy", "")?;
        writeln!(
            out,
            "{:width$}  {:>8}  {:>9}  {:>14}  {:>8}  {:>8}",
            "mechanism", "median", "reached", "speed-up", "best", "last"
        )?;
        for mechanism in &point.mechanisms {
            print_row(mechanism, width, out)?;
        }
        print_notes(&point.mechanisms, out)?;
        writeln!(out)?;
        for mechanism in point.mechanisms.iter().filter(|mechanism| mechanism.versus_full.is_some()) {
            paragraph(out, &format!("{:width$}  ", mechanism.mechanism), &verdict(mechanism))?;
        }
        writeln!(out)?;
    }
    for Robustness { mechanism, points, faster, slower, min, max } in robustness(evidence) {
        let range = match (min, max) {
            (Some((min, at)), Some((max, to))) => format!("; from {min} ({at}) to {max} ({to})"),
            _ => String::new(),
        };
        let text = format!("faster at {faster} and slower at {slower} of {points} points{range}");
        paragraph(out, &format!("{mechanism:width$}  "), &text)?;
    }
    let text = "Medians over seeds; a trial that has not reached the target counts as later than any other. speed-up: epochs of \
                full attention / epochs of the mechanism, median over seeds.";
    match evidence.steps_per_epoch() {
        None => paragraph(out, "", text),
        Some(steps) => paragraph(out, "", &format!("An epoch is {}. {text}", counted(steps as usize, "step"))),
    }
}

/// `95 % training accuracy`, or the goal as it is written.
fn goal_name(evidence: &Evidence) -> String {
    if evidence.goal == semfocus_analysis::evidence::GOAL {
        return format!("{:.0} % training accuracy", 100.0 * evidence.goal.value);
    }
    evidence.goal.to_string()
}

fn print_row(row: &MechanismEvidence, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let median = match row.median_epochs_to_threshold {
        _ if row.seeds == 0 => "–".to_owned(),
        Some(epochs) if epochs.fract() == 0.0 => format!("{epochs:.0}"),
        Some(epochs) => format!("{epochs:.1}"),
        None => format!("> {}", row.epochs),
    };
    let reached = format!("{} of {}", row.reached, row.seeds);
    let ratio = row.versus_full.as_ref().and_then(|comparison| comparison.epochs);
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
    for point in &evidence.points {
        if !point.point.is_empty() {
            writeln!(out, "\n{}", point_name(&point.point))?;
        }
        writeln!(
            out,
            "{:12}{:>18}{:>10}{:>10}{:>9}{:>9}{:>8}",
            "against full", "epochs", "FLOPs", "time", "saved", "p", "Holm"
        )?;
        for mechanism in &point.mechanisms {
            let Some(comparison) = &mechanism.versus_full else { continue };
            let ratio = |speedup: Option<Speedup>| speedup.map_or_else(|| "–".to_owned(), |s| s.ratio.to_string());
            let epochs = match comparison.epochs {
                Some(Speedup { ratio, interval: Some(interval) }) => {
                    format!("{ratio} [{:.1}, {:.1}]", interval.low, interval.high)
                }
                other => ratio(other),
            };
            let saved = comparison.epochs_saved.map_or_else(|| "–".to_owned(), |saved| format!("{saved:.1}"));
            writeln!(
                out,
                "{:12}{epochs:>18}{:>10}{:>10}{saved:>9}{:>9.4}{:>8.4}",
                mechanism.mechanism,
                ratio(comparison.flops),
                ratio(comparison.seconds),
                comparison.log_rank.p_value,
                comparison.log_rank_adjusted,
            )?;
        }
    }
    writeln!(out)?;
    let text = "epochs, FLOPs, time: speed-up to the target, median over seeds, with its 95 % interval where all trials reached \
                the target; saved: restricted mean epochs of full attention minus those of the mechanism; p: permutation \
                log-rank test; Holm: p after Holm's correction.";
    paragraph(out, "", text)
}
