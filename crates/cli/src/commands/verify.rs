//! `semfocus verify`: is every file of a run as it was written?

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use semfocus_lab::Lab;
use semfocus_store::{Created, Store, StoreError, Taken};
use serde::Serialize;

use crate::locks::LockArg;
use crate::output::emit;
use crate::text::counted;
use crate::{Error, Exit};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Folder of the run
    dir: PathBuf,
    /// Set damaged files aside and restore those that do not need training
    ///
    /// `semfocus run` restores the rest by training, with the same results.
    #[arg(long)]
    repair: bool,
    #[command(flatten)]
    lock: LockArg,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    trials: usize,
    damage: Vec<Damage>,
    /// Files that were kept aside or written again, in words.
    repaired: Vec<String>,
    /// The command that makes again what is lost, if anything is.
    to_train: Option<String>,
}

#[derive(Serialize)]
struct Damage {
    /// Where it is; none if the message alone says it.
    file: Option<PathBuf>,
    message: String,
    /// Whether the system refused to read it, which says nothing about its contents.
    is_unread: bool,
}

pub(crate) fn run(args: &Args, lab: &Lab, out: &mut dyn Write) -> Result<Exit, Error> {
    let store = Store::open(&args.dir)?;
    let found = store.damage()?;
    let damage: Vec<Damage> = found.iter().map(Damage::new).collect();
    let repaired = if args.repair && !found.is_empty() { repair(&store, lab, &found, args)? } else { Vec::new() };
    let left = if args.repair { store.damage()? } else { found };
    let to_train = (!left.is_empty()).then(|| command(&args.dir));
    let report = Report { trials: store.read()?.trials.len(), damage, repaired, to_train };
    emit(out, args.json, &report, |out| print(&report, args, out))?;
    Ok(if report.to_train.is_none() { Exit::Done } else { Exit::SomeFailed })
}

impl Damage {
    fn new(error: &StoreError) -> Self {
        let file = match error {
            StoreError::Io { path, .. }
            | StoreError::Damaged { path, .. }
            | StoreError::Newer { path, .. }
            | StoreError::Older { path, .. } => Some(path),
            _ => None,
        };
        let is_unread = matches!(error, StoreError::Io { .. });
        Damage { file: file.cloned(), message: error.to_string(), is_unread }
    }
}

/// Keeps damaged files aside and writes again what the plan determines.
fn repair(store: &Store, lab: &Lab, damage: &[StoreError], args: &Args) -> Result<Vec<String>, Error> {
    let locks = args.lock.locks([store.dir()])?;
    let kept = store.set_damage_aside(damage, &locks)?;
    let kept = kept.into_iter().map(|(from, to)| format!("{} is kept as {}", from.display(), to.display()));
    let mut repaired: Vec<String> = kept.collect();
    let experiment = store.experiment()?;
    let plan = lab.plan(&experiment)?;
    let created = Store::create(store.dir(), &experiment, &plan.index(), &locks, &mut |_| true)?;
    repaired.extend(created.into_iter().flat_map(|Created { repaired, .. }| repaired));
    for trial in &plan.trials {
        let folder = store.trial(trial.id);
        // One that another process works on is in order, or will be.
        if folder.exists()
            && let Taken::Lease(lease) = folder.lease(&locks)?
            && folder.settings().is_err()
        {
            folder.writer(&lease).write_settings(&trial.settings)?;
            repaired.push(format!("{} is written again", folder.path().join("trial.toml").display()));
        }
    }
    Ok(repaired)
}

fn command(dir: &Path) -> String {
    let quoted = |path: &Path| shlex::try_quote(&path.display().to_string()).unwrap_or_default().into_owned();
    format!("semfocus run {} -o {}", quoted(&dir.join("experiment.toml")), quoted(dir))
}

fn print(report: &Report, args: &Args, out: &mut dyn Write) -> Result<(), Error> {
    let Report { trials, damage, repaired, to_train } = report;
    if damage.is_empty() {
        return Ok(writeln!(out, "{}: every file is as it was written", counted(*trials, "trial"))?);
    }
    for Damage { message, .. } in damage {
        writeln!(out, "{message}")?;
    }
    for repaired in repaired {
        writeln!(out, "repaired: {repaired}")?;
    }
    match to_train {
        Some(command) if args.repair => writeln!(out, "To train again what is lost: {command}")?,
        Some(command) => writeln!(out, "To repair it: {command}")?,
        None => writeln!(out, "nothing is damaged any more")?,
    }
    Ok(())
}
