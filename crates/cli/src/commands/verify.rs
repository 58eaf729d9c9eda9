//! `semfocus verify`: is every file of a run as it was written?

use std::io::Write;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use semfocus_lab::{Lab, Planner, Tokenizers};
use semfocus_store::{Created, IndexEntry, Store, StoreError, Taken};
use serde::Serialize;

use crate::locks::LockArg;
use crate::output::emit;
use crate::talk::say;
use crate::text::{command_on, counted};
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
    /// Whether everything is in order now.
    #[serde(skip)]
    is_whole: bool,
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
    let repaired = if args.repair && !found.is_empty() { repair(&store, lab, args)? } else { Vec::new() };
    let left = if args.repair { store.damage()? } else { found };
    name_working(&store, &left);
    let to_train = left.iter().any(StoreError::is_repairable).then(|| command_on("run", &args.dir));
    let is_whole = left.is_empty();
    let report = Report { trials: store.read()?.trials.len(), damage, repaired, to_train, is_whole };
    emit(out, args.json, &report, |out| print(&report, args, out))?;
    Ok(if is_whole { Exit::Done } else { Exit::SomeFailed })
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

/// Says which of the trials whose files seem to be damaged a process is working on.
fn name_working(store: &Store, damage: &[StoreError]) {
    for IndexEntry { id, .. } in store.index().unwrap_or_default() {
        let folder = store.trial(id);
        let is_its = |error: &StoreError| Damage::new(error).file.is_some_and(|file| file.starts_with(folder.path()));
        if let Some(holder) = folder.holder().filter(|_| damage.iter().any(is_its)) {
            let holder = holder.map_or_else(|| "another process".to_owned(), |holder| holder.place());
            say!("note: {holder} is working on {}; verify it again afterwards", folder.path().display());
        }
    }
}

/// Keeps damaged files aside and writes again what the plan determines.
fn repair(store: &Store, lab: &Lab, args: &Args) -> Result<Vec<String>, Error> {
    let locks = args.lock.locks([store.dir()])?;
    let mut repaired = store.set_damage_aside(&locks)?;
    let experiment = store.experiment()?;
    let plan = Planner::new(lab).with_tokenizers(Tokenizers::Prepared(store.clone())).plan(&experiment)?;
    let created = Store::create(store.dir(), &experiment, &plan.index(), &locks, &mut |_| true)?;
    repaired.extend(created.into_iter().flat_map(|Created { repaired, .. }| repaired));
    for tokenizer in plan.tokenizers() {
        store.keep_tokenizer(&tokenizer)?;
    }
    for trial in &plan.trials {
        let folder = store.trial(trial.id);
        // One that another process works on is in order, or will be.
        if folder.exists()
            && folder.settings().is_err()
            && let Taken::Lease(lease) = folder.lease(&locks)?
            && folder.settings().is_err()
        {
            folder.writer(&lease).write_settings(&trial.settings)?;
            repaired.push(format!("{} is written again", folder.path().join("trial.toml").display()));
        }
    }
    Ok(repaired)
}

fn print(report: &Report, args: &Args, out: &mut dyn Write) -> Result<(), Error> {
    let Report { trials, damage, repaired, to_train, is_whole } = report;
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
        Some(command) => {
            writeln!(out, "To repair it: {} --repair", command_on("verify", &args.dir))?;
            writeln!(out, "To train again what is lost then: {command}")?;
        }
        None if *is_whole => writeln!(out, "nothing is damaged any more")?,
        None => writeln!(out, "This cannot be repaired here: the messages say what is in the way.")?,
    }
    Ok(())
}
