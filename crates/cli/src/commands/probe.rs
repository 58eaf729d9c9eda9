//! `semfocus probe`: what the attention of trained models does with its scores.

use std::io::Write;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use semfocus_analysis::probe::{Probe, QUANTILES, Row, Summary, table};
use semfocus_lab::Store;
use semfocus_lab::store::{CheckpointName, TrialFolder};
use serde::Serialize;

use crate::Error;
use crate::commands::show::find_trial;

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Folders of trials, or of runs: all their trials that have a checkpoint
    #[arg(required = true)]
    runs: Vec<PathBuf>,
    /// Training examples to look at
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    samples: u32,
    /// The model after its best epoch instead of the last
    #[arg(long)]
    best: bool,
    /// Print JSON, with all quantiles of every layer
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    quantiles: [f64; 11],
    probes: Vec<Entry>,
    pairs: Vec<Pair>,
}

#[derive(Serialize)]
struct Entry {
    trial: PathBuf,
    mechanism: String,
    seed: u64,
    epoch: usize,
    samples: usize,
    pooled: Summary,
    layers: Vec<Summary>,
}

/// A model against the one with full attention and the same seed.
#[derive(Serialize)]
struct Pair {
    mechanism: String,
    seed: u64,
    rows: Vec<Row>,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Error> {
    let name = if args.best { CheckpointName::Best } else { CheckpointName::Last };
    let mut probed = Vec::new();
    for folder in folders(args, name)? {
        let settings = folder.settings()?;
        eprintln!("looking at {} seed {} …", settings.mechanism, settings.seed);
        let probe = Probe::of(&folder, name, args.samples as usize)?;
        probed.push((folder.path().to_owned(), settings, probe));
    }
    let mut pairs = Vec::new();
    for (_, settings, full) in probed.iter().filter(|(_, settings, _)| settings.mechanism == "full") {
        // Everything but the mechanism must be the same.
        let like = |other: &semfocus_lab::TrialSettings| {
            semfocus_lab::TrialSettings { mechanism: settings.mechanism.clone(), ..other.clone() } == *settings
        };
        for (_, other, probe) in probed.iter().filter(|(_, other, _)| other.mechanism != "full" && like(other)) {
            let rows = table(full, probe);
            pairs.push(Pair { mechanism: other.mechanism.clone(), seed: other.seed, rows });
        }
    }
    let entry = |(trial, settings, probe): (PathBuf, semfocus_lab::TrialSettings, Probe)| Entry {
        trial,
        mechanism: settings.mechanism,
        seed: settings.seed,
        epoch: probe.epoch,
        samples: probe.samples,
        pooled: probe.pooled().summary(),
        layers: probe.layers.iter().map(semfocus_analysis::probe::LayerProbe::summary).collect(),
    };
    let report = Report { quantiles: QUANTILES, probes: probed.into_iter().map(entry).collect(), pairs };
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &report)?;
        return Ok(writeln!(out)?);
    }
    print(&report, out)
}

/// The trials that are meant and have a checkpoint.
fn folders(args: &Args, name: CheckpointName) -> Result<Vec<TrialFolder>, Error> {
    let mut folders = Vec::new();
    for path in &args.runs {
        if path.join("experiment.toml").is_file() {
            let trials = Store::open(path)?.trials()?.into_iter().map(|(_, folder)| folder);
            folders.extend(trials.filter(|folder| folder.checkpoint(name).is_file()));
        } else {
            folders.push(find_trial(path)?);
        }
    }
    if folders.is_empty() {
        return Err("no trial of these runs has a checkpoint yet".into());
    }
    Ok(folders)
}

fn print(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    let width = report.probes.iter().map(|probe| probe.mechanism.chars().count()).max().unwrap_or(0).max(9);
    writeln!(out, "medians over queries (dispersion, separation, entropy) and keys (sink)")?;
    writeln!(out)?;
    writeln!(out, "{:width$}       seed  epoch  layer  dispersion  separation  entropy    sink", "mechanism")?;
    let middle = |values: &[f64]| values.get(5).map_or_else(|| "–".to_owned(), |x| format!("{x:.3}"));
    for probe in &report.probes {
        let layers = probe.layers.iter().enumerate().map(|(index, layer)| (index.to_string(), layer));
        for (layer, summary) in layers.chain([("all".to_owned(), &probe.pooled)]) {
            let Summary { dispersion, separation, entropy, sink } = summary;
            writeln!(
                out,
                "{:width$}  {:>9}  {:5}  {layer:>5}  {:>10}  {:>10}  {:>7}  {:>6}",
                probe.mechanism,
                probe.seed,
                probe.epoch,
                middle(dispersion),
                middle(separation),
                middle(entropy),
                sink.get(5).map_or_else(|| "–".to_owned(), |x| format!("{x:.1}")),
            )?;
        }
    }
    for Pair { mechanism, seed, rows } in report.pairs.iter().filter(|pair| !pair.rows.is_empty()) {
        writeln!(out)?;
        writeln!(out, "{mechanism} against full, seed {seed}")?;
        writeln!(out, "quantile     δs     δh         Δ      b      (W)      (X)")?;
        for row in rows {
            let Row { quantile, full_dispersion, dispersion, separation, sink, conditions } = row;
            writeln!(
                out,
                "{quantile:6} % {full_dispersion:7.2}{dispersion:7.2}{separation:10.2e}{sink:7.1}{:9.3}{:9.3}",
                conditions.w_lhs, conditions.x_lhs
            )?;
        }
    }
    if report.pairs.iter().any(|pair| !pair.rows.is_empty()) {
        writeln!(out)?;
        writeln!(out, "A condition holds where its number is below 1; Δ is at the opposite quantile.")?;
    }
    Ok(())
}
