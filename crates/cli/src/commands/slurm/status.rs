//! `semfocus slurm status`: the run, from its folder, and its jobs, from Slurm.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use semfocus_analysis::overview::Overview;
use semfocus_lab::Lab;
use semfocus_store::{Follower, Store, Submission};
use serde::Serialize;

use crate::commands::status::counts;
use crate::damage::left_out;
use crate::measure;
use crate::output::emit;
use crate::slurm::call::CallError;
use crate::slurm::queue::{self, Task};
use crate::text::{clock, command_on, counted, paragraph, shell_line};
use crate::{Error, Exit};

/// More failed tasks than these are not listed.
const MAX_LISTED: usize = 5;

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    run: Overview,
    /// Whether workers have something to measure; none while there are trials to train, or if the models cannot be read.
    measurements_left: Option<bool>,
    submissions: Vec<Jobs>,
    /// Why Slurm could not be asked.
    slurm_error: Option<String>,
}

/// The jobs of a submission.
#[derive(Serialize)]
struct Jobs {
    #[serde(flatten)]
    submission: Submission,
    folder: PathBuf,
    /// Tasks of the array by state, in Slurm's words; those that it has forgotten are missing.
    states: BTreeMap<String, usize>,
    /// Tasks of the array that are not over.
    open_tasks: usize,
    /// State of the job that writes the report.
    report_state: Option<String>,
    /// Every job and task that Slurm knows.
    jobs: Vec<Task>,
}

pub(super) fn run(dir: &Path, json: bool, lab: &Lab, out: &mut dyn Write) -> Result<Exit, Error> {
    let store = Store::open(dir)?;
    let run = Overview::read(&mut Follower::new(store.clone()))?;
    let measurements = measure::all(&store, &store.experiment()?, &[])?;
    let measurements_left = if run.is_trained() { measure::is_left(&measurements, lab, &store).ok() } else { None };
    let submissions = store.submissions()?;
    // Slurm is asked once. The folder tells what matters, so it counts without Slurm, too.
    let (tasks, slurm_error) = match submissions.is_empty() {
        true => (Vec::new(), None),
        false => match queue::tasks(&submissions) {
            Ok(tasks) => (tasks, None),
            Err(CallError::Missing(program)) => (Vec::new(), Some(format!("there is no `{program}` here"))),
            Err(error) => (Vec::new(), Some(error.to_string())),
        },
    };
    let submissions = submissions.into_iter().map(|submission| Jobs::new(submission, &tasks)).collect();
    let report = Report { run, measurements_left, submissions, slurm_error };
    emit(out, json, &report, |out| report.print(dir, out))?;
    Ok(left_out(dir, &report.run.damage))
}

impl Jobs {
    fn new(submission: Submission, tasks: &[Task]) -> Self {
        let is_ours = |task: &&Task| submission.jobs().any(|job| job == task.job);
        let jobs: Vec<Task> = tasks.iter().filter(is_ours).cloned().collect();
        let array = || jobs.iter().filter(|task| task.job == submission.job);
        let mut states = BTreeMap::new();
        for task in array() {
            *states.entry(task.state.clone()).or_default() += 1;
        }
        let report = jobs.iter().find(|task| Some(&task.job) == submission.report_job.as_ref());
        Jobs {
            states,
            open_tasks: array().filter(|task| !task.is_over()).count(),
            report_state: report.map(|task| task.state.clone()),
            folder: submission.folder.clone(),
            submission,
            jobs,
        }
    }

    fn is_open(&self) -> bool {
        self.jobs.iter().any(|task| !task.is_over())
    }

    fn array(&self) -> impl Iterator<Item = &Task> {
        self.jobs.iter().filter(|task| task.job == self.submission.job)
    }

