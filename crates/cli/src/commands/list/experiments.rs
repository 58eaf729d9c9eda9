//! `semfocus list experiments`.

use std::io::Write;

use semfocus_core::experiment::presets;
use semfocus_core::{Experiment, Request, Scale};
use semfocus_lab::Lab;
use semfocus_lab::estimate::Estimator;
use semfocus_lab::jobs::Sharing;
use serde::Serialize;

use crate::Error;
use crate::output::emit;
use crate::talk::say;
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
    epochs: usize,
    /// Estimated for this machine.
    seconds: f64,
}

pub(super) fn run(json: bool, lab: &Lab, out: &mut dyn Write) -> Result<(), Error> {
    say!("measuring a few steps to estimate times …");
    let mut estimator = Estimator::rough(lab);
    let mut entries = Vec::new();
    for preset in presets() {
        entries.push(entry(&preset.name, lab, &mut estimator)?);
    }
    emit(out, json, &entries, |out| print(&entries, out))
}

fn entry(name: &str, lab: &Lab, estimator: &mut Estimator<'_>) -> Result<Entry, Error> {
    let mut scales = Vec::new();
    let mut last = None;
    for scale in Scale::ALL {
        let request = Request { experiment: name.to_owned(), scale: Some(scale), ..Request::default() };
        let experiment = Experiment::resolve(&request, lab)?;
        let plan = lab.plan(&experiment)?;
        let sharing = Sharing::trials(None, plan.trials.len());
        scales.push(ScaleEntry {
            scale,
            mechanisms: experiment.mechanisms.len(),
            seeds: experiment.seeds.len(),
            trials: plan.trials.len(),
            epochs: plan.epochs(),
            seconds: estimator.trials(&plan.trials) / sharing.jobs.min(sharing.threads) as f64,
        });
        last = Some((experiment, plan.trials[0].settings.task.clone()));
    }
    let (Experiment { claim, figure, .. }, task) = last.expect("there is more than one scale");
    Ok(Entry { name: name.to_owned(), task, claim: claim.replace('\n', " "), figure, scales })
}

fn print(entries: &[Entry], out: &mut dyn Write) -> Result<(), Error> {
    let mut claim = "";
    writeln!(out, "{:30}{:>16}{:>16}{:>16}", "", "quick", "medium", "full: published")?;
    writeln!(out, "{:30}{:>16}{:>16}{:>16}", "experiment", "trials     time", "trials     time", "trials     time")?;
    for entry in entries {
        if entry.claim != claim {
            claim = &entry.claim;
            writeln!(out)?;
            paragraph(out, "", claim)?;
        }
        let times: String =
            entry.scales.iter().map(|scale| format!("{:6} {:>9}", scale.trials, duration(scale.seconds))).collect();
        let name = match &entry.figure {
            Some(_) => format!("{:10} {}", entry.name, entry.task),
            None => entry.name.clone(),
        };
        writeln!(out, "{name:30}{times}")?;
    }
    Ok(writeln!(out, "\nTo run one: semfocus run NAME [--scale quick|medium|full]; default: quick.")?)
}
