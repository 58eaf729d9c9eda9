//! What the benchmarks share: options, output, and trials of the study.
#![allow(dead_code, reason = "every benchmark uses some of it")]

use std::process::ExitCode;

use clap::Parser;
use semfocus_core::{Experiment, Request, Scale};
use semfocus_lab::{Lab, Plan};
use serde::Serialize;

pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

/// Options of every benchmark.
#[derive(Debug, clap::Args)]
pub(crate) struct Output {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Cargo gives it to benchmarks
    #[arg(long, hide = true)]
    bench: bool,
}

/// Measures if `cargo bench` started this program, and prints the figures as a table or as JSON. `cargo test` builds
/// benchmarks and may start them, but they would take minutes.
pub(crate) fn main<A: Parser, R: Serialize>(
    output: impl FnOnce(&A) -> &Output,
    measure: impl FnOnce(&A) -> Result<R, Error>,
    print: impl FnOnce(&R),
) -> ExitCode {
    if !std::env::args().any(|argument| argument == "--bench" || argument == "--help") {
        eprintln!("nothing is measured: use `cargo bench`");
        return ExitCode::SUCCESS;
    }
    semfocus_nn::keep_freed_memory();
    let args = A::parse();
    let result = measure(&args).and_then(|report| {
        if output(&args).json {
            println!("{}", serde_json::to_string_pretty(&report)?);
        } else {
            print(&report);
        }
        Ok(())
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The trials of a preset at its published scale, with one mechanism.
pub(crate) fn plan(
    lab: &Lab,
    preset: &str,
    mechanism: &str,
    seeds: usize,
    overrides: &[String],
) -> Result<(Experiment, Plan), Error> {
    let experiment = Experiment::resolve(
        &Request {
            experiment: preset.to_owned(),
            scale: Some(Scale::Full),
            mechanisms: Some(vec![mechanism.to_owned()]),
            seeds: Some(seeds),
            overrides: overrides.to_vec(),
            ..Request::default()
        },
        lab,
    )?;
    let plan = lab.plan(&experiment)?;
    Ok((experiment, plan))
}

pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The most memory that the process has needed up to here; none where the system does not tell.
pub(crate) fn peak_memory_mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1024.0)
}
