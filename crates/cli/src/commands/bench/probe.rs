//! `semfocus bench probe`: how long a probe of large models takes.

use std::io::Write;
use std::time::Instant;

use burn::tensor::Device;
use clap::Args as ClapArgs;
use semfocus_lab::probe::Prober;
use semfocus_lab::{Experiment, Request, Scale, Trial};
use semfocus_nn::{Encoder, Registry};
use serde::Serialize;

use super::steps::peak_memory_mib;
use crate::Error;

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Mechanisms to probe, one after another
    #[arg(long, value_name = "A,B,…", value_delimiter = ',', default_value = "full,topk:5")]
    mechanisms: Vec<String>,
    /// Examples to look at
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    samples: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
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

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Error> {
    let cases = args.mechanisms.iter().map(|mechanism| measure(args, mechanism)).collect::<Result<Vec<_>, _>>()?;
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &cases)?;
        return Ok(writeln!(out)?);
    }
    writeln!(out, "mechanism  layers  length  examples  relevance, s  probe, s  peak MiB")?;
    for Case { mechanism, layers, length, samples, relevance_seconds, seconds, peak_rss_mib } in cases {
        let peak = peak_rss_mib.map_or_else(|| "–".to_owned(), |mib| format!("{mib:.0}"));
        writeln!(
            out,
            "{mechanism:9}  {layers:6}  {length:6}  {samples:8}  {relevance_seconds:12.1}  {seconds:8.1}  {peak:>8}"
        )?;
    }
    Ok(())
}

fn measure(args: &Args, mechanism: &str) -> Result<Case, Error> {
    let trial = trial_of(mechanism, args.samples)?;
    let settings = &trial.settings;
    eprintln!("making {} examples of {} …", args.samples, settings.task);
    let data = trial.source.dataset(&settings.data, settings.seed)?;
    let attention = Registry::standard().parse(mechanism)?;
    let model = Encoder::new(settings.model.clone(), attention, settings.seed, &Device::flex())?;
    eprintln!("probing {mechanism} …");
    let began = Instant::now();
    let prober = Prober::new(&trial, &data.train, args.samples as usize);
    let relevance_seconds = began.elapsed().as_secs_f64();
    let record = prober.look(&model, 0, None);
    Ok(Case {
        mechanism: mechanism.to_owned(),
        layers: record.layers.len(),
        length: record.length,
        samples: record.samples,
        relevance_seconds,
        seconds: record.seconds,
        peak_rss_mib: peak_memory_mib(),
    })
}

fn trial_of(mechanism: &str, samples: u32) -> Result<Trial, Error> {
    let experiment = Experiment::resolve(&Request {
        experiment: "listops".to_owned(),
        scale: Some(Scale::Full),
        mechanisms: Some(vec![mechanism.to_owned()]),
        seeds: Some(1),
        overrides: vec![format!("data.train={samples}"), "data.held_out=1".to_owned()],
        ..Request::default()
    })?;
    Ok(experiment.plan()?.trials.remove(0))
}
