//! `semfocus show`: everything about one trial.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use semfocus_analysis::evidence::GOAL;
use semfocus_core::quantity::Derived;
use semfocus_core::study::seed_name;
use semfocus_core::{DataFacts, EpochRecord, METRICS, Origin, Quantity, SplitFacts, TrialSettings, settings};
use semfocus_store::{CheckpointName, Damage, Environment, State, Status, StoreError, TestResult, TrialReader};
use serde::Serialize;

use crate::damage::left_out;
use crate::output::emit;
use crate::table::Table;
use crate::text::{clock, paragraph, percent, shell_line, size};
use crate::{Error, Exit};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Folder of the trial; the first digits of its name are enough: runs/even-pairs-quick/a7b4
    trial: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Where the weights come from.
#[derive(Serialize)]
struct Lineage {
    trial: String,
    epoch: usize,
    /// Checksum of the weights.
    weights: String,
}

impl From<Origin> for Lineage {
    fn from(Origin { trial, epoch, weights }: Origin) -> Self {
        Lineage { trial: trial.to_string(), epoch, weights: format!("{weights:016x}") }
    }
}

#[derive(Serialize)]
struct Report {
    dir: PathBuf,
    state: State,
    status: Option<Status>,
    settings: serde_json::Value,
    environment: Option<Environment>,
    /// The stored weights that it started with, if any.
    origin: Option<Lineage>,
    untrained: Option<EpochRecord>,
    epochs: Vec<EpochRecord>,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<Exit, Error> {
    let folder = TrialReader::find(&args.trial)?;
    let settings = folder.settings()?;
    let (untrained, epochs) = folder.curve()?;
    let mut damage = Vec::new();
    let mut note = |error: StoreError| damage.push(Damage::from(&error));
    let report = Report {
        dir: folder.path().to_owned(),
        state: folder.state(epochs.len(), settings.training.epochs),
        status: folder.status().map_err(&mut note).unwrap_or_default(),
        settings: serde_json::to_value(settings.to_table())?,
        origin: settings.training.from.map(Lineage::from),
        environment: folder.environment().map_err(&mut note).unwrap_or_default(),
        untrained,
        epochs,
    };
    emit(out, args.json, &report, |out| print(&folder, &settings, &report, out))?;
    Ok(left_out(folder.run(), &damage))
}

fn print(folder: &TrialReader, settings: &TrialSettings, report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    let Report { dir, state, status, environment, origin, epochs, .. } = report;
    writeln!(out, "trial      {}", dir.file_name().unwrap_or_default().display())?;
    let number = seed_name(settings.seed);
    let seed = if number == settings.seed { String::new() } else { format!(" ({})", settings.seed) };
    let task = Path::new(&settings.task).file_name().filter(|_| settings.data_checksum.is_some());
    let task = task.map_or_else(|| settings.task.clone(), |name| name.to_string_lossy().into_owned());
    writeln!(out, "           {} on {task}, seed {number}{seed}", settings.mechanism)?;
    if let Some(Lineage { trial, epoch, weights }) = origin {
        writeln!(out, "origin     starts with the weights of trial {trial}")?;
        writeln!(out, "           after epoch {epoch} (checksum {weights})")?;
    }
    let steps = epochs.last().map_or(String::new(), |EpochRecord { epoch, steps, .. }| {
        format!(" ({steps} steps, {} per epoch)", steps / *epoch as u64)
    });
    writeln!(out, "state      {}, {} of {} epochs{steps}", state.name(), epochs.len(), settings.training.epochs)?;
    paragraph(out, "           ", status.as_ref().and_then(|status| status.message.as_deref()).unwrap_or_default())?;
    let changed = settings::all().iter().filter_map(|setting| {
        let (here, usual) = (setting.get(settings)?, setting.get(&TrialSettings::default()));
        let named = ["task", "mechanism", "seed", "training.from"].contains(&setting.path);
        (!named && Some(&here) != usual.as_ref()).then(|| format!("{} = {here}", setting.path))
    });
    let changed: Vec<String> = changed.collect();
    if !changed.is_empty() {
        paragraph(
            out,
            "settings   ",
            &format!("{} (all others have their defaults; see trial.toml)", changed.join(", ")),
        )?;
    }
    let target = GOAL.threshold(&DataFacts::default()).expect("an accuracy needs no facts");
    let reached = epochs.iter().find(|record| target.is_reached(&record.metrics));
    let when =
        reached.map_or_else(|| "not reached yet".to_owned(), |record| format!("reached in epoch {}", record.epoch));
    writeln!(out, "target     {:.0} % training accuracy, {when}", 100.0 * GOAL.value)?;
    let facts = status.as_ref().and_then(|status| status.facts).unwrap_or_default();
    paragraph(out, "held-out   ", &known_losses(&facts, epochs.last()))?;
    if let Some(best) = status.as_ref().and_then(|status| status.best) {
        writeln!(out, "best       held-out accuracy {:.1} % in epoch {}", 100.0 * best.heldout_accuracy, best.epoch)?;
    }
    if let Some(TestResult { last, best }) = status.as_ref().and_then(|status| status.test) {
        let (last, best) = (100.0 * last.accuracy, 100.0 * best.accuracy);
        writeln!(out, "test       accuracy {last:.1} % after the last epoch, {best:.1} % after the best")?;
    }
    let seconds: f64 = epochs.iter().map(|record| record.seconds).sum();
    if !epochs.is_empty() {
        writeln!(out, "time       {}, {:.2} s per epoch", clock(seconds), seconds / epochs.len() as f64)?;
    }
    if let Some(Environment { last, earlier }) = environment {
        let commit = last.commit.as_deref().unwrap_or("unknown commit");
        paragraph(out, "program    ", &format!("semfocus {} ({commit}), {}", last.version, last.started))?;
        paragraph(
            out,
            "machine    ",
            &format!("{}, {} cores, {}, device {}", last.cpu, last.cores, last.system, last.device),
        )?;
        writeln!(out, "command    {}", shell_line(&last.command))?;
        if !earlier.is_empty() {
            let resumed = earlier.iter().skip(1).chain([last]).map(|session| session.from_epoch.to_string());
            let (count, resumed) = (earlier.len() + 1, resumed.collect::<Vec<_>>().join(", "));
            paragraph(out, "sessions   ", &format!("{count} (resumed after epochs {resumed})"))?;
        }
    }
    for name in CheckpointName::ALL {
        if let Some(bytes) = folder.checkpoint_size(name) {
            writeln!(out, "file       {} ({})", folder.checkpoint(name).display(), size(bytes))?;
        }
    }
    if epochs.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let mut table = Table::new([">epoch", ">lr", ">train loss", ">acc", ">held-out loss", ">acc", ">grad norm"]);
    let best = status.as_ref().and_then(|status| status.best).map(|best| best.epoch);
    let target = reached.map(|record| record.epoch);
    let (step, indices) = shown(epochs.len(), [best, target]);
    let trained = indices.into_iter().map(|index| &epochs[index]);
    for record in report.untrained.iter().chain(trained) {
        let [lr, train_loss, train, heldout_loss, held_out, grad_norm] =
            METRICS.map(|info| record.metrics[info.metric]);
        let [train, held_out] = [train, held_out].map(|share| percent(Some(share)));
        let [train_loss, heldout_loss] = [train_loss, heldout_loss].map(|loss| format!("{loss:.4}"));
        let (lr, grad_norm) = (format!("{lr:.5}"), format!("{grad_norm:.3}"));
        table.row([record.epoch.to_string(), lr, train_loss, train, heldout_loss, held_out, grad_norm]);
    }
    table.print(out)?;
    if step > 1 {
        let text = format!(
            "Of {} epochs, one in {step} is shown, with the best, the one that reached the target, and the last. epochs.csv has all.",
            epochs.len()
        );
        paragraph(out, "", &text)?;
    }
    Ok(())
}

/// What held-out losses are to be compared with, and how far the last epoch came.
fn known_losses(facts: &DataFacts, last: Option<&EpochRecord>) -> String {
    let SplitFacts { floor, unigram, .. } = facts.held_out;
    let learned = last.and_then(|last| {
        let learned = Quantity::Derived(Derived::HeldoutLearned).value(&last.metrics, facts)?;
        Some(format!("{:.1} % learned", 100.0 * learned))
    });
    let unigram = unigram.map(|loss| format!("loss {loss:.4} by class frequencies"));
    let floor = floor.map(|loss| format!("{loss:.4} at best"));
    unigram.into_iter().chain(floor).chain(learned).collect::<Vec<_>>().join(", ")
}

/// Indices of about twenty epochs at most, evenly spread, and of the first, the last and some others. Also how far apart they are.
fn shown(count: usize, others: [Option<usize>; 2]) -> (usize, BTreeSet<usize>) {
    let step = count.div_ceil(20).max(1);
    let others = others.into_iter().flatten().map(|epoch| epoch - 1).filter(|index| *index < count);
    (step, (0..count).step_by(step).chain([count - 1]).chain(others).collect())
}
