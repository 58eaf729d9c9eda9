//! `semfocus run`: an experiment from its file to its table.

mod after;
mod describe;
mod experiment;
mod from;
mod guard;
mod outcome;
mod prepare;

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args as ClapArgs;
use semfocus_analysis::evidence::Evidence;
use semfocus_lab::Lab;
use semfocus_lab::estimate::Estimate;
use semfocus_store::{Created, Holder, Locks, Store, StoreError};

use crate::damage::left_out;
use crate::execute::{Execution, as_jobs};
use crate::signals::stop_on_signals;
use crate::talk::say;
use crate::{Error, Exit};
pub(crate) use after::show;
pub(crate) use experiment::ExperimentArgs;
pub(crate) use guard::check_space;
use outcome::Outcome;
pub(crate) use prepare::Prepared;

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    #[command(flatten)]
    what: ExperimentArgs,
    /// Number of trials to train at the same time [default: one per core]
    ///
    /// The results do not depend on this number.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Print the trials and the estimated time, memory and disk space; train nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Start without asking, even if the run takes long or may not fit on the disk
    #[arg(short, long)]
    yes: bool,
    /// Print only the result, without progress
    #[arg(short, long)]
    quiet: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    fn prepare(&self, lab: &Lab) -> Result<Prepared, Error> {
        Prepared::new(&self.what, self.jobs.map(usize::from), lab)
    }
}

pub(crate) fn run(args: &Args, lab: &Lab, out: &mut dyn Write) -> Result<Exit, Error> {
    let mut prepared = args.prepare(lab)?;
    let estimate = prepared.estimate(&args.what, lab);
    prepared.check()?;
    if args.dry_run {
        return prepared.dry_run(args.json, estimate.as_ref(), out);
    }
    if !args.quiet {
        prepared.introduce(estimate.as_ref());
    }
    check_space(args.yes, &prepared, estimate.as_ref())?;
    if !guard::may_start(args, lab, &prepared, estimate.as_ref())? {
        return Ok(Exit::WrongUsage);
    }
    let stop = stop_on_signals()?;
    let locks = args.what.lock.locks([prepared.dir.join("trials").as_path()])?;
    let Some(store) = create(&mut prepared, || args.prepare(lab), &locks, &stop)? else {
        return Ok(Exit::Interrupted);
    };
    let Prepared { experiment, jobs, sharing, dir, measurements, .. } = &prepared;
    let jobs = as_jobs(jobs);
    let device = &args.what.device.device;
    let execution = Execution { lab, device, locks: &locks, stop: &stop, is_quiet: args.quiet };
    let ends = execution.run(&jobs, *sharing);
    let mut evidence = Evidence::read(&store, None)?;
    let outcome = Outcome::new(experiment, &store, &jobs, &ends, stop.load(Ordering::Relaxed), &evidence);
    // The report does not depend on anybody reading the table.
    let printed = if jobs.is_empty() && !args.json { Ok(()) } else { outcome.print(args, out) };
    let (is_over, mut exit) = (outcome.is_over(), outcome.exit());
    if is_over {
        match after::measure(measurements, &store, &execution, !args.quiet && !args.json, out)? {
            Exit::Done => {}
            Exit::Interrupted => return Ok(Exit::Interrupted),
            failed => exit = failed,
        }
        evidence.update_measurements(store.read_all()?.into());
        let written = semfocus_report::write(&store, &evidence)?;
        if !args.quiet {
            say!("report: {}", written.page.display());
            show(experiment, dir);
        }
    }
    printed?;
    // What could not be repaired, such as a file that the system does not let us read.
    Ok(match left_out(dir, &evidence.damage) {
        Exit::Done => exit,
        damaged => damaged,
    })
}

/// What is left of the run that these arguments ask for; its time is 0 on devices whose speed is unknown.
pub(crate) fn left(args: &Args, lab: &Lab) -> Result<Estimate, Error> {
    let prepared = args.prepare(lab)?;
    let unknown = || Estimate { trials: prepared.jobs.len(), ..Estimate::default() };
    Ok(prepared.estimate(&args.what, lab).unwrap_or_else(unknown))
}

/// Makes the store, or joins what another process has just added to it. None if it was asked to stop while it waited.
pub(crate) fn create(
    prepared: &mut Prepared,
    prepare_again: impl Fn() -> Result<Prepared, Error>,
    locks: &Locks,
    stop: &AtomicBool,
) -> Result<Option<Store>, Error> {
    let created = loop {
        let dir = prepared.dir.clone();
        let mut is_patient = waiting(&dir, stop);
        match Store::create(&dir, &prepared.joined, &prepared.index, locks, &mut is_patient) {
            Err(StoreError::OtherExperiment { .. }) if prepared.is_outdated() => *prepared = prepare_again()?,
            // Another process has described it meanwhile, or is about to.
            Err(StoreError::LostLease { .. }) => *prepared = prepare_again()?,
            created => break created?,
        }
    };
    let Some(Created { store, repaired, .. }) = created else { return Ok(None) };
    for repaired in repaired {
        say!("repaired: {repaired}");
    }
    for tokenizer in &prepared.tokenizers {
        store.keep_tokenizer(tokenizer)?;
    }
    if let Some(source) = &prepared.source {
        store.keep_origin(&source.origin, &source.weights)?;
    }
    Ok(Some(store))
}

/// Waits for a process that describes the same run, and says so after a while.
fn waiting<'a>(dir: &'a Path, stop: &'a AtomicBool) -> impl FnMut(Option<&Holder>) -> bool + 'a {
    let (began, mut was_said) = (Instant::now(), false);
    move |holder| {
        if !was_said && began.elapsed() > Duration::from_secs(2) {
            was_said = true;
            let holder = holder.map_or_else(|| "another process".to_owned(), ToString::to_string);
            say!("waiting for {holder} to release {} (Ctrl-C to stop)", dir.display());
        }
        !stop.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use semfocus_store::disk::{Answer, Operation, Watcher, watch};

    use super::*;

    /// The arguments of `semfocus run`.
    #[derive(clap::Parser)]
    struct Run {
        #[command(flatten)]
        args: Args,
    }

    /// Another process begins to use claims when this one first writes something.
    struct Claims(PathBuf);

    impl Watcher for Claims {
        fn before(&self, operation: &Operation<'_>) -> Answer {
            if matches!(operation, Operation::Write { .. }) {
                std::fs::create_dir_all(&self.0).unwrap();
            }
            Answer::Go
        }
    }

    #[test]
    fn a_process_that_loses_the_folder_while_it_describes_the_run_tries_again() {
        let dir = std::env::temp_dir().join(format!("semfocus-lost-{}", std::process::id()));
        let options = ["run", "--smoke", "-o", dir.to_str().unwrap(), "even-pairs"];
        let (Run { args }, lab) = (clap::Parser::parse_from(options), Lab::standard());
        let mut prepared = args.prepare(&lab).unwrap();
        let guard = watch(&dir, Arc::new(Claims(dir.join("trials/claims"))));
        let created = create(&mut prepared, || args.prepare(&lab), &Locks::flock(), &AtomicBool::new(false));
        drop(guard);
        let index = created.unwrap().unwrap().index().unwrap();
        assert_eq!(index.len(), prepared.jobs.len());
        assert!(dir.join("trials/claims/000001").is_file(), "it uses claims from now on");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