    fn print(&self, out: &mut dyn Write) -> Result<(), Error> {
        let Submission { job, report_job, tasks, workers, time_seconds, .. } = &self.submission;
        let limit = clock(*time_seconds as f64);
        writeln!(out, "\nworkers    array {job}: {tasks} tasks of {limit}, {workers} at once")?;
        let states = self.states.iter().map(|(state, count)| format!("{count} {}", in_words(state)));
        let states: Vec<String> = states.collect();
        let text = if states.is_empty() { "Slurm no longer lists these jobs".to_owned() } else { states.join(", ") };
        paragraph(out, "           ", &text)?;
        for task in self.array().filter(|task| task.state == "RUNNING") {
            let left = task.seconds_left.map_or_else(String::new, |left| format!(", {} left", clock(left as f64)));
            let node = task.node.as_deref().unwrap_or("an unknown node");
            writeln!(out, "           {} on {node}{left}", task.name())?;
        }
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for task in self.array().filter(|task| !task.is_over() && task.state != "RUNNING") {
            *reasons.entry(task.reason.as_deref().unwrap_or("no reason given")).or_default() += 1;
        }
        for (reason, count) in reasons {
            writeln!(out, "           {} waiting: {}", counted(count, "task"), explained(reason))?;
        }
        let failed: Vec<&Task> = self.array().filter(|task| task.has_failed()).collect();
        for task in failed.iter().take(MAX_LISTED) {
            let log = self.folder.join(format!("{}.log", task.name()));
            writeln!(out, "           {} ended with {}: see {}", task.name(), task.state, log.display())?;
        }
        if failed.len() > MAX_LISTED {
            writeln!(out, "           and {} more", failed.len() - MAX_LISTED)?;
        }
        if let (Some(job), Some(state)) = (report_job, &self.report_state) {
            writeln!(out, "report     job {job}: {}", in_words(state))?;
        }
        writeln!(out, "logs       {}", self.folder.display())?;
        Ok(())
    }
}

impl Report {
    fn print(&self, dir: &Path, out: &mut dyn Write) -> Result<(), Error> {
        let run = &self.run;
        writeln!(out, "experiment {}", run.experiment)?;
        paragraph(out, "trials     ", &counts(run))?;
        writeln!(out, "epochs     {} of {}", run.epochs_done, run.epochs)?;
        if let Some(error) = &self.slurm_error {
            paragraph(out, "slurm      ", &format!("no answer, so nothing is known about the jobs: {error}"))?;
        }
        if self.submissions.is_empty() {
            writeln!(out, "workers    none were submitted")?;
        }
        // Of several submissions, the last one and those whose jobs are not over.
        let last = self.submissions.len().saturating_sub(1);
        for (number, jobs) in self.submissions.iter().enumerate() {
            if number == last || jobs.is_open() {
                jobs.print(out)?;
            }
        }
        let is_open = self.submissions.iter().any(|jobs| jobs.open_tasks > 0);
        let (is_trained, measures) = (run.is_trained(), self.measurements_left == Some(true));
        let left = if is_trained { "measurements" } else { "trials" };
        writeln!(out)?;
        if is_trained && !measures {
            writeln!(out, "All trials are over. To write the report:\n  {}", command_on("report", dir))?;
        } else if let (false, None, Some(jobs)) = (is_open, &self.slurm_error, self.submissions.last()) {
            let command = shell_line(jobs.submission.command.iter().filter(|word| *word != "--json"));
            writeln!(out, "No job is queued, and {left} are left. To submit more workers:\n  {command}")?;
        } else if is_trained && self.submissions.is_empty() {
            writeln!(out, "All trials are over; measurements are left. To make them:\n  {}", command_on("work", dir))?;
        } else if is_trained {
            writeln!(out, "All trials are over; measurements are left.")?;
        } else {
            writeln!(out, "To see every trial:\n  {}", command_on("status", dir))?;
        }
        Ok(())
    }
}

/// A state of Slurm in the middle of a sentence.
fn in_words(state: &str) -> String {
    state.to_lowercase().replace('_', " ")
}

/// A reason of Slurm, with what it means where that is not plain.
fn explained(reason: &str) -> String {
    let meaning = match reason {
        "JobArrayTaskLimit" => "as many tasks run as were asked for",
        "Resources" => "no node is free",
        "Priority" => "other jobs come first",
        "BeginTime" => "it was preempted or requeued and comes back soon",
        "Dependency" => "other jobs have to end first",
        "AssocGrpCpuLimit" | "QOSMaxCpuPerUserLimit" | "QOSMaxJobsPerUserLimit" => "a limit of your account",
        "ReqNodeNotAvail" => "its nodes are down or reserved",
        "PartitionTimeLimit" => "--time is longer than the partition allows; cancel and submit with less",
        "PartitionNodeLimit" | "PartitionConfig" => {
            "the partition does not allow such jobs; cancel and submit differently"
        }
        _ => return reason.to_owned(),
    };
    format!("{reason} ({meaning})")
}
