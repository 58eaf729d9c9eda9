//! `semfocus bench`: how fast this machine trains.

mod epoch;
mod probe;
mod report;
mod scratch;
mod steps;
mod surface;

use std::io::Write;

use clap::{Args as ClapArgs, Subcommand};

use crate::Error;

#[derive(Debug, ClapArgs)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    steps: steps::Args,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Measure what an epoch costs beyond its steps, and trials side by side
    ///
    /// An epoch of even pairs as `semfocus run` trains it (5,000 training examples, evaluation of 7,000, record and
    /// checkpoints on the disk) against its training and evaluation steps alone, taking turns; then four trials side by side
    /// on all cores against one alone.
    Epoch(epoch::Args),
    /// Measure how long a probe of large models takes
    ///
    /// Models of the study's size for ListOps (10 layers, 600 tokens) with their initial weights, 1,000 examples.
    Probe(probe::Args),
    /// Measure how long the cells of a loss surface take
    ///
    /// Models of even pairs with the published settings and their initial weights: loss and accuracy over 1,000 examples at
    /// other weights in every cell, on all cores.
    Surface(surface::Args),
    /// Measure how long the analysis of a large run takes
    ///
    /// A made-up run of 450 trials (15 mechanisms, 10 seeds, 3 values) with 1,000 epochs each: reading it, comparing, drawing,
    /// writing the page.
    Report(report::Args),
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Error> {
    match &args.what {
        Some(What::Epoch(args)) => epoch::run(args, out),
        Some(What::Probe(args)) => probe::run(args, out),
        Some(What::Surface(args)) => surface::run(args, out),
        Some(What::Report(args)) => report::run(args, out),
        None => steps::run(&args.steps, out),
    }
}

/// The middle value.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
