//! `semfocus run`: an experiment from its file to its table.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args as ClapArgs;
use semfocus_analysis::evidence::claim::Claim;
use semfocus_analysis::evidence::{Evidence, GOAL};
use semfocus_core::{BASELINE, Experiment, Request, Scale, fnv_1a};
use semfocus_lab::estimate::{Estimator, disk};
use semfocus_lab::jobs::{Executor, Job, Sharing, Train};
use semfocus_lab::{Lab, Plan, Trial, memory};
use semfocus_store::{Created, End, Found, Holder, State, Store};
use serde::Serialize;

use crate::damage::left_out;
use crate::models::session;
use crate::output::emit;
use crate::progress::Progress;
use crate::signals::stop_on_signals;
use crate::talk::say;
use crate::text::{counted, duration, paragraph, resume_command, size};
use crate::{DeviceArg, Error, Exit, evidence};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Name of a preset (see `semfocus list experiments`), or path of an experiment file
    experiment: String,
    /// Folder for the results [default: runs/ and the name of the experiment]
    ///
    /// The same command resumes a run that was interrupted.
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
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    mechanisms: Option<Vec<String>>,
    /// Number of seeds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    seeds: Option<u32>,
    /// Number of epochs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    epochs: Option<u32>,
    /// Override a setting, e.g. -s model.blocks=3 (see `semfocus list settings`)
    #[arg(short, long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Try everything once, as small as possible: every mechanism and grid point, one seed, one epoch, few examples
    #[arg(long)]
    smoke: bool,
    #[command(flatten)]
    device: DeviceArg,
    /// Print the trials and the estimated time and disk space; train nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Print only the result, no progress
    #[arg(short, long)]
    quiet: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, lab: &Lab, out: &mut dyn Write) -> Result<Exit, Error> {
    let mut experiment = Experiment::resolve(&args.request(), lab)?;
    let plan = lab.plan(&experiment)?;
    experiment.notes = lab.notes(&plan);
    let dir = args.output.clone().unwrap_or_else(|| default_folder(args, &experiment));
    let sharing = Sharing::trials(args.jobs.map(usize::from), plan.trials.len());
    if args.dry_run {
        return dry_run(args, lab, &experiment, &plan, &dir, sharing, out).map(|()| Exit::Done);
    }
    let stop = stop_on_signals()?;
    let mut is_patient = waiting(&dir, &stop);
    let created = Store::create(&dir, &experiment, &plan.index(), &mut is_patient)?;
    let Some(Created { store, found, repaired }) = created else { return Ok(Exit::Interrupted) };
    if !args.quiet {
        introduce(&experiment, &plan, &dir, found);
    }
    for repaired in repaired {
        say!("repaired: {repaired}");
    }
    let train = |trial: Trial| {
        let folder = store.trial(trial.id);
        Train::new(trial, folder)
    };
    let jobs: Vec<Train> = plan.trials.into_iter().map(train).collect();
    let jobs: Vec<&dyn Job> = jobs.iter().map(|job| job as &dyn Job).collect();
    let progress = Progress::new(&jobs, "steps", sharing, args.quiet, stop.clone());
    let device = &args.device.device;
    let session = session(device, sharing);
    let memory = memory::available();
    let ends = Executor { lab, device, session, sharing, stop: &stop, memory, observer: &progress }.run(&jobs);
    progress.finish();
    let evidence = Evidence::read(&store, GOAL)?;
    let outcome = Outcome::new(&experiment, &store, &jobs, &ends, stop.load(Ordering::Relaxed), &evidence);
    // The report does not depend on anybody reading the table.
    let printed = outcome.print(args, out);
    if outcome.finished == outcome.trials {
        let written = semfocus_report::write(&store, &evidence)?;
        if !args.quiet {
            say!("report: {}", written.page.display());
        }
    }
    printed?;
    // What could not be repaired, such as a file that the system does not let us read.
    Ok(match left_out(&dir, &evidence.damage) {
        Exit::Done => outcome.exit(),
        exit => exit,
    })
}

