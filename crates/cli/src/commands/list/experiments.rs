//! `semfocus list experiments`.

use std::io::Write;

use clap::Args as ClapArgs;
use semfocus_core::experiment::presets;
use semfocus_core::names::nearest;
use semfocus_core::spec::Parts;
use semfocus_core::{Experiment, Request, Scale};
use semfocus_lab::Lab;
use semfocus_lab::estimate::Estimator;
use semfocus_lab::jobs::Sharing;
use semfocus_record::results::{RecordedResult, parse};
use serde::Serialize;

use crate::costs::cost_file;
use crate::measure::command;
use crate::output::emit;
use crate::screen::text_width;
use crate::text::{counted, duration, paragraph, shortened};
use crate::{Error, Exit};

/// What the record of the study says, as it was when the program was built.
const RECORDED: &str = include_str!("../../../../../docs/record/results.csv");

#[derive(Serialize)]
struct Entry {
    name: String,
    task: String,
    claim: String,
    figure: Option<String>,
    /// What the study found, as far as the record says it.
    published: Option<String>,
    scales: Vec<ScaleEntry>,
    /// The runs of this experiment that the record asks for.
    recorded: Vec<RecordedResult>,
}

#[derive(Serialize)]
struct ScaleEntry {
    scale: Scale,
    mechanisms: usize,
    seeds: usize,
    trials: usize,
    /// Of all trials together.
    epochs: usize,
    /// Estimated for this machine, if times were asked for. What follows training is not included.
    seconds: Option<f64>,
    /// What follows training.
    then: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Say everything about this experiment
    name: Option<String>,
    /// List the figures of the study, too
    #[arg(short, long)]
    all: bool,
    /// Print what each experiment claims, and what the study found
    #[arg(short, long)]
    long: bool,
    /// With --json: estimate how long each takes on this machine, with one trial on each core
    ///
    /// The first time, this measures some steps for a second or two.
    #[arg(short, long)]
    times: bool,
    /// Print JSON, with all experiments
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, lab: &Lab, out: &mut dyn Write) -> Result<Exit, Error> {
    let &Args { ref name, all, long, times, json } = args;
    let mut names: Vec<&str> = presets().iter().map(|preset| preset.name.as_str()).collect();
    if let Some(name) = name {
        if !names.contains(&name.as_str()) {
            let near = nearest(name, names.iter().copied());
            let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            return Err(format!("there is no experiment `{name}`{near}").into());
        }
        names.retain(|other| other == name);
    }
    let mut estimator = (times || !json).then(|| Estimator::new(lab, cost_file()));
    let recorded = parse(RECORDED)?;
    let mut entries = Vec::new();
    for name in names {
        entries.push(entry(name, &recorded, lab, estimator.as_mut())?);
    }
    if !all && !json && name.is_none() {
        entries.retain(|entry| entry.figure.is_none());
    }
    emit(out, json, &entries, |out| {
        if let ([entry], Some(_)) = (&entries[..], name) {
            return print_one(entry, out);
        }
        print(&entries, long, out)?;
        if !all {
            let figures = presets().len() - entries.len();
            let text = format!(
                "There are {figures} more, one for each panel of the study's figures and of Table 6: --all lists them. \
                 `semfocus list experiments NAME` says everything about one."
            );
            paragraph(out, "", &text)?;
        }
        Ok(())
    })
}

fn entry(
    name: &str,
    recorded: &[RecordedResult],
    lab: &Lab,
    mut estimator: Option<&mut Estimator<'_>>,
) -> Result<Entry, Error> {
    let mut scales = Vec::new();
    let mut last = None;
    for scale in Scale::ALL {
        let request = Request { experiment: name.to_owned(), scale: Some(scale), ..Request::default() };
        let experiment = Experiment::resolve(&request, lab)?;
        // How long it takes depends on the text, which is the user's.
        let plan = if experiment.lacks_text() { None } else { Some(lab.plan(&experiment)?) };
        let (trials, epochs) = match &plan {
            Some(plan) => (plan.trials.len(), plan.epochs()),
            None => {
                let trials = experiment.mechanisms.len() * experiment.seeds.len() * experiment.points().len();
                (trials, trials * experiment.settings_at(&[], "full", 0)?.training.epochs)
            }
        };
        let sharing = Sharing::trials(None, trials);
        let at_once = sharing.jobs.min(sharing.threads) as f64;
        let regions = experiment.after.regions.then(|| "regions".to_owned());
        let then = experiment.after.measurements.iter().map(command).chain(regions);
        scales.push(ScaleEntry {
            scale,
            mechanisms: experiment.mechanisms.len(),
            seeds: experiment.seeds.len(),
            trials,
            epochs,
            seconds: estimator.as_mut().zip(plan).map(|(estimator, plan)| estimator.trials(&plan.trials) / at_once),
            then: then.collect(),
        });
        let task = experiment.settings_at(&[], "full", 0)?.task;
        last = Some((experiment, task));
    }
    let (Experiment { claim, figure, .. }, task) = last.expect("there is more than one scale");
    let recorded: Vec<RecordedResult> = recorded.iter().filter(|result| result.experiment == name).cloned().collect();
    let published = recorded.iter().map(|result| result.published.clone()).find(|text| !text.is_empty());
    Ok(Entry { name: name.to_owned(), task, claim: claim.replace('\n', " "), figure, published, scales, recorded })
}

