//! How long the analysis of a large run takes: `cargo bench --bench report [-- OPTIONS]`.

mod common;

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use common::{Error, Output};
use semfocus_analysis::evidence::{Evidence, GOAL};
use semfocus_core::{Experiment, Key, Metric, Request, Scale, TrialSettings};
use semfocus_fixture::{Fixture, Scratch, jump};
use semfocus_lab::Lab;
use semfocus_store::State;
use serde::Serialize;

/// Measure `compare` and `report` on an invented run of even pairs: all mechanisms of the study at three depths
#[derive(Debug, Parser)]
struct Args {
    /// Epochs of every trial
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    epochs: u32,
    /// Seeds
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    seeds: u16,
    #[command(flatten)]
    output: Output,
}

#[derive(Serialize)]
struct Report {
    trials: usize,
    epochs: usize,
    /// Reading the store and comparing.
    compare_seconds: f64,
    /// Reading, comparing, drawing and writing everything.
    report_seconds: f64,
}

fn main() -> ExitCode {
    common::main(|args: &Args| &args.output, measure, print)
}

fn measure(args: &Args) -> Result<Report, Error> {
    let scratch = Scratch::new("bench-report");
    eprintln!("inventing a run …");
    let file = scratch.path().join("large.toml");
    std::fs::write(&file, "claim = \"None.\"\nbase = \"even-pairs\"\n[grid]\nmodel.blocks = [2, 4, 6]\n")?;
    let request = Request {
        experiment: file.display().to_string(),
        scale: Some(Scale::Full),
        seeds: Some(usize::from(args.seeds)),
        epochs: Some(args.epochs as usize),
        ..Request::default()
    };
    let experiment = Experiment::resolve(&request, &Lab::standard())?;
    let epochs = args.epochs as usize;
    let invent = |settings: &TrialSettings| Some(invented(settings, epochs));
    let store = semfocus_fixture::store(&scratch.path().join("run"), &experiment, invent)?;
    let trials = store.index()?.len();
    eprintln!("analysing it …");
    let began = Instant::now();
    Evidence::read(&store, GOAL)?;
    let compare_seconds = began.elapsed().as_secs_f64();
    let began = Instant::now();
    semfocus_report::write(&store, &Evidence::read_all(&store, GOAL)?)?;
    let report_seconds = began.elapsed().as_secs_f64();
    Ok(Report { trials, epochs, compare_seconds, report_seconds })
}

fn print(report: &Report) {
    let Report { trials, epochs, compare_seconds, report_seconds } = report;
    println!("{trials} trials of {epochs} epochs");
    println!("read and compared        {compare_seconds:6.2} s");
    println!("the same, and the report {report_seconds:6.2} s");
}

/// A trial that learns in an epoch that depends on its mechanism and seed, with noise.
fn invented(settings: &TrialSettings, epochs: usize) -> Fixture {
    let key = Key::new(settings.seed).named(&settings.mechanism);
    let at = 1 + key.below(0, (epochs as u32).saturating_mul(3) / 2) as usize;
    let record = |epoch: usize| {
        let mut record = jump(epoch, Some(at), 0.97);
        let noise = f64::from(key.below(epoch as u32, 1000)) / 1000.0;
        record.metrics[Metric::TrainLoss] *= 0.5 + noise;
        record.metrics[Metric::HeldoutAccuracy] -= 0.02 * noise;
        record
    };
    Fixture { records: (1..=epochs).map(record).collect(), state: State::Finished, probes: Vec::new() }
}
