//! `semfocus explain`: what causes the speed-up of top-k attention.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args as ClapArgs;
use semfocus_analysis::evidence::causes::{
    CAUSES_RULE, CONTROLS, CauseFinding, Causes, Judged, MeasuredControl, ShareFinding,
};
use semfocus_analysis::evidence::robustness::point_name;
use semfocus_analysis::evidence::{BASELINE, Evidence};
use semfocus_analysis::stats::{Bounded, Interval};
use semfocus_store::Store;

use super::compare::GoalArgs;
use crate::damage::left_out;
use crate::evidence::has_verdicts;
use crate::output::emit;
use crate::table::Table;
use crate::text::{counted, definitions, paragraph};
use crate::{Error, Exit};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Folder of a run with full attention, top-k attention and controls, such as that of `semfocus run causes`
    dir: PathBuf,
    #[command(flatten)]
    goal: GoalArgs,
    /// Explain this mechanism of the run [default: the top-k attention that has the most controls]
    #[arg(long, value_name = "MECHANISM")]
    of: Option<String>,
    /// Print JSON: one entry for each point of the grid
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<Exit, Error> {
    let found = Evidence::read(&Store::open(&args.dir)?, args.goal.given())?;
    let causes: Vec<Causes> = found.points.iter().filter_map(|point| Causes::new(point, args.of.as_deref())).collect();
    if causes.is_empty() {
        return Err(nothing_to_explain(&found, args.of.as_deref()).into());
    }
    emit(out, args.json, &causes, |out| {
        writeln!(out, "experiment {}", found.experiment.name)?;
        causes.iter().try_for_each(|causes| print(causes, out))?;
        Ok(paragraph(out, "", CAUSES_RULE)?)
    })?;
    Ok(left_out(&args.dir, &found.damage))
}

fn nothing_to_explain(found: &Evidence, of: Option<&str>) -> String {
    let names = &found.experiment.mechanisms;
    let known = names.join(", ");
    if let Some(of) = of.filter(|of| !names.iter().any(|name| name == of)) {
        return format!("{of} is not among the mechanisms of this run, which has {known}");
    }
    let controls: Vec<&str> =
        CONTROLS.iter().filter(|control| control.is_enough()).map(|control| control.name.as_str()).collect();
    format!(
        "this run cannot explain a speed-up: that requires {BASELINE}, topk:k and at least one of these controls with the same k: \
         {}. banded and block by themselves explain nothing. This run has {known}. `semfocus run causes` trains all of them",
        controls.join(", ")
    )
}

/// The end of what `run` and `compare` print about a run with controls.
pub(crate) fn print_summary(found: &Evidence, out: &mut dyn Write) -> io::Result<()> {
    for causes in found.causes().iter().filter(|_| has_verdicts(found)) {
        let of = |finding: CauseFinding| {
            let names: Vec<&str> = causes.explanations_that_are(finding).map(|judged| judged.explanation).collect();
            (!names.is_empty()).then(|| format!("{}: {}", finding.name(), names.join(", ")))
        };
        let list: Vec<String> =
            [CauseFinding::Supported, CauseFinding::Part, CauseFinding::OneOfSeveral, CauseFinding::Excluded]
                .into_iter()
                .filter_map(of)
                .collect();
        let list = if list.is_empty() || causes.no_shares.is_some() {
            String::new()
        } else {
            format!(" Explanations {}.", list.join("; "))
        };
        let claim = &causes.claim;
        writeln!(out)?;
        let text = format!(
            "{}The claim that {} is {} by the controls: {}.{list} `semfocus explain RUN` shows the controls.",
            place(causes),
            claim.claim,
            claim.answer.name(),
            claim.reason
        );
        paragraph(out, "", &text)?;
    }
    Ok(())
}

fn place(causes: &Causes) -> String {
    if causes.point.is_empty() { String::new() } else { format!("{}: ", point_name(&causes.point)) }
}

fn print(causes: &Causes, out: &mut dyn Write) -> io::Result<()> {
    if !causes.point.is_empty() {
        writeln!(out, "\n{}", point_name(&causes.point))?;
    }
    let speedup = causes.speedup.map_or_else(|| "not known".to_owned(), times);
    let interval = causes.speedup_interval.map_or_else(String::new, |interval| format!(" {}", span(interval, factor)));
    let question = format!(
        "why does {} learn faster than full attention? (speed-up {speedup}{interval}, {})",
        causes.reference,
        counted(causes.seeds, "seed")
    );
    paragraph(out, "question   ", &question)?;
    let claim = &causes.claim;
    paragraph(out, "claim      ", &format!("\"{}\"", claim.claim))?;
    paragraph(out, "answer     ", &format!("{}: {}", claim.answer.name(), claim.reason))?;
    writeln!(out)?;
    let title = format!("share of {}", causes.reference);
    let mut table = Table::new(["", ">reached", ">", "speed-up", ">", &title, ""]);
    causes.controls.iter().for_each(|measured| table.row_below(measured.control.group.title(), cells(measured)));
    table.print(out)?;
    writeln!(out)?;
    if causes.no_shares.is_some() {
        return Ok(());
    }
    let judged = |Judged { explanation, finding, words, .. }: &Judged| {
        (format!("{explanation:21}  {:14}", finding.name()), (*words).clone())
    };
    definitions(out, causes.explanations.iter().map(judged))?;
    let needed = causes.controls.iter().filter_map(|one| Some(format!("{} {}", one.mechanism, one.seeds_needed?)));
    let needed: Vec<String> = needed.collect();
    if !needed.is_empty() {
        writeln!(out)?;
        let text = "seeds needed to decide, assuming the same means and spread: ";
        paragraph(out, "", &format!("{text}{}", needed.join(", ")))?;
    }
    writeln!(out)
}

/// A control as a row: its own speed-up, and its share of that of the reference.
fn cells(measured: &MeasuredControl) -> [String; 7] {
    let none = || "–".to_owned();
    [
        format!("  {}", measured.mechanism),
        format!("{}/{}", measured.reached, measured.seeds),
        measured.speedup.map_or_else(none, times),
        measured.speedup_interval.map_or_else(String::new, |interval| span(interval, factor)),
        measured.share.map_or_else(none, |share| format!("{}{}", share.sign(), percent(share.value()))),
        measured.share_interval.map_or_else(String::new, |interval| span(interval, percent)),
        // What is undecided is left blank.
        if measured.kept == ShareFinding::Undecided { String::new() } else { measured.kept.name().to_owned() },
    ]
}

fn times(speedup: Bounded) -> String {
    format!("{}{}×", speedup.sign(), factor(speedup.value()))
}

fn factor(value: f64) -> String {
    match value {
        _ if value == f64::INFINITY => "∞".to_owned(),
        0.0 => "0".to_owned(),
        10.0.. => format!("{value:.0}"),
        1.0..10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// `43 %`, with a proper minus sign. Shares far outside of what can be compared are not told in digits.
fn percent(share: f64) -> String {
    let value = 100.0 * share;
    match value {
        _ if value == f64::INFINITY => "∞".to_owned(),
        _ if value == f64::NEG_INFINITY => "−∞".to_owned(),
        _ => format!("{value:.0} %").replace('-', "−"),
    }
}

fn span(interval: Interval, end: fn(f64) -> String) -> String {
    format!("[{}, {}]", end(interval.low).trim_end_matches(" %"), end(interval.high).trim_end_matches(" %"))
}