impl Entry {
    /// The recorded result of the largest scale that was run.
    fn result(&self) -> String {
        let run = self.recorded.iter().filter(|result| result.is_run());
        let order = |result: &&RecordedResult| Scale::ALL.iter().position(|scale| scale.to_string() == result.scale);
        // A run at the scale itself says more than a variant of it.
        let is_variant = |result: &&RecordedResult| result.run != format!("{}-{}", result.experiment, result.scale);
        match run.max_by_key(|result| (order(result), !is_variant(result))) {
            Some(RecordedResult { scale, answer, result, .. }) => {
                // The column is narrow, and nearly all experiments are about this mechanism.
                let result = result.strip_prefix("topk:5 ").unwrap_or(result);
                let parts: Vec<&str> = [answer, result].into_iter().filter(|part| !part.is_empty()).collect();
                let at = if *scale == Scale::Quick.to_string() { String::new() } else { format!(", {scale}") };
                parts.join(": ") + &at
            }
            None => "not run".to_owned(),
        }
    }
}

fn print(entries: &[Entry], long: bool, out: &mut dyn Write) -> Result<(), Error> {
    let name = |entry: &Entry| match &entry.figure {
        // Its values are in the whole description.
        Some(_) => format!("{:10} {}", entry.name, Parts::new(&entry.task).name),
        None => entry.name.clone(),
    };
    let width = entries.iter().map(|entry| name(entry).chars().count()).max().unwrap_or(0);
    let room = text_width().saturating_sub(width + 30).max(20);
    let mut claim = "";
    writeln!(out, "{:width$}   quick  medium  full scale  recorded for topk:5", "experiment")?;
    for entry in entries {
        if long && entry.claim != claim {
            claim = &entry.claim;
            writeln!(out)?;
            paragraph(out, "", claim)?;
            if let Some(published) = &entry.published {
                paragraph(out, "published: ", published)?;
            }
        }
        let time = |scale: &ScaleEntry| scale.seconds.map_or_else(|| "–".to_owned(), duration);
        let times: Vec<String> = entry.scales.iter().map(time).collect();
        let [quick, medium, full] = &times[..] else { unreachable!("there are three scales") };
        let result = shortened(&entry.result(), room);
        writeln!(out, "{:width$}  {quick:>6}  {medium:>6}  {full:>10}  {result}", name(entry))?;
    }
    writeln!(out)?;
    let text = "Times are estimates for training with one trial per core. The full scale is the experiment as published. Recorded: \
                the speed-up of topk:5 and the answer to the claim, at the quick scale unless another is named, often with fewer \
                epochs.";
    paragraph(out, "", text)?;
    Ok(writeln!(out, "To run one: semfocus run NAME [--scale quick|medium|full]; default: quick.")?)
}

/// Everything about one experiment.
fn print_one(entry: &Entry, out: &mut dyn Write) -> Result<(), Error> {
    writeln!(out, "{}", entry.name)?;
    paragraph(out, "claim      ", &entry.claim)?;
    if let Some(figure) = &entry.figure {
        paragraph(out, "shows      ", figure)?;
    }
    writeln!(out, "task       {}", entry.task)?;
    if let Some(published) = &entry.published {
        paragraph(out, "published  ", published)?;
    }
    for result in &entry.recorded {
        let RecordedResult { run, status, finding, result, hours, .. } = result;
        let found = if finding.is_empty() { result } else { finding };
        let unit = if status == "not run" { "core-hours by estimate" } else { "trial-hours" };
        let found = if found.is_empty() { String::new() } else { format!("; {found}") };
        paragraph(out, "recorded   ", &format!("{run}: {status}, {hours:.1} {unit}{found}"))?;
    }
    if entry.recorded.is_empty() {
        writeln!(out, "recorded   not run")?;
    }
    for ScaleEntry { scale, mechanisms, seeds, trials, epochs, seconds, then } in &entry.scales {
        let epochs = epochs.checked_div(*trials).unwrap_or(0);
        let time = seconds.map_or_else(String::new, |seconds| format!(", about {}", duration(seconds)));
        let size =
            format!("{}, {}, {}", counted(*mechanisms, "mechanism"), counted(*seeds, "seed"), counted(epochs, "epoch"));
        paragraph(out, &format!("{:11}", scale.to_string()), &format!("{}: {size}{time}", counted(*trials, "trial")))?;
        for words in then {
            paragraph(out, "           ", &format!("then {words}"))?;
        }
    }
    Ok(writeln!(out, "\nsemfocus run {} [--scale quick|medium|full]", entry.name)?)
}
