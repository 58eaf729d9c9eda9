//! `semfocus study`: as much of the study as a time allows, the most informative parts first.

use std::collections::HashSet;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::{Args as ClapArgs, Parser};
use semfocus_analysis::evidence::Evidence;
use semfocus_core::names::nearest;
use semfocus_lab::Lab;
use semfocus_lab::estimate::Estimate;
use semfocus_lab::jobs::Deadline;
use semfocus_store::Store;
use serde::{Deserialize, Serialize};

use super::run;
use crate::output::emit;
use crate::signals::{stop_at, stop_on_signals};
use crate::table::Table;
use crate::talk::say;
use crate::text::{duration, paragraph, shortened};
use crate::{Error, Exit};

/// The list of runs, in their order.
const LIST: &str = include_str!("../../../../experiments/study.toml");

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Only these runs of the list [default: all]
    #[arg(value_name = "RUN")]
    runs: Vec<String>,
    /// Hours that may be spent now
    ///
    /// First every run that can be finished in the time that is left, in the order of the list, then as much as possible of
    /// the first of the others. The same command continues where it stopped.
    #[arg(long, value_name = "H", value_parser = hours)]
    hours: f64,
    /// Folder with one folder for each run
    #[arg(short, long, value_name = "DIR", default_value = "runs/study")]
    output: PathBuf,
    /// Trials at once [default: one for each core]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Try every run as small as possible
    #[arg(long)]
    smoke: bool,
    /// Print the plan and do nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Print the table at the end, or the plan, as JSON
    #[arg(long)]
    json: bool,
}

fn hours(text: &str) -> Result<f64, String> {
    let wrong = || "expected a number of hours above 0, such as 6 or 0.5".to_owned();
    let hours: f64 = text.parse().map_err(|_| wrong())?;
    if hours > 0.0 && hours <= 1e5 { Ok(hours) } else { Err(wrong()) }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    run: Vec<Listed>,
}

/// A run of the list.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    name: String,
    /// Of `semfocus run`.
    arguments: Vec<String>,
}

#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct RunArguments {
    #[command(flatten)]
    args: run::Args,
}

/// A run of the list: what is left of it, and what it says so far.
#[derive(Serialize)]
struct Planned {
    name: String,
    trials: usize,
    /// Trials that are over.
    done: usize,
    /// Whether its report is written, so that nothing is left to do.
    over: bool,
    /// Seconds that are left, by estimate, with what follows training, if no trial stops at its target.
    seconds: f64,
    /// The answer to its claim, once there are results.
    answer: Option<String>,
    #[serde(skip)]
    args: run::Args,
}

impl Planned {
    fn new(listed: &Listed, args: &Args, lab: &Lab) -> Result<Self, Error> {
        let dir = args.output.join(&listed.name);
        let mut words = listed.arguments.clone();
        words.extend(["-o".to_owned(), dir.display().to_string(), "--yes".to_owned()]);
        words.extend(args.jobs.map(|jobs| format!("--jobs={jobs}")));
        words.extend(args.smoke.then(|| "--smoke".to_owned()));
        let run = RunArguments::try_parse_from(words).map_err(|error| format!("{}: {error}", listed.name))?.args;
        let Estimate { trials, done, seconds, .. } = run::left(&run, lab)?;
        let over = done == trials && dir.join("report.html").is_file();
        let evidence = Store::is_store(&dir).then(|| Evidence::read(&Store::at(&dir), None)).transpose()?;
        let answer = evidence.and_then(|evidence| evidence.claim().sentence());
        Ok(Planned { name: listed.name.clone(), trials, done, over, seconds, answer, args: run })
    }
}

