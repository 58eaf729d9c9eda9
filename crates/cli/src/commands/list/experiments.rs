//! `semfocus list experiments`.

use std::io::Write;

use semfocus_core::experiment::presets;
use semfocus_core::{Experiment, Request, Scale};
use semfocus_lab::Lab;
use semfocus_lab::estimate::Estimator;
use semfocus_lab::jobs::Sharing;
use serde::Serialize;

use crate::Error;
use crate::costs::cost_file;
use crate::output::emit;
use crate::text::{duration, paragraph};

#[derive(Serialize)]
struct Entry {
    name: String,
    task: String,
    claim: String,
    figure: Option<String>,
    scales: Vec<ScaleEntry>,
}

#[derive(Serialize)]
struct ScaleEntry {
    scale: Scale,
    mechanisms: usize,
    seeds: usize,
    trials: usize,
    /// Of all trials together.
    epochs: usize,
    /// Estimated for this machine, if times were asked for.
    seconds: Option<f64>,
}

pub(super) fn run(all: bool, times: bool, json: bool, lab: &Lab, out: &mut dyn Write) -> Result<(), Error> {
    let mut estimator = times.then(|| Estimator::new(lab, cost_file()));
    let mut entries = Vec::new();
    for preset in presets() {
        entries.push(entry(&preset.name, lab, estimator.as_mut())?);
    }
    if !all && !json {
        entries.retain(|entry| entry.figure.is_none());
    }
    emit(out, json, &entries, |out| {
        print(&entries, times, out)?;
        if !all {
            let figures = presets().len() - entries.len();
            writeln!(out, "There are {figures} more, one for each panel of the study's figures: --all lists them.")?;
        }
        Ok(())
    })
}

fn entry(name: &str, lab: &Lab, mut estimator: Option<&mut Estimator<'_>>) -> Result<Entry, Error> {
    let mut scales = Vec::new();
    let mut last = None;
    for scale in Scale::ALL {
        let request = Request { experiment: name.to_owned(), scale: Some(scale), ..Request::default() };
        let experiment = Experiment::resolve(&request, lab)?;
        let plan = lab.plan(&experiment)?;
        let sharing = Sharing::trials(None, plan.trials.len());
        let at_once = sharing.jobs.min(sharing.threads) as f64;
        scales.push(ScaleEntry {
            scale,
            mechanisms: experiment.mechanisms.len(),
            seeds: experiment.seeds.len(),
            trials: plan.trials.len(),
            epochs: plan.epochs(),
            seconds: estimator.as_mut().map(|estimator| estimator.trials(&plan.trials) / at_once),
        });
        last = Some((experiment, plan.trials[0].settings.task.clone()));
    }
    let (Experiment { claim, figure, .. }, task) = last.expect("there is more than one scale");
    Ok(Entry { name: name.to_owned(), task, claim: claim.replace('\n', " "), figure, scales })
}

fn print(entries: &[Entry], times: bool, out: &mut dyn Write) -> Result<(), Error> {
    let mut claim = "";
    let column = if times { "trials     time" } else { "trials   epochs" };
    writeln!(out, "{:30}{:>16}{:>16}{:>16}", "", "quick", "medium", "full: published")?;
    writeln!(out, "{:30}{column:>16}{column:>16}{column:>16}", "experiment")?;
    for entry in entries {
        if entry.claim != claim {
            claim = &entry.claim;
            writeln!(out)?;
            paragraph(out, "", claim)?;
        }
        let sizes = entry.scales.iter().map(|scale| {
            let size = scale.seconds.map_or_else(|| (scale.epochs / scale.trials).to_string(), duration);
            format!("{:7} {size:>8}", scale.trials)
        });
        let name = match &entry.figure {
            Some(_) => format!("{:10} {}", entry.name, entry.task),
            None => entry.name.clone(),
        };
        writeln!(out, "{name:30}{}", sizes.collect::<String>())?;
    }
    let what = if times { "time: at most, with one trial on each core" } else { "epochs: of each trial, at most" };
    writeln!(out, "\n{what}")?;
    Ok(writeln!(out, "To run one: semfocus run NAME [--scale quick|medium|full]; default: quick.")?)
}
