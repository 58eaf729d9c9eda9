//! `semfocus sharpness`: how curved the training loss is at trained models.

use std::io::Write;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use semfocus_core::Point;
use semfocus_core::study::seed_name;
use semfocus_lab::jobs::{Job, MeasureSharpness};
use semfocus_lab::surface::hessian::{Differences, SharpnessOptions};
use semfocus_lab::{Lab, TrainedModel};
use semfocus_store::{Sharpness, SharpnessRecord};
use serde::Serialize;

use crate::models::{ModelArgs, Target, mechanism_width, run_jobs};
use crate::output::emit;
use crate::text::{paragraph, rows_by_point, short};
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
    /// Compute in single precision: several times faster, but only accurate to an order of magnitude, and less than that for
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

/// The folder of a trial, and what a person calls it: mechanism, values on the grid, seed.
type Named = (PathBuf, (String, Point, u64));

/// The measurements that are asked for.
fn measurements(args: &Args, lab: &Lab) -> Result<Vec<(Named, MeasureSharpness)>, Error> {
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
            measurements.push(((target.folder.path().to_owned(), named), job));
        }
    }
    Ok(measurements)
}

/// The jobs for several processes that share them.
pub(crate) fn jobs(args: &Args, lab: &Lab) -> Result<Vec<Box<dyn Job>>, Error> {
    Ok(measurements(args, lab)?.into_iter().map(|(_, job)| Box::new(job) as Box<dyn Job>).collect())
}

pub(crate) fn run(args: &Args, lab: &Lab, out: &mut dyn Write) -> Result<Exit, Error> {
    let measurements = measurements(args, lab)?;
    let jobs: Vec<&dyn Job> = measurements.iter().map(|(_, job)| job as &dyn Job).collect();
    if let Some(exit) = run_jobs(lab, &args.models, &jobs, "products", None)? {
        return Ok(exit);
    }
    let mut entries = Vec::new();
    for ((trial, (mechanism, point, seed)), job) in measurements {
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
    let width = mechanism_width(entries.iter().map(|entry| &entry.mechanism));
    writeln!(out, "{:width$}  {:>4}  epoch      loss  largest eigenvalues             trace", "mechanism", "seed")?;
    rows_by_point(
        out,
        entries,
        |entry| &entry.point,
        |out, entry| {
            let Entry { mechanism, seed, record, .. } = entry;
            let Sharpness { eigenvalues, trace, trace_error, loss, .. } = &record.sharpness;
            let largest: Vec<String> = eigenvalues.iter().take(3).map(|value| short(*value)).collect();
            Ok(writeln!(
                out,
                "{mechanism:width$}  {:>4}  {:>5}  {:>8}  {:19}  {:>16}",
                seed_name(*seed),
                record.epoch,
                short(*loss),
                largest.join(" "),
                format!("{} ± {}", short(*trace), short(*trace_error)),
            )?)
        },
    )?;
    writeln!(out)?;
    Ok(paragraph(out, "", "Eigenvalues and trace of the Hessian of the mean training loss; ± one standard error.")?)
}
