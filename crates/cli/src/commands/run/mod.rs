//! `semfocus run`: an experiment from its file to its table.

mod guard;
mod outcome;
mod prepare;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args as ClapArgs;
use semfocus_analysis::evidence::{Evidence, GOAL};
use semfocus_core::experiment::presets;
use semfocus_core::{MechanismList, Request, Scale};
use semfocus_lab::jobs::{Executor, Job};
use semfocus_lab::{Lab, memory};
use semfocus_store::{Created, Holder, Store, StoreError};

use crate::damage::left_out;
use crate::models::session;
use crate::progress::Progress;
use crate::signals::stop_on_signals;
use crate::talk::say;
use crate::{DeviceArg, Error, Exit};
use outcome::Outcome;
use prepare::Prepared;

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Name of a preset (see `semfocus list experiments`), path of an experiment file, or folder of a run to resume
    experiment: String,
    /// Settings to override, such as model.blocks=3; the same as -s
    #[arg(value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Folder for the results [default: runs/ and the name of the experiment, with the settings that are changed]
    ///
    /// The same command resumes a run that was interrupted. With more mechanisms, seeds, epochs or grid values the
    /// experiment grows in its folder: finished trials are kept.
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Trials at once [default: one for each core]
    ///
    /// The results do not depend on this number.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// How much of the experiment to run [default: quick for a preset; a file runs as it is written]
    #[arg(long, value_name = "quick|medium|full")]
    scale: Option<Scale>,
    /// Mechanisms to compare instead of those of the experiment
    #[arg(long, value_name = "A,B,…")]
    mechanisms: Option<Vec<MechanismList>>,
    /// Number of seeds, or the seeds themselves, such as 7,8,9
    ///
    /// A single number is a number of seeds: 3 means the first three of the study's. The list with the single seed 3 is
    /// written `3,`.
    #[arg(long, value_name = "N|A,B,…")]
    seeds: Option<Seeds>,
    /// Explains itself: it is easily taken for --seeds.
    #[arg(long, hide = true, value_name = "SEED")]
    seed: Option<u64>,
    /// Number of epochs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    epochs: Option<u32>,
    /// Override a setting, e.g. -s model.blocks=3 (see `semfocus list settings`)
    ///
    /// Several values make an axis of a grid: -s training.learning_rate=1e-3,3e-3 trains everything with both.
    #[arg(short, long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Try everything once, as small as possible: every mechanism and grid point, one seed, one epoch, few examples
    ///
    /// What is given explicitly stays as it is given.
    #[arg(long)]
    smoke: bool,
    #[command(flatten)]
    device: DeviceArg,
    /// Print the trials and the estimated time, memory and disk space; train nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Start without asking, however long it takes
    #[arg(short, long)]
    yes: bool,
    /// Changes nothing: a run always resumes
    #[arg(long)]
    resume: bool,
    /// Print only the result, no progress
    #[arg(short, long)]
    quiet: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// How many seeds, or which.
#[derive(Clone, Debug)]
enum Seeds {
    Count(usize),
    List(Vec<u64>),
}

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let expected = || "expected a number of seeds from 1 to 100000, or a list of seeds such as 7,8,9".to_owned();
        if !text.contains(',') {
            let count = text.trim().parse().ok().filter(|count| (1..=100_000).contains(count));
            return count.map(Seeds::Count).ok_or_else(expected);
        }
        let numbers = text.split(',').map(str::trim).filter(|number| !number.is_empty());
        let seeds: Result<Vec<u64>, _> = numbers.map(str::parse).collect();
        seeds.ok().filter(|seeds| !seeds.is_empty()).map(Seeds::List).ok_or_else(expected)
    }
}

