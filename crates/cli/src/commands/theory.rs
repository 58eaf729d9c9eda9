//! `semfocus theory`: the conditions under which top-k attention has the better guarantee.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::{Args as ClapArgs, Subcommand};
use semfocus_analysis::theory::conditions::{Conditions, Statistics};
use semfocus_report::{regions, write_picture};
use semfocus_store::files::write_whole;
use serde::Serialize;

use crate::Error;
use crate::output::emit;
use crate::talk::say;
use crate::text::paragraph;

/// Rows of data that a terminal gets; files and pipes get all.
const SHOWN_ROWS: usize = 10;

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Evaluate both conditions for four statistics of the scores
    Check(CheckArgs),
    /// Print the minimum separation for which the conditions hold, or write it with figures into a folder
    Regions(RegionsArgs),
}

#[derive(Debug, ClapArgs)]
struct CheckArgs {
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
struct RegionsArgs {
    /// Folder for regions.csv and the figures as SVG, PNG and PDF [default: the data to standard output]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    conditions: Conditions,
    w_margin: f64,
    x_margin: f64,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Error> {
    match &args.what {
        What::Check(args) => check(args, out),
        What::Regions(args) => match &args.output {
            None if io::stdout().is_terminal() => {
                let csv = regions::csv();
                csv.lines().take(SHOWN_ROWS + 1).try_for_each(|line| writeln!(out, "{line}"))?;
                let more = csv.lines().count().saturating_sub(SHOWN_ROWS + 1);
                out.flush()?;
                say!("… and {more} more rows: redirect them into a file, or use -o DIR for a file and figures");
                Ok(())
            }
            None => Ok(out.write_all(regions::csv().as_bytes())?),
            Some(dir) => write_regions(dir, out),
        },
    }
}

fn write_regions(dir: &Path, out: &mut dyn Write) -> Result<(), Error> {
    std::fs::create_dir_all(dir).map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
    write_whole(&dir.join("regions.csv"), regions::csv().as_bytes())?;
    writeln!(out, "{}", dir.join("regions.csv").display())?;
    for picture in regions::pictures() {
        write_picture(dir, &picture)?;
        writeln!(out, "{}", dir.join(picture.name).display().to_string() + ".{svg,png,pdf}")?;
    }
    Ok(())
}

fn check(args: &CheckArgs, out: &mut dyn Write) -> Result<(), Error> {
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