impl Args {
    fn request(&self) -> Request {
        Request {
            experiment: self.experiment.clone(),
            scale: self.scale,
            mechanisms: self.mechanisms.clone(),
            seeds: self.seeds.map(|seeds| seeds as usize),
            epochs: self.epochs.map(|epochs| epochs as usize),
            overrides: self.set.clone(),
            smoke: self.smoke,
        }
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

/// A folder named after what is asked for, so that the same command finds it again.
fn default_folder(args: &Args, experiment: &Experiment) -> PathBuf {
    let mut name = experiment.name.clone();
    let is_preset = !args.experiment.contains(['/', '\\', '.']);
    if is_preset || args.scale.is_some() {
        name += &format!("-{}", experiment.scale);
    }
    if args.smoke {
        name += "-smoke";
    }
    if experiment.is_changed {
        name += &format!("-{:06x}", fnv_1a(experiment.to_toml().bytes()) & 0xff_ffff);
    }
    Path::new("runs").join(name)
}

/// Says on standard error what is about to happen.
fn introduce(experiment: &Experiment, plan: &Plan, dir: &Path, found: Found) {
    let mut text = Vec::new();
    describe(experiment, plan, &mut text).expect("memory takes every text");
    let found = match found {
        Found::Nothing => String::new(),
        Found::TheSame => " (resumed)".to_owned(),
        Found::Part(0) => " (extended)".to_owned(),
        Found::Part(added) => format!(" (extended by {})", counted(added, "trial")),
    };
    say!("{}results    {}{found}\n", String::from_utf8_lossy(&text), dir.display());
}

fn describe(experiment: &Experiment, plan: &Plan, out: &mut dyn Write) -> Result<(), Error> {
    let Experiment { name, scale, mechanisms, seeds, .. } = experiment;
    writeln!(out, "experiment {name}, scale {scale}")?;
    paragraph(out, "claim      ", &experiment.claim)?;
    let mut factors = vec![counted(mechanisms.len(), "mechanism")];
    for (path, values) in experiment.axes() {
        factors.push(format!("{} of {path}", counted(values.len(), "value")));
    }
    factors.push(counted(seeds.len(), "seed"));
    let trials = plan.trials.len();
    let steps = plan.steps_per_epoch().map_or(String::new(), |steps| format!(" of {}", counted(steps, "step")));
    paragraph(out, "trials     ", &format!("{trials} = {}, {} epochs{steps}", factors.join(" × "), plan.epochs()))?;
    if !experiment.reduced.is_empty() {
        paragraph(
            out,
            "reduced    ",
            &format!("compared with the published experiment: {}", experiment.reduced.join("; ")),
        )?;
    }
    for note in &experiment.notes {
        paragraph(out, "note       ", note)?;
    }
    if !mechanisms.iter().any(|mechanism| mechanism == BASELINE) {
        let text =
            format!("without `{BASELINE}` nothing is compared at the end; `semfocus compare` takes a --baseline");
        paragraph(out, "note       ", &text)?;
    }
    Ok(())
}

#[derive(Serialize)]
struct DryRun<'a> {
    experiment: &'a str,
    scale: Scale,
    claim: &'a str,
    reduced: &'a [String],
    dir: &'a Path,
    trials: Vec<DryTrial>,
    jobs: usize,
    core_seconds: f64,
    seconds: f64,
    disk_bytes: u64,
}

#[derive(Serialize)]
struct DryTrial {
    trial: String,
    title: String,
    mechanism: String,
    seed: u64,
    epochs: usize,
    steps: usize,
    epoch_seconds: f64,
}

fn dry_run(
    args: &Args,
    lab: &Lab,
    experiment: &Experiment,
    plan: &Plan,
    dir: &Path,
    sharing: Sharing,
    out: &mut dyn Write,
) -> Result<(), Error> {
    if !args.quiet {
        say!("measuring a few steps to estimate times …");
    }
    let mut estimator = Estimator::exact(lab, Duration::from_millis(200));
    let trials: Vec<DryTrial> = plan
        .trials
        .iter()
        .map(|trial| DryTrial {
            trial: trial.id.to_string(),
            title: trial.title(),
            mechanism: trial.settings.mechanism.clone(),
            seed: trial.settings.seed,
            epochs: trial.settings.training.epochs,
            steps: trial.steps(),
            epoch_seconds: estimator.epoch(trial),
        })
        .collect();
    let core_seconds = estimator.trials(&plan.trials);
    let at_once = sharing.jobs.min(sharing.threads) as f64;
    let disk_bytes = plan.trials.iter().map(|trial| disk(lab, trial)).sum();
    let (seconds, jobs) = (core_seconds / at_once, sharing.jobs);
    let Experiment { name, scale, claim, reduced, .. } = experiment;
    let scale = *scale;
    let report =
        DryRun { experiment: name, scale, claim, reduced, dir, trials, jobs, core_seconds, seconds, disk_bytes };
    emit(out, args.json, &report, |out| report.print(experiment, plan, out))
}

impl DryRun<'_> {
    fn print(&self, experiment: &Experiment, plan: &Plan, out: &mut dyn Write) -> Result<(), Error> {
        let DryRun { dir, trials, jobs, seconds, disk_bytes, .. } = self;
        describe(experiment, plan, out)?;
        writeln!(out, "results    {}", dir.display())?;
        let limit =
            if plan.trials.iter().any(|trial| trial.settings.training.stop_when.is_some()) { " at most" } else { "" };
        writeln!(out, "time      {limit} about {} with {}", duration(*seconds), counted(*jobs, "trial") + " at once")?;
        writeln!(out, "disk       about {}", size(*disk_bytes))?;
        writeln!(out)?;
        let width = trials.iter().map(|trial| trial.title.chars().count()).max().unwrap_or(0);
        writeln!(out, "trial             {:width$}  epochs    steps  s/epoch", "")?;
        for DryTrial { trial, title, epochs, steps, epoch_seconds, .. } in trials {
            writeln!(out, "{trial}  {title:width$}  {epochs:6}  {steps:7}  {epoch_seconds:7.2}")?;
        }
        Ok(())
    }
}

