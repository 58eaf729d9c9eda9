//! How long a probe of large models takes: `cargo bench --bench probe [-- OPTIONS]`.

mod common;

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use common::{Error, Output, peak_memory_mib};
use semfocus_core::MechanismList;
use semfocus_lab::probing::Prober;
use semfocus_lab::{Device, Lab};
use semfocus_nn::Encoder;
use serde::Serialize;

/// Measure probes of ListOps models with the published settings
#[derive(Debug, Parser)]
struct Args {
    /// Mechanisms to probe, one after another
    #[arg(long, value_name = "A,B,…", default_value = "full,topk:5")]
    mechanisms: Vec<MechanismList>,
    /// Examples to use
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    samples: u32,
    #[command(flatten)]
    output: Output,
}

#[derive(Serialize)]
struct Case {
    mechanism: String,
    layers: usize,
    length: usize,
    samples: usize,
    /// Finding the relevant positions of all examples.
    relevance_seconds: f64,
    /// The rest.
    seconds: f64,
    /// The most memory that the process has needed up to here.
    peak_rss_mib: Option<f64>,
}

fn main() -> ExitCode {
    let measure = |args: &Args| {
        let lab = Lab::standard();
        args.mechanisms
            .iter()
            .flat_map(|list| &list.0)
            .map(|mechanism| measure(args, &lab, mechanism))
            .collect::<Result<Vec<_>, _>>()
    };
    common::main(|args: &Args| &args.output, measure, |cases| print(cases))
}

fn measure(args: &Args, lab: &Lab, mechanism: &str) -> Result<Case, Error> {
    let overrides = [format!("data.train={}", args.samples), "data.held_out=1".to_owned()];
    let trial = common::plan(lab, "listops", mechanism, 1, &overrides)?.1.trials.remove(0);
    let settings = &trial.settings;
    eprintln!("generating {} examples of {} …", args.samples, settings.task);
    let data = trial.source.dataset(&settings.data, settings.seed)?;
    let attention = lab.attention(mechanism)?;
    let model = Encoder::new(settings.model.clone(), attention, settings.seed, &Device::cpu().plain())?;
    eprintln!("probing {mechanism} …");
    let began = Instant::now();
    let prober = Prober::new(&trial, &data.train, args.samples as usize)?;
    let relevance_seconds = began.elapsed().as_secs_f64();
    let record = prober.measure(&model, 0, None);
    Ok(Case {
        mechanism: mechanism.to_owned(),
        layers: record.layers.len(),
        length: record.length,
        samples: record.samples,
        relevance_seconds,
        seconds: record.seconds.unwrap_or_default(),
        peak_rss_mib: peak_memory_mib(),
    })
}

fn print(cases: &[Case]) {
    println!("mechanism  layers  length  examples  relevance, s  probe, s  peak MiB");
    for Case { mechanism, layers, length, samples, relevance_seconds, seconds, peak_rss_mib } in cases {
        let peak = peak_rss_mib.map_or_else(|| "–".to_owned(), |mib| format!("{mib:.0}"));
        println!(
            "{mechanism:9}  {layers:6}  {length:6}  {samples:8}  {relevance_seconds:12.1}  {seconds:8.1}  {peak:>8}"
        );
    }
}
