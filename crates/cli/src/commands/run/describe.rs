//! What a run will do, in words or as JSON, before it does anything.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

use semfocus_core::experiment::in_words;
use semfocus_core::{Allocation, BASELINE, Difference, Experiment, Point, Scale};
use semfocus_lab::estimate::{Estimate, Group};
use semfocus_store::Found;
use serde::Serialize;

use super::prepare::Prepared;

use crate::measure::command;
use crate::output::emit;
use crate::table::Table;
use crate::talk::say;
use crate::text::{counted, duration, paragraph, size};
use crate::{Error, Exit};

impl Prepared {
    /// Says on standard error what is about to happen.
    pub(crate) fn introduce(&self, estimate: Option<&Estimate>) {
        let mut text = Vec::new();
        self.describe(estimate, &mut text).expect("memory takes every text");
        say!("{}", String::from_utf8_lossy(&text));
    }

    fn describe(&self, estimate: Option<&Estimate>, out: &mut dyn Write) -> Result<(), Error> {
        let Experiment { name, mechanisms, seeds, claim, reduced, changed, notes, .. } = &self.experiment;
        writeln!(out, "experiment {name}{}", self.origin)?;
        paragraph(out, "claim      ", claim)?;
        let mut factors = vec![counted(mechanisms.len(), "mechanism")];
        for (path, values) in self.experiment.axes() {
            factors.push(format!("{} of {path}", counted(values.len(), "value")));
        }
        factors.push(counted(seeds.len(), "seed"));
        if mechanisms.is_empty() {
            writeln!(out, "trials     none: nothing is trained")?;
        } else {
            let text = format!("{} = {}, {}", self.jobs.len(), factors.join(" × "), self.epochs());
            paragraph(out, "trials     ", &text)?;
        }
        if !reduced.is_empty() {
            let text = format!("compared with the published experiment: {}", in_words(reduced));
            paragraph(out, "reduced    ", &text)?;
        }
        paragraph(out, "changed    ", &in_words(changed))?;
        for note in notes.iter().chain(&self.data_notes) {
            paragraph(out, "note       ", note)?;
        }
        if !mechanisms.is_empty() && !mechanisms.iter().any(|mechanism| mechanism == BASELINE) {
            let text =
                format!("without `{BASELINE}` nothing is compared at the end; `semfocus compare` takes a --baseline");
            paragraph(out, "note       ", &text)?;
        }
        for measurement in &self.measurements {
            writeln!(out, "then       semfocus {}", command(measurement))?;
        }
        if self.experiment.after.regions {
            writeln!(out, "then       draw the regions in which the conditions of the theory hold")?;
        }
        if let Some(estimate) = estimate {
            let Estimate { seconds, memory_bytes, disk_bytes, .. } = estimate;
            if estimate.done < estimate.trials || estimate.after_seconds > 0.0 {
                let less = if estimate.can_stop_early { "; less if some stop early" } else { "" };
                let at_once = counted(self.sharing.jobs, "trial");
                let surfaces = match estimate.after_seconds {
                    seconds if seconds < 1.0 => String::new(),
                    seconds => format!(", {} of it for surfaces", duration(seconds)),
                };
                let text = format!("about {} with {at_once} at once{surfaces}{less}", duration(*seconds));
                paragraph(out, "time       ", &text)?;
                let more = Allocation::here()
                    .memory
                    .filter(|available| memory_bytes > available)
                    .map_or(String::new(), |all| {
                        format!(", more than this machine has ({}): trials that do not fit will fail", size(all))
                    });
                paragraph(out, "memory     ", &format!("about {}{more}", size(*memory_bytes)))?;
            }
            writeln!(out, "disk       about {}", size(*disk_bytes))?;
        }
        writeln!(out, "results    {}", self.dir.display())?;
        if let Some(present) = self.present(estimate) {
            writeln!(out, "done       {present}")?;
        }
        let others = self.index.len() - self.jobs.len();
        if others > 0 {
            let others = counted(others, "trial");
            let text =
                format!("The folder also holds {others} outside this request; tables and report show all of them.");
            paragraph(out, "           ", &text)?;
        }
        Ok(())
    }

    /// How long each trial is, and all together.
    fn epochs(&self) -> String {
        let epochs: Vec<usize> = self.jobs.iter().map(|job| job.trial().settings.training.epochs).collect();
        let (all, first) = (epochs.iter().sum::<usize>(), epochs.first().copied().unwrap_or(0));
        let steps = self.steps_per_epoch.map_or(String::new(), |steps| format!(" of {}", counted(steps, "step")));
        match epochs.len() {
            1 => format!("{}{steps}", counted(first, "epoch")),
            _ if epochs.iter().all(|epochs| *epochs == first) => {
                format!("{}{steps} each ({all} in all)", counted(first, "epoch"))
            }
            _ => format!("{all} epochs{steps} in all"),
        }
    }