pub(crate) fn run(args: &Args, lab: &Lab, out: &mut dyn Write) -> Result<Exit, Error> {
    let deadline = Deadline::after(Duration::from_secs_f64(args.hours * 3600.0)).ok_or("too many hours")?;
    let listed = listed(args)?;
    // One that cannot be read does not keep the others from being run.
    let planned = |listed: &Listed| match Planned::new(listed, args, lab) {
        Ok(planned) => Some(planned),
        Err(error) => {
            say!("{}: left out: {error}", listed.name);
            None
        }
    };
    let plan: Vec<Planned> = listed.iter().filter_map(planned).collect();
    let is_unread = |listed: &&Listed| plan.iter().all(|one| one.name != listed.name);
    let mut failed: HashSet<String> = listed.iter().filter(is_unread).map(|listed| listed.name.clone()).collect();
    if args.dry_run {
        emit(out, args.json, &plan, |out| print_plan(&plan, args.hours, out))?;
        return Ok(Exit::Done);
    }
    let mut text = Vec::new();
    print_plan(&plan, args.hours, &mut text)?;
    say!("{}", String::from_utf8_lossy(&text));
    let stop = stop_on_signals()?;
    stop_at(deadline, &stop);
    let left = || deadline.left().as_secs_f64();
    let is_stopped = || stop.load(Ordering::Relaxed);
    // First what can be finished, in the order of the list; then the first of the rest, as far as the time goes.
    for may_be_cut in [false, true] {
        for one in &listed {
            if is_stopped() || failed.contains(&one.name) {
                continue;
            }
            let Some(Planned { name, over, seconds, args, .. }) = planned(one) else {
                failed.insert(one.name.clone());
                continue;
            };
            if over || (!may_be_cut && seconds > left()) {
                continue;
            }
            say!("\n== {name}, {} left", duration(left()));
            match run::run(&args, lab, &mut std::io::sink()) {
                Ok(Exit::Interrupted) if left() > 0.0 => return Ok(Exit::Interrupted),
                Ok(Exit::Done | Exit::Interrupted) => {}
                // The others do not depend on it.
                Ok(_) => drop(failed.insert(name)),
                Err(error) => {
                    say!("{name}: failed: {error}");
                    failed.insert(name);
                }
            }
        }
    }
    let results: Vec<Planned> = listed.iter().filter_map(planned).collect();
    emit(out, args.json, &results, |out| print_results(&results, out))?;
    Ok(if failed.is_empty() { Exit::Done } else { Exit::SomeFailed })
}

/// The runs that are asked for.
fn listed(args: &Args) -> Result<Vec<Listed>, Error> {
    let list: List = toml::from_str(LIST)?;
    if let Some(unknown) = args.runs.iter().find(|name| !list.run.iter().any(|listed| listed.name == **name)) {
        let near = nearest(unknown, list.run.iter().map(|listed| listed.name.as_str()));
        let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        return Err(format!("the study has no run `{unknown}`{near}").into());
    }
    let is_chosen = |listed: &Listed| args.runs.is_empty() || args.runs.contains(&listed.name);
    Ok(list.run.into_iter().filter(is_chosen).collect())
}

fn print_plan(plan: &[Planned], hours: f64, out: &mut dyn Write) -> Result<(), Error> {
    let mut table = Table::new(["run", ">trials left", ">time", ">together"]);
    let (mut together, budget) = (0.0, hours * 3600.0);
    for Planned { name, trials, done, over, seconds, .. } in plan {
        let left = if *over { "done".to_owned() } else { format!("{} of {trials}", trials - done) };
        together += seconds;
        let title = if together > budget { format!("beyond {}", duration(budget)) } else { String::new() };
        let [seconds, together] =
            [*seconds, together].map(|time| if time > 0.0 { duration(time) } else { "–".to_owned() });
        table.row_below(&title, [name.clone(), left, seconds, together]);
    }
    table.print(out)?;
    writeln!(out, "\ntime: by estimate, less if trials reach their target early")?;
    let text = "Runs that do not fit into the time that is left are skipped in favour of smaller ones. The rest of the time goes to \
                the first of them. The same command continues.";
    Ok(paragraph(out, "", text)?)
}

fn print_results(results: &[Planned], out: &mut dyn Write) -> Result<(), Error> {
    writeln!(out, "{:33}{:>10}  answer", "run", "trials")?;
    for Planned { name, trials, done, answer, .. } in results {
        let name = shortened(name, 32);
        let answer = answer.as_deref().unwrap_or(if *done > 0 { "not checked" } else { "not run" });
        paragraph(out, &format!("{name:33}{:>10}  ", format!("{done}/{trials}")), answer)?;
    }
    Ok(())
}