/// The result of a run.
#[derive(Serialize)]
struct Outcome<'a> {
    experiment: &'a str,
    scale: Scale,
    claim: &'a str,
    reduced: &'a [String],
    dir: &'a Path,
    trials: usize,
    finished: usize,
    diverged: Vec<String>,
    failed: Vec<Failure>,
    interrupted: bool,
    comparison: Vec<evidence::Row>,
    /// Whether the claim holds, and why.
    answer: Claim,
    /// Seconds that all probes took.
    probe_seconds: f64,
    /// Seconds that all epochs took.
    training_seconds: f64,
    #[serde(skip)]
    evidence: &'a Evidence,
}

#[derive(Serialize)]
struct Failure {
    trial: String,
    message: String,
}

impl<'a> Outcome<'a> {
    fn new(
        experiment: &'a Experiment,
        store: &'a Store,
        jobs: &[&dyn Job],
        ends: &[Option<End>],
        interrupted: bool,
        evidence: &'a Evidence,
    ) -> Self {
        let ends = jobs.iter().zip(ends).filter_map(|(job, end)| Some((*job, end.as_ref()?)));
        let failed = ends.clone().filter_map(|(job, end)| match end {
            End::Failed(message) => Some(Failure { trial: job.title(), message: message.clone() }),
            _ => None,
        });
        let diverged = ends.clone().filter(|(_, end)| **end == End::Over(State::Diverged)).map(|(job, _)| job.title());
        let finished = ends.clone().filter(|(_, end)| matches!(end, End::Over(_))).count();
        Outcome {
            experiment: &experiment.name,
            scale: experiment.scale,
            claim: &experiment.claim,
            reduced: &experiment.reduced,
            dir: store.dir(),
            trials: jobs.len(),
            finished,
            diverged: diverged.collect(),
            failed: failed.collect(),
            interrupted: interrupted && finished < jobs.len(),
            comparison: evidence::rows(evidence),
            answer: Claim::new(evidence),
            probe_seconds: evidence.trials().flat_map(|o| &o.trial.probes).map(|probe| probe.seconds).sum(),
            training_seconds: evidence.trials().flat_map(|o| &o.trial.records).map(|record| record.seconds).sum(),
            evidence,
        }
    }

    fn exit(&self) -> Exit {
        if self.interrupted {
            Exit::Interrupted
        } else if self.failed.is_empty() && self.diverged.is_empty() {
            Exit::Done
        } else {
            Exit::SomeFailed
        }
    }

    fn print(&self, args: &Args, out: &mut dyn Write) -> Result<(), Error> {
        emit(out, args.json, self, |out| Ok(evidence::print(self.evidence, out)?))?;
        out.flush()?;
        // Without --quiet, the progress lines have already said so.
        if args.quiet {
            for Failure { trial, message } in &self.failed {
                say!("{trial}: failed: {message}");
            }
            for trial in &self.diverged {
                say!("{trial}: diverged");
            }
        }
        if self.interrupted {
            say!("Interrupted; progress is saved. To resume: {}", resume_command());
        } else if !args.quiet {
            let left = self.trials - self.finished;
            let left = if left == 0 { String::new() } else { format!(", {left} not finished") };
            say!("{} of {} trials done{left}; all files are in {}", self.finished, self.trials, self.dir.display());
        }
        if self.probe_seconds > 0.0 && !args.quiet {
            let share = 100.0 * self.probe_seconds / self.training_seconds;
            say!("probes took {} of core time, {share:.0} % as much as the epochs", duration(self.probe_seconds));
        }
        Ok(())
    }
}