    /// What is in the folder already, in words; none if it is new.
    fn present(&self, estimate: Option<&Estimate>) -> Option<String> {
        let how = match self.found {
            Found::Nothing => return None,
            Found::TheSame => "resumed".to_owned(),
            Found::Part(0) => "more epochs".to_owned(),
            Found::Part(added) => format!("{added} added"),
        };
        let done = estimate.map_or_else(|| "some".to_owned(), |estimate| estimate.done.to_string());
        Some(format!("{done} of {} ({how})", counted(self.jobs.len(), "trial")))
    }

    /// Prints what would be done.
    pub(crate) fn dry_run(&self, json: bool, estimate: Option<&Estimate>, out: &mut dyn Write) -> Result<Exit, Error> {
        let default = Estimate::default();
        let estimated = estimate.unwrap_or(&default);
        let groups: HashMap<(&str, &Point), &Group> =
            estimated.groups.iter().map(|group| ((group.mechanism.as_str(), &group.point), group)).collect();
        let trials = self.jobs.iter().map(|job| {
            let trial = job.trial();
            let group = groups.get(&(trial.settings.mechanism.as_str(), &trial.point));
            DryTrial {
                trial: trial.id.to_string(),
                title: trial.title(),
                mechanism: trial.settings.mechanism.clone(),
                seed: trial.settings.seed,
                epochs: trial.settings.training.epochs,
                epochs_done: job.recorded().0,
                steps: trial.steps(),
                epoch_seconds: group.map_or(0.0, |group| group.epoch_seconds),
            }
        });
        let list: Vec<DryTrial> = trials.collect();
        let report = DryRun {
            about: About::new(&self.experiment, &self.dir, list.len()),
            list,
            done: estimated.done,
            jobs: self.sharing.jobs,
            core_seconds: estimated.core_seconds,
            seconds: estimated.seconds,
            memory_bytes: estimated.memory_bytes,
            disk_bytes: estimated.disk_bytes,
        };
        emit(out, json, &report, |out| {
            self.describe(estimate, out)?;
            print_groups(&estimated.groups, out)
        })
    }
}

/// Which run it is, for `--json`.
#[derive(Serialize)]
pub(super) struct About<'a> {
    experiment: &'a str,
    scale: Scale,
    claim: &'a str,
    reduced: &'a [Difference],
    changed: &'a [Difference],
    pub(super) dir: &'a Path,
    pub(super) trials: usize,
}

impl<'a> About<'a> {
    pub(super) fn new(experiment: &'a Experiment, dir: &'a Path, trials: usize) -> Self {
        let Experiment { name, scale, claim, reduced, changed, .. } = experiment;
        About { experiment: name, scale: *scale, claim, reduced, changed, dir, trials }
    }
}

#[derive(Serialize)]
struct DryRun<'a> {
    #[serde(flatten)]
    about: About<'a>,
    list: Vec<DryTrial>,
    /// Trials that are over.
    done: usize,
    jobs: usize,
    /// Seconds on one core that are left.
    core_seconds: f64,
    seconds: f64,
    memory_bytes: u64,
    disk_bytes: u64,
}

#[derive(Serialize)]
struct DryTrial {
    trial: String,
    title: String,
    mechanism: String,
    seed: u64,
    epochs: usize,
    epochs_done: usize,
    steps: usize,
    epoch_seconds: f64,
}

/// One line for each mechanism at each point of the grid.
fn print_groups(groups: &[Group], out: &mut dyn Write) -> Result<(), Error> {
    let mut table = Table::new(["mechanism", ">trials", ">done", ">epochs", ">steps", ">s/epoch", ">time left"]);
    for Group { mechanism, point, trials, done, epochs, steps, epoch_seconds, seconds, .. } in groups {
        let digits = if *epoch_seconds < 1000.0 { 2 } else { 0 };
        let [trials, done, epochs, steps] = [trials, done, epochs, steps].map(usize::to_string);
        let (epoch, left) = (format!("{epoch_seconds:.digits$}"), duration(*seconds));
        table.row_at(point, [mechanism.clone(), trials, done, epochs, steps, epoch, left]);
    }
    writeln!(out)?;
    table.print(out)?;
    Ok(writeln!(out, "\ns/epoch, time left: on one core, one trial after the other")?)
}