pub(crate) fn run(args: &Args, lab: &Lab, out: &mut dyn Write) -> Result<Exit, Error> {
    if let Some(seed) = args.seed {
        say!(
            "error: seeds are given together: --seeds {seed} trains with {seed} seeds, --seeds {seed}, with the seed {seed} alone"
        );
        return Ok(Exit::WrongUsage);
    }
    if args.resume {
        say!("note: a run always resumes where it stopped; --resume changes nothing");
    }
    let mut prepared = Prepared::new(args, lab)?;
    let estimate = prepared.estimate(args, lab);
    if args.dry_run {
        prepared.check()?;
        return prepared.dry_run(args, estimate.as_ref(), out).map(|()| Exit::Done);
    }
    prepared.check()?;
    if !args.quiet {
        prepared.introduce(estimate.as_ref());
    }
    if !guard::may_start(args, lab, &prepared, estimate.as_ref())? {
        return Ok(Exit::WrongUsage);
    }
    let stop = stop_on_signals()?;
    let Some(Created { store, repaired, .. }) = create(&mut prepared, args, lab, &stop)? else {
        return Ok(Exit::Interrupted);
    };
    for repaired in repaired {
        say!("repaired: {repaired}");
    }
    let Prepared { experiment, jobs, sharing, dir, .. } = &prepared;
    let sharing = *sharing;
    let jobs: Vec<&dyn Job> = jobs.iter().map(|job| job as &dyn Job).collect();
    let progress = Progress::new(&jobs, "steps", sharing, args.quiet, stop.clone());
    let device = &args.device.device;
    let session = session(device, sharing);
    let memory = memory::available();
    let ends = Executor { lab, device, session, sharing, stop: &stop, memory, observer: &progress }.run(&jobs);
    progress.finish();
    let evidence = Evidence::read(&store, GOAL)?;
    let outcome = Outcome::new(experiment, &store, &jobs, &ends, stop.load(Ordering::Relaxed), &evidence);
    // The report does not depend on anybody reading the table.
    let printed = outcome.print(args, out);
    if outcome.is_over() {
        let written = semfocus_report::write(&store, &evidence)?;
        if !args.quiet {
            say!("report: {}", written.page.display());
        }
    }
    printed?;
    // What could not be repaired, such as a file that the system does not let us read.
    Ok(match left_out(dir, &evidence.damage) {
        Exit::Done => outcome.exit(),
        exit => exit,
    })
}

/// Makes the store, or joins what another process has just added to it.
fn create(prepared: &mut Prepared, args: &Args, lab: &Lab, stop: &AtomicBool) -> Result<Option<Created>, Error> {
    loop {
        let dir = prepared.dir.clone();
        let mut is_patient = waiting(&dir, stop);
        match Store::create(&dir, &prepared.joined, &prepared.index, &mut is_patient) {
            Err(StoreError::OtherExperiment { .. }) if prepared.is_outdated() => *prepared = Prepared::new(args, lab)?,
            created => return Ok(created?),
        }
    }
}

impl Args {
    fn request(&self) -> Request {
        let mut overrides: Vec<String> = self.set.iter().chain(&self.settings).cloned().collect();
        let mut seeds = None;
        match &self.seeds {
            Some(Seeds::Count(count)) => seeds = Some(*count),
            Some(Seeds::List(list)) => overrides.push(format!("seeds={list:?}")),
            None => {}
        }
        let mut experiment = self.experiment.clone();
        if let Some(dir) = self.run_folder() {
            experiment = dir.join("experiment.toml").display().to_string();
        }
        Request {
            experiment,
            scale: self.scale,
            mechanisms: self.mechanisms.as_ref().map(|lists| lists.iter().flat_map(|list| list.0.clone()).collect()),
            seeds,
            epochs: self.epochs.map(|epochs| epochs as usize),
            overrides,
            smoke: self.smoke,
        }
    }

    /// The folder of the run that is to be resumed, if one is named in place of an experiment.
    fn run_folder(&self) -> Option<PathBuf> {
        let is_preset = presets().iter().any(|preset| preset.name == self.experiment);
        let path = Path::new(&self.experiment);
        (!is_preset && Store::is_store(path)).then(|| path.to_owned())
    }
}

/// Waits for a process that describes the same run, and says so after a while.
fn waiting<'a>(dir: &'a Path, stop: &'a AtomicBool) -> impl FnMut(Option<&Holder>) -> bool + 'a {
    let (began, mut was_said) = (Instant::now(), false);
    move |holder| {
        if !was_said && began.elapsed() > Duration::from_secs(2) {
            was_said = true;
            let holder = holder.map_or_else(|| "another process".to_owned(), ToString::to_string);
            say!("waiting for {}, which is held by {holder}; Ctrl-C ends the waiting", dir.display());
        }
        !stop.load(Ordering::Relaxed)
    }
}
