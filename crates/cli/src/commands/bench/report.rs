//! `semfocus bench report`: how long the analysis of a large run takes.

use std::io::Write;
use std::time::Instant;

use clap::Args as ClapArgs;
use semfocus_analysis::evidence::{Evidence, GOAL};
use semfocus_lab::store::State;
use semfocus_lab::store::made_up::{self, MadeUp};
use semfocus_lab::{Experiment, Request, Scale, Trial};
use semfocus_nn::Key;
use serde::Serialize;

use super::scratch::Scratch;
use crate::Error;

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Epochs of every trial
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    epochs: u32,
    /// Seeds
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    seeds: u16,
    /// Print JSON
    #[arg(long)]
    json: bool,
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

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Error> {
    let scratch = Scratch::new()?;
    eprintln!("making up a run …");
    let file = scratch.path().join("large.toml");
    std::fs::write(&file, "claim = \"None.\"\nbase = \"even-pairs\"\n[grid]\nmodel.blocks = [2, 4, 6]\n")?;
    let experiment = Experiment::resolve(&Request {
        experiment: file.display().to_string(),
        scale: Some(Scale::Full),
        seeds: Some(usize::from(args.seeds)),
        epochs: Some(args.epochs as usize),
        ..Request::default()
    })?;
    let trials = experiment.plan()?.trials.len();
    let epochs = args.epochs as usize;
    let store = made_up::made_up(&scratch.path().join("run"), &experiment, |trial| Some(course(trial, epochs)))?;
    eprintln!("analysing it …");
    let began = Instant::now();
    let evidence = Evidence::read(&store, GOAL)?;
    let compare_seconds = began.elapsed().as_secs_f64();
    semfocus_report::write(&store, &evidence)?;
    let report_seconds = began.elapsed().as_secs_f64();
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &Report { trials, epochs, compare_seconds, report_seconds })?;
        return Ok(writeln!(out)?);
    }
    writeln!(out, "{trials} trials of {epochs} epochs")?;
    writeln!(out, "read and compared        {compare_seconds:6.2} s")?;
    Ok(writeln!(out, "the same, and the report {report_seconds:6.2} s")?)
}

/// A trial that learns at some time that depends on its mechanism and seed, with noise.
fn course(trial: &Trial, epochs: usize) -> MadeUp {
    let key = Key::new(trial.settings.seed).named(&trial.settings.mechanism);
    let at = 1 + key.below(0, (epochs as u32).saturating_mul(3) / 2) as usize;
    let record = |epoch: usize| {
        let mut record = made_up::jump(epoch, Some(at), 0.97);
        let noise = f64::from(key.below(epoch as u32, 1000)) / 1000.0;
        record.train_loss *= 0.5 + noise;
        record.heldout_accuracy -= 0.02 * noise;
        record
    };
    MadeUp { records: (1..=epochs).map(record).collect(), state: State::Finished, probes: Vec::new() }
}
