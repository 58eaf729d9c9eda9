//! `semfocus data audit`.

use std::io::Write;

use clap::Args as ClapArgs;
use semfocus_lab::Lab;
use semfocus_tasks::{Audit, DataSettings, Sizes};
use serde::Serialize;

use super::{FileArgs, Shape, find};
use crate::output::emit;
use crate::text::{paragraph, shortened};
use crate::{Error, Exit};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Name of a task, see `semfocus list tasks`, or path of a data file
    task: String,
    /// Seed of the data
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    shape: Shape,
    #[command(flatten)]
    files: FileArgs,
    /// Number of training examples; for data files, the maximum
    #[arg(long, value_name = "N", default_value_t = Sizes::default().train)]
    train: usize,
    /// Number of held-out examples; for data files, the maximum
    #[arg(long, value_name = "N", default_value_t = Sizes::default().held_out)]
    held_out: usize,
    /// Number of test examples; for data files, the maximum
    #[arg(long, value_name = "N", default_value_t = Sizes::default().test)]
    test: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    seed: u64,
    #[serde(flatten)]
    audit: Audit,
}

pub(crate) fn run(args: &Args, lab: &Lab, out: &mut dyn Write) -> Result<Exit, Error> {
    let sizes = Sizes { train: args.train, held_out: args.held_out, test: args.test };
    let settings = args.files.settings(DataSettings { sizes, ..args.shape.settings() });
    let source = find(lab, &args.task, &settings)?;
    let audit = Audit::new(&source.dataset(&settings, args.seed)?, &source.trivial_rules());
    let report = Report { seed: args.seed, audit };
    emit(out, args.json, &report, |out| print(&report, out))
}

fn print(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    let Report { seed, audit } = report;
    let Audit { task, classes, vocabulary, length, .. } = audit;
    writeln!(out, "{task}, seed {seed}: {classes} classes, {vocabulary} token ids with padding, length {length}")?;

    writeln!(
        out,
        "\nLabels           {}",
        audit.splits.iter().map(|s| format!("{:>12}", s.split)).collect::<String>()
    )?;
    for class in (0..*classes).take(MOST_CLASSES) {
        write!(out, "  {:<15}", shortened(&audit.class_names[class], 15))?;
        for split in &audit.splits {
            let answers: usize = split.labels.iter().sum();
            write!(out, "{:>10.1} %", 100.0 * split.labels[class] as f64 / answers as f64)?;
        }
        writeln!(out)?;
    }
    if *classes > MOST_CLASSES {
        writeln!(out, "  … and {} more", classes - MOST_CLASSES)?;
    }
    write!(out, "  examples       ")?;
    audit.splits.iter().try_for_each(|split| write!(out, "{:>12}", split.examples))?;
    write!(out, "\n  duplicates     ")?;
    audit.splits.iter().try_for_each(|split| write!(out, "{:>12}", split.duplicates))?;
    writeln!(out)?;

    writeln!(out, "\nShared between splits")?;
    for overlap in &audit.overlaps {
        let [a, b] = overlap.between;
        writeln!(out, "  {:25}{:>6} sequences", format!("{a} and {b}"), overlap.sequences)?;
    }
    writeln!(out, "  {:25}{:>6} sequences", "with several labels", audit.contradictions)?;

    writeln!(out, "\nLengths without padding")?;
    let most = audit.lengths.iter().map(|bin| bin.examples).max().unwrap_or(1).max(1);
    for bin in &audit.lengths {
        let range = if bin.from == bin.to { bin.from.to_string() } else { format!("{}–{}", bin.from, bin.to) };
        let bar = "#".repeat((bin.examples * 40).div_ceil(most));
        writeln!(out, "{}", format!("  {range:>13} {:>8}  {bar}", bin.examples).trim_end())?;
    }

    writeln!(out, "\nTrivial rules, fitted on train          accuracy on held-out")?;
    for baseline in &audit.baselines {
        let mark = if baseline.above_majority { "  above the majority class" } else { "" };
        writeln!(out, "  {:38}{:>9.1} %{mark}", baseline.name, 100.0 * baseline.accuracy)?;
    }
    if audit.baselines.is_empty() {
        writeln!(out, "  none: they need a train and a held-out split")?;
    }

    writeln!(out, "\nFindings")?;
    audit.findings.iter().try_for_each(|finding| paragraph(out, "  - ", finding))?;
    Ok(())
}

/// More classes than these are not listed one by one.
const MOST_CLASSES: usize = 20;
