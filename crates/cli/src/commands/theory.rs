//! `semfocus theory`: the conditions under which top-k attention has the better guarantee.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args as ClapArgs, Subcommand};
use semfocus_analysis::theory::conditions::{Conditions, Statistics};
use semfocus_lab::store::files::write_whole;
use semfocus_report::{regions, write_picture};
use serde::Serialize;

use crate::Error;
use crate::text::paragraph;

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Work out both conditions from four statistics
    Check(CheckArgs),
    /// Write the least separation from which on the conditions hold: data, and figures if a folder is given
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
    /// Separation: lowest kept less highest dropped score
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
    let conditions = Conditions::of(&Statistics { full_dispersion, dispersion, separation, sink })?;
    let Conditions { w_lhs, x_lhs, w_holds, x_holds } = conditions;
    if json {
        let report = Report { conditions, w_margin: 1.0 - w_lhs, x_margin: 1.0 - x_lhs };
        serde_json::to_writer_pretty(&mut *out, &report)?;
        return Ok(writeln!(out)?);
    }
    let verdict = |holds: bool| if holds { "holds" } else { "does not hold" };
    writeln!(out, "condition               left-hand side    margin")?;
    writeln!(out, "W, attention parameters {w_lhs:14.3}  {:8.3}  {}", 1.0 - w_lhs, verdict(w_holds))?;
    writeln!(out, "X, block input          {x_lhs:14.3}  {:8.3}  {}", 1.0 - x_lhs, verdict(x_holds))?;
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
