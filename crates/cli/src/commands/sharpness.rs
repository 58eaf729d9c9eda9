//! `semfocus sharpness`: how curved the training loss is at trained models.

use std::io::Write;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use semfocus_core::Point;
use semfocus_lab::jobs::{Job, MeasureSharpness};
use semfocus_lab::surface::hessian::{Differences, SharpnessOptions};
use semfocus_lab::{Lab, TrainedModel};
use semfocus_store::{Sharpness, SharpnessRecord};
use serde::Serialize;

use crate::models::{ModelArgs, Target, labelled, run_jobs};
use crate::output::emit;
use crate::text::short;
use crate::{Error, Exit};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    #[command(flatten)]
    models: ModelArgs,
    /// Also measure the models that probes saved during training
    #[arg(long)]
    along_training: bool,
    /// Compute the loss over the first N training examples
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    samples: u32,
    /// How many of the largest eigenvalues to compute
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=50))]
    eigenvalues: u16,
    /// Random vectors to estimate the trace with
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(2..=10_000))]
    probes: u16,
    /// Compute in single precision: several times as fast, but accurate to an order of magnitude only, and less so for
    /// mechanisms that select keys by their scores
    #[arg(long)]
    fast: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Entry {
    trial: PathBuf,
    mechanism: String,
    /// Values on the axes of the grid.
    point: Point,
    seed: u64,
    #[serde(flatten)]
    record: SharpnessRecord,
}

pub(crate) fn run(args: &Args, lab: &Lab, out: &mut dyn Write) -> Result<Exit, Error> {
    let mut measurements = Vec::new();
    for target in args.models.targets(lab, 1)? {
        let settings = target.trained.trial.settings.clone();
        let options = SharpnessOptions {
            samples: settings.data.sizes.train.min(args.samples as usize),
            eigenvalues: usize::from(args.eigenvalues),
            probes: usize::from(args.probes),
            differences: if args.fast { Differences::Fast } else { Differences::Exact },
            ..SharpnessOptions::default()
        };
        for trained in models(args, lab, &target)? {
            let job = MeasureSharpness::new(trained, target.folder.clone(), options);
            let named = (settings.mechanism.clone(), target.point.clone(), settings.seed);
            measurements.push((target.folder.path().to_owned(), named, job));
        }
    }
    let jobs: Vec<&dyn Job> = measurements.iter().map(|(_, _, job)| job as &dyn Job).collect();
    if let Some(exit) = run_jobs(lab, &args.models.device.device, &jobs, "products", None)? {
        return Ok(exit);
    }
    let mut entries = Vec::new();
    for (trial, (mechanism, point, seed), job) in measurements {
        let record = job.record()?.ok_or_else(|| format!("{} has no record", trial.display()))?;
        entries.push(Entry { trial, mechanism, point, seed, record });
    }
    emit(out, args.json, &entries, |out| print(&entries, out))?;
    Ok(Exit::Done)
}

/// The models of a trial to measure, by ascending epoch.
fn models(args: &Args, lab: &Lab, target: &Target) -> Result<Vec<TrainedModel>, Error> {
    if !args.along_training {
        return Ok(vec![target.trained.clone()]);
    }
    let mut models = TrainedModel::along_training(lab, &args.models.device.device, &target.folder)?;
    if models.is_empty() {
        let path = target.folder.path().display();
        return Err(format!("{path} has no models saved during training: train with `-s probe_every=N`").into());
    }
    models.retain(|trained| trained.epoch != target.trained.epoch);
    models.push(target.trained.clone());
    models.sort_by_key(|trained| trained.epoch);
    Ok(models)
}

fn print(entries: &[Entry], out: &mut dyn Write) -> Result<(), Error> {
    let label = |entry: &Entry| labelled(&entry.mechanism, &entry.point);
    let width = entries.iter().map(|entry| label(entry).chars().count()).max().unwrap_or(0).max(9);
    writeln!(out, "{:width$}       seed  epoch      loss  largest eigenvalues       trace", "mechanism")?;
    for entry in entries {
        let (mechanism, Entry { seed, record, .. }) = (label(entry), entry);
        let Sharpness { eigenvalues, trace, trace_error, loss, .. } = &record.sharpness;
        let largest: Vec<String> = eigenvalues.iter().take(3).map(|value| short(*value)).collect();
        writeln!(
            out,
            "{mechanism:width$}  {seed:>9}  {:>5}  {:>8}  {:19}  {:>10}",
            record.epoch,
            short(*loss),
            largest.join(" "),
            format!("{} ± {}", short(*trace), short(*trace_error)),
        )?;
    }
    writeln!(out)?;
    Ok(writeln!(out, "Eigenvalues and trace of the Hessian of the mean training loss; ± one standard error.")?)
}
