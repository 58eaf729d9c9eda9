//! `semfocus theory`: the conditions under which top-k attention has the better guarantee.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::{Args as ClapArgs, Subcommand};
use semfocus_analysis::theory::conditions::{Conditions, Statistics};
use semfocus_analysis::theory::stability as constants;
use semfocus_core::measurement::Count;
use semfocus_report::export::{Csv, Export, FIGURES, write_all};
use semfocus_report::regions;
use semfocus_store::files::write_whole;
use serde::Serialize;

use crate::output::emit;
use crate::talk::say;
use crate::text::paragraph;
use crate::{Error, Exit};

/// Rows of data that a terminal gets; files and pipes get all.
const SHOWN_ROWS: usize = 10;

#[derive(Debug, Subcommand)]
pub(crate) enum Args {
    /// Evaluate both conditions for four statistics of the scores
    Check(CheckArgs),
    /// Print the smallest separation for which the conditions hold, or write it to a folder with figures
    Regions(RegionsArgs),
    /// Print how much attention weights can change when scores do, for softmax and its alternatives
    Stability(StabilityArgs),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct CheckArgs {
    /// Dispersion of all scores under full attention
    #[arg(long, value_name = "A")]
    full_dispersion: f64,
    /// Dispersion of the kept scores under top-k attention
    #[arg(long, value_name = "B")]
    dispersion: f64,
    /// Separation: lowest kept score minus highest dropped score
    #[arg(long, value_name = "C")]
    separation: f64,
    /// Sink: how many queries keep the most popular key, divided by k
    #[arg(long, value_name = "D")]
    sink: f64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RegionsArgs {
    /// Folder for regions.csv and the figures as SVG, PNG and PDF [default: print the data]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct StabilityArgs {
    /// Number of keys that a query sees
    #[arg(long, value_name = "N", default_value = "40")]
    keys: Count<1>,
    /// Number of keys that a query keeps
    #[arg(long, value_name = "K", default_value = "5")]
    kept: Count<1>,
    /// Dispersion of all scores
    #[arg(long, value_name = "A")]
    dispersion: f64,
    /// Dispersion of the kept scores
    #[arg(long, value_name = "B")]
    kept_dispersion: f64,
    /// Separation: lowest kept score minus highest dropped score
    #[arg(long, value_name = "C")]
    separation: f64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A way to compute weights, and how much they can change.
#[derive(Serialize)]
struct Constant {
    weights: &'static str,
    constant: f64,
}

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    conditions: Conditions,
    w_margin: f64,
    x_margin: f64,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<Exit, Error> {
    match args {
        Args::Check(args) => check(args, out),
        Args::Stability(args) => stability(args, out),
        Args::Regions(RegionsArgs { output: Some(dir) }) => write_regions(dir, out),
        Args::Regions(RegionsArgs { output: None }) => print_regions(out),
    }
}

fn print_regions(out: &mut dyn Write) -> Result<Exit, Error> {
    let csv = Csv.text(&regions::frame());
    let shown = if io::stdout().is_terminal() { SHOWN_ROWS + 1 } else { usize::MAX };
    csv.lines().take(shown).try_for_each(|line| writeln!(out, "{line}"))?;
    let more = csv.lines().skip(shown).count();
    if more > 0 {
        out.flush()?;
        say!("… and {more} more rows; `-o DIR` writes them to a file, with figures");
    }
    Ok(Exit::Done)
}

fn stability(args: &StabilityArgs, out: &mut dyn Write) -> Result<Exit, Error> {
    let StabilityArgs { dispersion, kept_dispersion, separation, json, .. } = *args;
    let (keys, kept) = (args.keys.get(), args.kept.get().min(args.keys.get()));
    let numbers =
        [("dispersion", dispersion), ("dispersion of the kept scores", kept_dispersion), ("separation", separation)];
    if let Some((name, value)) = numbers.into_iter().find(|(_, value)| !(value.is_finite() && *value >= 0.0)) {
        return Err(format!("the {name} must be a number of at least 0, got {value}").into());
    }
    if kept_dispersion > dispersion {
        let message = "the dispersion of the kept scores is at most that of all scores";
        return Err(format!("{message}, got {kept_dispersion} and {dispersion}").into());
    }
    let constants = [
        ("softmax over all keys", constants::softmax(dispersion, keys)),
        ("softmax over the kept keys, chosen beforehand", constants::softmax(kept_dispersion, kept)),
        ("softmax over the highest scores", constants::top_k(kept_dispersion, separation, kept)),
        ("the same, not divided by their sum", constants::masked_top_k(dispersion, separation, keys)),
        ("sparsemax", constants::sparsemax(keys)),
        ("1.5-entmax", constants::entmax(1.5, keys)),
        ("sigmoid", constants::SIGMOID),
        ("ReLU", constants::relu(keys)),
    ]
    .map(|(weights, constant)| Constant { weights, constant });
    emit(out, json, &constants, |out| {
        writeln!(out, "{:46}  constant", "weights")?;
        for Constant { weights, constant } in &constants {
            writeln!(out, "{weights:46}  {constant:8.3}")?;
        }
        writeln!(out)?;
        let text = "Attention weights change by at most this constant times the change of the scores, both as sums of absolute \
                    values. A small constant does not say that a model learns fast.";
        Ok(paragraph(out, "", text)?)
    })
}

fn write_regions(dir: &Path, out: &mut dyn Write) -> Result<Exit, Error> {
    std::fs::create_dir_all(dir).map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
    write_whole(&dir.join("regions.csv"), Csv.text(&regions::frame()).as_bytes())?;
    writeln!(out, "{}", dir.join("regions.csv").display())?;
    for picture in regions::pictures() {
        write_all(&picture.figure, dir, &picture.name, &FIGURES)?;
        writeln!(out, "{}", dir.join(picture.name).display().to_string() + ".{svg,png,pdf}")?;
    }
    Ok(Exit::Done)
}

fn check(args: &CheckArgs, out: &mut dyn Write) -> Result<Exit, Error> {
    let CheckArgs { full_dispersion, dispersion, separation, sink, json } = *args;
    let conditions = Conditions::new(&Statistics { full_dispersion, dispersion, separation, sink })?;
    let report = Report { w_margin: 1.0 - conditions.w_lhs, x_margin: 1.0 - conditions.x_lhs, conditions };
    emit(out, json, &report, |out| print(&report, out))
}

fn print(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    let Report { conditions: Conditions { w_lhs, x_lhs, w_holds, x_holds }, w_margin, x_margin } = *report;
    let verdict = |holds: bool| if holds { "holds" } else { "does not hold" };
    writeln!(out, "condition               left-hand side    margin")?;
    writeln!(out, "W, attention parameters {w_lhs:14.3}  {w_margin:8.3}  {}", verdict(w_holds))?;
    writeln!(out, "X, block input          {x_lhs:14.3}  {x_margin:8.3}  {}", verdict(x_holds))?;
    writeln!(out)?;
    let meaning = match (w_holds, x_holds) {
        (true, true) => "Top-k attention has the better guarantee in both.",
        (true, false) => "Top-k attention has the better guarantee in its parameters, not in its input.",
        (false, true) => "Top-k attention has the better guarantee in its input, not in its parameters.",
        (false, false) => "Full attention has the better guarantee.",
    };
    let text = "A guarantee bounds how sensitive the loss is; it does not say how fast a model learns.";
    Ok(paragraph(out, "", &format!("{meaning} {text}"))?)
}
