//! `semfocus sharpness`: how curved the training loss is at trained models.

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clap::Args as ClapArgs;
use semfocus_analysis::surface::record::{SharpnessRecord, record_sharpness, sharpness};
use semfocus_analysis::surface::sharpness::{Differences, Sharpness, SharpnessError, SharpnessOptions};
use semfocus_lab::store::TrialFolder;
use semfocus_lab::trained::Trained;
use semfocus_tasks::Split;
use serde::Serialize;

use crate::counter::Counter;
use crate::signals::stop_on_signals;
use crate::targets::{ModelArgs, Target};
use crate::text::short;
use crate::{Error, Exit};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    #[command(flatten)]
    models: ModelArgs,
    /// Also the models along training that probes kept
    #[arg(long)]
    along_training: bool,
    /// Training examples that the loss is taken over, the first ones
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    samples: u32,
    /// Largest eigenvalues
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=50))]
    eigenvalues: u16,
    /// Random vectors that the trace is estimated from
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(2..=10_000))]
    probes: u16,
    /// Products in single precision: several times as fast, good for orders of magnitude only, and less so for mechanisms
    /// that choose their keys
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
    seed: u64,
    #[serde(flatten)]
    record: SharpnessRecord,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<Exit, Error> {
    let stop = stop_on_signals()?;
    let mut entries = Vec::new();
    for target in args.models.targets()? {
        let settings = &target.trained.trial.settings;
        let split = target.trained.trial.source.dataset(&settings.data, settings.seed)?.train;
        let (mechanism, seed) = (settings.mechanism.clone(), settings.seed);
        for trained in models(args, &target)? {
            let Some(record) = measure(args, &target.folder, &trained, &split, &stop)? else {
                eprintln!("interrupted; models that were finished are on record and are not measured again");
                return Ok(Exit::Interrupted);
            };
            let (trial, mechanism) = (target.folder.path().to_owned(), mechanism.clone());
            entries.push(Entry { trial, mechanism, seed, record });
        }
    }
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &entries)?;
        writeln!(out)?;
    } else {
        print(&entries, out)?;
    }
    Ok(Exit::Done)
}

/// The models of a trial to look at, by ascending epoch.
fn models(args: &Args, target: &Target) -> Result<Vec<Trained>, Error> {
    let mut models = if args.along_training { Trained::along_training(&target.folder)? } else { Vec::new() };
    if args.along_training && models.is_empty() {
        let path = target.folder.path().display();
        return Err(format!("{path} kept no models along its training: train with `-s probe_every=N`").into());
    }
    models.retain(|trained| trained.epoch != target.trained.epoch);
    models.push(target.trained.clone());
    models.sort_by_key(|trained| trained.epoch);
    Ok(models)
}

/// The sharpness of a model, from the record if it is there; none if it was asked to stop.
fn measure(
    args: &Args,
    folder: &TrialFolder,
    trained: &Trained,
    split: &Split,
    stop: &AtomicBool,
) -> Result<Option<SharpnessRecord>, Error> {
    let options = SharpnessOptions {
        samples: split.len().min(args.samples as usize),
        eigenvalues: usize::from(args.eigenvalues),
        probes: usize::from(args.probes),
        differences: if args.fast { Differences::Fast } else { Differences::Exact },
        ..SharpnessOptions::default()
    };
    let is_same = |record: &SharpnessRecord| {
        (record.epoch, record.samples, record.exact) == (trained.epoch, options.samples, !args.fast)
            && record.sharpness.eigenvalues.len() >= options.eigenvalues
            && record.probes >= options.probes
    };
    if let Some(record) = sharpness(folder.path())?.into_iter().find(is_same) {
        return Ok(Some(record));
    }
    let settings = &trained.trial.settings;
    eprintln!("{} seed {}, after epoch {}", settings.mechanism, settings.seed, trained.epoch);
    let began = Instant::now();
    let mut counter: Option<Counter> = None;
    let mut seen = 0;
    let found = Sharpness::of(&trained.model, split, &options, &mut |done, total| {
        counter.get_or_insert_with(|| Counter::new("products, at most", total, 0)).add(done - seen);
        seen = done;
        !stop.load(Ordering::Relaxed)
    });
    if let Some(counter) = counter {
        counter.finish();
    }
    let found = match found {
        Ok(found) => found,
        Err(SharpnessError::Stopped) => return Ok(None),
        Err(error) => return Err(format!("{}: {error}", folder.path().display()).into()),
    };
    let record = SharpnessRecord {
        epoch: trained.epoch,
        samples: options.samples,
        exact: !args.fast,
        probes: options.probes,
        sharpness: found,
        seconds: began.elapsed().as_secs_f64(),
    };
    match folder.lock()? {
        Ok(lock) => record_sharpness(folder, &lock, &record)?,
        Err(_) => eprintln!("not recorded: another process trains this trial"),
    }
    Ok(Some(record))
}

fn print(entries: &[Entry], out: &mut dyn Write) -> Result<(), Error> {
    let width = entries.iter().map(|entry| entry.mechanism.chars().count()).max().unwrap_or(0).max(9);
    writeln!(out, "{:width$}       seed  epoch      loss  largest eigenvalues       trace", "mechanism")?;
    for Entry { mechanism, seed, record, .. } in entries {
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
